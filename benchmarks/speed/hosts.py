# SPDX-License-Identifier: Apache-2.0
"""Hosts as nova-scheduler sees them, with guests on them.

A :class:`Layout` is a kind of host, always with two sockets; :func:`fill` and
:func:`fill_cells` have guests use it. The result is kept as the JSON text
that nova stores in its database, so that :func:`host_state` can make any
number of HostStates whose objects no filter has seen before.
"""

# nova.objects has its classes only once they are registered.
from __future__ import annotations

from collections.abc import Container
from collections.abc import Iterable
import dataclasses
import json
import random
import typing as ty
import uuid

from nova import objects
from nova.objects import service
from nova.scheduler import host_manager

from benchmarks import requests
from nova_pinning.bridge import nova_objects
from nova_pinning import cpuset
from nova_pinning.fleet import shapes
from nova_pinning import model
from nova_pinning import units

# Sizes of the guests that fill a host, with how often each is drawn.
GUEST_SIZES = {1: 2, 2: 4, 4: 4, 8: 3, 16: 1}
MIB_PER_VCPU = 2048

# What is left of a cell's memory in small pages where the rest is huge ones.
_SMALL_PAGES_MIB = 8192
HUGE_PAGE_KIB = 2048
_SHARED_RATIO = 3.0

# A name that makes UUIDs the same in every process of a run.
_NAMESPACE = uuid.UUID('6b0f8f0e-8d0a-4f0f-9a55-3c1f6f1b7a01')


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Layout(shapes.HostTemplate):
    """A kind of host, of which all CPUs are of one class."""

    is_shared: bool = False

    @property
    def cpu_ratio(self) -> float:
        """CPU allocation ratio."""
        return _SHARED_RATIO if self.is_shared else 1.0

    @property
    def guest_memory_mib(self) -> int:
        """Memory of a cell that guests may have."""
        return self.huge_mib or self.memory_mib


@dataclasses.dataclass(frozen=True, slots=True)
class Record:
    """What the database holds of one host.

    :ivar free: CPUs of each cell that guests do not hold
    """

    name: str
    layout: Layout
    numa_topology: str | None
    free: tuple[int, ...]
    sold: int
    pci_stats: str | None = None

    @property
    def uuid(self) -> str:
        return str(uuid.uuid5(_NAMESPACE, self.name))


def layout_of(cells: int, cores: int, gib: int, huge_pages: bool = False,
              **more: ty.Any) -> Layout:
    """A kind of host whose cores have two threads.

    :param cores: of a cell
    :param gib: memory of a cell
    :param huge_pages: that nearly all of it is in pages of 2 MiB, which the
        guests on the host use
    """
    memory_mib = gib * units.MIB_PER_GIB
    return Layout(
        name='', description='', mix='', memory_per_vcpu_mib=MIB_PER_VCPU,
        sockets=2, cells_per_socket=cells // 2, cores=cores, l3_cores=cores,
        memory_mib=memory_mib, page_size_kib=HUGE_PAGE_KIB,
        huge_mib=memory_mib - _SMALL_PAGES_MIB if huge_pages else 0, **more)


TWO_SOCKETS = layout_of(2, 20, 384, kept_cores={0: 2})
TWO_SOCKETS_SHARED = layout_of(2, 20, 384, is_shared=True)
FOUR_CELLS = layout_of(4, 16, 384)
EIGHT_CELLS = layout_of(8, 16, 192)
SIXTEEN_CELLS = layout_of(16, 8, 96)
SIXTEEN_CELLS_HUGE = layout_of(16, 8, 96, True)
TWENTY_FOUR_CELLS = layout_of(24, 8, 64)
THIRTY_TWO_CELLS = layout_of(32, 8, 48)


def _sold(layout: Layout) -> list[int]:
    """How many vCPUs guests may have in each cell."""
    return [int((len(cell.shared_cpus) + len(cell.dedicated_cpus))
                * layout.cpu_ratio) for cell in layout.cells(layout.is_shared)]


def fill(layout: Layout, used: float, seed: str) -> Record:
    """Fill a host to a share of its CPUs.

    Guests of mixed sizes go to cells at random, until the next would be too
    much, so that no cell is like another.
    """
    draws = random.Random(seed)
    free = _sold(layout)
    left = int(sum(free) * used)
    while True:
        size, = draws.choices(list(GUEST_SIZES), list(GUEST_SIZES.values()))
        fitting = [cell for cell, room in enumerate(free) if room >= size]
        if size > left or not fitting:
            return fill_cells(layout, free, seed)
        free[draws.choice(fitting)] -= size
        left -= size


def fill_cells(layout: Layout, free: ty.Sequence[int], seed: str,
               no_memory: Container[int] = ()) -> Record:
    """Fill each cell until it has just so many free CPUs.

    What guests hold of it are whole cores, chosen at random, but for one.

    :param no_memory: cells of which guests have all memory
    """
    draws = random.Random(seed)
    sold = _sold(layout)
    cells = []
    for cell, its, room in zip(layout.cells(layout.is_shared), sold, free):
        memory_mib = (layout.guest_memory_mib if cell.id in no_memory
                      else (its - room) * MIB_PER_VCPU)
        cores = draws.sample(cell.cores, len(cell.cores))
        cells.append(dataclasses.replace(
            cell, memory_used_mib=memory_mib,
            shared_used=its - room if layout.is_shared else 0,
            pinned_cpus=cpuset.CpuSet(() if layout.is_shared else [
                cpu for core in cores for cpu in core][:its - room]),
            pages=tuple(pool._replace(
                used=memory_mib * units.KIB_PER_MIB // pool.size_kib)
                if pool.size_kib == HUGE_PAGE_KIB else pool
                for pool in cell.pages)))
    topology = nova_objects.host_topology(model.Host(tuple(cells)))
    return Record(seed, layout, json.dumps(topology.obj_to_primitive()),
                  tuple(free), sum(sold))


def with_devices(
    record: Record, devices: Iterable[tuple[str, int, int]],
) -> Record:
    """Return the host with PCI devices that nobody has yet.

    :param devices: a product id, the cell that the devices are near, and how
        many they are
    """
    pools = objects.PciDevicePoolList(objects=[
        objects.PciDevicePool(
            vendor_id=requests.VENDOR_ID, product_id=product, numa_node=cell,
            count=count, tags={'dev_type': 'type-PCI'})
        for product, cell, count in devices])
    return dataclasses.replace(
        record, pci_stats=json.dumps(pools.obj_to_primitive()))


def row(record: Record) -> dict[str, ty.Any]:
    """Return the host as a row of nova's table of compute nodes."""
    layout = record.layout
    memory_mib = layout.memory_mib * layout.cell_count
    return dict.fromkeys(objects.ComputeNode.fields) | {
        'id': 1, 'uuid': record.uuid, 'host': record.name,
        'hypervisor_hostname': record.name, 'mapped': 1,
        'memory_mb': memory_mib, 'memory_mb_used': 0,
        'free_ram_mb': memory_mib // 2,
        'local_gb': 4096, 'local_gb_used': 1024, 'free_disk_gb': 3072,
        'disk_available_least': 3072, 'vcpus': layout.cpus,
        'vcpus_used': layout.cpus // 2, 'numa_topology': record.numa_topology,
        'pci_stats': record.pci_stats, 'host_ip': '192.0.2.1',
        'hypervisor_type': 'QEMU', 'hypervisor_version': 9000000,
        'cpu_info': '{}', 'metrics': '[]',
        'supported_instances': '[["x86_64", "kvm", "hvm"]]',
        'stats': '{"num_instances": "12", "io_workload": "0"}',
        'cpu_allocation_ratio': layout.cpu_ratio,
        'ram_allocation_ratio': 1.0, 'disk_allocation_ratio': 1.0}


def compute_node(node: dict[str, ty.Any]) -> objects.ComputeNode:
    """Return what nova makes of such a row."""
    return objects.ComputeNode._from_db_object(
        None, objects.ComputeNode(), node)


def host_state(record: Record,
               candidates: ty.Sequence[dict[str, ty.Any]] = (),
               ) -> host_manager.HostState:
    """Return a new HostState, made as the host manager makes it."""
    state = host_manager.HostState(
        record.name, record.name, objects.CellMapping.CELL0_UUID)
    state.update(
        compute=compute_node(row(record)), aggregates=[], inst_dict={},
        service={'version': service.SERVICE_VERSION})
    state.allocation_candidates = [
        json.loads(json.dumps(candidate)) for candidate in candidates]
    return state
