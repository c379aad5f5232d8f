# SPDX-License-Identifier: Apache-2.0
"""What explain, plans of moves and the audit make of --release."""

import argparse
import contextlib
import io

import ddt

from nova_pinning.cli import common_options
from nova_pinning.tests.unit import unit_base


@ddt.ddt
class TestHostRelease(unit_base.TestCase):

    @ddt.data(
        ('', None, ''), ('2026.1', '2026.1', ''), ('33.0.1', '2026.1', ''),
        ('2027.1', '2027.1', 'warning: --release: 2027.1 is newer than '
         '2026.2, the newest that all this is tested with: what is told of '
         'it is not tried\n'),
        ('2024.2', '2024.2', 'warning: --release: 2024.2 (nova 30.3.0) is '
         'not among the releases that all this is tested with: what is told '
         'of it is not tried\n'))
    @ddt.unpack
    def test_defects(self, text, name, told):
        err = io.StringIO()
        with contextlib.redirect_stderr(err):
            known = common_options.defects(argparse.Namespace(release=text))
        self.assertEqual(name, known.usual and known.usual.name)
        self.assertEqual(told, err.getvalue())
