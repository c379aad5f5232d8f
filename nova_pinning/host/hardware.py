# SPDX-License-Identifier: Apache-2.0
"""What only a look at a machine tells: caches, dies, devices, the kernel.

A host file need not have any of it. ``nova-pinning host discover`` writes it,
and planning a host's CPUs makes use of it.
"""

from collections.abc import Mapping
import dataclasses
import enum

from nova_pinning import cpuset


@dataclasses.dataclass(frozen=True, slots=True)
class Die:
    """A die of a socket, where a socket has several.

    :param id: the kernel's number, counted in each socket anew
    """

    socket: int
    id: int
    cpus: cpuset.CpuSet


class CacheKind(enum.StrEnum):
    """What a cache holds."""

    DATA = 'data'
    INSTRUCTION = 'instruction'
    UNIFIED = 'unified'


@dataclasses.dataclass(frozen=True, slots=True)
class Caches:
    """All caches of a host that are alike.

    :param level: 1 for those next to the core
    :param size_kib: of each of them
    :param domains: the online CPUs that share each, ascending
    """

    level: int
    kind: CacheKind
    size_kib: int
    domains: tuple[cpuset.CpuSet, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class CoreKind:
    """CPUs of one kind, on a host that has several ("hybrid").

    :param name: 'performance', 'efficient', or 'capacity-N' where only the
        kernel's cpu_capacity tells them apart
    :param capacity: cpu_capacity, 1024 for the fastest; 0 if not known
    """

    name: str
    cpus: cpuset.CpuSet
    capacity: int = 0


class PciKind(enum.StrEnum):
    """The kinds of PCI devices that matter here."""

    NIC = 'nic'
    NVME = 'nvme'
    GPU = 'gpu'
    OTHER = 'other'


@dataclasses.dataclass(frozen=True, slots=True)
class System:
    """The kernel, and how it was told to run.

    :param kernel: its release, '6.1.0-18-amd64'
    :param command_line: as in /proc/cmdline
    :param isolated_cpus: isolcpus=, as in /sys/devices/system/cpu/isolated
    :param nohz_full_cpus: nohz_full=, likewise
    :param smt: 'on', 'off', 'forceoff', 'notsupported', 'notimplemented', or
        '' if not known: /sys/devices/system/cpu/smt/control
    :param cpufreq_driver: '' if there is none
    :param governors: CPUs by cpufreq governor
    :param virtualization: 'vmx' or 'svm', '' if the CPUs have neither
    :param has_iommu: whether the kernel has put any device into an IOMMU
        group, None if not known
    :param mitigations: what the kernel says of each vulnerability of the
        CPUs, by its name
    """

    kernel: str = ''
    command_line: str = ''
    isolated_cpus: cpuset.CpuSet = cpuset.CpuSet()
    nohz_full_cpus: cpuset.CpuSet = cpuset.CpuSet()
    smt: str = ''
    cpufreq_driver: str = ''
    governors: Mapping[str, cpuset.CpuSet] = dataclasses.field(
        default_factory=dict)
    virtualization: str = ''
    has_iommu: bool | None = None
    mitigations: Mapping[str, str] = dataclasses.field(default_factory=dict)

    @property
    def vulnerable_to(self) -> tuple[str, ...]:
        """What the kernel does nothing about, or not enough, by name.

        Documentation/admin-guide/hw-vuln says how each file puts it. Of some
        it tells what KVM does.
        """
        return tuple(sorted(
            name for name, state in self.mitigations.items()
            if state.removeprefix('KVM: ').lower().startswith(
                ('vulnerable', 'processor vulnerable'))))
