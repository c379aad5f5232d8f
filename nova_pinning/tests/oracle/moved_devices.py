# SPDX-License-Identifier: Apache-2.0
"""Moves of guests with devices, held against what nova makes of them.

The filters are asked for the guest as it was built, the claim for what
ResourceTracker._move_claim makes of its flavor. A move is right if the guest
gets all that it asks for, and the very devices that Placement allocates to it.
PinnedTopologyFilter drops candidates with which nova gives too few (U214).
"""

from collections.abc import Iterator
from collections.abc import Sequence
import random
from typing import Any
from typing import NamedTuple

from nova_pinning.admission import host_occupancy
from nova_pinning.admission import resident_guest
from nova_pinning.bridge.offline import deferred_claim
from nova_pinning.fleet import snapshot
from nova_pinning import model
from nova_pinning.rebalance import move_rules
from nova_pinning.rebalance import replay
from nova_pinning.scheduler import filters
from nova_pinning.tests.oracle import device_fleet
from nova_pinning.tests.oracle import device_nova

#: Guests of a cloud that are asked for, one of a flavor if that is enough.
_GUESTS = 8


class MoveAnswer(NamedTuple):
    """What is said of a guest that is to go to a host, and what nova does.

    :param kind: 'live', 'cold' or 'evacuation'; '' if a rule keeps it where
        it is
    :param said: None if it is not known
    :param right: for each of Placement's candidates that the filters leave
    """

    guest: resident_guest.ResidentGuest
    host: str
    kind: str
    said: bool | None
    right: tuple[bool, ...]
    text: str


def answers(
    nova: device_fleet.NovaFleet, fleet: snapshot.Fleet,
    there: dict[str, host_occupancy.HostOccupancy], chance: random.Random,
) -> Iterator[MoveAnswer]:
    """Ask of some guests, for all hosts but their own."""
    rules = move_rules.MoveRules(fleet)
    moves = replay.MoveReplay(
        fleet, rules, there, deferred_claim.predict_claim)
    evacuations = rules.admission(deferred_claim.BOUNDS)
    by_flavor: dict[str, list[resident_guest.ResidentGuest]] = {}
    for guest in fleet.guests:
        by_flavor.setdefault(guest.flavor, []).append(guest)
    asked = [chance.choice(guests) for guests in by_flavor.values()]
    asked.sort(key=lambda guest: not guest.devices)
    placed = {guest.uuid: guest for host in nova.hosts.values()
              for guest in host.guests}
    for guest in asked[:_GUESTS]:
        candidates = nova.candidates(guest.flavor)
        for name, host in nova.hosts.items():
            if name == guest.host:
                continue
            target = there[name]
            passing: list[dict[str, Any]] = []
            if name in candidates:
                left = device_nova.filtered(
                    (device_nova.FILTERS[0], filters.PinnedTopologyFilter)
                    if guest.topology else device_nova.FILTERS,
                    [host.state(candidates[name])],
                    placed[guest.uuid].order.spec)
                passing = left[0].allocation_candidates if left else []
            kind = ''
            rule = rules.guest_refusal(guest) or rules.host_refusal(
                guest, target.host)
            if rule:
                yield MoveAnswer(guest, name, kind, False, (), rule)
            else:
                kind = str(rules.kind(guest, target.host))
                yield _answer(guest, name, kind, moves.room(guest, target), [
                    host.taking(placed[guest.uuid], one, kind == 'live')
                    for one in passing])
            # Its claim is that of a cold move.
            if kind != 'cold' and not (
                    rules.evacuation_refusal(guest)
                    or rules.evacuation_host_refusal(guest, target.host)):
                yield _answer(guest, name, 'evacuation', evacuations.room(
                    rules.request(guest), target), [
                        host.taking(placed[guest.uuid], one, False)
                        for one in passing])


def _answer(guest: resident_guest.ResidentGuest, host: str, kind: str,
            found: model.Fit | model.Refusal,
            claims: Sequence[device_nova.NovaClaim | None]) -> MoveAnswer:
    return MoveAnswer(
        guest, host, kind, True if isinstance(found, model.Fit) else
        None if found.reason is model.Reason.UNDECIDED else False,
        tuple(claim is not None for claim in claims), str(found))
