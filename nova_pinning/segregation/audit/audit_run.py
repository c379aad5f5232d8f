# SPDX-License-Identifier: Apache-2.0
"""Reading a cloud, and what all rules find in it.

Hosts are read side by side, each with its inventories and its servers, so
that nothing is kept of a server but its place in a count and what is wrong
with it. A cloud changes while it is read: whatever was found is looked at a
second time, and only what is still so is told.
"""

import collections
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from concurrent import futures
import dataclasses
from typing import Any
from typing import TypeVar

import os_traits

from nova_pinning.checks import check_rule
from nova_pinning.checks import report
from nova_pinning import errors
from nova_pinning.model import hostclass
from nova_pinning.placement import client
from nova_pinning.segregation.audit import aggregates
from nova_pinning.segregation.audit import audited
from nova_pinning.segregation.audit import flavors
from nova_pinning.segregation.audit import hosts
from nova_pinning.segregation.audit import inventories
from nova_pinning.segregation.audit import packing
from nova_pinning.segregation.audit import scheduler_options
from nova_pinning.segregation.audit import servers
from nova_pinning.segregation import class_change
from nova_pinning.segregation import segregation_cloud
from nova_pinning.segregation import segregation_model

#: All rules, by code, in the order in which what they find is best put right:
#: flavors require a trait once hosts have it, and servers are moved once it is
#: clear where they belong.
RULES: check_rule.Registry[audited.AuditedCloud] = check_rule.Registry(
    hosts, aggregates, inventories, packing, scheduler_options, flavors,
    servers,
    groups={
        'S1': 'Servers',
        'S2': 'Flavors',
        'S3': 'What marks a host',
        'S4': 'Aggregates',
        'S5': 'What hosts offer',
        'S7': 'The order of NUMA cells',
        'S8': 'nova-scheduler'})

# Hosts that are read ahead of the one whose turn it is, for each job.
_AHEAD = 4

_Item = TypeVar('_Item')
_Result = TypeVar('_Result')

#: The class of a host, and of a server on it.
Place = tuple[hostclass.HostClass | None, hostclass.HostClass | None]
#: Hands on what is done as it is, and may tell people of it; called with the
#: number of hosts that there are to do.
Progress = Callable[[Iterator[Any], int], Iterator[Any]]


@dataclasses.dataclass(frozen=True, slots=True)
class Audit:
    """What an audit found.

    :param findings: by code, in the order in which they are best put right,
        then by host and name
    :param hosts: how many there are of each class, None for those of none or
        of both
    :param servers: how many there are, by class of their host and their own
    :param bare_metal: how many nodes of Ironic's there are, which are of
        neither class; None where only some hosts were audited
    :param unmatched: names of hosts that files were given for, and the cloud
        does not have
    """

    findings: tuple[check_rule.Finding, ...]
    hosts: Mapping[hostclass.HostClass | None, int]
    servers: Mapping[Place, int]
    flavors: int
    aggregates: int
    bare_metal: int | None = None
    unmatched: tuple[str, ...] = ()


#: What was seen of a host: its inventories, where its servers are, and what is
#: wrong with these.
_SeenHost = tuple[
    segregation_model.MarkedHost,
    Mapping[str, client.ProviderInventory] | None, Mapping[Place, int],
    list[check_rule.Finding]]


@dataclasses.dataclass(frozen=True, slots=True)
class _Look:
    """All that is seen in one look."""

    view: audited.AuditedCloud
    findings: tuple[check_rule.Finding, ...]
    servers: Mapping[Place, int]


def run_audit(cloud: segregation_cloud.SegregationCloud,
              settings: audited.AuditSettings = audited.AuditSettings(),
              progress: Progress = lambda done, total: done) -> Audit:
    """Look for all that keeps shared and dedicated from being kept apart.

    :raises errors.InputError: for a host to be audited that there is not
    :raises errors.CloudError: if the cloud cannot be read
    """
    first = _look(cloud, settings, progress)
    findings = first.findings
    if findings:
        known = set(map(_key, findings))
        second = _look(cloud, settings, progress, first)
        findings = tuple(
            finding for finding in second.findings if _key(finding) in known)
    view = first.view
    names = {host.name for host in view.hosts}
    order = list(RULES)
    counted = [view.classes[host.provider] for host in view.hosts
               if not settings.hosts or host.name in settings.hosts]
    return Audit(
        findings=tuple(sorted(findings, key=lambda finding: (
            order.index(finding.code), finding.host, finding.name,
            finding.id))),
        hosts=collections.Counter(counted), servers=first.servers,
        flavors=len(view.flavors), aggregates=len(view.aggregates),
        bare_metal=None if settings.hosts else cloud.bare_metal(),
        unmatched=tuple(sorted(settings.descriptions.keys() - names)))


def _key(finding: check_rule.Finding) -> tuple[str, str, str]:
    """What a finding goes by, from one look at a cloud to the next."""
    return finding.code, finding.id, finding.host


def _look(cloud: segregation_cloud.SegregationCloud,
          settings: audited.AuditSettings, progress: Progress,
          first: _Look | None = None) -> _Look:
    """See what there is, and what is wrong with it.

    What comes in one piece is read as a whole, the rest host by host.

    :param first: an earlier look, to which this is the second: only what was
        found then is looked at
    """
    def hosts_of(group: str) -> frozenset[str]:
        return frozenset(finding.host for finding in findings_before
                         if finding.code.startswith(group))

    findings_before = first.findings if first else ()
    with_servers = hosts_of('S1') if first else settings.hosts
    to_read = with_servers | hosts_of('S5')
    aggregates_seen = cloud.aggregates()
    hosts_seen = cloud.hosts()
    class_change.find_hosts(settings.hosts, hosts_seen)
    view = audited.AuditedCloud(
        hosts=hosts_seen, aggregates=aggregates_seen,
        flavors=cloud.flavors(), settings=settings,
        known_traits=frozenset(cloud.placement.known_traits(
            os_traits.CUSTOM_NAMESPACE, is_used=False)))
    isolating = [aggregate for aggregate in aggregates_seen
                 if aggregate.isolated_for]
    has_all = not first and not settings.hosts
    read = [host for host in hosts_seen if has_all or host.name in to_read]
    findings: list[check_rule.Finding] = []
    counted: collections.Counter[Place] = collections.Counter()
    inventories_seen = dict(first.view.inventories) if first else {}
    pool = futures.ThreadPoolExecutor(settings.jobs, 'audit')
    try:
        members = dict(zip(
            (aggregate.uuid for aggregate in isolating),
            pool.map(cloud.members, isolating), strict=True))
        for host, offers, places, found in progress(_ahead(
                pool, lambda host: _see(
                    cloud, view, host, has_all or host.name in with_servers),
                read, settings.jobs * _AHEAD), len(read)):
            if offers is not None:
                inventories_seen[host.provider] = offers
            counted.update(places)
            findings += found
    finally:
        pool.shutdown(cancel_futures=True)
    view = dataclasses.replace(view, inventories=inventories_seen,
                               members=members)
    findings += RULES.run(view)
    if settings.hosts:
        findings = [finding for finding in findings
                    if finding.host in settings.hosts]
    return _Look(view, tuple(findings), counted)


def _ahead(pool: futures.Executor, function: Callable[[_Item], _Result],
           items: Iterable[_Item], limit: int) -> Iterator[_Result]:
    """The results in order, of which so many at most wait to be taken."""
    waiting: collections.deque[futures.Future[_Result]] = collections.deque()
    for item in items:
        waiting.append(pool.submit(function, item))
        if len(waiting) >= limit:
            yield waiting.popleft().result()
    while waiting:
        yield waiting.popleft().result()


def _see(cloud: segregation_cloud.SegregationCloud,
         view: audited.AuditedCloud, host: segregation_model.MarkedHost,
         has_servers: bool) -> _SeenHost:
    """Look at one host.

    :param has_servers: with its servers
    """
    host_class = view.classes[host.provider]
    inventories_seen = _inventories(cloud, host)
    has_pcpu = 'PCPU' in (inventories_seen or {})
    # What marks a host is to be settled before its servers are moved.
    is_unclear = not segregation_model.agrees(host)
    counted: collections.Counter[Place] = collections.Counter()
    findings: list[check_rule.Finding] = []
    for server in cloud.servers(host.name) if has_servers else ():
        if servers.has_to_be_settled(server, host_class, has_pcpu):
            server = class_change.with_settled_class(cloud, server)
        counted[host_class, server.host_class] += 1
        findings += servers.findings(server, host_class, is_unclear,
                                     view.settings.known)
    return host, inventories_seen, counted, findings


def _inventories(
    cloud: segregation_cloud.SegregationCloud,
    host: segregation_model.MarkedHost,
) -> Mapping[str, client.ProviderInventory] | None:
    """What a host offers; None if there is no provider, or not any more."""
    if host.traits is None:
        return None
    try:
        return cloud.placement.inventories(host.provider)
    except errors.RefusedError:
        return None


def make_report(audit: Audit, cloud: str) -> report.CheckReport:
    """What was found in a cloud of this name."""
    classes = (*hostclass.HostClass, None)
    return report.CheckReport(
        name='segregation', rules=RULES, findings=audit.findings,
        source=f'cloud {cloud}', scope=_scope(audit),
        head={
            'cloud': cloud,
            'hosts': {_class_name(host_class): number for host_class, number
                      in _in_order(audit.hosts)},
            'servers': [
                {'host_class': _class_name(host_class),
                 'server_class': _class_name(server_class), 'count': number}
                for (host_class, server_class), number
                in _in_order(audit.servers)],
            'flavors': audit.flavors,
            'aggregates': audit.aggregates,
            'bare_metal': audit.bare_metal,
            'unmatched': list(audit.unmatched)},
        figures=(
            report.Figure(
                'hosts', 'Compute nodes by class',
                {(_class_name(host_class),): audit.hosts.get(host_class, 0)
                 for host_class in classes}, ('host_class',)),
            report.Figure(
                'servers', 'Servers by the class of their host and their own',
                {(_class_name(host_class), _class_name(own)):
                 audit.servers.get((host_class, own), 0)
                 for host_class in classes for own in classes},
                ('host_class', 'server_class'))))


def _class_name(host_class: hostclass.HostClass | None) -> str:
    """A class in one word, 'none' if there is none, or more than one."""
    return str(host_class or 'none')


def _in_order(counts: Mapping[Any, int]) -> list[tuple[Any, int]]:
    return sorted(counts.items(), key=str)


def _scope(audit: Audit) -> str:
    return 'in ' + ', '.join(
        f'{number:,} {word}{"" if number == 1 else "s"}'
        for number, word in (
            *([(audit.bare_metal, 'bare metal node')]
              if audit.bare_metal else []),
            (sum(audit.hosts.values()), 'host'),
            (sum(audit.servers.values()), 'server'),
            (audit.flavors, 'flavor'), (audit.aggregates, 'aggregate')))
