# SPDX-License-Identifier: Apache-2.0
"""The static scheme: what serves a guest runs on CPUs that share its L3.

A packet that a core of the same L3 has handled is still in the cache when
the vCPU reads it (Guo, Liao, Bhuyan: IISWC 2009). But not on the vCPU's own
CPU, which would be taken from the guest.
"""

from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence

from nova_pinning.agent import agent_model
from nova_pinning import cpuset
from nova_pinning.host import agent_record


def desired(
    host: agent_model.AgentHost, guests: Iterable[agent_model.AgentGuest],
    present: Mapping[agent_record.Setting, cpuset.CpuSet],
) -> dict[agent_record.Setting, cpuset.CpuSet]:
    """Where interrupts, queues, emulator threads and vhost belong.

    What is not in the result is left as it is: what no guest needs, and what
    has no CPU near that the plan would let it have.

    :param present: where interrupts are now, so that they stay if they may
    """
    guests = tuple(guests)
    wanted: dict[agent_record.Setting, cpuset.CpuSet] = {}
    for guest in guests:
        if guest.is_pinned and guest.cpus.issubset(host.dedicated_cpus):
            wanted |= _of_pinned(host, guest)
    pools = _pools(host, guests) if host.nics else {}
    for nic in host.nics:
        wanted |= _of_nic(host, nic, pools, present)
    return wanted


def _of_pinned(
    host: agent_model.AgentHost, guest: agent_model.AgentGuest,
) -> dict[agent_record.Setting, cpuset.CpuSet]:
    wanted: dict[agent_record.Setting, cpuset.CpuSet] = {}
    near = host.near(guest.cpus, host.shared_cpus, host.host_cpus)
    emulator = guest.emulator_cpus
    # With hw:emulator_threads_policy=isolate nova has given it a CPU.
    is_isolated = bool(emulator) and emulator.isdisjoint(guest.cpus) and (
        emulator.issubset(host.dedicated_cpus))
    if near and not is_isolated:
        wanted |= agent_model.serving(guest, near)
    for address in guest.hostdevs:
        cpus = host.near(guest.cpus, host.host_cpus, host.shared_cpus)
        for number in host.interrupts.get(address, ()) if cpus else ():
            wanted[agent_model.interrupt(number)] = cpus
    return wanted


def _pools(
    host: agent_model.AgentHost, guests: Iterable[agent_model.AgentGuest],
) -> dict[cpuset.CpuSet, int]:
    """CPUs that could handle packets, and for how many interfaces of guests.

    A guest that floats over several domains counts in each of them.
    """
    pools: dict[cpuset.CpuSet, int] = {}
    for guest in guests:
        for domain in sorted(host.domains_of(guest.cpus)
                             if guest.interfaces else ()):
            near = host.near(host.l3_domains[domain] & guest.cpus,
                             host.host_cpus, host.shared_cpus)
            if near:
                pools[near] = pools.get(near, 0) + guest.interfaces
    return pools


def _of_nic(
    host: agent_model.AgentHost, nic: agent_model.ServingNic,
    pools: Mapping[cpuset.CpuSet, int],
    present: Mapping[agent_record.Setting, cpuset.CpuSet],
) -> dict[agent_record.Setting, cpuset.CpuSet]:
    """Queues by turns where the guests are, as many as they are."""
    if not pools or not nic.interrupts:
        return {}
    settings = [agent_model.interrupt(number) for number in nic.interrupts]
    dealt = _deal(len(settings), pools)
    wanted: dict[agent_record.Setting, cpuset.CpuSet] = {}
    waiting = []
    load: dict[int, int] = {}
    for setting in settings:
        now = present.get(setting, agent_model.NO_CPUS)
        pool = next((pool for pool, left in dealt.items()
                     if left and len(now) == 1 and now.issubset(pool)), None)
        # Where it is already, unless that CPU has more than its part.
        if pool is None or load.get(min(now), 0) >= -(
                -_share(len(settings), pools, pool) // len(pool)):
            waiting.append(setting)
            continue
        dealt[pool] -= 1
        load[min(now)] = load.get(min(now), 0) + 1
        wanted[setting] = now
    for setting in waiting:
        pool = max(dealt, key=lambda pool: (dealt[pool], -min(pool)))
        cpu = min(pool, key=lambda cpu: (load.get(cpu, 0), cpu))
        dealt[pool] -= 1
        load[cpu] = load.get(cpu, 0) + 1
        wanted[setting] = cpuset.CpuSet([cpu])
    return wanted | _packet_steering(host, nic, pools, [
        wanted[setting] for setting in settings])


def _share(queues: int, pools: Mapping[cpuset.CpuSet, int],
           pool: cpuset.CpuSet) -> int:
    return max(1, -(-queues * pools[pool] // sum(pools.values())))


def _deal(queues: int,
          pools: Mapping[cpuset.CpuSet, int]) -> dict[cpuset.CpuSet, int]:
    """Queues by pool, in proportion: the largest remainders get the rest."""
    total = sum(pools.values())
    dealt = {pool: queues * weight // total
             for pool, weight in pools.items()}
    rest = sorted(pools, key=lambda pool: (
        -(queues * pools[pool] % total), min(pool)))
    for pool in rest[:queues - sum(dealt.values())]:
        dealt[pool] += 1
    return dealt


def _packet_steering(
    host: agent_model.AgentHost, nic: agent_model.ServingNic,
    pools: Mapping[cpuset.CpuSet, int], cpus: Sequence[cpuset.CpuSet],
) -> dict[agent_record.Setting, cpuset.CpuSet]:
    """XPS, and RPS where there are fewer queues than caches to serve.

    See the kernel's Documentation/networking/scaling.rst.
    """
    wanted: dict[agent_record.Setting, cpuset.CpuSet] = {}
    ours = host.host_cpus | host.shared_cpus
    everywhere = cpuset.union(pools)
    for path, queue in nic.queues.items():
        if path.endswith('/xps_cpus') and len(cpus) > 1:
            near = host.near(cpus[queue % len(cpus)], ours)
            if near:
                wanted[_queue(path)] = near
        elif path.endswith('/rps_cpus') and len(cpus) < len(pools):
            wanted[_queue(path)] = everywhere
    return wanted


def _queue(path: str) -> agent_record.Setting:
    return agent_record.Setting(agent_record.Kind.QUEUE, path)
