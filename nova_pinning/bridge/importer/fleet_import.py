# SPDX-License-Identifier: Apache-2.0
"""A fleet from nova's own databases, all cells together.

It can be read again and again; what has not changed are then the same objects
as before. Aggregates, flavors and host mappings are read each time. Server
groups are read in full readings only, and what Placement has of hosts in
those and for hosts that have changed, or whose guests have.
"""

from collections.abc import Callable
from collections.abc import Collection
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
import contextlib
import dataclasses
import datetime
import itertools
from typing import Any

from nova import objects

from nova_pinning.admission import offered_host
from nova_pinning.admission import resident_guest
from nova_pinning.bridge.importer import fleet_import_cells
from nova_pinning.bridge.importer import fleet_import_guests
from nova_pinning.bridge.importer import fleet_import_hosts
from nova_pinning.bridge.importer import fleet_import_settings
from nova_pinning.bridge.importer import fleet_import_wishes
from nova_pinning.bridge.importer import nova_database
from nova_pinning import cpuset
from nova_pinning.fit import usage
from nova_pinning.fleet import host_completion
from nova_pinning.fleet import provider_trees
from nova_pinning.fleet import snapshot
from nova_pinning.host import host_model
from nova_pinning.model import hostclass
from nova_pinning.placement import placement_traits

#: Told after each page how many instances of how many have been read.
Tell = Callable[[int, int], None]
# A host with its guests and what Placement has of both; before, and after.
_Placed = tuple[
    tuple[offered_host.OfferedHost, tuple[resident_guest.ResidentGuest, ...],
          provider_trees.HostTree],
    tuple[offered_host.OfferedHost, tuple[resident_guest.ResidentGuest, ...]]]


class FleetReader:
    """Reads a fleet again and again, all of it only the first time.

    :param skips_down_cells: go on without cells whose database cannot be read
    :param descriptions: host files by the name of the compute service
    :param read_trees: without, what Placement has of hosts is not known
    :param advice: what to do if a cell cannot be read
    :ivar notes: what is odd in what was read last, a sentence each
    :ivar nodes: of the hosts that were read last
    """

    def __init__(
        self, *, skips_down_cells: bool = False,
        descriptions: Mapping[str, host_model.HostDescription] | None = None,
        read_trees: provider_trees.ReadTrees | None = None,
        page_rows: int = nova_database.PAGE_ROWS, advice: str = '',
    ) -> None:
        self._advice = advice
        self._skips_down_cells = skips_down_cells
        self._descriptions = descriptions or {}
        self._read_trees = read_trees
        self._page_rows = page_rows
        self.notes: list[str] = []
        self.forget()

    def forget(self) -> None:
        """Read everything the next time."""
        self.nodes: list[fleet_import_hosts.ComputeNode] = []
        self._cells: dict[str, fleet_import_cells.CellReader] = {}
        self._trees: dict[str, provider_trees.HostTree] = {}
        self._asked: set[str] = set()
        self._placed: dict[str, _Placed] = {}
        self._groups: tuple[offered_host.ServerGroup, ...] | None = None

    def read(self, database: nova_database.NovaDatabases,
             now: datetime.datetime | None = None,
             tell: Tell = lambda done, total: None) -> snapshot.Fleet:
        """The fleet as it is now.

        :param database: from nova_database.opened; another one than the last
            time, if need be
        :param now: UTC, without a time zone
        :raises nova_database.DatabaseError: if a database cannot be read;
            everything is read the next time
        :raises errors.InputError: if nova.conf has something that nova refuses
        :raises errors.CloudError: if Placement does not answer
        """
        try:
            return self._read(database, now or datetime.datetime.now(
                datetime.UTC).replace(tzinfo=None), tell)
        except Exception:
            # What it has noted down halfway need not be so.
            self.forget()
            raise

    def _read(self, database: nova_database.NovaDatabases,
              now: datetime.datetime, tell: Tell) -> snapshot.Fleet:
        self.notes = []
        conf = database.conf
        aliases = fleet_import_settings.pci_aliases(conf)
        with nova_database.reading('the API database'):
            aggregates = tuple(objects.AggregateList.get_all(database.context))
            flavors = tuple(
                fleet_import_guests.flavor(row)
                for row in objects.FlavorList.get_all(
                    database.context, filters={'is_public': None}))
            if self._groups is None:
                self._groups = tuple(
                    fleet_import_wishes.server_groups(database))
            mapped = fleet_import_hosts.mapped_hosts(database)
        cells = self._update(database, mapped, now, tell)
        self.nodes = list(_without_twins(
            [node for cell in cells for node in cell.nodes.values()],
            self.notes))
        homeless = sum(cell.homeless for cell in cells)
        if homeless:
            self.notes.append(
                f'{homeless} servers are being built and are not on a host '
                'yet, so their resources still count as free')
        self._update_trees({name for cell in cells for name in cell.touched})
        by_host: dict[str, list[offered_host.Aggregate]] = {}
        for aggregate in aggregates:
            for name in aggregate.hosts:
                by_host.setdefault(name, []).append(_aggregate(aggregate))
        hosts = host_completion.completed(tuple(
            self._finished(node, by_host.get(node.host.name, ()))
            for node in self.nodes), self._descriptions)
        hosts, guests = self._with_trees(hosts, tuple(_without_repeats(
            itertools.chain.from_iterable(cell.guests for cell in cells))))
        return snapshot.Fleet(
            hosts=hosts, guests=guests, flavors=flavors,
            aggregates=tuple(map(_aggregate, aggregates)),
            server_groups=self._groups, pci_aliases=aliases,
            packs_cells=(
                conf.compute.packing_host_numa_cells_allocation_strategy),
            enabled_filters=fleet_import_settings.enabled_filters(conf),
            rules=fleet_import_settings.rules(conf),
            taken_at=f'{now:%Y-%m-%dT%H:%M:%SZ}', source="nova's databases")

    def _update(
        self, database: nova_database.NovaDatabases,
        mapped: Mapping[str, str], now: datetime.datetime, tell: Tell,
    ) -> list[fleet_import_cells.CellReader]:
        """The cells that can be read, up to date."""
        before, self._cells = self._cells, {}
        total = done = 0
        found = []
        for cell in database.cells:
            reader = (before.get(cell.uuid)
                      or fleet_import_cells.CellReader())
            with self._reading(cell):
                total += reader.look(cell)
                found.append((cell, reader))

        def told(more: int) -> None:
            nonlocal done
            done += more
            tell(min(done, total), total)

        for cell, reader in found:
            with self._reading(cell):
                reader.update(database, cell, mapped, now, self._page_rows,
                              told)
                self._cells[cell.uuid] = reader
                self.notes += reader.notes
        return list(self._cells.values())

    @contextlib.contextmanager
    def _reading(self, cell: nova_database.CellDatabase) -> Iterator[None]:
        """Go on without a cell that is down, if that is wanted."""
        try:
            with nova_database.reading(str(cell)):
                yield
        except nova_database.DatabaseError as error:
            if not self._skips_down_cells:
                raise nova_database.DatabaseError(
                    error.message, error.where,
                    error.advice or self._advice) from error
            self.notes.append(f'{error}; its hosts and guests are left out')

    def _update_trees(self, touched: Collection[str]) -> None:
        """Ask Placement for hosts that are new, or in which guests are."""
        if self._read_trees is None:
            return
        wanted = [node.provider for node in self.nodes
                  if node.provider not in self._asked
                  or node.host.name in touched]
        if wanted:
            for provider in wanted:
                self._trees.pop(provider, None)
            self._trees = provider_trees.renewed(
                self._trees, self._read_trees(wanted))
            self._asked.update(wanted)

    def _finished(
        self, node: fleet_import_hosts.ComputeNode,
        aggregates: Sequence[offered_host.Aggregate],
    ) -> offered_host.OfferedHost:
        """A host with its aggregates, traits and class."""
        name = node.host.name
        tree = self._trees.get(node.provider)
        more: dict[str, Any] = {'traits': tree[0].traits if tree else None}
        if self._read_trees is not None and not tree:
            # Nova-scheduler never hears of it.
            more['inventories'] = {}
            self.notes.append(f'host {name}: Placement has no such provider')
        try:
            more['host_class'] = placement_traits.host_class(
                aggregates, placement_traits.classes_of(more['traits'] or ()),
                node.host.cells)
        except hostclass.UnknownClass as error:
            self.notes.append(f'host {name} is of no class: {error}')
        return dataclasses.replace(node.host, **more, aggregates=tuple(sorted(
            aggregate.name for aggregate in aggregates)))

    def _with_trees(
        self, hosts: tuple[offered_host.OfferedHost, ...],
        guests: tuple[resident_guest.ResidentGuest, ...],
    ) -> tuple[tuple[offered_host.OfferedHost, ...],
               tuple[resident_guest.ResidentGuest, ...]]:
        """Both with what Placement has of them, if it was asked."""
        if self._read_trees is None:
            return hosts, guests
        by_host: dict[str, list[resident_guest.ResidentGuest]] = {}
        for guest in guests:
            by_host.setdefault(guest.host, []).append(guest)
        before, self._placed = self._placed, {}
        made = []
        allocated: dict[str, resident_guest.ResidentGuest] = {}
        for node, host in zip(self.nodes, hosts, strict=True):
            tree = self._trees.get(node.provider)
            if tree:
                given = host, tuple(by_host.get(host.name, ())), tree
                known = before.get(host.name)
                if known is None or known[0] != given:
                    known = given, provider_trees.with_tree(
                        *given, node.pool_providers)
                self._placed[host.name] = known
                host, own = known[1]
                allocated.update((guest.uuid, guest) for guest in own)
            made.append(host)
        return tuple(made), tuple(
            allocated.get(guest.uuid, guest) for guest in guests)


@dataclasses.dataclass(frozen=True, slots=True)
class Imported:
    """What was read, and what is odd about it, a sentence each."""

    fleet: snapshot.Fleet
    notes: tuple[str, ...]


def read(
    database: nova_database.NovaDatabases, *,
    now: datetime.datetime | None = None,
    tell: Tell = lambda done, total: None, **settings: Any,
) -> Imported:
    """Read hosts and guests of all cells once.

    :param database: from nova_database.opened
    :param now: UTC, without a time zone
    :param settings: those of :class:`FleetReader`
    :raises nova_database.DatabaseError: as FleetReader.read does, and all
        else that it raises
    """
    reader = FleetReader(advice='give --skip-down-cells to do without its '
                         'hosts and guests', **settings)
    fleet = reader.read(database, now, tell)
    return Imported(fleet, (*reader.notes,
                            *_untracked(reader.nodes, fleet.guests)))


def _aggregate(row: Any) -> offered_host.Aggregate:
    metadata = dict(row.metadata)
    zone = metadata.pop('availability_zone', None)
    return offered_host.Aggregate(row.name, zone, metadata)


def _without_twins(
    nodes: Iterable[fleet_import_hosts.ComputeNode], notes: list[str],
) -> Iterable[fleet_import_hosts.ComputeNode]:
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
    return by_name.values()


def _without_repeats(
    guests: Iterable[resident_guest.ResidentGuest],
) -> Iterator[resident_guest.ResidentGuest]:
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
    guests: Iterable[resident_guest.ResidentGuest],
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
