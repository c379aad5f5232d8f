# SPDX-License-Identifier: Apache-2.0
"""H4xx: interrupts."""

from collections.abc import Iterable
from collections.abc import Iterator
import shlex

from nova_pinning.checks import check_rule
from nova_pinning import cpuset
from nova_pinning.host.check import commands
from nova_pinning.host.check import facts
from nova_pinning.host import hardware
from nova_pinning.host import words

_PLACE = ('start the unit that "nova-pinning host render" writes, which '
          'places all interrupts')


def _goes_to(interrupt: facts.Interrupt) -> cpuset.CpuSet:
    return interrupt.effective_cpus or interrupt.cpus


def _passed_through(view: facts.CheckedHost) -> dict[str, cpuset.CpuSet]:
    """Devices of guests, each with the CPUs of its guest's vCPUs."""
    return {
        address: cpuset.union(
            thread.cpus for thread in guest.qemu.vcpus.values())
        for guest in view.facts.guests if guest.domain
        for address in guest.domain.hostdevs}


def _is_of_guest(interrupt: facts.Interrupt) -> bool:
    """Whether VFIO hands it on to a guest.

    See vfio_msi_set_vector_signal() in drivers/vfio/pci/vfio_pci_intrs.c.
    """
    return any(name.startswith('vfio-') for name in interrupt.names)


def _is_posted(view: facts.CheckedHost, interrupt: facts.Interrupt) -> bool:
    """Whether it reaches its vCPU without a CPU of the host.

    Its affinity says nothing then. A line (INTx) is never posted.
    """
    return bool(view.facts.host.system.posted_interrupts) and any(
        name.startswith('vfio-msi') for name in interrupt.names)


def _near_guest(view: facts.CheckedHost,
                own: cpuset.CpuSet) -> cpuset.CpuSet:
    """CPUs for what serves a guest: of its L3 cache, else of its node.

    They are none of its own, nor of any other guest's.
    """
    free = view.plan.host_cpus | view.shared_cpus
    nodes = [node for node in view.facts.host.nodes if node.cpus & own]
    domains = cpuset.union(domain for node in nodes
                           for domain in node.l3_domains if domain & own)
    near = cpuset.union(node.cpus for node in nodes)
    return domains & free or near & free or view.plan.host_cpus


def _astray(view: facts.CheckedHost) -> Iterator[facts.Interrupt]:
    """Interrupts that arrive on CPUs that are not for them."""
    own = _passed_through(view)
    for interrupt in view.facts.interrupts:
        if _is_posted(view, interrupt):
            continue
        # Those of a guest's device do it no harm on its own CPUs.
        taken = view.taken_cpus - own.get(interrupt.device, cpuset.CpuSet())
        if not taken.isdisjoint(_goes_to(interrupt)):
            yield interrupt


def expected(view: facts.CheckedHost, device: str) -> cpuset.CpuSet:
    """Where the interrupts of a device belong.

    :param device: its PCI address, '' for interrupts of none
    """
    for planned in view.plan.interrupts:
        if planned.address == device:
            return planned.cpus
    own = _passed_through(view).get(device)
    return _near_guest(view, own) if own else view.plan.host_cpus


def subject(view: facts.CheckedHost, device: str) -> str:
    """The interrupts of a device as findings name them."""
    if not device:
        return 'interrupts of no PCI device'
    names = next((pci_device.names
                  for pci_device in view.facts.host.pci_devices
                  if pci_device.address == device), ())
    return f'interrupts of {", ".join(names) or device}'


def _by_device(
    interrupts: Iterable[facts.Interrupt],
) -> dict[str, list[facts.Interrupt]]:
    groups: dict[str, list[facts.Interrupt]] = {}
    for interrupt in interrupts:
        groups.setdefault(interrupt.device, []).append(interrupt)
    return groups


def _evidence(
    interrupts: Iterable[facts.Interrupt], cpus: cpuset.CpuSet | None,
) -> tuple[facts.HostEvidence, ...]:
    return tuple(
        facts.HostEvidence(
            interrupt=interrupt.number, name=','.join(interrupt.names),
            cpus=_goes_to(interrupt), expected_cpus=cpus)
        for interrupt in interrupts)


def _remediation(
    interrupts: Iterable[facts.Interrupt], cpus: cpuset.CpuSet,
) -> tuple[str, ...]:
    # A list of several CPUs may all end on the first: one CPU for each in
    # turn spreads them.
    each = tuple(cpus)
    return tuple(
        commands.move_interrupt(
            interrupt.number, cpuset.CpuSet([each[index % len(each)]]))
        for index, interrupt in enumerate(interrupts)) if each else ()


@check_rule.rule(
    'H401', check_rule.Severity.ERROR, 'interrupts on dedicated CPUs',
    why='each one stops a vCPU for some microseconds, and what the kernel '
        'does about it afterwards for longer; under load that is ten '
        'thousands a second',
    advice=_PLACE)
def on_dedicated(view: facts.CheckedHost) -> check_rule.Violations:
    astray = (interrupt for interrupt in _astray(view)
              if not interrupt.managed)
    for device, strays in sorted(_by_device(astray).items()):
        cpus = expected(view, device)
        where = cpuset.union(map(_goes_to, strays)) & view.taken_cpus
        yield check_rule.Violation(
            subject=subject(view, device),
            message=f'{words.count(len(strays), "interrupt")} may arrive on '
                    f'{words.cpus(where)}, not for the host',
            evidence=_evidence(strays, cpus),
            remediation=_remediation(strays, cpus),
            # Timers, buttons and serial lines are seldom heard of.
            severity=None if device else check_rule.Severity.WARNING)


@check_rule.rule(
    'H402', check_rule.Severity.NOTE,
    'interrupts that the kernel keeps on dedicated CPUs',
    why='the kernel gives each CPU a queue of such a device and does not let '
        'anybody move its interrupt; it arrives where a thread has used the '
        'device from that very CPU, so on a dedicated CPU hardly ever',
    advice='nothing as long as no stray thread runs there; isolcpus with '
           'managed_irq keeps them off for good')
def managed(view: facts.CheckedHost) -> check_rule.Violations:
    astray = [interrupt for interrupt in _astray(view) if interrupt.managed]
    if astray:
        yield check_rule.Violation(
            subject='interrupts of '
                    + words.listed(sorted(_names(view, astray))),
            message=f'{words.count(len(astray), "interrupt")} cannot be moved '
                    'off dedicated or poll CPUs',
            evidence=_evidence(astray, view.plan.host_cpus))


def _names(
    view: facts.CheckedHost, interrupts: Iterable[facts.Interrupt],
) -> Iterator[str]:
    for device in _by_device(interrupts):
        yield subject(view, device).removeprefix('interrupts of ')


@check_rule.rule(
    'H403', check_rule.Severity.WARNING,
    'interrupts that are not where planned',
    why='packets and blocks are handled far from the device, or all on one '
        'CPU',
    advice=_PLACE)
def not_as_planned(view: facts.CheckedHost) -> check_rule.Violations:
    # Where the agent has put one that is nearer to the guests it serves.
    by_agent = view.facts.agent.set_interrupts()
    groups = _by_device(interrupt for interrupt in view.facts.interrupts
                        if not interrupt.managed
                        and by_agent.get(interrupt.number) != interrupt.cpus)
    for planned in view.plan.interrupts:
        # Those on dedicated CPUs are another rule's.
        strays = [
            interrupt for interrupt in groups.get(planned.address, ())
            if not _goes_to(interrupt).issubset(planned.cpus) and
            _goes_to(interrupt).isdisjoint(view.taken_cpus)]
        if strays:
            where = cpuset.union(map(_goes_to, strays)) - planned.cpus
            yield check_rule.Violation(
                subject=f'interrupts of {planned.name}',
                message=f'{words.count(len(strays), "interrupt")} may arrive '
                        f'on {words.cpus(where)}, planned is '
                        f'{words.cpus(planned.cpus)}',
                evidence=_evidence(strays, planned.cpus),
                remediation=_remediation(strays, planned.cpus))


@check_rule.rule(
    'H404', check_rule.Severity.WARNING, 'irqbalance moves interrupts',
    why='every ten seconds it moves interrupts to CPUs that look idle to it: '
        'to dedicated ones, or away from where the plan has those of devices; '
        'a list of banned CPUs also makes it forget those that are isolated '
        'or nohz_full; a note where it keeps off dedicated CPUs',
    advice='stop it, and let the unit that "nova-pinning host render" writes '
           'place interrupts; or ban these CPUs, with '
           'IRQBALANCE_BANNED_CPULIST= where it has its settings')
def moved_on(view: facts.CheckedHost) -> check_rule.Violations:
    irqbalance = view.facts.irqbalance
    if irqbalance is None:
        return
    system = view.facts.host.system
    banned = irqbalance.banned_cpus
    if banned is None:
        banned = system.isolated_cpus | system.nohz_full_cpus
    open_cpus = (view.taken_cpus & view.online_cpus) - banned
    parts = []
    if open_cpus:
        parts.append(f'nothing keeps it off {words.cpus(open_cpus)}')
    if view.plan.interrupts:
        names = [interrupt.name for interrupt in view.plan.interrupts]
        parts.append(f'it may move the interrupts of {words.listed(names)}, '
                     'which the plan places')
    if parts:
        yield check_rule.Violation(
            subject='service irqbalance', message='; '.join(parts),
            evidence=(facts.HostEvidence(
                pid=irqbalance.pid, name='banned CPUs', cpus=banned,
                expected_cpus=view.taken_cpus),),
            remediation=('systemctl disable --now irqbalance',),
            severity=None if open_cpus else check_rule.Severity.NOTE)


@check_rule.rule(
    'H406', check_rule.Severity.NOTE,
    'interrupts are allowed on dedicated CPUs',
    why='they arrive elsewhere now, but the kernel may move them there when a '
        'device is set up anew or a CPU is switched off',
    advice=f'{_PLACE}; irqaffinity= on the kernel command line is for all '
           'that come later')
def allowed(view: facts.CheckedHost) -> check_rule.Violations:
    taken = view.taken_cpus & view.online_cpus
    default = view.facts.default_interrupt_cpus
    if default and default & taken:
        yield check_rule.Violation(
            subject='new interrupts',
            message=f'they may arrive on {words.cpus(default & taken)}',
            evidence=(facts.HostEvidence(
                name='default_smp_affinity', cpus=default,
                expected_cpus=view.plan.host_cpus),),
            remediation=(commands.write(
                '/proc/irq/default_smp_affinity',
                view.plan.host_cpus.kernel_mask),))
    astray = {interrupt.number for interrupt in _astray(view)}
    own = _passed_through(view)
    movable = {
        interrupt: expected(view, interrupt.device)
        for interrupt in view.facts.interrupts
        if not interrupt.managed and interrupt.number not in astray
        and not _is_posted(view, interrupt)
        and interrupt.cpus
        & taken - own.get(interrupt.device, cpuset.CpuSet())}
    if movable:
        yield check_rule.Violation(
            subject='interrupts',
            message=f'{words.count(len(movable), "interrupt")} may be moved '
                    'to dedicated or poll CPUs',
            evidence=tuple(
                facts.HostEvidence(
                    interrupt=interrupt.number, name=','.join(interrupt.names),
                    cpus=interrupt.cpus, expected_cpus=cpus)
                for interrupt, cpus in movable.items()),
            remediation=tuple(
                commands.move_interrupt(
                    interrupt.number, _goes_to(interrupt) & cpus or cpus)
                for interrupt, cpus in movable.items()))


@check_rule.rule(
    'H407', check_rule.Severity.NOTE,
    'interrupts of guests that are not posted',
    why='each interrupt of a device that was passed through is handled by a '
        'CPU of the host first, and takes the vCPU out of the guest to be '
        'told of it',
    advice='switch interrupt remapping on in the firmware, and load kvm_intel '
           'with enable_apicv=1 or kvm_amd with avic=1, while no guest runs; '
           'not where guests run guests of their own on AMD CPUs, which AVIC '
           'slows down')
def not_posted(view: facts.CheckedHost) -> check_rule.Violations:
    if view.facts.host.system.posted_interrupts is not False:
        return
    interrupts = [interrupt for interrupt in view.facts.interrupts
                  if _is_of_guest(interrupt)]
    if interrupts:
        yield check_rule.Violation(
            subject='KVM',
            message=f'{words.count(len(interrupts), "interrupt")} of devices '
                    'of guests go through CPUs of the host',
            evidence=_evidence(interrupts, None))


@check_rule.rule(
    'H408', check_rule.Severity.NOTE,
    'more queues than CPUs for their interrupts',
    why='the interrupts of several queues of a port take turns on one CPU, '
        'which costs memory and wake-ups, and spreads nothing',
    advice='give each CPU one queue, at a time when the link may be down for '
           'a moment; not where something that bypasses the kernel, such as '
           'AF_XDP, has queues of its own')
def many_queues(view: facts.CheckedHost) -> check_rule.Violations:
    there = {device.address: device
             for device in view.facts.host.pci_devices}
    for planned in view.plan.interrupts:
        device = there.get(planned.address)
        if device is None or device.kind is not hardware.PciKind.NIC or (
                not device.names or device.queues <= len(planned.cpus)):
            continue
        yield check_rule.Violation(
            subject=f'queues of {planned.name}',
            message=f'it has {device.queues}, for '
                    f'{words.cpus(planned.cpus)}',
            evidence=(facts.HostEvidence(
                name=planned.name, cpus=planned.cpus, count=device.queues),),
            remediation=tuple(
                f'ethtool -L {shlex.quote(name)} combined '
                f'{len(planned.cpus)}' for name in device.names))
