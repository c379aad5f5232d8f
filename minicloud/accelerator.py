# SPDX-License-Identifier: Apache-2.0
"""Whether the cloud's guests can be run with KVM, found out once."""

import json
import pathlib
import platform

from minicloud import files
from minicloud import kernel
from minicloud import service
from minicloud import settings
from nova_pinning import kvm

BOOT_ID = pathlib.Path('/proc/sys/kernel/random/boot_id')


def virt_type(state: settings.State) -> str:
    """Return nova's [libvirt] virt_type for this machine: 'kvm' or 'qemu'.

    It is found out once for each time that the machine boots.

    :raises: MiniCloudError if KVM has to be tried and there is no kernel
    """
    if not kvm.usable():
        return 'qemu'
    path = state.cache / 'virt-type.json'
    made_from = [BOOT_ID.read_text().strip(), platform.release(),
                 kvm.version()]
    try:
        kept = json.loads(path.read_text())
        if kept['made_from'] == made_from:
            return str(kept['virt_type'])
    except (FileNotFoundError, ValueError, TypeError, KeyError):
        pass
    image = kernel.boot_image(state)
    virt_type = 'kvm' if kvm.boots(kvm.command(image)) else 'qemu'
    files.write(path, json.dumps(
        {'made_from': made_from, 'virt_type': virt_type}))
    return virt_type


class VirtType(service.Part):
    """Finds out about KVM while there is other work to be done."""

    name = 'virt-type'

    def up(self) -> None:
        virt_type(self.state)
