# SPDX-License-Identifier: Apache-2.0
"""Guests that would surely not come up if their host were lost.

That is what can be told of thousands of hosts in seconds: a guest that no
other host would take, were it the only one that is evacuated. Of the others
:mod:`nova_pinning.rebalance.failover` tells whether they come up together.
"""

from collections.abc import Hashable
from collections.abc import Mapping
import dataclasses
import itertools

from nova_pinning.admission import resident_guest
from nova_pinning.fleet import guest_kinds
from nova_pinning.fleet import migration
from nova_pinning.fleet import snapshot
from nova_pinning.rebalance import evacuation
from nova_pinning.rebalance import move_rules


class _LossRules(move_rules.MoveRules):

    def guest_key(self, guest: resident_guest.ResidentGuest) -> Hashable:
        # Whether it may be moved while its host is well does not matter, and
        # takes as long as all the rest.
        return migration.MigrationRules.guest_key(self, guest)


def find(fleet: snapshot.Fleet) -> Mapping[str, frozenset[str]]:
    """The UUIDs of guests that no other host would take, by their host.

    By the rules of nova alone. A host of which not all is known counts as one
    that would, so that each of these guests is certain.
    """
    # How old guests are has no part in it.
    rules = _LossRules(dataclasses.replace(fleet, taken_at=''))
    evacuated = evacuation.EvacuationFleet(fleet, rules)
    takers: dict[int, tuple[str, ...]] = {}
    found: dict[str, list[str]] = {}
    for guest in fleet.guests:
        if guest.host not in evacuated.states:
            continue
        kind = evacuated.kind(guest)
        if kind.number not in takers:
            # Of two, one is left whichever host is lost.
            takers[kind.number] = tuple(itertools.islice((
                name for name, state in evacuated.states.items()
                if _may_take(evacuated, kind, state)), 2))
        if takers[kind.number] in ((), (guest.host,)) or (
                rules.evacuation_refusal(guest)):
            found.setdefault(guest.host, []).append(guest.uuid)
    return {host: frozenset(uuids) for host, uuids in found.items()}


def _may_take(evacuated: evacuation.EvacuationFleet,
              kind: guest_kinds.GuestKind,
              state: guest_kinds.HostState) -> bool:
    """Whether a host takes a guest, as far as is known."""
    return evacuated.would_take(kind, state) or bool(
        evacuated.doubt(kind, state))
