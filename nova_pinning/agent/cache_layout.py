# SPDX-License-Identifier: Apache-2.0
"""Which guest gets which ways of which cache.

Guests' ways are stacked from the end of the cache that is farthest from what
devices use, without gaps: a gap would be of use to nobody, since the mask of
everybody else has to be one run as well. When a guest goes, those behind it
move up. The kernel lets masks of running groups change, and what a guest has
in ways that it loses stays there until the new owner needs the room.

Ways that others have set apart (groups that are not ours, a default group
that was made smaller before we came) are left alone.
"""

from collections.abc import Collection
from collections.abc import Mapping
from collections.abc import Sequence
import functools

from nova_pinning.agent import cache_model
from nova_pinning.host import cache_masks


class _Domain:
    """An L3 cache that is being filled.

    Guests have the longest run of the ways that are free. More than one there
    is only where somebody has cut the cache up.

    :param base: the ways that everybody had before we came, by line of
        schemata; only those of all lines can become a guest's own
    :param foreign: the ways of groups that are not ours, by their names
    """

    def __init__(self, limits: cache_model.CacheLimits,
                 base: Mapping[str, int], foreign: Mapping[str, int]) -> None:
        # Whoever has made the default group smaller may have left it
        # without the end that we would keep for it.
        everybodys = functools.reduce(int.__and__, base.values(), limits.full)
        self._kept = limits.kept if not limits.kept & ~everybodys else 0
        self._base, self.foreign = base, foreign
        free = functools.reduce(
            lambda left, mask: left & ~mask, foreign.values(),
            everybodys & ~self._kept) if self._kept else 0
        self._first, self._end = cache_masks.longest_run(free)
        self._is_from_above = self._first >= self._kept.bit_length()
        self._sizes: dict[str, int] = {}

    @property
    def most(self) -> int:
        """The most ways that one guest could ever have here."""
        return self._end - self._first

    def fits(self, ways: int) -> bool:
        """Whether there is room for one guest more."""
        return sum(self._sizes.values()) + ways <= self.most

    def add(self, guest: str, ways: int) -> None:
        self._sizes[guest] = ways

    def masks(self, present: Mapping[str, int]) -> dict[str, int]:
        """Masks of all guests that were added.

        :param present: those that they have now
        """
        placed: dict[str, int] = {}
        depth = 0
        for guest, ways in sorted(
                self._sizes.items(), key=lambda item: (
                    *self._place(present.get(item[0], 0)), item[0])):
            low = (self._end - depth - ways if self._is_from_above
                   else self._first + depth)
            placed[guest] = ((1 << ways) - 1) << low
            depth += ways
        return placed

    def shared(self, placed: Collection[int]) -> Mapping[str, int]:
        """The ways of everybody else, by line."""
        if not placed:
            return self._base
        own = functools.reduce(int.__or__, placed)
        return {line: self._around_kept(mask & ~own)
                for line, mask in self._base.items()}

    def _around_kept(self, left: int) -> int:
        return next(
            run for first, end in cache_masks.runs(left)
            if not self._kept & ~(run := (1 << end) - (1 << first)))

    def _place(self, mask: int) -> tuple[bool, int]:
        """Whether a mask is none of this run, and how deep in it it is."""
        first = (mask & -mask).bit_length() - 1
        end = mask.bit_length()
        if not mask or first < self._first or end > self._end:
            return True, 0
        return False, (self._end - end if self._is_from_above
                       else first - self._first)


def lay_out(
    state: cache_model.ResctrlState,
    base: Mapping[cache_masks.Slot, int],
    requests: Sequence[cache_model.CacheRequest],
    ours: Collection[str],
) -> cache_model.CacheLayout:
    """Decide who gets what.

    Whoever has ways keeps as many; the others get them in their order, each
    if there is room for it then. A guest that waits gets a group at the next
    decision after there is one.

    :param base: the masks of the default group before we came
    :param requests: in the order in which the guests came
    :param ours: those of the present groups that are ours
    """
    limits = state.limits
    foreign = {name: group for name, group in state.groups.items()
               if name not in ours}
    domains = {
        domain: _Domain(
            limits, {slot.line: mask for slot, mask in base.items()
                     if slot.domain == domain},
            {name: ways for name, group in foreign.items()
             if (ways := group.ways(domain))})
        for domain in state.domains} if limits else {}
    left = state.groups_limit - 1 - len(foreign)
    present = {request.guest: state.groups[request.guest]
               for request in requests if request.guest in state.groups}
    accepted, refused = [], {}
    for request in sorted(requests, key=lambda request: not _has(
            request, present)):
        reason = _refusal(request, state, domains, left)
        if reason:
            refused[request.guest] = reason
            continue
        left -= 1
        accepted.append(request)
        for domain in request.domains if request.ways else ():
            domains[domain].add(request.guest, request.ways)
    exclusive: dict[str, dict[int, int]] = {}
    shared = dict(base)
    for number, cache in domains.items():
        placed = cache.masks({guest: group.ways(number)
                              for guest, group in present.items()})
        shared |= {cache_masks.Slot(line, number): mask for line, mask
                   in cache.shared(placed.values()).items()}
        for guest, mask in placed.items():
            exclusive.setdefault(guest, {})[number] = mask
    return cache_model.CacheLayout(
        exclusive, frozenset(request.guest for request in accepted), shared,
        refused)


def _has(request: cache_model.CacheRequest,
         present: Mapping[str, cache_model.GroupState]) -> bool:
    """Whether a guest has all that it asks for."""
    group = present.get(request.guest)
    return group is not None and (not request.ways or all(
        group.ways(domain).bit_count() == request.ways
        for domain in request.domains))


def _refusal(
    request: cache_model.CacheRequest, state: cache_model.ResctrlState,
    domains: Mapping[int, _Domain], left: int,
) -> str:
    """Why a guest gets no group, '' if it gets one."""
    if request.ways and state.limits is None:
        return 'the kernel cannot divide the L3 cache of this host'
    if request.bandwidth and state.bandwidth is None:
        return 'the kernel cannot limit memory bandwidth on this host'
    if request.bandwidth and state.bandwidth and state.bandwidth.is_absolute:
        return 'the CPUs of this host do not limit bandwidth in per cent'
    if request.ways and not request.domains:
        return 'it is not known which L3 caches it uses'
    if request.ways and state.limits:
        least = state.limits.min_ways
        if request.ways < least:
            return (f'it asks for {request.ways} ways, and the kernel gives '
                    f'no fewer than {least}')
        most = min(domains[domain].most for domain in request.domains)
        if request.ways > most:
            return (f'it asks for {request.ways} ways, and this host can '
                    f'give {most} of {state.limits.ways}'
                    + _others(request, domains))
        full = [domain for domain in sorted(request.domains)
                if not domains[domain].fits(request.ways)]
        if full:
            return (f'it asks for {request.ways} ways, and so many are not '
                    'free in L3 domain '
                    f'{", ".join(map(str, full))}'
                    + _others(request, domains))
    if left < 1:
        return (f'all {state.groups_limit} groups of the kernel are taken '
                '(num_closids)')
    return ''


def _others(request: cache_model.CacheRequest,
            domains: Mapping[int, _Domain]) -> str:
    """Who has ways where a guest wants some, other than guests."""
    return ''.join(
        f'; resctrl group {name} has {ways.bit_count()} in L3 domain {domain}'
        for domain in sorted(request.domains)
        for name, ways in sorted(domains[domain].foreign.items()))
