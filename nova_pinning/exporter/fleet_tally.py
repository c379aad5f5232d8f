# SPDX-License-Identifier: Apache-2.0
"""A fleet counted once, and after that only where it has changed.

What fits on a host depends on its shape and its state: cells with what is
free in them, devices, traits and aggregates, what Placement has left. Hosts
that are alike in all of that are counted once, and what was counted is kept
for hosts that come to be so. Sums over the fleet lose what a host added
before it changed, and get what it adds now. Whole numbers are summed, so that
nothing is lost in doing this for months.
"""

import collections
from collections.abc import Collection
from collections.abc import Hashable
from collections.abc import Iterable
from collections.abc import Sequence
import dataclasses
import operator
from typing import NamedTuple

from nova_pinning.admission import guest_request
from nova_pinning.admission import host_occupancy
from nova_pinning.admission import judge
from nova_pinning.admission import l3_layout
from nova_pinning.admission import offered_host
from nova_pinning.admission import resident_guest
from nova_pinning.admission import scheduler_rules
from nova_pinning.bridge.offline import deferred_claim
from nova_pinning.capacity import capacity
from nova_pinning.capacity import count
from nova_pinning.capacity import like_hosts
from nova_pinning.capacity import stranded
from nova_pinning.checks import check_rule
from nova_pinning.exporter import host_facts
from nova_pinning.fleet import occupied
from nova_pinning.fleet import problems
from nova_pinning.fleet import snapshot
from nova_pinning.model import hostclass

#: What was found out of hosts as they once were is thrown away, and all of
#: them counted anew, when it is of so many states more than there are hosts.
MOST_STATES_PER_HOST = 8
_FEWEST_STATES = 10_000
_NO_RULES = scheduler_rules.SchedulerRules()
#: What of a host has no part in what fits on it, or is part of its kind, its
#: site and its offers (like_hosts.CountedHost). All else tells states apart.
_OUT_OF_STATE = frozenset({
    'name', 'cells', 'pci_pools', 'l3_domains', 'traits', 'aggregates',
    'inventories', 'held', 'resources', 'disabled_reason', 'nova_cell',
    'cpu_model', 'hypervisor_version', 'offers'})
_state_of = operator.attrgetter(*[
    field.name for field in dataclasses.fields(offered_host.OfferedHost)
    if field.name not in _OUT_OF_STATE])


class _Counts(NamedTuple):
    """What was counted of hosts in one state, of each flavor."""

    counts: tuple[count.HostCount, ...]
    stranded: stranded.StrandedResources


class _Added(NamedTuple):
    """A host as it was looked at last, and what it added to the sums."""

    host: offered_host.OfferedHost
    guests: tuple[resident_guest.ResidentGuest, ...]
    counts: _Counts
    facts: host_facts.FactSums
    findings: collections.Counter[tuple[str, check_rule.Severity]]


class _ClassSum:
    """Sums over the hosts of one class, by the number of the flavor."""

    def __init__(self, flavors: int) -> None:
        self.flavors = [capacity.FlavorSum() for _flavor in range(flavors)]
        self.stranded = stranded.StrandedResources()

    def change(self, counts: _Counts, sign: int) -> None:
        """Add what was counted of a host, or with -1 take it away."""
        for flavor, host_count in zip(self.flavors, counts.counts):
            flavor.add(host_count, sign)
        self.stranded.add(counts.stranded, sign)

    def sizes(
        self, requests: Sequence[guest_request.GuestRequest],
    ) -> tuple[capacity.FlavorCapacity, ...]:
        return tuple(flavor.size(request) for flavor, request
                     in zip(self.flavors, requests))

    def left(self) -> stranded.StrandedResources:
        """What is stranded, and goes on to be that of this moment."""
        return stranded.total([self.stranded])


class FleetTally:
    """Counts a fleet, host by host.

    :param requests: one guest of each flavor on sale
    :param rules: what nova-scheduler is set to
    :ivar facts: sums over all hosts
    :ivar findings: what is odd about the fleet, by code and severity
    """

    def __init__(self, requests: Iterable[guest_request.GuestRequest],
                 rules: scheduler_rules.SchedulerRules = _NO_RULES) -> None:
        self.requests = capacity.ranked(requests)
        self.rules = rules
        self._names = frozenset(request.name for request in self.requests)
        self._hosts: dict[str, _Added] = {}
        self._sums: dict[hostclass.HostClass | None, _ClassSum] = {}
        self.facts = host_facts.zeros(self._names, [
            name for name, aggregate in rules.aggregates.items()
            if hostclass.RESERVE_KEY in aggregate.metadata])
        self.findings: collections.Counter[
            tuple[str, check_rule.Severity]] = collections.Counter()
        self._homeless = 0
        self._forget()

    def _forget(self) -> None:
        admission = judge.AdmissionJudge(self.rules, deferred_claim.BOUNDS)
        self._counters = [count.Counter(request, admission)
                          for request in self.requests]
        self._finder = stranded.StrandedFinder(self._counters)
        self._numbering = like_hosts.Numbering(self.rules.counts_guests)
        self._known: dict[Hashable, _Counts] = {}

    @property
    def hosts(self) -> int:
        return len(self._hosts)

    def update(self, fleet: snapshot.Fleet) -> int:
        """Count the hosts that have changed since the last time.

        :returns: how many these were, with those that came and went
        """
        if len(self._known) > max(
                _FEWEST_STATES, MOST_STATES_PER_HOST * len(fleet.hosts)):
            self._forget()
        by_host = occupied.guests_by_host(fleet)
        changed: dict[str, tuple[resident_guest.ResidentGuest, ...]] = {}
        hosts = []
        for host in fleet.hosts:
            guests = tuple(by_host[host.name])
            before = self._hosts.get(host.name)
            # What has not changed is mostly the very same object.
            if (before is None or before.host != host
                    or before.guests != guests):
                changed[host.name] = guests
                hosts.append(host)
        gone = self._hosts.keys() - by_host.keys()
        for name in gone:
            self._take_away(self._hosts.pop(name))
        findings = _findings(fleet, hosts, changed)
        # They know cells by their place in memory, so not for longer.
        layouts = l3_layout.L3Layouts(self.rules.aggregates)
        for host in hosts:
            self._replace(self._numbering.host(host_occupancy.of_host(
                host, changed[host.name])), findings, layouts)
        self._count_homeless(fleet, by_host)
        return len(changed) + len(gone)

    def by_class(self) -> dict[
            hostclass.HostClass | None,
            tuple[tuple[capacity.FlavorCapacity, ...],
                  stranded.StrandedResources]]:
        """Further guests of each flavor, and what is stranded, by class."""
        none = _ClassSum(len(self.requests))
        return {
            host_class: (one.sizes(self.requests), one.left())
            for host_class in (*hostclass.HostClass, None)
            for one in (self._sums.get(host_class, none),)}

    def _replace(self, counted: like_hosts.CountedHost, findings: dict[
            str, collections.Counter[tuple[str, check_rule.Severity]]],
            layouts: l3_layout.L3Layouts) -> None:
        found = counted.occupancy
        host = found.host
        before = self._hosts.get(host.name)
        added = _Added(host, found.guests, self._count(counted),
                       host_facts.of_host(
                           found, self._names, self.rules.reserves_of(host),
                           layouts),
                       findings.get(host.name, collections.Counter()))
        if before is not None:
            self._take_away(before)
        self._hosts[host.name] = added
        self._sum(host).change(added.counts, 1)
        # Counter's own += drops what is not positive, such as zeros.
        self.facts.update(added.facts)
        self.findings.update(added.findings)

    def _take_away(self, added: _Added) -> None:
        self._sum(added.host).change(added.counts, -1)
        self.facts.subtract(added.facts)
        self.findings.subtract(added.findings)

    def _sum(self, host: offered_host.OfferedHost) -> _ClassSum:
        if host.host_class not in self._sums:
            self._sums[host.host_class] = _ClassSum(len(self.requests))
        return self._sums[host.host_class]

    def _count(self, counted: like_hosts.CountedHost) -> _Counts:
        host = counted.occupancy.host
        state = (counted.kind, counted.site, host.is_opaque, _state_of(host),
                 *counted.left)
        known = self._known.get(state)
        if known is None:
            counts = tuple([counter.count(counted)
                            for counter in self._counters])
            known = self._known[state] = _Counts(
                counts, self._finder.on_host(counted, counts))
        return known

    def _count_homeless(self, fleet: snapshot.Fleet,
                        known: Collection[str]) -> None:
        rule = problems.UNLISTED_HOST
        # A finding for each host that is missing, as there.
        homeless = len({guest.host for guest in fleet.guests
                        if guest.host not in known})
        self.findings[rule.code, rule.severity] += homeless - self._homeless
        self._homeless = homeless


def _findings(
    fleet: snapshot.Fleet, hosts: Sequence[offered_host.OfferedHost],
    guests: dict[str, tuple[resident_guest.ResidentGuest, ...]],
) -> dict[str, collections.Counter[tuple[str, check_rule.Severity]]]:
    """What is odd about these hosts, by their names."""
    found: dict[str, collections.Counter[
        tuple[str, check_rule.Severity]]] = {}
    part = dataclasses.replace(
        fleet, hosts=tuple(hosts),
        guests=tuple(guest for own in guests.values() for guest in own))
    for finding in problems.find(part):
        found.setdefault(finding.host, collections.Counter())[
            finding.code, finding.severity] += 1
    return found
