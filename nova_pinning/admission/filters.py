# SPDX-License-Identifier: Apache-2.0
"""What nova-scheduler's filters make of a guest and a host.

Each filter is one of three. What it looks at is known here: it is judged, as
nova's class of that name does. It is not known: the answer is a doubt
wherever the filter could say no to such a guest. Or it changes while one
looks, and then the filter counts for nothing.

A filter of which it is not known whether it is enabled refuses nobody for
sure. HostClassFilter is taken to be, unless the filters are known; and a host
that is disabled is refused in any case, by a trait in Placement.
"""

from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
import functools
from typing import NamedTuple
from typing import TypeAlias

from nova_pinning.admission import filter_rules
from nova_pinning.admission import guest_request
from nova_pinning.admission import offered_host
from nova_pinning.admission import outcome
from nova_pinning.admission import scheduler_rules
from nova_pinning.model import filter_order

_COMPUTE_FILTER = 'ComputeFilter'


class FilterVerdict(NamedTuple):
    """Why a guest cannot be on a host, and what could be a reason."""

    refusals: tuple[outcome.AdmissionRefusal, ...] = ()
    doubts: tuple[outcome.Doubt, ...] = ()

    def and_of(self, other: 'FilterVerdict') -> 'FilterVerdict':
        """What both say."""
        return FilterVerdict(self.refusals + other.refusals,
                             self.doubts + other.doubts)


_OfHost: TypeAlias = Callable[
    [filter_rules.FilterCase], filter_rules.Findings]
_OfGuests: TypeAlias = Callable[
    [filter_rules.FilterCase, filter_rules.Occupancy], filter_rules.Findings]


class FilterRule(NamedTuple):
    """How a filter is judged; one without functions is judged elsewhere.

    :param of_host: what it says whatever guests are on the host
    :param of_guests: what it says of a host with its guests
    :param most_guests: how many it lets be on a host, None for any number
    """

    of_host: _OfHost | None = None
    of_guests: _OfGuests | None = None
    most_guests: Callable[[filter_rules.FilterCase], int | None] | None = None


#: By nova's names. Filters that are not in here nobody can judge.
RULES: Mapping[str, FilterRule] = {
    _COMPUTE_FILTER: FilterRule(filter_rules.by_state),
    scheduler_rules.CLASS_FILTER: FilterRule(
        filter_rules.by_class, filter_rules.by_class_of_guests),
    'AggregateInstanceExtraSpecsFilter': FilterRule(
        filter_rules.by_aggregate_extra_specs),
    'AggregateImagePropertiesIsolation': FilterRule(
        filter_rules.by_image_isolation),
    'AggregateMultiTenancyIsolation': FilterRule(filter_rules.by_tenants),
    'AggregateTypeAffinityFilter': FilterRule(filter_rules.by_flavors),
    'NumInstancesFilter': FilterRule(
        of_guests=filter_rules.by_number,
        most_guests=filter_rules.most_guests),
    'AggregateNumInstancesFilter': FilterRule(
        of_guests=filter_rules.by_number_of_aggregates,
        most_guests=filter_rules.most_guests_of_aggregates),
    'SameHostFilter': FilterRule(of_guests=filter_rules.by_same_host),
    'DifferentHostFilter': FilterRule(
        of_guests=filter_rules.by_different_host),
    # By MigrationRules.group_refusal.
    'ServerGroupAffinityFilter': FilterRule(),
    'ServerGroupAntiAffinityFilter': FilterRule(),
    # By the fit, and by the devices.
    filter_order.LAST_FILTER: FilterRule(filter_rules.by_reserve),
    'NUMATopologyFilter': FilterRule(),
    'PciPassthroughFilter': FilterRule(),
    'AllHostsFilter': FilterRule(),
    # They look at what no host here has.
    'ComputeCapabilitiesFilter': FilterRule(filter_rules.by_capabilities),
    'ImagePropertiesFilter': FilterRule(filter_rules.by_image_properties),
    'IsolatedHostsFilter': FilterRule(filter_rules.by_isolated_hosts),
    'JsonFilter': FilterRule(filter_rules.by_query),
    'SimpleCIDRAffinityFilter': FilterRule(filter_rules.by_address),
}
#: They look at what changes by the minute.
TRANSIENT = frozenset({'IoOpsFilter', 'AggregateIoOpsFilter', 'MetricsFilter'})
#: Nova's request filters, by what Placement then excludes a host for.
_REQUEST_FILTERS: Mapping[str, _OfHost] = {
    'availability-zone': filter_rules.by_zone,
    'isolated-aggregate': filter_rules.by_isolated_aggregates,
    'tenant-aggregate': filter_rules.by_tenant_aggregates,
}
_LAYERS = dict.fromkeys(_REQUEST_FILTERS, outcome.RefusalLayer.PLACEMENT) | {
    scheduler_rules.CLASS_FILTER: outcome.RefusalLayer.CLASS}


def gate(
    request: guest_request.GuestRequest, wishes: guest_request.GuestWishes,
    host: offered_host.OfferedHost, rules: scheduler_rules.SchedulerRules,
) -> FilterVerdict:
    """What is said of a host whatever guests are on it."""
    case = filter_rules.FilterCase(request, wishes, host, rules)
    found = {name: find(case) for name, find in _REQUEST_FILTERS.items()}
    for name, rule in _enabled(rules.enabled_filters):
        if rule.of_host is not None:
            found[name] = rule.of_host(case)
    return _verdict(found, rules, [
        outcome.Doubt(outcome.DoubtKind.FILTER,
                      f'nobody here knows what {name} looks at', name)
        for name in dict.fromkeys(rules.enabled_filters or ())
        if name not in RULES and name not in TRANSIENT])


def most_guests(
    request: guest_request.GuestRequest, host: offered_host.OfferedHost,
    rules: scheduler_rules.SchedulerRules,
) -> int | None:
    """How many guests filters let be on a host, None for any number."""
    case = filter_rules.FilterCase(
        request, guest_request.GuestWishes(), host, rules)
    return min((most for _name, rule in _enabled(rules.enabled_filters)
                if rule.most_guests is not None
                and (most := rule.most_guests(case)) is not None),
               default=None)


def by_guests(
    request: guest_request.GuestRequest, wishes: guest_request.GuestWishes,
    occupancy: filter_rules.Occupancy, rules: scheduler_rules.SchedulerRules,
) -> FilterVerdict:
    """What is said of a host because of the guests on it."""
    case = filter_rules.FilterCase(request, wishes, occupancy.host, rules)
    return _verdict(
        {name: rule.of_guests(case, occupancy)
         for name, rule in _enabled(rules.enabled_filters)
         if rule.of_guests is not None},
        rules)


@functools.lru_cache(maxsize=None)
def _enabled(
    names: tuple[str, ...] | None,
) -> Sequence[tuple[str, FilterRule]]:
    """The filters to ask: all, if it is not known which are enabled."""
    return [(name, rule) for name, rule in RULES.items()
            if names is None or name in names or name == _COMPUTE_FILTER]


def _verdict(
    found: Mapping[str, filter_rules.Findings],
    rules: scheduler_rules.SchedulerRules,
    doubts: Iterable[outcome.Doubt] = (),
) -> FilterVerdict:
    refusals = []
    doubts = list(doubts)
    for name, findings in found.items():
        # Who keeps a reserve has the filter that minds it.
        is_certain = rules.enabled_filters is not None or name in (
            _COMPUTE_FILTER, filter_order.LAST_FILTER, *_LAYERS)
        for finding in findings:
            if isinstance(finding, filter_rules.FilterRefusal) and is_certain:
                refusals.append(outcome.AdmissionRefusal(
                    _LAYERS.get(name, outcome.RefusalLayer.FILTER), name,
                    finding.about, finding.text))
            else:
                doubts.append(outcome.Doubt(
                    outcome.DoubtKind.FILTER,
                    f'{name}, if it is enabled: the host {finding.text}'
                    if isinstance(finding, filter_rules.FilterRefusal) else
                    f'{name}: it is not known {finding.text}', name))
    return FilterVerdict(tuple(refusals), tuple(doubts))
