# SPDX-License-Identifier: Apache-2.0

import json
import pathlib
from unittest import mock

import ddt

from nova_pinning.cli import advise
from nova_pinning import errors
from nova_pinning.instance_bench.advise import advice_model
from nova_pinning.instance_bench import self_test
from nova_pinning.tests.unit.cli import cli_case
from nova_pinning.tests.unit.instance_bench.report import report_scenes


@ddt.ddt
class AdviseTest(cli_case.TestCase):

    def setUp(self):
        super().setUp()
        # What is in /etc of this machine is nobody's business here.
        patch = mock.patch.object(
            advise, '_ROOTS', (cli_case.ETC.parents[1],))
        patch.start()
        self.addCleanup(patch.stop)

    def advise(self, *argv):
        return self.run_command('advise', *argv)

    def as_json(self, *argv):
        done = self.advise(*argv, '--format', 'json')
        self.assertEqual((0, ''), (done.status, done.err))
        return json.loads(done.out)

    def results(self):
        """Of a workload that nobody else has."""
        path = str(self.dir / 'results.jsonl')
        report_scenes.write(report_scenes.isolation(
            work=report_scenes.workload('primes'), spread=0.01).results(),
            path)
        return path

    def test_table(self):
        done = self.advise('--workload', 'memory', '--host-file',
                           cli_case.HOST)
        self.assertEqual((0, ''), (done.status, done.err))
        self.assertIn('memory (memory) on nova, host xeon-80-dedicated with '
                      '80 CPUs', done.out)
        self.assertIn('enterprise.large', done.out)
        self.assertIn('measured [1] [2]', done.out)
        self.assertIn('\n      https://docs.openstack.org/nova/latest/admin/'
                      'cpu-topologies.html\n', done.out)

    def test_json(self):
        found = self.as_json('--workload', 'memory', '--host-file',
                             cli_case.HOST)
        self.assertEqual(
            ('enterprise.large', 'memory', 'memory', '', 'xeon-80-dedicated'),
            tuple(found[key] for key in (
                'flavor', 'load', 'workload_class', 'workload', 'host')))
        self.assertEqual(6, len(found['flavors']))
        self.assertEqual(
            list(advice_model.TOPICS),
            [one['topic'] for one in found['advice']])
        self.assertEqual(
            {key for one in found['advice'] for key in one['sources']},
            set(found['sources']))

    def test_no_flavor(self):
        """The host has no shared CPUs, so that isolate is advised."""
        found = self.as_json('--workload', 'latency', '--host-file',
                             cli_case.HOST)
        self.assertEqual(('', []), (found['flavor'], found['flavors']))
        self.assertIn('emulator threads isolate, it has share',
                      found['flavor_why'])

    @ddt.data('redis', 'web', 'iperf3')
    def test_second_best(self, workload):
        found = self.as_json('--workload', workload, '--host-file',
                             cli_case.HOST)
        self.assertEqual('enterprise.large', found['flavor'])
        line = next(one for one in found['advice']
                    if one['topic'] == 'emulator')
        self.assertEqual(('isolate, otherwise on-vcpus', ['on-vcpus']),
                         (line['answer'], line['otherwise']))

    def test_no_room(self):
        found = self.as_json('--workload', 'cpu', '--host-file', cli_case.HOST)
        self.assertIn('xeon-80-dedicated: ', found['flavor_why'])
        self.assertIn('it has trait CUSTOM_PINNING_DEDICATED, which is '
                      'forbidden', found['flavor_why'])

    def test_containers_have_no_flavor(self):
        found = self.as_json('--workload', 'web', '--platform', 'cn',
                             '--host-file', cli_case.HOST)
        self.assertEqual(('', ''), (found['flavor'], found['flavor_why']))
        self.assertEqual((12, 22), tuple(
            found['advice'][1][key] for key in ('low', 'high')))

    def test_workload_and_options(self):
        found = self.as_json('--workload', 'sysbench-cpu', '--load', 'very-io',
                             '--platform', 'cn', '--steady')
        self.assertEqual(
            ('sysbench-cpu', 'cpu', 'very-io', 'cn', True),
            tuple(found[key] for key in (
                'workload', 'workload_class', 'load', 'platform',
                'is_steady')))

    def test_catalogue(self):
        path = self.write('flavors.yaml', '''
version: 2
name: own
families:
  big:
    class: shared
    sizes: {one: {vcpus: 10, memory: 1GiB}}
''')
        found = self.as_json('--workload', 'cpu', '--catalogue', path)
        self.assertEqual(['big.one'], found['flavors'])

    def test_own_workloads(self):
        path = self.write('own.yaml', '''
version: 1
workloads:
  own:
    class: latency
    about: Something of one's own.
    command: 'true'
    figures: [{name: seconds, unit: s, better: lower}]
''')
        found = self.as_json('--workload', 'own', '--workloads', path)
        self.assertEqual('latency', found['load'])

    def test_results_count(self):
        # Its workload is known from the results alone.
        path = self.results()
        found = self.as_json('--workload', 'primes', '--results', path)
        self.assertEqual(
            ('class', ['dedicated'], 'own results'), tuple(
                found['advice'][0][key]
                for key in ('topic', 'answers', 'strength')))

    def test_results_that_a_self_test_widens(self):
        path = self.results()
        argv = '--workload', 'primes', '--results', path
        self.assertIn('own results', self.advise(*argv).out)
        tested = str(self.dir / 'self-test.jsonl')
        report_scenes.write(report_scenes.copies(rounds=1).results(), tested)
        calibration = self_test.Calibration(comparisons=(), stretch=60.0)
        with mock.patch.object(self_test, 'calibrate',
                               return_value=calibration) as calibrate:
            done = self.advise(*argv, tested)
        self.assertEqual((0, ''), (done.status, done.err))
        calibrate.assert_called_once()
        self.assertIn('own results do not decide', ' '.join(done.out.split()))

    def test_results_of_something_else(self):
        path = self.results()
        for argv, wanted in (
                (('--workload', 'sysbench-cpu'), 'sysbench-cpu on nova'),
                (('--workload', 'web', '--platform', 'vm'), 'web on vm'),
                (('--workload', 'primes', '--platform', 'cn'),
                 'primes on cn')):
            done = self.advise('--results', path, *argv)
            self.assertEqual(0, done.status)
            self.assertEqual(
                f'{path}: not used: it has nothing of {wanted}\n', done.err)
            self.assertNotIn('own results', done.out)
        done = self.advise('--workload', 'primes', '--results', path)
        self.assertEqual('', done.err)
        # What was left out of a run is not in its results.
        lines = pathlib.Path(path).read_text().splitlines(keepends=True)
        pathlib.Path(path).write_text(lines[0])
        done = self.advise('--workload', 'primes', '--results', path)
        self.assertIn('not used: it has nothing of primes', done.err)

    def test_without_scipy(self):
        path = self.results()
        with mock.patch.dict('sys.modules', {'scipy': None}):
            done = self.advise('--workload', 'primes', '--results', path)
            self.assertEqual(2, done.status)
            self.assertIn('scipy', done.err)
            self.assertIn('nova-pinning[tools]', done.err)
            # Which is for results alone.
            self.assertEqual(0, self.advise('--workload', 'cpu').status)

    @ddt.data(('Kafka', 'kafka', 'network', 'io'),
              ('mysql', 'postgresql', 'disk', 'disk'),
              ('5g-upf', 'dpdk', 'network', 'latency'),
              ('ffmpeg', 'ffmpeg', 'cpu', 'cpu'))
    @ddt.unpack
    def test_what_people_ask_about(self, word, *expected):
        found = self.as_json('--workload', word)
        self.assertEqual(expected, tuple(
            found[key] for key in ('workload', 'workload_class', 'load')))

    def test_data_plane(self):
        found = self.as_json('--workload', 'vnf')
        lines = {line['topic']: line for line in found['advice']}
        self.assertEqual(
            [['dedicated'], ['share', 'isolate'], ['huge']],
            [lines[topic]['answers'] for topic in (
                'class', 'emulator', 'pages')])
        # Which would be the CPUs of its vCPUs.
        self.assertEqual([], lines['emulator']['otherwise'])
        self.assertIn('SR-IOV', lines['multiqueue']['why'])

    def test_what_pinning_brings(self):
        for word, texts in (
                ('etl', ['3%, after 9%', '[1]']),
                ('vdi', ['no published', 'bench run'])):
            text = self.advise('--workload', word).out
            for wanted in texts:
                self.assertIn(wanted, text)
        self.assertEqual('Diagnosing latency issues', self.as_json(
            '--workload', 'valkey')['sources']['redis-latency']['title'])

    def test_redis_is_no_cassandra(self):
        for workload, expected in (('redis', (2, 4)),
                                   ('nosql', (None, None))):
            size = self.as_json('--workload', workload)['advice'][1]
            self.assertEqual(expected, (size['low'], size['high']))

    @ddt.data(
        ('postgre', (), 'did you mean postgres'),
        ('sysbench-cpus', (), 'there is no workload, and no class of them, '
         'called sysbench-cpus; did you mean sysbench-cpu'),
        *(('cpu', argv, argv[1]) for argv in (
            ('--host-file', 'nothing.yaml'), ('--results', 'nothing'),
            ('--catalogue', 'nothing.yaml'), ('--load', 'nothing'),
            ('--platform', 'bm'))))
    @ddt.unpack
    def test_refused(self, workload, argv, expected):
        done = self.advise('--workload', workload, *argv)
        self.assertEqual((2, ''), (done.status, done.out))
        self.assertIn(expected, done.err)

    def test_workload_is_required(self):
        self.assertEqual(2, self.advise().status)


class ShippedCatalogueTest(cli_case.TestCase):

    def found(self, *roots):
        with mock.patch.object(advise, '_ROOTS', roots):
            return advise.shipped_catalogue()

    def test_first_that_is_there(self):
        roots = [self.dir / 'a', self.dir / 'b', self.dir / 'c']
        for root in roots[1:]:
            directory = root / 'etc' / 'nova-pinning'
            directory.mkdir(parents=True)
            (directory / 'flavors.yaml').write_text('')
        self.assertEqual(str(roots[1] / 'etc/nova-pinning/flavors.yaml'),
                         self.found(*roots))

    def test_none(self):
        error = self.assertRaises(errors.InputError, self.found, self.dir)
        self.assertIn('name a catalogue', str(error))

    def test_of_this_checkout(self):
        self.assertTrue(self.found(advise._ROOTS[-1]))
