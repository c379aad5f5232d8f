# SPDX-License-Identifier: Apache-2.0
"""Keeps a cloud in one process to one CPU, where it is faster.

Its many threads hand Python's interpreter lock to each other at each query of
the database. With a second CPU the next thread is woken there while the last
one still runs, and most of the time goes by in waking up: two such processes
on two CPUs take more than twice as long as when each has one to itself.
"""

import errno
import itertools
import os
import socket

import fixtures

_NAME = 'nova-pinning-demo-cpu'


class OneCpu(fixtures.Fixture):
    """This thread, and those that it starts, on the CPU that fewest have.

    That counts those with this fixture, in any process of the host.
    """

    def _setUp(self) -> None:
        allowed = os.sched_getaffinity(0)
        for others in itertools.count():
            for cpu in sorted(allowed):
                # A name without a file, which ends with the process: unix(7).
                held = socket.socket(socket.AF_UNIX)
                try:
                    held.bind(f'\0{_NAME}-{cpu}-{others}')
                except OSError as error:
                    held.close()
                    if error.errno != errno.EADDRINUSE:
                        raise
                    continue
                self.addCleanup(held.close)
                os.sched_setaffinity(0, {cpu})
                self.addCleanup(os.sched_setaffinity, 0, allowed)
                return
