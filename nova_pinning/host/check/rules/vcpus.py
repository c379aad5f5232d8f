# SPDX-License-Identifier: Apache-2.0
"""H6xx, the first half: vCPUs."""

import itertools

from nova_pinning.checks import check_rule
from nova_pinning import cpuset
from nova_pinning.host.check import commands
from nova_pinning.host.check import facts
from nova_pinning.host.check.rules import pins
from nova_pinning.host import words

_STALE = ('compare with "openstack server show" and the NUMA topology that '
          'nova has of it; a hard reboot or another migration writes its XML '
          'anew')


def _evidence(
    guest: facts.RunningGuest,
    vcpu: int,
    expected: cpuset.CpuSet | None = None,
) -> facts.HostEvidence:
    thread = guest.qemu.vcpus[vcpu]
    return facts.HostEvidence(
        pid=guest.qemu.pid, tid=thread.tid, name=f'vCPU {vcpu}',
        cpus=thread.cpus, expected_cpus=expected)


@check_rule.rule(
    'H601', check_rule.Severity.ERROR,
    'vCPU that is not where libvirt pinned it',
    why='the kernel lets it run on other CPUs than nova reserved for it, '
        'since somebody moved it behind the back of libvirt, or since a CPU '
        'or a control group was taken away for a while',
    advice='pin it again, and look for what moves threads: tuned, irqbalance, '
           'CPUs that are switched off and on')
def moved(view: facts.CheckedHost) -> check_rule.Violations:
    for guest in view.guests:
        pins_of = {}
        for vcpu, thread in sorted(guest.qemu.vcpus.items()):
            pin = pins.recorded(guest, vcpu) & view.online_cpus
            # The agent keeps guests that float within their pins.
            by_agent = thread.cpus.issubset(pin) and (
                view.facts.agent.has_moved(guest.qemu.pid, thread.cpus))
            if pin and thread.cpus & view.online_cpus != pin and (
                    not by_agent):
                pins_of[vcpu] = pin
        if pins_of:
            yield check_rule.Violation(
                subject=pins.subject(guest),
                message=f'{_listed(pins_of)} may run on '
                        + words.cpus(cpuset.union(
                            guest.qemu.vcpus[vcpu].cpus for vcpu in pins_of))
                        + ', libvirt has pinned to '
                        + words.cpus(cpuset.union(pins_of.values())),
                evidence=tuple(_evidence(guest, vcpu, pin)
                               for vcpu, pin in pins_of.items()),
                remediation=tuple(commands.pin_vcpu(guest, vcpu, pin)
                                  for vcpu, pin in pins_of.items()))


def _listed(vcpus: dict[int, cpuset.CpuSet]) -> str:
    return ('vCPUs ' if len(vcpus) > 1 else 'vCPU ') + str(
        cpuset.CpuSet(vcpus))


@check_rule.rule(
    'H602', check_rule.Severity.ERROR, 'floating vCPU on dedicated CPUs',
    why='it takes time from the vCPUs that are pinned there',
    advice='set cpu_shared_set and have nova write its XML anew by a hard '
           'reboot, or move the guest to a host for shared guests')
def floating(view: facts.CheckedHost) -> check_rule.Violations:
    taken = view.taken_cpus & view.online_cpus
    for guest in view.guests:
        floats = {}
        for vcpu, thread in sorted(guest.qemu.vcpus.items()):
            cpus = pins.meant(view, guest, vcpu, thread)
            if len(cpus) > 1 and cpus & taken:
                floats[vcpu] = cpus
        if floats:
            where = cpuset.union(floats.values()) & taken
            yield check_rule.Violation(
                subject=pins.subject(guest),
                message=f'{_listed(floats)} floating over '
                        f'{words.cpus(where)}, which are for pinned vCPUs',
                evidence=tuple(
                    _evidence(guest, vcpu, view.shared_cpus or None)
                    for vcpu in floats),
                remediation=tuple(
                    commands.pin_vcpu(guest, vcpu, view.shared_cpus)
                    for vcpu in floats) if view.shared_cpus else ())


@check_rule.rule(
    'H603', check_rule.Severity.ERROR,
    'vCPU pinned outside of the dedicated CPUs',
    why='it shares a CPU with the host or with floating guests; pins are left '
        'like that by a migration from a host that was planned otherwise, and '
        'by a plan that was changed under running guests',
    advice=_STALE)
def outside(view: facts.CheckedHost) -> check_rule.Violations:
    for guest in view.guests:
        strays = {}
        for vcpu, thread in sorted(guest.qemu.vcpus.items()):
            cpus = pins.meant(view, guest, vcpu, thread)
            if len(cpus) == 1 and not cpus.issubset(view.dedicated_cpus) and (
                    not pins.floats_over_one(view, cpus)):
                strays[vcpu] = cpus
        if strays:
            where = cpuset.union(strays.values())
            yield check_rule.Violation(
                subject=pins.subject(guest),
                message=f'{_listed(strays)} pinned to {words.cpus(where)}, '
                        f'not among the dedicated CPUs {view.dedicated_cpus}',
                evidence=tuple(_evidence(guest, vcpu, view.dedicated_cpus)
                               for vcpu in strays))


def _holders(
    view: facts.CheckedHost,
) -> dict[int, list[tuple[facts.RunningGuest, int]]]:
    """Guests and vCPUs by the CPU that the kernel keeps them on."""
    holders: dict[int, list[tuple[facts.RunningGuest, int]]] = {}
    for guest in view.facts.guests:
        for vcpu, thread in guest.qemu.vcpus.items():
            cpus = thread.cpus & view.online_cpus
            if len(cpus) == 1 and not pins.floats_over_one(view, cpus):
                holders.setdefault(next(iter(cpus)), []).append((guest, vcpu))
    return holders


@check_rule.rule(
    'H604', check_rule.Severity.ERROR, 'two vCPUs on one CPU',
    why='each gets half of a CPU that it was sold whole',
    advice=f'{_STALE}; move one of the guests away meanwhile')
def doubled(view: facts.CheckedHost) -> check_rule.Violations:
    groups: dict[tuple[int, ...], list[int]] = {}
    holders = _holders(view)
    for cpu, there in sorted(holders.items()):
        if len(there) > 1 and any(
                guest.is_asked_for for guest, _vcpu in there):
            pids = tuple(sorted({guest.qemu.pid for guest, _vcpu in there}))
            groups.setdefault(pids, []).append(cpu)
    for cpus in groups.values():
        both = sorted({guest.name for guest, _vcpu in holders[cpus[0]]})
        yield check_rule.Violation(
            subject=_guests(both),
            message=f'several vCPUs on {words.cpus(cpuset.CpuSet(cpus))}',
            evidence=tuple(
                _evidence(guest, vcpu)
                for cpu in cpus for guest, vcpu in holders[cpu]))


def _guests(names: list[str]) -> str:
    return ('guests ' if len(names) > 1 else 'guest ') + words.listed(names)


@check_rule.rule(
    'H605', check_rule.Severity.WARNING, 'guests share a core',
    why='threads of a core take turns in its units and its caches, so that '
        'guests slow each other down, and may learn of each other',
    advice='sell whole cores: flavors with an even number of vCPUs and '
           'hw:cpu_thread_policy=require')
def shared_cores(view: facts.CheckedHost) -> check_rule.Violations:
    holders = _holders(view)
    groups: dict[tuple[int, ...], list[int]] = {}
    guests = {guest.qemu.pid: guest for guest in view.facts.guests}
    for node in view.facts.host.nodes:
        for core in node.cores:
            there = {cpu: {guest.qemu.pid for guest, _vcpu in holders[cpu]}
                     for cpu in core if cpu in holders}
            pids = _apart(there)
            if any(guests[pid].is_asked_for for pid in pids):
                groups.setdefault(tuple(sorted(pids)), []).extend(there)
    for sharing, cpus in sorted(groups.items()):
        yield check_rule.Violation(
            subject=_guests(sorted(guests[pid].name for pid in sharing)),
            message='they have threads of the same cores, '
                    f'{words.cpus(cpuset.CpuSet(cpus))}',
            evidence=tuple(
                _evidence(guest, vcpu)
                for cpu in cpus for guest, vcpu in holders[cpu]))


def _apart(there: dict[int, set[int]]) -> set[int]:
    """Who of those on a core has another on a thread beside it.

    Those on the very same thread are another rule's.

    :param there: process ids by CPU
    """
    everybody = set().union(*there.values())
    return {
        pid for pair in itertools.combinations(everybody, 2) for pid in pair
        if not any(pids.issuperset(pair) for pids in there.values())}
