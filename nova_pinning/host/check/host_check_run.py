# SPDX-License-Identifier: Apache-2.0
"""What all rules find on a host, and what is said of it."""

from collections.abc import Iterator
from collections.abc import Mapping
import types

from nova_pinning.checks import check_rule
from nova_pinning.checks import report
from nova_pinning.host.check import facts
from nova_pinning.host.check import foreign
from nova_pinning.host.check import one_remedy
from nova_pinning.host.check.rules import guests
from nova_pinning.host.check.rules import hardware
from nova_pinning.host.check.rules import interrupts
from nova_pinning.host.check.rules import memory
from nova_pinning.host.check.rules import services
from nova_pinning.host.check.rules import settings
from nova_pinning.host.check.rules import vcpus
from nova_pinning.host import words

#: All rules, by code.
RULES: check_rule.Registry[facts.CheckedHost] = check_rule.Registry(
    settings, hardware, services, interrupts, memory, vcpus, guests, foreign,
    groups={
        'H1': 'nova.conf',
        'H2': 'The machine and its kernel',
        'H3': 'Services and other processes',
        'H4': 'Interrupts',
        'H5': 'Huge pages',
        'H6': 'Guests',
        'H7': 'While it was watched'})

# What is looked at, in the words for one of each.
_SINGULAR = {'processes': 'process', 'threads': 'thread', 'guests': 'guest',
             'interrupts': 'interrupt'}


def findings(view: facts.CheckedHost) -> tuple[check_rule.Finding, ...]:
    """All that is not as it was planned, by code; one for each remedy.

    On another machine than the planned one that is all there is to say.
    """
    return tuple(hardware.other_kind.findings(view) if view.is_other_machine
                 else one_remedy.merged(RULES.run(view)))


def make_report(
    view: facts.CheckedHost, findings: tuple[check_rule.Finding, ...],
    unread: tuple[facts.Unread, ...] = (), watched_seconds: float = 0.0,
    foreign_seconds: Mapping[int, float] = types.MappingProxyType({}),
) -> report.CheckReport:
    """What was found on a host.

    :param unread: all that could not be looked at
    :param watched_seconds: 0 unless threads were watched
    :param foreign_seconds: how long threads ran on each dedicated or poll CPU
        that is not for them, by CPU; empty unless threads were watched
    """
    seen = view.facts
    host, looked_at = seen.host.name, _count(seen)
    files = seen.nova_conf.files if seen.nova_conf else ()
    return report.CheckReport(
        name='host', rules=RULES, findings=findings, source=host,
        scope=_scope(view, looked_at, watched_seconds),
        head={
            'host': host,
            'plan': view.planned.name,
            'watched_seconds': round(watched_seconds, 3),
            'nova_conf_files': list(files),
            'looked_at': looked_at,
            'foreign_seconds': [
                {'cpu': cpu, 'seconds': round(seconds, 9)}
                for cpu, seconds in sorted(foreign_seconds.items())],
            'free_pages': [
                {'node': node, 'page_size_kib': size_kib, 'count': number}
                for (node, size_kib), number
                in sorted(seen.free_pages.items())],
            'unread': [{'path': missing.path, 'reason': missing.reason,
                        'hides': missing.hides} for missing in unread]},
        notes=tuple(_notes(findings, unread, files)),
        figures=tuple(_figures(view, unread, looked_at, watched_seconds,
                               foreign_seconds)))


def _count(seen: facts.HostFacts) -> dict[str, int]:
    """How many of each thing were looked at."""
    qemus = [guest.qemu for guest in seen.guests]
    return {
        'processes': len(seen.processes) + len(qemus),
        'threads': (sum(len(process.threads) for process in seen.processes)
                    + sum(len(qemu.threads) for qemu in qemus)),
        'interrupts': len(seen.interrupts),
        'guests': len(seen.guests)}


def _scope(view: facts.CheckedHost, looked_at: Mapping[str, int],
           watched_seconds: float) -> str:
    host, plan = view.facts.host.name, view.planned.name
    parts = ', '.join(
        f'{number:,} {_SINGULAR[kind] if number == 1 else kind}'
        for kind, number in looked_at.items())
    watched = (f', watched for {words.duration(watched_seconds)}'
               if watched_seconds else '')
    return (f'on host {host}{"" if plan == host else f" by plan {plan}"}, in '
            f'{parts}{watched}')


def _notes(findings: tuple[check_rule.Finding, ...],
           unread: tuple[facts.Unread, ...],
           files: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    if unread:
        yield ('not known, for it could not be read:', *(
            f'{missing.hides}: {missing.path}: {missing.reason}'
            for missing in unread))
    if files and any(finding.subject == settings.SUBJECT
                     for finding in findings):
        yield (f'nova.conf as loaded from {", ".join(files)}',)


def _figures(
    view: facts.CheckedHost, unread: tuple[facts.Unread, ...],
    looked_at: Mapping[str, int], watched_seconds: float,
    foreign_seconds: Mapping[int, float],
) -> Iterator[report.Figure]:
    yield report.Figure(
        'looked_at', 'What was looked at, of each kind',
        {(kind,): number for kind, number in looked_at.items()}, ('kind',))
    yield report.Figure('unread', 'Things that could not be looked at',
                        {(): len(unread)})
    yield report.Figure(
        'huge_pages_free', 'Free huge pages by NUMA node',
        {(str(node), str(size_kib)): number for (node, size_kib), number
         in view.facts.free_pages.items()}, ('node', 'page_size_kib'))
    if watched_seconds:
        yield report.Figure('watched_seconds',
                            'How long threads were watched',
                            {(): watched_seconds})
        yield report.Figure(
            'foreign_run_seconds', 'How long threads ran on CPUs that are '
            'not for them, while they were watched',
            {(str(cpu),): seconds
             for cpu, seconds in foreign_seconds.items()}, ('cpu',))
