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

"""The ways to take cores from one node, each as good as it can be.

How good a way is, is one number, the lower the better. It holds figures that
count one after the other, each summed up over the host:

#. where shared CPUs are for emulator threads: dedicated CPUs of nodes that
   have no shared ones
#. devices that serve the host on nodes that have no CPUs for the host: those
   in use, and then those of which no use is known
#. CPUs of guests that share an L3 domain with CPUs for the host or for
   polling, and then dedicated ones that do so with shared CPUs
#. CPUs for the host on cores that are not of the slowest kind
#. at last, so that there is always one answer: the lowest CPUs for the host,
   CPU 0 if that can be, for polling, and the lowest shared ones

An L3 domain that reaches over several nodes counts as one in each.
"""

from collections.abc import Mapping
from collections.abc import Sequence
import dataclasses

from nova_pinning.host.plan import ground
from nova_pinning.host.plan import model

#: Cores of a group for the host, for polling, and shared ones.
Taken = tuple[int, int, int]
#: Ways by the CPUs they take for the host, for polling, and as shared ones.
#: Each is how bad it is, and what it takes of each group of the node.
_Ways = Mapping[Taken, tuple[int, tuple[Taken, ...]]]

# Above all sums of CPUs or devices that a host can have.
_FIGURE_BITS = 24


@dataclasses.dataclass(frozen=True, slots=True)
class Limits:
    """What to look for in a node.

    :param host_cpus: at most
    :param poll_cpus: exactly
    :param shared_cpus: at most; None to share all that others leave
    """

    host_cpus: int
    poll_cpus: int
    shared_cpus: int | None


@dataclasses.dataclass(frozen=True, slots=True)
class Way:
    """A way to take cores from a node.

    :param shared_cpus: 0 where all that others leave is shared
    :param taken: for each group of each domain, in order
    """

    host_cpus: int
    shared_cpus: int
    badness: int
    taken: tuple[Taken, ...]


class Scale:
    """Turns figures into one number.

    :param place_of: each online CPU's place in the order of their ids
    """

    def __init__(self, cpus: Sequence[int]) -> None:
        self._bits = len(cpus)
        self._bit_of = {cpu: 1 << (self._bits - 1 - place)
                        for place, cpu in enumerate(cpus)}

    def figures(self, *figures: int) -> int:
        """Those that count first, the most important one first.

        :param figures: far, busy devices, idle ones, L3 of host, L3 of
            shared, fast
        """
        number = 0
        for figure in figures:
            number = (number << _FIGURE_BITS) + figure
        return number << (3 * self._bits)

    def ids(self, host: Sequence[ground.Core], poll: Sequence[ground.Core],
            shared: Sequence[ground.Core]) -> int:
        """Which CPUs are taken: the lower they are the better."""
        number = 0
        for cores in (host, poll, shared):
            number <<= self._bits
            number -= sum(self._bit_of[cpu] for core in cores for cpu in core)
        return number


def ways(place: ground.Ground, purpose: model.Purpose, limits: Limits,
         scale: Scale) -> tuple[Way, ...]:
    """The best way to take each number of CPUs from a node."""
    found: _Ways = {(0, 0, 0): (0, ())}
    for domain in place.domains:
        found = _joined(found, _domain_ways(domain, purpose, limits, scale),
                        limits)
    wants_shared = limits.shared_cpus != 0
    result = []
    for (host, poll, shared), (badness, taken) in sorted(found.items()):
        if poll != limits.poll_cpus:
            continue
        left = place.cpu_count - host - poll - shared
        is_far = (purpose is model.Purpose.DEDICATED and wants_shared
                  and not shared)
        badness += scale.figures(
            left if is_far else 0, 0 if host else place.busy_devices,
            0 if host else place.idle_devices, 0, 0, 0)
        if limits.shared_cpus is None:
            shared = 0
        result.append(Way(host, shared, badness, taken))
    return tuple(result)


def _domain_ways(domain: ground.Domain, purpose: model.Purpose,
                 limits: Limits, scale: Scale) -> _Ways:
    found: _Ways = {(0, 0, 0): (0, ())}
    for group in domain.groups:
        found = _joined(found, _group_ways(group, limits, scale), limits)
    result = {}
    for (host, poll, shared), (badness, taken) in found.items():
        left = domain.cpu_count - host - poll - shared
        guests = left if purpose is model.Purpose.DEDICATED else left + shared
        badness += scale.figures(0, 0, 0, guests if host or poll else 0,
                                 left if shared else 0, 0)
        result[host, poll, shared] = badness, taken
    return result


def _group_ways(group: ground.Group, limits: Limits, scale: Scale) -> _Ways:
    threads, cores = group.threads, group.cores
    found = {}
    for host in range(min(len(cores), limits.host_cpus // threads) + 1):
        after = len(cores) - host
        for poll in range(min(after, limits.poll_cpus // threads) + 1):
            most = after - poll
            least = 0
            if limits.shared_cpus is None:
                least = most
            else:
                most = min(most, limits.shared_cpus // threads)
            for shared in range(least, most + 1):
                badness = scale.figures(
                    0, 0, 0, 0, 0, 0 if group.is_slow else host * threads)
                badness += scale.ids(
                    cores[:host], cores[host:host + poll],
                    cores[host + poll:host + poll + shared])
                found[host * threads, poll * threads, shared * threads] = (
                    badness, ((host, poll, shared),))
    return found


def _joined(some: _Ways, others: _Ways, limits: Limits) -> _Ways:
    """The best of all ways to take both some and others."""
    found: dict[Taken, tuple[int, tuple[Taken, ...]]] = {}
    most_shared = limits.shared_cpus
    for (host, poll, shared), (badness, taken) in some.items():
        for (more_host, more_poll, more_shared), (more, also) in (
                others.items()):
            key = host + more_host, poll + more_poll, shared + more_shared
            if (key[0] > limits.host_cpus or key[1] > limits.poll_cpus
                    or most_shared is not None and key[2] > most_shared):
                continue
            best = found.get(key)
            if best is None or badness + more < best[0]:
                found[key] = badness + more, taken + also
    return found
