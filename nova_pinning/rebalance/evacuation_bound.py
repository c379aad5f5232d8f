# SPDX-License-Identifier: Apache-2.0
"""How many guests of lost hosts stay down whatever is done, at least.

An integer program over guests of a kind, hosts and host cells. It knows of
CPUs, pages, devices, server groups and what Placement counts, and leaves to
the engine what it does not know: which cell nova chooses, threads of a core,
devices near a cell. So it can only be too hopeful, and what it finds
impossible is impossible.
"""

from collections.abc import Mapping
import dataclasses
import math

from nova_pinning.admission import devices
from nova_pinning import model
from nova_pinning.placement import inventory
from nova_pinning.rebalance import evacuation
from nova_pinning.rebalance import integer_program
from nova_pinning import units

_TOLERANCE = 1e-6


@dataclasses.dataclass(frozen=True, slots=True)
class EvacuationBound:
    """What the program came to.

    :param down: so many guests stay down at least
    :param counts: how many of a kind on a host, by number and name, of the
        best that was found; {} if nothing was
    """

    down: int
    counts: Mapping[tuple[int, str], int]


def least_down(
    fleet: evacuation.EvacuationFleet, counts: Mapping[int, int],
    targets: evacuation.Targets, seconds: float,
) -> EvacuationBound:
    """Bound the guests that stay down.

    :param counts: of each kind, by number
    """
    program = _Program(fleet, counts)
    for name, state in targets.items():
        program.add_host(name, state)
    return program.solve(seconds)


class _Program:

    def __init__(self, fleet: evacuation.EvacuationFleet,
                 counts: Mapping[int, int]) -> None:
        self._fleet = fleet
        self._counts = counts
        self._program = integer_program.IntegerProgram()
        self._placed: dict[tuple[int, str], int] = {}

    def add_host(self, name: str, state: evacuation.TargetState) -> None:
        own: dict[int, int] = {}
        for number, count in self._counts.items():
            kind = self._fleet.kinds[number]
            if (not self._fleet.refusal(kind, state)
                    and not state.full_of(kind)
                    and not isinstance(state.outcome(kind), model.Refusal)):
                own[number] = self._program.variable(count)
                self._placed[number, name] = own[number]
        if own:
            self._bind_cells(state, own)
            self._bind_host(state, own)

    def _bind_cells(self, state: evacuation.TargetState,
                    own: Mapping[int, int]) -> None:
        """Each guest cell on a host cell, none two of a guest on one."""
        cells = state.occupancy.engine.cells
        cpus: dict[int, list[integer_program.Term]] = {
            cell.id: [] for cell in cells}
        pages: dict[tuple[int, int], list[integer_program.Term]] = {}
        for number, variable in own.items():
            topology = self._fleet.kinds[number].request.topology
            if topology is None:
                continue
            most = self._program.most(variable)
            on_cell: dict[int, list[integer_program.Term]] = {
                cell.id: [] for cell in cells}
            for demand in set(topology.demands):
                spots = []
                for cell in cells:
                    spot = self._program.variable(most)
                    spots.append((spot, 1.0))
                    on_cell[cell.id].append((spot, 1.0))
                    taken = demand.dedicated + demand.emulator
                    if taken:
                        cpus[cell.id].append((spot, taken))
                    size = demand.page_size_kib
                    if size is not None and size > 0:
                        pages.setdefault((cell.id, size), []).append(
                            (spot, math.ceil(demand.memory_mib *
                                             units.KIB_PER_MIB / size)))
                times = topology.demands.count(demand)
                self._program.row([*spots, (variable, -times)], 0, 0)
            for spots in on_cell.values():
                self._program.row([*spots, (variable, -1.0)], high=0)
        for cell in cells:
            if cpus[cell.id]:
                self._program.row(cpus[cell.id], high=cell.free_count)
            for pool in cell.pages:
                terms = pages.get((cell.id, pool.size_kib))
                if terms:
                    self._program.row(terms, high=max(
                        0, pool.total - pool.used - pool.reserved))

    def _bind_host(self, state: evacuation.TargetState,
                   own: Mapping[int, int]) -> None:
        """What Placement counts, devices, and server groups."""
        occupancy = state.occupancy
        kinds = {number: self._fleet.kinds[number] for number in own}
        resources: dict[str, list[integer_program.Term]] = {}
        for number, kind in kinds.items():
            guest = kind.guest
            uses = inventory.allocation(
                guest.vcpus, guest.memory_mib, guest.disk_gib,
                guest.topology, on_pcpus=inventory.PCPU
                in occupancy.inventories)
            for name, amount in uses.items():
                if amount and name in occupancy.inventories:
                    resources.setdefault(name, []).append(
                        (own[number], amount))
        for name, terms in resources.items():
            self._program.row(terms, high=max(
                0, occupancy.inventories[name].capacity
                - occupancy.resources_used[name]))
        wanted: dict[tuple[devices.PciSpec, ...],
                     list[integer_program.Term]] = {}
        for number, kind in kinds.items():
            for request in kind.request.devices:
                wanted.setdefault(request.specs, []).append(
                    (own[number], request.count))
        if wanted:
            free = devices.free(occupancy.host.pci_pools,
                                occupancy.device_uses)
            for specs, terms in wanted.items():
                asked = devices.PciRequest('', specs, 1)
                self._program.row(terms, high=sum(
                    pool.total for pool in free
                    if asked.wants(pool) and asked.may_use(pool)))
        groups: dict[str, list[integer_program.Term]] = {}
        limits: dict[str, int] = {}
        for number, kind in kinds.items():
            if kind.most is not None:
                groups.setdefault(kind.group, []).append((own[number], 1.0))
                limits[kind.group] = (
                    kind.most - state.members.get(kind.group, 0))
        for group, terms in groups.items():
            self._program.row(terms, high=limits[group])

    def solve(self, seconds: float) -> EvacuationBound:
        total = sum(self._counts.values())
        for number, count in self._counts.items():
            terms = [(variable, 1.0) for (own, _name), variable
                     in self._placed.items() if own == number]
            if terms:
                self._program.row(terms, high=count)
        solution = self._program.solve(
            {variable: 1.0 for variable in self._placed.values()}, seconds)
        up = min(total, math.floor(solution.bound + _TOLERANCE)) if (
            math.isfinite(solution.bound)) else total
        return EvacuationBound(max(0, total - up), {
            key: solution.values[variable]
            for key, variable in self._placed.items()
            if solution.is_known and solution.values[variable]})
