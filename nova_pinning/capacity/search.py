# SPDX-License-Identifier: Apache-2.0


"""Guests of one kind put on a host one after another, and at their most.

This is for guests of which one cell depends on another: those of several
cells, with devices, or with networks near to some host cells only.
"""

from collections.abc import Iterator
from collections.abc import Sequence
import itertools
from typing import NamedTuple

from nova_pinning.admission import devices
from nova_pinning.admission import guest_request
from nova_pinning import fit
from nova_pinning.fit import cell_check
from nova_pinning.fit import counting
from nova_pinning.fit import usage
from nova_pinning.fleet import snapshot
from nova_pinning import model

#: Different states of a host that a search looks at before it gives up.
MAX_STATES = 2000
#: And of all hosts together, for one kind of guest: some seconds.
MAX_STATES_IN_ALL = 2 * MAX_STATES

_Pools = tuple[snapshot.PciPool, ...]


class SearchBudget:
    """How much may still be searched for one kind of guest, on all hosts.

    After one host on which that is too much, no other is searched: the sum
    over the hosts is unknown then, whatever is found on the others.
    """

    def __init__(self) -> None:
        self.states = MAX_STATES_IN_ALL


class GuestPacking(NamedTuple):
    """How many guests go on a host.

    :param fits: that nova will place, one after another
    :param most: that fit at most, None if that was too much to find out
    """

    fits: int
    most: int | None


def pack(
    request: guest_request.GuestRequest, host: model.Host,
    cells: Sequence[counting.CountedCell], pools: _Pools, limit: int,
    packs_cells: bool = False, budget: SearchBudget | None = None,
) -> GuestPacking:
    """How many guests of a kind go on a host.

    :param host: of ``model.HostCell``, with the guests that it has
    :param cells: counting.cells of it
    :param pools: of the host's devices, with what is free of each
    :param limit: a number of guests that cannot be exceeded; of guests of
        equal cells without devices and networks it can be reached
    :param packs_cells: nova's packing_host_numa_cells_allocation_strategy
    :param budget: for several hosts, None for one of its own
    """
    guest = request.topology
    if guest is None:
        fits = _without_topology(request, host, pools, limit)
        return GuestPacking(fits, fits)
    is_reached = (not request.devices and len(set(guest.demands)) == 1
                  and fit.set_check(host, guest, None) is None)
    if is_reached and _any_order_will_do(cells, guest, pools, packs_cells):
        return GuestPacking(limit, limit)
    fits = _one_by_one(request, guest, host, pools, limit, packs_cells)
    if is_reached or fits == limit:
        return GuestPacking(fits, limit)
    if not fits:
        # Nova's order is of no account to the first guest.
        return GuestPacking(0, 0)
    return GuestPacking(fits, _Search(
        request, guest, limit, budget or SearchBudget()).most(host, pools))


def _without_topology(request: guest_request.GuestRequest, host: model.Host,
                      pools: _Pools, limit: int) -> int:
    """Guests that get devices from anywhere, and need nothing else here."""
    count, taken = 0, list[snapshot.PciUse]()
    while count < limit:
        more = devices.take(pools, taken, request.devices, (), host.cells)
        if more is None:
            break
        taken += more
        count += 1
    return count


def _any_order_will_do(
    cells: Sequence[counting.CountedCell], guest: model.Guest, pools: _Pools,
    packs_cells: bool,
) -> bool:
    """Whether guests of equal cells certainly get to their most in nova.

    Nova takes the emptiest host cells. That is best where these are also the
    ones that take the most guest cells, which is so where nothing but CPUs
    limits them. And it has no choice if few cells have room.
    """
    demand = guest.demands[0]
    counts = [counting.count(cell, guest, demand).memory for cell in cells]
    if len([count for count in counts if count]) <= len(guest.cells):
        return True
    if packs_cells or pools:
        return False
    if guest.cpu_policy is model.CpuPolicy.DEDICATED:
        needed = demand.dedicated + demand.emulator
        return counts == [cell.free_cpus // needed for cell in cells]
    if guest.is_pinned or len({cell.shared_limit for cell in cells}) > 1:
        return False
    return all(
        cell.shared_limit is not None
        and count == (cell.shared_limit - cell.view.shared_used)
        // demand.shared for cell, count in zip(cells, counts))


def _one_by_one(request: guest_request.GuestRequest, guest: model.Guest,
                host: model.Host, pools: _Pools, limit: int,
                packs_cells: bool) -> int:
    """Guests as nova places them."""
    count = 0
    while count < limit:
        check = None
        if request.devices or pools:
            check = devices.check(pools, (), request.devices, host.cells)
        guest_fit = fit.fit_guest(host, guest, pack=packs_cells, pci=check)
        if isinstance(guest_fit, model.Refusal):
            break
        host, pools = _take(request, guest, host, pools, guest_fit)
        count += 1
    return count


def _take(request: guest_request.GuestRequest, guest: model.Guest,
          host: model.Host, pools: _Pools,
          guest_fit: model.Fit) -> tuple[model.Host, _Pools]:
    """The host and the free devices after one more guest."""
    taken = devices.take(
        pools, (), request.devices,
        [cell.host_cell for cell in guest_fit.cells],
        host.cells)
    assert taken is not None
    return usage.take(host, guest, guest_fit), devices.free(pools, taken)


class _Search:
    """Looks at all ways to put guests on a host.

    The host cells of each guest are chosen at will; which CPUs, pages and
    devices it then gets is for nova. States of a host that are alike are
    looked at once.
    """

    def __init__(self, request: guest_request.GuestRequest, guest: model.Guest,
                 limit: int, budget: SearchBudget) -> None:
        self._request = request
        self._guest = guest
        self._limit = limit
        self._budget = budget
        self._known: dict[object, int] = {}
        self._is_reached = False

    def most(self, host: model.Host, pools: _Pools) -> int | None:
        """The most guests, None if there are too many ways."""
        try:
            count = self._further(host, pools, 0)
        except _TooMany:
            self._budget.states = 0
            return None
        return self._limit if self._is_reached else count

    def _further(self, host: model.Host, pools: _Pools, had: int) -> int:
        if self._is_reached or had == self._limit:
            self._is_reached = True
            return 0
        key = tuple([cell.key for cell in counting.cells(host)]), pools
        if key not in self._known:
            if not self._budget.states or len(self._known) >= MAX_STATES:
                raise _TooMany
            self._budget.states -= 1
            self._known[key] = 0
            self._known[key] = max(
                (1 + self._further(*after, had + 1)
                 for after in self._successors(host, pools)), default=0)
        return self._known[key]

    def _successors(self, host: model.Host,
                    pools: _Pools) -> Iterator[tuple[model.Host, _Pools]]:
        """What may come of the host with one more guest on it."""
        guest = self._guest
        check = fit.set_check(host, guest, devices.check(
            pools, (), self._request.devices, host.cells))
        fitting = [
            [cell for cell in host.cells if cell_check.shortage(
                cell, host, guest, demand) is None]
            for demand in guest.demands]
        for cells in _choices(fitting, guest.demands):
            if check is None or check(
                    tuple(sorted(cell.id for cell in cells))) is None:
                yield _take(self._request, guest, host, pools,
                            fit.pin(guest, cells))


class _TooMany(Exception):
    """There are more states than are looked at."""


def _choices(
    fitting: Sequence[Sequence[model.CellView]],
    demands: Sequence[model.Demand],
) -> Iterator[tuple[model.CellView, ...]]:
    """Different host cells for the cells of a guest.

    Of equal guest cells, those that come later get later host cells.
    """
    for indices in itertools.product(
            *[range(len(cells)) for cells in fitting]):
        cells = [row[index] for row, index in zip(fitting, indices)]
        if len({cell.id for cell in cells}) < len(cells):
            continue
        if all(indices[first] < indices[second]
               for first, second in itertools.combinations(
                   range(len(demands)), 2)
               if demands[first] == demands[second]):
            yield tuple(cells)
