# SPDX-License-Identifier: Apache-2.0
"""H7xx: what ran where it does not belong, judged after it was watched."""

from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
import dataclasses
import functools
import re

from nova_pinning.checks import check_rule
from nova_pinning import cpuset
from nova_pinning.host.check import commands
from nova_pinning.host.check import cpu_watch
from nova_pinning.host.check import facts
from nova_pinning.host.check.rules import interrupts
from nova_pinning.host.check.rules import pins
from nova_pinning.host.check.rules import services
from nova_pinning.host import words

_Severity = check_rule.Severity

THREAD = check_rule.Rule[facts.CheckedHost](
    'H701', _Severity.WARNING, 'thread ran on CPUs that are not for it',
    'the vCPU or polling thread that the CPU is for waited meanwhile; an '
    'error where it waited for 1 % of the time',
    'install what "nova-pinning host render" writes and restart what ran '
    'there')
INTERRUPT = check_rule.Rule[facts.CheckedHost](
    'H702', _Severity.WARNING, 'interrupts arrived on CPUs that are not for '
    'them',
    'each has stopped a vCPU or polling thread',
    'start the unit that "nova-pinning host render" writes, which places all '
    'interrupts')

# What part of a CPU's time makes it an error.
_MUCH = 0.01

_NONE = cpuset.CpuSet()
_OF_GUEST = re.compile(r'(?:vhost-|kvm-pit/)(\d+)')
# They run where a mask for all of them says.
_UNBOUND = 'kworker/u'
_UNBOUND_MASK = '/sys/devices/virtual/workqueue/cpumask'

_Remediation = Callable[[cpuset.CpuSet], Iterable[str]]


@dataclasses.dataclass(frozen=True, slots=True)
class _ThreadHome:
    """Where a guest's thread belongs.

    :param cpus: those CPUs that are set apart for it
    :param home: the CPUs to put it on
    :param remediation: commands that put it on CPUs
    """

    guest: facts.RunningGuest
    cpus: cpuset.CpuSet
    home: cpuset.CpuSet
    remediation: _Remediation


@dataclasses.dataclass(frozen=True, slots=True)
class _Stray:
    """A thread on CPUs that are not for it.

    :param seconds: how long it ran there, by CPU
    :param home: where it belongs, for those of guests
    """

    run: cpu_watch.Run
    seconds: Mapping[int, float]
    is_estimate: bool
    home: _ThreadHome | None


class ForeignWorkJudge:
    """Tells what belongs on a CPU from what does not.

    :param view: when it had been watched
    :param before: the guests that there were before
    """

    def __init__(self, watched: cpu_watch.Watched, view: facts.CheckedHost,
                 before: Iterable[facts.RunningGuest] = ()) -> None:
        self._watched = watched
        self._time = words.duration(watched.seconds)
        self._view = view
        self._own: dict[str, cpuset.CpuSet] = {}
        self._homes: dict[int, _ThreadHome] = {}
        self._emulators: dict[int, _ThreadHome] = {}
        self._units = pins.own_of_units(view)
        for guest in (*before, *view.facts.guests):
            self._add(guest)
        self._strays = tuple(filter(None, map(self._stray, watched.runs)))

    @property
    def foreign_seconds(self) -> dict[int, float]:
        """How long any thread that does not belong there ran, by CPU."""
        return dict.fromkeys(self._watched.cpus, 0.0) | _by_cpu(self._strays)

    def findings(self) -> Iterator[check_rule.Finding]:
        """What H7xx have to say, the worst of each first."""
        groups: dict[str, list[_Stray]] = {}
        for stray in self._strays:
            if not stray.home or stray.home.guest.is_asked_for:
                groups.setdefault(self._subject(stray), []).append(stray)
        for subject, strays in sorted(
                groups.items(), key=lambda group: -_total(group[1])):
            yield THREAD.finding(self._problem(subject, strays))
        interrupted = [
            INTERRUPT.finding(self._interrupted(device, arrivals))
            for device, arrivals in self._arrivals().items()]
        yield from sorted(
            interrupted,
            key=lambda finding: finding.severity is _Severity.NOTE)

    def _add(self, guest: facts.RunningGuest) -> None:
        """Note where the threads of a guest belong.

        A vCPU without a CPU of its own floats, and has no business on any
        that is set apart.
        """
        qemu, domain, view = guest.qemu, guest.domain, self._view
        own = view.taken_cpus - pins.not_for(view, guest)
        home = (domain and domain.emulator_pin) or own or view.shared_cpus
        home_of_emulator = self._emulators[qemu.pid] = _ThreadHome(
            guest, own, home, functools.partial(commands.pin_emulator, guest))
        for thread in qemu.vhost:
            self._homes[thread.tid] = home_of_emulator
        for vcpu, thread in qemu.vcpus.items():
            cpus = pins.meant(view, guest, vcpu, thread)
            is_pinned = len(cpus) == 1
            self._homes[thread.tid] = _ThreadHome(
                guest, cpus if is_pinned else _NONE,
                cpus if is_pinned else view.shared_cpus,
                functools.partial(_pin, commands.pin_vcpu, guest, vcpu))
        for number, thread in qemu.iothreads.items():
            pin = domain.iothread_pins.get(number) if domain else None
            self._homes[thread.tid] = _ThreadHome(
                guest, own, pin or home,
                functools.partial(_pin, commands.pin_iothread, guest, number))
        for address in domain.hostdevs if domain else ():
            self._own[address] = own

    def _home_of(self, run: cpu_watch.Run) -> _ThreadHome | None:
        """Where a guest's thread belongs; None for what is of no guest."""
        home = (self._homes.get(run.thread.tid)
                or self._emulators.get(run.process.pid))
        if home is None and (match := _OF_GUEST.fullmatch(run.thread.name)):
            home = self._emulators.get(int(match[1]))
        return home

    def _stray(self, run: cpu_watch.Run) -> _Stray | None:
        home = self._home_of(run)
        own = _NONE
        if home:
            own = home.cpus
        elif _is_polling(run):
            own = self._view.plan.poll_cpus
        else:
            own = self._units.get(run.process.unit, _NONE)
        seconds = {cpu: value for cpu, value in run.seconds.items()
                   if cpu not in own}
        if not seconds or _is_bound(run):
            return None
        cpus = run.thread.cpus
        is_exact = cpus and cpus.isdisjoint(own) and any(
            cpus.issubset(members) for _name, members in self._classes())
        return _Stray(run, seconds, not is_exact, home)

    def _classes(self) -> Iterator[tuple[str, cpuset.CpuSet]]:
        yield 'dedicated', self._view.dedicated_cpus
        yield 'poll', self._view.plan.poll_cpus

    def _subject(self, stray: _Stray) -> str:
        run = stray.run
        if stray.home:
            return pins.subject(stray.home.guest)
        return ('kernel' if run.process.of_kernel
                else services.group(run.process))

    def _problem(self, subject: str,
                 strays: Sequence[_Stray]) -> check_rule.Violation:
        most = max(_by_cpu(strays).values())
        return check_rule.Violation(
            subject=subject, message=self._message(strays),
            evidence=self._evidence(strays),
            remediation=tuple(dict.fromkeys(
                command for stray in strays
                for command in self._remediation(stray))),
            severity=(_Severity.ERROR if most >= _MUCH * self._watched.seconds
                      else None))

    def _message(self, strays: Sequence[_Stray]) -> str:
        about = 'about ' if any(stray.is_estimate for stray in strays) else ''
        return (f'{words.count(len(strays), "thread")} ran on '
                f'{self._where(cpuset.CpuSet(_by_cpu(strays)))} for {about}'
                f'{words.duration(_total(strays))} in {self._time}')

    def _where(self, cpus: cpuset.CpuSet) -> str:
        """'dedicated CPUs 4-5 and poll CPU 2'."""
        return ' and '.join(
            f'{name} {words.cpus(cpus & members)}'
            for name, members in self._classes() if cpus & members)

    def _evidence(
        self, strays: Sequence[_Stray],
    ) -> tuple[facts.HostEvidence, ...]:
        return tuple(
            facts.HostEvidence(
                pid=stray.run.process.pid, tid=stray.run.thread.tid,
                name=stray.run.thread.name,
                cpus=cpuset.CpuSet(stray.seconds),
                expected_cpus=self._belongs(stray),
                run_seconds=round(_total([stray]), 9),
                is_estimate=stray.is_estimate)
            for stray in sorted(strays, key=lambda stray: (
                -_total([stray]), stray.run.thread.tid)))

    def _belongs(self, stray: _Stray) -> cpuset.CpuSet:
        if stray.home:
            return stray.home.home
        if _is_polling(stray.run):
            return self._view.plan.poll_cpus
        return self._view.plan.host_cpus

    def _remediation(self, stray: _Stray) -> Iterable[str]:
        cpus, thread = self._belongs(stray), stray.run.thread
        if not cpus:
            return ()
        if stray.home:
            return stray.home.remediation(cpus)
        if thread.may_move:
            return services.remediation(
                self._view, stray.run.process, (thread,), cpus)
        if stray.run.process.of_kernel:
            return (commands.write(_UNBOUND_MASK, cpus.kernel_mask),)
        return ()

    def _arrivals(self) -> dict[str, list[cpu_watch.Arrivals]]:
        """Interrupts by PCI address, '' for those of no device.

        What a device of a guest sends to that guest's CPUs is left out.
        """
        devices = {interrupt.number: interrupt.device
                   for interrupt in self._view.facts.interrupts}
        groups: dict[str, list[cpu_watch.Arrivals]] = {}
        for arrival in self._watched.arrivals:
            device = devices.get(arrival.number, '')
            own = self._own.get(device, _NONE)
            counts = {cpu: count for cpu, count in arrival.counts.items()
                      if cpu not in own}
            if counts:
                groups.setdefault(device, []).append(
                    dataclasses.replace(arrival, counts=counts))
        return groups

    def _interrupted(
            self, device: str,
            arrivals: Sequence[cpu_watch.Arrivals]) -> check_rule.Violation:
        managed = {
            interrupt.number
            for interrupt in self._view.facts.interrupts
            if interrupt.managed}
        movable = [
            arrival for arrival in arrivals if arrival.number not in managed]
        cpus = interrupts.expected(self._view, device)
        total = sum(sum(arrival.counts.values()) for arrival in arrivals)
        where = cpuset.CpuSet(
            cpu for arrival in arrivals for cpu in arrival.counts)
        return check_rule.Violation(
            subject=interrupts.subject(self._view, device),
            message=f'{words.count(total, "interrupt")} arrived on '
            f'{self._where(where)} in {self._time}',
            evidence=tuple(
                facts.HostEvidence(interrupt=arrival.number,
                                   name=','.join(arrival.names),
                                   cpus=cpuset.CpuSet(arrival.counts),
                                   expected_cpus=cpus,
                                   count=sum(arrival.counts.values()))
                for arrival in arrivals),
            remediation=tuple(
                commands.move_interrupt(interrupt.number, cpus)
                for interrupt in movable),
            severity=None if movable else _Severity.NOTE,
            advice='' if movable else
            'nobody can move these, for the kernel gives each CPU a queue of '
            'the device; isolcpus= with managed_irq keeps them off')


def _pin(command: Callable[[facts.RunningGuest, int, cpuset.CpuSet], str],
         guest: facts.RunningGuest, number: int,
         cpus: cpuset.CpuSet) -> tuple[str, ...]:
    return (command(guest, number, cpus),)


def _is_bound(run: cpu_watch.Run) -> bool:
    """Whether it is of those that the kernel has on each CPU.

    Nobody can move them, so that there is nothing to tell.
    """
    return (run.process.of_kernel and not run.thread.may_move
            and not run.thread.name.startswith(_UNBOUND))


def _is_polling(run: cpu_watch.Run) -> bool:
    return not run.process.of_kernel and services.is_polling(run.thread.name)


def _by_cpu(strays: Iterable[_Stray]) -> dict[int, float]:
    """Seconds that they ran together."""
    total: dict[int, float] = {}
    for stray in strays:
        for cpu, seconds in stray.seconds.items():
            total[cpu] = total.get(cpu, 0.0) + seconds
    return total


def _total(strays: Iterable[_Stray]) -> float:
    return sum(_by_cpu(strays).values())
