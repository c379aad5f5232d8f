# SPDX-License-Identifier: Apache-2.0
"""The dynamic scheme: each floating guest has L3 caches that are its home.

The kernel spreads the vCPUs of a guest over all shared CPUs, and data that
they share is then in as many caches. A guest that is kept in one L3 domain
has it once. Which one goes by load that was measured over time; a guest moves
only if that makes things clearly better, and only so many move in an hour.
"""

from collections.abc import Iterable
from collections.abc import Mapping
import dataclasses

from nova_pinning import cpuset
from nova_pinning import units


@dataclasses.dataclass(frozen=True, slots=True)
class FloatingGuest:
    """A guest that may be kept somewhere.

    :param cpus: what nova lets it run on
    :param load: how many CPUs it was busy on lately, None if it is new
    :param near: CPUs that it would like to be near, such as those that handle
        its packets; empty for none
    :param memory: CPUs of the NUMA node that has most of its memory, empty
        if none has or it is not known
    """

    vcpus: int
    cpus: cpuset.CpuSet
    load: float | None = None
    near: cpuset.CpuSet = cpuset.CpuSet()
    memory: cpuset.CpuSet = cpuset.CpuSet()


@dataclasses.dataclass(frozen=True, slots=True)
class HomeLimits:
    """How readily guests move.

    :param moves_per_hour: of all guests of the host together
    :param rest_seconds: how long a guest that has moved stays
    :param least_gain: by how much, of all of a domain's CPUs, the fullest
        of both domains must become less busy
    :param smoothing_seconds: how much of the past counts
    """

    moves_per_hour: int = 6
    rest_seconds: float = 900.0
    least_gain: float = 0.15
    smoothing_seconds: float = 300.0


@dataclasses.dataclass
class HomeDomains:
    """Homes of guests, and what led to them.

    :ivar homes: L3 domains by guest
    :ivar moves: when guests have moved, of the last hour
    """

    limits: HomeLimits = HomeLimits()
    homes: dict[str, frozenset[int]] = dataclasses.field(default_factory=dict)
    moves: list[float] = dataclasses.field(default_factory=list)
    moved: dict[str, float] = dataclasses.field(default_factory=dict)
    loads: dict[str, float] = dataclasses.field(default_factory=dict)
    _seen: dict[str, float] = dataclasses.field(default_factory=dict)
    _rooms: dict[cpuset.CpuSet, dict[int, int]] = dataclasses.field(
        default_factory=dict)
    _sizes: dict[int, int] = dataclasses.field(default_factory=dict)
    _homes_for: dict[tuple[cpuset.CpuSet, int], list[frozenset[int]]] = (
        dataclasses.field(default_factory=dict))

    def decide(
        self, now: float, domains: Mapping[int, cpuset.CpuSet],
        guests: Mapping[str, FloatingGuest], only_large: bool = False,
    ) -> dict[str, frozenset[int]]:
        """Choose homes; at most one guest moves at a time.

        :param now: seconds on a clock that only goes forwards
        :param domains: the shared CPUs of each L3 domain
        :param only_large: whether the kernel itself takes care of guests
            that fit into one domain
        :returns: homes by guest; guests that may run anywhere are not there
        """
        domains = {domain: cpus for domain, cpus in domains.items() if cpus}
        self._rooms.clear()
        self._homes_for.clear()
        self._sizes = {domain: len(cpus) for domain, cpus in domains.items()}
        self._measure(now, guests)
        kept = {
            uuid: guest for uuid, guest in guests.items()
            if self._has_choice(guest, domains)
            and not (only_large and self._fits_one(guest, domains))}
        self._forget(guests, kept)
        for uuid, guest in kept.items():
            if uuid in self.homes and not self._suits(
                    guest, self.homes[uuid], domains):
                del self.homes[uuid]
        busy = self._busy(domains, kept)
        for uuid, guest in kept.items():
            if uuid not in self.homes:
                # Not a move: it is new, or may not be where it was.
                home = self._least_busy(uuid, guest, domains, busy)
                self.homes[uuid] = home
                for domain in home:
                    busy[domain] += self._load(uuid, guest) / self._size(home)
        self._move_one(now, domains, kept, busy)
        return dict(self.homes)

    def _measure(self, now: float,
                 guests: Mapping[str, FloatingGuest]) -> None:
        for uuid, guest in guests.items():
            if guest.load is None:
                continue
            before = self._seen.get(uuid)
            self._seen[uuid] = now
            if before is None:
                self.loads[uuid] = guest.load
                continue
            part = min(1.0, (now - before) / self.limits.smoothing_seconds)
            self.loads[uuid] += part * (guest.load - self.loads[uuid])

    def _forget(self, guests: Mapping[str, FloatingGuest],
                kept: Mapping[str, FloatingGuest]) -> None:
        for known in (self.loads, self._seen, self.moved):
            for uuid in [uuid for uuid in known if uuid not in guests]:
                del known[uuid]
        for uuid in [uuid for uuid in self.homes if uuid not in kept]:
            del self.homes[uuid]

    def _load(self, uuid: str, guest: FloatingGuest) -> float:
        """Of what has not been measured yet, half of its vCPUs."""
        return self.loads.get(uuid, guest.vcpus / 2)

    def _busy(
        self, domains: Mapping[int, cpuset.CpuSet],
        guests: Mapping[str, FloatingGuest],
    ) -> dict[int, float]:
        """The load of each domain, for each of its CPUs."""
        busy = dict.fromkeys(domains, 0.0)
        for uuid, home in self.homes.items():
            home = home & busy.keys()
            size = self._size(home)
            for domain in home:
                busy[domain] += self._load(uuid, guests[uuid]) / size
        return busy

    def _room(self, guest: FloatingGuest,
              domains: Mapping[int, cpuset.CpuSet]) -> dict[int, int]:
        """CPUs that a guest may have in each domain where it has any.

        Many guests may have the same.
        """
        if guest.cpus not in self._rooms:
            self._rooms[guest.cpus] = {
                domain: len(cpus & guest.cpus)
                for domain, cpus in sorted(domains.items())
                if not cpus.isdisjoint(guest.cpus)}
        return self._rooms[guest.cpus]

    def _size(self, home: Iterable[int]) -> int:
        return sum(self._sizes[domain] for domain in home)

    def _fits_one(self, guest: FloatingGuest,
                  domains: Mapping[int, cpuset.CpuSet]) -> bool:
        return guest.vcpus <= max(self._room(guest, domains).values())

    def _has_choice(self, guest: FloatingGuest,
                    domains: Mapping[int, cpuset.CpuSet]) -> bool:
        """Whether there is anything to decide: a part of what it may have."""
        allowed = self._room(guest, domains).values()
        return len(allowed) > 1 and guest.vcpus <= sum(allowed) - min(allowed)

    def _suits(self, guest: FloatingGuest, home: frozenset[int],
               domains: Mapping[int, cpuset.CpuSet]) -> bool:
        """Whether it may be there, and has a CPU for each vCPU."""
        room = self._room(guest, domains)
        return home <= room.keys() and guest.vcpus <= sum(
            room[domain] for domain in home)

    def _least_busy(
        self, uuid: str, guest: FloatingGuest,
        domains: Mapping[int, cpuset.CpuSet], busy: Mapping[int, float],
    ) -> frozenset[int]:
        """Where a guest that came would leave the fullest domain emptiest.

        Nearness decides between what is about as good.
        """
        load, gain = self._load(uuid, guest), self.limits.least_gain

        def fullest(home: frozenset[int]) -> tuple[float, int]:
            return (max(busy[domain] for domain in home)
                    + load / self._size(home)
                    - gain * _nearness(guest, home, domains), min(home))

        return min(self._candidates(guest, domains), key=fullest)

    def _candidates(
        self, guest: FloatingGuest, domains: Mapping[int, cpuset.CpuSet],
    ) -> Iterable[frozenset[int]]:
        """Homes of as few domains as do; neighbours, if several."""
        key = guest.cpus, guest.vcpus
        if key not in self._homes_for:
            self._homes_for[key] = self._find_homes(guest, domains)
        return self._homes_for[key]

    def _find_homes(
        self, guest: FloatingGuest, domains: Mapping[int, cpuset.CpuSet],
    ) -> list[frozenset[int]]:
        allowed = list(self._room(guest, domains))
        for count in range(1, len(allowed) + 1):
            homes = [
                home for home in (
                    frozenset(allowed[first:first + count])
                    for first in range(len(allowed) - count + 1))
                if self._suits(guest, home, domains)]
            if homes:
                return homes
        raise AssertionError('a guest without room has no home')

    def _move_one(self, now: float, domains: Mapping[int, cpuset.CpuSet],
                  guests: Mapping[str, FloatingGuest],
                  busy: Mapping[int, float]) -> None:
        self.moves = [time for time in self.moves
                      if time > now - units.SECONDS_PER_HOUR]
        if len(self.moves) >= self.limits.moves_per_hour:
            return
        best: tuple[float, str, frozenset[int]] | None = None
        for uuid, guest in guests.items():
            rested = now - self.moved.get(uuid, float('-inf'))
            # What has not been measured is no reason.
            if uuid not in self.loads or rested < self.limits.rest_seconds:
                continue
            other = self._least_busy(
                uuid, guest, domains, self._without(uuid, guest, busy))
            gain = self._gain(uuid, guest, other, domains, busy)
            if other != self.homes[uuid] and gain > (
                    best[0] if best else self.limits.least_gain):
                best = gain, uuid, other
        if best:
            _gain, uuid, self.homes[uuid] = best
            self.moved[uuid] = now
            self.moves.append(now)

    def _without(self, uuid: str, guest: FloatingGuest,
                 busy: Mapping[int, float]) -> dict[int, float]:
        """The load of each domain if a guest were not there."""
        home = self.homes[uuid]
        part = self._load(uuid, guest) / self._size(home)
        return {**busy, **{domain: busy[domain] - part for domain in home}}

    def _gain(
        self, uuid: str, guest: FloatingGuest, other: frozenset[int],
        domains: Mapping[int, cpuset.CpuSet], busy: Mapping[int, float],
    ) -> float:
        """By how much the fullest of the domains in question empties."""
        home, load = self.homes[uuid], self._load(uuid, guest)
        touched = home | other
        size, other_size = self._size(home), self._size(other)
        after = {
            domain: busy[domain]
            - (load / size if domain in home else 0.0)
            + (load / other_size if domain in other else 0.0)
            for domain in touched}
        gain = max(busy[domain] for domain in touched) - max(after.values())
        nearer = (_nearness(guest, other, domains)
                  - _nearness(guest, home, domains))
        # Nearness decides between what is about as good.
        return gain + nearer * self.limits.least_gain


def _nearness(guest: FloatingGuest, home: frozenset[int],
              domains: Mapping[int, cpuset.CpuSet]) -> int:
    """How much of what a guest needs is near: packets, and its memory."""
    return sum(
        bool(cpus) and any(not domains[domain].isdisjoint(cpus)
                           for domain in home)
        for cpus in (guest.near, guest.memory))
