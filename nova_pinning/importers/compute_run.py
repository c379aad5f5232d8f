# SPDX-License-Identifier: Apache-2.0
"""The import from a compute API: what is asked, many things at once."""

from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
import concurrent.futures
import dataclasses
import datetime
import functools
from typing import Any
from typing import Protocol
from typing import TypeVar

from nova_pinning.admission import offered_host
from nova_pinning.admission import resident_guest
from nova_pinning.admission import scheduler_rules
from nova_pinning.fleet import provider_trees
from nova_pinning.fleet import snapshot
from nova_pinning.host import host_model
from nova_pinning.host import words
from nova_pinning.importers import compute_api
from nova_pinning.importers import host_gaps
from nova_pinning.model import hostclass
from nova_pinning.placement import placement_traits
from nova_pinning.segregation import segregation_model

#: Requests at once; requests keeps so many connections.
JOBS = 8
#: Answers that wait to be worked off; memory stays small with any number.
_WAITING = 1000

_T = TypeVar('_T')
_R = TypeVar('_R')


class Progress(Protocol):
    """Gives on what it is given, and shows how far that is."""

    def __call__(self, results: Iterator[_T], total: int,
                 what: str) -> Iterator[_T]: ...


def read(
    cloud: compute_api.ComputeCloud,
    descriptions: Mapping[str, host_model.HostDescription],
    progress: Progress = lambda results, total, what: results,
    jobs: int = JOBS,
    now: datetime.datetime | None = None,
) -> tuple[snapshot.Fleet, tuple[str, ...]]:
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
    server_groups = dict(cloud.server_groups())
    groups = {member: group.id for group, members in server_groups.items()
              for member in members}
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        try:
            hypervisors = _single(cloud.hypervisors(), notes)
            trees = provider_trees.read(
                cloud.placement, [one.provider for one in hypervisors],
                functools.partial(progress, what='providers'), jobs)
            servers = cloud.listed_servers()
            guests = tuple(_guests(progress(_answers(
                pool, lambda server: cloud.topology(server.id)
                if server.may_have_topology else {'nodes': []},
                servers), len(servers), 'servers'), groups, notes))
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    hosts, guests = _placed(hypervisors, trees, aggregates, descriptions,
                            guests, notes)
    without = [host.name for host in hosts if not host.cells]
    if without:
        notes.append(
            f'{words.count(len(without), "host")} without a host file, of '
            'which is known only how many pinned guests fit at most: '
            f'{", ".join(without[:5])}{", ..." if len(without) > 5 else ""}')
    return snapshot.Fleet(
        hosts=hosts, guests=guests, flavors=flavors,
        aggregates=tuple(map(compute_api.fleet_aggregate, aggregates)),
        server_groups=tuple(server_groups),
        rules=_rules(cloud.zones(), aggregates),
        taken_at=f'{now:%Y-%m-%dT%H:%M:%SZ}',
        source=f'cloud {cloud.name}'), tuple(notes)


def _rules(
    zones: Mapping[str, str],
    aggregates: Sequence[segregation_model.HostAggregate],
) -> scheduler_rules.SchedulerRules:
    """What the API tells of options: the zone of hosts that are in none."""
    put = {name for aggregate in aggregates for name in aggregate.hosts
           if 'availability_zone' in aggregate.metadata}
    default = next((zone for name, zone in zones.items() if name not in put),
                   scheduler_rules.SchedulerRules().default_zone)
    return scheduler_rules.SchedulerRules(default_zone=default)


def _answers(
    pool: concurrent.futures.Executor, ask: Callable[[_T], _R],
    things: Sequence[_T],
) -> Iterator[tuple[_T, _R]]:
    """Each thing with what is answered about it, in their order."""
    for start in range(0, len(things), _WAITING):
        batch = things[start:start + _WAITING]
        yield from zip(batch, pool.map(ask, batch), strict=True)


def _single(hypervisors: Sequence[compute_api.ListedHypervisor],
            notes: list[str]) -> list[compute_api.ListedHypervisor]:
    """One for each compute service."""
    single = {hypervisor.name: hypervisor for hypervisor in hypervisors}
    if len(single) < len(hypervisors):
        notes.append('some compute services have several nodes; the last was '
                     'used')
    return list(single.values())


def _placed(
    hypervisors: Iterable[compute_api.ListedHypervisor],
    trees: Mapping[str, provider_trees.HostTree],
    aggregates: Sequence[segregation_model.HostAggregate],
    descriptions: Mapping[str, host_model.HostDescription],
    guests: Sequence[resident_guest.ResidentGuest], notes: list[str],
) -> tuple[tuple[offered_host.OfferedHost, ...],
           tuple[resident_guest.ResidentGuest, ...]]:
    """The hosts, and the guests with what Placement has of them."""
    by_host: dict[str, list[resident_guest.ResidentGuest]] = {}
    for guest in guests:
        by_host.setdefault(guest.host, []).append(guest)
    hosts = []
    placed: dict[str, resident_guest.ResidentGuest] = {}
    for hypervisor in hypervisors:
        name = hypervisor.name
        tree = trees.get(hypervisor.provider, ())
        host = compute_api.fleet_host(hypervisor, tree, aggregates,
                                      descriptions.get(name), notes.append)
        here: Sequence[resident_guest.ResidentGuest] = by_host.get(name, ())
        if tree:
            host, here = provider_trees.with_tree(host, here, tree)
            placed.update((guest.uuid, guest) for guest in here)
        else:
            notes.append(f'host {name}: Placement has no such provider')
        host = dataclasses.replace(host, gaps=(
            *host.gaps, *host_gaps.usage_gaps(host.held, here)))
        hosts.append(dataclasses.replace(
            host, host_class=_class_of(host, aggregates, here, notes.append)))
    return tuple(hosts), tuple(
        placed.get(guest.uuid, guest) for guest in guests)


def _class_of(
    host: offered_host.OfferedHost,
    aggregates: Iterable[segregation_model.HostAggregate],
    guests: Iterable[resident_guest.ResidentGuest],
    note: Callable[[str], None],
) -> hostclass.HostClass | None:
    """The class of a host by its marks, or else by its CPUs."""
    try:
        return placement_traits.host_class(
            [compute_api.fleet_aggregate(aggregate)
             for aggregate in aggregates if host.name in aggregate.hosts],
            placement_traits.classes_of(host.traits or ()), host.cells
        ) or host_gaps.class_by_placement(host, guests)
    except hostclass.UnknownClass as error:
        note(f'host {host.name} is of no class: {error}')
        return None


def _guests(
    answers: Iterable[tuple[compute_api.ListedServer,
                            Mapping[str, Any] | None]],
    groups: Mapping[str, str], notes: list[str],
) -> Iterator[resident_guest.ResidentGuest]:
    for server, topology in answers:
        if topology is None:
            # Deleted since it was listed.
            continue
        if compute_api.may_go_back(server):
            notes.append(
                f'server {server.id} on {server.host} is being moved; what it '
                'holds on its other host is known as far as Placement has it')
        try:
            yield compute_api.fleet_guest(
                server, topology, groups.get(server.id, ''))
        except (ArithmeticError, LookupError, TypeError, ValueError,
                hostclass.UnknownClass) as error:
            notes.append(f'server {server.id} on {server.host} is left out: '
                         f'{error}')
