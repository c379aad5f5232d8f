# SPDX-License-Identifier: Apache-2.0
"""Several boots want the same CPU."""

from collections.abc import Sequence
from concurrent import futures
import contextlib
import threading
from typing import Any

from nova_pinning.tempest_plugin import checks
from nova_pinning.tempest_plugin import cloud
from nova_pinning.tempest_plugin import hosts
from nova_pinning.tempest_plugin import pinning_test

_BOOTS = 10

# On two hosts with two CPUs each, again and again.
_ROUNDS = 4
_BOOTS_ON_TWO = 8
_CPUS_ON_TWO = 2


class ContentionTest(pinning_test.PinningTest):
    """What is there once is given once."""

    def test_last_cpu(self) -> None:
        """Of ten boots at once for the last CPU of a host, one wins.

        The others leave nothing behind, in Placement or on the host.
        """
        self._lift_quota()
        host, = self.pick(
            dedicated=1, where=lambda host: (
                host.free['PCPU'] == len(host.sets.dedicated)),
            what='of which none is taken')
        self._fill(host, 1)
        statuses = self._boot_at_once(_BOOTS * [host])
        winners = self._winners(statuses)
        self.assertEqual(1, len(winners), statuses)
        self.check(winners[0])
        self._assert_no_losers([host], statuses)
        for server_id in {*self.guests_on(host), *statuses}:
            self.delete(server_id)
        self.assert_whole(host)

    def test_two_hosts(self) -> None:
        """Eight boots at once for two CPUs on each of two hosts.

        Placement never says that more is in use than there is, no two guests
        have a CPU in common, and what is allocated is what guests have.
        """
        self._lift_quota()
        both = self.pick(
            dedicated=_CPUS_ON_TWO, count=2, where=lambda host: (
                host.free['PCPU'] == len(host.sets.dedicated)),
            what='of which none is taken')
        for host in both:
            self._fill(host, _CPUS_ON_TWO)
        for _round in range(_ROUNDS):
            with self._never_overfull(both):
                statuses = self._boot_at_once(_BOOTS_ON_TWO // 2 * both)
            self._check_round(both, statuses)
            for server_id in statuses:
                self.delete(server_id)

    def _check_round(self, both: Sequence[hosts.ComputeHost],
                     statuses: dict[str, str]) -> None:
        self.assertTrue(self._winners(statuses), statuses)
        for server_id in self._winners(statuses):
            self.check(server_id)
        self._assert_no_losers(both, statuses)
        for host in both:
            mine = self.guests_on(host)
            self.assert_clean(checks.disjoint({
                server_id: self.kept(server_id).pinned_cpus
                for server_id in mine}))
            held = sum(
                cloud.allocated(self.os_admin, server_id)[host.provider][
                    'PCPU'] for server_id in mine)
            now = cloud.read_host(self.os_admin, host).free['PCPU']
            self.assertEqual(len(host.sets.dedicated) - held, now, host.name)

    def _boot_at_once(self, where: Sequence[hosts.ComputeHost],
                      ) -> dict[str, str]:
        """Boot a server with one dedicated CPU on each host of a list.

        :returns: status by server
        """
        flavors = {host.name: self.flavor(1, self.specs_for(
            host, pinning_test.DEDICATED)) for host in where}
        with futures.ThreadPoolExecutor(len(where)) as pool:
            asked = [pool.submit(self.start, host, flavors[host.name])
                     for host in where]
        return {server_id: self.built(server_id)
                for server_id in [one.result() for one in asked]}

    @staticmethod
    def _winners(statuses: dict[str, str]) -> list[str]:
        return [server_id for server_id, status in statuses.items()
                if status == 'ACTIVE']

    def _assert_no_losers(self, where: Sequence[hosts.ComputeHost],
                          statuses: dict[str, str]) -> None:
        """Check that servers that did not get a CPU left nothing behind."""
        for server_id in set(statuses) - set(self._winners(statuses)):
            self.assertEqual({}, cloud.allocated(self.os_admin, server_id))
            for host in where:
                self.assert_not_on(host, server_id)

    @contextlib.contextmanager
    def _never_overfull(self, both: Sequence[hosts.ComputeHost]) -> Any:
        """Check that Placement never gives more CPUs than there are."""
        ended = threading.Event()
        least = {host.name: host.free['PCPU'] for host in both}

        def watch() -> None:
            while not ended.is_set():
                for host in both:
                    now = cloud.read_host(self.os_admin, host).free['PCPU']
                    least[host.name] = min(least[host.name], now)

        with futures.ThreadPoolExecutor(1) as pool:
            watching = pool.submit(watch)
            try:
                yield
            finally:
                ended.set()
        watching.result()
        self.assertFalse(
            {name: cpus for name, cpus in least.items() if cpus < 0},
            'Placement had so many CPUs fewer than none free; see "More in '
            'use than there is" in the guide to moving pinned guests')

    def _fill(self, host: hosts.ComputeHost, left: int) -> None:
        """Take all but some of the dedicated CPUs of a host.

        A guest takes those of one node, so there is one for each node; the
        largest come first, since they fit nowhere else.
        """
        per_node = self.machine_of(host).per_node(host.sets.dedicated)
        sizes = sorted(map(len, per_node.values()), reverse=True)
        while left:
            sizes[-1] -= (taken := min(left, sizes[-1]))
            left -= taken
            if not sizes[-1]:
                sizes.pop()
        for vcpus in sizes:
            self.boot(host, vcpus, pinning_test.DEDICATED)

    def _lift_quota(self) -> None:
        """Let this test's project have as many servers as it needs."""
        client = self.os_admin.quotas_client
        project_id = self.os_admin.credentials.project_id
        client.update_quota_set(
            project_id, cores=-1, instances=-1, ram=-1)
        self.addCleanup(client.delete_quota_set, project_id)
