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

"""What a site file changes in a cloud. Pure, on what was read before."""

from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
import dataclasses
import fnmatch
from typing import Protocol

from nova_pinning.document import schema
from nova_pinning import errors
from nova_pinning.model import hostclass
from nova_pinning.placement import client
from nova_pinning.placement import traits as placement_traits
from nova_pinning.segregation import change
from nova_pinning.segregation import model
from nova_pinning.segregation import site as site_lib

#: The group of hosts that no group names.
OTHERS = 'others'

_WILDCARDS = frozenset('*?[')
_MAX_NAMED = 5


@dataclasses.dataclass(frozen=True, slots=True)
class State:
    """What a cloud is like before.

    :param by_trait: the UUIDs of the providers with each trait that a site
        file names
    """

    hosts: tuple[model.Host, ...]
    aggregates: tuple[model.Aggregate, ...]
    by_trait: Mapping[str, frozenset[str]]


@dataclasses.dataclass(frozen=True, slots=True)
class HostChange:
    """What is to become of a host.

    :param turn: its traits, and the aggregates that it leaves
    :param joins: names of the aggregates that it joins
    :param group: that names it, the first if several do
    """

    turn: change.Change
    joins: tuple[str, ...]
    group: str

    @property
    def host(self) -> model.Host:
        """The host as it is."""
        return self.turn.host

    @property
    def is_needed(self) -> bool:
        """Whether anything is to be done."""
        return self.turn.is_needed or bool(self.joins)


@dataclasses.dataclass(frozen=True, slots=True)
class AggregateChange:
    """What is to become of an aggregate in which hosts are kept.

    :param live: as it is; None if it is not there
    :param metadata: that it lacks
    """

    kept: site_lib.Kept
    live: model.Aggregate | None
    metadata: Mapping[str, str]

    @property
    def is_needed(self) -> bool:
        return self.live is None or bool(self.metadata)

    @property
    def has_hosts(self) -> bool:
        """Whether what it says is said of hosts at once."""
        return self.live is not None and bool(self.live.hosts)


@dataclasses.dataclass(frozen=True, slots=True)
class Plan:
    """All that a site file changes.

    :param hosts: those that are to be of a class, or of none, whether
        something is to be done about them or not
    :param aggregates: those that the file names to keep hosts in, likewise
    :param warnings: what in the file has no effect, a sentence each
    """

    hosts: tuple[HostChange, ...]
    aggregates: tuple[AggregateChange, ...]
    warnings: tuple[str, ...]

    @property
    def host_changes(self) -> tuple[HostChange, ...]:
        """What is to be done about hosts."""
        return tuple(one for one in self.hosts if one.is_needed)

    @property
    def aggregate_changes(self) -> tuple[AggregateChange, ...]:
        """What is to be done about aggregates."""
        return tuple(one for one in self.aggregates if one.is_needed)

    @property
    def changes(self) -> tuple[HostChange | AggregateChange, ...]:
        """All that is to be done."""
        return *self.aggregate_changes, *self.host_changes


class Cloud(Protocol):
    """What is read of a cloud; see nova_pinning.segregation.cloud."""

    placement: client.Placement

    def aggregates(self) -> tuple[model.Aggregate, ...]: ...
    def hosts(self) -> tuple[model.Host, ...]: ...


def read(site: site_lib.Site, cloud: Cloud) -> State:
    """What a plan for a site needs to know of a cloud.

    :raises errors.CloudError: if it cannot be read
    """
    by_trait: dict[str, frozenset[str]] = {}
    for group in site.groups:
        for selector in group.selectors:
            if selector.kind is site_lib.Kind.TRAIT \
                    and selector.text not in by_trait:
                by_trait[selector.text] = _providers(cloud, selector.text)
    return State(cloud.hosts(), cloud.aggregates(), by_trait)


def _providers(cloud: Cloud, trait: str) -> frozenset[str]:
    # Placement refuses to look for a trait that it does not know.
    if trait not in cloud.placement.known_traits(trait):
        return frozenset()
    return frozenset(one.uuid
                     for one in cloud.placement.providers(required=trait))


def plan(site: site_lib.Site, state: State) -> Plan:
    """What is to be done so that a cloud is as a site file says.

    :raises errors.InputErrors: if the file does not go with the cloud: it
        names a host or an aggregate that there is not, or a host in two
        classes, or an aggregate that cannot be used as it says
    """
    planner = _Planner(site, state)
    made = planner.plan()
    if planner.errors:
        raise errors.InputErrors(
            tuple(planner.errors[:schema.MAX_ERRORS]),
            has_more=len(planner.errors) > schema.MAX_ERRORS)
    return made


@dataclasses.dataclass(frozen=True, slots=True)
class _Named:
    """A host with the group that names it, and by what."""

    group: site_lib.Group
    selector: site_lib.Selector


class _Planner:

    def __init__(self, site: site_lib.Site, state: State) -> None:
        self._site = site
        self._state = state
        self._kept = {group.aggregate.name: group.aggregate
                      for group in site.groups if group.aggregate}
        self._aggregates = {one.name: one for one in state.aggregates}
        self._warnings: list[str] = []
        self.errors: list[errors.InputError] = []

    def plan(self) -> Plan:
        named = self._named()
        hosts = []
        unnamed = []
        for host in self._state.hosts:
            by = named.get(host.name)
            if by:
                self._check_one_class(host, by)
                groups = [one.group for one in by]
                hosts.append(self._host_change(
                    host, groups[0].host_class, groups[0].name,
                    [group.aggregate.name for group in groups
                     if group.aggregate]))
            elif not isinstance(self._site.others, site_lib.Rest):
                hosts.append(self._host_change(
                    host, self._site.others, OTHERS, ()))
            else:
                unnamed.append(host.name)
        if unnamed and self._site.others is site_lib.Rest.REFUSE:
            self.errors.append(errors.InputError(
                f'no group names {some(unnamed)}', self._site.where,
                'put them into a group'))
        aggregates = tuple(
            self._aggregate_change(kept, hosts)
            for kept in self._kept.values())
        return Plan(tuple(hosts), aggregates, tuple(self._warnings))

    # Which hosts are meant.

    def _named(self) -> dict[str, list[_Named]]:
        """By what each host is named, by the host's name."""
        found: dict[str, list[_Named]] = {}
        for group in self._site.groups:
            for selector in group.selectors:
                for name in self._hosts(selector, group):
                    found.setdefault(name, []).append(
                        _Named(group, selector))
        return found

    def _hosts(self, selector: site_lib.Selector,
               group: site_lib.Group) -> Sequence[str]:
        match selector.kind:
            case site_lib.Kind.HOST:
                return self._hosts_by_name(selector)
            case site_lib.Kind.AGGREGATE:
                return self._hosts_by_aggregate(selector, group)
        providers = self._state.by_trait[selector.text]
        found = [host.name for host in self._state.hosts
                 if host.provider in providers]
        if not found:
            self._warn(selector, f'no host has the trait {selector.text}')
        return found

    def _hosts_by_name(self, selector: site_lib.Selector) -> Sequence[str]:
        known = list(dict.fromkeys(host.name for host in self._state.hosts))
        if selector.text in known:
            return [selector.text]
        found = fnmatch.filter(known, selector.text)
        if not found and _WILDCARDS.isdisjoint(selector.text):
            self.errors.append(errors.InputError(
                f'there is no host {selector.text}', selector.where,
                change.nearest(selector.text, known)))
        elif not found:
            self._warn(selector, f'no host has a name like {selector.text}')
        return found

    def _hosts_by_aggregate(self, selector: site_lib.Selector,
                            group: site_lib.Group) -> Sequence[str]:
        aggregate = self._aggregates.get(selector.text)
        if aggregate is None:
            if selector.text not in self._kept:
                self.errors.append(errors.InputError(
                    f'there is no aggregate {selector.text}', selector.where,
                    change.nearest(selector.text, self._aggregates)))
            return ()
        if model.speaks_against(aggregate, group.host_class):
            self.errors.append(site_lib.unstable(selector))
        if not aggregate.hosts:
            self._warn(selector,
                       f'there are no hosts in aggregate {selector.text}')
        return sorted(aggregate.hosts)

    def _warn(self, selector: site_lib.Selector, message: str) -> None:
        self._warnings.append(f'{selector.where}: {message}')

    def _check_one_class(self, host: model.Host,
                         by: Sequence[_Named]) -> None:
        first = by[0]
        for one in by[1:]:
            if one.group.host_class is not first.group.host_class:
                self.errors.append(errors.InputError(
                    f'host {host.name} is {_shown(one)} here',
                    one.selector.where,
                    f'{first.selector.where.key} in line '
                    f'{first.selector.where.line} makes it {_shown(first)}'))
                return

    # What is to be done about them.

    def _host_change(
        self, host: model.Host, host_class: hostclass.HostClass | None,
        group: str, joins: Iterable[str],
    ) -> HostChange:
        turn = change.plan(host, host_class)
        own = {one.name for one in host.aggregates}
        return HostChange(
            # Also those that are yet to say for which class they are.
            dataclasses.replace(turn, leaves=tuple(
                one for one in host.aggregates
                if self._is_for_another(one, host_class))),
            tuple(name for name in dict.fromkeys(joins) if name not in own),
            group)

    def _is_for_another(self, aggregate: model.Aggregate,
                        host_class: hostclass.HostClass | None) -> bool:
        kept = self._kept.get(aggregate.name)
        return (kept is not None and kept.host_class is not host_class
                or model.speaks_against(aggregate, host_class))

    def _aggregate_change(self, kept: site_lib.Kept,
                          hosts: Iterable[HostChange]) -> AggregateChange:
        live = self._aggregates.get(kept.name)
        if live is None:
            return AggregateChange(kept, None, kept.metadata)
        if model.speaks_against(live, kept.host_class):
            self.errors.append(errors.InputError(
                f'aggregate {kept.name} is for hosts of another class',
                kept.where, 'choose another name, or empty it and take away '
                            'its metadata'))
        metadata = missing_metadata(kept, live)
        known = {one.host.name for one in hosts}
        strangers = {
            host.name for host in self._state.hosts
            if host.name in live.hosts - known
            and not is_of_class(host, kept.host_class)}
        if metadata and strangers:
            self.errors.append(errors.InputError(
                f'aggregate {kept.name} has {some(sorted(strangers))} in it, '
                'which no group names', kept.where,
                'put them into a group, or take them out of the aggregate'))
        return AggregateChange(kept, live, metadata)


def missing_metadata(kept: site_lib.Kept,
                     live: model.Aggregate) -> Mapping[str, str]:
    """What an aggregate does not say that it is to say."""
    return {key: value for key, value in kept.metadata.items()
            if live.metadata.get(key) != value}


def is_of_class(host: model.Host, host_class: hostclass.HostClass) -> bool:
    """Whether a host's traits tell of this class and no other."""
    return placement_traits.classes(host.traits or ()) == {host_class}


def _shown(named: _Named) -> str:
    host_class = named.group.host_class
    return f'to be {host_class}' if host_class else 'to be of no class'


def some(names: Sequence[str]) -> str:
    """The first few of many."""
    text = ', '.join(names[:_MAX_NAMED])
    more = len(names) - _MAX_NAMED
    return f'{text} and {more} more' if more > 0 else text
