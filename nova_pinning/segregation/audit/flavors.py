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

"""S2xx: flavors that the traits do not keep in their place."""

from collections.abc import Iterator
import difflib
import shlex

import os_traits

from nova_pinning.flavors.checks import classes
from nova_pinning.flavors.checks import rule as check_rule
from nova_pinning.flavors import guest_class
from nova_pinning.flavors import model as flavor_model
from nova_pinning.model import hostclass
from nova_pinning.placement import traits
from nova_pinning.segregation.audit import commands
from nova_pinning.segregation.audit import rule
from nova_pinning.segregation import finding

_DEDICATED_KEY = f'trait:{traits.DEDICATED}'
#: How alike a trait is to one of ours that it is a slip of it.
_NEAR = 0.9


def _found_by(
    one: check_rule.Rule, view: rule.View,
) -> Iterator[tuple[flavor_model.Flavor, check_rule.Problem]]:
    """What one of the rules of 'flavor check' finds."""
    assert one.find
    for flavor in view.flavors:
        for problem in one.find(check_rule.Subject(flavor)):
            yield flavor, problem


def _lacking_trait(
    one: check_rule.Rule, view: rule.View,
) -> Iterator[tuple[flavor_model.Flavor, check_rule.Problem]]:
    """The same for flavors whose class is settled.

    What mends a contradiction may change the class, or set the trait.
    """
    assert classes.class_against_policy.find
    for flavor, problem in _found_by(one, view):
        subject = check_rule.Subject(flavor)
        if (not any(classes.class_against_policy.find(subject))
                and not _forbids_its_own(subject)):
            yield flavor, problem


def _forbids_its_own(subject: check_rule.Subject) -> bool:
    """Whether a flavor forbids the trait of its own class."""
    trait = traits.TRAIT_OF[hostclass.HostClass(subject.host_class)]
    return subject.specs.get(f'trait:{trait}') == 'forbidden'


def _set_trait(view: rule.View, flavor: flavor_model.Flavor,
               value: str) -> tuple[str, ...]:
    """Have a flavor require or forbid the trait of dedicated hosts.

    Placement must know it by then, see S206.
    """
    mends = commands.set_extra_spec(flavor, _DEDICATED_KEY, value),
    if traits.DEDICATED in view.known_traits:
        return mends
    return commands.create_trait(traits.DEDICATED), *mends


@rule.rule(
    'S201', finding.Severity.WARNING, 'dedicated flavor without its trait',
    why=classes.dedicated_without_trait.why,
    advice=f'require {traits.DEDICATED}')
def dedicated_without_trait(view: rule.View) -> Iterator[rule.Problem]:
    for flavor, problem in _lacking_trait(
            classes.dedicated_without_trait, view):
        yield rule.Problem(flavor, problem.message,
                           _set_trait(view, flavor, 'required'))


@rule.rule(
    'S202', finding.Severity.WARNING, 'shared flavor without its trait',
    why=classes.shared_without_trait.why,
    advice=f'forbid {traits.DEDICATED}')
def shared_without_trait(view: rule.View) -> Iterator[rule.Problem]:
    is_held_off = _are_isolated(view, hostclass.HostClass.DEDICATED)
    for flavor, problem in _lacking_trait(classes.shared_without_trait, view):
        # It has no vCPUs that could land anywhere: bare metal.
        if flavor.extra_specs.get('resources:VCPU') == '0':
            continue
        message = problem.message
        # Isolation lets in what requires the trait.
        is_note = is_held_off and traits.DEDICATED not in check_rule.Subject(
            flavor).traits('required')
        if is_note:
            message += ('; all dedicated hosts are in isolating aggregates, '
                        'which keep it off if nova-scheduler has '
                        'enable_isolated_aggregate_filtering')
        yield rule.Problem(
            flavor, message, _set_trait(view, flavor, 'forbidden'),
            severity=finding.Severity.NOTE if is_note else None)


def _are_isolated(view: rule.View, host_class: hostclass.HostClass) -> bool:
    """Whether there are hosts of a class, all in isolating aggregates."""
    hosts = list(view.hosts_of(host_class))
    return bool(hosts) and all(
        any(host_class in aggregate.isolated_for
            and host.provider in view.members.get(aggregate.uuid, ())
            for aggregate in host.aggregates)
        for host in hosts)


@rule.rule(
    'S203', finding.Severity.ERROR, 'flavor with traits that contradict',
    why='no host can have what is asked for, so its servers find none',
    advice='have it require or forbid one of the traits only')
def contradicting_traits(view: rule.View) -> Iterator[rule.Problem]:
    for flavor, problem in _found_by(classes.contradicting_traits, view):
        found = hostclass.HostClass(check_rule.Subject(flavor).host_class)
        yield rule.Problem(
            flavor, problem.message, tuple(
                commands.unset_extra_spec(flavor, key)
                for key, value in flavor.extra_specs.items()
                if value == 'required' and key.startswith('trait')
                and key.endswith(f':{traits.TRAIT_OF[found.other]}')))
    for flavor in view.flavors:
        subject = check_rule.Subject(flavor)
        if not _forbids_its_own(subject):
            continue
        host_class = hostclass.HostClass(subject.host_class)
        trait = traits.TRAIT_OF[host_class]
        yield rule.Problem(
            flavor, f'a {host_class} flavor that forbids {trait}',
            _set_trait(view, flavor, 'required')
            if host_class is hostclass.HostClass.DEDICATED else
            (commands.unset_extra_spec(flavor, f'trait:{trait}'),))


@rule.rule(
    'S204', finding.Severity.WARNING,
    'flavor whose class and CPU policy contradict',
    why=classes.class_against_policy.why,
    advice=classes.class_against_policy.advice)
def class_against_policy(view: rule.View) -> Iterator[rule.Problem]:
    for flavor, problem in _found_by(classes.class_against_policy, view):
        yield rule.Problem(flavor, problem.message, (
            commands.unset_extra_spec(flavor, flavor_model.CLASS_KEY),))


@rule.rule(
    'S205', finding.Severity.ERROR,
    'flavor that names a class that there is not',
    why='HostClassFilter refuses its servers everywhere',
    advice=f'leave {flavor_model.CLASS_KEY} out, since the CPU policy tells '
           'the class, or correct it')
def no_such_class(view: rule.View) -> Iterator[rule.Problem]:
    for flavor in view.flavors:
        try:
            guest_class.guest_class(flavor.extra_specs, None)
        except hostclass.UnknownClass as error:
            yield rule.Problem(flavor, str(error), (
                commands.unset_extra_spec(flavor, flavor_model.CLASS_KEY),))


@rule.rule(
    'S206', finding.Severity.ERROR,
    'flavor that names a trait which Placement does not know',
    why='Placement refuses every request that names it, to forbid it as '
        'well, so the servers of the flavor find no host',
    advice='make the trait known, or correct its name')
def unknown_trait(view: rule.View) -> Iterator[rule.Problem]:
    for flavor in view.flavors:
        subject = check_rule.Subject(flavor)
        named = subject.traits('required') | subject.traits('forbidden')
        for trait in sorted(named - view.known_traits):
            if not os_traits.is_custom(trait):
                continue
            meant = difflib.get_close_matches(
                trait, set(traits.TRAIT_OF.values()) - {trait}, 1, _NEAR)
            if meant:
                # To make it known would hide the mistake.
                yield rule.Problem(
                    flavor, f'Placement knows no trait {trait}',
                    advice=f'perhaps {meant[0]} is meant; correct its name')
            else:
                yield rule.Problem(
                    flavor, f'Placement knows no trait {trait}',
                    (commands.create_trait(shlex.quote(trait)),))


RULES = (dedicated_without_trait, shared_without_trait, contradicting_traits,
         class_against_policy, no_such_class, unknown_trait)
