# SPDX-License-Identifier: Apache-2.0
"""What of caches and memory bandwidth can be divided."""

import ddt
from oslotest import base

from nova_pinning import errors
from nova_pinning.host import discover
from nova_pinning.host.discover import resctrl
from nova_pinning.host import hardware
from nova_pinning.tests.unit.host.discover import sample_machines

cpus = sample_machines.cpus
INFO = 'sys/fs/resctrl/info'


@ddt.ddt
class TestRead(base.BaseTestCase):

    def setUp(self):
        super().setUp()
        self.machine = self.useFixture(sample_machines.Machine()).small()
        for number in range(4):
            domain = '0,2' if number % 2 == 0 else '1,3'
            self.machine.cache(number, 3, 3, 'Unified', '11264K', domain)
            self.machine.write(
                f'{sample_machines.CPU}/cpu{number}/cache/index3/id',
                8 * (number % 2))

    def read(self):
        return resctrl.read(self.machine.tree(), cpus('0-3'))

    def cache(self, name='L3', **more):
        for file, text in {'cbm_mask': '7ff', 'min_cbm_bits': 1,
                           'num_closids': 16, 'shareable_bits': '600',
                           **more}.items():
            self.machine.write(f'{INFO}/{name}/{file}', text)

    def bandwidth(self, least=10, step=10, value=100):
        for file, text in (('min_bandwidth', least), ('num_closids', 8),
                           ('bandwidth_gran', step)):
            self.machine.write(f'{INFO}/MB/{file}', text)
        self.machine.write('sys/fs/resctrl/schemata',
                           f'    L3:0=7ff;8=7ff\n    MB:0={value};8={value}')

    def test_nothing(self):
        self.assertIsNone(self.read())

    def test_all(self):
        self.cache()
        self.bandwidth()
        self.assertEqual(hardware.Resctrl(
            {0: cpus('0,2'), 8: cpus('1,3')},
            hardware.CacheAllocation(0x7ff, 1, 0x600, 16),
            hardware.BandwidthAllocation(10, 10, 8)), self.read())
        self.assertEqual(self.read(), discover.discover_host(
            self.machine.tree()).resctrl)

    def test_not_mounted(self):
        info = {'flags': 'fpu cat_l3 cdp_l3 mba'}
        self.assertEqual(
            'cat_l3, mba', resctrl.unmounted(self.machine.tree(), info))
        self.assertEqual(
            '', resctrl.unmounted(self.machine.tree(), {'flags': 'fpu'}))
        self.cache()
        self.assertEqual('', resctrl.unmounted(self.machine.tree(), info))

    def test_code_and_data_apart(self):
        self.cache('L3CODE', num_closids=8)
        self.cache('L3DATA', num_closids=8)
        self.assertEqual(
            hardware.CacheAllocation(0x7ff, 1, 0x600, 8, has_cdp=True),
            self.read().l3)

    def test_bandwidth_that_is_not_in_per_cent(self):
        self.cache()
        self.bandwidth(1, 1, 2048)
        self.assertIsNone(self.read().mb)

    @ddt.data(('cbm_mask', '7ff\n\0'), ('cbm_mask', '7fd'),
              ('cbm_mask', 'all'), ('shareable_bits', 'fff'),
              ('min_cbm_bits', '12'), ('num_closids', 'some'))
    @ddt.unpack
    def test_a_kernel_that_makes_no_sense(self, file, text):
        self.cache(**{file: text})
        self.assertRaises(errors.InputErrors, discover.discover_host,
                          self.machine.tree())


@ddt.ddt
class TestFigures(base.BaseTestCase):

    @ddt.data(
        # As Xeons have it: devices share the two ways at the upper end.
        ('7ff', 1, '600', 9),
        # Nothing is shared: one way is kept for everybody else.
        ('fffff', 1, '0', 19),
        ('fffff', 2, '0', 18),
        # Guests are on one side of what is shared.
        ('fff', 1, '60', 5),
        ('fff', 4, '60', 5),
        ('fff', 1, '3', 10))
    @ddt.unpack
    def test_ways(self, mask, least, shared, expected):
        found = hardware.CacheAllocation(int(mask, 16), least,
                                         int(shared, 16))
        self.assertEqual(expected, found.guest_ways)

    def test_groups(self):
        cache = hardware.CacheAllocation(0x7ff, num_closids=16)
        bandwidth = hardware.BandwidthAllocation(10, 10, 8)
        for parts, expected in (((cache, bandwidth), 7), ((cache, None), 15),
                                ((None, bandwidth), 7)):
            self.assertEqual(expected, hardware.Resctrl(
                {}, *parts).guest_groups)
