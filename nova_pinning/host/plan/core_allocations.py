# SPDX-License-Identifier: Apache-2.0
"""Allocations of cores of one node, each of the least cost.

What a way costs is in :func:`figures`, the lower the better.
"""

from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
import dataclasses
import functools
import itertools

from nova_pinning.host.plan import allocatable_cores
from nova_pinning.host import plan_model

#: Cores of a group for the host, for polling, and shared ones.
Taken = tuple[int, int, int]

#: Ways by the CPUs they take for the host, for polling, and as shared ones.
#: Each is what it costs, and what it takes of each group of the node.
_Allocations = Mapping[Taken, tuple[int, tuple[Taken, ...]]]

#: For any figure of a cost, summed up over a host.
_FIGURE_BITS = 32
_NONE: _Allocations = {(0, 0, 0): (0, ())}
#: Limits are rounded up to these, so that searches for a few CPUs more can
#: have the same allocations.
_HOST_STEP, _SHARED_STEP = 8, 64


def figures(
    *, far_cpus: int = 0, busy_devices: int = 0, idle_devices: int = 0,
    gpu_cpus: int = 0,
    l3_host: int = 0, l3_shared: int = 0, sockets: int = 0,
    socket_distances: int = 0, fast_cpus: int = 0,
) -> int:
    """What speaks against a way, in figures that count one after the other.

    They are one number, quick to compare and to sum up over the host.

    :param far_cpus: where shared CPUs are for emulator threads: dedicated
        CPUs of nodes that have no shared ones
    :param busy_devices: devices in use that serve the host, on nodes that
        have no CPUs for the host
    :param idle_devices: the same of devices of which no use is known
    :param gpu_cpus: CPUs for the host, and shared ones, on nodes with GPUs
        for guests
    :param l3_host: CPUs of guests that share an L3 domain with CPUs for the
        host or for polling
    :param l3_shared: dedicated CPUs that do so with shared CPUs; of an L3
        domain that reaches over several nodes all CPUs count for both, but
        those that take it
    :param sockets: that have CPUs for the host
    :param socket_distances: of the others of these from the first
    :param fast_cpus: CPUs for the host on cores that are not of the slowest
        kind
    """
    number = 0
    for figure in (far_cpus, busy_devices, idle_devices, gpu_cpus, l3_host,
                   l3_shared, sockets, socket_distances, fast_cpus):
        number = (number << _FIGURE_BITS) + figure
    return number


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
    :param figures: what it costs, as far as the node's cores tell
    :param taken: for each group of each domain, in order
    :param uses: CPUs for the host and for polling together, and shared ones
    """

    host_cpus: int
    shared_cpus: int
    figures: int
    taken: tuple[Taken, ...]
    uses: tuple[int, int]


def cpus_taken(allocation: CoreAllocation) -> int:
    """CPUs for the host and shared ones."""
    return allocation.host_cpus + allocation.shared_cpus


class CostScale:
    """Makes numbers of figures and ids; costs are as their numbers are.

    Ids tell choices apart that are alike but for them: the lowest CPUs for
    the host, CPU 0 if that can be, then for polling, then the lowest shared
    ones. Numbers can be summed up over cores.

    :param domains: with all CPUs that are online
    """

    def __init__(
            self, domains: Iterable[allocatable_cores.CacheDomain]) -> None:
        cpus = _cpus(domains)
        self._bits = len(cpus)
        self._bit_of = {cpu: 1 << (self._bits - 1 - index)
                        for index, cpu in enumerate(cpus)}

    def number(self, cost: int,
               groups: Iterable[tuple[Sequence[int], Taken]] = ()) -> int:
        """The number of figures and ids.

        :param cost: the figures
        :param groups: the marks of the cores of each, and what is taken
        """
        uses = [0, 0, 0]
        for marks, taken in groups:
            first = 0
            for use, count in enumerate(taken):
                if count:
                    uses[use] += marks[first + count] - marks[first]
                    first += count
        host, poll, shared = uses
        return (cost << 3 * self._bits) - (
            ((host << self._bits) + poll << self._bits) + shared)

    def figures(self, number: int) -> int:
        """What a number has beside the ids, which are 0 or less."""
        return -(-number >> 3 * self._bits)

    def marks(self, cores: Iterable[allocatable_cores.Core]) -> list[int]:
        """The CPUs of the first cores, of none up to all, a number each."""
        return list(itertools.accumulate((
            sum(self._bit_of[cpu] for cpu in core) for core in cores),
            initial=0))


def _cpus(domains: Iterable[allocatable_cores.CacheDomain]) -> list[int]:
    return sorted(cpu for domain in domains for group in domain.groups
                  for core in group.cores for cpu in core)


def allocations(
    domains: Sequence[allocatable_cores.CacheDomain],
    purpose: plan_model.Purpose, limits: AllocationLimits,
) -> tuple[CoreAllocation, ...]:
    """The allocation of least cost for each number of CPUs of a node.

    :returns: those that take least first
    """
    # Nodes are alike that differ in their ids alone.
    rank = {cpu: rank for rank, cpu in enumerate(_cpus(domains))}
    return _of_ranked(tuple(
        dataclasses.replace(domain, groups=tuple(
            dataclasses.replace(group, cores=tuple(
                tuple(rank[cpu] for cpu in core) for core in group.cores))
            for group in domain.groups)) for domain in domains),
        purpose, limits)


@functools.lru_cache(maxsize=256)
def _of_ranked(
    domains: tuple[allocatable_cores.CacheDomain, ...],
    purpose: plan_model.Purpose, limits: AllocationLimits,
) -> tuple[CoreAllocation, ...]:
    wanted = limits.shared_cpus
    scale = CostScale(domains)
    cpu_count = sum(domain.cpu_count for domain in domains)
    found = []
    for (host, poll, shared), (cost, taken) in _by_counts(
            domains, purpose, AllocationLimits(
                -(-limits.host_cpus // _HOST_STEP) * _HOST_STEP,
                limits.poll_cpus,
                wanted and -(-wanted // _SHARED_STEP) * _SHARED_STEP)).items():
        if poll != limits.poll_cpus or host > limits.host_cpus or (
                wanted is not None and shared > wanted):
            continue
        is_far = (purpose is plan_model.Purpose.DEDICATED and not shared
                  and wanted != 0)
        found.append(CoreAllocation(
            host, 0 if wanted is None else shared,
            scale.figures(cost) + figures(
                far_cpus=cpu_count - host - poll if is_far else 0),
            taken, (host + poll, shared)))
    return tuple(sorted(found, key=cpus_taken))


@functools.lru_cache(maxsize=64)
def _by_counts(
    domains: tuple[allocatable_cores.CacheDomain, ...],
    purpose: plan_model.Purpose, limits: AllocationLimits,
) -> _Allocations:
    """The ways of least cost.

    :param domains: of a node, with the ranks of its CPUs for their ids
    """
    scale = CostScale(domains)
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
        result[host, poll, shared] = cost + scale.number(figures(
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
                taken = host, poll, shared
                by_taken[host * threads, poll * threads, shared * threads] = (
                    scale.number(figures(
                        fast_cpus=0 if group.is_slow else host * threads),
                        ((marks, taken),)), (taken,))
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
