# SPDX-License-Identifier: Apache-2.0
"""A fleet from nova's databases, read again where it has changed.

Each reading looks at numbers and times of last writes of all compute nodes
and instances, which are a few bytes each, and reads the rest only of those
that are new or were written since. Three things make sure that none is
missed:

* A time is compared with what it was, never with a clock: those who write
  have clocks that differ.
* What has changed is read once more the next time, unless something else was
  written well after it. MariaDB keeps whole seconds, so a second write within
  one would not show.
* What migrates is read each time until it does not: nova writes the end of a
  migration down after all else.

Devices are read for the nodes that have changed and for those of instances
that have; both are written then. Services and aggregates are few, and read
each time; server groups and traits only in full readings.
"""

from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
import dataclasses
import datetime
import itertools
from typing import TypeVar

from nova import objects

from nova_pinning.bridge import fleet_import
from nova_pinning.bridge import fleet_import_devices
from nova_pinning.bridge import fleet_import_guests
from nova_pinning.bridge import fleet_import_hosts
from nova_pinning.bridge import fleet_import_wishes
from nova_pinning.bridge import nova_database
from nova_pinning.fleet import host_completion
from nova_pinning.fleet import snapshot
from nova_pinning.host import host_model

#: Rows of a page of numbers and times.
_MARKS_AT_ONCE = 10_000

#: What was written so long before the last write of all was not written just
#: now. Nova itself does not work with clocks that differ by as much.
_PAST = datetime.timedelta(minutes=10)

_T = TypeVar('_T')


@dataclasses.dataclass(slots=True)
class _Known:
    """An instance as it was read last.

    :param written: last, as those who write have it
    :param is_settled: whether it need not be read until it is written again
    """

    uuid: str
    written: datetime.datetime
    guests: tuple[snapshot.FleetGuest, ...] = ()
    is_settled: bool = False


class _CellState:
    """What is known of a cell."""

    def __init__(self) -> None:
        self.nodes: dict[int, fleet_import_hosts.ComputeNode] = {}
        self._node_marks: dict[int, datetime.datetime] = {}
        self._unsettled_nodes: set[int] = set()
        self._instances: dict[int, _Known] = {}
        self._uses: dict[tuple[str, str], tuple[snapshot.PciUse, ...]] = {}
        self._reader = fleet_import_guests.GuestReader(self._uses)

    @property
    def guests(self) -> Iterator[snapshot.FleetGuest]:
        for known in self._instances.values():
            yield from known.guests

    def update(self, database: nova_database.NovaDatabases,
               cell: nova_database.CellDatabase, now: datetime.datetime,
               page_rows: int) -> None:
        """Read what has changed."""
        nodes = self._update_nodes(database, cell, now)
        before = self._instances
        self._instances = {}
        changed = set()
        hosts: dict[str, str] = {}
        marks = list(fleet_import_guests.marks(cell, _MARKS_AT_ONCE))
        past = _past(mark[-1] for mark in marks)
        for number, uuid, host, written in marks:
            known = before.get(number)
            is_new = known is None or known.written != written
            if known is None or is_new or not known.is_settled:
                changed.add(number)
                hosts[uuid] = host
                known = _Known(uuid, written, known.guests if known else (),
                               is_settled=not is_new or written < past)
            self._instances[number] = known
        by_name = {node.host.name: number
                   for number, node in self.nodes.items()}
        near = {*hosts.values(), *(
            guest.host for number in changed
            for guest in self._instances[number].guests)}
        touched = self._update_devices(
            cell, nodes | {by_name[host] for host in near if host in by_name})
        if touched:
            changed |= {number for number, known in self._instances.items()
                        if known.uuid in touched}
        for ids in _slices(sorted(changed), page_rows):
            for instance in fleet_import_guests.named(
                    database, cell, self._reader, ids).instances:
                known = self._instances[instance.id]
                known.guests = instance.guests
                known.is_settled &= not instance.is_migrating

    def _update_nodes(self, database: nova_database.NovaDatabases,
                      cell: nova_database.CellDatabase,
                      now: datetime.datetime) -> set[int]:
        """Read the compute nodes that have changed; returns which."""
        conf = database.conf
        services = fleet_import_hosts.compute_services(
            cell, now, conf.service_down_time)
        marks = dict(fleet_import_hosts.marks(cell, _MARKS_AT_ONCE))
        new = {number for number, mark in marks.items()
               if number not in self._node_marks
               or self._node_marks[number] != mark}
        changed = new | (self._unsettled_nodes & marks.keys())
        read = {node.id: node for node in fleet_import_hosts.named(
            cell, conf, services, sorted(changed))}
        nodes = {}
        for number in marks:
            if number not in changed:
                node = self.nodes.get(number)
            else:
                node = _kept(self.nodes.get(number), read.get(number))
            # There are none for bare metal.
            if node is not None:
                nodes[number] = fleet_import_hosts.with_service(
                    node, cell, services)
        self.nodes, self._node_marks = nodes, marks
        past = _past(marks.values())
        self._unsettled_nodes = {
            number for number in new if marks[number] >= past}
        return changed & nodes.keys()

    def _update_devices(self, cell: nova_database.CellDatabase,
                        changed: Iterable[int]) -> set[str]:
        """Read the devices of some nodes.

        :returns: UUIDs of instances that have others than before
        """
        nodes = [self.nodes[number] for number in sorted(changed)]
        pools, uses = fleet_import_devices.pci_devices(cell, nodes)
        names = set()
        for node in nodes:
            names.add(node.host.name)
            own = pools.get(node.id, ())
            if node.host.pci_pools != own:
                self.nodes[node.id] = dataclasses.replace(
                    node, host=dataclasses.replace(node.host, pci_pools=own))
        before = {key: use for key, use in self._uses.items()
                  if key[0] in names}
        for key in before.keys() - uses.keys():
            del self._uses[key]
        self._uses.update(uses)
        return {key[1] for key in before.keys() | uses.keys()
                if before.get(key) != uses.get(key)}


class ChangedFleetReader:
    """Reads a fleet again and again, all of it only the first time.

    :param skips_down_cells: go on without cells whose database cannot be read
    :param descriptions: host files by the name of the compute service
    :param read_traits: without, hosts' traits are not known
    """

    def __init__(
        self, *, skips_down_cells: bool = False,
        descriptions: Mapping[str, host_model.HostDescription] | None = None,
        read_traits: fleet_import.ReadTraits | None = None,
        page_rows: int = nova_database.PAGE_ROWS,
    ) -> None:
        self._skips_down_cells = skips_down_cells
        self._descriptions = descriptions or {}
        self._read_traits = read_traits
        self._page_rows = page_rows
        self.forget()

    def forget(self) -> None:
        """Read everything the next time."""
        self._states: dict[str, _CellState] = {}
        self._traits: dict[str, frozenset[str]] = {}
        self._asked: set[str] = set()
        self._groups: tuple[snapshot.FleetServerGroup, ...] | None = None

    def read(self, database: nova_database.NovaDatabases,
             now: datetime.datetime | None = None) -> snapshot.Fleet:
        """The fleet as it is now.

        What has not changed are the same objects as the last time.

        :param database: from nova_database.opened; another one than the last
            time, if need be
        :param now: UTC, without a time zone
        :raises nova_database.DatabaseError: if a database cannot be read;
            everything is read the next time
        :raises errors.CloudError: if Placement does not answer
        """
        try:
            return self._read(database, now or datetime.datetime.now(
                datetime.UTC).replace(tzinfo=None))
        except Exception:
            # What it has noted down halfway need not be so.
            self.forget()
            raise

    def _read(self, database: nova_database.NovaDatabases,
              now: datetime.datetime) -> snapshot.Fleet:
        aliases = fleet_import.pci_aliases(database.conf)
        with nova_database.reading('the API database'):
            aggregates = tuple(objects.AggregateList.get_all(database.context))
            flavors = tuple(
                fleet_import_guests.flavor(row)
                for row in objects.FlavorList.get_all(
                    database.context, filters={'is_public': None}))
            if self._groups is None:
                self._groups = tuple(
                    fleet_import_wishes.server_groups(database))
        states = self._update(database, now)
        nodes = fleet_import.without_twins(
            [node for state in states for node in state.nodes.values()], [])
        traits = self._traits_of([node.provider for node in nodes])
        by_host: dict[str, list[snapshot.FleetAggregate]] = {}
        for aggregate in aggregates:
            for name in aggregate.hosts:
                by_host.setdefault(name, []).append(
                    fleet_import.fleet_aggregate(aggregate))
        hosts = tuple(
            fleet_import.finished(node, by_host.get(node.host.name, ()),
                                  traits, []) for node in nodes)
        return snapshot.Fleet(
            hosts=host_completion.completed(hosts, self._descriptions),
            guests=tuple(fleet_import.without_repeats(
                itertools.chain.from_iterable(
                    state.guests for state in states))),
            flavors=flavors,
            aggregates=tuple(map(fleet_import.fleet_aggregate, aggregates)),
            server_groups=self._groups, pci_aliases=aliases,
            packs_cells=(database.conf.compute
                         .packing_host_numa_cells_allocation_strategy),
            enabled_filters=fleet_import.enabled_filters(database.conf),
            taken_at=f'{now:%Y-%m-%dT%H:%M:%SZ}', source="nova's databases")

    def _update(self, database: nova_database.NovaDatabases,
                now: datetime.datetime) -> list[_CellState]:
        """The cells that can be read, up to date."""
        states = []
        before, self._states = self._states, {}
        for cell in database.cells:
            state = before.get(cell.uuid) or _CellState()
            try:
                with nova_database.reading(str(cell)):
                    state.update(database, cell, now, self._page_rows)
            except nova_database.DatabaseError:
                if not self._skips_down_cells:
                    raise
                continue
            self._states[cell.uuid] = state
            states.append(state)
        return states

    def _traits_of(
        self, providers: Sequence[str],
    ) -> Mapping[str, frozenset[str]] | None:
        if self._read_traits is None:
            return None
        new = [provider for provider in providers
               if provider not in self._asked]
        if new:
            self._traits.update(self._read_traits(new))
            self._asked.update(new)
        return self._traits


def _past(written: Iterable[datetime.datetime]) -> datetime.datetime:
    """What was written before this was not written just now."""
    newest = max(written, default=datetime.datetime.min)
    return newest - min(_PAST, newest - datetime.datetime.min)


def _kept(before: fleet_import_hosts.ComputeNode | None,
          after: fleet_import_hosts.ComputeNode | None,
          ) -> fleet_import_hosts.ComputeNode | None:
    """What a node is after a reading, with what it shares with before."""
    if before is None or after is None:
        return after
    cells = before.host.cells
    return dataclasses.replace(after, host=dataclasses.replace(
        after.host, pci_pools=before.host.pci_pools,
        cells=cells if cells == after.host.cells else after.host.cells))


def _slices(items: Sequence[_T], size: int) -> Iterator[Sequence[_T]]:
    for start in range(0, len(items), size):
        yield items[start:start + size]
