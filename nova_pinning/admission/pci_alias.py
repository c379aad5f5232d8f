# SPDX-License-Identifier: Apache-2.0
"""The names under which flavors ask for PCI devices ([pci] alias)."""

from collections.abc import Mapping
import dataclasses
import re
from typing import Annotated
from typing import Any
from typing import NamedTuple
import uuid

import os_resource_classes
import os_traits

from nova_pinning.admission import devices
from nova_pinning.admission import guest_request
from nova_pinning.admission import written_forms
from nova_pinning.document import codec

#: The extra spec that asks for devices: 'a:1,b:2'.
KEY = 'pci_passthrough:alias'
_ITEM = re.compile(r'([^:,]+):\s*(\d{1,9})\s*')


class PciAlias(NamedTuple):
    """A name under which flavors ask for devices.

    :param specs: as nova.pci.request.get_alias_from_config has them
    """

    specs: tuple[written_forms.AliasSpec, ...]
    policy: Annotated[str, codec.Limit(enum=[
        'legacy', 'preferred', 'required', 'socket'])] = 'legacy'


def entries(name: str, alias: PciAlias) -> list[dict[str, Any]]:
    """What stands for it under [pci] alias, once for each of its specs.

    Nova reads several of one name only if each has a type.
    """
    usual = {'device_type': devices.STANDARD} if len(alias.specs) > 1 else {}
    policy = {} if alias.policy == 'legacy' else {'numa_policy': alias.policy}
    return [{'name': name, **policy, **usual, **{
        'device_type' if key == 'dev_type' else key: value
        for key, value in sorted(spec, key=_as_people_write)}}
        for spec in alias.specs]


def _as_people_write(pair: tuple[str, str | None]) -> tuple[bool, str]:
    """The ids come first, and that of the vendor before the product's."""
    return not pair[0].endswith('_id'), pair[0].replace('vendor', '')


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


def resource_class(keys: Mapping[str, str | None]) -> str:
    """By which Placement counts a device, or an alias asks for one.

    See nova.compute.pci_placement_translator.get_resource_class.

    :param keys: of [pci] device_spec with the device's ids, or of an alias
    """
    name = (keys.get('resource_class') or '').upper()
    if not name:
        return (f'CUSTOM_PCI_{keys.get("vendor_id")}_'
                f'{keys.get("product_id")}'.upper())
    if name in os_resource_classes.STANDARDS or (
            os_resource_classes.is_custom(name)):
        return name
    return str(os_resource_classes.normalize_name(name))


def _traits(keys: Mapping[str, str | None]) -> frozenset[str]:
    """The traits that an alias asks for, as get_traits there has them."""
    text = keys.get('traits')
    standard, rest = os_traits.check_traits(text.split(',') if text else ())
    return frozenset(standard) | {
        name.upper() if os_traits.is_custom(name.upper())
        else os_traits.normalize_name(name.upper()) for name in rest}


def asked(
    request: guest_request.GuestRequest, aliases: Mapping[str, PciAlias],
    in_placement: bool,
) -> guest_request.GuestRequest:
    """A guest whose aliases stand for what they do in a cloud, or on a host.

    As nova.objects.RequestSpec.generate_request_groups_from_pci_requests;
    what an alias stands for that is not known no host has.

    :param request: whose devices go by their aliases
    :param in_placement: whether Placement finds devices ([filter_scheduler]
        pci_in_placement)
    """
    requests, groups = [], []
    for number, wanted in enumerate(request.devices, 1):
        specs = aliases[wanted.alias].specs if wanted.alias in aliases else ()
        suffixes: tuple[str, ...] = ()
        if in_placement and specs:
            keys = dict(specs[0])
            suffixes = tuple([f'{uuid.UUID(int=number)}-{index}'
                              for index in range(wanted.count)])
            groups += [guest_request.RequestGroup(
                suffix, ((resource_class(keys), 1),), _traits(keys))
                for suffix in suffixes]
        requests.append(dataclasses.replace(
            wanted, specs=specs, groups=suffixes))
    return dataclasses.replace(
        request, devices=tuple(requests), queries=tuple([
            dataclasses.replace(query, groups=(*groups, *query.groups))
            for query in request.queries]))
