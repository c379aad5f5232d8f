# SPDX-License-Identifier: Apache-2.0
"""Why values are out of line."""

import dataclasses

from nova_pinning.instance_bench.report import outlier_reasons
from nova_pinning.tests.unit.instance_bench.report import report_scenes
from nova_pinning.tests.unit import unit_base


def _run(slow=5, counters=None, host=None):
    """Twelve rounds, one of which takes ten times as long."""
    run = report_scenes.Run(workloads=[report_scenes.workload(
        'job', ('seconds', 's', 'lower'))]).alone(
            report_scenes.tenant(workload='job'))
    for number, one in enumerate(run.measurements):
        reading = one.readings[0]
        is_slow = number == slow
        run.measurements[number] = dataclasses.replace(
            one, counters={'steal_seconds': 0.001 * number, 'mhz': 3000.0} | (
                host or {} if is_slow else {}),
            readings=(dataclasses.replace(
                reading, figures={'seconds': 10.0 if is_slow
                                  else 1.0 + number / 1000},
                counters={'run_delay_seconds': 0.02, 'migrations': 3.0 +
                          number % 2} | (counters or {} if is_slow
                                         else {})),))
    return run


def _why(run):
    found = outlier_reasons.table(run.summary())
    return [row[-1] for row in found.rows]


class OutlierReasonsTest(unit_base.TestCase):

    def test_counters(self):
        self.assertEqual(
            ['run delay 2.1 s in place of 0.020 s; '
             'host steal 0.40 s in place of 0.0060 s'],
            _why(_run(counters={'run_delay_seconds': 2.1},
                      host={'steal_seconds': 0.4})))

    def test_frequency_that_fell(self):
        self.assertEqual(['host mhz 1,200 in place of 3,000'],
                         _why(_run(host={'mhz': 1200.0})))

    def test_none_explains_it(self):
        # As many migrations as others had, and milliseconds of steal.
        self.assertEqual(['no counter explains it'], _why(_run(
            counters={'migrations': 4.0, 'run_delay_seconds': 0.025})))

    def test_nothing_counted(self):
        run = _run()
        run.measurements[:] = [
            dataclasses.replace(one, counters={}, readings=tuple(
                dataclasses.replace(reading, counters={})
                for reading in one.readings)) for one in run.measurements]
        self.assertEqual(['nothing was counted'], _why(run))
        self.assertIsNone(outlier_reasons.counters(run.summary()))

    def test_no_outliers(self):
        self.assertIsNone(outlier_reasons.table(_run(slow=99).summary()))

    def test_medians(self):
        found = outlier_reasons.counters(_run().summary())
        self.assertEqual(('platform', 'scenario', 'run delay', 'migrations',
                          'host steal', 'host mhz'),
                         report_scenes.titles(found))
        self.assertEqual((('vm (KVM)', 'a', '0.0200', '3.50', '0.00550',
                           '3,000'),), found.rows)
