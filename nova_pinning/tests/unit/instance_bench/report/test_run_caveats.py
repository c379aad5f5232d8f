# SPDX-License-Identifier: Apache-2.0
"""Reasons not to trust a run too far."""

import dataclasses

import ddt

from nova_pinning import cpuset
from nova_pinning.instance_bench import bench_model
from nova_pinning.instance_bench.report import run_caveats
from nova_pinning.instance_bench import statistics
from nova_pinning.tests.unit.instance_bench.report import report_scenes
from nova_pinning.tests.unit import unit_base


def _caveats(run, failures=(), **conditions):
    return run_caveats.caveats(run.summary(failures=failures, **conditions))


@ddt.ddt
class CaveatsTest(unit_base.TestCase):

    @ddt.data((('sched-pipe', '1', 2.4),), (('ping-pong', '2', 14.0),),
              (('sched-pipe', '1', 12.0), 'A handover takes 1.'),
              (('ping-pong', '2', 0.5), 'by ping-pong'))
    @ddt.unpack
    def test_cross_checks(self, tool, said=''):
        run = report_scenes.mutex(tools=[tool])
        found = [text for text in _caveats(run) if 'its order' in text]
        self.assertEqual(bool(said), bool(found))
        self.assertIn(said, ''.join(found))

    def test_none(self):
        self.assertEqual((), _caveats(report_scenes.mutex()))

    @ddt.data(
        ({'emulated': True}, 'Guests were emulated'),
        ({'cpus': 2}, 'The host has 2 CPUs: too few'),
        ({'virtualised': 'kvm'}, 'The host is itself a guest (kvm)'),
        ({'load': 8.0}, 'The load was 8.00 before the start'))
    @ddt.unpack
    def test_host(self, conditions, words):
        found = _caveats(report_scenes.mutex(), **conditions)
        self.assertEqual(1, len(found))
        self.assertTrue(found[0].startswith(words), found[0])

    def test_layout_that_overlaps(self):
        layout = {**report_scenes.CONDITIONS.layout,
                  'shared': cpuset.CpuSet.parse('10-15')}
        found = _caveats(report_scenes.levels(), layout=layout)
        self.assertIn('CPUs 10-11 are for dedicated', found[0])
        # Elsewhere all CPUs are for all, on purpose.
        self.assertEqual((), _caveats(report_scenes.mutex(), layout=layout))

    def test_host_that_changed(self):
        results = report_scenes.mutex().results()
        after = dataclasses.replace(report_scenes.CONDITIONS, kernel='6.13.0')
        found = run_caveats.caveats(statistics.summarise(dataclasses.replace(
            results, conditions=(report_scenes.CONDITIONS, after, after))))
        self.assertEqual(1, len(found))
        self.assertIn('are mixed: kernel: 6.12.1, now 6.13.0.', found[0])

    def test_baseline_that_is_not_there(self):
        run = report_scenes.Run(baseline={
            'platform': 'bm', 'provisioning': 'pinned'}).alone(
                factors={'platform': 'vm', 'provisioning': 'pinned'})
        found = _caveats(run)
        self.assertEqual(1, len(found))
        self.assertIn('The baseline (bm, pinned) is not among the cases',
                      found[0])
        self.assertIn('--platform bm', found[0])

    def test_few_rounds(self):
        found = _caveats(report_scenes.mutex(rounds=3))
        self.assertIn('in 3 rounds, fewer than 5', found[0])

    def test_noise(self):
        found = _caveats(report_scenes.Run().alone(
            factors={'scenario': 'idle'}, spread=0.2))
        self.assertIn('1 case without neighbours varies', found[0])
        self.assertIn('at worst idle', found[0])

    def test_skipped(self):
        self.assertIn('1 of 11 cases', _caveats(report_scenes.levels())[0])

    def test_flags_and_failures(self):
        run = report_scenes.Run().alone(flags=('a clock is off',))
        found = _caveats(run, failures=(bench_model.Failure(
            factors={'scenario': 'a'}, round=0, started=0.0,
            message='it broke'),))
        self.assertIn('12 of 12 measurements have flags', found[0])
        self.assertIn('1 time a case could not', found[1])

    def test_nothing_measured(self):
        run = report_scenes.mutex()
        run.measurements.clear()
        self.assertEqual(('Nothing has been measured.',), _caveats(run))
