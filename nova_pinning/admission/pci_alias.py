# SPDX-License-Identifier: Apache-2.0
"""The names under which flavors ask for PCI devices ([pci] alias)."""

from collections.abc import Mapping
import re
from typing import Annotated
from typing import NamedTuple

from nova_pinning.admission import devices
from nova_pinning.document import codec

#: The extra spec that asks for devices: 'a:1,b:2'.
KEY = 'pci_passthrough:alias'
_ITEM = re.compile(r'([^:,]+):\s*(\d{1,9})\s*')


class PciAlias(NamedTuple):
    """A name under which flavors ask for devices.

    :param specs: as nova.pci.request.get_alias_from_config has them
    """

    specs: tuple[devices.PciSpec, ...]
    policy: Annotated[str, codec.Limit(enum=[
        'legacy', 'preferred', 'required', 'socket'])] = 'legacy'


def counts(extra_specs: Mapping[str, str]) -> tuple[tuple[str, int], ...]:
    """(alias, number) of the devices that a flavor asks for, in order.

    What nova would not read is left out.
    """
    matches = map(_ITEM.fullmatch, extra_specs.get(KEY, '').split(','))
    return tuple((match[1].strip(), int(match[2]))
                 for match in matches if match)


def names(extra_specs: Mapping[str, str]) -> list[str]:
    """The aliases that a flavor names, with or without a readable number."""
    return [item.partition(':')[0].strip()
            for item in extra_specs.get(KEY, '').split(',') if item.strip()]
