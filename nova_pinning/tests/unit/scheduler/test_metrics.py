# SPDX-License-Identifier: Apache-2.0


import os
import pathlib
import re
import shutil
import subprocess
import sys
import threading
from unittest import mock

import ddt
import fixtures
from prometheus_client import parser

from nova_pinning import model
from nova_pinning.scheduler import census
from nova_pinning.scheduler import metrics
from nova_pinning.scheduler import metrics_files
from nova_pinning.scheduler import metrics_recorder
from nova_pinning.scheduler import metrics_writer
from nova_pinning.scheduler import traits_reader
from nova_pinning.tests.unit.scheduler import scheduler_fakes
from nova_pinning.tests.unit import unit_base

CHECKOUT = pathlib.Path(__file__).parents[4]
PAGE = CHECKOUT / 'doc' / 'source' / 'admin' / 'metrics.rst'

FILTER = 'PinnedTopologyFilter'


def tell_all(recorder):
    """One call of each method."""
    recorder.filtered(FILTER, 2, {model.Reason.PAGES: 3, 'memory': 1}, 0.6)
    recorder.weighed('FragmentationWeigher', 4, 0.02)
    recorder.held_back(model.Reason.NOVA_SLOW, 5, True)
    recorder.differed(FILTER, 'ours', model.Reason.NOVA_WRONG, 6)
    recorder.error(FILTER, 'KeyError')
    recorder.searched(0.3, True)
    recorder.self_test(True)
    recorder.no_host()


class TestCase(unit_base.TestCase):

    def setUp(self):
        super().setUp()
        self.directory = self.useFixture(fixtures.TempDir()).path

    def _turn_on(self):
        self.set_option('metrics_directory', self.directory)
        self.set_option('metrics_interval_seconds', 3600)
        metrics.use(None)
        return metrics.recorder()

    @property
    def _path(self):
        return os.path.join(self.directory, f'nova-pinning-{os.getpid()}.prom')

    def _text(self, recorder):
        """What is in the file now."""
        recorder.write()
        with open(self._path) as file:
            return file.read()

    def _samples(self, recorder):
        """The value of each series, by name and labels."""
        found = {}
        for family in parser.text_string_to_metric_families(
                self._text(recorder)):
            for sample in family.samples:
                labels = dict(sample.labels)
                self.assertEqual(str(os.getpid()), labels.pop('process'))
                name = sample.name.removeprefix(metrics_writer.PREFIX)
                self.assertNotEqual(sample.name, name)
                key = name, *sorted(labels.items())
                self.assertNotIn(key, found)
                found[key] = sample.value
        return found


class TestOff(TestCase):

    def test_nothing_happens(self):
        recorder = metrics.recorder()
        self.assertIs(recorder, metrics.recorder())
        self.assertIs(metrics_recorder.MetricsRecorder, type(recorder))
        tell_all(recorder)
        recorder.stop()

    def test_prometheus_client_is_not_asked_for(self):
        with mock.patch.dict(sys.modules, prometheus_client=None):
            with unit_base.log_records() as records:
                tell_all(metrics.recorder())
        self.assertEqual([], records)


@ddt.ddt
class TestOn(TestCase):

    def test_all_metrics(self):
        """Each is told as METRICS has it, and no other is."""
        traits_reader.use(scheduler_fakes.reader(
            scheduler_fakes.Placement({}), clock=scheduler_fakes.Clock()))
        traits_reader.refresh()
        self.enterContext(mock.patch.object(
            census.CENSUS, 'counts', dict.fromkeys(census.ToldBy, 3)))
        recorder = self._turn_on()
        tell_all(recorder)
        text = self._text(recorder)
        self.assertIn(f'hosts{{process="{os.getpid()}",told_by="mark"}} 3.0',
                      text)
        found = {}
        for family in parser.text_string_to_metric_families(text):
            name = family.name.removeprefix(metrics_writer.PREFIX)
            if family.type == 'counter':
                name += '_total'
            labels = {label for sample in family.samples
                      for label in sample.labels}
            buckets = [float(sample.labels['le']) for sample in family.samples
                       if 'le' in sample.labels]
            found[name] = (family.type, family.documentation,
                           labels - {'process', 'le'},
                           tuple(buckets[:-1]))
        self.assertEqual({
            name: (metric.kind, metric.help_text, set(metric.labels),
                   metric.buckets)
            for name, metric in metrics_writer.METRICS.items()}, found)
        self.assertNotIn('_created', text)

    def test_values(self):
        traits_reader.use(scheduler_fakes.reader(
            scheduler_fakes.Placement({}), clock=scheduler_fakes.Clock()))
        traits_reader.refresh()
        recorder = self._turn_on()
        with mock.patch('time.time', return_value=1234.5):
            for _ in range(2):
                tell_all(recorder)
                found = self._samples(recorder)
        mine = 'filter', FILTER
        weigher = 'weigher', 'FragmentationWeigher'
        for key, value in {
                ('filter_duration_seconds_sum', mine): 1.2,
                ('filter_duration_seconds_count', mine): 2,
                ('filter_duration_seconds_bucket', mine, ('le', '0.5')): 0,
                ('filter_duration_seconds_bucket', mine, ('le', '1.0')): 2,
                ('filter_host_duration_seconds_sum', mine): 0.2,
                ('filter_hosts_passed_total', mine): 4,
                ('filter_hosts_refused_total', mine, ('reason', 'pages')): 6,
                ('filter_hosts_refused_total', mine, ('reason', 'memory')): 2,
                ('weigher_duration_seconds_count', weigher): 2,
                ('weigher_host_duration_seconds_sum', weigher): 0.01,
                ('weigher_hosts_total', weigher): 8,
                ('hosts_held_back_total', ('reason', 'nova-slow'),
                 ('used', 'true')): 10,
                ('hosts_differed_total', mine, ('reason', 'nova-wrong'),
                 ('refused_by', 'ours')): 12,
                ('errors_total', ('component', FILTER),
                 ('kind', 'KeyError')): 2,
                ('search_host_duration_seconds_sum',): 0.6,
                ('search_host_duration_seconds_count',): 2,
                ('budget_exceeded_total',): 2,
                ('self_test_passed',): 1,
                ('no_host_total',): 2,
                ('traits_age_seconds',): 0,
                ('last_write_timestamp_seconds',): 1234.5}.items():
            self.assertAlmostEqual(value, found[key], 9, key)
        [versions] = [dict(key[1:]) for key in found if key[0] == 'info']
        self.assertEqual({'nova', 'nova_pinning'}, set(versions))
        self.assertNotIn('unknown', versions.values())

    def test_what_is_not_known(self):
        recorder = self._turn_on()
        found = self._samples(recorder)
        for name in ('self_test_passed', 'traits_age_seconds'):
            self.assertNotIn((name,), found)
        self.assertEqual(0, found['no_host_total',])
        recorder.self_test(False)
        self.assertEqual(0, self._samples(recorder)['self_test_passed',])

    def test_no_hosts(self):
        recorder = self._turn_on()
        recorder.filtered(FILTER, 0, {}, 0.1)
        recorder.weighed('FragmentationWeigher', 0, 0.1)
        found = self._samples(recorder)
        self.assertEqual(1, found[
            'filter_duration_seconds_count', ('filter', FILTER)])
        self.assertNotIn(('filter_host_duration_seconds_count',
                          ('filter', FILTER)), found)

    def test_bounded(self):
        """However odd what is told, there is an end to the series."""
        recorder = self._turn_on()
        for number in range(1000):
            recorder.filtered(FILTER, 0, {f'odd {number}': 1}, 0.1)
            recorder.held_back(f'odd {number}', 1, False)
            recorder.differed(FILTER, f'who {number}', f'odd {number}', 1)
            recorder.error(FILTER, f'Error{number}')
        recorder.error(FILTER, 'Error7')
        found = self._samples(recorder)
        self.assertEqual(1000, found[
            'filter_hosts_refused_total', ('filter', FILTER),
            ('reason', 'other')])
        self.assertEqual(1000, found[
            'hosts_differed_total', ('filter', FILTER), ('reason', 'other'),
            ('refused_by', 'other')])
        kinds = [key for key in found if key[0] == 'errors_total']
        self.assertEqual(101, len(kinds))
        self.assertEqual(2, found['errors_total', ('component', FILTER),
                                  ('kind', 'Error7')])
        self.assertEqual(900, found['errors_total', ('component', FILTER),
                                    ('kind', 'other')])

    def test_never_raises(self):
        recorder = self._turn_on()
        with unit_base.log_records() as records:
            recorder.filtered(FILTER, None, {}, 0.1)
            recorder.weighed([], 1, 0.1)
            recorder.held_back({}, 1, True)
            recorder.differed(FILTER, 'nova', 'pages', -1)
            recorder.filtered('no', 'arguments')
            recorder.write()
        self.assertEqual(1, len(records))
        self.assertIn('Unexpected error in the metrics',
                      records[0].getMessage())
        self.assertIsNotNone(records[0].exc_info)

    def test_threads(self):
        """Nothing is lost, and what is written meanwhile can be read."""
        recorder = self._turn_on()
        barrier = threading.Barrier(9)

        def tell():
            barrier.wait()
            for _ in range(100):
                tell_all(metrics.recorder())

        threads = [threading.Thread(target=tell) for _ in range(8)]
        for thread in threads:
            thread.start()
        barrier.wait()
        for _ in range(20):
            self._samples(recorder)
        for thread in threads:
            thread.join()
        found = self._samples(recorder)
        self.assertEqual((1600, 800, 2400, 800), (
            found['filter_hosts_passed_total', ('filter', FILTER)],
            found['filter_duration_seconds_count', ('filter', FILTER)],
            found['filter_hosts_refused_total', ('filter', FILTER),
                  ('reason', 'pages')],
            found['no_host_total',]))

    def test_one_for_all_threads(self):
        self._turn_on()
        metrics.use(None)
        made = []
        barrier = threading.Barrier(8)

        def ask():
            barrier.wait()
            made.append(metrics.recorder())

        threads = [threading.Thread(target=ask) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(1, len(set(map(id, made))))

    @ddt.data('filtered', 'weighed')
    def test_the_first_request_starts_the_thread(self, method):
        """Not the self-test, which comes before workers are forked."""
        wait = self.useFixture(fixtures.MockPatchObject(
            metrics_files.ProcessFileWriter, 'start')).mock
        recorder = self._turn_on()
        recorder.self_test(True)
        recorder.error('self-test', 'KeyError')
        wait.assert_not_called()
        recorder.stop()
        self.assertEqual([], os.listdir(self.directory))
        for _ in range(2):
            if method == 'filtered':
                recorder.filtered(FILTER, 1, {}, 0.1)
            else:
                recorder.weighed('FragmentationWeigher', 1, 0.1)
        wait.assert_called_once_with()
        # It was not really started.
        recorder._is_started = False

    def test_unchanged(self):
        """An idle scheduler that reads no traits does not write."""
        recorder = self._turn_on()
        recorder.write()
        before = os.stat(self._path).st_ino
        recorder.write()
        self.assertEqual(before, os.stat(self._path).st_ino)
        recorder.searched(0.3, False)
        recorder.write()
        self.assertNotEqual(before, os.stat(self._path).st_ino)

    def test_promtool(self):
        if shutil.which('promtool') is None:
            self.skipTest('promtool is not installed')
        recorder = self._turn_on()
        tell_all(recorder)
        checked = subprocess.run(
            ['promtool', 'check', 'metrics'], input=self._text(recorder),
            capture_output=True, text=True)
        self.assertEqual((0, '', ''), (
            checked.returncode, checked.stdout, checked.stderr))


#: What oslo.service does: filters are made, workers are forked, they serve
#: requests, and end without a word to atexit; then their parent ends.
_SERVICE = '''
import os, sys
from nova_pinning import conf
from nova_pinning.scheduler import metrics
from nova_pinning.scheduler import metrics_recorder
import threading

directory = sys.argv[1]
conf.CONF([], default_config_files=[], default_config_dirs=[])
conf.CONF.set_override('metrics_directory', directory, group='pinning')
metrics.recorder().self_test(True)
assert not os.listdir(directory)
assert threading.active_count() == 1
workers = []
for _ in range(2):
    said, says = os.pipe()
    ends, end = os.pipe()
    pid = os.fork()
    if not pid:
        recorder = metrics.recorder()
        recorder.filtered('Filter', 1, {}, 0.1)
        recorder.write()
        os.write(says, b'x')
        os.read(ends, 1)
        os._exit(0)
    workers.append((pid, end))
    os.read(said, 1)
print(*sorted(os.listdir(directory)))
for name in sorted(os.listdir(directory)):
    with open(os.path.join(directory, name)) as file:
        print('passed' if 'self_test_passed{process="' + name[13:-5]
              + '"} 1.0' in file.read() else 'lost')
for pid, end in workers:
    os.write(end, b'x')
    os.waitpid(pid, 0)
sys.stdout.flush()
if sys.argv[2:]:
    os._exit(0)
'''


class TestProcesses(TestCase):

    def _serve(self, *argv):
        done = subprocess.run(
            [sys.executable, '-W', 'ignore', '-c', _SERVICE, self.directory,
             *argv], capture_output=True, text=True, cwd=CHECKOUT)
        self.assertEqual('', done.stderr)
        self.assertEqual(0, done.returncode)
        files, *self_tests = done.stdout.splitlines()
        self.assertEqual(['passed', 'passed'], self_tests)
        self.assertEqual(2, len(files.split()))

    def test_workers(self):
        """Their metrics do not outlast them."""
        self._serve()
        self.assertEqual([], os.listdir(self.directory))

    def test_killed(self):
        """The next one to start removes what is left."""
        self._serve('killed')
        self.assertEqual(2, len(os.listdir(self.directory)))
        recorder = self._turn_on()
        recorder.write()
        self.assertEqual([os.path.basename(self._path)],
                         os.listdir(self.directory))


class TestPage(TestCase):

    def test_names(self):
        """Those in the text are those of metrics."""
        for name in re.findall(
                rf'{metrics_writer.PREFIX}(\w+)', PAGE.read_text()):
            self.assertIn(name, metrics_writer.METRICS)
