# SPDX-License-Identifier: Apache-2.0
"""What ran on CPUs that are set apart, while it was watched.

The kernel counts how long each thread has run, and notes the CPU that it has
run on last: fields of /proc/PID/task/TID/schedstat and stat. Read again and
again, they tell who ran where, without a module or a tracer in the kernel.

A thread that may run only on CPUs that are watched is told to the nanosecond.
One that may run elsewhere too is taken to have run, since it was looked at
last, where it is found, so that its time is an estimate. A thread that both
starts and ends between two looks is not seen, nor is the last bit of one that
ends.
"""

from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Mapping
import dataclasses
import os
import time

from nova_pinning import cpuset
from nova_pinning.host.check import facts
from nova_pinning.host.check import processes
from nova_pinning.host import machine_files
from nova_pinning.host import qemu_process
from nova_pinning.host import words

#: Seconds from one look to the next, at least.
INTERVAL_SECONDS = 0.1
# So long as a look takes, it is not looked: 5 % of a CPU at most.
_REST = 19

_NANOSECONDS = 10 ** 9
_Known = tuple[facts.HostProcess, qemu_process.QemuThread]
# per_cpu_count is an unsigned int.
_WRAP = 2 ** 32


@dataclasses.dataclass(frozen=True, slots=True)
class Run:
    """A thread that ran on CPUs that are watched.

    :param process: as it was when this was noticed, and so is the thread
    :param seconds: how long it ran, by CPU
    """

    process: facts.HostProcess
    thread: qemu_process.QemuThread
    seconds: Mapping[int, float]


@dataclasses.dataclass(frozen=True, slots=True)
class Arrivals:
    """Interrupts that arrived on CPUs that are watched.

    :param number: of the interrupt line
    :param names: of those that handle it
    :param counts: by CPU
    """

    number: int
    names: tuple[str, ...]
    counts: Mapping[int, int]


@dataclasses.dataclass(frozen=True, slots=True)
class Watched:
    """What was seen.

    :param cpus: those that were watched
    :param seconds: how long
    :param looks: how often all threads were looked at
    :param is_cut: whether it was ended before its time
    """

    cpus: cpuset.CpuSet
    seconds: float
    looks: int
    runs: tuple[Run, ...] = ()
    arrivals: tuple[Arrivals, ...] = ()
    unread: tuple[facts.Unread, ...] = ()
    is_cut: bool = False


def watch(
    tree: machine_files.Tree, cpus: cpuset.CpuSet, seconds: float, *,
    tell: Callable[[float], None] = lambda passed: None,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Watched:
    """Watch CPUs for a while, or until interrupted (KeyboardInterrupt).

    This process is left out: keep it away with own_threads.

    :param tree: of this machine
    :param cpus: those to watch
    :param tell: is told again and again how many seconds have passed
    """
    # Of its own, to know what could not be read here.
    tree = machine_files.Tree(tree.root)
    threads = _Threads(tree, cpus)
    before = dict(_counts(tree, cpus))
    started = ended = clock()
    threads.look()
    looks, is_cut = 1, False
    try:
        took = clock() - started
        while (left := started + seconds - clock()) > 0:
            sleep(min(left, max(INTERVAL_SECONDS, _REST * took)))
            begun = clock()
            threads.look()
            ended = clock()
            took, looks = ended - begun, looks + 1
            tell(min(ended - started, seconds))
    except KeyboardInterrupt:
        ended, is_cut = clock(), True
    return Watched(
        cpus, ended - started, looks, tuple(threads.runs()),
        tuple(_arrivals(tree, cpus, before)), tuple(_unread(tree)), is_cut)


class _Threads:
    """Threads, and how long each has run where since it was looked at first.

    Only what has run since the last look is looked at more closely.
    """

    def __init__(self, tree: machine_files.Tree, cpus: cpuset.CpuSet) -> None:
        self._tree = tree
        self._cpus = cpus
        self._own_pid = os.getpid()
        self._is_first = True
        # All by process and thread.
        self._ran: dict[tuple[int, int], int] = {}
        self._nanoseconds: dict[tuple[int, int], dict[int, int]] = {}
        self._known: dict[tuple[int, int], _Known] = {}

    def look(self) -> None:
        """Note who has run on the CPUs since the last look."""
        ran: dict[tuple[int, int], int] = {}
        for key in self._threads():
            total = self._ran_for(*key)
            if total is None:
                continue
            ran[key] = total
            # Who was not there has run since. Who has run for less than
            # before is another one with the same number.
            last = self._ran.get(key, total if self._is_first else 0)
            since = total - last if total >= last else total
            if since:
                self._note(*key, since)
        self._ran, self._is_first = ran, False

    def runs(self) -> Iterator[Run]:
        for key, nanoseconds in self._nanoseconds.items():
            yield Run(*self._known[key], {
                cpu: nanoseconds[cpu] / _NANOSECONDS
                for cpu in sorted(nanoseconds)})

    def _threads(self) -> Iterator[tuple[int, int]]:
        for pid in processes.pids(self._tree):
            if pid != self._own_pid:
                for tid in self._tree.names(f'/proc/{pid}/task'):
                    yield pid, int(tid)

    def _ran_for(self, pid: int, tid: int) -> int | None:
        """Nanoseconds; None if the thread has ended, or is hidden."""
        text = self._tree.text(f'/proc/{pid}/task/{tid}/schedstat')
        return int(text.split()[0]) if text else None

    def _note(self, pid: int, tid: int, nanoseconds: int) -> None:
        stat = self._tree.text(f'/proc/{pid}/task/{tid}/stat')
        if not stat:
            return
        thread = qemu_process.parse_thread(stat, cpuset.CpuSet())
        if thread.last_cpu not in self._cpus:
            return
        key = (pid, tid)
        if key not in self._known:
            process = processes.process(self._tree, pid)
            if process:
                self._known |= {(pid, thread.tid): (process, thread)
                                for thread in process.threads}
            # It has just ended, so not even its CPUs can be told any more.
            self._known.setdefault(key, (facts.HostProcess(
                pid, thread.name, (thread.name,), '', (thread,)), thread))
        by_cpu = self._nanoseconds.setdefault(key, {})
        by_cpu[thread.last_cpu] = (
            by_cpu.get(thread.last_cpu, 0) + nanoseconds)


def _counts(
    tree: machine_files.Tree, cpus: cpuset.CpuSet,
) -> Iterator[tuple[str, dict[int, int]]]:
    """How many of each interrupt have arrived on each of the CPUs so far."""
    possible = tuple(tree.cpus('/sys/devices/system/cpu/possible') or ())
    for number in tree.names('/sys/kernel/irq'):
        text = tree.text(f'/sys/kernel/irq/{number}/per_cpu_count')
        counts = (text or '').split(',')
        # The kernel cuts off what does not go into a page.
        if text and len(counts) == len(possible):
            yield number, {cpu: int(count) for cpu, count
                           in zip(possible, counts, strict=True)
                           if cpu in cpus}


def _arrivals(tree: machine_files.Tree, cpus: cpuset.CpuSet,
              before: Mapping[str, Mapping[int, int]]) -> Iterator[Arrivals]:
    for number, counts in _counts(tree, cpus):
        old = before.get(number, {})
        new = {cpu: (count - old.get(cpu, 0)) % _WRAP
               for cpu, count in counts.items()}
        if any(new.values()):
            names = tree.text(f'/sys/kernel/irq/{number}/actions') or ''
            yield Arrivals(
                int(number), tuple(filter(None, names.split(','))),
                {cpu: count for cpu, count in new.items() if count})


def _unread(tree: machine_files.Tree) -> Iterator[facts.Unread]:
    hidden = {path.split('/')[2]: reason
              for path, reason in tree.unread.items()
              if path.startswith('/proc/')}
    if hidden:
        yield facts.Unread(
            '/proc/PID', next(iter(hidden.values())),
            f'what threads of {words.count(len(hidden), "process")} ran where')
    if not tree.exists('/proc/1'):
        yield facts.Unread(
            '/proc', "other users' processes are hidden (hidepid)",
            'what threads of other users ran where')
    if not tree.text('/proc/self/schedstat'):
        yield facts.Unread(
            '/proc/PID/schedstat', 'the kernel does not count (SCHED_INFO)',
            'what threads ran where')
    if not tree.exists('/sys/kernel/irq'):
        yield facts.Unread(
            '/sys/kernel/irq', 'it is not there',
            'what interrupts arrived where')
