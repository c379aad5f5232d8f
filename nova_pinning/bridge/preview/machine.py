# SPDX-License-Identifier: Apache-2.0
"""Nova's libvirt driver on a host that exists only as a description.

The driver is nova's own; what it would ask libvirt and the kernel is answered
from the description. No libvirt library is needed, and nothing is written.
"""

from collections.abc import Iterator
import contextlib
from typing import Any
from xml.etree import ElementTree

from nova import exception
from nova import objects
from nova.virt import hardware
from nova.virt.libvirt import config as vconfig
from nova.virt.libvirt import driver
from nova.virt.libvirt import host
from nova.virt.libvirt import imagebackend
from nova.virt.libvirt import vif

from nova_pinning import cpuset
from nova_pinning.flavors.checks import guest_topology
from nova_pinning.flavors import guest_machine
from nova_pinning.host import engine
from nova_pinning.host import host_model


def capabilities_xml(description: host_model.HostDescription) -> str:
    """What ``virsh capabilities`` would print, as far as nova reads it."""
    root = ElementTree.Element('capabilities')
    machine = ElementTree.SubElement(root, 'host')
    cpu = ElementTree.SubElement(machine, 'cpu')
    for name in ('arch', 'model', 'vendor'):
        value = getattr(description.cpu_model, name)
        if value:
            ElementTree.SubElement(cpu, name).text = value
    for feature in description.cpu_model.features:
        ElementTree.SubElement(cpu, 'feature', name=feature)
    topology = ElementTree.SubElement(machine, 'topology')
    cells = ElementTree.SubElement(
        topology, 'cells', num=str(len(description.nodes)))
    for node in description.nodes:
        _add_cell(cells, node, description)
    return ElementTree.tostring(root, encoding='unicode')


def _add_cell(cells: ElementTree.Element, node: host_model.NumaNode,
              description: host_model.HostDescription) -> None:
    cell = ElementTree.SubElement(cells, 'cell', id=str(node.id))
    ElementTree.SubElement(cell, 'memory', unit='KiB').text = str(
        node.memory_mib * 1024)
    for pool in engine.page_pools(node, description.system.page_size_kib):
        ElementTree.SubElement(
            cell, 'pages', unit='KiB', size=str(pool.size_kib),
        ).text = str(pool.total)
    cpus = ElementTree.SubElement(cell, 'cpus', num=str(len(node.cpus)))
    threads = sorted((cpu, number, core) for number, core in enumerate(
        node.cores) for cpu in core)
    for cpu, number, core in threads:
        ElementTree.SubElement(
            cpus, 'cpu', id=str(cpu), core_id=str(number),
            socket_id=str(*description.sockets(cpuset.CpuSet((cpu,)))),
            siblings=','.join(map(str, core)))


class _AnyMachineType(dict[str, Any]):
    """The same for each machine type."""

    def __init__(self, value: Any) -> None:
        super().__init__()
        self._value = value

    def __contains__(self, machine_type: object) -> bool:
        return True

    def __missing__(self, machine_type: str) -> Any:
        return self._value


class DescribedHost(host.Host):
    """Nova's view of libvirt, answered from a description.

    What libvirt and QEMU can do is taken to be all that nova asks for, but
    for what needs a later libvirt.

    :param libvirt: its version, None if it is not known, and has all
    """

    supports_uefi = True
    supports_secure_boot = True
    supports_vtpm = True
    # Which of these nova asks differs by release.
    supports_mem_encryption = True
    supports_amd_sev = supports_amd_sev_es = supports_amd_sev_snp = True
    supports_intel_tdx = True

    def __init__(self, description: host_model.HostDescription,
                 libvirt: tuple[int, ...] | None = None) -> None:
        # Nova's own constructor prepares threads for libvirt's events.
        self._libvirt = libvirt
        #: The versions of libvirt that nova has looked for.
        self.looked_for: set[tuple[int, ...]] = set()
        self._description = description
        self._caps = vconfig.LibvirtConfigCaps()
        self._caps.parse_str(capabilities_xml(description))
        self._has_hyperthreading = None

    def get_connection(self) -> Any:
        raise exception.HypervisorUnavailable()

    def get_capabilities(self) -> Any:
        return self._caps

    def get_domain_capabilities(self) -> Any:
        """What nova before 2026.2 reads of AMD SEV, for any machine type.

        The numbers are those of the first EPYCs.
        """
        sev = vconfig.LibvirtConfigDomainCapsFeatureSev()
        sev.supported = True
        sev.cbitpos, sev.reduced_phys_bits = 47, 1
        capable = vconfig.LibvirtConfigDomainCaps()
        capable._features = vconfig.LibvirtConfigDomainCapsFeatures()
        capable._features.features = [sev]
        return {self._description.cpu_model.arch: _AnyMachineType(capable)}

    def get_hostname(self) -> str:
        return self._description.name

    def get_online_cpus(self) -> set[int]:
        return set(self._description.cpus)

    def get_available_cpus(self) -> set[int]:
        return set(self._description.cpus)

    def has_min_version(
        self, lv_ver: Any = None, hv_ver: Any = None, hv_type: Any = None,
    ) -> bool:
        if lv_ver is None:
            return True
        self.looked_for.add(lv_ver)
        return self._libvirt is None or self._libvirt >= lv_ver

    def is_cpu_control_policy_capable(self) -> bool:
        return True

    def get_loader(
        self, arch: str, machine: str, has_secure_boot: bool,
    ) -> tuple[str, str, bool]:
        """The firmware of UEFI guests, which later releases leave to libvirt.

        :returns: files with the code and with the variables it starts with,
            by their usual names, and whether it needs the mode SMM
        :raises nova.exception.UEFINotSupported: for a machine type of another
            architecture
        """
        if guest_machine.refusal(arch, 1, machine, False):
            raise exception.UEFINotSupported()
        name = 'AAVMF' if arch == 'aarch64' else 'OVMF'
        start = f'/usr/share/{name}/{name}_'
        secure = '.ms' if has_secure_boot else ''
        return f'{start}CODE{secure}.fd', f'{start}VARS.fd', has_secure_boot

    def _check_machine_type(self, caps: Any, mach_type: str) -> None:
        # Nova looks whether any QEMU of the host has it.
        if not guest_machine.is_known(mach_type):
            raise exception.InvalidMachineType(
                message=f'{mach_type!r} is no machine type')


class _Disk(imagebackend.Qcow2):
    """A disk image that is looked for nowhere."""

    def resolve_driver_format(self) -> None:
        self.driver_format = 'qcow2'


class _Disks(imagebackend.Backend):

    def backend(self, image_type: str | None = None) -> type[_Disk]:
        return _Disk


class _Vifs(vif.LibvirtGenericVIFDriver):

    def _get_max_tap_queues(self) -> int | None:
        # Since Linux 5 there is no limit; nova would ask this machine.
        return None


def possible_cpu_topologies(
    vcpus: int, maxtopology: Any, allow_threads: bool,
) -> list[Any]:
    """What nova.virt.hardware._get_possible_cpu_topologies returns.

    Nova tries every number of sockets, cores and threads, which takes minutes
    for 1,000 vCPUs; these are the ones that divide them.

    :param maxtopology: nova.objects.VirtCPUTopology
    :raises nova.exception.ImageVCPULimitsRangeImpossible: if there is none
    """
    limits = guest_topology.CpuTopology(
        maxtopology.sockets, maxtopology.cores,
        maxtopology.threads if allow_threads else 1)
    possible = [objects.VirtCPUTopology(**topology._asdict())
                for topology in guest_topology.possible(vcpus, limits)]
    if not possible:
        raise exception.ImageVCPULimitsRangeImpossible(
            vcpus=vcpus, **limits._asdict())
    return sorted(possible, reverse=True, key=lambda topology: (
        topology.sockets * topology.cores, topology.sockets, topology.threads))


@contextlib.contextmanager
def _quick_cpu_topologies() -> Iterator[None]:
    slow = hardware._get_possible_cpu_topologies
    hardware._get_possible_cpu_topologies = possible_cpu_topologies
    try:
        yield
    finally:
        hardware._get_possible_cpu_topologies = slow


class DescribedDriver(driver.LibvirtDriver):
    """Nova's libvirt driver, as far as it writes a guest's XML.

    The host's options must apply when it is made and while it is used, see
    :mod:`nova_pinning.bridge.preview.settings`.

    :param libvirt: its version, None if it is not known
    :raises nova.exception.NovaException: if the options are wrong
    """

    def __init__(self, description: host_model.HostDescription,
                 libvirt: tuple[int, ...] | None = None) -> None:
        # Nova's own constructor wants libvirt, and talks to other services.
        self._host = DescribedHost(description, libvirt)
        self.vif_driver = _Vifs(self._host)
        self.image_backend = _Disks(use_cow=True)
        self.disk_cachemodes: dict[str, str] = {}
        self._disk_cachemode = 'none'
        self._supported_perf_events: list[str] = []
        self._reserved_hugepages = hardware.numa_get_reserved_huge_pages()
        self._sysinfo_serial_func = lambda: None
        self.cpu_models_mapping: dict[str, str] = {}
        self.cpu_model_flag_mapping: dict[str, set[str]] = {}
        self._vpmems_by_name: dict[str, Any] = {}
        self._vpmems_by_rc: dict[str, Any] = {}

    def libvirts_looked_for(self) -> list[tuple[int, ...]]:
        """Versions later than those that nova starts with, sorted."""
        return sorted(version for version in self._host.looked_for
                      if version > driver.MIN_LIBVIRT_VERSION)

    def add_persistent_memory(self, resources: Any) -> None:
        """Have the persistent memory that a server is given.

        :param resources: its nova.objects.ResourceList, or None
        """
        for resource in resources or ():
            self._vpmems_by_name[resource.identifier] = resource.metadata

    def host_topology(self) -> Any:
        """The host as nova-compute reports it: nova.objects.NUMATopology.

        :returns: None if nova has no NUMA support on it
        """
        return self._get_host_numa_topology()

    def guest_xml(
        self, server: Any, image: Any, network: Any, disk_info: Any,
        block_devices: Any,
    ) -> str:
        """What nova-compute would hand to libvirt.

        :param server: nova.objects.Instance
        :param image: nova.objects.ImageMeta
        :raises nova.exception.NovaException: if nova refuses the guest now
        """
        image = image.obj_clone()
        if 'hw_architecture' not in image.properties:
            # Nova would take that of this machine.
            image.properties.hw_architecture = (
                self._host.get_capabilities().host.cpu.arch)
        with _quick_cpu_topologies():
            written = self._get_guest_xml(
                None, server, network, disk_info, image,
                block_device_info=block_devices)
        return written if isinstance(written, str) else written.decode()

    @classmethod
    def get_instance_driver_metadata(
        cls, instance: Any, network_info: Any,
    ) -> Any:
        metadata = super().get_instance_driver_metadata(
            instance, network_info)
        # A preview is the same whenever it is made.
        metadata.creation_time = 0
        return metadata
