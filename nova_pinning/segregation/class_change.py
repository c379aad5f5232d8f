# SPDX-License-Identifier: Apache-2.0
"""Hosts turned to a class, one by one.

A host is turned in an order in which it takes fewer servers on the way, never
wrong ones. Its trait comes first, swapped in one request: from then on
Placement proposes the host to the right servers only, and HostClassFilter
refuses it to all while its aggregates still say something else. Then it joins
the aggregate of its class and only then leaves those of the other, since two
isolated aggregates let nobody in.

A server whose host was chosen before that can still arrive. So servers are
looked for again afterwards, among those on the host and those for which
Placement already holds some of it. What slips through even then, the audit
finds.

If the cloud does not take a step, or somebody interrupts, what was done before
is taken back, in the opposite order. Each step can be repeated. What was
killed half way is finished by doing all of it again, and until then takes no
servers.
"""

from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
import contextlib
import dataclasses
import enum
import functools

from nova_pinning import errors
from nova_pinning.flavors import commands
from nova_pinning.flavors import flavor_model
from nova_pinning.model import hostclass
from nova_pinning.placement import placement_traits
from nova_pinning.segregation import segregation_cloud
from nova_pinning.segregation import segregation_model
from nova_pinning import spelling


#: States of servers that may have another flavor before long. Nova says the
#: same of a cold migration.
_BETWEEN_FLAVORS = ('RESIZE', 'VERIFY_RESIZE', 'REVERT_RESIZE')


@dataclasses.dataclass(frozen=True, slots=True)
class ClassChange:
    """What is to become of a host.

    :param host: as it is
    :param host_class: as it is to be; None for no class
    :param add: traits that its provider lacks
    :param remove: traits that its provider must not have
    :param joins: names of aggregates to put it into
    :param leaves: aggregates that say something else
    :param kept: traits that say something else, and are to be left
    :param group: of a site file that names it, the first if several do
    """

    host: segregation_model.MarkedHost
    host_class: hostclass.HostClass | None
    add: frozenset[str] = frozenset()
    remove: frozenset[str] = frozenset()
    joins: tuple[str, ...] = ()
    leaves: tuple[segregation_model.HostAggregate, ...] = ()
    kept: frozenset[str] = frozenset()
    group: str = ''

    @property
    def is_needed(self) -> bool:
        """Whether anything is to be done."""
        return bool(self.add or self.remove or self.joins or self.leaves)


class ChangeStatus(enum.StrEnum):
    """What became of a change."""

    DONE = 'done'
    #: There was nothing to do.
    UNCHANGED = 'unchanged'
    #: Nothing was done, because of the servers that are on the host.
    REFUSED = 'refused'
    #: The cloud did not do it, or not all of it.
    FAILED = 'failed'


@dataclasses.dataclass(frozen=True, slots=True)
class ChangeResult:
    """What became of a change.

    :param strangers: servers of the other class on the host: those because
        of which nothing was done, or those that are there nevertheless
    :param message: why it failed
    :param left: servers of the other class that were there before, and that
        somebody wanted to be left there
    """

    change: ClassChange
    status: ChangeStatus
    strangers: tuple[segregation_model.HostedServer, ...] = ()
    message: str = ''
    left: tuple[segregation_model.HostedServer, ...] = ()

    @property
    def is_fine(self) -> bool:
        """Whether nothing is left to do that somebody did not want so."""
        return (self.status in (ChangeStatus.DONE, ChangeStatus.UNCHANGED)
                and not self.strangers and not self.change.kept)


def plan_change(host: segregation_model.MarkedHost,
                host_class: hostclass.HostClass | None,
                joins: Iterable[str] = (), *,
                keeps_traits: bool = False) -> ClassChange:
    """What it takes to turn a host to a class.

    :param host_class: None to take away all that names a class
    :param joins: names of aggregates to put it into as well
    :param keeps_traits: leave its traits as they are
    """
    has = host.traits or frozenset()
    add, remove = placement_traits.class_traits(host_class)
    kept = frozenset[str]()
    if keeps_traits:
        kept, add, remove = remove & has, kept, kept
    own = {aggregate.name for aggregate in host.aggregates}
    return ClassChange(
        host, host_class, add - has, remove & has,
        tuple(name for name in dict.fromkeys(joins) if name not in own),
        tuple(aggregate for aggregate in host.aggregates
              if segregation_model.speaks_against(aggregate, host_class)),
        kept)


def check_aggregate(aggregate: segregation_model.HostAggregate,
                    host_class: hostclass.HostClass | None) -> None:
    """Make sure that an aggregate is for hosts of a class.

    :raises errors.InputError: if it is not, with what to do about it
    """
    where = errors.Location('--aggregate')
    if host_class is None:
        raise errors.InputError(
            'a host of no class is not put into an aggregate', where)
    if segregation_model.speaks_against(aggregate, host_class):
        raise errors.InputError(
            f'aggregate {aggregate.name} is not for {host_class} hosts, by '
            f'its metadata {metadata_of_class(aggregate)}', where)
    if not any(segregation_model.aggregate_marks(aggregate)):
        raise errors.InputError(
            f'the metadata of aggregate {aggregate.name} name no class',
            where, f'openstack aggregate set --property '
                   f'{flavor_model.CLASS_KEY}={host_class} '
                   f'{commands.named(aggregate.name)}')


def metadata_of_class(aggregate: segregation_model.HostAggregate) -> str:
    """The metadata that tell a class, in a line for people."""
    return ', '.join(
        f'{key}={value}' for key, value in sorted(aggregate.metadata.items())
        if key == flavor_model.CLASS_KEY
        or key.startswith(f'trait:{placement_traits.PREFIX}'))


def find_hosts(
    names: Iterable[str], hosts: Iterable[segregation_model.MarkedHost]
) -> tuple[segregation_model.MarkedHost, ...]:
    """The hosts with these names, in this order, each once.

    :raises errors.InputErrors: for names that no host has
    """
    by_name: dict[str, list[segregation_model.MarkedHost]] = {}
    for host in hosts:
        by_name.setdefault(host.name, []).append(host)
    names = tuple(dict.fromkeys(names))
    unknown = tuple(
        errors.InputError(f'there is no host {name or repr(name)}',
                          advice=_advice(name, by_name))
        for name in names if name not in by_name)
    if unknown:
        raise errors.InputErrors(unknown)
    return tuple(host for name in names for host in by_name[name])


def _advice(name: str, known: Iterable[str]) -> str:
    if set(name) & set('*?['):
        return ('patterns are for site files, see openstack pinning '
                'segregation apply')
    return spelling.did_you_mean(name, known)


def strangers(cloud: segregation_cloud.SegregationCloud,
              host: segregation_model.MarkedHost,
              host_class: hostclass.HostClass | None,
              ) -> tuple[segregation_model.HostedServer, ...]:
    """The servers on a host, or on their way to it, of the other class.

    Those that have left for good are not among them, those whose migration or
    resize can be reverted are. Where it is not certain which class a server
    is of, it is found out. Nova does not show which flavor a server that is
    resized will have when it comes, or comes back, to the host: it is one of
    the other class too if that is what the host was of so far.

    :param host_class: that the host is or is to be of; None lets all be
    :raises errors.CloudError: if the cloud cannot be asked
    """
    if host_class is None:
        return ()
    servers = (with_settled_class(cloud, occupant)
               for occupant in _occupants(cloud, host, host_class.other))
    return tuple(server for server in servers
                 if server.host_class is host_class.other)


def _occupants(
        cloud: segregation_cloud.SegregationCloud,
        host: segregation_model.MarkedHost, other: hostclass.HostClass
) -> Iterator[segregation_model.HostedServer]:
    """The servers on a host, and those that Placement keeps room for.

    :param other: that those are of which may have any flavor by then
    """
    # First, since a server that arrives meanwhile is then seen twice, and
    # not never.
    consumers = (frozenset() if host.traits is None
                 else cloud.placement.consumers(host.provider))
    hosted = {server.id: server for server in cloud.servers(host.name)}
    yield from hosted.values()
    servers = {consumer: cloud.server(consumer)
               for consumer in sorted(consumers - hosted.keys())}
    # The others are migrations, whose servers have left.
    back = (cloud.revertible(host.name) if None in servers.values() else {})
    for consumer, server in servers.items():
        if server is None and consumer in back:
            server = cloud.server(back[consumer])
        if server is None:
            continue
        if server.status in _BETWEEN_FLAVORS and other in {
                mark.host_class for mark in segregation_model.marks(host)}:
            server = dataclasses.replace(
                server, host_class=other, is_certain=True)
        yield server


def with_settled_class(
        cloud: segregation_cloud.SegregationCloud,
        server: segregation_model.HostedServer
) -> segregation_model.HostedServer:
    """A server, with its class for certain as far as it can be known.

    :param cloud: is asked only if it is not certain
    :raises errors.CloudError: if the cloud cannot be asked
    """
    if server.is_certain or server.host_class is None:
        return server
    topology = cloud.topology(server.id)
    if topology is None:
        # It has gone.
        return server
    is_pinned = any(node['cpu_pinning'] for node in topology['nodes'])
    return dataclasses.replace(
        server, is_certain=True,
        host_class=(hostclass.HostClass.DEDICATED if is_pinned
                    else hostclass.HostClass.SHARED))


def apply(cloud: segregation_cloud.SegregationCloud, change: ClassChange,
          aggregates: Mapping[str, segregation_model.HostAggregate], *,
          is_forced: bool = False) -> ChangeResult:
    """Turn a host to a class; see above for the order.

    :param aggregates: those that the host joins, by name
    :param is_forced: also while servers of the other class are on it; those
        that are there before are then left, and none of the strangers
    :returns: what became of it; errors of the cloud are told in there too
    """
    try:
        before = strangers(cloud, change.host, change.host_class)
        if not change.is_needed:
            return ChangeResult(change, ChangeStatus.UNCHANGED,
                                () if is_forced else before,
                                left=before if is_forced else ())
        if before and not is_forced:
            return ChangeResult(change, ChangeStatus.REFUSED, before)
        try:
            _take_steps(cloud, change, aggregates)
        except errors.CloudError as error:
            return ChangeResult(change, ChangeStatus.FAILED,
                                _came(cloud, change.host), str(error))
        known = {server.id for server in before}
        return ChangeResult(change,
                            ChangeStatus.DONE,
                            tuple(stranger for stranger in strangers(
                                cloud, change.host, change.host_class)
                                  if stranger.id not in known),
                            left=before)
    except errors.CloudError as error:
        return ChangeResult(change, ChangeStatus.FAILED, message=str(error))


def _came(cloud: segregation_cloud.SegregationCloud,
          host: segregation_model.MarkedHost,
          ) -> tuple[segregation_model.HostedServer, ...]:
    """The servers that are not of the class that a host is of again."""
    with contextlib.suppress(errors.CloudError):
        return strangers(cloud, host, segregation_model.host_class(host))
    return ()


def _take_steps(
    cloud: segregation_cloud.SegregationCloud, change: ClassChange,
    aggregates: Mapping[str, segregation_model.HostAggregate],
) -> None:
    """Take all steps, or none as far as that is up to us.

    :raises errors.CloudError: if one failed, and says what could not be
        taken back
    """
    undo = contextlib.ExitStack()
    try:
        # A step that failed may have been taken all the same, so it is taken
        # back as well.
        for step, step_back in _steps(cloud, change, aggregates):
            undo.callback(step_back)
            step()
    except (errors.CloudError, KeyboardInterrupt) as error:
        try:
            undo.close()
        except errors.CloudError as second:
            raise type(error)(
                f'{error}; and what was done before could not be taken back, '
                f'so that it takes no servers until this is run again: '
                f'{second}') from error
        raise


def _steps(
    cloud: segregation_cloud.SegregationCloud, change: ClassChange,
    aggregates: Mapping[str, segregation_model.HostAggregate],
) -> Iterator[tuple[Callable[[], object], Callable[[], object]]]:
    """What is to be done, each with what takes it back."""
    host = change.host
    if change.add or change.remove:
        if host.traits is None:
            raise errors.RefusedError(
                'Placement has no resource provider for it; nova-compute '
                'creates that when it starts')
        change_traits = functools.partial(cloud.placement.change_traits,
                                          host.provider)
        # All of them, whatever others have done since the change was planned.
        yield (functools.partial(change_traits, *placement_traits.class_traits(
                   change.host_class)),
               functools.partial(change_traits, change.remove, change.add))
    for aggregate in map(aggregates.__getitem__, change.joins):
        yield (functools.partial(cloud.add_host, aggregate, host.name),
               functools.partial(cloud.remove_host, aggregate, host.name))
    for aggregate in change.leaves:
        yield (functools.partial(cloud.remove_host, aggregate, host.name),
               functools.partial(cloud.add_host, aggregate, host.name))
