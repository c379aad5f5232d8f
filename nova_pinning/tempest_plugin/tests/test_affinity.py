# SPDX-License-Identifier: Apache-2.0
"""Dedicated, shared and mixed guests on the CPUs of their kind."""

from nova_pinning import cpuset
from nova_pinning.host import domain_xml
from nova_pinning.tempest_plugin import checks
from nova_pinning.tempest_plugin import hosts
from nova_pinning.tempest_plugin import pinning_test

_MIXED = {'hw:cpu_policy': 'mixed', 'hw:cpu_dedicated_mask': '^0'}


class AffinityTest(pinning_test.PinningTest):
    """Which CPUs the threads of a guest run on."""

    def test_dedicated(self) -> None:
        """Each vCPU is pinned to a dedicated CPU of its own."""
        host, = self.pick(dedicated=2)
        seen = self.boot(host, 2, pinning_test.DEDICATED)
        self.assertEqual({0, 1}, set(seen.kept.pins))

    def test_two_dedicated_guests_share_no_cpu(self) -> None:
        host, = self.pick(dedicated=2)
        guests = [
            self.boot(host, 1, pinning_test.DEDICATED) for _number in range(2)]
        self.assert_clean(checks.disjoint({
            seen.server_id: seen.kept.pinned_cpus for seen in guests}))

    def test_shared(self) -> None:
        """A shared guest is not pinned, and is on shared CPUs only."""
        host, = self.pick(shared=1)
        live = self.boot(host).guest.live
        self.assertEqual({}, live.vcpu_pins)
        self.assertEqual(host.sets.shared, live.floats_over)

    def test_shared_with_a_numa_cell(self) -> None:
        """With a NUMA topology, it floats over the shared CPUs of its node."""
        host, = self.pick(shared=1)
        seen = self.boot(host, 1, {'hw:numa_nodes': '1'})
        node = seen.kept.cells[0].host_node
        self.assertEqual(
            self.machine_of(host).per_node(host.sets.shared)[node],
            seen.guest.live.vcpu_affinity(0))

    def test_mixed(self) -> None:
        """Of a mixed guest, the mask says which vCPUs are pinned."""
        host, = self.pick(dedicated=1, shared=1)
        seen = self.boot(host, 2, _MIXED)
        self.assertEqual({1}, set(seen.kept.pins))
        self.assertTrue(seen.guest.live.vcpu_affinity(0).issubset(
            host.sets.shared))

    def test_realtime(self) -> None:
        """The kernel schedules the vCPUs outside the mask first in, first out.

        Its memory is locked, which nova adds to every such guest.
        """
        host, = self.pick(
            dedicated=2, where=lambda host: (
                self.machine_of(host).can_run_realtime and
                self.machine_of(host).can_lock_memory),
            what='that lets guests run in real time and lock memory')
        seen = self.boot(host, 2, {
            **pinning_test.DEDICATED, 'hw:cpu_realtime': 'yes',
            'hw:cpu_realtime_mask': '^0'})
        schedulers = seen.guest.live.vcpu_schedulers
        self.assertEqual({1}, set(schedulers))
        self.assertEqual('fifo', schedulers[1].policy)
        self.assertTrue(seen.guest.live.locked)


class EmulatorTest(pinning_test.PinningTest):
    """Where the threads of a guest run that are not vCPUs.

    Each boot is checked against the policy of its flavor.
    """

    def test_share(self) -> None:
        host, = self.pick(dedicated=1, shared=1)
        self._boot(host, 'share')

    def test_isolate(self) -> None:
        """They have a dedicated CPU, which Placement knows of."""
        host, = self.pick(dedicated=2)
        seen = self._boot(host, 'isolate')
        emulator = seen.guest.live.emulator_pin or domain_xml.NO_CPUS
        self.assert_clean(checks.disjoint({
            'vCPUs': seen.kept.pinned_cpus, 'emulator': emulator}))
        self.assert_allocated(seen, PCPU=2)

    def test_none(self) -> None:
        host, = self.pick(dedicated=2)
        self._boot(host, '', 2)

    def _boot(self, host: hosts.ComputeHost, policy: str,
              vcpus: int = 1) -> pinning_test.ServerViews:
        specs = {'hw:emulator_threads_policy': policy} if policy else {}
        return self.boot(host, vcpus, {**pinning_test.DEDICATED, **specs})


class ThreadPolicyTest(pinning_test.PinningTest):
    """What becomes of the sibling threads of a host's cores."""

    def _pick_with_threads(self, dedicated: int) -> hosts.ComputeHost:
        host, = self.pick(
            dedicated=dedicated, where=lambda host: self.machine_of(
                host).has_threads(host.sets.dedicated),
            what='with hardware threads')
        return host

    def _pick_without_threads(self, dedicated: int) -> hosts.ComputeHost:
        """A host without any: nova also looks at threads it does not use."""
        def has_none(host: hosts.ComputeHost) -> bool:
            found = self.machine_of(host)
            return not found.has_threads(found.online)

        host, = self.pick(dedicated=dedicated, where=has_none,
                          what='without hardware threads')
        return host

    def _boot(self, host: hosts.ComputeHost, vcpus: int,
              specs: dict[str, str]) -> pinning_test.ServerViews:
        return self.boot(host, vcpus, {**pinning_test.DEDICATED, **specs})

    def test_require(self) -> None:
        host = self._pick_with_threads(2)
        seen = self._boot(host, 2, {'hw:cpu_thread_policy': 'require'})
        self.assert_clean(checks.siblings(seen.kept, self.machine_of(host)))

    def test_require_is_refused_without_threads(self) -> None:
        host = self._pick_without_threads(2)
        self.refused(host, 2, self.specs_for(host, {
            **pinning_test.DEDICATED, 'hw:cpu_thread_policy': 'require'}))

    def test_isolate(self) -> None:
        """A guest that is booted after it is on another core."""
        host = self._pick_without_threads(2)
        seen = self._boot(host, 1, {'hw:cpu_thread_policy': 'isolate'})
        other = self._boot(host, 1, {'hw:cpu_thread_policy': 'prefer'})
        self.assert_clean(checks.isolated(
            seen.kept, self.machine_of(host), {'the other': other.cpus}))

    def test_isolate_is_refused_with_threads(self) -> None:
        """Nova fits it on no host that has both threads and dedicated CPUs."""
        host = self._pick_with_threads(2)
        self.refused(host, 1, self.specs_for(host, {
            **pinning_test.DEDICATED, 'hw:cpu_thread_policy': 'isolate'}))

    def test_prefer(self) -> None:
        """Where a whole core is free, siblings are taken."""
        host = self._pick_with_threads(2)
        seen = self._boot(host, 2, {'hw:cpu_thread_policy': 'prefer'})
        self.assert_clean(checks.siblings(seen.kept, self.machine_of(host)))

    def test_topology_of_threads(self) -> None:
        """vCPUs that the guest takes for siblings are siblings."""
        host = self._pick_with_threads(4)
        seen = self._boot(host, 4, {
            'hw:cpu_thread_policy': 'require', 'hw:cpu_sockets': '1',
            'hw:cpu_cores': '2', 'hw:cpu_threads': '2'})
        self.assertEqual(domain_xml.DomainTopology(1, 2, 2),
                         seen.guest.live.topology)
        self.assert_clean(checks.guest_threads(
            seen.guest.live, seen.kept, self.machine_of(host)))

    def test_topology_of_cores(self) -> None:
        """What the flavor asks for, and by default one socket a vCPU."""
        host, = self.pick(dedicated=2)
        for specs, expected in (
                ({}, domain_xml.DomainTopology(2, 1, 1)),
                ({'hw:cpu_sockets': '1', 'hw:cpu_cores': '2'},
                 domain_xml.DomainTopology(1, 2, 1))):
            seen = self._boot(host, 2, specs)
            self.assertEqual(expected, seen.guest.live.topology)
            self.assertEqual(cpuset.CpuSet(range(2)),
                             cpuset.CpuSet(seen.kept.pins))
            self.delete(seen.server_id)
