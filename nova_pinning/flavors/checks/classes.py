# SPDX-License-Identifier: Apache-2.0
"""P5xx: the class of hosts, traits, and keys that nobody reads."""

import difflib
import re

from nova_pinning.checks import check_rule
from nova_pinning.checks.check_rule import Severity
from nova_pinning.flavors.checks import checked
from nova_pinning.flavors import flavor_model
from nova_pinning.placement import placement_traits

_NAMESPACES = (
    'accel', 'aggregate_instance_extra_specs', 'capabilities', 'hw',
    'hw_rng', 'hw_video', 'os', 'pci_passthrough', 'pinning', 'powervm',
    'quota', 'resources', 'trait', 'vmware')
_IMAGE_NAME = re.compile(r'(hw|os)_[a-z0-9_.]+')


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
    if subject.host_class == 'shared' and (
            placement_traits.DEDICATED not in subject.traits('forbidden') and
            placement_traits.SHARED not in subject.traits('required')):
        yield subject.violation(
            'a shared flavor that does not forbid trait '
            f'{placement_traits.DEDICATED}',
            (_trait_key(placement_traits.DEDICATED), flavor_model.CLASS_KEY,
             'hw:cpu_policy'))


@check_rule.rule(
    'P502', Severity.WARNING, 'dedicated guest that may land on shared hosts',
    why='nova also tries hosts without CPUs for pinning (its query for VCPU '
        'instead of PCPU), where the guest is refused late or takes CPUs '
        'from shared guests',
    advice=f'set {_trait_key(placement_traits.DEDICATED)}=required',
    in_catalogue='write traits: {required: [CUSTOM_PINNING_DEDICATED]}')
def dedicated_without_trait(
        subject: checked.CheckedFlavor) -> check_rule.Violations:
    if subject.host_class == 'dedicated' and (
            placement_traits.DEDICATED not in subject.traits('required')):
        yield subject.violation(
            f'a dedicated flavor that does not require trait '
            f'{placement_traits.DEDICATED}',
            (_trait_key(placement_traits.DEDICATED), flavor_model.CLASS_KEY,
             *subject.policy_keys))


@check_rule.rule(
    'P503', Severity.ERROR, 'traits that contradict each other',
    why='no host can have what is asked for',
    advice='take one of them away')
def contradicting_traits(
        subject: checked.CheckedFlavor) -> check_rule.Violations:
    required = subject.traits('required')
    if {placement_traits.DEDICATED, placement_traits.SHARED} <= required:
        yield subject.violation(
            f'{placement_traits.DEDICATED} and {placement_traits.SHARED} are '
            'both required',
            (_trait_key(placement_traits.DEDICATED),))
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
    'P505', Severity.WARNING, 'extra spec that nobody reads',
    why='nova accepts extra specs outside its own namespaces without a word',
    advice='correct the name, or leave the extra spec out')
def unread_key(subject: checked.CheckedFlavor) -> check_rule.Violations:
    for key in subject.specs:
        namespace, colon, rest = key.partition(':')
        if not colon:
            if _IMAGE_NAME.fullmatch(key):
                yield subject.violation(
                    f'{checked.shown_name(key)} is the name of an image '
                    'property, which a flavor cannot have', (key,),
                    f'write {key.replace("_", ":", 1)}')
            continue
        near = _near_namespace(namespace)
        if near:
            yield subject.violation(
                f'nova knows no namespace {checked.shown_name(namespace)!r}, '
                f'so nobody reads {checked.shown_name(key)}', (key,),
                f'perhaps {near}:{checked.shown_name(rest)}')


def _near_namespace(namespace: str) -> str:
    """The namespace that is probably meant, '' if it is right as it is."""
    # Numbered and named request groups: resources1, trait_NIC.
    if namespace in _NAMESPACES or namespace.startswith(
            ('resources', 'trait')):
        return ''
    near = difflib.get_close_matches(
        namespace.strip().lower(), _NAMESPACES, n=1, cutoff=0.75)
    return near[0] if near else ''
