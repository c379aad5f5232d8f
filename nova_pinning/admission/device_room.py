# SPDX-License-Identifier: Apache-2.0
"""Which devices of a host a guest may have."""

from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Sequence
import dataclasses
from typing import NamedTuple

from nova_pinning.admission import devices
from nova_pinning.admission import guest_request
from nova_pinning.admission import host_occupancy
from nova_pinning.admission import offered_host


class UsableDevices(NamedTuple):
    """Devices of a host that are alike to guests, and how many are left.

    :param numa_node: id of the host cell, None if they belong to none
    :param traits: as :func:`group_traits` has them
    :param total: with those that guests have
    :param free: in nova-compute and, where Placement counts them, there
    """

    numa_node: int | None
    traits: str
    total: int
    free: int


def usable(
    request: guest_request.GuestRequest, pools: Sequence[devices.PciPool],
    providers: Sequence[offered_host.OfferedProvider],
) -> list[list[int]]:
    """The pools that each PCI request of a guest may have devices of.

    By what nova and Placement ask of a device, wherever it is and whoever
    has it; what is not known of it is taken to be as it is wanted.

    :param pools: of a host
    :param providers: of that host
    :returns: the places of the pools
    """
    groups = _groups(request)
    return [[place for place, pool in enumerate(pools)
             if asked.may_have(pool)
             and all(_gives(providers, pool, groups[suffix])
                     for suffix in asked.groups[:1] if suffix in groups)]
            for asked in request.devices]


def stocks(
    request: guest_request.GuestRequest,
    occupancy: host_occupancy.HostOccupancy,
) -> tuple[UsableDevices, ...]:
    """The devices of a host that any PCI request of a guest may have."""
    pools, providers = occupancy.host.pci_pools, occupancy.providers
    found: dict[tuple[int | None, str], list[int]] = {}
    left: dict[int, int] = {}
    for _asked, free_at in _free([request], occupancy):
        left = free_at | left
    for place, free in left.items():
        pool = pools[place]
        counts = found.setdefault(
            (pool.numa_node, group_traits(pool, providers)), [0, 0])
        counts[0] += pool.total
        counts[1] += free
    return tuple(UsableDevices(*key, *counts) for key, counts in sorted(
        found.items(), key=lambda item: (item[0][0] is None, item[0])))


def on_sale(
    requests: Iterable[guest_request.GuestRequest],
    occupancy: host_occupancy.HostOccupancy,
) -> dict[int, tuple[str, int]]:
    """The pools of a host that any guest may have devices of.

    :returns: by place, the alias under which the most are sold, and how many
        are free
    """
    names: dict[int, tuple[int, int, str]] = {}
    left: dict[int, int] = {}
    for asked, free_at in _free(requests, occupancy):
        for place, free in free_at.items():
            # Of equal ones the alias that names no group.
            names[place] = max(names.get(place, (0, 0, '')), (
                len(free_at), -len(asked.alias), asked.alias))
            left[place] = max(free, left.get(place, 0))
    return {place: (names[place][2], free) for place, free in left.items()}


def _free(
    requests: Iterable[guest_request.GuestRequest],
    occupancy: host_occupancy.HostOccupancy,
) -> Iterator[tuple[devices.PciRequest, dict[int, int]]]:
    """What is free of each pool that PCI requests of guests may use.

    In nova-compute and, where Placement is asked for them, there: it may have
    devices reserved, or count them with a guest that is gone.

    :returns: by the pool's place
    """
    pools, providers = occupancy.host.pci_pools, occupancy.providers
    left = devices.left(pools, occupancy.device_uses)
    for request in requests:
        groups = _groups(request)
        for asked, places in zip(
                request.devices, usable(request, pools, providers)):
            names = [name for suffix in asked.groups[:1] if suffix in groups
                     for name, _amount in groups[suffix].asked]
            yield asked, {
                place: min([left.get(place, 0), *_counted(
                    occupancy, pools[place].provider, names)])
                for place in places}


def _counted(occupancy: host_occupancy.HostOccupancy, provider: int | None,
             names: Sequence[str]) -> list[int]:
    """What Placement has left of some classes of a provider."""
    if provider is None:
        return []
    used = occupancy.used[provider]
    return [has.left(used.get(name, 0)) for name, has
            in occupancy.providers[provider].inventories if name in names]


def told_apart(
    request: guest_request.GuestRequest,
    occupancy: host_occupancy.HostOccupancy,
) -> tuple[guest_request.GuestRequest, tuple[devices.PciPool, ...]]:
    """A guest, and the free devices that it may have, for nova alone.

    Each pool has a tag, and the guest asks for those tags that Placement
    would choose devices of.
    """
    wanted, total = [], dict[int, int]()
    pools = [pool._replace(keys=(*pool.keys, ('place', str(place))))
             for place, pool in enumerate(occupancy.host.pci_pools)]
    for asked, free_at in _free([request], occupancy):
        total |= free_at
        wanted.append(dataclasses.replace(asked, groups=(), specs=tuple(
            [pools[place].keys for place in free_at])))
    return dataclasses.replace(request, devices=tuple(wanted)), tuple([
        pools[place]._replace(total=free)
        for place, free in sorted(total.items()) if free > 0])


def group_traits(
    pool: devices.PciPool,
    providers: Sequence[offered_host.OfferedProvider],
) -> str:
    """The operator's traits by which Placement tells devices from others.

    :returns: 'CUSTOM_H100_SWITCH_0', several joined by commas, '' for none
    """
    traits = (providers[pool.provider].traits
              if pool.provider is not None else None)
    return ','.join(sorted(trait for trait in traits or ()
                           if trait.startswith('CUSTOM_')))


def part(
    request: guest_request.GuestRequest,
    kept: Sequence[devices.PciRequest], minds_traits: bool = True,
) -> guest_request.GuestRequest:
    """The guest with some of its PCI requests only.

    :param kept: of its own
    :param minds_traits: whether Placement is to ask for the traits of these
    """
    suffixes, own = [
        {suffix for asked in some for suffix in asked.groups}
        for some in (request.devices, kept)]
    return dataclasses.replace(
        request, devices=tuple(kept), claims=(), queries=tuple([
            dataclasses.replace(query, groups=tuple([
                group._replace(required=frozenset())
                if group.suffix in own and not minds_traits else group
                for group in query.groups
                if group.suffix in own or group.suffix not in suffixes]))
            for query in request.queries]))


def _groups(
    request: guest_request.GuestRequest,
) -> dict[str, guest_request.RequestGroup]:
    return {group.suffix: group for query in request.queries
            for group in query.groups}


def _gives(providers: Sequence[offered_host.OfferedProvider],
           pool: devices.PciPool,
           group: guest_request.RequestGroup) -> bool:
    """Whether Placement may choose devices of a pool for a group."""
    if pool.provider is None:
        return False
    provider = providers[pool.provider]
    names = {name for name, _has in provider.inventories}
    return all(name in names for name, _amount in group.asked) and (
        provider.traits is None or group.required <= provider.traits)
