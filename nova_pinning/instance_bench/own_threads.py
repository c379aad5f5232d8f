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
    """
    before: dict[int, cpuset.CpuSet] = {}
    own = os.sched_getaffinity(0)
    try:
        _bind(cpus, before)
        yield
    finally:
        for thread in _threads():
            with contextlib.suppress(OSError):
                # One that was started meanwhile is as this one is.
                os.sched_setaffinity(thread, before.get(thread, own))


def _bind(cpus: cpuset.CpuSet, before: dict[int, cpuset.CpuSet]) -> None:
    """:param before: is told where threads might run"""
    try:
        for thread in _threads():
            with contextlib.suppress(ProcessLookupError):
                before[thread] = cpuset.CpuSet(os.sched_getaffinity(thread))
                # Somebody may have bound it already, to fewer.
                os.sched_setaffinity(thread, before[thread] & cpus or cpus)
    except OSError as error:
        LOG.debug('What looks at instances cannot be bound to CPUs %s: %s',
                  cpus, error.strerror)


def _threads() -> list[int]:
    return list(map(int, os.listdir(_THREADS)))
