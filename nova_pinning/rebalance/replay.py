# SPDX-License-Identifier: Apache-2.0
"""Moves carried out one after the other, as nova would.

nova is told the host to move a guest to; the NUMA cells and CPUs there are
for nova-compute's claim to choose. So each move is decided by the engine, with
the claim predicted, on the hosts as the moves before it have left them.
"""

import collections
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
import copy
import dataclasses

from nova_pinning.admission import host_occupancy
from nova_pinning.admission import judge
from nova_pinning.admission import offered_host
from nova_pinning.admission import resident_guest
from nova_pinning import fit
from nova_pinning.fleet import occupied
from nova_pinning.fleet import shared_providers
from nova_pinning.fleet import snapshot
from nova_pinning import model
from nova_pinning.rebalance import move_rules
from nova_pinning.rebalance import plan_model


class MoveReplay:
    """A fleet on which guests are moved, one after the other.

    :param occupancies: of all hosts by name, as ``occupied.of_fleet``
        gives them
    :param ask_nova: nova's own claim, None to take the engine's word
    :ivar moves: that were made
    """

    def __init__(
        self, fleet: snapshot.Fleet, rules: move_rules.MoveRules,
        occupancies: Mapping[str, host_occupancy.HostOccupancy],
        ask_nova: fit.AskNova | None = None,
    ) -> None:
        self._rules = rules
        self._shared = shared_providers.SharedProviders(fleet.hosts)
        self._judge = rules.admission(fit.ClaimBounds(ask_nova=ask_nova))
        self._hosts_of_guests = {
            guest.uuid: guest.host for guest in fleet.guests}
        self.occupancies = dict(occupancies)
        self.moves: list[plan_model.PlannedMove] = []

    def copy(self) -> 'MoveReplay':
        """Another one in the same state."""
        other = copy.copy(self)
        other.occupancies = dict(self.occupancies)
        other._hosts_of_guests = dict(self._hosts_of_guests)
        other.moves = list(self.moves)
        return other

    def verdict(
        self, guest: resident_guest.ResidentGuest, target: str,
    ) -> model.Fit | str:
        """The CPUs that a guest gets if it is moved to a host now.

        :param guest: as it is now, ``guest.host`` being its host
        :returns: why nova does not move it there, if so
        """
        occupancy = self.occupancies[target]
        reason = (self._rules.host_refusal(guest, occupancy.host)
                  or self._rules.group_refusal(guest, occupancy.guests))
        if reason:
            return reason
        place = self.room(guest, occupancy)
        return place if isinstance(place, model.Fit) else str(place)

    def room(
        self, guest: resident_guest.ResidentGuest,
        occupancy: host_occupancy.HostOccupancy,
    ) -> model.Fit | model.Refusal:
        """What a guest gets of a host, whatever rules say of going there."""
        request = self._rules.request(guest, occupancy.host)
        place = self._judge.room(request, occupancy)
        if (isinstance(place, model.Fit) and request.is_live
                and _changes_pages(guest, place)):
            return model.Refusal(model.Reason.NOVA_WRONG, detail=(
                'it takes pages of another size than the guest has, which '
                'does not move live'))
        return place

    def move(self, guest: resident_guest.ResidentGuest, target: str,
             target_fit: model.Fit) -> resident_guest.ResidentGuest:
        """Move a guest.

        :param target_fit: as :meth:`verdict` gave it in this very state
        :returns: the guest as it is then
        """
        source = guest.host
        moved = self.moved(guest, self.occupancies[target], target_fit)
        self.moves.append(plan_model.PlannedMove(
            guest=guest.uuid, name=guest.name, source=source, target=target,
            kind=self._rules.kind(guest, self.occupancies[target].host),
            vcpus=guest.vcpus, memory_mib=guest.memory_mib,
            flavor=guest.flavor, disk_gib=guest.disk_gib,
            source_fit=guest.fit, target_fit=moved.fit))
        self.occupancies[target] = self.occupancies[target].adding(moved)
        self.occupancies[source] = self.occupancies[source].without(guest)
        for one, sign in ((moved, 1), (guest, -1)):
            for _uuid, name, place, amounts in self._shared.taken(one):
                if name != one.host:
                    self.occupancies[name] = self.occupancies[
                        name].shared_with(place, amounts, sign)
        self._hosts_of_guests[guest.uuid] = target
        return moved

    def with_guest(
        self, guest: resident_guest.ResidentGuest, target: str,
        target_fit: model.Fit,
    ) -> host_occupancy.HostOccupancy:
        """A host as it would be with a guest from another one."""
        return self.occupancies[target].adding(
            self.moved(guest, self.occupancies[target], target_fit))

    def moved(self, guest: resident_guest.ResidentGuest,
              occupancy: host_occupancy.HostOccupancy,
              target_fit: model.Fit) -> resident_guest.ResidentGuest:
        """The guest with what it uses of a host that it has come to."""
        there = judge.placed_on(
            self._rules.request(guest, occupancy.host), occupancy, target_fit)
        return dataclasses.replace(
            guest, host=there.host, fit=there.fit, devices=there.devices,
            resources=there.resources, allocations=there.allocations)

    def guest(self, uuid: str) -> resident_guest.ResidentGuest:
        """A guest as it is now."""
        return next(guest for guest in self.occupancies[
            self._hosts_of_guests[uuid]].guests if guest.uuid == uuid)

    def try_move(self, uuid: str, target: str) -> model.Fit | str:
        """Move a guest if nova would; otherwise say why not."""
        guest = self.guest(uuid)
        outcome = self.verdict(guest, target)
        if isinstance(outcome, model.Fit):
            self.move(guest, target, outcome)
        return outcome


def _changes_pages(guest: resident_guest.ResidentGuest,
                   place: model.Fit) -> bool:
    """See nova.compute.claims.MoveClaim._test_live_migration_page_size."""
    return (guest.topology is not None and guest.fit is not None
            and fit.has_open_pages(guest.topology)
            and place.page_size_kib != guest.fit.page_size_kib)


def linked(
    moves: Sequence[plan_model.PlannedMove], grouped: Iterable[str] = (),
) -> tuple[plan_model.PlannedMove, ...]:
    """The moves with what each has to wait for, and which are for parking.

    Two moves keep their order if one fills a host that the other fills or
    leaves: nova's choice of cells there could be another one otherwise. So
    do moves of one guest, and those of guests in server groups.

    :param grouped: UUIDs of guests in server groups
    """
    grouped = frozenset(grouped)
    last_of: dict[str, int] = {
        move.guest: number for number, move in enumerate(moves)}
    before: list[set[int]] = []
    done = []
    for number, move in enumerate(moves):
        direct = [
            earlier for earlier, other in enumerate(moves[:number])
            if other.guest == move.guest
            or move.target in (other.target, other.source)
            or other.target == move.source
            or other.guest in grouped and move.guest in grouped]
        implied = set().union(*(before[earlier] for earlier in direct))
        before.append(implied.union(direct))
        done.append(dataclasses.replace(
            move, is_parking=last_of[move.guest] > number,
            after=tuple(earlier for earlier in direct
                        if earlier not in implied)))
    return tuple(done)


def fleet_after(
    fleet: snapshot.Fleet, moves: Sequence[plan_model.PlannedMove],
) -> snapshot.Fleet:
    """The fleet after some or all moves of a plan that was made for it.

    Devices and resources of guests that moved are those that nova takes there.

    :raises KeyError: if a move is of a guest or a host that it has not
    """
    before = occupied.of_fleet(fleet)
    moved = MoveReplay(fleet, move_rules.MoveRules(fleet), before)
    for move in moves:
        moved.move(moved.guest(move.guest), move.target,
                   move.target_fit or judge.FLOATING)
    changed = [occupancy for name, occupancy in moved.occupancies.items()
               if occupancy is not before[name]]
    hosts = {occupancy.host.name: _host(occupancy) for occupancy in changed}
    guests = {guest.uuid: guest for occupancy in changed
              for guest in occupancy.guests}
    return dataclasses.replace(
        fleet, hosts=tuple(hosts.get(host.name, host) for host in fleet.hosts),
        guests=tuple(guests.get(guest.uuid, guest) for guest in fleet.guests))


def _host(occupancy: host_occupancy.HostOccupancy) -> offered_host.OfferedHost:
    """A host with what is held of providers that share beside its guests."""
    held = list(map(collections.Counter, occupancy.used))
    for guest in occupancy.guests:
        for index, amounts in guest.allocations:
            held[index].subtract(dict(amounts))
    host = occupancy.host
    return dataclasses.replace(host, children=tuple(
        dataclasses.replace(child, held=tuple(sorted(
            (name, amount) for name, amount in has.items() if amount)))
        if child.is_shared else child
        for child, has in zip(host.children, held[1:])))
