#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

"""H7xx: what ran where it does not belong, judged after it was watched."""

from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
import dataclasses
import functools
import re

from nova_pinning import cpuset
from nova_pinning.host.check import commands
from nova_pinning.host.check import facts
from nova_pinning.host.check import finding
from nova_pinning.host.check import rule
from nova_pinning.host.check.rules import pins
from nova_pinning.host.check.rules import services
from nova_pinning.host.check import watch
from nova_pinning.host import words

_Severity = finding.Severity

THREAD = rule.Rule(
    'H701', _Severity.WARNING, 'thread ran on CPUs that are not for it',
    'the vCPU or polling thread that the CPU is for waited meanwhile; an '
    'error where it waited for 1 % of the time',
    'install the drop-ins that "nova-pinning host render" writes and restart '
    'what ran there')
INTERRUPT = rule.Rule(
    'H702', _Severity.WARNING, 'interrupts arrived on CPUs that are not for '
    'them',
    'each has stopped a vCPU or polling thread',
    'start the unit that "nova-pinning host render" writes, which places all '
    'interrupts')
BOUND = rule.Rule(
    'H703', _Severity.NOTE,
    "kernel's own threads ran on dedicated or poll CPUs",
    'the kernel has some threads on each CPU, which nobody can move; the '
    'fewer system calls and interrupts there are on a CPU, the less they run',
    'nothing, unless it is long; nohz_full= and rcu_nocbs= on the kernel '
    'command line leave them less to do')

RULES = (THREAD, INTERRUPT, BOUND)

# What part of a CPU's time makes it an error.
_MUCH = 0.01

_NONE = cpuset.CpuSet()
_OF_GUEST = re.compile(r'(?:vhost-|kvm-pit/)(\d+)')
# They run where a mask for all of them says.
_UNBOUND = 'kworker/u'
_UNBOUND_MASK = '/sys/devices/virtual/workqueue/cpumask'

_Mend = Callable[[cpuset.CpuSet], Iterable[str]]


@dataclasses.dataclass(frozen=True, slots=True)
class _Place:
    """Where a guest's thread belongs.

    :param cpus: those CPUs that are set apart for it
    :param home: the CPUs to put it on
    :param mend: commands that put it on CPUs
    """

    guest: facts.Guest
    cpus: cpuset.CpuSet
    home: cpuset.CpuSet
    mend: _Mend


@dataclasses.dataclass(frozen=True, slots=True)
class _Stray:
    """A thread on CPUs that are not for it.

    :param seconds: how long it ran there, by CPU
    :param place: where it belongs, for those of guests
    """

    run: watch.Run
    seconds: Mapping[int, float]
    is_estimate: bool
    place: _Place | None


class Judge:
    """Tells what belongs on a CPU from what does not.

    :param view: when it had been watched
    :param before: the guests that there were before
    """

    def __init__(self, watched: watch.Watched, view: rule.View,
                 before: Iterable[facts.Guest] = ()) -> None:
        self._watched = watched
        self._time = words.duration(watched.seconds)
        self._view = view
        self._own: dict[str, cpuset.CpuSet] = {}
        self._places: dict[int, _Place] = {}
        self._emulators: dict[int, _Place] = {}
        self._units = pins.own_of_units(view)
        for guest in (*before, *view.facts.guests):
            self._add(guest)
        self._strays = tuple(filter(None, map(self._stray, watched.runs)))

    @property
    def foreign_seconds(self) -> dict[int, float]:
        """How long any thread that does not belong there ran, by CPU.

        Those that the kernel binds do not count.
        """
        total = dict.fromkeys(self._watched.cpus, 0.0)
        return total | _by_cpu(
            one for one in self._strays if not _is_bound(one.run))

    def findings(self) -> Iterator[finding.Finding]:
        """What H7xx have to say, the worst of each first."""
        groups: dict[str, list[_Stray]] = {}
        bound = []
        for stray in self._strays:
            if _is_bound(stray.run):
                bound.append(stray)
            elif not stray.place or stray.place.guest.is_asked_for:
                groups.setdefault(self._subject(stray), []).append(stray)
        for subject in sorted(groups, key=lambda one: -_total(groups[one])):
            yield THREAD.finding(self._problem(subject, groups[subject]))
        interrupted = [
            INTERRUPT.finding(self._interrupted(device, arrivals))
            for device, arrivals in self._arrivals().items()]
        yield from sorted(
            interrupted, key=lambda one: one.severity is _Severity.NOTE)
        if bound:
            yield BOUND.finding(rule.Problem(
                subject='kernel', message=self._message(bound),
                evidence=self._evidence(bound)))

    def _add(self, guest: facts.Guest) -> None:
        """Note where the threads of a guest belong.

        A vCPU without a CPU of its own floats, and has no business on any
        that is set apart.
        """
        qemu, domain, view = guest.qemu, guest.domain, self._view
        own = view.taken_cpus - pins.not_for(view, guest)
        home = (domain and domain.emulator_pin) or own or view.shared_cpus
        place = self._emulators[qemu.pid] = _Place(
            guest, own, home, functools.partial(commands.pin_emulator, guest))
        for thread in qemu.vhost:
            self._places[thread.tid] = place
        for vcpu, thread in qemu.vcpus.items():
            cpus = pins.meant(view, guest, vcpu, thread)
            is_pinned = len(cpus) == 1
            self._places[thread.tid] = _Place(
                guest, cpus if is_pinned else _NONE,
                cpus if is_pinned else view.shared_cpus,
                functools.partial(_pin, commands.pin_vcpu, guest, vcpu))
        for number, thread in qemu.iothreads.items():
            pin = domain.iothread_pins.get(number) if domain else None
            self._places[thread.tid] = _Place(
                guest, own, pin or home,
                functools.partial(_pin, commands.pin_iothread, guest, number))
        for address in domain.hostdevs if domain else ():
            self._own[address] = own

    def _place(self, run: watch.Run) -> _Place | None:
        """Where a guest's thread belongs; None for what is of no guest."""
        found = (self._places.get(run.thread.tid)
                 or self._emulators.get(run.process.pid))
        if found is None and (match := _OF_GUEST.fullmatch(run.thread.name)):
            found = self._emulators.get(int(match[1]))
        return found

    def _stray(self, run: watch.Run) -> _Stray | None:
        place = self._place(run)
        own = _NONE
        if place:
            own = place.cpus
        elif _is_polling(run):
            own = self._view.plan.poll_cpus
        else:
            own = self._units.get(run.process.unit, _NONE)
        seconds = {cpu: value for cpu, value in run.seconds.items()
                   if cpu not in own}
        if not seconds:
            return None
        cpus = run.thread.cpus
        is_exact = cpus and cpus.isdisjoint(own) and any(
            cpus.issubset(members) for _name, members in self._classes())
        return _Stray(run, seconds, not is_exact, place)

    def _classes(self) -> Iterator[tuple[str, cpuset.CpuSet]]:
        yield 'dedicated', self._view.dedicated_cpus
        yield 'poll', self._view.plan.poll_cpus

    def _subject(self, stray: _Stray) -> str:
        run = stray.run
        if stray.place:
            return pins.subject(stray.place.guest)
        return ('kernel' if run.process.of_kernel
                else services.group(run.process))

    def _problem(self, subject: str,
                 strays: Sequence[_Stray]) -> rule.Problem:
        most = max(_by_cpu(strays).values())
        return rule.Problem(
            subject=subject, message=self._message(strays),
            evidence=self._evidence(strays),
            mends=tuple(dict.fromkeys(
                mend for stray in strays for mend in self._mends(stray))),
            severity=(_Severity.ERROR if most >= _MUCH * self._watched.seconds
                      else None))

    def _message(self, strays: Sequence[_Stray]) -> str:
        about = 'about ' if any(one.is_estimate for one in strays) else ''
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
    ) -> tuple[finding.Evidence, ...]:
        return tuple(
            finding.Evidence(
                pid=one.run.process.pid, tid=one.run.thread.tid,
                name=one.run.thread.name,
                cpus=cpuset.CpuSet(one.seconds),
                expected_cpus=(None if _is_bound(one.run)
                               else self._belongs(one)),
                run_seconds=round(_total([one]), 9),
                is_estimate=one.is_estimate)
            for one in sorted(strays, key=lambda one: (
                -_total([one]), one.run.thread.tid)))

    def _belongs(self, stray: _Stray) -> cpuset.CpuSet:
        if stray.place:
            return stray.place.home
        if _is_polling(stray.run):
            return self._view.plan.poll_cpus
        return self._view.plan.host_cpus

    def _mends(self, stray: _Stray) -> Iterable[str]:
        cpus, thread = self._belongs(stray), stray.run.thread
        if not cpus:
            return ()
        if stray.place:
            return stray.place.mend(cpus)
        if thread.may_move:
            return (commands.move_thread(thread.tid, cpus),)
        if stray.run.process.of_kernel:
            return (commands.write(_UNBOUND_MASK, cpus.kernel_mask),)
        return ()

    def _arrivals(self) -> dict[str, list[watch.Arrivals]]:
        """Interrupts by PCI address, '' for those of no device.

        What a device of a guest sends to that guest's CPUs is left out.
        """
        devices = {one.number: one.device
                   for one in self._view.facts.interrupts}
        groups: dict[str, list[watch.Arrivals]] = {}
        for one in self._watched.arrivals:
            device = devices.get(one.number, '')
            own = self._own.get(device, _NONE)
            counts = {cpu: count for cpu, count in one.counts.items()
                      if cpu not in own}
            if counts:
                groups.setdefault(device, []).append(
                    dataclasses.replace(one, counts=counts))
        return groups

    def _interrupted(self, device: str,
                     arrivals: Sequence[watch.Arrivals]) -> rule.Problem:
        managed = {one.number for one in self._view.facts.interrupts
                   if one.managed}
        movable = [one for one in arrivals if one.number not in managed]
        cpus = next((one.cpus for one in self._view.plan.interrupts
                     if one.address == device), self._view.plan.host_cpus)
        names = next((one.names for one in self._view.facts.host.pci_devices
                      if one.address == device), ())
        total = sum(sum(one.counts.values()) for one in arrivals)
        where = cpuset.CpuSet(cpu for one in arrivals for cpu in one.counts)
        return rule.Problem(
            subject='interrupts of '
                    + (', '.join(names) or device or 'no PCI device'),
            message=f'{words.count(total, "interrupt")} arrived on '
                    f'{self._where(where)} in {self._time}',
            evidence=tuple(
                finding.Evidence(
                    interrupt=one.number, name=','.join(one.names),
                    cpus=cpuset.CpuSet(one.counts), expected_cpus=cpus,
                    count=sum(one.counts.values())) for one in arrivals),
            mends=tuple(commands.move_interrupt(one.number, cpus)
                        for one in movable),
            severity=None if movable else _Severity.NOTE,
            advice='' if movable else
            'nobody can move these, for the kernel gives each CPU a queue of '
            'the device; isolcpus= with managed_irq keeps them off')


def _pin(command: Callable[[facts.Guest, int, cpuset.CpuSet], str],
         guest: facts.Guest, number: int,
         cpus: cpuset.CpuSet) -> tuple[str, ...]:
    return (command(guest, number, cpus),)


def _is_bound(run: watch.Run) -> bool:
    """Whether only the kernel can say where a thread of it runs."""
    return (run.process.of_kernel and not run.thread.may_move
            and not run.thread.name.startswith(_UNBOUND))


def _is_polling(run: watch.Run) -> bool:
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
