# SPDX-License-Identifier: Apache-2.0
"""What the kernel counts while something is measured.

All counts go up from some start that means nothing; their differences count.
What a kernel does not count is left out.

Of threads of vCPUs there is the run delay (/proc/PID/task/TID/schedstat, see
the kernel's Documentation/scheduler/sched-stats.rst), context switches
(status, proc(5)) and, with CONFIG_SCHED_DEBUG, migrations (sched). These are
lost when a thread ends, so that of other threads they would tell little. A
cgroup of its own counts throttling (cpu.stat) and, under version 2, pressure
(PSI, the 'some' line; Documentation/accounting/psi.rst) for all that is in it,
whatever has ended meanwhile.
"""

from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
import re

from nova_pinning import cpuset
from nova_pinning.host import machine_files
from nova_pinning.host import qemu_process

# Of /proc/stat, the same on all architectures (USER_HZ).
_TICKS_PER_SECOND = 100
# Fields of a line of /proc/stat behind its name.
_STEAL = 7
_IDLE = 3
# The first of four fields of /proc/PID/stat behind the name: utime, stime,
# and these of children.
_UTIME = 11
_SWITCHES = re.compile(
    r'^(voluntary|nonvoluntary)_ctxt_switches:\s*(\d+)', re.MULTILINE)
_SWITCH_NAMES = {'voluntary': 'voluntary_switches',
                 'nonvoluntary': 'involuntary_switches'}
_MIGRATIONS = re.compile(r'^se\.nr_migrations\s*:\s*(\d+)', re.MULTILINE)
_PRESSURE = re.compile(r'^some .*\btotal=(\d+)', re.MULTILINE)
# Of cpu.stat: version 2 counts microseconds, version 1 nanoseconds.
_THROTTLED = re.compile(
    r'^throttled_(usec|time) (\d+)', re.MULTILINE)
_THROTTLED_UNIT = {'usec': 1e6, 'time': 1e9}


def add(first: Mapping[str, float],
        second: Mapping[str, float]) -> dict[str, float]:
    """Sums by name; what only one of them has counts."""
    return {name: first.get(name, 0.0) + second.get(name, 0.0)
            for name in {**first, **second}}


def difference(before: Mapping[str, float],
               after: Mapping[str, float]) -> dict[str, float]:
    """How much counters went up; what ended unseen is not in them."""
    return {name: max(value - before[name], 0.0)
            for name, value in after.items() if name in before}


def of_thread(tree: machine_files.Tree, path: str) -> dict[str, float]:
    """What one thread has counted; empty if it has ended.

    :param path: '/proc/7/task/8'
    """
    counted: dict[str, float] = {}
    fields = (tree.text(f'{path}/schedstat') or '').split()
    if len(fields) == 3:
        counted['run_delay_seconds'] = int(fields[1]) / 1e9
    for kind, number in _SWITCHES.findall(tree.text(f'{path}/status') or ''):
        counted[_SWITCH_NAMES[kind]] = float(number)
    moved = _MIGRATIONS.search(tree.text(f'{path}/sched') or '')
    if moved:
        counted['migrations'] = float(moved[1])
    return counted


def vcpu_threads(tree: machine_files.Tree, pid: int) -> list[str]:
    """Directories of a QEMU's threads that are vCPUs."""
    path = f'/proc/{pid}/task'
    return [f'{path}/{tid}' for tid in tree.names(path)
            if qemu_process.is_vcpu(tree.text(f'{path}/{tid}/comm') or '')]


def of_cgroup(tree: machine_files.Tree, pid: int) -> dict[str, float]:
    """What the cgroup of a process has counted, of all that is in it.

    QEMU's main thread has one beside those of the vCPUs; what counts is the
    one around these.
    """
    counted: dict[str, float] = {}
    for path in _cgroups(tree, pid):
        throttled = _THROTTLED.search(tree.text(f'{path}/cpu.stat') or '')
        if throttled:
            counted['throttled_seconds'] = (
                int(throttled[2]) / _THROTTLED_UNIT[throttled[1]])
        for name in ('cpu', 'memory', 'io'):
            waited = _PRESSURE.search(tree.text(f'{path}/{name}.pressure')
                                      or '')
            if waited:
                counted[f'{name}_pressure_seconds'] = int(waited[1]) / 1e6
    return counted


def cgroup_mounts(
        tree: machine_files.Tree) -> Iterator[tuple[str, str, list[str]]]:
    """Where hierarchies of control groups are, their kinds and options."""
    for line in (tree.text('/proc/mounts') or '').splitlines():
        _source, path, kind, options, *_numbers = line.split()
        if kind in ('cgroup', 'cgroup2'):
            yield path, kind, options.split(',')


def _cgroups(tree: machine_files.Tree, pid: int) -> Iterator[str]:
    """Directories of a process's cgroups that count CPU time or pressure."""
    own = {controllers: path.removesuffix('/emulator')
           for controllers, path in machine_files.control_groups(
               tree.text(f'/proc/{pid}/cgroup') or '').items()}
    for mount, kind, options in cgroup_mounts(tree):
        if kind == 'cgroup2':
            path = own.get('', '')
        elif 'cpu' in options:
            path = next((path for names, path in own.items()
                         if 'cpu' in names.split(',')), '')
        else:
            continue
        # Of all processes together nothing is to be told.
        if path not in ('', '/'):
            yield mount + path


def steal(stat: str, cpus: cpuset.CpuSet | None = None) -> dict[str, float]:
    """What /proc/stat tells of CPU time that another guest had.

    :param stat: its text
    :param cpus: all CPUs unless given
    :returns: by bench_model.HOST_COUNTERS; nothing if it does not tell
    """
    names = {'cpu'} if cpus is None else {f'cpu{cpu}' for cpu in cpus}
    ticks = [own[_STEAL] for name, own in _ticks(stat).items()
             if name in names and len(own) > _STEAL]
    return {'steal_seconds': sum(ticks) / _TICKS_PER_SECOND} if ticks else {}


def _ticks(stat: str) -> dict[str, list[int]]:
    """What /proc/stat tells of all CPUs ('cpu') and of each ('cpu0')."""
    return {fields[0]: list(map(int, fields[1:]))
            for fields in map(str.split, stat.splitlines())
            if fields and fields[0].startswith('cpu')}


def mhz(tree: machine_files.Tree, cpus: cpuset.CpuSet) -> float | None:
    """The mean frequency of CPUs, now; None without a driver that tells it."""
    frequencies = [khz for cpu in cpus if (khz := tree.number(
        f'/sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_cur_freq'))]
    if not frequencies:
        return None
    return sum(frequencies) / len(frequencies) / 1000


def idle(stat: str, or_interrupted: bool = False) -> dict[int, float]:
    """For how many seconds each CPU has been idle, by its number.

    Where idle CPUs have no ticks this is measured (get_idle_time in the
    kernel's fs/proc/stat.c), while what they did is mostly a sample.

    :param stat: the text of /proc/stat
    :param or_interrupted: or has handled interrupts and softirqs
    """
    end = _IDLE + (4 if or_interrupted else 2)
    return {int(name.removeprefix('cpu')):
            sum(ticks[_IDLE:end]) / _TICKS_PER_SECOND
            for name, ticks in _ticks(stat).items() if name != 'cpu'}


def cpu_seconds(tree: machine_files.Tree, pids: Iterable[int]) -> float:
    """CPU time of processes, and of their children that they waited for.

    Of all their threads, ended or not; what ignores SIGCHLD waits for none.
    See proc_pid_stat(5).

    :param pids: those that have ended are left out
    """
    return sum(
        sum(map(int, stat.rpartition(')')[2].split()[_UTIME:_UTIME + 4]))
        for pid in pids if (stat := tree.text(f'/proc/{pid}/stat'))
    ) / _TICKS_PER_SECOND


def foreign_seconds(
    busy: Mapping[int, float],
    instances: Mapping[str, tuple[cpuset.CpuSet, float]],
) -> dict[str, float]:
    """How long CPUs worked for nobody that they were given to.

    Instances that share CPUs may use them unevenly, so that their CPUs are
    looked at together, and those of others that share these.

    :param busy: seconds, by CPU
    :param instances: all there are: CPUs, and seconds of CPU time meanwhile
    :returns: seconds of each CPU that an instance may use, the mean; none of
        instances one of whose CPUs is not in ``busy``
    """
    found = {}
    for name, (group, _seconds) in instances.items():
        # The farthest that others can be is through all of them.
        for _step in instances:
            own = [one for one in instances.values()
                   if not one[0].isdisjoint(group)]
            group = cpuset.union(cpus for cpus, _seconds in own)
        if group and all(cpu in busy for cpu in group):
            found[name] = max(0.0, sum(busy[cpu] for cpu in group) - sum(
                seconds for _cpus, seconds in own)) / len(group)
    return found
