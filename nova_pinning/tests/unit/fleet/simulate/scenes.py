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

"""Fleets and guests for tests of the simulation, drawn by a seed."""

from collections.abc import Sequence
import dataclasses
import random

from nova_pinning import cpuset
from nova_pinning.flavors import model as flavor_model
from nova_pinning.fleet import model as fleet_model
from nova_pinning.fleet.simulate import arrivals
from nova_pinning.fleet.simulate import guests
from nova_pinning.fleet import wanted as fleet_wanted
from nova_pinning import model
from nova_pinning.model import CpuPolicy
from nova_pinning.model import hostclass
from nova_pinning.model import ThreadPolicy

DISK = fleet_model.DeviceKind('144d', 'a808')
CARD = fleet_model.DeviceKind('10de', '1eb8')
DEDICATED = hostclass.HostClass.DEDICATED
SHARED = hostclass.HostClass.SHARED

_MIB_PER_CPU = 2048


def host(
    name: str, *, cells: int = 2, cores: int = 6, threads: int = 2,
    kept: int = 0, is_shared: bool = False, big_pages: int = 0,
    pools: Sequence[fleet_model.PciPool] = (), l3_cores: int = 0,
    memory_mib: int = 0, disk_gib: int | None = None,
) -> fleet_model.FleetHost:
    """A host whose sibling threads are numbered after all cores.

    :param kept: cores of cell 0 that guests do not get
    :param big_pages: pages of 1 GiB in each cell
    :param l3_cores: cores in each L3 domain, 0 for whole cells
    """
    found = []
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
        found.append(model.HostCell(
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
    return fleet_model.FleetHost(
        name=name, cells=tuple(found), l3_domains=domains,
        host_class=SHARED if is_shared else DEDICATED, traits=frozenset(),
        pci_pools=tuple(pools), cpu_allocation_ratio=3.0 if is_shared else 1.0,
        reserved_memory_mib=512, disk_gib=disk_gib)


def guest(
    name: str, cells: Sequence[int], *,
    memory_mib: int = 0, thread_policy: ThreadPolicy = ThreadPolicy.PREFER,
    page_size_kib: int | None = None, is_emulator_isolated: bool = False,
    cpu_policy: CpuPolicy = CpuPolicy.DEDICATED, disk_gib: int = 0,
    devices: Sequence[fleet_model.PciRequest] = (),
) -> fleet_wanted.Wanted:
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
    flavor = flavor_model.Flavor(
        name=name, vcpus=number, memory_mib=memory, disk_gib=disk_gib,
        extra_specs=extra_specs)
    pcpus = number + is_emulator_isolated
    queries = tuple(
        fleet_wanted.Query(resources={
            what: count, 'MEMORY_MB': memory, 'DISK_GB': disk_gib})
        for what, count in (
            (('PCPU', pcpus), ('VCPU', pcpus))
            if cpu_policy is CpuPolicy.DEDICATED else (('VCPU', number),)))
    return fleet_wanted.Wanted(
        flavor=flavor,
        guest_class=DEDICATED if cpu_policy is CpuPolicy.DEDICATED else SHARED,
        topology=model.Guest(
            tuple(made), cpu_policy=cpu_policy, thread_policy=thread_policy,
            emulator_isolated=is_emulator_isolated),
        devices=tuple(devices), queries=queries)


def wishes(kind: fleet_model.DeviceKind, policy: str,
           count: int = 1) -> tuple[fleet_model.PciRequest, ...]:
    return (fleet_model.PciRequest('device', (kind,), count, policy),)


#: All that guests may ask for, by a name for test ids.
KINDS: dict[str, fleet_wanted.Wanted] = {
    one.name: one for one in (
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
        *(guest(f'nvme-{policy}', [2], devices=wishes(DISK, policy))
          for policy in ('legacy', 'preferred', 'required', 'socket')),
        guest('nvme-two', [2, 2], devices=wishes(DISK, 'required', 2)),
        guest('card', [4], devices=wishes(CARD, 'legacy')),
    )}


def fleet(seed: int, hosts: int = 6) -> fleet_model.Fleet:
    """Hosts of all kinds."""
    draws = random.Random(f'fleet-{seed}')
    made = []
    for number in range(hosts):
        cells = draws.choice((1, 2, 2, 2, 4))
        pools = tuple(
            fleet_model.PciPool(kind, node, draws.randint(1, 3))
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
    aggregates = (
        fleet_model.Aggregate('fast', metadata={
            'pinning:l3_cpus': '4', 'fragmentation_weight_multiplier': '7'}),
        fleet_model.Aggregate('slow', 'zone', metadata={
            'cpu_weight_multiplier': '-3', 'ram_weight_multiplier': 'odd'}),
        fleet_model.Aggregate('old', metadata={
            'ram_weight_multiplier': '0.5'}))
    return fleet_model.Fleet(
        hosts=tuple(
            dataclasses.replace(one, aggregates=tuple(sorted(
                draws.sample(('fast', 'old', 'slow'), draws.choice((0, 1))))))
            for one in made),
        aggregates=aggregates)


def load(seed: int, count: int = 60) -> arrivals.Load:
    """Guests of some kinds, more than there is room for in the end."""
    draws = random.Random(f'load-{seed}')
    kinds = draws.sample(sorted(KINDS), 8)
    return arrivals.Load(
        mix=tuple((KINDS[name], draws.choice((1.0, 2.0, 5.0)))
                  for name in kinds),
        count=count, rate_per_hour=count / 4, lifetime_hours=2.5,
        lifetimes=draws.choice(arrivals.LIFETIMES))
