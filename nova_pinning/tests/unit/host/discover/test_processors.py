# SPDX-License-Identifier: Apache-2.0
"""CPUs, cores, sockets, dies, caches and kinds of cores."""

import ddt
from oslotest import base

from nova_pinning.host.discover import processors
from nova_pinning.host import hardware
from nova_pinning.tests.unit.host.discover import sample_machines

cpus = sample_machines.cpus


@ddt.ddt
class TestProcessors(base.BaseTestCase):

    def setUp(self):
        super().setUp()
        self.machine = self.useFixture(sample_machines.Machine())

    def read(self):
        return processors.read(self.machine.tree())

    def test_online_and_offline(self):
        for number in (0, 1, 2, 4):
            self.machine.cpu(number)
        self.machine.write(f'{sample_machines.CPU}/online', '0-1,4')
        self.machine.write(f'{sample_machines.CPU}/present', '0-4')
        # This says which there could be: sockets that are empty.
        self.machine.write(f'{sample_machines.CPU}/offline', '2-3,5-191')
        found = self.read()
        self.assertEqual(cpus('0-1,4'), found.online)
        self.assertEqual(cpus('2-3'), found.offline)

    def test_before_there_was_a_list_of_them(self):
        self.machine.cpu(0)
        self.machine.cpu(1, online=1)
        self.machine.cpu(2, online=0)
        self.machine.write(f'{sample_machines.CPU}/cpufreq/boost', '1')
        found = self.read()
        self.assertEqual(cpus('0-1'), found.online)
        self.assertEqual(cpus('2'), found.offline)

    @ddt.data('thread_siblings', 'thread_siblings_list', 'core_cpus',
              'core_cpus_list')
    def test_cores(self, name):
        for number in range(4):
            core = cpus(f'{number % 2},{number % 2 + 2},5')
            text = core if name.endswith('list') else sample_machines.mask(
                core, 9)
            self.machine.write(
                f'{sample_machines.CPU}/cpu{number}/topology/{name}', text)
        self.machine.write(f'{sample_machines.CPU}/online', '0-3')
        self.assertEqual((cpus('0,2'), cpus('1,3')), self.read().cores)

    def test_cores_that_contradict_each_other(self):
        self.machine.cpu(0, '0-1')
        self.machine.cpu(1, '1-2')
        self.machine.cpu(2, '0-2')
        self.assertEqual((cpus('0-1'), cpus('2')), self.read().cores)

    def test_no_cpu_is_lost(self):
        self.machine.cpu(0, '')
        self.machine.cpu(1, '0')
        self.machine.write(
            f'{sample_machines.CPU}/cpu0/topology/thread_siblings', '0')
        self.assertEqual((cpus('0'), cpus('1')), self.read().cores)

    def test_places(self):
        self.machine.cpu(0, package=-1)
        self.machine.cpu(7, package=36, die=2)
        self.machine.write(f'{sample_machines.CPU}/cpu9/online', '1')
        found = self.read()
        self.assertEqual({0: 0, 7: 36, 9: 0}, found.sockets)
        self.assertEqual({0: 0, 7: 2, 9: 0}, found.dies)
        self.assertEqual((cpus('0'), cpus('7'), cpus('9')), found.cores)

    def test_dies(self):
        for number in range(4):
            self.machine.cpu(number, package=number // 2, die=0)
        self.assertEqual((), processors.dies(self.read(), always=False))
        self.assertEqual(
            (hardware.Die(0, 0, cpus('0-1')), hardware.Die(1, 0, cpus('2-3'))),
            processors.dies(self.read(), always=True))
        self.machine.write(f'{sample_machines.CPU}/cpu3/topology/die_id', '5')
        self.assertEqual(
            (hardware.Die(0, 0, cpus('0-1')), hardware.Die(1, 0, cpus('2')),
             hardware.Die(1, 5, cpus('3'))),
            processors.dies(self.read(), always=False))


class TestCaches(base.BaseTestCase):

    def setUp(self):
        super().setUp()
        self.machine = self.useFixture(sample_machines.Machine())

    def caches(self, online):
        return processors.caches(self.machine.tree(), cpus(online))

    def test_alike(self):
        for number in range(4):
            self.machine.cache(number, 0, 1, 'Data', '32K', str(number))
            self.machine.cache(number, 2, 2, 'Unified', '1M',
                               '0-1' if number < 2 else '2-3')
        self.machine.cache(3, 1, 1, 'Instruction', '64K', '3')
        data, instructions, unified = self.caches('0-3')
        self.assertEqual(
            hardware.Caches(1, hardware.CacheKind.DATA, 32,
                            tuple(map(cpus, '0123'))), data)
        self.assertEqual(
            hardware.Caches(1, hardware.CacheKind.INSTRUCTION, 64,
                            (cpus('3'),)), instructions)
        self.assertEqual(
            hardware.Caches(2, hardware.CacheKind.UNIFIED, 1024,
                            (cpus('0-1'), cpus('2-3'))), unified)

    def test_only_what_is_online(self):
        self.machine.cache(0, 0, 3, 'Unified', '8M', '0-3')
        self.machine.cache(1, 0, 3, 'Unified', '8M', '0-3')
        found, = self.caches('1-2')
        self.assertEqual((cpus('1-2'),), found.domains)

    def test_the_mask_counts(self):
        self.machine.cache(0, 0, 2, 'Unified', '1M', '0-1')
        self.machine.write(
            f'{sample_machines.CPU}/cpu0/cache/index0/shared_cpu_list', '0')
        found, = self.caches('0-1')
        self.assertEqual((cpus('0-1'),), found.domains)

    def test_a_list_does_too(self):
        path = f'{sample_machines.CPU}/cpu0/cache/index0'
        for name, text in (('level', 2), ('type', 'Unified'),
                           ('shared_cpu_list', '0-1')):
            self.machine.write(f'{path}/{name}', text)
        self.assertEqual(
            (hardware.Caches(2, hardware.CacheKind.UNIFIED, 0,
                             (cpus('0-1'),)),), self.caches('0-1'))

    def test_nothing_useful(self):
        self.machine.cache(0, 0, 0, 'Unified', '1M', '0')
        self.machine.cache(0, 1, 10, 'Unified', '1M', '0')
        self.machine.cache(0, 2, 1, 'Trace', '1M', '0')
        self.machine.cache(0, 3, 'x', 'Data', '1M', '0')
        self.assertEqual((), self.caches('0'))

    def test_contradictions(self):
        self.machine.cache(0, 0, 2, 'Unified', '1M', '0-1')
        self.machine.cache(1, 0, 2, 'Unified', '1M', '1-2')
        self.machine.cache(2, 0, 2, 'Unified', '2M', '1-2')
        self.assertEqual(
            [(1024, (cpus('0-1'),)), (2048, (cpus('2'),))],
            [(cache.size_kib, cache.domains) for cache in self.caches('0-2')])


class TestCoreKinds(base.BaseTestCase):

    def setUp(self):
        super().setUp()
        self.machine = self.useFixture(sample_machines.Machine())

    def kinds(self, online='0-5'):
        return processors.core_kinds(self.machine.tree(), cpus(online))

    def test_hybrid(self):
        self.machine.write('sys/devices/cpu_core/cpus', '0-3')
        self.assertEqual((), self.kinds('0-3'))
        self.machine.write('sys/devices/cpu_atom/cpus', '4-7')
        self.machine.write(f'{sample_machines.CPU}/cpu1/cpu_capacity', 1024)
        self.machine.write(f'{sample_machines.CPU}/cpu2/cpu_capacity', 1009)
        self.machine.write(f'{sample_machines.CPU}/cpu4/cpu_capacity', 600)
        self.assertEqual(
            (hardware.CoreKind('performance', cpus('0-3'), 1024),
             hardware.CoreKind('efficient', cpus('4-5'), 600)), self.kinds())

    def test_capacity(self):
        for number in range(6):
            self.machine.write(
                f'{sample_machines.CPU}/cpu{number}/cpu_capacity',
                446 if number < 4 else 1024)
        self.assertEqual(
            (hardware.CoreKind('capacity-1024', cpus('4-5'), 1024),
             hardware.CoreKind('capacity-446', cpus('0-3'), 446)),
            self.kinds())
        self.assertEqual((), self.kinds('0-3'))

    def test_all_alike(self):
        self.assertEqual((), self.kinds())
