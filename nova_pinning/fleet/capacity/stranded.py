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


"""What stays unsold of a fleet, whatever is sold of the flavors there are.

Looked at cell by cell, for pinned guests. The figures are of what certainly
stays free: a choice of guests that leaves less need not exist, but none
leaves less than this.
"""

from collections.abc import Collection
from collections.abc import Iterable
from collections.abc import Sequence
import dataclasses
import functools
from typing import NamedTuple

from nova_pinning.fit import room
from nova_pinning.fleet.capacity import count
from nova_pinning.fleet.capacity import memory
from nova_pinning import model


@dataclasses.dataclass(slots=True)
class Stranded:
    """What is free and cannot be sold, in sum.

    :param free_cpus: all that are free
    :param cpus: those of them that cannot be sold, by what is in the way
    :param orphans: free CPUs on cores of which another CPU is taken
    :param memory_mib: free memory for which no CPU is left, by page size in
        KiB, 0 where the host tells of none
    """

    free_cpus: int = 0
    cpus: dict[count.Cause, int] = dataclasses.field(default_factory=dict)
    orphans: int = 0
    memory_mib: dict[int, int] = dataclasses.field(default_factory=dict)

    def add(self, other: 'Stranded') -> None:
        """Add what others have."""
        self.free_cpus += other.free_cpus
        self.orphans += other.orphans
        for cause, cpus in other.cpus.items():
            self.cpus[cause] = self.cpus.get(cause, 0) + cpus
        for size, mib in other.memory_mib.items():
            self.memory_mib[size] = self.memory_mib.get(size, 0) + mib

    @property
    def stranded_cpus(self) -> int:
        return sum(self.cpus.values())


class _Need(NamedTuple):
    """What a guest cell that fits takes of a cell.

    :param page_sizes: that it may get, as memory.page_sizes has them
    """

    cpus: int
    is_paired: bool
    memory_mib: int
    page_sizes: tuple[int, ...]


class Finder:
    """Finds what is stranded on hosts, and remembers cells.

    :param counters: of all flavors on sale
    """

    def __init__(self, counters: Sequence[count.Counter]) -> None:
        self._flavors = [
            (place, counter) for place, counter in enumerate(counters)
            if counter.is_pinned]
        # By the number of a cell: what each flavor with room on it needs.
        self._needs: dict[int, list[tuple[int, _Need]]] = {}
        # And with those of them that fit on the host, as bits.
        self._known: dict[tuple[int, int], Stranded] = {}

    def on_host(self, host: count.Place,
                counts: Sequence[count.HostCount]) -> Stranded:
        """What is stranded on one host.

        :param counts: what each of the counters says of the host
        """
        found = Stranded()
        for which, (number, cell) in enumerate(zip(
                host.numbers, host.cells)):
            if not cell.view.dedicated_cpus:
                continue
            fitting, bits = set(), 0
            for place, need in self._needs_on(host, which):
                if counts[place].fits:
                    fitting.add(need)
                    bits |= 1 << place
            key = number, bits
            if key in self._known:
                found.add(self._known[key])
                continue
            cause = count.Cause.CELLS
            if not fitting:
                cause = self._cause(host, which, counts)
            here = _on_cell(cell, fitting, cause)
            if fitting:
                self._known[key] = here
            found.add(here)
        return found

    def _needs_on(self, host: count.Place,
                  which: int) -> list[tuple[int, _Need]]:
        """What the flavors need that have room on a cell, with their places.

        :param which: of the host's cells
        """
        number, cell = host.numbers[which], host.cells[which]
        if number not in self._needs:
            self._needs[number] = [
                (place, _need(counter, demand, cell))
                for place, counter in self._flavors
                for index, demand in enumerate(counter.demands)
                if demand.dedicated
                and counter.counts_of(index, number, cell).memory]
        return self._needs[number]

    def _cause(self, host: count.Place, which: int,
               counts: Sequence[count.HostCount]) -> count.Cause:
        """Why no flavor fits on a cell: what the nearest of them lacks."""
        if host.cells[which].view.has_stray_pins:
            return count.Cause.STRAY_PINS
        best = 0, count.Cause.CELLS
        for place, counter in self._flavors:
            for row in counter.cell_counts(host):
                limits = row[which]
                if limits.memory:
                    # Something else of the host is in the way.
                    missing = counts[place].missing
                    best = max(best, (3, max(
                        missing, key=missing.__getitem__,
                        default=count.Cause.CELLS)))
                elif limits.cores:
                    best = max(best, (2, counter.memory_cause))
                elif limits.cpus:
                    best = max(best, (1, count.Cause.CORES))
        return best[1]


def _on_cell(cell: room.Cell, needs: Collection[_Need],
             cause: count.Cause) -> Stranded:
    """What is stranded on a cell.

    :param needs: of the guest cells that fit
    :param cause: why CPUs stay free that not even memory keeps free
    """
    free_mib = memory.free_mib(cell.view)
    sold = _sold(cell, needs)
    with_memory = min(sold, memory.cpus_with_memory(free_mib, [
        (need.cpus, need.memory_mib, need.page_sizes) for need in needs]))
    found = Stranded(cell.free_cpus, orphans=cell.orphans)
    if sold < cell.free_cpus:
        found.cpus[cause] = cell.free_cpus - sold
    if with_memory < sold:
        paged = any(need.page_sizes != (memory.DEFAULT_PAGES,)
                    for need in needs)
        found.cpus[count.Cause.PAGES if paged else count.Cause.MEMORY] = (
            sold - with_memory)
    for size, mib in free_mib.items():
        usable = max((with_memory * need.memory_mib // need.cpus
                      for need in needs if size in need.page_sizes),
                     default=0)
        if mib > usable:
            smallest = cell.view.smallest_pages
            if size == memory.DEFAULT_PAGES and smallest is not None:
                size = smallest.size_kib
            found.memory_mib[size] = mib - usable
    return found


def _need(counter: count.Counter, demand: model.Demand,
          cell: room.Cell) -> _Need:
    cpus = demand.dedicated + demand.emulator
    policy = counter.thread_policy
    threads = max(cell.threads, default=1)
    if policy is model.ThreadPolicy.ISOLATE:
        cpus *= threads
    is_paired = policy is model.ThreadPolicy.REQUIRE and threads == 2
    return _Need(
        cpus, is_paired, max(1, demand.memory_mib),
        tuple(memory.page_sizes(demand.page_size_kib, cell.view)))


def _sold(cell: room.Cell, needs: Iterable[_Need]) -> int:
    """The most CPUs that guests of these needs can take, memory overlooked."""
    pairs = 2 * sum(left > 1 for left in cell.free_threads)
    return _most_cpus(
        cell.free_cpus, pairs,
        tuple(sorted({need.cpus for need in needs if need.is_paired})),
        tuple(sorted({need.cpus for need in needs if not need.is_paired})))


@functools.lru_cache(maxsize=65536)
def _most_cpus(free: int, paired: int, paired_needs: tuple[int, ...],
               needs: tuple[int, ...]) -> int:
    sums = _sums(needs, free)
    best = 0
    for first in _paired_sums(paired_needs, paired):
        # The thread beside an odd vCPU is for others.
        below = sums & (1 << free - first + 1) - 1
        best = max(best, first + below.bit_length() - 1)
    return best


@functools.lru_cache(maxsize=4096)
def _paired_sums(needs: tuple[int, ...], paired: int) -> tuple[int, ...]:
    """The sums of needs of guests that want whole cores.

    :param paired: CPUs of cores with both threads free
    """
    # By the CPUs that guests have, the fewest of which that takes cores.
    fewest = {0: 0}
    for cpus in range(1, paired + 1):
        ways = [fewest[cpus - need] + need + need % 2
                for need in needs if cpus - need in fewest]
        if ways and min(ways) <= paired:
            fewest[cpus] = min(ways)
    return tuple(fewest)


@functools.lru_cache(maxsize=4096)
def _sums(needs: tuple[int, ...], most: int) -> int:
    """The sums of needs up to a number, as bits."""
    sums, mask = 1, (1 << most + 1) - 1
    for need in needs:
        step = need
        while step <= most:
            sums |= sums << step & mask
            step *= 2
    return sums
