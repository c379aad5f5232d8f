# SPDX-License-Identifier: Apache-2.0
"""nova-pinning bench report."""

import json
from unittest import mock

import fixtures

from nova_pinning.cli import bench_report
from nova_pinning.instance_bench import results_file
from nova_pinning.instance_bench import statistics
from nova_pinning.tests.unit.cli import cli_case
from nova_pinning.tests.unit.instance_bench.report import report_scenes


class ReportBenchTest(cli_case.TestCase):

    def setUp(self):
        super().setUp()
        self.useFixture(fixtures.EnvironmentVariable('COLUMNS', '100'))
        # Thousands of waits for a disk, for nothing.
        self.useFixture(fixtures.MockPatchObject(results_file.os, 'fsync'))

    def write(self, name, run):
        path = str(self.dir / name)
        report_scenes.write(run.results(), path)
        return path

    def report(self, *argv):
        return self.run_command('bench', 'report', *argv)

    def test_table(self):
        done = self.report(self.write('a.jsonl', report_scenes.mutex()))
        self.assertEqual(0, done.status, done.err)
        self.assertRegex(done.out, 'Claims: 5 hold')
        self.assertIn('host SMP', done.out)
        self.assertIn('Student’s t', done.out)
        self.assertTrue(all(len(line) <= 100 for line in
                            done.out.splitlines()))

    def test_json(self):
        done = self.report(self.write('a.jsonl', report_scenes.priority()),
                           '--format', 'json')
        found = json.loads(done.out)
        self.assertEqual('an-experiment-of-priority',
                         found['results'][0]['experiment'])
        self.assertEqual(3, len(found['results'][0]['finishes']))

    def test_page(self):
        path = self.dir / 'report.html'
        results = (self.write('a.jsonl', report_scenes.mutex(rounds=3)),
                   self.write('b.jsonl', report_scenes.network(rounds=3)))
        done = self.report(*results, '-o', str(path))
        self.assertEqual(0, done.status, done.err)
        text = path.read_text()
        self.assertIn('an-experiment-of-mutex', text)
        self.assertIn('an-experiment-of-network', text)
        self.assertEqual((str(path),), done.wrote)
        # The terminal has what stands at the top of the page.
        self.assertIn('Claims:', done.out)
        self.assertNotIn('deviation', done.out)
        # In place of an older one, and with figures for programs.
        done = self.report(results[0], '-o', str(path), '--format', 'json')
        self.assertEqual(1, len(json.loads(done.out)['results']))
        self.assertNotIn('an-experiment-of-network', path.read_text())

    def test_narrow_terminal(self):
        path = self.write('a.jsonl', report_scenes.levels())
        for width, has_room in ((110, False), (220, True)):
            with fixtures.EnvironmentVariable('COLUMNS', str(width)):
                done = self.report(path)
            lines = done.out.splitlines()
            self.assertTrue(all(len(line) <= width for line in lines))
            head = lines[lines.index(
                'sysbench-cpu: events in 1/s, higher is better') + 1].split()
            self.assertEqual(has_room, 'min' in head)
            self.assertLessEqual({'runs', 'average', 'platform'}, {*head})
            self.assertEqual(not has_room, 'There is no room for' in done.out)

    def test_page_with_a_comparison(self):
        old = self.write('old.jsonl', report_scenes.levels(0.6, rounds=4))
        new = self.write('new.jsonl', report_scenes.levels(0.4, rounds=9))
        done = self.report(new, '--baseline', old,
                           '-o', str(self.dir / 'report.html'))
        self.assertEqual(1, done.status)
        # What changed, and nothing else.
        self.assertIn(' regression', done.out)
        self.assertNotIn('within the noise', done.out)
        self.assertIn('of 28 comparisons', ' '.join(done.out.split()))
        self.assertIn('Before you rely on the earlier run', done.out)

    def check_refused(self, expected, *argv):
        done = self.report(*argv)
        self.assertEqual((2, ''), (done.status, done.out))
        self.assertIn(expected, done.err)

    def test_refused(self):
        path = self.write('a.jsonl', report_scenes.mutex(rounds=2))
        before = (self.dir / 'a.jsonl').read_bytes()
        self.check_refused('report.html', path, '-o',
                           str(self.dir / 'no' / 'report.html'))
        self.check_refused('a.jsonl: would be replaced, and is not a page',
                           path, '-o', path)
        self.assertEqual(before, (self.dir / 'a.jsonl').read_bytes())
        self.check_refused(
            'a.jsonl: has results of an-experiment-of-mutex, which is not a '
            'self-test', path, '--self-test', path)
        self.check_refused(
            'b.jsonl: has no case of experiment an-experiment-of-network '
            'that was measured alike in a later run', path,
            '--baseline', self.write('b.jsonl',
                                     report_scenes.network(rounds=2)))
        self.check_refused('cannot be read', str(self.dir / 'none.jsonl'))

    def test_self_test(self):
        self.useFixture(report_scenes.SelfTest(
            report_scenes.calibration(stretch=1.5)))
        summarise, given = statistics.summarise, []

        def stretched(results, stretch=1.0):
            given.append(stretch)
            return summarise(results)

        self.useFixture(fixtures.MockPatchObject(statistics, 'summarise',
                                                 stretched))
        done = self.report(
            self.write('a.jsonl', report_scenes.mutex(rounds=3)),
            '--self-test', self.write('s.jsonl', report_scenes.copies()))
        self.assertEqual(0, done.status, done.err)
        self.assertIn('intervals stretched by 1.50.',
                      ' '.join(done.out.split()))
        self.assertEqual([1.5], given)

    def test_self_test_that_was_cut_off(self):
        """The other files are reported as ever."""
        cut = self.write('cut.jsonl', report_scenes.copies(rounds=1))
        done = self.report(
            self.write('a.jsonl', report_scenes.mutex(rounds=3)), cut)
        self.assertEqual(0, done.status, done.err)
        text = ' '.join(done.out.split())
        self.assertIn('on two CPUs by on one', text)
        self.assertIn('cut.jsonl no two copies of a self-test', text)
        done = self.report(self.write('b.jsonl', report_scenes.mutex()),
                           '--self-test', cut)
        self.assertEqual(0, done.status, done.err)
        self.assertIn('cut.jsonl no two copies', ' '.join(done.out.split()))

    def test_claims(self):
        path = self.write('a.jsonl', report_scenes.priority(ratio=1.0))
        self.assertEqual(0, self.report(path).status)
        done = self.report(path, '--claims')
        self.assertEqual(1, done.status)
        self.assertIn('does not hold: With weights 100 and 50', done.out)
        # What is inconclusive is told, and no more.
        done = self.report(self.write('b.jsonl', report_scenes.levels(
            rounds=2)), '--claims')
        self.assertEqual(0, done.status)
        self.assertIn('inconclusive (not passed)', done.out)

    def test_regression(self):
        old = self.write('old.jsonl', report_scenes.priority(0.75))
        new = self.write('new.jsonl', report_scenes.priority(1.0))
        done = self.report(new, '--baseline', old)
        self.assertEqual(1, done.status)
        self.assertIn('regression', done.out)
        self.assertEqual(0, self.report(old, '--baseline', new).status)

    def test_boots_that_may_be_what_changed(self):
        def run(level, seed):
            return report_scenes.Run(rounds=5, seed=seed).alone(
                report_scenes.tenant(), level)

        for number, level in enumerate((100.0, 101.0, 99.0)):
            report_scenes.write(
                run(level, number).results(boot_id=f'boot {number}'),
                str(self.dir / f'{number}.jsonl'))
        report_scenes.write(run(96.0, 7).results(boot_id='boot 7'),
                            str(self.dir / 'now.jsonl'))
        now, *earlier = (str(self.dir / f'{name}.jsonl')
                         for name in ('now', 0, 1, 2))
        done = self.report(now, '--baseline', earlier[0])
        self.assertEqual(0, done.status, done.err)
        text = ' '.join(done.out.split())
        self.assertIn('1 figure changed by more than rounds differ', text)
        self.assertIn('are of 1 boot; 4 more would tell', text)
        done = self.report(now, *(word for path in earlier for word in (
            '--baseline', path)), '--format', 'json')
        comparison = json.loads(done.out)['results'][0]['comparison']
        self.assertEqual(3, comparison['boots'])
        self.assertEqual(2, comparison['changes'][0]['more_boots'])

    def test_baseline_with_nothing_to_compare(self):
        def run(**changes):
            return report_scenes.Run(rounds=3).alone(
                report_scenes.tenant(**changes))

        self.check_refused(
            'b.jsonl: has no case of experiment an-experiment-of-network',
            self.write('a.jsonl', run()),
            '--baseline', self.write('b.jsonl', run(weight=50)))

    def test_scipy_is_not_there(self):
        with mock.patch.dict('sys.modules', scipy=None):
            self.check_refused('nova-pinning[tools]', 'a')

    def test_nothing_heavy_is_imported_before_it_is_used(self):
        names = vars(bench_report)
        for name in ('numpy', 'scipy', 'jinja2'):
            self.assertNotIn(name, names)
