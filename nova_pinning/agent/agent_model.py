# SPDX-License-Identifier: Apache-2.0
"""A host and its guests as the agent sees them, and what it changes there."""

from collections.abc import Mapping
import dataclasses

from nova_pinning import cpuset
from nova_pinning.host import agent_record

NO_CPUS = cpuset.CpuSet()


@dataclasses.dataclass(frozen=True, slots=True)
class Wishes:
    """What a guest's flavor asks of its host beyond nova.

    :param l3_ways: ways of each L3 cache that it runs on, for itself
    :param memory_bandwidth: in per cent, or MiB/s where resctrl is mounted
        with mba_MBps; 0 for no limit
    :param problems: what could not be understood
    """

    l3_ways: int = 0
    memory_bandwidth: int = 0
    problems: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class AgentGuest:
    """A running guest.

    :param pid: of its QEMU, which is another one after a hard reboot
    :param vcpus: the CPUs that libvirt was told for each vCPU, empty for all
    :param emulator_cpus: likewise for its emulator threads
    :param emulator_group: the file with the CPUs of the control group that
        libvirt has made for these, '' if it has made none
    :param tasks: all its threads
    :param vcpu_tasks: those that are vCPUs
    :param vhost: those that move packets for it
    :param emulator_tasks: those of QEMU that neither run a vCPU nor are an
        I/O thread
    :param hostdevs: PCI addresses of devices that it has for itself
    :param interfaces: how many network interfaces it has that the host serves
    :param taps: names of those interfaces on the host
    """

    uuid: str
    name: str
    pid: int
    vcpus: Mapping[int, cpuset.CpuSet]
    emulator_cpus: cpuset.CpuSet = NO_CPUS
    emulator_group: str = ''
    tasks: frozenset[int] = frozenset()
    vcpu_tasks: frozenset[int] = frozenset()
    vhost: frozenset[int] = frozenset()
    emulator_tasks: frozenset[int] = frozenset()
    hostdevs: frozenset[str] = frozenset()
    interfaces: int = 0
    taps: tuple[str, ...] = ()
    wishes: Wishes = Wishes()

    @property
    def cpus(self) -> cpuset.CpuSet:
        """All that its vCPUs may run on, empty if any of them may anywhere."""
        if not all(self.vcpus.values()):
            return NO_CPUS
        return cpuset.union(self.vcpus.values())

    @property
    def is_pinned(self) -> bool:
        """Whether each vCPU has one CPU."""
        return bool(self.vcpus) and all(
            len(cpus) == 1 for cpus in self.vcpus.values())


@dataclasses.dataclass(frozen=True, slots=True)
class ServingNic:
    """A network card that serves the host, with its queues.

    :param interrupts: by number, in the order of its queues
    :param names: its interfaces
    """

    address: str
    names: tuple[str, ...]
    interrupts: tuple[int, ...]
    queues: Mapping[str, int] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, slots=True)
class AgentHost:
    """What the agent has to know of a host.

    :param l3_domains: CPUs that share each L3 cache, by the kernel's id
    :param nodes: CPUs of each NUMA node
    :param host_cpus: those of the plan that are for the host itself
    :param shared_cpus: those of the plan that guests float over
    :param dedicated_cpus: those of the plan that guests are pinned to
    :param interrupts: numbers of interrupts by the PCI address of a device,
        for devices of guests
    """

    l3_domains: Mapping[int, cpuset.CpuSet]
    nodes: Mapping[int, cpuset.CpuSet]
    host_cpus: cpuset.CpuSet
    shared_cpus: cpuset.CpuSet
    dedicated_cpus: cpuset.CpuSet
    nics: tuple[ServingNic, ...] = ()
    interrupts: Mapping[str, tuple[int, ...]] = dataclasses.field(
        default_factory=dict)

    def domains_of(self, cpus: cpuset.CpuSet) -> frozenset[int]:
        """The L3 domains that some CPUs are in."""
        return frozenset(domain for domain, members in self.l3_domains.items()
                         if not members.isdisjoint(cpus))

    def near(self, cpus: cpuset.CpuSet,
             *pools: cpuset.CpuSet) -> cpuset.CpuSet:
        """CPUs of the first pool that has some that share an L3 with these.

        If none has, those on the same NUMA nodes; empty if there are none
        either.
        """
        for groups in (self.l3_domains, self.nodes):
            around = cpuset.union(members for members in groups.values()
                                  if not members.isdisjoint(cpus))
            for pool in pools:
                if pool & around:
                    return pool & around
        return NO_CPUS


def serving(guest: AgentGuest,
            cpus: cpuset.CpuSet) -> dict[agent_record.Setting, cpuset.CpuSet]:
    """CPUs for all threads that serve a guest: emulator threads and vhost.

    Their control group comes first, since it keeps them off other CPUs.
    """
    settings = [thread(guest, tid)
                for tid in sorted(guest.vhost | guest.emulator_tasks)]
    if guest.emulator_group:
        settings.insert(0, agent_record.Setting(
            agent_record.Kind.GROUP, guest.emulator_group))
    return dict.fromkeys(settings, cpus)


def thread(guest: AgentGuest, tid: int) -> agent_record.Setting:
    return agent_record.Setting(agent_record.Kind.THREAD, f'{guest.pid}/{tid}')


def interrupt(number: int) -> agent_record.Setting:
    return agent_record.Setting(agent_record.Kind.INTERRUPT, str(number))
