# SPDX-License-Identifier: Apache-2.0

import dataclasses

import ddt
from oslotest import base as oslotest

from nova_pinning import cpuset
from nova_pinning.host import hardware
from nova_pinning import model
from nova_pinning.presentation import host_structure
from nova_pinning.tests.unit.host import host_samples


def cpus(text):
    return cpuset.CpuSet.parse(text)


@ddt.ddt
class TestTopology(oslotest.BaseTestCase):

    def test_sockets(self):
        host = host_samples.host()
        first, second = host.nodes
        # A node with memory alone is in no socket, as nova has it.
        bare = dataclasses.replace(second, cores=())
        self.assertEqual((0, 1), host.sockets())
        self.assertEqual((1,), host.sockets(cpus('3,7')))
        host = dataclasses.replace(host, nodes=(first, bare), dies=(
            hardware.Die(4, 0, cpus('0,4')), hardware.Die(5, 0, cpus('1,5'))))
        self.assertEqual((4, 5), host.sockets())
        self.assertEqual((5,), host.sockets(cpus('1')))
        self.assertEqual((), host.sockets(bare.cpus))
        # What no die has is where its node is.
        host = dataclasses.replace(host, dies=host.dies[:1])
        self.assertEqual((0, 4), host.sockets())

    def test_sockets_as_people_count_them(self):
        text = host_structure.socket_text
        host = host_samples.host()
        self.assertEqual('socket 1', text(host, [1]))
        self.assertEqual('sockets 0-1', text(host, [0, 1]))
        self.assertEqual('', text(host, []))
        # The ids of a real machine, one of which is past any mask.
        host = dataclasses.replace(host, nodes=tuple(
            dataclasses.replace(node, socket=number)
            for node, number in zip(host.nodes, (36, 2 ** 31 - 1))))
        self.assertEqual('socket 0 (id 36)', text(host, [36]))
        self.assertEqual('sockets 0-1 (ids 36, 2147483647)',
                         text(host, [2 ** 31 - 1, 36]))

    def test_dies_of_sockets_that_have_several(self):
        host = host_samples.host(dies=(
            hardware.Die(0, 0, cpus('0,4')), hardware.Die(0, 1, cpus('1,5')),
            hardware.Die(1, 0, cpus('2-3,6-7'))))
        self.assertEqual({0: 0, 4: 0, 1: 1, 5: 1}, host_structure.dies(host))

    def test_l3_sizes(self):
        kind = hardware.CacheKind.UNIFIED
        host = host_samples.host(caches=(
            hardware.Caches(2, kind, 1024, (cpus('0-7'),)),
            hardware.Caches(3, kind, 2048, (cpus('0'), cpus('4')))))
        self.assertEqual({0: 2048, 4: 2048}, host_structure.l3_sizes_kib(host))

    @ddt.data((0, '0 MiB'), (1000, '1000 MiB'), (1024, '1 GiB'),
              (27.5, '27.5 MiB'), (385574, '376.5 GiB'))
    @ddt.unpack
    def test_memory(self, mib, shown):
        self.assertEqual(shown, host_structure.memory(mib))

    @ddt.data(('3', 'die 3'), ('0-1', 'dies 0-1'))
    @ddt.unpack
    def test_numbered(self, numbers, shown):
        self.assertEqual(shown, host_structure.numbered('die', cpus(numbers)))

    @ddt.data(((4, 2048), (2048,)), ((64, 2048), (2048,)),
              ((4, 64, 2048), (64, 2048)), ((1048576,), (1048576,)), ((), ()))
    @ddt.unpack
    def test_huge_pools(self, sizes, expected):
        cell = model.HostCell(0, *3 * [cpus('')], (), 0, pages=tuple(
            model.PagePool(size, 1) for size in sizes))
        self.assertEqual(expected, tuple(
            pool.size_kib for pool in host_structure.huge_pools(cell)))
