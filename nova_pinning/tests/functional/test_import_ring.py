# SPDX-License-Identifier: Apache-2.0
"""What imports make of fleets answers as the fleets do.

The long form is ``./run fuzz-imports``.
"""

import json
import subprocess
import sys

from oslotest import base

# Placement's database is configured once in a process, and other tests have
# theirs.
_COMPARE = """
import json
from nova_pinning.tests.oracle import import_ring
print(json.dumps([
    found for number in (1, 5)
    for found in import_ring.compared(1, number, questions=5)]))
"""


class ImportRingTestCase(base.BaseTestCase):

    def test_nothing_is_dropped(self):
        done = subprocess.run(
            [sys.executable, '-W', 'ignore', '-c', _COMPARE],
            capture_output=True, text=True)
        self.assertEqual(0, done.returncode, done.stderr)
        found = json.loads(done.stdout.splitlines()[-1])
        self.assertEqual([], [wrong for _verdict, wrong in found if wrong])
        verdicts = {verdict for verdict, _wrong in found}
        self.assertLessEqual({'admitted', 'refused', 'undecided'}, verdicts)
