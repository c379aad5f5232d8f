# SPDX-License-Identifier: Apache-2.0
"""PCI devices of hosts and guests, from the devices and nodes of a cell."""

from collections.abc import Iterable
from collections.abc import Sequence
from typing import Any

from nova.db.main import models
from nova.objects import fields
from nova.objects import pci_device_pool
import sqlalchemy as sa

from nova_pinning.admission import devices
from nova_pinning.bridge import fleet_import_guests
from nova_pinning.bridge import fleet_import_hosts
from nova_pinning.bridge import nova_database
from nova_pinning.fleet import snapshot

_DEVICE = models.PciDevice
_NODE = models.ComputeNode
#: Devices that no guest has or may have. Those that are unavailable are so
#: as long as a guest has another function of theirs.
_GONE = (fields.PciDeviceStatus.REMOVED, fields.PciDeviceStatus.DELETED)
# Tags of pools by vendor, product, node, type and address.
_PoolTags = dict[tuple[str, str, int | None, str | None, str | None],
                 list[dict[str, str]]]
_NODES_AT_ONCE = 500


def pci_devices(
    cell: nova_database.CellDatabase,
    nodes: Sequence[fleet_import_hosts.ComputeNode],
) -> tuple[dict[int, tuple[snapshot.PciPool, ...]],
           fleet_import_guests.Devices]:
    """What PCI devices hosts have, by node, and guests, by host and UUID."""
    names = {node.id: node.host.name for node in nodes}
    rows: dict[int, list[Any]] = {}
    tags: dict[int, _PoolTags] = {}
    ids = list(names)
    for start in range(0, len(ids), _NODES_AT_ONCE):
        some = ids[start:start + _NODES_AT_ONCE]
        for row in nova_database.select(cell.context, _device_query(some)):
            rows.setdefault(row.compute_node_id, []).append(row)
        for node, pci_stats in nova_database.select(cell.context, sa.select(
                _NODE.id, _NODE.pci_stats).where(_NODE.id.in_(rows))):
            tags[node] = _pool_tags(pci_stats)
    pools = {}
    uses: dict[tuple[str, str], tuple[snapshot.PciUse, ...]] = {}
    for node, own in rows.items():
        pools[node], by_guest = _host_devices(own, tags.get(node, {}))
        uses.update({(names[node], uuid): guest_uses
                     for uuid, guest_uses in by_guest.items()})
    return pools, uses


def _device_query(nodes: Sequence[int]) -> Any:
    # Virtual functions go with their physical one, as in nova's pools.
    alike = (_DEVICE.compute_node_id, _DEVICE.vendor_id, _DEVICE.product_id,
             _DEVICE.numa_node, _DEVICE.dev_type,
             sa.func.coalesce(_DEVICE.parent_addr, _DEVICE.address).label(
                 'pool_address'), _DEVICE.instance_uuid,
             (_DEVICE.status == fields.PciDeviceStatus.UNAVAILABLE).label(
                 'is_unavailable'))
    return sa.select(
        *alike, sa.func.count(_DEVICE.id).label('devices'),
    ).where(
        _DEVICE.compute_node_id.in_(nodes), _DEVICE.deleted == 0,
        _DEVICE.status.not_in(_GONE),
    ).group_by(*alike).order_by(_DEVICE.compute_node_id,
                                sa.func.min(_DEVICE.id))


def _pool_tags(pci_stats: str | None) -> _PoolTags:
    """What nova-compute wrote of each pool, by what rows of devices have."""
    found: _PoolTags = {}
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


def _host_devices(
    rows: Iterable[Any], tags: _PoolTags,
) -> tuple[tuple[snapshot.PciPool, ...],
           dict[str, tuple[snapshot.PciUse, ...]]]:
    """The pools of a host, in nova's order, and what guests have of them.

    Nova has a pool for each address. They are one here, unless one function
    of a device takes another.
    """
    rows = list(rows)
    physical = {row.pool_address for row in rows
                if row.dev_type == fields.PciDeviceType.SRIOV_PF}
    virtual = {row.pool_address for row in rows if row.dev_type in (
        fields.PciDeviceType.SRIOV_VF, fields.PciDeviceType.VDPA)}
    totals: dict[tuple[bool, devices.Pairs, int | None], int] = {}
    counts: dict[str, dict[tuple[devices.Pairs, int | None], int]] = {}
    for row in rows:
        if row.is_unavailable and row.pool_address not in physical & virtual:
            # Whatever keeps it from guests is not to be seen here.
            continue
        vendor, product = row.vendor_id.lower(), row.product_id.lower()
        place = vendor, product, row.numa_node, row.dev_type
        known = tags.get((*place, row.pool_address)) or tags.get(
            (*place, None)) or []
        more = dict(known[0]) if len(known) == 1 else {}
        if row.pool_address in physical & virtual:
            more['address'] = row.pool_address
        keys = devices.device_keys(vendor, product, **{
            **more, 'dev_type': row.dev_type or ''})
        pool = len(known) == 1, keys, row.numa_node
        totals[pool] = totals.get(pool, 0) + row.devices
        if row.instance_uuid:
            own = counts.setdefault(row.instance_uuid, {})
            own[pool[1:]] = own.get(pool[1:], 0) + row.devices
    pools = [
        snapshot.PciPool(keys, numa_node, total, is_complete=is_complete)
        for (is_complete, keys, numa_node), total in totals.items()]
    # See nova.pci.stats.PciDeviceStats; of addresses all pools have one.
    pools.sort(key=lambda pool: len(
        [key for key, _value in pool.keys if key != 'address']))
    return tuple(pools), {
        uuid: tuple([snapshot.PciUse(keys, numa_node, count)
                     for (keys, numa_node), count in own.items()])
        for uuid, own in counts.items()}
