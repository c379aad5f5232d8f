# SPDX-License-Identifier: Apache-2.0
"""What the page shows, as one JSON document that its script reads.

Hosts that are alike, in what they have free and in all else that decides
which guests fit, share a state, and those that are built alike a shape; each
is written and worked out once. Whatever comes from the cloud is text without
control characters, and nothing in the document is markup.
"""

from collections.abc import Callable
from collections.abc import Hashable
from collections.abc import Sequence
import dataclasses
from typing import Any

from nova_pinning.admission import guest_request
from nova_pinning.capacity import capacity
from nova_pinning.capacity import count
from nova_pinning.capacity import like_hosts
from nova_pinning.capacity import outlook
from nova_pinning.checks import check_rule
from nova_pinning.document import quantities
from nova_pinning.explain import explanation
from nova_pinning.explain import flavor_alternatives
from nova_pinning.explain import host_verdicts
from nova_pinning.explain import size_limits
from nova_pinning.explain import verdict_summary
from nova_pinning.fleet import snapshot
from nova_pinning.host import words
from nova_pinning.presentation import capacity_report
from nova_pinning.presentation.fleet_page import page_hosts
from nova_pinning.presentation.fleet_page import page_plan
from nova_pinning.presentation import sales_headline
from nova_pinning.rebalance import certain_losses
from nova_pinning.rebalance import plan_model
from nova_pinning import spelling

_REFUSED_BY_NOVA = ('is out of the question: nova accepts no such flavor',
                    'are out of the question: nova accepts no such flavor')
# What stands for a host where a guest fits, in place of a reason.
_FITS = -1

#: What CPUs are used for: signs, and their meanings.
TILES = {
    'taken': {'sign': '×', 'meaning': 'taken by a guest'},
    'free': {'sign': '', 'meaning': 'free'},
    'shared': {'sign': ':', 'meaning': 'shared CPU, not sold'},
    'kept': {'sign': '#', 'meaning': 'kept for the host'},
    'stranded': {'sign': '◣',
                 'meaning': 'free, but stranded: no flavor can use it'},
    'floating': {'sign': '~', 'meaning': 'shared CPU, sold'}}

Progress = Callable[[float], None]
_Json = dict[str, Any]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SoldAt:
    """How much was sold at some time.

    :param taken_at: ISO 8601
    """

    taken_at: str
    hosts: int
    guests: int
    dedicated_cpus: int
    pinned_cpus: int


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class FleetPage:
    """What a page is made of.

    :param measured: the fleet, with what can be sold of each flavor
    :param read: what makes a guest of a flavor, for those of any size; None
        to leave these out
    :param findings: of the fleet, and of its segregation if that was checked
    :param plan: for this state of the fleet, None for none
    :param earlier: the same at earlier times
    :param history: those times and this one, the first first
    """

    measured: capacity.FleetCapacity
    read: flavor_alternatives.Reader | None = None
    findings: Sequence[check_rule.Finding] = ()
    plan: plan_model.RebalancePlan | None = None
    earlier: Sequence[capacity.FleetCapacity] = ()
    history: Sequence[SoldAt] = ()


def document(page: FleetPage, version: str,
             progress: Progress = lambda part: None) -> _Json:
    """All that the page shows.

    :param version: of nova-pinning
    """
    return _PageMaker(page).document(version, progress)


class _PageMaker:

    def __init__(self, page: FleetPage) -> None:
        self._page = page
        self._fleet = page.measured.fleet
        self._requests = page.measured.requests
        self._judge = explanation.judge_of(self._fleet)
        self._sizes = None if page.read is None else (
            size_limits.SizeFinder(self._judge, page.read))
        self._policies = () if page.read is None else (
            size_limits.policies(self._fleet.hosts))
        self._reasons: dict[tuple[str, str], int] = {}
        self._causes = list(count.CapacityCause)
        self._writer = page_hosts.HostWriter(self._fleet)
        self._states: dict[Hashable, int] = {}
        self._state_values: list[_Json] = []

    def document(self, version: str, progress: Progress) -> _Json:
        fleet = self._fleet
        hosts, writer = [], self._writer
        down = certain_losses.find(fleet)
        counted = map(like_hosts.Numbering().host,
                      self._judge.occupancies.values())
        for number, (host, measured) in enumerate(
                zip(counted, self._page.measured.hosts)):
            state = self._state(host, measured)
            hosts.append({
                **writer.host(host.occupancy), 'state': state,
                'zone': _text(self._judge.judge.rules.zone_of(
                    host.occupancy.host))})
            if guests := down.get(host.occupancy.host.name):
                hosts[-1]['down'] = [
                    at for at, guest in enumerate(host.occupancy.guests)
                    if guest.uuid in guests]
            if not number % 50:
                progress(number / len(fleet.hosts))
        return {
            'version': 1,
            'title': _text(_title(fleet)),
            'source': _text(fleet.source), 'taken_at': _text(fleet.taken_at),
            'made_by': f'nova-pinning {version}',
            'flavors': [_flavor(request) for request in self._requests],
            'policies': [{
                'text': policy.text, 'specs': dict(policy.extra_specs),
                'vcpu_step': policy.vcpu_step, 'gib_step': policy.gib_step,
            } for policy in self._policies],
            'reasons': [list(texts) for texts in self._reasons],
            'tiles': TILES,
            'causes': [capacity_report.STRANDED[cause]
                       for cause in self._causes],
            'sales': self._sales(),
            **writer.tables(), 'states': self._state_values, 'hosts': hosts,
            'findings': [_finding(finding) for finding in self._page.findings],
            'history': [dataclasses.asdict(sold)
                        for sold in self._page.history],
            'plan': None if self._page.plan is None else (
                page_plan.as_dict(self._page.plan))}

    def _sales(self) -> _Json:
        """What can be sold of the hosts of each scope."""
        finder = outlook.OutlookFinder(self._page.measured, self._page.earlier)
        earlier = [self._scopes(one) for one in self._page.earlier]
        return {key: _sales(finder.outlooks(
            hosts, [scopes.get(key, ()) for scopes in earlier]), finder.since)
            for key, hosts in self._scopes(self._page.measured).items()}

    def _scopes(self, measured: capacity.FleetCapacity) -> dict[
            str, list[capacity.HostCapacity]]:
        """Hosts of all the fleet, and of each class, zone and aggregate."""
        scopes: dict[str, list[capacity.HostCapacity]] = {
            'all': list(measured.hosts)}
        for one in measured.hosts:
            host = one.host
            for key in dict.fromkeys(map(_text, (
                    f'class:{capacity_report.class_name(host.host_class)}',
                    f'zone:{self._judge.judge.rules.zone_of(host)}',
                    *[f'aggregate:{name}' for name in host.aggregates]))):
                scopes.setdefault(key, []).append(one)
        return scopes

    def _state(self, host: like_hosts.CountedHost,
               measured: capacity.HostCapacity) -> int:
        """The number of a host's state."""
        described = host.occupancy.host
        key = (host.kind, host.site, *host.left,
               described.is_enabled, described.known_class,
               described.host_class, described.gaps, described.is_opaque,
               host.occupancy.engine.claim_order)
        number = self._states.setdefault(key, len(self._states))
        if number == len(self._state_values):
            self._state_values.append(self._state_value(host, measured))
        return number

    def _state_value(self, host: like_hosts.CountedHost,
                     measured: capacity.HostCapacity) -> _Json:
        verdicts = [self._judge.verdict(host.occupancy, request)
                    for request in self._requests]
        stranded = measured.stranded
        return {
            'fits': [counts.fits for counts in measured.counts],
            'why': [self._reason(verdict.cause, request)
                    if verdict.cause else _FITS
                    for verdict, request in zip(verdicts, self._requests)],
            'bounds': [
                flavor for flavor, counts in enumerate(measured.counts)
                if counts.doubts or verdicts[flavor].doubts],
            'free': stranded.free_cpus, 'orphans': stranded.orphans,
            'stranded': [[self._causes.index(cause), cpus]
                         for cause, cpus in stranded.cpus.items()],
            'stranded_mib': sum(stranded.memory_mib.values()),
            'stranded_cells': list(measured.stranded_cpus),
            'devices': self._writer.devices(
                host.occupancy, stranded, self._requests),
            'sizes': [self._limits(host, policy)
                      for policy in self._policies]}

    def _limits(self, host: like_hosts.CountedHost,
                policy: size_limits.SizePolicy) -> _Json:
        assert self._sizes is not None
        limits = self._sizes.limits(host.occupancy, policy)
        return {
            'fit': [list(size) for size in limits.fitting],
            **({'bound': True} if limits.is_bound else {}),
            'not': [[vcpus, gib, self._reason(
                cause, self._sizes.request(policy, vcpus, gib))]
                for vcpus, gib, cause in limits.refused]}

    def _reason(self, cause: host_verdicts.RefusalCause | None,
                request: guest_request.GuestRequest | None) -> int:
        """The number of a reason, of which there are few."""
        texts = _REFUSED_BY_NOVA
        if cause is not None and request is not None:
            one, several = (
                _text(verdict_summary.phrase(cause, number, request))
                for number in (1, 2))
            texts = one, several
        return self._reasons.setdefault(texts, len(self._reasons))


def _title(fleet: snapshot.Fleet) -> str:
    return (f'{words.count(len(fleet.hosts), "host")}, '
            f'{words.count(len(fleet.guests), "guest")}')


def _flavor(request: guest_request.GuestRequest) -> _Json:
    topology = request.topology
    return {
        'name': _text(request.name), 'vcpus': request.vcpus,
        'memory': quantities.shown_memory(request.memory_mib),
        'class': capacity_report.class_name(request.guest_class),
        'cells': 0 if topology is None else len(topology.cells),
        'pinned': topology is not None and topology.is_pinned,
        'devices': [[_text(asked.alias), asked.count]
                    for asked in request.devices]}


def _sales(outlooks: Sequence[outlook.FlavorOutlook], since: str) -> _Json:
    is_spread = capacity.is_spread(one.size for one in outlooks)
    return {
        'lines': list(sales_headline.lines(outlooks, since)),
        'flavors': [{
            'at': one.number, 'fits': one.size.fits,
            'bound': one.size.is_bound, 'totals': one.size.totals,
            'guests': one.guests, 'status': one.status,
            'days': one.days_left and sales_headline.days(one.days_left),
            'because': _because(one.size),
            'caches': one.size.caches.text if is_spread else '',
        } for one in outlooks]}


def _because(size: capacity.FlavorCapacity) -> str:
    """What most of the guests that do not fit lack; '' if all do."""
    return next((
        f'{guests:,}: ' * (len(size.missing) > 1)
        + capacity_report.CAUSES[cause]
        for cause, guests in size.missing.items()), '')


def _finding(finding: check_rule.Finding) -> _Json:
    return {
        'code': finding.code, 'severity': str(finding.severity),
        'subject': _text(finding.subject), 'message': _text(finding.message),
        'advice': _text(finding.advice), 'host': _text(finding.host)}


def _text(text: str) -> str:
    return spelling.printable(text)
