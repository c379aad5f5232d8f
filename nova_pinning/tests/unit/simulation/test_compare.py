# SPDX-License-Identifier: Apache-2.0

import json
import multiprocessing
import os
import pathlib
import signal

import ddt
import fixtures
import hypothesis
from hypothesis import strategies
import testtools

from nova_pinning import errors
from nova_pinning.presentation import simulation_report
from nova_pinning.simulation import checkpoint
from nova_pinning.simulation import compare
from nova_pinning.simulation import scheduler_configuration
from nova_pinning.simulation import simulation_run
from nova_pinning.tests.unit.simulation import simulation_scenes

BOTH = (scheduler_configuration.NAMED['nova-default'],
        scheduler_configuration.NAMED['best-fit'])


def _study(seed=0, seeds=(1, 2), **values):
    return compare.Study(**{
        'fleet': simulation_scenes.fleet(seed),
        'source': simulation_scenes.load(seed),
        'configurations': BOTH, 'seeds': seeds, **values})


class TestCompare(testtools.TestCase):

    def test_processes_do_not_matter(self):
        study = _study()
        apart = {}

        def decided(case, decisions):
            apart.setdefault(case, []).extend(decisions)

        first = compare.perform(study)
        self.assertEqual(first, compare.perform(
            study, processes=2, decided=decided))
        self.assertEqual(
            list(study.cases),
            [(one.configuration, one.seed) for one in first])
        # What comes last may be lost, what has come is in order.
        for case, decisions in apart.items():
            whole = []
            study.perform(case, decided=whole.extend)
            self.assertEqual(whole[:len(decisions)], decisions)

    def test_known_are_not_handed_over_again(self):
        study = _study(seeds=(1,))
        case = study.cases[0]
        whole, rest = [], []
        study.perform(case, decided=whole.extend)
        compare.perform(study, known={case: whole[:20]},
                        decided=lambda of, decisions: rest.extend(
                            decisions if of == case else ()))
        self.assertEqual(whole[20:], rest)

    def test_interrupt_ends_processes(self):
        """An interrupt in the first process leaves none of the others."""
        def decided(_case, _decisions):
            raise KeyboardInterrupt

        study = _study(source=simulation_scenes.load(0, 20000),
                       seeds=(1, 2, 3))
        before = _children()
        self.assertRaises(
            KeyboardInterrupt, compare.perform, study, processes=2,
            decided=decided)
        self.assertEqual(before, _children())

    def test_killed_process(self):
        study = _study(source=_Deadly())
        error = self.assertRaises(
            errors.InputError, compare.perform, study, processes=2)
        self.assertIn('was killed', str(error))


class _Deadly:
    """Arrivals that kill the process that asks for them."""

    count = 1

    def arrivals(self, _seed):
        os.kill(os.getpid(), signal.SIGKILL)


def _children():
    """Processes that this one has started, by pid."""
    return {one.pid for one in multiprocessing.active_children()}


class _Base(testtools.TestCase):

    def setUp(self):
        super().setUp()
        self.path = str(pathlib.Path(self.useFixture(
            fixtures.TempDir()).path) / 'checkpoint.json.zst')


@ddt.ddt
class TestCheckpoint(_Base):

    def test_none_yet(self):
        self.assertEqual({}, checkpoint.read(self.path, 'x'))

    @hypothesis.given(strategies.dictionaries(
        strategies.builds(compare.StudyCase, strategies.text(max_size=5),
                          strategies.integers(0, 99)),
        strategies.lists(strategies.integers(-1, 10 ** 6)), max_size=4))
    @hypothesis.settings(deadline=None, max_examples=20)
    def test_read_again(self, decisions):
        writer = checkpoint.CheckpointWriter(self.path, 'x', decisions)
        writer.write()
        self.assertEqual(decisions, checkpoint.read(self.path, 'x'))

    def test_now_and_then(self):
        now = 0.0
        case = compare.StudyCase('one', 1)
        writer = checkpoint.CheckpointWriter(
            self.path, 'x', {case: [1]}, every_seconds=30.0,
            clock=lambda: now)
        writer.decided(case, [2])
        self.assertEqual({}, checkpoint.read(self.path, 'x'))
        now = 30.0
        writer.decided(case, [3])
        self.assertEqual({case: [1, 2, 3]}, checkpoint.read(self.path, 'x'))
        now = 59.0
        writer.decided(case, [4])
        self.assertEqual({case: [1, 2, 3]}, checkpoint.read(self.path, 'x'))

    def test_of_other_inputs(self):
        checkpoint.CheckpointWriter(self.path, 'x', {}).write()
        error = self.assertRaises(
            errors.InputError, checkpoint.read, self.path, 'y')
        self.assertIn('is a checkpoint of another simulation', str(error))

    @ddt.data('', '{}', '[]', '{"version": 1, "inputs": "x", "runs": [{}]}',
              '{"version": 1, "inputs": "x", "runs": 3}')
    def test_other_files(self, text):
        path = self.path.removesuffix('.zst')
        pathlib.Path(path).write_text(text)
        error = self.assertRaises(
            errors.InputError, checkpoint.read, path, 'x')
        self.assertIn('is not a checkpoint', str(error))

    def test_inputs(self):
        digest = checkpoint.inputs(_study())
        self.assertEqual(digest, checkpoint.inputs(_study()))
        for other in (
                _study(1), _study(seeds=(1,)),
                _study(source=simulation_scenes.load(0, 61)),
                _study(fleet=simulation_scenes.fleet(0, hosts=5)),
                _study(configurations=BOTH[:1]),
                _study(plan=simulation_run.RunPlan(is_empty=True)),
                _study(is_fast=False)):
            self.assertNotEqual(digest, checkpoint.inputs(other))


class TestReport(testtools.TestCase):

    def setUp(self):
        super().setUp()
        self.results = compare.perform(_study(seeds=(1, 2, 3)))
        self.names = [one.name for one in BOTH]

    def test_document(self):
        found = json.loads(json.dumps(
            simulation_report.study_document(self.results, self.names)))
        self.assertEqual(1, found['version'])
        first, second = found['configurations']
        accepted = second['figures']['accepted']
        by_seed = {(result.configuration, result.seed): result.acceptance
                   for result in self.results}
        self.assertAlmostEqual(
            sum(by_seed[second['name'], seed] for seed in (1, 2, 3)) / 3,
            accepted['mean'])
        self.assertAlmostEqual(
            sum(by_seed[second['name'], seed] - by_seed[first['name'], seed]
                for seed in (1, 2, 3)) / 3, accepted['change']['mean'])
        self.assertIsNone(first['figures']['accepted']['change'])
        self.assertEqual(6, len(found['runs']))

    def test_acceptances(self):
        found = simulation_report.acceptances(self.results, self.names)
        self.assertEqual(
            sum(result.arrivals for result in self.results),
            sum(one.arrivals for one in found))
        self.assertEqual(
            sum(result.refused for result in self.results),
            sum(one.refused for one in found))

    def test_table(self):
        header, *lines = simulation_report.table(self.results).splitlines()
        self.assertEqual(
            'configuration,seed,dedicated_cpus,arrivals,time_seconds,'
            'dedicated_vcpus,shared_vcpus,stranded_cpus,refused', header)
        self.assertEqual(sum(len(result.samples) for result in self.results),
                         len(lines))

    def test_curve(self):
        points = list(simulation_report.curve(self.results, self.names[0]))
        self.assertEqual(
            [sample.arrivals for sample in self.results[0].samples],
            [point.arrivals for point in points])
        last = [result.samples[-1].dedicated_vcpus / result.dedicated_cpus
                for result in self.results[::2]]
        self.assertAlmostEqual(sum(last) / 3, points[-1].sold.mean)
