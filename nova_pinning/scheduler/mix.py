# SPDX-License-Identifier: Apache-2.0
"""Which sizes of guests are expected, and how much of each.

Sizes count by how many guests ask for them times the square of their vCPUs. By
guests, the small ones would nearly always win, and the few large ones, which
are the first to find no room, would have no say in what is kept free. By vCPUs
alone, they still have too little. Where each size is a multiple of the next
smaller one, and memory is no matter, any shares give the same order of hosts.
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Sequence
import heapq
import operator
import re
import threading

from oslo_config import cfg

from nova_pinning import fit
from nova_pinning import model

#: Sizes that the mix of recent requests is cut down to, those with the largest
#: shares, so that a weigher's time does not grow with the variety of flavors.
_MOST_SIZES = 12

#: Sums of so large weights are still exact enough to divide by.
_MAX_WEIGHT = 1e15

_KEYS = {'vcpus', 'memory_mib', 'thread_policy', 'page_size_kib', 'cells',
         'weight'}

#: How many of the instances asked for lately make up the mix of recent ones.
#: Of a large size that one request in 500 is for, 256 know nothing mostly.
RECENT_INSTANCES = 4000

Mix = tuple[tuple[fit.Size, float], ...]


class RecentMix:
    """The mix of what was asked for lately; threads may share it.

    :param length: how many instances to remember
    """

    def __init__(self, length: int) -> None:
        self._length = length
        self._lock = threading.Lock()
        #: What each instance asked for, the oldest first.
        self._recent: dict[str, list[fit.Size]] = {}
        self._counts: dict[fit.Size, int] = {}

    def add(self, instance: str, guest: model.Guest,
            devices: tuple[fit.DeviceDemand, ...] = ()) -> None:
        """Remember an instance, unless it is remembered already.

        :param instance: its UUID
        :param devices: that it asks for
        """
        with self._lock:
            if instance in self._recent:
                return
            if len(self._recent) >= self._length:
                for size in self._recent.pop(next(iter(self._recent))):
                    self._counts[size] -= 1
                    if not self._counts[size]:
                        del self._counts[size]
            guest_sizes = self._recent[instance] = sizes(guest, devices)
            for size in guest_sizes:
                self._counts[size] = self._counts.get(size, 0) + 1

    def mix(self) -> Mix:
        with self._lock:
            weights = [(size, count * size.guest_vcpus ** 2)
                       for size, count in self._counts.items()]
        return _shares(dict(heapq.nlargest(
            _MOST_SIZES, weights, key=operator.itemgetter(1))))


_recent: RecentMix | None = None
_making = threading.Lock()


def recent() -> RecentMix:
    """The mix of what this nova-scheduler was asked for lately."""
    global _recent
    with _making:
        if _recent is None:
            _recent = RecentMix(RECENT_INSTANCES)
        return _recent


def forget() -> None:
    """Begin anew with what was asked for lately."""
    global _recent
    with _making:
        _recent = None


def sizes(guest: model.Guest,
          devices: tuple[fit.DeviceDemand, ...] = ()) -> list[fit.Size]:
    """The sizes that a pinned guest asks for.

    One, unless its cells differ: then one for each of them, as if they were
    guests of their own, without devices.

    :param devices: that it asks for
    """
    cell_sizes = [
        fit.Size(
            demand.dedicated, demand.memory_mib, guest.thread_policy,
            demand.page_size_kib)
        for demand in guest.demands if demand.dedicated]
    if len(set(cell_sizes)) == 1:
        return [cell_sizes[0]._replace(
            cells=len(cell_sizes), devices=devices)]
    return cell_sizes


def configured_mix(options: Sequence[Mapping[str, str]] | None) -> Mix:
    """The mix that ``[pinning] fragmentation_mix`` sets.

    :raises oslo_config.cfg.ConfigFileValueError: naming the option
    """
    weights: dict[fit.Size, float] = {}
    for option in options or ():
        size, weight = _parse(option)
        weights[size] = (weights.get(size, 0.0)
                         + weight * size.guest_vcpus ** 2)
    return _shares(weights)


def _parse(option: Mapping[str, str]) -> tuple[fit.Size, float]:
    unknown = sorted(option.keys() - _KEYS)
    if unknown:
        raise _error(option, f'unknown key {unknown[0]!r}')
    try:
        size = fit.Size(
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
        raise ValueError(f'{text!r} is not a whole number')
    return int(text)


def _page_size(text: str | None) -> int | None:
    if text is None:
        return None
    return model.PAGE_WORDS.get(text) or _whole(text) or None


def _error(option: Mapping[str, str], why: str) -> Exception:
    text = ','.join(f'{key}:{value}' for key, value in option.items())
    return cfg.ConfigFileValueError(
        f'[pinning] fragmentation_mix = {text}: {why}')


def _shares(weights: Mapping[fit.Size, float]) -> Mix:
    total = sum(weights.values())
    return tuple((size, weight / total) for size, weight in weights.items())
