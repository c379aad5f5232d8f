# SPDX-License-Identifier: Apache-2.0
"""What a site file changes in a cloud. Pure, on what was read before."""

from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
import dataclasses
import fnmatch

from nova_pinning.document import schema
from nova_pinning import errors
from nova_pinning.host import words
from nova_pinning.model import hostclass
from nova_pinning.placement import placement_traits
from nova_pinning.segregation import class_change
from nova_pinning.segregation import segregation_cloud
from nova_pinning.segregation import segregation_model
from nova_pinning.segregation import site_file
from nova_pinning import spelling

#: The group of hosts that no group names.
OTHERS = 'others'

_WILDCARDS = frozenset('*?[')
#: Names that are told of many.
MAX_NAMED = 5


@dataclasses.dataclass(frozen=True, slots=True)
class CloudState:
    """What a cloud is like before.

    :param by_trait: the UUIDs of the providers with each trait that a site
        file names
    """

    hosts: tuple[segregation_model.MarkedHost, ...]
    aggregates: tuple[segregation_model.HostAggregate, ...]
    by_trait: Mapping[str, frozenset[str]]


@dataclasses.dataclass(frozen=True, slots=True)
class AggregateChange:
    """What is to become of an aggregate in which hosts are kept.

    :param live: as it is; None if it is not there
    :param metadata: that it lacks
    """

    kept: site_file.KeptAggregate
    live: segregation_model.HostAggregate | None
    metadata: Mapping[str, str]

    @property
    def is_needed(self) -> bool:
        return self.live is None or bool(self.metadata)

    @property
    def has_hosts(self) -> bool:
        """Whether what it says is said of hosts at once."""
        return self.live is not None and bool(self.live.hosts)


@dataclasses.dataclass(frozen=True, slots=True)
class SitePlan:
    """All that a site file changes.

    :param hosts: those that are to be of a class, or of none, whether
        something is to be done about them or not
    :param aggregates: those that the file names to keep hosts in, likewise
    :param warnings: what in the file has no effect, a sentence each
    """

    hosts: tuple[class_change.ClassChange, ...]
    aggregates: tuple[AggregateChange, ...]
    warnings: tuple[str, ...]

    @property
    def host_changes(self) -> tuple[class_change.ClassChange, ...]:
        """What is to be done about hosts."""
        return tuple(host for host in self.hosts if host.is_needed)

    @property
    def aggregate_changes(self) -> tuple[AggregateChange, ...]:
        """What is to be done about aggregates."""
        return tuple(
            aggregate for aggregate in self.aggregates if aggregate.is_needed)

    @property
    def changes(
        self,
    ) -> tuple[class_change.ClassChange | AggregateChange, ...]:
        """All that is to be done."""
        return *self.aggregate_changes, *self.host_changes


def read(site: site_file.Site,
         cloud: segregation_cloud.SegregationCloud) -> CloudState:
    """What a plan for a site needs to know of a cloud.

    :raises errors.CloudError: if it cannot be read
    """
    by_trait: dict[str, frozenset[str]] = {}
    for group in site.groups:
        for selector in group.selectors:
            if selector.kind is site_file.SelectorKind.TRAIT \
                    and selector.text not in by_trait:
                by_trait[selector.text] = _providers(cloud, selector.text)
    return CloudState(cloud.hosts(), cloud.aggregates(), by_trait)


def _providers(cloud: segregation_cloud.SegregationCloud,
               trait: str) -> frozenset[str]:
    # Placement refuses to look for a trait that it does not know.
    if trait not in cloud.placement.known_traits(trait):
        return frozenset()
    return frozenset(provider.uuid
                     for provider in cloud.placement.providers(required=trait))


def plan(site: site_file.Site, state: CloudState) -> SitePlan:
    """What is to be done so that a cloud is as a site file says.

    :raises errors.InputErrors: if the file does not go with the cloud: it
        names a host or an aggregate that there is not, or a host in two
        classes, or an aggregate that cannot be used as it says
    """
    planner = _Planner(site, state)
    made = planner.plan()
    schema.raise_all(planner.errors)
    return made


#: A group that names a host, and by what.
_Named = tuple[site_file.HostGroup, site_file.HostSelector]


class _Planner:

    def __init__(self, site: site_file.Site, state: CloudState) -> None:
        self._site = site
        self._state = state
        self._kept = {group.aggregate.name: group.aggregate
                      for group in site.groups if group.aggregate}
        self._aggregates = {
            aggregate.name: aggregate
            for aggregate in state.aggregates}
        self._warnings: list[str] = []
        self.errors: list[errors.InputError] = []

    def plan(self) -> SitePlan:
        named = self._named()
        hosts = []
        unnamed = []
        for host in self._state.hosts:
            by = named.get(host.name)
            if by:
                self._check_single_class(host, by)
                groups = [group for group, _selector in by]
                hosts.append(self._host_change(
                    host, groups[0].host_class, groups[0].name,
                    [group.aggregate.name for group in groups
                     if group.aggregate]))
            elif not isinstance(self._site.others, site_file.OtherHosts):
                hosts.append(self._host_change(
                    host, self._site.others, OTHERS, ()))
            else:
                unnamed.append(host.name)
        if unnamed and self._site.others is site_file.OtherHosts.REFUSE:
            self.errors.append(errors.InputError(
                f'no group names {words.listed(unnamed, MAX_NAMED)}',
                self._site.where, 'put them into a group'))
        aggregates = tuple(
            self._aggregate_change(kept, hosts)
            for kept in self._kept.values())
        return SitePlan(tuple(hosts), aggregates, tuple(self._warnings))

    # Which hosts are meant.

    def _named(self) -> dict[str, list[_Named]]:
        """By what each host is named, by the host's name."""
        by_host: dict[str, list[_Named]] = {}
        for group in self._site.groups:
            for selector in group.selectors:
                for name in self._hosts(selector, group):
                    by_host.setdefault(name, []).append((group, selector))
        return by_host

    def _hosts(self, selector: site_file.HostSelector,
               group: site_file.HostGroup) -> Sequence[str]:
        match selector.kind:
            case site_file.SelectorKind.HOST:
                return self._hosts_by_name(selector)
            case site_file.SelectorKind.AGGREGATE:
                return self._hosts_by_aggregate(selector, group)
        providers = self._state.by_trait[selector.text]
        names = [host.name for host in self._state.hosts
                 if host.provider in providers]
        if not names:
            self._warn(selector, f'no host has the trait {selector.text}')
        return names

    def _hosts_by_name(self,
                       selector: site_file.HostSelector) -> Sequence[str]:
        known = list(dict.fromkeys(host.name for host in self._state.hosts))
        if selector.text in known:
            return [selector.text]
        names = fnmatch.filter(known, selector.text)
        if not names and _WILDCARDS.isdisjoint(selector.text):
            self.errors.append(errors.InputError(
                f'there is no host {selector.text}', selector.where,
                spelling.did_you_mean(selector.text, known)))
        elif not names:
            self._warn(selector, f'no host has a name like {selector.text}')
        return names

    def _hosts_by_aggregate(self, selector: site_file.HostSelector,
                            group: site_file.HostGroup) -> Sequence[str]:
        aggregate = self._aggregates.get(selector.text)
        if aggregate is None:
            if selector.text not in self._kept:
                self.errors.append(errors.InputError(
                    f'there is no aggregate {selector.text}', selector.where,
                    spelling.did_you_mean(selector.text, self._aggregates)))
            return ()
        if segregation_model.speaks_against(aggregate, group.host_class):
            self.errors.append(site_file.unstable(selector))
        if not aggregate.hosts:
            self._warn(selector,
                       f'there are no hosts in aggregate {selector.text}')
        return sorted(aggregate.hosts)

    def _warn(self, selector: site_file.HostSelector, message: str) -> None:
        self._warnings.append(f'{selector.where}: {message}')

    def _check_single_class(self, host: segregation_model.MarkedHost,
                            by: Sequence[_Named]) -> None:
        first, selector = by[0]
        for group, other in by[1:]:
            if group.host_class is not first.host_class:
                self.errors.append(errors.InputError(
                    f'host {host.name} is {_shown(group)} here', other.where,
                    f'{selector.where.key} in line {selector.where.line} '
                    f'makes it {_shown(first)}'))
                return

    # What is to be done about them.

    def _host_change(
        self,
        host: segregation_model.MarkedHost,
        host_class: hostclass.HostClass | None,
        group: str,
        joins: Iterable[str],
    ) -> class_change.ClassChange:
        return dataclasses.replace(
            class_change.plan_change(host, host_class, joins), group=group,
            # Also those that are yet to say for which class they are.
            leaves=tuple(aggregate for aggregate in host.aggregates
                         if self._is_for_another(aggregate, host_class)))

    def _is_for_another(self, aggregate: segregation_model.HostAggregate,
                        host_class: hostclass.HostClass | None) -> bool:
        kept = self._kept.get(aggregate.name)
        return (kept is not None and kept.host_class is not host_class
                or segregation_model.speaks_against(aggregate, host_class))

    def _aggregate_change(self, kept: site_file.KeptAggregate,
                          hosts: Iterable[class_change.ClassChange],
                          ) -> AggregateChange:
        live = self._aggregates.get(kept.name)
        if live is None:
            return AggregateChange(kept, None, kept.metadata)
        if segregation_model.speaks_against(live, kept.host_class):
            self.errors.append(errors.InputError(
                f'aggregate {kept.name} is for hosts of another class',
                kept.where, 'choose another name, or empty it and take away '
                            'its metadata'))
        metadata = missing_metadata(kept, live)
        known = {host.host.name for host in hosts}
        strangers = {
            host.name for host in self._state.hosts
            if host.name in live.hosts - known
            and not is_of_class(host, kept.host_class)}
        if metadata and strangers:
            self.errors.append(errors.InputError(
                f'aggregate {kept.name} has '
                f'{words.listed(sorted(strangers), MAX_NAMED)} in it, which '
                'no group names', kept.where,
                'put them into a group, or take them out of the aggregate'))
        return AggregateChange(kept, live, metadata)


def missing_metadata(
        kept: site_file.KeptAggregate,
        live: segregation_model.HostAggregate) -> Mapping[str, str]:
    """What an aggregate does not say that it is to say."""
    return {key: value for key, value in kept.metadata.items()
            if live.metadata.get(key) != value}


def is_of_class(host: segregation_model.MarkedHost,
                host_class: hostclass.HostClass) -> bool:
    """Whether a host's traits tell of this class and no other."""
    return placement_traits.classes_of(host.traits or ()) == {host_class}


def _shown(group: site_file.HostGroup) -> str:
    return f'to be {group.host_class or "of no class"}'
