# SPDX-License-Identifier: Apache-2.0
"""How many guests of one kind fit on a host at most.

This is for guests of which one cell depends on another: those of several
cells, with devices, or with networks near to some host cells only.
"""

from collections.abc import Iterator
from collections.abc import Sequence
import itertools

from nova_pinning.admission import device_room
from nova_pinning.admission import devices
from nova_pinning.admission import guest_request
from nova_pinning.admission import host_occupancy
from nova_pinning import fit
from nova_pinning.fit import cell_check
from nova_pinning.fit import counting
from nova_pinning.fit import usage
from nova_pinning import model

#: Different states of a host that a search looks at before it gives up.
MAX_STATES = 2000
#: And of all hosts together, for one kind of guest: some seconds.
MAX_STATES_IN_ALL = 2 * MAX_STATES

_Pools = tuple[devices.PciPool, ...]


class SearchBudget:
    """How much may still be searched for one kind of guest, on all hosts.

    After one host on which that is too much, no other is searched: the sum
    over the hosts is unknown then, whatever is found on the others.
    """

    def __init__(self) -> None:
        self.states = MAX_STATES_IN_ALL


def is_reached(request: guest_request.GuestRequest, guest: model.Guest,
               host: model.Host) -> bool:
    """Whether what the cells have room for is what fits on them at most."""
    return (not request.devices and len(set(guest.demands)) == 1
            and fit.set_check(host, guest, None) is None)


def has_page_choice(cells: Sequence[counting.CountedCell],
                    guest: model.Guest | None) -> bool:
    """Whether a guest may get pages of several sizes on a host.

    Then nova's order decides how many fit: the size that it finds on one host
    cell is what it asks all others for, see fit.known_defects.
    """
    return guest is not None and fit.has_open_pages(guest) and any(
        len({size for cell in cells for size, _free
             in cell_check.allowed_pools(cell.view, demand)}) > 1
        for demand in guest.demands)


def any_order_will_do(
    cells: Sequence[counting.CountedCell], guest: model.Guest, pools: _Pools,
    packs_cells: bool,
) -> bool:
    """Whether guests of equal cells certainly get to their most in nova.

    Nova takes the emptiest host cells. That is best where these are also the
    ones that take the most guest cells, which is so where nothing but CPUs
    limits them. And it has no choice if few cells have room.
    """
    if has_page_choice(cells, guest):
        return False
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


def most(
    request: guest_request.GuestRequest,
    occupancy: host_occupancy.HostOccupancy, fits: int, limit: int,
    budget: SearchBudget,
) -> int | None:
    """How many more guests with NUMA cells fit on a host at most.

    :param fits: that nova places
    :param limit: a number of guests that cannot be exceeded
    :param budget: for several hosts
    :returns: None if that was too much to find out
    """
    guest = request.topology
    assert guest is not None
    told, pools = device_room.told_apart(request, occupancy)
    found = _Search(told, guest, limit, budget).most(occupancy.engine, pools)
    # Placement may choose devices better than nova does without it.
    return found if found is None else max(fits, found)


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
