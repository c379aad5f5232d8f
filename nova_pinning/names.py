# SPDX-License-Identifier: Apache-2.0
"""Names that one process of a host holds at a time.

A name is that of an abstract socket, see unix(7): it needs no file and no
permission, and is free again when its process has ended, however that ends.
Containers with a network of their own have names of their own.
"""

import socket


def hold(name: str) -> socket.socket:
    """Hold a name, until the socket is closed.

    :raises OSError: EADDRINUSE if another socket has it
    """
    held = new()
    try:
        held.bind(address(name))
    except OSError:
        held.close()
        raise
    return held


def address(name: str) -> str:
    return f'\0{name}'


def new() -> socket.socket:
    return socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
