# SPDX-License-Identifier: Apache-2.0
"""A real cloud's hosts, aggregates and servers, through openstacksdk.

keystoneauth1 does the retries. What is asked of the compute API is asked at
one microversion: 2.98 (Epoxy), the first in which servers come with the
properties of their images, or the newest that the cloud knows, which must be
2.86 (Ussuri) at least, as for the flavors. Only to change an aggregate
openstacksdk takes the oldest, 2.1, which has all that it needs.
"""

from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Mapping
from typing import Any

from openstack import utils

from nova_pinning import errors
from nova_pinning.flavors import cloud_requests
from nova_pinning.flavors import flavor_cloud
from nova_pinning.flavors import flavor_model
from nova_pinning.model import hostclass
from nova_pinning.placement import client
from nova_pinning.placement import placement_traits
from nova_pinning.placement import provider_reader
from nova_pinning.segregation import segregation_model

#: The newest microversion that there is any use for.
MICROVERSION = '2.98'
#: The oldest that will do.
LEAST_MICROVERSION = flavor_cloud.MICROVERSION

#: What nova says of a migration whose server is already said to be elsewhere,
#: while it will be able to go back, can, or does.
_REVERTIBLE = ('post-migrating', 'finished', 'reverting')

#: How long to wait for each answer where clouds.yaml (api_timeout) does not
#: say. Nova takes seconds to list the servers of a host, not minutes.
_TIMEOUT_SECONDS = 60


class SegregationCloud:
    """A cloud's compute API and Placement together.

    All methods, and to make one, raise errors.CloudError or one of its kinds.
    Those that read can be called from several threads at once.

    :param connection: an openstack.connection.Connection; from then on it
        asks the compute API for one microversion, repeats what failed, and
        answers nothing from its cache
    :param name: how to call the cloud in messages
    """

    def __init__(self, connection: Any, name: str) -> None:
        self.name = name
        self._connection = connection
        # Users can set one in clouds.yaml. Who looks for servers once more
        # must not get the list of before.
        connection.cache_enabled = False
        if connection.session.timeout is None:
            connection.session.timeout = _TIMEOUT_SECONDS
        with cloud_requests.translated():
            self._compute = connection.compute
            self.placement = client.PlacementClient(connection.placement)
            self._compute.connect_retries = provider_reader.RETRIES
            self._compute.status_code_retries = provider_reader.RETRIES
            self._compute.retriable_status_codes = provider_reader.NOT_NOW
            self._compute.default_microversion = _microversion(self._compute)

    # What there is.

    def aggregates(self) -> tuple[segregation_model.HostAggregate, ...]:
        """All host aggregates, by name."""
        with cloud_requests.translated():
            aggregates = [
                _aggregate(aggregate)
                for aggregate in self._compute.aggregates()]
        return tuple(sorted(
            aggregates,
            key=lambda aggregate: (aggregate.name, aggregate.id)))

    def hosts(self) -> tuple[segregation_model.MarkedHost, ...]:
        """All compute nodes but bare metal ones, by name.

        A few requests in all, and one for each ``CUSTOM_PINNING_`` trait.
        """
        aggregates = self.aggregates()
        traits = self.placement.traits_by_provider(placement_traits.PREFIX)
        providers = {provider.uuid for provider in self.placement.providers()}
        hosts = [
            self._host(hypervisor, aggregates, traits, providers)
            for hypervisor in self._hypervisors()]
        return tuple(sorted(hosts, key=lambda host: (host.name, host.node)))

    def bare_metal(self) -> int:
        """How many compute nodes are Ironic's, and so of neither class."""
        return len(self._hypervisors(are_bare_metal=True))

    def _hypervisors(self, are_bare_metal: bool = False) -> list[Any]:
        with cloud_requests.translated():
            return [node for node in self._compute.hypervisors(details=True)
                    if hostclass.is_bare_metal(node.hypervisor_type)
                    is are_bare_metal]

    @staticmethod
    def _host(shown: Any, aggregates: tuple[segregation_model.HostAggregate,
                                            ...],
              traits: Mapping[str, frozenset[str]],
              providers: set[str]) -> segregation_model.MarkedHost:
        name = shown.service_details['host']
        own = traits.get(shown.id, frozenset())
        return segregation_model.MarkedHost(
            name=name,
            node=shown.name,
            provider=shown.id,
            traits=own if shown.id in providers else None,
            aggregates=tuple(aggregate for aggregate in aggregates
                             if name in aggregate.hosts))

    def servers(self,
                host: str = '') -> Iterator[segregation_model.HostedServer]:
        """The servers of all projects, page by page.

        :param host: only those on this compute service
        """
        return map(_server, self._shown_servers(host))

    def _shown_servers(self, host: str) -> Iterator[dict[str, Any]]:
        """The same as nova shows them."""
        # openstacksdk takes milliseconds to make one of its Server objects,
        # which is minutes for a whole cloud.
        return cloud_requests.listed(
            lambda path, query: cloud_requests.got(
                self._compute, path, params=query),
            '/servers/detail', 'servers',
            {'all_tenants': '1', **({'host': host} if host else {})})

    def server(self, server: str) -> segregation_model.HostedServer | None:
        """A server of any project, None if there is no such server.

        :param server: its id
        """
        try:
            shown = cloud_requests.got(self._compute, (
                f'/servers/{cloud_requests.quoted(server)}'))['server']
        except errors.UnsettledError:
            return None
        # A caller that asks for one server must not take one whose cell does
        # not answer for harmless.
        check_shown(shown)
        return _server(shown)

    def revertible(self, host: str) -> Mapping[str, str]:
        """The servers that may still come back to the host that they left.

        Until a cold migration or a resize is confirmed, it can be reverted.
        Placement then keeps what the server had under the migration's UUID.

        :param host: name of the compute service that they left
        :returns: ids of servers, by the UUID of the migration
        """
        with cloud_requests.translated():
            return {
                migration.uuid: migration.server_id
                for status in _REVERTIBLE
                for migration in self._compute.migrations(host=host,
                                                          status=status)
                if migration.source_compute == host}

    def topology(self, server: str) -> Mapping[str, Any] | None:
        """Where a server's NUMA cells are; None if it is gone.

        :param server: its id
        """
        try:
            topology: Mapping[str, Any] = cloud_requests.got(
                self._compute,
                f'/servers/{cloud_requests.quoted(server)}/topology')
        except errors.UnsettledError:
            return None
        if any('host_node' not in node or 'cpu_pinning' not in node
               for node in topology['nodes']):
            raise errors.CloudError(
                'the cloud does not show to this user which host CPUs a '
                'server is pinned to (policy '
                'compute:server:topology:host:index)')
        return topology

    def flavors(self) -> tuple[flavor_model.Flavor, ...]:
        """All flavors, without the projects of private ones."""
        return flavor_cloud.FlavorCloud(self._connection, self.name).flavors(
            lambda flavor: False)

    def members(self,
                aggregate: segregation_model.HostAggregate) -> frozenset[str]:
        """The UUIDs of the providers that Placement has in an aggregate."""
        return frozenset(
            provider.uuid
            for provider in self.placement.providers(member_of=aggregate.uuid))

    # Changes; each can be repeated.

    def create_aggregate(self, name: str) -> segregation_model.HostAggregate:
        """Create a host aggregate, without an availability zone.

        :returns: it, or the one that has the name already
        """
        try:
            with cloud_requests.translated():
                return _aggregate(self._compute.create_aggregate(name=name))
        except errors.UnsettledError:
            for aggregate in self.aggregates():
                if aggregate.name == name:
                    return aggregate
            raise

    def set_metadata(self, aggregate: segregation_model.HostAggregate,
                     metadata: Mapping[str, str | None]) -> None:
        """Set some of an aggregate's metadata; None takes a key away."""
        with cloud_requests.translated():
            self._compute.set_aggregate_metadata(aggregate.id, dict(metadata))

    def add_host(self, aggregate: segregation_model.HostAggregate,
                 host: str) -> None:
        """Put a host into an aggregate; fine if it is there."""
        self._move(self._compute.add_host_to_aggregate, aggregate, host,
                   is_member=True)

    def remove_host(self, aggregate: segregation_model.HostAggregate,
                    host: str) -> None:
        """Take a host out of an aggregate; fine if it is not there."""
        self._move(self._compute.remove_host_from_aggregate, aggregate, host,
                   is_member=False)

    def _move(self, action: Callable[[int, str], Any],
              aggregate: segregation_model.HostAggregate, host: str, *,
              is_member: bool) -> None:
        try:
            with cloud_requests.translated():
                action(aggregate.id, host)
        except errors.UnsettledError as error:
            # It is as it should be already (409 or 404), or nova has a reason
            # not to do it, such as servers that would change their
            # availability zone.
            members = next((member.hosts for member in self.aggregates()
                            if member.id == aggregate.id), frozenset())
            if (host in members) is not is_member:
                raise errors.RefusedError(str(error)) from error


def check_shown(server: Mapping[str, Any]) -> None:
    """Make sure that a server is shown with its host and its flavor.

    :param server: as nova shows it
    :raises errors.CloudError: if its cell does not answer, or the user may
        not see them
    """
    if 'flavor' not in server:
        raise errors.CloudError(
            f'the cell of server {server["id"]} does not answer')
    if 'OS-EXT-SRV-ATTR:host' not in server:
        raise errors.CloudError(
            'the cloud does not show to this user which hosts servers are on '
            '(policy os_compute_api:os-extended-server-attributes)')
    if 'extra_specs' not in server['flavor']:
        raise errors.CloudError(
            'the cloud does not show to this user the extra specs of the '
            'flavors of servers (policy '
            'os_compute_api:os-flavor-extra-specs:index)')


def _server(shown: Mapping[str, Any]) -> segregation_model.HostedServer:
    if 'flavor' not in shown:
        # Its cell does not answer. Nothing else is shown of it.
        return segregation_model.HostedServer(
            id=shown['id'], name='', project=shown.get('tenant_id', ''),
            host='', flavor='', host_class=None, is_certain=False,
            status=shown.get('status', ''))
    check_shown(shown)
    flavor = shown['flavor']
    # '' for a server that boots from a volume.
    image = shown.get('image') or {}
    host_class, is_certain = segregation_model.server_class(
        flavor['extra_specs'], image.get('properties'))
    return segregation_model.HostedServer(
        id=shown['id'], name=shown['name'], project=shown['tenant_id'],
        host=shown['OS-EXT-SRV-ATTR:host'] or '',
        flavor=flavor['original_name'], host_class=host_class,
        is_certain=is_certain, status=shown['status'],
        has_cells=segregation_model.has_cells(
            flavor['extra_specs'], image.get('properties')))


def _aggregate(shown: Any) -> segregation_model.HostAggregate:
    return segregation_model.HostAggregate(
        id=shown.id, uuid=shown.uuid, name=shown.name,
        hosts=frozenset(shown.hosts or ()), metadata=shown.metadata or {})


def _microversion(compute: Any) -> str:
    """The microversion to use.

    :raises errors.CloudError: if the cloud's are too old
    """
    newest = utils.maximum_supported_microversion(compute, MICROVERSION)
    if newest is None:
        raise errors.CloudError('the compute API cannot be reached, or does '
                                'not say which versions it has')
    if _number(newest) < _number(LEAST_MICROVERSION):
        raise errors.CloudError(
            f"the cloud's compute API knows versions up to {newest}; "
            f'{LEAST_MICROVERSION} (Ussuri, 2020) is needed')
    return str(newest)


def _number(microversion: str) -> tuple[int, ...]:
    return tuple(map(int, microversion.split('.')))
