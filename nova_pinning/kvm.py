# SPDX-License-Identifier: Apache-2.0
"""Whether guests can run with KVM, or have to be emulated.

That /dev/kvm is there and answers says little: on a machine that is virtual
itself the first guest kernel may hang forever. So a kernel is booted.

It needs nothing but the standard library, since minicloud has nothing else
when it asks.
"""

import os
import pathlib
import selectors
import subprocess
import time

DEVICE = pathlib.Path('/dev/kvm')
QEMU = 'qemu-system-x86_64'

# Where KVM works it takes less than two.
DEADLINE_SECONDS = 8.0

# The first words that a kernel writes.
SIGN_OF_LIFE = b'Linux version'


def works(image: pathlib.Path) -> bool:
    """Tell whether a guest kernel comes up; this may take seconds.

    :param image: a Linux kernel
    """
    return usable() and boots(command(image))


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
