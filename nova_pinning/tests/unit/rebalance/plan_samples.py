# SPDX-License-Identifier: Apache-2.0
"""Plans for tests: any that can be written down, and small ones."""

import dataclasses
import random

from hypothesis import strategies

from nova_pinning.admission import devices
from nova_pinning.fleet import generate
from nova_pinning.fleet import moved_guest
from nova_pinning.fleet import occupied
from nova_pinning import model
from nova_pinning.rebalance import fleet_digest
from nova_pinning.rebalance import plan_model
from nova_pinning.rebalance import plan_request
from nova_pinning.rebalance import slot_size
from nova_pinning.tests.unit.admission import placing

_WORDS = strategies.text(strategies.characters(
    codec='utf-8', exclude_categories=('Cc', 'Cf', 'Cs', 'Zl', 'Zp', 'Zs',
                                       'Co', 'Cn')), min_size=1, max_size=8)
_LINES = strategies.just('') | _WORDS
_AMOUNTS = strategies.integers(0, 2 ** 53 - 1)
_HOSTS = ('a', 'b', 'c')
_CPUS = strategies.integers(0, 8) | strategies.integers(0, 300)
_FITS = strategies.none() | strategies.builds(
    model.Fit, strategies.lists(strategies.builds(
        model.CellFit, strategies.integers(0, 65535),
        strategies.lists(strategies.tuples(_CPUS, _CPUS)).map(tuple),
        strategies.lists(_CPUS, max_size=2).map(tuple),
        strategies.none() | strategies.integers(1, 2 ** 30)),
        min_size=1, max_size=3).map(tuple))


@strategies.composite
def _moves(draw):
    """Of a few guests, each from where the one before has brought it."""
    moves, at = [], {}
    for place in range(draw(strategies.integers(0, 6))):
        guest = draw(strategies.sampled_from('xyz'))
        source = at.get(guest) or draw(strategies.sampled_from(_HOSTS))
        target = draw(strategies.sampled_from(
            [host for host in _HOSTS if host != source]))
        at[guest] = target
        moves.append(draw(strategies.builds(
            plan_model.PlannedMove, guest=strategies.just(guest),
            source=strategies.just(source), target=strategies.just(target),
            kind=strategies.sampled_from(plan_model.MigrationKind),
            vcpus=strategies.integers(1, 65536), memory_mib=_AMOUNTS,
            name=_LINES, flavor=_LINES, disk_gib=_AMOUNTS, source_fit=_FITS,
            target_fit=_FITS,
            seconds=strategies.none() | strategies.floats(0, 1e9),
            cold_reason=_LINES,
            after=strategies.sets(
                strategies.integers(0, max(0, place - 1)),
                max_size=place).map(sorted).map(tuple))))
    for place, move in enumerate(moves):
        if any(later.guest == move.guest for later in moves[place + 1:]):
            moves[place] = dataclasses.replace(
                move, is_parking=draw(strategies.booleans()))
    return tuple(moves)


def _tuples(values):
    return strategies.lists(values, max_size=3).map(tuple)


_DURATIONS = strategies.floats(0, 1e9)
_RATES = strategies.floats(1, 1e9)
_COUNTS = strategies.integers(1, 2 ** 53 - 1)
_SIZES = strategies.builds(
    slot_size.SlotSize, name=_WORDS, weight=_RATES,
    request=strategies.builds(
        dataclasses.replace, strategies.builds(
            slot_size.dedicated_slot, strategies.integers(1, 9)).map(
                lambda size: size.request),
        topology=strategies.none() | strategies.builds(
            model.Guest, _tuples(strategies.just(
                model.GuestCell((0, 1), (2,), 64, model.PAGES_LARGE))),
            physnets=strategies.frozensets(_WORDS, max_size=2)),
        devices=_tuples(strategies.just(devices.PciRequest(
            'nic', (devices.device_keys('8086', '1572'),), 2)))))
#: Whatever a plan can be asked for with.
ANY_REQUEST = strategies.builds(
    plan_request.PlanRequest,
    goal=strategies.builds(
        plan_request.DrainHosts,
        hosts=_tuples(strategies.sampled_from(_HOSTS)))
    | strategies.builds(plan_request.MakeRoom, sizes=_tuples(_SIZES),
                        until=strategies.none() | _COUNTS),
    moves=strategies.none() | _COUNTS,
    share_percent=strategies.none() | strategies.floats(0.01, 100),
    memory_mib=strategies.none() | _COUNTS, fixed=_tuples(_WORDS),
    excluded=_tuples(strategies.sampled_from(_HOSTS)),
    rules=strategies.builds(
        plan_request.RuleSettings, release=_LINES, default_zone=_LINES,
        allows_cold=strategies.booleans(), isolates=strategies.booleans(),
        fixed_tags=strategies.frozensets(_WORDS, max_size=2),
        least_age_days=strategies.none() | _DURATIONS),
    cost=strategies.builds(
        plan_request.CostSettings, bandwidth_mib=_RATES, parallel=_COUNTS,
        window_seconds=strategies.none() | _RATES),
    seconds=_RATES)

#: Whatever a document of a plan can tell.
ANY_PLAN = strategies.builds(
    plan_model.RebalancePlan,
    goal=strategies.sampled_from(plan_model.PlanGoal), moves=_moves(),
    gains=_tuples(strategies.builds(
        plan_model.SlotGain, size=_WORDS, before=_AMOUNTS, after=_AMOUNTS,
        bound=strategies.none() | _AMOUNTS)),
    drained=_tuples(strategies.sampled_from(_HOSTS)),
    stuck=_tuples(strategies.builds(
        plan_model.StuckGuest, guest=_WORDS,
        host=strategies.sampled_from(_HOSTS), reason=_LINES, name=_LINES)),
    is_optimal=strategies.booleans(), stopped=_LINES,
    fleet=strategies.builds(
        plan_model.FleetState,
        digest=strategies.integers(0, 2 ** 256 - 1).map(
            'sha256:{:064x}'.format),
        taken_at=strategies.sampled_from(
            ['', '2026-01-31T12:00:00Z', '2026-01-31T12:00:00.5+00:00'])),
    until=strategies.none() | _COUNTS,
    request=strategies.none() | ANY_REQUEST)


def moving(fleet, *moves, **values):
    """A plan that moves guests, each to where nova would put it.

    :param moves: UUID and the host to go to, of each
    """
    occupancies = occupied.of_fleet(fleet)
    guests = {guest.uuid: guest for guest in fleet.guests}
    last = {}
    planned = []
    for uuid, target in moves:
        guest = guests[uuid]
        found = placing.verdict(
            occupancies[target], moved_guest.of_guest(guest),
            fleet.packs_cells)
        assert isinstance(found, model.Fit), found
        fit = None if guest.topology is None else found
        planned.append(plan_model.PlannedMove(
            guest=uuid, name=guest.name, flavor=guest.flavor,
            source=guest.host, target=target,
            kind=plan_model.MigrationKind.LIVE, vcpus=guest.vcpus,
            memory_mib=guest.memory_mib, source_fit=guest.fit,
            target_fit=fit, after=tuple(sorted(
                {last[name] for name in (guest.host, target)
                 if name in last}))))
        last[guest.host] = last[target] = len(planned) - 1
        occupancies[guest.host] = occupancies[guest.host].without(guest)
        guests[uuid] = dataclasses.replace(guest, host=target, fit=fit)
        occupancies[target] = occupancies[target].adding(guests[uuid])
    return plan_model.RebalancePlan(**{
        'goal': plan_model.PlanGoal.DEFRAGMENT, 'moves': tuple(planned),
        'fleet': plan_model.FleetState(
            digest=fleet_digest.of_fleet(fleet), taken_at=fleet.taken_at),
        **values})


def some_moves(fleet, count, seed=0):
    """UUIDs and hosts for :func:`moving`, any that nova would make."""
    chance = random.Random(seed)
    occupancies = occupied.of_fleet(fleet)
    guests = {guest.uuid: guest for guest in fleet.guests}
    found = []
    for _ in range(50 * count):
        guest = guests[chance.choice(sorted(guests))]
        target = chance.choice(sorted(set(occupancies) - {guest.host}))
        outcome = placing.verdict(
            occupancies[target], moved_guest.of_guest(guest),
            fleet.packs_cells)
        if not isinstance(outcome, model.Fit) or guest.devices:
            continue
        moved = dataclasses.replace(
            guest, host=target, fit=guest.topology and outcome)
        occupancies[guest.host] = occupancies[guest.host].without(guest)
        occupancies[target] = occupancies[target].adding(moved)
        guests[guest.uuid] = moved
        found.append((guest.uuid, target))
        if len(found) == count:
            break
    return found


def example(count=6, seed=1, **values):
    """A small fleet, and a plan of some moves on it."""
    fleet = generate.generate_fleet(
        6, 'two-socket-80', seed, filled=0.6, shared=0.3)
    return fleet, moving(fleet, *some_moves(fleet, count, seed), **values)
