# SPDX-License-Identifier: Apache-2.0
"""What drawings of a plan of moves show: hosts before and after.

Both drawings, for the terminal and as SVG, say what stands here. A guest that
is moved has one letter in both states; that it was parked in between does not
show.
"""

from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
import dataclasses
import typing

from nova_pinning import cpuset
from nova_pinning.fit import usage
from nova_pinning.fleet import occupancy
from nova_pinning.fleet import snapshot
from nova_pinning.host import host_model
from nova_pinning import model
from nova_pinning.presentation import cpu_use
from nova_pinning.presentation import fleet_host_picture
from nova_pinning.presentation import terminal_drawing
from nova_pinning.rebalance import plan_model
from nova_pinning import spelling


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class MovedGuest:
    """A guest that is elsewhere after the plan.

    :param number: counted from 0, in the order of the first moves
    :param letter: by which drawings and tables know it
    :param title: its name, or its UUID if it has none
    """

    number: int
    letter: str
    guest: str
    title: str
    vcpus: int
    source: str
    target: str
    source_fit: model.Fit | None
    target_fit: model.Fit | None


class CpuOccupant(typing.NamedTuple):
    """What one CPU is used for.

    :param kind: PINNED for a guest that is moved, TAKEN for others
    :param moved: the former, None for all else
    """

    kind: cpu_use.CpuUseKind
    moved: MovedGuest | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class MovePictureCell:
    """A NUMA cell of a host, before and after.

    :param cores: the ids of each core's CPUs
    :param before: by CPU id, all CPUs of the cell
    :param after: the same
    """

    id: int
    cores: tuple[tuple[int, ...], ...]
    before: Mapping[int, CpuOccupant]
    after: Mapping[int, CpuOccupant]

    @property
    def is_changed(self) -> bool:
        return self.before != self.after


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class MovePictureHost:
    """A host that guests leave or come to.

    :param leaving: guests without CPUs of their own, which no cell shows
    :param coming: the same
    """

    name: str
    cells: tuple[MovePictureCell, ...]
    leaving: tuple[MovedGuest, ...] = ()
    coming: tuple[MovedGuest, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class MovePicture:
    """A plan as drawings show it.

    :param hosts: those that are other afterwards, in the fleet's order
    """

    guests: tuple[MovedGuest, ...]
    hosts: tuple[MovePictureHost, ...]


def letters(guests: Iterable[str]) -> dict[str, str]:
    """The letter of each guest, in the order in which they come up first.

    :param guests: UUIDs, some of them several times
    """
    return dict(zip(dict.fromkeys(guests), terminal_drawing.symbols()))


def moved_guests(
        plan: plan_model.RebalancePlan) -> tuple[MovedGuest, ...]:
    """The guests of a plan with their letters, each once.

    Those that are back where they were in the end are among them.
    """
    first: dict[str, plan_model.PlannedMove] = {}
    last: dict[str, plan_model.PlannedMove] = {}
    for move in plan.moves:
        first.setdefault(move.guest, move)
        last[move.guest] = move
    named = letters(first)
    return tuple(
        MovedGuest(
            number=number, letter=named[uuid], guest=uuid,
            title=spelling.printable(begun.name or uuid),
            vcpus=begun.vcpus, source=begun.source,
            target=last[uuid].target, source_fit=begun.source_fit,
            target_fit=last[uuid].target_fit)
        for number, (uuid, begun) in enumerate(first.items()))


def picture_of(plan: plan_model.RebalancePlan,
               fleet: snapshot.Fleet) -> MovePicture:
    """A plan on the fleet that it is made for."""
    guests = moved_guests(plan)
    touched = {name for guest in guests
               for name in (guest.source, guest.target)}
    residents = occupancy.guests_by_host(fleet)
    topologies = {
        guest.uuid: guest.topology for name in touched
        for guest in residents[name]}
    moved = {guest.guest for guest in guests}
    return MovePicture(guests=guests, hosts=tuple(
        _host(host, guests, topologies,
              [guest for guest in residents[host.name]
               if guest.uuid not in moved])
        for host in fleet.hosts if host.name in touched))


def free_count(uses: Mapping[int, CpuOccupant]) -> int:
    """How many CPUs are free."""
    return sum(use.kind is cpu_use.CpuUseKind.FREE for use in uses.values())


def meanings(picture: MovePicture) -> Iterator[
        tuple[cpu_use.CpuUseKind, str]]:
    """What each kind of use that occurs means, but that of moved guests."""
    kinds = {use.kind for host in picture.hosts for cell in host.cells
             for uses in (cell.before, cell.after) for use in uses.values()}
    for kind, meaning in MEANINGS.items():
        if kind in kinds:
            yield kind, meaning


#: What a CPU is used for, but by guests that are moved.
MEANINGS = {
    cpu_use.CpuUseKind.TAKEN: 'taken by a guest that stays',
    cpu_use.CpuUseKind.FREE: 'free',
    cpu_use.CpuUseKind.SHARED: 'shared by floating guests',
    cpu_use.CpuUseKind.KEPT: 'kept for the host',
}


def _host(
    host: snapshot.FleetHost, guests: Iterable[MovedGuest],
    topologies: Mapping[str, model.Guest | None],
    staying: Iterable[snapshot.FleetGuest],
) -> MovePictureHost:
    cells = {cell.id: cell for cell in host.cells}
    leaving = [guest for guest in guests if guest.source == host.name]
    coming = [guest for guest in guests if guest.target == host.name]
    taken = cpuset.union(
        cpus for guest in staying
        for cpus in _taken(cells, guest.topology, guest.fit))
    description = fleet_host_picture.fleet_host_description(host)
    base = {
        cpu: CpuOccupant(use.kind) for cpu, use in cpu_use.cpu_use_of(
            description, taken, None).uses.items()}
    before, after = dict(base), dict(base)
    for guest in leaving:
        _put(before, guest, cells, topologies[guest.guest], guest.source_fit)
    for guest in coming:
        _put(after, guest, cells, topologies[guest.guest], guest.target_fit)
    return MovePictureHost(
        name=host.name,
        cells=tuple(_cell(node, before, after) for node in description.nodes),
        leaving=tuple(guest for guest in leaving
                      if not _has_cpus(guest.source_fit)),
        coming=tuple(guest for guest in coming
                     if not _has_cpus(guest.target_fit)))


def _has_cpus(fit: model.Fit | None) -> bool:
    return fit is not None and any(cell.pins for cell in fit.cells)


def _cell(
    node: host_model.NumaNode, before: Mapping[int, CpuOccupant],
    after: Mapping[int, CpuOccupant],
) -> MovePictureCell:
    return MovePictureCell(
        id=node.id, cores=node.cores,
        before={cpu: before[cpu] for cpu in node.cpus},
        after={cpu: after[cpu] for cpu in node.cpus})


def _put(
    uses: dict[int, CpuOccupant], guest: MovedGuest,
    cells: Mapping[int, model.HostCell], topology: model.Guest | None,
    fit: model.Fit | None,
) -> None:
    for cpus in _taken(cells, topology, fit):
        for cpu in cpus:
            if cpu in uses:
                uses[cpu] = CpuOccupant(cpu_use.CpuUseKind.PINNED, guest)


def _taken(
    cells: Mapping[int, model.HostCell], topology: model.Guest | None,
    fit: model.Fit | None,
) -> Iterator[cpuset.CpuSet]:
    """The CPUs that a guest has for itself, by cell."""
    if topology is None or fit is None or not topology.is_pinned:
        return
    for cell in fit.cells:
        if cell.host_cell in cells:
            yield usage.taken_cpus(cells[cell.host_cell], topology, cell)
