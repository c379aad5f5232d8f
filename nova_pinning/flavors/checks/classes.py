# SPDX-License-Identifier: Apache-2.0
"""P5xx: the class of hosts, traits and request groups."""

import dataclasses

from nova_pinning.checks import check_rule
from nova_pinning.checks.check_rule import Severity
from nova_pinning.flavors.checks import checked
from nova_pinning.flavors import flavor_model
from nova_pinning.placement import placement_traits


def _trait_key(trait: str) -> str:
    return f'trait:{trait}'


@check_rule.rule(
    'P501', Severity.WARNING, 'shared guest that may land on dedicated hosts',
    why='hosts that set CPUs aside for emulator threads (cpu_shared_set) '
        'offer them to shared guests as well',
    advice=f'set {_trait_key(placement_traits.DEDICATED)}=forbidden',
    in_catalogue='write traits: {forbidden: [CUSTOM_PINNING_DEDICATED]}')
def shared_without_trait(
        subject: checked.CheckedFlavor) -> check_rule.Violations:
    return _without_mark(subject, 'shared', 'forbidden', ('hw:cpu_policy',))


@check_rule.rule(
    'P502', Severity.WARNING, 'dedicated guest that may land on shared hosts',
    why='nova also tries hosts without CPUs for pinning (its query for VCPU '
        'instead of PCPU), where the guest is refused late or takes CPUs '
        'from shared guests',
    advice=f'set {_trait_key(placement_traits.DEDICATED)}=required',
    in_catalogue='write traits: {required: [CUSTOM_PINNING_DEDICATED]}')
def dedicated_without_trait(
        subject: checked.CheckedFlavor) -> check_rule.Violations:
    for found in _without_mark(subject, 'dedicated', 'required',
                               subject.policy_keys):
        yield dataclasses.replace(found, why=MIXED_WHY) if (
            subject.cpu_policy == 'mixed'
            and subject.separation.by == 'traits') else found


#: Of mixed guests nova asks once, for PCPU and VCPU.
MIXED_WHY = (
    'any host with both kinds of CPUs will do for nova, also one that is '
    'meant for shared guests and has a few CPUs for pinning')


def _without_mark(subject: checked.CheckedFlavor, host_class: str, word: str,
                  keys: tuple[str, ...]) -> check_rule.Violations:
    """What would keep guests on hosts of their class, if it is missing.

    :param word: what the trait of dedicated hosts should be
    """
    separation = subject.separation
    trait = separation.dedicated_trait
    if subject.host_class != host_class:
        return
    if separation.by == 'aggregates':
        if not separation.is_kept_by_aggregates(subject.specs):
            yield subject.violation(
                f'a {host_class} flavor that asks for no aggregate',
                (flavor_model.CLASS_KEY, *subject.policy_keys),
                'set an extra spec that the metadata of the aggregates of '
                f'{host_class} hosts have, such as '
                f'aggregate_instance_extra_specs:class={host_class}')
    elif separation.by == 'traits' and trait not in subject.traits(word) and (
            separation.trait_of(host_class) not in subject.traits('required')):
        verb = {'required': 'require', 'forbidden': 'forbid'}[word]
        yield subject.violation(
            f'a {host_class} flavor that does not {verb} trait {trait}',
            (_trait_key(trait), flavor_model.CLASS_KEY, *keys),
            # That of the rule, where the cloud has no trait of its own.
            '' if trait == placement_traits.DEDICATED
            else f'set {_trait_key(trait)}={word}')


@check_rule.rule(
    'P503', Severity.ERROR, 'traits that contradict each other',
    why='no host can have what is asked for',
    advice='take one of them away')
def contradicting_traits(
        subject: checked.CheckedFlavor) -> check_rule.Violations:
    required = subject.traits('required')
    dedicated, shared = (subject.separation.dedicated_trait,
                         subject.separation.shared_trait)
    if {dedicated, shared} <= required:
        yield subject.violation(
            f'{dedicated} and {shared} are both required',
            (_trait_key(dedicated),))
    for key, value in subject.image.items():
        if (key.startswith('trait:') and value == 'required' and
                subject.specs.get(key) == 'forbidden'):
            yield subject.violation(
                f'the flavor forbids {key} and the image requires it',
                (key,))


@check_rule.rule(
    'P504', Severity.WARNING, 'class and CPU policy contradict each other',
    why='a guest with pinned vCPUs is sent to hosts that set no CPUs aside '
        'for pinning, and finds none',
    advice=f'leave {flavor_model.CLASS_KEY} out, or set hw:cpu_policy=shared')
def class_against_policy(
        subject: checked.CheckedFlavor) -> check_rule.Violations:
    if subject.host_class == 'shared' and subject.is_pinned:
        yield subject.violation(
            f'{flavor_model.CLASS_KEY}=shared, but its CPU policy is '
            f'{subject.cpu_policy}', (flavor_model.CLASS_KEY,))


@check_rule.rule(
    'P506', Severity.ERROR, 'class trait that keeps it off its own hosts',
    why='all hosts of its class have the trait, so none of them is offered',
    advice='require the trait of its own class, or forbid that of the other')
def own_trait_forbidden(
        subject: checked.CheckedFlavor) -> check_rule.Violations:
    if subject.separation.by != 'traits':
        return
    own = subject.separation.trait_of(subject.host_class)
    if own in subject.traits('forbidden'):
        yield subject.violation(
            f'a {subject.host_class} flavor that forbids trait {own}',
            (_trait_key(own),))


@check_rule.rule(
    'P507', Severity.WARNING, 'resources that Placement does not count',
    why='Placement is asked for none of it, so that any number of such guests '
        'goes on a host, as far as this resource goes',
    advice='leave the extra spec out, unless something else keeps count')
def uncounted(subject: checked.CheckedFlavor) -> check_rule.Violations:
    flavor = subject.flavor
    vcpus = f'{flavor.vcpus} {"vCPU" if flavor.vcpus == 1 else "vCPUs"}'
    for name, has in (('VCPU', vcpus), ('PCPU', vcpus),
                      ('MEMORY_MB', f'{flavor.memory_mib} MiB of memory')):
        key = f'resources:{name}'
        if key in subject.specs and (
                checked.whole_number(subject.specs[key]) == 0):
            yield subject.violation(
                f'{checked.shown(key, subject.specs[key])}, but the flavor '
                f'has {has}', (key,))


@check_rule.rule(
    'P508', Severity.ERROR, 'request group without resources',
    why='Placement refuses the query (status 400): traits of a group say '
        'which provider its resources are to be from, and there are none',
    advice='ask for resources of the same group, or leave the number out of '
           'the trait')
def group_without_resources(
        subject: checked.CheckedFlavor) -> check_rule.Violations:
    query = subject.request.queries[0]
    groups = {group.suffix: group for group in query.groups}
    unnumbered = groups.pop('', None)
    # An empty group is left out of the query, unless it has traits.
    if not (unnumbered and unnumbered.resources) and (
            unnumbered or query.root_required or not subject.has_image
            or not any(group.resources for group in groups.values())):
        yield subject.violation(
            'nothing is asked for but what is in numbered groups, if '
            'anything', tuple(f'resources:{name}' for name in (
                'VCPU', 'MEMORY_MB', 'DISK_GB')),
            'leave out what sets VCPU, MEMORY_MB and DISK_GB to 0, or ask '
            'for a resource without a number')
    for suffix, group in groups.items():
        if not group.resources:
            key = _first(subject, f'trait{suffix}:')
            yield subject.violation(
                f'{checked.shown_name(key)}, but no amount of '
                f'resources{suffix}', (key,))


def _first(subject: checked.CheckedFlavor, prefix: str) -> str:
    return next(key for key in subject.specs if key.startswith(prefix))


@check_rule.rule(
    'P509', Severity.ERROR, 'request groups without a group policy',
    why='Placement refuses a query with several groups that does not say '
        'whether they may be from one provider (status 400)',
    advice='set group_policy to none, or to isolate for a provider each')
def groups_without_policy(
        subject: checked.CheckedFlavor) -> check_rule.Violations:
    groups = [group.suffix for group in subject.request.queries[0].groups
              if group.suffix and group.resources]
    if len(groups) > 1 and subject.specs.get('group_policy') not in (
            'none', 'isolate'):
        yield subject.violation(
            f'{len(groups)} request groups, but no group_policy',
            ('group_policy', _first(subject, f'resources{groups[1]}:')))
