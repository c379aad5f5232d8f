# SPDX-License-Identifier: Apache-2.0

import json
import pathlib
from unittest import mock

from nova_pinning.cli import advise
from nova_pinning import errors
from nova_pinning.instance_bench import results_file
from nova_pinning.tests.unit.cli import cli_case
from nova_pinning.tests.unit.instance_bench import test_advise_results


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

    def results(self, pinned=100, floating=50):
        summary = test_advise_results.pair(
            test_advise_results.around(pinned),
            test_advise_results.around(floating))
        path = str(self.dir / 'results.jsonl')
        with results_file.ResultsWriter(path, summary.experiment,
                                        summary.results.workloads) as writer:
            for one in (*summary.results.conditions,
                        *summary.results.measurements):
                writer.add(one)
        return path

    def test_table(self):
        done = self.advise('--workload', 'web', '--host', cli_case.HOST)
        self.assertEqual((0, ''), (done.status, done.err))
        self.assertIn('web (io) on nova, host xeon-80-dedicated with 80 CPUs',
                      done.out)
        self.assertIn('enterprise.4xlarge', done.out)
        self.assertIn('cited [1]', done.out)
        self.assertIn('Where the evidence is thin', done.out)
        self.assertIn('\n      https://arxiv.org/abs/2006.02055\n', done.out)

    def test_json(self):
        found = self.as_json('--workload', 'nosql', '--host', cli_case.HOST)
        self.assertEqual(
            ('dedicated', 32, 'enterprise.8xlarge', 'very-io', 'nosql', ''),
            tuple(found[key] for key in (
                'class', 'vcpus', 'flavor', 'load', 'workload_class',
                'workload')))
        topics = [one['topic'] for one in found['advice']]
        self.assertEqual(['class', 'size', 'flavor', 'emulator', 'multiqueue',
                          'gain'], topics[:6])
        self.assertEqual(
            {key for one in found['advice'] for key in one['sources']},
            set(found['sources']))

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
version: 1
name: own
families:
  big:
    class: shared
    sizes: {one: {vcpus: 10, memory: 1GiB}}
''')
        found = self.as_json('--workload', 'cpu', '--host', cli_case.HOST,
                             '--catalogue', path)
        self.assertEqual(('big.one', 10), (found['flavor'], found['vcpus']))

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
        self.assertEqual('dedicated', found['class'])
        self.assertEqual('own results', found['advice'][0]['evidence'])
        done = self.advise('--workload', 'primes', '--results', path)
        self.assertIn('own results', done.out)
        self.assertIn('pinning gains 100%', done.out)

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
                f'{path}: not used: it has primes on vm; this advice is for '
                f'{wanted}\n', done.err)
            self.assertNotIn('own results', done.out)
        done = self.advise('--workload', 'primes', '--results', path)
        self.assertEqual('', done.err)
        # What was left out of a run is not in its results.
        lines = pathlib.Path(path).read_text().splitlines(keepends=True)
        pathlib.Path(path).write_text(lines[0])
        done = self.advise('--workload', 'primes', '--results', path)
        self.assertIn('not used: it has nothing; this', done.err)

    def test_without_scipy(self):
        path = self.results()
        with mock.patch.dict('sys.modules', {'scipy': None}):
            done = self.advise('--workload', 'primes', '--results', path)
            self.assertEqual(2, done.status)
            self.assertIn('scipy', done.err)
            self.assertIn('nova-pinning[tools]', done.err)
            # Which is for results alone.
            self.assertEqual(0, self.advise('--workload', 'cpu').status)

    def test_databases(self):
        for name in ('mysql', 'PostgreSQL'):
            done = self.advise('--workload', name)
            self.assertEqual(2, done.status)
            self.assertIn('a relational database is of class disk', done.err)

    def test_redis_is_no_cassandra(self):
        done = self.advise('--workload', 'redis')
        self.assertIn('such as redis', ' '.join(done.out.split()))
        self.assertNotIn('such as redis', ' '.join(
            self.advise('--workload', 'web').out.split()))

    def test_unknown_workload(self):
        done = self.advise('--workload', 'sysbench-cpus')
        self.assertEqual(2, done.status)
        self.assertIn('there is no workload, and no class of them, called '
                      'sysbench-cpus; did you mean sysbench-cpu', done.err)

    def test_bad_input(self):
        for argv in (('--host', 'nothing.yaml'), ('--results', 'nothing'),
                     ('--catalogue', 'nothing.yaml'),
                     ('--load', 'nothing'), ('--platform', 'bm')):
            done = self.advise('--workload', 'cpu', *argv)
            self.assertEqual((2, ''), (done.status, done.out))
            self.assertIn('nothing' if argv[1] != 'bm' else 'bm', done.err)

    def test_workload_is_required(self):
        self.assertEqual(2, self.advise().status)


class ShippedCatalogueTest(cli_case.TestCase):

    def test_first_that_is_there(self):
        roots = [self.dir / 'a', self.dir / 'b', self.dir / 'c']
        for root in roots[1:]:
            directory = root / 'etc' / 'nova-pinning'
            directory.mkdir(parents=True)
            (directory / 'flavors.yaml').write_text('')
        self.assertEqual(str(roots[1] / 'etc/nova-pinning/flavors.yaml'),
                         advise.shipped_catalogue(roots))

    def test_none(self):
        error = self.assertRaises(
            errors.InputError, advise.shipped_catalogue,
            [pathlib.Path(self.dir)])
        self.assertIn('name a catalogue', str(error))

    def test_of_this_checkout(self):
        self.assertTrue(advise.shipped_catalogue(advise._ROOTS[-1:]))
