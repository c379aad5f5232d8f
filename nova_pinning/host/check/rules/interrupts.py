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

"""H4xx: interrupts."""

from collections.abc import Iterable
from collections.abc import Iterator

from nova_pinning import cpuset
from nova_pinning.host.check import commands
from nova_pinning.host.check import facts
from nova_pinning.host.check import finding
from nova_pinning.host.check import rule
from nova_pinning.host import words

_PLACE = ('start the unit that "nova-pinning host render" writes, which '
          'places all interrupts')


def _goes_to(interrupt: facts.Interrupt) -> cpuset.CpuSet:
    return interrupt.effective_cpus or interrupt.cpus


def _passed_through(view: rule.View) -> dict[str, cpuset.CpuSet]:
    """Devices of guests, each with the CPUs of its guest's vCPUs."""
    return {
        address: cpuset.union(
            thread.cpus for thread in guest.qemu.vcpus.values())
        for guest in view.facts.guests if guest.domain
        for address in guest.domain.hostdevs}


def _astray(view: rule.View) -> Iterator[facts.Interrupt]:
    """Interrupts that arrive on CPUs that are not for them."""
    own = _passed_through(view)
    for interrupt in view.facts.interrupts:
        # Those of a guest's device do it no harm on its own CPUs.
        taken = view.taken_cpus - own.get(interrupt.device, cpuset.CpuSet())
        if not taken.isdisjoint(_goes_to(interrupt)):
            yield interrupt


def _expected(view: rule.View, device: str) -> cpuset.CpuSet:
    for planned in view.plan.interrupts:
        if planned.address == device:
            return planned.cpus
    return view.plan.host_cpus


def _subject(view: rule.View, device: str) -> str:
    if not device:
        return 'interrupts of no PCI device'
    names = next((one.names for one in view.facts.host.pci_devices
                  if one.address == device), ())
    return f'interrupts of {", ".join(names) or device}'


def _by_device(
    interrupts: Iterable[facts.Interrupt],
) -> dict[str, list[facts.Interrupt]]:
    groups: dict[str, list[facts.Interrupt]] = {}
    for interrupt in interrupts:
        groups.setdefault(interrupt.device, []).append(interrupt)
    return groups


def _evidence(
    interrupts: Iterable[facts.Interrupt], expected: cpuset.CpuSet,
) -> tuple[finding.Evidence, ...]:
    return tuple(
        finding.Evidence(
            interrupt=one.number, name=','.join(one.names),
            cpus=_goes_to(one), expected_cpus=expected)
        for one in interrupts)


def _mends(
    interrupts: Iterable[facts.Interrupt], expected: cpuset.CpuSet,
) -> tuple[str, ...]:
    # A list of several CPUs may all end on the first: one CPU for each in
    # turn spreads them.
    cpus = tuple(expected)
    return tuple(
        commands.move_interrupt(
            one.number, cpuset.CpuSet([cpus[place % len(cpus)]]))
        for place, one in enumerate(interrupts)) if cpus else ()


@rule.rule(
    'H401', finding.Severity.ERROR, 'interrupts on dedicated CPUs',
    why='each one stops a vCPU for some microseconds, and what the kernel '
        'does about it afterwards for longer; under load that is ten '
        'thousands a second',
    advice=_PLACE)
def on_dedicated(view: rule.View) -> Iterator[rule.Problem]:
    astray = (one for one in _astray(view) if not one.managed)
    for device, found in sorted(_by_device(astray).items()):
        expected = _expected(view, device)
        where = cpuset.union(map(_goes_to, found)) & view.taken_cpus
        yield rule.Problem(
            subject=_subject(view, device),
            message=f'{words.count(len(found), "interrupt")} may arrive on '
                    f'{words.cpus(where)}, not for the host',
            evidence=_evidence(found, expected),
            mends=_mends(found, expected),
            # Timers, buttons and serial lines are seldom heard of.
            severity=None if device else finding.Severity.WARNING)


@rule.rule(
    'H402', finding.Severity.NOTE,
    'interrupts that the kernel keeps on dedicated CPUs',
    why='the kernel gives each CPU a queue of such a device and does not let '
        'anybody move its interrupt; it arrives where a thread has used the '
        'device from that very CPU, so on a dedicated CPU hardly ever',
    advice='nothing as long as no stray thread runs there; isolcpus with '
           'managed_irq keeps them off for good')
def managed(view: rule.View) -> Iterator[rule.Problem]:
    found = [one for one in _astray(view) if one.managed]
    if found:
        yield rule.Problem(
            subject='interrupts of '
                    + words.listed(sorted(_names(view, found))),
            message=f'{words.count(len(found), "interrupt")} cannot be moved '
                    'off dedicated or poll CPUs',
            evidence=_evidence(found, view.plan.host_cpus))


def _names(
    view: rule.View, interrupts: Iterable[facts.Interrupt],
) -> Iterator[str]:
    for device in _by_device(interrupts):
        yield _subject(view, device).removeprefix('interrupts of ')


@rule.rule(
    'H403', finding.Severity.WARNING, 'interrupts that are not where planned',
    why='packets and blocks are handled far from the device, or all on one '
        'CPU',
    advice=_PLACE)
def not_as_planned(view: rule.View) -> Iterator[rule.Problem]:
    groups = _by_device(
        one for one in view.facts.interrupts if not one.managed)
    for planned in view.plan.interrupts:
        # Those on dedicated CPUs are another rule's.
        found = [
            one for one in groups.get(planned.address, ())
            if not _goes_to(one).issubset(planned.cpus) and
            _goes_to(one).isdisjoint(view.taken_cpus)]
        if found:
            where = cpuset.union(map(_goes_to, found)) - planned.cpus
            yield rule.Problem(
                subject=f'interrupts of {planned.name}',
                message=f'{words.count(len(found), "interrupt")} may arrive '
                        f'on {words.cpus(where)}, planned is '
                        f'{words.cpus(planned.cpus)}',
                evidence=_evidence(found, planned.cpus),
                mends=_mends(found, planned.cpus))


@rule.rule(
    'H404', finding.Severity.WARNING,
    'irqbalance may put interrupts on dedicated CPUs',
    why='it moves interrupts to CPUs that look idle to it, every ten seconds; '
        'a list of banned CPUs also makes it forget those that are isolated '
        'or nohz_full',
    advice='install the settings that "nova-pinning host render" writes for '
           'it, or stop it where interrupts are placed by hand')
def irqbalance_ban(view: rule.View) -> Iterator[rule.Problem]:
    irqbalance = view.facts.irqbalance
    if irqbalance is None:
        return
    system = view.facts.host.system
    banned = irqbalance.banned_cpus
    if banned is None:
        banned = system.isolated_cpus | system.nohz_full_cpus
    open_cpus = (view.taken_cpus & view.online_cpus) - banned
    if open_cpus:
        yield rule.Problem(
            subject='service irqbalance',
            message=f'nothing keeps it off {words.cpus(open_cpus)}',
            evidence=(finding.Evidence(
                pid=irqbalance.pid, name='banned CPUs', cpus=banned,
                expected_cpus=view.taken_cpus),),
            mends=('systemctl restart irqbalance',))


@rule.rule(
    'H405', finding.Severity.NOTE, 'irqbalance moves interrupts that are '
    'placed',
    why='the plan places the interrupts of devices on certain CPUs, and '
        'irqbalance moves them to others that it is not banned from',
    advice='stop it where interrupts are placed, or leave them all to it')
def irqbalance_runs(view: rule.View) -> Iterator[rule.Problem]:
    irqbalance = view.facts.irqbalance
    if irqbalance and view.plan.interrupts:
        names = words.listed([one.name for one in view.plan.interrupts])
        yield rule.Problem(
            subject='service irqbalance',
            message=f'it may move the interrupts of {names}, which the plan '
                    'places',
            evidence=(finding.Evidence(
                pid=irqbalance.pid, name='irqbalance'),),
            mends=('systemctl disable --now irqbalance',))


@rule.rule(
    'H406', finding.Severity.NOTE, 'interrupts are allowed on dedicated CPUs',
    why='they arrive elsewhere now, but the kernel may move them there when a '
        'device is set up anew or a CPU is switched off',
    advice=f'{_PLACE}; irqaffinity= on the kernel command line is for all '
           'that come later')
def allowed(view: rule.View) -> Iterator[rule.Problem]:
    taken = view.taken_cpus & view.online_cpus
    default = view.facts.default_interrupt_cpus
    if default and default & taken:
        yield rule.Problem(
            subject='new interrupts',
            message=f'they may arrive on {words.cpus(default & taken)}',
            evidence=(finding.Evidence(
                name='default_smp_affinity', cpus=default,
                expected_cpus=view.plan.host_cpus),),
            mends=(commands.write('/proc/irq/default_smp_affinity',
                                  view.plan.host_cpus.kernel_mask),))
    astray = {one.number for one in _astray(view)}
    own = _passed_through(view)
    found = [one for one in view.facts.interrupts
             if not one.managed and one.number not in astray and one.cpus
             & taken - own.get(one.device, cpuset.CpuSet())]
    if found:
        yield rule.Problem(
            subject='interrupts',
            message=f'{words.count(len(found), "interrupt")} may be moved to '
                    'dedicated or poll CPUs',
            evidence=tuple(
                finding.Evidence(
                    interrupt=one.number, name=','.join(one.names),
                    cpus=one.cpus, expected_cpus=_expected(view, one.device))
                for one in found),
            mends=tuple(
                commands.move_interrupt(
                    one.number, _goes_to(one) & _expected(view, one.device)
                    or _expected(view, one.device))
                for one in found))


RULES = (on_dedicated, managed, not_as_planned, irqbalance_ban,
         irqbalance_runs, allowed)
