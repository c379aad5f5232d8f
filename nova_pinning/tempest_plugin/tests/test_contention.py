# SPDX-License-Identifier: Apache-2.0
"""Several boots want the same CPU."""

from concurrent import futures

from nova_pinning.tempest_plugin import cloud
from nova_pinning.tempest_plugin import hosts
from nova_pinning.tempest_plugin import pinning_test

_BOOTS = 10


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
        self._fill(host)
        flavor_id = self.flavor(1, self.specs_for(host,
                                                  pinning_test.DEDICATED))
        with futures.ThreadPoolExecutor(_BOOTS) as pool:
            asked = [pool.submit(self.start, host, flavor_id)
                     for _number in range(_BOOTS)]
        server_ids = [one.result() for one in asked]
        statuses = {server_id: self.built(server_id)
                    for server_id in server_ids}
        winners = [server_id for server_id, status in statuses.items()
                   if status == 'ACTIVE']
        self.assertEqual(1, len(winners), statuses)
        self.check(winners[0])
        for server_id in set(server_ids) - set(winners):
            self.assertEqual({}, cloud.allocated(self.os_admin, server_id))
            self.assert_not_on(host, server_id)
        for server_id in {*self.guests_on(host), *server_ids}:
            self.delete(server_id)
        self.assert_whole(host)

    def _fill(self, host: hosts.ComputeHost) -> None:
        """Take all but one of the dedicated CPUs of a host.

        A guest takes those of one node, so there is one for each node; the
        largest come first, since they fit nowhere else.
        """
        per_node = self.machine_of(host).per_node(host.sets.dedicated)
        sizes = sorted(map(len, per_node.values()), reverse=True)
        sizes[-1] -= 1
        for vcpus in filter(None, sizes):
            self.boot(host, vcpus, pinning_test.DEDICATED)

    def _lift_quota(self) -> None:
        """Let this test's project have as many servers as it needs."""
        client = self.os_admin.quotas_client
        project_id = self.os_admin.credentials.project_id
        client.update_quota_set(
            project_id, cores=-1, instances=-1, ram=-1)
        self.addCleanup(client.delete_quota_set, project_id)
