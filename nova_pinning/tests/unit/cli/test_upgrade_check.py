# SPDX-License-Identifier: Apache-2.0

import json

import ddt
import fixtures

from nova_pinning.fleet import document
from nova_pinning.tests.unit.cli import cli_case
from nova_pinning.tests.unit.upgrade import test_upgrade_check


@ddt.ddt
class TestCheckUpgrade(cli_case.TestCase):

    def fleet(self, release='2025.1', *guests):
        path = str(self.dir / 'fleet.json')
        document.write(path, test_upgrade_check.fleet(
            test_upgrade_check.host('h', release), guests=guests or (
                test_upgrade_check.guest('g', 'h'),)))
        return path

    def run_check(self, path, *options):
        return self.run_command('upgrade', 'check', path, *options)

    def test_table(self):
        done = self.run_check(self.fleet(), '--to', '2026.1')
        self.assertEqual(1, done.status)
        shown = ' '.join(done.out.split())
        for words in ('U302 error: nova-compute does not start with the',
                      'host h: it has floating guests and no shared CPUs; '
                      'hit during the upgrade and after it, as on 2025.1',
                      'from 2025.1 (nova 31.3.1) to 2026.1 (nova 33.0.2)'):
            self.assertIn(words, shown)

    def test_fail_on(self):
        path = str(self.dir / 'fleet.json')
        document.write(path, test_upgrade_check.fleet(
            test_upgrade_check.host('h', '2025.1')))
        self.assertEqual(0, self.run_check(path, '--to', '2026.1').status)

    def test_json(self):
        done = self.run_check(self.fleet(), '--to', '33.0.2', '--format',
                              'json')
        found = json.loads(done.out)
        self.assertEqual(
            ({'release': '2025.1', 'nova': '31.3.1'},
             {'release': '2026.1', 'nova': '33.0.2'}, {'2025.1': 1}),
            (found['from'], found['to'], found['releases']))
        bugs = {finding['bug'] for finding in found['findings']}
        self.assertIn('2154495', bugs)

    def test_prometheus(self):
        done = self.run_check(self.fleet(), '--to', '2026.1', '--format',
                              'prometheus')
        self.assertEqual(1, done.status)
        self.assertIn('U302', done.out)

    @ddt.data(
        (('--from', '2031.9', '--to', '2026.1'),
         "--from: '2031.9' is not a release"),
        (('--from', '2025.1', '--to', 'zed'), "--to: 'zed' is not a release"),
        (('--from', '2026.1', '--to', '2025.1'), 'cannot be downgraded'),
        (('--from', '2025.1', '--to', '2026.2'), 'upgrade to 2026.1 first'),
        (('--to', '2026.1', '--upgraded-at', 'Monday'),
         "--upgraded-at: 'Monday' is not a time"),
        (('--to', '2026.1', '--upgraded-at', '2026-05-01T08:00:00'),
         'has no time zone'))
    @ddt.unpack
    def test_bad_input(self, options, message):
        done = self.run_check(self.fleet(), *options)
        self.assertEqual((2, ''), (done.status, done.out))
        self.assertIn(message, done.err)

    def test_time_of_the_last_host(self):
        """That of the first would hide guests of the hosts after it."""
        done = self.run_command('upgrade', 'check', '--help')
        self.assertIn('when the last of the hosts that run it was upgraded',
                      ' '.join(done.out.split()))

    def test_options_before_the_file(self):
        for options in (('--from', 'foo', '--to', '2026.1'),
                        ('--to', 'foo')):
            done = self.run_check('missing.json', *options)
            self.assertIn("'foo'", done.err)

    def test_versions_not_told(self):
        done = self.run_check(self.fleet(None), '--to', '2026.1')
        self.assertEqual(2, done.status)
        self.assertIn('does not tell which nova its hosts run', done.err)

    def test_bad_release_in_the_snapshot(self):
        path = self.fleet()
        with open(path) as file:
            text = file.read()
        self.write('fleet.json', text.replace('"2025.1"', '"2031.1"'))
        done = self.run_check(path, '--from', '2025.1', '--to', '2026.1')
        self.assertEqual(2, done.status)
        self.assertIn('hosts[0] (h).nova_release', done.err)

    def test_newer_point_release(self):
        done = self.run_check(self.fleet(), '--from', '2025.1',
                              '--to', '33.9.9')
        self.assertIn('2026.1 (nova 33.9.9) is newer than nova 33.0.2',
                      ' '.join(done.out.split()))

    def test_newer_than_tested(self):
        done = self.run_check(self.fleet('2026.2'), '--to', '2027.1')
        self.assertIn('2027.1 is newer than 2026.2', ' '.join(
            done.out.split()))

    def test_example_in_the_documentation(self):
        doc = cli_case.ETC.parents[1] / 'doc' / 'source' / 'admin'
        if not doc.is_dir():
            self.skipTest('not run from a checkout')
        self.useFixture(fixtures.EnvironmentVariable('COLUMNS', '78'))
        done = self.run_check(str(doc / 'upgrade-fleet.json'), '--from',
                              '2025.1', '--to', '2026.1')
        self.assertEqual((doc / 'upgrade-check.inc').read_text(), done.out)
