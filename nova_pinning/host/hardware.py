# SPDX-License-Identifier: Apache-2.0
"""What only a look at a machine tells: caches, dies, devices, the kernel.

A host file need not have any of it. ``nova-pinning host discover`` writes it,
and planning a host's CPUs makes use of it.
"""

from collections.abc import Collection
from collections.abc import Mapping
import dataclasses
import enum
import re

from nova_pinning import cpuset
from nova_pinning.host import cache_masks

_RELEASE = re.compile(r'(\d{1,4})\.(\d{1,4})', re.ASCII)


#: On aarch64 sizes of huge pages tell that of the smallest, all in KiB: see
#: Documentation/arch/arm64/hugetlbpage.rst of the kernel.
_SMALL_OF_HUGE = {64: 4, 524288: 64, 32768: 16}


def small_page_kib(
        arch: str, huge_pages_kib: Collection[int]) -> tuple[int, str]:
    """The size of a machine's smallest pages where no file tells it.

    :param huge_pages_kib: sizes of the huge pages that its kernel has
    :returns: with what is to be said where it is but likely, '' else
    """
    if arch == 'aarch64':
        for huge, small in _SMALL_OF_HUGE.items():
            if huge in huge_pages_kib:
                return small, ''
    is_known = arch not in ('aarch64', 'ppc64le', 'ppc64')
    small = 64 if arch.startswith('ppc64') else 4
    return small, '' if is_known else (
        f'nothing tells the size of the smallest pages: {small} KiB are taken '
        f'for {arch}; if getconf PAGESIZE on the machine prints another, '
        'correct page_size of its system')


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


@dataclasses.dataclass(frozen=True, slots=True)
class CacheAllocation:
    """How L3 caches can be divided: /sys/fs/resctrl/info/L3.

    The names are the kernel's, see Documentation/filesystems/resctrl.rst. A
    bit of a mask is a *way* of the cache.

    :param cbm_mask: all ways of a cache, a mask
    :param min_cbm_bits: the fewest ways that anybody can be given
    :param shareable_bits: the ways that devices use as well, a mask
    :param num_closids: how many groups there can be, that of everybody else
        among them
    :param has_cdp: whether code and data have masks of their own
    """

    cbm_mask: int
    min_cbm_bits: int = 1
    shareable_bits: int = 0
    num_closids: int = 1
    has_cdp: bool = False

    @property
    def ways(self) -> int:
        """How many ways each cache has."""
        return self.cbm_mask.bit_length()

    @property
    def guest_ways(self) -> int:
        """How many ways of a cache guests can have for themselves.

        What devices use is nobody's alone, and everybody else keeps the
        fewest that can be given. Guests have one run of bits beside these.
        """
        first, end = cache_masks.longest_run(self.cbm_mask & ~cache_masks.kept(
            self.ways, max(1, self.min_cbm_bits), self.shareable_bits))
        return end - first


@dataclasses.dataclass(frozen=True, slots=True)
class BandwidthAllocation:
    """How memory bandwidth can be limited: /sys/fs/resctrl/info/MB.

    :param min_bandwidth: the least that somebody can be limited to, in per
        cent
    :param bandwidth_gran: the steps in which that can be done
    :param num_closids: as with caches
    """

    min_bandwidth: int
    bandwidth_gran: int = 1
    num_closids: int = 1


@dataclasses.dataclass(frozen=True, slots=True)
class Resctrl:
    """What the kernel can divide among guests: /sys/fs/resctrl.

    :param domains: the online CPUs of each L3 cache by the kernel's id, which
        is what a schemata names it by
    :param l3: None if the caches cannot be divided
    :param mb: None if memory bandwidth cannot be limited
    """

    domains: Mapping[int, cpuset.CpuSet]
    l3: CacheAllocation | None = None
    mb: BandwidthAllocation | None = None

    @property
    def guest_groups(self) -> int:
        """How many guests can have a group of their own."""
        return min((limits.num_closids for limits in (self.l3, self.mb)
                    if limits), default=1) - 1


class PciKind(enum.StrEnum):
    """The kinds of PCI devices that matter here."""

    NIC = 'nic'
    NVME = 'nvme'
    GPU = 'gpu'
    NVSWITCH = 'nvswitch'
    OTHER = 'other'


class PciPort(enum.StrEnum):
    """What a bridge is in PCI Express, by libvirt's words."""

    ROOT = 'root-port'
    UPSTREAM = 'switch-upstream-port'
    DOWNSTREAM = 'switch-downstream-port'
    TO_PCI = 'to-pci-bridge'


@dataclasses.dataclass(frozen=True, slots=True)
class PciBridge:
    """A bridge on the way to a device.

    :param parent: the address of the bridge above it, or the kernel's name of
        the root bus: 'pci0000:3a'
    :param port: None if it is not known
    :param acs: whether it sends what comes from one device for another up to
        the IOMMU (Access Control Services), None if it is not known
    :param iommu_group: None if it is in none
    """

    address: str
    parent: str
    port: PciPort | None = None
    acs: bool | None = None
    iommu_group: int | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class VirtualGpuType:
    """A kind of virtual devices that a device can be divided into.

    :param id: as the kernel has it: 'nvidia-699' of an mdev type, '1155' of
        a type for a virtual function
    :param name: the maker's: 'NVIDIA A100-20C'
    :param available: how many could be made now, None if it is not told
    """

    id: str
    name: str = ''
    available: int | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class NvLinks:
    """GPUs each two of which have so many NVLinks between them.

    :param addresses: ascending
    """

    addresses: tuple[str, ...]
    links: int


@dataclasses.dataclass(frozen=True, slots=True)
class GpuPartition:
    """GPUs that Fabric Manager can give to a guest with their NVLinks.

    :param id: Fabric Manager's
    :param addresses: ascending
    """

    id: int
    addresses: tuple[str, ...]


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
    :param posted_interrupts: whether interrupts of passed-through devices
        reach a running vCPU without one of the host's CPUs, None if not known
    :param mitigations: what the kernel says of each vulnerability of the
        CPUs, by its name
    :param page_size_kib: of its smallest pages (getconf PAGESIZE): 64 on
        some of aarch64 and ppc64le
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
    posted_interrupts: bool | None = None
    mitigations: Mapping[str, str] = dataclasses.field(default_factory=dict)
    page_size_kib: int = 4

    @property
    def version(self) -> tuple[int, int] | None:
        """Of the kernel, (5, 16), None if it is not known."""
        match = _RELEASE.match(self.kernel)
        return (int(match[1]), int(match[2])) if match else None

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

    @property
    def vulnerable_by_smt(self) -> tuple[str, ...]:
        """What the kernel mitigates, but not between the threads of a core.

        By name, without those in :attr:`vulnerable_to`. See mds.rst, l1tf.rst
        and others in Documentation/admin-guide/hw-vuln.
        """
        open_anyway = self.vulnerable_to
        return tuple(sorted(
            name for name, state in self.mitigations.items()
            if 'smt vulnerable' in state.lower() and name not in open_anyway))
