# SPDX-License-Identifier: Apache-2.0
"""The flavors of a real cloud, through openstacksdk.

One microversion of the compute API is used whatever the cloud offers, so
that answers always have the same shape: 2.86 (Ussuri), the first in which
nova checks extra specs. Listings come with extra specs since 2.61.

Reading is repeated, since it changes nothing.
"""

from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Mapping
import dataclasses
import functools
from typing import Any

from nova_pinning import errors
from nova_pinning.flavors import cloud_requests
from nova_pinning.flavors import flavor_model
from nova_pinning.flavors import foreign
from nova_pinning.flavors import listing
from nova_pinning.placement import client
from nova_pinning.placement import provider_reader

MICROVERSION = '2.86'

#: What nova says of a resize from its first request on until it is confirmed
#: or reverted.
_UNDER_WAY = ('pre-migrating', 'migrating', 'post-migrating', 'finished',
              'confirming', 'reverting')

#: Answers to a GET after which it is sent again.
_NOT_NOW = (409, *provider_reader.NOT_NOW)

#: What the compute API calls a flavor's properties.
_API = foreign.NOVA_WORDS | {
    'ephemeral_gib': 'OS-FLV-EXT-DATA:ephemeral',
    'is_public': 'os-flavor-access:is_public'}


class FlavorCloud:
    """A cloud as :mod:`nova_pinning.flavors.sync` wants it.

    :param connection: an openstack.connection.Connection
    :param name: how to call the cloud in messages
    """

    def __init__(self, connection: Any, name: str) -> None:
        self.name = name
        self._connection = connection

    @functools.cached_property
    def _compute(self) -> Any:
        # This asks which versions there are.
        with cloud_requests.translated():
            return self._connection.compute

    def microversion(self) -> int | None:
        """The highest version of its compute API, N of 2.N.

        :returns: None if it does not say
        :raises errors.CloudError: if it does not answer
        """
        with cloud_requests.translated():
            found = self._compute.get_endpoint_data()
        newest = found.max_microversion if found else None
        return newest[1] if newest and newest[0] == 2 else None

    def flavors(
        self, with_projects: Callable[[flavor_model.Flavor], bool],
    ) -> tuple[flavor_model.Flavor, ...]:
        """All flavors, also the private ones if the user may see them.

        :param with_projects: the private flavors whose projects are to be
            read, which takes a request each; the others come without
        :raises errors.CloudError: if they cannot be had
        """
        return tuple(
            self._with_projects(flavor) if with_projects(flavor) else flavor
            for flavor in map(self._flavor, cloud_requests.listed(
                self._read, '/flavors/detail', 'flavors',
                {'is_public': 'None'})))

    def flavor(self, flavor_id: str) -> flavor_model.Flavor | None:
        """A flavor with its projects, None if there is none.

        :raises errors.CloudError: if the cloud does not tell
        """
        try:
            shown = self._read(_path(flavor_id))['flavor']
        except errors.UnsettledError:
            return None
        return self._with_projects(self._flavor(shown))

    def _flavor(self, shown: Mapping[str, Any]) -> flavor_model.Flavor:
        if 'extra_specs' not in shown:
            raise errors.CloudError(
                'the cloud does not show the extra specs of flavors to this '
                'user, who needs the reader role at least')
        return flavor_model.Flavor(
            # Empty where an old database has none.
            **{field: listing.DEFAULTS[field] if shown[key] in (None, '')
               else shown[key] for field, key in _API.items()},
            extra_specs=shown['extra_specs'],
            where=errors.Location(f'cloud {self.name}',
                                  key=f'flavor {shown["name"]}'))

    def _with_projects(
            self, flavor: flavor_model.Flavor) -> flavor_model.Flavor:
        if flavor.is_public:
            return flavor
        try:
            body = self._read(f'{_path(flavor.id)}/os-flavor-access')
        except errors.UnsettledError:
            # Gone since it was listed; whoever wants to change it will see.
            return flavor
        return dataclasses.replace(flavor, projects=tuple(sorted(
            access['tenant_id'] for access in body['flavor_access'])))

    def servers(self, flavor_id: str) -> tuple[str, ...]:
        """The servers that use a flavor, whosever they are.

        Those that can still be restored count.

        :returns: 'name (id)' of each
        """
        return tuple(map(_server, self._servers(flavor=flavor_id,
                                                soft_deleted='1')))

    def own_extra_specs(self, flavor_id: str) -> tuple[
            tuple[str, Mapping[str, str] | None], ...]:
        """What servers have in their own copies of a flavor.

        :returns: 'name (id)' of each, and the extra specs, None if they
            cannot be told
        """
        return tuple(
            (_server(server), server.get('flavor', {}).get('extra_specs'))
            for server in self._servers('/servers/detail', flavor=flavor_id,
                                        soft_deleted='1'))

    def resizing(self, flavor: flavor_model.Flavor) -> tuple[str, ...]:
        """The servers in a resize from or to a flavor that may be this one.

        Nova counts a server that has been resized under its new flavor only,
        though it can be reverted, and one that is on its way under the old.
        Its API does not tell the other flavor but by a number that it shows
        nowhere else. What can be told is from Placement, where either side of
        a resize has its allocation: a flavor with other memory is another.

        :returns: 'name (id)' of each
        """
        # Asked for both at once, nova mixes up servers and tasks.
        return tuple(
            _server(server) for status in ('RESIZE', 'VERIFY_RESIZE')
            for server in self._servers(status=status)
            if self._may_be_resized(server['id'], flavor))

    def _servers(self, path: str = '/servers',
                 **query: str) -> Iterator[dict[str, Any]]:
        return cloud_requests.listed(self._read, path, 'servers',
                                     {'all_tenants': '1', **query})

    def _may_be_resized(self, server_id: str,
                        flavor: flavor_model.Flavor) -> bool:
        newest = next(iter(self._read('/os-migrations', {
            'instance_uuid': server_id, 'limit': '1'})['migrations']), None)
        # The record of a resize comes after the server's status.
        if newest is None or newest['status'] not in _UNDER_WAY:
            return True
        if newest['migration_type'] != 'resize':
            return False
        try:
            with cloud_requests.translated():
                placement = client.PlacementClient(self._connection.placement)
            memory_mib = [
                placement.allocation(consumer).get('MEMORY_MB')
                for consumer in (newest['uuid'], server_id)]
        except errors.CloudError:
            return True
        return (None in memory_mib or flavor.memory_mib in memory_mib
                or any(key.startswith('resources')
                       for key in flavor.extra_specs))

    def create(self, flavor: flavor_model.Flavor) -> None:
        """Create it, without its extra specs and projects."""
        self._write('POST', '/flavors', {'flavor': {
            key: getattr(flavor, field) for field, key in _API.items()
        } | {'description': flavor.description or None}})

    def delete(self, flavor_id: str) -> None:
        """Delete a flavor."""
        self._write('DELETE', _path(flavor_id))

    def set_extra_specs(self, flavor_id: str,
                        extra_specs: Mapping[str, str]) -> None:
        """Add or change extra specs, all or none."""
        self._write('POST', f'{_path(flavor_id)}/os-extra_specs',
                    {'extra_specs': dict(extra_specs)})

    def unset_extra_spec(self, flavor_id: str, key: str) -> None:
        """Take an extra spec away."""
        self._write('DELETE',
                    f'{_path(flavor_id)}/os-extra_specs/'
                    f'{cloud_requests.quoted(key)}')

    def set_description(self, flavor_id: str, description: str) -> None:
        """Change the description."""
        self._write('PUT', _path(flavor_id),
                    {'flavor': {'description': description or None}})

    def add_project(self, flavor_id: str, project: str) -> None:
        """Let a project use a private flavor."""
        self._write('POST', f'{_path(flavor_id)}/action',
                    {'addTenantAccess': {'tenant': project}})

    def remove_project(self, flavor_id: str, project: str) -> None:
        """No longer let a project use a private flavor."""
        self._write('POST', f'{_path(flavor_id)}/action',
                    {'removeTenantAccess': {'tenant': project}})

    # Requests.

    def _read(self, path: str,
              query: Mapping[str, str] | None = None) -> Any:
        """The body of the answer to a GET.

        :raises errors.UnsettledError: if what it names is not there
        """
        return cloud_requests.got(
            self._compute, path, params=query,
            microversion=MICROVERSION,
            connect_retries=provider_reader.RETRIES,
            status_code_retries=provider_reader.RETRIES,
            retriable_status_codes=_NOT_NOW)

    def _write(self, method: str, path: str, body: Any = None) -> None:
        cloud_requests.send_once(self._compute, method, path, body,
                                 microversion=MICROVERSION)


def _server(shown: Mapping[str, Any]) -> str:
    # Of a cell that does not answer nothing but the id is known.
    return f'{shown.get("name", "?")} ({shown["id"]})'


def _path(flavor_id: str) -> str:
    return f'/flavors/{cloud_requests.quoted(flavor_id)}'
