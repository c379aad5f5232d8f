# SPDX-License-Identifier: Apache-2.0
"""Guests of a snapshot, from the instances of a cell.

What holds room where is what nova's resource tracker counts
(nova.compute.resource_tracker, _update_usage_from_instances and
_update_usage_from_migrations): every instance on the host that it is on, and
an instance on its way on the other host as well. Where a server is resized on
its own host, what it has and what it gets are both held; nova's tracker loses
the former for the moment before the server has its new flavor.
"""

from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
import dataclasses
import datetime
import functools
import math
from typing import Any
from typing import TypeVar

from nova.compute import resource_tracker
from nova.compute import vm_states
from nova.db.main import models
from nova import objects
from oslo_serialization import jsonutils
import sqlalchemy as sa

from nova_pinning.admission import devices
from nova_pinning.admission import resident_guest
from nova_pinning.bridge.importer import fleet_import_hosts
from nova_pinning.bridge.importer import fleet_import_wishes
from nova_pinning.bridge.importer import nova_database
from nova_pinning.bridge import topology
from nova_pinning import cpuset
from nova_pinning.flavors import flavor_model
from nova_pinning.fleet import device_moves
from nova_pinning.fleet import moved_guest
from nova_pinning import model
from nova_pinning.model import hostclass
from nova_pinning.placement import cache_resources
from nova_pinning.placement import inventory
from nova_pinning import units

_INSTANCE = models.Instance
_EXTRA = models.InstanceExtra
_MIGRATION = models.Migration
#: Migrations that nova no longer counts
#: (migration_get_in_progress_and_error_by_host_and_node).
_ENDED = ('confirmed', 'reverted', 'failed', 'completed', 'cancelled', 'done')
_MOVABLE = (vm_states.ACTIVE, vm_states.STOPPED, vm_states.PAUSED)
_ODD = fleet_import_hosts.ODD_JSON
_Read = TypeVar('_Read')
_said = fleet_import_hosts.said

#: The devices that a guest has on a host, by host and UUID.
Devices = Mapping[tuple[str, str], tuple[devices.PciUse, ...]]


@dataclasses.dataclass(frozen=True, slots=True)
class InstanceGuests:
    """What one instance holds.

    :param id: nova's number, unique in the cell
    :param guests: none if it holds no room, several while it moves
    :param is_migrating: whether a migration of it counts
    """

    id: int
    guests: tuple[resident_guest.ResidentGuest, ...]
    is_migrating: bool


@dataclasses.dataclass(frozen=True, slots=True)
class GuestPage:
    """What one page of instances comes to.

    :param instances: all in it, whether they hold room or not
    :param problems: sentences, each with the instance it is about
    :param homeless: UUIDs of those that are being built, on no host yet
    """

    instances: tuple[InstanceGuests, ...]
    problems: tuple[str, ...]
    homeless: tuple[str, ...]


def named(database: nova_database.NovaDatabases,
          cell: nova_database.CellDatabase, reader: 'GuestReader',
          ids: Sequence[int]) -> GuestPage:
    """The guests of some instances, as many as a page has at most.

    :param ids: nova's numbers; those that are gone are left out
    """
    rows = nova_database.select(
        cell.context, _query().where(_INSTANCE.id.in_(ids)))
    return reader.page(rows, _migrations(cell, rows),
                       fleet_import_wishes.of_instances(
                           database, cell, [row.uuid for row in rows]))


def marks(cell: nova_database.CellDatabase,
          rows: int) -> Iterator[tuple[int, str, str, datetime.datetime]]:
    """Number, UUID, host and time of last write of all instances of a cell.

    That is of what nova keeps beside the row of an instance, too.

    :param rows: of a page
    """
    query = sa.select(
        _INSTANCE.id, _INSTANCE.uuid, _INSTANCE.host, _INSTANCE.created_at,
        _INSTANCE.updated_at, _EXTRA.updated_at,
    ).outerjoin(_EXTRA, sa.and_(
        _EXTRA.instance_uuid == _INSTANCE.uuid, _EXTRA.deleted == 0,
    )).where(_INSTANCE.deleted == 0)
    for page in nova_database.pages(cell.context, query, _INSTANCE.id, rows):
        for number, uuid, host, *written in page:
            yield number, uuid, host or '', max(
                filter(None, written), default=datetime.datetime.min)


def _query() -> Any:
    return sa.select(
        _INSTANCE.id, _INSTANCE.uuid, _INSTANCE.host, _INSTANCE.display_name,
        _INSTANCE.vm_state, _INSTANCE.task_state, _INSTANCE.vcpus,
        _INSTANCE.memory_mb, _INSTANCE.root_gb, _INSTANCE.ephemeral_gb,
        _INSTANCE.image_ref, _INSTANCE.instance_type_id,
        _INSTANCE.launched_at, _INSTANCE.project_id,
        _EXTRA.numa_topology, _EXTRA.flavor, _EXTRA.migration_context,
        _EXTRA.vcpu_model, _EXTRA.pci_requests,
    ).outerjoin(_EXTRA, sa.and_(
        _EXTRA.instance_uuid == _INSTANCE.uuid, _EXTRA.deleted == 0,
    )).where(_INSTANCE.deleted == 0)


def _migrations(cell: nova_database.CellDatabase,
                page: Sequence[Any]) -> dict[str, list[Any]]:
    """The migrations that count, by instance."""
    uuids = [row.uuid for row in page]
    by_instance: dict[str, list[Any]] = {}
    for row in nova_database.select(cell.context, sa.select(
            _MIGRATION.id, _MIGRATION.uuid, _MIGRATION.instance_uuid,
            _MIGRATION.source_compute, _MIGRATION.dest_compute,
            _MIGRATION.migration_type, _MIGRATION.old_instance_type_id,
            _MIGRATION.updated_at, _MIGRATION.created_at,
    ).where(_MIGRATION.instance_uuid.in_(uuids), _MIGRATION.deleted == 0,
            _MIGRATION.status.not_in(_ENDED))):
        by_instance.setdefault(row.instance_uuid, []).append(row)
    return by_instance


def _is_moving(row: Any) -> bool:
    # Nova's own words for it; both read the states of an instance only.
    return bool(resource_tracker._instance_in_resize_state(row)
                or resource_tracker._instance_is_live_migrating(row))


@dataclasses.dataclass(frozen=True, slots=True)
class _Flavors:
    """An instance's flavor, and those before and after a resize.

    :param current: None if the row has none that can be read, as are others
    """

    current: flavor_model.Flavor | None
    old: flavor_model.Flavor | None = None
    new: flavor_model.Flavor | None = None
    problem: str = ''


class GuestReader:
    """Makes guests of rows; what repeats is kept once."""

    def __init__(self, uses: Devices) -> None:
        self._devices = uses
        self._topologies: dict[model.Guest, model.Guest] = {}
        self._problems: list[str] = []
        self._wishes = fleet_import_wishes.InstanceWishes()

    def page(
        self, rows: Sequence[Any], migrations: Mapping[str, list[Any]],
        wishes: fleet_import_wishes.InstanceWishes,
    ) -> GuestPage:
        self._problems = [*wishes.problems]
        self._wishes = wishes
        instances: list[InstanceGuests] = []
        homeless = []
        for row in rows:
            guests: list[resident_guest.ResidentGuest] = []
            own = migrations.get(row.uuid, ())
            context = self._context(row) if own else None
            if row.host and not vm_states.allow_resource_removal(
                    row.vm_state, row.task_state):
                guests.append(self._guest(row, own, context))
            elif not row.host and row.vm_state == vm_states.BUILDING:
                homeless.append(row.uuid)
            if _is_moving(row):
                guests += self._held(row, own, context)
            instances.append(InstanceGuests(row.id, tuple(guests), bool(own)))
        return GuestPage(tuple(instances), tuple(self._problems),
                         tuple(homeless))

    def _guest(self, row: Any, migrations: Sequence[Any],
               context: Any) -> resident_guest.ResidentGuest:
        """An instance where it is."""
        numa_topology = None
        try:
            numa_topology = _topology(row.numa_topology, row.uuid)
        except _ODD as error:
            self._note(row, row.host, 'its NUMA topology cannot be read, so '
                       f'it counts as a guest without one: {_said(error)}')
        if context is not None and any(
                migration.dest_compute == row.host != migration.source_compute
                for migration in migrations):
            # It has its new host already, but not yet its new topology.
            numa_topology = _migrated(context.new_numa_topology)
        return self._made(
            row, row.uuid, row.host, self._flavors(row).current, numa_topology,
            devices=self._devices.get((row.host, row.uuid), ()),
            is_movable=(not migrations and row.task_state is None
                        and row.vm_state in _MOVABLE))

    def _context(self, row: Any) -> Any:
        """A nova.objects.MigrationContext, None if there is none."""
        try:
            return row.migration_context and (
                objects.MigrationContext.obj_from_db_obj(
                    row.migration_context))
        except _ODD as error:
            self._note(row, row.host, 'its migration context cannot be read, '
                       f'so CPUs may be missing: {_said(error)}')
            return None

    def _held(self, row: Any, migrations: Sequence[Any],
              context: Any) -> Iterator[resident_guest.ResidentGuest]:
        """What an instance on its way holds besides where it is."""
        for host, migration in _latest(migrations).items():
            if context is not None and context.migration_id != migration.id:
                continue
            side = _side(row, migration, host)
            if not side:
                continue
            flavors = self._flavors(row)
            # Only a resize changes the flavor (ResourceTracker._get_flavor).
            flavor = flavors.current
            if migration.migration_type == 'resize':
                flavor = flavors.new if side == 'new' else flavors.old
            if flavor is None:
                continue
            numa_topology = getattr(context, f'{side}_numa_topology', None)
            yield self._made(
                row, migration.uuid or f'{row.uuid}@{host}', host, flavor,
                _migrated(numa_topology), devices=() if host == row.host
                else self._devices.get((host, row.uuid), ()),
                is_movable=False)

    def _made(self, row: Any, uuid: str, host: str,
              flavor: flavor_model.Flavor | None, numa_topology: Any,
              **more: Any) -> resident_guest.ResidentGuest:
        """A guest with a flavor and a nova.objects.InstanceNUMATopology."""
        guest = fit = None
        if numa_topology is not None:
            try:
                guest = moved_guest.asked_topology(
                    topology.guest_from_nova(numa_topology),
                    flavor.extra_specs if flavor else {},
                    self._wishes.images.get(row.uuid, {}))
                guest = self._topologies.setdefault(guest, guest)
                fit = _fit(numa_topology)
            except _ODD as error:
                guest = fit = None
                self._note(row, host, 'its NUMA topology makes no sense, so '
                           f'it counts as a guest without one: {_said(error)}')
            else:
                self._check_pins(row, host, guest, fit)
        if flavor is None:
            flavor = flavor_model.Flavor(
                name='', vcpus=row.vcpus or 0, memory_mib=row.memory_mb or 0,
                disk_gib=row.root_gb or 0, ephemeral_gib=row.ephemeral_gb or 0)
        return resident_guest.ResidentGuest(
            uuid=uuid, host=host, vcpus=flavor.vcpus,
            memory_mib=flavor.memory_mib,
            guest_class=self._class(row, host, flavor, guest),
            name=row.display_name or '', flavor=flavor.name,
            disk_gib=_disk_gib(flavor, row),
            resources={name: amount for name, amount
                       in cache_resources.asked(flavor.extra_specs).items()
                       if name not in inventory.COUNTED},
            topology=guest, fit=fit,
            vm_state=row.vm_state or '', project=row.project_id or '',
            availability_zone=self._wishes.zones.get(row.uuid, ''),
            # Nova counts a member where it is, not what a migration holds.
            server_group=(self._wishes.groups.get(row.uuid, '')
                          if uuid == row.uuid else ''),
            image=self._wishes.images.get(row.uuid, {}),
            metadata=self._wishes.metadata.get(row.uuid, {}),
            tags=tuple(sorted(self._wishes.tags.get(row.uuid, ()))),
            cpu_model=self._cpu_model(row),
            asks_live_devices=_read_requests(
                device_moves.asks_live_devices, row.pci_requests),
            device_policy=_read_requests(
                device_moves.policy_of, row.pci_requests),
            launched_at=(f'{row.launched_at:%Y-%m-%dT%H:%M:%SZ}'
                         if row.launched_at else ''), **more)

    def _cpu_model(self, row: Any) -> str:
        """The model that nova-compute gave it by name, '' for none."""
        try:
            return _named_cpu_model(row.vcpu_model) if row.vcpu_model else ''
        except _ODD as error:
            self._note(row, row.host, 'its CPU model cannot be read: '
                       f'{_said(error)}')
            return ''

    def _class(self, row: Any, host: str, flavor: flavor_model.Flavor,
               guest: model.Guest | None) -> hostclass.HostClass:
        policy = guest.cpu_policy if guest else None
        try:
            return hostclass.class_of_guest(flavor.extra_specs, policy)
        except hostclass.UnknownClass as error:
            self._note(row, host, str(error))
            return hostclass.class_of_guest({}, policy)

    def _flavors(self, row: Any) -> _Flavors:
        flavors = _flavors(row.flavor) if row.flavor else _Flavors(None)
        if flavors.problem:
            self._note(row, row.host, 'its flavor cannot be read: '
                       f'{flavors.problem}')
        return flavors

    def _check_pins(self, row: Any, host: str, guest: model.Guest,
                    fit: model.Fit) -> None:
        pinned = sum(len(cell.pins) for cell in fit.cells)
        expected = sum(len(cell.dedicated_vcpus) for cell in guest.cells)
        if pinned != expected:
            self._note(row, host, f'{pinned} of its {expected} dedicated '
                       'vCPUs are pinned')

    def _note(self, row: Any, host: str, what: str) -> None:
        self._problems.append(f'server {row.uuid} on {host}: {what}')


def _read_requests(
    read: Callable[[Any], _Read], text: str | None,
) -> _Read | None:
    """What InstancePCIRequests say, None if they cannot be read."""
    try:
        return read(jsonutils.loads(text or '[]'))
    except _ODD:
        return None


def _latest(migrations: Sequence[Any]) -> dict[str, Any]:
    """The migration that counts on each host: that which changed last."""
    latest: dict[str, Any] = {}
    for migration in sorted(migrations, key=lambda row: (
            row.updated_at or row.created_at, row.id)):
        for host in (migration.source_compute, migration.dest_compute):
            if host:
                latest[host] = migration
    return latest


def _side(row: Any, migration: Any, host: str) -> str:
    """What an instance holds on a host besides where it is: 'old' or 'new'.

    :returns: '' for nothing
    """
    if migration.source_compute == migration.dest_compute:
        # Until finish_resize gives it the new flavor, that is what is held.
        is_before = row.instance_type_id == migration.old_instance_type_id
        return 'new' if is_before else 'old'
    if row.host == host:
        return ''
    return 'new' if migration.dest_compute == host else 'old'


def _topology(text: str | None, uuid: str) -> Any:
    """A nova.objects.InstanceNUMATopology, None if there is none."""
    if not text:
        return None
    primitive = jsonutils.loads(text)
    if 'nova_object.name' in primitive:
        return _migrated(
            objects.InstanceNUMATopology.obj_from_primitive(primitive))
    return _legacy(primitive, uuid)


def _migrated(numa_topology: Any) -> Any:
    """Brought up to date as nova does, but not written down."""
    if numa_topology is not None:
        numa_topology._migrate_legacy_dedicated_instance_cpuset(numa_topology)
    return numa_topology


def _legacy(primitive: Any, uuid: str) -> Any:
    """As InstanceNUMATopology._migrate_legacy_object, which writes."""
    from nova.virt import hardware
    return objects.InstanceNUMATopology(instance_uuid=uuid, cells=[
        objects.InstanceNUMACell(
            id=cell['id'], cpuset=hardware.parse_cpu_spec(cell['cpus']),
            pcpuset=set(), memory=cell['mem']['total'],
            pagesize=cell.get('pagesize'))
        for cell in primitive['cells']])


def _fit(numa_topology: Any) -> model.Fit:
    """Where it lies.

    :raises ValueError: for a CPU, or a vCPU, with a number that none has; a
        set with it would fill the memory
    """
    most = max(
        (*numa_topology.cpu_pinning, *numa_topology.cpuset_reserved,
         *(cpu for cell in numa_topology.cells for cpu in cell.total_cpus)),
        default=0)
    if most > cpuset.MAX_CPU_ID:
        raise ValueError(f'there is no CPU {most}')
    return model.Fit(tuple(model.CellFit(
        host_cell=cell.id,
        pins=tuple(sorted((cell.cpu_pinning or {}).items()))
        if 'cpu_pinning_raw' in cell else (),
        emulator_cpus=tuple(sorted(cell.cpuset_reserved or ()))
        if 'cpuset_reserved' in cell else (),
        page_size_kib=(cell.pagesize or None) if 'pagesize' in cell else None)
        for cell in numa_topology.cells))


@functools.lru_cache(maxsize=4096)
def _named_cpu_model(text: str) -> str:
    """The model in a nova.objects.VirtCPUModel, '' if it names none.

    Nova compares that with the CPUs of the target, and without one those of
    the source (LibvirtDriver.check_can_live_migrate_destination).
    """
    cpu = objects.VirtCPUModel.obj_from_primitive(jsonutils.loads(text))
    return cpu.model or ''


@functools.lru_cache(maxsize=4096)
def _flavors(text: str) -> _Flavors:
    """Those in instance_extra; most instances share theirs with others."""
    try:
        primitives = jsonutils.loads(text)
        current, old, new = (
            flavor(objects.Flavor.obj_from_primitive(primitives[key]))
            if key == 'cur' or primitives.get(key) else None
            for key in ('cur', 'old', 'new'))
        return _Flavors(current, old, new)
    except _ODD as error:
        return _Flavors(None, problem=_said(error))


def flavor(nova_flavor: Any) -> flavor_model.Flavor:
    """A nova.objects.Flavor as ours."""
    return flavor_model.Flavor(
        name=nova_flavor.name,
        id=nova_flavor.flavorid,
        vcpus=nova_flavor.vcpus,
        memory_mib=nova_flavor.memory_mb,
        disk_gib=nova_flavor.root_gb,
        ephemeral_gib=nova_flavor.ephemeral_gb,
        swap_mib=nova_flavor.swap,
        rxtx_factor=nova_flavor.rxtx_factor or 1.0,
        is_public=nova_flavor.is_public
        if 'is_public' in nova_flavor else True,
        extra_specs=dict(nova_flavor.extra_specs)
        if 'extra_specs' in nova_flavor and nova_flavor.extra_specs else {})


def _disk_gib(flavor: flavor_model.Flavor, row: Any) -> int:
    """On the host's own disks, as Placement is asked for it.

    A server without an image boots from a volume.
    """
    root = flavor.disk_gib if row.image_ref else 0
    return (root + flavor.ephemeral_gib
            + math.ceil(flavor.swap_mib / units.MIB_PER_GIB))
