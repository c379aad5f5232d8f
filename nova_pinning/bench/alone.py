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

"""One run at a time on a host: two would measure each other.

Who measures holds an abstract socket, see unix(7): it needs no file and no
permission, tells who holds it, and is gone with its process, however that
ends. Containers with a network of their own have names of their own.
"""

from collections.abc import Iterator
import contextlib
import errno
import socket
import struct

from nova_pinning import errors

NAME = 'nova-pinning-bench'
_CREDENTIALS = struct.Struct('3i')


@contextlib.contextmanager
def measuring() -> Iterator[None]:
    """Be the only one, on this host, that measures on it.

    :raises errors.InputError: if another does
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as held:
        try:
            held.bind(f'\0{NAME}')
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
            raise errors.InputError(
                'another bench run measures on this host'
                f'{_holder()}, and the two would measure each other',
                None, 'wait for its end, or end it') from None
        held.listen()
        yield


def _holder() -> str:
    """', process 12' if it can be told."""
    with (contextlib.suppress(OSError),
          socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asked):
        asked.setblocking(False)
        asked.connect(f'\0{NAME}')
        pid, _user, _group = _CREDENTIALS.unpack(asked.getsockopt(
            socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
        return f', process {pid}'
    return ''
