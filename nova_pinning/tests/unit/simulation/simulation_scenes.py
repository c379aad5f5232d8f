# SPDX-License-Identifier: Apache-2.0
"""Fleets and guests for tests of the simulation, drawn by a seed."""

from collections.abc import Sequence
import dataclasses
import random

from nova_pinning.admission import devices
from nova_pinning.admission import guest_request
from nova_pinning.admission import offered_host
from nova_pinning.admission import resident_guest
from nova_pinning import cpuset
from nova_pinning.fleet import snapshot
from nova_pinning import model
from nova_pinning.model import core_order
from nova_pinning.model import CpuPolicy
from nova_pinning.model import hostclass
from nova_pinning.model import ThreadPolicy
from nova_pinning.simulation import admission_columns
from nova_pinning.simulation import arrival_process
from nova_pinning.simulation import fast
from nova_pinning.simulation import guests

DISK = devices.device_keys('144d', 'a808')
CARD = devices.device_keys('10de', '1eb8')
DEDICATED = hostclass.HostClass.DEDICATED
SHARED = hostclass.HostClass.SHARED

_MIB_PER_CPU = 2048


def host(
    name: str, *, cells: int = 2, cores: int = 6, threads: int = 2,
    kept: int = 0, is_shared: bool = False, big_pages: int = 0,
    pools: Sequence[devices.PciPool] = (), l3_cores: int = 0,
    memory_mib: int = 0, disk_gib: int | None = None,
) -> offered_host.OfferedHost:
    """A host whose sibling threads are numbered after all cores.

    :param kept: cores of cell 0 that guests do not get
    :param big_pages: pages of 1 GiB in each cell
    :param l3_cores: cores in each L3 domain, 0 for whole cells
    """
    made_cells = []
    for cell in range(cells):
        first = cell * cores + (kept if cell == 0 else 0)
        siblings = tuple(
            tuple(core + thread * cells * cores for thread in range(threads))
            for core in range(first, (cell + 1) * cores))
        cpus = cpuset.CpuSet(cpu for core in siblings for cpu in core)
        memory = memory_mib or cores * threads * _MIB_PER_CPU
        pages = [model.PagePool(4, (memory - big_pages * 1024) * 256)]
        if big_pages:
            pages.append(model.PagePool(1048576, big_pages))
        made_cells.append(model.HostCell(
            id=cell, socket=cell * 2 // max(cells, 2),
            shared_cpus=cpus if is_shared else cpuset.CpuSet(),
            dedicated_cpus=cpuset.CpuSet() if is_shared else cpus,
            pinned_cpus=cpuset.CpuSet(), cores=siblings, memory_mib=memory,
            pages=tuple(pages)))
    size = l3_cores or cores
    domains = tuple(
        cpuset.CpuSet(
            core + thread * cells * cores
            for core in range(first, first + size)
            for thread in range(threads))
        for first in range(0, cells * cores, size))
    return offered_host.OfferedHost(
        name=name, cells=tuple(made_cells), l3_domains=domains,
        host_class=SHARED if is_shared else DEDICATED, traits=frozenset(),
        pci_pools=tuple(pools), cpu_allocation_ratio=3.0 if is_shared else 1.0,
        reserved_memory_mib=512, disk_gib=disk_gib)


def full(host: offered_host.OfferedHost) -> resident_guest.ResidentGuest:
    """A guest that has all dedicated CPUs of a host's only cell."""
    cell, = host.cells
    pins = tuple(enumerate(cell.dedicated_cpus))
    return resident_guest.ResidentGuest(
        uuid=f'own-{host.name}', host=host.name, vcpus=len(pins),
        memory_mib=16, guest_class=DEDICATED,
        topology=model.Guest(
            (model.GuestCell(tuple(range(len(pins))), (), 16),),
            cpu_policy=CpuPolicy.DEDICATED),
        fit=model.Fit((model.CellFit(cell.id, pins),)))


def guest(
    name: str, cells: Sequence[int], *,
    memory_mib: int = 0, thread_policy: ThreadPolicy = ThreadPolicy.PREFER,
    page_size_kib: int | None = None, is_emulator_isolated: bool = False,
    cpu_policy: CpuPolicy = CpuPolicy.DEDICATED, disk_gib: int = 0,
    pci_requests: Sequence[devices.PciRequest] = (),
) -> guest_request.GuestRequest:
    """A guest with a NUMA topology.

    :param cells: vCPUs of each cell
    :param memory_mib: of each cell
    """
    made = []
    number = 0
    for vcpus in cells:
        numbers = tuple(range(number, number + vcpus))
        number += vcpus
        is_pinned = cpu_policy is CpuPolicy.DEDICATED
        made.append(model.GuestCell(
            numbers if is_pinned else (), () if is_pinned else numbers,
            memory_mib or vcpus * 1024, page_size_kib))
    extra_specs = {}
    if cpu_policy is CpuPolicy.DEDICATED:
        extra_specs['hw:cpu_policy'] = 'dedicated'
        extra_specs['hw:cpu_thread_policy'] = str(thread_policy)
    memory = sum(cell.memory_mib for cell in made)
    pcpus = number + is_emulator_isolated
    queries = tuple(
        guest_request.query(resources={
            what: count, 'MEMORY_MB': memory, 'DISK_GB': disk_gib})
        for what, count in (
            (('PCPU', pcpus), ('VCPU', pcpus))
            if cpu_policy is CpuPolicy.DEDICATED else (('VCPU', number),)))
    return guest_request.GuestRequest(
        name=name, vcpus=number, memory_mib=memory, disk_gib=disk_gib,
        extra_specs=guest_request.pairs(extra_specs),
        guest_class=DEDICATED if cpu_policy is CpuPolicy.DEDICATED else SHARED,
        topology=model.Guest(
            tuple(made), cpu_policy=cpu_policy, thread_policy=thread_policy,
            emulator_isolated=is_emulator_isolated),
        devices=tuple(pci_requests), queries=queries)


def wishes(kind: devices.Pairs, policy: str,
           count: int = 1) -> tuple[devices.PciRequest, ...]:
    return (devices.PciRequest('device', (kind,), count, policy),)


#: All that guests may ask for, by a name for test ids.
KINDS: dict[str, guest_request.GuestRequest] = {
    request.name: request for request in (
        guests.plain(1, 1024), guests.plain(2, 2048), guests.plain(5, 4096),
        guests.plain(8, 8192), guests.plain(2, 12288),
        guests.plain(8, 8192, cells=2), guests.plain(12, 8192, cells=4),
        guests.plain(2, 1024, SHARED), guests.plain(6, 4096, SHARED),
        guest('require', [4], thread_policy=ThreadPolicy.REQUIRE),
        guest('require-odd', [3], thread_policy=ThreadPolicy.REQUIRE),
        guest('isolate', [3], thread_policy=ThreadPolicy.ISOLATE),
        guest('emulator', [3], is_emulator_isolated=True),
        guest('big-pages', [4], memory_mib=4096, page_size_kib=1048576),
        guest('large-pages', [2], memory_mib=2048,
              page_size_kib=model.PAGES_LARGE),
        guest('two-big', [2, 2], memory_mib=2048, page_size_kib=1048576),
        guest('lopsided', [4, 2]),
        guest('disk', [2], disk_gib=20),
        guest('floating-cell', [4], cpu_policy=CpuPolicy.SHARED),
        *(guest(f'nvme-{policy}', [2], pci_requests=wishes(DISK, policy))
          for policy in ('legacy', 'preferred', 'required', 'socket')),
        guest('nvme-two', [2, 2], pci_requests=wishes(DISK, 'required', 2)),
        guest('card', [4], pci_requests=wishes(CARD, 'legacy')),
    )}


def fleet(seed: int, hosts: int = 6) -> snapshot.Fleet:
    """Hosts of all kinds."""
    draws = random.Random(f'fleet-{seed}')
    made = []
    for number in range(hosts):
        cells = draws.choice((1, 2, 2, 2, 4))
        pools = tuple(
            devices.PciPool(kind, node, draws.randint(1, 3))
            for kind in (DISK, CARD)
            for node in (*range(cells), None) if draws.random() < 0.3)
        made.append(host(
            f'host{number}', cells=cells,
            cores=draws.choice((4, 6, 8)), threads=draws.choice((1, 2, 2)),
            kept=draws.choice((0, 1)), is_shared=draws.random() < 0.2,
            big_pages=draws.choice((0, 0, 4, 8)),
            pools=pools if draws.random() < 0.5 else (),
            l3_cores=draws.choice((0, 2, 4)),
            memory_mib=draws.choice((0, 12288, 20480)),
            disk_gib=draws.choice((None, 60, 200))))
    # Some that nothing tells the L3 layout of, some with CPUs to float over,
    # some with cores in the order in which nova-compute reports them.
    odd = random.Random(f'odd-{seed}')
    for number, made_host in enumerate(made):
        if odd.random() < 0.25:
            made_host = dataclasses.replace(made_host, l3_domains=())
        if odd.random() < 0.25 and made_host.host_class is DEDICATED:
            made_host = _with_shared_cpus(made_host)
        if odd.random() < 0.5:
            made_host = dataclasses.replace(made_host, cells=tuple(
                dataclasses.replace(
                    cell, cores=core_order.as_reported(cell.cores))
                for cell in made_host.cells))
        made[number] = made_host
    # Some are kept for guests of lost hosts.
    kept = random.Random(f'kept-{seed}')
    aggregates = (
        *(offered_host.Aggregate(use, metadata={'pinning:reserve': use})
          for use in ('evacuations', 'last')),
        offered_host.Aggregate('fast', metadata={
            'pinning:l3_cpus': '4', 'fragmentation_weight_multiplier': '7'}),
        offered_host.Aggregate('slow', 'zone', metadata={
            'cpu_weight_multiplier': '-3', 'ram_weight_multiplier': 'odd'}),
        offered_host.Aggregate('old', metadata={
            'ram_weight_multiplier': '0.5'}))
    return snapshot.Fleet(
        hosts=tuple(
            dataclasses.replace(made_host, aggregates=tuple(sorted((
                *draws.sample(('fast', 'old', 'slow'), draws.choice((0, 1))),
                *kept.choice(((), (), (), (), ('evacuations',), ('last',)))))))
            for made_host in made),
        aggregates=aggregates)


def _with_shared_cpus(
    host: offered_host.OfferedHost,
) -> offered_host.OfferedHost:
    """A host with a core of each cell that is for floating vCPUs."""
    cells = []
    for cell in host.cells:
        shared = cpuset.CpuSet(cell.cores[-1])
        cells.append(dataclasses.replace(
            cell, shared_cpus=shared,
            dedicated_cpus=cell.dedicated_cpus - shared))
    return dataclasses.replace(host, cells=tuple(cells))


def columns(fleet, configuration, order=None):
    """What is said of a fleet's hosts, in the fleet's order if not given."""
    return admission_columns.of_fleet(
        fleet, configuration,
        range(len(fleet.hosts)) if order is None else order)


def fast_scheduler(fleet, configuration, order=None):
    return fast.FastScheduler(
        columns(fleet, configuration, order), configuration)


def load(seed: int, count: int = 60) -> arrival_process.PoissonArrivals:
    """Guests of some kinds, more than there is room for in the end."""
    draws = random.Random(f'load-{seed}')
    kinds = draws.sample(sorted(KINDS), 8)
    return arrival_process.PoissonArrivals(
        mix=tuple((KINDS[name], draws.choice((1.0, 2.0, 5.0)))
                  for name in kinds),
        count=count, rate_per_hour=count / 4, lifetime_hours=2.5,
        lifetimes=draws.choice((
            arrival_process.EXPONENTIAL, arrival_process.LOG_NORMAL,
            arrival_process.FOREVER)))
