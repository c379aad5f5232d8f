# SPDX-License-Identifier: Apache-2.0
"""An integer program, put together row by row and solved by HiGHS."""

from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
import math
from typing import Any
from typing import NamedTuple

import numpy
from scipy import optimize
from scipy import sparse

from nova_pinning.rebalance import quiet_solver

#: A variable and its coefficient.
Term = tuple[int, float]
#: Of numpy or scipy, which mypy does not look into.
_Array = Any

_TOLERANCE = 1e-6
# What scipy.optimize.milp says.
_OPTIMAL, _INFEASIBLE, _UNBOUNDED = 0, 2, 3


class Solution(NamedTuple):
    """What a program came to.

    :param is_best: whether no other is better
    :param values: of the variables, () if none are known
    :param bound: that the objective cannot exceed; inf if none is known, -inf
        if there is no solution
    """

    is_best: bool
    values: tuple[int, ...]
    bound: float

    @property
    def is_known(self) -> bool:
        return bool(self.values)


class IntegerProgram:
    """Whole numbers from 0 up, rows that bind them, and what is to be most.

    :param most_nodes: of the search tree, after which the best so far is
        taken; None for no limit
    """

    def __init__(self, most_nodes: int | None = None) -> None:
        self._most_nodes = most_nodes
        self._upper: list[float] = []
        self._lows: list[float] = []
        self._highs: list[float] = []
        self._rows: list[int] = []
        self._columns: list[int] = []
        self._coefficients: list[float] = []

    @property
    def size(self) -> int:
        """Variables."""
        return len(self._upper)

    def variable(self, most: float) -> int:
        """One more variable.

        :returns: its number
        """
        self._upper.append(most)
        return len(self._upper) - 1

    def close(self, variable: int) -> None:
        """Let a variable be 0."""
        self._upper[variable] = 0

    def most(self, variable: int) -> float:
        """The upper limit of a variable."""
        return self._upper[variable]

    def row(self, terms: Iterable[Term], low: float = -math.inf,
            high: float = math.inf) -> None:
        """Bind the sum of some variables, each times its coefficient."""
        number = len(self._lows)
        for column, coefficient in terms:
            self._rows.append(number)
            self._columns.append(column)
            self._coefficients.append(coefficient)
        self._lows.append(low)
        self._highs.append(high)

    def rounded_row(self, terms: Sequence[Term], high: float,
                    unit: float, switch: int | None = None) -> None:
        """At most ``high``, and what follows from whole numbers of units.

        The second is the row's mixed-integer rounding once it is divided by
        the unit (Nemhauser and Wolsey, Integer and Combinatorial
        Optimization, II.1.7). HiGHS looks for such rows too, but does not
        know that it pays here for each of thousands.

        :param switch: a variable that is 0 or 1; the limit is high times it
        """
        self._limited(terms, high, switch)
        whole, fraction = divmod(high / unit, 1)
        if _TOLERANCE < fraction < 1 - _TOLERANCE:
            self._limited([
                (column, _rounded(coefficient / unit, fraction))
                for column, coefficient in terms], whole, switch)

    def _limited(self, terms: Sequence[Term], high: float,
                 switch: int | None) -> None:
        if switch is None:
            self.row(terms, high=high)
        else:
            self.row([*terms, (switch, -high)], high=0)

    def solve(
        self, objective: Mapping[int, float], seconds: float = math.inf,
        nodes: int | None = None, presolves: bool = True,
    ) -> Solution:
        """Find the values for which the objective is most.

        :param objective: coefficients by variable
        :param seconds: after which the best so far is taken
        :param nodes: of the search tree, after which it is too
        :param presolves: whether the program is made smaller beforehand,
            which can take longer than all the rest
        """
        if not self.size:
            return Solution(True, (), 0.0)
        options: dict[str, object] = {
            'mip_rel_gap': 0.0, 'presolve': presolves,
            'time_limit': max(0.1, seconds)}
        limits = [most for most in (nodes, self._most_nodes)
                  if most is not None]
        if limits:
            options['node_limit'] = min(limits)
        with quiet_solver.quiet_output():
            result = optimize.milp(
                self._costs(objective), integrality=numpy.ones(self.size),
                bounds=optimize.Bounds(0, numpy.array(self._upper)),
                constraints=optimize.LinearConstraint(
                    self._matrix(), numpy.array(self._lows),
                    numpy.array(self._highs)), options=options)
        if result.status == _INFEASIBLE:
            return Solution(False, (), -math.inf)
        if result.status == _UNBOUNDED:
            raise RuntimeError(f'HiGHS: {result.message}')
        # Of other limits than that of time it says what it says of errors.
        values = tuple(map(round, () if result.x is None else result.x))
        bound = math.inf
        if result.mip_dual_bound is not None and math.isfinite(
                result.mip_dual_bound):
            bound = -float(result.mip_dual_bound)
        return Solution(result.status == _OPTIMAL, values, bound)

    def relaxed_bound(self, objective: Mapping[int, float],
                      seconds: float = math.inf) -> float:
        """What the objective cannot exceed, be the numbers whole or not.

        The solver need not be believed: of its solution only the prices of
        the rows are used, and whatever prices there are make a bound (weak
        duality; Neumaier and Shcherbina, Safe bounds in linear and
        mixed-integer programming, 2004).

        :returns: inf if that was not found out in time, -inf if there is no
            solution
        """
        if not self.size:
            return 0.0
        lows, highs = numpy.array(self._lows), numpy.array(self._highs)
        equal = lows == highs
        upper = numpy.isfinite(highs) & ~equal
        lower = numpy.isfinite(lows) & ~equal
        matrix, most = self._matrix(), numpy.array(self._upper)
        costs = self._costs(objective)
        limited = sparse.vstack([matrix[upper], -matrix[lower]])
        limits = numpy.concatenate([highs[upper], -lows[lower]])
        # Of large programs an interior point is found in a third of the time
        # that the simplex method takes.
        with quiet_solver.quiet_output():
            result = optimize.linprog(
                costs, A_ub=limited, b_ub=limits,
                A_eq=matrix[equal], b_eq=highs[equal],
                bounds=numpy.stack([numpy.zeros(self.size), most], axis=1),
                method='highs-ipm',
                options={'time_limit': max(0.1, seconds)})
        if result.status != _OPTIMAL:
            return -math.inf if result.status == _INFEASIBLE else math.inf
        prices = numpy.minimum(result.ineqlin.marginals, 0)
        left = (costs - prices @ limited
                - result.eqlin.marginals @ matrix[equal])
        return -float(prices @ limits
                      + result.eqlin.marginals @ highs[equal]
                      + numpy.minimum(left, 0) @ most)

    def _costs(self, objective: Mapping[int, float]) -> _Array:
        costs = numpy.zeros(self.size)
        for column, coefficient in objective.items():
            costs[column] = -coefficient
        return costs

    def _matrix(self) -> _Array:
        return sparse.csr_array(
            (self._coefficients, (self._rows, self._columns)),
            shape=(len(self._lows), self.size))


def _rounded(coefficient: float, fraction: float) -> float:
    whole, part = divmod(coefficient, 1)
    if part > 1 - _TOLERANCE:
        whole, part = whole + 1, 0.0
    return whole + max(0.0, part - fraction) / (1 - fraction)
