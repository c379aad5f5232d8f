# SPDX-License-Identifier: Apache-2.0
"""Hosts and guests of a cell, read again where they have changed.

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
that have; both are written then. Services are few, and read each time.
"""

from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
import dataclasses
import datetime
from typing import TypeVar

from nova_pinning.admission import devices
from nova_pinning.admission import resident_guest
from nova_pinning.bridge.importer import fleet_import_devices
from nova_pinning.bridge.importer import fleet_import_guests
from nova_pinning.bridge.importer import fleet_import_hosts
from nova_pinning.bridge.importer import nova_database

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
    guests: tuple[resident_guest.ResidentGuest, ...] = ()
    is_settled: bool = False


class CellReader:
    """What is known of a cell.

    :ivar nodes: its compute nodes, by nova's numbers
    :ivar notes: what was odd in what was read last, a sentence each
    :ivar homeless: how many instances were on no host yet in that
    :ivar touched: hosts that were read last, or whose guests were
    """

    def __init__(self) -> None:
        self.nodes: dict[int, fleet_import_hosts.ComputeNode] = {}
        self.notes: list[str] = []
        self.homeless = 0
        self.touched: set[str] = set()
        self._node_marks: dict[int, datetime.datetime] = {}
        self._unsettled_nodes: set[int] = set()
        self._marks: list[tuple[int, str, str, datetime.datetime]] = []
        self._instances: dict[int, _Known] = {}
        self._uses: dict[tuple[str, str], tuple[devices.PciUse, ...]] = {}
        self._reader = fleet_import_guests.GuestReader(self._uses)

    @property
    def guests(self) -> Iterator[resident_guest.ResidentGuest]:
        for known in self._instances.values():
            yield from known.guests

    def look(self, cell: nova_database.CellDatabase) -> int:
        """See which instances there are; returns how many."""
        self._marks = list(fleet_import_guests.marks(cell, _MARKS_AT_ONCE))
        return len(self._marks)

    def update(
        self, database: nova_database.NovaDatabases,
        cell: nova_database.CellDatabase, mapped: Mapping[str, str],
        now: datetime.datetime, page_rows: int, tell: Callable[[int], None],
    ) -> None:
        """Read what has changed since the last time, as was looked.

        :param mapped: the UUID of the cell of each host
        :param tell: told after each page how many instances it had
        """
        self.notes, self.homeless = [], 0
        nodes = self._update_nodes(database, cell, mapped, now)
        before, self._instances = self._instances, {}
        changed = set()
        hosts: dict[str, str] = {}
        past = _past(mark[-1] for mark in self._marks)
        for number, uuid, host, written in self._marks:
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
        self.touched = {*hosts.values(), *(
            guest.host for number in changed
            for guest in self._instances[number].guests), *(
            guest.host for number in before.keys() - self._instances.keys()
            for guest in before[number].guests)}
        with_others = self._update_devices(cell, nodes | {
            by_name[host] for host in self.touched if host in by_name})
        self.touched |= {self.nodes[number].host.name for number in nodes}
        if with_others:
            changed |= {number for number, known in self._instances.items()
                        if known.uuid in with_others}
        for ids in _slices(sorted(changed), page_rows):
            page = fleet_import_guests.named(
                database, cell, self._reader, ids)
            for instance in page.instances:
                known = self._instances[instance.id]
                known.guests = instance.guests
                known.is_settled &= not instance.is_migrating
            self.notes += page.problems
            self.homeless += len(page.homeless)
            tell(len(ids))

    def _update_nodes(
        self, database: nova_database.NovaDatabases,
        cell: nova_database.CellDatabase, mapped: Mapping[str, str],
        now: datetime.datetime,
    ) -> set[int]:
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
            cell, conf, sorted(changed))}
        nodes = {}
        for number in marks:
            node = self.nodes.get(number)
            if number in changed:
                node = _kept(node, read.get(number))
            # There are none for bare metal.
            if node is not None:
                nodes[number] = fleet_import_hosts.with_service(
                    node, cell, services, mapped)
        self.nodes, self._node_marks = nodes, marks
        past = _past(marks.values())
        self._unsettled_nodes = {
            number for number in new if marks[number] >= past}
        self.notes += [f'host {node.host.name}: {node.problem}'
                       for node in nodes.values() if node.problem]
        self.notes += [f'{cell}: {note}' for note
                       in fleet_import_hosts.unknown_releases(
                           nodes.values(), services)]
        return changed & nodes.keys()

    def _update_devices(self, cell: nova_database.CellDatabase,
                        changed: Iterable[int]) -> set[str]:
        """Read the devices of some nodes.

        :returns: UUIDs of instances that have others than before
        """
        nodes = [self.nodes[number] for number in sorted(changed)]
        read, uses = fleet_import_devices.pci_devices(cell, nodes)
        for node in read:
            self.nodes[node.id] = node
        names = {node.host.name for node in nodes}
        before = {key: use for key, use in self._uses.items()
                  if key[0] in names}
        for key in before.keys() - uses.keys():
            del self._uses[key]
        self._uses.update(uses)
        return {key[1] for key in before.keys() | uses.keys()
                if before.get(key) != uses.get(key)}


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
    return dataclasses.replace(
        after, pool_providers=before.pool_providers, host=dataclasses.replace(
            after.host, pci_pools=before.host.pci_pools,
            cells=cells if cells == after.host.cells else after.host.cells))


def _slices(items: Sequence[_T], size: int) -> Iterator[Sequence[_T]]:
    for start in range(0, len(items), size):
        yield items[start:start + size]
