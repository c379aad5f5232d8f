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

"""Nova's validators for the extra specs of this project.

Nova-api loads them by the entry point ``nova.api.extra_spec_validators`` and
refuses, from microversion 2.86 on, any other key that begins with
``pinning:``.
"""

from collections.abc import Sequence
from typing import Any

from nova.api.validation.extra_specs import base

from nova_pinning.flavors import model

#: Names of catalogues and of families, as a catalogue's schema has them.
_NAME = '[A-Za-z0-9][A-Za-z0-9._-]{0,63}'

_VALIDATORS = (
    base.ExtraSpecValidator(
        name=model.CLASS_KEY,
        description=(
            'The class of hosts that the guest belongs on. Where it is '
            'missing, guests with pinned vCPUs are dedicated and all others '
            'shared.'),
        value={
            'type': str,
            'description': 'The class.',
            'enum': ['dedicated', 'shared'],
        }),
    base.ExtraSpecValidator(
        name=model.CATALOGUE_KEY,
        description=(
            'The catalogue that the flavor belongs to. Only tools that apply '
            'this catalogue change the flavor.'),
        value={
            'type': str,
            'description': 'The name of the catalogue.',
            'pattern': _NAME,
        }),
    base.ExtraSpecValidator(
        name=model.FAMILY_KEY,
        description='The family of the catalogue that the flavor is of.',
        value={
            'type': str,
            'description': 'The name of the family.',
            'pattern': _NAME,
        }),
)


def register() -> Sequence[Any]:
    """The validators, for nova's load_validators.

    :returns: nova.api.validation.extra_specs.base.ExtraSpecValidator
    """
    return _VALIDATORS
