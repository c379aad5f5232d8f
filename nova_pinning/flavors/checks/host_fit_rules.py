# SPDX-License-Identifier: Apache-2.0
"""P6xx: the flavor on the hosts that were given."""

import collections
import dataclasses

from nova_pinning.admission import outcome
from nova_pinning.checks import check_rule
from nova_pinning.checks.check_rule import Severity
from nova_pinning.flavors.checks import checked
from nova_pinning.flavors.checks import cpus
from nova_pinning.flavors.checks import guest_topology
from nova_pinning.host import core_division
from nova_pinning.host import host_offer
from nova_pinning.host import words
from nova_pinning import model

#: The part of a host's dedicated CPUs that may stay unsold.
_MAX_UNSOLD = 0.1
_MAX_REASONS = 3


@check_rule.rule(
    'P601', Severity.ERROR, 'fits no host',
    why='not even an empty host takes the guest, so nobody can start one',
    advice='offer a smaller size, spread it over more NUMA cells, or get '
           'hosts that take it')
def fits_no_host(subject: checked.CheckedFlavor) -> check_rule.Violations:
    if not subject.hosts or not subject.is_accepted or (
            cpus.isolate_fits_nowhere(subject) or
            _shared_cpus_missing(subject)):
        return
    request = subject.request
    reasons: dict[str, list[str]] = collections.defaultdict(list)
    for host in subject.hosts:
        reason = host.refusal(request)
        if not reason:
            return
        reasons[reason] += host.names
    count = sum(map(len, reasons.values()))
    told = [f'{words.listed(names, 2)}: {reason}'
            for reason, names in list(reasons.items())[:_MAX_REASONS]]
    if len(reasons) > _MAX_REASONS:
        told.append('and so on')
    what = ('does not fit on the host' if count == 1 else
            f'fits none of the {count} hosts')
    yield subject.violation(f'{what} given; {"; ".join(told)}',
                            ('vcpus', 'name'))


@check_rule.rule(
    'P602', Severity.WARNING, 'leaves dedicated CPUs unsold',
    why='when a host is filled with guests of this size, and what is left '
        'with those of the smaller sizes, more than a tenth of its dedicated '
        'CPUs is left over',
    advice='offer a size that divides the dedicated CPUs of a NUMA node, or '
           'smaller sizes next to it that fill what is left')
def unsold_cpus(subject: checked.CheckedFlavor) -> check_rule.Violations:
    if not subject.guest or not any(
            demand.dedicated for demand in subject.guest.demands):
        return
    request = subject.request
    # Where devices run out first, guests that want none have the CPUs.
    without_devices = dataclasses.replace(request, devices=())
    for host in subject.hosts:
        total = host.host.dedicated_count
        if not total or host.is_legacy or host.refusal(request):
            continue
        filled = host.fill(without_devices, subject.companions,
                           total * _MAX_UNSOLD)
        if filled.unsold > total * _MAX_UNSOLD:
            yield subject.violation(
                f'{words.count(filled.guests, "guest")} on '
                f'{host.title}, {filled.unsold} of {total} dedicated CPUs '
                f'({filled.unsold / total:.1%}) stay unsold: {filled.why}',
                ('vcpus', 'name'),
                'offer sizes that need less of what runs out for each '
                'dedicated CPU, or give the hosts more of it'
                if filled.has_cpus else '')


@check_rule.rule(
    'P603', Severity.ERROR, 'more shared CPUs than any host cell has',
    why='the floating vCPUs of a NUMA cell cannot be more than the shared '
        'CPUs of the host cell that it is on, whatever the allocation ratio',
    advice='make more of the vCPUs dedicated, spread the guest over more '
           'NUMA cells, or add to cpu_shared_set on the hosts')
def shared_cpus_short(subject: checked.CheckedFlavor) -> check_rule.Violations:
    if not _shared_cpus_missing(subject):
        return
    need = max(len(cell.shared_vcpus) for cell in subject.cells)
    yield subject.violation(
        f'{need} floating vCPUs in one NUMA cell, but no cell of the hosts '
        f'given has more than {_most_shared(subject)} shared CPUs',
        ('hw:cpu_dedicated_mask', 'hw:cpu_realtime_mask',
         'hw_cpu_realtime_mask', *subject.policy_keys))


def _shared_cpus_missing(subject: checked.CheckedFlavor) -> bool:
    return bool(subject.hosts) and (
        subject.cpu_policy is model.CpuPolicy.MIXED) and any(
            len(cell.shared_vcpus) > _most_shared(subject)
            for cell in subject.cells)


def _most_shared(subject: checked.CheckedFlavor) -> int:
    return max(cell.shared_count for host in subject.candidates
               for cell in host.host.cells)


@check_rule.rule(
    'P604', Severity.WARNING, 'shared emulator threads without shared CPUs',
    why='on a host without cpu_shared_set nova lets emulator threads run on '
        "the guest's own CPUs without a word, and refuses realtime guests "
        'when they are started',
    advice='set cpu_shared_set on all hosts that take the flavor, or keep it '
           'off those without by a trait')
def no_shared_set(subject: checked.CheckedFlavor) -> check_rule.Violations:
    if not subject.is_pinned or subject.emulator_policy != 'share':
        return
    without = [name for host in subject.candidates for name in host.names
               if not host.description.nova.shared_cpus]
    # The scheduler does not know, so a realtime guest may well be sent there.
    severity = Severity.ERROR if subject.is_realtime else None
    if without:
        yield subject.violation(
            'emulator threads policy share, but no cpu_shared_set on '
            f'{words.listed(without, 2)}', ('hw:emulator_threads_policy',),
            severity=severity)


@check_rule.rule(
    'P605', Severity.WARNING, 'more threads a core than the hosts have',
    why="the guest's scheduler takes vCPUs on different cores for sibling "
        'threads, and loads one of them last',
    advice='set hw:cpu_threads to the threads that the cores of the hosts '
           'have',
    in_catalogue='write cpu_topology: match-host')
def threads_beyond_host(
        subject: checked.CheckedFlavor) -> check_rule.Violations:
    most = subject.most_threads
    # Thread policy require has none such on hosts without threads; elsewhere
    # others may be pinned to any threads, and P108 tells.
    if not most or (most > 1) != (
            subject.thread_policy is model.ThreadPolicy.REQUIRE):
        return
    got = guest_topology.seen(subject)
    if got and most < got.threads and (subject.is_pinned or most == 1):
        yield subject.violation(
            f'the guest sees {got.threads} threads a core, but the cores of '
            f'the hosts given have {most}',
            ('hw:cpu_threads', 'hw_cpu_threads'),
            guest_topology.interleaved_advice(subject) or (
                'set hw:cpu_threads=1 (cpu_topology of a catalogue: threads: '
                '1)' if most == 1 else ''))


@check_rule.rule(
    'P607', Severity.WARNING, 'hosts with divided cores',
    why=core_division.WHY, advice=core_division.ADVICE)
def divided_cores(subject: checked.CheckedFlavor) -> check_rule.Violations:
    for host in subject.candidates if subject.is_pinned else ():
        text = core_division.of_host(host.description)
        if text:
            yield subject.violation(f'{host.title}: {text}',
                                    subject.policy_keys)


@check_rule.rule(
    'P606', Severity.WARNING, 'not known whether any host takes it',
    why='host files do not tell all that guests of the flavor ask for, and '
        'if it is missing nobody can start one',
    advice='compare with what Placement has of the hosts, with openstack '
           'resource provider inventory list and trait list')
def unknown_hosts(subject: checked.CheckedFlavor) -> check_rule.Violations:
    if not subject.is_accepted:
        return
    request = subject.request
    undecided: list[tuple[str, list[str]]] = []
    for host in subject.hosts:
        answer = host.answer(request)
        if isinstance(answer, outcome.NotAdmitted):
            continue
        unknown = [doubt.text for doubt in getattr(answer, 'doubts', ())
                   if doubt.about not in host_offer.UNTOLD]
        if not unknown:
            return
        undecided.append((host.title, unknown))
    if undecided:
        title, unknown = min(undecided, key=lambda one: len(one[1]))
        yield subject.violation(
            f'{title} may take it or not: {"; ".join(unknown)}',
            ('vcpus', 'name'))
