# SPDX-License-Identifier: Apache-2.0
"""Databases of nova with hosts and guests in them, for tests.

The tables are nova's own models, what is JSON in them is what nova's objects
make of themselves.
"""

from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
import dataclasses
import datetime
import functools
import itertools
import json
import pathlib
import tempfile
from typing import Any
import uuid as uuid_lib

from nova.db.api import models as api_models
from nova.db.main import models
from nova import objects
from nova.objects import fields
import sqlalchemy as sa

objects.register_all()

#: When all of this is.
NOW = datetime.datetime(2026, 11, 21, 12, 0, 0)
CELL0 = '00000000-0000-0000-0000-000000000000'
CELL_MIB = 65536
_HOSTS_AT_ONCE = 100


@dataclasses.dataclass(frozen=True, slots=True)
class Shape:
    """A host: NUMA cells of so many cores of two threads each.

    With 2 cells of 8 cores the cores are (0, 16), (1, 17), ...
    """

    cells: int = 2
    cores: int = 8

    def cell_cores(self, cell: int) -> list[tuple[int, int]]:
        first = cell * self.cores
        return [(core, core + self.cells * self.cores)
                for core in range(first, first + self.cores)]

    def cell_cpus(self, cell: int) -> list[int]:
        return [cpu for core in self.cell_cores(cell) for cpu in core]


SHAPE = Shape()
#: Of which a large cloud is made here.
LARGE = Shape(cells=2, cores=22)


def uuid(name: str) -> str:
    """The same UUID for the same name."""
    return str(uuid_lib.uuid5(uuid_lib.NAMESPACE_OID, name))


class NovaDatabase:
    """The API database, cell0 and cells, as SQLite files or elsewhere.

    :param directory: for nova.conf, and for SQLite files
    :param urls: of databases by name: 'api', 'cell0' and each cell; without,
        SQLite files
    """

    def __init__(self, directory: pathlib.Path,
                 cells: Sequence[str] = ('north',),
                 urls: Mapping[str, str] | None = None) -> None:
        self.directory = directory
        self.cells = tuple(cells)
        names = ('api', 'cell0', *cells)
        self.urls = dict(urls or {
            name: f'sqlite:///{directory}/{name}.sqlite' for name in names})
        self._engines = {name: sa.create_engine(self.urls[name])
                         for name in names}
        self.conf = directory / 'nova.conf'
        self.write_conf()

    def close(self) -> None:
        for engine in self._engines.values():
            engine.dispose()

    def write_conf(self, text: str = '') -> None:
        self.conf.write_text(
            f'[api_database]\nconnection = {self.urls["api"]}\n{text}')

    def create_tables(self) -> None:
        """Make the tables."""
        for name, engine in self._engines.items():
            if engine.dialect.name == 'sqlite':
                pathlib.Path(engine.url.database).write_bytes(
                    _empty(name == 'api'))
            else:
                _base(name == 'api').metadata.create_all(engine)

    def add_mappings(self, **changes: Any) -> None:
        self.insert('api', api_models.CellMapping, [
            {'uuid': CELL0 if name == 'cell0' else uuid(name), 'name': name,
             'transport_url': 'none:///',
             'database_connection': self.urls[name], 'disabled': False,
             **changes}
            for name in ('cell0', *self.cells)])

    def insert(self, name: str, model: Any,
               rows: Iterable[Mapping[str, Any]]) -> None:
        """Add rows, all with the same keys."""
        with self._engines[name].begin() as connection:
            connection.execute(sa.insert(model.__table__), [*rows])

    def execute(self, name: str, statement: Any) -> Any:
        with self._engines[name].begin() as connection:
            result = connection.execute(statement)
            return result.all() if result.returns_rows else None

    def add_host(self, name: str, cell: str = 'north', *,
                 service: Mapping[str, Any] | None = None,
                 is_mapped: bool = True, **changes: Any) -> None:
        """A compute node and its service.

        :param service: changes to its columns; None for one that is up
        :param is_mapped: whether nova knows in which cell it is
        """
        self.insert(cell, models.ComputeNode, [node_row(name, **changes)])
        self.insert(cell, models.Service,
                    [service_row(name, **(service or {}))])
        if is_mapped:
            self.map_hosts([name], cell)

    def map_hosts(self, names: Iterable[str], cell: str = 'north') -> None:
        """Have hosts be in a cell."""
        (number,), = self.execute('api', sa.select(
            api_models.CellMapping.id).where(
                api_models.CellMapping.name == cell))
        self.insert('api', api_models.HostMapping, [
            {'cell_id': number, 'host': name} for name in names])

    def fill(self, hosts: int, guests: int, cell: str = 'north') -> None:
        """Add hosts of 88 CPUs, each with guests of 4 pinned vCPUs.

        :param guests: on each host, up to 22
        """
        extra_specs = {'hw__cpu_policy': 'dedicated'}
        flavors = flavors_json(flavor(**extra_specs))
        spots = [LARGE.cell_cpus(slot % 2)[slot // 2 * 4:][:4]
                 for slot in range(guests)]
        host_topology = topology_json(
            {0: itertools.chain.from_iterable(spots[::2]),
             1: itertools.chain.from_iterable(spots[1::2])}, shape=LARGE)
        for start in range(0, hosts, _HOSTS_AT_ONCE):
            names = [f'cmp-{number}' for number in range(
                start, min(start + _HOSTS_AT_ONCE, hosts))]
            own = [(name, f'{name}-{slot}', slot)
                   for name in names for slot in range(guests)]
            self.insert(cell, models.ComputeNode, [
                node_row(name, numa_topology=host_topology)
                for name in names])
            self.insert(cell, models.Service, map(service_row, names))
            self.map_hosts(names, cell)
            self.insert(cell, models.Instance, [
                instance_row(guest, host) for host, guest, _slot in own])
            self.insert(cell, models.InstanceExtra, [
                {'instance_uuid': uuid(guest), 'deleted': 0,
                 'flavor': flavors, 'migration_context': None,
                 'numa_topology': guest_json(guest, {slot % 2: spots[slot]})}
                for _host, guest, slot in own])

    def node_id(self, name: str, cell: str = 'north') -> int:
        (node_id, *_others), = self.execute(cell, sa.select(
            models.ComputeNode.id).where(models.ComputeNode.host == name))
        return node_id

    def add_guest(self, name: str, host: str | None, cell: str = 'north', *,
                  extra: Mapping[str, Any] | None = None,
                  **changes: Any) -> str:
        """An instance; returns its UUID.

        :param extra: columns of instance_extra
        """
        instance_uuid = uuid(name)
        self.insert(cell, models.Instance, [
            instance_row(name, host, **changes)])
        self.insert(cell, models.InstanceExtra, [
            {'instance_uuid': instance_uuid, 'deleted': 0,
             'flavor': flavors_json(flavor()), 'numa_topology': None,
             'migration_context': None, **(extra or {})}])
        return instance_uuid

    def move_guests(self, moves: Iterable[tuple[str, str]],
                    cell: str = 'north') -> None:
        """Have guests be on other hosts, in one transaction.

        :param moves: names of guests and of hosts
        """
        with self._engines[cell].begin() as connection:
            for guest, host in moves:
                connection.execute(sa.update(models.Instance).where(
                    models.Instance.uuid == uuid(guest)).values(
                        host=host,
                        updated_at=NOW + datetime.timedelta(seconds=5)))

    def add_migration(self, name: str, source: str, dest: str,
                      cell: str = 'north', **changes: Any) -> str:
        """A migration of an instance; returns its UUID."""
        migration_uuid = uuid(f'migration of {name} {changes}')
        self.insert(cell, models.Migration, [{
            'uuid': migration_uuid, 'instance_uuid': uuid(name), 'deleted': 0,
            'source_compute': source, 'source_node': source,
            'dest_compute': dest, 'dest_node': dest, 'status': 'migrating',
            'migration_type': 'migration', 'old_instance_type_id': 1,
            'new_instance_type_id': 1, 'created_at': NOW,
            'cross_cell_move': False, **changes}])
        return migration_uuid


def _base(is_api: bool) -> Any:
    """That of the models of the API database, or of a cell's."""
    return api_models.BASE if is_api else models.BASE


@functools.cache
def _empty(is_api: bool) -> bytes:
    """A SQLite file with nova's tables."""
    with tempfile.TemporaryDirectory() as directory:
        path = pathlib.Path(directory) / 'empty.sqlite'
        engine = sa.create_engine(f'sqlite:///{path}')
        _base(is_api).metadata.create_all(engine)
        engine.dispose()
        return path.read_bytes()


def node_row(name: str, **changes: Any) -> dict[str, Any]:
    return {
        'host': name, 'hypervisor_hostname': name, 'uuid': uuid(name),
        'hypervisor_type': 'QEMU', 'hypervisor_version': 7002000,
        'vcpus': 32, 'vcpus_used': 0,
        'memory_mb': 2 * CELL_MIB, 'memory_mb_used': 0, 'local_gb': 900,
        'local_gb_used': 0, 'cpu_info': '{}', 'deleted': 0, 'mapped': 1,
        'cpu_allocation_ratio': 4.0, 'ram_allocation_ratio': 1.5,
        'disk_allocation_ratio': 1.0, 'created_at': NOW,
        'numa_topology': topology_json(), **changes}


def service_row(name: str, **changes: Any) -> dict[str, Any]:
    return {
        'host': name, 'binary': 'nova-compute', 'topic': 'compute',
        'uuid': uuid(f'service {name}'), 'report_count': 1,
        'disabled': False, 'disabled_reason': None, 'forced_down': False,
        'last_seen_up': NOW, 'created_at': NOW, 'version': 68, 'deleted': 0,
        **changes}


def instance_row(name: str, host: str | None,
                 **changes: Any) -> dict[str, Any]:
    return {
        'uuid': uuid(name), 'display_name': name, 'host': host, 'node': host,
        'vm_state': 'active', 'task_state': None, 'vcpus': 4,
        'memory_mb': 8192, 'root_gb': 20, 'ephemeral_gb': 0,
        'image_ref': uuid('image'), 'instance_type_id': 1, 'deleted': 0,
        'user_id': 'user', 'project_id': 'project', 'hidden': False,
        'created_at': NOW, 'user_data': 'x' * 1000, **changes}


def flavor(name: str = 'd.4', vcpus: int = 4, memory_mib: int = 8192,
           **extra_specs: str) -> Any:
    """A nova.objects.Flavor; '__' stands for ':' in extra specs."""
    return objects.Flavor(
        id=1, name=name, flavorid=name, vcpus=vcpus, memory_mb=memory_mib,
        root_gb=20, ephemeral_gb=0, swap=0, rxtx_factor=1.0, vcpu_weight=0,
        disabled=False, is_public=True, description=None, extra_specs={
            key.replace('__', ':'): value
            for key, value in extra_specs.items()})


def flavors_json(current: Any, old: Any = None, new: Any = None) -> str:
    return json.dumps({
        key: value.obj_to_primitive() if value is not None else None
        for key, value in (('cur', current), ('old', old), ('new', new))})


def topology_json(pinned: Mapping[int, Iterable[int]] | None = None,
                  is_dedicated: bool = True, shape: Shape = SHAPE) -> str:
    """The topology of a host.

    :param pinned: CPUs that nova has down as pinned to, by cell
    """
    pinned = pinned or {}
    return objects.NUMATopology(cells=[
        objects.NUMACell(
            id=cell,
            cpuset=set() if is_dedicated else set(shape.cell_cpus(cell)),
            pcpuset=set(shape.cell_cpus(cell)) if is_dedicated else set(),
            memory=CELL_MIB, cpu_usage=0, memory_usage=0,
            pinned_cpus=set(pinned.get(cell, ())),
            siblings=[set(core) for core in shape.cell_cores(cell)],
            mempages=[
                objects.NUMAPagesTopology(
                    size_kb=4, total=CELL_MIB * 128, used=0, reserved=0),
                objects.NUMAPagesTopology(
                    size_kb=1048576, total=32, used=3, reserved=1)],
            network_metadata=objects.NetworkMetadata(
                physnets={'east'} if cell else set(), tunneled=not cell),
            socket=cell)
        for cell in range(shape.cells)])._to_json()


def guest_topology(name: str, cells: Mapping[int, Sequence[int]],
                   **changes: Any) -> Any:
    """A nova.objects.InstanceNUMATopology with one vCPU for each CPU.

    :param cells: host CPUs by host cell
    """
    vcpus = iter(range(sum(map(len, cells.values()))))
    made = []
    for cell, own in cells.items():
        pins = {next(vcpus): cpu for cpu in own}
        made.append(objects.InstanceNUMACell(**{
            'id': cell, 'cpuset': set(), 'pcpuset': set(pins),
            'memory': 8192 // len(cells), 'pagesize': None,
            'cpu_pinning_raw': {str(vcpu): cpu for vcpu, cpu in pins.items()},
            'cpuset_reserved': None,
            'cpu_policy': fields.CPUAllocationPolicy.DEDICATED,
            'cpu_thread_policy': None, **changes}))
    return objects.InstanceNUMATopology(
        instance_uuid=uuid(name), cells=made, emulator_threads_policy=None)


def guest_json(name: str, cells: Mapping[int, Sequence[int]],
               **changes: Any) -> str:
    return guest_topology(name, cells, **changes)._to_json()


def context_json(name: str, migration: int, old: Any, new: Any) -> str:
    """A migration context.

    :param migration: its number
    :param old: a nova.objects.InstanceNUMATopology, as is new
    """
    return json.dumps(objects.MigrationContext(
        instance_uuid=uuid(name), migration_id=migration,
        old_numa_topology=old, new_numa_topology=new, old_pci_devices=None,
        new_pci_devices=None, old_pci_requests=None, new_pci_requests=None,
        old_resources=None, new_resources=None).obj_to_primitive())
