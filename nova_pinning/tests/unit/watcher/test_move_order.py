# SPDX-License-Identifier: Apache-2.0

import random

from oslotest import base as oslotest

from nova_pinning.watcher import move_order


def most_at_once(order, seed):
    """Run all actions, any of those that may; returns how many at most.

    Checks that none begins before its parents have ended.
    """
    choose = random.Random(seed)
    running, done, most = set(), set(), 0
    while len(done) < len(order):
        ready = [position for position, parents in enumerate(order)
                 if position not in running | done and done >= set(parents)]
        if not ready and not running:
            raise AssertionError('nothing can run')
        if ready and choose.random() < 0.7:
            running.add(choose.choice(ready))
        elif running:
            done.add(running.pop())
        most = max(most, len(running))
    return most


class TestMoveOrder(oslotest.BaseTestCase):

    def test_one_by_one(self):
        self.assertEqual([], move_order.one_by_one(0))
        self.assertEqual([(), (0,), (1,)], move_order.one_by_one(3))

    def test_behind(self):
        self.assertEqual([(), (0,)], move_order.behind(0, [(), (0,)]))
        self.assertEqual([(), (), (0, 1), (0, 1, 2)],
                         move_order.behind(2, [(), (0,)]))

    def test_limited_keeps_parents(self):
        self.assertEqual([[], [], [0, 1], [1]],
                         move_order.limited([(), (), (0, 1), ()], 2))

    def test_limited(self):
        """Whatever the order, so many run at a time and no more."""
        for seed in range(200):
            choose = random.Random(seed)
            order = [choose.sample(range(position),
                                   choose.randint(0, min(position, 2)))
                     for position in range(choose.randint(1, 12))]
            most = choose.randint(1, 4)
            limited = move_order.limited(order, most)
            for parents, more in zip(order, limited, strict=True):
                self.assertGreaterEqual(set(more), set(parents))
            self.assertLessEqual(most_at_once(limited, seed), most)

    def test_limit_is_used(self):
        limited = move_order.limited([()] * 9, 3)
        self.assertEqual(3, max(most_at_once(limited, seed)
                                for seed in range(20)))
