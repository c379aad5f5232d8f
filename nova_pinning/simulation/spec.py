# SPDX-License-Identifier: Apache-2.0
"""Arrivals as they are written on a command line.

``key=value`` items, separated by blanks:

* ``mix=8:70,16:30``: vCPUs, or the name of a flavor, each with how often it
  is asked for (1 if left out);
* ``memory=4096``: MiB a vCPU, of guests that are told by their vCPUs;
* ``cells=1``: NUMA nodes of them;
* ``class=dedicated``, or shared: theirs;
* ``lifetime=24h``: mean, in s, m, h or d; ``forever`` for guests that stay;
* ``distribution=exponential``, or log-normal: of lifetimes;
* ``sigma=1``: of the logarithm of log-normal lifetimes;
* ``rate=100``: mean arrivals an hour; or
* ``load=0.5-1.2``: vCPUs of the guests that would be alive if none were
  refused, as a share of the dedicated CPUs, rising from first to last;
* ``count=10000``: arrivals.
"""

from collections.abc import Collection
from collections.abc import Iterator
from collections.abc import Mapping
import dataclasses
import math
import re
from typing import NamedTuple
from typing import NoReturn

from nova_pinning.admission import guest_request
from nova_pinning import errors
from nova_pinning.model import hostclass
from nova_pinning.simulation import arrival_process
from nova_pinning.simulation import guests

_WHERE = errors.Location('--arrivals')
_KEYS = ('mix', 'memory', 'cells', 'class', 'lifetime', 'distribution',
         'sigma', 'rate', 'load', 'count')
_UNITS = {'s': 1 / 3600, 'm': 1 / 60, 'h': 1.0, 'd': 24.0}
_NUMBER = r'[0-9]+(?:\.[0-9]+)?'
_MOST_ARRIVALS = 100_000_000
_MOST_VCPUS = 100_000


class Share(NamedTuple):
    """How often something is asked for.

    :param what: vCPUs, or the name of a flavor
    """

    what: str
    weight: float


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ArrivalSpec:
    """Arrivals as they were asked for.

    :param lifetime_hours: None for guests that stay
    :param rate_per_hour: None if the load is given
    :param load: first and last, as shares of the dedicated CPUs
    """

    mix: tuple[Share, ...]
    memory_mib: int
    cells: int
    guest_class: hostclass.HostClass
    lifetime_hours: float | None
    distribution: str
    sigma: float
    rate_per_hour: float | None
    load: tuple[float, float] | None
    count: int

    @property
    def flavors(self) -> Mapping[str, errors.Location]:
        """The names of flavors in the mix, with where that stands."""
        return {share.what: _WHERE for share in self.mix
                if not share.what.isdecimal()}

    def source(self, flavors: Mapping[str, guest_request.GuestRequest],
               dedicated_cpus: int) -> arrival_process.PoissonArrivals:
        """What draws such arrivals.

        :param flavors: by name
        :param dedicated_cpus: that the fleet has
        :raises errors.InputError: if the load is to be that of a fleet without
        """
        mix = tuple(
            (flavors.get(share.what) or self._plain(int(share.what)),
             share.weight)
            for share in self.mix)
        lifetimes = self.distribution
        if self.lifetime_hours is None:
            lifetimes = arrival_process.FOREVER
        rate, rises_to = self.rate_per_hour or 0.0, 1.0
        if self.load is not None:
            rate, rises_to = self._rate(mix, dedicated_cpus)
        return arrival_process.PoissonArrivals(
            mix=mix, count=self.count, rate_per_hour=rate, rises_to=rises_to,
            lifetimes=lifetimes, lifetime_hours=self.lifetime_hours or 1.0,
            sigma=self.sigma)

    def _plain(self, vcpus: int) -> guest_request.GuestRequest:
        if vcpus % self.cells:
            _refuse(f'{vcpus} vCPUs cannot be spread evenly over '
                    f'{self.cells} cells')
        return guests.plain(vcpus, vcpus * self.memory_mib, self.guest_class,
                            self.cells)

    def _rate(
        self, mix: tuple[tuple[guest_request.GuestRequest, float], ...],
        cpus: int,
    ) -> tuple[float, float]:
        """By Little's law."""
        assert self.load is not None and self.lifetime_hours is not None
        if not cpus:
            _refuse('load is a share of the dedicated CPUs, and the fleet '
                    'has none', 'give a rate')
        total = math.fsum(weight for _request, weight in mix)
        mean = math.fsum(request.vcpus * weight
                         for request, weight in mix) / total
        first, last = self.load
        return cpus * first / mean / self.lifetime_hours, last / first


def parse(text: str) -> ArrivalSpec:
    """
    :raises errors.InputError: saying what is wrong
    """
    given = items(text, _KEYS, _WHERE,
                  'write it like mix=8:70,16:30 rate=100 lifetime=24h')
    if 'mix' not in given:
        _refuse('mix is missing', 'write it like mix=8:70,16:30')
    if ('rate' in given) == ('load' in given):
        _refuse('either rate or load has to be given')
    lifetime = given.get('lifetime', '24h')
    distribution = given.get('distribution', arrival_process.EXPONENTIAL)
    known = (arrival_process.EXPONENTIAL, arrival_process.LOG_NORMAL)
    if distribution not in known:
        _refuse(f'distribution {distribution!r} is not one of '
                f'{", ".join(known)}')
    spec = ArrivalSpec(
        mix=_mix(given['mix']),
        memory_mib=_whole(given, 'memory', 4096, 10 ** 8),
        cells=_whole(given, 'cells', 1, 64),
        guest_class=host_class(given.get('class', ''), _WHERE),
        lifetime_hours=None if lifetime == arrival_process.FOREVER
        else _lifetime(lifetime),
        distribution=distribution, sigma=_positive(given, 'sigma') or 1.0,
        rate_per_hour=_positive(given, 'rate'),
        load=_load(given['load']) if 'load' in given else None,
        count=_whole(given, 'count', 10_000, _MOST_ARRIVALS))
    if spec.load is not None and spec.lifetime_hours is None:
        _refuse('the load of guests that stay forever has no bounds',
                'give a rate, or a lifetime')
    return spec


def items(text: str, keys: Collection[str], where: errors.Location,
          example: str) -> dict[str, str]:
    """``key=value`` items, separated by blanks.

    :raises errors.InputError: for a key that is not one of these, or comes
        twice
    """
    found: dict[str, str] = {}
    for item in text.split():
        key, equals, value = item.partition('=')
        if not equals or key not in keys:
            raise errors.InputError(
                f'{item!r} is not one of {", ".join(keys)} with a value',
                where, example)
        if key in found:
            raise errors.InputError(f'{key} is given twice', where)
        found[key] = value
    return found


def shares(text: str) -> Iterator[tuple[str, str, float | None]]:
    """``what:weight`` items, separated by commas: each, what, its weight.

    The weight is 1 if left out, and None if it is none.
    """
    for item in text.split(','):
        what, colon, weight = item.rpartition(':')
        yield (item, what, positive(weight)) if colon else (item, item, 1.0)


def positive(text: str) -> float | None:
    """A number above 0, None if it is none."""
    is_number = re.fullmatch(_NUMBER, text, re.ASCII)
    return float(text) if is_number and 0 < float(text) < 1e12 else None


def whole(text: str, most: int) -> int | None:
    """A whole number from 1 up, None if it is none, or more than the most."""
    is_number = re.fullmatch('[0-9]{1,14}', text, re.ASCII)
    return int(text) if is_number and 1 <= int(text) <= most else None


def hours(text: str) -> float:
    """A duration such as 90s, 30m, 24h or 7d.

    :raises ValueError: if it is none
    """
    number = positive(text[:-1])
    if text[-1:] not in _UNITS or number is None:
        raise ValueError(f'{text!r} is not a duration such as 90s, 24h or 7d')
    return number * _UNITS[text[-1]]


def host_class(text: str, where: errors.Location) -> hostclass.HostClass:
    """A class by its name, '' for dedicated.

    :raises errors.InputError: if there is none of that name
    """
    try:
        return hostclass.HostClass(text or 'dedicated')
    except ValueError:
        raise errors.InputError(
            f'class {text!r} is neither dedicated nor shared', where,
        ) from None


def _refuse(message: str, advice: str = '') -> NoReturn:
    raise errors.InputError(message, _WHERE, advice)


def _mix(text: str) -> tuple[Share, ...]:
    found: dict[str, Share] = {}
    for item, what, weight in shares(text):
        if not what or weight is None:
            _refuse(f'mix: {item!r} is not a size or flavor with its weight',
                    'write it like mix=8:70,16:30')
        if what.isdecimal() and whole(what, _MOST_VCPUS) is None:
            _refuse(f'mix: {what} is not a number of vCPUs')
        if what in found:
            _refuse(f'mix: {what} appears twice')
        found[what] = Share(what, weight)
    return tuple(found.values())


def _lifetime(text: str) -> float:
    try:
        return hours(text)
    except ValueError as error:
        _refuse(f'lifetime {error}, nor forever')


def _load(text: str) -> tuple[float, float]:
    bounds = [positive(bound) or math.inf for bound in text.split('-')]
    if len(bounds) > 2 or max(bounds) > 1000:
        _refuse(f'load {text!r} is not a share of the CPUs',
                'write it like 0.9, or 0.5-1.2 for one that rises')
    return bounds[0], bounds[-1]


def _whole(given: Mapping[str, str], key: str, usual: int, most: int) -> int:
    number = whole(given.get(key, str(usual)), most)
    if number is None:
        _refuse(f'{key} {given[key]!r} is not a whole number from 1 to '
                f'{most:,}')
    return number


def _positive(given: Mapping[str, str], key: str) -> float | None:
    if key not in given:
        return None
    number = positive(given[key])
    if number is None:
        _refuse(f'{key} {given[key]!r} is not a number above 0')
    return number
