# SPDX-License-Identifier: Apache-2.0
"""Warnings about devices that guests get: whether they can, and near CPUs."""

from collections.abc import Iterator
from collections.abc import Sequence

from nova_pinning.host import device_offer
from nova_pinning.host import host_model
from nova_pinning.host.plan import allocatable_cores
from nova_pinning.host.plan import devices
from nova_pinning.host.plan import explain
from nova_pinning.host import plan_model
from nova_pinning.host import words


def warnings(
    description: host_model.HostDescription,
    taken: explain.PricedChoice, sizes: Sequence[plan_model.GuestSize],
) -> Iterator[plan_model.PlanWarning]:
    """What is doubtful of them.

    :param description: with the aliases that were asked for
    :param sizes: of guests, as they are planned for
    """
    yield from _shared_groups(description)
    yield from _not_to_be_had(description)
    nodes = {None, *(node.id for node in description.nodes)}
    away = [f'{device.address} (node {device.numa_node})'
            for device in description.pci_devices
            if device.alias and device.numa_node not in nodes]
    if away:
        yield plan_model.PlanWarning(
            'device-on-no-node', 'the kernel has offline, or the host file '
            f'leaves out, the node of {devices.listed(away)}: nova '
            'gives it to guests without NUMA cells, to others by policy '
            'preferred only',
            'bring the node online, and discover the host again')
    rigid = [device.address for device in description.pci_devices
             if device.alias and device.reset_methods == ()]
    if rigid:
        yield plan_model.PlanWarning(
            'no-reset', 'the kernel cannot reset '
            f'{devices.listed(rigid)}: a guest finds what the '
            'one before it has left',
            'leave them to the host, or give them only to guests that trust '
            'each other')
    gpus = [device for device in description.pci_devices
            if allocatable_cores.is_gpu_for_guests(device)]
    if gpus and not taken.memory.page_size_kib:
        yield plan_model.PlanWarning(
            'gpus-small-pages', 'guests with GPUs are to have small pages: '
            'all of their memory is pinned and mapped for the IOMMU page by '
            'page, which takes minutes when they start',
            'have huge pages with --page-size')
    yield from _stranded(description, taken, sizes, gpus)


def _shared_groups(
    description: host_model.HostDescription,
) -> Iterator[plan_model.PlanWarning]:
    """Devices that an IOMMU does not keep apart."""
    groups: dict[int, list[host_model.PciDevice]] = {}
    for device in description.pci_devices:
        if device.iommu_group is not None:
            groups.setdefault(device.iommu_group, []).append(device)
    told = []
    for number, members in groups.items():
        given = [device for device in members if device.alias]
        if given and len(members) > 1:
            kept = [device.address for device in members if not device.alias]
            told.append(
                f'group {number} has '
                + devices.listed([device.address for device in given])
                + (f', and {devices.listed(kept)}, which the host '
                   'keeps' if kept else ''))
    if told:
        yield plan_model.PlanWarning(
            'iommu-group-shared', 'devices in one IOMMU group go to one guest '
            'at a time, and not while the host uses any of them, which nova '
            f'does not know: {"; ".join(told)}',
            'switch Access Control Services (ACS) on in the firmware, use '
            'other slots, or give guests but one of each group')


def _not_to_be_had(
    description: host_model.HostDescription,
) -> Iterator[plan_model.PlanWarning]:
    """Aliases that nova does not take, and devices that are of no use whole.

    See NVIDIA's vGPU User Guide: a virtual function of a GPU does nothing
    before it has a type or a mediated device.
    """
    given = [device for device in description.pci_devices if device.alias]
    faults = [*filter(None, [
        device_offer.type_fault(description, alias)
        for alias in sorted({device.alias for device in given})]), *[
            fault for fault, _advice in device_offer.provider_faults(
                description)]]
    if faults:
        yield plan_model.PlanWarning(
            'aliases-refused', 'host render will refuse this plan: '
            + '; '.join(faults), 'give these devices aliases of their own, or '
            'leave some to the host')
    told = [f'{devices.listed(addresses)} {what}'
            for what, addresses in (
                ('with MIG instances', [
                    device.address for device in given
                    if device.mig_instances]),
                ('without a vGPU type', [
                    device.address for device in given
                    if device.physical_function and (
                        device.mdev_types
                        or device.vgpu_types and not device.vgpu_type)]))
            if addresses]
    if told:
        yield plan_model.PlanWarning(
            'not-whole', 'guests are to get as a whole what is divided, or '
            f'has to be: {"; ".join(told)}',
            'switch MIG off (nvidia-smi -mig 0), have nova divide virtual '
            'functions with --mdev-type, or write their types to '
            'nvidia/current_vgpu_type; then discover and plan again')


def _stranded(
    description: host_model.HostDescription, taken: explain.PricedChoice,
    sizes: Sequence[plan_model.GuestSize],
    gpus: Sequence[host_model.PciDevice],
) -> Iterator[plan_model.PlanWarning]:
    """GPUs on nodes that have no CPUs left for a guest each."""
    least = min((size.vcpus // size.cells for size in sizes), default=0)
    choice, told = taken.choice, []
    for node in description.nodes:
        count = sum(gpu.numa_node == node.id for gpu in gpus)
        free = node.cpus & choice.dedicated_cpus
        guests = (len(free) // least if taken.memory.guest_mib[node.id]
                  else 0) if least else count
        if guests < count:
            uses = [f'{words.cpus(node.cpus & cpus)} there are {use}'
                    for use, cpus in (
                        ('for the host', choice.host_cpus),
                        ('for polling', choice.poll_cpus),
                        ('shared', choice.shared_cpus)) if node.cpus & cpus]
            told.append(
                f'node {node.id} has CPUs for {words.count(guests, "guest")} '
                f'of {least}, and {words.count(count, "GPU")}'
                + (f' ({", ".join(uses)})' if uses else ''))
    if told:
        yield plan_model.PlanWarning(
            'gpus-without-cpus', 'GPUs stay without CPUs near them: '
            + '; '.join(told),
            'plan for guests with fewer vCPUs for each GPU, take a choice '
            'that has the CPUs of the host elsewhere (--choice), or let '
            'flavors have GPUs far from their CPUs')
