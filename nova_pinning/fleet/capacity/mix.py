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


"""How many guests of a mix of flavors a fleet takes, and a bound beside it.

Guests are taken in the even sequence of :func:`nova_pinning.fit.capacity.
order`, and what counts is its longest beginning for which there is room at
once. To find that is bin packing over all host cells. So there are two
figures: guests for which room was found, the largest first and each where it
leaves the least; and a number that cannot be exceeded. Where they are equal
the figure is exact, as it is where each size divides the next one and nothing
but CPUs matters.
"""

from collections.abc import Callable
from collections.abc import Sequence
from typing import NamedTuple

from nova_pinning.fit import capacity
from nova_pinning.fit import room
from nova_pinning.fleet.capacity import count
from nova_pinning.fleet.capacity import memory
from nova_pinning.fleet import placement
from nova_pinning import model


class Mix(NamedTuple):
    """How many guests of a mix fit.

    :param counts: of each flavor for which room was found
    :param bound: a number of guests that cannot be exceeded
    """

    counts: tuple[int, ...]
    bound: int

    @property
    def guests(self) -> int:
        return sum(self.counts)

    @property
    def is_exact(self) -> bool:
        return self.guests == self.bound


class _Item(NamedTuple):
    """A flavor of a mix; CPUs and memory are those of each cell.

    :param page_size_kib: as memory.page_sizes has them
    :param use: of the host's resources, in the order of _RESOURCES
    """

    cells: int
    cpus: int
    memory_mib: int
    page_size_kib: int
    use: tuple[int, ...]


class _Bin:
    """What a host cell, or all of a host for floating guests, has left.

    :param memory_mib: as memory.free_mib has it
    :param default_kib: the size of the pages for guests that ask for none
    """

    __slots__ = ('cpus', 'default_kib', 'memory_mib')

    def __init__(self, cpus: int, memory_mib: dict[int, int],
                 default_kib: int = memory.DEFAULT_PAGES) -> None:
        self.cpus = cpus
        self.memory_mib = memory_mib
        self.default_kib = default_kib

    def copy(self) -> '_Bin':
        return _Bin(self.cpus, dict(self.memory_mib), self.default_kib)

    def times(self, item: _Item) -> int:
        """Cells of a guest that fit."""
        return max(0, min(self.cpus // item.cpus,
                          self.memory_mib.get(self._pages(item), 0)
                          // item.memory_mib))

    def take(self, item: _Item, cells: int) -> None:
        if cells:
            self.cpus -= cells * item.cpus
            self.memory_mib[self._pages(item)] -= cells * item.memory_mib

    def _pages(self, item: _Item) -> int:
        size = item.page_size_kib
        return memory.DEFAULT_PAGES if size == self.default_kib else size


class _Host(NamedTuple):
    """A host with its cells.

    :param takes: whether it takes each of the flavors at all
    :param left: of each of _RESOURCES
    """

    bins: list[_Bin]
    takes: tuple[bool, ...]
    left: list[int]

    def copy(self) -> '_Host':
        return self._replace(
            bins=[one.copy() for one in self.bins], left=list(self.left))


_RESOURCES = (placement.PCPU, placement.VCPU, placement.MEMORY_MB,
              placement.DISK_GB)


def can_mix(counter: count.Counter) -> bool:
    """Whether a flavor can be part of a mix.

    Not with devices, unequal cells, floating vCPUs in NUMA cells, thread
    policy isolate, or pages of several sizes.
    """
    guest = counter.wanted.topology
    if counter.wanted.devices:
        return False
    if guest is None:
        return True
    cells = {(len(cell.dedicated_vcpus), cell.memory_mib,
              cell.page_size_kib) for cell in guest.cells}
    return (guest.cpu_policy is model.CpuPolicy.DEDICATED and len(cells) == 1
            and guest.thread_policy is not model.ThreadPolicy.ISOLATE
            and (guest.cells[0].page_size_kib or 0) >= model.PAGES_SMALL)


def mix(
    places: Sequence[count.Place],
    counters: Sequence[count.Counter],
    counts: Sequence[Sequence[count.HostCount]],
    weights: Sequence[int],
    progress: Callable[[], None] = lambda: None,
) -> Mix:
    """How many guests fit, if they are sold as the weights say.

    :param counters: at least one, of flavors of which all are pinned or none
        is, and of which :func:`can_mix` says so
    :param counts: for each of them, what it says of each place
    :param weights: of each flavor, 1 or more
    :param progress: is called now and then
    """
    is_pinned = counters[0].is_pinned
    # Guests that want whole cores are sure of them where all get some.
    is_paired = any(counter.thread_policy is model.ThreadPolicy.REQUIRE
                    for counter in counters)
    takes = [tuple(one.fits > 0 for one in row) for row in zip(*counts)]
    bounds = _Bounds(
        [_host(place, row, is_pinned, False)
         for place, row in zip(places, takes)],
        [_item(counter, False, False) for counter in counters],
        [sum(room.UNLIMITED if one.most is None else one.most for one in row)
         for row in counts])
    beginnings = [(0,) * len(counters)]
    for number in capacity.order(weights):
        longer = list(beginnings[-1])
        longer[number] += 1
        if not bounds.allow(number, longer[number]):
            break
        beginnings.append(tuple(longer))
    hosts = [_host(place, row, is_pinned, is_paired)
             for place, row in zip(places, takes) if any(row)]
    items = [_item(counter, True, is_paired) for counter in counters]
    low, high = 0, len(beginnings) - 1
    middle = high
    while low < high:
        progress()
        if _packs(hosts, items, beginnings[middle]):
            low = middle
        else:
            high = middle - 1
        # What fits is mostly close to the bound.
        middle = (low + 3 * high + 3) // 4
    return Mix(beginnings[low], len(beginnings) - 1)


class _Bounds:
    """Tells which guests of a sequence can no longer fit, in a moment each.

    With s CPUs to a spot, a cell of n CPUs has n // s spots, and guests take
    at least as many of them as each on its own has: that holds for every s,
    and the sizes of the guests are tried for it.
    """

    def __init__(self, hosts: Sequence[_Host], items: Sequence[_Item],
                 most: Sequence[int]) -> None:
        self._items = items
        self._most = most
        bins = [one for host in hosts if any(host.takes)
                for one in host.bins]
        self._steps = sorted({1, *(item.cpus for item in items)})
        self._spots = [sum(one.cpus // step for one in bins)
                       for step in self._steps]
        self._memory_mib = sum(sum(one.memory_mib.values()) for one in bins)

    def allow(self, number: int, guests: int) -> bool:
        """Whether one more guest may fit with those that were allowed.

        :param number: of its flavor
        :param guests: of that flavor, with this one
        """
        item = self._items[number]
        for place, step in enumerate(self._steps):
            self._spots[place] -= item.cells * (item.cpus // step)
        self._memory_mib -= item.cells * item.memory_mib
        return (min(self._spots) >= 0 and self._memory_mib >= 0
                and guests <= self._most[number])


def _packs(hosts: Sequence[_Host], items: Sequence[_Item],
           counts: Sequence[int]) -> bool:
    """Whether room is found, the largest first, where it is tightest."""
    hosts = [host.copy() for host in hosts]
    order = sorted(range(len(items)), reverse=True, key=lambda number: (
        items[number].cpus, items[number].memory_mib, items[number].cells))
    return all(_place([host for host in hosts if host.takes[number]],
                      items[number], counts[number]) for number in order)


def _place(hosts: Sequence[_Host], item: _Item, wanted: int) -> bool:
    """Find room for so many guests of one flavor, and take it."""
    if item.cells > 1:
        spots = [(sum([one.cpus for one in host.bins]), number, 0)
                 for number, host in enumerate(hosts)]
    else:
        spots = [(one.cpus, number, which)
                 for number, host in enumerate(hosts)
                 for which, one in enumerate(host.bins)
                 if one.cpus >= item.cpus]
    for _cpus, number, which in sorted(spots):
        if not wanted:
            break
        host = hosts[number]
        within = min([have // use for have, use in zip(host.left, item.use)
                      if use], default=wanted)
        within = max(0, min(within, wanted))
        if item.cells > 1:
            taken = _spread(host.bins, item, within)
        else:
            taken = min(within, host.bins[which].times(item))
            host.bins[which].take(item, taken)
        wanted -= taken
        for place, use in enumerate(item.use):
            host.left[place] -= taken * use
    return not wanted


def _spread(bins: Sequence[_Bin], item: _Item, within: int) -> int:
    """Guests of several cells, each on the emptiest cells of a host."""
    taken = 0
    while taken < within:
        chosen = sorted((one for one in bins if one.times(item)),
                        key=lambda one: -one.cpus)[:item.cells]
        if len(chosen) < item.cells:
            break
        for one in chosen:
            one.take(item, 1)
        taken += 1
    return taken


def _host(place: count.Place, takes: tuple[bool, ...], is_pinned: bool,
          is_paired: bool) -> _Host:
    left = [place.offers.get(name, (room.UNLIMITED, 0))[0]
            for name in _RESOURCES]
    if not is_pinned:
        return _Host([_Bin(
            max(0, left[_RESOURCES.index(placement.VCPU)]),
            {memory.DEFAULT_PAGES:
             max(0, left[_RESOURCES.index(placement.MEMORY_MB)])})],
            takes, left)
    if not place.has_pcpus:
        # There, pinned vCPUs count as VCPU.
        left[0] = left[1]
    bins = []
    for cell in place.cells:
        if cell.is_sound:
            smallest = cell.view.smallest_pages
            bins.append(_Bin(
                2 * sum(free > 1 for free in cell.free_threads) if is_paired
                else cell.free, memory.free_mib(cell.view),
                smallest.size_kib if smallest else memory.DEFAULT_PAGES))
    return _Host(bins, takes, left)


def _item(counter: count.Counter, is_sure: bool, is_paired: bool) -> _Item:
    """A flavor with what it certainly gets along with, or at least needs.

    :param is_sure: which of the two
    :param is_paired: whether it is given whole cores
    """
    wanted = counter.wanted
    flavor = wanted.flavor
    disk_gib = max((query.resources.get(placement.DISK_GB, 0)
                    for query in wanted.queries), default=0)
    guest = wanted.topology
    if guest is None:
        return _Item(1, flavor.vcpus, flavor.memory_mib,
                     memory.DEFAULT_PAGES,
                     (0, flavor.vcpus, flavor.memory_mib, disk_gib))
    needs = [one.dedicated + one.emulator for one in guest.demands]
    cpus = max(needs) if is_sure else min(needs)
    if is_paired:
        cpus += cpus % 2
    cell = guest.demands[0]
    return _Item(
        len(guest.cells), cpus, max(1, cell.memory_mib),
        max(memory.DEFAULT_PAGES, cell.page_size_kib or 0),
        (sum(needs), 0, flavor.memory_mib, disk_gib))
