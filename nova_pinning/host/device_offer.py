# SPDX-License-Identifier: Apache-2.0
"""What nova makes of the devices of a described host: aliases and pools."""

from collections.abc import Iterator
import re

import os_traits

from nova_pinning.admission import devices
from nova_pinning.admission import offered_host
from nova_pinning.admission import pci_alias
from nova_pinning.host import host_model
from nova_pinning.placement import inventory


def resource_class(alias: str) -> str:
    """The custom resource class for an alias, as nova would make it."""
    return 'CUSTOM_' + re.sub('[^A-Z0-9_]+', '_', alias.upper())


def group_alias(alias: str, trait: str) -> str:
    """The alias for one group: 'h100-switch-0' of CUSTOM_H100_SWITCH_0."""
    rest = trait.removeprefix(resource_class(alias)).lower()
    return alias + rest.replace('_', '-')


def by_alias(
    description: host_model.HostDescription,
) -> dict[str, list[host_model.PciDevice]]:
    """The devices that each alias stands for, also those of groups."""
    found: dict[str, list[host_model.PciDevice]] = {}
    for device in description.pci_devices:
        if device.alias:
            for alias in (device.alias, *[
                    group_alias(device.alias, trait)
                    for trait in device.traits if device.resource_class]):
                found.setdefault(alias, []).append(device)
    return found


def given(
    description: host_model.HostDescription,
) -> list[host_model.PciDevice]:
    """The devices that nova gives to guests.

    The address of a physical function in [pci] device_spec is for its virtual
    ones, too, whether they have an alias or not; see
    nova.pci.devspec.WhitelistPciAddress.match.
    """
    addresses = {device.address for device in description.pci_devices
                 if device.alias}
    return [device for device in description.pci_devices
            if device.alias or device.physical_function in addresses]


def is_in_placement(description: host_model.HostDescription) -> bool:
    """Whether Placement counts its devices ([pci] report_in_placement)."""
    return any(device.alias and device.resource_class
               for device in description.pci_devices)


def aliases(
    description: host_model.HostDescription,
) -> dict[str, pci_alias.PciAlias]:
    """[pci] alias of its devices, by name.

    With Placement an alias stands once. Those of groups have no ids: without
    Placement nova would heed these, and not the traits.
    """
    made = {}
    for name, own in by_alias(description).items():
        first = own[0]
        ids = dict.fromkeys(devices.device_keys(
            device.vendor_id, device.product_id,
            description.device_type(device)) for device in own)
        counted = next((device.resource_class for device in own
                        if device.resource_class), '')
        if counted:
            keys = {'dev_type': dict(next(iter(ids)))['dev_type'],
                    'resource_class': counted}
            if name != first.alias:
                keys['traits'] = next(
                    trait for trait in first.traits
                    if group_alias(first.alias, trait) == name)
            elif len(ids) == 1:
                keys |= next(iter(ids))
            ids = {tuple(sorted(keys.items())): None}
        made[name] = pci_alias.PciAlias(tuple(sorted(ids)))
    return made


def type_fault(
        description: host_model.HostDescription, alias: str) -> str:
    """Why nova could not give out all devices of an alias, '' if it could."""
    types = sorted({description.device_type(device)
                    for device in description.pci_devices
                    if device.alias == alias})
    return '' if len(types) < 2 else (
        f'the devices of PCI alias {alias!r} are {" and ".join(types)}, and '
        'nova gives out those of one type only')


def provider_faults(
    description: host_model.HostDescription,
) -> Iterator[tuple[str, str]]:
    """What keeps nova-compute from reporting devices, and what helps.

    See nova.compute.pci_placement_translator.PciResourceProvider.
    """
    if not is_in_placement(description):
        return
    sold = {device.address for device in description.pci_devices
            if device.alias}
    kinds: dict[str, set[tuple[str, ...]]] = {}
    for device in description.pci_devices:
        physical = device.physical_function
        if physical in sold:
            yield (f'{physical} and its virtual function {device.address} '
                   'would both be for guests, of which Placement can count '
                   'but one', 'give an alias to either')
        if physical and device.alias:
            kinds.setdefault(physical, set()).add((
                _class_of(device), *sorted(device.traits)))
    for physical, alike in kinds.items():
        if len(alike) > 1:
            yield (f'the virtual functions of {physical} are of several '
                   'resource classes or traits, and Placement counts them as '
                   'one', 'have them in the same alias and groups')


def _class_of(device: host_model.PciDevice) -> str:
    return pci_alias.resource_class({
        'resource_class': device.resource_class,
        'vendor_id': device.vendor_id, 'product_id': device.product_id})


def provider_places(
    description: host_model.HostDescription,
) -> dict[str, int]:
    """By the address of devices, or their physical function, its provider.

    :returns: places in ``OfferedHost.providers``, {} if it has none
    """
    addresses = dict.fromkeys(
        device.physical_function or device.address
        for device in description.pci_devices if device.alias)
    return {address: place for place, address in enumerate(addresses, 1)
            } if is_in_placement(description) else {}


def offered(
    description: host_model.HostDescription,
) -> tuple[tuple[devices.PciPool, ...],
           tuple[offered_host.OfferedProvider, ...]]:
    """The devices that guests may ask for, as nova puts them together.

    :returns: the pools, and the providers by which Placement counts them
    """
    sold = given(description)
    places = provider_places(description)
    # Physical functions that may be taken, as may their virtual ones.
    apart = places.keys() | {device.address for device in sold}.intersection(
        device.physical_function for device in sold)
    counts: dict[tuple[devices.Pairs, int | None, int | None], int] = {}
    of_provider: dict[str, list[host_model.PciDevice]] = {}
    for device in sold:
        address = device.physical_function or device.address
        key = devices.device_keys(
            device.vendor_id, device.product_id,
            description.device_type(device),
            **({'address': address} if address in apart else {}),
        ), device.numa_node, places.get(address)
        counts[key] = counts.get(key, 0) + 1
        of_provider.setdefault(address, []).append(device)
    return tuple([
        devices.PciPool(keys, numa_node, count, place)
        for (keys, numa_node, place), count in counts.items()
    ]), tuple([
        offered_host.OfferedProvider(
            0, ((_class_of(own[0]), inventory.Inventory(len(own))),),
            frozenset(own[0].traits) | {os_traits.COMPUTE_MANAGED_PCI_DEVICE},
            name=f'{description.name}_{address.upper()}')
        for address, own in of_provider.items() if address in places])
