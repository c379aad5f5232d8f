# SPDX-License-Identifier: Apache-2.0
"""What arrives: guests of certain kinds, when, and for how long.

Every draw comes from a ``random.Random`` that is seeded with a text, which
gives the same numbers on any machine.
"""

from collections.abc import Iterator
from collections.abc import Sequence
import dataclasses
import itertools
import math
import random
from typing import NamedTuple

from nova_pinning.admission import guest_request

#: Distributions of lifetimes.
EXPONENTIAL = 'exponential'
LOG_NORMAL = 'log-normal'
FOREVER = 'forever'


class Arrival(NamedTuple):
    """A guest that somebody asks for.

    :param id: unique among the arrivals
    :param lifetime_seconds: after which it leaves, None if it stays
    """

    time_seconds: float
    id: str
    request: guest_request.GuestRequest
    lifetime_seconds: float | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PoissonArrivals:
    """Poisson arrivals of a mix of guests, at a constant or rising rate.

    The mean of the rate at any time is ``rate_per_hour`` times what has
    become of 1 by then: it rises linearly to ``rises_to`` until the last
    arrival is expected. The number of guests alive follows the rate with a
    delay of about one lifetime; with lifetimes that are short against the
    rise the offered load in vCPUs is, by Little's law, rate times mean
    lifetime times mean vCPUs.

    :param mix: kinds of guests with how often each is asked for, relative to
        the others
    :param count: arrivals
    :param lifetime_hours: mean
    :param sigma: of the logarithm, for log-normal lifetimes
    """

    mix: tuple[tuple[guest_request.GuestRequest, float], ...]
    count: int
    rate_per_hour: float
    rises_to: float = 1.0
    lifetimes: str = EXPONENTIAL
    lifetime_hours: float = 1.0
    sigma: float = 1.0

    def arrivals(self, seed: int) -> Iterator[Arrival]:
        """The arrivals of one seed, in the order of their times."""
        # Of three sequences, so that a change of the mix does not change the
        # times.
        times = random.Random(f'times-{seed}')
        sizes = random.Random(f'sizes-{seed}')
        stays = random.Random(f'stays-{seed}')
        kinds = [request for request, _weight in self.mix]
        weights = list(itertools.accumulate(
            weight for _request, weight in self.mix))
        # Time in units of mean gaps at the first rate, of which the rising
        # rate makes less.
        passed = 0.0
        for number in range(self.count):
            passed += -math.log(1.0 - times.random())
            kind = sizes.choices(kinds, cum_weights=weights)[0]
            yield Arrival(_rounded(self._time_seconds(passed)), f'a{number}',
                          kind, self._lifetime_seconds(stays))

    def _time_seconds(self, passed: float) -> float:
        """When a Poisson process of rising rate has had so many arrivals.

        The rate is r * (1 + slope * t), so that r * (t + slope * t^2 / 2)
        arrivals are expected by t; slope is such that the rate has reached
        its end when ``count`` are.
        """
        per_second = self.rate_per_hour / 3600
        slope = (self.rises_to ** 2 - 1) / (2 * self.count)
        if abs(slope) < 1e-12:
            return passed / per_second
        # A falling rate would come to an end shortly after the last arrival.
        root = math.sqrt(max(0.0, 1 + 2 * slope * passed))
        return (root - 1) / slope / per_second

    def _lifetime_seconds(self, stays: random.Random) -> float | None:
        if self.lifetimes == FOREVER:
            return None
        mean = self.lifetime_hours * 3600
        if self.lifetimes == EXPONENTIAL:
            return _rounded(-math.log(1.0 - stays.random()) * mean)
        mu = math.log(mean) - self.sigma ** 2 / 2
        return _rounded(math.exp(mu + self.sigma * _normal(stays)))


def _rounded(seconds: float) -> float:
    """To milliseconds: C libraries differ in the last digits of logarithms."""
    return round(seconds, 3)


def _normal(draws: random.Random) -> float:
    """A standard normal draw (Box and Muller's method, one of the pair)."""
    radius = math.sqrt(-2 * math.log(1.0 - draws.random()))
    return radius * math.cos(2 * math.pi * draws.random())


def rising_load(
    mix: Sequence[tuple[guest_request.GuestRequest, float]], cpus: int, *,
    first: float, last: float, turnovers: float,
) -> PoissonArrivals:
    """Churn whose offered load rises slowly through what a fleet can hold.

    :param mix: see :class:`PoissonArrivals`
    :param cpus: that the fleet has to sell
    :param first: offered load at first, as a share of the CPUs
    :param last: the same at the end
    :param turnovers: mean lifetimes over which it rises
    """
    total = sum(weight for _request, weight in mix)
    mean = sum(request.vcpus * weight
               for request, weight in mix) / total
    full = cpus / mean
    # With lifetimes of one hour, the rate is the number of guests alive.
    return PoissonArrivals(
        mix=tuple(mix), count=round(full * (first + last) / 2 * turnovers),
        rate_per_hour=full * first, rises_to=last / first)
