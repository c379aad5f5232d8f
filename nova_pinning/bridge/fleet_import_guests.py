#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

"""Guests of a snapshot, from the instances of a cell.

What holds room where is what nova's resource tracker counts
(nova.compute.resource_tracker, _update_usage_from_instances and
_update_usage_from_migrations): every instance on the host that it is on, and
an instance on its way on the other host as well. Where a server is resized on
its own host, what it has and what it gets are both held; nova's tracker loses
the former for the moment before the server has its new flavor.
"""

from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
import dataclasses
import functools
import math
from typing import Any

from nova.compute import resource_tracker
from nova.compute import vm_states
from nova.db.main import models
from nova import objects
from oslo_serialization import jsonutils
import sqlalchemy as sa

from nova_pinning.bridge import fleet_import_hosts
from nova_pinning.bridge import nova_database
from nova_pinning.bridge import topology
from nova_pinning import cpuset
from nova_pinning.flavors import guest_class as flavor_class
from nova_pinning.flavors import model as flavor_model
from nova_pinning.fleet import model as fleet_model
from nova_pinning import model
from nova_pinning.model import hostclass

_INSTANCE = models.Instance
_EXTRA = models.InstanceExtra
_MIGRATION = models.Migration
#: Migrations that nova no longer counts
#: (migration_get_in_progress_and_error_by_host_and_node).
_ENDED = ('confirmed', 'reverted', 'failed', 'completed', 'cancelled', 'done')
_MOVABLE = (vm_states.ACTIVE, vm_states.STOPPED, vm_states.PAUSED)
_MIB_PER_GIB = 1024
_ODD = fleet_import_hosts.ODD_JSON
_said = fleet_import_hosts.said

#: The devices that a guest has on a host, by host and UUID.
Devices = Mapping[tuple[str, str], tuple[fleet_model.PciUse, ...]]


@dataclasses.dataclass(frozen=True, slots=True)
class Page:
    """What one page of instances comes to.

    :param read: instances in it, whether they hold room or not
    :param problems: sentences, each with the instance it is about
    :param homeless: UUIDs of those that are being built, on no host yet
    """

    read: int
    guests: tuple[fleet_model.FleetGuest, ...]
    problems: tuple[str, ...]
    homeless: tuple[str, ...]


def count(cell: nova_database.Cell) -> int:
    """How many instances a cell has, for a progress bar."""
    found: int = nova_database.select(cell.context, sa.select(
        sa.func.count(_INSTANCE.id)).where(_INSTANCE.deleted == 0))[0][0]
    return found


def pages(cell: nova_database.Cell, devices: Devices,
          rows: int = nova_database.PAGE_ROWS) -> Iterator[Page]:
    """The guests of a cell, page by page.

    :param rows: of a page
    """
    reader = _Reader(devices)
    for page in nova_database.pages(
            cell.context, _query(), _INSTANCE.id, rows):
        yield reader.page(page, _migrations(cell, page))


def _query() -> Any:
    return sa.select(
        _INSTANCE.id, _INSTANCE.uuid, _INSTANCE.host, _INSTANCE.display_name,
        _INSTANCE.vm_state, _INSTANCE.task_state, _INSTANCE.vcpus,
        _INSTANCE.memory_mb, _INSTANCE.root_gb, _INSTANCE.ephemeral_gb,
        _INSTANCE.image_ref, _INSTANCE.instance_type_id,
        _EXTRA.numa_topology, _EXTRA.flavor, _EXTRA.migration_context,
    ).outerjoin(_EXTRA, sa.and_(
        _EXTRA.instance_uuid == _INSTANCE.uuid, _EXTRA.deleted == 0,
    )).where(_INSTANCE.deleted == 0)


def _migrations(cell: nova_database.Cell,
                page: Sequence[Any]) -> dict[str, list[Any]]:
    """The migrations that count, by instance."""
    uuids = [row.uuid for row in page]
    found: dict[str, list[Any]] = {}
    for row in nova_database.select(cell.context, sa.select(
            _MIGRATION.id, _MIGRATION.uuid, _MIGRATION.instance_uuid,
            _MIGRATION.source_compute, _MIGRATION.dest_compute,
            _MIGRATION.migration_type, _MIGRATION.old_instance_type_id,
            _MIGRATION.updated_at, _MIGRATION.created_at,
    ).where(_MIGRATION.instance_uuid.in_(uuids), _MIGRATION.deleted == 0,
            _MIGRATION.status.not_in(_ENDED))):
        found.setdefault(row.instance_uuid, []).append(row)
    return found


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


class _Reader:
    """Makes guests of rows; what repeats is kept once."""

    def __init__(self, devices: Devices) -> None:
        self._devices = devices
        self._topologies: dict[model.Guest, model.Guest] = {}
        self._problems: list[str] = []

    def page(self, rows: Sequence[Any],
             migrations: Mapping[str, list[Any]]) -> Page:
        self._problems = []
        guests: list[fleet_model.FleetGuest] = []
        homeless = []
        for row in rows:
            own = migrations.get(row.uuid, ())
            context = self._context(row) if own else None
            if row.host and not vm_states.allow_resource_removal(
                    row.vm_state, row.task_state):
                guests.append(self._guest(row, own, context))
            elif not row.host and row.vm_state == vm_states.BUILDING:
                homeless.append(row.uuid)
            if _is_moving(row):
                guests += self._held(row, own, context)
        return Page(len(rows), tuple(guests), tuple(self._problems),
                    tuple(homeless))

    def _guest(self, row: Any, migrations: Sequence[Any],
               context: Any) -> fleet_model.FleetGuest:
        """An instance where it is."""
        wanted = None
        try:
            wanted = _topology(row.numa_topology, row.uuid)
        except _ODD as error:
            self._note(row, row.host, 'its NUMA topology cannot be read, so '
                       f'it counts as a guest without one: {_said(error)}')
        if context is not None and any(
                one.dest_compute == row.host != one.source_compute
                for one in migrations):
            # It has its new host already, but not yet its new topology.
            wanted = _migrated(context.new_numa_topology)
        return self._made(
            row, row.uuid, row.host, self._flavors(row).current, wanted,
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
              context: Any) -> Iterator[fleet_model.FleetGuest]:
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
            wanted = getattr(context, f'{side}_numa_topology', None)
            yield self._made(
                row, migration.uuid or f'{row.uuid}@{host}', host, flavor,
                _migrated(wanted), devices=() if host == row.host
                else self._devices.get((host, row.uuid), ()),
                is_movable=False)

    def _made(self, row: Any, uuid: str, host: str,
              flavor: flavor_model.Flavor | None, wanted: Any,
              **more: Any) -> fleet_model.FleetGuest:
        """A guest with a flavor and a nova.objects.InstanceNUMATopology."""
        guest = fit = None
        if wanted is not None:
            try:
                guest = topology.guest_from_nova(wanted)
                guest = self._topologies.setdefault(guest, guest)
                fit = _fit(wanted)
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
        return fleet_model.FleetGuest(
            uuid=uuid, host=host, vcpus=flavor.vcpus,
            memory_mib=flavor.memory_mib,
            guest_class=self._class(row, host, flavor, guest),
            name=row.display_name or '', flavor=flavor.name,
            disk_gib=_disk_gib(flavor, row), topology=guest, fit=fit, **more)

    def _class(self, row: Any, host: str, flavor: flavor_model.Flavor,
               guest: model.Guest | None) -> hostclass.HostClass:
        policy = guest.cpu_policy if guest else None
        try:
            return flavor_class.guest_class(flavor.extra_specs, None, policy)
        except hostclass.UnknownClass as error:
            self._note(row, host, str(error))
            return flavor_class.guest_class({}, None, policy)

    def _flavors(self, row: Any) -> _Flavors:
        found = _flavors(row.flavor) if row.flavor else _Flavors(None)
        if found.problem:
            self._note(row, row.host, 'its flavor cannot be read: '
                       f'{found.problem}')
        return found

    def _check_pins(self, row: Any, host: str, guest: model.Guest,
                    fit: model.Fit) -> None:
        pinned = sum(len(cell.pins) for cell in fit.cells)
        wanted = sum(len(cell.dedicated_vcpus) for cell in guest.cells)
        if pinned != wanted:
            self._note(row, host, f'{pinned} of its {wanted} dedicated vCPUs '
                       'are pinned')

    def _note(self, row: Any, host: str, what: str) -> None:
        self._problems.append(f'server {row.uuid} on {host}: {what}')


def _latest(migrations: Sequence[Any]) -> dict[str, Any]:
    """The migration that counts on each host: that which changed last."""
    found: dict[str, Any] = {}
    for one in sorted(migrations, key=lambda one: (
            one.updated_at or one.created_at, one.id)):
        for host in (one.source_compute, one.dest_compute):
            if host:
                found[host] = one
    return found


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


def _migrated(wanted: Any) -> Any:
    """Brought up to date as nova does, but not written down."""
    if wanted is not None:
        wanted._migrate_legacy_dedicated_instance_cpuset(wanted)
    return wanted


def _legacy(primitive: Any, uuid: str) -> Any:
    """As InstanceNUMATopology._migrate_legacy_object, which writes."""
    from nova.virt import hardware
    return objects.InstanceNUMATopology(instance_uuid=uuid, cells=[
        objects.InstanceNUMACell(
            id=cell['id'], cpuset=hardware.parse_cpu_spec(cell['cpus']),
            pcpuset=set(), memory=cell['mem']['total'],
            pagesize=cell.get('pagesize'))
        for cell in primitive['cells']])


def _fit(wanted: Any) -> model.Fit:
    """Where it lies.

    :raises ValueError: for a CPU, or a vCPU, with a number that none has; a
        set with it would fill the memory
    """
    most = max((*wanted.cpu_pinning, *wanted.cpuset_reserved,
                *(cpu for cell in wanted.cells for cpu in cell.total_cpus)),
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
        for cell in wanted.cells))


@functools.lru_cache(maxsize=4096)
def _flavors(text: str) -> _Flavors:
    """Those in instance_extra; most instances share theirs with others."""
    try:
        found = jsonutils.loads(text)
        current, old, new = (
            flavor(objects.Flavor.obj_from_primitive(found[key]))
            if key == 'cur' or found.get(key) else None
            for key in ('cur', 'old', 'new'))
        return _Flavors(current, old, new)
    except _ODD as error:
        return _Flavors(None, problem=_said(error))


def flavor(found: Any) -> flavor_model.Flavor:
    """A nova.objects.Flavor as ours."""
    return flavor_model.Flavor(
        name=found.name, id=found.flavorid, vcpus=found.vcpus,
        memory_mib=found.memory_mb, disk_gib=found.root_gb,
        ephemeral_gib=found.ephemeral_gb, swap_mib=found.swap,
        rxtx_factor=found.rxtx_factor or 1.0,
        is_public=found.is_public if 'is_public' in found else True,
        extra_specs=dict(found.extra_specs)
        if 'extra_specs' in found and found.extra_specs else {})


def _disk_gib(found: flavor_model.Flavor, row: Any) -> int:
    """On the host's own disks, as Placement is asked for it.

    A server without an image boots from a volume.
    """
    root = found.disk_gib if row.image_ref else 0
    return (root + found.ephemeral_gib
            + math.ceil(found.swap_mib / _MIB_PER_GIB))
