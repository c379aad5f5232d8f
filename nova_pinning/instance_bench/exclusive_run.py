# SPDX-License-Identifier: Apache-2.0
"""One run at a time on a host: two would measure each other.

Who measures has a lock, flock(2), on a directory that all users can read and
that what is set apart on one machine still shares: not below /run, of which a
host of the minicloud, like most containers, has one of its own. It holds
whatever network containers of one file system have.
"""

from collections.abc import Iterator
import contextlib

from nova_pinning import errors
from nova_pinning.instance_bench import workspace


@contextlib.contextmanager
def measuring() -> Iterator[None]:
    """Be the only one, on this host, that measures on it or from it.

    :raises errors.InputError: if another does
    """
    where = errors.Location(str(workspace.PARENT))
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(workspace.locked(workspace.PARENT))
        except BlockingIOError:
            # systemd-tmpfiles locks what it cleans up, for a moment.
            raise errors.InputError(
                'is locked: another bench run is measuring on this host, and '
                'each would disturb the other', where,
                'wait until it ends, or stop it; lslocks says which process '
                'that is') from None
        except OSError as error:
            raise errors.InputError(
                f'cannot be locked: {error.strerror}', where,
                'bench runs lock it, so that there is one at a time',
            ) from None
        yield
