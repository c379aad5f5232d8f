# SPDX-License-Identifier: Apache-2.0
"""Predicts what nova-compute's own claim will make of a guest.

Nova-compute claims CPUs with nova.virt.hardware.numa_fit_instance_to_host,
whatever the scheduler found. That function is wrong for some guests of
several cells: it remembers which guest cell fits where under ids that it
overwrites while it goes, and it lets a page size that was tried on one cell
stick for the next. It also walks permutations, which can take minutes. So it
is followed here; nova's own code is asked about single pairs of cells, where
these are such that the engine judges them otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Sequence
import contextlib
import copy
import dataclasses
import logging
import threading
from typing import Any

from nova import exception
from nova.virt import hardware

from nova_pinning.bridge import nova_objects
from nova_pinning import fit
from nova_pinning.fit import cell_check
from nova_pinning.fit import claim_walk
from nova_pinning.fit import known_defects
from nova_pinning import model
from nova_pinning.model import Reason
from nova_pinning.model import Refusal

#: Permutations that are looked at between two looks at the bounds.
_STRIDE = 64


class _LogSilencer(logging.Filter):
    """Suppresses what nova's fit logs at INFO and above.

    It would be several lines for each host. Only what the thread logs that
    asks on behalf of the scheduler is dropped.
    """

    def __init__(self) -> None:
        super().__init__()
        self._thread = threading.local()

    @contextlib.contextmanager
    def silenced(self) -> Iterator[None]:
        self._thread.is_hushed = True
        try:
            yield
        finally:
            self._thread.is_hushed = False

    def filter(self, record: logging.LogRecord) -> bool:
        return not getattr(self._thread, 'is_hushed', False)


LOG_SILENCER = _LogSilencer()
logging.getLogger(hardware.__name__).addFilter(LOG_SILENCER)


class NovaGuest:
    """A guest as nova's fit takes it, to be asked about many hosts.

    :param guest: what is asked for, untouched by any fit
    :param limits: nova.objects.NUMATopologyLimits or None
    :param ids: by which the first claim knows its cells; None for a new one's
    """

    def __init__(self, guest: model.Guest, limits: Any = None,
                 ids: Sequence[int] | None = None) -> None:
        self.guest = guest
        self.limits = limits
        self.ids = range(len(guest.cells)) if ids is None else ids
        self._topology = nova_objects.instance_topology(guest)

    def under(self, limits: Any) -> 'NovaGuest':
        """The same guest under the limits of another host."""
        if limits is self.limits:
            return self
        other = copy.copy(self)
        other.limits = limits
        return other

    def cell(self, index: int, page_size_kib: int | None) -> Any:
        """A nova.objects.InstanceNUMACell that nova has not tried anywhere.

        :param page_size_kib: what it asks for
        """
        cell = copy.copy(self._topology.cells[index])
        cell.id, cell.pagesize = -1, page_size_kib
        return cell


def predict_claim(
    nova_guest: NovaGuest,
    host_topology: Any,
    attempt: known_defects.ClaimAttempt,
    choice: fit.CellChoice,
    bounds: known_defects.ClaimBounds,
) -> fit.Claim | Refusal:
    """What nova's claim makes of a guest that fits, where only nova can tell.

    :param host_topology: nova.objects.NUMATopology; not changed
    :param choice: what the engine chose, and of which
        ``known_defects.known_claim`` knows nothing
    """
    query = _ClaimQuery(nova_guest, host_topology, attempt, choice, bounds)
    # What nova remembers hangs on the ids of the guest's cells: those that it
    # has come with, and those that an aborted claim on another host leaves
    # behind, with which nova-compute tries the alternate hosts.
    wrong = query.refusal(nova_guest.ids, tuple([
        demand.page_size_kib for demand in attempt.guest.demands]))
    if wrong is not None:
        return wrong
    first = query.answer()
    drawback = known_defects.slowness(
        known_defects.claim_seconds(attempt, query.walked, query.pci_looks),
        bounds)
    if bounds.is_retried:
        if drawback is not None and not bounds.is_patient:
            # What comes after an aborted claim takes as long to find out.
            return drawback
        again = _drawback_of_retries(query, first, bounds)
        if drawback is None or fit.comes_alone(again):
            drawback = again
    return fit.Claim(first, drawback)


def _drawback_of_retries(
    query: '_ClaimQuery', first: model.Fit, bounds: known_defects.ClaimBounds,
) -> Refusal | None:
    """What is wrong with claims that follow an aborted one elsewhere.

    That leaves the page sizes that it came to, be they those of this host. To
    be refused for other page sizes harms nobody, and another host may be.
    """
    own = tuple([cell.page_size_kib for cell in first.cells])
    drawback = None
    for sizes in dict.fromkeys((own, *bounds.left_sizes)):
        wrong = query.refusal([-1] * len(own), sizes)
        if wrong is None:
            continue
        if not query.is_refused:
            return Refusal(Reason.NOVA_AGAIN_WRONG, detail=wrong.detail)
        if sizes == own:
            drawback = Refusal(Reason.NOVA_AGAIN, detail=wrong.detail)
    return drawback


class _ClaimQuery:
    """Nova's claim of one guest on one host.

    :ivar walk: the last one
    :ivar walked: permutations that it walked through then
    :ivar pci_looks: how often it looked for PCI devices then
    :ivar is_refused: whether it found no place then, which harms nobody
    """

    def __init__(
        self,
        nova_guest: NovaGuest,
        host_topology: Any,
        attempt: known_defects.ClaimAttempt,
        choice: fit.CellChoice,
        bounds: known_defects.ClaimBounds,
    ) -> None:
        self._nova_guest = nova_guest
        self._host_topology = host_topology
        self._attempt = attempt
        self._order = choice.order
        self._bounds = bounds
        self._near_networks = fit.set_check(attempt.host, attempt.guest, None)
        self._trials: dict[tuple[model.Demand, int], claim_walk.Trial] = {}
        self._looked = 0
        self.walked = 0
        self.pci_looks = 0
        self.is_refused = False

    def refusal(
        self, ids: Sequence[int], page_sizes: known_defects.PageSizes,
    ) -> Refusal | None:
        """Why nova's answer is not valid, None if it is.

        :param ids: by which nova knows the guest's cells at first
        :param page_sizes: that these ask for at first
        """
        self.walked = self.pci_looks = self._looked = 0
        self.is_refused = False
        self.walk = walk = claim_walk.ClaimWalk(
            [cell.id for cell in self._order], ids, page_sizes,
            self._try_cell)
        try:
            is_found = walk.run(self._accepts, self._note)
        except _Ended as ended:
            return ended.refusal
        if not is_found:
            self.is_refused = True
            return Refusal(Reason.NOVA_WRONG, detail='it finds no host cells')
        self._count()
        wrong = self._what_is_wrong(walk)
        if wrong:
            return Refusal(Reason.NOVA_WRONG, detail=wrong)
        return None

    def answer(self) -> model.Fit:
        """Nova's answer where it is valid."""
        walk = self.walk
        return model.Fit(tuple([
            dataclasses.replace(
                fit.pin_cell(self._attempt.guest, index, self._order[place]),
                page_size_kib=size)
            for index, (place, size) in enumerate(
                zip(walk.chosen, walk.page_sizes))]))

    def _count(self) -> None:
        self.walked = 1 + known_defects.permutations_before(
            range(len(self._order)), self.walk.chosen)

    def _note(self) -> None:
        """See to the bounds now and then, and end a walk that is too long."""
        is_due = not self._looked % _STRIDE
        self._looked += 1
        if not is_due:
            return
        self._count()
        bounds = self._bounds
        if bounds.is_over is not None and bounds.is_over():
            raise _Ended(
                Reason.BUDGET, f'nova was followed until permutation '
                               f'{self.walked}')
        if not bounds.is_patient and known_defects.claim_seconds(
                self._attempt, self.walked, self.pci_looks
        ) > bounds.max_seconds:
            raise _Ended(
                Reason.NOVA_SLOW, f'it would try more than {self.walked} '
                                  f'permutations of cells')

    def _try_cell(
        self, index: int, place: int, page_size_kib: int | None,
    ) -> claim_walk.Trial:
        demand = self._attempt.guest.demands[index]._replace(
            page_size_kib=page_size_kib)
        trial = self._trials.get((demand, place))
        if trial is None:
            cell = self._order[place]
            if not self._bounds.forgets_pages:
                trial = known_defects.known_trial(self._attempt, cell, demand)
            if trial is None:
                trial = self._ask(index, cell, page_size_kib)
            self._trials[demand, place] = trial
        return trial

    def _ask(
        self, index: int, cell: model.CellView, page_size_kib: int | None,
    ) -> claim_walk.Trial:
        """What nova itself makes of a guest cell on a host cell."""
        host_cell = next(nova_cell for nova_cell in self._host_topology.cells
                         if nova_cell.id == cell.id)
        asked = self._nova_guest.cell(index, page_size_kib)
        try:
            with LOG_SILENCER.silenced():
                fitted = hardware._numa_fit_instance_cell(
                    host_cell, asked, self._nova_guest.limits,
                    self._attempt.guest.demands[index].emulator)
        except exception.MemoryPageSizeNotSupported:
            fitted = None
        except Exception as error:
            self.is_refused = True
            raise _Ended(
                Reason.NOVA_WRONG, f'it fails with {error!r}') from error
        return claim_walk.Trial(
            fitted is not None, asked.pagesize, asked.id == cell.id)

    def _accepts(self, chosen: Sequence[int]) -> bool:
        """Whether nova lets the guest have the host cells at these places."""
        ids = self._sorted_ids(chosen)
        pci = self._attempt.pci
        if pci is not None and pci.is_requested:
            self.pci_looks += 1
            if not pci.nova_supports(ids):
                return False
        return self._near_networks is None or self._near_networks(ids) is None

    def _sorted_ids(self, places: Sequence[int]) -> tuple[int, ...]:
        return tuple(sorted([self._order[place].id for place in places]))

    def _what_is_wrong(self, walk: claim_walk.ClaimWalk) -> str:
        """Why nova's answer is not a fit, or '' if it is one.

        Each guest cell must fit its host cell, and have been pinned there.
        """
        host, guest = self._attempt.host, self._attempt.guest
        for index, place in enumerate(walk.chosen):
            cell, demand = self._order[place], guest.demands[index]
            size_kib = walk.page_sizes[index]
            if size_kib is not None:
                if size_kib < 0:
                    return ('it leaves open which pages guest cell '
                            f'{index} gets')
                if size_kib not in dict(
                        cell_check.allowed_pools(cell, demand)):
                    return (f'it gives guest cell {index} pages of {size_kib} '
                            f'KiB on host cell {cell.id}, which is not what '
                            'it asks for')
                demand = demand._replace(page_size_kib=size_kib)
            missing = cell_check.shortage(cell, host, guest, demand)
            if missing:
                return f'it puts guest cell {index} where {missing}'
            pinned_at = walk.pinned_at[index]
            if demand.dedicated and pinned_at != place:
                where = ('nowhere' if pinned_at is None else
                         f'on host cell {self._order[pinned_at].id}')
                return (f'it puts guest cell {index} on host cell {cell.id} '
                        f'and pins it {where}')
        # Networks are near: nova has looked at them as it should.
        ids, pci = self._sorted_ids(walk.chosen), self._attempt.pci
        if pci is not None and pci.is_requested and not pci.supports(ids):
            return (f'it takes host cells {", ".join(map(str, ids))}, which '
                    'are not near the devices or networks asked for')
        return ''


class _Ended(Exception):
    """The walk comes to no answer."""

    def __init__(self, reason: Reason, detail: str) -> None:
        super().__init__(detail)
        self.refusal = Refusal(reason, detail=detail)


def fit_from_nova(answer: Any) -> model.Fit:
    """The fit that a nova.objects.InstanceNUMATopology stands for.

    :param answer: what nova.virt.hardware.numa_fit_instance_to_host found
    """
    return model.Fit(tuple(
        model.CellFit(
            host_cell=cell.id,
            pins=tuple(sorted((cell.cpu_pinning or {}).items())),
            emulator_cpus=tuple(sorted(cell.cpuset_reserved or ())),
            page_size_kib=(
                cell.pagesize or None) if 'pagesize' in cell else None)
        for cell in answer.cells))
