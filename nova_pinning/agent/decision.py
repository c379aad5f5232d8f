# SPDX-License-Identifier: Apache-2.0
"""What a host is to look like, with the guests that it has.

Pure: the same host, guests, record and loads always lead to the same.
"""

from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
import dataclasses

from nova_pinning.agent import agent_model
from nova_pinning.agent import cache_control
from nova_pinning.agent import cache_model
from nova_pinning.agent import home_domains
from nova_pinning.agent import interrupts
from nova_pinning import cpuset
from nova_pinning.host import agent_record

# Bytes a second that a guest sends and receives.
_MUCH_TRAFFIC = 10e6
# Memory that is worth staying with, in bytes.
_MUCH = 64 << 20


@dataclasses.dataclass(frozen=True, slots=True)
class Scheme:
    """What the agent is to take care of.

    :param cache: caches and memory bandwidth
    :param interrupts: what serves a guest near it (the static scheme)
    :param floating: homes for floating guests (the dynamic scheme)
    :param kernel_knows_caches: whether the kernel's own scheduler keeps the
        threads of a process in one L3 domain
    """

    cache: bool = True
    interrupts: bool = True
    floating: bool = True
    kernel_knows_caches: bool = False

    def notes(self) -> Iterator[str]:
        """What is left to the kernel, and why."""
        if self.floating and self.kernel_knows_caches:
            yield ('floating guests that fit into one L3 domain are left to '
                   "the kernel's own cache-aware scheduling "
                   '(CONFIG_SCHED_CACHE)')


@dataclasses.dataclass(frozen=True, slots=True)
class Activity:
    """What a guest did lately.

    :param busy_cpus: how many CPUs its vCPUs were busy on, None if it is new
    :param traffic: bytes a second, sent and received
    :param memory: bytes by NUMA node, {} if that is not known
    """

    busy_cpus: float | None = None
    traffic: float = 0.0
    memory: Mapping[int, int] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, slots=True)
class DesiredState:
    """What there is to be.

    :param settings: CPUs of whatever is to have others than by itself
    :param requests: the groups that guests are to have
    """

    settings: Mapping[agent_record.Setting, cpuset.CpuSet]
    requests: tuple[cache_model.CacheRequest, ...]


def decide(
    host: agent_model.AgentHost, guests: Iterable[agent_model.AgentGuest],
    scheme: Scheme, homes: home_domains.HomeDomains,
    activity: Mapping[str, Activity],
    present: Mapping[agent_record.Setting, cpuset.CpuSet], now: float,
) -> DesiredState:
    """Work out what there is to be.

    :param guests: in the order in which they came
    :param homes: changes with each decision
    :param activity: by UUID
    :param present: where the interrupts of network cards are now
    :param now: seconds since the machine was booted
    """
    guests = tuple(guests)
    settings: dict[agent_record.Setting, cpuset.CpuSet] = {}
    if scheme.floating:
        at_home = _at_home(host, guests, scheme, homes, activity, present,
                           now)
        for guest in guests:
            settings |= dict.fromkeys(
                (agent_model.thread(guest, tid) for tid in sorted(
                    guest.vcpu_tasks | guest.emulator_tasks | guest.vhost)),
                at_home[guest.uuid]) if guest.uuid in at_home else {}
        guests = tuple(
            dataclasses.replace(guest, vcpus=dict.fromkeys(
                guest.vcpus, at_home[guest.uuid]))
            if guest.uuid in at_home else guest for guest in guests)
    if scheme.interrupts:
        settings |= interrupts.desired(host, guests, present)
    requests = tuple(
        _request(host, guest) for guest in guests
        if guest.wishes.l3_ways or guest.wishes.memory_bandwidth
    ) if scheme.cache else ()
    return DesiredState(settings, requests)


def _request(host: agent_model.AgentHost,
             guest: agent_model.AgentGuest) -> cache_model.CacheRequest:
    cpus = guest.cpus or host.shared_cpus
    return cache_model.CacheRequest(
        cache_control.group_name(guest.uuid), guest.wishes.l3_ways,
        host.domains_of(cpus), guest.wishes.memory_bandwidth, guest.tasks)


def _at_home(
    host: agent_model.AgentHost, guests: Iterable[agent_model.AgentGuest],
    scheme: Scheme, homes: home_domains.HomeDomains,
    activity: Mapping[str, Activity],
    present: Mapping[agent_record.Setting, cpuset.CpuSet], now: float,
) -> dict[str, cpuset.CpuSet]:
    """CPUs of the homes of guests that float, by UUID.

    Their threads are kept there behind the back of libvirt. What libvirt is
    told stands in the guest's XML, which nova hands on to the destination of
    a live migration with all pins of a guest without a NUMA topology.
    """
    floating = {guest.uuid: guest for guest in guests
                if guest.cpus and guest.cpus.issubset(host.shared_cpus)
                and not guest.is_pinned}
    domains = {domain: cpus & host.shared_cpus
               for domain, cpus in host.l3_domains.items()}
    near = _near(host, activity, present)
    chosen = homes.decide(now, domains, {
        uuid: home_domains.FloatingGuest(
            len(guest.vcpus), guest.cpus,
            activity.get(uuid, Activity()).busy_cpus,
            near.get(uuid, agent_model.NO_CPUS),
            _with_memory(host, activity.get(uuid, Activity()).memory))
        for uuid, guest in floating.items()}, scheme.kernel_knows_caches)
    return {uuid: cpuset.union(domains[domain] for domain in home)
            & floating[uuid].cpus for uuid, home in chosen.items()}


def _with_memory(host: agent_model.AgentHost,
                 memory: Mapping[int, int]) -> cpuset.CpuSet:
    """CPUs of the NUMA node that has most of a guest's memory."""
    node, size = max(memory.items(), key=lambda item: item[1],
                     default=(0, 0))
    if size < _MUCH or 2 * size <= sum(memory.values()):
        return agent_model.NO_CPUS
    return host.nodes.get(node, agent_model.NO_CPUS)


def _near(
    host: agent_model.AgentHost, activity: Mapping[str, Activity],
    present: Mapping[agent_record.Setting, cpuset.CpuSet],
) -> dict[str, cpuset.CpuSet]:
    """L3 domains where packets are handled, for guests with much traffic.

    :returns: their CPUs, by UUID
    """
    handlers = cpuset.union(
        present.get(agent_model.interrupt(number), agent_model.NO_CPUS)
        for nic in host.nics for number in nic.interrupts)
    near = cpuset.union(host.l3_domains[domain]
                        for domain in host.domains_of(handlers))
    return {uuid: near for uuid, what in activity.items()
            if what.traffic >= _MUCH_TRAFFIC}
