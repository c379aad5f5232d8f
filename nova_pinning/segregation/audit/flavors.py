# SPDX-License-Identifier: Apache-2.0
"""S2xx: flavors that the traits do not keep in their place."""

from collections.abc import Iterator
import shlex

import os_traits

from nova_pinning.checks import check_rule
from nova_pinning.flavors.checks import checked
from nova_pinning.flavors.checks import classes
from nova_pinning.flavors import flavor_model
from nova_pinning.model import hostclass
from nova_pinning.placement import placement_traits
from nova_pinning.segregation.audit import audited
from nova_pinning.segregation.audit import commands
from nova_pinning import spelling

_DEDICATED_KEY = f'trait:{placement_traits.DEDICATED}'
#: How alike a trait is to one of ours that it is a slip of it.
_NEAR = 0.9


def _found(
    flavor_check: check_rule.Rule[checked.CheckedFlavor],
    view: audited.AuditedCloud,
) -> Iterator[tuple[flavor_model.Flavor, str]]:
    """What one of the rules of 'flavor check' finds."""
    for flavor in view.flavors:
        for finding in flavor_check.findings(checked.CheckedFlavor(flavor)):
            yield flavor, finding.message


def _lacking_trait(
    flavor_check: check_rule.Rule[checked.CheckedFlavor],
    view: audited.AuditedCloud,
) -> Iterator[tuple[flavor_model.Flavor, str]]:
    """The same for flavors whose class is settled.

    What remediation a contradiction may change the class, or set the trait.
    """
    for flavor, message in _found(flavor_check, view):
        subject = checked.CheckedFlavor(flavor)
        if not any(any(contradiction.findings(subject)) for contradiction in (
                classes.class_against_policy, classes.own_trait_forbidden)):
            yield flavor, message


def _set_trait(view: audited.AuditedCloud, flavor: flavor_model.Flavor,
               value: str) -> tuple[str, ...]:
    """Have a flavor require or forbid the trait of dedicated hosts.

    Placement must know it by then, see S206.
    """
    remediation = commands.set_property(flavor, _DEDICATED_KEY, value),
    if placement_traits.DEDICATED in view.known_traits:
        return remediation
    return commands.create_trait(placement_traits.DEDICATED), *remediation


@check_rule.rule(
    'S201', check_rule.Severity.WARNING, 'dedicated flavor without its trait',
    why=classes.dedicated_without_trait.why,
    advice=f'require {placement_traits.DEDICATED}')
def dedicated_without_trait(
        view: audited.AuditedCloud) -> check_rule.Violations:
    for flavor, message in _lacking_trait(
            classes.dedicated_without_trait, view):
        yield audited.violation(flavor, message,
                                _set_trait(view, flavor, 'required'))


@check_rule.rule(
    'S202', check_rule.Severity.WARNING, 'shared flavor without its trait',
    why=classes.shared_without_trait.why,
    advice=f'forbid {placement_traits.DEDICATED}')
def shared_without_trait(view: audited.AuditedCloud) -> check_rule.Violations:
    is_held_off = _are_isolated(view, hostclass.HostClass.DEDICATED)
    for flavor, message in _lacking_trait(classes.shared_without_trait, view):
        # It has no vCPUs that could land anywhere: bare metal.
        if flavor.extra_specs.get('resources:VCPU') == '0':
            continue
        # Isolation lets in what requires the trait.
        is_note = is_held_off and placement_traits.DEDICATED not in (
            checked.CheckedFlavor(flavor).traits('required'))
        if is_note:
            message += ('; all dedicated hosts are in isolating aggregates, '
                        'which keep it off if nova-scheduler has '
                        'enable_isolated_aggregate_filtering')
        yield audited.violation(
            flavor, message, _set_trait(view, flavor, 'forbidden'),
            severity=check_rule.Severity.NOTE if is_note else None)


def _are_isolated(view: audited.AuditedCloud,
                  host_class: hostclass.HostClass) -> bool:
    """Whether there are hosts of a class, all in isolating aggregates."""
    hosts = list(view.hosts_of(host_class))
    return bool(hosts) and all(
        any(host_class in aggregate.isolated_for
            and host.provider in view.members.get(aggregate.uuid, ())
            for aggregate in host.aggregates)
        for host in hosts)


@check_rule.rule(
    'S203', check_rule.Severity.ERROR, 'flavor with traits that contradict',
    why='no host can have what is asked for, so its servers find none',
    advice='have it require or forbid one of the traits only')
def contradicting_traits(view: audited.AuditedCloud) -> check_rule.Violations:
    for flavor, message in _found(classes.contradicting_traits, view):
        its_class = hostclass.HostClass(
            checked.CheckedFlavor(flavor).host_class)
        other_trait = placement_traits.TRAIT_OF[its_class.other]
        yield audited.violation(
            flavor, message,
            tuple(
                commands.set_property(flavor, key, None)
                for key, value in flavor.extra_specs.items()
                if value == 'required' and key.startswith('trait') and
                key.endswith(f':{other_trait}')))
    for flavor, message in _found(classes.own_trait_forbidden, view):
        shared = hostclass.HostClass.SHARED
        yield audited.violation(
            flavor, message,
            (commands.set_property(
                flavor, f'trait:{placement_traits.TRAIT_OF[shared]}', None),)
            if checked.CheckedFlavor(flavor).host_class == shared
            else _set_trait(view, flavor, 'required'))


@check_rule.rule(
    'S204', check_rule.Severity.WARNING,
    'flavor whose class and CPU policy contradict',
    why=classes.class_against_policy.why,
    advice=classes.class_against_policy.advice)
def class_against_policy(view: audited.AuditedCloud) -> check_rule.Violations:
    for flavor, message in _found(classes.class_against_policy, view):
        yield audited.violation(flavor, message, (
            commands.set_property(flavor, flavor_model.CLASS_KEY, None),))


@check_rule.rule(
    'S205', check_rule.Severity.ERROR,
    'flavor that names a class that there is not',
    why='HostClassFilter refuses its servers everywhere',
    advice=f'leave {flavor_model.CLASS_KEY} out, since the CPU policy tells '
           'the class, or correct it')
def no_such_class(view: audited.AuditedCloud) -> check_rule.Violations:
    for flavor in view.flavors:
        try:
            hostclass.class_of_guest(flavor.extra_specs)
        except hostclass.UnknownClass as error:
            yield audited.violation(flavor, str(error), (
                commands.set_property(flavor, flavor_model.CLASS_KEY, None),))


@check_rule.rule(
    'S206', check_rule.Severity.ERROR,
    'flavor that names a trait which Placement does not know',
    why='Placement refuses every request that names it, to forbid it as '
        'well, so the servers of the flavor find no host',
    advice='make the trait known, or correct its name')
def unknown_trait(view: audited.AuditedCloud) -> check_rule.Violations:
    for flavor in view.flavors:
        subject = checked.CheckedFlavor(flavor)
        named = subject.traits('required') | subject.traits('forbidden')
        for trait in sorted(named - view.known_traits):
            if not os_traits.is_custom(trait):
                continue
            meant = spelling.nearest(
                trait,
                set(placement_traits.TRAIT_OF.values()) - {trait}, 1, _NEAR)
            if meant:
                # To make it known would hide the mistake.
                yield audited.violation(
                    flavor, f'Placement knows no trait {trait}',
                    advice=f'perhaps {meant[0]} is meant; correct its name')
            else:
                yield audited.violation(
                    flavor, f'Placement knows no trait {trait}',
                    (commands.create_trait(shlex.quote(trait)),))
