# SPDX-License-Identifier: Apache-2.0


import itertools
from unittest import mock

import hypothesis
from hypothesis import strategies
from scipy import optimize

from nova_pinning.rebalance import integer_program
from nova_pinning.tests.unit import unit_base

_coefficients = strategies.lists(
    strategies.integers(-20, 20), min_size=3, max_size=3)


class TestIntegerProgram(unit_base.TestCase):

    def test_empty(self):
        solution = integer_program.IntegerProgram().solve({})
        self.assertEqual((True, 0.0), (solution.is_best, solution.bound))

    def test_infeasible(self):
        program = integer_program.IntegerProgram()
        program.row([(program.variable(2), 1)], low=3)
        solution = program.solve({})
        self.assertEqual((False, False, float('-inf')), (
            solution.is_best, solution.is_known, solution.bound))

    def test_relaxed(self):
        program = integer_program.IntegerProgram()
        number = program.variable(5)
        program.row([(number, 2)], high=5)
        self.assertEqual(2, program.solve({number: 1}).bound)
        self.assertEqual(2.5, program.relaxed_bound({number: 1}))
        program.row([(number, 1)], low=1, high=1)
        self.assertEqual(1.0, program.relaxed_bound({number: 1}))
        program.row([(number, 1)], low=2)
        self.assertEqual(float('-inf'), program.relaxed_bound({number: 1}))

    @unit_base.settings(50)
    @hypothesis.given(_coefficients, strategies.integers(-9, 9))
    def test_relaxed_by_a_solver_that_errs(self, coefficients, price):
        """Its prices make the bound worse, and never wrong."""
        program = integer_program.IntegerProgram()
        worth = {program.variable(4): number for number in coefficients}
        program.row([(number, 3) for number in worth], high=7)
        program.row([(0, 1), (1, -1)], low=0, high=0)
        bound = program.relaxed_bound(worth)
        linprog = optimize.linprog

        def err(*args, **values):
            result = linprog(*args, **values)
            result.fun += 2
            result.ineqlin.marginals = result.ineqlin.marginals + price
            result.eqlin.marginals = result.eqlin.marginals - price
            return result

        with mock.patch.object(optimize, 'linprog', err):
            self.assertGreaterEqual(program.relaxed_bound(worth),
                                    bound - 1e-9)

    def test_nodes(self):
        """A limit of the program's own, and one of the search."""
        asked = []

        def solve(*args, **values):
            asked.append(values['options'].get('node_limit'))
            return milp(*args, **values)

        milp = optimize.milp
        with mock.patch.object(optimize, 'milp', solve):
            for most, nodes in ((None, None), (7, None), (None, 5), (7, 5),
                                (3, 5)):
                program = integer_program.IntegerProgram(most)
                program.solve({program.variable(5): 1}, nodes=nodes)
        self.assertEqual([None, 7, 5, 5, 3], asked)

    def test_close(self):
        program = integer_program.IntegerProgram()
        number = program.variable(5)
        program.close(number)
        self.assertEqual((0,), program.solve({number: 1}).values)

    @unit_base.settings(100)
    @hypothesis.given(_coefficients, strategies.integers(0, 60),
                      strategies.integers(1, 20), strategies.booleans())
    def test_rounded_row_leaves_all_out_that_the_row_does(
            self, coefficients, high, unit, has_switch):
        """And nothing else, whatever whole numbers there are."""
        program = integer_program.IntegerProgram()
        numbers = [program.variable(3) for _number in coefficients]
        switch = program.variable(1) if has_switch else None
        program.rounded_row(list(zip(numbers, coefficients)), high, unit,
                            switch)
        rows = {}
        for row, column, coefficient in zip(
                program._rows, program._columns, program._coefficients):
            rows.setdefault(row, []).append((column, coefficient))
        for values in itertools.product(range(4), repeat=3):
            for on in range(1 + has_switch):
                limit = high * on if has_switch else high
                fits = sum(map(lambda pair: pair[0] * pair[1],
                               zip(coefficients, values))) <= limit
                self.assertEqual(fits, all(
                    sum((*values, on)[column] * coefficient
                        for column, coefficient in terms)
                    <= program._highs[row] + 1e-6
                    for row, terms in rows.items()))
