# SPDX-License-Identifier: Apache-2.0
"""Hold plans of moves against all sequences of moves there are.

A case is a small fleet, and what moves are wanted of it. What a plan gains
has to be the most that can be gained within its limits, by the fewest moves
and, of those, the fewest bytes; its bound has to be one, what is proved has to
be true, and of a fleet of which all is known it has to be proved. Every move
has to be one that may be made, and nova's own claim has to put the guest where
the plan says. Larger fleets have plans by the integer programs alone: so each
case has their bound looked at, and some are planned by these alone, too: what
is proved so is held to the same.

Exit status: 0 if all that is so in every case, 1 if not, 2 for a usage error.
"""

import argparse
import collections
from collections.abc import Iterator
from collections.abc import Mapping
import dataclasses
import multiprocessing
import sys
import time
from typing import Any

from nova_pinning.bridge.offline import standalone

standalone.prepare()

from nova_pinning.admission import judge as admission_judge  # noqa: E402
from nova_pinning.admission import offered_host  # noqa: E402
from nova_pinning.bridge.offline import fleet_claim  # noqa: E402
from nova_pinning import errors  # noqa: E402
from nova_pinning.fleet import snapshot  # noqa: E402
from nova_pinning.rebalance import defragment  # noqa: E402
from nova_pinning.rebalance import drain  # noqa: E402
from nova_pinning.rebalance import plan_model  # noqa: E402
from nova_pinning.rebalance import plan_request  # noqa: E402
from nova_pinning.rebalance import plan_search  # noqa: E402
from nova_pinning.rebalance import planning  # noqa: E402
from nova_pinning.rebalance import solver_settings  # noqa: E402
from nova_pinning.tests.oracle import moves_brute_force  # noqa: E402
from nova_pinning.tests.oracle import moves_cases  # noqa: E402

_CHUNK = 25
# Of so many cases one is planned by the integer programs alone, which takes
# far longer than all the rest.
_BY_PROGRAMS = 20
_PROGRAMS = solver_settings.SolverSettings(tries_all=False)
_BY_PROGRAMS_ALONE = 'by the programs alone'
_KEPT = 20
_TOLERANCE = 1e-6
#: What a guest has that is made smaller.
_USUAL: Mapping[str, Any] = {
    'server_group': '', 'tags': (), 'metadata': {}, 'vm_state': 'active',
    'flavor': 'plain', 'availability_zone': ''}


@dataclasses.dataclass(slots=True)
class MovesTally:
    """What a number of cases showed.

    :ivar counts: of cases, moves and disagreements, by what they are
    :ivar rules: in how many cases each rule is switched on
    :ivar examples: numbers of some cases that show each disagreement
    """

    counts: collections.Counter[str] = dataclasses.field(
        default_factory=collections.Counter)
    rules: collections.Counter[str] = dataclasses.field(
        default_factory=collections.Counter)
    examples: dict[str, list[int]] = dataclasses.field(default_factory=dict)

    def note(self, number: int, case: moves_cases.MovesCase,
             wrong: set[str]) -> None:
        """Count what one case showed."""
        self.counts['cases'] += 1
        self.rules.update(case.rules)
        self.counts['disagreements'] += bool(wrong)
        for what in wrong:
            self.counts[what] += 1
            self.examples.setdefault(what, []).append(number)

    def add(self, other: 'MovesTally') -> None:
        """Count what other cases showed."""
        self.counts.update(other.counts)
        self.rules.update(other.rules)
        for what, numbers in other.examples.items():
            known = self.examples.setdefault(what, [])
            known[:] = sorted(known + numbers)[:_KEPT]


class Trial:
    """A case, the best that can be made of it, and plans of it.

    :param by_programs: whether to have a plan by the integer programs alone
    :ivar wrong: what is wrong with the plans
    :ivar counts: of moves that were looked at
    :raises moves_brute_force.TooManyStates: if the case is too large
    """

    def __init__(self, case: moves_cases.MovesCase,
                 by_programs: bool = True) -> None:
        self.case = case
        self.wrong: set[str] = set()
        self.counts: collections.Counter[str] = collections.Counter()
        fleet, request = case.fleet, case.request
        self._certain = moves_brute_force.BruteForce(fleet, request)
        self.best = self.at_best = self._certain.best()
        self.has_doubts = self._certain.has_doubts
        self._hopeful = self._certain
        if self.has_doubts:
            self._hopeful = moves_brute_force.BruteForce(fleet, request, True)
            self.at_best = self._hopeful.best()
        self.start = self._certain.value(self._certain.start)
        self.counts['gains'] = self.best.value > self.start
        self.plans = [planning.make_plan(request, fleet)]
        # Of fleets that share providers not all sequences are looked at.
        shares = any(child.is_shared for host in fleet.hosts
                     for child in host.children)
        self.wrong.update(self._faults(self.plans[0], not shares))
        self.wrong.update(self._of_bound())
        if by_programs:
            self.plans.append(self._by_programs())
            self.wrong.update(
                f'{_BY_PROGRAMS_ALONE}: {what}'
                for what in self._faults(self.plans[1], False))

    def _by_programs(self) -> plan_model.RebalancePlan:
        """The plan that the integer programs come to."""
        fleet, request = self.case.fleet, self.case.request
        rules = planning.rules_of(fleet, request)
        limits = planning.limits_of(request, fleet)
        goal = request.goal
        if isinstance(goal, plan_request.DrainHosts):
            return drain.plan_drain(fleet, goal.hosts, limits, rules=rules,
                                    settings=_PROGRAMS)
        return defragment.plan_defragmentation(
            fleet, goal.sizes, limits, until=goal.until, rules=rules,
            settings=_PROGRAMS)

    def _of_bound(self) -> Iterator[str]:
        """What is wrong with the bound of the integer program."""
        fleet, request = self.case.fleet, self.case.request
        goal, best = request.goal, self.at_best
        drained = (goal.hosts if isinstance(goal, plan_request.DrainHosts)
                   else ())
        sizes, until = ((), None) if isinstance(
            goal, plan_request.DrainHosts) else (goal.sizes, goal.until)
        search = plan_search.PlanSearch(
            fleet, sizes if until is None else [
                dataclasses.replace(sizes[0], weight=1.0)],
            planning.limits_of(request, fleet),
            planning.rules_of(fleet, request), _PROGRAMS, frozenset(drained))
        if not drained and until is None:
            _program, solution = search.solved(
                lambda program: program.most_value(search.seconds))
            if solution.bound < best.value - _TOLERANCE:
                yield 'the bound of the program is too low'
        elif best.value == (until or 1):
            _program, solution = search.solved(
                lambda program: program.fewest_moves(search.seconds), until)
            if -solution.bound > best.moves + _TOLERANCE:
                yield 'the program wants more moves than needed'

    def _faults(self, plan: plan_model.RebalancePlan,
                is_best: bool) -> Iterator[str]:
        """What is wrong with a plan.

        :param is_best: whether none may be better
        """
        best = self.best
        certain = self._certain.minding_cpus()
        state = certain.start
        for move in plan.moves:
            self.counts['moves'] += 1
            occupancy, request = certain.request_on(
                state, move.guest, move.target)
            there = certain.after(state, move.guest, move.target,
                                  move.target_fit)
            if there is None:
                yield 'a move that cannot be made'
                return
            # Hosts of a certain release may be of another than is installed.
            if is_best and occupancy.host.nova_release is None and (
                    move.target_fit or admission_judge.FLOATING) != (
                    fleet_claim.claimed_fit(
                        occupancy, request, self.case.fleet.packs_cells)):
                yield "nova's claim is another"
            state = there
        made = moves_brute_force.BestMoves(
            certain.value(state), len(plan.moves),
            moves_brute_force.copied_mib(
                self.case.fleet.guests, [move.guest for move in plan.moves]))
        limits = self.case.request
        if made.moves > (limits.moves or 0) or (
                made.memory_mib > (limits.memory_mib or made.memory_mib)):
            yield 'a limit is exceeded'
        yield from self._of_proof(plan, made)
        if not is_best:
            return
        if made.value < best.value - _TOLERANCE:
            yield 'it gains less than it could'
        elif made.moves > best.moves:
            yield 'it takes more moves than needed'
        elif made.memory_mib > best.memory_mib:
            yield 'it copies more than needed'
        if not plan.is_optimal and not self.has_doubts:
            yield 'nothing is proved'

    def _of_proof(self, plan: plan_model.RebalancePlan,
                  made: moves_brute_force.BestMoves) -> Iterator[str]:
        """What is said to be proved, and is not true."""
        at_best, goal = self.at_best, self.case.request.goal
        wanted = at_best.value
        if isinstance(goal, plan_request.DrainHosts):
            wanted = 1.0
        elif goal.until is not None:
            wanted = float(goal.until)
        # With a number that is asked for, it is of whether that can be had.
        is_missed = min(wanted, at_best.value) > made.value + _TOLERANCE and (
            at_best.value >= wanted)
        if plan.is_optimal and is_missed:
            yield 'proved, though there is better'
        is_of_moves = isinstance(goal, plan_request.DrainHosts) or (
            goal.until is not None)
        if plan.is_optimal and is_of_moves and made.value >= wanted and (
                made.moves > at_best.moves):
            yield 'proved, though fewer moves will do'
        if isinstance(goal, plan_request.DrainHosts):
            said = ' '.join(stuck.reason for stuck in plan.stuck)
            if 'whichever' in said and at_best.value:
                yield 'said to have no room, though there is some'
            return
        if goal.until is None and len(goal.sizes) == 1:
            bound = plan.gains[0].bound
            if bound is not None and (
                    bound * goal.sizes[0].weight < at_best.value - _TOLERANCE):
                yield 'the bound is too low'


def judge(case: moves_cases.MovesCase,
          counts: collections.Counter[str] | None = None,
          by_programs: bool = True) -> set[str]:
    """What is wrong with plans of a case.

    :param by_programs: as :class:`Trial` has it
    """
    counts = collections.Counter() if counts is None else counts
    try:
        trial = Trial(case, by_programs)
    except moves_brute_force.TooManyStates:
        counts['too large'] += 1
        return set()
    counts.update(trial.counts)
    return trial.wrong


def _run(task: tuple[int, range]) -> MovesTally:
    seed, numbers = task
    tally = MovesTally()
    for number in numbers:
        case = moves_cases.draw(seed, number)
        tally.note(number, case, judge(
            case, tally.counts, number % _BY_PROGRAMS == 0))
    return tally


def shrunk(case: moves_cases.MovesCase, what: str) -> moves_cases.MovesCase:
    """A case with as little as will do to show the same."""
    is_smaller = True
    while is_smaller:
        is_smaller = False
        for smaller in _smaller(case):
            try:
                shows = what in judge(smaller, by_programs=(
                    what.startswith(_BY_PROGRAMS_ALONE)))
            except (errors.InputError, LookupError):
                continue
            if shows:
                case, is_smaller = smaller, True
                break
    return case


def _smaller(
    case: moves_cases.MovesCase,
) -> Iterator[moves_cases.MovesCase]:
    fleet = case.fleet
    held = {guest.host for guest in fleet.guests}
    for host in fleet.hosts:
        if host.name not in held:
            yield _with(case, hosts=tuple(
                other for other in fleet.hosts if other is not host))
    for guest in fleet.guests:
        yield _with(case, guests=tuple(
            other for other in fleet.guests if other is not guest))
    for number, host in enumerate(fleet.hosts):
        usual_host = offered_host.OfferedHost(
            name=host.name, cells=host.cells, host_class=host.host_class)
        if host != usual_host:
            yield _with(case, hosts=(
                *fleet.hosts[:number], usual_host, *fleet.hosts[number + 1:]))
    for number, guest in enumerate(fleet.guests):
        for name, usual in _USUAL.items():
            if getattr(guest, name) != usual:
                values: dict[str, Any] = {name: usual}
                yield _with(case, guests=(
                    *fleet.guests[:number],
                    dataclasses.replace(guest, **values),
                    *fleet.guests[number + 1:]))
    bare = snapshot.Fleet(hosts=())
    for name in ('aggregates', 'server_groups', 'rules', 'flavors'):
        if getattr(fleet, name) != getattr(bare, name):
            yield _with(case, **{name: getattr(bare, name)})
    request = case.request
    if (request.moves or 0) > 1:
        yield dataclasses.replace(case, request=dataclasses.replace(
            request, moves=request.moves - 1))
    usual_rules = plan_request.RuleSettings()
    if request.memory_mib is not None:
        yield dataclasses.replace(case, request=dataclasses.replace(
            request, memory_mib=None))
    if request.rules != usual_rules:
        yield dataclasses.replace(case, request=dataclasses.replace(
            request, rules=usual_rules))


def _with(case: moves_cases.MovesCase,
          **values: Any) -> moves_cases.MovesCase:
    return dataclasses.replace(
        case, fleet=dataclasses.replace(case.fleet, **values))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog='python -m nova_pinning.tests.oracle.moves',
        description='Hold plans of moves of small fleets against brute '
                    'force.')
    parser.add_argument('--cases', type=int, default=100_000, metavar='N',
                        help='how many cases to run (%(default)s)')
    parser.add_argument('--seed', type=int, default=1, metavar='S',
                        help='which series of cases (%(default)s)')
    parser.add_argument('--jobs', type=int, default=2, metavar='J',
                        help='processes to use (%(default)s)')
    parser.add_argument('--no-shrink', action='store_true',
                        help='print cases as they were found instead of '
                        'cutting them down')
    single = parser.add_mutually_exclusive_group()
    single.add_argument('--case', type=int, metavar='K',
                        help='case K of the series only, and print it')
    single.add_argument('--replay', metavar='FILE',
                        type=argparse.FileType(),
                        help='the case in this file only, JSON as printed; - '
                        'for the standard input')
    return parser


def main(argv: list[str] | None = None) -> int:
    """Run the command.

    :returns: the exit status
    """
    parser = _parser()
    parsed = parser.parse_args(argv)
    if parsed.cases < 1 or parsed.jobs < 1:
        parser.error('--cases and --jobs must be at least 1')
    if parsed.replay is not None:
        try:
            return _show(moves_cases.parse(parsed.replay.read()))
        except (errors.InputError, ValueError) as error:
            parser.error(f'{parsed.replay.name}: {error}')
    if parsed.case is not None:
        case = moves_cases.draw(parsed.seed, parsed.case)
        print(case)
        return _show(case)
    begun = time.monotonic()
    total = MovesTally()
    tasks = [(parsed.seed, range(first, min(first + _CHUNK, parsed.cases)))
             for first in range(0, parsed.cases, _CHUNK)]
    with multiprocessing.get_context('fork').Pool(parsed.jobs) as pool:
        for tally in pool.imap_unordered(_run, tasks):
            total.add(tally)
    counts = total.counts
    for what, numbers in sorted(total.examples.items()):
        case = moves_cases.draw(parsed.seed, numbers[0])
        print(f'{counts[what]:,} cases, {what}: '
              f'{", ".join(map(str, numbers))}')
        print(case if parsed.no_shrink else shrunk(case, what))
    rarest, share = min(
        ((name, total.rules[name]) for name in moves_cases.SHARES),
        key=lambda pair: pair[1])
    print(f'{counts["cases"]:,} cases of seed {parsed.seed} in '
          f'{time.monotonic() - begun:.0f} s, {counts["gains"]:,} with '
          f'something to gain, {counts["moves"]:,} moves, '
          f'{counts["too large"]:,} too large, each rule in '
          f'{share / counts["cases"]:.1%} or more ({rarest}): '
          f'{counts["disagreements"]:,} disagreements')
    return int(bool(counts['disagreements']))


def _show(case: moves_cases.MovesCase) -> int:
    """Print all that there is to say of one case."""
    trial = Trial(case)
    print(f'at the start: {trial.start:g}; the best: {trial.best}; if all '
          f'that is not known turns out well: {trial.at_best}')
    for plan in trial.plans:
        gains = [(gain.before, gain.after, gain.bound) for gain in plan.gains]
        print(f'{gains} proved: {plan.is_optimal}; {plan.stopped}')
        for stuck in plan.stuck:
            print(f'  {stuck.guest} on {stuck.host}: {stuck.reason}')
        for move in plan.moves:
            print(f'  {move.guest}: {move.source} to {move.target}, '
                  f'{move.memory_mib:,} MiB')
    for what in sorted(trial.wrong):
        print(f'DISAGREEMENT: {what}')
    return int(bool(trial.wrong))


if __name__ == '__main__':
    sys.exit(main())
