# SPDX-License-Identifier: Apache-2.0

from oslotest import base as oslotest

from demo import hosts


class TestHostShape(oslotest.BaseTestCase):

    def test_split_numbering(self):
        first, second = hosts.HostShape(
            sockets=2, cores_per_cell=2, threads=2).cells
        self.assertEqual(((0, 4), (1, 5)), first.cores)
        self.assertEqual(((2, 6), (3, 7)), second.cores)
        self.assertEqual((0, 1), (first.socket, second.socket))
        self.assertEqual({2, 3, 6, 7}, set(second.cpus))

    def test_adjacent_numbering(self):
        first, second = hosts.HostShape(
            sockets=2, cores_per_cell=2, threads=2,
            numbering=hosts.Numbering.ADJACENT).cells
        self.assertEqual(((0, 1), (2, 3)), first.cores)
        self.assertEqual(((4, 5), (6, 7)), second.cores)

    def test_cells_share_sockets_and_memory(self):
        shape = hosts.HostShape(sockets=2, cells_per_socket=2,
                                memory_mib=4096)
        self.assertEqual([0, 0, 1, 1], [cell.socket for cell in shape.cells])
        self.assertEqual([1024] * 4,
                         [cell.memory_mib for cell in shape.cells])

    def test_offline_cpus(self):
        cell, = hosts.HostShape(
            cores_per_cell=3, offline=frozenset({1, 2, 5})).cells
        self.assertEqual(((0, 3), (4,)), cell.cores)

    def test_huge_pages_leave_small_ones(self):
        shape = hosts.HostShape(
            sockets=2, memory_mib=4096, huge_pages={2048: 512})
        self.assertEqual(1024 * 1024, shape.small_pages_kib)

    def test_impossible_hosts(self):
        for wrong in ({'sockets': 0}, {'threads': 0}, {'memory_mib': 0}):
            self.assertRaisesRegex(
                ValueError, 'must be at least 1', hosts.HostShape, **wrong)
        self.assertRaisesRegex(
            ValueError, 'huge pages', hosts.HostShape,
            memory_mib=1024, huge_pages={1048576: 2})

    def test_nova_options(self):
        options = hosts.HostShape(
            dedicated='0-1', cpu_allocation_ratio=2.0,
            reserved_huge_pages=('node:0,size:2048,count:64',),
            options={('libvirt', 'cpu_power_management'): True},
        ).nova_options()
        self.assertEqual('0-1', options['compute', 'cpu_dedicated_set'])
        # Named though unset, so that no other host's is taken instead.
        self.assertIsNone(options['compute', 'cpu_shared_set'])
        self.assertEqual(2.0, options[None, 'cpu_allocation_ratio'])
        self.assertEqual([{'node': '0', 'size': '2048', 'count': '64'}],
                         options[None, 'reserved_huge_pages'])
        self.assertIs(True, options['libvirt', 'cpu_power_management'])

    def test_hosts_of_the_demo(self):
        for shape in (hosts.enterprise_host(), hosts.shared_host()):
            first, second = shape.cells
            self.assertEqual('0-19,40-59', str(first.cpus))
            self.assertEqual('20-39,60-79', str(second.cpus))
            self.assertEqual(768 * 1024, shape.memory_mib)
