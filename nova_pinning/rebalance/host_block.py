# SPDX-License-Identifier: Apache-2.0
"""What the integer program says of one host.

Whole numbers of guests leave a host and come to its cells, and what is free
then makes slots. That is an abstraction: CPUs, floating vCPUs and memory are
amounts, which CPUs and pages exactly does not count, and each guest may have
any cells. Whatever nova can do the program can do too, so that what it proves
to be the most is a bound for nova. The other way round need not be: who takes
a solution at its word has to replay it.
"""

from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
import dataclasses
import math

from nova_pinning.admission import devices
from nova_pinning.admission import guest_request
from nova_pinning.admission import host_occupancy
from nova_pinning.admission import outcome
from nova_pinning.fit import counting
from nova_pinning.fleet import guest_kinds
from nova_pinning import model
from nova_pinning.placement import inventory
from nova_pinning.rebalance import counted_fleet
from nova_pinning.rebalance import integer_program
from nova_pinning import units

#: What is counted of a host: ('cpus', cell), ('pages', cell, size) and so on.
_Resource = tuple[object, ...]
#: Who takes how much of each resource.
_Uses = dict[_Resource, list[integer_program.Term]]


@dataclasses.dataclass(slots=True)
class HostBlock:
    """The variables of one host.

    :ivar leaving: how many guests of each of the groups leave
    :ivar coming: how many of each kind come, by the kind's number
    :ivar slots: how many slots of each size there are then, None if there
        can be none
    """

    host: str
    groups: Sequence[counted_fleet.GuestGroup] = ()
    leaving: list[int] = dataclasses.field(default_factory=list)
    coming: dict[int, list[int]] = dataclasses.field(default_factory=dict)
    slots: list[list[int]] = dataclasses.field(default_factory=list)


class BlockBuilder:
    """Makes the rows of one host.

    :param program: to which they are added
    :param switch: a variable that is 1 for a host that guests leave, and 0
        for one whose slots are counted elsewhere; None if there is none
    :param guests_left: that filters let be there besides, None for any number
    """

    def __init__(
        self, program: integer_program.IntegerProgram,
        occupancy: host_occupancy.HostOccupancy,
        groups: Sequence[counted_fleet.GuestGroup] = (),
        switch: int | None = None, guests_left: int | None = None,
    ) -> None:
        self._program = program
        self._occupancy = occupancy
        self._groups = groups
        self._switch = switch
        self._cells = [cell for cell in occupancy.engine.cells
                       if isinstance(cell, model.HostCell)]
        self._free = self._free_resources()
        if guests_left is not None:
            self._free['guests',] = guests_left
        self._gone: _Uses = {}
        self._come: _Uses = {}
        self._most: dict[_Resource, float] = dict(self._free)
        self.block = HostBlock(occupancy.host.name)

    def leave(self, fixed: bool = False) -> None:
        """Let guests leave.

        :param fixed: whether all of them have to
        """
        self.block.groups = self._groups
        for group in self._groups:
            count = len(group.guests)
            variable = self._program.variable(count)
            self.block.leaving.append(variable)
            if fixed:
                self._program.row([(variable, 1)], low=count)
            if self._switch is not None:
                self._program.row([(variable, 1), (self._switch, -count)],
                                  high=0)
            for resource, amount in self._taken_by(group):
                self._gone.setdefault(resource, []).append((variable, amount))
                self._most[resource] = (
                    self._most.get(resource, 0) + count * amount)

    def come(self, kinds: Iterable[guest_kinds.GuestKind]) -> None:
        """Let guests of these kinds come."""
        for kind in kinds:
            variables = self._place(kind.request, self._come)
            if variables:
                self.block.coming[kind.number] = variables

    def finish(self, sizes: Iterable[guest_request.GuestRequest | None],
               ) -> HostBlock:
        """Write the rows.

        :param sizes: of the slots, each counted as if it was the only one;
            None for one that the host cannot have
        """
        for resource, terms in self._come.items():
            self._row(resource, terms, {})
        for size in sizes:
            uses: _Uses = {}
            variables = [] if size is None else self._place(size, uses)
            self.block.slots.append(variables)
            for resource, terms in uses.items():
                self._row(resource, [*self._come.get(resource, ()), *terms],
                          uses, terms[0][1])
            if self._switch is not None:
                for variable in variables:
                    self._program.row([(variable, 1), (
                        self._switch, -self._program.most(variable))], high=0)
        return self.block

    def _row(self, resource: _Resource, terms: list[integer_program.Term],
             uses: _Uses, unit: float | None = None) -> None:
        """Bind what is taken of a resource by what is free of it.

        :param uses: what slots take of all resources
        """
        most = sum(amount * self._program.most(variable)
                   for variable, amount in terms)
        free = self._free.get(resource, 0)
        if most <= free or self._is_implied(resource, terms, uses):
            return
        terms = terms + [(variable, -amount) for variable, amount
                         in self._gone.get(resource, ())]
        if unit is None:
            self._program.row(terms, high=free)
        else:
            self._program.rounded_row(terms, free, unit, self._switch)

    def _is_implied(self, resource: _Resource,
                    terms: Iterable[integer_program.Term],
                    uses: _Uses) -> bool:
        """Whether memory is enough for all that there are CPUs for."""
        if resource[0] not in ('memory', 'pages'):
            return False
        cpus_of = ('cpus', resource[1])
        cpus = dict([*self._come.get(cpus_of, ()), *uses.get(cpus_of, ())])
        most_per_cpu = 0.0
        for variable, amount in terms:
            if not cpus.get(variable):
                return False
            most_per_cpu = max(most_per_cpu, amount / cpus[variable])
        given_back = dict(self._gone.get(resource, ()))
        needed = most_per_cpu * self._free.get(cpus_of, 0)
        for variable, amount in self._gone.get(cpus_of, ()):
            needed += self._program.most(variable) * max(
                0, most_per_cpu * amount - given_back.get(variable, 0))
        return needed <= self._free.get(resource, 0)

    def _place(
        self, request: guest_request.GuestRequest,
        uses: _Uses,
    ) -> list[int]:
        """Let some guests of a request be on the host.

        :param uses: gets what they take
        :returns: variables whose sum is their number, [] if none fits
        """
        on_host: list[tuple[_Resource, float]] = [
            *self._taken_of_providers(request), *self._taken_devices(request)]
        if ('guests',) in self._free:
            on_host.append((('guests',), 1))
        topology = request.topology
        if topology is None or self._occupancy.host.is_opaque:
            return self._number_of([on_host], uses)
        if len(topology.cells) == 1:
            return self._number_of(
                [[*on_host, *self._taken_devices(request, cell),
                  *self._taken_in(cell, topology, topology.demands[0])]
                 for cell in self._cells], uses)
        return self._place_cells(topology, on_host, uses)

    def _number_of(
        self, choices: Sequence[Sequence[tuple[_Resource, float]]],
        uses: _Uses,
    ) -> list[int]:
        """A variable for each way that takes certain resources."""
        variables = []
        for takes in choices:
            most = min((self._times(resource, amount)
                        for resource, amount in takes), default=0)
            if most < 1:
                continue
            variable = self._program.variable(most)
            variables.append(variable)
            self._take(uses, variable, takes)
        return variables

    def _place_cells(
        self, topology: model.Guest,
        on_host: Sequence[tuple[_Resource, float]],
        uses: _Uses,
    ) -> list[int]:
        """The same of guests of several cells, each on its own host cell.

        So many guests fit if the cells take all guest cells, and none of them
        more than one of a guest.
        """
        demands = dict.fromkeys(topology.demands)
        if len(topology.cells) > len(self._cells):
            return []
        most = min([self._times(*taken) for taken in on_host],
                   default=counting.UNLIMITED)
        places: dict[model.Demand, list[tuple[int, model.HostCell]]] = {}
        for demand in demands:
            rooms = sorted([min([
                self._times(*taken)
                for taken in self._taken_in(cell, topology, demand)],
                default=0) for cell in self._cells], reverse=True)
            share = topology.demands.count(demand)
            if share > len(rooms):
                return []
            most = min(most, sum(rooms) // share)
        if most < 1:
            return []
        whole = self._program.variable(most)
        for demand in demands:
            share = topology.demands.count(demand)
            row: list[integer_program.Term] = [(whole, -share)]
            if share == len(self._cells):
                for cell in self._cells:
                    self._take(uses, whole,
                               self._taken_in(cell, topology, demand))
                continue
            for cell in self._cells:
                part = self._program.variable(most)
                row.append((part, 1))
                places.setdefault(demand, []).append((part, cell))
                self._take(uses, part,
                           self._taken_in(cell, topology, demand))
            self._program.row(row, low=0, high=0)
        for cell in self._cells:
            parts: list[integer_program.Term] = [
                (part, 1.0) for of_demand in places.values()
                for part, place in of_demand if place is cell]
            if parts:
                self._program.row([*parts, (whole, -1)], high=0)
        self._take(uses, whole, on_host)
        return [whole]

    def _take(self, uses: _Uses,
              variable: int,
              takes: Iterable[tuple[_Resource, float]]) -> None:
        for resource, amount in takes:
            uses.setdefault(resource, []).append((variable, amount))

    def _times(self, resource: _Resource, amount: float) -> int:
        """How many times there could be so much of a resource."""
        if amount <= 0:
            return counting.UNLIMITED
        return max(0, math.floor(self._most.get(resource, 0) / amount))

    def _is_counted(self, name: str, topology: model.Guest | None) -> bool:
        """Whether Placement could refuse for lack of a resource.

        It could not for disk of which a snapshot does not tell, nor for what
        the cells limit as strictly. What others may give back of a provider
        that shares with them is not told by one host.
        """
        if ('placement', name) not in self._free:
            return False
        if topology is None or not topology.is_pinned:
            return True
        free = self._free['placement', name]
        if name == inventory.PCPU:
            return free < sum(self._free['cpus', cell.id]
                              for cell in self._cells)
        if name == inventory.MEMORY_MB:
            return free * units.KIB_PER_MIB < sum(
                self._free['memory', cell.id] for cell in self._cells)
        return True

    def _taken_in(
        self, cell: model.HostCell, topology: model.Guest,
        demand: model.Demand,
    ) -> list[tuple[_Resource, float]]:
        """The least that a guest cell takes of a host cell."""
        takes: list[tuple[_Resource, float]] = []
        if topology.is_pinned:
            cpus = demand.dedicated
            if topology.thread_policy is model.ThreadPolicy.ISOLATE:
                cpus *= max(cell.core_sizes, default=1)
            takes.append((('cpus', cell.id), cpus + demand.emulator))
        if demand.shared:
            takes.append((('shared', cell.id), demand.shared))
        if demand.memory_mib and topology.is_pinned:
            memory_kib = demand.memory_mib * units.KIB_PER_MIB
            takes.append((('memory', cell.id), memory_kib))
            page_size_kib = _certain_page_kib(cell, demand)
            if page_size_kib is not None:
                takes.append((('pages', cell.id, page_size_kib), memory_kib))
        return [(resource, amount) for resource, amount in takes if amount]

    def _taken_of_providers(
        self, request: guest_request.GuestRequest,
    ) -> Iterator[tuple[_Resource, float]]:
        """The least that Placement asks of all providers for a guest.

        Any of the queries will do to which the host has an answer: where it
        has VCPUs beside PCPUs, a pinned guest may be counted with either.
        """
        counted = self._counted(request)
        host = self._occupancy.host
        asked = [query.resources for query in request.queries
                 if host.gaps or all(
                     name in host.offers for name, amount
                     in query.resources.items() if amount)]
        for name, amount in counted.items():
            if not amount:
                continue
            for resources in asked:
                # A flavor may ask for less than nova counts else.
                amount = min(amount, resources.get(name, 0))
            if amount and self._is_counted(name, request.topology):
                yield ('placement', name), amount
        for name in asked[0] if asked else ():
            if name not in counted and ('placement', name) in self._free:
                yield ('placement', name), min([
                    resources.get(name, 0) for resources in asked])

    def _counted(
        self, request: guest_request.GuestRequest,
    ) -> Mapping[str, int]:
        """What Placement counts any guest with on the host."""
        return inventory.allocation(
            request.vcpus, request.memory_mib, request.disk_gib,
            request.topology,
            on_pcpus=inventory.PCPU in self._occupancy.inventories)

    def _taken_devices(
        self, request: guest_request.GuestRequest,
        cell: model.HostCell | None = None,
    ) -> Iterator[tuple[_Resource, float]]:
        """The PCI devices that a guest takes of a host, or near a cell."""
        host = self._occupancy.host
        if any(gap.kind is outcome.DoubtKind.DEVICES for gap in host.gaps):
            return
        for asked in request.devices:
            if cell is None:
                near = {pool.numa_node for pool in host.pci_pools}
            elif asked.policy in ('preferred', 'socket'):
                continue
            else:
                near = {cell.id, None}
            resource = 'devices', asked.specs, cell and cell.id
            if resource not in self._free:
                self._count_devices(resource, [
                    place for place, pool in enumerate(host.pci_pools)
                    if pool.numa_node in near and asked.may_have(pool)])
            yield resource, asked.count

    def _count_devices(self, resource: _Resource,
                       places: Sequence[int]) -> None:
        """Find out what is free of some pools, and what guests give back.

        A virtual function that is given back may free its physical one, and
        that its virtual ones: of each guest all count that would not be free
        if it was the only one.
        """
        pools = self._occupancy.host.pci_pools
        left = devices.left(pools, self._occupancy.device_uses)
        self._free[resource] = self._most[resource] = sum(
            left.get(place, 0) for place in places)
        # Of pools that are alike but for what is not known, these come first.
        own = [pools[place] for place in places]
        ordered = [*own, *[pool for place, pool in enumerate(pools)
                           if place not in places]]
        total = sum(pool.total for pool in own)
        for variable, group in zip(self.block.leaving, self._groups):
            amount = 0
            # Guests of a group may have devices of the same pools.
            for used in {guest.devices for guest in group.guests}:
                left = devices.left(ordered, used)
                amount = max(amount, total - sum(
                    left.get(place, 0) for place in range(len(own))))
            if amount:
                self._gone.setdefault(resource, []).append((variable, amount))
                self._most[resource] += len(group.guests) * amount

    def _taken_by(
        self, group: counted_fleet.GuestGroup,
    ) -> Iterator[tuple[_Resource, float]]:
        """What a guest of a group gives back when it leaves."""
        yield ('guests',), 1
        for _provider, amounts in host_occupancy.allocations(
                group.guests[0], self._occupancy.inventories):
            for name, amount in amounts:
                yield ('placement', name), amount
        cells = {cell.id: cell for cell in self._cells}
        for use in group.uses:
            memory_kib = use.memory_mib * units.KIB_PER_MIB
            yield ('cpus', use.cell), use.cpus
            yield ('shared', use.cell), use.shared
            yield ('memory', use.cell), memory_kib
            smallest = cells[use.cell].smallest_pages
            size_kib = use.page_size_kib or (
                smallest.size_kib if smallest is not None else None)
            if size_kib is not None:
                yield ('pages', use.cell, size_kib), memory_kib

    def _free_resources(self) -> dict[_Resource, float]:
        """What is free of the host, 0 where more is used than there is."""
        free: dict[_Resource, float] = {}
        engine = self._occupancy.engine
        for cell in self._cells:
            free['cpus', cell.id] = cell.free_count
            if engine.cpu_allocation_ratio is None:
                free['shared', cell.id] = counting.UNLIMITED
            else:
                free['shared', cell.id] = math.floor(
                    cell.shared_count * engine.cpu_allocation_ratio
                    ) - cell.shared_used
            pools = {pool.size_kib: pool.free_kib
                     for pool in reversed(cell.pages)}
            for size_kib, free_kib in pools.items():
                free['pages', cell.id, size_kib] = free_kib
            free['memory', cell.id] = (
                sum(max(0, free_kib) for free_kib in pools.values())
                if pools else
                (cell.memory_mib - cell.memory_used_mib) * units.KIB_PER_MIB)
        host = self._occupancy.host
        for name, offers in host.offers.items():
            if any(host.providers[index].is_shared for index, _has in offers):
                continue
            free['placement', name] = sum(
                max(0, math.floor(has.capacity)
                    - self._occupancy.used[index].get(name, 0))
                for index, has in offers)
        return {resource: max(0, amount)
                for resource, amount in free.items()}


def _certain_page_kib(cell: model.HostCell,
                      demand: model.Demand) -> int | None:
    """The size of the pages that a guest cell gets, if it is certain."""
    if not cell.pages:
        return None
    size_kib = demand.page_size_kib
    if size_kib is None or size_kib == model.PAGES_SMALL:
        smallest = cell.smallest_pages
        return None if smallest is None else smallest.size_kib
    return size_kib if size_kib > 0 else None
