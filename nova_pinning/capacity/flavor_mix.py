# SPDX-License-Identifier: Apache-2.0
"""How many guests of a mix of flavors a fleet takes, and a bound beside it.

Guests are taken in the even sequence of
:func:`nova_pinning.fit.capacity.sale_order`, and what counts is its
longest beginning for which there is room at once. To find that is bin packing
over all host cells. So there are two figures: guests for which room was found,
the largest first and each where it leaves the least; and a number that cannot
be exceeded. Where they are equal the figure is exact, as it is where each size
divides the next one and nothing but CPUs matters.
"""

from collections.abc import Sequence
from typing import NamedTuple

from nova_pinning.capacity import count
from nova_pinning.capacity import like_hosts
from nova_pinning import fit
from nova_pinning.fit import capacity
from nova_pinning.fit import counting
from nova_pinning import model
from nova_pinning.placement import cache_resources
from nova_pinning.placement import inventory
from nova_pinning import units


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
    """A flavor of a mix.

    :param size: with the CPUs that each cell takes
    :param use: of the host's resources, in the order of _RESOURCES, and 1
        of the guests that may be on it
    """

    size: fit.Size
    use: tuple[int, ...]


class _MixedHost(NamedTuple):
    """A host with what each cell, or for floating guests all of it, has left.

    :param takes: whether it takes each of the flavors at all
    :param left: of each of _RESOURCES, and how many guests may be added
    """

    rooms: list[fit.Room]
    takes: tuple[bool, ...]
    left: list[int]

    def copy(self) -> '_MixedHost':
        return self._replace(rooms=list(self.rooms), left=list(self.left))


_RESOURCES = (inventory.PCPU, inventory.VCPU, inventory.MEMORY_MB,
              inventory.DISK_GB,
              *cache_resources.CLASSES)


def can_mix(counter: count.Counter) -> bool:
    """Whether a flavor can be part of a mix.

    Not with devices or other resources, unequal cells, floating vCPUs in NUMA
    cells, thread policy isolate, or pages of several sizes.
    """
    guest = counter.request.topology
    if counter.request.devices or any(
            name not in _RESOURCES for query in counter.request.queries
            for name in query.resources):
        return False
    if guest is None:
        return True
    cells = {(len(cell.dedicated_vcpus), cell.memory_mib,
              cell.page_size_kib) for cell in guest.cells}
    return (guest.cpu_policy is model.CpuPolicy.DEDICATED and len(cells) == 1
            and guest.thread_policy is not model.ThreadPolicy.ISOLATE
            and (guest.cells[0].page_size_kib or 0) >= model.PAGES_SMALL)


def mix(
    counted_hosts: Sequence[like_hosts.CountedHost],
    counters: Sequence[count.Counter],
    counts: Sequence[Sequence[count.HostCount]], weights: Sequence[int],
) -> Mix:
    """How many guests fit, if they are sold as the weights say.

    :param counters: at least one, of flavors of which all are pinned or none
        is, and of which :func:`can_mix` says so
    :param counts: for each of them, what it says of each place
    :param weights: of each flavor, 1 or more
    """
    is_pinned = counters[0].is_pinned
    # Guests that want whole cores are sure of them where all get some.
    is_paired = any(counter.thread_policy is model.ThreadPolicy.REQUIRE
                    for counter in counters)
    takes = [tuple(host_count.fits > 0 for host_count in row)
             for row in zip(*counts)]
    # Filters that count guests do not mind which these are.
    most_guests = [counters[0].gate(host).most for host in counted_hosts]
    bounds = _Bounds(
        [_host(*host, is_pinned, False)
         for host in zip(counted_hosts, takes, most_guests)],
        [_item(counter, False, False) for counter in counters],
        [sum(counting.UNLIMITED if host_count.most is None
             else host_count.most for host_count in row) for row in counts])
    beginnings = [(0,) * len(counters)]
    for number in capacity.sale_order(weights):
        longer = list(beginnings[-1])
        longer[number] += 1
        if not bounds.allow(number, longer[number]):
            break
        beginnings.append(tuple(longer))
    hosts = [_host(*host, is_pinned, is_paired)
             for host in zip(counted_hosts, takes, most_guests)
             if any(host[1])]
    items = [_item(counter, True, is_paired) for counter in counters]
    low, high = 0, len(beginnings) - 1
    middle = high
    while low < high:
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

    def __init__(self, hosts: Sequence[_MixedHost], items: Sequence[_Item],
                 most: Sequence[int]) -> None:
        self._items = items
        self._most = most
        hosts = [host for host in hosts if any(host.takes)]
        rooms = [room for host in hosts for room in host.rooms]
        self._guests = sum(host.left[-1] for host in hosts)
        self._steps = sorted({1, *(item.size.vcpus for item in items)})
        self._spots = [sum(room.cpus // step for room in rooms)
                       for step in self._steps]
        self._memory_mib = sum(
            max(0, free_kib) // units.KIB_PER_MIB for room in rooms
            for _size_kib, free_kib in room.pools or ())

    def allow(self, number: int, guests: int) -> bool:
        """Whether one more guest may fit with those that were allowed.

        :param number: of its flavor
        :param guests: of that flavor, with this one
        """
        size = self._items[number].size
        for index, step in enumerate(self._steps):
            self._spots[index] -= size.cells * (size.vcpus // step)
        self._memory_mib -= size.cells * size.memory_mib
        self._guests -= 1
        return (min(self._spots) >= 0 and self._memory_mib >= 0
                and self._guests >= 0 and guests <= self._most[number])


def _packs(hosts: Sequence[_MixedHost], items: Sequence[_Item],
           counts: Sequence[int]) -> bool:
    """Whether room is found, the largest first, where it is tightest."""
    hosts = [host.copy() for host in hosts]
    order = sorted(range(len(items)), reverse=True, key=lambda number: (
        items[number].size.vcpus, items[number].size.memory_mib,
        items[number].size.cells))
    return all(_place([host for host in hosts if host.takes[number]],
                      items[number], counts[number]) for number in order)


def _place(hosts: Sequence[_MixedHost], item: _Item, count: int) -> bool:
    """Find room for so many guests of one flavor, and take it."""
    size = item.size
    if size.cells > 1:
        rooms = [(sum([room.cpus for room in host.rooms]), number, 0)
                 for number, host in enumerate(hosts)]
    else:
        rooms = [(room.cpus, number, which)
                 for number, host in enumerate(hosts)
                 for which, room in enumerate(host.rooms)
                 if room.cpus >= size.vcpus]
    for _cpus, number, which in sorted(rooms):
        if not count:
            break
        host = hosts[number]
        within = min([have // use for have, use in zip(host.left, item.use)
                      if use], default=count)
        within = max(0, min(within, count))
        if size.cells > 1:
            taken = _spread(host.rooms, size, within)
        else:
            room = host.rooms[which]
            taken = min(within, room.takes(size))
            if taken:
                host.rooms[which] = room.without(size, taken)
        count -= taken
        for index, use in enumerate(item.use):
            host.left[index] -= taken * use
    return not count


def _spread(rooms: list[fit.Room], size: fit.Size, within: int) -> int:
    """Guests of several cells, each on the emptiest cells of a host."""
    taken = 0
    while taken < within:
        chosen = sorted(
            (which for which, room in enumerate(rooms) if room.takes(size)),
            key=lambda which: -rooms[which].cpus)[:size.cells]
        if len(chosen) < size.cells:
            break
        for which in chosen:
            rooms[which] = rooms[which].without(size, 1)
        taken += 1
    return taken


def _host(counted_host: like_hosts.CountedHost, takes: tuple[bool, ...],
          most_guests: int, is_pinned: bool, is_paired: bool) -> _MixedHost:
    left = [counted_host.offers[name][0] if name in counted_host.offers
            else counting.UNLIMITED
            for name in _RESOURCES] + [most_guests]
    if not is_pinned:
        cpus, memory_mib = (
            left[_RESOURCES.index(name)]
            for name in (inventory.VCPU, inventory.MEMORY_MB))
        memory_kib = memory_mib * units.KIB_PER_MIB
        return _MixedHost([fit.Room(cpus, ((0, memory_kib),))],
                          takes, left)
    if not counted_host.has_pcpus:
        # There, pinned vCPUs count as VCPU.
        left[0] = left[1]
    rooms = [
        fit.Room(2 * sum(free > 1 for free in cell.free_threads) if is_paired
                 else cell.free, fit.free_pools(cell.view))
        for cell in counted_host.cells if cell.is_sound]
    return _MixedHost(rooms, takes, left)


def _item(counter: count.Counter, is_sure: bool, is_paired: bool) -> _Item:
    """A flavor with what it certainly gets along with, or at least needs.

    :param is_sure: which of the two
    :param is_paired: whether it is given whole cores
    """
    request = counter.request
    disk_gib = max((query.resources.get(inventory.DISK_GB, 0)
                    for query in request.queries), default=0)
    asked = cache_resources.asked(dict(request.extra_specs))
    caches = [asked.get(name, 0) for name in cache_resources.CLASSES]
    guest = request.topology
    if guest is None:
        return _Item(fit.Size(request.vcpus, request.memory_mib),
                     (0, request.vcpus, request.memory_mib, disk_gib,
                      *caches, 1))
    needs = [demand.dedicated + demand.emulator for demand in guest.demands]
    cpus = max(needs) if is_sure else min(needs)
    if is_paired:
        cpus += cpus % 2
    cell = guest.demands[0]
    return _Item(
        fit.Size(cpus, max(1, cell.memory_mib),
                 page_size_kib=cell.page_size_kib, cells=len(guest.cells)),
        (sum(needs), 0, request.memory_mib, disk_gib, *caches, 1))
