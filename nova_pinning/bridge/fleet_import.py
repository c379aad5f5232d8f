# SPDX-License-Identifier: Apache-2.0
"""A snapshot of a fleet from nova's own databases, all cells together."""

from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
import dataclasses
import datetime
import functools
import itertools
from typing import Any
from typing import TypeVar

from nova.db.main import models
from nova import exception
from nova import objects
from nova.objects import fields
from nova.objects import pci_device_pool
from nova.pci import request as pci_request
from oslo_config import cfg
import sqlalchemy as sa

from nova_pinning.admission import devices
from nova_pinning.bridge import fleet_import_guests
from nova_pinning.bridge import fleet_import_hosts
from nova_pinning.bridge import fleet_import_wishes
from nova_pinning.bridge import nova_conf_reader
from nova_pinning.bridge import nova_database
from nova_pinning import cpuset
from nova_pinning import errors
from nova_pinning.fit import usage
from nova_pinning.fleet import host_completion
from nova_pinning.fleet import snapshot
from nova_pinning.host import host_model
from nova_pinning.model import hostclass
from nova_pinning.placement import placement_traits

_DEVICE = models.PciDevice
_NODE = models.ComputeNode
#: Devices that no guest has or may have. Those that are unavailable are so
#: as long as a guest has another function of theirs.
_GONE = (fields.PciDeviceStatus.REMOVED, fields.PciDeviceStatus.DELETED)
# Tags of pools by vendor, product, node, type and address.
_PoolTags = dict[tuple[str, str, int | None, str | None, str | None],
                 list[dict[str, str]]]
_NODES_AT_ONCE = 500

_T = TypeVar('_T')

#: Told after each page how many instances of how many have been read.
Tell = Callable[[int, int], None]
#: Gives the traits of providers by UUID; those without are left out.
ReadTraits = Callable[[Sequence[str]], Mapping[str, frozenset[str]]]


@dataclasses.dataclass(frozen=True, slots=True)
class Imported:
    """What was read, and what is odd about it, a sentence each."""

    fleet: snapshot.Fleet
    notes: tuple[str, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class _CellPart:
    """The hosts and guests of one cell."""

    nodes: list[fleet_import_hosts.ComputeNode]
    guests: list[snapshot.FleetGuest]
    notes: list[str]
    homeless: int


def read(
    database: nova_database.NovaDatabases, *,
    skips_down_cells: bool = False,
    descriptions: Mapping[str, host_model.HostDescription] | None = None,
    read_traits: ReadTraits | None = None,
    tell: Tell = lambda done, total: None,
    now: datetime.datetime | None = None,
    page_rows: int = nova_database.PAGE_ROWS,
) -> Imported:
    """Read hosts and guests of all cells.

    :param database: from nova_database.opened
    :param skips_down_cells: go on without cells whose database cannot be read
    :param descriptions: host files by the name of the compute service
    :param read_traits: without, hosts' traits are not known
    :param now: UTC, without a time zone
    :raises nova_database.DatabaseError: if a database cannot be read
    :raises errors.InputError: if nova.conf has something that nova refuses
    """
    now = now or datetime.datetime.now(datetime.UTC).replace(tzinfo=None)
    aliases = pci_aliases(database.conf)
    notes: list[str] = []
    with nova_database.reading('the API database'):
        aggregates = tuple(objects.AggregateList.get_all(database.context))
        flavors = tuple(
            fleet_import_guests.flavor(row)
            for row in objects.FlavorList.get_all(
                database.context, filters={'is_public': None}))
        server_groups = tuple(fleet_import_wishes.server_groups(database))
    parts = _Cells(database, skips_down_cells, now, page_rows, tell).read(
        notes)
    nodes = without_twins(
        [node for part in parts for node in part.nodes], notes)
    guests = tuple(without_repeats(itertools.chain.from_iterable(
        part.guests for part in parts)))
    homeless = sum(part.homeless for part in parts)
    if homeless:
        notes.append(f'{homeless} servers are being built and are not on a '
                     'host yet, so their resources still count as free')
    notes += _untracked(nodes, guests)
    traits = read_traits([node.provider
                          for node in nodes]) if read_traits else (None)
    by_host: dict[str, list[snapshot.FleetAggregate]] = {}
    for aggregate in aggregates:
        for name in aggregate.hosts:
            by_host.setdefault(name, []).append(fleet_aggregate(aggregate))
    hosts = tuple(finished(node, by_host.get(node.host.name, ()), traits,
                           notes) for node in nodes)
    fleet = snapshot.Fleet(
        hosts=host_completion.completed(hosts, descriptions or {}),
        guests=guests, flavors=flavors,
        aggregates=tuple(map(fleet_aggregate, aggregates)),
        server_groups=server_groups, pci_aliases=aliases,
        packs_cells=(database.conf.compute
                     .packing_host_numa_cells_allocation_strategy),
        enabled_filters=enabled_filters(database.conf),
        taken_at=f'{now:%Y-%m-%dT%H:%M:%SZ}', source="nova's databases")
    return Imported(fleet, tuple(notes))


# Cells.

class _Cells:
    """Reads cells, one after the other.

    :param tell: told of all cells together
    """

    def __init__(self, database: nova_database.NovaDatabases,
                 skips_down_cells: bool, now: datetime.datetime,
                 page_rows: int, tell: Tell) -> None:
        self._database = database
        self._skips_down_cells = skips_down_cells
        self._now = now
        self._page_rows = page_rows
        self._tell = tell

    def read(self, notes: list[str]) -> list[_CellPart]:
        counts = [self._try(cell, notes, fleet_import_guests.count)
                  for cell in self._database.cells]
        total = sum(count or 0 for count in counts) or 1
        parts, done = [], 0
        for cell, count in zip(self._database.cells, counts, strict=True):
            if count is None:
                continue

            part = self._try(cell, notes, functools.partial(
                self._part, functools.partial(self._told, done, total)))
            if part is not None:
                parts.append(part)
                notes += part.notes
            done += count
        return parts

    def _try(self, cell: nova_database.CellDatabase, notes: list[str],
             action: Callable[[nova_database.CellDatabase], _T]) -> _T | None:
        """What the action returns; None if the cell is down and skipped."""
        try:
            with nova_database.reading(str(cell)):
                return action(cell)
        except nova_database.DatabaseError as error:
            if not self._skips_down_cells:
                raise nova_database.DatabaseError(
                    error.message, error.where,
                    'give --skip-down-cells to do without its hosts and '
                    'guests') from error
            notes.append(f'{error}; its hosts and guests are left out')
            return None

    def _told(self, before: int, total: int, read: int) -> None:
        self._tell(min(before + read, total), total)

    def _part(self, tell: Callable[[int], None],
              cell: nova_database.CellDatabase) -> _CellPart:
        conf = self._database.conf
        services = fleet_import_hosts.compute_services(
            cell, self._now, conf.service_down_time)
        nodes = list(fleet_import_hosts.nodes(cell, conf, services))
        pools, uses = pci_devices(cell, nodes)
        nodes = [dataclasses.replace(node, host=dataclasses.replace(
            node.host, pci_pools=pools.get(node.id, ()))) for node in nodes]
        part = _CellPart(nodes, [], [
            f'host {node.host.name}: {node.problem}'
            for node in nodes if node.problem] + [
            f'{cell}: {note}'
            for note in fleet_import_hosts.unknown_releases(
                nodes, services)], 0)
        homeless = done = 0
        for page in fleet_import_guests.pages(
                self._database, cell, uses, self._page_rows):
            part.guests.extend(page.guests)
            part.notes.extend(page.problems)
            homeless += len(page.homeless)
            done += len(page.instances)
            tell(done)
        return dataclasses.replace(part, homeless=homeless)


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


# All cells together.

def without_twins(nodes: Iterable[fleet_import_hosts.ComputeNode],
                  notes: list[str]) -> list[fleet_import_hosts.ComputeNode]:
    """One node for each compute service: the newest.

    Nova's other drivers have several; libvirt's leaves one behind when the
    host's name changes.
    """
    by_name: dict[str, fleet_import_hosts.ComputeNode] = {}
    for node in nodes:
        other = by_name.get(node.host.name)
        if other is not None:
            notes.append(
                f'host {node.host.name} has several compute nodes, of which '
                f'{node.name} was taken and {other.name} left out')
        by_name[node.host.name] = node
    return list(by_name.values())


def without_repeats(
    guests: Iterable[snapshot.FleetGuest],
) -> Iterator[snapshot.FleetGuest]:
    """Each with its own name: one between cells is in both."""
    seen: set[str] = set()
    for guest in guests:
        if guest.uuid in seen:
            guest = dataclasses.replace(
                guest, uuid=f'{guest.uuid}@{guest.host}')
        seen.add(guest.uuid)
        yield guest


def _untracked(
    nodes: Sequence[fleet_import_hosts.ComputeNode],
    guests: Iterable[snapshot.FleetGuest],
) -> Iterator[str]:
    """Where nova has other CPUs down as taken than the guests have."""
    cells = {node.host.name: {cell.id: cell for cell in node.host.cells}
             for node in nodes}
    taken: dict[str, cpuset.CpuSet] = {}
    for guest in guests:
        own = cells.get(guest.host)
        if own and guest.topology and guest.fit and guest.topology.is_pinned:
            taken[guest.host] = cpuset.union((
                taken.get(guest.host, cpuset.CpuSet()),
                *(usage.taken_cpus(own[cell.host_cell], guest.topology, cell)
                  for cell in guest.fit.cells if cell.host_cell in own)))
    for node in nodes:
        extra = node.taken_cpus - taken.get(node.host.name, cpuset.CpuSet())
        if extra:
            yield (f'host {node.host.name}: nova has CPUs {extra} down as '
                   'taken, but no guest has them; guests may have come or '
                   'gone meanwhile')


def finished(
    node: fleet_import_hosts.ComputeNode,
    aggregates: Sequence[snapshot.FleetAggregate],
    traits: Mapping[str, frozenset[str]] | None, notes: list[str],
) -> snapshot.FleetHost:
    """A host with its aggregates, traits and class."""
    name = node.host.name
    host_traits = traits.get(node.provider) if traits is not None else None
    if traits is not None and host_traits is None:
        notes.append(f'host {name}: Placement has no such provider')
    host_class = None
    try:
        host_class = placement_traits.host_class(
            aggregates, placement_traits.classes_of(host_traits or ()),
            node.host.cells)
    except hostclass.UnknownClass as error:
        notes.append(f'host {name} is of no class: {error}')
    return dataclasses.replace(
        node.host, host_class=host_class, traits=host_traits,
        aggregates=tuple(sorted(aggregate.name for aggregate in aggregates)))


def fleet_aggregate(row: Any) -> snapshot.FleetAggregate:
    metadata = dict(row.metadata)
    zone = metadata.pop('availability_zone', None)
    return snapshot.FleetAggregate(row.name, zone, metadata)


# nova.conf.

def enabled_filters(conf: cfg.ConfigOpts) -> tuple[str, ...]:
    """[filter_scheduler] enabled_filters.

    :returns: () if it is not there: the file may be another service's than
        nova-scheduler's, so what nova enables by default tells nothing
    """
    found = conf.get_location('enabled_filters', 'filter_scheduler')
    if found is None or not found.location.is_user_controlled:
        return ()
    return tuple(filter(None, conf.filter_scheduler.enabled_filters))


def pci_aliases(
    conf: cfg.ConfigOpts,
) -> dict[str, snapshot.PciAlias]:
    """[pci] alias.

    :raises errors.InputError: if nova refuses it
    """
    try:
        with nova_conf_reader.replaced_conf(pci_request, conf):
            # What nova remembers of another nova.conf is passed by.
            by_alias = pci_request.get_alias_from_config.__wrapped__()
    except exception.PciInvalidAlias as error:
        raise errors.InputError(
            f'[pci] alias: {error}', errors.Location('nova.conf')) from error
    return {
        name: snapshot.PciAlias(tuple(
            tuple(sorted(spec.items())) for spec in specs), policy)
        for name, (policy, specs) in by_alias.items()}
