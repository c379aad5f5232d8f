# SPDX-License-Identifier: Apache-2.0
"""The benchmark of L3 caches."""

import contextlib
import io
import pathlib

import yaml

from benchmarks import caches
from nova_pinning.document import size_mix
from nova_pinning import errors
from nova_pinning.tests.unit.cli import cli_case
from nova_pinning.tests.unit import unit_base


class TestCachesStudy(unit_base.TestCase):

    def test_mix(self):
        """It has the sizes of dedicated guests of the shipped catalogue."""
        self.assertEqual(
            sorted(size['vcpus'] for size in yaml.safe_load(pathlib.Path(
                cli_case.CATALOGUE).read_text())['sizes']['standard'].values()
            ),
            [share.vcpus for share in size_mix.parse(
                caches.MIX, errors.Location('mix'))])

    def test_table(self):
        """Nodes with one cache each have nothing to set."""
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            status = caches.main(['--quick', '--case', 'kunpeng-920'])
        row = next(line for line in out.getvalue().splitlines()
                   if line.startswith('kunpeng'))
        self.assertEqual((0, ['as', 'found', '100.0%']),
                         (status, row.split()[1:4]))
        self.assertEqual(['met'], row.split()[-1:])
