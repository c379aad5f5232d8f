# SPDX-License-Identifier: Apache-2.0
"""What flavors are called: names from a template, and their ids."""

import fractions
import json
import string
import uuid

from nova_pinning.flavors import flavor_model

#: What a template may have in curly brackets.
FIELDS = ('family', 'size', 'vcpus', 'memory_gib')

# Flavors keep their ids as long as this does not change.
_NAMESPACE = uuid.UUID('c62386d7-84d5-4422-a1b6-da83521089bc')


def template_mistake(template: str, known: tuple[str, ...] = FIELDS) -> str:
    """What is wrong with a template, '' if it has known fields only."""
    try:
        parts = list(string.Formatter().parse(template))
    except ValueError as error:
        return str(error)
    return next((
        f'{{{field}}} is not known; choose from '
        + ', '.join(f'{{{name}}}' for name in known)
        for _text, field, form, conversion in parts if field is not None and (
            form or conversion or field not in known)), '')


def fill_template(template: str,
                  *,
                  vcpus: int,
                  memory_mib: int,
                  family: str = '',
                  size: str = '') -> str:
    """A name from a template that has been checked."""
    gib = fractions.Fraction(memory_mib, 1024)
    shown = str(gib) if gib.denominator == 1 else f'{float(gib):g}'
    return template.format(family=family, size=size, vcpus=vcpus,
                           memory_gib=shown)


def flavor_id(catalogue_name: str, flavor: flavor_model.Flavor) -> str:
    """The flavorid that a flavor of a catalogue has, in every cloud.

    It hangs on all that nova cannot change once a flavor exists: what
    differs in any of it is another flavor.

    :param flavor: its own id and extra specs do not matter
    """
    fixed = [catalogue_name, flavor.name, flavor.vcpus, flavor.memory_mib,
             flavor.disk_gib, flavor.ephemeral_gib, flavor.swap_mib,
             float(flavor.rxtx_factor), bool(flavor.is_public)]
    return str(uuid.uuid5(_NAMESPACE, json.dumps(fixed)))
