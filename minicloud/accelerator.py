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

"""Whether guests can be run with KVM, or have to be emulated.

That /dev/kvm is there and answers says little: on a machine that is virtual
itself the first guest kernel may hang for ever. So a kernel is booted.
"""

import json
import os
import pathlib
import platform
import selectors
import subprocess
import time

from minicloud import files
from minicloud import kernel
from minicloud import service
from minicloud import settings as _settings

DEVICE = pathlib.Path('/dev/kvm')
BOOT_ID = pathlib.Path('/proc/sys/kernel/random/boot_id')
QEMU = 'qemu-system-x86_64'

# Where KVM works it takes less than two.
DEADLINE_SECONDS = 8.0

# The first words that a kernel writes.
SIGN_OF_LIFE = b'Linux version'


def virt_type(state: _settings.State) -> str:
    """Return nova's [libvirt] virt_type for this machine: 'kvm' or 'qemu'.

    It is found out once for each time that the machine boots.

    :raises: MiniCloudError if KVM has to be tried and there is no kernel
    """
    if not usable():
        return 'qemu'
    path = state.cache / 'virt-type.json'
    made_from = [BOOT_ID.read_text().strip(), platform.release(), version()]
    try:
        kept = json.loads(path.read_text())
        if kept['made_from'] == made_from:
            return str(kept['virt_type'])
    except (FileNotFoundError, ValueError, TypeError, KeyError):
        pass
    found = 'kvm' if boots(command(kernel.boot_image(state))) else 'qemu'
    files.write(path, json.dumps(
        {'made_from': made_from, 'virt_type': found}))
    return found


def usable() -> bool:
    """Tell whether it is worth a try."""
    try:
        os.close(os.open(DEVICE, os.O_RDWR | os.O_CLOEXEC))
    except OSError:
        return False
    return True


def version() -> str:
    """Return what QEMU says of itself, '' if it is not there."""
    try:
        return subprocess.run([QEMU, '--version'], stdin=subprocess.DEVNULL,
                              capture_output=True, text=True).stdout
    except OSError:
        return ''


def command(image: pathlib.Path) -> list[str]:
    """Return a command line that boots a kernel, to panic soon after."""
    return [
        QEMU, '-nodefaults', '-no-user-config', '-no-reboot', '-display',
        'none', '-machine', 'q35', '-accel', 'kvm', '-cpu', 'host', '-m',
        '256', '-kernel', str(image), '-append',
        'earlyprintk=serial,ttyS0 console=ttyS0 panic=-1', '-serial', 'stdio']


def boots(arguments: list[str],
          deadline_seconds: float = DEADLINE_SECONDS) -> bool:
    """Tell whether a command writes SIGN_OF_LIFE before the deadline.

    It is killed in any case.
    """
    limit = time.monotonic() + deadline_seconds
    try:
        child = subprocess.Popen(arguments, stdin=subprocess.DEVNULL,
                                 stdout=subprocess.PIPE,
                                 stderr=subprocess.STDOUT)
    except OSError:
        return False
    with child, selectors.DefaultSelector() as selector:
        assert child.stdout is not None
        selector.register(child.stdout, selectors.EVENT_READ)
        said = b''
        try:
            while SIGN_OF_LIFE not in said:
                remaining = limit - time.monotonic()
                if remaining <= 0 or not selector.select(remaining):
                    return False
                chunk = os.read(child.stdout.fileno(), 65536)
                if not chunk:
                    return False
                said += chunk
            return True
        finally:
            child.kill()


class VirtType(service.Part):
    """Finds out about KVM while there is other work to be done."""

    name = 'virt-type'

    def up(self) -> None:
        virt_type(self.state)
