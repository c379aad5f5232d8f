# SPDX-License-Identifier: Apache-2.0
"""A host as a file describes it: its hardware, and how nova is set up there.

``model.Host`` is what the engine needs of it; this is what people write,
discover and draw.
"""

import collections
from collections.abc import Mapping
import dataclasses

from nova_pinning.admission import devices
from nova_pinning import cpuset
from nova_pinning import errors
from nova_pinning.host import hardware
from nova_pinning.host import plan_model

# As PCI-SIG has it.
_NVIDIA = '10de'


@dataclasses.dataclass(frozen=True, slots=True)
class NumaNode:
    """One NUMA node. All CPUs here are online.

    :param cores: for every core the ids of its threads, ascending
    :param memory_mib: all memory of the node, huge pages included
    :param huge_pages: number of pages by page size in KiB, without the
        system's small pages
    :param l3_domains: the CPUs that share each last-level cache; may reach
        beyond the node, () if not known
    :param distances: to each node of the host in their order, () if unknown
    :param gpu: the address of the GPU whose memory it is, '' if of none or
        that is not known
    """

    id: int
    socket: int
    cores: tuple[tuple[int, ...], ...]
    memory_mib: int
    huge_pages: Mapping[int, int] = dataclasses.field(default_factory=dict)
    l3_domains: tuple[cpuset.CpuSet, ...] = ()
    distances: tuple[int, ...] = ()
    gpu: str = ''

    @property
    def cpus(self) -> cpuset.CpuSet:
        return cpuset.CpuSet(cpu for core in self.cores for cpu in core)


@dataclasses.dataclass(frozen=True, slots=True)
class PciDevice:
    """A PCI device that may be passed through, or that serves the host.

    :param address: '0000:3b:00.0'
    :param vendor_id: four hexadecimal digits, as is product_id
    :param numa_node: None if it belongs to none
    :param alias: the name under which flavors ask for it, '' if none does,
        and it serves the host
    :param driver: of the kernel, '' if it has none
    :param vfio_driver: of the kernel for a guest to get it: 'vfio-pci', or a
        variant of that; '' if it is not known
    :param names: of its network interfaces or its disks: ('eth0',),
        ('nvme0n1',)
    :param iommu_group: None if it is in none
    :param queues: how many queues it has to spread its interrupts over; for
        a NIC the larger number of receive and transmit queues
    :param interrupts: their numbers, which change when the host is booted
    :param speed_mbps: of its links together, for a NIC that is up, else 0
    :param physical_function: the address of the device of which this is a
        virtual function (SR-IOV), '' if it is none
    :param in_use: what the host itself does with it, such as 'mounted on /',
        '' if nothing is known
    :param parent: the address of the bridge above it, or the kernel's name of
        its root bus, 'pci0000:3a'; '' if it is not known
    :param companions: other functions in its IOMMU group that are no bridges
        and of which the host's description has no more
    :param sriov_totalvfs: how many virtual functions it could have, None if
        it can have none or that is not known
    :param bars_kib: what it wants of memory addresses, each region (BAR) of
        1 KiB or more; None if it is not known
    :param reset_methods: how the kernel can reset it: 'flr', 'bus'; () if it
        cannot, None if it is not known
    :param rdma_devices: names: ('mlx5_0',)
    :param namespaces_mib: how large each of its disks is, by name
    :param mdev_types: mediated devices that it can be divided into
    :param vgpu_types: the same of a virtual function whose driver has no
        mediated devices
    :param vgpu_type: the id of the type that a virtual function has now
    :param resource_class: by which Placement is to count it, '' for nova's own
    :param traits: of its provider in Placement, one for each group in which
        it is sold
    :param mdev_type: the type that nova is to divide it into, '' for none
    :param mig_instances: how many GPU instances (MIG) there are, None if the
        driver does not tell
    """

    address: str
    vendor_id: str
    product_id: str
    numa_node: int | None
    alias: str = ''
    kind: hardware.PciKind = hardware.PciKind.OTHER
    driver: str = ''
    vfio_driver: str = ''
    names: tuple[str, ...] = ()
    physical_function: str = ''
    iommu_group: int | None = None
    queues: int = 0
    interrupts: tuple[int, ...] = ()
    speed_mbps: int = 0
    in_use: str = ''
    parent: str = ''
    companions: tuple[str, ...] = ()
    sriov_totalvfs: int | None = None
    bars_kib: tuple[int, ...] | None = None
    reset_methods: tuple[str, ...] | None = None
    rdma_devices: tuple[str, ...] = ()
    namespaces_mib: Mapping[str, int] = dataclasses.field(
        default_factory=dict)
    mdev_types: tuple[hardware.VirtualGpuType, ...] = ()
    vgpu_types: tuple[hardware.VirtualGpuType, ...] = ()
    vgpu_type: str = ''
    mig_instances: int | None = None
    resource_class: str = ''
    traits: tuple[str, ...] = ()
    mdev_type: str = ''


@dataclasses.dataclass(frozen=True, slots=True)
class NovaSettings:
    """What matters of the nova.conf of one host.

    :param dedicated_cpus: [compute] cpu_dedicated_set, None if unset
    :param shared_cpus: [compute] cpu_shared_set, None if unset
    :param reserved_huge_pages: pages kept from guests, by (node id, page
        size in KiB)
    :param packs_cells: [compute] packing_host_numa_cells_allocation_strategy,
        None if the file does not say
    """

    dedicated_cpus: cpuset.CpuSet | None = None
    shared_cpus: cpuset.CpuSet | None = None
    cpu_allocation_ratio: float = 1.0
    ram_allocation_ratio: float = 1.0
    reserved_memory_mib: int = 0
    reserved_huge_pages: Mapping[tuple[int, int], int] = dataclasses.field(
        default_factory=dict)
    packs_cells: bool | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class CpuModel:
    """What the CPUs are, as libvirt names it.

    :param arch: x86_64, aarch64, ...
    :param model: libvirt's name, 'Cascadelake-Server'
    :param features: beyond the model's own, sorted
    :param maxphysaddr_bits: of a physical address, 0 if that is not known
    """

    arch: str = 'x86_64'
    model: str = ''
    vendor: str = ''
    features: tuple[str, ...] = ()
    maxphysaddr_bits: int = 0


@dataclasses.dataclass(frozen=True, slots=True)
class HostDescription:
    """A whole host.

    :param nodes: by id
    :param traits: CUSTOM_* traits that its resource provider carries
    :param offline_cpus: CPUs that are there, but switched off; they are in no
        node
    :param core_kinds: () if all cores are alike
    :param pci_bridges: those on the way to any of the devices
    :param nvlinks: None if it is not known whether there are any
    :param gpu_partitions: () if there are none or that is not known
    :param resctrl: what of the caches can be divided among guests, None if
        nothing can or nobody has looked
    :param plan: what becomes of the CPUs, None if nobody has planned that.
        What a plan says of nodes' huge pages, of nova and of traits is what
        is to be, not what was found.
    :param where: the file it was read from
    """

    name: str
    nodes: tuple[NumaNode, ...]
    _: dataclasses.KW_ONLY
    description: str = ''
    cpu_model: CpuModel = CpuModel()
    offline_cpus: cpuset.CpuSet = cpuset.CpuSet()
    dies: tuple[hardware.Die, ...] = ()
    caches: tuple[hardware.Caches, ...] = ()
    core_kinds: tuple[hardware.CoreKind, ...] = ()
    pci_devices: tuple[PciDevice, ...] = ()
    pci_bridges: tuple[hardware.PciBridge, ...] = ()
    nvlinks: tuple[hardware.NvLinks, ...] | None = None
    gpu_partitions: tuple[hardware.GpuPartition, ...] = ()
    resctrl: hardware.Resctrl | None = None
    system: hardware.System = hardware.System()
    nova: NovaSettings = NovaSettings()
    traits: frozenset[str] = frozenset()
    plan: plan_model.HostPlan | None = None
    where: errors.Location = dataclasses.field(
        default=errors.Location(''), compare=False)

    @property
    def cpus(self) -> cpuset.CpuSet:
        """All CPUs that are online."""
        return cpuset.union(node.cpus for node in self.nodes)

    @property
    def has_threads(self) -> bool:
        """Whether nova-compute reports hardware threads as a trait."""
        return any(len(core) > 1 for node in self.nodes for core in node.cores)

    def sockets(self, cpus: cpuset.CpuSet | None = None) -> tuple[int, ...]:
        """The sockets that CPUs are in, by the kernel's ids, ascending.

        A node has one; where it reaches over several, its dies tell them.

        :param cpus: None for all
        """
        ids = set()
        for node in self.nodes:
            left = node.cpus if cpus is None else node.cpus & cpus
            for die in self.dies:
                if die.cpus & left:
                    ids.add(die.socket)
                    left -= die.cpus
            if left:
                ids.add(node.socket)
        return tuple(sorted(ids))

    @property
    def nvidia_gpus(self) -> tuple[PciDevice, ...]:
        """Those between which there may be NVLinks: whole ones, by address."""
        return tuple(device for device in self.pci_devices
                     if device.kind is hardware.PciKind.GPU
                     and device.vendor_id == _NVIDIA
                     and not device.physical_function)

    def device_type(self, device: PciDevice) -> str:
        """What nova-compute takes a device for: 'type-VF' and so on.

        See nova.virt.libvirt.host.Host._get_pcidev_info.
        """
        if device.physical_function:
            return devices.VIRTUAL
        has_functions = device.sriov_totalvfs or any(
            other.physical_function == device.address
            for other in self.pci_devices)
        return devices.PHYSICAL if has_functions else devices.STANDARD

    def bridges_above(self, parent: str) -> tuple[hardware.PciBridge, ...]:
        """The bridges on the way to a root bus.

        :param parent: of a device, or a bridge, which is then the first
        """
        bridges = {bridge.address: bridge for bridge in self.pci_bridges}
        found = []
        while bridge := bridges.pop(parent, None):
            found.append(bridge)
            parent = bridge.parent
        return tuple(found)

    def switch_of(self, parent: str) -> str:
        """The address of the switch that something is behind, '' if of none.

        A switch goes by its upstream port. Where that of a bridge is not
        known, it is one with a downstream port or several bridges right below
        it, unless it is on a root bus.

        :param parent: of a device, or a bridge
        """
        below = collections.Counter(
            bridge.parent for bridge in self.pci_bridges)
        below.update(bridge.parent for bridge in self.pci_bridges
                     if bridge.port is hardware.PciPort.DOWNSTREAM)
        above = self.bridges_above(parent)
        return next((
            bridge.address for bridge in above
            if bridge.port is hardware.PciPort.UPSTREAM
            or bridge.port is None and below[bridge.address] > 1
            and bridge is not above[-1]), '')
