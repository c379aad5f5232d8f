# SPDX-License-Identifier: Apache-2.0
"""Threads that run all the time, and what a process sees of them.

Apart from tests, which import nova: processes that are measured have no time
for that.
"""

import contextlib
import json
import os
import pathlib
import subprocess
import sys

from nova_pinning import cpuset
from nova_pinning.host.check import cpu_watch
from nova_pinning.host.check import hidden_work
from nova_pinning.host import machine_files
from nova_pinning.host import own_threads

#: Runs all the time, but for what it takes to notice the end of its input.
BUSY = """
import os, sys, threading
ended = threading.Event()
def run():
    while not ended.is_set():
        pass
os.sched_setaffinity(0, map(int, sys.argv[1].split(',')))
threading.Thread(target=run).start()
print('ready', flush=True)
sys.stdin.read()
ended.set()
"""


class Busy:
    """A thread that runs all the time, and its own time."""

    def __init__(self, process):
        self.pid = process.pid
        *_others, self.tid = sorted(
            map(int, os.listdir(f'/proc/{self.pid}/task')))

    def clock(self):
        """Seconds that the thread has run."""
        path = pathlib.Path(f'/proc/{self.pid}/task/{self.tid}/schedstat')
        return int(path.read_text().split()[0]) / 10 ** 9

    def sleep(self, seconds):
        until = self.clock() + seconds
        while self.clock() < until:
            os.sched_yield()


def tell_unseen(cpu, others, has_loop):
    """Watch a CPU, and print what ran there unseen, as JSON.

    :param others: the CPUs of this process, a list as the kernel has it
    :param has_loop: whether to run all the time on it; if not, somebody else
        does
    """
    tree = machine_files.Tree()
    watched_cpus = cpuset.CpuSet([cpu])

    def busy_seconds():
        return hidden_work.busy_seconds(tree, watched_cpus)[cpu]

    with contextlib.ExitStack() as ended:
        clock = busy_seconds
        if has_loop:
            # It ends with its input, before it is waited for.
            process = ended.enter_context(subprocess.Popen(
                [sys.executable, '-c', BUSY, str(cpu)], stdin=subprocess.PIPE,
                stdout=subprocess.PIPE))
            process.stdout.readline()
            clock = Busy(process).clock

        def sleep(seconds):
            until = clock() + seconds
            while clock() < until:
                os.sched_yield()

        ended.enter_context(own_threads.keeping_to(
            cpuset.CpuSet.parse(others)))
        began, before = clock(), busy_seconds()
        watched = cpu_watch.watch(tree, watched_cpus, 0.5, clock=clock,
                                  sleep=sleep)
        print(json.dumps({
            'unseen': watched.unseen_seconds[cpu],
            'all': busy_seconds() - before, 'clock': clock() - began}))
