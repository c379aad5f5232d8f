# SPDX-License-Identifier: Apache-2.0


"""nova-pinning rebalance failover."""

import csv
import io
import json
import pathlib

import ddt

from nova_pinning.tests.unit.cli import cli_case

_EXAMPLE = (pathlib.Path(__file__).parents[4] / 'doc' / 'source' / 'admin'
            / 'rebalance-fleet.json')


@ddt.ddt
class TestFailover(cli_case.TestCase):

    def setUp(self):
        super().setUp()
        if not _EXAMPLE.exists():
            self.skipTest('not run from a checkout')

    def _run(self, *argv):
        return self.run_command('rebalance', 'failover', str(_EXAMPLE), *argv)

    def test_hosts(self):
        done = self._run()
        self.assertEqual((1, ''), (done.status, done.err))
        self.assertIn('2 of 6 would leave guests down', done.out)
        self.assertIn('1 empty host like', done.out)

    def test_survived(self):
        done = self._run('--lost', 'cmp-1', '--no-reserve')
        self.assertEqual((0, ''), (done.status, done.err))
        self.assertIn('survives the loss of cmp-1', done.out)
        self.assertNotIn('reserve', done.out)

    def test_racks(self):
        found = json.loads(self._run('--by', 'rack', '-f', 'json').out)
        self.assertEqual(['a', 'b'], [
            loss['name'] for loss in found['losses']])
        self.assertEqual(['cmp-1', 'cmp-2', 'cmp-3'],
                         found['losses'][0]['hosts'])
        only = json.loads(self._run('--by', 'rack', '--lost', 'b', '-f',
                                    'json', '--no-reserve').out)
        self.assertEqual([found['losses'][1]], only['losses'])

    def test_rows(self):
        rows = list(csv.DictReader(io.StringIO(self._run('-f', 'csv').out)))
        self.assertEqual([f'cmp-{number}' for number in range(1, 7)],
                         [row['name'] for row in rows])
        self.assertEqual(2, sum(row['verdict'] == 'no' for row in rows))

    @ddt.data(
        (('--lost', 'cmp-9'), "--lost: the fleet has no host called 'cmp-9'"),
        (('--by', 'row'), 'has no aggregate with row in its metadata'),
        (('--by', 'rack', '--lost', 'z'), 'there is no rack z'),
        (('--seconds', '0'), '--seconds'),
        (('--release', '1999.1'), '--release'))
    @ddt.unpack
    def test_bad_input(self, argv, text):
        done = self._run(*argv)
        self.assertEqual((2, ''), (done.status, done.out))
        self.assertIn(text, done.err)
