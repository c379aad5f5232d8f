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

"""What a check looks at: a host as it is, gathered before it is judged."""

from collections.abc import Mapping
import dataclasses

from nova_pinning import cpuset
from nova_pinning.host.check import finding
from nova_pinning.host import domain as domain_module
from nova_pinning.host import model
from nova_pinning.host import qemu_process


@dataclasses.dataclass(frozen=True, slots=True)
class Process:
    """A process, or a thread of the kernel.

    :param name: its comm
    :param arguments: its command line; () for the kernel's own
    :param unit: the systemd unit or slice that its control group is named
        after, such as 'nova-compute.service', '' if there is none
    :param may_move: whether anybody but the kernel can set its CPUs
        (PF_NO_SETAFFINITY is not set)
    """

    pid: int
    name: str
    arguments: tuple[str, ...]
    unit: str
    threads: tuple[qemu_process.Thread, ...]
    may_move: bool = True

    @property
    def of_kernel(self) -> bool:
        return not self.arguments


@dataclasses.dataclass(frozen=True, slots=True)
class Guest:
    """A running QEMU, and what libvirt was told of it.

    :param name: libvirt's, or else what its command line says
    :param domain: as it is now, from /run/libvirt/qemu; None if libvirt knows
        nothing of it, or nobody may look
    :param stored: as it will be when it is started again, from
        /etc/libvirt/qemu; None likewise
    :param is_stranger: whether libvirt knows nothing of it
    :param is_asked_for: whether findings about it are wanted
    :param unit: as that of a process; helpers that libvirt starts for it
        (swtpm, virtiofsd) have the same
    """

    qemu: qemu_process.Process
    name: str
    uuid: str
    domain: domain_module.Domain | None
    stored: domain_module.Domain | None = None
    is_stranger: bool = False
    is_asked_for: bool = True
    unit: str = ''


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
    """

    files: tuple[str, ...]
    settings: model.NovaSettings
    offered_devices: frozenset[str] | None = None
    has_file_backed_memory: bool = False
    manages_cpu_power: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class Facts:
    """A host as it is.

    :param host: what discovering it says now
    :param processes: all, but for those of guests
    :param default_interrupt_cpus: where new interrupts are allowed
        (/proc/irq/default_smp_affinity), None if not known
    :param irqbalance: None if none runs, or its settings must not be read
    :param workqueue_cpus: where the kernel's unbound work runs, None if not
        known
    :param numa_balancing: whether the kernel moves memory between nodes by
        itself
    :param merges_pages: whether the kernel merges equal pages (KSM)
    :param free_pages: free huge pages by node and size in KiB
    :param nova_conf: None if it could not be loaded, or must not be read
    :param nova_conf_error: what is wrong with it, if nova-compute could not
        load it either; '' if nothing is known to be
    :param outdated: processes of nova-compute that were started before the
        files of its nova.conf were last changed
    :param unread: what could not be looked at
    """

    host: model.HostDescription
    processes: tuple[Process, ...] = ()
    guests: tuple[Guest, ...] = ()
    interrupts: tuple[Interrupt, ...] = ()
    default_interrupt_cpus: cpuset.CpuSet | None = None
    irqbalance: Irqbalance | None = None
    workqueue_cpus: cpuset.CpuSet | None = None
    numa_balancing: bool = False
    merges_pages: bool = False
    free_pages: Mapping[tuple[int, int], int] = dataclasses.field(
        default_factory=dict)
    nova_conf: NovaConf | None = None
    nova_conf_error: str = ''
    outdated: tuple[Process, ...] = ()
    unread: tuple[finding.Unread, ...] = ()
