# SPDX-License-Identifier: Apache-2.0
"""Where this process looks from while something else is measured."""

from collections.abc import Iterator
import contextlib
import logging
import os

from nova_pinning import cpuset

LOG = logging.getLogger(__name__)

_THREADS = '/proc/self/task'


@contextlib.contextmanager
def bound(cpus: cpuset.CpuSet) -> Iterator[None]:
    """Keep all threads of this process to some CPUs, and put them back.

    So are programs that are started meanwhile. That it cannot be done is no
    reason not to measure.

    :param cpus: none to leave them where they are
    """
    before: dict[int, cpuset.CpuSet] = {}
    own = os.sched_getaffinity(0)
    try:
        try:
            for thread in _threads() if cpus else ():
                with contextlib.suppress(ProcessLookupError):
                    might = cpuset.CpuSet(os.sched_getaffinity(thread))
                    before[thread] = might
                    # Somebody may have bound it already, to fewer.
                    os.sched_setaffinity(thread, might & cpus or cpus)
        except OSError as error:
            LOG.debug('What looks at instances cannot be bound to CPUs %s: '
                      '%s', cpus, error.strerror)
        yield
    finally:
        for thread in _threads():
            with contextlib.suppress(OSError):
                # One that was started meanwhile is as this one is.
                os.sched_setaffinity(thread, before.get(thread, own))


def _threads() -> list[int]:
    return list(map(int, os.listdir(_THREADS)))
