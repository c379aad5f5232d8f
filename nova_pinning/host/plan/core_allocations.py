# SPDX-License-Identifier: Apache-2.0
"""Allocations of cores of one node, each of the least cost.

What a way costs is a :class:`Cost`, the lower the better. An L3 domain that
reaches over several nodes counts as one in each.
"""

from collections.abc import Mapping
from collections.abc import Sequence
import dataclasses
import operator
from typing import NamedTuple

from nova_pinning.host.plan import allocatable_cores
from nova_pinning.host import plan_model

#: Cores of a group for the host, for polling, and shared ones.
Taken = tuple[int, int, int]


class Cost(NamedTuple):
    """What speaks against a way, in figures that count one after the other.

    They are summed up over the host.

    :param far_cpus: where shared CPUs are for emulator threads: dedicated
        CPUs of nodes that have no shared ones
    :param busy_devices: devices in use that serve the host, on nodes that
        have no CPUs for the host
    :param idle_devices: the same of devices of which no use is known
    :param l3_host: CPUs of guests that share an L3 domain with CPUs for the
        host or for polling
    :param l3_shared: dedicated CPUs that do so with shared CPUs
    :param fast_cpus: CPUs for the host on cores that are not of the slowest
        kind
    :param ids: at last, so that there is always one answer: the lowest CPUs
        for the host, CPU 0 if that can be, for polling, and the lowest shared
        ones; see :class:`IdOrder`
    """

    far_cpus: int = 0
    busy_devices: int = 0
    idle_devices: int = 0
    l3_host: int = 0
    l3_shared: int = 0
    fast_cpus: int = 0
    ids: int = 0

    def plus(self, other: 'Cost') -> 'Cost':
        # In the innermost loops; Cost._make takes half as long again.
        return tuple.__new__(Cost, map(operator.add, self, other))


NOTHING = Cost()

#: Ways by the CPUs they take for the host, for polling, and as shared ones.
#: Each is what it costs, and what it takes of each group of the node.
_Allocations = Mapping[Taken, tuple[Cost, tuple[Taken, ...]]]


@dataclasses.dataclass(frozen=True, slots=True)
class AllocationLimits:
    """What to look for in a node.

    :param host_cpus: at most
    :param poll_cpus: exactly
    :param shared_cpus: at most; None to share all that others leave
    """

    host_cpus: int
    poll_cpus: int
    shared_cpus: int | None


@dataclasses.dataclass(frozen=True, slots=True)
class CoreAllocation:
    """An allocation of cores of a node.

    :param shared_cpus: 0 where all that others leave is shared
    :param taken: for each group of each domain, in order
    """

    host_cpus: int
    shared_cpus: int
    cost: Cost
    taken: tuple[Taken, ...]


class IdOrder:
    """Tells choices of CPUs apart that are alike but for their ids.

    :param cpus: all that are online, ascending
    """

    def __init__(self, cpus: Sequence[int]) -> None:
        self._bits = len(cpus)
        self._bit_of = {cpu: 1 << (self._bits - 1 - index)
                        for index, cpu in enumerate(cpus)}

    def ids(self, *uses: Sequence[allocatable_cores.Core]) -> int:
        """The lower the CPUs of the first use, the lower; then the second's.

        Numbers can be summed up over cores.
        """
        number = 0
        for cores in uses:
            number <<= self._bits
            number -= sum(self._bit_of[cpu] for core in cores for cpu in core)
        return number


def allocations(node: allocatable_cores.AllocatableNode,
                purpose: plan_model.Purpose, limits: AllocationLimits,
                order: IdOrder) -> tuple[CoreAllocation, ...]:
    """The allocation of least cost for each number of CPUs of a node."""
    by_counts: _Allocations = {(0, 0, 0): (NOTHING, ())}
    for domain in node.domains:
        by_counts = _combined(
            by_counts, _domain_allocations(domain, purpose, limits, order),
            limits)
    wants_shared = limits.shared_cpus != 0
    result = []
    for (host, poll, shared), (cost, taken) in sorted(by_counts.items()):
        if poll != limits.poll_cpus:
            continue
        left = node.cpu_count - host - poll - shared
        is_far = (purpose is plan_model.Purpose.DEDICATED and wants_shared
                  and not shared)
        cost = cost.plus(Cost(
            left if is_far else 0, 0 if host else node.busy_devices,
            0 if host else node.idle_devices))
        if limits.shared_cpus is None:
            shared = 0
        result.append(CoreAllocation(host, shared, cost, taken))
    return tuple(result)


def _domain_allocations(domain: allocatable_cores.CacheDomain,
                        purpose: plan_model.Purpose, limits: AllocationLimits,
                        order: IdOrder) -> _Allocations:
    by_counts: _Allocations = {(0, 0, 0): (NOTHING, ())}
    for group in domain.groups:
        by_counts = _combined(
            by_counts, _group_allocations(group, limits, order), limits)
    result = {}
    for (host, poll, shared), (cost, taken) in by_counts.items():
        left = domain.cpu_count - host - poll - shared
        guests = left
        if purpose is not plan_model.Purpose.DEDICATED:
            guests += shared
        result[host, poll, shared] = cost.plus(Cost(
            l3_host=guests if host or poll else 0,
            l3_shared=left if shared else 0)), taken
    return result


def _group_allocations(group: allocatable_cores.CoreGroup,
                       limits: AllocationLimits,
                       order: IdOrder) -> _Allocations:
    threads, cores = group.threads, group.cores
    by_taken = {}
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
                cost = Cost(
                    fast_cpus=0 if group.is_slow else host * threads,
                    ids=order.ids(
                        cores[:host], cores[host:host + poll],
                        cores[host + poll:host + poll + shared]))
                by_taken[host * threads, poll * threads, shared * threads] = (
                    cost, ((host, poll, shared),))
    return by_taken


def _combined(some: _Allocations, others: _Allocations,
              limits: AllocationLimits) -> _Allocations:
    """The best of all ways to take both some and others."""
    combined: dict[Taken, tuple[Cost, tuple[Taken, ...]]] = {}
    most_shared = limits.shared_cpus
    for (host, poll, shared), (cost, taken) in some.items():
        for (more_host, more_poll, more_shared), (more, also) in (
                others.items()):
            key = host + more_host, poll + more_poll, shared + more_shared
            if (key[0] > limits.host_cpus or key[1] > limits.poll_cpus
                    or most_shared is not None and key[2] > most_shared):
                continue
            best, total = combined.get(key), cost.plus(more)
            if best is None or total < best[0]:
                combined[key] = total, taken + also
    return combined
