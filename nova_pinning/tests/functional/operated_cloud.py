# SPDX-License-Identifier: Apache-2.0
"""The demo's cloud, with what else tests do to one."""

from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
import typing as ty

# Before nova: it settles what kind of threads nova's harness runs on.
from demo import threads  # noqa: F401 isort: skip

from nova import objects
from nova.tests.functional.api import client as api_client

from demo import cloud


class Cloud(cloud.Cloud):
    """A cloud whose hosts fail, and whose guests go through all moves."""

    def update_resources(self) -> None:
        """Let each nova-compute report what it has, as each minute."""
        self.stage._run_periodics()

    def usages(self, host: str) -> dict[str, int]:
        """What Placement says is in use on a host, per resource class."""
        return dict(self._placement(host, 'usages')['usages'])

    def inventories(self, host: str) -> dict[str, dict[str, ty.Any]]:
        """What Placement says a host has, per resource class."""
        return dict(self._placement(host, 'inventories')['inventories'])

    def allocations(self, host: str) -> dict[str, dict[str, int]]:
        """What Placement says each server or migration has of a host.

        :returns: amounts per resource class, by the UUID of what has them
        """
        return {consumer: dict(allocation['resources'])
                for consumer, allocation in self._placement(
                    host, 'allocations')['allocations'].items()}

    def change_traits(self, host: str, add: Iterable[str] = (),
                      remove: Iterable[str] = ()) -> None:
        """Give a host's provider traits and take others, in one request."""
        add, remove = frozenset(add), frozenset(remove)
        for trait in add:
            self.stage._create_trait(trait)
        provider = self.stage.compute_rp_uuids[host]

        def done() -> bool:
            traits = self.traits(host).difference(remove).union(add)
            # Not if nova-compute changes the provider at the same moment,
            # which Placement answers with 409 or even 500.
            return bool(self.stage._set_provider_traits(
                provider, sorted(traits)).status == 200)

        if not done():
            self._wait(f'the traits of {host} to change', done)

    def fail_host(self, name: str) -> None:
        """Let a host's nova-compute end, and nova know that it has."""
        self.stage.computes[name].stop()
        self._force_down(name, True)

    def recover_host(self, name: str) -> None:
        """Start the nova-compute of a host that had failed.

        Guests that were evacuated meanwhile are cleaned up.
        """
        # While guests are still to be cleaned up, nova lets no host up.
        self.restart_host(name)
        self._force_down(name, False)

    def _force_down(self, host: str, is_down: bool) -> None:
        api = self.stage.admin_api
        service, = api.get_services('nova-compute', host)
        api.put_service_force_down(service['id'], is_down)

    def create_aggregate(self, name: str, members: Sequence[str],
                         metadata: Mapping[str, str]) -> int:
        """Put hosts into a new aggregate with this metadata.

        :returns: its id
        """
        api = self.stage.admin_api
        aggregate: int = api.post_aggregate(
            {'aggregate': {'name': name}})['id']
        for host in members:
            api.add_host_to_aggregate(aggregate, host)
        api.post_aggregate_action(
            aggregate, {'set_metadata': {'metadata': dict(metadata)}})
        return aggregate

    def create_image(self, properties: Mapping[str, str]) -> str:
        """Create an image with properties such as hw_cpu_policy.

        :returns: its id
        """
        return self.stage.glance.create(None, {
            'name': 'image', 'container_format': 'bare',
            'disk_format': 'qcow2', 'min_disk': 0, 'min_ram': 0, 'size': 1,
            'status': 'active', 'visibility': 'public', 'is_public': True,
            'properties': dict(properties)})['id']

    def boot_many(self, name: str, flavor: str, count: int,
                  image: str | None = None) -> list[cloud.Server]:
        """Boot several servers with one request.

        :param image: id of the image, None for any
        :returns: the servers ``name-1``, ``name-2``, ... in this order,
            each ACTIVE or in ERROR
        """
        body = self.stage._build_server(
            name, flavor_id=flavor, networks='none',
            image_uuid=image or self.stage.glance.image1['id'])
        body.update(min_count=count, max_count=count,
                    return_reservation_id=True)
        reservation = self.stage.api.post_server(
            {'server': body})['reservation_id']
        found = []
        for one in self.stage.api.get_servers(
                search_opts={'reservation_id': reservation}):
            # What was written of it may have been heard for another one.
            self.stage.written.set()
            found.append(self.settle(one['id'], 'ACTIVE', 'ERROR'))
        return sorted(found, key=lambda one: (len(one.name), one.name))

    def delete(self, server: cloud.Server) -> None:
        """Delete a server and wait until nothing is held for it."""
        self.stage.api.delete_server(server.id)
        self._wait(f'{server.name} to go', lambda: not self._exists(server))

    def _exists(self, server: cloud.Server) -> bool:
        try:
            self.stage.api.get_server(server.id)
        except api_client.OpenStackApiNotFoundException:
            # Nova gives the resources back after the server has gone.
            return bool(
                self.stage._get_allocations_by_server_uuid(server.id))
        return True

    def resize(self, server: cloud.Server, flavor: str,
               confirm: bool = True) -> cloud.Server:
        """Give a server another flavor, which may move it.

        :param confirm: as for :meth:`migrate`
        :raises RefusedError: when no host would do
        """
        return self._move(
            server, {'resize': {'flavorRef': flavor}}, confirm)

    def revert(self, server: cloud.Server) -> cloud.Server:
        """Take a server that was migrated or resized back."""
        return self._act(server, {'revertResize': None})

    def migrate_live(self, server: cloud.Server) -> cloud.Server:
        """Move a server to another host while it runs.

        :returns: the server; where it was, if all hosts tried have failed
        :raises RefusedError: when no other host would do
        """
        return self._act(server, {'os-migrateLive': {
            'host': None, 'block_migration': 'auto'}})

    def evacuate(self, server: cloud.Server) -> cloud.Server:
        """Start a server whose host has failed on another one.

        :returns: the server; in ERROR, if no other host would do
        """
        moved = self._act(server, {'evacuate': {}})
        if moved.status == 'SHUTOFF':
            moved = self._act(server, {'os-start': None})
        return moved

    def shelve(self, server: cloud.Server) -> cloud.Server:
        """Take a server from its host; its disk is kept as an image.

        :returns: the server, in SHELVED_OFFLOADED
        """
        return self._act(server, {'shelve': None})

    def unshelve(self, server: cloud.Server) -> cloud.Server:
        """Give a shelved server a host again.

        :returns: the server; still shelved, if no host would do
        """
        return self._act(server, {'unshelve': None})

    def guest_topology(
            self, server: cloud.Server) -> objects.InstanceNUMATopology | None:
        """Where a server's vCPUs and memory are, None when they float."""
        instance = objects.Instance.get_by_uuid(
            cloud._context(), server.id, expected_attrs=['numa_topology'])
        return instance.numa_topology
