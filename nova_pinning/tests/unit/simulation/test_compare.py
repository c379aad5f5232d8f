# SPDX-License-Identifier: Apache-2.0

import json
import multiprocessing
import os
import signal

import testtools

from nova_pinning import errors
from nova_pinning.presentation import simulation_report
from nova_pinning.simulation import compare
from nova_pinning.simulation import scheduler_configuration
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
        study, told = _study(), []
        first = compare.perform(study)
        self.assertEqual(first, compare.perform(
            study, processes=2, tell=told.append))
        self.assertEqual(
            [(seed, one.name) for seed, one in study.cases],
            [(one.seed, one.configuration) for one in first])
        self.assertEqual(4 * study.source.count, sum(told))

    def test_interrupt_ends_processes(self):
        """An interrupt in the first process leaves none of the others."""
        def tell(_arrivals):
            raise KeyboardInterrupt

        study = _study(source=simulation_scenes.load(0, 400),
                       seeds=(1, 2, 3))
        before = _children()
        self.assertRaises(
            KeyboardInterrupt, compare.perform, study, processes=2,
            tell=tell)
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
