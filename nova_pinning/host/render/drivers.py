# SPDX-License-Identifier: Apache-2.0
"""The driver that devices of guests have from boot on.

libvirt gives a device to vfio-pci when a guest gets it. But drivers of GPUs do
not let go of one that is in use, and what is in the IOMMU group of a device
has to be without a driver of the host, too, which nobody else sees to.
"""

from collections.abc import Iterator

from nova_pinning.host import hardware
from nova_pinning.host.render import manifest
from nova_pinning.host.render import planned_host
from nova_pinning.host import words

RULES_PATH = f'etc/udev/rules.d/{manifest.NAME}.rules'
MODULES_PATH = f'etc/modules-load.d/{manifest.NAME}.conf'
_DRIVER = 'vfio-pci'


def bindings(layout: planned_host.PlannedHost) -> dict[str, str]:
    """The functions that no driver of the host is to have, with VFIO's.

    '' where it is not known which that is. What goes with a device is given
    to nobody, for which vfio-pci does.

    Not GPUs whose driver divides them, nor virtual functions that are such
    parts, nor those that have functions for guests.
    """
    physical = {device.physical_function for device in layout.devices}
    found: dict[str, str] = {}
    for device in layout.devices:
        if device.vgpu_type or device.address in physical:
            continue
        found |= dict.fromkeys(device.companions, _DRIVER)
        if device.kind in (hardware.PciKind.GPU, hardware.PciKind.NVSWITCH):
            found[device.address] = device.vfio_driver
    return dict(sorted(found.items()))


def files(layout: planned_host.PlannedHost) -> Iterator[manifest.RenderedFile]:
    """A rule for udev, and the modules that it needs."""
    bound = bindings(layout)
    if not bound:
        return
    unknown = [address for address, driver in bound.items() if not driver]
    modules = sorted({driver or _DRIVER for driver in bound.values()})
    named = words.listed(modules)
    summary = f'GPUs of guests, and what goes with devices, to {named}'
    takes_effect = 'when the host is booted'
    yield manifest.explained(
        layout.name, manifest.RenderedFile(RULES_PATH, ''.join(
            f'ACTION=="add", SUBSYSTEM=="pci", KERNEL=="{address}", '
            f'ATTR{{driver_override}}="{driver or _DRIVER}"\n'
            for address, driver in bound.items()),
            summary, takes_effect, before_boot='update-initramfs -u, or '
            f'dracut --force, so that /{RULES_PATH} counts before drivers '
            'are loaded.'),
        'Drivers of GPUs do not let go of one that is in use, and all that is '
        'in one IOMMU group goes with a device. Before 10.0 libvirt gives a '
        f'device of a guest to {_DRIVER}, whatever stands here.', *([
            'Whether the kernel has a variant of it for '
            f'{words.listed(unknown, 6)} is not known: the vfio_pci: lines of '
            'modules.alias tell. Variants migrate some devices live, and give '
            'guests the memory of a Grace Hopper GPU.',
        ] if unknown else []))
    yield manifest.explained(layout.name, manifest.RenderedFile(
        MODULES_PATH, ''.join(f'{module}\n' for module in modules),
        f'loads {named}', takes_effect))
