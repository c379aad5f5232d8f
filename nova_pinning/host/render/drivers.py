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

RULES_PATH = f'etc/udev/rules.d/{manifest.NAME}.rules'
MODULES_PATH = f'etc/modules-load.d/{manifest.NAME}.conf'
_DRIVER = 'vfio-pci'


def addresses(layout: planned_host.PlannedHost) -> tuple[str, ...]:
    """The functions that no driver of the host is to have.

    Not GPUs whose driver divides them, nor virtual functions that are such
    parts, nor those that have functions for guests.
    """
    physical = {device.physical_function for device in layout.devices}
    found: set[str] = set()
    for device in layout.devices:
        if device.vgpu_type or device.address in physical:
            continue
        found.update(device.companions)
        if device.kind in (hardware.PciKind.GPU, hardware.PciKind.NVSWITCH):
            found.add(device.address)
    return tuple(sorted(found))


def files(layout: planned_host.PlannedHost) -> Iterator[manifest.RenderedFile]:
    """A rule for udev, and the module that it needs."""
    bound = addresses(layout)
    if not bound:
        return
    summary = f'GPUs of guests, and what goes with devices, to {_DRIVER}'
    takes_effect = 'when the host is booted'
    yield manifest.explained(
        layout.name, manifest.RenderedFile(RULES_PATH, ''.join(
            f'ACTION=="add", SUBSYSTEM=="pci", KERNEL=="{address}", '
            f'ATTR{{driver_override}}="{_DRIVER}"\n' for address in bound),
            summary, takes_effect, before_boot='update-initramfs -u, or '
            f'dracut --force, so that /{RULES_PATH} counts before drivers '
            'are loaded.'),
        'Drivers of GPUs do not let go of one that is in use, and all that is '
        'in one IOMMU group goes with a device.')
    yield manifest.explained(layout.name, manifest.RenderedFile(
        MODULES_PATH, f'{_DRIVER}\n', f'loads {_DRIVER}', takes_effect))
