# SPDX-License-Identifier: Apache-2.0
"""How good a fit is for what comes after it: fragmentation, cache locality."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Collection
from collections.abc import Hashable
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
import itertools
import math
from typing import NamedTuple
from typing import Optional

from nova_pinning.fit import _sizing
from nova_pinning import model

#: What a free CPU in a guest's cells costs, in stranded CPUs: too little to
#: outweigh any that is likely to be stranded.
COST_OF_FREE_CPU = 2 ** -10
#: A difference of costs counts in full from here on. Nova stretches weights
#: to the range from 0 to 1, whatever they are, and what only decides between
#: equals would otherwise outweigh other weighers.
COST_RANGE = 0.25
#: The weight of a host on which the guest does not fit.
UNFIT = -math.inf
#: The weight of a host of which too little is known to weigh it.
UNKNOWN = math.nan
#: Sets of host cells that guests with devices are tried on at most.
_MOST_SETS = 100
#: How many L3 domains one counts as in which others run too.
_SHARED_DOMAIN_COST = 3


#: Of each pool of devices that a demand may be met from, the NUMA node, None
#: if it is near none, and how many are free.
_FreeFor = Callable[
    [_sizing.DeviceDemand], Iterable[tuple[Optional[int], int]]]


class DeviceStock(NamedTuple):
    """A host's devices, without and with a guest that is looked at.

    :param cells: ids of the host cells, those that the guest goes to first
    :param before: what is free for a demand
    :param after: the same beside the guest
    """

    cells: Sequence[int]
    before: _FreeFor
    after: _FreeFor


def loss(
    before: Sequence[_sizing.Room],
    after: Sequence[_sizing.Room],
    others: Sequence[int],
    size: _sizing.Size,
    stock: DeviceStock | None = None,
) -> int:
    """By how many CPUs a guest raises what a host strands of one size.

    :param before: of the host cells that the guest goes to
    :param after: the same with the guest
    :param others: what the host's other cells take; not looked at for a size
        of one cell without devices
    :param stock: the host's devices, None if it has none; not looked at for a
        size without
    """
    taken = sum([room.cpus - left.cpus for room, left in zip(before, after)])
    if size.devices and stock is None:
        return -taken
    takes = [*[room.takes(size) for room in before], *others]
    takes_after = [*[room.takes(size) for room in after], *others]
    if size.devices and stock is not None:
        sold = (_with_devices(takes, size, stock.cells, stock.before)
                - _with_devices(takes_after, size, stock.cells, stock.after))
    else:
        sold = (_sizing.spread(takes, size.cells)
                - _sizing.spread(takes_after, size.cells))
    return sold * size.cells * before[0].cpus_of(size) - taken


def _with_devices(
    counts: Sequence[int], size: _sizing.Size, cell_ids: Sequence[int],
    free_for: _FreeFor,
) -> int:
    """How many guests of a size fit with their devices, one after another.

    Exact for guests of one cell that ask for devices near it by one request;
    else there may be room for more.

    :param counts: how many guest cells each host cell takes without devices
    """
    takes = dict(zip(cell_ids, counts))
    stocks: dict[Hashable, dict[int | None, int]] = {}
    for demand in size.devices:
        stock: dict[int | None, int] = {}
        for node, count in free_for(demand):
            stock[node] = stock.get(node, 0) + count
        stocks[demand.wish] = stock
    sold = 0
    for cells in itertools.islice(
            itertools.combinations(takes, size.cells), _MOST_SETS):
        while all([takes[cell] for cell in cells]) and (
                left := _beside(size, stocks, cells)):
            stocks = left
            sold += 1
            for cell in cells:
                takes[cell] -= 1
    return sold


def _beside(
    size: _sizing.Size, stocks: dict[Hashable, dict[int | None, int]],
    cells: Sequence[int],
) -> dict[Hashable, dict[int | None, int]] | None:
    """What is free beside one more guest on these cells, None if too little.

    Policy socket is taken for required: so it is where a socket is a cell.

    :param stocks: by wish and NUMA node
    """
    left = {wish: dict(stock) for wish, stock in stocks.items()}
    for wish, missing, policy in size.devices:
        stock = left[wish]
        nodes: list[int | None] = list(cells)
        if policy in ('legacy', 'preferred'):
            nodes.append(None)
        if policy == 'preferred':
            nodes += [node for node in stock if node not in nodes]
        for node in nodes:
            taken = min(missing, stock.get(node, 0))
            if taken:
                stock[node] -= taken
                missing -= taken
        if missing:
            return None
    return left


def other_room(cell: model.CellView, size: _sizing.Size) -> int:
    """How many guest cells go on a host cell that a guest leaves alone.

    A count does where it tells as much as a look at siblings, which is dear.
    """
    if size.thread_policy is model.ThreadPolicy.PREFER:
        return _sizing.Room(
            cell.free_count, _sizing.free_pools(cell)).takes(size)
    return _sizing.Room.of(cell).takes(size)


def fragmentation_growth(
    guest: model.Guest,
    cells: Sequence[model.CellView],
    fit: model.Fit,
    mix: Iterable[tuple[_sizing.Size, float]],
    others: Sequence[model.CellView] = (),
    stock: DeviceStock | None = None,
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
    :param stock: the host's devices, None if it has none
    """
    is_isolated = guest.thread_policy is model.ThreadPolicy.ISOLATE
    before = [_sizing.Room.of(cell) for cell in cells]
    after = [
        _sizing.Room.of(cell, cell_fit, demand.memory_mib, is_isolated)
        for demand, cell, cell_fit in zip(guest.demands, cells, fit.cells)]
    growth = 0.0
    for size, share in mix:
        rooms: Sequence[int] = ()
        if size.cells > 1 or size.devices and stock:
            rooms = [other_room(cell, size) for cell in others]
        growth += share * loss(before, after, rooms, size, stock)
    return growth


def left_over(
    guest: model.Guest, cells: Sequence[model.CellView],
) -> int:
    """The CPUs that a pinned guest leaves free in its host cells.

    :param cells: the host cell of each guest cell
    """
    return sum([
        cell.free_count - demand.dedicated - demand.emulator
        for demand, cell in zip(guest.demands, cells)])


def l3_domains(
    cores: Sequence[Collection[int]],
    cpus_per_domain: int | None,
    others: Sequence[Sequence[Collection[int]]] = (),
) -> dict[int, int]:
    """The L3 domain of each CPU of a cell, numbered within the cell.

    Cores are taken to be numbered one after the other through the domains of
    a cell, and CPUs that are not in the lists (kept for the host) to keep
    their place. Sibling threads may be neighbours, or come after all cores of
    the host or of the cell. The numbers may go through one cell after the
    other, or round all cells of the host, or round those of a group. That
    shows in that the ranges of the cells overlap, and that the numbers of a
    cell all leave one remainder when divided by the number of cells.

    What is not in the lists can hide that. These are mistaken:

    * hosts where no core has all its threads in the lists, unless these are
      the first threads of all cores and neighbours are not siblings: cores are
      taken to have as many threads as the largest that is listed
    * cells that numbers go round, but of which the lists have nothing that
      lies in the range of another cell, as where one cell alone has CPUs for
      guests: they are taken to be numbered one after the other

    :param cores: the sibling sets of the cell
    :param cpus_per_domain: host CPUs that share an L3 cache; None if unknown,
        and then the whole cell is one domain
    :param others: the sibling sets of the host's other cells, each
    :returns: domain number by CPU
    """
    members = [core for core in cores if core]
    if cpus_per_domain is None or not members:
        return {cpu: 0 for core in members for cpu in core}
    threads, offset = _threads((cores, *others))
    numbers = _core_numbers(members, threads, offset)
    step = 1
    if others:
        step = _step(numbers, [
            _core_numbers(other, threads, offset) for other in others])
    size = max(1, cpus_per_domain // threads) * step
    return {cpu: number // size
            for core, number in zip(members, numbers) for cpu in core}


def _threads(cells: Sequence[Sequence[Collection[int]]]) -> tuple[int, int]:
    """Threads of a core, and how far apart the numbers of two of them are.

    As the first core shows that has the most threads.

    :param cells: the sibling sets of each cell, at least one of them
    """
    threads = max([len(core) for cores in cells for core in cores])
    if threads == 1:
        return 1, 1
    whole = next(core for cores in cells for core in cores
                 if len(core) == threads)
    first, second = sorted(whole)[:2]
    return threads, max(1, second - first)


def _core_numbers(
    cores: Iterable[Collection[int]], threads: int, offset: int,
) -> list[int]:
    """The number of each core, whichever of its threads are in the list.

    The CPUs of a number of cores, all first threads and then all second ones
    and so on, make a block; in one of neighbours there is one core.

    :param offset: how far apart sibling threads are
    """
    block = threads * offset
    return [cpu // block * offset + cpu % offset
            for cpu in [next(iter(core)) for core in cores if core]]


def _step(numbers: Sequence[int], others: Sequence[Sequence[int]]) -> int:
    """How far the numbers of two cores are apart that follow in a cell.

    :param numbers: of the cores of the cell
    :param others: of those of each other cell
    """
    low, high = min(numbers), max(numbers)
    among = [other for other in others
             if other and min(other) < high and low < max(other)]
    if not among:
        return 1
    # All cells of the host, or those that lie among one another.
    for count, cells in ((len(others) + 1, [numbers, *filter(None, others)]),
                         (len(among) + 1, [numbers, *among])):
        remainders = [{number % count for number in cell} for cell in cells]
        if (len(set().union(*remainders)) == sum(map(len, remainders))
                == len(cells)):
            return count
    return 1


def l3_cost(
    domain_of: Mapping[int, int],
    cell: model.CellView,
    cell_fit: model.CellFit,
    is_exclusive: bool,
) -> int:
    """What the L3 domains that a guest cell gets cost: one each, or more.

    :param domain_of: as :func:`l3_domains` found it; CPUs that it does not
        have make up their own domain
    :param is_exclusive: whether a domain in which others run costs more: one
        with CPUs that other guests are pinned to or that vCPUs and emulator
        threads float over
    """
    used = {domain_of.get(cpu) for _vcpu, cpu in cell_fit.pins}
    cost = len(used)
    if is_exclusive and used:
        others = {domain_of.get(cpu) for cpu in cell.pinned_cpus}
        # What pinned guests may get is shared only once somebody floats.
        if not cell.is_legacy or cell.shared_used > 0:
            others.update([domain_of.get(cpu) for cpu in cell.shared_cpus])
        cost += (_SHARED_DOMAIN_COST - 1) * len(used & others)
    return cost


def span(worst: float, best: float, least_range: float = 0.0) -> float:
    """What weights are divided by, less the worst of them.

    :returns: 0 if no host is better than another
    """
    return max(best, worst + least_range) - worst


def normalized(
    weights: Sequence[float], least_range: float = 0.0,
) -> list[float]:
    """Weights of the hosts of a request, brought to between 0 and 1.

    The best gets 1 and the worst 0, as in nova.weights.normalize; all get 0
    if none is better than another.

    :param weights: more is better; UNFIT and UNKNOWN among them
    :param least_range: the best gets less than 1 if it is not better than the
        worst by as much as this
    :returns: for hosts that are UNFIT as for the worst, for hosts that are
        UNKNOWN the mean of the others
    """
    known = [weight for weight in weights if weight > UNFIT]
    if not known:
        return [0.0] * len(weights)
    worst = min(known)
    whole = span(worst, max(known), least_range)
    if not whole:
        return [0.0] * len(weights)
    neutral = math.fsum([(weight - worst) / whole for weight in known]
                        ) / len(known)
    return [(weight - worst) / whole if weight > UNFIT
            else 0.0 if weight == UNFIT else neutral for weight in weights]
