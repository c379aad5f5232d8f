# SPDX-License-Identifier: Apache-2.0
"""All sequences of a few moves of a small fleet, one after the other.

It has nothing of the planner: what may be moved is worked out anew, from what
:doc:`/admin/rebalance` says, and whether a guest may be on a host, and what it
uses there, is for the judge of admission to say.
"""

from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
import copy
import dataclasses
import datetime
from typing import NamedTuple

from nova_pinning.admission import filters
from nova_pinning.admission import guest_request
from nova_pinning.admission import host_occupancy
from nova_pinning.admission import judge
from nova_pinning.admission import offered_host
from nova_pinning.admission import outcome
from nova_pinning.admission import resident_guest
from nova_pinning.admission import scheduler_rules
from nova_pinning.fleet import moved_guest
from nova_pinning.fleet import occupied
from nova_pinning.fleet import snapshot
from nova_pinning import model
from nova_pinning.model import nova_release
from nova_pinning.rebalance import plan_request
from nova_pinning.upgrade import defect_model
from nova_pinning.upgrade import hits
from nova_pinning.upgrade import known_hits

#: The number of a host with certain guests on it, for each host.
_State = tuple[int, ...]
_ALL = frozenset(outcome.DoubtKind)
#: The QEMU that moves vGPUs live.
_OF_VGPUS = 8_001_000
_RATES = {'idle': 1.0, 'low': 50.0, 'high': 500.0}


class TooManyStates(Exception):
    """There are more than anybody wants to look at."""


class BestMoves(NamedTuple):
    """The best that moves can come to.

    :param value: of the room, or of a drain 1 if the hosts are empty
    :param moves: the fewest for it
    :param memory_mib: the least that as few moves copy
    """

    value: float
    moves: int
    memory_mib: int


class BruteForce:
    """The moves of a fleet.

    :param is_hopeful: whether all that is not known turns out well; else it
        refuses
    :ivar has_doubts: whether anything was not known so far
    """

    def __init__(self, fleet: snapshot.Fleet,
                 request: plan_request.PlanRequest,
                 is_hopeful: bool = False, most_states: int = 30_000) -> None:
        self._request = request
        self._fleet = fleet
        self._left = most_states
        # Of cells without threads any CPU is as good as another.
        self._minds_cpus = False
        assumes = _ALL if is_hopeful else request.rules.assumes
        self._rules = _Rules(fleet, request, assumes)
        self._hopeful_rules = _Rules(fleet, request, _ALL)
        known = self._rules.scheduler.enabled_filters
        self._count_judge = _Judge(
            scheduler_rules.SchedulerRules(
                packs_cells=fleet.packs_cells,
                # The class of hosts, and how many guests one may have.
                enabled_filters=None if known is None else tuple(
                    {'HostClassFilter', 'NumInstancesFilter'
                     }.intersection((*known, 'HostClassFilter'))),
                max_instances_per_host=fleet.rules.max_instances_per_host),
            assumes=_ALL if is_hopeful else frozenset())
        self._shares = any(child.is_shared for host in fleet.hosts
                           for child in host.children)
        self._forget()

    def minding_cpus(self) -> 'BruteForce':
        """The same, guests on other CPUs making another state."""
        other = copy.copy(self)
        other._minds_cpus = True
        other._forget()
        return other

    def _forget(self) -> None:
        fleet = self._fleet
        self.has_doubts = False
        self._occupancies: list[host_occupancy.HostOccupancy] = []
        self._numbers: dict[object, int] = {}
        self._arrivals: dict[tuple[str, int, str], resident_guest.
                             ResidentGuest | None] = {}
        self._after: dict[tuple[int, str], int] = {}
        self._slots: dict[int, tuple[int, ...]] = {}
        self._counts: dict[object, tuple[int, ...]] = {}
        self._names = [host.name for host in fleet.hosts]
        self.start: _State = tuple(
            self._number(occupancy)
            for occupancy in occupied.of_fleet(fleet).values())

    def best(self) -> BestMoves:
        """The best of all sequences within the limits.

        :raises TooManyStates: if there are too many
        """
        reached = best = BestMoves(self.value(self.start), 0, 0)
        at = {self.start: 0}
        least = dict(at)
        for number in range(1, (self._request.moves or 0) + 1):
            if self._is_enough(best.value):
                break
            after: dict[_State, int] = {}
            for state, copied_mib in at.items():
                for guest, there in self.successors(state):
                    memory_mib = copied_mib + guest.memory_mib
                    if memory_mib > (self._request.memory_mib or memory_mib):
                        continue
                    if least.get(there, memory_mib + 1) <= memory_mib:
                        continue
                    least[there] = after[there] = memory_mib
                    self._left -= 1
                    if not self._left:
                        raise TooManyStates
            for there, memory_mib in after.items():
                reached = BestMoves(self.value(there), number, memory_mib)
                best = min(best, reached, key=lambda one: (
                    -one.value, one.moves, one.memory_mib))
            at = after
        return best

    def _is_enough(self, value: float) -> bool:
        goal = self._request.goal
        if isinstance(goal, plan_request.DrainHosts):
            return value == 1
        return goal.until is not None and value >= goal.until

    def value(self, state: _State) -> float:
        """What a state is worth: more than is wanted is worth no more."""
        goal = self._request.goal
        if isinstance(goal, plan_request.DrainHosts):
            return float(not any(
                self._occupancies[number].guests
                for name, number in zip(self._names, state)
                if name in goal.hosts))
        slots = self.slots(state)
        if goal.until is not None:
            return float(min(goal.until, slots[0]))
        return sum(count * size.weight
                   for count, size in zip(slots, goal.sizes))

    def slots(self, state: _State) -> tuple[int, ...]:
        """Further guests of each size."""
        return tuple(map(sum, zip(*map(self._slots_of, state))))

    def _slots_of(self, number: int) -> tuple[int, ...]:
        if number not in self._slots:
            goal = self._request.goal
            assert isinstance(goal, plan_request.MakeRoom)
            occupancy = self._occupancies[number]
            # It depends on what is free, not on who has the rest.
            key = (occupancy.host.name, len(occupancy.guests),
                   occupancy.device_uses, tuple(
                       tuple(used.items()) for used in occupancy.used),
                   tuple(map(_free, occupancy.engine.cells)))
            found = self._counts.get(key)
            if found is None:
                found = self._counts[key] = tuple(
                    self._count(size.request, occupancy)
                    for size in goal.sizes)
            self._slots[number] = found
        return self._slots[number]

    def _count(self, request: guest_request.GuestRequest,
               occupancy: host_occupancy.HostOccupancy) -> int:
        count = 0
        while _has_cpus(request, occupancy):
            found = self._count_judge.answer(request, occupancy)
            self.has_doubts |= isinstance(found, outcome.Undecided)
            if not isinstance(found, outcome.Admitted):
                break
            count += 1
            occupancy = occupancy.adding(
                judge.resident(request, occupancy, found.use))
        return count

    def successors(
        self, state: _State,
    ) -> Iterator[tuple[resident_guest.ResidentGuest, _State]]:
        """What each possible move comes to, with the guest before it."""
        for source, number in enumerate(state):
            for guest in self._occupancies[number].guests:
                for target in range(len(state)):
                    there = self.moved(state, guest, source, target)
                    if there is not None:
                        yield guest, there

    def moved(self, state: _State, guest: resident_guest.ResidentGuest,
              source: int, target: int) -> _State | None:
        """The state after a move, None if it cannot be made."""
        host = self._fleet.hosts[target]
        if source == target or not self._hopeful_rules.allows(
                guest, host) or not self._is_in_group(state, guest, target):
            return None
        goal = self._request.goal
        if isinstance(goal, plan_request.DrainHosts) and (
                self._names[target] in goal.hosts):
            return None
        arrived = self._arrived(guest, state[target])
        if arrived is None:
            return None
        if not self._rules.allows(guest, host):
            self.has_doubts = True
            return None
        after = list(state)
        key = state[target], guest.uuid
        if key not in self._after:
            self._after[key] = self._number(
                self._occupancies[state[target]].adding(arrived))
        after[target] = self._after[key]
        key = state[source], guest.uuid
        if key not in self._after:
            self._after[key] = self._number(
                self._occupancies[state[source]].without(guest))
        after[source] = self._after[key]
        if self._shares:
            self._share(after, target, arrived.allocations, 1)
            self._share(after, source, guest.allocations, -1)
        return tuple(after)

    def _share(
        self, after: list[int], own: int,
        allocations: Sequence[tuple[int, outcome.Amounts]], sign: int,
    ) -> None:
        """Count what a guest has of other hosts' providers there, too."""
        children = self._fleet.hosts[own].children
        for index, amounts in allocations:
            shared = children[index - 1]
            for number, host in enumerate(self._fleet.hosts):
                for place, child in enumerate(host.children, 1):
                    if number != own and shared.is_shared and (
                            child.uuid == shared.uuid):
                        after[number] = self._number(self._occupancies[
                            after[number]].shared_with(place, amounts, sign))

    def _arrived(
        self, guest: resident_guest.ResidentGuest, target: int,
    ) -> resident_guest.ResidentGuest | None:
        key = guest.uuid, target, ''
        if key not in self._arrivals:
            occupancy = self._occupancies[target]
            request = self._rules.request(guest)
            found: outcome.Outcome | None = None
            if _has_cpus(request, occupancy):
                found = self._rules.judge.answer(
                    request, occupancy, self._rules.wishes(guest))
            self.has_doubts |= isinstance(found, outcome.Undecided)
            arrived = None
            if isinstance(found, outcome.Admitted):
                there = judge.resident(request, occupancy, found.use)
                arrived = dataclasses.replace(
                    guest, host=there.host, fit=there.fit,
                    devices=there.devices, resources=there.resources,
                    allocations=there.allocations)
            self._arrivals[key] = arrived
        return self._arrivals[key]

    def _is_in_group(
        self, state: _State, guest: resident_guest.ResidentGuest, target: int,
    ) -> bool:
        """Whether its server group lets a guest go to a host."""
        group = self._rules.groups.get(guest.server_group)
        if group is None:
            return True
        there = sum(other.server_group == group.id for other
                    in self._occupancies[state[target]].guests)
        if group.policy is offered_host.GroupPolicy.AFFINITY:
            return there > 0
        if group.policy is offered_host.GroupPolicy.ANTI_AFFINITY:
            return there < group.max_per_host
        return True

    def after(self, state: _State, uuid: str, target: str,
              fit: model.Fit | None) -> _State | None:
        """The state after a move of a plan; None if it is none.

        :param fit: where the guest is said to be then
        """
        for source, number in enumerate(state):
            for guest in self._occupancies[number].guests:
                if guest.uuid == uuid:
                    number = self._names.index(target)
                    there = self.moved(state, guest, source, number)
                    arrived = self._arrived(guest, state[number])
                    if arrived is None or arrived.fit != fit:
                        return None
                    return there
        return None

    def request_on(
        self, state: _State, uuid: str, target: str,
    ) -> tuple[host_occupancy.HostOccupancy, guest_request.GuestRequest]:
        """A host, and what a guest that is to come asks it for."""
        guest = next(guest for guest in self._fleet.guests
                     if guest.uuid == uuid)
        return (self._occupancies[state[self._names.index(target)]],
                self._rules.request(guest))

    def _number(self, occupancy: host_occupancy.HostOccupancy) -> int:
        key = occupancy.host.name, frozenset(
            (guest.uuid, guest.fit if self._minds_cpus
             else _place(guest, occupancy.host), guest.devices,
             guest.allocations, tuple(guest.resources.items()))
            for guest in occupancy.guests), tuple(
                tuple(sorted(used.items())) for used in occupancy.used[1:]
            ) if self._shares else ()
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self._occupancies)
            self._occupancies.append(occupancy)
        return number


def _has_cpus(request: guest_request.GuestRequest,
              occupancy: host_occupancy.HostOccupancy) -> bool:
    """Whether a host has the CPUs at all, which is told soonest."""
    if request.topology is None or not request.topology.is_pinned:
        return True
    return sum(demand.dedicated for demand in request.topology.demands) <= sum(
        cell.free_count for cell in occupancy.engine.cells)


def _place(guest: resident_guest.ResidentGuest,
           host: offered_host.OfferedHost) -> object:
    """Where a guest lies; of a cell without threads any CPU will do."""
    if guest.fit is None or any(
            size > 1 for cell in host.cells for size in cell.core_sizes):
        return guest.fit
    return tuple((cell.host_cell, cell.page_size_kib)
                 for cell in guest.fit.cells)


def _free(cell: model.CellView) -> object:
    """What a host cell has left; of one without threads any CPU will do."""
    assert isinstance(cell, model.HostCell)
    return (cell.free_cpus if any(size > 1 for size in cell.core_sizes)
            else len(cell.free_cpus), cell.shared_used, cell.memory_used_mib,
            cell.pages)


class _Judge(judge.AdmissionJudge):
    """Asks once what does not depend on the guests of a host."""

    def __init__(self, rules: scheduler_rules.SchedulerRules,
                 assumes: frozenset[outcome.DoubtKind]) -> None:
        super().__init__(rules, assumes=assumes)
        self._gates: dict[object, filters.FilterVerdict] = {}

    def gate(
        self, request: guest_request.GuestRequest,
        host: offered_host.OfferedHost,
        wishes: guest_request.GuestWishes = guest_request.GuestWishes(),
    ) -> filters.FilterVerdict:
        # Equal requests of one fleet are the same object.
        key = (id(request), host.name, wishes.project,
               wishes.availability_zone)
        if key not in self._gates:
            self._gates[key] = super().gate(request, host, wishes)
        return self._gates[key]


class _Rules:
    """Whether a guest may be moved to a host, room and groups apart.

    :param assumes: kinds of what is not known that refuse nothing
    """

    def __init__(self, fleet: snapshot.Fleet,
                 request: plan_request.PlanRequest,
                 assumes: frozenset[outcome.DoubtKind]) -> None:
        self._settings = request.rules
        self._limit_mib = request.cost.dirty_limit_mib
        self._assumes = assumes
        scheduler = occupied.rules_of(fleet)
        self.scheduler = dataclasses.replace(
            scheduler, isolates=request.rules.isolates or scheduler.isolates,
            default_zone=request.rules.default_zone or scheduler.default_zone)
        self.judge = _Judge(self.scheduler, assumes=assumes)
        self.groups: Mapping[str, offered_host.ServerGroup] = {
            group.id: group for group in fleet.server_groups}
        self._fleet = fleet
        self._hosts = {host.name: host for host in fleet.hosts}
        self._specs = {flavor.name: flavor.extra_specs
                       for flavor in fleet.flavors}
        reader = moved_guest.RequestReader(fleet)
        self._requests = {guest.uuid: reader.request(guest)
                          for guest in fleet.guests}
        self._fixed = frozenset(request.fixed)
        self._taken_at = fleet.taken_at
        self._known: dict[tuple[str, str, str], bool] = {}

    def request(
        self, guest: resident_guest.ResidentGuest,
    ) -> guest_request.GuestRequest:
        """What nova has recorded that it asked for."""
        return self._requests[guest.uuid]

    @staticmethod
    def wishes(
        guest: resident_guest.ResidentGuest,
    ) -> guest_request.GuestWishes:
        return guest_request.GuestWishes(
            project=guest.project,
            availability_zone=guest.availability_zone or None)

    def allows(self, guest: resident_guest.ResidentGuest,
               target: offered_host.OfferedHost) -> bool:
        """Whether it may leave its host for this one."""
        key = guest.uuid, guest.host, target.name
        if key not in self._known:
            source = self._hosts[guest.host]
            self._known[key] = (
                not self._stays(guest)
                and self._is_near(guest, source, target)
                and (self._is_cold(guest, source)
                     or self._is_live(guest, source, target)))
        return self._known[key]

    def _stays(self, guest: resident_guest.ResidentGuest) -> bool:
        settings = self._settings
        if not guest.is_movable or guest.uuid in self._fixed or (
                settings.fixed_tags.intersection(guest.tags)):
            return True
        if settings.least_age_days is not None and (
                not guest.launched_at or _days(
                    guest.launched_at, self._taken_at)
                < settings.least_age_days):
            return True
        said = guest.metadata.get(
            'pinning:movable',
            self._specs[guest.flavor].get('pinning:movable', 'true'))
        return said == 'false'

    def _is_near(
        self, guest: resident_guest.ResidentGuest,
        source: offered_host.OfferedHost, target: offered_host.OfferedHost,
    ) -> bool:
        """Whether both are of one cell of nova's, and of one zone."""
        if source.nova_cell and target.nova_cell and (
                source.nova_cell != target.nova_cell):
            return False
        if guest.availability_zone:
            return True
        crosses = self._settings.crosses_zones and (
            guest.availability_zone is not None
            or outcome.DoubtKind.REQUEST in self._assumes)
        return crosses or (self.scheduler.zone_of(source)
                           == self.scheduler.zone_of(target))

    def _is_cold(self, guest: resident_guest.ResidentGuest,
                 source: offered_host.OfferedHost) -> bool:
        if guest.devices and not self._settings.moves_devices:
            return False
        return (self._settings.allows_cold
                and guest.vm_state in ('', 'active', 'stopped')
                and not self._is_hit(
                    guest, source, defect_model.Operation.COLD_MIGRATION))

    def _is_live(
        self, guest: resident_guest.ResidentGuest,
        source: offered_host.OfferedHost, target: offered_host.OfferedHost,
    ) -> bool:
        specs = self._specs[guest.flavor]
        if guest.vm_state not in ('', 'active', 'paused') or any(
                not guest.asks_live_devices
                or dict(use.keys).get('live_migratable') != 'true'
                for use in guest.devices):
            return False
        if 'resources:VGPU' in specs:
            # Of no flavor here is it told which type it asks for.
            qemu = [host.hypervisor_version or _OF_VGPUS
                    for host in (source, target)]
            if min(qemu) < _OF_VGPUS or (
                    outcome.DoubtKind.DEVICES not in self._assumes):
                return False
        if 'hw:tpm_version' in specs and (
                specs.get('hw:tpm_secret_security') != 'host'
                or self._has_old_one(source)):
            return False
        rate = guest.metadata.get('pinning:dirty_rate') or specs.get(
            'pinning:dirty_rate')
        if rate and self._limit_mib is not None and (
                (_RATES.get(rate) or float(rate)) >= self._limit_mib):
            return False
        if source.hypervisor_version and target.hypervisor_version and (
                target.hypervisor_version < source.hypervisor_version):
            return False
        if source.nova_release and target.nova_release and (
                target.nova_release < source.nova_release):
            return False
        own, other = source.cpu_model, target.cpu_model
        if own and other and (own.model != other.model
                              or own.features - other.features):
            return False
        return not self._is_hit(
            guest, source, defect_model.Operation.LIVE_MIGRATION)

    def _has_old_one(self, source: offered_host.OfferedHost) -> bool:
        """Whether a host of its cell of nova's is too old to move TPMs."""
        return any(
            host.nova_release is not None
            and nova_release.of_name(host.nova_release)
            < nova_release.MOVES_TPMS
            for host in self._fleet.hosts
            if not source.nova_cell
            or host.nova_cell in ('', source.nova_cell))

    def _is_hit(self, guest: resident_guest.ResidentGuest,
                source: offered_host.OfferedHost,
                operation: defect_model.Operation) -> bool:
        """Whether a known defect of nova hits it on its way."""
        return bool(known_hits.told(
            hit for hit in known_hits.KnownDefects().hitting(
                operation, hits.GuestOnHost(guest, source))
            if hit.is_sure or not self._settings.is_restarted))


def _days(since: str, until: str) -> float:
    first, last = map(datetime.datetime.fromisoformat, (since, until))
    return (last - first).total_seconds() / 86_400


def copied_mib(guests: Sequence[resident_guest.ResidentGuest],
               moved: Sequence[str]) -> int:
    """What moves of these guests copy."""
    memory_mib = {guest.uuid: guest.memory_mib for guest in guests}
    return sum(memory_mib[uuid] for uuid in moved)
