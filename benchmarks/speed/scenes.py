# SPDX-License-Identifier: Apache-2.0
"""The cases, their bars, and what each side does in one sample."""

# nova.objects has its classes only once they are registered.
from __future__ import annotations

from collections.abc import Iterable
import dataclasses
import functools
import itertools
import random
import types
import typing as ty

from nova import objects
from nova.scheduler import filters as nova_filters
from nova.scheduler.filters import numa_topology_filter
from nova.scheduler import host_manager

from benchmarks import requests
from benchmarks.speed import bars
from benchmarks.speed import hosts
from benchmarks.speed import tiers
from benchmarks.speed import whole_request
from nova_pinning.placement import placement_traits
from nova_pinning.scheduler import filters
from nova_pinning.scheduler import traits_reader

# The hosts of a sample: so many are filled differently, and each filling is
# used by several. Real requests see hundreds, which would take too long to
# make; with too few, what a filter does once per request would count too
# much.
HOSTS = 8
COPIES = 5

# So many hosts, no two alike, where nova takes long for each. One request
# tries them all, and ours has only [pinning] request_budget_seconds for one.
FEW = 4

# The fleet of the whole request: hosts that Placement returned. Filling a
# thousand hosts one by one would take longer than measuring them, so every
# filling is used by several hosts.
FLEET = 1000
FLEET_FILLINGS = 125

Answer = tuple[str, ...]


#: One of the two contestants: answers a request with the names of the hosts
#: that may take it.
Side = ty.Callable[
    [list[host_manager.HostState], objects.RequestSpec], Answer]


def _filter_side(host_filter: nova_filters.BaseHostFilter) -> Side:
    """A filter on its own."""
    return lambda states, spec: tuple(
        state.host for state in host_filter.filter_all(states, spec))


@dataclasses.dataclass(slots=True)
class Scene:
    """What a case measures: a request and the hosts it is tried on.

    :ivar first_tier: the hosts that our filter has to name, and no others,
        where nova's may name more: those on which its claim goes wrong. None
        if both filters have to name the same.
    """

    request: requests.Request
    records: list[hosts.Record]
    first_tier: frozenset[str] | None = None

    def sides(self) -> tuple[Side, Side]:
        """Return nova's side and ours."""
        return (_filter_side(numa_topology_filter.NUMATopologyFilter()),
                _filter_side(filters.PinnedTopologyFilter()))

    def _candidates(self, record: hosts.Record) -> list[dict[str, ty.Any]]:
        return [self.request.candidate(
            record.uuid, 'VCPU' if record.layout.is_shared else 'PCPU')]

    def states(self) -> list[host_manager.HostState]:
        """Return HostStates that nobody has seen yet."""
        return [
            hosts.host_state(record, self._candidates(record))
            for record in self.records]

    def renew(self, states: list[host_manager.HostState]) -> None:
        """Undo what a filter changes on the HostStates of this scene."""
        for record, state in zip(self.records, states, strict=True):
            state.limits = {}
            state.allocation_candidates = self._candidates(record)


@dataclasses.dataclass(slots=True, kw_only=True)
class _WholeRequest(Scene):
    """A scene whose hosts are rows of the database still."""

    aggregates: list[objects.Aggregate]

    def sides(self) -> tuple[Side, Side]:
        self._tell_traits()
        nova, ours = (
            whole_request.WholeRequestSide(options, self.aggregates)
            for options in (whole_request.NOVA, whole_request.OURS))
        return nova, ours

    def _tell_traits(self) -> None:
        """Have our filters know that each host has the trait of its class."""
        traits = {record.uuid: frozenset({
            placement_traits.SHARED if record.layout.is_shared
            else placement_traits.DEDICATED}) for record in self.records}
        reader = traits_reader.TraitsReader(
            lambda: types.SimpleNamespace(
                traits_by_provider=lambda _prefix: traits),
            traits_reader.TraitsSettings(60, 0, 0))
        reader.refresh()
        traits_reader.use(reader)

    def states(self) -> list[whole_request.HostRows]:
        return [whole_request.rows(record, self._candidates(record))
                for record in self.records]

    def renew(self, states: list[whole_request.HostRows]) -> None:
        pass


def _dedicated(*sizes: int, devices: int = 0,
               **extra_specs: str) -> requests.Request:
    """A dedicated guest with so many vCPUs in its cells."""
    specs = {'hw:cpu_policy': 'dedicated', 'hw:numa_nodes': str(len(sizes))}
    specs.update((f'hw:{key}', value) for key, value in extra_specs.items())
    ids = itertools.count()
    for cell, size in enumerate(sizes) if len(set(sizes)) > 1 else ():
        specs[f'hw:numa_cpus.{cell}'] = ','.join(
            str(next(ids)) for _vcpu in range(size))
        specs[f'hw:numa_mem.{cell}'] = str(size * hosts.MIB_PER_VCPU)
    vcpus = sum(sizes)
    return requests.Request(
        vcpus, vcpus * hosts.MIB_PER_VCPU, specs, devices)


def _copied(records: list[hosts.Record]) -> list[hosts.Record]:
    return [dataclasses.replace(record, name=f'{record.name}-{number}')
            for number in range(COPIES) for record in records]


def _filled(layout: hosts.Layout, used: float, seed: str,
            ) -> list[hosts.Record]:
    return _copied([hosts.fill(layout, used, f'{seed}-{number}')
                    for number in range(HOSTS)])


def _cells_with_room(layout: hosts.Layout, room: int, seed: str,
                     ) -> list[hosts.Record]:
    """Hosts on which just so many cells have 8 free CPUs or more."""
    records = []
    for number in range(HOSTS):
        name = f'{seed}-{number}'
        rng = random.Random(name)
        roomy = set(rng.sample(range(layout.cell_count), room))
        records.append(hosts.fill_cells(
            layout,
            [rng.randint(8, 14) if cell in roomy else rng.randint(2, 7)
             for cell in range(layout.cell_count)],
            name))
    return _copied(records)


def _leading_full(layout: hosts.Layout, full: int, seed: str,
                  ) -> list[hosts.Record]:
    """Hosts on which the first cells in nova's order have no memory left.

    They come first for their free CPUs, of which they have the most.
    """
    records = []
    for number in range(FEW):
        name = f'{seed}-{number}'
        rng = random.Random(name)
        no_memory = set(rng.sample(range(layout.cell_count), full))
        most = layout.cores * layout.threads - 1
        records.append(hosts.fill_cells(
            layout,
            [most if cell in no_memory else rng.randint(8, most - 1)
             for cell in range(layout.cell_count)],
            name, no_memory))
    return records


def _tiered(request: requests.Request, records: list[hosts.Record],
            tiers_of: Iterable[tiers.Tier]) -> Scene:
    """A scene in which our filter has to name the hosts of tier FIRST."""
    return Scene(request, records, first_tier=frozenset(
        record.name for record, tier in zip(records, tiers_of, strict=True)
        if tier is tiers.Tier.FIRST))


def _uneven_many(cells: int, guest_cells: int, huge_pages: bool, seed: str,
                 ) -> Scene:
    """Half-full hosts, on some of which both claims of the guest are right."""
    sizes = {3: (4, 8, 14), 4: (2, 4, 8, 14)}[guest_cells]
    pages = {'mem_page_size': str(hosts.HUGE_PAGE_KIB)} if huge_pages else {}
    request = _dedicated(*sizes, **pages)
    layout = hosts.layout_of(cells, 8, 96, huge_pages)
    while True:
        records = [hosts.fill(layout, 0.5, f'{seed}-{number}')
                   for number in range(HOSTS)]
        tiers_of = [tiers.of_host(record, request) for record in records]
        if tiers.Tier.FIRST in tiers_of:
            return _tiered(request, records, tiers_of)
        seed += '+'


def _second_tier(layout: hosts.Layout, seed: str) -> Scene:
    """Hosts that differ in what becomes of a second attempt, half and half.

    Filled at random, and sorted by what nova itself says.
    """
    request = _dedicated(2, 6)
    rng = random.Random(seed)
    left = {tiers.Tier.FIRST: HOSTS // 2, tiers.Tier.SECOND: HOSTS // 2}
    records, tiers_of = [], []
    while any(left.values()):
        record = hosts.fill_cells(
            layout, [rng.randint(0, 12) for _ in range(layout.cell_count)],
            f'{seed}-{rng.random()}')
        tier = tiers.of_host(record, request)
        if left.get(tier):
            left[tier] -= 1
            records.append(record)
            tiers_of.append(tier)
    return _tiered(request, _copied(records), tiers_of * COPIES)


def _near_devices(layout: hosts.Layout, room: range, seed: str,
                  hosts_count: int) -> list[hosts.Record]:
    """Hosts with one wanted device near each of two cells.

    The other cells have room for 8 vCPUs, and two to four devices of another
    kind each, so they come before the two in nova's order, and there is no
    telling their sets apart from useful ones by the number of devices.

    :param room: free CPUs that the two cells may have
    """
    records = []
    for number in range(hosts_count):
        name = f'{seed}-{number}'
        rng = random.Random(name)
        near = set(rng.sample(range(layout.cell_count), 2))
        record = hosts.fill_cells(
            layout,
            [rng.choice(room) if cell in near else rng.randint(8, 14)
             for cell in range(layout.cell_count)], name)
        records.append(hosts.with_devices(record, [
            (requests.WANTED_PRODUCT, cell, 1) if cell in near else
            (requests.OTHER_PRODUCT, cell, rng.randint(2, 4))
            for cell in range(layout.cell_count)]))
    return records


def _fleet(seed: str) -> Scene:
    """Build the hosts that Placement returns for an 8-vCPU guest.

    Three dedicated hosts in four are nearly full, the others filled to any
    degree; those with fewer than 8 free CPUs in all are not there, as
    Placement leaves them out. A fifth of the hosts are shared ones, which
    nova-scheduler asks for as well (its fallback query for VCPU). Every
    host is in the aggregate of its class.
    """
    request = _dedicated(8, cpu_thread_policy='require', cpu_sockets='1',
                         cpu_cores='4', cpu_threads='2')
    rng = random.Random(seed)
    fillings: list[hosts.Record] = []
    while len(fillings) < FLEET_FILLINGS:
        name = f'{seed}-{len(fillings)}-{rng.random()}'
        if len(fillings) % 5 == 0:
            record = hosts.fill(hosts.TWO_SOCKETS_SHARED,
                                rng.uniform(0.4, 0.95), name)
        else:
            used = rng.uniform(0.8, 0.9)
            if len(fillings) % 4 == 0:
                used = rng.uniform(0.0, 0.8)
            record = hosts.fill(hosts.TWO_SOCKETS, used, name)
        if sum(record.free) >= request.vcpus:
            fillings.append(record)
    records = [
        dataclasses.replace(fillings[number % FLEET_FILLINGS],
                            name=f'host{number:04}')
        for number in range(FLEET)]
    rng.shuffle(records)
    return _WholeRequest(request, records, aggregates=[
        objects.Aggregate(
            id=shared + 1, name=name,
            hosts=[record.name for record in records
                   if record.layout.is_shared is shared],
            metadata={'pinning:class': name})
        for shared, name in ((False, 'dedicated'), (True, 'shared'))])


#: By the names of cases, from a seed.
BUILDERS: dict[str, ty.Callable[[str], Scene]] = {
    'whole-request': _fleet,
    'one-cell': lambda seed: Scene(
        _dedicated(8), _filled(hosts.TWO_SOCKETS, 0.5, seed)),
    'one-cell-require': lambda seed: Scene(
        _dedicated(8, cpu_thread_policy='require',
                   emulator_threads_policy='isolate'),
        _filled(hosts.TWO_SOCKETS, 0.5, seed)),
    'two-cells': lambda seed: Scene(
        _dedicated(8, 8), _filled(hosts.EIGHT_CELLS, 0.5, seed)),
    'two-cells-require': lambda seed: Scene(
        _dedicated(8, 8, cpu_thread_policy='require'),
        _filled(hosts.EIGHT_CELLS, 0.5, seed)),
    'four-cells': lambda seed: Scene(
        _dedicated(*[8] * 4), _filled(hosts.EIGHT_CELLS, 0.8, seed)),
    '16-cells-short': lambda seed: Scene(
        _dedicated(*[8] * 8), _cells_with_room(hosts.SIXTEEN_CELLS, 7, seed)),
    '24-cells-fits': lambda seed: Scene(
        _dedicated(*[8] * 8),
        _cells_with_room(hosts.TWENTY_FOUR_CELLS, 12, seed)),
    '24-cells-short': lambda seed: Scene(
        _dedicated(*[8] * 8),
        _cells_with_room(hosts.TWENTY_FOUR_CELLS, 7, seed)),
    '32-cells-late': lambda seed: Scene(
        _dedicated(*[8] * 4), _leading_full(hosts.THIRTY_TWO_CELLS, 1, seed)),
    **{f'pages-{word}-full': lambda seed, full=full: Scene(
        _dedicated(*[8] * 4, mem_page_size=str(hosts.HUGE_PAGE_KIB)),
        _leading_full(hosts.SIXTEEN_CELLS_HUGE, full, seed))
        for word, full in (('two', 2), ('five', 5))},
    **{case.name: functools.partial(_uneven_many, *case.cells)
       for case in bars.CASES if case.cells},
    'second-tier-2': functools.partial(_second_tier, hosts.TWO_SOCKETS),
    'second-tier-4': functools.partial(_second_tier, hosts.FOUR_CELLS),
    'pci-fits': lambda seed: Scene(
        _dedicated(*[8] * 4, devices=1),
        _near_devices(hosts.THIRTY_TWO_CELLS, range(8, 15), seed, 2)),
    'pci-near-full': lambda seed: Scene(
        _dedicated(*[8] * 4, devices=1),
        _near_devices(hosts.THIRTY_TWO_CELLS, range(2, 8), seed, 1)),
    'pci-24': lambda seed: Scene(
        _dedicated(*[8] * 6, devices=1),
        _near_devices(hosts.TWENTY_FOUR_CELLS, range(2, 8), seed, 1)),
}


def build(case: bars.Case, process: int) -> Scene:
    """Build a case's hosts; every process has others, always the same."""
    return BUILDERS[case.name](f'{case.name}-{process}')
