# SPDX-License-Identifier: Apache-2.0
"""What systemd is told of a service: sd_notify(3)."""

import contextlib
import os
import socket

_SECONDS = 1.0


def notify(**variables: str | int) -> None:
    """Tell the service manager, if there is one that wants to know.

    >>> notify(READY=1, STATUS='3 guests')
    """
    address = os.environ.get('NOTIFY_SOCKET', '')
    if not address:
        return
    if address.startswith('@'):
        address = '\0' + address[1:]
    text = '\n'.join(f'{name}={value}' for name, value in variables.items())
    # Nobody is to fail for it, or to wait for a manager that does not listen.
    with contextlib.suppress(OSError), socket.socket(
            socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.settimeout(_SECONDS)
        manager.connect(address)
        manager.sendall(text.encode())
