# SPDX-License-Identifier: Apache-2.0
"""H3xx: host services, other processes and threads of the kernel."""

import collections
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Sequence
import re

from nova_pinning.checks import check_rule
from nova_pinning import cpuset
from nova_pinning.host.check import commands
from nova_pinning.host.check import facts
from nova_pinning.host.check.rules import pins
from nova_pinning.host import qemu_process
from nova_pinning.host import words

# Threads of Open vSwitch with DPDK that poll NICs: 'pmd-c02/id:8', 'pmd8'.
_POLLING = re.compile(r'pmd(?:-c)?\d+(?:/.*)?')
# Threads that handle an interrupt follow it. Those of KVM go with a guest,
# and hardly ever run.
_OF_OTHERS = re.compile(r'irq/\d+-|kvm-pit/|kvm-nx-lpage-re')

_STEALS = ('whatever is done there takes time from a vCPU, which the guest '
           'sees as stolen time and as latency')
_CONFINE = ('install what "nova-pinning host render" writes and '
            'restart the services; a container is confined by its '
            'cpuset_cpus (kolla-ansible: the dimensions of its service), what '
            'else is not of systemd by whatever starts it')

# Engines with a command that confines a container while it runs.
_UPDATING = ('docker', 'podman')

# Services that a message names, those with the most threads.
_NAMED = 5

#: A process, and those of its threads that are astray.
_Stray = tuple[facts.HostProcess, tuple[qemu_process.QemuThread, ...]]


def is_polling(name: str) -> bool:
    """Whether it is the name of a thread of Open vSwitch that polls NICs."""
    return bool(_POLLING.fullmatch(name))


def is_of_others(name: str) -> bool:
    """Whether it is the name of a kernel thread that goes with another."""
    return bool(_OF_OTHERS.match(name))


def group(process: facts.HostProcess) -> str:
    """What people know a process by: 'service libvirtd', 'process sshd'.

    What is in a container goes by that: 'container cron (docker)'.
    """
    container = process.container
    if container:
        return f'container {container.name}' + (
            f' ({container.engine})' if container.engine else '')
    unit, _dot, kind = process.unit.rpartition('.')
    if kind in ('service', 'scope'):
        return f'{kind} {unit}'
    # Titles that programs give themselves are cut off: 'nova-conductor:'.
    return f'process {process.name.removesuffix(":")}'


def _astray(
    view: facts.CheckedHost, is_astray: Callable[[cpuset.CpuSet], bool],
) -> list[_Stray]:
    """Threads of user space that somebody put where they must not be.

    :param is_astray: given the online CPUs that a thread may run on, of which
        one at least is a dedicated or poll CPU
    """
    astray = []
    own = pins.own_of_units(view)
    for process in view.facts.processes:
        if process.of_kernel:
            continue
        taken = view.taken_cpus - own.get(process.unit, pins.NO_CPUS)
        threads = tuple(
            thread for thread in process.threads
            if thread.may_move and not is_polling(thread.name) and
            not taken.isdisjoint(thread.cpus & view.online_cpus) and
            is_astray(thread.cpus & view.online_cpus))
        if threads:
            astray.append((process, threads))
    return astray


def _evidence(
    strays: Sequence[_Stray], expected: cpuset.CpuSet,
) -> tuple[facts.HostEvidence, ...]:
    # A list may be cut off: no process hides behind the threads of another.
    firsts = [(process, threads[0]) for process, threads in strays]
    rest = [(process, thread) for process, threads in strays
            for thread in threads[1:]]
    return tuple(
        facts.HostEvidence(pid=process.pid, tid=thread.tid, name=thread.name,
                           cpus=thread.cpus, expected_cpus=expected)
        for process, thread in (*firsts, *rest))


def remediation(
    view: facts.CheckedHost, process: facts.HostProcess,
    threads: Iterable[qemu_process.QemuThread], cpus: cpuset.CpuSet,
) -> Iterable[str]:
    """Commands that let threads of a process run on these CPUs only.

    Its container is confined as a whole, unless guests run in it.
    """
    container = process.container
    if container and container.engine in _UPDATING and container not in (
            guest.container for guest in view.facts.guests):
        return (commands.confine_container(container, cpus),)
    return commands.move_process(process, threads, cpus)


def _violation(
    view: facts.CheckedHost, subject: str, message: str,
    strays: Sequence[_Stray], severity: check_rule.Severity | None = None,
) -> check_rule.Violation:
    """What is not on the CPUs for the host, and what puts it there."""
    host_cpus = view.plan.host_cpus
    return check_rule.Violation(
        subject=subject, message=message, severity=severity,
        evidence=_evidence(strays, host_cpus),
        remediation=tuple(dict.fromkeys(
            command for process, threads in strays
            for command in remediation(view, process, threads, host_cpus))))


@check_rule.rule(
    'H301', check_rule.Severity.ERROR, 'services and processes on all CPUs',
    why='nobody has confined them, so that the scheduler runs them on '
        f'dedicated CPUs as well; {_STEALS}',
    advice=f'{_CONFINE}; CPUAffinity= in system.conf of systemd is the '
           'default of all services')
def unconfined(view: facts.CheckedHost) -> check_rule.Violations:
    strays = _astray(view, view.online_cpus.issubset)
    groups: collections.Counter[str] = collections.Counter()
    for process, threads in strays:
        groups[group(process)] += len(threads)
    if groups:
        names = [name for name, _count in groups.most_common()]
        yield _violation(
            view, names[0] if len(groups) == 1
            else f'{len(groups)} services and processes',
            f'{words.count(groups.total(), "thread")} of '
            f'{words.listed(names, _NAMED)} may run on all CPUs, '
            f'{words.cpus(view.taken_cpus)} among them, which are not for '
            'the host', strays)


@check_rule.rule(
    'H302', check_rule.Severity.ERROR, 'service or process on dedicated CPUs',
    why=f'somebody has put it there; {_STEALS}',
    advice=_CONFINE)
def misplaced(view: facts.CheckedHost) -> check_rule.Violations:
    groups: dict[str, list[_Stray]] = {}
    for process, threads in _astray(
            view, lambda cpus: not view.online_cpus.issubset(cpus)):
        groups.setdefault(group(process), []).append((process, threads))
    for name, strays in sorted(groups.items()):
        allowed = cpuset.union(
            thread.cpus for _process, threads in strays for thread in threads)
        count = sum(len(threads) for _process, threads in strays)
        yield _violation(
            view, name, f'{words.count(count, "thread")} may run on '
            f'{words.cpus(allowed & view.taken_cpus)}, not for the host',
            strays)


@check_rule.rule(
    'H303', check_rule.Severity.WARNING,
    'threads of the kernel on dedicated CPUs',
    why='they could run elsewhere; what they do takes time from vCPUs; a note '
        'where the kernel may run them on other CPUs as well',
    advice='start the unit nova-pinning-host that "nova-pinning host '
           'render" writes, again if they have begun since; some stay on '
           'all CPUs of their node even with nohz_full=')
def kernel_threads(view: facts.CheckedHost) -> check_rule.Violations:
    strays = [
        (process, process.threads) for process in view.facts.processes
        if process.of_kernel and process.may_move and
        not is_of_others(process.name) and any(
            not view.taken_cpus.isdisjoint(thread.cpus & view.online_cpus)
            for thread in process.threads)]
    if strays:
        yield _violation(
            view, 'kernel',
            f'{words.count(len(strays), "thread")} of the kernel may run on '
            'dedicated or poll CPUs', strays, None if any(
                (thread.cpus & view.online_cpus).issubset(view.taken_cpus)
                for _process, threads in strays for thread in threads)
            else check_rule.Severity.NOTE)


@check_rule.rule(
    'H304', check_rule.Severity.NOTE,
    "kernel's deferred work on dedicated CPUs",
    why='work that the kernel puts off, such as writing to disks, may be done '
        'on any of these CPUs',
    advice='start the unit nova-pinning-host that "nova-pinning host '
           'render" writes; nohz_full= and isolcpus= do that as well')
def workqueues(view: facts.CheckedHost) -> check_rule.Violations:
    there = view.facts.workqueue_cpus
    astray = (there or cpuset.CpuSet()) & view.taken_cpus & view.online_cpus
    if astray:
        yield check_rule.Violation(
            subject='kernel',
            message=f'unbound work may run on {words.cpus(astray)}',
            evidence=(facts.HostEvidence(
                name='workqueues', cpus=there,
                expected_cpus=view.plan.host_cpus),),
            remediation=(commands.write(
                '/sys/devices/virtual/workqueue/cpumask',
                view.plan.host_cpus.kernel_mask),))


@check_rule.rule(
    'H305', check_rule.Severity.ERROR,
    'polling thread that is not on a poll CPU',
    why='a thread of Open vSwitch that polls NICs never rests: whatever '
        'shares its CPU gets half of it at most',
    advice='set the mask that "nova-pinning host render" writes for Open '
           'vSwitch')
def polling_threads(view: facts.CheckedHost) -> check_rule.Violations:
    poll_cpus = view.plan.poll_cpus
    for process in view.facts.processes:
        threads = tuple(
            thread for thread in process.threads
            if not process.of_kernel and is_polling(thread.name) and
            not (thread.cpus & view.online_cpus).issubset(poll_cpus))
        if threads:
            allowed = cpuset.union(thread.cpus for thread in threads)
            remediation = () if not poll_cpus else (
                'ovs-vsctl set Open_vSwitch . other_config:pmd-cpu-mask='
                f'0x{poll_cpus.mask:x}',)
            yield check_rule.Violation(
                subject=group(process),
                message=f'{words.count(len(threads), "polling thread")} may '
                        f'run on {words.cpus(allowed - poll_cpus)}, planned '
                        f'for them is {words.cpus(poll_cpus)}',
                evidence=_evidence([(process, threads)], poll_cpus),
                remediation=remediation)


@check_rule.rule(
    'H306', check_rule.Severity.WARNING, 'poll CPUs on which nothing polls',
    why='they are kept from guests for nothing, and packets take time from '
        'other CPUs',
    advice='run the script that "nova-pinning host render" writes for Open '
           'vSwitch, and look whether it has ports of DPDK')
def idle_poll_cpus(view: facts.CheckedHost) -> check_rule.Violations:
    polled = cpuset.union(
        thread.cpus for process in view.facts.processes
        if not process.of_kernel for thread in process.threads
        if is_polling(thread.name))
    idle = (view.plan.poll_cpus & view.online_cpus) - polled
    if idle:
        yield check_rule.Violation(
            subject='Open vSwitch',
            message=f'no thread polls on {words.cpus(idle)}',
            evidence=(facts.HostEvidence(
                cpus=polled, expected_cpus=view.plan.poll_cpus),))
