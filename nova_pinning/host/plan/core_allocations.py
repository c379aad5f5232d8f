# SPDX-License-Identifier: Apache-2.0
"""Allocations of cores of one node, each of the least cost.

What a way costs is a :class:`Cost`, the lower the better.
"""

from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
import dataclasses
import functools
import itertools
from typing import NamedTuple


from nova_pinning.host.plan import allocatable_cores
from nova_pinning.host import plan_model

#: Cores of a group for the host, for polling, and shared ones.
Taken = tuple[int, int, int]


class Cost(NamedTuple):
    """What speaks against a way, in figures that count one after the other.

    They are summed up over the host, each as one number, see
    :meth:`CostScale.number`.

    :param far_cpus: where shared CPUs are for emulator threads: dedicated
        CPUs of nodes that have no shared ones
    :param busy_devices: devices in use that serve the host, on nodes that
        have no CPUs for the host
    :param idle_devices: the same of devices of which no use is known
    :param l3_host: CPUs of guests that share an L3 domain with CPUs for the
        host or for polling
    :param l3_shared: dedicated CPUs that do so with shared CPUs; of an L3
        domain that reaches over several nodes all CPUs count for both, but
        those that take it
    :param sockets: that have CPUs for the host
    :param socket_distances: of the others of these from the first
    :param fast_cpus: CPUs for the host on cores that are not of the slowest
        kind
    :param ids: at last, so that there is always one answer: the lowest CPUs
        for the host, CPU 0 if that can be, for polling, and the lowest shared
        ones; see :meth:`CostScale.ids`
    """

    far_cpus: int = 0
    busy_devices: int = 0
    idle_devices: int = 0
    l3_host: int = 0
    l3_shared: int = 0
    sockets: int = 0
    socket_distances: int = 0
    fast_cpus: int = 0
    ids: int = 0


#: Ways by the CPUs they take for the host, for polling, and as shared ones.
#: Each is what it costs, and what it takes of each group of the node.
_Allocations = Mapping[Taken, tuple[int, tuple[Taken, ...]]]

#: For any figure of a cost but the ids, summed up over a host.
_FIGURE_BITS = 32
_NONE: _Allocations = {(0, 0, 0): (0, ())}
#: Limits are rounded up to these, so that searches for a few CPUs more can
#: have the same allocations.
_HOST_STEP, _SHARED_STEP = 8, 64


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
    :param uses: CPUs for the host and for polling together, and shared ones
    """

    host_cpus: int
    shared_cpus: int
    cost: int
    taken: tuple[Taken, ...]
    uses: tuple[int, int]


class CostScale:
    """Makes numbers of costs, which are quick to add up and to compare.

    :param cpus: all that are online, ascending
    """

    def __init__(self, cpus: tuple[int, ...]) -> None:
        self._bits = len(cpus)
        self._bit_of = {cpu: 1 << (self._bits - 1 - index)
                        for index, cpu in enumerate(cpus)}

    def number(self, cost: Cost) -> int:
        """Costs are as their numbers are, and so are their sums."""
        *figures, ids = cost
        number = 0
        for figure in figures:
            number = (number << _FIGURE_BITS) + figure
        return self.number_of(number) + ids

    def number_of(self, figures: int) -> int:
        """The number of a cost of which all but the ids is given."""
        return figures << 3 * self._bits

    def figures(self, number: int) -> int:
        """What a number has beside the ids, which are 0 or less."""
        return -(-number >> 3 * self._bits)

    def marks(self, cores: Iterable[allocatable_cores.Core]) -> list[int]:
        """The CPUs of the first cores, of none up to all, a number each."""
        return list(itertools.accumulate((
            sum(self._bit_of[cpu] for cpu in core) for core in cores),
            initial=0))

    def ids(self, groups: Iterable[tuple[Sequence[int], Taken]]) -> int:
        """The lower the CPUs for the host, the lower; then others'.

        They tell choices apart that are alike but for their ids, and can be
        summed up over cores.

        :param groups: the marks of the cores of each, and what is taken
        """
        uses = [0, 0, 0]
        for marks, taken in groups:
            first = 0
            for use, count in enumerate(taken):
                uses[use] += marks[first + count] - marks[first]
                first += count
        return -((uses[0] << self._bits) + uses[1] << self._bits) - uses[2]

    def ranked(
        self, domains: Iterable[allocatable_cores.CacheDomain],
    ) -> tuple[allocatable_cores.CacheDomain, ...]:
        """The same domains with the ranks of CPUs for their ids."""
        rank = {cpu: rank for rank, cpu in enumerate(self._bit_of)}
        return tuple(dataclasses.replace(domain, groups=tuple(
            dataclasses.replace(group, cores=tuple(
                tuple(rank[cpu] for cpu in core) for core in group.cores))
            for group in domain.groups)) for domain in domains)


def allocations(
    nodes: Iterable[allocatable_cores.AllocatableNode],
    purpose: plan_model.Purpose, host_cpus: int, poll_cpus: Mapping[int, int],
    shared_cpus: int | None, scale: CostScale,
) -> list[tuple[CoreAllocation, ...]]:
    """The allocation of least cost for each number of CPUs, of each node.

    :param host_cpus: at most, as shared_cpus; None to share all that others
        leave
    :param poll_cpus: exactly, by node
    """
    found = []
    for node in nodes:
        polled = poll_cpus.get(node.id, 0)
        found.append(tuple(
            allocation for allocation in _of_node(
                node, purpose, AllocationLimits(
                    -(-host_cpus // _HOST_STEP) * _HOST_STEP, polled,
                    shared_cpus
                    and -(-shared_cpus // _SHARED_STEP) * _SHARED_STEP), scale)
            if allocation.host_cpus <= host_cpus
            and allocation.shared_cpus <= (shared_cpus or 0)))
    return found


def scale_of(
        domains: Iterable[allocatable_cores.CacheDomain]) -> CostScale:
    """The scale for all CPUs of these domains."""
    return _scale(tuple(sorted(
        cpu for domain in domains for group in domain.groups
        for core in group.cores for cpu in core)))


# One for the same CPUs, so that what was worked out with it is found again.
_scale = functools.lru_cache(maxsize=64)(CostScale)


@functools.lru_cache(maxsize=256)
def _of_node(
    node: allocatable_cores.AllocatableNode, purpose: plan_model.Purpose,
    limits: AllocationLimits, scale: CostScale,
) -> tuple[CoreAllocation, ...]:
    own = scale_of(node.domains)
    marks = [scale.marks(group.cores) for domain in node.domains
             for group in domain.groups]
    found = []
    for (host, poll, shared), (cost, taken) in sorted(_by_counts(
            own.ranked(node.domains), purpose, limits).items()):
        if poll != limits.poll_cpus:
            continue
        is_far = (purpose is plan_model.Purpose.DEDICATED and not shared
                  and limits.shared_cpus != 0)
        found.append(CoreAllocation(
            host, 0 if limits.shared_cpus is None else shared,
            scale.number(Cost(
                node.cpu_count - host - poll if is_far else 0,
                0 if host else node.busy_devices,
                0 if host else node.idle_devices,
                ids=scale.ids(zip(marks, taken)))) + scale.number_of(
                    own.figures(cost)),
            taken, (host + poll, shared)))
    return tuple(found)


@functools.lru_cache(maxsize=64)
def _by_counts(
    domains: tuple[allocatable_cores.CacheDomain, ...],
    purpose: plan_model.Purpose, limits: AllocationLimits,
) -> _Allocations:
    """As far as domains tell; nodes are alike, and asked for several times.

    :param domains: of a node, with the ranks of its CPUs for their ids
    """
    scale = scale_of(domains)
    parts = [_domain_allocations(domain, purpose, limits, scale)
             for domain in domains]
    return functools.reduce(
        functools.partial(_combined, limits=limits), parts, _NONE)


def _domain_allocations(domain: allocatable_cores.CacheDomain,
                        purpose: plan_model.Purpose, limits: AllocationLimits,
                        scale: CostScale) -> _Allocations:
    by_counts = _NONE
    for group in domain.groups:
        by_counts = _combined(
            by_counts, _group_allocations(group, limits, scale), limits)
    if domain.reaches_beyond:
        # What that costs depends on other nodes.
        return by_counts
    result = {}
    cpus = domain.cpu_count
    for (host, poll, shared), (cost, taken) in by_counts.items():
        left = cpus - host - poll - shared
        guests = left
        if purpose is not plan_model.Purpose.DEDICATED:
            guests += shared
        result[host, poll, shared] = cost + scale.number(Cost(
            l3_host=guests if host or poll else 0,
            l3_shared=left if shared else 0)), taken
    return result


def _group_allocations(group: allocatable_cores.CoreGroup,
                       limits: AllocationLimits,
                       scale: CostScale) -> _Allocations:
    threads, cores = group.threads, group.cores
    marks = scale.marks(cores)
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
                cost = scale.number(Cost(
                    fast_cpus=0 if group.is_slow else host * threads,
                    ids=scale.ids(((marks, (host, poll, shared)),))))
                by_taken[host * threads, poll * threads, shared * threads] = (
                    cost, ((host, poll, shared),))
    return by_taken


def _combined(some: _Allocations, others: _Allocations,
              limits: AllocationLimits) -> _Allocations:
    """The best of all ways to take both some and others."""
    combined: dict[Taken, tuple[int, tuple[Taken, ...]]] = {}
    most_shared = limits.shared_cpus
    for (host, poll, shared), (cost, taken) in some.items():
        for (more_host, more_poll, more_shared), (more, also) in (
                others.items()):
            key = host + more_host, poll + more_poll, shared + more_shared
            if (key[0] > limits.host_cpus or key[1] > limits.poll_cpus
                    or most_shared is not None and key[2] > most_shared):
                continue
            best, total = combined.get(key), cost + more
            if best is None or total < best[0]:
                combined[key] = total, taken + also
    return combined
