# SPDX-License-Identifier: Apache-2.0
"""Where a guest goes on a host: the one place where that is decided.

nova-scheduler only picks a host; nova-compute's claim on it then looks for
cells and its own CPUs. So the engine's choice of cells counts for as much
as the claim agrees with it, and what the claim will do has to be predicted.
"""

from __future__ import annotations

from collections.abc import Iterator

from nova_pinning.fit import _cells
from nova_pinning.fit import _pins
from nova_pinning.fit import cell_check
from nova_pinning.fit import known_defects
from nova_pinning import model


# To look up a member of an enum takes longer than to compare it.
_UNKNOWN = model.CellOrder.UNKNOWN


def comes_alone(drawback: model.Refusal | None) -> bool:
    """Whether a host with it is left only if it is the one host left.

    A second attempt there could be accepted though it is wrong, or one on
    another host after it. Nova takes alternates from the hosts that are left;
    with one there are none.
    """
    # A Refusal counts as false.
    return (drawback is not None
            and drawback.reason is model.Reason.NOVA_AGAIN_WRONG)


def is_cut_off(refusal: model.Refusal) -> bool:
    """Whether a host was not looked at to the end, for that takes long."""
    return refusal.reason in (model.Reason.NOVA_SLOW, model.Reason.BUDGET)


class Decision:
    """A guest on a host.

    :param cells: the host cell of each guest cell
    :param claimed: the CPUs, if they are known already
    :ivar drawback: as in :class:`nova_pinning.fit.known_defects.Claim`
    :ivar rivals: what the claim may come to in its place
    """

    __slots__ = ('_fit', 'cells', 'drawback', 'guest', 'rivals')

    def __init__(
        self,
        guest: model.Guest,
        cells: tuple[model.CellView, ...],
        claimed: model.Fit | None = None,
        drawback: model.Refusal | None = None,
    ) -> None:
        self.guest = guest
        self.cells = cells
        self.drawback = drawback
        self.rivals: tuple[Decision, ...] = ()
        self._fit = claimed

    @property
    def fit(self) -> model.Fit:
        """The CPUs; chosen when first asked for, as filters never do."""
        if self._fit is None:
            self._fit = _pins.pin(self.guest, self.cells)
        return self._fit

    def left_sizes(self) -> Iterator[known_defects.PageSizes]:
        """What the claim can leave of page sizes when it is aborted."""
        if self._fit is None:
            yield tuple(map(
                cell_check.page_size_kib, self.cells, self.guest.demands))
        else:
            yield tuple([cell.page_size_kib for cell in self._fit.cells])
        for rival in self.rivals:
            yield from rival.left_sizes()


def decide(
    host: model.Host,
    guest: model.Guest,
    *,
    pack: bool = False,
    pci: _cells.PciCheck | None = None,
    bounds: known_defects.ClaimBounds = known_defects.ClaimBounds(),
) -> Decision | model.Refusal:
    """Whether and where a guest fits on a host.

    1. Choose a host cell for each guest cell, as nova orders them.
    2. Predict what nova-compute's claim makes of that, unless the choice is
       the first in order, which nova from 2025.1 on finds too, also with the
       page sizes that other claims leave.
    3. Where the claim comes to another answer that is valid, that counts.

    Where a nova-compute may be of a release whose claims do not see which
    pages are free, and they matter, that is a drawback: the nova that is
    installed cannot tell what it does. Where it may try the host cells in two
    orders, both are looked at: each has to come out right, and if they do not
    come out alike that is a drawback.

    :param pack: nova's packing_host_numa_cells_allocation_strategy
    :param pci: the host's PCI devices, None if it has no tracker of them
    :param bounds: for the search, and for the prediction of the claim
    """
    if (host.claim_order is _UNKNOWN and bounds.ask_nova is not None
            and _cells.is_order_of_matter(host, guest, pci)):
        return _decide_either_way(host, guest, pack, pci, bounds)
    choice = _cells.choose_cells(
        host, guest, pack=pack, pci=pci, is_over=bounds.is_over)
    if isinstance(choice, model.Refusal):
        return choice
    if bounds.ask_nova is None or (choice.is_first and not (
            bounds.forgets_pages or host.may_forget_pages
            or bounds.left_sizes)):
        return Decision(guest, choice.cells)
    attempt = known_defects.ClaimAttempt(host, guest, pci)
    claim = known_defects.known_claim(attempt, choice, bounds)
    if claim is None:
        claim = bounds.ask_nova(attempt, choice, bounds)
    if isinstance(claim, model.Refusal):
        return claim
    drawback = claim.drawback
    if (drawback is None and host.may_forget_pages
            and not bounds.forgets_pages
            and known_defects.may_miss_pages(attempt, choice)):
        # The nova that was asked does not forget them.
        drawback = model.Refusal(
            model.Reason.NOVA_UNKNOWN,
            detail='before 2024.2 it does not see which pages are free')
    if claim.fit is None:
        return Decision(guest, choice.cells, drawback=drawback)
    views = {cell.id: cell for cell in host.cells}
    return Decision(
        guest, tuple([views[cell.host_cell] for cell in claim.fit.cells]),
        claim.fit, drawback)


def _decide_either_way(
    host: model.Host, guest: model.Guest, pack: bool,
    pci: _cells.PciCheck | None, bounds: known_defects.ClaimBounds,
) -> Decision | model.Refusal:
    """The decision where the claim may go by one order of cells or another."""
    first, second = [
        decide(host._replace(claim_order=order), guest, pack=pack, pci=pci,
               bounds=bounds)
        for order in (model.CellOrder.FEWEST_DEVICES,
                      model.CellOrder.ANY_DEVICES)]
    if isinstance(first, model.Refusal):
        return first
    if isinstance(second, model.Refusal):
        return second
    drawbacks = [known.drawback for known in (first, second)
                 if known.drawback is not None]
    if first.cells != second.cells or first.fit != second.fit:
        ids, others = [
            ', '.join([str(cell.id) for cell in known.cells])
            for known in (first, second)]
        drawbacks.append(model.Refusal(
            model.Reason.NOVA_UNKNOWN,
            detail=f'host cells {ids} or host cells {others}'))
    first.rivals = second,
    # The worst of them.
    first.drawback = next(
        filter(comes_alone, drawbacks), drawbacks[0] if drawbacks else None)
    return first
