# SPDX-License-Identifier: Apache-2.0
"""Hosts as nova-scheduler sees them, filled with guests by nova's own rules.

A :class:`Layout` describes the hardware, always with two sockets;
:func:`fill` and :func:`fill_cells` put guests on it with the functions that
nova-compute uses for its own accounting. The result is kept as the JSON text
that nova stores in its database, so that :func:`host_state` can make any
number of HostStates whose objects no filter has seen before.
"""

# nova.objects has its classes only once they are registered.
from __future__ import annotations

from collections.abc import Iterable
import dataclasses
import functools
import json
import random
import typing as ty
import uuid

from nova import objects
from nova.objects import service
from nova.scheduler import host_manager
from nova.virt import hardware

from benchmarks import requests
from nova_pinning import compat
from nova_pinning.model import core_order

# Sizes of the guests that fill a host, with how often each is drawn.
GUEST_SIZES = {1: 2, 2: 4, 4: 4, 8: 3, 16: 1}
MIB_PER_VCPU = 2048

# What is left of a cell's memory in small pages where the rest is huge ones.
_SMALL_PAGES_MIB = 8192
HUGE_PAGE_KIB = 2048

# A name that makes UUIDs the same in every process of a run.
_NAMESPACE = uuid.UUID('6b0f8f0e-8d0a-4f0f-9a55-3c1f6f1b7a01')


@compat.dataclass(frozen=True, slots=True)
class Layout:
    """A two-socket host; sibling threads are ``stride`` apart.

    With ``huge_pages`` nearly all memory is in pages of 2 MiB, and the guests
    that fill the host use these.
    """

    cells: int
    cores_per_cell: int
    threads: int
    memory_mib: int
    kept: frozenset[int] = frozenset()
    shared: bool = False
    huge_pages: bool = False

    @property
    def stride(self) -> int:
        """Number of cores, which is the distance between siblings."""
        return self.cells * self.cores_per_cell

    @property
    def cpus(self) -> int:
        """Number of host CPUs."""
        return self.stride * self.threads

    @property
    def cpu_ratio(self) -> float:
        """CPU allocation ratio."""
        return 3.0 if self.shared else 1.0

    @property
    def cell_memory_mib(self) -> int:
        """Memory of a cell that guests may have."""
        memory = self.memory_mib // self.cells
        return memory - _SMALL_PAGES_MIB if self.huge_pages else memory

    @property
    def sold(self) -> int:
        """Number of vCPUs that guests may have in all."""
        return int((self.cpus - len(self.kept)) * self.cpu_ratio)


@compat.dataclass(frozen=True, slots=True)
class Record:
    """What the database holds of one host."""

    name: str
    uuid: str
    layout: Layout
    numa_topology: str
    free: tuple[int, ...]
    pci_stats: str | None = None

    @property
    def used(self) -> float:
        """Share of what the host sells that guests hold."""
        return 1 - sum(self.free) / self.layout.sold


TWO_SOCKETS = Layout(cells=2, cores_per_cell=20, threads=2,
                     memory_mib=768 * 1024,
                     kept=frozenset({0, 1, 40, 41}))
TWO_SOCKETS_SHARED = dataclasses.replace(TWO_SOCKETS, kept=frozenset(),
                                         shared=True)
FOUR_CELLS = Layout(cells=4, cores_per_cell=16, threads=2,
                    memory_mib=1536 * 1024)
EIGHT_CELLS = Layout(cells=8, cores_per_cell=16, threads=2,
                     memory_mib=1536 * 1024)
SIXTEEN_CELLS = Layout(cells=16, cores_per_cell=8, threads=2,
                       memory_mib=1536 * 1024)
SIXTEEN_CELLS_HUGE = dataclasses.replace(SIXTEEN_CELLS, huge_pages=True)
TWENTY_FOUR_CELLS = Layout(cells=24, cores_per_cell=8, threads=2,
                           memory_mib=1536 * 1024)
THIRTY_TWO_CELLS = Layout(cells=32, cores_per_cell=8, threads=2,
                          memory_mib=1536 * 1024)


def many_cells(cells: int, huge_pages: bool) -> Layout:
    """As many cells of 8 cores with 2 threads, and of 96 GiB."""
    return dataclasses.replace(
        SIXTEEN_CELLS, cells=cells, memory_mib=cells * 96 * 1024,
        huge_pages=huge_pages)


def empty_topology(layout: Layout) -> objects.NUMATopology:
    """Return the topology that nova's libvirt driver reports at start."""
    memory = layout.memory_mib // layout.cells
    huge = layout.cell_memory_mib if layout.huge_pages else 0
    cells = []
    for number in range(layout.cells):
        first = number * layout.cores_per_cell
        siblings: list[set[int]] = [
            set(core) - layout.kept for core in core_order.as_reported([
                tuple(core + layout.stride * thread
                      for thread in range(layout.threads))
                for core in range(first, first + layout.cores_per_cell)])]
        cpus: set[int] = set().union(*siblings)
        cells.append(objects.NUMACell(
            id=number,
            socket=number * 2 // layout.cells,
            cpuset=cpus if layout.shared else set(),
            pcpuset=set() if layout.shared else cpus,
            memory=memory, cpu_usage=0, memory_usage=0, pinned_cpus=set(),
            siblings=[sibling for sibling in siblings if sibling],
            # libvirt always lists the three page sizes of x86-64, with no
            # pages in the pools of huge ones unless they were set aside.
            mempages=[
                objects.NUMAPagesTopology(size_kb=size, used=0, reserved=0,
                                          total=total)
                for size, total in (
                    (4, (memory - huge) * 256),
                    (HUGE_PAGE_KIB, huge * 1024 // HUGE_PAGE_KIB),
                    (1048576, 0))],
            network_metadata=objects.NetworkMetadata(
                physnets=set(), tunneled=False)))
    return objects.NUMATopology(cells=cells)


@functools.cache
def _filler(vcpus: int, memory_mib: int, dedicated: bool, huge_pages: bool,
            ) -> objects.InstanceNUMATopology:
    """Return the topology of a guest that is on a host already."""
    extra_specs = {'hw:numa_nodes': '1'}
    if dedicated:
        extra_specs['hw:cpu_policy'] = 'dedicated'
    if huge_pages:
        extra_specs['hw:mem_page_size'] = str(HUGE_PAGE_KIB)
    return requests.guest_topology(vcpus, memory_mib, extra_specs)


class _Filling:
    """A host being filled, with the guests on it."""

    def __init__(self, layout: Layout, seed: str) -> None:
        self.layout = layout
        self.seed = seed
        self.random = random.Random(seed)
        self.topology = empty_topology(layout)
        self.limits = objects.NUMATopologyLimits(
            cpu_allocation_ratio=layout.cpu_ratio, ram_allocation_ratio=1.0)
        self.guests: list[objects.InstanceNUMATopology] = []

    def size(self) -> int:
        """Draw the size of a guest."""
        return self.random.choices(
            list(GUEST_SIZES), list(GUEST_SIZES.values()))[0]

    def boot(self, vcpus: int, cell: objects.NUMACell | None = None,
             memory_mib: int | None = None) -> bool:
        """Place a guest where nova would, or on the one cell given."""
        where = self.topology
        if cell is not None:
            where = objects.NUMATopology(cells=[cell])
        filler = _filler(
            vcpus, memory_mib or vcpus * MIB_PER_VCPU,
            not self.layout.shared, self.layout.huge_pages)
        guest = hardware.numa_fit_instance_to_host(
            where, filler.obj_clone(), provider_mapping=None,
            limits=self.limits)
        if guest is None:
            return False
        self.topology = hardware.numa_usage_from_instance_numa(
            self.topology, guest)
        self.guests.append(guest)
        return True

    def delete(self, guest: objects.InstanceNUMATopology) -> None:
        """Take a guest off the host."""
        self.topology = hardware.numa_usage_from_instance_numa(
            self.topology, guest, free=True)
        self.guests.remove(guest)

    def free(self) -> tuple[int, ...]:
        """Free CPUs of each cell."""
        if self.layout.shared:
            return tuple(
                int(self.layout.cpu_ratio * len(cell.cpuset))
                - cell.cpu_usage
                for cell in self.topology.cells)
        return tuple(cell.avail_pcpus for cell in self.topology.cells)

    def record(self) -> Record:
        """Return the host as the database holds it."""
        return Record(
            name=self.seed, uuid=str(uuid.uuid5(_NAMESPACE, self.seed)),
            layout=self.layout,
            numa_topology=json.dumps(self.topology.obj_to_primitive()),
            free=self.free())


def fill(layout: Layout, used: float, seed: str) -> Record:
    """Fill a host to a share of its CPUs, as guests come and go.

    Guests of mixed sizes are booted in nova's order until one does not fit,
    then guests chosen at random are deleted until no more than the wanted
    share is in use. That leaves gaps where real guests leave them.
    """
    host = _Filling(layout, seed)
    while host.boot(host.size()):
        pass
    while layout.sold - sum(host.free()) > used * layout.sold:
        host.delete(host.random.choice(host.guests))
    return host.record()


def fill_cells(layout: Layout, free: ty.Sequence[int], seed: str,
               no_memory: Iterable[int] = ()) -> Record:
    """Fill each cell until it has just so many free CPUs.

    :param no_memory: cells of which a guest with one vCPU has all memory
    """
    host = _Filling(layout, seed)
    for number in no_memory:
        host.boot(1, host.topology.cells[number], layout.cell_memory_mib)
    for number, target in enumerate(free):
        while spare := host.free()[number] - target:
            host.boot(min(host.size(), spare), host.topology.cells[number])
    return host.record()


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


def renamed(record: Record, name: str) -> Record:
    """Return another host that is filled the same way."""
    return dataclasses.replace(
        record, name=name, uuid=str(uuid.uuid5(_NAMESPACE, name)))


def row(record: Record) -> dict[str, ty.Any]:
    """Return the host as a row of nova's table of compute nodes."""
    layout = record.layout
    return dict.fromkeys(objects.ComputeNode.fields) | {
        'id': 1, 'uuid': record.uuid, 'host': record.name,
        'hypervisor_hostname': record.name, 'mapped': 1,
        'memory_mb': layout.memory_mib, 'memory_mb_used': 0,
        'free_ram_mb': layout.memory_mib // 2,
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
