# SPDX-License-Identifier: Apache-2.0
"""PCI devices of hosts and guests, from the devices and nodes of a cell."""

import collections
from collections.abc import Hashable
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
import dataclasses
import itertools
from typing import Any

from nova.db.main import models
from nova.objects import fields
from nova.objects import pci_device_pool
from oslo_serialization import jsonutils
import sqlalchemy as sa

from nova_pinning.admission import devices
from nova_pinning.bridge.importer import fleet_import_guests
from nova_pinning.bridge.importer import fleet_import_hosts
from nova_pinning.bridge.importer import nova_database
from nova_pinning.model import flag

_DEVICE = models.PciDevice
_NODE = models.ComputeNode
_EXTRA = models.InstanceExtra
#: Devices that no guest has or may have. Those that are unavailable are so
#: as long as a guest has another function of theirs.
_GONE = (fields.PciDeviceStatus.REMOVED, fields.PciDeviceStatus.DELETED)
# What nova has pools by: vendor, product, node, type and address.
_Place = tuple[str, str, int | None, str | None, str | None]
# What tells pools apart here: whether all keys are known, the keys, the node
# and the provider.
_PoolKey = tuple[bool, devices.Pairs, int | None, str]
_NODES_AT_ONCE = 500
_IN_POOLS = ('managed', 'live_migratable', 'parent_ifname')
_REMOTE = 'remote_managed'
#: What a request says of itself, and not of the device.
_OF_REQUEST = ('resource_class', 'traits', 'rp_uuids', _REMOTE)


def pci_devices(
    cell: nova_database.CellDatabase,
    nodes: Sequence[fleet_import_hosts.ComputeNode],
) -> tuple[list[fleet_import_hosts.ComputeNode],
           fleet_import_guests.Devices]:
    """Nodes with their PCI devices, and what guests have, by host and UUID."""
    made = []
    uses: dict[tuple[str, str], tuple[devices.PciUse, ...]] = {}
    for start in range(0, len(nodes), _NODES_AT_ONCE):
        some = {node.id: node for node in nodes[start:start + _NODES_AT_ONCE]}
        rows: dict[int, list[Any]] = {}
        for row in nova_database.select(cell.context, _device_query([*some])):
            rows.setdefault(row.compute_node_id, []).append(row)
        told = {number: _told_of_pools(pci_stats) for number, pci_stats
                in nova_database.select(cell.context, sa.select(
                    _NODE.id, _NODE.pci_stats).where(_NODE.id.in_(rows)))}
        unsure = {row.instance_uuid for number, own in rows.items()
                  for row in own if row.instance_uuid
                  and len(_pools_of(row, told.get(number, {}))) != 1}
        specs = _requested(cell, sorted(unsure))
        for number, node in some.items():
            host = node.host
            pools, by_guest = _host_devices(
                rows.get(number, ()), told.get(number, {}), specs)
            made.append(dataclasses.replace(
                node, pool_providers=tuple(pools.values())
                if any(pools.values()) else (),
                host=host if host.pci_pools == tuple(pools)
                else dataclasses.replace(host, pci_pools=tuple(pools))))
            uses.update({(host.name, uuid): guest_uses
                         for uuid, guest_uses in by_guest.items()})
    return made, uses


def _device_query(nodes: Sequence[int]) -> Any:
    # Virtual functions go with their physical one, as in nova's pools. What
    # is beside the columns is alike for those that one pool has.
    alike = (_DEVICE.compute_node_id, _DEVICE.vendor_id, _DEVICE.product_id,
             _DEVICE.numa_node, _DEVICE.dev_type,
             sa.func.coalesce(_DEVICE.parent_addr, _DEVICE.address).label(
                 'pool_address'), _DEVICE.instance_uuid, _DEVICE.request_id,
             (_DEVICE.status == fields.PciDeviceStatus.UNAVAILABLE).label(
                 'is_unavailable'))
    groups = sa.select(
        *alike, sa.func.count(_DEVICE.id).label('devices'),
        sa.func.min(_DEVICE.id).label('first'),
    ).where(
        _DEVICE.compute_node_id.in_(nodes), _DEVICE.deleted == 0,
        _DEVICE.status.not_in(_GONE),
    ).group_by(*alike).subquery()
    return sa.select(groups, _DEVICE.extra_info).join(
        _DEVICE, _DEVICE.id == groups.c.first).order_by(
            groups.c.compute_node_id, groups.c.first)


def _told_of_pools(
    pci_stats: str | None,
) -> dict[_Place, list[dict[str, str]]]:
    """What nova-compute wrote of each pool that has free devices."""
    found: dict[_Place, list[dict[str, str]]] = {}
    try:
        pools = list(pci_device_pool.from_pci_stats(pci_stats))
        for pool in pools:
            tags = {key: value for key, value in pool.tags.items()
                    if value is not None}
            place = (pool.vendor_id.lower(), pool.product_id.lower(),
                     pool.numa_node, tags.get('dev_type'),
                     tags.pop('address', None))
            found.setdefault(place, []).append(tags)
    except fleet_import_hosts.ODD_JSON:
        return {}
    return found


def _place(row: Any) -> _Place:
    return (row.vendor_id.lower(), row.product_id.lower(), row.numa_node,
            row.dev_type, row.pool_address)


def _pools_of(
    row: Any, told: Mapping[_Place, list[dict[str, str]]],
) -> list[dict[str, str]]:
    """The pools that a device may be of, by what nova-compute wrote."""
    place = _place(row)
    return told.get(place) or told.get((*place[:-1], None)) or []


def _requested(
    cell: nova_database.CellDatabase, guests: Sequence[str],
) -> dict[tuple[str, str], dict[str, str]]:
    """What guests asked of the devices of each request, by both their UUIDs.

    Nova gives devices that are remotely managed to those who ask for them.
    """
    found: dict[tuple[str, str], dict[str, str]] = {}
    for start in range(0, len(guests), nova_database.PAGE_ROWS):
        for uuid, text in nova_database.select(cell.context, sa.select(
                _EXTRA.instance_uuid, _EXTRA.pci_requests).where(
                    _EXTRA.instance_uuid.in_(
                        guests[start:start + nova_database.PAGE_ROWS]),
                    _EXTRA.deleted == 0)):
            try:
                for request in jsonutils.loads(text or '[]'):
                    spec, = request['spec']
                    is_remote = flag.parse(str(spec.get(_REMOTE))) is True
                    found[uuid, request['request_id']] = {
                        key: str(value) for key, value in spec.items()
                        if key not in _OF_REQUEST and value is not None
                    } | {_REMOTE: str(is_remote).lower()}
            except fleet_import_hosts.ODD_JSON:
                continue
    return found


def _beside(row: Any) -> dict[str, Any]:
    """What nova keeps of a device beside the columns of its row."""
    try:
        found: dict[str, Any] = jsonutils.loads(row.extra_info or '{}')
        return {key: str(found[key]) for key in (*_IN_POOLS, 'rp_uuid')
                if found.get(key)}
    except fleet_import_hosts.ODD_JSON:
        return {}


def _host_devices(
    rows: Iterable[Any], told: Mapping[_Place, list[dict[str, str]]],
    specs: Mapping[tuple[str, str], Mapping[str, str]],
) -> tuple[dict[devices.PciPool, str],
           dict[str, tuple[devices.PciUse, ...]]]:
    """The pools of a host, in nova's order, and what guests have of them.

    Nova has a pool for each address. They are one here, unless one function
    of a device takes another, Placement counts each by itself, or others come
    between them in nova's order (see nova.pci.stats.PciDeviceStats).

    :returns: the pools with the provider of each, '' for none
    """
    rows = list(rows)
    taking = _taking_others(rows)
    rows = [row for row in rows
            # What else keeps one from guests is not to be seen here.
            if not row.is_unavailable or row.pool_address in taking]
    tags = _tags(rows, told, specs)
    alike = {place: (place[:-1], tuple(sorted(own.items())))
             for place, own in tags.items()}
    rows, divided, ranks = _in_order(rows, tags, alike, told)
    # How many devices a pool has, and which rank.
    counted: dict[_PoolKey, list[int]] = {}
    counts: dict[str, dict[tuple[devices.Pairs, int | None], int]] = {}
    for row in rows:
        place = _place(row)
        more = dict(tags[place])
        provider = more.pop('rp_uuid', '')
        if (provider or row.pool_address in taking
                or alike[place] in divided):
            more['address'] = row.pool_address
        vendor, product, *_others = place
        keys = devices.device_keys(**{
            **more, 'vendor_id': vendor, 'product_id': product,
            'dev_type': row.dev_type or ''})
        pool = (len(_pools_of(row, told)) == 1, keys, row.numa_node, provider)
        counted.setdefault(pool, [0, ranks.get(place, 0)])[0] += row.devices
        if row.instance_uuid:
            of_guest = counts.setdefault(row.instance_uuid, {})
            use = keys, row.numa_node
            of_guest[use] = of_guest.get(use, 0) + row.devices
    return {
        devices.PciPool(keys, numa_node, total, None, is_complete, rank):
            provider
        for (is_complete, keys, numa_node, provider), (total, rank)
        in counted.items()
    }, {uuid: tuple([devices.PciUse(keys, numa_node, count)
                     for (keys, numa_node), count in own.items()])
        for uuid, own in counts.items()}


def _taking_others(rows: Iterable[Any]) -> set[str]:
    """The addresses at which one function of a device takes others along."""
    physical, virtual = set(), set()
    for row in rows:
        if row.dev_type == fields.PciDeviceType.SRIOV_PF:
            physical.add(row.pool_address)
        elif row.dev_type in (fields.PciDeviceType.SRIOV_VF,
                              fields.PciDeviceType.VDPA):
            virtual.add(row.pool_address)
    return physical & virtual


def _tags(
    rows: Iterable[Any], told: Mapping[_Place, list[dict[str, str]]],
    specs: Mapping[tuple[str, str], Mapping[str, str]],
) -> dict[_Place, dict[str, str]]:
    """The tags of the devices at each place, and their provider.

    Of a pool that is all in use nova-compute writes nothing down; then what
    nova knows of its devices tells, and what was asked for by those who have
    them.
    """
    tags: dict[_Place, dict[str, str]] = {}
    for row in rows:
        known, beside = _pools_of(row, told), _beside(row)
        own = tags.setdefault(_place(row), {})
        if len(known) == 1:
            own.update(known[0])
        else:
            own.update(specs.get((row.instance_uuid, row.request_id), {}))
            own.update(beside)
        if 'rp_uuid' in beside:
            own['rp_uuid'] = beside['rp_uuid']
    return tags


def _in_order(
    rows: Iterable[Any], tags: Mapping[_Place, Mapping[str, str]],
    alike: Mapping[_Place, Hashable], told: Iterable[_Place],
) -> tuple[list[Any], set[Hashable], dict[_Place, int]]:
    """The rows as nova-scheduler goes through their pools.

    It sorts the pools that nova-compute wrote down by the number of their
    tags. Others come last.

    :param alike: what tells pools apart, but for their address
    :param told: the pools that nova-compute wrote down, in its own order
    :returns: with what others come between in either order, and where pools
        are in that of nova-compute, {} if both are the same
    """
    claimed = {place: number for number, place in enumerate(told)}
    scheduled = sorted(rows, key=lambda row: (
        len(tags[_place(row)]), claimed.get(_place(row), len(claimed))))
    known = list(dict.fromkeys([
        _place(row) for row in scheduled if _place(row) in claimed]))
    as_claimed = sorted(known, key=claimed.__getitem__)
    divided = {
        kind for places in (known, as_claimed)
        for kind, runs in collections.Counter([
            kind for kind, _run in itertools.groupby(
                [alike[place] for place in places])]).items() if runs > 1}
    return scheduled, divided, {} if as_claimed == known else {
        _place(row): claimed.get(_place(row), len(claimed))
        for row in scheduled}
