# SPDX-License-Identifier: Apache-2.0
"""What a check looks at: a host as it is, gathered before it is judged."""

from collections.abc import Iterator
from collections.abc import Mapping
import dataclasses
from typing import Any

from nova_pinning import cpuset
from nova_pinning.host import agent_record
from nova_pinning.host import domain_xml
from nova_pinning.host import host_model
from nova_pinning.host import plan_model
from nova_pinning.host import qemu_process
from nova_pinning.host import words


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class HostEvidence:
    """Where on the host a finding shows. What does not apply is left out.

    :param pid: of the process
    :param tid: of the thread
    :param name: of the thread, service, device or file
    :param interrupt: its number
    :param node: NUMA node
    :param cpus: the CPUs that it is about
    :param expected_cpus: the CPUs that it should be
    :param run_seconds: how long it ran on CPUs that are not for it
    :param is_estimate: whether run_seconds is one, because nobody can tell
        when exactly the thread changed CPUs
    :param count: how often it happened
    """

    pid: int | None = None
    tid: int | None = None
    name: str = ''
    interrupt: int | None = None
    node: int | None = None
    cpus: cpuset.CpuSet | None = None
    expected_cpus: cpuset.CpuSet | None = None
    run_seconds: float | None = None
    is_estimate: bool = False
    count: int | None = None

    def __str__(self) -> str:
        """'pid 7 tid 9 CPU 1/KVM: CPUs 0-3, should be 2'."""
        what = ' '.join(filter(None, (
            *(f'{name} {value}' for name, value in (
                ('pid', self.pid), ('tid', self.tid),
                ('interrupt', self.interrupt)) if value is not None),
            self.name.removesuffix(':'),
            '' if self.node is None else f'node {self.node}')))
        return ': '.join(filter(None, (what, ', '.join(self._facts()))))

    def _facts(self) -> Iterator[str]:
        if self.cpus is not None:
            yield words.cpus(self.cpus)
        if self.expected_cpus is not None:
            yield f'should be {self.expected_cpus or "none"}'
        if self.run_seconds is not None:
            about = 'about ' if self.is_estimate else ''
            yield f'{about}{words.duration(self.run_seconds)}'
        if self.count is not None:
            yield 'once' if self.count == 1 else f'{self.count:,} times'

    def as_dict(self) -> dict[str, Any]:
        """The same for JSON; CPUs are lists as the kernel writes them."""
        values = {field.name: getattr(self, field.name)
                  for field in dataclasses.fields(self)}
        return {name: str(value) if isinstance(value, cpuset.CpuSet)
                else value for name, value in values.items()}


@dataclasses.dataclass(frozen=True, slots=True)
class Unread:
    """Something that could not be looked at.

    :param path: a file, or what else it is
    :param reason: 'permission denied'
    :param hides: what therefore is not known
    """

    path: str
    reason: str
    hides: str


@dataclasses.dataclass(frozen=True, slots=True)
class Container:
    """A container, as its engine knows it.

    :param engine: 'docker', 'podman', 'containerd' or 'cri-o', '' if it
        cannot be told
    :param name: the first digits of the id where it cannot be read
    """

    id: str
    engine: str
    name: str


@dataclasses.dataclass(frozen=True, slots=True)
class HostProcess:
    """A process, or a thread of the kernel.

    :param name: its comm
    :param arguments: its command line; () for the kernel's own
    :param unit: the systemd unit or slice that its control group is named
        after, such as 'nova-compute.service', '' if there is none
    :param may_move: whether anybody but the kernel can set its CPUs
        (PF_NO_SETAFFINITY is not set)
    :param container: None if it is in none
    """

    pid: int
    name: str
    arguments: tuple[str, ...]
    unit: str
    threads: tuple[qemu_process.QemuThread, ...]
    may_move: bool = True
    container: Container | None = None

    @property
    def of_kernel(self) -> bool:
        return not self.arguments


@dataclasses.dataclass(frozen=True, slots=True)
class RunningGuest:
    """A running QEMU, and what libvirt was told of it.

    :param name: libvirt's, or else what its command line says
    :param domain: as it is now, from /run/libvirt/qemu; None if libvirt knows
        nothing of it, or nobody may look
    :param is_stranger: whether libvirt knows nothing of it
    :param is_asked_for: whether findings about it are wanted
    :param is_starting: whether libvirt has not pinned all of it yet, so that
        there is nothing to find
    :param unit: as that of a process; helpers that libvirt starts for it
        (swtpm, virtiofsd) have the same
    :param container: that libvirt runs in, None if in none
    """

    qemu: qemu_process.QemuProcess
    name: str
    uuid: str
    domain: domain_xml.DomainXml | None
    is_stranger: bool = False
    is_asked_for: bool = True
    is_starting: bool = False
    unit: str = ''
    container: Container | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Interrupt:
    """An interrupt line.

    :param names: of those that handle it: ('eth0-rx-0',); () if nobody does,
        so that it cannot arrive
    :param device: PCI address of the device it is of, '' if of none
    :param cpus: where it is allowed (smp_affinity_list)
    :param effective_cpus: where it goes; empty if the kernel does not tell
    :param managed: whether the kernel alone says where it goes, and writing
        its affinity fails
    """

    number: int
    names: tuple[str, ...]
    device: str
    cpus: cpuset.CpuSet
    effective_cpus: cpuset.CpuSet
    managed: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class Irqbalance:
    """A running irqbalance.

    :param banned_cpus: those that it was told to keep interrupts off; None if
        nothing was said, so that it bans isolated and nohz_full ones
    """

    pid: int
    banned_cpus: cpuset.CpuSet | None


@dataclasses.dataclass(frozen=True, slots=True)
class NovaConf:
    """nova.conf as nova-compute loads it.

    :param files: those that were read, in that order
    :param settings: what of it a plan says as well
    :param offered_devices: addresses of the plan's devices that [pci]
        device_spec lets guests have, None if nobody has asked
    :param has_file_backed_memory: whether guests' memory is in files
    :param manages_cpu_power: whether nova switches dedicated CPUs that no
        guest uses off, or their governor over
    :param pin_set: vcpu_pin_set, which outweighs cpu_shared_set: pinned and
        floating vCPUs are on it alike
    """

    files: tuple[str, ...]
    settings: host_model.NovaSettings
    offered_devices: frozenset[str] | None = None
    has_file_backed_memory: bool = False
    manages_cpu_power: bool = False
    pin_set: cpuset.CpuSet = cpuset.CpuSet()


@dataclasses.dataclass(frozen=True, slots=True)
class HostFacts:
    """A host as it is.

    :param host: what discovering it says now
    :param processes: all, but for those of guests
    :param default_interrupt_cpus: where new interrupts are allowed
        (/proc/irq/default_smp_affinity), None if not known
    :param irqbalance: None if none runs, or its settings cannot be read
    :param workqueue_cpus: where the kernel's unbound work runs, None if not
        known
    :param numa_balancing: whether the kernel moves memory between nodes by
        itself
    :param merges_pages: whether the kernel merges equal pages (KSM)
    :param levers: what the files of the plan's levers hold, by path, as far
        as the kernel has them
    :param clocksource: what the kernel tells time by, '' if not known
    :param partition: of machine.slice, as cpuset.cpus.partition has it:
        'member', 'isolated', 'isolated invalid (...)'; '' if not known
    :param partition_cpus: what it has (cpuset.cpus.effective)
    :param free_pages: free huge pages by node and size in KiB
    :param nova_conf: None if it could not be loaded, or cannot be read
    :param nova_conf_error: what is wrong with it, if nova-compute could not
        load it either; '' if nothing is known to be
    :param outdated: processes of nova-compute that were started before the
        files of its nova.conf were last changed
    :param agent: what nova-pinning agent has changed here
    :param unread: what could not be looked at
    """

    host: host_model.HostDescription
    processes: tuple[HostProcess, ...] = ()
    guests: tuple[RunningGuest, ...] = ()
    interrupts: tuple[Interrupt, ...] = ()
    default_interrupt_cpus: cpuset.CpuSet | None = None
    irqbalance: Irqbalance | None = None
    workqueue_cpus: cpuset.CpuSet | None = None
    numa_balancing: bool = False
    merges_pages: bool = False
    levers: Mapping[str, str] = dataclasses.field(default_factory=dict)
    clocksource: str = ''
    partition: str = ''
    partition_cpus: cpuset.CpuSet = cpuset.CpuSet()
    free_pages: Mapping[tuple[int, int], int] = dataclasses.field(
        default_factory=dict)
    nova_conf: NovaConf | None = None
    nova_conf_error: str = ''
    outdated: tuple[HostProcess, ...] = ()
    agent: agent_record.AgentRecord = dataclasses.field(
        default_factory=agent_record.AgentRecord)
    unread: tuple[Unread, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class CheckedHost:
    """A host as it was planned, and as it is.

    :param planned: has a plan
    :ivar online_cpus: those that the host really has
    """

    planned: host_model.HostDescription
    facts: HostFacts
    # Asked for thousands of times, and gathered from all cores.
    online_cpus: cpuset.CpuSet = dataclasses.field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, 'online_cpus', self.facts.host.cpus)

    @property
    def plan(self) -> plan_model.HostPlan:
        assert self.planned.plan is not None
        return self.planned.plan

    @property
    def is_other_machine(self) -> bool:
        """Whether the plan is for quite another machine.

        Then more than half of the CPUs of one of the two are not those of
        the other, be they online or not.
        """
        planned = self.planned.cpus | self.planned.offline_cpus
        there = self.online_cpus | self.facts.host.offline_cpus
        return 2 * len(planned & there) < max(len(planned), len(there))

    @property
    def dedicated_cpus(self) -> cpuset.CpuSet:
        """CPUs for pinned vCPUs, as planned."""
        return self.planned.nova.dedicated_cpus or cpuset.CpuSet()

    @property
    def shared_cpus(self) -> cpuset.CpuSet:
        """CPUs for floating vCPUs and emulator threads, as planned."""
        return self.planned.nova.shared_cpus or cpuset.CpuSet()

    @property
    def taken_cpus(self) -> cpuset.CpuSet:
        """Those that nobody is to run on who was not put there."""
        return self.dedicated_cpus | self.plan.poll_cpus

    @property
    def guests(self) -> tuple[RunningGuest, ...]:
        """Those that findings are wanted about."""
        return tuple(
            guest for guest in self.facts.guests if guest.is_asked_for)
