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

"""P5xx: the class of hosts, traits, and keys that nobody reads."""

from collections.abc import Iterator
import difflib
import re

from nova_pinning.flavors.checks import rule
from nova_pinning.flavors.finding import Severity
from nova_pinning.flavors import model
from nova_pinning.placement import traits

_NAMESPACES = (
    'accel', 'aggregate_instance_extra_specs', 'capabilities', 'hw',
    'hw_rng', 'hw_video', 'os', 'pci_passthrough', 'pinning', 'powervm',
    'quota', 'resources', 'trait', 'vmware')
_IMAGE_NAME = re.compile(r'(hw|os)_[a-z0-9_.]+')


def _trait_key(trait: str) -> str:
    return f'trait:{trait}'


@rule.rule(
    'P501', Severity.WARNING, 'shared guest that may land on dedicated hosts',
    why='hosts that set CPUs aside for emulator threads (cpu_shared_set) '
        'offer them to shared guests as well',
    advice=f'set {_trait_key(traits.DEDICATED)}=forbidden',
    in_catalogue='write traits: {forbidden: [CUSTOM_PINNING_DEDICATED]}')
def shared_without_trait(subject: rule.Subject) -> Iterator[rule.Problem]:
    if subject.host_class == 'shared' and (
            traits.DEDICATED not in subject.traits('forbidden') and
            traits.SHARED not in subject.traits('required')):
        yield rule.Problem(
            f'a shared flavor that does not forbid trait {traits.DEDICATED}',
            (_trait_key(traits.DEDICATED), model.CLASS_KEY, 'hw:cpu_policy'))


@rule.rule(
    'P502', Severity.WARNING, 'dedicated guest that may land on shared hosts',
    why='nova also tries hosts without CPUs for pinning (its query for VCPU '
        'instead of PCPU), where the guest is refused late or takes CPUs '
        'from shared guests',
    advice=f'set {_trait_key(traits.DEDICATED)}=required',
    in_catalogue='write traits: {required: [CUSTOM_PINNING_DEDICATED]}')
def dedicated_without_trait(subject: rule.Subject) -> Iterator[rule.Problem]:
    if subject.host_class == 'dedicated' and (
            traits.DEDICATED not in subject.traits('required')):
        yield rule.Problem(
            f'a dedicated flavor that does not require trait '
            f'{traits.DEDICATED}',
            (_trait_key(traits.DEDICATED), model.CLASS_KEY,
             *subject.policy_keys))


@rule.rule(
    'P503', Severity.ERROR, 'traits that contradict each other',
    why='no host can have what is asked for',
    advice='take one of them away')
def contradicting_traits(subject: rule.Subject) -> Iterator[rule.Problem]:
    required = subject.traits('required')
    if {traits.DEDICATED, traits.SHARED} <= required:
        yield rule.Problem(
            f'{traits.DEDICATED} and {traits.SHARED} are both required',
            (_trait_key(traits.DEDICATED),))
    for key, value in subject.image.items():
        if (key.startswith('trait:') and value == 'required' and
                subject.specs.get(key) == 'forbidden'):
            yield rule.Problem(
                f'the flavor forbids {key} and the image requires it',
                (key,))


@rule.rule(
    'P504', Severity.WARNING, 'class and CPU policy contradict each other',
    why='a guest with pinned vCPUs is sent to hosts that set no CPUs aside '
        'for pinning, and finds none',
    advice=f'leave {model.CLASS_KEY} out, or set hw:cpu_policy=shared')
def class_against_policy(subject: rule.Subject) -> Iterator[rule.Problem]:
    if subject.host_class == 'shared' and subject.is_pinned:
        yield rule.Problem(
            f'{model.CLASS_KEY}=shared, but its CPU policy is '
            f'{subject.cpu_policy}', (model.CLASS_KEY,))


@rule.rule(
    'P505', Severity.WARNING, 'extra spec that nobody reads',
    why='nova accepts extra specs outside its own namespaces without a word',
    advice='correct the name, or leave the extra spec out')
def unread_key(subject: rule.Subject) -> Iterator[rule.Problem]:
    for key in subject.specs:
        namespace, colon, rest = key.partition(':')
        if not colon:
            if _IMAGE_NAME.fullmatch(key):
                yield rule.Problem(
                    f'{rule.shown_name(key)} is the name of an image '
                    'property, which a flavor cannot have', (key,),
                    f'write {key.replace("_", ":", 1)}')
            continue
        near = _near_namespace(namespace)
        if near:
            yield rule.Problem(
                f'nova knows no namespace {rule.shown_name(namespace)!r}, '
                f'so nobody reads {rule.shown_name(key)}', (key,),
                f'perhaps {near}:{rule.shown_name(rest)}')


def _near_namespace(namespace: str) -> str:
    """The namespace that is probably meant, '' if it is right as it is."""
    # Numbered and named request groups: resources1, trait_NIC.
    if namespace in _NAMESPACES or namespace.startswith(
            ('resources', 'trait')):
        return ''
    near = difflib.get_close_matches(
        namespace.strip().lower(), _NAMESPACES, n=1, cutoff=0.75)
    return near[0] if near else ''


RULES = (
    shared_without_trait, dedicated_without_trait, contradicting_traits,
    class_against_policy, unread_key,
)
