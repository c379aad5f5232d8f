# SPDX-License-Identifier: Apache-2.0
"""Predicts what nova-compute's own claim will make of a guest.

Nova-compute claims CPUs with nova.virt.hardware.numa_fit_instance_to_host,
whatever the scheduler found. That function is wrong for some guests of
several cells: it remembers which guest cell fits where under ids that it
overwrites while it goes, and it lets a page size that was tried on one cell
stick for the next. It also walks permutations, which can take minutes.
"""

from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
import contextlib
import logging
import threading
from typing import Any

from nova.objects import instance_numa
from nova.objects import numa
from nova.virt import hardware

from nova_pinning.bridge import nova_objects
from nova_pinning import fit
from nova_pinning.fit import cell_check
from nova_pinning.fit import known_defects
from nova_pinning import model
from nova_pinning.model import Reason
from nova_pinning.model import Refusal

#: Permutations between two looks at the time.
_STRIDE = 1024


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
    """

    def __init__(self, guest: model.Guest, limits: Any = None) -> None:
        self.guest = guest
        self.limits = limits
        self._topology = nova_objects.instance_topology(guest)

    def under(self, limits: Any) -> 'NovaGuest':
        """The same guest under the limits of another host."""
        if limits is self.limits:
            return self
        other = object.__new__(NovaGuest)
        other.guest, other.limits = self.guest, limits
        other._topology = self._topology
        return other

    def asked(self, ids: Sequence[int]) -> list[Any]:
        """Cells that nova has not tried anywhere, known to it by these ids."""
        cells = []
        for cell, cell_id in zip(self._topology.cells, ids):
            made = _plain_cell(_GuestCell, cell)
            made.id = cell_id
            cells.append(made)
        return cells

    @property
    def emulator_threads_policy(self) -> Any:
        return self._topology.emulator_threads_policy


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
    count = len(attempt.guest.cells)
    # What nova remembers hangs on the ids of the guest's cells: those of a
    # new server, and those that an aborted claim on another host leaves
    # behind, with which nova-compute tries the alternate hosts.
    first = query.answer(range(count))
    if isinstance(first, Refusal):
        return first
    drawback = known_defects.slowness(
        known_defects.claim_seconds(attempt, query.walked, query.pci_looks),
        bounds)
    if drawback is None and bounds.is_retried:
        second = query.answer([-1] * count)
        if isinstance(second, Refusal):
            drawback = Refusal(
                Reason.NOVA_AGAIN if query.is_refused
                else Reason.NOVA_AGAIN_WRONG, detail=second.detail)
    return fit.Claim(first, drawback)


class _ClaimQuery:
    """Nova's fit, asked about one guest on one host.

    :ivar walked: permutations that it walked through the last time
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
        self._attempt = attempt
        self._bounds = bounds
        by_id = {cell.id: cell for cell in host_topology.cells}
        self._host_cells = [
            _plain_cell(_HostCell, by_id[cell.id]) for cell in choice.order]
        self.walked = 0
        self.pci_looks = 0
        self.is_refused = False

    def answer(self, ids: Sequence[int]) -> model.Fit | Refusal:
        """Nova's answer if it is valid.

        :param ids: by which nova knows the guest's cells at first
        """
        self.walked = self.pci_looks = 0
        self.is_refused = False
        pci = self._attempt.pci
        wants_pci = pci is not None and pci.is_requested
        guest = _Topology(
            self._nova_guest.asked(ids), self._count,
            self._nova_guest.emulator_threads_policy)
        try:
            with LOG_SILENCER.silenced():
                # As many host cells as guest cells, for all that nova sees:
                # it then leaves them in the order in which they are given.
                fitted = hardware.numa_fit_instance_to_host(
                    _Topology(self._host_cells, _nothing, None, len(ids)),
                    guest, None, self._nova_guest.limits,
                    [None] if wants_pci else None,
                    self if wants_pci else None)
        except _OutOfTime:
            return Refusal(
                Reason.BUDGET,
                detail=f'nova was asked until permutation {self.walked}')
        except _TooManyPermutations:
            return Refusal(
                Reason.NOVA_SLOW,
                detail=f'it would try more than {self.walked} permutations '
                       f'of cells')
        except Exception as error:
            self.is_refused = True
            return Refusal(
                Reason.NOVA_WRONG, detail=f'it fails with {error!r}')
        if fitted is None:
            self.is_refused = True
            return Refusal(Reason.NOVA_WRONG, detail='it finds no host cells')
        answer = fit_from_nova(fitted)
        wrong = _what_is_wrong(answer, self._attempt)
        if wrong:
            return Refusal(Reason.NOVA_WRONG, detail=wrong)
        return answer

    def _count(self) -> None:
        """Note one more permutation; end the walk where it is too long."""
        self.walked += 1
        if self.walked % _STRIDE:
            return
        bounds = self._bounds
        if bounds.is_over is not None and bounds.is_over():
            raise _OutOfTime
        if not bounds.is_patient and known_defects.claim_seconds(
                self._attempt, self.walked, self.pci_looks
        ) > bounds.max_seconds:
            raise _TooManyPermutations

    # What nova reads of PciDeviceStats.

    def support_requests(
        self, _requests: Any, _mapping: Mapping[str, Any] | None,
        cells: Sequence[Any],
    ) -> bool:
        self.pci_looks += 1
        assert self._attempt.pci is not None
        return self._attempt.pci.supports(
            tuple(sorted(cell.id for cell in cells)))


class _HostCell(numa.NUMACell):
    """A host cell whose id nova reads from a plain attribute.

    Nova walks permutations three times as fast with it: the getters of
    oslo.versionedobjects are most of what that takes.
    """

    id: Any = None

    @classmethod
    def obj_name(cls) -> str:
        return 'NUMACell'


class _GuestCell(instance_numa.InstanceNUMACell):
    """The same for a cell of a guest."""

    id: Any = None

    @classmethod
    def obj_name(cls) -> str:
        return 'InstanceNUMACell'


def _plain_cell(kind: type[Any], cell: Any) -> Any:
    """A cell of a nova object that shares all values with that.

    Nova only ever puts other values in their place.
    """
    made = object.__new__(kind)
    made.__dict__.update(cell.__dict__)
    made.__dict__['_changed_fields'] = set()
    made.id = cell.id
    return made


class _Topology:
    """What nova's fit reads of a topology, of a host's or of a guest's.

    :param note: called each time the cells are read, which nova does for
        each permutation of host cells
    :param count: how many cells nova is told that there are; None for as many
        as there are
    """

    def __init__(
        self,
        cells: list[Any],
        note: Callable[[], None],
        emulator_threads_policy: str | None,
        count: int | None = None,
    ) -> None:
        self._cells = cells
        self._note = note
        self._count = len(cells) if count is None else count
        self.emulator_threads_policy = emulator_threads_policy
        self.emulator_threads_isolated = emulator_threads_policy == 'isolate'

    @property
    def cells(self) -> list[Any]:
        self._note()
        return self._cells

    def __contains__(self, name: str) -> bool:
        return name == 'emulator_threads_policy'

    def __len__(self) -> int:
        return self._count


def _nothing() -> None:
    pass


class _TooManyPermutations(Exception):
    pass


class _OutOfTime(Exception):
    pass


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


def _what_is_wrong(nova_fit: model.Fit,
                   attempt: known_defects.ClaimAttempt) -> str:
    """Why nova's answer is not a fit, or '' if it is one.

    Each guest cell must fit its host cell, with the CPUs that nova picks when
    it looks at these two alone.
    """
    host, guest = attempt.host, attempt.guest
    ids = tuple(cell.host_cell for cell in nova_fit.cells)
    views = {cell.id: cell for cell in host.cells}
    if len(set(ids)) < len(ids) or not views.keys() >= set(ids):
        return f'it puts the guest cells on host cells {_join(ids)}'
    for index, (demand, cell_fit) in enumerate(
            zip(guest.demands, nova_fit.cells)):
        view = views[cell_fit.host_cell]
        size_kib = cell_fit.page_size_kib
        if size_kib is not None:
            if size_kib < 0:
                return f'it leaves open which pages guest cell {index} gets'
            if size_kib not in dict(cell_check.allowed_pools(view, demand)):
                return (f'it gives guest cell {index} pages of {size_kib} '
                        f'KiB on host cell {view.id}, which is not what it '
                        'asks for')
            demand = demand._replace(page_size_kib=size_kib)
        missing = cell_check.shortage(view, host, guest, demand)
        if missing:
            return f'it puts guest cell {index} where {missing}'
        right = fit.pin_cell(guest, index, view)
        if (right.pins, right.emulator_cpus) != (
                cell_fit.pins, cell_fit.emulator_cpus):
            cpus = _join([cpu for _vcpu, cpu in cell_fit.pins])
            return (f'it pins guest cell {index} to CPUs {cpus or "(none)"} '
                    f'on host cell {view.id}')
    check = fit.set_check(host, guest, attempt.pci)
    if check and check(tuple(sorted(ids))):
        return (f'it takes host cells {_join(ids)}, which are not near the '
                f'devices or networks asked for')
    return ''


def _join(ids: Sequence[int]) -> str:
    return ', '.join(map(str, ids))
