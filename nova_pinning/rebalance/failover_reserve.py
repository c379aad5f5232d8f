# SPDX-License-Identifier: Apache-2.0
"""The least number of empty hosts with which each loss is survived.

A reserve is of hosts that the fleet has already, only empty, and in no group
that is lost. A plan is shown by evacuating to it; that fewer will not do is
proved only as far as a loss that is not survived needs one host at least, of
those on which its guests may be.
"""

from collections.abc import Sequence

from nova_pinning.admission import host_occupancy
from nova_pinning.admission import resident_guest
from nova_pinning.fleet import guest_kinds
from nova_pinning.rebalance import evacuation
from nova_pinning.rebalance import failover_model
from nova_pinning.rebalance import integer_program

# Shapes that are tried for a loss: those of its own hosts, and the most
# frequent.
_MOST_SHAPES = 8


def least_reserve(
    fleet: evacuation.EvacuationFleet,
    losses: Sequence[failover_model.HostLoss],
) -> failover_model.FailoverReserve:
    """Look for the least reserve.

    :param losses: as they were judged
    """
    finder = _ReserveFinder(fleet)
    unmended = []
    needs: list[dict[int, int]] = []
    helping: list[set[int]] = []
    for loss in losses:
        if loss.verdict is failover_model.SurvivalVerdict.YES:
            continue
        hopeless, open_guests = finder.divide(loss)
        if hopeless:
            unmended.append((loss.name, hopeless))
        if not open_guests:
            continue
        counts = finder.mending(loss, open_guests)
        if not counts:
            unmended.append((loss.name, 'no number of empty hosts that was '
                             'tried takes all of its guests'))
            continue
        needs.append(counts)
        if loss.least_down > len(loss.down) - len(open_guests):
            # Whoever else was there may move in, and leave its room to them.
            helping.append(finder.helping(loss))
    plan = _fewest(needs)
    least = sum(_fewest([dict.fromkeys(shapes, 1)
                         for shapes in helping]).values())
    return failover_model.FailoverReserve(
        hosts=tuple(
            failover_model.ReserveHosts(
                like=finder.shapes[number].occupancy.host.name,
                count=count)
            for number, count in sorted(plan.items())),
        least=least, unmended=tuple(unmended))


class _ReserveFinder:

    def __init__(self, fleet: evacuation.EvacuationFleet) -> None:
        self._fleet = fleet
        #: The first host of each shape, empty.
        self.shapes: list[guest_kinds.HostState] = []
        self._shape_of: dict[str, int] = {}
        numbers: dict[int, int] = {}
        counts: dict[int, int] = {}
        for host in fleet.fleet.hosts:
            if not host.is_enabled:
                continue
            number = numbers.setdefault(fleet.shape(host), len(numbers))
            if number == len(self.shapes):
                self.shapes.append(fleet.state_of(
                    host_occupancy.of_host(host)))
            self._shape_of[host.name] = number
            counts[number] = counts.get(number, 0) + 1
        self._usual = sorted(counts, key=lambda number: -counts[number])[
            :_MOST_SHAPES]

    def divide(
        self, loss: failover_model.HostLoss,
    ) -> tuple[str, list[resident_guest.ResidentGuest]]:
        """Why some stay down in any case, and those that need not."""
        reason = ''
        open_guests = []
        for down in loss.down:
            guest = self._fleet.guests[down.guest]
            kind = self._fleet.kind(guest)
            if not self._fleet.rules.evacuation_refusal(guest) and any(
                    self._fleet.would_take(kind, state)
                    for state in self.shapes):
                open_guests.append(guest)
            else:
                reason = reason or (f'{down.name or down.guest}: '
                                    f'{down.reason}')
        return reason, open_guests

    def helping(self, loss: failover_model.HostLoss) -> set[int]:
        """The shapes that may take at least one of a loss's guests."""
        kinds = {self._fleet.kind(guest) for name in loss.hosts
                 for guest in self._fleet.occupancies[name].guests}
        return {
            number for number, state in enumerate(self.shapes)
            if any(self._fleet.would_take(kind, state)
                   or self._fleet.doubt(kind, state) for kind in kinds)}

    def mending(
        self, loss: failover_model.HostLoss,
        down: Sequence[resident_guest.ResidentGuest],
    ) -> dict[int, int]:
        """How many hosts mend a loss, by shape; shapes that do not left out.

        :param down: that are to come up
        """
        own = [self._shape_of[name] for name in loss.hosts
               if name in self._shape_of]
        found = {}
        for number in dict.fromkeys([*own, *self._usual]):
            count = self._least(loss, down, number)
            if count:
                found[number] = count
        return found

    def _least(
        self, loss: failover_model.HostLoss,
        down: Sequence[resident_guest.ResidentGuest], number: int,
    ) -> int:
        """The least number of a shape with which all come up, 0 for none."""
        shape = self.shapes[number]
        lost = frozenset(loss.hosts)
        rest = {name: state for name, state in self._fleet.states.items()
                if name not in lost}
        up = [self._fleet.guests[one.guest] for one in loss.evacuations]
        for count in range(1, len(loss.hosts) + 1):
            # The name only has to be another one; nova's hosts have no blank.
            added = {f'reserve {copy}': shape for copy in range(count)}
            # Some of the others may have to make way.
            for guests, targets in (
                    (down, added), ([*down, *up], {**rest, **added})):
                if not self._fleet.evacuate(
                        evacuation.largest_first(guests, self._fleet),
                        targets, evacuation.TIGHTEST).down:
                    return count
        return 0


def _fewest(needs: Sequence[dict[int, int]]) -> dict[int, int]:
    """The fewest hosts so that each loss has enough of one of its shapes.

    :param needs: how many of a shape each needs
    """
    steps = sorted({(shape, count) for need in needs
                    for shape, count in need.items()})
    if not steps:
        return {}
    program = integer_program.IntegerProgram()
    most = {shape: count for shape, count in steps}
    levels = {(shape, count): program.variable(1)
              for shape in most for count in range(1, most[shape] + 1)}
    for (shape, count), variable in levels.items():
        if count > 1:
            program.row([(variable, 1.0), (levels[shape, count - 1], -1.0)],
                        high=0)
    for need in {tuple(sorted(need.items())) for need in needs}:
        program.row([(levels[step], 1.0) for step in need], low=1)
    solution = program.solve(dict.fromkeys(levels.values(), -1.0))
    fewest: dict[int, int] = {}
    for (shape, _count), variable in levels.items():
        if solution.values[variable]:
            fewest[shape] = fewest.get(shape, 0) + 1
    return fewest
