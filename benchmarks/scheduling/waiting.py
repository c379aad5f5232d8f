# SPDX-License-Identifier: Apache-2.0
"""The setting of SPANE: guests wait, in the order in which they come.

SPANE (arXiv 2504.14946) puts guests of Huawei-East-1 on five hosts of two NUMA
nodes. Who finds no room waits, and whoever comes later behind him; what counts
is how long all of them wait. A case begins at one arrival of the trace and has
as many guests as first fit places until one does not fit at once, and 40 more.
The data (CC BY-NC) are measured with and never shipped.
"""

from collections.abc import Iterable
from collections.abc import Sequence
import csv
import dataclasses
import functools
import heapq
import itertools
import math
import statistics
from typing import Any
from typing import NamedTuple
from typing import TypeAlias

import numpy

from benchmarks import judging
from benchmarks.scheduling import fleets
from nova_pinning.admission import guest_request
from nova_pinning import fit
from nova_pinning.fleet import generate
from nova_pinning.fleet import shapes
from nova_pinning.fleet import snapshot
from nova_pinning.model import weighers
from nova_pinning.scheduler import mix
from nova_pinning.simulation import admission_columns
from nova_pinning.simulation import fast
from nova_pinning.simulation import guests
from nova_pinning.simulation import scheduler_configuration
from nova_pinning import units

NAME = 'spane'
FIRST_FIT = 'first-fit'
#: Cases that begin close together have guests in common. So the trace is cut
#: into parts, which intervals are drawn from.
PARTS = 20
#: Nova-compute takes the emptiest cell that will do, not the fullest.
OURS = 'pinning-apart'
#: What the others are held against.
COMPARED = (FIRST_FIT, 'nova-default', 'nova-packing', 'best-fit')
TITLE = (
    'The setting of SPANE (arXiv 2504.14946): guests of Huawei-East-1 wait '
    'for room on 5 hosts of 2 cells of 40 CPUs and 90 GiB, who has more than '
    '10 GiB in both cells. Seconds that all guests of a case wait together, '
    'the mean of {:,} cases without a tenth at either end, as its authors '
    'have it; and how much longer than with others, with 95% intervals.')

_HOSTS, _CELLS, _CPUS, _MEMORY_GIB = 5, 2, 40, 90
#: Guests with more memory than this lie in both nodes of a host.
_LARGEST_CELL_GIB = 10
_MORE = 40
#: Of the waits, sorted, what is left out at either end.
_TRIMMED = 0.1


#: By name, in the order of the table.
CONFIGURATIONS = {
    named.name: named for named in (
        scheduler_configuration.SchedulerConfiguration(
            name=FIRST_FIT, multipliers=dict.fromkeys(
                weighers.NOVA_MULTIPLIERS, 0.0)),
        *(scheduler_configuration.NAMED[name] for name in (
            'nova-default', 'nova-packing', 'best-fit', 'pinning')),
        *(dataclasses.replace(
            scheduler_configuration.NAMED[name], packs_cells=False,
            name=f'{name}-apart') for name in (
                'nova-packing', 'best-fit', 'pinning')),
        dataclasses.replace(
            scheduler_configuration.NAMED['pinning'], packs_cells=False,
            name='pinning-beside-packing', multipliers={
                **scheduler_configuration.NAMED['pinning'].multipliers,
                'CPUWeigher': -1.0, 'RAMWeigher': -1.0}))}


Parts: TypeAlias = Sequence[Sequence[int]]


class WaitingGuest(NamedTuple):
    """A line of the trace, times in seconds."""

    uuid: str
    request: guest_request.GuestRequest
    arrives: int
    stays: int


class Trace(NamedTuple):
    """Guests in the order of their arrival, and where cases begin."""

    guests: Sequence[WaitingGuest]
    starts: Sequence[int]


@functools.cache
def read() -> Trace:
    """The trace, with the 1,000 starts that the authors judge by.

    :raises errors.InputError: if the data are not there
    """
    lines = fleets.data_path('spane/data/Huawei-East-1-lt.csv')
    starts = fleets.data_path('spane/data/test_random_time_1000.npy')
    plain = functools.cache(guests.plain)
    found = []
    with open(lines, encoding='utf-8') as file:
        for row in csv.DictReader(file):
            cpus, gib, arrives, stays = (
                int(float(row[name])) for name in ('cpu', 'mem', 'at', 'lt'))
            found.append(WaitingGuest(row['vmid'], plain(
                cpus, gib * units.MIB_PER_GIB,
                cells=_CELLS if gib > _LARGEST_CELL_GIB else 1),
                arrives, stays))
    return Trace(found, sorted(numpy.load(starts).tolist()))


class _FirstFit(fast.FastScheduler):
    """Takes the first host, and of its cells the first that will do."""

    def _decide(self, kind: Any, index: int, is_patient: bool = False) -> Any:
        found = super()._decide(kind, index, is_patient)
        if isinstance(found, fit.Decision) and len(found.cells) == 1:
            host = self.ledger.occupancies[index].engine
            for cell in host.cells:
                first = fit.decide(host._replace(cells=(cell,)), found.guest)
                if isinstance(first, fit.Decision):
                    return first
        return found


class _Queue:
    """Guests that a scheduler places, each as soon as it can."""

    def __init__(
        self, configuration: scheduler_configuration.SchedulerConfiguration,
    ) -> None:
        made = (_FirstFit if configuration.name == FIRST_FIT
                else fast.FastScheduler)
        self._scheduler = made(admission_columns.of_fleet(
            _fleet(), configuration, range(_HOSTS)), configuration)
        self._leaving: list[tuple[float, str]] = []
        self._now = 0

    def begin(self, seen: Iterable[WaitingGuest]) -> None:
        """Empty the hosts.

        :param seen: guests that the scheduler was asked for before
        """
        self._release(math.inf)
        self._now = 0
        self._scheduler.recall(
            (guest.uuid, guest.request.topology) for guest in seen
            if guest.request.topology is not None)

    def fits(self, guest: WaitingGuest) -> bool:
        """Whether there is room for one more as things are."""
        placed = self._scheduler.place(guest.uuid, guest.request)
        if placed.host is None:
            return False
        self._scheduler.remove(guest.uuid)
        return True

    def place(self, guest: WaitingGuest) -> int:
        """Place the next guest, and return how many seconds it waits."""
        self._release(guest.arrives)
        while self._scheduler.place(guest.uuid, guest.request).host is None:
            self._now = int(self._leaving[0][0])
            self._release(self._now)
        self._now = max(self._now, guest.arrives)
        heapq.heappush(self._leaving, (self._now + guest.stays, guest.uuid))
        return self._now - guest.arrives

    def _release(self, until: float) -> None:
        while self._leaving and self._leaving[0][0] <= until:
            self._scheduler.remove(heapq.heappop(self._leaving)[1])


#: What is known of the states of hosts is kept from one case to the next.
_queue = functools.cache(lambda name: _Queue(CONFIGURATIONS[name]))


@functools.cache
def _fleet() -> snapshot.Fleet:
    return generate.generate_fleet(_HOSTS, dataclasses.replace(
        shapes.SHAPES['two-socket-88'], cores=_CPUS, l3_cores=_CPUS,
        memory_mib=_MEMORY_GIB * units.MIB_PER_GIB, page_size_kib=0,
        huge_mib=0), filled=0.0)


@functools.cache
def _first_fit(start: int) -> tuple[int, int]:
    """Where a case ends in the trace, and how long guests wait by first fit.

    It has as many guests as first fit places until the next does not fit
    beside them, even if some of them leave before it comes, and some more.
    """
    guests_after = itertools.islice(read().guests, start, None)
    queue, guest, waited = _queue(FIRST_FIT), next(guests_after), 0
    queue.begin(())
    for number in itertools.count(start + 1):
        waited += queue.place(guest)
        guest = next(guests_after)
        if not queue.fits(guest):
            more = [guest, *itertools.islice(guests_after, _MORE - 1)]
            return number + _MORE, waited + sum(map(queue.place, more))
    raise AssertionError


def total_wait(start: int, name: str) -> int:
    """How many seconds all guests of a case wait.

    :param start: number of its first guest in the trace
    :param name: of the configuration
    """
    end, waited = _first_fit(start)
    if name == FIRST_FIT:
        return waited
    trace, queue = read(), _queue(name)
    queue.begin(trace.guests[max(0, start - mix.RECENT_INSTANCES):start])
    return sum(map(queue.place, trace.guests[start:end]))


def waits(part: int, name: str, every: int = 1) -> tuple[int, ...]:
    """How long guests wait in the cases of one part of the trace.

    :param part: 0 to PARTS - 1
    :param every: only one of so many
    """
    starts = read().starts
    size = len(starts) // PARTS
    return tuple([total_wait(start, name) for start in starts[
        part * size:(part + 1) * size:every]])


def trimmed_mean(values: Sequence[float]) -> float:
    """As the authors take it, without a tenth at either end."""
    cut = int(len(values) * _TRIMMED)
    return statistics.fmean(sorted(values)[cut:len(values) - cut])


def change(ours: Parts, others: Parts) -> tuple[float, judging.Interval]:
    """By what share guests wait longer, with its interval.

    :param ours: the waits of each part
    """

    def of(parts: Sequence[int]) -> float:
        mine, theirs = (
            trimmed_mean([wait for part in parts for wait in waits_of[part]])
            for waits_of in (ours, others))
        return mine / theirs - 1

    every = range(len(ours))
    return of(every), judging.bootstrap(
        lambda rng: of(rng.choices(every, k=len(every))))
