#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

"""Reasons not to trust a run too far."""

import dataclasses

import ddt

from nova_pinning.bench import model
from nova_pinning.bench.report import caveats
from nova_pinning.bench import statistics
from nova_pinning import cpuset
from nova_pinning.tests.unit import base
from nova_pinning.tests.unit.bench.report import scenes


def _caveats(run, failures=(), **conditions):
    results = run.results(
        dataclasses.replace(scenes.CONDITIONS, **conditions), failures)
    return caveats.caveats(statistics.summarise(results))


@ddt.ddt
class CaveatsTest(base.TestCase):

    def test_none(self):
        self.assertEqual((), _caveats(scenes.mutex()))

    @ddt.data(
        ({'emulated': True}, 'Guests were emulated'),
        ({'cpus': 2}, 'The host has 2 CPUs: too few'),
        ({'virtualised': 'kvm'}, 'The host is itself a guest (kvm)'),
        ({'load': 8.0}, 'The load was 8.00 before the start'))
    @ddt.unpack
    def test_host(self, conditions, words):
        found = _caveats(scenes.mutex(), **conditions)
        self.assertEqual(1, len(found))
        self.assertTrue(found[0].startswith(words), found[0])

    def test_layout_that_overlaps(self):
        layout = {**scenes.CONDITIONS.layout,
                  'shared': cpuset.CpuSet.parse('10-15')}
        found = _caveats(scenes.levels(), layout=layout)
        self.assertIn('CPUs 10-11 are for dedicated', found[0])
        # Elsewhere all CPUs are for all, on purpose.
        self.assertEqual((), _caveats(scenes.mutex(), layout=layout))

    def test_host_that_changed(self):
        results = scenes.mutex().results()
        after = dataclasses.replace(scenes.CONDITIONS, kernel='6.13.0')
        found = caveats.caveats(statistics.summarise(dataclasses.replace(
            results, conditions=(scenes.CONDITIONS, after, after))))
        self.assertEqual(1, len(found))
        self.assertIn('are mixed: kernel: 6.12.1, now 6.13.0.', found[0])

    def test_baseline_that_is_not_there(self):
        run = scenes.Run('network', [scenes.workload()], baseline={
            'platform': 'bm', 'provisioning': 'pinned'})
        run.add(scenes.case(scenes.tenant(), platform='vm',
                            provisioning='pinned'), {'measured': 1.0})
        found = _caveats(run)
        self.assertEqual(1, len(found))
        self.assertIn('The baseline (bm, pinned) is not among the cases',
                      found[0])
        self.assertIn('--platform bm', found[0])

    def test_few_repetitions(self):
        found = _caveats(scenes.mutex(repetitions=3))
        self.assertIn('measured 3 times', found[0])

    def test_noise(self):
        run = scenes.Run('levels', [scenes.workload()])
        run.add(scenes.case(scenes.tenant(), scenario='idle'),
                {'measured': 1.0}, spread=0.2)
        found = _caveats(run)
        self.assertIn('1 case without neighbours varies', found[0])
        self.assertIn('at worst idle', found[0])

    def test_skipped(self):
        self.assertIn('1 of 11 cases', _caveats(scenes.levels())[0])

    def test_flags_and_failures(self):
        run = scenes.Run('network', [scenes.workload()])
        run.add(scenes.case(scenes.tenant(), scenario='a'),
                {'measured': 1.0}, flags=('a clock is off',))
        found = _caveats(run, failures=(model.Failure(
            factors={'scenario': 'a'}, round=0, started=0.0,
            message='it broke'),))
        self.assertIn('12 of 12 measurements have flags', found[0])
        self.assertIn('1 time a case could not', found[1])

    def test_nothing_measured(self):
        run = scenes.mutex()
        run.measurements.clear()
        self.assertEqual(('Nothing has been measured.',), _caveats(run))
