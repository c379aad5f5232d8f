# SPDX-License-Identifier: Apache-2.0
"""What the kernel can be told, while it runs, so that guests wait less.

Each lever has its price, and hosts for which it is not. A plan says which are
pulled, what ``host render`` writes pulls them, and ``host check`` looks
whether they are.
"""

from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Mapping
import dataclasses
import textwrap

from nova_pinning import cpuset

#: What the kernel calls a latency of nothing: no idle state but polling.
NO_WAIT = 'n/a'
#: The most microseconds that an idle CPU may be asked to wake up in.
MOST_WAKE_US = 100000


@dataclasses.dataclass(frozen=True, slots=True)
class LeverHost:
    """What matters of a host for the choice of levers.

    :param quiet_cpus: those of dedicated guests, and those that poll
    :param has_guest_pages: whether guests' memory is in huge pages
    :param has_floating: whether there are shared guests as well
    :param wake_us: microseconds in which a CPU is to wake up, 0 for NO_WAIT;
        None if nobody cares
    """

    host_cpus: cpuset.CpuSet
    quiet_cpus: cpuset.CpuSet
    has_guest_pages: bool
    has_floating: bool = False
    wake_us: int | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Lever:
    """One of them.

    :param name: what people know it by; unique
    :param path: the file, with {cpu} where each CPU has one
    :param value: what to write for a host, '' where the lever is left alone
    :param why: what it brings
    :param costs: what it takes
    :param not_where: the hosts for which it is not
    :param source: where the kernel documents it
    """

    name: str
    path: str
    value: Callable[[LeverHost], str]
    why: str
    costs: str
    not_where: str
    source: str

    def paths(self, cpus: cpuset.CpuSet) -> Iterator[str]:
        """The files; one for each of the CPUs, or one for all."""
        if '{cpu}' in self.path:
            for cpu in cpus:
                yield self.path.format(cpu=cpu)
        else:
            yield self.path

    def is_pulled(self, there: str, planned: str) -> bool:
        """Whether a file says what is planned.

        Lists of CPUs may be written in several ways, and of words the one in
        brackets counts: 'always [madvise] never'.
        """
        _before, bracket, rest = there.partition('[')
        if bracket:
            there = rest.partition(']')[0]
        if there == planned:
            return True
        try:
            return cpuset.CpuSet.parse(there) == cpuset.CpuSet.parse(planned)
        except ValueError:
            return False


def _wake(host: LeverHost) -> str:
    if host.wake_us is None:
        return ''
    return str(host.wake_us) if host.wake_us else NO_WAIT


#: All of them, by name.
LEVERS: Mapping[str, Lever] = {lever.name: lever for lever in (
    Lever(
        'watchdog_cpumask', '/proc/sys/kernel/watchdog_cpumask',
        lambda host: str(host.host_cpus),
        'the watchdogs for CPUs that hang, the NMI watchdog among them, look '
        'after the CPUs for the host only: they wake a thread on each CPU '
        'every few seconds and take one of its performance counters',
        'a CPU of guests that hangs in the kernel is not told of by the host',
        'the host crashes for reasons that nobody knows yet',
        'Documentation/admin-guide/lockup-watchdogs.rst and '
        'sysctl/kernel.rst, watchdog_cpumask'),
    Lever(
        'stat_interval', '/proc/sys/vm/stat_interval',
        lambda host: '10',
        "each CPU's memory statistics are gathered every 10 seconds instead "
        'of every second',
        'figures in /proc/vmstat and /proc/meminfo are older',
        'something decides by them within seconds',
        'Documentation/admin-guide/sysctl/vm.rst, stat_interval'),
    Lever(
        'timer_migration', '/proc/sys/kernel/timer_migration',
        lambda host: '0',
        'timers that host services set stay on the CPU where they were set, '
        'instead of going to a CPU that is not idle, which may be one of a '
        'guest',
        'idle CPUs for the host wake up for their own timers, which takes '
        'power',
        'power counts for more than latency',
        'Documentation/admin-guide/sysctl/kernel.rst, timer_migration'),
    Lever(
        'compaction_proactiveness', '/proc/sys/vm/compaction_proactiveness',
        lambda host: '0' if host.has_guest_pages else '',
        'the kernel does not put free memory together in advance: to move a '
        'page it interrupts every CPU that may have it in its TLB',
        'programs of the host get transparent huge pages more seldom',
        "guests' memory is not in huge pages of hugetlbfs",
        'Documentation/admin-guide/sysctl/vm.rst, compaction_proactiveness'),
    Lever(
        'transparent_hugepage_defrag',
        '/sys/kernel/mm/transparent_hugepage/defrag',
        lambda host: 'madvise' if host.has_guest_pages else '',
        'only programs that ask for huge pages make the kernel look for them '
        'at once, which moves pages of others',
        'other programs get small pages where there are no huge ones',
        "guests' memory is not in huge pages of hugetlbfs",
        'Documentation/admin-guide/mm/transhuge.rst, defrag'),
    Lever(
        'halt_poll_ns', '/sys/module/kvm/parameters/halt_poll_ns',
        lambda host: '' if host.has_floating else '200000',
        'a vCPU that halts is waited for on its CPU for up to 200 '
        'microseconds, so that it is back at once if it is woken by then',
        "power, and a part of what the sibling thread could do; what the "
        'guest does not use shows as used on the host',
        'guests share CPUs, or power counts for more than latency',
        'Documentation/virt/kvm/halt-polling.rst'),
    Lever(
        'resume_latency',
        '/sys/devices/system/cpu/cpu{cpu}/power/pm_qos_resume_latency_us',
        _wake,
        'idle CPUs of guests keep to idle states (C-states) out of which they '
        'wake in time',
        'power and heat, and with them a part of the highest clock of all '
        'cores that are busy; with n/a they never rest at all',
        'guests are idle most of the time, or single threads are to be as '
        'fast as can be',
        'Documentation/admin-guide/pm/cpuidle.rst and '
        'Documentation/ABI/testing/sysfs-devices-power'),
)}


def chosen(host: LeverHost,
           without: frozenset[str] = frozenset()) -> dict[str, str]:
    """What each lever is to be set to, without those that are left alone.

    :param without: names of levers that are not wanted
    """
    if not host.quiet_cpus:
        return {}
    values = {name: lever.value(host) for name, lever in LEVERS.items()
              if name not in without}
    return {name: value for name, value in values.items() if value}


def page() -> str:
    """All of them as a list of definitions, as reST."""
    lines = ['.. Generated: this file is written by '
             'tools/write_check_references.py']
    for lever in LEVERS.values():
        lines += ['', f'``{lever.name}``']
        lines += textwrap.wrap(
            f':file:`{lever.path}`: '
            f'{lever.why}. Costs: {lever.costs}. Not where '
            f"{lever.not_where}. See the kernel's {lever.source}.", 79,
            initial_indent='   ', subsequent_indent='   ',
            break_long_words=False, break_on_hyphens=False)
    return '\n'.join(lines) + '\n'
