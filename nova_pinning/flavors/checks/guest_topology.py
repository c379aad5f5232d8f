# SPDX-License-Identifier: Apache-2.0
"""The sockets, cores and threads that a guest sees."""

from collections.abc import Iterator
from collections.abc import Mapping
from typing import NamedTuple

from nova_pinning.flavors.checks import checked

_NAMES = ('sockets', 'cores', 'threads')
#: Nova's limit where none is given.
_NO_LIMIT = 65536


class CpuTopology(NamedTuple):
    """Sockets, cores a socket and threads a core; 0 for what is not given."""

    sockets: int
    cores: int
    threads: int

    def __str__(self) -> str:
        return ', '.join(
            f'{count} {name if count != 1 else name[:-1]}'
            for count, name in zip(self, _NAMES) if count)


class TopologyConstraints(NamedTuple):
    """What flavor and image say of the guest's CPU topology.

    :param preferred: as nova takes it
    :param limits: the most that the guest may have
    :param dropped: what the flavor wants but nova drops, since the limits
        are below it; None if it drops nothing
    :param keys: where all this stands
    """

    preferred: CpuTopology
    limits: CpuTopology
    dropped: CpuTopology | None
    keys: tuple[str, ...]


def topology_constraints(
        subject: checked.CheckedFlavor) -> TopologyConstraints:
    """See nova.virt.hardware.get_cpu_topology_constraints."""
    keys = tuple(
        key for prefix in ('hw:cpu_', 'hw:cpu_max_', 'hw_cpu_',
                           'hw_cpu_max_')
        for key in (f'{prefix}{name}' for name in _NAMES)
        if key in subject.specs or key in subject.image)
    limits = CpuTopology(*(
        _count(subject.image, f'hw_cpu_max_{name}')
        or _count(subject.specs, f'hw:cpu_max_{name}') or _NO_LIMIT
        for name in _NAMES))
    preferred = CpuTopology(*(
        _count(subject.image, f'hw_cpu_{name}') for name in _NAMES))
    if any(preferred):
        return TopologyConstraints(preferred, limits, None, keys)
    preferred = CpuTopology(*(
        _count(subject.specs, f'hw:cpu_{name}') for name in _NAMES))
    if any(count > limit for count, limit in zip(preferred, limits)):
        return TopologyConstraints(
            CpuTopology(0, 0, 0), limits, preferred, keys)
    return TopologyConstraints(preferred, limits, None, keys)


def _count(values: Mapping[str, str], key: str) -> int:
    return checked.whole_number(values.get(key)) or 0


def seen(subject: checked.CheckedFlavor) -> CpuTopology | None:
    """What the guest sees; None if nova refuses it, or nobody says."""
    constraints = topology_constraints(subject)
    if not constraints.keys or not subject.is_accepted:
        return None
    return choose(subject.flavor.vcpus, constraints.preferred,
                  constraints.limits)


def interleaved_advice(subject: checked.CheckedFlavor) -> str:
    """What to do first where no topology agrees with the NUMA cells.

    '' where a topology like the host's can be had.
    """
    for cell in subject.cells:
        vcpus = sorted((*cell.dedicated_vcpus, *cell.shared_vcpus))
        if vcpus[-1] - vcpus[0] >= len(vcpus):
            return ('give each NUMA cell vCPUs that follow each other '
                    '(hw:numa_cpus.N): no CPU topology agrees with cells '
                    'that are interleaved')
    return ''


def choose(vcpus: int, preferred: CpuTopology,
           limits: CpuTopology) -> CpuTopology | None:
    """What the guest gets, None if the limits allow nothing.

    Nova's own function tries all combinations of numbers up to the vCPUs,
    which takes seconds for large guests; this one looks at divisors. See
    nova.virt.hardware.get_best_cpu_topology.
    """
    def rank(topology: CpuTopology) -> tuple[int, ...]:
        score = sum(bool(want) and want == got
                    for want, got in zip(preferred, topology))
        return (score, topology.sockets * topology.cores, topology.sockets,
                topology.threads)

    return max(possible(vcpus, limits), key=rank, default=None)


def possible(vcpus: int, limits: CpuTopology) -> Iterator[CpuTopology]:
    """All that a guest can have within limits."""
    for sockets in _divisors(vcpus):
        for cores in _divisors(vcpus // sockets):
            topology = CpuTopology(sockets, cores, vcpus // sockets // cores)
            if all(got <= limit for got, limit in zip(topology, limits)):
                yield topology


def _divisors(number: int) -> list[int]:
    return [divisor for divisor in range(1, number + 1)
            if not number % divisor]
