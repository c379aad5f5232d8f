# SPDX-License-Identifier: Apache-2.0
"""A snapshot of a fleet from nova's own databases, all cells together."""

from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
import dataclasses
import datetime
import functools
import itertools
from typing import Any
from typing import TypeVar

from nova import exception
from nova import objects
from nova.pci import request as pci_request
from oslo_config import cfg

from nova_pinning.bridge import fleet_import_devices
from nova_pinning.bridge import fleet_import_guests
from nova_pinning.bridge import fleet_import_hosts
from nova_pinning.bridge import fleet_import_wishes
from nova_pinning.bridge import nova_conf_reader
from nova_pinning.bridge import nova_database
from nova_pinning import cpuset
from nova_pinning import errors
from nova_pinning.fit import usage
from nova_pinning.fleet import host_completion
from nova_pinning.fleet import snapshot
from nova_pinning.host import host_model
from nova_pinning.model import hostclass
from nova_pinning.placement import placement_traits

_T = TypeVar('_T')

#: Told after each page how many instances of how many have been read.
Tell = Callable[[int, int], None]
#: Gives the traits of providers by UUID; those without are left out.
ReadTraits = Callable[[Sequence[str]], Mapping[str, frozenset[str]]]


@dataclasses.dataclass(frozen=True, slots=True)
class Imported:
    """What was read, and what is odd about it, a sentence each."""

    fleet: snapshot.Fleet
    notes: tuple[str, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class _CellPart:
    """The hosts and guests of one cell."""

    nodes: list[fleet_import_hosts.ComputeNode]
    guests: list[snapshot.FleetGuest]
    notes: list[str]
    homeless: int


def read(
    database: nova_database.NovaDatabases, *,
    skips_down_cells: bool = False,
    descriptions: Mapping[str, host_model.HostDescription] | None = None,
    read_traits: ReadTraits | None = None,
    tell: Tell = lambda done, total: None,
    now: datetime.datetime | None = None,
    page_rows: int = nova_database.PAGE_ROWS,
) -> Imported:
    """Read hosts and guests of all cells.

    :param database: from nova_database.opened
    :param skips_down_cells: go on without cells whose database cannot be read
    :param descriptions: host files by the name of the compute service
    :param read_traits: without, hosts' traits are not known
    :param now: UTC, without a time zone
    :raises nova_database.DatabaseError: if a database cannot be read
    :raises errors.InputError: if nova.conf has something that nova refuses
    """
    now = now or datetime.datetime.now(datetime.UTC).replace(tzinfo=None)
    aliases = pci_aliases(database.conf)
    notes: list[str] = []
    with nova_database.reading('the API database'):
        aggregates = tuple(objects.AggregateList.get_all(database.context))
        flavors = tuple(
            fleet_import_guests.flavor(row)
            for row in objects.FlavorList.get_all(
                database.context, filters={'is_public': None}))
        server_groups = tuple(fleet_import_wishes.server_groups(database))
    parts = _Cells(database, skips_down_cells, now, page_rows, tell).read(
        notes)
    nodes = without_twins(
        [node for part in parts for node in part.nodes], notes)
    guests = tuple(without_repeats(itertools.chain.from_iterable(
        part.guests for part in parts)))
    homeless = sum(part.homeless for part in parts)
    if homeless:
        notes.append(f'{homeless} servers are being built and are not on a '
                     'host yet, so their resources still count as free')
    notes += _untracked(nodes, guests)
    traits = read_traits([node.provider
                          for node in nodes]) if read_traits else (None)
    by_host: dict[str, list[snapshot.FleetAggregate]] = {}
    for aggregate in aggregates:
        for name in aggregate.hosts:
            by_host.setdefault(name, []).append(fleet_aggregate(aggregate))
    hosts = tuple(finished(node, by_host.get(node.host.name, ()), traits,
                           notes) for node in nodes)
    fleet = snapshot.Fleet(
        hosts=host_completion.completed(hosts, descriptions or {}),
        guests=guests, flavors=flavors,
        aggregates=tuple(map(fleet_aggregate, aggregates)),
        server_groups=server_groups, pci_aliases=aliases,
        packs_cells=(database.conf.compute
                     .packing_host_numa_cells_allocation_strategy),
        enabled_filters=enabled_filters(database.conf),
        taken_at=f'{now:%Y-%m-%dT%H:%M:%SZ}', source="nova's databases")
    return Imported(fleet, tuple(notes))


# Cells.

class _Cells:
    """Reads cells, one after the other.

    :param tell: told of all cells together
    """

    def __init__(self, database: nova_database.NovaDatabases,
                 skips_down_cells: bool, now: datetime.datetime,
                 page_rows: int, tell: Tell) -> None:
        self._database = database
        self._skips_down_cells = skips_down_cells
        self._now = now
        self._page_rows = page_rows
        self._tell = tell

    def read(self, notes: list[str]) -> list[_CellPart]:
        counts = [self._try(cell, notes, fleet_import_guests.count)
                  for cell in self._database.cells]
        total = sum(count or 0 for count in counts) or 1
        parts, done = [], 0
        for cell, count in zip(self._database.cells, counts, strict=True):
            if count is None:
                continue

            part = self._try(cell, notes, functools.partial(
                self._part, functools.partial(self._told, done, total)))
            if part is not None:
                parts.append(part)
                notes += part.notes
            done += count
        return parts

    def _try(self, cell: nova_database.CellDatabase, notes: list[str],
             action: Callable[[nova_database.CellDatabase], _T]) -> _T | None:
        """What the action returns; None if the cell is down and skipped."""
        try:
            with nova_database.reading(str(cell)):
                return action(cell)
        except nova_database.DatabaseError as error:
            if not self._skips_down_cells:
                raise nova_database.DatabaseError(
                    error.message, error.where,
                    'give --skip-down-cells to do without its hosts and '
                    'guests') from error
            notes.append(f'{error}; its hosts and guests are left out')
            return None

    def _told(self, before: int, total: int, read: int) -> None:
        self._tell(min(before + read, total), total)

    def _part(self, tell: Callable[[int], None],
              cell: nova_database.CellDatabase) -> _CellPart:
        conf = self._database.conf
        services = fleet_import_hosts.compute_services(
            cell, self._now, conf.service_down_time)
        nodes = list(fleet_import_hosts.nodes(cell, conf, services))
        pools, uses = fleet_import_devices.pci_devices(cell, nodes)
        nodes = [dataclasses.replace(node, host=dataclasses.replace(
            node.host, pci_pools=pools.get(node.id, ()))) for node in nodes]
        part = _CellPart(nodes, [], [
            f'host {node.host.name}: {node.problem}'
            for node in nodes if node.problem] + [
            f'{cell}: {note}'
            for note in fleet_import_hosts.unknown_releases(
                nodes, services)], 0)
        homeless = done = 0
        for page in fleet_import_guests.pages(
                self._database, cell, uses, self._page_rows):
            part.guests.extend(page.guests)
            part.notes.extend(page.problems)
            homeless += len(page.homeless)
            done += len(page.instances)
            tell(done)
        return dataclasses.replace(part, homeless=homeless)


# All cells together.

def without_twins(nodes: Iterable[fleet_import_hosts.ComputeNode],
                  notes: list[str]) -> list[fleet_import_hosts.ComputeNode]:
    """One node for each compute service: the newest.

    Nova's other drivers have several; libvirt's leaves one behind when the
    host's name changes.
    """
    by_name: dict[str, fleet_import_hosts.ComputeNode] = {}
    for node in nodes:
        other = by_name.get(node.host.name)
        if other is not None:
            notes.append(
                f'host {node.host.name} has several compute nodes, of which '
                f'{node.name} was taken and {other.name} left out')
        by_name[node.host.name] = node
    return list(by_name.values())


def without_repeats(
    guests: Iterable[snapshot.FleetGuest],
) -> Iterator[snapshot.FleetGuest]:
    """Each with its own name: one between cells is in both."""
    seen: set[str] = set()
    for guest in guests:
        if guest.uuid in seen:
            guest = dataclasses.replace(
                guest, uuid=f'{guest.uuid}@{guest.host}')
        seen.add(guest.uuid)
        yield guest


def _untracked(
    nodes: Sequence[fleet_import_hosts.ComputeNode],
    guests: Iterable[snapshot.FleetGuest],
) -> Iterator[str]:
    """Where nova has other CPUs down as taken than the guests have."""
    cells = {node.host.name: {cell.id: cell for cell in node.host.cells}
             for node in nodes}
    taken: dict[str, cpuset.CpuSet] = {}
    for guest in guests:
        own = cells.get(guest.host)
        if own and guest.topology and guest.fit and guest.topology.is_pinned:
            taken[guest.host] = cpuset.union((
                taken.get(guest.host, cpuset.CpuSet()),
                *(usage.taken_cpus(own[cell.host_cell], guest.topology, cell)
                  for cell in guest.fit.cells if cell.host_cell in own)))
    for node in nodes:
        extra = node.taken_cpus - taken.get(node.host.name, cpuset.CpuSet())
        if extra:
            yield (f'host {node.host.name}: nova has CPUs {extra} down as '
                   'taken, but no guest has them; guests may have come or '
                   'gone meanwhile')


def finished(
    node: fleet_import_hosts.ComputeNode,
    aggregates: Sequence[snapshot.FleetAggregate],
    traits: Mapping[str, frozenset[str]] | None, notes: list[str],
) -> snapshot.FleetHost:
    """A host with its aggregates, traits and class."""
    name = node.host.name
    host_traits = traits.get(node.provider) if traits is not None else None
    if traits is not None and host_traits is None:
        notes.append(f'host {name}: Placement has no such provider')
    host_class = None
    try:
        host_class = placement_traits.host_class(
            aggregates, placement_traits.classes_of(host_traits or ()),
            node.host.cells)
    except hostclass.UnknownClass as error:
        notes.append(f'host {name} is of no class: {error}')
    return dataclasses.replace(
        node.host, host_class=host_class, traits=host_traits,
        aggregates=tuple(sorted(aggregate.name for aggregate in aggregates)))


def fleet_aggregate(row: Any) -> snapshot.FleetAggregate:
    metadata = dict(row.metadata)
    zone = metadata.pop('availability_zone', None)
    return snapshot.FleetAggregate(row.name, zone, metadata)


# nova.conf.

def enabled_filters(conf: cfg.ConfigOpts) -> tuple[str, ...]:
    """[filter_scheduler] enabled_filters.

    :returns: () if it is not there: the file may be another service's than
        nova-scheduler's, so what nova enables by default tells nothing
    """
    found = conf.get_location('enabled_filters', 'filter_scheduler')
    if found is None or not found.location.is_user_controlled:
        return ()
    return tuple(filter(None, conf.filter_scheduler.enabled_filters))


def pci_aliases(
    conf: cfg.ConfigOpts,
) -> dict[str, snapshot.PciAlias]:
    """[pci] alias.

    :raises errors.InputError: if nova refuses it
    """
    try:
        with nova_conf_reader.replaced_conf(pci_request, conf):
            # What nova remembers of another nova.conf is passed by.
            by_alias = pci_request.get_alias_from_config.__wrapped__()
    except exception.PciInvalidAlias as error:
        raise errors.InputError(
            f'[pci] alias: {error}', errors.Location('nova.conf')) from error
    return {
        name: snapshot.PciAlias(tuple(
            tuple(sorted(spec.items())) for spec in specs), policy)
        for name, (policy, specs) in by_alias.items()}
