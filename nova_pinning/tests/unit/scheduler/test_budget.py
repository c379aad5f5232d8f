# SPDX-License-Identifier: Apache-2.0

from oslotest import base

from nova_pinning.scheduler import budget

_STEP = budget.SECONDS_PER_STEP


class TestBudget(base.BaseTestCase):

    def _steps(self, steps):
        """How many steps there are before there may be no more."""
        taken = 0
        while not steps.is_over():
            taken += 1
        return taken

    def test_so_many_steps(self):
        steps = budget.RequestBudget(4.5 * _STEP)
        self.assertEqual(0, steps.longest_seconds)
        for _step in range(4):
            self.assertFalse(steps.is_over())
        self.assertFalse(steps.is_exceeded)
        self.assertTrue(steps.is_over())
        self.assertTrue(steps.is_exceeded)

    def test_the_longest_search_on_one_host(self):
        steps = budget.RequestBudget(100 * _STEP)
        for count in (2, 3, 1):
            steps.start_host()
            for _step in range(count):
                steps.is_over()
        self.assertAlmostEqual(3 * _STEP, steps.longest_seconds)

    def test_the_second_tier_has_as_much_again(self):
        steps = budget.RequestBudget(4.5 * _STEP)
        self.assertEqual(4, self._steps(steps))
        # Those that there may not be are none.
        self.assertEqual(0, self._steps(steps))
        with steps.for_second_tier():
            self.assertEqual(5, self._steps(steps))
        self.assertEqual(0, self._steps(steps))

    def test_less_than_one_step(self):
        self.assertEqual(0, self._steps(budget.RequestBudget(1e-9)))

    def test_no_limit(self):
        steps = budget.RequestBudget(0)
        self.assertFalse(any(steps.is_over() for _step in range(10 ** 4)))
        self.assertFalse(steps.is_exceeded)
