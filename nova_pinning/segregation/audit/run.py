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
import functools
import time
from typing import Protocol
from typing import TypeVar

import os_traits

from nova_pinning import errors
from nova_pinning.flavors import model as flavor_model
from nova_pinning.host import model as host_model
from nova_pinning.model import hostclass
from nova_pinning.placement import client
from nova_pinning.placement import provider_config
from nova_pinning.segregation.audit import aggregates
from nova_pinning.segregation.audit import configs
from nova_pinning.segregation.audit import flavors
from nova_pinning.segregation.audit import hosts
from nova_pinning.segregation.audit import inventories
from nova_pinning.segregation.audit import rule
from nova_pinning.segregation.audit import servers
from nova_pinning.segregation import change
from nova_pinning.segregation import finding
from nova_pinning.segregation import model

#: All rules, by code.
RULES: Mapping[str, rule.Rule] = {
    one.code: one for one in (
        *servers.RULES, *flavors.RULES, *hosts.RULES, *aggregates.RULES,
        *inventories.RULES, *configs.RULES)}

#: Groups of rules, by the start of their codes, in the order in which what
#: they find is best mended: flavors require a trait once hosts have it, and
#: servers are moved once it is clear where they belong.
_MENDING_ORDER = ('S3', 'S4', 'S5', 'S6', 'S2', 'S1')

#: Requests under way at once, unless said.
JOBS = 8
# Hosts that are read ahead of the one whose turn it is, for each job.
_AHEAD = 4

_Item = TypeVar('_Item')
_Result = TypeVar('_Result')

#: The class of a host, and of a server on it.
Place = tuple[hostclass.HostClass | None, hostclass.HostClass | None]
#: Hands on what is done as it is, and may tell people of it; called with the
#: number of hosts that there are to do.
Progress = Callable[[Iterator['_Seen'], int], Iterator['_Seen']]


class Placement(Protocol):
    """What is asked of nova_pinning.placement.client.Placement."""

    def inventories(
            self, provider: str) -> Mapping[str, client.Inventory]: ...

    def known_traits(self, prefix: str, *,
                     is_used: bool = True) -> tuple[str, ...]: ...


class Cloud(change.Topologies, Protocol):
    """What is asked of nova_pinning.segregation.cloud.Cloud.

    From several threads at once.
    """

    @property
    def placement(self) -> Placement: ...

    def hosts(self) -> tuple[model.Host, ...]: ...

    def aggregates(self) -> tuple[model.Aggregate, ...]: ...

    def flavors(self) -> tuple[flavor_model.Flavor, ...]: ...

    def members(self, aggregate: model.Aggregate) -> frozenset[str]: ...

    def servers(self, host: str = '') -> Iterator[model.Server]: ...


@dataclasses.dataclass(frozen=True, slots=True)
class Settings:
    """What an audit goes by besides the cloud.

    :param hosts: names of the compute services that are audited, with their
        servers; empty for the whole cloud, with its flavors and aggregates
    :param descriptions: host files by the name of the compute service
    :param configs: what provider.yaml files say, likewise
    :param emulator_cpus: VCPUs that a dedicated host may have for emulator
        threads where no host file tells; None if nobody said
    :param jobs: requests that may be under way at once
    """

    hosts: frozenset[str] = frozenset()
    descriptions: Mapping[str, host_model.HostDescription] = (
        dataclasses.field(default_factory=dict))
    configs: Mapping[str, tuple[provider_config.ProviderEntry, ...]] = (
        dataclasses.field(default_factory=dict))
    emulator_cpus: int | None = None
    jobs: int = JOBS


@dataclasses.dataclass(frozen=True, slots=True)
class Audit:
    """What an audit found.

    :param findings: in the order in which they are best mended, then by
        code, host and name
    :param hosts: how many there are of each class, None for those of none or
        of both
    :param servers: how many there are, by class of their host and their own
    :param started: seconds since 1970
    :param unmatched: names of hosts that files were given for, and the cloud
        does not have
    """

    findings: tuple[finding.Finding, ...]
    hosts: Mapping[hostclass.HostClass | None, int]
    servers: Mapping[Place, int]
    flavors: int
    aggregates: int
    started: float
    duration_s: float
    unmatched: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class _Seen:
    """What was seen of a host: its inventories and its servers."""

    provider: str
    inventories: Mapping[str, client.Inventory] | None
    servers: Mapping[Place, int]
    findings: tuple[finding.Finding, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class _Scope:
    """What is read host by host; what comes in one piece always is.

    :param inventories: names of the hosts whose inventories are, None for
        all hosts
    :param servers: of those whose servers are, which are among them
    :param known: inventories of other hosts, from an earlier look
    """

    inventories: frozenset[str] | None
    servers: frozenset[str] | None
    known: Mapping[str, Mapping[str, client.Inventory]] = dataclasses.field(
        default_factory=dict)


@dataclasses.dataclass(frozen=True, slots=True)
class _Look:
    """All that is seen in one look."""

    view: rule.View
    findings: tuple[finding.Finding, ...]
    servers: Mapping[Place, int]


def audit(cloud: Cloud, settings: Settings = Settings(),
          progress: Progress = lambda done, total: done, *,
          clock: Callable[[], float] = time.time) -> Audit:
    """Look for all that keeps shared and dedicated from being kept apart.

    :raises errors.InputError: for a host to be audited that there is not
    :raises errors.CloudError: if the cloud cannot be read
    """
    started = clock()
    everything = settings.hosts or None
    first = _look(cloud, settings, _Scope(everything, everything), progress)
    found = first.findings
    if found:
        known = {one.key for one in found}
        second = _look(cloud, settings, _again(first), progress)
        found = tuple(one for one in second.findings if one.key in known)
    view = first.view
    names = {host.name for host in view.hosts}
    counted = [view.classes[host.provider] for host in view.hosts
               if not settings.hosts or host.name in settings.hosts]
    return Audit(
        findings=tuple(sorted(found, key=lambda one: (
            _MENDING_ORDER.index(one.code[:2]), one.code, one.host, one.name,
            one.id))),
        hosts=collections.Counter(counted), servers=first.servers,
        flavors=len(view.flavors), aggregates=len(view.aggregates),
        started=started, duration_s=clock() - started,
        unmatched=tuple(sorted(
            {*settings.descriptions, *settings.configs} - names)))


def _again(first: _Look) -> _Scope:
    """What has to be read for a second look at what was found."""
    def hosts_of(group: str) -> frozenset[str]:
        return frozenset(one.host for one in first.findings
                         if one.code.startswith(group))

    return _Scope(hosts_of('S1') | hosts_of('S5'), hosts_of('S1'),
                  first.view.inventories)


def _look(cloud: Cloud, settings: Settings, scope: _Scope,
          progress: Progress) -> _Look:
    """See what there is, and what is wrong with it."""
    aggregates_seen = cloud.aggregates()
    hosts_seen = cloud.hosts()
    change.find_hosts(settings.hosts, hosts_seen)
    view = rule.View(
        hosts=hosts_seen, aggregates=aggregates_seen,
        flavors=cloud.flavors(), descriptions=settings.descriptions,
        configs=settings.configs, emulator_cpus=settings.emulator_cpus,
        known_traits=frozenset(cloud.placement.known_traits(
            os_traits.CUSTOM_NAMESPACE, is_used=False)))
    isolating = [one for one in aggregates_seen if one.isolated_for]
    read = [host for host in hosts_seen if scope.inventories is None
            or host.name in scope.inventories]
    found: list[finding.Finding] = []
    counted: collections.Counter[Place] = collections.Counter()
    inventories_seen = dict(scope.known)
    pool = futures.ThreadPoolExecutor(settings.jobs, 'audit')
    try:
        members = dict(zip(
            (one.uuid for one in isolating),
            pool.map(cloud.members, isolating), strict=True))
        for seen in progress(_ahead(
                pool, functools.partial(_see, cloud, view, scope), read,
                settings.jobs * _AHEAD), len(read)):
            if seen.inventories is not None:
                inventories_seen[seen.provider] = seen.inventories
            counted.update(seen.servers)
            found += seen.findings
    finally:
        pool.shutdown(cancel_futures=True)
    view = dataclasses.replace(view, inventories=inventories_seen,
                               members=members)
    found += [one.finding(problem) for one in RULES.values() if one.find
              for problem in one.find(view)]
    if settings.hosts:
        found = [one for one in found if one.host in settings.hosts]
    return _Look(view, tuple(found), counted)


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


def _see(cloud: Cloud, view: rule.View, scope: _Scope,
         host: model.Host) -> _Seen:
    """Look at one host."""
    host_class = view.classes[host.provider]
    inventories_seen = _inventories(cloud, host)
    has_pcpu = 'PCPU' in (inventories_seen or {})
    # What marks a host is to be settled before its servers are moved.
    is_unclear = not model.agrees(host)
    counted: collections.Counter[Place] = collections.Counter()
    found: list[finding.Finding] = []
    is_read = scope.servers is None or host.name in scope.servers
    for server in cloud.servers(host.name) if is_read else ():
        if servers.has_to_be_settled(server, host_class, has_pcpu):
            server = change.settled(cloud, server)
        counted[host_class, server.host_class] += 1
        found += servers.findings(server, host_class, is_unclear)
    return _Seen(host.provider, inventories_seen, counted, tuple(found))


def _inventories(
    cloud: Cloud, host: model.Host,
) -> Mapping[str, client.Inventory] | None:
    """What a host offers; None if there is no provider, or not any more."""
    if host.traits is None:
        return None
    try:
        return cloud.placement.inventories(host.provider)
    except errors.RefusedError:
        return None
