#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

"""What nova-compute's own claim will make of a guest.

Nova-compute claims CPUs with nova.virt.hardware.numa_fit_instance_to_host,
whatever the scheduler found. That function is wrong for some guests of
several cells: it remembers which guest cell fits where under ids that it
overwrites while it goes, and it lets a page size that was tried on one cell
stick for the next. It also walks permutations, which can take minutes.
"""

from collections.abc import Iterator
from collections.abc import Sequence
import contextlib
import dataclasses
import logging
import threading
from typing import Any
from typing import NamedTuple

from nova.virt import hardware

from nova_pinning import fit
from nova_pinning.fit import cell as one_cell
from nova_pinning.fit import doubts
from nova_pinning import model
from nova_pinning.model import Reason
from nova_pinning.model import Refusal


class _Hush(logging.Filter):
    """Keeps what nova's fit logs, at INFO and above, to itself.

    It would be several lines for each host. Only what the thread logs that
    asks on behalf of the scheduler is dropped.
    """

    def __init__(self) -> None:
        super().__init__()
        self._thread = threading.local()

    @contextlib.contextmanager
    def hushed(self) -> Iterator[None]:
        self._thread.is_hushed = True
        try:
            yield
        finally:
            self._thread.is_hushed = False

    def filter(self, record: logging.LogRecord) -> bool:
        return not getattr(self._thread, 'is_hushed', False)


Attempt = doubts.Attempt
is_doubtful = doubts.is_doubtful
permutations_before = doubts.permutations_before

_HUSH = _Hush()
logging.getLogger(hardware.__name__).addFilter(_HUSH)


class NovaArguments(NamedTuple):
    """What numa_fit_instance_to_host is called with, under its own names."""

    host_topology: Any
    instance_topology: Any
    provider_mapping: dict[str, list[str]] | None
    limits: Any = None
    pci_requests: Any = None
    pci_stats: Any = None


def foresee(
    arguments: NovaArguments,
    attempt: Attempt,
    choice: fit.Choice,
    max_permutations: int,
) -> model.Fit | Refusal | None:
    """What nova's claim makes of a guest that fits.

    Nova looks at the first permutation of host cells without memory of any
    other, so what it finds there is right; what comes later is asked of nova
    itself, for guests of the kinds that it is known to get wrong.

    :param arguments: not changed
    :param choice: what the engine chose
    :param max_permutations: how many of them nova may walk through
    :returns: nova's answer if that was asked and is valid, None if nova comes
        to the engine's answer, a Refusal if it goes wrong
    """
    if choice.is_first:
        return None
    before = permutations_before(
        [cell.id for cell in choice.order], [cell.id for cell in choice.cells])
    if before >= max_permutations:
        return Refusal(
            Reason.NOVA_SLOW,
            detail=f'it would try {before} permutations of cells first')
    if not is_doubtful(attempt):
        return None
    return _ask_nova(arguments, attempt, max_permutations)


def _ask_nova(
    arguments: NovaArguments, attempt: Attempt, max_permutations: int,
) -> model.Fit | Refusal:
    """Nova's answer if it is valid under each set of ids it may start from.

    What nova remembers hangs on the ids of the guest's cells: those of a new
    server (from 0), and those that an aborted claim on another host leaves
    behind (-1), with which nova-compute tries the alternate hosts.
    """
    count = len(attempt.guest.cells)
    first = _one_answer(arguments, attempt, range(count), max_permutations)
    if isinstance(first, Refusal):
        return first
    second = _one_answer(arguments, attempt, [-1] * count, max_permutations)
    if isinstance(second, Refusal):
        return dataclasses.replace(
            second, detail=f'after one elsewhere is aborted, {second.detail}')
    return first


def _one_answer(
    arguments: NovaArguments,
    attempt: Attempt,
    ids: Sequence[int],
    max_permutations: int,
) -> model.Fit | Refusal:
    asked = _as_asked(arguments.instance_topology, attempt.guest, ids)
    try:
        with _HUSH.hushed():
            answer = hardware.numa_fit_instance_to_host(
                arguments.host_topology, _Bounded(asked, max_permutations),
                arguments.provider_mapping, arguments.limits,
                arguments.pci_requests, arguments.pci_stats)
    except _TooManyPermutations:
        return Refusal(
            Reason.NOVA_SLOW,
            detail=f'it would try more than {max_permutations} permutations '
                   f'of cells')
    except Exception as error:
        return Refusal(Reason.NOVA_WRONG, detail=f'it fails with {error!r}')
    if answer is None:
        return Refusal(Reason.NOVA_WRONG, detail='it finds no place')
    found = fit_from_nova(answer)
    wrong = _what_is_wrong(found, attempt)
    if wrong:
        return Refusal(Reason.NOVA_WRONG, detail=wrong)
    return found


def _as_asked(
    instance_topology: Any, guest: model.Guest, ids: Sequence[int],
) -> Any:
    """A copy of the guest's topology as if nova had not tried it anywhere."""
    asked = instance_topology.obj_clone()
    for cell, cell_id, guest_cell in zip(asked.cells, ids, guest.cells):
        cell.id = cell_id
        cell.pagesize = guest_cell.page_size_kib
        cell.cpu_pinning_raw = None
        cell.cpuset_reserved = None
    return asked


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


def _what_is_wrong(found: model.Fit, attempt: Attempt) -> str:
    """Why nova's answer is no fit, or '' if it is one.

    Each guest cell must fit its host cell, with the CPUs that nova picks when
    it looks at these two alone.
    """
    host, guest = attempt.host, attempt.guest
    ids = tuple(cell.host_cell for cell in found.cells)
    views = {cell.id: cell for cell in host.cells}
    if len(set(ids)) < len(ids) or not views.keys() >= set(ids):
        return f'it puts the guest cells on host cells {_join(ids)}'
    for index, (demand, cell_fit) in enumerate(
            zip(guest.demands, found.cells)):
        view = views[cell_fit.host_cell]
        if cell_fit.page_size_kib is not None:
            if cell_fit.page_size_kib < 0:
                return f'it leaves open which pages guest cell {index} gets'
            demand = dataclasses.replace(
                demand, page_size_kib=cell_fit.page_size_kib)
        missing = one_cell.shortage(view, host, guest, demand)
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


class _TooManyPermutations(Exception):
    pass


class _Bounded:
    """A guest topology that nova can look at only so many times.

    Nova reads ``cells`` once for each permutation, and a few times before.
    """

    def __init__(self, asked: Any, max_permutations: int) -> None:
        self._asked = asked
        self._reads_left = max_permutations + 8

    @property
    def cells(self) -> Any:
        self._reads_left -= 1
        if self._reads_left < 0:
            raise _TooManyPermutations
        return self._asked.cells

    def __getattr__(self, name: str) -> Any:
        return getattr(self._asked, name)

    def __contains__(self, name: str) -> bool:
        return name in self._asked

    def __len__(self) -> int:
        return len(self._asked)


def _join(ids: Sequence[int]) -> str:
    return ', '.join(map(str, ids))
