# SPDX-License-Identifier: Apache-2.0
"""NUMA nodes."""

from oslotest import base

from nova_pinning.host.discover import numa
from nova_pinning.host.discover import processors
from nova_pinning.tests.unit.host.discover import sample_machines

cpus = sample_machines.cpus
MIB_PAGES = 2048
GIB_PAGES = 1024 * 1024


class TestNuma(base.BaseTestCase):

    def setUp(self):
        super().setUp()
        self.machine = self.useFixture(sample_machines.Machine())

    def read(self):
        tree = self.machine.tree()
        found = processors.read(tree)
        return numa.read(tree, found, processors.caches(tree, found.online))

    def two_cpus(self):
        for number in range(2):
            self.machine.cpu(number, package=number)

    def test_sparse(self):
        self.two_cpus()
        self.machine.node(2, '0', 2097152, '10 32', {MIB_PAGES: 512})
        self.machine.node(8, '1', 1048000, '32 10', {GIB_PAGES: 0})
        # Only the nodes that are online count.
        self.machine.node(5, '', 1048576)
        self.machine.write(f'{sample_machines.NODE}/online', '2,8')
        self.machine.write(f'{sample_machines.NODE}/has_cpu', '2,8')
        first, second = self.read().nodes
        self.assertEqual(
            (2, 0, ((0,),), 2048, {MIB_PAGES: 512}, (10, 32)),
            (first.id, first.socket, first.cores, first.memory_mib,
             first.huge_pages, first.distances))
        self.assertEqual(
            (8, 1, ((1,),), 1023, {GIB_PAGES: 0}, (32, 10)),
            (second.id, second.socket, second.cores, second.memory_mib,
             second.huge_pages, second.distances))

    def test_memory_without_cpus(self):
        self.two_cpus()
        self.machine.node(0, '0-1')
        self.machine.node(1, '', 64 * 1048576)
        nodes = self.read().nodes
        self.assertEqual([((0,), (1,)), ()], [node.cores for node in nodes])
        self.assertEqual([1024, 65536], [node.memory_mib for node in nodes])

    def test_memory_of_gpus(self):
        self.two_cpus()
        self.machine.node(0, '0-1')
        self.machine.node(254, '', 15 * 1048576)
        self.machine.node(255, '', 15 * 1048576)
        for address, node in (('0004:05:00.0', 255), ('0035:03:00.0', 0),
                              ('0035:04:00.0', -1)):
            self.machine.write(
                f'proc/driver/nvidia/gpus/{address}/numa_status',
                f'Node:      {node}\nStatus:    online\nSize:  3f0000000')
        # A GPU that has no memory of its own is on a node with CPUs.
        self.assertEqual({0: '', 254: '', 255: '0004:05:00.0'}, {
            node.id: node.gpu for node in self.read().nodes})

    def test_links_alone(self):
        self.two_cpus()
        for number in (0, 1):
            self.machine.node(number, '')
            path = f'{sample_machines.NODE}/node{number}'
            (self.machine.root / path / 'cpulist').unlink()
            self.machine.link(f'{path}/cpu{number}', '../nowhere')
        self.assertEqual([cpus('0'), cpus('1')],
                         [node.cpus for node in self.read().nodes])

    def test_a_kernel_without_numa(self):
        self.two_cpus()
        self.machine.write('proc/meminfo', 'MemTotal:   4194304 kB')
        self.machine.write(
            'sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages', 3)
        found = self.read()
        node, = found.nodes
        self.assertEqual(
            (0, 0, cpus('0-1'), 4096, {MIB_PAGES: 3}, ()),
            (node.id, node.socket, node.cpus, node.memory_mib,
             node.huge_pages, node.distances))
        self.assertFalse(found.stray)

    def test_huge_pages_of_the_only_node(self):
        self.two_cpus()
        self.machine.node(0, '0-1')
        self.machine.write(
            'sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages', 3)
        self.assertEqual({MIB_PAGES: 3}, self.read().nodes[0].huge_pages)
        # Nobody knows on which of two they are.
        self.machine.node(1, '')
        self.assertEqual({}, self.read().nodes[0].huge_pages)

    def test_cpus_in_no_node(self):
        for number in range(4):
            self.machine.cpu(number)
        self.machine.node(0, '1', distances='10')
        found = self.read()
        self.assertEqual(cpus('0,2-3'), found.stray)
        self.assertEqual(
            [(0, cpus('1'), 1024), (1, cpus('0,2-3'), 0)],
            [(node.id, node.cpus, node.memory_mib) for node in found.nodes])
        self.assertEqual([(), ()], [node.distances for node in found.nodes])
        # The CPU itself knows better, but for a node that does not list it.
        self.machine.link(f'{sample_machines.CPU}/cpu0/node0', '../nowhere')
        self.machine.link(f'{sample_machines.CPU}/cpu2/node3', '../nowhere')
        self.assertEqual([0, 3], [node.id for node in self.read().nodes])

    def test_offline_cpus_are_left_out(self):
        for number in range(4):
            self.machine.cpu(number, '0-3')
        self.machine.write(f'{sample_machines.CPU}/online', '1,3')
        self.machine.write(f'{sample_machines.NODE}/node0/cpumap', '0000000f')
        node, = self.read().nodes
        self.assertEqual(((1, 3),), node.cores)

    def test_l3_domains(self):
        for number in range(4):
            self.machine.cpu(number)
            self.machine.cache(number, 3, 3, 'Unified', '1M',
                               '0-1' if number < 2 else '2-3')
        self.machine.node(0, '0')
        self.machine.node(1, '1-3')
        self.assertEqual(
            [(cpus('0-1'),), (cpus('0-1'), cpus('2-3'))],
            [node.l3_domains for node in self.read().nodes])

    def test_nonsense_is_noted(self):
        self.two_cpus()
        self.machine.node(0, '0', distances='10 21')
        self.machine.node(1, '1', distances='21 x')
        tree = self.machine.tree()
        found = processors.read(tree)
        nodes = numa.read(tree, found, ()).nodes
        self.assertEqual([(), ()], [node.distances for node in nodes])
        self.assertEqual({'/sys/devices/system/node/node1/distance'},
                         set(tree.nonsense))
