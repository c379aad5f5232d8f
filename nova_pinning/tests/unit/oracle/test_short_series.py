# SPDX-License-Identifier: Apache-2.0
"""Short forms of the fuzzes: tests-long has the same series in full.

As programs of their own each of them would load nova once more.
"""

import contextlib
from importlib import metadata
import io
import unittest

from nova_pinning.model import nova_release
from nova_pinning.tests.oracle import admission
from nova_pinning.tests.oracle import claims
from nova_pinning.tests.oracle import flavor_fuzz
from nova_pinning.tests.oracle import fuzz
from nova_pinning.tests.oracle import moves
from nova_pinning.tests.unit.oracle import oracle_cases


#: What these hold against nova and Placement is what the newest ones do.
needs_newest = unittest.skipUnless(
    nova_release.of_nova_version(metadata.version('nova')) is
    nova_release.NEWEST, 'they are for the newest nova')


class _TestCase(oracle_cases.TestCase):

    def check(self, program, cases, seed, *options):
        """Run a series, in which nothing may be found."""
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            status = program.main([
                '--jobs', '1', '--cases', str(cases), '--seed', str(seed),
                *options])
        self.assertEqual(0, status, output.getvalue())
        self.assertRegex(output.getvalue().replace(',', ''),
                         rf'\b{cases}( of {cases})? cases of seed {seed}\b')


# A class each, since the tests of a class are for one process.

class TestEngine(_TestCase):

    def test_engine(self):
        self.check(fuzz, 1200, 1, '--no-shrink')


class TestClaims(_TestCase):

    def test_claims(self):
        self.check(claims, 1000, 1, '--no-shrink')


@needs_newest
class TestFlavors(_TestCase):

    def test_flavors(self):
        self.check(flavor_fuzz, 300, 1)


@needs_newest
class TestAdmission(_TestCase):

    def test_admission(self):
        self.check(admission, 2000, 36)


@needs_newest
class TestMoves(_TestCase):

    def test_moves(self):
        self.check(moves, 120, 38, '--no-shrink')
