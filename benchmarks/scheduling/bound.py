# SPDX-License-Identifier: Apache-2.0
"""What no scheduler can sell more than: a relaxation, solved exactly.

For the arrivals of one run, at any moment, the guests that are alive at once
are among those that would be if nobody was ever refused. Those that a
scheduler has accepted lie on hosts, so each host cell has a *pattern*: how
many guest cells of each kind it holds, within its CPUs, its memory and its
pages. The linear program asks for the most vCPUs of patterns and guests that
still meet what every scheduler has to meet:

* as many patterns as there are cells of a kind, in fractions of a pattern,
* for each guest as many guest cells in patterns as it has, on any hosts of
  one kind, rather than in different cells of one host and on CPUs that are
  free at the time when it comes,
* no more devices than the hosts of a kind have,
* of each window of arrivals, no more refused than may be before refusals
  have reached the limit.

What a scheduler has sold is one of its solutions, so the optimum is no less.
Where there is none, every scheduler has reached the limit before.
"""

import collections
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
import dataclasses
import heapq
import math
from typing import Any
from typing import NamedTuple
from typing import TypeAlias

import numpy
from scipy import optimize
from scipy import sparse

from nova_pinning.fleet import snapshot
from nova_pinning import model
from nova_pinning.simulation import arrival_process
from nova_pinning.simulation import meter
from nova_pinning import units

#: scipy.optimize.linprog's word for a program without a solution.
_INFEASIBLE = 2
#: Windows that refusals are told apart by; older arrivals may all have been
#: refused, and hardly any of them would still be there.
_WINDOWS = 6
#: Solutions of the dual program that are kept.
_PRICES = 12

Counts: TypeAlias = numpy.ndarray


class Kind(NamedTuple):
    """A kind of guest, as far as the bound goes.

    :param topology: one or several cells that are alike, with thread policy
        prefer and no floating vCPUs
    :param devices: how many PCI devices it asks for, of whatever kind
    """

    topology: model.Guest
    devices: int = 0

    @property
    def cells(self) -> int:
        return len(self.topology.cells)

    @property
    def vcpus(self) -> int:
        return sum(demand.dedicated for demand in self.topology.demands)


@dataclasses.dataclass(frozen=True, slots=True)
class _CellKind:
    """Host cells that are alike, on hosts that are alike.

    :param hosts: number of the kind of host
    :param memory_kib: by page size; under 0 where the host has no pages
    """

    hosts: int
    cpus: int
    memory_kib: tuple[tuple[int, int], ...]


@dataclasses.dataclass(frozen=True, slots=True)
class _Item:
    """A guest cell.

    :param page_size_kib: 0 for what guests get that ask for none
    """

    cpus: int
    memory_kib: int
    page_size_kib: int


class Relaxation:
    """The linear program for a fleet and kinds of guests."""

    def __init__(self, fleet: snapshot.Fleet, kinds: Sequence[Kind]) -> None:
        self.vcpus = numpy.array([kind.vcpus for kind in kinds], dtype=float)
        items = [_item(kind) for kind in kinds]
        self._kinds = kinds
        self._items = sorted(set(items), key=str)
        self._item_of = [self._items.index(item) for item in items]
        host_kinds: dict[int, int] = collections.Counter(
            sum(pool.total for pool in host.pci_pools) for host in fleet.hosts)
        #: Kinds of hosts are told apart by how many devices they have.
        self._hosts = sorted(host_kinds.items())
        number_of = {devices: number
                     for number, (devices, _count) in enumerate(self._hosts)}
        cells = collections.Counter(
            _cell_kind(cell, number_of[sum(
                pool.total for pool in host.pci_pools)])
            for host in fleet.hosts for cell in host.cells)
        #: Optimal prices of what there is, by number of windows.
        self._prices: dict[int, collections.deque[Counts]] = {}
        self._build(cells)

    def _build(self, cells: Mapping[_CellKind, int]) -> None:
        """Rows and columns that are the same at any moment.

        Columns: patterns, guests of a kind on hosts of a kind, and later
        refusals of a window and kind.
        """
        columns: list[tuple[int, _CellKind, tuple[int, ...]]] = []
        for number, kind in enumerate(cells):
            for pattern in _patterns(kind, self._items):
                columns.append((number, kind, pattern))
        count, hosts = len(columns), len(self._hosts)
        kinds = len(self.vcpus)
        self._width = count + kinds * hosts
        of_cells = numpy.zeros((len(cells), self._width))
        of_items = numpy.zeros((len(self._items) * hosts, self._width))
        of_devices = numpy.zeros((hosts, self._width))
        for column, (number, kind, pattern) in enumerate(columns):
            of_cells[number, column] = 1
            for item, many in enumerate(pattern):
                of_items[kind.hosts * len(self._items) + item, column] = -many
        for host in range(hosts):
            for number, kind in enumerate(self._kinds):
                column = count + host * kinds + number
                of_items[host * len(self._items) + self._item_of[number],
                         column] = kind.cells
                of_devices[host, column] = kind.devices
        self._rows = sparse.csr_matrix(
            numpy.vstack([of_cells, of_items, of_devices]))
        self._limits = numpy.concatenate([
            list(cells.values()), numpy.zeros(len(of_items)),
            [devices * many for devices, many in self._hosts]])
        # Each guest is on hosts of some kind, or refused.
        self._accepted = numpy.zeros((kinds, self._width))
        for number in range(kinds):
            self._accepted[number, count + number::kinds] = 1

    def most(
        self, alive: Counts,
        windows: Sequence[tuple[Counts, float]],
        enough: float = 0.0,
    ) -> float | None:
        """The most vCPUs that can be sold at a moment.

        :param alive: guests of each kind, if none had been refused
        :param windows: guests of each kind among them that came in a window,
            and how many arrivals in it may have been refused
        :param enough: do not look closer if it is no more than that, and
            answer with something between
        :returns: None if more than these have to be refused
        """
        have = numpy.concatenate([
            self._limits, [limit for _came, limit in windows], alive,
            *[came for came, _limit in windows]])
        sold = float(self.vcpus @ alive)
        # By weak duality, the prices of one moment bound what is sold at any
        # other.
        for prices in self._prices.get(len(windows), ()):
            ceiling = sold - float(prices @ have)
            if ceiling <= enough:
                return ceiling
        answer = self._solve(alive, windows)
        if answer.status == _INFEASIBLE:
            return None
        if answer.status:
            raise RuntimeError(f'HiGHS: {answer.message}')
        self._prices.setdefault(
            len(windows), collections.deque(maxlen=_PRICES)).appendleft(
                numpy.concatenate([
                    answer.ineqlin.marginals, answer.eqlin.marginals,
                    answer.upper.marginals[self._width:]]))
        return sold - float(answer.fun)

    def ceiling(self) -> float:
        """The most that guests of these kinds can ever make of the fleet."""
        plenty = numpy.full(len(self.vcpus), 1e6)
        answer = self._solve(plenty, [(plenty, float(plenty.sum()))])
        return float(self.vcpus @ plenty - answer.fun)

    def _solve(self, alive: Counts,
               windows: Sequence[tuple[Counts, float]]) -> Any:
        kinds = len(alive)
        more = len(windows) * kinds
        refused = numpy.zeros((len(windows), self._width + more))
        value = numpy.zeros(self._width + more)
        for number in range(len(windows)):
            first = self._width + number * kinds
            refused[number, first:first + kinds] = 1
            value[first:first + kinds] = self.vcpus
        return optimize.linprog(
            value,
            A_ub=sparse.vstack([
                sparse.hstack([self._rows, sparse.csr_matrix(
                    (len(self._limits), more))]),
                sparse.csr_matrix(refused)], format='csr'),
            b_ub=numpy.concatenate(
                [self._limits, [limit for _came, limit in windows]]),
            A_eq=sparse.csr_matrix(numpy.hstack(
                [self._accepted, *[numpy.eye(kinds)] * len(windows)])),
            b_eq=alive,
            bounds=numpy.column_stack([
                numpy.zeros(self._width + more),
                numpy.concatenate([
                    numpy.full(self._width, numpy.inf),
                    *[came for came, _limit in windows]])]),
            method='highs')


def bound(
    fleet: snapshot.Fleet, arrivals: Sequence[arrival_process.Arrival], *,
    stays_seconds: Mapping[str, float] | None = None,
    refused_share: float = 0.01, window: int = 1000,
) -> float:
    """The vCPUs that no scheduler has sold more of at the limit of refusals.

    :param arrivals: in the order of their times
    :param stays_seconds: when each of the fleet's own guests leaves; None if
        it has none, or they are left out
    :param refused_share: the limit of refusals, as in ``run.Plan``
    """
    return _Course(fleet, arrivals, stays_seconds or {}, refused_share,
                   window).bound()


class _Course:
    """Arrivals and departures, if nobody was refused."""

    def __init__(
        self, fleet: snapshot.Fleet,
        arrivals: Sequence[arrival_process.Arrival],
        stays_seconds: Mapping[str, float], refused_share: float,
        window: int,
    ) -> None:
        numbers: dict[Kind, int] = {}
        kind_of: dict[int, int] = {}
        for request in {id(arrival.request): arrival.request
                        for arrival in arrivals}.values():
            assert request.topology is not None
            kind = Kind(request.topology, sum(
                device.count for device in request.devices))
            kind_of[id(request)] = numbers.setdefault(kind, len(numbers))
        self._leaving: list[tuple[float, int]] = []
        for guest in fleet.guests:
            if guest.uuid in stays_seconds:
                assert guest.topology is not None
                kind = Kind(guest.topology, sum(
                    use.count for use in guest.devices))
                self._leaving.append((
                    stays_seconds[guest.uuid],
                    numbers.setdefault(kind, len(numbers))))
        self._program = Relaxation(fleet, list(numbers))
        self._count = len(numbers)
        self._arrivals = arrivals
        self._kind = numpy.array(
            [kind_of[id(arrival.request)] for arrival in arrivals], dtype=int)
        self._ends = numpy.array([
            math.inf if arrival.lifetime_seconds is None else
            arrival.time_seconds + arrival.lifetime_seconds
            for arrival in arrivals])
        self._alive = numpy.bincount(
            [number for _end, number in self._leaving],
            minlength=self._count).astype(float)
        heapq.heapify(self._leaving)
        self._window = window
        # Refusals in a window when they reach the limit.
        self._limit = math.ceil(refused_share * window - 1e-9)

    def bound(self) -> float:
        """The most that can be sold before all schedulers are at the limit.

        At the refusal that reaches the limit no more is sold than after the
        arrival before it, so moments before the limit are all that count.
        """
        best = 0.0
        ceiling = self._program.ceiling()
        for number, now in self._moments():
            # Not more than is alive.
            if self._program.vcpus @ self._alive <= best:
                continue
            most = self._program.most(
                self._alive, list(self._windows(number, now)), best)
            if most is None:
                break
            best = max(best, most)
            if best >= ceiling:
                break
        return min(best, ceiling)

    def _moments(self) -> Iterator[tuple[int, float]]:
        """Each arrival in turn, with who is alive then."""
        for number, arrival in enumerate(self._arrivals):
            now = arrival.time_seconds
            while self._leaving and self._leaving[0][0] <= now:
                _end, kind = heapq.heappop(self._leaving)
                self._alive[kind] -= 1
            kind = int(self._kind[number])
            self._alive[kind] += 1
            heapq.heappush(self._leaving, (float(self._ends[number]), kind))
            yield number, now

    def _windows(self, last: int, now: float,
                 ) -> Iterator[tuple[Counts, float]]:
        """Windows from an arrival back, each as long as that of the limit.

        Before the limit is reached, no window has as many refusals. Who came
        before these windows may have been refused without limit, and so may
        the very first, with whom the limit was not looked at yet.
        """
        first = meter.least_arrivals(self._window) - 1
        end = last + 1
        for _number in range(_WINDOWS):
            if end < self._window:
                break
            start = max(end - self._window, first)
            yield self._came(start, end, now), self._limit - 1.0
            end = start
        if end > 0:
            yield self._came(0, end, now), float(end)

    def _came(self, start: int, end: int, now: float) -> Counts:
        is_alive = self._ends[start:end] > now
        came: Counts = numpy.bincount(
            self._kind[start:end][is_alive], minlength=self._count)
        return came.astype(float)


def _item(kind: Kind) -> _Item:
    guest = kind.topology
    assert len(set(guest.demands)) == 1
    assert guest.thread_policy is model.ThreadPolicy.PREFER
    demand = guest.demands[0]
    assert not demand.shared and not demand.emulator
    assert (demand.page_size_kib or 0) >= 0
    return _Item(demand.dedicated, demand.memory_mib * units.KIB_PER_MIB,
                 demand.page_size_kib or 0)


def _cell_kind(cell: model.HostCell, hosts: int) -> _CellKind:
    memory = {pool.size_kib: pool.free_kib for pool in cell.pages}
    # Without a page size a guest gets the smallest pages.
    memory[0] = (memory[min(memory)] if memory
                 else cell.memory_mib * units.KIB_PER_MIB)
    return _CellKind(hosts, len(cell.dedicated_cpus),
                     tuple(sorted(memory.items())))


def _patterns(kind: _CellKind,
              items: Sequence[_Item]) -> Iterator[tuple[int, ...]]:
    """The patterns to which no guest cell can be added."""

    def extend(chosen: tuple[int, ...], cpus: int,
               memory: dict[int, int]) -> Iterator[tuple[int, ...]]:
        if len(chosen) == len(items):
            if not any(_room(item, cpus, memory) for item in items):
                yield chosen
            return
        item = items[len(chosen)]
        for count in range(_room(item, cpus, memory), -1, -1):
            left = dict(memory)
            if item.page_size_kib in left:
                left[item.page_size_kib] -= count * item.memory_kib
            yield from extend((*chosen, count), cpus - count * item.cpus, left)

    yield from extend((), kind.cpus, dict(kind.memory_kib))


def _room(item: _Item, cpus: int, memory: Mapping[int, int]) -> int:
    free = memory.get(item.page_size_kib, 0)
    return min(cpus // item.cpus, free // (item.memory_kib or 1))
