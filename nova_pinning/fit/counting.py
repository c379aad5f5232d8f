# SPDX-License-Identifier: Apache-2.0
"""How many guests of one kind still go on a host, one after another.

A guest cell takes CPUs, floating vCPUs and memory of a host cell, and none of
the three depends on the others: a host cell takes guest cells while it has
each of them. How many that is follows by dividing, except where it matters
which threads of a core are free; there the engine packs a cell made of the
threads that are free, once for all cells that are alike.
"""

from collections.abc import Hashable
import functools
import itertools
import math
from typing import NamedTuple

from nova_pinning import cpuset
from nova_pinning.fit import cell_check
from nova_pinning.fit import usage
from nova_pinning import model
from nova_pinning import units

#: More than goes on any cell: what nothing limits.
UNLIMITED = 1 << 40


class CountedCell(NamedTuple):
    """A host cell, looked at once for all guests that are counted on it.

    :param key: equal for cells that take the same guests equally often
    :param view: the cell
    :param free_cpus: of the dedicated ones, whatever cores they are on
    :param shared_limit: floating vCPUs that may be placed on it in all
    :param floating_memory_mib: memory of floating guests that goes on it
        under the RAM allocation ratio, None for no limit
    :param is_sound: whether nova can pin to it: it knows the cores, and no
        guest is on CPUs that are not for guests
    :param free: free CPUs of cores
    :param free_threads: of each core, in nova's order
    """

    key: Hashable
    view: model.HostCell
    free_cpus: int
    shared_limit: int | None
    floating_memory_mib: int | None
    is_sound: bool
    free: int
    free_threads: tuple[int, ...]
    threads: tuple[int, ...]

    @property
    def orphans(self) -> int:
        """Free CPUs on cores of which another CPU is taken."""
        return sum(left for left, size in zip(self.free_threads, self.threads)
                   if left < size)


class Counts(NamedTuple):
    """How many guest cells go on a host cell, if less and less is overlooked.

    :param cpus: by the number of free CPUs, or of floating vCPUs
    :param cores: as the thread and emulator policies want them
    :param memory: with memory or pages for each; this is what fits
    """

    cpus: int
    cores: int
    memory: int


def cells(host: model.Host) -> tuple[CountedCell, ...]:
    """A host's cells, looked at once for all guests.

    :param host: of ``model.HostCell``
    """
    return tuple([_cell(cell, host) for cell in host.cells
                  if isinstance(cell, model.HostCell)])


def count(
    cell: CountedCell, guest: model.Guest, demand: model.Demand,
) -> Counts:
    """How many guest cells of one demand the engine puts on a host cell.

    Without regard to PCI devices and networks.
    """
    cpus = cores = UNLIMITED
    if guest.is_pinned:
        needed = demand.dedicated + demand.emulator
        if needed:
            cpus = cell.free_cpus // needed
        cores = min(cpus, _by_cores(cell, guest.thread_policy, demand))
    if guest.cpu_policy is not model.CpuPolicy.DEDICATED:
        floating = _by_shared_cpus(cell, demand)
        cpus, cores = min(cpus, floating), min(cores, floating)
    if not cores:
        return Counts(cpus, 0, 0)
    return Counts(cpus, cores, min(cores, _by_memory(cell, guest, demand)))


def _cell(cell: model.HostCell, host: model.Host) -> CountedCell:
    masks, union, are_sound = _core_masks(cell.cores)
    free = cell.free_cpus.mask
    counts = tuple([(mask & free).bit_count() for mask in masks])
    shared_limit = floating_memory_mib = None
    if host.cpu_allocation_ratio is not None:
        shared_limit = math.floor(
            cell.shared_count * host.cpu_allocation_ratio)
    if host.ram_allocation_ratio is not None:
        floating_memory_mib = math.floor(
            cell.memory_mib * host.ram_allocation_ratio)
    threads = cell.core_sizes
    is_sound = are_sound and not cell.has_stray_pins
    return CountedCell(
        (counts, threads, is_sound, free.bit_count(), cell.is_legacy,
         cell.shared_count, shared_limit, cell.shared_used, cell.memory_mib,
         floating_memory_mib, cell.memory_used_mib, cell.pages,
         cell.physnets, cell.tunneled, cell.socket),
        cell, free.bit_count(), shared_limit, floating_memory_mib, is_sound,
        (union & free).bit_count(), counts, threads)


@functools.lru_cache(maxsize=4096)
def _core_masks(
    cores: tuple[tuple[int, ...], ...],
) -> tuple[tuple[int, ...], int, bool]:
    """The CPUs of each core and of all as bits, and whether none is twice."""
    masks = tuple(cpuset.CpuSet(core).mask for core in cores)
    union = 0
    for mask in masks:
        union |= mask
    return masks, union, (
        union != 0 and union.bit_count() == sum(map(len, cores)))


def _by_shared_cpus(cell: CountedCell, demand: model.Demand) -> int:
    if demand.shared > cell.view.shared_count:
        return 0
    count = UNLIMITED
    if cell.shared_limit is not None:
        count = _times(cell.shared_limit - cell.view.shared_used,
                       demand.shared)
    return count


def _by_memory(cell: CountedCell, guest: model.Guest,
               demand: model.Demand) -> int:
    view = cell.view
    count = UNLIMITED
    if (guest.cpu_policy is not model.CpuPolicy.DEDICATED
            and cell.floating_memory_mib is not None):
        count = _times(cell.floating_memory_mib - view.memory_used_mib,
                       demand.memory_mib)
    if demand.page_size_kib:
        return min(count, _by_pages(view, demand))
    smallest = view.smallest_pages
    if smallest is None:
        if guest.is_pinned:
            return min(count, _times(
                view.memory_mib - view.memory_used_mib, demand.memory_mib))
        return count if demand.memory_mib <= view.memory_mib else 0
    memory_kib = demand.memory_mib * units.KIB_PER_MIB
    if smallest.size_kib <= 0 or memory_kib % smallest.size_kib:
        return 0
    if guest.is_pinned:
        return min(count, _times(smallest.free_kib, memory_kib))
    return count if memory_kib <= smallest.total_kib else 0


def _by_pages(view: model.HostCell, demand: model.Demand) -> int:
    memory_kib = demand.memory_mib * units.KIB_PER_MIB
    # A size that is listed twice counts once.
    return sum(
        _times(free_kib, memory_kib)
        for size_kib, free_kib in set(cell_check.allowed_pools(view, demand))
        if not memory_kib % size_kib)


def _times(have: int, need: int) -> int:
    """How often need can be taken; not at all if there is too little as is."""
    if have < 0:
        return 0
    return have // need if need else UNLIMITED


def _by_cores(cell: CountedCell, policy: model.ThreadPolicy,
              demand: model.Demand) -> int:
    """By the free threads of cores, as the engine packs them."""
    needed = demand.dedicated + demand.emulator
    if not cell.is_sound or demand.emulator and not demand.dedicated:
        return 0
    if policy is model.ThreadPolicy.PREFER:
        return _times(cell.free, needed)
    if cell.free < max(needed, 1):
        return 0
    most_threads = max(cell.threads)
    if policy is model.ThreadPolicy.REQUIRE:
        if most_threads < 2:
            return 0
        if most_threads == 2 and not demand.emulator:
            pairs = cell.free_threads.count(2)
            if not demand.dedicated:
                return UNLIMITED if pairs else 0
            return pairs // -(-demand.dedicated // 2)
    elif most_threads > 1 and not cell.view.is_legacy:
        return 0
    return _pack(cell.free_threads, cell.threads, policy, demand.dedicated,
                 demand.emulator)


@functools.lru_cache(maxsize=65536)
def _pack(free_threads: tuple[int, ...], threads: tuple[int, ...],
          policy: model.ThreadPolicy, dedicated: int, emulator: int) -> int:
    """Guest cells that the engine puts on such cores, one after another."""
    if not dedicated:
        # It takes no CPU, so that what fits once fits always.
        fits = policy is model.ThreadPolicy.REQUIRE and max(free_threads) > 1
        return UNLIMITED if fits else 0
    numbers = itertools.count()
    cores = tuple(tuple(itertools.islice(numbers, size)) for size in threads)
    cpus = cpuset.CpuSet(itertools.chain.from_iterable(cores))
    cell = model.HostCell(
        id=0, shared_cpus=cpus, dedicated_cpus=cpus,
        pinned_cpus=cpuset.CpuSet(itertools.chain.from_iterable(
            core[left:] for core, left in zip(cores, free_threads))),
        cores=cores, memory_mib=0)
    guest = model.Guest(
        (model.GuestCell(tuple(range(dedicated)), (), 0),),
        model.CpuPolicy.DEDICATED, policy, bool(emulator))
    demand = guest.demands[0]
    host = model.Host((cell,))
    count = 0
    while cell_check.shortage(cell, host, guest, demand) is None:
        chosen, for_emulator = cell_check.pick_cpus(cell, policy, demand)
        host = usage.take(host, guest, model.Fit((model.CellFit(
            0, tuple(enumerate(chosen)), for_emulator),)))
        (cell,) = host.cells  # type: ignore[assignment]
        count += 1
    return count
