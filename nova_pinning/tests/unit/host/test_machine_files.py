# SPDX-License-Identifier: Apache-2.0
"""Files of a machine that are there, are not, or cannot be read."""

import pathlib
from unittest import mock

import ddt
import fixtures
import hypothesis
from hypothesis import strategies
from oslotest import base as oslotest

from nova_pinning import cpuset
from nova_pinning.tests.unit.host.discover import sample_machines
from nova_pinning.tests.unit.host import unreadable
from nova_pinning.tests.unit import unit_base


@ddt.ddt
class TestTree(oslotest.BaseTestCase):

    def setUp(self):
        super().setUp()
        self.machine = self.useFixture(sample_machines.Machine())
        self.tree = self.machine.tree()

    @ddt.data(('7\n', 7), ('-1', -1), ('', None), ('0x10', None))
    @ddt.unpack
    def test_number(self, text, expected):
        self.machine.write('sys/a', text)
        self.assertEqual(expected, self.tree.number('/sys/a'))

    @ddt.data(('0-3,8', '0-3,8'), ('', ''), ('(null)', None))
    @ddt.unpack
    def test_cpus(self, text, expected):
        self.machine.write('sys/a', text)
        found = self.tree.cpus('/sys/a')
        self.assertEqual(expected, None if found is None else str(found))

    @ddt.data(('3', '0-1'), ('0000,00000011,11111111',
                             '0,4,8,12,16,20,24,28,32,36'),
              ('00000000,00000001', '0'), ('1,00000000', '32'),
              ('0', ''), ('', None), ('x', None), ('-1', None))
    @ddt.unpack
    def test_mask(self, text, expected):
        self.machine.write('sys/a', text)
        found = self.tree.mask('/sys/a')
        self.assertEqual(expected, None if found is None else str(found))

    @ddt.data(('cpus', '0-3\n\0'), ('mask', 'x'), ('number', '1_0'),
              ('number', '9' * 5000))
    @ddt.unpack
    def test_nonsense(self, read, text):
        self.machine.write('sys/a', text)
        self.assertIsNone(getattr(self.tree, read)('/sys/a'))
        self.assertEqual({'/sys/a'}, set(self.tree.nonsense))

    @ddt.data(('0-7\n\0', '0-7'), ('\0', ''), ('(null)', ''), ('0-3', '0-3'))
    @ddt.unpack
    def test_what_kernels_are_known_to_write(self, text, expected):
        self.machine.write('sys/a', text)
        self.assertEqual(
            expected, str(self.tree.cpus('/sys/a', until_nul=True)))
        self.assertEqual({}, self.tree.nonsense)

    @ddt.data('cpus', 'mask', 'number')
    def test_what_is_empty_or_missing_is_no_nonsense(self, read):
        self.machine.write('sys/a', '')
        for path in ('/sys/a', '/sys/b'):
            getattr(self.tree, read)(path)
        self.assertEqual({}, self.tree.nonsense)

    @unit_base.settings(max_examples=50)
    @hypothesis.given(strategies.frozensets(strategies.integers(0, 600)),
                      strategies.integers(0, 40))
    def test_masks(self, ids, digits):
        cpus = cpuset.CpuSet(ids)
        self.machine.write('sys/a', sample_machines.mask(cpus, digits))
        self.assertEqual(cpus, self.tree.mask('/sys/a'))

    def test_names_in_order(self):
        for name in ('cpu10', 'cpu9', 'cpu', 'node1'):
            self.machine.write(f'sys/a/{name}/b', '')
        self.assertEqual(['cpu', 'cpu9', 'cpu10', 'node1'],
                         self.tree.names('/sys/a'))

    def test_what_is_not_there(self):
        self.assertIsNone(self.tree.text('/sys/a'))
        self.assertIsNone(self.tree.number('/sys/a'))
        self.assertIsNone(self.tree.cpus('/sys/a'))
        self.assertIsNone(self.tree.mask('/sys/a'))
        self.assertEqual([], self.tree.names('/sys/a'))
        self.assertEqual('', self.tree.link_name('/sys/a'))
        self.assertFalse(self.tree.exists('/sys/a'))
        self.assertEqual({}, self.tree.unread)

    def test_a_directory_holds_no_text(self):
        self.machine.write('sys/a/b', '')
        self.assertIsNone(self.tree.text('/sys/a'))
        self.assertEqual(({}, {}), (self.tree.nonsense, self.tree.unread))

    def test_what_is_larger_than_a_part(self):
        self.machine.write('proc/interrupts', 'x' * 100_000)
        self.assertEqual('x' * 100_000, self.tree.text('/proc/interrupts'))

    def test_what_must_not_be_read(self):
        self.machine.write('proc/1/maps', '')
        denied = PermissionError(13, 'Permission denied')
        self.useFixture(unreadable.files(lambda _path: True, denied))
        self.useFixture(fixtures.MonkeyPatch(
            'os.listdir', mock.Mock(side_effect=denied)))
        self.assertIsNone(self.tree.text('/proc/1/maps'))
        self.assertEqual([], self.tree.names('/proc/1/task'))
        self.assertEqual({'/proc/1/maps': 'permission denied',
                          '/proc/1/task': 'permission denied'},
                         self.tree.unread)

    def test_what_gives_errors(self):
        # A file of sysfs without a meaning on a machine is there all the
        # same, but reading it fails.
        self.useFixture(unreadable.files(
            lambda path: path.endswith('/speed'),
            OSError(22, 'Invalid argument')))
        self.assertIsNone(self.tree.text('/sys/class/net/eth0/speed'))
        self.assertEqual({}, self.tree.unread)

    def test_bytes(self):
        pathlib.Path(self.machine.root, 'a').write_bytes(b' \xff \n')
        self.assertEqual('\udcff', self.tree.text('/a'))

    def test_link(self):
        self.machine.link('sys/a/driver', '../../bus/pci/drivers/nvme')
        self.assertEqual('nvme', self.tree.link_name('/sys/a/driver'))
