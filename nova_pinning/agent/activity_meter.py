# SPDX-License-Identifier: Apache-2.0
"""How busy guests are, from the kernel's counters between two looks."""

from collections.abc import Iterable
import dataclasses
import os
import re

from nova_pinning.agent import agent_model
from nova_pinning.agent import decision
from nova_pinning.agent import kernel_files

_NANOSECONDS = 1e9
_ON_NODE = re.compile(r'N(\d{1,5})=(\d{1,20})')
# What guests have: of their own, or shared with what serves them.
_KINDS = ('anon', 'shmem')
_PAGE = os.sysconf('SC_PAGE_SIZE')


@dataclasses.dataclass(frozen=True, slots=True)
class _Counters:
    time: float
    ran: dict[int, int]
    traffic: int
    memory: dict[int, int]


class ActivityMeter:
    """Remembers the counters of the last look."""

    def __init__(self, files: kernel_files.WritableTree) -> None:
        self._files = files
        self._last: dict[str, _Counters] = {}

    def measure(
        self, now: float, guests: Iterable[agent_model.AgentGuest],
    ) -> dict[str, decision.Activity]:
        """What guests did since the last look, by UUID.

        :param now: seconds on a clock that only goes forwards
        """
        counters = {guest.uuid: self._counters(now, guest)
                    for guest in guests}
        activity = {}
        for uuid, there in counters.items():
            before = self._last.get(uuid)
            if before is None or now <= before.time:
                activity[uuid] = decision.Activity(memory=there.memory)
                continue
            seconds = now - before.time
            # A thread that is new has run since its start; one that is gone
            # counts no more.
            ran = sum(max(0, time - before.ran.get(tid, 0))
                      for tid, time in there.ran.items())
            activity[uuid] = decision.Activity(
                ran / _NANOSECONDS / seconds,
                max(0, there.traffic - before.traffic) / seconds,
                there.memory)
        self._last = counters
        return activity

    def _counters(self, now: float,
                  guest: agent_model.AgentGuest) -> _Counters:
        ran = {}
        for tid in guest.vcpu_tasks:
            # Time on CPUs, time spent waiting, number of timeslices: see the
            # kernel's Documentation/scheduler/sched-stats.rst.
            text = self._files.text(
                f'/proc/{guest.pid}/task/{tid}/schedstat') or ''
            first = text.partition(' ')[0]
            if first.isdecimal():
                ran[tid] = int(first)
        traffic = sum(
            self._files.number(f'/sys/class/net/{tap}/statistics/{name}') or 0
            for tap in guest.taps for name in ('rx_bytes', 'tx_bytes'))
        return _Counters(
            now, ran, traffic, {} if guest.is_pinned else node_memory(
                self._files, guest.pid))


def node_memory(files: kernel_files.WritableTree, pid: int) -> dict[int, int]:
    """The memory of a process's control group in bytes, by NUMA node.

    :returns: {} if it has no group of its own, or the kernel does not count
    """
    root, path = kernel_files.control_group(files, pid, 'memory')
    # The threads of a guest are in groups below that of its memory.
    while path.strip('/'):
        text = files.text(f'{root}{path}/memory.numa_stat')
        if text is not None:
            return _counted(text)
        path = os.path.dirname(path)
    return {}


def _counted(text: str) -> dict[int, int]:
    """Of cgroup v2 in bytes ('anon N0=1'), of v1 in pages ('total=1 N0=1')."""
    found: dict[int, int] = {}
    for line in text.splitlines():
        kind = line.partition(' ')[0].partition('=')[0]
        if kind in _KINDS or kind == 'hierarchical_total':
            unit = 1 if kind in _KINDS else _PAGE
            for node, amount in _ON_NODE.findall(line):
                found[int(node)] = found.get(int(node), 0) + (
                    unit * int(amount))
    return found
