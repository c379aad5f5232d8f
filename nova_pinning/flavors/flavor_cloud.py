# SPDX-License-Identifier: Apache-2.0
"""The flavors of a real cloud, through openstacksdk.

One microversion of the compute API is used whatever the cloud offers, so
that answers always have the same shape: 2.86 (Ussuri), the first in which
nova checks extra specs. Listings come with extra specs since 2.61.

Errors are sorted by what helps: errors.UnsettledError where the flavor has to
be looked at again, errors.RefusedError where nova will not do it, and
errors.CloudError where nothing will work. Two cases never get out of here:
requests that nova's rate limit turned away (429) are sent again when it says
so, and reading is repeated, since it changes nothing.
"""

from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
import dataclasses
import logging
import time
from typing import Any
import urllib.parse

from keystoneauth1 import exceptions as ksa_exceptions

from nova_pinning import errors
from nova_pinning.flavors import flavor_model

LOG = logging.getLogger(__name__)

MICROVERSION = '2.86'

#: How long to wait before a request is sent again, in seconds.
WAITS_S = (1.0, 2.0, 4.0, 8.0, 16.0)

#: The longest that a Retry-After header is believed.
_LONGEST_WAIT_S = 60.0

#: How often a listing is begun again because its pages changed under it.
_LISTINGS = 5

_TOO_MANY = (413, 429)
_NOT_NOW = (409, 500, 502, 503, 504)


class FlavorCloud:
    """A cloud as :mod:`nova_pinning.flavors.sync` wants it.

    :param connection: an openstack.connection.Connection
    :param name: how to call the cloud in messages
    :param waits_s: how long to wait before each further try of a request
    """

    def __init__(self, connection: Any, name: str, *,
                 waits_s: Sequence[float] = WAITS_S,
                 sleep: Callable[[float], None] = time.sleep) -> None:
        self.name = name
        self._connection = connection
        self._waits_s = waits_s
        self._sleep = sleep

    def microversion(self) -> int | None:
        """The highest version of its compute API, N of 2.N.

        :returns: None if it does not say
        :raises errors.CloudError: if it does not answer
        """
        try:
            found = self._connection.compute.get_endpoint_data()
        except ksa_exceptions.ClientException as error:
            raise errors.CloudError(str(error)) from error
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
            dataclasses.replace(flavor, projects=self._projects(flavor.id))
            if not flavor.is_public and with_projects(flavor) else flavor
            for flavor in self._listing())

    def _listing(self) -> list[flavor_model.Flavor]:
        for _listing in range(_LISTINGS):
            try:
                return list(self._pages())
            except errors.UnsettledError:
                # The last flavor of a page was deleted before the next.
                continue
        raise errors.CloudError('the list of flavors changes faster than it '
                                'can be read')

    def _pages(self) -> Iterator[flavor_model.Flavor]:
        query = {'is_public': 'None'}
        while True:
            body = self._read('/flavors/detail', query)
            for shown in body['flavors']:
                yield self._flavor(shown)
            if not body['flavors'] or not body.get('flavors_links'):
                return
            last = body['flavors'][-1]['id']
            if last == query.get('marker'):
                raise errors.CloudError('the list of flavors has no end')
            query['marker'] = last

    def _flavor(self, shown: Mapping[str, Any]) -> flavor_model.Flavor:
        if 'extra_specs' not in shown:
            raise errors.CloudError(
                'the cloud does not show the extra specs of flavors to this '
                'user, who needs the reader role at least')
        return flavor_model.Flavor(
            name=shown['name'],
            id=shown['id'],
            vcpus=shown['vcpus'],
            memory_mib=shown['ram'],
            disk_gib=shown['disk'],
            ephemeral_gib=shown['OS-FLV-EXT-DATA:ephemeral'],
            swap_mib=shown['swap'],
            # Empty where an old database has none.
            rxtx_factor=float(shown['rxtx_factor'] or 1.0),
            is_public=shown['os-flavor-access:is_public'],
            description=shown['description'] or '',
            extra_specs=shown['extra_specs'],
            where=errors.Location(f'cloud {self.name}',
                                  key=f'flavor {shown["name"]}'))

    def _projects(self, flavor_id: str) -> tuple[str, ...]:
        try:
            body = self._read(f'{_path(flavor_id)}/os-flavor-access')
        except errors.UnsettledError:
            # Gone since it was listed; whoever wants to change it will see.
            return ()
        return tuple(sorted(
            access['tenant_id'] for access in body['flavor_access']))

    def has_servers(self, flavor_id: str) -> bool:
        """Whether any server uses a flavor, whosever it is."""
        body = self._read('/servers', {
            'all_tenants': '1', 'flavor': flavor_id, 'limit': '1'})
        return bool(body['servers'])

    def create(self, flavor: flavor_model.Flavor) -> None:
        """Create it, without its extra specs and projects."""
        self._write('POST', '/flavors', {'flavor': {
            'name': flavor.name,
            'id': flavor.id,
            'vcpus': flavor.vcpus,
            'ram': flavor.memory_mib,
            'disk': flavor.disk_gib,
            'OS-FLV-EXT-DATA:ephemeral': flavor.ephemeral_gib,
            'swap': flavor.swap_mib,
            'rxtx_factor': flavor.rxtx_factor,
            'os-flavor-access:is_public': flavor.is_public,
            'description': flavor.description or None}})

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
                    f'{_path(flavor_id)}/os-extra_specs/{_quoted(key)}')

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
        trouble = ''
        for wait_s in (*self._waits_s, None):
            try:
                response = self._request('GET', path, params=query)
                if response.status_code in (400, 404):
                    raise errors.UnsettledError(_said(response))
                _check(response)
                return response.json()
            except _AgainError as error:
                trouble = str(error)
            except ValueError:
                trouble = f'the answer to GET {path} is not JSON'
            if wait_s is not None:
                LOG.warning('cloud %s: %s; trying again in %g s', self.name,
                            trouble, wait_s)
                self._sleep(wait_s)
        raise errors.CloudError(f'{trouble}, {len(self._waits_s) + 1} times')

    def _write(self, method: str, path: str, body: Any = None) -> None:
        try:
            response = self._request(method, path, json=body)
            if response.status_code in (404, 409):
                raise errors.UnsettledError(_said(response))
            _check(response)
        except _AgainError as error:
            raise errors.UnsettledError(str(error)) from error

    def _request(self, method: str, path: str, **content: Any) -> Any:
        """Send a request until nova's rate limit lets it through."""
        for wait_s in (*self._waits_s, None):
            try:
                # The first one also finds out where the API is.
                response = self._connection.compute.request(
                    path, method, microversion=MICROVERSION, raise_exc=False,
                    # All waiting is done here.
                    connect_retries=0, status_code_retries=0, **content)
            except ksa_exceptions.SSLError as error:
                raise errors.CloudError(str(error)) from error
            except (ksa_exceptions.ConnectionError,
                    ksa_exceptions.DiscoveryFailure) as error:
                raise _AgainError(str(error)) from error
            if response.status_code not in _TOO_MANY or wait_s is None:
                return response
            self._sleep(_retry_after_s(response, wait_s))
        raise AssertionError('unreachable')


class _AgainError(Exception):
    """A request that may succeed when it is sent again."""


def _path(flavor_id: str) -> str:
    return f'/flavors/{_quoted(flavor_id)}'


def _quoted(part: str) -> str:
    return urllib.parse.quote(part, safe='')


def _check(response: Any) -> None:
    status = response.status_code
    if status < 400:
        return
    said = _said(response)
    if status in _TOO_MANY or status in _NOT_NOW:
        raise _AgainError(said)
    if status == 406:
        raise errors.CloudError(
            f"the cloud's compute API does not know version {MICROVERSION} "
            '(Ussuri, 2020)')
    if status in (401, 403):
        raise errors.CloudError(said)
    raise errors.RefusedError(said)


def _said(response: Any) -> str:
    """What nova says, and to which request."""
    request = response.request
    try:
        # {'badRequest': {'code': 400, 'message': ...}}
        message = next(iter(response.json().values()))['message']
    except (AttributeError, LookupError, StopIteration, TypeError,
            ValueError):
        message = response.reason
    message = ' '.join(str(message).split()).rstrip('.')
    path = urllib.parse.urlsplit(request.url).path
    return f'{request.method} {path}: {response.status_code} {message}'


def _retry_after_s(response: Any, otherwise_s: float) -> float:
    # The header may also hold a date, which neither nova nor the usual
    # proxies send.
    value = response.headers.get('Retry-After', '')
    if value.isascii() and value.isdigit():
        return min(float(value), _LONGEST_WAIT_S)
    return otherwise_s
