# SPDX-License-Identifier: Apache-2.0
"""Tables of runs."""

import dataclasses

import ddt

from nova_pinning.instance_bench import bench_model
from nova_pinning.instance_bench.report import run_tables
from nova_pinning.instance_bench.report import study_tables
from nova_pinning.instance_bench import run_comparison
from nova_pinning.presentation import typed_table
from nova_pinning.tests.unit.instance_bench.report import report_scenes
from nova_pinning.tests.unit import unit_base


def _tables(run):
    return study_tables.tables(run.summary())


@ddt.ddt
class TablesTest(unit_base.TestCase):

    @ddt.data(*report_scenes.ALL)
    def test_shape(self, kind):
        self.useFixture(report_scenes.SelfTest())
        found = _tables(report_scenes.ALL[kind](rounds=3))
        self.assertFalse(found[0].is_detail)
        for table in found:
            titles = report_scenes.titles(table)
            self.assertEqual(len(set(titles)), len(titles))
            self.assertTrue(table.rows)
            for row in table.rows:
                self.assertEqual(len(titles), len(row))
            # Rows can be told apart by what is not a figure.
            names = list(zip(*(
                texts for column, texts in table.parts()
                if column.kind is typed_table.ColumnKind.TEXT)))
            self.assertEqual(len(set(names)), len(names))

    def test_levels(self):
        found = _tables(report_scenes.levels())
        self.assertEqual([
            'sysbench-cpu: events in 1/s, higher is better',
            'stream: copy in MB/s, higher is better',
            'stream: scale in MB/s, higher is better',
            'stream: latency in us, lower is better'],
            [one.title for one in found])
        self.assertEqual([False, False, False, True],
                         [one.is_detail for one in found])
        self.assertEqual(
            ('platform', 'scenario', 'tenant', 'runs', 'average', 'deviation',
             '95% interval', 'variation', 'min', 'max', 'against baseline',
             'under neighbours'),
            report_scenes.titles(found[0]))
        self.assertEqual(('vm (KVM)', 'shared at 1x beside enterprise',
                          'enterprise'), found[0].rows[3][:3])

    def test_mutex(self):
        found = _tables(report_scenes.mutex())[0]
        self.assertEqual(('bm (process)', 'host', '2'),
                         found.rows[0][:3])

    def test_priority(self):
        found = _tables(report_scenes.priority())[0]
        self.assertEqual(
            ('platform', 'threads', 'tenant', 'runs'),
            report_scenes.titles(found)[:4])
        self.assertEqual(('cn (namespaces)', '4', 'heavy', '12'),
                         found.rows[2][:4])

    def test_ladder(self):
        found = _tables(report_scenes.ladder())[0]
        self.assertEqual(('platform', 'threads', 'runs'),
                         report_scenes.titles(found)[:3])
        self.assertEqual(['1', '2', '4', '6', '8', '12'], [
            row[1] for row in found.rows if row[0] == 'vm (KVM)'])

    def test_overhead(self):
        found = _tables(report_scenes.overhead())
        self.assertEqual(
            ('size', 'CHR', 'bm (process), pinned',
             'cn (namespaces), vanilla', 'cn (namespaces), pinned',
             'vm (KVM), vanilla', 'vm (KVM), pinned'),
            report_scenes.titles(found[0]))
        self.assertEqual([('2', '0.12'), ('4', '0.25'), ('8', '0.50'),
                          ('16', '1.0')], [row[:2] for row in found[0].rows])

    def test_multitask(self):
        """Jobs are workloads, and they are what is compared."""
        found, = _tables(report_scenes.multitask())
        self.assertEqual(('platform', 'job', 'provisioning', 'runs'),
                         report_scenes.titles(found)[:4])
        self.assertEqual(('cn (namespaces)', 'ffmpeg-many', 'vanilla'),
                         found.rows[3][:3])
        self.assertIn('ffmpeg and ffmpeg-many', found.title)

    def test_network(self):
        found = _tables(report_scenes.network())[0]
        self.assertEqual(('platform', 'emulator_threads', 'network_cpus',
                          'runs'),
                         report_scenes.titles(found)[:4])

    def test_latency(self):
        found = _tables(report_scenes.latency())[0]
        self.assertEqual('cyclictest: latency in us', found.title)
        self.assertEqual(('platform', 'provisioning', 'p99.999', 'mean',
                          'max'), report_scenes.titles(found))
        run = report_scenes.latency()
        largest = max(reading.figures['max']
                      for measurement in run.measurements
                      for reading in measurement.readings
                      if measurement.factors['provisioning'] == 'vanilla')
        self.assertAlmostEqual(largest, float(found.rows[1][-1]), delta=0.1)

    def test_latency_of_so_many(self):
        run = report_scenes.Run('latency', [report_scenes.workload(
            'sysbench-cpu', ('max', 'us', 'lower'),
            ('samples', 'samples', 'higher'))], rounds=2).alone(level=1e6)
        self.assertEqual(
            ['sysbench-cpu: latency in us',
             'sysbench-cpu: max in us, lower is better',
             'sysbench-cpu: samples in samples, higher is better'],
            [table.title for table in _tables(run)])

    def test_neighbours(self):
        for found in _tables(report_scenes.matrix())[:2]:
            self.assertIn('slowdown by its neighbour', found.title)
            self.assertEqual(('platform', 'provisioning', 'cpu', 'memory'),
                             report_scenes.titles(found))
            for row in found.rows:
                self.assertRegex(row[2], '^1.1' if row[1] == 'pinned'
                                 else r'^(2\.0|1\.9)')

    @ddt.data(('vm', True, {}, 'vm (TCG)'), ('vm', False, {}, 'vm (KVM)'),
              ('vm', False, {'accelerator': 'tcg'}, 'vm (TCG)'),
              ('bm', False, {}, 'bm (process)'),
              ('cn', False, {'runc': '1.1'}, 'cn (runc)'),
              ('vmcn', False, {'runc': '1.1'}, 'vmcn (runc in KVM)'))
    @ddt.unpack
    def test_platform(self, name, emulated, versions, words):
        run = report_scenes.Run(rounds=2).alone(
            report_scenes.tenant(platform=bench_model.PlatformName(name)))
        found = study_tables.tables(run.summary(
            emulated=emulated, versions=versions))[0]
        self.assertEqual((words, 'a'), found.rows[0][:2])

    def test_several_tenants_of_a_case(self):
        run = report_scenes.Run('levels')
        run.add(report_scenes.case(report_scenes.tenant('a'),
                                   report_scenes.tenant('b'),
                                   scenario='both'), {'a': 1.0, 'b': 2.0})
        found = _tables(run)[0]
        self.assertEqual([('both', 'a'), ('both', 'b')],
                         [row[1:3] for row in found.rows])

    def test_time_from_outside_is_what_counts(self):
        job = bench_model.Workload(
            name='job', workload_class=bench_model.WorkloadClass.CPU,
            about='It.',
            command='job', figures=tuple(bench_model.WorkloadFigure(
                name=name, unit='s', better=bench_model.Better.LOWER,
                pattern=pattern) for name, pattern in (
                    ('seconds', None), ('inside', '([0-9]+)'))))
        run = report_scenes.Run('levels', [job]).alone(
            report_scenes.tenant(workload='job'))
        self.assertEqual([False, True],
                         [table.is_detail for table in _tables(run)])

    def test_nothing(self):
        for make in report_scenes.ALL.values():
            run = make(rounds=1)
            run.measurements.clear()
            self.assertEqual((), _tables(run))


class OthersTest(unit_base.TestCase):

    def test_busy(self):
        """Of each case the last measurement, and the CPU that does the work.
        """
        run = report_scenes.levels(rounds=2)
        run.measurements[:] = [dataclasses.replace(
            measurement, utilisation=tuple(
                bench_model.UtilisationSample(
                    seconds=float(second),
                    busy={'4': 0.5 * second * measurement.round,
                          '12': 0.25, '13': 0.75})
                for second in (1, 2)))
            for measurement in run.measurements]
        found = run_tables.busy(run.summary())
        self.assertEqual(('case', 'dedicated CPUs 4-11', 'shared CPUs 12-15',
                          'host CPUs 0-3'), report_scenes.titles(found))
        self.assertEqual(len(run.cases) - 1, len(found.rows))
        self.assertEqual(
            ('9.4% (0.0% to 75.0%)', '25.0% (0.0% to 75.0%)',
             '0.0% (0.0% to 0.0%)'), found.rows[0][1:])
        self.assertIsNone(run_tables.busy(report_scenes.levels().summary()))

    def test_changes_worst_first(self):
        old, new = (report_scenes.levels(slow).summary()
                    for slow in (0.6, 0.4))
        found = run_tables.changes(run_comparison.compare(new, [old]))
        self.assertEqual('regression', found.rows[0][-1])
        self.assertTrue(found.rows[0][0].startswith('shared at'))
        self.assertRegex(found.rows[0][5], r'^\+\d+\.\d% \(\+.* to \+.*\)$')

    def test_skipped(self):
        found = run_tables.mishaps(report_scenes.levels().summary())
        self.assertEqual((('skipped: needs 32 CPUs, there are 16',
                           'enterprise fills the host / stream'),),
                         found.rows)
        self.assertIsNone(run_tables.mishaps(report_scenes.mutex().summary()))

    def test_flags_and_failures(self):
        run = report_scenes.Run(rounds=3).alone(flags=('a clock is off',))
        found = run_tables.mishaps(run.summary(failures=(bench_model.Failure(
            factors={'scenario': 'a'}, round=0, started=0.0,
            message='it broke'),)))
        self.assertEqual((('a clock is off', 'a (3 times)'),
                          ('failed: it broke', 'a')), found.rows)
