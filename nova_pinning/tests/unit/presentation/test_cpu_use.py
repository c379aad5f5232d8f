# SPDX-License-Identifier: Apache-2.0


import dataclasses

from oslotest import base as oslotest

from nova_pinning import cpuset
from nova_pinning.host import guest_affinity
from nova_pinning.presentation import cpu_use
from nova_pinning.tests.unit.host import host_samples


def cpus(text):
    return cpuset.CpuSet.parse(text)


def kinds(found):
    return {kind.value: str(found.cpus_of(kind)) for kind in cpu_use.CpuUseKind
            if found.cpus_of(kind)}


class TestPlan(oslotest.BaseTestCase):

    def test_the_host_alone(self):
        host = host_samples.host(nova=host_samples.settings('2-3,5-7', '1'))
        found = cpu_use.cpu_use_of(host, cpus('3,7'), None)
        self.assertEqual(
            {'taken': '3,7', 'free': '2,5-6', 'shared': '1', 'kept': '0,4'},
            kinds(found))
        self.assertEqual([], list(cpu_use.remarks(found)))
        self.assertEqual('small', cpu_use.title(found))

    def test_pinned_guest_with_emulator_threads_apart(self):
        host = host_samples.host(nova=host_samples.settings('2-3,5-7', '1'))
        found = cpu_use.cpu_use_of(
            host, cpus('3,7,2'), guest_affinity.GuestAffinity(
                vcpu_cpus={0: cpus('2'), 1: cpus('6')},
                emulator_cpus=cpus('1'), memory_nodes={0: 1}, name='a'))
        self.assertEqual(
            {'pinned': '2,6', 'emulator': '1', 'taken': '3,7', 'free': '5',
             'kept': '0,4'}, kinds(found))
        self.assertEqual(
            cpu_use.CpuUse(cpu_use.CpuUseKind.PINNED, (1,), False, 0),
            found.uses[6])
        self.assertEqual(
            ['vCPUs 0-1 pinned to CPUs 2,6', 'emulator threads on CPU 1'],
            list(cpu_use.remarks(found)))
        self.assertEqual('a on small', cpu_use.title(found))
        self.assertEqual(
            ['', 'guest cell 0: vCPUs 0-1'],
            [found.guest_on(node) for node in host.nodes])

    def test_legend(self):
        found = cpu_use.cpu_use_of(
            host_samples.host(), cpus('1,3'), guest_affinity.GuestAffinity(
                vcpu_cpus={1: cpus('2'), 0: cpus('6')}))
        self.assertEqual([
            ('pinned', 6, 'vCPU of this guest, by number, pinned'),
            ('taken', 1, 'taken by another guest: CPUs 1,3'),
            ('free', 0, 'free: CPUs 0,4-5,7'),
        ], list(cpu_use.legend(found)))

    def test_floating_guest(self):
        host = host_samples.host(nova=host_samples.settings(None, '1-7'))
        found = cpu_use.cpu_use_of(
            host, cpus(''), guest_affinity.GuestAffinity(
                vcpu_cpus={0: cpus(''), 1: cpus('')},
                emulator_cpus=cpus('1-7')))
        self.assertEqual({'floating': '1-7', 'kept': '0'}, kinds(found))
        self.assertEqual('vCPUs 0-1 float', found.guest_on(host.nodes[0]))
        self.assertEqual(
            ['vCPUs 0-1 floating over CPUs 1-7',
             'emulator threads on CPUs 1-7'], list(cpu_use.remarks(found)))

    def test_mixed_guest(self):
        host = host_samples.host(nova=host_samples.settings('2-7', '1'))
        found = cpu_use.cpu_use_of(
            host, cpus(''), guest_affinity.GuestAffinity(
                vcpu_cpus={0: cpus('1'), 1: cpus('5')},
                emulator_cpus=cpus('1,5'), memory_nodes={0: 0}))
        # To float over one CPU is not to be pinned to it.
        self.assertEqual(
            {'pinned': '5', 'floating': '1', 'free': '2-4,6-7', 'kept': '0'},
            kinds(found))
        self.assertEqual([
            'vCPU 1 pinned to CPU 5', 'vCPU 0 floating over CPU 1',
            'emulator threads on the same CPUs'], list(cpu_use.remarks(found)))

    def test_nova_without_settings(self):
        found = cpu_use.cpu_use_of(
            host_samples.host(), cpus('3'), guest_affinity.GuestAffinity(
                vcpu_cpus={0: cpus('5')}))
        self.assertEqual(
            {'pinned': '5', 'taken': '3', 'free': '0-2,4,6-7'}, kinds(found))

    def test_domains(self):
        host = host_samples.host()
        first, second = host.nodes
        # One cache reaches beyond its node, one core has no known cache.
        host = dataclasses.replace(host, nodes=(
            dataclasses.replace(first, l3_domains=(cpus('1-2,5-6'),)),
            dataclasses.replace(
                second, l3_domains=(cpus('3,7'), cpus('1-2,5-6')))))
        found = cpu_use.cpu_use_of(host, cpus(''), None)
        self.assertEqual(
            [((0, ((1, 5),)), (None, ((0, 4),))),
             ((0, ((2, 6),)), (1, ((3, 7),)))],
            [found.domains(node) for node in host.nodes])
