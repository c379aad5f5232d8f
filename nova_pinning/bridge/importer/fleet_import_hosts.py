# SPDX-License-Identifier: Apache-2.0
"""Hosts of a snapshot, from the compute nodes and services of a cell."""

from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
import dataclasses
import datetime
from typing import Any

from nova.db.api import models as api_models
from nova.db.main import models
from nova import exception
from nova import objects
from oslo_config import cfg
from oslo_serialization import jsonutils
from oslo_versionedobjects import exception as ovo_exception
import sqlalchemy as sa

from nova_pinning.admission import offered_host
from nova_pinning.bridge.importer import nova_database
from nova_pinning.bridge import topology
from nova_pinning import cpuset
from nova_pinning.fleet import cpu_models
from nova_pinning import model
from nova_pinning.model import hostclass
from nova_pinning.model import nova_release

_NODE = models.ComputeNode
_SERVICE = models.Service
_CELL = api_models.CellMapping
_MAPPING = api_models.HostMapping
#: What nova's objects raise when they are made of odd JSON. What is odd about
#: one row must not end the import.
ODD_JSON = (
    exception.NovaException, ovo_exception.VersionedObjectsException,
    topology.BrokenTopology, ArithmeticError, AttributeError, LookupError,
    NotImplementedError, TypeError, ValueError)
#: A node's topology takes 10 KiB and more.
_PAGE_ROWS = 500


class BrokenRow(Exception):
    """What a row has in JSON cannot be read."""


def said(error: Exception) -> str:
    """What is odd, in a line."""
    text = ' '.join(str(error).split()).rstrip('.')
    # A missing key is all that a KeyError says.
    return (f'{type(error).__name__}: {text}'
            if isinstance(error, LookupError) or not text else text)


@dataclasses.dataclass(frozen=True, slots=True)
class ComputeNode:
    """A compute node, as far as a snapshot is concerned.

    :param id: nova's number, unique in the cell
    :param name: of the hypervisor
    :param provider: UUID, the same as that of its resource provider
    :param host: without class, traits, aggregates and devices
    :param taken_cpus: that nova has down as pinned to, in all cells
    :param problem: what is odd about it, '' if nothing is
    :param pool_providers: UUID of the provider that each of the host's PCI
        pools is counted by, '' for none; () if none is counted
    """

    id: int
    name: str
    provider: str
    host: offered_host.OfferedHost
    taken_cpus: cpuset.CpuSet
    problem: str = ''
    pool_providers: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class ComputeService:
    """A nova-compute.

    :param disabled_reason: why nova-scheduler does not choose the host, '' if
        it may
    :param version: the service version that it reported when it started
    """

    disabled_reason: str
    version: int


def named(cell: nova_database.CellDatabase, conf: cfg.ConfigOpts,
          ids: Sequence[int]) -> Iterator[ComputeNode]:
    """Some compute nodes, but bare metal ones, without their services.

    :param conf: for what nova takes where a node has no allocation ratio
    :param ids: nova's numbers; those that are gone are left out
    """
    for start in range(0, len(ids), _PAGE_ROWS):
        for row in nova_database.select(cell.context, _query().where(
                _NODE.id.in_(ids[start:start + _PAGE_ROWS]))):
            if row.host and not hostclass.is_bare_metal(row.hypervisor_type):
                yield _node(row, conf, cell)


def mapped_hosts(database: nova_database.NovaDatabases) -> dict[str, str]:
    """The UUID of the cell that each host is mapped to."""
    return dict(map(tuple, nova_database.select_api(
        database.context, sa.select(_MAPPING.host, _CELL.uuid).join(
            _CELL, _CELL.id == _MAPPING.cell_id))))


def marks(cell: nova_database.CellDatabase,
          rows: int) -> Iterator[tuple[int, datetime.datetime]]:
    """Number and time of last write of all compute nodes of a cell.

    :param rows: of a page
    """
    query = sa.select(_NODE.id, _NODE.created_at, _NODE.updated_at).where(
        _NODE.deleted == 0)
    for page in nova_database.pages(cell.context, query, _NODE.id, rows):
        for number, created, updated in page:
            yield number, updated or created or datetime.datetime.min


def _query() -> Any:
    return sa.select(
        _NODE.id, _NODE.host, _NODE.hypervisor_hostname, _NODE.uuid,
        _NODE.hypervisor_type, _NODE.local_gb, _NODE.cpu_allocation_ratio,
        _NODE.ram_allocation_ratio, _NODE.disk_allocation_ratio,
        _NODE.numa_topology, _NODE.cpu_info, _NODE.hypervisor_version,
    ).where(_NODE.deleted == 0)


def compute_services(
    cell: nova_database.CellDatabase, now: datetime.datetime,
    down_seconds: int,
) -> dict[str, ComputeService]:
    """The compute services of a cell, by host.

    :param now: UTC, without a time zone, as nova's database has it
    :param down_seconds: how long a silent service counts as up
    """
    query = sa.select(
        _SERVICE.id, _SERVICE.host, _SERVICE.disabled,
        _SERVICE.disabled_reason, _SERVICE.forced_down,
        _SERVICE.last_seen_up, _SERVICE.created_at, _SERVICE.version,
    ).where(_SERVICE.deleted == 0, _SERVICE.binary == 'nova-compute')
    return {
        row.host: ComputeService(
            _disabled_reason(row, now, down_seconds), row.version or 0)
        for page in nova_database.pages(cell.context, query, _SERVICE.id)
        for row in page}


def unknown_releases(nodes: Iterable[ComputeNode],
                     services: Mapping[str, ComputeService]) -> Iterator[str]:
    """What is to be said of hosts whose service does not tell the release.

    :param services: from :func:`compute_services`
    """
    hosts: dict[int, list[str]] = {}
    for node in nodes:
        service = services.get(node.host.name)
        if service and service.version and _release_name(service) is None:
            hosts.setdefault(service.version, []).append(node.host.name)
    newest = nova_release.NEWEST
    for version, names in sorted(hosts.items()):
        releases = nova_release.of_service_version(version)
        if releases:
            is_of = ' or '.join(map(str, releases))
            beside = ', as both report'
        elif version > newest.service_version:
            is_of = (f'a newer nova than {newest}, the newest that is known '
                     'here')
            beside = f', not {newest.service_version}'
        else:
            is_of = (f'a nova from before {nova_release.RELEASES[0]}, the '
                     'oldest that is known here')
            beside = ''
        runs = (f'{len(names):,} hosts, such as {names[0]}, run'
                if len(names) > 1 else f'host {names[0]} runs')
        yield (f'{runs} {is_of} (service version {version}{beside}), so the '
               'snapshot names no release for '
               f'{"them" if len(names) > 1 else "it"}')


def _release_name(service: ComputeService) -> str | None:
    """Of the release that it runs, None if there is not just one."""
    releases = nova_release.of_service_version(service.version)
    return releases[0].name if len(releases) == 1 else None


def _disabled_reason(row: Any, now: datetime.datetime,
                     down_seconds: int) -> str:
    """As ComputeFilter and nova.servicegroup.drivers.db see it."""
    if row.disabled:
        return row.disabled_reason or 'disabled'
    if row.forced_down:
        return 'nova-compute was forced down'
    seen = row.last_seen_up or row.created_at
    if seen is None or abs((now - seen).total_seconds()) > down_seconds:
        since = f' since {seen:%Y-%m-%dT%H:%M:%SZ}' if seen else ''
        return f'nova-compute is down{since}'
    return ''


def with_service(
    node: ComputeNode, cell: nova_database.CellDatabase,
    services: Mapping[str, ComputeService], mapped: Mapping[str, str],
) -> ComputeNode:
    """A node with what its service says of it; itself if it has that.

    Who is sent to a host that is not mapped to its cell, nova puts into cell0
    (ComputeTaskManager.schedule_and_build_instances).

    :param mapped: the UUID of the cell of each host
    """
    host = node.host
    service = services.get(host.name)
    reason = (service.disabled_reason if service
              else 'it has no compute service')
    if mapped.get(host.name) != cell.uuid:
        reason = reason or (
            f'it is not mapped to {cell} (nova-manage cell_v2 discover_hosts)')
    if not cell.is_enabled:
        reason = reason or f'{cell} is disabled'
    name = _release_name(service) if service else None
    if (host.disabled_reason, host.nova_release) == (reason, name) and (
            host.is_enabled is not bool(reason)):
        return node
    return dataclasses.replace(node, host=dataclasses.replace(
        host, is_enabled=not reason, disabled_reason=reason,
        nova_release=name))


def _node(row: Any, conf: cfg.ConfigOpts,
          cell: nova_database.CellDatabase) -> ComputeNode:
    """A node without what its service says of it."""
    problem = ''
    cells: tuple[model.HostCell, ...] = ()
    taken = cpuset.CpuSet()
    try:
        cells, taken = _cells(row.numa_topology)
    except BrokenRow as error:
        problem = f'its NUMA topology cannot be read: {error}'
    cpu_model = None
    try:
        cpu_model = _cpu_model(row.cpu_info)
    except BrokenRow as error:
        problem = problem or f'its cpu_info cannot be read: {error}'
    host = offered_host.OfferedHost(
        name=row.host,
        cells=cells,
        cpu_allocation_ratio=_ratio(row, conf, 'cpu'),
        ram_allocation_ratio=_ratio(row, conf, 'ram'),
        disk_allocation_ratio=_ratio(row, conf, 'disk'),
        reserved_memory_mib=conf.reserved_host_memory_mb,
        disk_gib=row.local_gb,
        nova_cell=cell.name or cell.uuid,
        cpu_model=cpu_model,
        hypervisor_version=row.hypervisor_version or None)
    return ComputeNode(row.id, row.hypervisor_hostname or '', row.uuid or '',
                       host, taken, problem)


def _ratio(row: Any, conf: cfg.ConfigOpts, resource: str) -> float:
    """As ComputeNode._from_db_object, which would write it down as well."""
    name = f'{resource}_allocation_ratio'
    ratio: float = getattr(row, name) or conf[name] or conf[f'initial_{name}']
    return ratio


def _cpu_model(text: str | None) -> offered_host.HostCpuModel | None:
    """What nova-compute wrote of its CPUs (LibvirtDriver._get_cpu_info).

    :param text: JSON
    :returns: None if there is no model in it, as on ARM
    """
    if not text:
        return None
    try:
        return cpu_models.of_cpu_info(jsonutils.loads(text))
    except ODD_JSON as error:
        raise BrokenRow(said(error)) from error


def _cells(
    text: str | None,
) -> tuple[tuple[model.HostCell, ...], cpuset.CpuSet]:
    """The cells with nothing used, and the CPUs that are pinned to.

    :param text: JSON, also as nova before Liberty wrote it; None if there is
        no topology
    """
    if not text:
        return (), cpuset.CpuSet()
    try:
        primitive = jsonutils.loads(text)
        if 'nova_object.name' not in primitive:
            primitive = jsonutils.loads(
                objects.NUMATopology.from_legacy_object(text))
        cells = objects.NUMATopology.obj_from_primitive(primitive).cells
        if len({cell.id for cell in cells}) < len(cells):
            raise ValueError('two cells have one id')
        return (tuple(map(_cell, cells)), _cpus(
            cpu for cell in cells for cpu in cell.pinned_cpus))
    except ODD_JSON as error:
        raise BrokenRow(said(error)) from error


def _cell(cell: Any) -> model.HostCell:
    if 'pcpuset' not in cell:
        # Before NUMACell 1.4 pinned and floating vCPUs had the same CPUs.
        cell.pcpuset = cell.cpuset
    view = topology.NovaCell(cell)
    return model.HostCell(
        id=cell.id,
        shared_cpus=_cpus(cell.cpuset),
        dedicated_cpus=_cpus(cell.pcpuset),
        pinned_cpus=cpuset.CpuSet(),
        cores=tuple(_in_order(core, cell.pcpuset) for core in cell.siblings),
        memory_mib=cell.memory,
        pages=tuple(pool._replace(used=0) for pool in view.pages),
        physnets=view.physnets,
        tunneled=view.tunneled,
        socket=cell.socket if 'socket' in cell else None)


def _in_order(core: set[int], dedicated: set[int]) -> tuple[int, ...]:
    """The CPUs of a core as nova takes them.

    It goes through a set of those that are free (``free_siblings`` in
    nova.objects.numa), whose order in Python depends on how it was made.
    """
    return *(core & dedicated), *sorted(core - dedicated)


def _cpus(ids: Iterable[int]) -> cpuset.CpuSet:
    """A set of CPUs.

    :raises ValueError: if there is a number that no host's CPU has; the set
        would fill the memory
    """
    known = set(ids)
    if known and max(known) > cpuset.MAX_CPU_ID:
        raise ValueError(f'there is no CPU {max(known)}')
    return cpuset.CpuSet(known)
