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

from collections.abc import Callable
from collections.abc import Collection
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
    memory_mib: int = 4096
    cells: int = 1
    guest_class: hostclass.HostClass = hostclass.HostClass.DEDICATED
    lifetime_hours: float | None = 24.0
    distribution: str = arrival_process.EXPONENTIAL
    sigma: float = 1.0
    rate_per_hour: float | None = None
    load: tuple[float, float] | None = None
    count: int = 10_000

    @property
    def flavors(self) -> tuple[str, ...]:
        """The names of flavors in the mix."""
        return tuple(share.what for share in self.mix
                     if not share.what.isdecimal())

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
    values = {name: value for key, text in given.items()
              for name, value in [_READERS[key](text)]}
    spec = ArrivalSpec(**values)  # type: ignore[arg-type]
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


def _refuse(message: str, advice: str = '') -> NoReturn:
    raise errors.InputError(message, _WHERE, advice)


def _mix(text: str) -> tuple[str, tuple[Share, ...]]:
    shares: list[Share] = []
    for item in text.split(','):
        what, colon, weight = item.rpartition(':')
        if not colon:
            what, weight = item, '1'
        if not what or not _is_number(weight) or not float(weight):
            _refuse(f'mix: {item!r} is not a size or flavor with its weight',
                    'write it like mix=8:70,16:30')
        if what.isdecimal() and not 1 <= int(what) <= 100_000:
            _refuse(f'mix: {what} is not a number of vCPUs')
        if what in {share.what for share in shares}:
            _refuse(f'mix: {what} appears twice')
        shares.append(Share(what, float(weight)))
    return 'mix', tuple(shares)


def _is_number(text: str) -> bool:
    return re.fullmatch(_NUMBER, text, re.ASCII) is not None and (
        float(text) < 1e12)


def hours(text: str) -> float:
    """A duration such as 90s, 30m, 24h or 7d.

    :raises ValueError: if it is none
    """
    if text[-1:] not in _UNITS or not _is_number(text[:-1]) or not float(
            text[:-1]):
        raise ValueError(f'{text!r} is not a duration such as 90s, 24h or 7d')
    return float(text[:-1]) * _UNITS[text[-1]]


def _lifetime(text: str) -> tuple[str, float | None]:
    if text == arrival_process.FOREVER:
        return 'lifetime_hours', None
    try:
        return 'lifetime_hours', hours(text)
    except ValueError as error:
        _refuse(f'lifetime {error}, nor forever')


def _load(text: str) -> tuple[str, tuple[float, float]]:
    bounds = text.split('-')
    if len(bounds) > 2 or not all(
            _is_number(bound) and 0 < float(bound) <= 1000
            for bound in bounds):
        _refuse(f'load {text!r} is not a share of the CPUs',
                'write it like 0.9, or 0.5-1.2 for one that rises')
    return 'load', (float(bounds[0]), float(bounds[-1]))


def _distribution(text: str) -> tuple[str, str]:
    known = (arrival_process.EXPONENTIAL, arrival_process.LOG_NORMAL)
    if text not in known:
        _refuse(f'distribution {text!r} is not one of {", ".join(known)}')
    return 'distribution', text


def _class(text: str) -> tuple[str, hostclass.HostClass]:
    try:
        return 'guest_class', hostclass.HostClass(text)
    except ValueError:
        _refuse(f'class {text!r} is neither dedicated nor shared')


def _whole(key: str, name: str, most: int) -> Callable[[str], tuple[str, int]]:
    def read(text: str) -> tuple[str, int]:
        if not (text.isascii() and text.isdecimal() and len(text) < 12
                and 1 <= int(text) <= most):
            _refuse(f'{key} {text!r} is not a whole number from 1 to {most:,}')
        return name, int(text)

    return read


def _positive(key: str, name: str) -> Callable[[str], tuple[str, float]]:
    def read(text: str) -> tuple[str, float]:
        if not _is_number(text) or not float(text):
            _refuse(f'{key} {text!r} is not a number above 0')
        return name, float(text)

    return read


_READERS: Mapping[str, Callable[[str], tuple[str, object]]] = {
    'mix': _mix,
    'memory': _whole('memory', 'memory_mib', 10 ** 8),
    'cells': _whole('cells', 'cells', 64),
    'class': _class,
    'lifetime': _lifetime,
    'distribution': _distribution,
    'sigma': _positive('sigma', 'sigma'),
    'rate': _positive('rate', 'rate_per_hour'),
    'load': _load,
    'count': _whole('count', 'count', _MOST_ARRIVALS),
}
