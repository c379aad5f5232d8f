# SPDX-License-Identifier: Apache-2.0
"""The benchmark of colliding schedulers: its books, and what it counts."""

import dataclasses
import json
import math
from unittest import mock

from nova import objects

from benchmarks.hotspots import __main__
from benchmarks.hotspots import history
from benchmarks.hotspots import model
from benchmarks.hotspots import processes
from benchmarks.hotspots import report
from benchmarks.hotspots import schedulers
from benchmarks.hotspots import setups
from benchmarks.hotspots import truth
from nova_pinning.tests.unit import unit_base

_EMPTY = setups.Scene(
    hosts=2, filled=0.0, requests=1, processes=1, threads=1)
_SIZES = [(guest.vcpus, guest.cells) for guest in setups.GUESTS]
_EIGHT = _SIZES.index((8, 1))
_SIXTEEN = _SIZES.index((16, 1))
_REQUEST = model.Arrival('11111111-1111-4111-8111-111111111111', _SIXTEEN)


class _Planted(truth.Truth):
    """A cloud with one request, which others get ahead of.

    :ivar before_allocation: for how many hosts others come before Placement
        is asked
    :ivar before_claim: for how many, between that and nova-compute's claim
    :ivar before_alternates: for how many alternates, before Placement is
        asked
    """

    before_allocation = 0
    before_claim = 0
    before_alternates = 0

    def begin(self, run):
        super().begin(run)
        self.asked = iter([_REQUEST])

    def arrive(self, last=None):
        arrival = next(self.asked, None)
        if arrival is not None:
            self._under_way[arrival.uuid] = arrival.guest
        return arrival

    def allocate(self, uuid, provider, resources):
        if uuid == _REQUEST.uuid and self.before_allocation:
            self.before_allocation -= 1
            # 12 of 76 CPUs are left.
            self.plant(provider, [_SIXTEEN] * 4)
        return super().allocate(uuid, provider, resources)

    def build(self, arrival, host, limits):
        if arrival == _REQUEST and self.before_claim:
            self.before_claim -= 1
            # With the request's own, 72 of 76 CPUs are allocated; 6 and 14
            # are left in the cells.
            self.plant(host, [_SIXTEEN] * 3 + [_EIGHT])
            self.before_allocation = self.before_alternates
        return super().build(arrival, host, limits)

    def plant(self, provider, guests):
        for guest in guests:
            uuid = f'other-{len(self._guests)}'
            self._under_way[uuid] = guest
            assert super().allocate(
                uuid, provider, history.resources(guest))
            assert super().build(model.Arrival(uuid, guest), provider, None)


class TestCollisions(unit_base.TestCase):

    def _run(self, setup=setups.OURS, **planted):
        cloud = _Planted()
        self.addCleanup(cloud.close)
        for name, value in planted.items():
            setattr(cloud, name, value)
        run = setups.Run(setup, _EMPTY, 0)
        cloud.begin(run)
        found = schedulers.take_part(cloud, run, 0)
        self.assertEqual((), found.errors)
        self.assertEqual((), cloud.end().wrong)
        (outcome,) = found.outcomes
        return outcome.end, outcome.placement_retries, outcome.claim_retries

    def test_nobody_else(self):
        for setup in (setups.NOVA, setups.OURS):
            self.assertEqual((model.End.BUILT, 0, 0), self._run(setup))

    def test_refused_by_placement(self):
        for setup in (setups.NOVA, setups.OURS):
            self.assertEqual((model.End.BUILT, 1, 0),
                             self._run(setup, before_allocation=1))

    def test_refused_by_nova_compute(self):
        for setup in (setups.NOVA, setups.OURS):
            self.assertEqual((model.End.BUILT, 0, 1),
                             self._run(setup, before_claim=1))

    def test_refused_by_all(self):
        self.assertEqual((model.End.EXHAUSTED, 0, 2),
                         self._run(before_claim=2))
        self.assertEqual((model.End.REFUSED, 2, 0),
                         self._run(before_allocation=2))
        self.assertEqual((model.End.EXHAUSTED, 1, 1),
                         self._run(before_claim=1, before_alternates=1))


class TestBooks(unit_base.TestCase):

    def _cloud(self, scene=None):
        cloud = truth.Truth()
        self.addCleanup(cloud.close)
        cloud.begin(setups.Run(setups.OURS, scene or setups.Scene(
            hosts=3, filled=0.8, requests=30), 1))
        return cloud

    def test_start(self):
        for run in (setups.Run(one, setups.Scene(hosts=3), 2)
                    for one in (setups.NOVA, setups.OURS)):
            cloud = truth.Truth()
            self.addCleanup(cloud.close)
            cloud.begin(run)
            state = cloud.end()
            self.assertEqual((), state.wrong)
            self.assertTrue(0.7 < state.sold <= 0.85, state)
            cloud.close()

    def test_guests_leave_for_those_that_come(self):
        cloud = self._cloud()
        last = None
        before = cloud.end().sold
        for _ in range(30):
            arrival = cloud.arrive(last)
            last = arrival.uuid
            state = cloud.end()
            self.assertEqual((), state.wrong)
            self.assertLessEqual(
                state.sold + setups.GUESTS[arrival.guest].vcpus / (3 * 76),
                0.8)
        self.assertLess(state.sold, before)
        self.assertIsNone(cloud.arrive(last))

    def test_lost_allocation(self):
        cloud = self._cloud()
        cloud.release(next(iter(cloud._guests)))
        wrong = '\n'.join(cloud.end().wrong)
        self.assertIn('has no allocation there', wrong)
        self.assertIn('Placement counts', wrong)

    def test_same_cpu_twice(self):
        cloud = self._cloud()
        compute = next(
            compute for compute in cloud._computes.values() if compute.claims)
        uuid, claimed = next(iter(compute.claims.items()))
        compute.claims['other'] = claimed
        self.assertIn(
            f'two guests have the same CPU of {compute.row.name}',
            cloud.end().wrong)
        del compute.claims['other'], compute.claims[uuid]
        self.assertIn(
            f'guests of {compute.row.name} do not have the CPUs in use',
            cloud.end().wrong)

    def test_failed_builds(self):
        """Written with the next change, and forgotten after a success."""
        cloud = self._cloud(_EMPTY)
        host, compute = next(iter(cloud._computes.items()))
        for number in range(4):
            compute.build(f'guest-{number}', _SIXTEEN, None)
        self.assertFalse(compute.build('one-more', _SIXTEEN, None))
        self.assertEqual(0, cloud.rows([host])[0].failed_builds)
        compute.remove('guest-0', _SIXTEEN)
        self.assertEqual(1, cloud.rows([host])[0].failed_builds)
        compute.build('guest-4', _SIXTEEN, None)
        compute.remove('guest-1', _SIXTEEN)
        self.assertEqual(0, cloud.rows([host])[0].failed_builds)


class TestRun(unit_base.TestCase):

    def test_processes(self):
        """A tiny run ends, and its books balance."""
        scene = setups.Scene(hosts=4, requests=8, processes=2, threads=2)
        runs = [setups.Run(setup, scene, 0) for setup in (
            setups.NOVA, setups.Setup(True, 3, shuffles=True))]
        results = list(processes.perform(runs, 2))
        self.assertEqual(runs, [result.run for result in results])
        self.assertEqual([], list(report.problems(results)))
        for result in results:
            self.assertEqual(8, len(result.outcomes))
            self.assertTrue(
                all(outcome.seconds > 0 for outcome in result.outcomes))
        found = [report.measured(result) for result in results]
        self.assertEqual(['nova 1', 'ours 3 shuffled'],
                         [row.name for row in report.rows(found)])
        self.assertIn('nova 1', '\n'.join(report.text(found)))
        json.dumps(report.as_json(results, {}))

    def test_failure_of_a_process(self):
        scene = setups.Scene(hosts=2, processes=2)
        wrong = dataclasses.replace(scene, threads=0)
        with self.assertRaisesRegex(processes.Failed, 'max_workers'):
            list(processes.perform([setups.Run(setups.OURS, wrong, 0)], 2))


class _Clock:

    now = 0.0

    def __call__(self):
        return self.now


class TestReport(unit_base.TestCase):

    def _result(self, *outcomes, requests=2, errors=(), wrong=()):
        return model.Result(
            setups.Run(setups.OURS, setups.Scene(requests=requests), 0),
            tuple(outcomes), errors, model.State(0.85, 0.02, wrong))

    def test_figures(self):
        (row,) = report.rows([report.measured(self._result(
            model.Outcome(model.End.BUILT, 3, 1, 1.0),
            model.Outcome(model.End.EXHAUSTED, 0, 2, 3.0)))])
        means = {key: estimate.mean for key, estimate in row.figures.items()}
        self.assertEqual(150, means['placement_retries'])
        self.assertEqual(150, means['claim_retries'])
        self.assertEqual(50, means['exhausted'])
        self.assertEqual(0, means['refused'])
        self.assertEqual(2, means['attempts'])
        self.assertEqual(2, means['median_seconds'])
        self.assertTrue(math.isclose(2.9, means['p95_seconds']))

    def test_changes(self):
        """Pairs of the same round that differ in one option alone."""
        def run(setup, seed, value):
            return report.Measured(setup, seed, 1, {
                column.key: value for column in report.COLUMNS})

        rows = {row.name: row for row in report.changes([
            run(setups.NOVA, 0, 100), run(setups.OURS, 0, 10),
            run(setups.Setup(True, 5), 0, 7),
            run(setups.Setup(True, 5, True), 0, 5),
            # Of a round in which there is nothing to compare it with.
            run(setups.Setup(True, 5), 1, 1000)])}
        self.assertEqual(
            {'ours, not nova': (1, -90), 'size 5, not 1': (1, -3),
             'shuffled or not': (1, -2)},
            {name: (row.count, row.figures['claim_retries'].mean)
             for name, row in rows.items()})

    def test_problems(self):
        fine = model.Outcome(model.End.BUILT, 0, 0, 1.0)
        self.assertEqual([], list(report.problems([self._result(fine, fine)])))
        self.assertEqual(
            ['ours 1, round 0: 1 requests are not accounted for',
             'ours 1, round 0: oversold', 'ours 1, round 0: a traceback'],
            list(report.problems([self._result(
                fine, errors=('a traceback',), wrong=('oversold',))])))

    def test_rst(self):
        fine = model.Outcome(model.End.BUILT, 0, 0, 1.0)
        found = [report.measured(self._result(fine, fine))]
        lines = '\n'.join(report.rst(found, setups.Scene(), 1, {
            'cpu_model': 'a CPU', 'cpus': 2, 'system': 'Linux',
            'python': 'CPython', 'versions': {'nova': '34.0.0'}}))
        self.assertIn('   * - ours 1\n     - 2\n', lines)

    def test_order(self):
        """Each round has all set-ups, in another order."""
        runs = list(__main__._runs(setups.Scene(), setups.SETUPS, 2))
        orders = [[run.setup for run in runs if run.seed == seed]
                  for seed in (0, 1)]
        self.assertNotEqual(*orders)
        for order in orders:
            self.assertEqual(set(setups.SETUPS), set(order))

    def test_time_is_up(self):
        """Only whole rounds count."""
        wanted = (setups.NOVA, setups.OURS)
        # A run takes a second.
        for seconds, expected in ((0.5, 1), (1.5, 2), (4.5, 4), (6.5, 6)):
            clock = _Clock()
            with mock.patch.object(__main__.time, 'monotonic', clock):
                runs = []
                for run in __main__._runs(
                        setups.Scene(), wanted, 3, seconds):
                    runs.append(run)
                    clock.now += 1
            self.assertEqual(expected, len(runs), seconds)
            whole = __main__._whole_rounds(
                [model.Result(run, (), (), model.State(0, 0, ()))
                 for run in runs], wanted)
            self.assertEqual(
                [setup for setup in wanted
                 for _round in range(expected // 2)],
                [result.run.setup for result in whole])


class TestSetups(unit_base.TestCase):

    def test_guests_fit(self):
        """Every flavor gives a topology with the cells that it says."""
        objects.register_all()
        for number, guest in enumerate(setups.GUESTS):
            cells = history.guest_topology(number).cells
            self.assertEqual(guest.cells, len(cells))
            self.assertEqual(
                guest.vcpus, sum(len(cell.pcpuset) for cell in cells))
