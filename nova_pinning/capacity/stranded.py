# SPDX-License-Identifier: Apache-2.0
"""What stays unsold of a fleet, whatever is sold of the flavors there are.

Looked at cell by cell, for pinned guests. The figures are of what certainly
stays free: a choice of guests that leaves less need not exist, but none
leaves less than this.
"""

from collections.abc import Collection
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
import dataclasses
import functools
from typing import TypeVar

from nova_pinning.capacity import count
from nova_pinning.capacity import like_hosts
from nova_pinning.capacity import stranded_devices
from nova_pinning import fit
from nova_pinning.fit import counting
from nova_pinning import model
from nova_pinning import units

_Key = TypeVar('_Key')


@dataclasses.dataclass(slots=True)
class StrandedResources:
    """What is free and cannot be sold, in sum.

    :param free_cpus: all that are free
    :param cpus: those of them that cannot be sold, by what is in the way
    :param orphans: free CPUs on cores of which another CPU is taken
    :param memory_mib: free memory for which no CPU is left, by page size in
        KiB, 0 where the host tells of none
    :param all_devices: that flavors ask for, with those that guests have
    :param free_devices: those of them that are free
    :param devices: those of them that no further guest can have
    """

    free_cpus: int = 0
    cpus: dict[count.CapacityCause,
               int] = dataclasses.field(default_factory=dict)
    orphans: int = 0
    memory_mib: dict[int, int] = dataclasses.field(default_factory=dict)
    all_devices: dict[stranded_devices.DeviceGroup,
                      int] = dataclasses.field(default_factory=dict)
    free_devices: dict[stranded_devices.DeviceGroup,
                       int] = dataclasses.field(default_factory=dict)
    devices: dict[tuple[stranded_devices.DeviceGroup, count.CapacityCause],
                  int] = dataclasses.field(default_factory=dict)

    def add(self, other: 'StrandedResources', sign: int = 1) -> None:
        """Add what others have, or with -1 take it away."""
        self.free_cpus += sign * other.free_cpus
        self.orphans += sign * other.orphans
        _add(self.cpus, other.cpus, sign)
        _add(self.memory_mib, other.memory_mib, sign)
        _add(self.all_devices, other.all_devices, sign)
        _add(self.free_devices, other.free_devices, sign)
        _add(self.devices, other.devices, sign)

    @property
    def stranded_cpus(self) -> int:
        return sum(self.cpus.values())


def _add(sums: dict[_Key, int], more: Mapping[_Key, int], sign: int) -> None:
    """Add to sums; those of nothing go."""
    for key, amount in more.items():
        sums[key] = sums.get(key, 0) + sign * amount
        if not sums[key]:
            del sums[key]


def total(parts: Iterable[StrandedResources]) -> StrandedResources:
    """What is stranded in sum."""
    whole = StrandedResources()
    for part in parts:
        whole.add(part)
    return whole


class StrandedFinder:
    """Finds what is stranded on hosts, and remembers cells.

    :param counters: of all flavors on sale
    """

    def __init__(self, counters: Sequence[count.Counter]) -> None:
        self._flavors = [
            (index, counter) for index, counter in enumerate(counters)
            if counter.is_pinned]
        self._devices = stranded_devices.DeviceFinder(counters)
        # By the number of a cell: what each flavor with room on it needs.
        self._needs: dict[int, list[tuple[int, fit.Size]]] = {}
        # And with those of them that fit on the host, as bits.
        self._known: dict[tuple[int, int], StrandedResources] = {}

    def on_host(self, host: like_hosts.CountedHost,
                counts: Sequence[count.HostCount]) -> StrandedResources:
        """What is stranded on one host.

        :param counts: what each of the counters says of the host
        """
        return total((*self.on_cells(host, counts), self.devices(host)))

    def devices(self, host: like_hosts.CountedHost) -> StrandedResources:
        """The free devices of a host, and those that are stranded."""
        found = StrandedResources()
        for group, number, free, cause in self._devices.on_host(host):
            found.add(StrandedResources(
                all_devices={group: number}, free_devices={group: free},
                devices={} if cause is None else {(group, cause): free}))
        return found

    def on_cells(
        self, host: like_hosts.CountedHost, counts: Sequence[count.HostCount],
    ) -> Iterator[StrandedResources]:
        """What is stranded on each cell of a host, in their order.

        :param counts: what each of the counters says of the host
        """
        for which, (number, cell) in enumerate(zip(host.numbers, host.cells)):
            if not cell.view.dedicated_cpus:
                yield StrandedResources()
                continue
            fitting, bits = set(), 0
            for index, need in self._needs_on(host, which):
                if counts[index].fits:
                    fitting.add(need)
                    bits |= 1 << index
            key = number, bits
            if key in self._known:
                yield self._known[key]
                continue
            cause = count.CapacityCause.CELLS
            if not fitting:
                cause = self._cause(host, which, counts)
            here = _on_cell(cell, fitting, cause)
            if fitting:
                self._known[key] = here
            yield here

    def _needs_on(self, host: like_hosts.CountedHost,
                  which: int) -> list[tuple[int, fit.Size]]:
        """What the flavors need that have room on a cell, with their places.

        :param which: of the host's cells
        """
        number, cell = host.numbers[which], host.cells[which]
        if number not in self._needs:
            self._needs[number] = [
                (flavor_index, _need(counter, demand, cell))
                for flavor_index, counter in self._flavors
                for index, demand in enumerate(counter.demands)
                if demand.dedicated
                and counter.counts_of(index, number, cell).memory]
        return self._needs[number]

    def _cause(self, host: like_hosts.CountedHost, which: int,
               counts: Sequence[count.HostCount]) -> count.CapacityCause:
        """Why no flavor fits on a cell: what the nearest of them lacks."""
        if host.cells[which].view.has_stray_pins:
            return count.CapacityCause.STRAY_PINS
        best = 0, count.CapacityCause.CELLS
        for index, counter in self._flavors:
            for row in counter.cell_counts(host):
                limits = row[which]
                if limits.memory:
                    # Something else of the host is in the way.
                    missing = counts[index].missing
                    best = max(best, (3, max(
                        missing, key=missing.__getitem__,
                        default=count.CapacityCause.CELLS)))
                elif limits.cores:
                    best = max(best, (2, counter.memory_cause))
                elif limits.cpus:
                    best = max(best, (1, count.CapacityCause.CORES))
        return best[1]


def _on_cell(cell: counting.CountedCell, needs: Collection[fit.Size],
             cause: count.CapacityCause) -> StrandedResources:
    """What is stranded on a cell.

    :param needs: of the guest cells that fit
    :param cause: why CPUs stay free that not even memory keeps free
    """
    pools = [(size_kib, max(0, free_kib) // units.KIB_PER_MIB)
             for size_kib, free_kib in fit.free_pools(cell.view)]
    # The guest cells that each pool has memory for.
    fed = {pool: [need for need in needs if pool in fit.allowed_pools(
        pools, need.page_size_kib)] for pool in pools}
    sold = _sold(cell, needs)
    with_memory = min(sold, sum(
        max([free_mib * need.vcpus // need.memory_mib for need in users],
            default=0) for (_size_kib, free_mib), users in fed.items()))
    stranded = StrandedResources(cell.free_cpus, orphans=cell.orphans)
    if sold < cell.free_cpus:
        stranded.cpus[cause] = cell.free_cpus - sold
    if with_memory < sold:
        is_paged = any(fed[pool] for pool in pools[1:])
        stranded.cpus[count.CapacityCause.PAGES if is_paged else count.
                      CapacityCause.MEMORY] = (sold - with_memory)
    for (size_kib, free_mib), users in fed.items():
        usable = max([with_memory * need.memory_mib // need.vcpus
                      for need in users], default=0)
        if free_mib > usable:
            stranded.memory_mib[size_kib] = free_mib - usable
    return stranded


def _need(counter: count.Counter, demand: model.Demand,
          cell: counting.CountedCell) -> fit.Size:
    """A guest cell that fits on a cell, with all host CPUs that it takes."""
    cpus = demand.dedicated + demand.emulator
    policy = counter.thread_policy
    threads = max(cell.threads, default=1)
    if policy is model.ThreadPolicy.ISOLATE:
        cpus *= threads
    is_paired = policy is model.ThreadPolicy.REQUIRE and threads == 2
    return fit.Size(
        cpus, max(1, demand.memory_mib),
        policy if is_paired else model.ThreadPolicy.PREFER,
        demand.page_size_kib)


def _sold(cell: counting.CountedCell, needs: Iterable[fit.Size]) -> int:
    """The most CPUs that guests of these needs can take, memory overlooked."""
    pairs = 2 * sum(left > 1 for left in cell.free_threads)
    return _most_cpus(
        cell.free_cpus, pairs,
        *[tuple(sorted({need.vcpus for need in needs
                        if (need.thread_policy is model.ThreadPolicy.REQUIRE)
                        is is_paired})) for is_paired in (True, False)])


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
        sums = [fewest[cpus - need] + need + need % 2
                for need in needs if cpus - need in fewest]
        if sums and min(sums) <= paired:
            fewest[cpus] = min(sums)
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
