# SPDX-License-Identifier: Apache-2.0
"""Known defects of nova, and what can be predicted of a claim without it."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence
import dataclasses
import math
from typing import NamedTuple

from nova_pinning.fit import _cells
from nova_pinning.fit import _matching
from nova_pinning.fit import _pins
from nova_pinning.fit import cell_check
from nova_pinning.fit import claim_walk
from nova_pinning import model

#: What nova.virt.hardware.numa_fit_instance_to_host walks through in a second
#: at the least, measured with 2 to 32 cells: 450,000 to 1,000,000.
PERMUTATIONS_PER_SECOND = 450_000

#: What each look at PCI devices takes nova-compute for each cell and each
#: free device of the host, as it copies them all; measured with 2 to 32 of
#: each: 0.1 to 0.27 ms.
_SECONDS_PER_COPIED = 0.00012

#: What the engine refuses and nova may not.
_STRICTER = frozenset({
    model.Reason.STRAY_PINS, model.Reason.CORES_UNKNOWN,
    model.Reason.EMULATOR_CPU})


class ClaimAttempt(NamedTuple):
    """A guest tried on a host.

    :param pci: the host's PCI devices, None if it has no tracker of them
    """

    host: model.Host
    guest: model.Guest
    pci: _cells.PciCheck | None = None


class Claim(NamedTuple):
    """What nova-compute's claim makes of a guest for which there is room.

    :param fit: where it puts the guest; None if that is where the engine does
    :param drawback: what speaks against the host all the same, so that it is
        for guests that find no other; None if nothing does
    """

    fit: model.Fit | None = None
    drawback: model.Refusal | None = None


#: Asks nova what its claim makes of a choice of cells; a Refusal if it goes
#: wrong.
AskNova = Callable[
    [ClaimAttempt, _cells.CellChoice, 'ClaimBounds'], 'Claim | model.Refusal']


#: In KiB, of each cell of a guest; None where it does not ask for one.
PageSizes = tuple['int | None', ...]


class ClaimBounds(NamedTuple):
    """How far a decision is looked into.

    :param max_seconds: a claim that takes longer is a drawback
    :param is_retried: whether another host may be tried after the first
    :param is_over: takes a step of a search if there may be one; None if there
        is no limit
    :param is_patient: whether to look on until then, not only as long as the
        claim may take
    :param ask_nova: called where only nova itself can tell what its claim
        does; None to leave the claim out of account
    :param forgets_pages: whether the claim of a pinned guest counts the memory
        of a cell, and that of one which asks for no page size does not see
        which pages are free
    :param left_sizes: what claims elsewhere may have left of the guest's page
        sizes when they were aborted
    """

    max_seconds: float = math.inf
    is_retried: bool = True
    is_over: _matching.IsOver | None = None
    is_patient: bool = False
    ask_nova: AskNova | None = None
    forgets_pages: bool = False
    left_sizes: tuple[PageSizes, ...] = ()


def permutations_before(order: Sequence[int], chosen: Sequence[int]) -> int:
    """How many permutations nova walks through before it comes to chosen.

    :param order: host cell ids in the order in which nova tries them
    :param chosen: the ids of the guest's host cells
    """
    left = list(order)
    before = 0
    for index, cell_id in enumerate(chosen):
        position = left.index(cell_id)
        del left[position]
        before += position * math.perm(len(left), len(chosen) - index - 1)
    return before


def claim_seconds(
    attempt: ClaimAttempt, permutations: int, pci_looks: int,
) -> float:
    """How long nova-compute's claim takes.

    :param permutations: of host cells that it walks through
    :param pci_looks: how often it looks for the PCI devices of a guest
    """
    seconds = permutations / PERMUTATIONS_PER_SECOND
    if pci_looks and attempt.pci is not None:
        cells = attempt.host.cells
        copied = len(cells) + attempt.pci.total_devices
        seconds += pci_looks * copied * _SECONDS_PER_COPIED
    return seconds


def slowness(seconds: float, bounds: ClaimBounds) -> model.Refusal | None:
    """The drawback of a claim that takes so long, None if it may."""
    if seconds <= bounds.max_seconds:
        return None
    return model.Refusal(
        model.Reason.NOVA_SLOW, detail=f'it would take about {seconds:.2g} s')


def known_claim(
    attempt: ClaimAttempt, choice: _cells.CellChoice, bounds: ClaimBounds,
) -> Claim | model.Refusal | None:
    """What the claim makes of a choice of cells.

    Nova looks at the first permutation of host cells without memory of any
    other, so what it finds there is right; what comes later it gets wrong
    with some kinds of guests.

    :returns: None if nova's walk has to be followed to tell
    """
    forgets_pages = bounds.forgets_pages and may_miss_pages(attempt, choice)
    if not forgets_pages:
        if choice.is_first and holds_again(attempt, choice, bounds):
            return Claim()
        if _is_sticky(attempt) and not _is_odd(attempt):
            return _sticky_claim(attempt, choice, bounds)
    slow = _slow(attempt, choice, choice.cells, bounds)
    if not (forgets_pages or is_defect_prone(attempt)):
        return Claim(drawback=slow)
    if slow is not None and not bounds.is_patient:
        return slow
    return None


def holds_again(
    attempt: ClaimAttempt, choice: _cells.CellChoice, bounds: ClaimBounds,
) -> bool:
    """Whether no claim goes wrong that starts from page sizes left by others.

    That is known of those that take the first choice, which nova looks at
    without memory of any other, and of those of which it never gets beyond
    the first cell.
    """
    demands = attempt.guest.demands
    own = tuple(map(cell_check.page_size_kib, choice.cells, demands))
    return all(
        sizes == own or _fits_nowhere(choice, demands[0], sizes[0])
        or _fits_first(attempt, choice, sizes) for sizes in bounds.left_sizes)


def _fits_first(attempt: ClaimAttempt, choice: _cells.CellChoice,
                sizes: PageSizes) -> bool:
    """Whether a guest with these page sizes has the choice, too."""
    host, guest = attempt.host, attempt.guest
    return all(
        size is None or (
            size in dict(cell_check.allowed_pools(cell, demand)) and
            cell_check.shortage(cell, host, guest, demand._replace(
                page_size_kib=size)) is None)
        for cell, demand, size in zip(choice.cells, guest.demands, sizes))


def _fits_nowhere(choice: _cells.CellChoice, demand: model.Demand,
                  size_kib: int | None) -> bool:
    """Whether no host cell has such pages for a guest cell."""
    asked = demand._replace(page_size_kib=size_kib)
    return size_kib is not None and all(
        cell_check.page_size_kib(cell, asked) is None for cell in choice.order)


def has_open_pages(guest: model.Guest) -> bool:
    """Whether a cell may have pages of several sizes."""
    return any((cell.page_size_kib or 0) < 0 for cell in guest.cells)


def is_changed_by_claims(guest: model.Guest) -> bool:
    """Whether it matters to a claim that there was another one before."""
    return len(guest.cells) > 1 or has_open_pages(guest)


def _slow(
    attempt: ClaimAttempt, choice: _cells.CellChoice,
    cells: Sequence[model.CellView], bounds: ClaimBounds,
) -> model.Refusal | None:
    """The drawback of a claim that ends on these cells, None if it may."""
    before = permutations_before(
        [cell.id for cell in choice.order], [cell.id for cell in cells])
    return slowness(claim_seconds(attempt, before, choice.sets_tried), bounds)


def _is_sticky(attempt: ClaimAttempt) -> bool:
    """Whether it hangs on nothing but pages where nova puts the guest.

    It is of one cell then, for which nova tries each host cell once, and may
    get one of several page sizes.
    """
    guest = attempt.guest
    return (len(guest.cells) == 1 and has_open_pages(guest)
            and _cells.set_check(attempt.host, guest, attempt.pci) is None)


def _sticky_claim(
    attempt: ClaimAttempt, choice: _cells.CellChoice, bounds: ClaimBounds,
) -> Claim | model.Refusal | None:
    """The claim of a guest that :func:`_is_sticky`.

    The page size that the first host cell with room for the memory would give
    is what nova asks of all cells after it, even if that cell lacks CPUs
    (nova.virt.hardware._numa_fit_instance_cell).

    :returns: None if it would get a size that it does not ask for
    """
    host, guest = attempt.host, attempt.guest
    demand = guest.demands[0]
    for cell in choice.order:
        size_kib = cell_check.page_size_kib(cell, demand)
        if size_kib is None:
            continue
        demand = demand._replace(page_size_kib=size_kib)
        if cell_check.shortage(cell, host, guest, demand) is None:
            if size_kib not in dict(
                    cell_check.allowed_pools(cell, guest.demands[0])):
                return None
            return Claim(
                model.Fit((dataclasses.replace(
                    _pins.pin_cell(guest, 0, cell), page_size_kib=size_kib),)),
                _slow(attempt, choice, (cell,), bounds))
    return model.Refusal(model.Reason.NOVA_WRONG, detail='it finds no host '
                                                         'cells')


def known_trial(
    attempt: ClaimAttempt, cell: model.CellView, demand: model.Demand,
) -> claim_walk.Trial | None:
    """What nova makes of one guest cell on one host cell.

    :param demand: that of the guest cell, with the page size that it asks for
        by now
    :returns: None if only nova itself can tell
    """
    host, guest = attempt.host, attempt.guest
    if demand.page_size_kib:
        size_kib = cell_check.page_size_kib(cell, demand)
        if size_kib is None:
            return claim_walk.Trial(False, demand.page_size_kib, False)
        demand = demand._replace(page_size_kib=size_kib)
    # Nova looks at the ratios last, when it has pinned vCPUs.
    missing = cell_check.shortage(
        cell, host._replace(cpu_allocation_ratio=None,
                            ram_allocation_ratio=None), guest, demand)
    if missing is not None and missing.reason in _STRICTER:
        return None
    fits = missing is None and cell_check.shortage(
        cell, host, guest, demand) is None
    return claim_walk.Trial(
        fits, demand.page_size_kib,
        missing is None if guest.is_pinned else fits)


def _is_odd(attempt: ClaimAttempt) -> bool:
    """Whether nova is known to get the CPUs of such guests wrong at times."""
    guest = attempt.guest
    if not guest.is_pinned:
        return False
    if (guest.emulator_isolated and
            guest.thread_policy is model.ThreadPolicy.ISOLATE):
        return True
    # Sibling lists that are empty or overlap: nova fails on the one and pins
    # two vCPUs to one CPU on the other.
    return any(cell.dedicated_count and not cell.free_in_cores and
               cell.free_count for cell in attempt.host.cells)


def may_miss_pages(
    attempt: ClaimAttempt, choice: _cells.CellChoice,
) -> bool:
    """Whether a claim that forgets pages may not come to this choice.

    It goes by the memory of a cell that nova has not counted as used, in the
    place of the free pages of the smallest size, and besides those of a size
    that is asked for.
    """
    guest = attempt.guest
    if not guest.is_pinned:
        return False
    # Of the first choice nova looks at nothing else.
    cells = choice.cells if choice.is_first else attempt.host.cells
    for cell in cells:
        if cell.smallest_pages is None:
            continue
        free_mib = cell.memory_mib - cell.memory_used_mib
        for demand in set(guest.demands):
            has_pages = cell_check.has_memory(cell, guest, demand)
            if has_pages and demand.memory_mib > free_mib:
                return True
            if (not has_pages and not demand.page_size_kib
                    and demand.memory_mib <= free_mib):
                return True
    return False


def is_defect_prone(attempt: ClaimAttempt) -> bool:
    """Whether a known defect of nova can affect guests of this kind."""
    guest = attempt.guest
    if has_open_pages(guest):
        return True
    if _is_odd(attempt):
        return True
    if attempt.pci is not None and attempt.pci.short:
        return True
    if len(guest.cells) < 2:
        return False
    # What nova remembers of one cell is right for another that asks for the
    # same, a page size included.
    return (len(set(guest.demands)) > 1 or
            guest.cpu_policy is model.CpuPolicy.MIXED or
            _cells.set_check(attempt.host, guest, attempt.pci) is not None)
