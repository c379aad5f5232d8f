# SPDX-License-Identifier: Apache-2.0

import pathlib
import signal
from unittest import mock

import ddt
import fixtures
import testtools

from benchmarks import instances

PROOF = instances.Proof('smp-mutex', 'cn', ('scenario=one',))


class TestProve(testtools.TestCase):

    def setUp(self):
        super().setUp()
        self.scratch = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        self.events = []
        self.statuses = {}
        self.useFixture(fixtures.MonkeyPatch('subprocess.call', self.report))
        self.useFixture(fixtures.MonkeyPatch(
            'benchmarks.instances.run', self.run_proof))
        self.report_status = 0

    def report(self, command):
        self.events.append(command[2:])
        return self.report_status

    def run_proof(self, command):
        results = pathlib.Path(command[command.index('--output') + 1])
        self.events.append(results.stem)
        status = self.statuses.get(results.stem, 0)
        if status != 2:
            results.touch()
        return status

    def prove(self, *proofs):
        return instances.prove(proofs, self.scratch, pathlib.Path('/image'))

    def test_all(self):
        self.assertEqual([], self.prove(instances.SELF_TEST, PROOF))
        self.assertEqual([
            'self-test-bm', 'smp-mutex-cn',
            ['report', '--claims', '--output', f'{self.scratch}/report.html',
             '--self-test', *(f'{self.scratch}/{name}.jsonl' for name in (
                 'self-test-bm', 'self-test-bm', 'smp-mutex-cn'))]],
            self.events)

    def test_what_is_not_measured_or_does_not_hold(self):
        self.report_status = 1
        other = instances.Proof('cpu-weights', 'cn')
        self.statuses = {PROOF.name: 1, other.name: 2}
        self.assertEqual(
            ['smp-mutex-cn: bench run ended with 1',
             'cpu-weights-cn: bench run ended with 2',
             'bench report --claims ended with 1'], self.prove(PROOF, other))

    def test_nothing_measured(self):
        self.statuses = {PROOF.name: 2}
        self.assertEqual(['smp-mutex-cn: bench run ended with 2'],
                         self.prove(PROOF))
        self.assertEqual(['smp-mutex-cn'], self.events)


class TestRun(testtools.TestCase):

    def test_status(self):
        self.assertEqual(3, instances.run(['sh', '-c', 'exit 3']))

    def test_interrupted(self):
        """What was started is told to end, and waited for."""
        child = mock.Mock()
        child.wait.side_effect = [KeyboardInterrupt, 130]
        with mock.patch('subprocess.Popen', return_value=child):
            self.assertRaises(KeyboardInterrupt, instances.run, ['bench'])
        child.send_signal.assert_called_once_with(signal.SIGINT)
        self.assertEqual(2, child.wait.call_count)


class TestCommand(testtools.TestCase):

    def command(self, proof):
        return instances.command(
            proof, pathlib.Path('/out.jsonl'), pathlib.Path('/image'))

    def test_container(self):
        self.assertEqual(
            [str(instances.PROGRAM), 'bench', 'run', 'smp-mutex', '--short',
             '--output', '/out.jsonl', '--platform', 'cn',
             '--only', 'scenario=one'], self.command(PROOF))

    def test_another_platform_beside(self):
        command = self.command(instances.Proof(
            'platform-overhead', 'cn', beside=('bm',)))
        self.assertEqual(['--platform', 'cn', '--platform', 'bm'],
                         command[-4:])

    def test_guest(self):
        command = self.command(instances.Proof('smp-mutex', 'vm'))
        self.assertEqual(['--image', '/image'], command[-2:])


@ddt.ddt
class TestProofs(testtools.TestCase):

    def test_names(self):
        names = [proof.name
                 for proof in (*instances.PROOFS, *instances.OTHERS)]
        self.assertEqual(len(names), len(set(names)))

    def test_studies_are_run(self):
        """By name at least; for the others there is more to a host."""
        from nova_pinning.instance_bench import experiment_file
        self.assertEqual(
            {'hardware-latency', 'memory-placement', 'mine', 'network-queues'},
            {*experiment_file.shipped()} - {
                proof.experiment
                for proof in (*instances.PROOFS, *instances.OTHERS)})

    @ddt.data(*instances.PROOFS, *instances.OTHERS)
    def test_cases(self, proof):
        """Each names cases that there are."""
        from nova_pinning.cli import bench_run
        from nova_pinning.instance_bench import bench_model
        from nova_pinning.instance_bench import cpu_layout
        from nova_pinning.instance_bench import experiment_file
        from nova_pinning.instance_bench.workloads import workload_catalogue
        found = experiment_file.read(
            proof.experiment, cpu_layout.load(), workload_catalogue.shipped(),
            experiment_file.ExperimentOptions(
                platforms=tuple(map(bench_model.PlatformName, (
                    proof.platform, *proof.beside))),
                is_short=True)).experiment
        chosen = bench_run._chosen(found, proof.only)
        cases = [case for case in found.cases if chosen(case)]
        self.assertNotEqual([], cases)
