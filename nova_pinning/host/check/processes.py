# SPDX-License-Identifier: Apache-2.0
"""Processes and their threads, from /proc.

They begin and end while they are looked at: what has gone half way is left
out. See proc(5).
"""

from collections.abc import Iterator
import functools
import re

from nova_pinning import cpuset
from nova_pinning.host.check import containers
from nova_pinning.host.check import facts
from nova_pinning.host import machine_files
from nova_pinning.host import qemu_process

# PF_KTHREAD of include/linux/sched.h.
_OF_KERNEL = 0x00200000
# Fields of /proc/PID/stat behind the name, and their unit, which is the same
# on all architectures (USER_HZ).
_STARTED = 19
_TICKS_PER_SECOND = 100

_BOOTED = re.compile(r'^btime (\d+)', re.MULTILINE)
_CPUS = re.compile(r'^Cpus_allowed_list:\s*(\S*)', re.MULTILINE)
_UNIT = re.compile(r'/([^/]+\.(?:service|scope))(?=/|$)')
_SLICE = re.compile(r'/([^/]+\.slice)(?=/|$)')

_parse_cpus = functools.lru_cache(maxsize=1024)(cpuset.CpuSet.parse)


def pids(tree: machine_files.Tree) -> list[int]:
    """All processes that there are now, ascending."""
    return sorted(int(name) for name in tree.names('/proc')
                  if name.isdecimal())


def process(tree: machine_files.Tree, pid: int) -> facts.HostProcess | None:
    """A process with all its threads.

    :returns: None if there is none, or it has ended and only waits for its
        parent to notice
    """
    stat = tree.text(f'/proc/{pid}/stat')
    if stat is None:
        return None
    name, state, flags = _state(stat)
    if state in ('Z', 'X'):
        return None
    all_threads = tuple(threads(tree, pid))
    if not all_threads:
        return None
    cgroups = tree.text(f'/proc/{pid}/cgroup') or ''
    return facts.HostProcess(
        pid, name, () if flags & _OF_KERNEL else _arguments(tree, pid, name),
        _unit(cgroups), all_threads,
        any(thread.may_move for thread in all_threads),
        containers.container(tree, cgroups))


def threads(
    tree: machine_files.Tree, pid: int,
) -> Iterator[qemu_process.QemuThread]:
    """The threads of a process, as far as they do not end meanwhile."""
    for tid in tree.names(f'/proc/{pid}/task'):
        directory = f'/proc/{pid}/task/{tid}'
        stat = tree.text(f'{directory}/stat')
        status = tree.text(f'{directory}/status')
        cpus = _CPUS.search(status or '')
        if stat and cpus and _state(stat)[1] not in ('Z', 'X'):
            yield qemu_process.parse_thread(stat, _parse_cpus(cpus[1]))


def started(tree: machine_files.Tree, pid: int) -> float | None:
    """When a process was started, in seconds since the epoch."""
    stat = tree.text(f'/proc/{pid}/stat')
    booted = _BOOTED.search(tree.text('/proc/stat') or '')
    if stat is None or booted is None:
        return None
    ticks = int(stat.rpartition(')')[2].split()[_STARTED])
    return int(booted[1]) + ticks / _TICKS_PER_SECOND


def _state(stat: str) -> tuple[str, str, int]:
    """Name, state and flags."""
    start, _bracket, rest = stat.rpartition(')')
    fields = rest.split(maxsplit=7)
    return start.partition('(')[2], fields[0], int(fields[6])


def _arguments(
    tree: machine_files.Tree, pid: int, name: str,
) -> tuple[str, ...]:
    """The command line; the name if a program has wiped it out."""
    line = tree.text(f'/proc/{pid}/cmdline') or ''
    return tuple(line.strip('\0').split('\0')) if line.strip('\0') else (
        name,)


def _unit(cgroups: str) -> str:
    """The unit that a process is part of.

    :param cgroups: what /proc/PID/cgroup holds
    """
    paths = machine_files.control_groups(cgroups)
    for controllers in ('name=systemd', ''):
        path = paths.get(controllers, '')
        # A service may have groups of its own below it, a user's manager has
        # services.
        units = _UNIT.findall(path) or _SLICE.findall(path)
        if units:
            return str(units[-1])
    return ''
