# SPDX-License-Identifier: Apache-2.0
"""The part of nova.conf that a plan decides."""

from collections.abc import Iterator
from collections.abc import Sequence
import dataclasses
import json
from typing import Any

from nova_pinning.admission import pci_alias
from nova_pinning import errors
from nova_pinning.host import device_offer
from nova_pinning.host.render import manifest
from nova_pinning.host.render import options
from nova_pinning.host.render import planned_host
from nova_pinning.placement import placement_traits

PATH = f'etc/nova/nova.conf.d/{manifest.NAME}.conf'


@dataclasses.dataclass(frozen=True, slots=True)
class NovaOption:
    """An option of nova.

    :param values: several if it may be given several times
    """

    group: str
    name: str
    values: tuple[str, ...]
    why: str


def settings(layout: planned_host.PlannedHost,
             options: options.RenderOptions) -> tuple[NovaOption, ...]:
    """All options that a plan decides, those of a group together."""
    return tuple((*_default(layout), *_compute(layout),
                  *_pci(layout, options), *_mdevs(layout)))


def file(layout: planned_host.PlannedHost,
         chosen: options.RenderOptions) -> manifest.RenderedFile:
    """The file that nova reads after nova.conf."""
    return manifest.explained(
        layout.name, dataclasses.replace(
            unexplained(layout, chosen), before_boot='Take the options that '
            f"stand in {PATH} out of the host's nova.conf, and what else it "
            'names.'),
        'Take the options that stand here out of nova.conf. nova reads '
        'nova.conf.d last, so that it outweighs nova.conf, but where '
        'nova-compute is started with --config-file (Debian, Ubuntu) it reads '
        'it first; and options that may be given several times '
        '(reserved_huge_pages, device_spec, alias) add up.',
        'vcpu_pin_set and reserved_host_cpus have to go as well: with either '
        'of them nova-compute does not start, or does not heed what is here.')


def unexplained(layout: planned_host.PlannedHost,
                chosen: options.RenderOptions) -> manifest.RenderedFile:
    """The same without what is to be known of nova.conf.d."""
    return manifest.RenderedFile(
        PATH, _text(layout, chosen),
        'what nova may use of the CPUs, the memory and the devices',
        'when nova-compute is restarted',
        part=manifest.ManifestPart.NOVA_CONF)


def _text(layout: planned_host.PlannedHost,
          chosen: options.RenderOptions) -> str:
    """The sections, each option explained."""
    sections = []
    config_settings = settings(layout, chosen)
    for group in dict.fromkeys(setting.group for setting in config_settings):
        lines = [f'\n[{group}]\n']
        for setting in config_settings:
            if setting.group == group:
                lines.append(manifest.comment(setting.why))
                # oslo.config puts other options in the place of what follows
                # a dollar.
                lines += (
                    f'{setting.name} = {value.replace("$", "$$")}'.rstrip()
                    + '\n' for value in setting.values)
        sections.append(''.join(lines))
    sections.append('\n[libvirt]\n' + manifest.comment(
        'Nothing has to be set here: virt_type, cpu_mode and the like are '
        "the site's choice. Two options would undo the plan: with "
        'file_backed_memory set nova refuses guests with huge pages, and '
        'cpu_power_management switches dedicated CPUs off, or their governor '
        'over, while no guest uses them.'))
    return ''.join(sections)


def _default(layout: planned_host.PlannedHost) -> Iterator[NovaOption]:
    nova = layout.host.nova
    yield NovaOption(
        'DEFAULT', 'reserved_host_memory_mb', (str(nova.reserved_memory_mib),),
        'MiB that nova does not sell: what the host itself needs.')
    reserved = tuple(
        f'node:{node},size:{size},count:{count}'
        for (node, size), count in sorted(nova.reserved_huge_pages.items())
        if count)
    if reserved:
        yield NovaOption(
            'DEFAULT', 'reserved_huge_pages', reserved,
            'Huge pages that are not for guests, by NUMA node; sizes in '
            'KiB.')
    if layout.shared_cpus:
        yield NovaOption(
            'DEFAULT', 'cpu_allocation_ratio',
            (str(float(nova.cpu_allocation_ratio)),),
            'vCPUs of floating guests for each shared CPU. Dedicated CPUs '
            'are never sold twice.')
    yield NovaOption(
        'DEFAULT', 'ram_allocation_ratio',
        (str(float(nova.ram_allocation_ratio)),),
        'Memory in huge pages cannot be sold twice, whatever stands here.')


def _compute(layout: planned_host.PlannedHost) -> Iterator[NovaOption]:
    # A set that is empty is one that is not set, to nova. Left out, one that
    # stands in another file would still apply.
    yield NovaOption(
        'compute', 'cpu_dedicated_set', (str(layout.dedicated_cpus),),
        'Each of these is for one pinned vCPU.' if layout.dedicated_cpus else
        'No CPUs for pinned vCPUs, whatever another file says.')
    yield NovaOption(
        'compute', 'cpu_shared_set', (str(layout.shared_cpus),),
        'For vCPUs that float, and for emulator threads of pinned guests '
        'whose flavors have hw:emulator_threads_policy=share.'
        if layout.shared_cpus else
        'No CPUs for vCPUs that float or for emulator threads, whatever '
        'another file says.')
    packs_cells = layout.host.nova.packs_cells
    if packs_cells is not None:
        yield NovaOption(
            'compute', 'packing_host_numa_cells_allocation_strategy',
            (str(packs_cells).lower(),),
            'Which NUMA node a guest gets first: one that is in use, or the '
            'one with most room. nova-scheduler has to have the same, or be '
            'told by the metadata of an aggregate: '
            f'{placement_traits.PACKING_KEY}={str(packs_cells).lower()}')


def _pci(layout: planned_host.PlannedHost,
         options: options.RenderOptions) -> Iterator[NovaOption]:
    devices = layout.devices
    if not devices:
        return
    if device_offer.is_in_placement(layout.host):
        for fault, advice in device_offer.provider_faults(layout.host):
            raise errors.InputError(fault, layout.host.where, advice)
        yield NovaOption(
            'pci', 'report_in_placement', ('true',),
            'Placement counts the devices, each with the traits of its '
            'groups. Nova cannot go back from this. Once all hosts have it, '
            'nova-api, nova-scheduler and nova-conductor need '
            '[filter_scheduler] pci_in_placement = true.')
    yield NovaOption(
        'pci', 'device_spec',
        tuple(map(json.dumps, device_specs(layout))),
        'The devices that guests may get, one by one: others of their kind '
        'stay with the host. The address of a physical function stands for '
        'its virtual functions, too. Of what is not managed, libvirt leaves '
        'the driver as it is.')
    made = aliases(layout)
    yield NovaOption(
        'pci', 'alias', tuple(map(json.dumps, made)),
        'What flavors ask for in pci_passthrough:alias. The same lines have '
        'to be in the nova.conf of nova-api. The NUMA policy is left to '
        'flavors (hw:pci_numa_affinity_policy). Devices that can be split '
        'into virtual functions are type-PF, even if they have none so far; '
        'sriov_totalvfs of the plan tells.')
    if any('vendor_id' not in alias for alias in made):
        yield NovaOption(
            'filter_scheduler', 'pci_in_placement', ('true',),
            'Without it nova-compute does not start where an alias has no '
            'ids, as those of groups, and other services refuse all aliases.')


def device_specs(
        layout: planned_host.PlannedHost) -> Sequence[dict[str, str]]:
    """[pci] device_spec: one for each device."""
    return [{
        'address': device.address,
        **({'resource_class': device.resource_class}
           if device.resource_class else {}),
        **({'traits': ','.join(device.traits)} if device.traits else {}),
        # The maker's own driver serves it to the guest.
        **({'managed': 'no'} if device.vgpu_type else {}),
    } for device in layout.devices]


def aliases(layout: planned_host.PlannedHost) -> Sequence[dict[str, Any]]:
    """[pci] alias: one for each product that goes by a name.

    :raises errors.InputError: if nova could not give out all devices of one
    """
    for alias in sorted({device.alias for device in layout.devices}):
        # Nova compares the types of aliases of one name.
        fault = device_offer.type_fault(layout.host, alias)
        if fault:
            raise errors.InputError(fault, layout.host.where,
                                    'give them several aliases')
    made = device_offer.aliases(layout.host)
    return [entry for name in sorted(made)
            for entry in pci_alias.entries(name, made[name])]


def _mdevs(layout: planned_host.PlannedHost) -> Iterator[NovaOption]:
    """[devices], and a group for each type of mediated devices."""
    types: dict[str, list[str]] = {}
    for device in layout.host.pci_devices:
        if device.mdev_type:
            types.setdefault(device.mdev_type, []).append(device.address)
    if not types:
        return
    yield NovaOption(
        'devices', 'enabled_mdev_types', (','.join(types),),
        'What nova divides devices into. Flavors ask for resources:VGPU=1, or '
        'for the class of a type where there are several. The mediated '
        'devices are gone when the host boots; nova-compute makes those of '
        'its guests again.')
    for mdev_type, addresses in types.items():
        group = f'mdev_{mdev_type}'
        yield NovaOption(group, 'device_addresses', (','.join(addresses),),
                         f'The devices that are divided into {mdev_type}.')
        if len(types) > 1:
            yield NovaOption(
                group, 'mdev_class',
                (device_offer.resource_class(mdev_type),),
                'By which flavors tell the types apart.')
