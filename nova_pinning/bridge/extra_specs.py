# SPDX-License-Identifier: Apache-2.0
"""Nova's validators for the extra specs of this project.

Nova-api loads them by the entry point ``nova.api.extra_spec_validators`` and
refuses, from microversion 2.86 on, any other key that begins with
``pinning:``.
"""

from collections.abc import Sequence
from typing import Any

from nova.api.validation.extra_specs import base

from nova_pinning.flavors import flavor_model

#: Names of catalogues and of families, as a catalogue's schema has them.
_NAME = '[A-Za-z0-9][A-Za-z0-9._-]{0,63}'

_VALIDATORS = (
    base.ExtraSpecValidator(
        name=flavor_model.CLASS_KEY,
        description=(
            'The class of hosts that the guest belongs on. Where it is '
            'missing, guests with pinned vCPUs are dedicated and all others '
            'shared.'),
        value={
            'type': str,
            'description': 'The class.',
            'enum': ['dedicated', 'shared']}),
    base.ExtraSpecValidator(
        name=flavor_model.CATALOGUE_KEY,
        description=(
            'The catalogue that the flavor belongs to. Only tools that apply '
            'this catalogue change the flavor.'),
        value={
            'type': str,
            'description': 'The name of the catalogue.',
            'pattern': _NAME}),
    base.ExtraSpecValidator(
        name=flavor_model.FAMILY_KEY,
        description='The family of the catalogue that the flavor is of.',
        value={
            'type': str,
            'description': 'The name of the family.',
            'pattern': _NAME}),
    base.ExtraSpecValidator(
        name=flavor_model.L3_WAYS_KEY,
        description=(
            'How many ways of the L3 cache of each of its NUMA cells the '
            'guest has for itself. nova-pinning agent sees to it on the '
            'host; resources:CUSTOM_L3_WAYS has Placement count them.'),
        value={
            'type': int,
            'description': 'The number of ways.',
            'min': 1, 'max': 64}),
    base.ExtraSpecValidator(
        name=flavor_model.BANDWIDTH_KEY,
        description=(
            'What the guest can have of the memory bandwidth that its CPUs '
            'could use, in per cent. The kernel rounds it up.'),
        value={
            'type': int,
            'description': 'The per cent.',
            'min': 1, 'max': 100}),
)


def register() -> Sequence[Any]:
    """The validators, for nova's load_validators.

    :returns: nova.api.validation.extra_specs.base.ExtraSpecValidator
    """
    return _VALIDATORS
