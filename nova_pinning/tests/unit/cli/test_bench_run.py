# SPDX-License-Identifier: Apache-2.0

import dataclasses
import io
import json
import os
import signal
from unittest import mock

import ddt
import fixtures
import yaml

from nova_pinning.cli import bench_image
from nova_pinning.cli import bench_progress
from nova_pinning import errors
from nova_pinning.instance_bench import bench_errors
from nova_pinning.instance_bench import bench_model
from nova_pinning.instance_bench import exclusive_run
from nova_pinning.instance_bench import experiment_file
from nova_pinning.instance_bench import results_file
from nova_pinning.instance_bench.workloads import workload_catalogue
from nova_pinning.tests.unit.cli import cli_case
from nova_pinning.tests.unit.instance_bench import bench_fakes
from nova_pinning.tests.unit.instance_bench import test_experiment_file
from nova_pinning.tests.unit.instance_bench import test_run


class TestCase(cli_case.TestCase):

    def setUp(self):
        super().setUp()
        self.world = bench_fakes.World()
        self.platforms = []
        self.settings = []

        def make(name, settings):
            self.platforms.append(name)
            self.settings.append(settings)
            return bench_fakes.Platform(self.world, name)

        for name, fake in (
                ('instance_bench.platforms.select.make', make),
                ('instance_bench.cpu_layout.load',
                 lambda plan='': bench_fakes.LAYOUT),
                ('instance_bench.conditions.gather',
                 lambda layout, **_more: bench_fakes.CONDITIONS),
                ('instance_bench.workloads.workload_catalogue.load',
                 lambda paths: {
                     **bench_fakes.WORKLOADS,
                     **workload_catalogue.shipped()}),
                ('cli.bench_run._edges', lambda: self.world.edges)):
            self.useFixture(
                fixtures.MonkeyPatch(f'nova_pinning.{name}', fake))
        # Others may measure, or test, at the same time.
        self.useFixture(fixtures.MonkeyPatch(
            'nova_pinning.instance_bench.workspace.PARENT', self.dir))
        self.output = str(self.dir / 'results.jsonl')

    def trial(self, **changes):
        return self.write('trial.yaml', yaml.safe_dump(
            test_experiment_file.trial(**{
                'repetitions': 2, 'rounds': 1,
                'axes': {'threads': [1, 2]}, **changes}),
            sort_keys=False))

    def run_bench(self, *argv, **changes):
        return self.run_command('bench', 'run', self.trial(**changes),
                                '-o', self.output, *argv)


@ddt.ddt
class TestRun(TestCase):

    def test_measures_all(self):
        done = self.run_bench()
        # The error output is not a terminal here.
        self.assertEqual(
            (0, 'case 1 of 2: spin / cn / 1 / 1, about 64 s left\n'
             'case 2 of 2: spin / cn / 1 / 2, about 40 s left\n'),
            (done.status, done.err))
        # Where lines end hangs on where temporary files are.
        said = ' '.join(done.out.split())
        self.assertIn('trial: 4 repetitions measured, 0 cases failed, 0 of 2 '
                      'skipped', said)
        self.assertIn(f'nova-pinning bench report {self.output}', said)
        self.assertEqual(4, len(results_file.read(self.output).measurements))
        self.assertEqual([bench_model.PlatformName.CONTAINER], self.platforms)
        self.assertEqual(set(), self.world.alive)

    def test_json(self):
        done = self.run_bench('--format', 'json')
        self.assertEqual(
            {'experiment': 'trial', 'results': self.output, 'measured': 4,
             'failed': 0, 'skipped': 0}, json.loads(done.out))

    @ddt.data((), ('--platform', 'nova'))
    def test_another_run_on_the_host(self, more):
        with exclusive_run.measuring():
            done = self.run_bench(*more)
            self.assertEqual(2, done.status)
            self.assertIn('another bench run is measuring on this host',
                          ' '.join(done.err.split()))
            self.assertFalse(os.path.exists(self.output))
        self.assertEqual(0, self.run_bench(*more).status)

    def test_a_second_run_has_nothing_to_do(self):
        self.run_bench()
        done = self.run_bench()
        self.assertEqual((0, ''), (done.status, done.err))
        self.assertIn('trial: all was measured already, and is in '
                      f'{self.output}; for a new run name another file with '
                      '-o', ' '.join(done.out.split()))

    @ddt.data((), ('--dry-run',))
    def test_resumed_with_another_kernel(self, more):
        self.run_bench('--only', 'threads=2')
        with open(self.output, 'rb') as file:
            before = file.read()
        now = dataclasses.replace(bench_fakes.CONDITIONS, kernel='6.9',
                                  load=3.0)
        with fixtures.MonkeyPatch(
                'nova_pinning.instance_bench.conditions.gather',
                lambda layout, **_more: now):
            done = self.run_bench(*more)
        self.assertEqual(2, done.status)
        self.assertIn('kernel: 6.1, now 6.9; for a new run name another file '
                      'with -o', done.err)
        self.assertNotIn('load', done.err)
        with open(self.output, 'rb') as file:
            self.assertEqual(before, file.read())
        self.assertEqual(set(), self.world.alive)
        # The same host, busier, is no other.
        now = dataclasses.replace(bench_fakes.CONDITIONS, load=3.0)
        with fixtures.MonkeyPatch(
                'nova_pinning.instance_bench.conditions.gather',
                lambda layout, **_more: now):
            self.assertEqual(0, self.run_bench(*more).status)

    def test_only_some_and_then_the_others(self):
        done = self.run_bench('--only', 'threads=2')
        self.assertEqual(0, done.status)
        found = results_file.read(self.output)
        self.assertEqual(['2', '2'], [measurement.factors['threads']
                                      for measurement in found.measurements])
        self.run_bench()
        self.assertEqual(4, len(results_file.read(self.output).measurements))

    @ddt.data(
        ('threads', "--only: no case has threads ''; there are '1', '2'"),
        ('thread=1', "--only: no case has thread '1'; there are workload, "
         'platform, size, threads'),
        ('threads=3', "--only: no case has threads '3'; there are '1', '2'"))
    @ddt.unpack
    def test_only_what_there_is_not(self, only, said):
        done = self.run_bench('--only', only)
        self.assertEqual(2, done.status)
        self.assertIn(said, done.err)
        self.assertFalse(os.path.exists(self.output))

    def test_another_experiment(self):
        self.run_bench()
        done = self.run_bench(seed=5)
        self.assertEqual(2, done.status)
        self.assertIn('has results of experiment trial', done.err)
        self.assertIn('differ from this run: seed; resume with', done.err)
        self.assertEqual(
            (2, done.err), (lambda dry: (dry.status, dry.err))(
                self.run_bench('--dry-run', seed=5)))

    def test_dry_run(self):
        done = self.run_bench('--dry-run', axes={
            'threads': [1, {'per_vcpu': 1}, 2]})
        self.assertEqual(0, done.status)
        self.assertIn('all cases: workload spin, platform cn, size 1',
                      done.out)
        self.assertIn('1x       1 instance of 1 vCPU  skipped', done.out)
        self.assertIn('is the same on this host as threads 1', done.out)
        self.assertIn('about 64 s in all', done.out)
        self.assertIn('not looked at: whether the platforms', done.out)
        self.assertIn('CPUs: dedicated 4-7, shared 2-3, host 0-1\n',
                      done.out)
        self.assertFalse(os.path.exists(self.output))
        self.assertEqual([], self.world.steps)

    def test_dry_run_has_sizes_as_they_are_here(self):
        sizes = [{'vcpus': {'most': 16}, 'memory_mib': 64},
                 {'vcpus': 1, 'memory_mib': 64}]
        done = self.run_bench('--dry-run', axes={'size': sizes})
        self.assertIn('\nup to 16  1 instance of 4 vCPUs  ', done.out)
        self.assertIn('\n1         1 instance of 1 vCPU   ', done.out)

    @ddt.data(
        (('--platform', 'vm'), 'no ratios: the baseline (platform bm) is '
         'neither among these cases nor measured already; see --platform'),
        (('--only', 'platform=cn'), 'no ratios: the baseline (platform bm)'),
        ((), ''), (('--platform', 'bm', '--platform', 'vm'), ''))
    @ddt.unpack
    def test_dry_run_without_baseline(self, argv, said):
        changes = {'baseline': {'platform': 'bm'},
                   'axes': {'platform': ['bm', 'cn']}}
        done = self.run_bench('--dry-run', *argv, **changes)
        text = ' '.join(done.out.split())
        if said:
            self.assertIn(said, text)
        else:
            self.assertNotIn('no ratios', text)

    def test_dry_run_when_the_baseline_is_measured(self):
        changes = {'baseline': {'platform': 'bm'},
                   'axes': {'platform': ['bm', 'cn']}}
        self.run_bench('--only', 'platform=bm', **changes)
        done = self.run_bench('--dry-run', '--only', 'platform=cn', **changes)
        self.assertNotIn('no ratios', done.out)

    def test_dry_run_of_what_is_measured(self):
        self.run_bench('--only', 'threads=2')
        done = self.run_bench('--dry-run', '--format', 'json')
        found = json.loads(done.out)
        self.assertEqual([('1', 32.0), ('2', None)], [
            (case['factors']['threads'], case['seconds'])
            for case in found['cases']])
        self.assertEqual(32.0, found['seconds'])

    def test_a_failed_case(self):
        self.world.outcome = {'status': 3, 'stderr': 'no luck'}
        done = self.run_bench('--only', 'threads=2')
        self.assertEqual(1, done.status)
        self.assertIn('failed: spin / cn / 1 / 2: ', done.err)
        self.assertIn('status 3: no luck', done.err)
        self.assertIn('0 repetitions measured, 1 case failed', done.out)

    def test_doubts_are_told_once(self):
        self.world.seen = bench_fakes.cpus('0-7')
        done = self.run_bench('--only', 'threads=2')
        self.assertEqual(0, done.status)
        self.assertEqual(1, done.err.count('doubtful: '))

    def test_nothing_fits(self):
        done = self.run_bench(axes={'size': [
            {'vcpus': 64, 'memory_mib': 64}]})
        self.assertEqual(2, done.status)
        self.assertIn('no case of trial can be measured on this host: '
                      'instances: an instance has 64 vCPUs', done.err)

    def test_what_is_missing(self):
        def check(platform, requests):
            raise errors.InputError('spin needs what is not installed',
                                    advice='apt-get install spin')

        with mock.patch.object(bench_fakes.Platform, 'check', check):
            done = self.run_bench()
        self.assertEqual(2, done.status)
        self.assertEqual('error: spin needs what is not installed; apt-get '
                         'install spin\n', done.err)
        self.assertEqual(set(), self.world.alive)
        self.assertFalse(os.path.exists(self.output))

    def test_interrupted_before_anything_is_measured(self):
        def check(platform, requests):
            os.kill(os.getpid(), signal.SIGINT)

        with mock.patch.object(bench_fakes.Platform, 'check', check):
            done = self.run_bench()
        self.assertEqual(130, done.status)
        self.assertEqual('interrupted: all that was started is ended; '
                         'nothing was measured\n', done.err)
        self.assertFalse(os.path.exists(self.output))

    def test_a_platform_that_cannot_put_things_back(self):
        def leave(platform, *_unused):
            raise bench_errors.BenchError('servers are left',
                                          'delete them')

        with mock.patch.object(bench_fakes.Platform, '__exit__', leave):
            done = self.run_bench()
        self.assertEqual(2, done.status)
        self.assertEqual('error: servers are left; delete them',
                         done.err.splitlines()[-1])
        self.assertEqual(4, len(results_file.read(self.output).measurements))

    @ddt.data(signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    def test_interrupted(self, number):
        measured = bench_progress.RunProgress.measured
        if signal.getsignal(number) is signal.SIG_IGN:
            # As under nohup; the command leaves it so.
            self.addCleanup(signal.signal, number, signal.SIG_IGN)
            signal.signal(number, signal.SIG_DFL)
        before = signal.getsignal(number)

        def interrupt(watcher, measurement):
            measured(watcher, measurement)
            os.kill(os.getpid(), number)

        with fixtures.MonkeyPatch(
                'nova_pinning.cli.bench_progress.RunProgress.measured',
                interrupt):
            done = self.run_bench()
        self.assertEqual(130, done.status)
        self.assertIn('interrupted: all that was started is ended; results '
                      f'so far are in {self.output}', done.err)
        self.assertEqual(1, len(results_file.read(self.output).measurements))
        self.assertEqual(set(), self.world.alive)
        self.assertEqual(before, signal.getsignal(number))
        self.assertEqual(0, self.run_bench().status)
        self.assertEqual(4, len(results_file.read(self.output).measurements))

    def test_interrupted_twice(self):
        """The second does not keep the first from ending what was begun."""
        close = bench_fakes.Instance.close
        closed = []

        def measured(watcher, measurement):
            os.kill(os.getpid(), signal.SIGINT)

        def watched(instance):
            os.kill(os.getpid(), signal.SIGTERM)
            close(instance)
            closed.append(instance.name)

        with (mock.patch.object(bench_fakes.Instance, 'close', watched),
              mock.patch.object(bench_progress.RunProgress, 'measured',
                                measured)):
            done = self.run_bench()
        self.assertEqual(130, done.status)
        self.assertIn('this can take a while', done.err)
        self.assertEqual(['instances-0'], closed)

    def test_the_disk_is_full(self):
        write = os.write

        def fail(file, data):
            if b'measurement' in bytes(data):
                raise OSError(28, 'No space left on device')
            return write(file, data)

        with fixtures.MonkeyPatch('os.write', fail):
            done = self.run_bench()
        self.assertEqual(2, done.status)
        self.assertIn(f'error: {self.output}: cannot be written: No space '
                      'left on device', done.err)
        self.assertEqual(set(), self.world.alive)
        self.assertEqual((), results_file.read(self.output).measurements)

    def test_settings(self):
        self.useFixture(fixtures.EnvironmentVariable(
            'LIBVIRT_DEFAULT_URI', 'test:///default'))
        self.run_bench('--hypervisor', 'ssh {host}')
        found = self.settings[0]
        self.assertEqual(('test:///default', 'ssh {host}'),
                         (found.connect, found.hypervisor))

    def test_image_is_built_where_there_is_none(self):
        built = []
        self.useFixture(fixtures.MockPatchObject(
            bench_image.build, 'check', lambda output: None))

        def build(workloads, output, tell):
            built.append((output.name, {one.name for one in workloads}))
            output.mkdir()
            (output / 'manifest.json').write_text('{}')
            raise errors.InputError('no room')

        self.useFixture(fixtures.MockPatchObject(
            bench_image.build, 'build_image', build))
        image = self.dir / 'image'
        done = self.run_bench('--image', str(image))
        self.assertEqual((2, 'error: no room\n'), (done.status, done.err))
        self.run_bench('--image', str(image))
        (name, workloads), = built
        self.assertEqual('image', name)
        self.assertLessEqual(set(workload_catalogue.shipped()), workloads)

    def test_short_and_platform(self):
        done = self.run_bench('--short', '--platform', 'vm', '--platform',
                              'bm', repetitions=50, short={'repetitions': 3})
        self.assertEqual(0, done.status)
        self.assertEqual(3 * 2 * 2,
                         len(results_file.read(self.output).measurements))
        self.assertEqual(['bm', 'vm'], self.platforms)

    def test_rounds_and_window(self):
        done = self.run_bench('--rounds', '3', '--window', '7', repetitions=1)
        self.assertEqual(0, done.status)
        found = results_file.read(self.output)
        self.assertEqual(7.0, found.experiment.window_seconds)
        self.assertEqual([1, 1, 2, 2, 3, 3], [
            measurement.round for measurement in found.measurements])

    def test_own_command(self):
        """What it was begun with counts, however long it takes now."""
        done = self.run_bench('--command', 'true', '--minutes', '7', axes={
            'workload': ['spin'], 'platform': ['cn'], 'size': [
                {'vcpus': 1, 'memory_mib': 64}]})
        self.assertEqual(0, done.status, done.err)
        first = results_file.read(self.output)
        self.assertEqual({'mine'}, set(first.workloads))
        self.assertGreaterEqual(first.experiment.rounds, 3)
        done = self.run_bench('--command', 'true', '--minutes', '9', axes={
            'workload': ['spin'], 'platform': ['cn'], 'size': [
                {'vcpus': 1, 'memory_mib': 64}]})
        self.assertIn('all was measured already', ' '.join(done.out.split()))
        self.assertEqual(first, results_file.read(self.output))

    @ddt.data((('--command', 'exit 7'), '--command: ended with status 7'),
              (('--workload', 'no'), 'there is no workload no'),
              (('--minutes', '1', '--window', '3600'), '--minutes: a round'))
    @ddt.unpack
    def test_what_is_not_measured(self, words, said):
        done = self.run_bench(*words)
        self.assertEqual(2, done.status)
        self.assertIn(said, done.err)

    def test_default_output(self):
        self.useFixture(fixtures.MonkeyPatch(
            'nova_pinning.instance_bench.results_file.ResultsWriter',
            self._no_writer))
        done = self.run_command('bench', 'run', self.trial())
        self.assertEqual('error: trial.jsonl\n', done.err)

    def _no_writer(self, path, *_unused):
        raise errors.InputError(path)

    @ddt.data('no-such', '/no/such.yaml')
    def test_no_such_experiment(self, name):
        done = self.run_command('bench', 'run', name)
        self.assertEqual(2, done.status)
        self.assertIn('there is no experiment', done.err)


class TestList(TestCase):

    def test_no_experiment(self):
        done = self.run_command('bench', 'run')
        self.assertEqual((2, ''), (done.status, done.out))
        self.assertIn('EXPERIMENT: is missing', done.err)
        self.assertIn('--dry-run', done.err)

    def test_table(self):
        done = self.run_command('bench', 'run', '--dry-run')
        self.assertEqual((0, ''), (done.status, done.err))
        for name in (*experiment_file.shipped(),
                     *workload_catalogue.shipped()):
            self.assertIn(name, done.out)

    def test_json(self):
        found = json.loads(self.run_command(
            'bench', 'run', '--dry-run', '--format', 'json').out)
        self.assertEqual(list(experiment_file.shipped()),
                         [one['name'] for one in found['experiments']])
        overhead = next(one for one in found['experiments']
                        if one['name'] == 'platform-overhead')
        self.assertEqual(240, overhead['cases'])
        self.assertGreater(overhead['skipped'], 0)
        self.assertGreater(overhead['seconds'], 3600)

    def test_short_takes_less(self):
        def seconds(*argv):
            found = json.loads(self.run_command(
                'bench', 'run', '--dry-run', '--format', 'json',
                *argv).out)
            return [one['seconds'] for one in found['experiments']]

        for short, long in zip(seconds('--short'), seconds()):
            self.assertLess(short, long)


class TestProgress(cli_case.TestCase):

    def test_bar(self):
        """What a terminal is shown."""
        class Terminal(io.StringIO):
            def isatty(self):
                return True

        stream = Terminal()
        self.useFixture(fixtures.MonkeyPatch('sys.stderr', stream))
        self.useFixture(fixtures.EnvironmentVariable('TERM', 'xterm'))
        self.useFixture(fixtures.EnvironmentVariable('COLUMNS', '120'))
        units = test_run.schedule.units(
            test_run.trial(test_run.case('one')).planned, lambda case: True)
        with bench_progress.watcher(units) as watcher:
            watcher.begin(units[0], 125.0)
            watcher.step('warm-up 1')
            watcher.failed(bench_model.Failure(
                factors={'scenario': 'one'}, round=1, started=0.0,
                message='broken'))
        shown = stream.getvalue()
        for text in ('case 1 of 1: one', '0/2', 'about 2 min left',
                     'warm-up 1', 'failed: one: broken'):
            self.assertIn(text, shown)
