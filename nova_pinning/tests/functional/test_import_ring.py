# SPDX-License-Identifier: Apache-2.0
"""What imports make of fleets answers as the fleets do.

The long form is ``./run fuzz-imports``.
"""

import collections

from oslotest import base

from nova_pinning.tests.oracle import import_ring


class ImportRingTestCase(base.BaseTestCase):

    def test_nothing_is_dropped(self):
        found = collections.Counter()
        for number in (1, 5):
            for verdict, wrong in import_ring.compared(1, number, questions=5):
                found[verdict] += 1
                self.assertEqual('', wrong)
        for verdict in ('admitted', 'refused', 'undecided'):
            self.assertGreater(found[verdict], 0, found)
