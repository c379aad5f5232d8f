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

"""How good a fit is for what comes after it: fragmentation, cache locality."""

from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
import dataclasses

from nova_pinning.fit import capacity
from nova_pinning import model

#: What a free CPU in a guest's cells costs, in stranded CPUs: too little to
#: outweigh any that is likely to be stranded.
COST_OF_FREE_CPU = 2 ** -10
#: A difference of costs counts in full from here on. Nova stretches weights
#: to the range from 0 to 1, whatever they are, and what only decides between
#: equals would otherwise outweigh other weighers.
COST_RANGE = 0.25
_KIB_PER_MIB = 1024
#: How many L3 domains one counts as in which another guest has CPUs too.
_SHARED_DOMAIN_COST = 3


@dataclasses.dataclass(frozen=True, slots=True)
class Size:
    """A size of guest on sale.

    :param vcpus: of each of its NUMA cells
    :param memory_mib: of each of its NUMA cells
    :param cells: host cells that it takes, each of its own
    """

    vcpus: int
    memory_mib: int
    thread_policy: model.ThreadPolicy = model.ThreadPolicy.PREFER
    page_size_kib: int | None = None
    cells: int = 1


@dataclasses.dataclass(frozen=True, slots=True)
class Stock:
    """What a host cell still has to sell.

    :param free: free dedicated CPUs
    :param paired: those of them on cores with two or more free threads
    :param whole_cores: cores with every thread free, where nova can give
        them to a guest that wants its vCPUs isolated; else 0
    :param threads: threads of a core
    :param memory_kib: free memory by page size; under 0 what is to be had
        without asking for a page size
    """

    free: int
    paired: int
    whole_cores: int
    threads: int
    memory_kib: dict[int, int]


def stock(
    cell: model.CellView,
    taken: model.CellFit | None = None,
    taken_memory_mib: int = 0,
    is_isolated: bool = False,
) -> Stock:
    """What the cell has left, after taken if that is given.

    :param is_isolated: whether taken keeps the other threads of its cores
        from others too
    """
    gone = set()
    if taken is not None:
        gone = {cpu for _vcpu, cpu in taken.pins}
        gone.update(taken.emulator_cpus)
    free = paired = whole = 0
    sizes = cell.core_sizes
    for core, size in zip(cell.free_cores, sizes):
        left = len(core)
        if left and gone:
            taken_here = sum(cpu in gone for cpu in core)
            left -= left if is_isolated and taken_here else taken_here
        free += left
        if left > 1:
            paired += left
        if left and left == size:
            whole += 1
    threads = max(sizes, default=1) or 1
    if threads > 1 and not cell.is_legacy:
        whole = 0
    page_size_kib = taken.page_size_kib if taken is not None else None
    return Stock(free, paired, whole, threads, _memory_left(
        cell, page_size_kib, taken_memory_mib * _KIB_PER_MIB))


def _memory_left(
    cell: model.CellView, page_size_kib: int | None, taken_kib: int,
) -> dict[int, int]:
    """Free memory in KiB by page size, and under 0 that of no page size.

    Who asks for no page size gets the smallest pages.
    """
    pools = {pool.size_kib: pool.free_kib for pool in reversed(cell.pages)
             if pool.size_kib > 0}
    if not pools:
        free_mib = cell.memory_mib - cell.memory_used_mib
        return {0: free_mib * _KIB_PER_MIB - taken_kib}
    smallest = min(pools)
    pools[page_size_kib or smallest] -= taken_kib
    pools[0] = pools[smallest]
    return pools


def stranded(left: Stock, size: Size) -> int:
    """Free CPUs of a cell that no further guest cell of the size can be sold.

    What remains after as many of them as CPUs and memory allow: all free CPUs
    if not one fits. With more than two threads a core, guests that want
    whole cores may find less room than is reckoned here.
    """
    return left.free - room(left, size) * _cpus(left, size)


def room(left: Stock, size: Size) -> int:
    """How many guest cells of the size a host cell has room for."""
    return min(_guests_by_cpu(left, size), _guests_by_memory(left, size))


def other_room(cell: model.CellView, size: Size) -> int:
    """The same for a host cell that the guest in question leaves alone.

    A count does where it tells as much as a look at siblings, which is dear.
    """
    if size.thread_policy is model.ThreadPolicy.PREFER:
        return room(
            Stock(cell.free_count, 0, 0, 1, _memory_left(cell, None, 0)),
            size)
    return room(stock(cell), size)


def loss(
    before: Sequence[Stock],
    after: Sequence[Stock],
    others: Sequence[int],
    size: Size,
) -> int:
    """By how many CPUs a guest raises what a host strands of one size.

    :param before: of the host cells that the guest goes to
    :param after: the same with the guest
    :param others: the room in the host's other cells; of no account for a
        size of one cell
    """
    sold = (
        capacity.spread([*[room(one, size) for one in before], *others],
                        size.cells)
        - capacity.spread([*[room(one, size) for one in after], *others],
                          size.cells))
    taken = sum([one.free - other.free for one, other in zip(before, after)])
    return sold * size.cells * _cpus(before[0], size) - taken


def fragmentation_growth(
    guest: model.Guest,
    cells: Sequence[model.CellView],
    fit: model.Fit,
    mix: Iterable[tuple[Size, float]],
    others: Sequence[model.CellView] = (),
) -> float:
    """By how many CPUs placing the guest raises what its host strands.

    The expectation over the mix of sizes on sale, so negative where the guest
    takes up CPUs that were stranded before. After the fragmentation gradient
    descent of Weng et al., "Beware of Fragmentation: Scheduling GPU-Sharing
    Workloads with Fragmentation Gradient Descent", USENIX ATC 2023, with NUMA
    cells, whole cores and pages in the place of GPUs. What guests of several
    cells find is a matter of the whole host.

    :param cells: the host cell of each guest cell
    :param fit: the guest on these cells
    :param mix: sizes with their shares, which sum to 1
    :param others: the other cells of the host
    """
    is_isolated = guest.thread_policy is model.ThreadPolicy.ISOLATE
    before = [stock(cell) for cell in cells]
    after = [
        stock(cell, cell_fit, demand.memory_mib, is_isolated)
        for demand, cell, cell_fit in zip(guest.demands, cells, fit.cells)]
    growth = 0.0
    for size, share in mix:
        rooms: Sequence[int] = ()
        if size.cells > 1:
            rooms = [other_room(cell, size) for cell in others]
        growth += share * loss(before, after, rooms, size)
    return growth


def left_over(cells: Sequence[model.CellView], fit: model.Fit) -> int:
    """The CPUs that a guest leaves free in its host cells.

    :param cells: the host cell of each guest cell
    """
    return sum([
        cell.free_count - len(one.pins) - len(one.emulator_cpus)
        for cell, one in zip(cells, fit.cells)])


def fragmentation_cost(
    guest: model.Guest,
    cells: Sequence[model.CellView],
    fit: model.Fit,
    mix: Iterable[tuple[Size, float]],
    others: Sequence[model.CellView] = (),
) -> float:
    """What placing the guest costs, in CPUs: the less, the better.

    Its :func:`fragmentation_growth`, and of places that grow alike the
    fullest cells, which keeps large room in one piece.
    """
    return (fragmentation_growth(guest, cells, fit, mix, others)
            + COST_OF_FREE_CPU * left_over(cells, fit))


def _cpus(left: Stock, size: Size) -> int:
    """Host CPUs that a guest cell of the size takes."""
    if size.thread_policy is model.ThreadPolicy.ISOLATE:
        return size.vcpus * left.threads
    return size.vcpus


def _guests_by_cpu(left: Stock, size: Size) -> int:
    if size.vcpus <= 0:
        return 0
    if size.thread_policy is model.ThreadPolicy.REQUIRE:
        # An odd vCPU leaves the thread beside it to nobody else who wants
        # whole cores.
        return left.paired // (size.vcpus + size.vcpus % 2)
    if size.thread_policy is model.ThreadPolicy.ISOLATE:
        return left.whole_cores // size.vcpus
    return left.free // size.vcpus


def _guests_by_memory(left: Stock, size: Size) -> int:
    memory_kib = size.memory_mib * _KIB_PER_MIB
    if not memory_kib:
        return left.free
    return sum(max(0, left.memory_kib.get(pages, 0)) // memory_kib
               for pages in _allowed_pages(left, size.page_size_kib))


def _allowed_pages(left: Stock, wanted: int | None) -> Sequence[int]:
    """The page sizes that a guest which asks for wanted may get."""
    if not wanted:
        return [0]
    sizes = sorted(key for key in left.memory_kib if key)
    if wanted == model.PAGES_SMALL:
        return sizes[:1]
    if wanted == model.PAGES_LARGE:
        return sizes[1:]
    return sizes if wanted == model.PAGES_ANY else [wanted]


def l3_domains(
    cores: Sequence[Iterable[int]], cpus_per_domain: int | None,
) -> dict[int, int]:
    """The L3 domain of each CPU of a cell, numbered within the cell.

    Cores are taken to be numbered one after the other through the domains,
    as the kernel numbers them on x86: CPUs that are not in the list (kept for
    the host) keep their place.

    :param cores: the sibling sets of the cell
    :param cpus_per_domain: host CPUs that share an L3 cache; None if unknown,
        and then the whole cell is one domain
    :returns: domain number by CPU
    """
    members = [sorted(core) for core in cores if core]
    if cpus_per_domain is None or not members:
        return {cpu: 0 for core in members for cpu in core}
    threads = max(map(len, members))
    whole = [core for core in members if len(core) == threads]
    firsts = sorted({core[0] for core in whole})
    # The step from one core to the next: 1 where sibling threads are numbered
    # after all cores, the number of threads where they are neighbours, the
    # number of sockets where cores alternate between these.
    step = min((b - a for a, b in zip(firsts, firsts[1:])), default=1)
    offset = whole[0][-1] - whole[0][0]
    cores_per_domain = max(1, cpus_per_domain // threads)

    def far_from_firsts(cpu: int) -> int:
        return max(firsts[0] - cpu, cpu - firsts[-1])

    domains = {}
    for core in members:
        first = core[0]
        if len(core) < threads:
            # The first thread may be the one that is kept for the host.
            first = min(first, first - offset, key=far_from_firsts)
        for cpu in core:
            domains[cpu] = first // step // cores_per_domain
    return domains


def l3_use(
    domain_of: Mapping[int, int],
    cell: model.CellView,
    cell_fit: model.CellFit,
    is_exclusive: bool,
) -> tuple[int, int]:
    """The L3 domains that a guest cell gets: how many, and what they cost.

    :param domain_of: as :func:`l3_domains` found it
    :param is_exclusive: whether a domain in which another guest has CPUs
        costs more than one of the guest's own
    """
    used = {domain_of[cpu] for _vcpu, cpu in cell_fit.pins}
    cost = len(used)
    if is_exclusive:
        others = {domain_of.get(cpu) for cpu in cell.pinned_cpus}
        cost += (_SHARED_DOMAIN_COST - 1) * len(used & others)
    return len(used), cost
