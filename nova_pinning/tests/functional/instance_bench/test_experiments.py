# SPDX-License-Identifier: Apache-2.0
"""Experiments from the command to the report, with real processes.

``tox -e bench-experiments`` does the same for more of them, which takes a
quarter of an hour.
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys

import fixtures
import testtools

from nova_pinning.instance_bench.report import run_claims
from nova_pinning.instance_bench import results_file
from nova_pinning.tests import namespaces

#: Runs what follows with a /var/tmp, the first word, of its own: the lock that
#: is there is held while anything else measures on this host.
OWN_VAR_TMP = ('unshare', '--mount', 'sh', '-ec',
               'mount --bind "$0" /var/tmp; exec "$@"')
PAIR = ('--only', 'scenario=host', '--only', 'workload=handover')


class ExperimentTest(testtools.TestCase):

    def setUp(self):
        super().setUp()
        if namespaces.missing('--mount'):
            self.skipTest(namespaces.missing('--mount'))
        for program in ('gcc', 'socat'):
            if shutil.which(program) is None:
                self.skipTest(f'{program} is not installed: apt-get install '
                              f'{program}')
        self.directory = pathlib.Path(
            self.useFixture(fixtures.TempDir()).path)
        self.var_tmp = self.useFixture(fixtures.TempDir()).path
        os.chmod(self.var_tmp, 0o1777)

    def call(self, *arguments, status=0):
        done = subprocess.run(
            [*OWN_VAR_TMP, self.var_tmp, sys.executable, '-m',
             'nova_pinning.cli.shell', 'bench', *arguments],
            cwd=self.directory, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=280)
        self.assertEqual(status, done.returncode,
                         f'{done.stdout}\n{done.stderr}')
        return done.stdout

    def run_pair(self, *arguments):
        self.call('run', 'smp-mutex', '--short', '-o', 'r.jsonl', *PAIR,
                  *arguments)
        return results_file.read(self.directory / 'r.jsonl').measurements

    def test_pair(self):
        first = self.run_pair('--rounds', '2')
        self.assertEqual(4, len(first))
        for one in first:
            self.assertTrue(one.affinities)
            for affinity in one.affinities:
                self.assertTrue(affinity.is_in_force, affinity)
        # All is there, so nothing is measured again.
        self.assertEqual(first, self.run_pair('--rounds', '2'))
        document = json.loads(self.call(
            'report', 'r.jsonl', '-o', 'report.html', '--format', 'json'))
        found = {one['name']: one['verdict']
                 for one in document['results'][0]['claims']}
        self.assertEqual(str(run_claims.ClaimVerdict.HOLDS),
                         found['affinities'])
        self.assertIn('handover', found)
        page = (self.directory / 'report.html').read_text()
        self.assertIn('smp-mutex', page)

    def test_unknown(self):
        self.call('run', 'no-such-experiment', status=2)
        self.assertEqual([], list(self.directory.iterdir()))
