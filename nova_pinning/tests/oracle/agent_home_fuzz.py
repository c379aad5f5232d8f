# SPDX-License-Identifier: Apache-2.0
"""Floating guests under random loads, and the homes that they get.

Time passes in steps of seconds to an hour; guests come, go, become busy or
idle; the agent starts anew with its record. No more guests may move within
any hour than the limit says, and each must have room where it is.
"""

import random

from nova_pinning.agent import home_domains
from nova_pinning import cpuset

_HOUR = 3600.0


class Violation(AssertionError):
    """Something that must never be."""


class HomeCase:
    """One host.

    :ivar events: how many there were
    :ivar moves: of guests that stayed
    :ivar hours: that passed
    """

    def __init__(self, seed: int) -> None:
        self._random = dice = random.Random(seed)
        size = dice.choice((4, 6, 8, 16))
        count = dice.choice((1, 2, 4, 8, 16))
        self._domains = {
            domain: cpuset.CpuSet(range(
                size * domain, size * domain + dice.choice((size, size, 2))))
            for domain in range(count)}
        self._limits = home_domains.HomeLimits(
            moves_per_hour=dice.choice((0, 1, 3, 6)),
            rest_seconds=dice.choice((0.0, 60.0, 900.0)),
            least_gain=dice.choice((0.05, 0.15, 0.3)))
        self._agent = home_domains.HomeDomains(self._limits)
        self._guests: dict[str, home_domains.FloatingGuest] = {}
        self._now = 0.0
        self._times: list[float] = []
        self._number = 0
        self.events = self.moves = 0
        self._only_large = dice.random() < 0.2

    @property
    def hours(self) -> float:
        return self._now / _HOUR

    def run(self, events: int) -> None:
        """Let things happen, and look after each of them."""
        for _event in range(events):
            self.events += 1
            self._now += self._random.choice((1.0, 30.0, 30.0, 300.0, _HOUR))
            self._happen()
            before = dict(self._agent.homes)
            homes = self._agent.decide(self._now, self._domains,
                                       self._guests, self._only_large)
            self._check(before, homes)

    def _happen(self) -> None:
        dice = self._random
        what = dice.random()
        everything = cpuset.union(self._domains.values())
        if what < 0.25 or not self._guests:
            self._number += 1
            cpus = everything if dice.random() < 0.8 else self._domains[
                dice.choice(list(self._domains))] | self._domains[0]
            self._guests[str(self._number)] = home_domains.FloatingGuest(
                dice.choice((1, 2, 4, 8, 12, 40)), cpus)
        elif what < 0.4:
            del self._guests[dice.choice(list(self._guests))]
        elif what < 0.45:
            old = self._agent
            self._agent = home_domains.HomeDomains(
                self._limits, dict(old.homes), list(old.moves))
        for uuid, guest in self._guests.items():
            if dice.random() < 0.5:
                self._guests[uuid] = home_domains.FloatingGuest(
                    guest.vcpus, guest.cpus, dice.random() * guest.vcpus,
                    dice.choice((cpuset.CpuSet(), self._domains[0])),
                    dice.choice((cpuset.CpuSet(), self._domains[0])))

    def _check(self, before: dict[str, frozenset[int]],
               homes: dict[str, frozenset[int]]) -> None:
        for uuid, home in homes.items():
            guest = self._guests[uuid]
            room = cpuset.union(self._domains[domain]
                                for domain in home) & guest.cpus
            if guest.vcpus > len(room):
                raise Violation(f'guest {uuid} of {guest.vcpus} vCPUs in '
                                f'{len(room)} CPUs')
            if uuid in before and before[uuid] != home:
                self._times.append(self._now)
                self.moves += 1
        lately = [time for time in self._times if time > self._now - _HOUR]
        if len(lately) > self._limits.moves_per_hour:
            raise Violation(f'{len(lately)} moves within an hour, the limit '
                            f'is {self._limits.moves_per_hour}')
