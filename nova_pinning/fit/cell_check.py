# SPDX-License-Identifier: Apache-2.0
"""One guest cell on one host cell: does it fit, and on which CPUs.

The answers are those of nova.virt.hardware._numa_fit_instance_cell for a
guest cell that was not tried elsewhere before, with one exception: CPUs that
nova's own accounting rejects afterwards (nova.virt.hardware.
numa_usage_from_instance_numa) are not a fit.
"""

from __future__ import annotations

from collections.abc import Sequence
import itertools

from nova_pinning.fit import _sizing
from nova_pinning import model
from nova_pinning.model import Reason
from nova_pinning.model import Shortage
from nova_pinning.model import ThreadPolicy
from nova_pinning import units


# To look up a member of an enum takes longer than to compare it.
_DEDICATED = model.CpuPolicy.DEDICATED
_REQUIRE, _ISOLATE = ThreadPolicy.REQUIRE, ThreadPolicy.ISOLATE


def shortage(
    cell: model.CellView,
    host: model.Host,
    guest: model.Guest,
    demand: model.Demand,
) -> Shortage | None:
    """What the host cell lacks for a guest cell, or None if it fits.

    Counting comes first: it settles most cells without a look at siblings or
    pages, which are dearer to read.

    :param demand: one of ``guest.demands``
    """
    if guest.is_pinned:
        needed = demand.dedicated + demand.emulator
        if needed > cell.free_count:
            if needed > cell.dedicated_count:
                return Shortage(cell.id, Reason.CELL_TOO_SMALL, needed,
                                cell.dedicated_count)
            if cell.has_stray_pins:
                return Shortage(cell.id, Reason.STRAY_PINS)
            return Shortage(cell.id, Reason.FREE_CPUS, needed,
                            cell.free_count)
    if guest.cpu_policy is not _DEDICATED:
        missing = _floating_shortage(cell, host, demand)
        if missing:
            return missing
    missing = _memory_shortage(cell, guest, demand)
    if missing or not guest.is_pinned:
        return missing
    return _core_shortage(cell, guest.thread_policy, demand)


def has_memory(
    cell: model.CellView, guest: model.Guest, demand: model.Demand,
) -> bool:
    """Whether the host cell has the memory, in pages that will do."""
    return _memory_shortage(cell, guest, demand) is None


def pick_cpus(
    cell: model.CellView, thread_policy: ThreadPolicy, demand: model.Demand,
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The host CPUs for the vCPUs, and those for emulator threads.

    To be called for a cell in which :func:`shortage` finds none. The choice
    is that of nova.virt.hardware._pack_instance_onto_cores:

    1. isolate: the first thread of each wholly free core;
    2. otherwise as many threads of each core as will do: all threads of the
       cores with the most free ones, else fewer threads of more cores;
    3. if that does not do (prefer only), free CPUs in order, however they
       share cores;
    4. emulator threads: the first free CPU that is left, under isolate on a
       core that has no vCPU.
    """
    cores = cell.free_cores
    count = demand.dedicated
    if thread_policy is _ISOLATE:
        whole = max(cell.core_sizes)
        cpus = tuple(
            core[0] for core in cores if len(core) >= whole)[:count]
        rest = (core for core in cores if not set(core) & set(cpus))
    else:
        cpus = _even_share(cores, count)
        if not cpus:
            cpus = tuple(itertools.chain.from_iterable(cores))[:count]
        rest = (core for core in cores)
    if not demand.emulator:
        return cpus, ()
    left = (cpu for cpu in itertools.chain.from_iterable(rest)
            if cpu not in cpus)
    return cpus, tuple(itertools.islice(left, 1))


def page_size_kib(cell: model.CellView, demand: model.Demand) -> int | None:
    """The page size that the guest cell gets; None if it asks for none.

    The largest that has room, of those that the demand allows
    (nova.virt.hardware._numa_cell_supports_pagesize_request).
    """
    for size, free_kib in allowed_pools(cell, demand):
        memory_kib = demand.memory_mib * units.KIB_PER_MIB
        if memory_kib <= free_kib and not memory_kib % size:
            return size
    return None


def _even_share(
    cores: Sequence[Sequence[int]], count: int,
) -> tuple[int, ...]:
    """The CPUs for count vCPUs, as many of each core as will do, else ()."""
    for threads in range(max(map(len, cores), default=0), 0, -1):
        usable = [core for core in cores if len(core) >= threads]
        if threads * len(usable) >= count:
            return tuple(itertools.islice(
                itertools.chain.from_iterable(
                    core[:threads] for core in usable),
                count))
    return ()


def _core_shortage(
    cell: model.CellView, policy: ThreadPolicy, demand: model.Demand,
) -> Shortage | None:
    """What the cores lack, given that enough CPUs are free in number."""
    free = cell.free_in_cores
    if free is None:
        return Shortage(cell.id, Reason.CORES_UNKNOWN)
    if cell.has_stray_pins:
        return Shortage(cell.id, Reason.STRAY_PINS)
    # Nova sets a CPU aside only after it has pinned at least one vCPU.
    if demand.emulator and not demand.dedicated:
        return Shortage(cell.id, Reason.NO_DEDICATED_VCPUS)
    if free < demand.dedicated + demand.emulator:
        return Shortage(cell.id, Reason.CORES_UNKNOWN)
    if policy is _REQUIRE:
        return _require_shortage(cell, demand)
    if policy is _ISOLATE:
        return _isolate_shortage(cell, demand)
    return None


def _require_shortage(
    cell: model.CellView, demand: model.Demand,
) -> Shortage | None:
    if max(cell.core_sizes) < 2:
        return Shortage(cell.id, Reason.NO_THREADS)
    sizes = [len(core) for core in cell.free_cores if len(core) > 1]
    most = max(
        (threads * sum(size >= threads for size in sizes)
         for threads in range(2, max(sizes, default=0) + 1)),
        default=0)
    if most < demand.dedicated:
        return Shortage(cell.id, Reason.FREE_CORES, demand.dedicated, most)
    if not most:
        return Shortage(cell.id, Reason.NO_DEDICATED_VCPUS)
    return None


def _isolate_shortage(
    cell: model.CellView, demand: model.Demand,
) -> Shortage | None:
    whole = max(cell.core_sizes)
    if whole > 1 and not cell.is_legacy:
        return Shortage(cell.id, Reason.ISOLATE_ON_THREADS)
    if not demand.dedicated:
        return Shortage(cell.id, Reason.NO_DEDICATED_VCPUS)
    most = sum(len(core) >= whole for core in cell.free_cores)
    if most < demand.dedicated:
        return Shortage(cell.id, Reason.FREE_CORES, demand.dedicated, most)
    if demand.emulator and not _emulator_core_is_free(cell, demand, whole):
        return Shortage(cell.id, Reason.EMULATOR_CPU)
    return None


def _emulator_core_is_free(
    cell: model.CellView, demand: model.Demand, whole: int,
) -> bool:
    """Whether the core whose CPU nova sets aside is free in all threads.

    Nova takes the first core without a vCPU of this guest that has any free
    CPU, but then claims all threads of that core, which fails if another
    guest has one of them.
    """
    to_pin = demand.dedicated
    for core, size in zip(cell.free_cores, cell.core_sizes):
        if len(core) >= whole and to_pin:
            to_pin -= 1
        elif core:
            return len(core) == size
    return False


def _floating_shortage(
    cell: model.CellView, host: model.Host, demand: model.Demand,
) -> Shortage | None:
    """What is lacking for vCPUs that float, which may share CPUs."""
    if demand.shared > cell.shared_count:
        return Shortage(cell.id, Reason.SHARED_CPUS, demand.shared,
                        cell.shared_count)
    if host.cpu_allocation_ratio is not None:
        limit = cell.shared_count * host.cpu_allocation_ratio
        if cell.shared_used + demand.shared > limit:
            return Shortage(cell.id, Reason.CPU_RATIO, demand.shared,
                            max(0, int(limit - cell.shared_used)))
    if host.ram_allocation_ratio is not None:
        limit = cell.memory_mib * host.ram_allocation_ratio
        if cell.memory_used_mib + demand.memory_mib > limit:
            return Shortage(cell.id, Reason.MEMORY_RATIO, demand.memory_mib,
                            max(0, int(limit - cell.memory_used_mib)))
    return None


def _memory_shortage(
    cell: model.CellView, guest: model.Guest, demand: model.Demand,
) -> Shortage | None:
    """What is lacking of memory: overcommit is for floating guests only."""
    if demand.page_size_kib:
        return _page_shortage(cell, demand)
    smallest = cell.smallest_pages
    if smallest is None:
        have_mib = cell.memory_mib
        if guest.is_pinned:
            have_mib -= cell.memory_used_mib
        if have_mib < demand.memory_mib:
            return Shortage(cell.id, Reason.MEMORY, demand.memory_mib,
                            have_mib)
        return None
    have_kib = smallest.free_kib if guest.is_pinned else smallest.total_kib
    memory_kib = demand.memory_mib * units.KIB_PER_MIB
    if memory_kib > have_kib:
        return Shortage(cell.id, Reason.MEMORY, demand.memory_mib,
                        have_kib // units.KIB_PER_MIB)
    if smallest.size_kib <= 0 or memory_kib % smallest.size_kib:
        return Shortage(cell.id, Reason.PAGE_MULTIPLE, demand.memory_mib,
                        smallest.size_kib)
    return None


def _page_shortage(
    cell: model.CellView, demand: model.Demand,
) -> Shortage | None:
    if page_size_kib(cell, demand) is not None:
        return None
    pools = allowed_pools(cell, demand)
    if not pools:
        return Shortage(cell.id, Reason.PAGE_SIZE)
    memory_kib = demand.memory_mib * units.KIB_PER_MIB
    fitting = [free for size, free in pools if not memory_kib % size]
    if not fitting:
        return Shortage(cell.id, Reason.PAGE_MULTIPLE, demand.memory_mib,
                        min(size for size, _free in pools))
    return Shortage(cell.id, Reason.PAGES, demand.memory_mib,
                    max(fitting) // units.KIB_PER_MIB)


def allowed_pools(
    cell: model.CellView, demand: model.Demand,
) -> list[tuple[int, int]]:
    """(size, free memory), both in KiB, of the pools the demand allows.

    Largest size first. Empty where the guest cell asks for no page size.
    """
    if not demand.page_size_kib:
        return []
    # Where a host lists a size twice, nova counts the first of the two only,
    # but does take the size for one that is not the smallest.
    free_kib = {pool.size_kib: pool.free_kib for pool in reversed(cell.pages)}
    pools = sorted((pool.size_kib, free_kib[pool.size_kib])
                   for pool in cell.pages if pool.size_kib > 0)
    return list(reversed(_sizing.allowed_pools(pools, demand.page_size_kib)))
