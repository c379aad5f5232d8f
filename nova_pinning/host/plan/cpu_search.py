# SPDX-License-Identifier: Apache-2.0
"""The choice of a host's CPUs that leaves most to sell.

What can be sold depends only on how many CPUs each node has left. So it is
worked out for each way to spread what is taken over nodes that are alike, see
:mod:`nova_pinning.host.plan.spreads`, and nodes and cores are found for the
best of them.
"""

import bisect
from collections.abc import Mapping
from collections.abc import Sequence
import dataclasses
import functools
import itertools

from nova_pinning import cpuset
from nova_pinning import fit
from nova_pinning.host.plan import allocatable_cores
from nova_pinning.host.plan import core_allocations
from nova_pinning.host.plan import spreads
from nova_pinning.host import plan_model

#: Bounds on what is looked at, so that no host takes more than seconds. It
#: takes a host of many nodes, and many of its CPUs shared, to meet them. Of
#: what is found from node to node that is taken then which is least bad so
#: far.
_MAX_EQUAL_SPREADS = 64
#: Choices that only serve to be compared with need not be the best ones.
_MAX_WORSE_SPREADS = 4
_MOST_STATES = 1000
#: To find out what can be sold, any choice will do.
_MOST_ROUGH_STATES = 100
#: Steps after which no more equal spreads are looked at.
_STEPS_PER_STATE = 200


@dataclasses.dataclass(frozen=True, slots=True)
class CpuDemand:
    """What to look for.

    :param host_cpus: exactly, as poll_cpus by node
    :param shared_cpus: exactly; None to share all that others leave
    :param weights: of each size
    """

    purpose: plan_model.Purpose
    host_cpus: int
    shared_cpus: int | None
    poll_cpus: Mapping[int, int]
    sizes: tuple[fit.Size, ...]
    weights: tuple[int, ...]


def search(allocatable_nodes: Sequence[allocatable_cores.AllocatableNode],
           demand: CpuDemand, count: int = 1, is_rough: bool = False,
           ) -> list[plan_model.CpuChoice]:
    """The best choices, the best first.

    The best is that of the largest SaleValue, and among those the one
    of the least cost by what :mod:`nova_pinning.host.plan.core_allocations`
    has. After it comes the next best of the same value that is of another
    kind, and then the best of each value below. Two choices are of one kind if
    they take as many CPUs from nodes that are alike.

    :param count: of choices, at most
    :param is_rough: whether another choice of the largest SaleValue is as
        good as the best
    :returns: none if the host has no cores that make up these numbers
    """
    field = _Field(allocatable_nodes, demand)
    if not field.is_possible:
        return []
    most_states = _MOST_ROUGH_STATES if is_rough else _MOST_STATES
    choices: list[plan_model.CpuChoice] = []
    ranked = field.spreads.best(demand.host_cpus + (demand.shared_cpus or 0))
    for _loss, equal in itertools.groupby(ranked, lambda found: found[0]):
        best: list[_Entry] = []
        most = (1 if is_rough else
                _MAX_WORSE_SPREADS if choices else _MAX_EQUAL_SPREADS)
        for _same, spread in itertools.islice(equal, most):
            if best and field.steps > _STEPS_PER_STATE * most_states:
                break
            for entry in field.best_for(spread, most_states):
                _add(best, entry)
        for entry in best[:1 if choices else 2]:
            choices.append(field.choice(entry))
            if len(choices) == count:
                return choices
    return choices


#: Ways for some of the nodes: what they cost, a number for what is taken from
#: which kinds of nodes, the last of them, and those of the nodes before. A
#: bare tuple, since hundreds of thousands are made.
_Entry = tuple[
    int, int, core_allocations.CoreAllocation | None, '_Entry | None']


#: Whether there are CPUs for the host in the socket so far, the first socket
#: with some where distances count, and whether there are some for the host,
#: and shared ones, in the L3 domain that reaches over nodes.
_Touched = tuple[bool, int | None, bool, bool]
_UNTOUCHED = False, None, False, False

#: An allocation of a node as what it takes for the host and shared, what it
#: costs, and a number for what it takes from a node of this kind; with what
#: the next node has to know.
_Way = tuple[
    int, int, int, int, _Touched, core_allocations.CoreAllocation]

#: (host CPUs, shared CPUs) still available.
_State = tuple[int, int, _Touched]


class _Field:
    """All nodes of a host, and what can be taken from each."""

    def __init__(
        self, allocatable_nodes: Sequence[allocatable_cores.AllocatableNode],
        demand: CpuDemand,
    ) -> None:
        # Those of a socket, and of a cache in it, one after the other.
        self._nodes = tuple(sorted(allocatable_nodes, key=lambda node: (
            node.socket, node.wide_domain, node.id)))
        self._demand = demand
        self._shared = demand.shared_cpus or 0
        self._scale = core_allocations.CostScale(
            domain for node in self._nodes for domain in node.domains)
        self._allocations = [core_allocations.allocations(
            node.domains, demand.purpose, core_allocations.AllocationLimits(
                demand.host_cpus, demand.poll_cpus.get(node.id, 0),
                demand.shared_cpus)) for node in self._nodes]
        #: Whether each node has the cores for polling that it has to have.
        self.is_possible = all(self._allocations)
        self.spreads = spreads.Spreads(
            self._nodes, self._allocations, demand.poll_cpus, demand.sizes,
            demand.weights)
        #: How much has been looked at.
        self.steps = 0
        self._ways = functools.cache(self._ways_of)
        self._marks = functools.cache(self._marks_of)
        self._kind_of = self._kinds()
        #: Numbers for what is taken from a node of a kind.
        self._takings: dict[tuple[int, int, int], int] = {}

    def best_for(self, spread: spreads.Spread,
                 most_states: int | None) -> list[_Entry]:
        """The best nodes for a spread, and the best of another kind.

        :param most_states: how many to go on with from node to node, None
            for all
        """
        is_cut = False
        states: dict[spreads.Spread, dict[_State, list[_Entry]]] = {spread: {
            (self._demand.host_cpus, self._shared, _UNTOUCHED): [
                (0, 0, None, None)]}}
        for number in range(len(self._nodes)):
            after: dict[spreads.Spread, dict[_State, list[_Entry]]] = {}
            for nodes, by_state in states.items():
                for level, nodes_left, least, most in self.spreads.levels_left(
                        self.spreads.class_of[number], nodes):
                    self._go_on(number, level, by_state, least, most,
                                after.setdefault(nodes_left, {}))
            states = after
            if most_states is not None and most_states < sum(
                    map(len, states.values())):
                is_cut = True
                dearest = sorted(
                    best[0][0] for by_state in states.values()
                    for best in by_state.values())[most_states - 1]
                states = {nodes: {
                    state: best for state, best in by_state.items()
                    if best[0][0] <= dearest}
                    for nodes, by_state in states.items()}
        found = [entry for by_state in states.values()
                 for best in by_state.values() for entry in best]
        if is_cut and not found:
            return self.best_for(spread, None)
        # Nothing is left to take: what nodes after the last can give is 0.
        return found

    def _go_on(self, number: int, level: int,
               by_state: Mapping[_State, list[_Entry]], least: int, most: int,
               after: dict[_State, list[_Entry]]) -> None:
        """Take one more node, on one level.

        :param least: CPUs that the nodes after it take, as most
        :param after: where the best for each state are kept
        """
        steps = 0
        for (host, shared, touched), entries in by_state.items():
            left = host + shared
            for (its_host, its_shared, its_cost, its_kind, its_touched,
                 allocation) in self._ways(number, level, touched):
                if its_host > host:
                    break
                if its_shared > shared or not (
                        least <= left - its_host - its_shared <= most):
                    continue
                steps += 1
                state = host - its_host, shared - its_shared, its_touched
                best = after.get(state)
                if best is None:
                    after[state] = [
                        (cost + its_cost, kind + its_kind, allocation, entry)
                        for entry in entries for cost, kind, *_ in (entry,)]
                    continue
                for entry in entries:
                    cost = entry[0] + its_cost
                    if len(best) < 2 or cost < best[1][0]:
                        _add(best, (cost, entry[1] + its_kind, allocation,
                                    entry))
        self.steps += steps

    def _ways_of(self, number: int, level: int,
                 touched: _Touched) -> list[_Way]:
        """The ways of a node on a level, the fewest CPUs for the host first.

        :param touched: by what is taken of the nodes before
        """
        allocations = self._allocations[number]
        its_level = self.spreads.levels[level]
        bits = len(self._nodes).bit_length()
        ways = []
        for allocation in allocations[
                bisect.bisect_left(allocations, its_level.least,
                                   key=core_allocations.cpus_taken):
                bisect.bisect_right(allocations, its_level.most,
                                    key=core_allocations.cpus_taken)]:
            beyond, after = self._beyond(number, allocation, touched)
            # Such numbers can be added up without two sums being the same,
            # since there are not so many nodes.
            kind = 1 << bits * self._takings.setdefault(
                (self._kind_of[number], allocation.host_cpus,
                 allocation.shared_cpus), len(self._takings))
            ways.append((
                allocation.host_cpus, allocation.shared_cpus,
                self._scale.number(
                    allocation.figures + beyond, zip(
                        self._marks(number), allocation.taken)),
                kind, after, allocation))
        return sorted(ways, key=lambda way: way[0])

    def _marks_of(self, number: int) -> list[list[int]]:
        return [self._scale.marks(group.cores)
                for domain in self._nodes[number].domains
                for group in domain.groups]

    def _beyond(
        self, number: int, allocation: core_allocations.CoreAllocation,
        touched: _Touched,
    ) -> tuple[int, _Touched]:
        """What an allocation costs by devices, and what other nodes have.

        :param touched: by allocations of the nodes before
        :returns: with what the next node has to know
        """
        node = self._nodes[number]
        has_host, first, has_l3_host, has_l3_shared = touched
        busy = idle = sockets = distances = l3_host = l3_shared = 0
        if not allocation.host_cpus:
            busy, idle = node.busy_devices, node.idle_devices
        elif not has_host:
            sockets, has_host = 1, True
            if first is not None:
                distances = dict(node.socket_distances)[first]
            elif node.socket_distances:
                first = node.socket
        if node.wide_domain:
            own, shared = allocation.uses
            size = len(node.wide_domain)
            l3_host = (0 if has_l3_host or not own else size) - own
            l3_shared = (0 if has_l3_shared or not shared else size) - shared
            has_l3_host |= own > 0
            has_l3_shared |= shared > 0
        after = self._nodes[number + 1:number + 2]
        is_same_l3 = after and node.wide_domain and (
            after[0].wide_domain == node.wide_domain)
        return core_allocations.figures(
            busy_devices=busy, idle_devices=idle,
            gpu_cpus=core_allocations.cpus_taken(
                allocation) if node.has_gpus else 0,
            l3_host=l3_host, l3_shared=l3_shared, sockets=sockets,
            socket_distances=distances,
        ), (bool(after) and after[0].socket == node.socket and has_host, first,
            *((has_l3_host, has_l3_shared) if is_same_l3 else (False, False)))

    def choice(self, entry: _Entry) -> plan_model.CpuChoice:
        """The CPUs that ways for all nodes take."""
        uses: list[list[int]] = [[], [], [], []]
        allocations: list[core_allocations.CoreAllocation] = []
        _cost, _kind, allocation, before = entry
        while before is not None:
            assert allocation is not None
            allocations.append(allocation)
            _cost, _kind, allocation, before = before
        for node, allocation in zip(self._nodes, reversed(allocations)):
            groups = (group for domain in node.domains
                      for group in domain.groups)
            for group, taken in zip(groups, allocation.taken):
                cores = iter(group.cores)
                for use, count in enumerate((*taken, len(group.cores))):
                    for core in itertools.islice(cores, count):
                        uses[use] += core
        return plan_model.CpuChoice(*map(cpuset.CpuSet, uses))

    def _kinds(self) -> list[int]:
        """Of each node a number for those that are alike, devices and all."""
        kinds: dict[object, int] = {}
        numbers = []
        for node, node_class in zip(self._nodes, self.spreads.class_of):
            has_cpu0 = any(
                core[0] == 0 for domain in node.domains
                for group in domain.groups for core in group.cores)
            shape = tuple(sorted(
                tuple(sorted((group.threads, group.is_slow, len(group.cores))
                             for group in domain.groups))
                for domain in node.domains))
            numbers.append(kinds.setdefault(
                (node_class, node.busy_devices, node.idle_devices,
                 node.has_gpus, has_cpu0, shape), len(kinds)))
        return numbers


def _add(best: list[_Entry], entry: _Entry) -> None:
    """Keep the best, and the best that is of another kind."""
    if not best or entry[0] < best[0][0]:
        if best and best[0][1] != entry[1]:
            best[1:] = best[:1]
        best[:1] = [entry]
    elif entry[1] != best[0][1] and (
            len(best) < 2 or entry[0] < best[1][0]):
        best[1:] = [entry]
