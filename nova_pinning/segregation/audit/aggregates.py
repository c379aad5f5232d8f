# SPDX-License-Identifier: Apache-2.0
"""S4xx: aggregates out of step with the traits, or with Placement."""


from nova_pinning.checks import check_rule
from nova_pinning.flavors import flavor_model
from nova_pinning.model import hostclass
from nova_pinning.placement import placement_traits
from nova_pinning.segregation.audit import audited
from nova_pinning.segregation.audit import commands
from nova_pinning.segregation import segregation_model


@check_rule.rule(
    'S401', check_rule.Severity.ERROR,
    'aggregate that names a class that there is not',
    why='HostClassFilter refuses its hosts to everybody',
    advice=f'set {flavor_model.CLASS_KEY} to dedicated or shared')
def no_such_class(view: audited.AuditedCloud) -> check_rule.Violations:
    for aggregate in view.aggregates:
        named = aggregate.metadata.get(flavor_model.CLASS_KEY)
        if named is None:
            continue
        try:
            hostclass.parse(
                named, f'{flavor_model.CLASS_KEY} of aggregate '
                f'{aggregate.name}')
        except hostclass.UnknownClass as error:
            yield audited.violation(aggregate, str(error), (
                commands.set_property(
                    aggregate, flavor_model.CLASS_KEY,
                    _class_of_members(view, aggregate)),))


def _class_of_members(
        view: audited.AuditedCloud,
        aggregate: segregation_model.HostAggregate) -> hostclass.HostClass:
    """The class of most hosts in an aggregate."""
    classes = [view.likely_class(host) for host in view.hosts
               if host.name in aggregate.hosts]
    return max(hostclass.HostClass, key=classes.count)


@check_rule.rule(
    'S402', check_rule.Severity.ERROR,
    'host without the trait that its aggregate stands for',
    why='an aggregate that isolates lets in only flavors that require the '
        'trait, and those need a host that has it: nobody gets there; with '
        f'{flavor_model.CLASS_KEY} alone only HostClassFilter keeps guests '
        'apart',
    advice='give the host its trait')
def no_trait(view: audited.AuditedCloud) -> check_rule.Violations:
    for host in view.hosts:
        marks = [
            mark for mark in segregation_model.marks(host) if mark.host_class]
        named = {mark.host_class for mark in marks}
        if (host.traits is None or len(named) != 1
                or placement_traits.classes_of(host.traits)):
            # Marks that disagree are another rule's.
            continue
        [host_class] = named
        assert host_class
        isolates = any(mark.source is segregation_model.MarkSource.ISOLATION
                       for mark in marks)
        names = ', '.join(sorted({mark.name for mark in marks}))
        yield audited.violation(
            host, f'in aggregate {names}, but its provider lacks '
            f'{placement_traits.TRAIT_OF[host_class]}',
            (commands.set_class(host, host_class),),
            severity=None if isolates else check_rule.Severity.WARNING)


@check_rule.rule(
    'S403', check_rule.Severity.WARNING,
    'host that is missing in the aggregate of its class',
    why='the aggregate keeps flavors without the trait off its hosts, but '
        'not off this one',
    advice='put the host into the aggregate')
def not_isolated(view: audited.AuditedCloud) -> check_rule.Violations:
    for host_class in hostclass.HostClass:
        aggregates = [aggregate for aggregate in view.aggregates
                      if aggregate.isolated_for == {host_class}]
        if not aggregates:
            continue
        # A host can be in one availability zone only.
        aggregates.sort(
            key=lambda aggregate: 'availability_zone' in aggregate.metadata)
        for host in view.hosts_of(host_class):
            if segregation_model.agrees(host) and not any(
                    host_class in aggregate.isolated_for
                    for aggregate in host.aggregates):
                names = ', '.join(aggregate.name for aggregate in aggregates)
                yield audited.violation(
                    host, f'a {host_class} host that is not in aggregate '
                    f'{names}', (commands.add_host(aggregates[0], host),))


@check_rule.rule(
    'S404', check_rule.Severity.ERROR,
    'host that Placement does not have in its aggregate',
    why='Placement does the isolating: flavors without the trait are offered '
        'the host',
    advice='put the provider into the aggregate; nova-manage placement '
           'sync_aggregates does so for all hosts')
def not_in_placement(view: audited.AuditedCloud) -> check_rule.Violations:
    for aggregate in view.aggregates:
        members = view.members.get(aggregate.uuid)
        if members is None:
            continue
        for host in view.hosts:
            if (host.name in aggregate.hosts and host.traits is not None
                    and host.provider not in members):
                yield audited.violation(
                    aggregate, f'nova has host {host.name} in it, Placement '
                    'has not', (commands.join_in_placement(aggregate, host),),
                    host.name)


@check_rule.rule(
    'S405', check_rule.Severity.WARNING,
    'host that only Placement has in an aggregate',
    why='flavors without the trait of the aggregate are not offered the '
        'host, though nova says that it is not in there',
    advice='take the provider out of the aggregate')
def only_in_placement(view: audited.AuditedCloud) -> check_rule.Violations:
    for aggregate in view.aggregates:
        members = view.members.get(aggregate.uuid, ())
        for host in view.hosts:
            if host.provider in members and host.name not in aggregate.hosts:
                yield audited.violation(
                    aggregate, f'Placement has host {host.name} in it, nova '
                    'has not', (commands.leave_in_placement(aggregate, host),),
                    host.name)
