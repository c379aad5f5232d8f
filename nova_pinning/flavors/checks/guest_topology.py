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

"""The sockets, cores and threads that a guest sees."""

from collections.abc import Iterator
from collections.abc import Mapping
from typing import NamedTuple

from nova_pinning.flavors.checks import rule

_NAMES = ('sockets', 'cores', 'threads')
#: Nova's limit where none is given.
_NO_LIMIT = 65536


class Topology(NamedTuple):
    """Sockets, cores a socket and threads a core; 0 for what is not given."""

    sockets: int
    cores: int
    threads: int

    def __str__(self) -> str:
        return ', '.join(
            f'{count} {name if count != 1 else name[:-1]}'
            for count, name in zip(self, _NAMES) if count)


class Wish(NamedTuple):
    """What flavor and image say of the guest's CPU topology.

    :param wanted: as nova takes it
    :param limits: the most that the guest may have
    :param dropped: what the flavor wants but nova drops, since the limits
        are below it; None if it drops nothing
    :param keys: where all this stands
    """

    wanted: Topology
    limits: Topology
    dropped: Topology | None
    keys: tuple[str, ...]


def wish(subject: rule.Subject) -> Wish:
    """See nova.virt.hardware.get_cpu_topology_constraints."""
    keys = tuple(
        key for prefix in ('hw:cpu_', 'hw:cpu_max_', 'hw_cpu_',
                           'hw_cpu_max_')
        for key in (f'{prefix}{name}' for name in _NAMES)
        if key in subject.specs or key in subject.image)
    limits = Topology(*(
        _count(subject.image, f'hw_cpu_max_{name}')
        or _count(subject.specs, f'hw:cpu_max_{name}') or _NO_LIMIT
        for name in _NAMES))
    wanted = Topology(*(
        _count(subject.image, f'hw_cpu_{name}') for name in _NAMES))
    if any(wanted):
        return Wish(wanted, limits, None, keys)
    wanted = Topology(*(
        _count(subject.specs, f'hw:cpu_{name}') for name in _NAMES))
    if any(one > limit for one, limit in zip(wanted, limits)):
        return Wish(Topology(0, 0, 0), limits, wanted, keys)
    return Wish(wanted, limits, None, keys)


def _count(values: Mapping[str, str], key: str) -> int:
    return rule.whole_number(values.get(key)) or 0


def choose(vcpus: int, wanted: Topology, limits: Topology) -> Topology | None:
    """What the guest gets, None if the limits allow nothing.

    Nova's own function tries all combinations of numbers up to the vCPUs,
    which takes seconds for large guests; this one looks at divisors. See
    nova.virt.hardware.get_best_cpu_topology.
    """
    def rank(one: Topology) -> tuple[int, ...]:
        score = sum(bool(want) and want == got
                    for want, got in zip(wanted, one))
        return score, one.sockets * one.cores, one.sockets, one.threads

    return max(possible(vcpus, limits), key=rank, default=None)


def possible(vcpus: int, limits: Topology) -> Iterator[Topology]:
    """All that a guest can have within limits."""
    for sockets in _divisors(vcpus):
        for cores in _divisors(vcpus // sockets):
            one = Topology(sockets, cores, vcpus // sockets // cores)
            if all(got <= limit for got, limit in zip(one, limits)):
                yield one


def _divisors(number: int) -> list[int]:
    return [one for one in range(1, number + 1) if not number % one]
