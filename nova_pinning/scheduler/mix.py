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

"""Which sizes of guests are expected, and how much of each.

Sizes count by the vCPUs that are asked for in them, not by the guests. By
guests, the small ones would nearly always win, and the few large ones, which
are the first to find no room, would have no say in what is kept free.
"""

import collections
from collections.abc import Mapping
from collections.abc import Sequence
import dataclasses
import functools
import heapq
import operator
import re

from oslo_config import cfg

from nova_pinning import conf
from nova_pinning.fit import score
from nova_pinning import model

#: Sizes that the mix of recent requests is cut down to, those with the most
#: vCPUs, so that a weigher's time does not grow with the variety of flavors.
_MOST_SIZES = 12

_PAGE_SIZES = {
    'small': model.PAGES_SMALL,
    'large': model.PAGES_LARGE,
    'any': model.PAGES_ANY,
}

#: Sums of so large weights are still exact enough to divide by.
_MAX_WEIGHT = 1e15

_KEYS = {'vcpus', 'memory_mib', 'thread_policy', 'page_size_kib', 'cells',
         'weight'}

CONF = conf.CONF

Mix = tuple[tuple[score.Size, float], ...]


class RecentMix:
    """The mix of what was asked for lately.

    :param length: how many requests to remember
    """

    def __init__(self, length: int) -> None:
        self._recent: collections.deque[list[score.Size]] = (
            collections.deque(maxlen=length))
        self._counts: collections.Counter[score.Size] = collections.Counter()

    def add(self, guest: model.Guest) -> None:
        """Remember a request."""
        if len(self._recent) == self._recent.maxlen:
            self._counts.subtract(self._recent[0])
            self._counts += collections.Counter()
        asked = sizes(guest)
        self._recent.append(asked)
        self._counts.update(asked)

    def mix(self) -> Mix:
        vcpus = [(size, count * _vcpus(size))
                 for size, count in self._counts.items()]
        return _shares(dict(heapq.nlargest(
            _MOST_SIZES, vcpus, key=operator.itemgetter(1))))


@functools.cache
def recent() -> RecentMix:
    """The mix of what this nova-scheduler was asked for lately."""
    return RecentMix(CONF.pinning.fragmentation_recent_requests)


def sizes(guest: model.Guest) -> list[score.Size]:
    """The sizes that a pinned guest asks for.

    One, unless its cells differ: then one for each of them, as if they were
    guests of their own.
    """
    found = [
        score.Size(
            demand.dedicated, demand.memory_mib, guest.thread_policy,
            demand.page_size_kib)
        for demand in guest.demands if demand.dedicated]
    if len(found) > 1 and len(set(found)) == 1:
        return [dataclasses.replace(found[0], cells=len(found))]
    return found


def configured_mix(options: Sequence[Mapping[str, str]] | None) -> Mix:
    """The mix that ``[pinning] fragmentation_mix`` sets.

    :raises oslo_config.cfg.ConfigFileValueError: naming the option
    """
    weights: dict[score.Size, float] = {}
    for option in options or ():
        size, weight = _parse(option)
        weights[size] = weights.get(size, 0.0) + weight * _vcpus(size)
    return _shares(weights)


def _parse(option: Mapping[str, str]) -> tuple[score.Size, float]:
    unknown = sorted(option.keys() - _KEYS)
    if unknown:
        raise _error(option, f'unknown key {unknown[0]!r}')
    try:
        size = score.Size(
            vcpus=_whole(option['vcpus']),
            memory_mib=_whole(option['memory_mib']),
            thread_policy=model.ThreadPolicy(
                option.get('thread_policy', 'prefer')),
            page_size_kib=_page_size(option.get('page_size_kib')),
            cells=_whole(option.get('cells', '1')))
        weight = float(option.get('weight', 1))
    except KeyError as error:
        raise _error(option, f'{error.args[0]} is missing') from None
    except ValueError as error:
        raise _error(option, str(error)) from None
    if size.vcpus < 1 or not 0 < weight < _MAX_WEIGHT:
        raise _error(option, 'vcpus and weight must be above 0')
    if size.cells < 1:
        raise _error(option, 'cells must be above 0')
    return size, weight


def _whole(text: str) -> int:
    if not re.fullmatch('[0-9]{1,12}', text):
        raise ValueError(f'{text!r} is no whole number')
    return int(text)


def _page_size(text: str | None) -> int | None:
    if text is None:
        return None
    return _PAGE_SIZES.get(text) or _whole(text) or None


def _error(option: Mapping[str, str], why: str) -> Exception:
    text = ','.join(f'{key}:{value}' for key, value in option.items())
    return cfg.ConfigFileValueError(
        f'[pinning] fragmentation_mix = {text}: {why}')


def _vcpus(size: score.Size) -> int:
    return size.vcpus * size.cells


def _shares(weights: Mapping[score.Size, float]) -> Mix:
    total = sum(weights.values())
    return tuple((size, weight / total) for size, weight in weights.items())
