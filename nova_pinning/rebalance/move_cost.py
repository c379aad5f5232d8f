# SPDX-License-Identifier: Apache-2.0
"""How long moves take.

A live migration copies all memory, then again and again what was written
meanwhile (pre-copy: Clark et al., Live Migration of Virtual Machines, NSDI
2005, section 3). With a bandwidth B and a guest of M MiB that writes D MiB/s,
round number i copies ``M * (D / B) ** i``, so the whole is a geometric series
that ends once what is left can be copied within the downtime that is allowed.
Where D is not below B it never ends, unless QEMU slows the guest down or
switches over before.
"""

from collections.abc import Mapping
import dataclasses
import heapq
import math

from nova_pinning.admission import resident_guest
from nova_pinning import errors
from nova_pinning.fleet import snapshot
from nova_pinning.rebalance import plan_model
from nova_pinning.rebalance import plan_request
from nova_pinning import units

#: In a server's metadata or a flavor's extra specs: a class, or MiB/s.
DIRTY_RATE_KEY = 'pinning:dirty_rate'
#: MiB/s that each class is reckoned with. They are round figures, and not
#: measured: a guest that does nothing, one that serves, one that writes as
#: fast as a 4 Gbit/s link copies.
DIRTY_RATES = {'idle': 1.0, 'low': 50.0, 'high': 500.0}

# QEMU slows a guest down by 20%, then by 10% more after each round of which
# more than half was written again (cpu-throttle-initial, -increment,
# throttle-trigger-threshold and max-cpu-throttle, all as they are by default).
_FIRST_THROTTLE, _MORE_THROTTLE, _MOST_THROTTLE = 0.2, 0.1, 0.99
_THROTTLED_FROM = 0.5
# Nova switches over once a round leaves hardly less than the one before
# (nova.virt.libvirt.migration.should_switch_to_postcopy).
_SWITCHED_FROM = 0.9
_MOST_ROUNDS = 1000


def dirty_rate(guest: resident_guest.ResidentGuest,
               extra_specs: Mapping[str, str]) -> float | None:
    """What a guest writes per second, in MiB.

    :param extra_specs: of its flavor; its own metadata outweigh them
    :returns: None if it is not known, or what is said makes no sense
    """
    text = (guest.metadata.get(DIRTY_RATE_KEY)
            or extra_specs.get(DIRTY_RATE_KEY) or '')
    if text in DIRTY_RATES:
        return DIRTY_RATES[text]
    try:
        rate = float(text)
    except ValueError:
        return None
    # Neither below nothing, nor what float() makes of 'nan' or 'inf'.
    return rate if 0 <= rate < 2 ** 40 else None


def seconds_of(move: plan_model.PlannedMove,
               settings: plan_request.CostSettings,
               dirty_rate_mib: float | None = None) -> float | None:
    """How long a move takes, None if it does not end.

    :param dirty_rate_mib: that the guest writes per second; None if it is not
        known, and then nothing is copied twice
    """
    seconds: float | None = settings.stop_seconds
    if move.kind is plan_model.MigrationKind.LIVE:
        seconds = _pre_copy(move.memory_mib, dirty_rate_mib or 0.0, settings)
    disk_mib = (0 if settings.shared_storage
                else move.disk_gib * units.MIB_PER_GIB)
    return None if seconds is None else (
        seconds + disk_mib / settings.bandwidth_mib
        + settings.overhead_seconds)


def _pre_copy(memory_mib: float, rate_mib: float,
              settings: plan_request.CostSettings) -> float | None:
    """Seconds that memory alone takes, round by round."""
    bandwidth = settings.bandwidth_mib
    left, copied, throttle = float(memory_mib), 0.0, 0.0
    for number in range(_MOST_ROUNDS):
        if number and left <= bandwidth * settings.downtime_seconds:
            return (copied + left) / bandwidth
        copied += left
        # No more can be written again than there is.
        written = min(memory_mib,
                      rate_mib * (1 - throttle) * left / bandwidth)
        if written >= _SWITCHED_FROM * left and number and settings.post_copy:
            # The guest runs on, on the other host, and waits for pages.
            return (copied + written) / bandwidth
        if written > _THROTTLED_FROM * left and settings.auto_converge:
            throttle = min(_MOST_THROTTLE, throttle + (
                _MORE_THROTTLE if throttle else _FIRST_THROTTLE))
        elif written >= left and not settings.post_copy:
            break
        left = written
    return None


def priced(plan: plan_model.RebalancePlan, settings: plan_request.CostSettings,
           fleet: snapshot.Fleet | None = None) -> plan_model.RebalancePlan:
    """The plan with the seconds of each move.

    :param fleet: that it is for, for the dirty rates; without, none is known
    :raises errors.InputError: if a move takes longer than a window
    """
    rates = _dirty_rates(fleet) if fleet is not None else {}
    plan = dataclasses.replace(plan, moves=tuple(
        dataclasses.replace(move, seconds=seconds_of(
            move, settings, rates.get(move.guest)))
        for move in plan.moves))
    needed = len(windows(plan, settings))
    if needed > 1:
        said = (f'takes {needed} windows of '
                f'{settings.window_seconds:,.0f} s')
        plan = dataclasses.replace(plan, stopped='; '.join(
            filter(None, (plan.stopped, said))))
    return plan


def _dirty_rates(fleet: snapshot.Fleet) -> Mapping[str, float]:
    specs = {flavor.name: flavor.extra_specs for flavor in fleet.flavors}
    rates = ((guest.uuid, dirty_rate(
        guest, specs.get(guest.flavor, {}))) for guest in fleet.guests)
    return {uuid: rate for uuid, rate in rates if rate is not None}


def total_seconds(plan: plan_model.RebalancePlan,
                  settings: plan_request.CostSettings) -> float | None:
    """How long all moves take, as many at once as may be.

    :param plan: priced
    :returns: None if a move does not end
    """
    last = max(_ends(plan.moves, settings), default=0.0)
    return last if math.isfinite(last) else None


def windows(plan: plan_model.RebalancePlan,
            settings: plan_request.CostSettings) -> tuple[range, ...]:
    """The positions of the moves that are made in each window.

    :param plan: priced
    :raises errors.InputError: if a move takes longer than a window
    """
    most = settings.window_seconds
    if most is None or not plan.moves:
        return (range(len(plan.moves)),)
    split: list[range] = []
    first = 0
    while first < len(plan.moves):
        ends = _ends(plan.moves[first:], settings, first)
        count = next((number for number, end in enumerate(ends)
                      if end > most), len(ends))
        if not count:
            move = plan.moves[first]
            took = ('does not end' if move.seconds is None
                    else f'takes {move.seconds:,.0f} s')
            raise errors.InputError(
                f'the move of {move.name or move.guest} from {move.source} '
                f'{took}, and a window has {most:,.0f} s',
                advice='give a longer window, more bandwidth, or name the '
                       'guest among those that stay')
        split.append(range(first, first + count))
        first += count
    return tuple(split)


def _ends(
    moves: tuple[plan_model.PlannedMove, ...],
    settings: plan_request.CostSettings, first: int = 0,
) -> list[float]:
    """When each move is over, started in the plan's order; inf for never.

    :param first: position of the first of them; those before are over
    """
    running: list[float] = []
    ends: list[float] = []
    now = 0.0
    for move in moves:
        if len(running) >= settings.parallel:
            now = max(now, heapq.heappop(running))
        start = max([now, *(ends[other - first] for other in move.after
                            if other >= first)])
        ends.append(start + (
            math.inf if move.seconds is None else move.seconds))
        heapq.heappush(running, ends[-1])
    return ends
