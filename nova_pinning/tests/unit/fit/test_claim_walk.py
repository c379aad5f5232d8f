# SPDX-License-Identifier: Apache-2.0
"""Nova's walk, held against one that leaves no permutation out.

Guest and host cells are made up, so that fits come and go as they never do in
nova, which is asked by the tests of ``bridge.claim``.
"""

import functools
import itertools
import random

import hypothesis
from hypothesis import strategies
from oslotest import base as oslotest

from nova_pinning.fit import claim_walk
from nova_pinning.tests.unit import unit_base


def _plain_walk(host_ids, ids, sizes, try_cell, accepts):
    """As nova.virt.hardware.numa_fit_instance_to_host goes about it.

    :returns: the permutation that is taken, None if none is, with the places
        where cells were pinned
    """
    ids = list(ids)
    pinned_at = [None] * len(ids)
    fitting, unfit = set(), set()
    for chosen in itertools.permutations(range(len(host_ids)), len(ids)):
        for index, place in enumerate(chosen):
            pair = host_ids[place], ids[index]
            if pair in unfit:
                break
            if pair not in fitting:
                fits, sizes[index], is_pinned = try_cell(
                    index, place, sizes[index])
                if is_pinned:
                    pinned_at[index] = place
                    ids[index] = host_ids[place]
                (fitting if fits else unfit).add(pair)
                if not fits:
                    break
            ids[index] = host_ids[place]
        else:
            if accepts(chosen):
                return list(chosen), pinned_at
    return None, pinned_at


def _cells(rng, share):
    """What comes of each trial, the same each time it is asked for."""
    @functools.cache
    def try_cell(_index, _place, size):
        fits = rng.random() < share
        if rng.random() < 0.1:
            size = rng.choice([4, 2048])
        return claim_walk.Trial(fits, size, fits or rng.random() < 0.2)

    return try_cell


class TestWalk(oslotest.BaseTestCase):

    @unit_base.settings(400)
    @hypothesis.given(strategies.integers(0, 10 ** 9))
    # One where a cell has to be tried again though a later one will fail.
    @hypothesis.example(1644)
    def test_as_if_nothing_was_left_out(self, seed):
        rng = random.Random(seed)
        count = rng.randint(1, 4)
        host_ids = rng.sample(range(8), rng.randint(count, 6))
        ids = rng.choice([range(count), [-1] * count])
        sizes = [-3] * count
        try_cell = _cells(rng, rng.choice([0.2, 0.5, 0.8]))
        rarely = rng.choice([1, 1, 2, 12])

        def accepts(chosen):
            return not sum(1 << place for place in chosen) % rarely

        walk = claim_walk.ClaimWalk(host_ids, ids, sizes, try_cell)
        is_found = walk.run(accepts, lambda: None)
        chosen, pinned_at = _plain_walk(
            host_ids, ids, sizes, try_cell, accepts)
        self.assertEqual(chosen is not None, is_found)
        if is_found:
            self.assertEqual(
                (chosen, pinned_at, sizes),
                (walk.chosen, walk.pinned_at, walk.page_sizes))

    def test_few_are_looked_at(self):
        """Of 255,024 permutations none will do, as one cell fits nowhere."""
        for nowhere, most in ((0, 24), (3, 1000)):
            looked = []
            walk = claim_walk.ClaimWalk(
                range(24), range(100, 104), [None] * 4,
                lambda index, _place, size, nowhere=nowhere:
                claim_walk.Trial(index != nowhere, size, index != nowhere))
            self.assertFalse(walk.run(lambda chosen: True,
                                      lambda: looked.append(None)))
            self.assertLessEqual(len(looked), most)
