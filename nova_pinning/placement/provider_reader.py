# SPDX-License-Identifier: Apache-2.0
"""Requests to Placement, and which of its providers have which traits.

That is all that nova-scheduler asks; the rest is in ``client``.

One microversion is used whatever Placement offers, so that answers always
have the same shape: 1.22 (Rocky), the first with forbidden traits.
Generations of providers come with traits since 1.6 and with aggregates since
1.19, and providers can be found by trait since 1.18.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
import urllib.parse

from keystoneauth1 import exceptions as ksa_exceptions

from nova_pinning import compat
from nova_pinning import errors

MICROVERSION = '1.22'

#: How often keystoneauth1 sends a request again, waiting longer each time, and
#: after which answers.
RETRIES = 4
NOT_NOW = (429, 500, 502, 503, 504)


@compat.dataclass(frozen=True, slots=True)
class ResourceProvider:
    """A resource provider.

    :param parent: UUID of the provider that it is a part of, None for the
        root of a tree, such as a compute node
    """

    uuid: str
    name: str
    generation: int
    parent: str | None = None


class PlacementReader:
    """A cloud's Placement, to find providers in.

    All methods raise errors.CloudError when it cannot be worked with, which
    is errors.RefusedError when it will not do what is asked. They can be
    called from several threads at once.

    :param adapter: a keystoneauth1.adapter.Adapter for Placement, or
        openstacksdk's proxy of it
    :param retries: how often a request is sent again that was not answered,
        or with an error that may pass
    """

    def __init__(self, adapter: Any, *, retries: int = RETRIES) -> None:
        self._adapter = adapter
        self._options: dict[str, Any] = {
            'connect_retries': retries, 'status_code_retries': retries,
            'retriable_status_codes': NOT_NOW}

    def providers(
        self, *, required: str = '', member_of: str = '',
    ) -> tuple[ResourceProvider, ...]:
        """The providers that meet all that is given; Placement has no pages.

        :param required: a trait that they have
        :param member_of: UUID of an aggregate that they are in
        """
        query = {'required': required, 'member_of': member_of}
        body = self._get('/resource_providers', {
            key: value for key, value in query.items() if value})
        return tuple(
            ResourceProvider(
                provider['uuid'], provider['name'], provider['generation'],
                provider['parent_provider_uuid'])
            for provider in body['resource_providers'])

    def known_traits(self, prefix: str, *,
                     is_used: bool = True) -> tuple[str, ...]:
        """The traits with this prefix that there are.

        :param is_used: only those that any provider has
        """
        query = {'name': f'startswith:{prefix}'}
        if is_used:
            query['associated'] = 'true'
        body = self._get('/traits', query)
        return tuple(body['traits'])

    def traits_by_provider(self, prefix: str) -> dict[str, frozenset[str]]:
        """Which of the traits with this prefix each provider has.

        One request for each trait, however many providers there are.

        :returns: traits by the UUID of the provider, for those that have any
        """
        by_provider: dict[str, set[str]] = {}
        for trait in self.known_traits(prefix):
            for provider in self.providers(required=trait):
                by_provider.setdefault(provider.uuid, set()).add(trait)
        return {uuid: frozenset(names) for uuid, names in by_provider.items()}

    def _get(self, path: str, query: Mapping[str, str] | None = None) -> Any:
        response = self._request('GET', path, params=query)
        self._check(response)
        try:
            return response.json()
        except ValueError as error:
            raise errors.CloudError(
                f'Placement: the answer to GET {path} is not JSON') from error

    def _request(self, method: str, path: str, **content: Any) -> Any:
        try:
            return self._adapter.request(
                path, method, microversion=MICROVERSION, raise_exc=False,
                headers={'Accept': 'application/json'}, **self._options,
                **content)
        except ksa_exceptions.ClientException as error:
            raise errors.CloudError(f'Placement: {error}') from error

    @staticmethod
    def _check(response: Any) -> None:
        status = response.status_code
        if status < 400:
            return
        request = response.request
        try:
            message = response.json()['errors'][0]['detail']
        except (LookupError, TypeError, ValueError):
            message = response.reason
        path = urllib.parse.urlsplit(request.url).path
        said = (f'Placement: {request.method} {path}: {status} '
                f'{" ".join(str(message).split()).rstrip(".")}')
        if status == 403:
            said += '; an administrator may'
        if status in (401, 403, 406) or status in NOT_NOW:
            raise errors.CloudError(said)
        raise errors.RefusedError(said)
