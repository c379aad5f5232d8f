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

"""The part of nova.conf that a plan decides."""

from collections.abc import Iterator
from collections.abc import Sequence
import dataclasses
import json

from nova_pinning import errors
from nova_pinning.host.render import layout as layouts
from nova_pinning.host.render import options

PATH = f'etc/nova/nova.conf.d/{options.NAME}.conf'

_SUMMARY = 'what nova may use of the CPUs, the memory and the devices'


@dataclasses.dataclass(frozen=True, slots=True)
class Setting:
    """An option of nova.

    :param values: several if it may be given several times
    :param many: whether it may
    """

    group: str
    name: str
    values: tuple[str, ...]
    why: str
    many: bool = False


def settings(layout: layouts.Layout,
             wanted: options.Options) -> tuple[Setting, ...]:
    """All options that a plan decides, those of a group together."""
    return tuple((*_default(layout), *_compute(layout),
                  *_pci(layout, wanted)))


def file(layout: layouts.Layout, wanted: options.Options) -> options.File:
    """The file that nova reads after nova.conf."""
    takes_effect = 'when nova-compute is restarted'
    return options.File(
        PATH, options.head(
            layout.name, _SUMMARY, takes_effect,
            'Take the options that stand here out of nova.conf. nova reads '
            'nova.conf.d last, so that it outweighs nova.conf, but where '
            'nova-compute is started with --config-file (Debian, Ubuntu) it '
            'reads it first; and options that may be given several times '
            '(reserved_huge_pages, device_spec, alias) add up.',
            'vcpu_pin_set and reserved_host_cpus have to go as well: with '
            'either of them nova-compute does not start, or does not heed '
            'what is here.',
        ) + text(layout, wanted), _SUMMARY, takes_effect)


def text(layout: layouts.Layout, wanted: options.Options) -> str:
    """The sections, each option explained."""
    sections = []
    found = settings(layout, wanted)
    for group in dict.fromkeys(one.group for one in found):
        lines = [f'\n[{group}]\n']
        for setting in found:
            if setting.group == group:
                lines.append(options.comment(setting.why))
                lines += (f'{setting.name} = {_escaped(value)}'.rstrip() + '\n'
                          for value in setting.values)
        sections.append(''.join(lines))
    sections.append('\n[libvirt]\n' + options.comment(
        'Nothing has to be set here: virt_type, cpu_mode and the like are '
        "the site's choice. Two options would undo the plan: with "
        'file_backed_memory set nova refuses guests with huge pages, and '
        'cpu_power_management switches dedicated CPUs off, or their governor '
        'over, while no guest uses them.'))
    return ''.join(sections)


def _escaped(value: str) -> str:
    # oslo.config puts other options in the place of what follows a dollar.
    return value.replace('$', '$$')


def _default(layout: layouts.Layout) -> Iterator[Setting]:
    nova = layout.host.nova
    yield Setting(
        'DEFAULT', 'reserved_host_memory_mb', (str(nova.reserved_memory_mib),),
        'MiB that nova does not sell: what the host itself needs.')
    reserved = tuple(
        f'node:{node},size:{size},count:{count}'
        for (node, size), count in sorted(nova.reserved_huge_pages.items())
        if count)
    if reserved:
        yield Setting(
            'DEFAULT', 'reserved_huge_pages', reserved,
            'Huge pages that are not for guests, by NUMA node; sizes in '
            'KiB.', many=True)
    if layout.shared_cpus:
        yield Setting(
            'DEFAULT', 'cpu_allocation_ratio',
            (_number(nova.cpu_allocation_ratio),),
            'vCPUs of floating guests for each shared CPU. Dedicated CPUs '
            'are never sold twice.')
    yield Setting(
        'DEFAULT', 'ram_allocation_ratio',
        (_number(nova.ram_allocation_ratio),),
        'Memory in huge pages cannot be sold twice, whatever stands here.')


def _number(ratio: float) -> str:
    return repr(float(ratio))


def _compute(layout: layouts.Layout) -> Iterator[Setting]:
    # A set that is empty is one that is not set, to nova. Left out, one that
    # stands in another file would still apply.
    yield Setting(
        'compute', 'cpu_dedicated_set', (str(layout.dedicated_cpus),),
        'Each of these is for one pinned vCPU.' if layout.dedicated_cpus else
        'No CPUs for pinned vCPUs, whatever another file says.')
    yield Setting(
        'compute', 'cpu_shared_set', (str(layout.shared_cpus),),
        'For vCPUs that float, and for emulator threads of pinned guests '
        'whose flavors have hw:emulator_threads_policy=share.'
        if layout.shared_cpus else
        'No CPUs for vCPUs that float or for emulator threads, whatever '
        'another file says.')


def _pci(layout: layouts.Layout,
         wanted: options.Options) -> Iterator[Setting]:
    devices = layout.devices
    if not devices:
        return
    yield Setting(
        'pci', 'device_spec',
        tuple(json.dumps({'address': one.address}) for one in devices),
        'The devices that guests may get, one by one: others of their kind '
        'stay with the host. The address of a physical function stands for '
        'its virtual functions, too.', many=True)
    yield Setting(
        'pci', 'alias', tuple(json.dumps(one) for one in aliases(
            layout, wanted)),
        'What flavors ask for in pci_passthrough:alias. The same lines have '
        'to be in the nova.conf of nova-api. The NUMA policy is left to '
        'flavors (hw:pci_numa_affinity_policy). Devices that can be split '
        'into virtual functions are type-PF, even if they have none so far: '
        'say so with --device-type, for the plan does not tell.', many=True)


def aliases(layout: layouts.Layout,
            wanted: options.Options) -> Sequence[dict[str, str]]:
    """[pci] alias: one for each product that goes by a name.

    :raises errors.InputError: if nova could not give out all devices of one
    """
    products = dict.fromkeys(
        (one.alias, one.vendor_id, one.product_id) for one in layout.devices)
    # Nova compares the types of aliases of one name, so all of them have one.
    types = {alias: wanted.device_types.get(alias) or _type(layout, alias)
             for alias, _vendor, _product in products}
    return [{
        'name': alias, 'vendor_id': vendor, 'product_id': product,
        'device_type': str(types[alias]),
    } for alias, vendor, product in sorted(products)]


def _type(layout: layouts.Layout, alias: str) -> options.DeviceType:
    """What nova will take the devices of an alias for.

    :raises errors.InputError: if they are of several types
    """
    # As _get_pcidev_info of nova.virt.libvirt.host.
    physical = {one.physical_function for one in layout.host.pci_devices}
    types = {
        options.DeviceType.VF if one.physical_function else
        options.DeviceType.PF if one.address in physical else
        options.DeviceType.PCI
        for one in layout.devices if one.alias == alias}
    if len(types) > 1:
        raise errors.InputError(
            f'the devices of PCI alias {alias!r} are '
            f'{" and ".join(sorted(types))}, and nova gives out those of one '
            'type only', layout.host.where,
            'give them several aliases, or say which with --device-type')
    return types.pop()
