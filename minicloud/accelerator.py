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

"""Whether the cloud's guests can be run with KVM, found out once."""

import json
import pathlib
import platform

from minicloud import files
from minicloud import kernel
from minicloud import service
from minicloud import settings as _settings
from nova_pinning import kvm

BOOT_ID = pathlib.Path('/proc/sys/kernel/random/boot_id')


def virt_type(state: _settings.State) -> str:
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
    found = 'kvm' if kvm.boots(kvm.command(image)) else 'qemu'
    files.write(path, json.dumps(
        {'made_from': made_from, 'virt_type': found}))
    return found


class VirtType(service.Part):
    """Finds out about KVM while there is other work to be done."""

    name = 'virt-type'

    def up(self) -> None:
        virt_type(self.state)
