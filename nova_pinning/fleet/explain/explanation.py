#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

"""The whole explanation: verdicts, their sum, and what would help."""

from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
import dataclasses

from nova_pinning import errors
from nova_pinning.fleet.explain import judge as fleet_judge
from nova_pinning.fleet.explain import moves
from nova_pinning.fleet.explain import sums
from nova_pinning.fleet.explain import ways
from nova_pinning.fleet import model as fleet_model
from nova_pinning.fleet import placement
from nova_pinning.fleet import standing as fleet_standing
from nova_pinning.fleet import wanted as fleet_wanted
from nova_pinning.model import Reason

#: Told how much is done, from 0 to 1.
Progress = Callable[[float], None]

# How much is done after each part of the work, roughly.
_AFTER_VERDICTS = 0.2
_AFTER_PROPERTIES = 0.4
_AFTER_SIZES = 0.6
_AFTER_MOVES = 0.9

_STATUS_TRAIT = frozenset({'COMPUTE_STATUS_DISABLED'})
_NUMBERS = ('no', 'one', 'two', 'three', 'four', 'five', 'six', 'seven',
            'eight')


@dataclasses.dataclass(frozen=True, slots=True)
class Helps:
    """What would make a guest fit that fits nowhere, cheapest first.

    :param properties: other extra specs or image properties
    :param smaller: flavors of the fleet, and the largest size that fits
    :param disabled: hosts on which it would fit if they were enabled
    :param single: what can be had by moving one guest
    :param pairs: the same for two, if one will not do
    """

    properties: tuple[ways.Way, ...] = ()
    smaller: tuple[ways.Way, ...] = ()
    disabled: tuple[fleet_model.FleetHost, ...] = ()
    single: moves.Clearings = moves.Clearings()
    pairs: moves.Clearings = moves.Clearings()

    def __bool__(self) -> bool:
        return bool(self.properties or self.smaller or self.disabled
                    or self.single.hosts or self.pairs.hosts)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """Why a guest fits, or not, on the hosts that were asked about.

    :param verdicts: on each of these, in the fleet's order
    :param groups: those that refuse, by cause
    :param placement_groups: what Placement alone would exclude hosts for
    :param sentence: the sum in words
    :param helps: what would make it fit; empty if it fits
    """

    wanted: fleet_wanted.Wanted
    verdicts: tuple[fleet_judge.Verdict, ...]
    groups: tuple[sums.Group, ...]
    placement_groups: tuple[sums.PlacementGroup, ...]
    sentence: str
    helps: Helps

    @property
    def fitting(self) -> tuple[str, ...]:
        """The hosts on which it fits."""
        return tuple(one.host for one in self.verdicts if one.fits)

    @property
    def excluded(self) -> int:
        """Hosts that Placement alone would exclude."""
        return sum(bool(one.exclusions) for one in self.verdicts)


def explain(
    fleet: fleet_model.Fleet,
    judge: fleet_judge.Judge,
    order: ways.Order,
    read: ways.Reader,
    hosts: Sequence[str] = (),
    progress: Progress = lambda part: None,
) -> Explanation:
    """Explain why a guest fits or not.

    :param judge: of the fleet's hosts
    :param order: what is asked for
    :param read: what makes a wanted guest of an order's parts
    :param hosts: names of those that are asked about; () for all
    :raises InputError: if nova would not accept the order
    """
    wanted = read(order.flavor, order.image)
    asked = [judge.standings[name] for name in hosts or judge.standings]
    verdicts = []
    for number, standing in enumerate(asked):
        verdicts.append(judge.verdict(standing, wanted))
        progress(_AFTER_VERDICTS * (number + 1) / len(asked))
    groups = sums.groups(verdicts, wanted)
    helper = _Helper(fleet, judge, order, read, wanted, progress)
    asides = {
        group.cause: aside for group in groups
        if (aside := helper.aside(group))}
    helps = Helps()
    if not any(one.fits for one in verdicts):
        helps = helper.helps(verdicts)
    return Explanation(
        wanted=wanted, verdicts=tuple(verdicts), groups=groups,
        placement_groups=sums.placement_groups(verdicts),
        sentence=sums.sentence(len(verdicts), groups, asides), helps=helps)


@dataclasses.dataclass(frozen=True, slots=True)
class _Helper:
    fleet: fleet_model.Fleet
    judge: fleet_judge.Judge
    order: ways.Order
    read: ways.Reader
    wanted: fleet_wanted.Wanted
    progress: Progress

    def helps(self, verdicts: Sequence[fleet_judge.Verdict]) -> Helps:
        open_to = [self._standing(one) for one in verdicts if one.is_eligible]
        # What traits are asked for can change with the thread policy.
        maybe = [self._standing(one) for one in verdicts
                 if one.is_eligible or (
                     one.cause is not None
                     and one.cause.layer is fleet_judge.Layer.TRAITS
                     and one.is_enabled)]
        finder = self._ways(maybe)
        properties = tuple(finder.properties())
        self.progress(_AFTER_PROPERTIES)
        smaller = tuple(finder.smaller(self.fleet.flavors))
        disabled = tuple(
            host for host in self._disabled(verdicts)
            if self.judge.fits(self._enabled(host), self.wanted))
        self.progress(_AFTER_SIZES)
        movers = moves.Finder(self.judge, self.fleet.flavors)
        single = movers.single(self.wanted, open_to)
        pairs = moves.Clearings()
        self.progress(_AFTER_MOVES)
        if not single.hosts:
            pairs = movers.pairs(self.wanted, open_to)
        return Helps(properties, smaller, disabled, single, pairs)

    def aside(self, group: sums.Group) -> str:
        """How many would do if the guest had more cells; '' if none."""
        guest = self.wanted.topology
        if guest is None or not guest.is_pinned or group.cause not in (
                _fit_cause(Reason.FREE_CPUS),
                _fit_cause(Reason.CELL_TOO_SMALL)):
            return ''
        need = sum(one.dedicated + one.emulator for one in guest.demands)
        standings = [self._standing(one) for one in group.verdicts]
        free = [sorted((cell.free_count for cell in one.engine.cells),
                       reverse=True) for one in standings]
        finder = self._ways(standings)
        other = ''
        for count in range(len(guest.cells) + 1,
                           min(max(map(len, free), default=0),
                               len(_NUMBERS) - 1) + 1):
            enough = sum(sum(one[:count]) >= need for one in free)
            if not enough or self.order.flavor.vcpus % count:
                continue
            across = (f'{enough:,} of them {_have(enough)} enough across '
                      f'{_NUMBERS[count]} cells')
            way = finder.cells(count)
            if way is not None:
                return (f'{across}: hw:numa_nodes={count} would fit '
                        f'{len(way.hosts):,}')
            other = other or f'{across}, but {self._but(standings, count)}'
        return other

    def _but(self, standings: Sequence[fleet_standing.Standing],
             count: int) -> str:
        """Why so many cells do not help either."""
        share = self.order.flavor.vcpus // count
        even = [one for one in standings if sum(
            cell.free_count >= share for cell in one.engine.cells) >= count]
        if not even:
            return 'not in equal shares'
        order = ways.in_cells(count, self.order)
        try:
            wanted = self.read(order.flavor, order.image)
        except errors.InputError as error:
            return f'nova refuses hw:numa_nodes={count}: {error.message}'
        first, *_others = sums.groups(
            [self.judge.verdict(one, wanted) for one in even], wanted)
        return f'then {first.count:,} {first.text}'

    def _standing(
        self, verdict: fleet_judge.Verdict,
    ) -> fleet_standing.Standing:
        return self.judge.standings[verdict.host]

    def _ways(
        self, standings: Sequence[fleet_standing.Standing],
    ) -> ways.Ways:
        return ways.Ways(
            self.judge, self.read, self.order, self.wanted, standings)

    def _disabled(
        self, verdicts: Sequence[fleet_judge.Verdict],
    ) -> Iterator[fleet_model.FleetHost]:
        return (self._standing(one).host for one in verdicts
                if not one.is_enabled)

    def _enabled(
        self, host: fleet_model.FleetHost,
    ) -> fleet_standing.Standing:
        """How a host would stand if it were enabled."""
        traits = host.traits
        return dataclasses.replace(
            self.judge.standings[host.name], host=dataclasses.replace(
                host, is_enabled=True,
                traits=None if traits is None else traits - _STATUS_TRAIT))


def judge_of(
    fleet: fleet_model.Fleet, scope: placement.Scope | None = None,
    foresee: fleet_standing.Foresee | None = None,
) -> fleet_judge.Judge:
    """A judge of all hosts of a fleet.

    :param scope: None for one in which aggregates have no say
    :param foresee: as ``standing.fit_on`` takes it
    """
    return fleet_judge.Judge(
        fleet_standing.of_fleet(fleet), fleet.packs_cells,
        scope or placement.Scope(aggregates_of(fleet)), foresee)


def aggregates_of(
    fleet: fleet_model.Fleet,
) -> Mapping[str, fleet_model.Aggregate]:
    """The aggregates of a fleet, by name."""
    return {one.name: one for one in fleet.aggregates}


def _fit_cause(reason: Reason) -> fleet_judge.Cause:
    return fleet_judge.Cause(fleet_judge.Layer.FIT, str(reason))


def _have(count: int) -> str:
    return 'has' if count == 1 else 'have'
