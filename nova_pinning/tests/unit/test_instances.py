# SPDX-License-Identifier: Apache-2.0

import os
import pathlib
import subprocess
import types

import ddt
import fixtures
import testtools

from benchmarks import instances

PROOF = instances.Proof('smp-mutex', 'cn', ('scenario=one',))


class TestBind(testtools.TestCase):

    def test_those_that_know_of_the_directory(self):
        directory = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        cpu = min(os.sched_getaffinity(0))
        known, named, other = (
            self._start(environment, *arguments)
            for environment, arguments in (
                ({'STATE': str(directory)}, ()), ({}, (str(directory / 'x'),)),
                ({}, ())))
        before = os.sched_getaffinity(0)
        instances.bind(directory, {cpu})
        self.assertEqual({cpu}, os.sched_getaffinity(known))
        self.assertEqual({cpu}, os.sched_getaffinity(named))
        self.assertEqual(before, os.sched_getaffinity(other))
        self.assertEqual(before, os.sched_getaffinity(0))

    def _start(self, environment, *arguments):
        process = subprocess.Popen(
            ['sh', '-c', 'echo; read -r line', 'sh', *arguments],
            env=environment | {'PATH': os.environ['PATH']},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.addCleanup(process.communicate)
        # It runs the program that it was started for.
        process.stdout.readline()
        return process.pid


class TestProve(testtools.TestCase):

    def setUp(self):
        super().setUp()
        self.scratch = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        self.events = []
        self.statuses = {}
        self.useFixture(fixtures.MonkeyPatch('subprocess.call', self.report))
        self.report_status = 0

    def results(self, proof):
        return self.scratch / proof.name

    def report(self, command):
        self.events.append(command[2:])
        return self.report_status

    def prove(self, *proofs):
        def run(proof):
            self.events.append(proof.name)
            status = self.statuses.get(proof, 0)
            if status != 2:
                self.results(proof).touch()
            return status

        return instances.prove(
            proofs, types.SimpleNamespace(run=run, results=self.results),
            pathlib.Path('/out.html'), lambda: self.events.append('up'))

    def test_all(self):
        guest = instances.Proof('smp-mutex', 'vm')
        self.assertEqual([], self.prove(guest, instances.SELF_TEST, PROOF))
        self.assertEqual([
            'self-test-bm', 'smp-mutex-cn', 'up', 'smp-mutex-vm',
            ['report', '--claims', '--output', '/out.html', '--self-test',
             *(f'{self.scratch}/{name}' for name in (
                 'self-test-bm', 'self-test-bm', 'smp-mutex-cn',
                 'smp-mutex-vm'))]], self.events)

    def test_what_is_not_measured_or_does_not_hold(self):
        self.report_status = 1
        other = instances.Proof('cpu-weights', 'cn')
        self.statuses = {PROOF: 1, other: 2}
        self.assertEqual(
            ['smp-mutex-cn: bench run ended with 1',
             'cpu-weights-cn: bench run ended with 2',
             'bench report --claims ended with 1'], self.prove(PROOF, other))

    def test_nothing_measured(self):
        self.statuses = {PROOF: 2}
        self.assertEqual(['smp-mutex-cn: bench run ended with 2'],
                         self.prove(PROOF))
        self.assertEqual(['smp-mutex-cn'], self.events)


class Child:
    """A process that ends with a status, or when it is told to."""

    def __init__(self, command, status):
        self.command = command
        self.status = status
        self.pid = 4711
        self.signals = []

    def wait(self):
        if isinstance(self.status, BaseException) and not self.signals:
            raise self.status
        return 130 if self.signals else self.status


class TestRunner(testtools.TestCase):

    def setUp(self):
        super().setUp()
        self.status = 0
        self.children = []
        self.useFixture(fixtures.MonkeyPatch(
            'subprocess.Popen', self.popen))
        self.useFixture(fixtures.MonkeyPatch('os.killpg', self.kill))

    def popen(self, command, **options):
        self.children.append(Child(command, self.status))
        return self.children[-1]

    def kill(self, pid, number):
        self.assertEqual(4711, pid)
        self.children[-1].signals.append(number)

    def run_proof(self, proof=PROOF):
        runner = instances.Runner(
            pathlib.Path('/out'), pathlib.Path('/image'))
        runner.enter = ['nsenter', '--net']
        return runner.run(proof)

    def test_container(self):
        self.assertEqual(0, self.run_proof())
        self.assertEqual(
            [str(instances.PROGRAM), 'bench', 'run', 'smp-mutex', '--short',
             '--output', '/out/smp-mutex-cn.jsonl', '--platform', 'cn',
             '--only', 'scenario=one'], self.children[0].command)

    def test_another_platform_beside(self):
        self.run_proof(instances.Proof('platform-overhead', 'cn',
                                       beside=('bm',)))
        command = self.children[0].command
        first = command.index('--platform')
        self.assertEqual(['--platform', 'cn', '--platform', 'bm'],
                         command[first:first + 4])

    def test_guest(self):
        self.run_proof(instances.Proof('smp-mutex', 'vm'))
        command = self.children[0].command
        self.assertEqual(['nsenter', '--net', 'env'], command[2:5])
        self.assertIn('/image', command)
        first = command.index('taskset')
        self.assertEqual(instances.CONTROLLER_CPUS, command[first + 2])

    def test_fails(self):
        self.status = 1
        self.assertEqual(1, self.run_proof())

    def test_interrupted(self):
        self.status = KeyboardInterrupt()
        self.assertRaises(KeyboardInterrupt, self.run_proof)
        self.assertEqual([instances.signal.SIGINT], self.children[0].signals)


@ddt.ddt
class TestProofs(testtools.TestCase):

    def test_names(self):
        names = [proof.name
                 for proof in (*instances.PROOFS, *instances.LONGER)]
        self.assertEqual(len(names), len(set(names)))

    def test_studies_are_run(self):
        """By name at least; for the others there is more to a host."""
        from nova_pinning.instance_bench import experiment_file
        self.assertEqual(
            {'hardware-latency', 'memory-placement', 'mine', 'network-queues'},
            {*experiment_file.shipped()} - {
                proof.experiment
                for proof in (*instances.PROOFS, *instances.LONGER)})

    @ddt.data(*instances.PROOFS, *instances.LONGER)
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
