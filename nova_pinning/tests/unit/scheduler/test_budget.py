# SPDX-License-Identifier: Apache-2.0

from oslotest import base

from nova_pinning.scheduler import budget
from nova_pinning.tests.unit.scheduler import scheduler_fakes


class TestBudget(base.BaseTestCase):

    def setUp(self):
        super().setUp()
        self.clock = scheduler_fakes.Clock()

    def test_only_what_is_counted(self):
        spent = budget.RequestBudget(5.0, self.clock)
        for _host in range(4):
            spent.resume()
            self.clock.now += 1
            spent.pause()
            self.clock.now += 100
        self.assertFalse(spent.is_over())
        self.assertFalse(spent.is_exceeded)
        self.clock.now += 1.5
        self.assertTrue(spent.is_over())
        self.assertTrue(spent.is_exceeded)
        self.assertEqual(1.0, spent.longest_seconds)

    def test_asking_counts(self):
        spent = budget.RequestBudget(5.0, self.clock)
        self.assertFalse(spent.is_over())
        self.clock.now += 6
        self.assertTrue(spent.is_over())

    def test_twice_is_once(self):
        spent = budget.RequestBudget(5.0, self.clock)
        spent.resume()
        self.clock.now += 3
        spent.resume()
        self.clock.now += 1
        spent.pause()
        spent.pause()
        self.assertFalse(spent.is_over())
        self.clock.now += 1.1
        self.assertTrue(spent.is_over())

    def test_the_second_tier_has_as_long_again(self):
        spent = budget.RequestBudget(5.0, self.clock)
        spent.resume()
        self.clock.now += 6
        self.assertTrue(spent.is_over())
        with spent.for_second_tier():
            self.assertFalse(spent.is_over())
            self.clock.now += 5
            self.assertTrue(spent.is_over())
        self.assertTrue(spent.is_over())

    def test_no_limit(self):
        spent = budget.RequestBudget(0, self.clock)
        self.clock.now += 10 ** 9
        self.assertFalse(spent.is_over())
