# SPDX-License-Identifier: Apache-2.0
"""What each of nova-scheduler's filters looks at.

Every function is nova's class of that kind in nova/scheduler/filters, or its
function in nova/scheduler/request_filter.py. They yield reasons against a
host, and what would have to be known to tell; nothing means that it passes.
"""

from collections.abc import Callable
from collections.abc import Collection
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
import dataclasses
import functools
import operator
import re
from typing import NamedTuple
from typing import Protocol
from typing import TypeAlias

from nova_pinning.admission import guest_request
from nova_pinning.admission import image_properties
from nova_pinning.admission import offered_host
from nova_pinning.admission import scheduler_rules
from nova_pinning import model
from nova_pinning.model import hostclass
from nova_pinning.model import reserve

_TENANT_KEY = 'filter_tenant_id'
_TRAIT_KEY = 'trait:'


class FilteredGuest(Protocol):
    """A guest on a host; its UUID is '' if that is not known."""

    @property
    def uuid(self) -> str: ...

    @property
    def vcpus(self) -> int: ...


class Occupancy(Protocol):
    """A host with its guests.

    :ivar engine: the host with all of them on it
    """

    @property
    def host(self) -> offered_host.OfferedHost: ...

    @property
    def guests(self) -> Sequence[FilteredGuest]: ...

    @property
    def engine(self) -> model.Host: ...


class FilterRefusal(NamedTuple):
    """A refusal: a clause whose subject is the host."""

    text: str
    about: str = ''


class FilterQuestion(NamedTuple):
    """What would have to be known: an indirect question."""

    text: str


Findings: TypeAlias = Iterator[FilterRefusal | FilterQuestion]


@dataclasses.dataclass(frozen=True)
class FilterCase:
    """A guest and a host."""

    request: guest_request.GuestRequest
    wishes: guest_request.GuestWishes
    host: offered_host.OfferedHost
    rules: scheduler_rules.SchedulerRules

    @property
    def aggregates(self) -> Iterator[offered_host.Aggregate]:
        """Those of the host; one that is not listed says nothing."""
        return (self.rules.aggregates[name] for name in self.host.aggregates
                if name in self.rules.aggregates)

    @functools.cached_property
    def metadata(self) -> Mapping[str, Collection[str]]:
        """Of the host's aggregates: all values of each key."""
        found: dict[str, set[str]] = {}
        for aggregate in self.aggregates:
            for key, value in _items(aggregate):
                found.setdefault(key, set()).add(value)
        return found

    def parts(self, key: str) -> Collection[str]:
        """What any of the aggregates lists, with commas, under a key."""
        return _parts(self.metadata.get(key, ()))

    @property
    def hints(self) -> Mapping[str, str]:
        return dict(self.wishes.hints)


def _items(
    aggregate: offered_host.Aggregate,
) -> Iterator[tuple[str, str]]:
    """Metadata as nova has them, with the zone."""
    yield from aggregate.metadata.items()
    if aggregate.availability_zone is not None:
        yield 'availability_zone', aggregate.availability_zone


def _parts(values: Iterable[str]) -> frozenset[str]:
    return frozenset(
        part.strip() for value in values for part in value.split(','))


def _either(values: Iterable[str]) -> str:
    return ' or '.join(sorted(values))


# Nova's request filters that go by aggregates: they have Placement leave
# hosts out.

def by_zone(case: FilterCase) -> Findings:
    """As map_az_to_placement_aggregate, and as the API checks zones.

    The default zone is open to all hosts, unless an aggregate makes it.
    """
    zone = case.wishes.availability_zone
    if not zone or any(aggregate.availability_zone == zone
                       for aggregate in case.aggregates):
        return
    if zone != case.rules.default_zone or any(
            aggregate.availability_zone == zone
            for aggregate in case.rules.aggregates.values()):
        yield FilterRefusal(f'is not in availability zone {zone}', zone)


def by_isolated_aggregates(case: FilterCase) -> Findings:
    """As isolate_aggregates, which knows nothing of root_required."""
    if not case.rules.isolates:
        return
    required = {
        _TRAIT_KEY + trait for query in case.request.queries[:1]
        for group in query.groups for trait in group.required}
    for aggregate in case.aggregates:
        lacking = {
            key for key, value in aggregate.metadata.items()
            if key.startswith(_TRAIT_KEY) and value == 'required'} - required
        if lacking and (case.request.image is None or case.request.doubts):
            yield FilterQuestion(
                f'whether the guest requires {_either(lacking)}')
        elif lacking:
            yield FilterRefusal(
                f'is in aggregate {aggregate.name}, which takes only guests '
                'that require its traits', aggregate.name)


def by_tenant_aggregates(case: FilterCase) -> Findings:
    """As require_tenant_aggregate, which takes no lists of projects."""
    if not case.rules.limits_tenants:
        return
    tenants = {
        aggregate.name: {value for key, value in _items(aggregate)
                         if key.startswith(_TENANT_KEY)}
        for aggregate in case.rules.aggregates.values()}
    project = case.wishes.project
    if not project and any(tenants.values()):
        yield FilterQuestion('whose guest it is')
        return
    own = {name for name, names in tenants.items() if project in names}
    if not own.intersection(case.host.aggregates) and (
            own or case.rules.requires_tenant_aggregate):
        yield FilterRefusal(
            f'is in no aggregate that is for project {project}', project)


# What depends on nothing but the guest and the host.

def by_state(case: FilterCase) -> Findings:
    if not case.host.is_enabled:
        reason = case.host.disabled_reason
        yield FilterRefusal(
            f'is disabled: {reason}' if reason else 'is disabled')


def by_class(case: FilterCase) -> Findings:
    known = case.host.known_class
    if known is not None and known is not case.request.guest_class:
        yield FilterRefusal(
            f'is a {known} host, and the guest is {case.request.guest_class}',
            str(known))
    if known is None and case.host.is_opaque:
        yield FilterQuestion('of which class the host is')


def by_reserve(case: FilterCase) -> Findings:
    """As PinnedTopologyFilter, but for last choices.

    A guest that finds no other host gets these, so they are not refused.
    """
    use = case.rules.reserve_of(case.host)
    if use is not None and not case.wishes.is_evacuated and (
            use is reserve.ReserveUse.EVACUATIONS
            or case.request.topology is None):
        yield FilterRefusal('is kept for guests of lost hosts',
                            hostclass.RESERVE_KEY)


def by_aggregate_extra_specs(case: FilterCase) -> Findings:
    """The keys of its own namespace, and those of none."""
    for key, wanted in case.request.extra_specs:
        scope, separator, name = key.partition(':')
        if separator and scope != 'aggregate_instance_extra_specs':
            continue
        name = name if separator else key
        answers = {matches(value, wanted) for value in case.parts(name)}
        if True not in answers:
            yield FilterRefusal(
                f'is in no aggregate with {name} {wanted}', name)
        elif None in answers:
            yield FilterQuestion(f'which value of {name} nova looks at first')


def by_image_isolation(case: FilterCase) -> Findings:
    prefix = case.rules.image_namespace and (
        case.rules.image_namespace + case.rules.image_separator)
    image = case.request.image
    for key in case.metadata:
        if not key.startswith(prefix) or not image_properties.is_kept(key):
            continue
        if image is None or image and key in image_properties.LISTS:
            yield FilterQuestion(f'which {key} the image has')
            continue
        has = image_properties.read(image).get(key)
        if has and has not in case.parts(key):
            yield FilterRefusal(
                f'takes images with {key} {_either(case.parts(key))}, not '
                f'{has}', key)


def by_tenants(case: FilterCase) -> Findings:
    kept = {
        aggregate.name: _parts(value for key, value in _items(aggregate)
                               if key.startswith(_TENANT_KEY))
        for aggregate in case.aggregates}
    projects = frozenset[str]().union(*kept.values())
    if projects and not case.wishes.project:
        yield FilterQuestion('whose guest it is')
    elif projects and case.wishes.project not in projects:
        name = next(name for name, names in kept.items() if names)
        yield FilterRefusal(
            f'is in aggregate {name}, which is for other projects', name)


def by_flavors(case: FilterCase) -> Findings:
    names = case.parts('instance_type')
    if names and not case.request.name:
        yield FilterQuestion('of which flavor it is')
    elif names and case.request.name not in names:
        yield FilterRefusal(
            f'takes flavor {_either(names)}, not {case.request.name}',
            case.request.name)


#: What nova's HostState and its statistics have; other keys of a flavor that
#: are of no namespace ComputeCapabilitiesFilter passes over.
HOST_STATE = re.compile('''(?x)
    _.* | (free|total_usable)_(ram|disk)_[mg]b | disk_mb_used
    | vcpus_(total|used)
    | (cpu|ram|disk)_allocation_ratio | hypervisor_(hostname|type|version)
    | num_(instances|io_ops|(vm|task|os_type|proj)_.*)
    | update(d|_.*)? | consume_from_request | io_workload
    | aggregates | allocation_candidates | cell_uuid | cpu_info | failed_builds
    | host | host_ip | instances | limits | metrics | nodename | numa_topology
    | pci_stats | service | stats | supported_instances | uuid''')


def by_capabilities(case: FilterCase) -> Findings:
    for key, _ in case.request.extra_specs:
        scope, separator, _ = key.partition(':')
        if scope == 'capabilities' or key == 'hw:maxphysaddr_bits' or (
                not separator and HOST_STATE.fullmatch(key)):
            yield FilterQuestion(f'what the host has for {key}')


def by_image_properties(case: FilterCase) -> Findings:
    # Of a guest that runs it is not known. It is for hosts of the same
    # architecture and hypervisor as its own, and all others are rare.
    read = image_properties.read(case.request.image or ())
    for key in ('hw_architecture', 'img_hv_type', 'hw_vm_mode'):
        if read.get(key):
            yield FilterQuestion(f'which {key} the host has')


def by_isolated_hosts(case: FilterCase) -> Findings:
    # Without its options nova lets every guest pass.
    if case.rules.enabled_filters is not None and (
            case.rules.isolates_hosts is not False):
        yield FilterQuestion('which hosts and images are isolated')


def by_query(case: FilterCase) -> Findings:
    if case.hints.get('query'):
        yield FilterQuestion('whether the host is as the query wants it')


def by_address(case: FilterCase) -> Findings:
    if case.hints.get('build_near_host_ip'):
        yield FilterQuestion('which IP address the host has')


# What depends on the guests on the host.

def by_class_of_guests(case: FilterCase, occupancy: Occupancy) -> Findings:
    if case.host.known_class is not None:
        return
    try:
        found = host_class(occupancy, case.rules.unknown_host_class)
    except hostclass.UnknownClass as error:
        yield FilterRefusal(f'is of no class: {error}')
        return
    if found not in (None, case.request.guest_class):
        yield FilterRefusal(
            f'is a {found} host by its guests, and the guest is '
            f'{case.request.guest_class}', str(found))


def host_class(
    occupancy: Occupancy, unknown_host_class: str = hostclass.BY_GUESTS,
) -> hostclass.HostClass | None:
    """The class of a host to HostClassFilter.

    :param unknown_host_class: the option of group [pinning]
    :returns: None if too little is known of it, or it takes any guest
    :raises hostclass.UnknownClass: if the filter refuses it to all guests
    """
    host = occupancy.host
    if host.known_class or host.is_opaque:
        return host.known_class
    return hostclass.class_of_unmarked(
        unknown_host_class, occupancy.engine.cells,
        sum(guest.vcpus for guest in occupancy.guests))


def most_guests(case: FilterCase) -> int | None:
    """How many guests NumInstancesFilter lets be on a host, None for any."""
    # Few clouds have the filter, so its default tells nothing.
    return (None if case.rules.enabled_filters is None
            else case.rules.max_instances_per_host)


def most_guests_of_aggregates(case: FilterCase) -> int | None:
    """The same of AggregateNumInstancesFilter."""
    try:
        return min(map(int, case.metadata.get('max_instances_per_host', ())),
                   default=most_guests(case))
    except ValueError:
        # Nova leaves it at the option, too.
        return case.rules.max_instances_per_host


def by_number(case: FilterCase, occupancy: Occupancy, most_of: Callable[
        [FilterCase], int | None] = most_guests) -> Findings:
    most = most_of(case)
    if most is not None and len(occupancy.guests) >= most:
        yield FilterRefusal(
            f'has {len(occupancy.guests):,} guests, and {most:,} may be on it')


by_number_of_aggregates = functools.partial(
    by_number, most_of=most_guests_of_aggregates)


def by_same_host(case: FilterCase, occupancy: Occupancy) -> Findings:
    wanted = case.hints.get('same_host')
    if not wanted:
        return
    there = {guest.uuid for guest in occupancy.guests}
    if there & set(wanted.split(',')):
        return
    if '' in there:
        yield FilterQuestion('which guests are there')
    else:
        yield FilterRefusal(
            f'does not have guest {_either(wanted.split(","))}', wanted)


def by_different_host(case: FilterCase, occupancy: Occupancy) -> Findings:
    unwanted = case.hints.get('different_host')
    if not unwanted:
        return
    there = {guest.uuid for guest in occupancy.guests}
    for uuid in sorted(there & set(unwanted.split(','))):
        yield FilterRefusal(f'has guest {uuid}', uuid)
    if '' in there:
        yield FilterQuestion('which guests are there')


_NUMBERS: Mapping[str, Callable[[float, float], bool]] = {
    '=': operator.ge, '==': operator.eq, '!=': operator.ne,
    '>=': operator.ge, '<=': operator.le}
_TEXTS: Mapping[str, Callable[[str, str], bool]] = {
    's==': operator.eq, 's!=': operator.ne, 's<': operator.lt,
    's<=': operator.le, 's>': operator.gt, 's>=': operator.ge,
    '<in>': operator.contains}


def matches(value: str, wanted: str) -> bool | None:
    """Whether a value is as an extra spec wants it (nova's extra_specs_ops).

    :returns: None for what is to be compared as numbers and is none, with
        which nova's scheduler ends
    """
    sign, *words = wanted.split() or ['']
    if sign == '<or>':
        return value in words[::2]
    if sign == '<all-in>':
        return bool(words) and all(word in value for word in words)
    if sign in _TEXTS:
        return bool(words) and _TEXTS[sign](value, words[0])
    if sign in _NUMBERS:
        try:
            return bool(words) and _NUMBERS[sign](
                float(value), float(words[0]))
        except ValueError:
            return None
    return value == wanted
