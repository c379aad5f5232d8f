#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

"""A real cloud's hosts, aggregates and servers, through openstacksdk.

openstacksdk does the paging, keystoneauth1 the retries. The compute API is
used at the newest version that openstacksdk and the cloud both know; 2.61
(Rocky) is the least, and from 2.98 (Epoxy) on servers come with the
properties of their images.
"""

from collections.abc import Iterator
from collections.abc import Mapping
import contextlib
from typing import Any

from keystoneauth1 import exceptions as ksa_exceptions
from openstack import exceptions as sdk_exceptions

from nova_pinning import errors
from nova_pinning.flavors import cloud as flavors_cloud
from nova_pinning.flavors import guest_class
from nova_pinning.flavors import model as flavor_model
from nova_pinning.model import hostclass
from nova_pinning.placement import client
from nova_pinning.placement import traits as placement_traits
from nova_pinning.segregation import model

#: Servers in one answer; nova's own limit is 1000 unless configured.
_PAGE = 1000
#: How often a listing is begun again because its pages changed under it.
_LISTINGS = 5

_RETRIES = 4
_NOT_NOW = (429, 500, 502, 503, 504)


class Cloud:
    """A cloud's compute API and Placement together.

    All methods raise errors.CloudError, or one of its kinds. Those that read
    can be called from several threads at once.

    :param connection: an openstack.connection.Connection
    :param name: how to call the cloud in messages
    """

    def __init__(self, connection: Any, name: str) -> None:
        self.name = name
        self._connection = connection
        with _translated():
            self._compute = connection.compute
            self.placement = client.Placement(connection.placement)
        self._compute.connect_retries = _RETRIES
        self._compute.status_code_retries = _RETRIES
        self._compute.retriable_status_codes = _NOT_NOW

    # What there is.

    def aggregates(self) -> tuple[model.Aggregate, ...]:
        """All host aggregates, by name."""
        with _translated():
            found = [_aggregate(one) for one in self._compute.aggregates()]
        return tuple(sorted(found, key=lambda one: (one.name, one.id)))

    def hosts(self) -> tuple[model.Host, ...]:
        """All compute nodes but bare metal ones, by name.

        A few requests in all, and one for each CUSTOM_PINNING_ trait.
        """
        aggregates = self.aggregates()
        traits = self.placement.traits_by_provider(placement_traits.PREFIX)
        providers = {one.uuid for one in self.placement.providers()}
        with _translated():
            hypervisors = list(self._compute.hypervisors(details=True))
        found = [self._host(one, aggregates, traits, providers)
                 for one in hypervisors if one.hypervisor_type != 'ironic']
        return tuple(sorted(found, key=lambda one: (one.name, one.node)))

    @staticmethod
    def _host(shown: Any, aggregates: tuple[model.Aggregate, ...],
              traits: Mapping[str, frozenset[str]],
              providers: set[str]) -> model.Host:
        name = shown.service_details['host']
        own = traits.get(shown.id, frozenset())
        return model.Host(
            name=name, node=shown.name, provider=shown.id,
            traits=own if shown.id in providers else None,
            aggregates=tuple(
                one for one in aggregates if name in one.hosts))

    def servers(self, host: str = '') -> Iterator[model.Server]:
        """The servers of all projects, page by page.

        :param host: only those on this compute service
        """
        query = {'host': host} if host else {}
        known: set[str] = set()
        for _listing in range(_LISTINGS):
            try:
                with _translated():
                    for shown in self._compute.servers(
                            details=True, all_projects=True, limit=_PAGE,
                            **query):
                        if shown.id not in known:
                            known.add(shown.id)
                            yield _server(shown)
                return
            except errors.UnsettledError:
                # The last server of a page was deleted before the next.
                continue
        raise errors.CloudError('the list of servers changes faster than it '
                                'can be read')

    def has_pinned_cpus(self, server: str) -> bool:
        """Whether any vCPU of a server is pinned to a host CPU.

        :param server: its id
        """
        raise NotImplementedError

    def flavors(self) -> tuple[flavor_model.Flavor, ...]:
        """All flavors, without the projects of private ones."""
        return flavors_cloud.Cloud(self._connection, self.name).flavors(
            lambda flavor: False)

    def members(self, aggregate: model.Aggregate) -> frozenset[str]:
        """The UUIDs of the providers that Placement has in an aggregate."""
        return frozenset(one.uuid for one in self.placement.providers(
            member_of=aggregate.uuid))

    # Changes; each can be repeated.

    def create_aggregate(self, name: str) -> model.Aggregate:
        """Create a host aggregate, without an availability zone."""
        raise NotImplementedError

    def set_metadata(self, aggregate: model.Aggregate,
                     metadata: Mapping[str, str | None]) -> None:
        """Set some of an aggregate's metadata; None takes a key away."""
        raise NotImplementedError

    def add_host(self, aggregate: model.Aggregate, host: str) -> None:
        """Put a host into an aggregate; fine if it is there."""
        raise NotImplementedError

    def remove_host(self, aggregate: model.Aggregate, host: str) -> None:
        """Take a host out of an aggregate; fine if it is not there."""
        raise NotImplementedError


def _aggregate(shown: Any) -> model.Aggregate:
    return model.Aggregate(
        id=shown.id, uuid=shown.uuid, name=shown.name,
        hosts=frozenset(shown.hosts or ()), metadata=shown.metadata or {})


def _server(shown: Any) -> model.Server:
    # An image is '' for a server that boots from a volume, whose image's
    # properties nova does not show.
    properties = (shown.image or {}).get('properties')
    try:
        host_class: hostclass.HostClass | None = guest_class.guest_class(
            shown.flavor.extra_specs or {},
            (properties or {}).get('hw_cpu_policy'))
    except hostclass.UnknownClass:
        host_class = None
    return model.Server(
        id=shown.id, name=shown.name, project=shown.project_id,
        host=shown.compute_host or '', flavor=shown.flavor.original_name,
        host_class=host_class, is_certain=properties is not None)


@contextlib.contextmanager
def _translated() -> Iterator[None]:
    """Raise errors of openstacksdk and keystoneauth1 as our own."""
    try:
        yield
    except (sdk_exceptions.NotFoundException,
            sdk_exceptions.ConflictException,
            sdk_exceptions.BadRequestException) as error:
        raise errors.UnsettledError(str(error)) from error
    except (sdk_exceptions.SDKException,
            ksa_exceptions.ClientException) as error:
        raise errors.CloudError(str(error)) from error
