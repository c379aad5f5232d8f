# SPDX-License-Identifier: Apache-2.0
"""What is said of a host's devices and of what is between them."""

from collections.abc import Iterator

from nova_pinning.host import hardware
from nova_pinning.host import host_model
from nova_pinning.host import words
from nova_pinning.presentation import host_structure
from nova_pinning import spelling
from nova_pinning import units

#: Smaller regions fit everywhere, and nobody asks for them.
_LEAST_BAR_KIB = units.KIB_PER_GIB


def details(description: host_model.HostDescription,
            device: host_model.PciDevice) -> Iterator[str]:
    """What sets a device apart from others, a few words each."""
    if description.plan is None and not device.alias:
        # What a plan names it by.
        yield f'{device.vendor_id}:{device.product_id}'
    if device.numa_node not in (
            None, *(node.id for node in description.nodes)):
        yield f'of node {device.numa_node}, which is not there'
    if device.physical_function:
        yield f'virtual, of {device.physical_function}'
    if 'vfio' in device.driver:
        yield f'driver {spelling.printable(device.driver)}'
    if device.namespaces_mib:
        yield host_structure.memory(sum(device.namespaces_mib.values()))
    if device.sriov_totalvfs:
        made = sum(other.physical_function == device.address
                   for other in description.pci_devices)
        yield f'{made} of {device.sriov_totalvfs} virtual functions'
    if device.rdma_devices:
        yield 'RDMA'
    if device.bars_kib and max(device.bars_kib) >= _LEAST_BAR_KIB:
        bar_mib = max(device.bars_kib) / units.KIB_PER_MIB
        yield f'BAR of {host_structure.memory(bar_mib)}'
    if device.mig_instances:
        yield words.count(device.mig_instances, 'MIG instance')
    if device.mdev_type:
        yield f'divided into {device.mdev_type}'
    elif device.mdev_types:
        yield words.count(len(device.mdev_types), 'mdev type')
    if device.vgpu_type:
        yield f'vGPU type {device.vgpu_type}'
    if device.reset_methods == ():
        yield 'cannot be reset'
    together = list(device.companions) + [
        other.address for other in description.pci_devices
        if device.iommu_group is not None and other is not device
        and other.iommu_group == device.iommu_group]
    if together:
        yield f'in one IOMMU group with {words.listed(together, 2)}'
    if device.kind is hardware.PciKind.GPU and not device.parent:
        yield 'place in the PCIe tree unknown'


def switch(description: host_model.HostDescription, address: str) -> str:
    """A switch, and what it is below."""
    above = description.bridges_above(address)[1:]
    outer = description.switch_of(above[0].address) if above else ''
    leaky = any(bridge.acs is False for bridge in description.pci_bridges
                if bridge.parent == address)
    return f'PCIe switch {address}' + (
        f', below switch {outer}' if outer else
        f', below root port {above[-1].address}' if above else '') + (
        '; without ACS' if leaky else '')


def fabric(description: host_model.HostDescription) -> Iterator[str]:
    """The NVLinks and partitions of a host's GPUs, in sentences."""
    gpus = [device.address for device in description.nvidia_gpus]
    if description.nvlinks is None and len(gpus) > 1:
        yield ('NVLinks between GPUs are not known (host discover --fabric '
               'tells)')
    for joined in description.nvlinks or ():
        which = (f'all {len(gpus)} GPUs' if list(joined.addresses) == gpus
                 else words.listed([spelling.printable(address)
                                    for address in joined.addresses]))
        yield (f'{words.count(joined.links, "NVLink")} between each two of '
               f'{which}')
    sizes = [len(one.addresses) for one in description.gpu_partitions]
    if sizes:
        yield 'NVLink partitions of GPUs: ' + ', '.join(
            f'{sizes.count(size)} of {size}'
            for size in sorted(set(sizes), reverse=True))
