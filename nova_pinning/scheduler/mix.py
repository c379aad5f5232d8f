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

"""Which sizes of guests are expected, and how often."""

import collections
from collections.abc import Mapping
from collections.abc import Sequence

from oslo_config import cfg

from nova_pinning.fit import score
from nova_pinning import model

#: Sizes that the mix of recent requests is cut down to, the most frequent
#: ones, so that a weigher's time does not grow with the variety of flavors.
_MOST_SIZES = 12

_KEYS = {'vcpus', 'memory_mib', 'thread_policy', 'page_size_kib', 'weight'}

Mix = tuple[tuple[score.Size, float], ...]


class RecentMix:
    """The mix of what was asked for lately.

    :param length: how many requests to remember
    """

    def __init__(self, length: int) -> None:
        self._recent: collections.deque[tuple[str | None, model.Guest]] = (
            collections.deque(maxlen=length))

    def add(self, instance_uuid: str | None, guest: model.Guest) -> None:
        """Remember a request; nova weighs hosts for one more than once."""
        if not self._recent or self._recent[-1][0] != instance_uuid:
            self._recent.append((instance_uuid, guest))

    def mix(self) -> Mix:
        counts = collections.Counter(
            size for _uuid, guest in list(self._recent)
            for size in sizes(guest))
        return _shares(dict(counts.most_common(_MOST_SIZES)))


def sizes(guest: model.Guest) -> list[score.Size]:
    """The sizes that a pinned guest asks for, one a cell."""
    return [
        score.Size(
            demand.dedicated, demand.memory_mib, guest.thread_policy,
            demand.page_size_kib)
        for demand in guest.demands if demand.dedicated]


def configured_mix(options: Sequence[Mapping[str, str]] | None) -> Mix:
    """The mix that ``[pinning] fragmentation_mix`` sets.

    :raises oslo_config.cfg.ConfigFileValueError: naming the option
    """
    weights: dict[score.Size, float] = {}
    for option in options or ():
        size, weight = _parse(option)
        weights[size] = weights.get(size, 0.0) + weight
    return _shares(weights)


def _parse(option: Mapping[str, str]) -> tuple[score.Size, float]:
    unknown = sorted(option.keys() - _KEYS)
    if unknown:
        raise _error(option, f'unknown key {unknown[0]!r}')
    try:
        size = score.Size(
            vcpus=int(option['vcpus']),
            memory_mib=int(option['memory_mib']),
            thread_policy=model.ThreadPolicy(
                option.get('thread_policy', 'prefer')),
            page_size_kib=(
                int(option['page_size_kib'])
                if 'page_size_kib' in option else None))
        weight = float(option.get('weight', 1))
    except KeyError as error:
        raise _error(option, f'{error.args[0]} is missing') from None
    except ValueError as error:
        raise _error(option, str(error)) from None
    if size.vcpus < 1 or size.memory_mib < 0 or not 0 < weight < float('inf'):
        raise _error(option, 'vcpus and weight must be above 0, memory_mib '
                             'not below')
    return size, weight


def _error(option: Mapping[str, str], why: str) -> Exception:
    text = ','.join(f'{key}:{value}' for key, value in option.items())
    return cfg.ConfigFileValueError(
        f'[pinning] fragmentation_mix = {text}: {why}')


def _shares(weights: Mapping[score.Size, float]) -> Mix:
    total = sum(weights.values())
    return tuple((size, weight / total) for size, weight in weights.items())
