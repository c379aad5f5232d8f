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

"""The import from a compute API: what is asked, many things at once."""

from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
import concurrent.futures
import datetime
from typing import Any
from typing import Protocol
from typing import TypeVar

from nova_pinning.flavors import model as flavor_model
from nova_pinning.fleet.importers import compute_api
from nova_pinning.fleet import model as fleet_model
from nova_pinning.host import model as host_model
from nova_pinning.model import hostclass
from nova_pinning.segregation import model as segregation_model

#: Requests at once; requests keeps so many connections.
JOBS = 8
MOST_JOBS = 10
#: Answers that wait to be worked off; memory stays small with any number.
_WAITING = 1000

_T = TypeVar('_T')
_R = TypeVar('_R')


class Cloud(Protocol):
    """What is asked of a cloud: compute_api.Cloud."""

    name: str

    def aggregates(self) -> tuple[segregation_model.Aggregate, ...]: ...

    def flavors(self) -> tuple[flavor_model.Flavor, ...]: ...

    def hypervisors(self) -> tuple[compute_api.Hypervisor, ...]: ...

    def provided(self, provider: str) -> compute_api.Provided: ...

    def listed_servers(self) -> tuple[compute_api.Listed, ...]: ...

    def topology(self, server: str) -> Mapping[str, Any] | None: ...


class Progress(Protocol):
    """Gives on what it is given, and shows how far that is."""

    def __call__(self, results: Iterator[_T], total: int,
                 what: str) -> Iterator[_T]: ...


def read(
    cloud: Cloud,
    descriptions: Mapping[str, host_model.HostDescription],
    progress: Progress,
    jobs: int = JOBS,
    now: datetime.datetime | None = None,
) -> tuple[fleet_model.Fleet, tuple[str, ...]]:
    """Read all hosts and servers.

    :param descriptions: host files by the name of the compute service
    :param jobs: requests at once
    :param now: UTC
    :returns: the fleet, and what is odd about it, a sentence each
    :raises errors.CloudError: if the cloud cannot be worked with
    """
    now = now or datetime.datetime.now(datetime.UTC)
    aggregates = cloud.aggregates()
    flavors = cloud.flavors()
    notes: list[str] = []
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        try:
            hypervisors = _single(cloud.hypervisors(), notes)
            hosts = tuple(_host(one, provided, aggregates, descriptions,
                                notes)
                          for one, provided in progress(_answers(
                              pool, lambda one: cloud.provided(one.provider),
                              hypervisors), len(hypervisors), 'hosts'))
            servers = cloud.listed_servers()
            guests = tuple(_guests(progress(_answers(
                pool, lambda one: cloud.topology(one.id)
                if one.may_have_topology else {'nodes': []},
                servers), len(servers), 'servers'), notes))
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    without = [one.name for one in hosts if not one.cells]
    if without:
        notes.append(
            f'{len(without)} hosts have no host file, so nothing is known of '
            f'their cells: {", ".join(without[:5])}'
            f'{", ..." if len(without) > 5 else ""}')
    hidden = sum(map(compute_api.has_hidden_cpus, guests))
    if hidden:
        notes.append(
            f'{hidden} servers have a host CPU for their emulator threads, '
            'which the API does not tell, so it counts as free')
    return fleet_model.Fleet(
        hosts=hosts, guests=guests, flavors=flavors,
        aggregates=tuple(map(compute_api.aggregate, aggregates)),
        taken_at=f'{now:%Y-%m-%dT%H:%M:%SZ}',
        source=f'cloud {cloud.name}'), tuple(notes)


def _answers(
    pool: concurrent.futures.Executor, ask: Callable[[_T], _R],
    things: Sequence[_T],
) -> Iterator[tuple[_T, _R]]:
    """Each thing with what is answered about it, in their order."""
    for start in range(0, len(things), _WAITING):
        batch = things[start:start + _WAITING]
        yield from zip(batch, pool.map(ask, batch), strict=True)


def _single(found: Sequence[compute_api.Hypervisor],
            notes: list[str]) -> list[compute_api.Hypervisor]:
    """One for each compute service."""
    single = {one.name: one for one in found}
    if len(single) < len(found):
        notes.append('some compute services have several nodes, of which the '
                     'last was taken')
    return list(single.values())


def _host(
    hypervisor: compute_api.Hypervisor, provided: compute_api.Provided,
    aggregates: Sequence[segregation_model.Aggregate],
    descriptions: Mapping[str, host_model.HostDescription],
    notes: list[str],
) -> fleet_model.FleetHost:
    name = hypervisor.name
    if provided.traits is None:
        notes.append(f'host {name}: Placement has no such provider')
    return compute_api.host(hypervisor, provided, aggregates,
                            descriptions.get(name), notes.append)


def _guests(
    answers: Iterable[tuple[compute_api.Listed, Mapping[str, Any] | None]],
    notes: list[str],
) -> Iterator[fleet_model.FleetGuest]:
    for server, topology in answers:
        if topology is None:
            # Deleted since it was listed.
            continue
        if compute_api.may_go_back(server):
            notes.append(
                f'server {server.id} on {server.host} is on its way; what it '
                'holds on its other host counts as free')
        try:
            yield compute_api.guest(server, topology)
        except (ArithmeticError, LookupError, TypeError, ValueError,
                hostclass.UnknownClass) as error:
            notes.append(f'server {server.id} on {server.host} is left out: '
                         f'{error}')
