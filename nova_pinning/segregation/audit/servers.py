# SPDX-License-Identifier: Apache-2.0
"""S1xx: servers on hosts of the other class."""

from collections.abc import Iterator

from nova_pinning.checks import check_rule
from nova_pinning.flavors import flavor_model
from nova_pinning.model import hostclass
from nova_pinning.segregation.audit import audited
from nova_pinning.segregation.audit import commands
from nova_pinning.segregation import segregation_model
from nova_pinning.upgrade import defect_model
from nova_pinning.upgrade import known_hits

_MOVE = ('have nova move it, or turn the host to its class if that is what is '
         'wrong; a server keeps the extra specs that its flavor had when it '
         'got it, so an old one may need HostClassFilter or isolating '
         'aggregates to land in the right place')

SHARED_ON_DEDICATED = check_rule.Rule[audited.AuditedCloud](
    'S101', check_rule.Severity.ERROR, 'shared server on a dedicated host',
    why='its vCPUs float over the CPUs that the host sets aside for the '
        'emulator threads of its guests, which then wait for a CPU, and it '
        'takes memory of NUMA cells that pinned guests count on',
    advice=_MOVE)
DEDICATED_ON_SHARED = check_rule.Rule[audited.AuditedCloud](
    'S102', check_rule.Severity.ERROR, 'dedicated server on a shared host',
    why='it holds CPUs that the host is to share, and its neighbours are '
        'oversubscribed guests that it was sold to be kept from',
    advice=_MOVE)
NO_SUCH_CLASS = check_rule.Rule[audited.AuditedCloud](
    'S103', check_rule.Severity.WARNING,
    'server whose flavor names a class that there is not',
    why='HostClassFilter refuses it everywhere, so it can be neither moved '
        'nor evacuated',
    advice='resize it to a flavor that names none, or the right one')


def has_to_be_settled(server: segregation_model.HostedServer,
                      host_class: hostclass.HostClass | None,
                      has_pcpu: bool) -> bool:
    """Whether it matters that a server's class is not known for sure.

    Nova may not show what the image says, which can only make a shared guest
    a dedicated one. That turns a violation into none on a dedicated host; on
    a shared one it can only be where there are CPUs to pin to.

    :param has_pcpu: whether the host has CPUs to pin to
    """
    return (not server.is_certain
            and server.host_class is hostclass.HostClass.SHARED
            and (host_class is hostclass.HostClass.DEDICATED or (
                host_class is hostclass.HostClass.SHARED and has_pcpu)))


def findings(
    server: segregation_model.HostedServer,
    host_class: hostclass.HostClass | None,
    is_unclear: bool = False,
    known: known_hits.KnownDefects = known_hits.KnownDefects(),
) -> Iterator[check_rule.Finding]:
    """What is wrong with a server on a host of this class.

    :param is_unclear: whether the host may turn out to be of the other one
    :param known: tells what keeps nova from live-migrating it
    """
    if server.host_class is None:
        # Of a server whose cell is down nothing is known.
        if server.is_certain:
            yield NO_SUCH_CLASS.finding(audited.violation(
                server, f'flavor {server.flavor} names a class that there is '
                f'not, in {flavor_model.CLASS_KEY}'))
    elif host_class and server.host_class is not host_class:
        rule = (SHARED_ON_DEDICATED if host_class is
                hostclass.HostClass.DEDICATED else DEDICATED_ON_SHARED)
        remediation = () if is_unclear else commands.move_away(server)
        message = (f'a {server.host_class} server, flavor {server.flavor}, '
                   f'on {host_class} host {server.host}')
        if is_unclear:
            message += '; but what marks the host does not agree'
        elif not remediation:
            message += f'; nova does not move it while it is {server.status}'
        elif commands.is_moved_live(server):
            kept = known_hits.told(known.hitting(
                defect_model.Operation.LIVE_MIGRATION,
                known_hits.unknown_place(
                    server.id, server.host, server.host_class,
                    server.has_cells)))
            message += f'; not to be moved live: {kept}' if kept else ''
        yield rule.finding(audited.violation(server, message, remediation))
