# SPDX-License-Identifier: Apache-2.0
"""How devices are sold: one by one, in groups, or divided up.

Nova knows no groups. What it has is Placement, which counts each device by
itself: devices of a group have a trait of their own, and an alias asks for so
many devices with it (nova.compute.pci_placement_translator,
nova.pci.request). So there is an alias for each group, and one for any of the
devices.
"""

from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
import dataclasses
import enum
import itertools

from nova_pinning import errors
from nova_pinning.host import device_offer
from nova_pinning.host import host_model
from nova_pinning.host.plan import devices
from nova_pinning.host import plan_model

_WHERE = errors.Location('--pci-group')
_MDEV = errors.Location('--mdev-type')


class GroupBy(enum.StrEnum):
    """What makes devices a group."""

    SWITCH = 'switch'  # they are behind one PCIe switch
    PARTITION = 'partition'  # Fabric Manager can give them to one guest
    NVLINK = 'nvlink'  # they have the same NVLinks, each two of them


def with_groups(
    description: host_model.HostDescription, groups: Mapping[str, GroupBy],
) -> host_model.HostDescription:
    """A host with traits on devices that make groups.

    All devices for guests get a resource class then, each alias its own: with
    Placement nova takes no alias that stands for several products.

    :param groups: by alias, {} to leave all as it is
    :raises errors.InputError: if an alias has no groups, or that is not known
    """
    if not groups:
        return description
    of_alias: dict[str, list[host_model.PciDevice]] = {}
    for device in description.pci_devices:
        if device.alias:
            of_alias.setdefault(device.alias, []).append(device)
    for alias in groups:
        if alias not in of_alias:
            raise errors.InputError(f'no device has the alias {alias!r}',
                                    _WHERE, 'name them with --pci-alias')
    classes = {alias: device_offer.resource_class(alias)
               for alias in sorted(of_alias)}
    for alias, other in itertools.combinations(classes, 2):
        if classes[alias] == classes[other]:
            raise errors.InputError(
                f'{alias} and {other} would both be {classes[alias]} to '
                'Placement', _WHERE)
    switches = _switches(description, [
        device for alias, by in groups.items() if by is GroupBy.SWITCH
        for device in of_alias[alias]])
    traits: dict[str, list[str]] = {}
    for alias, by in groups.items():
        members = {
            number: {device.address for device in of_alias[alias]
                     if description.switch_of(device.parent) == switch}
            for number, switch in enumerate(switches)
        } if by is GroupBy.SWITCH else _of_fabric(
            description, by, of_alias[alias])
        for number, addresses in members.items():
            for address in addresses:
                traits.setdefault(address, []).append(
                    f'{classes[alias]}_{by.name}_{number}')
    return dataclasses.replace(description, pci_devices=tuple(
        dataclasses.replace(
            device, resource_class=classes[device.alias],
            traits=tuple(traits.get(device.address, ())))
        if device.alias else device for device in description.pci_devices))


def _switches(description: host_model.HostDescription,
              grouped: Sequence[host_model.PciDevice]) -> list[str]:
    """The switches of devices, ascending: the same numbers for all aliases."""
    found = {device.address: description.switch_of(device.parent)
             for device in grouped}
    for device in grouped:
        if not device.parent:
            raise errors.InputError(
                f'it is not known where {device.address} is in the PCIe tree',
                _WHERE, 'have host discover look at the machine again')
        if not found[device.address]:
            raise errors.InputError(
                f'{device.address} is behind no PCIe switch', _WHERE,
                'sell its kind one by one, or give it another alias')
    return sorted(set(found.values()))


def _of_fabric(
    description: host_model.HostDescription, by: GroupBy,
    own: Sequence[host_model.PciDevice],
) -> dict[int, set[str]]:
    """GPUs, two or more, of one partition or that NVLinks join.

    :param own: all of an alias
    :returns: by the number of the partition, under which somebody has to
        activate it, else counted
    """
    addresses = {device.address for device in own}
    known = ({one.id: one.addresses for one in description.gpu_partitions}
             if by is GroupBy.PARTITION else
             dict(enumerate(one.addresses for one
                            in description.nvlinks or ())))
    found = {number: set(members) for number, members in known.items()
             if len(members) > 1 and addresses.issuperset(members)}
    if not found:
        raise errors.InputError(
            f'no group by {by} is known among the GPUs with alias '
            f'{own[0].alias}', _WHERE, 'give host discover what '
            f'{"fmpm -l" if by is GroupBy.PARTITION else "nvidia-smi topo -m"}'
            ' prints, with --fabric')
    if by is GroupBy.NVLINK:
        for one, other in itertools.combinations(found.values(), 2):
            if one & other:
                raise errors.InputError(
                    f'{min(one & other)} has other NVLinks to '
                    f'{min(one - other)} than to {min(other - one)}, so that '
                    'they make no groups', _WHERE,
                    'sell them by switch, or one by one')
    return found


def reasons(
    description: host_model.HostDescription,
) -> Iterator[plan_model.PlanReason]:
    """Which devices make each group."""
    for alias, own in device_offer.by_alias(description).items():
        if alias != own[0].alias:
            yield plan_model.PlanReason(
                'pci_devices', f'{alias} is '
                + devices.listed([device.address for device in own]))


def with_mdev_types(
    description: host_model.HostDescription,
    chosen: Sequence[tuple[str, str]],
) -> host_model.HostDescription:
    """A host with the types of mediated devices that nova is to make.

    :param chosen: (type, devices that are divided)
    :raises errors.InputError: if there are none that can be
    """
    types: dict[str, str] = {}
    for mdev_type, what in chosen:
        named = devices.named(description.pci_devices, what)
        able = [device for device in named if mdev_type in {
            one.id for one in device.mdev_types}]
        if not able:
            raise errors.InputError(
                f'no device {what!r} can be divided into {mdev_type}', _MDEV,
                'host files have the types of each device under mdev_types; '
                'they are there while the driver for vGPUs is loaded')
        for device in able:
            if device.alias or types.setdefault(
                    device.address, mdev_type) != mdev_type:
                raise errors.InputError(
                    f'{device.address} cannot be for {mdev_type} and '
                    f'{device.alias or types[device.address]}', _MDEV,
                    'nova divides a device into one type, or gives it away '
                    'as a whole')
    return dataclasses.replace(description, pci_devices=tuple(
        dataclasses.replace(device, mdev_type=types[device.address])
        if device.address in types else device
        for device in description.pci_devices))
