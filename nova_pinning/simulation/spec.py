# SPDX-License-Identifier: Apache-2.0
"""Arrivals as they are written on a command line.

``key=value`` items, separated by blanks:

* ``mix=8:70,32x2:30``: sizes and flavors, each with how often it is asked
  for, as :mod:`nova_pinning.document.size_mix` has it;
* ``memory=4096``: MiB a vCPU, of guests that are told by their vCPUs;
* ``cells=1``: NUMA cells of those of which the mix does not say;
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
from collections.abc import Mapping
import dataclasses
import functools
import math
import re
from typing import Any
from typing import NoReturn

from nova_pinning.admission import guest_request
from nova_pinning.document import size_mix
from nova_pinning import errors
from nova_pinning.model import hostclass
from nova_pinning.simulation import arrival_process
from nova_pinning.simulation import guests

#: What a key sets, and what makes its value of a text: raises ValueError.
Items = Mapping[str, tuple[str, Callable[[str], Any]]]

_WHERE = errors.Location('--arrivals')
_UNITS = {'s': 1 / 3600, 'm': 1 / 60, 'h': 1.0, 'd': 24.0}
_NUMBER = r'[0-9]+(?:\.[0-9]+)?'
_MOST_ARRIVALS = 100_000_000


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ArrivalSpec:
    """Arrivals as they were asked for.

    :param lifetime_hours: None for guests that stay
    :param rate_per_hour: None if the load is given
    :param load: first and last, as shares of the dedicated CPUs
    """

    mix: tuple[size_mix.SizeShare, ...]
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
    def flavors(self) -> Mapping[str, errors.Location]:
        """The names of flavors in the mix, with where that stands."""
        return {share.what: _WHERE for share in self.mix if not share.vcpus}

    def source(self, flavors: Mapping[str, guest_request.GuestRequest],
               dedicated_cpus: int) -> arrival_process.PoissonArrivals:
        """What draws such arrivals.

        :param flavors: by name
        :param dedicated_cpus: that the fleet has
        :raises errors.InputError: if the load is to be that of a fleet without
        """
        mix = tuple(
            (self._plain(share) if share.vcpus else flavors[share.what],
             float(share.weight))
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

    def _plain(self,
               share: size_mix.SizeShare) -> guest_request.GuestRequest:
        vcpus, cells = share.vcpus, share.cells or self.cells
        if vcpus % cells:
            _refuse(f'{vcpus} vCPUs cannot be shared out to {cells} equal '
                    'cells')
        return guests.plain(vcpus, vcpus * self.memory_mib, self.guest_class,
                            cells)

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
    given = items(text, _ITEMS, _WHERE,
                  'write it like mix=8:70,16:30 rate=100 lifetime=24h')
    if 'mix' not in given:
        _refuse('mix is missing', 'write it like mix=8:70,16:30')
    spec = ArrivalSpec(**given)
    if (spec.rate_per_hour is None) == (spec.load is None):
        _refuse('either rate or load has to be given')
    if spec.load is not None and spec.lifetime_hours is None:
        _refuse('the load of guests that stay forever has no bounds',
                'give a rate, or a lifetime')
    return spec


def items(text: str, known: Items, where: errors.Location,
          example: str) -> dict[str, Any]:
    """``key=value`` items, separated by blanks.

    :returns: the values that are set, by what they set
    :raises errors.InputError: for a key that is not known, or comes twice,
        and for a value that is none
    """
    found: dict[str, Any] = {}
    for item in text.split():
        key, equals, value = item.partition('=')
        if not equals or key not in known:
            raise errors.InputError(
                f'{item!r} is not one of {", ".join(known)} with a value',
                where, example)
        name, convert = known[key]
        if name in found:
            raise errors.InputError(f'{key} is given twice', where)
        try:
            found[name] = convert(value)
        except ValueError as error:
            raise errors.InputError(f'{key} {error}', where, example) from None
    return found


def positive(text: str) -> float:
    """A number above 0.

    :raises ValueError: if it is none
    """
    is_number = re.fullmatch(_NUMBER, text, re.ASCII)
    if not is_number or not 0 < float(text) < 1e12:
        raise ValueError(f'{text!r} is not a number above 0')
    return float(text)


def whole(text: str, most: int) -> int:
    """A whole number from 1 up.

    :raises ValueError: if it is none, or more than the most
    """
    is_number = re.fullmatch('[0-9]{1,14}', text, re.ASCII)
    if not is_number or not 1 <= int(text) <= most:
        raise ValueError(f'{text!r} is not a whole number from 1 to {most:,}')
    return int(text)


def hours(text: str) -> float:
    """A duration such as 90s, 30m, 24h or 7d.

    :raises ValueError: if it is none
    """
    try:
        return positive(text[:-1]) * _UNITS[text[-1:]]
    except (ValueError, LookupError):
        raise ValueError(f'{text!r} is not a duration such as 90s, 24h or '
                         '7d') from None


def host_class(text: str) -> hostclass.HostClass:
    """A class by its name, '' for dedicated.

    :raises ValueError: if there is none of that name
    """
    try:
        return hostclass.HostClass(text or 'dedicated')
    except ValueError:
        raise ValueError(
            f'{text!r} is neither dedicated nor shared') from None


def _refuse(message: str, advice: str = '') -> NoReturn:
    raise errors.InputError(message, _WHERE, advice)


def _mix(text: str) -> tuple[size_mix.SizeShare, ...]:
    return size_mix.parse(text, _WHERE)


def _lifetime(text: str) -> float | None:
    return None if text == arrival_process.FOREVER else hours(text)


def _distribution(text: str) -> str:
    known = arrival_process.EXPONENTIAL, arrival_process.LOG_NORMAL
    if text not in known:
        raise ValueError(f'{text!r} is not one of {", ".join(known)}')
    return text


def _load(text: str) -> tuple[float, float]:
    try:
        first, *last = map(positive, text.split('-'))
    except ValueError:
        first, last = math.inf, []
    if len(last) > 1 or max([first, *last]) > 1000:
        raise ValueError(f'{text!r} is not a share of the CPUs, such as 0.9, '
                         'or 0.5-1.2 for one that rises')
    return first, last[0] if last else first


_ITEMS: Items = {
    'mix': ('mix', _mix),
    'memory': ('memory_mib', functools.partial(whole, most=10 ** 8)),
    'cells': ('cells', functools.partial(whole, most=64)),
    'class': ('guest_class', host_class),
    'lifetime': ('lifetime_hours', _lifetime),
    'distribution': ('distribution', _distribution),
    'sigma': ('sigma', positive),
    'rate': ('rate_per_hour', positive),
    'load': ('load', _load),
    'count': ('count', functools.partial(whole, most=_MOST_ARRIVALS)),
}
