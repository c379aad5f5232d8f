# SPDX-License-Identifier: Apache-2.0
"""One run at a time on a host: two would measure each other.

Who measures holds a name, whose socket tells who that is.
"""

from collections.abc import Iterator
import contextlib
import errno
import socket
import struct

from nova_pinning import errors
from nova_pinning import names

NAME = 'nova-pinning-bench'
_CREDENTIALS = struct.Struct('3i')


@contextlib.contextmanager
def measuring() -> Iterator[None]:
    """Be the only one, on this host, that measures on it.

    :raises errors.InputError: if another does
    """
    try:
        held = names.hold(NAME)
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise
        raise errors.InputError(
            f'another bench run is measuring on this host{_holder()}, and '
            'each would disturb the other',
            None, 'wait until it ends, or stop it') from None
    with held:
        held.listen()
        yield


def _holder() -> str:
    """', process 12' if it can be told."""
    with (contextlib.suppress(OSError), names.new() as client):
        client.setblocking(False)
        client.connect(names.address(NAME))
        pid, _user, _group = _CREDENTIALS.unpack(client.getsockopt(
            socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
        return f', process {pid}'
    return ''
