# SPDX-License-Identifier: Apache-2.0
"""A host of a fleet with its guests, as the rules of a snapshot see it."""

from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Sequence
import dataclasses
import functools
from typing import NamedTuple

from nova_pinning.admission import l3_layout
from nova_pinning.admission import offered_host
from nova_pinning.admission import outcome
from nova_pinning.admission import resident_guest
from nova_pinning.checks import check_rule
from nova_pinning import cpuset
from nova_pinning.host import core_division
from nova_pinning.host import words
from nova_pinning import model

# Guests or CPUs named in a message.
_SHOWN = 4


class CellLayout:
    """What is odd about the cells of a host; very many hosts share them."""

    def __init__(self, cells: tuple[model.HostCell, ...]) -> None:
        self._cells = cells
        self.by_id = {cell.id: cell for cell in cells}

    @functools.cached_property
    def odd_cores(self) -> tuple[str, ...]:
        return tuple(self._odd_cores())

    def _odd_cores(self) -> Iterator[str]:
        for cell in self._cells:
            listed = [cpu for core in cell.cores for cpu in core]
            cores = cpuset.CpuSet(listed)
            if len(cores) < len(listed):
                yield f'cell {cell.id} has a CPU in two cores'
            left_out = cell.dedicated_cpus - cores
            if left_out:
                yield (f'{_are(left_out, f"of cell {cell.id}")} in no core')

    @functools.cached_property
    def divided_cores(self) -> tuple[str, ...]:
        return tuple(f'cell {cell.id}: {text}' for cell in self._cells if (
            text := core_division.text(
                cell.cores, cell.dedicated_cpus, cell.shared_cpus)))

    @functools.cached_property
    def overlaps(self) -> tuple[str, ...]:
        return tuple(self._overlaps())

    def _overlaps(self) -> Iterator[str]:
        seen = cpuset.CpuSet()
        for cell in self._cells:
            cpus = cell.dedicated_cpus | cell.shared_cpus
            if not cpus.isdisjoint(seen):
                yield (f'{_are(cpus & seen, f"of cell {cell.id}")} also in '
                       'a cell before it')
            seen |= cpus


def _are(cpus: cpuset.CpuSet, where: str) -> str:
    return f'{words.cpus(cpus)} {where} {"is" if len(cpus) == 1 else "are"}'


class _CheckedGuestCell(NamedTuple):
    """A cell of a guest, and where the snapshot has it.

    :param cell: None if the host has no such cell
    :param strays: its CPUs if any is not a dedicated one of the cell
    """

    guest: resident_guest.ResidentGuest
    topology: model.GuestCell
    fit: model.CellFit
    is_pinned: bool
    cell: model.HostCell | None
    strays: cpuset.CpuSet | None


# No slots: what is worked out of it is kept.
@dataclasses.dataclass(frozen=True)
class HostView:
    """A host of a fleet with its guests.

    :param aggregates: the names of those that the fleet lists
    :param server_groups: the ids of those that it lists
    :param caches: of the host, None if they are not known
    """

    host: offered_host.OfferedHost
    guests: Sequence[resident_guest.ResidentGuest]
    layout: CellLayout
    aggregates: frozenset[str]
    server_groups: frozenset[str]
    caches: l3_layout.L3Layout | None = None

    @functools.cached_property
    def guest_cells(self) -> tuple[_CheckedGuestCell, ...]:
        """The cells of the guests whose place is known."""
        return tuple(
            self._guest_cell(guest, topology, fit, guest.topology.is_pinned)
            for guest in self.guests
            if guest.topology is not None and guest.fit is not None
            for topology, fit in zip(guest.topology.cells, guest.fit.cells))

    def _guest_cell(
        self, guest: resident_guest.ResidentGuest, topology: model.GuestCell,
        fit: model.CellFit, is_pinned: bool,
    ) -> _CheckedGuestCell:
        cell = self.layout.by_id.get(fit.host_cell)
        cpus = cpuset.CpuSet([
            *(cpu for _vcpu, cpu in fit.pins), *fit.emulator_cpus])
        is_astray = cell and not cpus.issubset(cell.dedicated_cpus)
        return _CheckedGuestCell(guest, topology, fit, is_pinned, cell,
                                 cpus if is_astray else None)

    def gap_texts(self, *kinds: outcome.DoubtKind) -> list[str]:
        """What is not known of the host, as far as it is of these kinds."""
        return [gap.text for gap in self.host.gaps if gap.kind in kinds]

    def violation(
        self, message: str,
        guests: Iterable[resident_guest.ResidentGuest] = (),
    ) -> check_rule.Violation:
        """What a rule sees in the host, or in all of these guests."""
        return violation(self.host.name, message, guests)

    def guest_violation(
        self, message: str, guest: resident_guest.ResidentGuest,
    ) -> check_rule.Violation:
        """What a rule sees in one guest."""
        return dataclasses.replace(
            self.violation(message, (guest,)),
            subject=f'guest {_name(guest)} on host {self.host.name}',
            kind='guest', id=guest.uuid, name=guest.name)


def violation(
    host: str, message: str,
    guests: Iterable[resident_guest.ResidentGuest] = (),
) -> check_rule.Violation:
    return check_rule.Violation(
        subject=f'host {host}', kind='host', name=host, host=host,
        message=message,
        details={'guests': [guest.uuid for guest in guests]})


def of_guests(
    host: str, guests: Sequence[resident_guest.ResidentGuest],
    kind: str = 'guest',
) -> check_rule.Violation:
    """What is odd about these guests, which are named."""
    return violation(host, f'{words.count(len(guests), kind)}: '
                           f'{names(guests)}', guests)


def _name(guest: resident_guest.ResidentGuest) -> str:
    return f'{guest.uuid} ({guest.name})' if guest.name else guest.uuid


def names(guests: Sequence[resident_guest.ResidentGuest]) -> str:
    return words.listed(list(map(_name, guests)), _SHOWN)
