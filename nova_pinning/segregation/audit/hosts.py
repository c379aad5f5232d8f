# SPDX-License-Identifier: Apache-2.0
"""S3xx: what marks a host."""

from nova_pinning.checks import check_rule
from nova_pinning.placement import placement_traits
from nova_pinning.segregation.audit import audited
from nova_pinning.segregation.audit import commands
from nova_pinning.segregation import segregation_model


@check_rule.rule(
    'S301', check_rule.Severity.ERROR, 'host that is marked as both classes',
    why='guests of both classes get there, or none: flavors find it by either '
        'trait, and HostClassFilter refuses it to everybody',
    advice='have all that marks it say the same; a trait that comes back '
           'stands in provider.yaml on the host: write that anew '
           '(nova-pinning host show -f provider-config)')
def both_classes(view: audited.AuditedCloud) -> check_rule.Violations:
    for host in view.hosts:
        marks = [mark for mark in segregation_model.marks(host)
                 if mark.host_class]
        if len({mark.host_class for mark in marks}) > 1:
            yield audited.violation(
                host, ', '.join(f'{mark.source} {mark.name}: {mark.host_class}'
                                for mark in marks),
                (commands.set_class(host, view.likely_class(host)),))


@check_rule.rule(
    'S302', check_rule.Severity.WARNING, 'host of no class',
    why='shared flavors that forbid the trait of dedicated hosts land there, '
        'dedicated flavors never do, and nothing says whether that is meant',
    advice='mark it')
def no_class(view: audited.AuditedCloud) -> check_rule.Violations:
    for host in view.hosts:
        if host.traits is not None and not any(segregation_model.marks(host)):
            yield audited.violation(
                host, 'neither a trait nor an aggregate says what it is for',
                (commands.set_class(host, view.likely_class(host)),))


@check_rule.rule(
    'S303', check_rule.Severity.ERROR, 'host without a resource provider',
    why='Placement never offers it, and it can carry no trait',
    advice='start nova-compute there, which makes the provider; if the host '
           'is gone for good, delete its compute service')
def no_provider(view: audited.AuditedCloud) -> check_rule.Violations:
    for host in view.hosts:
        if host.traits is None:
            yield audited.violation(
                host, f'Placement has no provider {host.provider} for node '
                f'{host.node}')


@check_rule.rule(
    'S305', check_rule.Severity.NOTE,
    'host with several traits for its L3 size',
    why='CacheLocalityWeigher goes by the smallest; nova-compute never takes '
        'away a trait that its provider.yaml has no longer',
    advice='leave it the one that is true')
def several_l3_sizes(view: audited.AuditedCloud) -> check_rule.Violations:
    for host in view.hosts:
        traits = {trait for trait in host.traits or ()
                  if placement_traits.l3_cpus((trait,)) is not None}
        if len(traits) > 1:
            kept = placement_traits.l3_trait(
                placement_traits.l3_cpus(traits) or 1)
            yield audited.violation(
                host, f'its provider has {", ".join(sorted(traits))}',
                (commands.remove_traits(host, traits - {kept}),))
