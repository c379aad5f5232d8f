# SPDX-License-Identifier: Apache-2.0

import hypothesis
from hypothesis import strategies as st

from nova_pinning.instance_bench import bench_model
from nova_pinning.instance_bench import schedule
from nova_pinning.tests.unit.instance_bench import bench_fakes
from nova_pinning.tests.unit import unit_base

case = bench_fakes.case
tenant = bench_fakes.container
trial = bench_fakes.trial


def units(prepared, is_chosen=lambda case: True, measurements=()):
    return schedule.units(bench_model.Results(
        experiment=prepared.experiment, workloads=prepared.workloads,
        conditions=(), measurements=measurements), is_chosen)


class TestSchedule(unit_base.TestCase):

    @unit_base.settings(50)
    @hypothesis.given(st.integers(0, 99), st.integers(1, 12),
                      st.integers(1, 4))
    def test_order(self, seed, cases, rounds):
        prepared = trial(*(case(str(number)) for number in range(cases)),
                         repetitions=1, rounds=rounds, seed=seed)
        found = units(prepared)
        # Round by round, all cases in each.
        self.assertEqual(
            [(number, {str(one) for one in range(cases)})
             for number in range(1, rounds + 1)],
            [(number, {unit.case.name for unit in found[
                (number - 1) * cases:number * cases]})
             for number in range(1, rounds + 1)])
        self.assertEqual(sorted(unit.round for unit in found),
                         [unit.round for unit in found])
        self.assertEqual(found, units(prepared))
        # Those left out, or done, do not change the order of the others.
        some = units(prepared, lambda case: int(case.name) % 2)
        self.assertEqual([unit for unit in found
                          if int(unit.case.name) % 2], list(some))
        self.assertEqual(found[1::2], units(prepared, measurements=[
            bench_model.Measurement(
                factors=unit.case.factors, round=unit.round, repetition=1,
                started=0.0, load=0.0, readings=())
            for unit in found[::2]]))

    def test_orders_differ(self):
        orders = {
            tuple(unit.case.name for unit in units(
                trial(*map(case, 'abcdefgh'), seed=seed)))
            for seed in range(10)}
        self.assertGreater(len(orders), 8)

    def test_seconds(self):
        prepared = trial(
            case('one'), case('short', tenant(parameters={'duration': 1})),
            case('beside others', tenant(), tenant(
                'neighbours', role=bench_model.Role.NEIGHBOUR, count=2)),
            case('two', tenant(count=2)),
            repetitions=9, settle_seconds=5.0, window_seconds=20.0)
        found = units(prepared)
        self.assertEqual(
            {'one': 2 + 100, 'short': 2 + 10, 'beside others': 2 + 5 + 100,
             'two': 2 + 100 + 9 * 20},
            {unit.case.name: unit.seconds for unit in found})
