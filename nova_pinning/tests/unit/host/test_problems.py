# SPDX-License-Identifier: Apache-2.0
"""What cannot be true of a machine's hardware."""

import dataclasses

import ddt
import hypothesis
from oslotest import base as oslotest

from nova_pinning import cpuset
from nova_pinning.host import hardware
from nova_pinning.host import host_model
from nova_pinning.host import problems
from nova_pinning.tests.unit.host import host_samples
from nova_pinning.tests.unit import unit_base

cpus = cpuset.CpuSet.parse


def caches(*domains, level=2, kind='unified'):
    return hardware.Caches(level, hardware.CacheKind(kind), 1024,
                           tuple(map(cpus, domains)))


@ddt.ddt
class TestProblems(oslotest.BaseTestCase):

    def told(self, **values):
        return [(problem.path, problem.message)
                for problem in problems.inconsistencies(
                    host_samples.host(**values))]

    @unit_base.settings(max_examples=100)
    @hypothesis.given(host_samples.any_host())
    def test_none(self, host):
        self.assertEqual([], list(problems.inconsistencies(host)))

    def test_offline(self):
        self.assertEqual([], self.told(offline_cpus=cpus('8-9')))
        self.assertEqual(
            [(('offline_cpus',), 'CPUs 6-7 are in a node as well')],
            self.told(offline_cpus=cpus('6-9')))

    @ddt.data(
        ((0, 0, '0'), (1, 0, '1'), ()),
        ((0, 0, '0-1'), (0, 1, '1'), [
            (('dies', 1, 'cpus'), 'CPU 1 is in two dies')]),
        ((0, 0, '0'), (0, 0, '1'), [
            (('dies', 1, 'id'), 'there are two dies 0 of socket 0')]),
        ((0, 0, ''), (0, 1, '8'), [
            (('dies', 0, 'cpus'), 'there is no CPU in it'),
            (('dies', 1, 'cpus'), 'CPU 8 is not in any node')]))
    @ddt.unpack
    def test_dies(self, first, second, expected):
        self.assertEqual(list(expected), self.told(dies=tuple(
            hardware.Die(socket, number, cpus(own))
            for socket, number, own in (first, second))))

    @ddt.data(
        (('a', '0-3'), ('b', '4-7'), ()),
        (('a', '0-3'), ('a', '3-8'), [
            (('core_kinds', 1, 'name'), 'there are two kinds a'),
            (('core_kinds', 1, 'cpus'), 'CPU 8 is not in any node'),
            (('core_kinds', 1, 'cpus'), 'CPU 3 is in two kinds')]))
    @ddt.unpack
    def test_core_kinds(self, first, second, expected):
        self.assertEqual(list(expected), self.told(core_kinds=tuple(
            hardware.CoreKind(name, cpus(own))
            for name, own in (first, second))))

    def test_caches(self):
        self.assertEqual([], self.told(caches=(
            caches('0-1', '2-3'), caches('0-3', level=1),
            caches('0', '1', level=1, kind='data'))))
        self.assertEqual([
            (('caches', 0, 'domains', 1),
             'CPU 1 is in two unified caches of level 2'),
            (('caches', 1, 'domains', 0), 'CPUs 8-9 are not in any node'),
            (('caches', 1, 'domains', 0),
             'CPUs 1-2 are in two unified caches of level 2')],
            self.told(caches=(caches('0-1', '1-2'), caches('1-2,8-9'))))

    def test_l3_domains(self):
        first, second = host_samples.host().nodes
        first = dataclasses.replace(first, l3_domains=(cpus('0-1,4-5'),))
        nodes = first, second
        good = caches('0-1,4-5', '2-3,6-7', level=3)
        self.assertEqual([], self.told(nodes=nodes, caches=(good,)))
        self.assertEqual([], self.told(nodes=nodes, caches=(
            caches('0,4', '1,5'),)))
        self.assertEqual(
            [(('caches', 0, 'domains', 2),
              'CPU 0 is in two unified caches of level 2')],
            self.told(caches=(caches('0', '1', '0'),)))
        bad = caches('0,4', '1,5', '2-3,6-7', level=3)
        self.assertEqual(
            [(('caches', 1, 'domains'),
              'node 0 has other L3 domains, 0-1,4-5')],
            self.told(nodes=nodes, caches=(caches('0'), bad)))

    def test_pci_tree(self):
        def bridge(number, parent):
            return hardware.PciBridge(f'0000:{number:02}:00.0', parent)

        def device(parent):
            return host_model.PciDevice(
                '0000:3b:00.0', '10de', '2330', None, parent=parent)
        first, second = bridge(1, '0000:02:00.0'), bridge(2, '0000:01:00.0')
        self.assertEqual([], self.told(
            pci_devices=(device('0000:02:00.0'),),
            pci_bridges=(bridge(1, 'pci0000:00'), second)))
        self.assertEqual([
            (('pci_bridges', 1, 'address'), 'there are two bridges '
             '0000:01:00.0'),
            (('pci_devices', 0, 'parent'), 'there is no bridge 0000:02:00.0'),
            (('nvlinks', 0, 'addresses', 1), 'there is no device '
             '0000:3c:00.0'),
            (('gpu_partitions', 0, 'addresses', 0), 'there is no device '
             '0000:3d:00.0')], self.told(
                 pci_devices=(device('0000:02:00.0'),),
                 pci_bridges=(bridge(1, 'pci0000:00'),) * 2,
                 nvlinks=(hardware.NvLinks(
                     ('0000:3b:00.0', '0000:3c:00.0'), 4),),
                 gpu_partitions=(hardware.GpuPartition(
                     1, ('0000:3d:00.0',)),)))
        self.assertEqual([
            (('pci_bridges', number, 'parent'),
             f'0000:0{number + 1}:00.0 is above itself')
            for number in range(2)], self.told(pci_bridges=(first, second)))

    def test_system(self):
        self.assertEqual([], self.told(
            offline_cpus=cpus('8'), system=hardware.System(
                isolated_cpus=cpus('1-8'), nohz_full_cpus=cpus('8'),
                governors={'a': cpus('0'), 'b': cpus('1')})))
        self.assertEqual([
            (('system', 'isolated_cpus'), 'CPU 8 is not on this host'),
            (('system', 'nohz_full_cpus'), 'CPU 9 is not on this host'),
            (('system', 'governors', 'b'), 'CPU 0 is in two governors')],
            self.told(system=hardware.System(
                isolated_cpus=cpus('8'), nohz_full_cpus=cpus('9'),
                governors={'a': cpus('0-1'), 'b': cpus('0')})))
