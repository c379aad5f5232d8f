# SPDX-License-Identifier: Apache-2.0
"""Published figures, and whether they are those of the documents.

The figures as they were read in the documents are beside the checkout, or in
the directory that NOVA_PINNING_DATA names.
"""

import csv
import os
import pathlib
import statistics

import yaml

from nova_pinning.instance_bench import experiment_file
from nova_pinning.instance_bench import published
from nova_pinning.instance_bench.workloads import workload_catalogue
from nova_pinning.tests.unit.instance_bench import bench_fakes
from nova_pinning.tests.unit import unit_base

_ROOT = pathlib.Path(__file__).parents[4]


class DocumentsTest(unit_base.TestCase):
    """Against what was read in the documents."""

    def setUp(self):
        super().setUp()
        data = os.environ.get('NOVA_PINNING_DATA') or (
            _ROOT.parent / 'shared/data')
        self.directory = pathlib.Path(data) / 'published'
        if not self.directory.is_dir():
            self.skipTest(f'there is no {self.directory}; NOVA_PINNING_DATA '
                          'says where the data are')

    def lines(self, name):
        with open(self.directory / name, encoding='utf-8') as file:
            return list(csv.DictReader(
                line for line in file if not line.startswith('#')))

    def facts(self, name):
        return yaml.safe_load(
            (self.directory / 'facts.yaml').read_text('utf-8'))[name]

    def table(self, table, workload):
        found, = published.tables(table, [workload])
        return found

    def figures(self, table):
        return ' '.join(f'{figure.what}: {figure.figure} {figure.conditions}'
                        for figure in published.figures(table))

    def test_mutex(self):
        lines = self.lines('smp-mutex.csv')
        rows = self.table('mutex', 'handover').rows
        self.assertEqual(len(rows), len(lines[0]) - 1)
        for column, row in zip(list(lines[0])[1:], rows.values()):
            values = [float(line[column]) for line in lines]
            expected = (len(values), statistics.mean(values),
                        statistics.pstdev(values), min(values), max(values))
            for found, wanted in zip(row, expected):
                self.assertAlmostEqual(wanted, found, delta=0.6)

    def test_mutex_ratios(self):
        text = self.figures('mutex')
        for name, fact in self.facts('smp').items():
            self.assertIn(str(fact), text, name)

    def test_priority(self):
        rows = self.table('priority', 'any').rows
        lines = self.lines('cascade-priority.csv')
        self.assertEqual(['1', '4', '6'], [line['threads'] for line in lines])
        for line, row in zip(lines, rows.values()):
            self.assertEqual(
                [float(line[name]) for name in (
                    'priority_100_s', 'priority_50_s', 'ratio')], list(row))

    def ladder(self, lines, key, workload, share, is_time):
        """Compare a ladder on 4 CPUs, and its shares with its times."""
        table = self.table('ladder', workload)
        found = {}
        for line in lines:
            threads = int(line['threads'])
            row = '1' if threads == 1 else f'{threads / 4:g}x'
            found.setdefault(row, {})[line['setup']] = float(line[key])
            single = found[row]['node single-user']
            ratio = single / float(line[key])
            if abs(float(line[share])
                   - (ratio if is_time else 1 / ratio)) > 0.001:
                # It is printed otherwise, and that has to be said.
                self.assertIn(f'{line[share]} for {ratio:.3f}',
                              table.disagrees)
        self.assertEqual(found.keys(), table.rows.keys())
        for row, setups in found.items():
            both = setups['node normal'], setups['guest normal']
            ratio = both[1] / both[0] if is_time else both[0] / both[1]
            self.assertEqual((*both, round(ratio, 3)), table.rows[row])
        return found

    def test_ladder_of_cpus(self):
        self.ladder(self.lines('cascade-cpu.csv'), 'total_s', 'sysbench-cpu',
                    'relative', True)

    def test_ladder_of_memory(self):
        lines = self.lines('cascade-memory.csv')
        for operation in ('read', 'write'):
            name = f'sysbench-memory-{operation}'
            found = self.ladder([
                line for line in lines if line['operation'] == operation],
                'mb_per_s', name, 'share', False)['1x']
            # It contradicts itself.
            loss = 1 - found['guest normal'] / found['node single-user']
            disagrees = self.table('ladder', name).disagrees
            self.assertIn(f'{100 * loss:.1f}%', disagrees)
            self.assertIn('10%', disagrees)

    def test_levels(self):
        facts = self.facts('enterprise')
        loss = facts['cpu_loss_against_bare_metal_without_load']
        share = facts['stream_share_of_bare_metal']
        for name in ('enterprise', 'shared'):
            for workload, ratio in (('sysbench-cpu', 1 / (1 - loss[name])),
                                    ('stream', 1 / share[name])):
                self.assertAlmostEqual(ratio, self.table(
                    'levels', workload).rows[name][0], delta=0.005)
        self.assertIn(facts['guests']['shared_oversell_in_the_cloud'],
                      self.figures('levels'))

    def test_network(self):
        """One gain of several schemes is the figure of none of them."""
        facts = self.facts('cache_aware')
        for workload, name in (('iperf3', 'gain_iperf'),
                               ('web', 'gain_specweb2005')):
            self.assertEqual([], published.tables('network', [workload]))
            self.assertIn(f'{facts[name]:.0%}', self.figures('network'))

    def test_overhead(self):
        facts = self.facts('pinning')
        table = self.table('overhead', 'ffmpeg')
        self.assertEqual(
            [tuple(pair) for pair in
             facts['chr_ranges_best_practice'].values()],
            list(table.rows.values()))
        for low, high in facts['chr_ranges_on_an_earlier_slide'].values():
            self.assertIn(f'{low} to {high}', table.disagrees)
        text = self.figures('overhead')
        for amount in (
                f'{facts["cassandra_sample"]["partitions_per_s"]:,}',
                f'{facts["cassandra_sample"]["p99_ms"]}',
                f'{facts["cassandra_sample"]["max_ms"]}',
                f'{facts["wordpress_sample"]["mean_ms"]:,}',
                f'{facts["wordpress_sample"]["max_ms"]:,}',
                f'{facts["wordpress_sample"]["throughput_per_s"]}'):
            self.assertIn(amount, text)


class ShippedTest(unit_base.TestCase):

    def test_sources(self):
        sources = published.sources().values()
        self.assertEqual(len(sources), len({str(one) for one in sources}))
        for one in sources:
            self.assertTrue(one.authors and one.title)
            self.assertRegex(one.url, r'^(https?://\S+)?$')

    def test_tables(self):
        tables = {experiment_file.read(
            name, bench_fakes.LAYOUT, workload_catalogue.shipped()
        ).experiment.table for name in experiment_file.shipped()}
        for one in (*published.shipped().tables,
                    *published.shipped().figures):
            self.assertIn(one.table, tables)
            self.assertIn(one.source, published.sources())
        for table in published.shipped().tables:
            self.assertTrue(table.note)
            self.assertEqual({len(table.columns)},
                             set(map(len, table.rows.values())))

    def test_workload_that_nobody_has_published(self):
        for table, workload in (('levels', 'redis'), ('latency', 'cyclictest'),
                                ('network', 'sockperf')):
            self.assertEqual([], published.tables(table, [workload]))
