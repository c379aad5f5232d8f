# SPDX-License-Identifier: Apache-2.0
"""P5xx: the class of hosts, traits and request groups."""

import dataclasses
import re

from nova_pinning.checks import check_rule
from nova_pinning.checks.check_rule import Severity
from nova_pinning.flavors.checks import checked
from nova_pinning.flavors import flavor_model
from nova_pinning import model
from nova_pinning.placement import placement_traits

#: As nova.scheduler.utils.ResourceRequest.XS_KEYPAT.
_GROUP = re.compile(r'(resources|trait)([a-zA-Z0-9_-]{1,64})?:.*')


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
    if subject.host_class != 'shared':
        return
    separation = subject.separation
    if separation.by == 'aggregates':
        yield from _without_aggregate(subject)
    elif separation.by == 'traits' and (
            separation.dedicated_trait not in subject.traits('forbidden') and
            separation.shared_trait not in subject.traits('required')):
        yield subject.violation(
            'a shared flavor that does not forbid trait '
            f'{separation.dedicated_trait}',
            (_trait_key(separation.dedicated_trait), flavor_model.CLASS_KEY,
             'hw:cpu_policy'),
            _trait_advice(subject, 'forbidden'))


@check_rule.rule(
    'P502', Severity.WARNING, 'dedicated guest that may land on shared hosts',
    why='nova also tries hosts without CPUs for pinning (its query for VCPU '
        'instead of PCPU), where the guest is refused late or takes CPUs '
        'from shared guests',
    advice=f'set {_trait_key(placement_traits.DEDICATED)}=required',
    in_catalogue='write traits: {required: [CUSTOM_PINNING_DEDICATED]}')
def dedicated_without_trait(
        subject: checked.CheckedFlavor) -> check_rule.Violations:
    if subject.host_class != 'dedicated':
        return
    separation = subject.separation
    if separation.by == 'aggregates':
        yield from _without_aggregate(subject)
    elif separation.by == 'traits' and (
            separation.dedicated_trait not in subject.traits('required')):
        found = subject.violation(
            f'a dedicated flavor that does not require trait '
            f'{separation.dedicated_trait}',
            (_trait_key(separation.dedicated_trait), flavor_model.CLASS_KEY,
             *subject.policy_keys),
            _trait_advice(subject, 'required'))
        if subject.cpu_policy == 'mixed':
            found = dataclasses.replace(found, why=MIXED_WHY)
        yield found


#: Of mixed guests nova asks once, for PCPU and VCPU.
MIXED_WHY = (
    'any host with both kinds of CPUs will do for nova, also one that is '
    'meant for shared guests and has a few CPUs for pinning')


def _trait_advice(subject: checked.CheckedFlavor, word: str) -> str:
    """The advice if the cloud has a trait of its own, else ''."""
    trait = subject.separation.dedicated_trait
    if trait == placement_traits.DEDICATED:
        return ''
    return f'set {_trait_key(trait)}={word}'


def _without_aggregate(
        subject: checked.CheckedFlavor) -> check_rule.Violations:
    if not subject.separation.is_kept_by_aggregates(subject.specs):
        yield subject.violation(
            f'a {subject.host_class} flavor that asks for no aggregate',
            (flavor_model.CLASS_KEY, *subject.policy_keys),
            'set an extra spec that the metadata of the aggregates of '
            f'{subject.host_class} hosts have, such as '
            f'aggregate_instance_extra_specs:class={subject.host_class}')


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
    asked = _groups(subject, 'resources')
    flavor = subject.flavor
    # What nova asks for by itself is in the group without a number.
    usual = {'VCPU': 0 if subject.asked('PCPU') else flavor.vcpus,
             'MEMORY_MB': flavor.memory_mib,
             'DISK_GB': (flavor.disk_gib or flavor.ephemeral_gib
                         or flavor.swap_mib)}
    is_empty = '' not in asked and not any(
        amount for name, amount in usual.items()
        if subject.asked(name) is None)
    # An empty group is left out of the query, unless it has traits.
    if is_empty and (not asked or _has_traits(subject)):
        yield subject.violation(
            'nothing is asked for but what is in numbered groups, if '
            'anything', tuple(f'resources:{name}' for name in usual),
            'leave out what sets VCPU, MEMORY_MB and DISK_GB to 0, or ask '
            'for a resource without a number')
    for suffix, key in _groups(subject, 'trait').items():
        if suffix and suffix not in asked:
            yield subject.violation(
                f'{checked.shown_name(key)}, but no amount of '
                f'resources{suffix}',
                (key,))


#: What nova asks a trait for, without a number, besides those that are named.
#: See the _translate_*_request of nova.scheduler.utils.ResourceRequest.
_TRAIT_ROOTS = (
    'tpm_version', 'mem_encryption', 'firmware_stateless', 'sound_model',
    'maxphysaddr_mode', 'pci_numa_affinity_policy', 'virtio_packed_ring',
    'ephemeral_encryption')


def _has_traits(subject: checked.CheckedFlavor) -> bool:
    """Whether the group without a number asks for traits, or may do so."""
    return (
        not subject.has_image or '' in _groups(subject, 'trait')
        or any(key.startswith('trait:') for key in subject.image)
        or any(map(subject.value, _TRAIT_ROOTS))
        or 'os:secure_boot' in subject.specs
        or 'os_secure_boot' in subject.image
        or subject.is_pinned and (
            subject.thread_policy is not model.ThreadPolicy.PREFER))


@check_rule.rule(
    'P509', Severity.ERROR, 'request groups without a group policy',
    why='Placement refuses a query with several groups that does not say '
        'whether they may be from one provider (status 400)',
    advice='set group_policy to none, or to isolate for a provider each')
def groups_without_policy(
        subject: checked.CheckedFlavor) -> check_rule.Violations:
    groups = [key for suffix, key in _groups(subject, 'resources').items()
              if suffix]
    if len(groups) > 1 and subject.specs.get('group_policy') not in (
            'none', 'isolate'):
        yield subject.violation(
            f'{len(groups)} request groups, but no group_policy',
            ('group_policy', groups[1]))


def _groups(subject: checked.CheckedFlavor, what: str) -> dict[str, str]:
    """The groups that ask for something, with a key of each.

    :param what: resources or trait
    """
    groups: dict[str, str] = {}
    for key, value in subject.specs.items():
        match = _GROUP.fullmatch(key)
        if match and match[1] == what and (
                what == 'trait' or checked.whole_number(value)):
            groups.setdefault(match[2] or '', key)
    return groups
