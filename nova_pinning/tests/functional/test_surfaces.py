# SPDX-License-Identifier: Apache-2.0
"""All commands say the same of a guest on a host."""

from oslotest import base

from nova_pinning.tests.oracle import surfaces


class TestSurfaces(base.BaseTestCase):

    def test_all_agree(self):
        """A few of the cases of ``./run fuzz-surfaces``."""
        tally = surfaces.compare(1, range(120))
        self.assertEqual([], tally.differences)
        for answer in (surfaces.YES, surfaces.NO, surfaces.UNKNOWN):
            self.assertGreater(tally.answers[answer], 15, tally.answers)
        self.assertEqual(set(surfaces.SURFACES), set(tally.asked))
