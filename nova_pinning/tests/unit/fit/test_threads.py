# SPDX-License-Identifier: Apache-2.0

import ddt
import hypothesis
from hypothesis import strategies
import testtools

from nova_pinning.fit import threads


@ddt.ddt
class TestThreads(testtools.TestCase):

    @hypothesis.given(strategies.lists(
        strategies.integers(0, 1023), min_size=1, max_size=4, unique=True))
    def test_set_walks_that_way(self, core):
        """What is asked of a set, its intersections keep."""
        walked = threads.walk(tuple(core))
        self.assertEqual(sorted(core), sorted(walked))
        found = threads.as_set(walked)
        self.assertEqual(set(core), found)
        self.assertEqual(walked, tuple(found & set(range(1024))))
        # An order that nova can have is left as it is.
        self.assertEqual(walked, threads.walk(walked))

    @ddt.data(((0, 1), (0, 1)), ((1, 0), (0, 1)), ((3, 19), (3, 19)),
              ((19, 3), (19, 3)))
    @ddt.unpack
    def test_orders(self, core, expected):
        # 3 and 19 are in the same place of a small set's table.
        self.assertEqual(expected, threads.walk(core))

    def test_many_threads(self):
        core = (9, 1, 5, 3, 7)
        self.assertEqual(set(core), threads.as_set(threads.walk(core)))
