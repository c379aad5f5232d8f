# SPDX-License-Identifier: Apache-2.0
"""On how many L3 caches the CPUs of a guest lie, and on how few they could."""

import collections
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from typing import NamedTuple

from nova_pinning.admission import offered_host
from nova_pinning.fit import score
from nova_pinning import model
from nova_pinning.model import ThreadPolicy
from nova_pinning.placement import placement_traits


class GuestCaches(NamedTuple):
    """The L3 caches of a pinned guest.

    :param caches: that its vCPUs' host CPUs lie under
    :param fewest: under which its vCPUs would find as many CPUs, were all
        dedicated ones of its host cells free
    """

    caches: int
    fewest: int


class CacheSum(NamedTuple):
    """The L3 caches of several guests.

    :param guests: of which they are known
    :param on_fewest: guests that lie on no more than they have to
    """

    guests: int = 0
    caches: int = 0
    fewest: int = 0
    on_fewest: int = 0

    @property
    def means(self) -> dict[str, float | None]:
        """Of a guest, and the share of those on the fewest; None for none."""
        return {key: amount / self.guests if self.guests else None
                for key, amount in (('l3_caches', self.caches),
                                    ('fewest_l3_caches', self.fewest),
                                    ('in_fewest_l3', self.on_fewest))}

    @property
    def text(self) -> str:
        """'1.8 (1.0)': of a guest, and the fewest; '' if none are known."""
        if not self.guests:
            return ''
        return (f'{self.caches / self.guests:.1f} '
                f'({self.fewest / self.guests:.1f})')


def total(guests: Iterable[GuestCaches | None]) -> CacheSum:
    """The caches of those guests of which they are known."""
    known = [one for one in guests if one is not None]
    return CacheSum(
        len(known), sum([one.caches for one in known]),
        sum([one.fewest for one in known]),
        sum([one.caches == one.fewest for one in known]))


class L3Layout:
    """Which L3 cache each CPU of a host is under.

    :param cells: of the host, with or without guests
    :param cache_of: a number for the cache of each CPU; a cache lies in one
        cell, or has all CPUs of several
    :ivar is_one_a_cell: whether the CPUs for guests of a cell have one cache
    """

    def __init__(self, cells: Iterable[model.HostCell],
                 cache_of: Mapping[int, int]) -> None:
        self._cells = {cell.id: cell for cell in cells}
        self._cache_of = cache_of
        self._fewest: dict[tuple[int, int, ThreadPolicy], frozenset[int]] = {}
        self.is_one_a_cell = all(
            list(room.values()) == [cell.dedicated_count]
            for cell in self._cells.values()
            for room in self._rooms(cell.id, ThreadPolicy.PREFER))

    def caches(
        self, guest: model.Guest | None, fit: model.Fit | None,
    ) -> GuestCaches | None:
        """The caches of a guest.

        :returns: None for one without pins, or of which not all is known
        """
        if guest is None or fit is None:
            return None
        used: set[int | None] = set()
        fewest: set[int] = set()
        for cell, cell_fit in zip(guest.cells, fit.cells):
            count = len(cell.dedicated_vcpus)
            if len(cell_fit.pins) < count:
                return None
            used.update(
                [self._cache_of.get(cpu) for _vcpu, cpu in cell_fit.pins])
            fewest |= self._of_cell(
                cell_fit.host_cell, count, guest.thread_policy)
        if not used or None in used or not fewest:
            return None
        # A guest may have CPUs that are not for guests any more.
        return GuestCaches(len(used), min(len(used), len(fewest)))

    def _of_cell(self, host_cell: int, count: int,
                 policy: ThreadPolicy) -> frozenset[int]:
        """The fewest caches of a cell with so many CPUs, as few as there are.

        :param policy: that they are to suit
        """
        key = host_cell, count, policy
        found = self._fewest.get(key)
        if found is None:
            found = self._fewest[key] = min((
                largest for room in self._rooms(host_cell, policy)
                if (largest := _largest(room, count))),
                key=len, default=frozenset())
        return found

    def _rooms(self, host_cell: int,
               policy: ThreadPolicy) -> Iterator[Mapping[int, int]]:
        """The CPUs under each cache that a guest could have.

        Under require there are several ways: so many threads of each core.
        """
        cell = self._cells.get(host_cell)
        if cell is None:
            return
        cores = [(core[0], sum([cpu in cell.dedicated_cpus for cpu in core]))
                 for core in cell.cores if core]
        threads = max(cell.core_sizes, default=0)
        if policy is ThreadPolicy.REQUIRE:
            for taken in range(2, threads + 1):
                yield self._room((cpu, taken) for cpu, free in cores
                                 if free >= taken)
        elif policy is ThreadPolicy.ISOLATE:
            yield self._room((cpu, 1) for cpu, free in cores
                             if free == threads)
        else:
            yield self._room((cpu, 1) for cpu in cell.dedicated_cpus)

    def _room(self, counts: Iterable[tuple[int, int]]) -> Mapping[int, int]:
        room: dict[int, int] = {}
        for cpu, count in counts:
            if cpu in self._cache_of:
                cache = self._cache_of[cpu]
                room[cache] = room.get(cache, 0) + count
        return room


def _largest(room: Mapping[int, int], count: int) -> frozenset[int]:
    """The fewest caches that have room for so many, none if all have not."""
    chosen: list[int] = []
    for cache in sorted(room, key=room.__getitem__, reverse=True):
        if count <= 0:
            break
        chosen.append(cache)
        count -= room[cache]
    return frozenset() if count > 0 else frozenset(chosen)


class L3Layouts:
    """The layouts of the hosts of a fleet, each worked out once.

    :param aggregates: of the fleet, by name
    """

    def __init__(
        self, aggregates: Mapping[str, offered_host.Aggregate],
    ) -> None:
        self._aggregates = aggregates
        # With the cells, by whose place in memory they are found.
        self._known: dict[
            tuple[object, ...],
            tuple[tuple[model.HostCell, ...], L3Layout | None]] = {}

    def of_host(self, host: offered_host.OfferedHost) -> L3Layout | None:
        """The layout of a host; None if nothing tells.

        The caches that it is known to have; without them what CacheLocality-
        Weigher makes of their size (:func:`nova_pinning.fit.score.l3_domains`
        has what that mistakes).
        """
        size = None if host.l3_domains else l3_cpus(host, self._aggregates)
        key = id(host.cells), host.l3_domains, size
        if key not in self._known:
            cache_of = _cache_of(host, size)
            self._known[key] = host.cells, (
                L3Layout(host.cells, cache_of) if cache_of else None)
        return self._known[key][1]

    def caches(
        self, host: offered_host.OfferedHost, guest: model.Guest | None,
        fit: model.Fit | None,
    ) -> GuestCaches | None:
        """The caches of a guest of the host, as the layout has them."""
        layout = self.of_host(host)
        return layout.caches(guest, fit) if layout else None


def _cache_of(
    host: offered_host.OfferedHost, size: int | None,
) -> Mapping[int, int]:
    """The number of the cache of each CPU; empty if they are not known."""
    numbers: dict[tuple[int, int], int] = {}
    found = {cpu: number for number, cpus in enumerate(host.l3_domains)
             for cpu in cpus}
    if size is not None:
        for cell in host.cells:
            others = [other.cores for other in host.cells if other is not cell]
            for cpu, domain in score.l3_domains(
                    cell.cores, size, others).items():
                found[cpu] = numbers.setdefault(
                    (cell.id, domain), len(numbers))
    # Of caches that overlap it is not known which one counts.
    return {} if sum(map(len, host.l3_domains)) > len(found) else found


def l3_cpus(
    host: offered_host.OfferedHost,
    aggregates: Mapping[str, offered_host.Aggregate],
) -> int | None:
    """The host CPUs in each L3 domain, None if nothing tells.

    What aggregates say counts first, then traits, then the domains that the
    host is known to have: those of the size that most of them have.
    """
    texts = [aggregates[name].metadata.get(placement_traits.L3_KEY, '')
             for name in host.aggregates if name in aggregates]
    said = min(filter(None, map(placement_traits.parse_l3_cpus, texts)),
               default=None)
    if said is None:
        said = placement_traits.l3_cpus(host.traits or ())
    if said is not None or not host.l3_domains:
        return said
    sizes = collections.Counter(map(len, host.l3_domains))
    return max(sizes, key=lambda size: (sizes[size], size))
