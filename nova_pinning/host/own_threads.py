# SPDX-License-Identifier: Apache-2.0
"""Where this process runs while it looks at something else."""

from collections.abc import Iterator
import contextlib
import os

from nova_pinning import cpuset

_THREADS = '/proc/self/task'


@contextlib.contextmanager
def keeping_to(cpus: cpuset.CpuSet) -> Iterator[str]:
    """Keep all threads of this process to some CPUs, and put them back.

    So are programs that are started meanwhile. Gives '', or why that cannot be
    done; threads stay where they are then.

    :param cpus: none to leave them where they are
    """
    before: dict[int, cpuset.CpuSet] = {}
    own, trouble = os.sched_getaffinity(0), ''
    try:
        try:
            for thread in _threads() if cpus else ():
                with contextlib.suppress(ProcessLookupError):
                    might = cpuset.CpuSet(os.sched_getaffinity(thread))
                    before[thread] = might
                    # Somebody may have bound it already, to fewer.
                    os.sched_setaffinity(thread, might & cpus or cpus)
        except OSError as error:
            trouble = (error.strerror or str(error)).lower()
        yield trouble
    finally:
        for thread in _threads():
            with contextlib.suppress(OSError):
                # One that was started meanwhile is as this one is.
                os.sched_setaffinity(thread, before.get(thread, own))


def _threads() -> list[int]:
    return list(map(int, os.listdir(_THREADS)))
