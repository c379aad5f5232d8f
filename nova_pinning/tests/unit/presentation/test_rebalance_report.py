# SPDX-License-Identifier: Apache-2.0


import dataclasses
import io

import ddt
from oslotest import base

from nova_pinning.cli import base_command
from nova_pinning.presentation import drawing
from nova_pinning.presentation import rebalance_report
from nova_pinning.rebalance import plan_model
from nova_pinning.tests.unit.rebalance import plan_samples

_LIVE = plan_model.MigrationKind.LIVE


def _move(guest, source, target, *after, **values):
    return plan_model.PlannedMove(**{
        'guest': guest, 'source': source, 'target': target, 'kind': _LIVE,
        'vcpus': 8, 'memory_mib': 16384, 'after': after, **values})


def _plan(*moves, **values):
    return plan_model.RebalancePlan(**{
        'goal': plan_model.PlanGoal.DEFRAGMENT, 'moves': moves, **values})


def _drain(*moves, **values):
    return _plan(*moves, goal=plan_model.PlanGoal.DRAIN, **values)


def _gain(size='16', before=2, after=5, bound=None):
    return plan_model.SlotGain(size=size, before=before, after=after,
                               bound=bound)


_STUCK = plan_model.StuckGuest(guest='u', host='a', reason='has a GPU')
_ONE = _move('x', 'a', 'b')


@ddt.ddt
class TestReport(base.BaseTestCase):

    @ddt.data(
        (_plan(), 'No moves were found that make more room'),
        (_plan(is_optimal=True), 'No move makes more room'),
        (_plan(until=2, gains=(_gain(before=2, after=2),), is_optimal=True),
         'No moves are needed'),
        (_plan(_ONE, gains=(_gain(),)),
         '1 move makes room for 3 more guests of 16 vCPUs'),
        (_plan(_ONE, _move('y', 'a', 'b'), gains=(_gain('big', 0, 1),)),
         '2 moves make room for 1 more guest of big'),
        (_plan(_ONE, gains=(_gain(), _gain('8', 9, 8))),
         '1 move: +3 of 16 vCPUs, -1 of 8 vCPUs'),
        (_drain(_ONE, drained=('a',)), '1 move empties a'),
        (_drain(_ONE, _move('y', 'b', 'c'), drained=('a', 'b')),
         '2 moves empty a and b'),
        (_drain(drained=('a',)), 'a is empty'),
        (_drain(drained=('a', 'b')), 'a and b are empty'),
        (_drain(drained=('a',), stuck=(_STUCK,), is_optimal=True),
         'a cannot be drained'),
        (_drain(drained=tuple('abcde'), stuck=(_STUCK,)),
         'No way was found to drain a, b, c and 2 more'))
    @ddt.unpack
    def test_title(self, plan, title):
        self.assertEqual(title, rebalance_report.title(plan))

    def _remarks(self, plan):
        return ' '.join(rebalance_report.remarks(plan))

    def test_proof(self):
        plan = _plan(_ONE, gains=(_gain(bound=5),), is_optimal=True)
        self.assertIn('It is proved that no plan of as many moves makes more',
                      self._remarks(plan))
        plan = _plan(_ONE, gains=(_gain(bound=7),))
        self.assertIn('makes room for more than 7', self._remarks(plan))
        self.assertIn('It is not proved', self._remarks(plan))
        plan = _drain(drained=('a',), stuck=(_STUCK,), is_optimal=True)
        self.assertIn('proved that no plan does it', self._remarks(plan))

    def test_until(self):
        plan = _plan(_ONE, gains=(_gain(),), until=5, is_optimal=True)
        self.assertIn('It is proved that fewer moves will not do.',
                      self._remarks(plan))
        for is_optimal in (False, True):
            plan = _plan(_ONE, gains=(_gain(),), until=6,
                         is_optimal=is_optimal, stopped='it is too much')
            self.assertNotIn('proved', self._remarks(plan))
            self.assertIn('It stops there: it is too much.',
                          self._remarks(plan))

    def test_steps(self):
        moves = (_move('v', 'a', 'b'), _move('w', 'a', 'c'),
                 _move('x', 'd', 'a', 0), _move('y', 'e', 'd', 1, 2),
                 _move('z', 'f', 'g'))
        self.assertEqual((1, 1, 2, 3, 1), rebalance_report.steps(
            _plan(*moves)))

    def test_time(self):
        # The longest way through what has to wait: 100 + 40.
        moves = (_move('v', 'a', 'b', seconds=100.0),
                 _move('w', 'b', 'c', 0, seconds=40.0),
                 _move('x', 'd', 'e', seconds=120.0))
        text = self._remarks(_plan(*moves))
        self.assertIn('About 4 min one after the other', text)
        self.assertIn('in 2 steps, those of a step at the same time, 2 min',
                      text)

    def test_cost(self):
        text = self._remarks(_plan(
            _ONE, _move('y', 'a', 'b', disk_gib=40,
                        kind=plan_model.MigrationKind.COLD)))
        self.assertIn('32 GiB of memory and 40 GiB of disks to copy; 1 live '
                      'and 1 cold, which stops the guests.', text)

    def test_stopped(self):
        self.assertIn('It stops there: time is up.', self._remarks(
            _plan(_ONE, stopped='time is up')))


class TestShow(base.BaseTestCase):

    def _shown(self, plan, width, **values):
        out = io.StringIO()
        rebalance_report.show(
            plan, drawing.Drawing(
                rebalance_report.title(plan),
                tuple(rebalance_report.remarks(plan))),
            base_command.console(out, width), **values)
        return out.getvalue()

    def test_widths(self):
        # As many columns as there is room for, and no line that is longer.
        plan = plan_samples.example(6)[1]
        before = ''
        for width in (50, 70, 80, 100, 140, 200):
            shown = self._shown(plan, width)
            self.assertTrue(all(
                len(line) <= width for line in shown.splitlines()))
            for move in plan.moves:
                self.assertIn(move.name, shown)
            if width > 70:
                head = next(line for line in shown.splitlines()
                            if 'guest' in line and 'from' in line)
                self.assertEqual(
                    set(), set(before.split()) - set(head.split()))
                before = head
        self.assertIn('CPUs', before)

    def test_letters(self):
        # A guest that moves twice has one letter, and says so.
        plan = _plan(_move('x', 'a', 'b', is_parking=True),
                     _move('y', 'c', 'a', 0), _move('x', 'b', 'c', 1))
        rows = self._shown(plan, 100).split('Moves\n')[1].splitlines()[1:]
        self.assertEqual(['A', 'B', 'A'], [row.split()[0] for row in rows])
        self.assertIn('moves on later', rows[0])
        self.assertNotIn('moves on later', rows[2])

    def test_kinds(self):
        live = _plan(_ONE)
        self.assertNotIn(' how ', self._shown(live, 120))
        cold = _plan(_ONE, dataclasses.replace(
            _ONE, guest='y', kind=plan_model.MigrationKind.COLD))
        self.assertIn(' how', self._shown(cold, 120))
        self.assertNotIn('Why not live', self._shown(cold, 120))

    def test_why_cold(self):
        moves = [dataclasses.replace(
            _ONE, guest=f'g{number}', cold_reason='a bug',
            kind=plan_model.MigrationKind.COLD) for number in range(8)]
        shown = self._shown(_plan(*moves), 120)
        self.assertIn('Why not live', shown)
        # Once for all that are alike.
        self.assertEqual(1, shown.count('a bug'))
        self.assertIn('g5 and 2 more', shown)

    def test_stuck(self):
        shown = self._shown(_drain(drained=('a',), stuck=(_STUCK,)), 80)
        self.assertIn('What stands in the way', shown)
        self.assertIn('has a GPU', shown)
        self.assertNotIn('Moves', shown)
