# SPDX-License-Identifier: Apache-2.0

import pathlib

import ddt
from oslotest import base as oslotest

from nova_pinning.instance_bench import bench_errors
from nova_pinning.instance_bench import bench_model
from nova_pinning.instance_bench.workloads import figures
from nova_pinning.instance_bench.workloads import workload_catalogue

# What the programs printed when they were run.
OUTPUTS = pathlib.Path(__file__).parent / 'outputs'
_OUTSIDE_SECONDS = 4.5
_SEEN = {
    'sysbench-cpu': {'events': 802.3, 'latency_mean': 2.48,
                     'latency_p95': 6.55, 'latency_max': 22.27},
    'sysbench-cpu-fixed': {'seconds': _OUTSIDE_SECONDS, 'inside': 0.0896},
    'bursts': {'turns': 4},
    'sysbench-memory-read': {'moved': 6090.17},
    'sysbench-memory-write': {'moved': 11495.9},
    'stream': {'triad': 2230.9, 'copy': 939.8, 'scale': 1187.0,
               'add': 1332.5},
    'mutex-up': {'seconds': _OUTSIDE_SECONDS, 'inside': 0.057311,
                 'handovers': 18},
    'mutex-smp': {'seconds': _OUTSIDE_SECONDS, 'inside': 0.248801,
                  'handovers': 4647},
    'cyclictest': {'max': 870, 'p99': 303, 'mean': 61.542},
    'iperf3': {'received': 22448.0, 'retransmits': 10},
    # The sums of all streams.
    'iperf3-8': {'received': 20856.0, 'retransmits': 22},
    'fio-read': {'iops': 179147.852148, 'latency_mean': 175.128734764,
                 'latency_p99': 593.92},
    'fio-write': {'iops': 79395.604396, 'latency_mean': 395.488223844,
                  'latency_p99': 2834.432},
    'ffmpeg': {'seconds': _OUTSIDE_SECONDS},
    'ffmpeg-pieces': {'seconds': _OUTSIDE_SECONDS},
    'mpi-primes': {'seconds': _OUTSIDE_SECONDS, 'inside': 0.041631},
    'mpi-search': {'seconds': _OUTSIDE_SECONDS, 'inside': 0.000793},
    'web': {'requests': 380.34, 'latency_mean': 219.692,
            'latency_p99': 598.784, 'failures': 0},
    'redis': {'set': 53763.44, 'get': 70422.53, 'set_p99': 4.839,
              'get_p99': 4.383},
}
# Cassandra has not been run; these are the forms that its releases print.
_CASSANDRA = (
    ('op rate                   : 16386 [WRITE:16386]\n'
     'latency mean              : 0.6 [WRITE:0.6]\n'
     'latency 99th percentile   : 3.4 [WRITE:3.4]\n', 16386),
    ('Op rate                   :   12,345 op/s  [READ: 6,170 op/s]\n'
     'Latency mean              :    0.6 ms [READ: 0.5 ms]\n'
     'Latency 99th percentile   :    3.4 ms [READ: 3.0 ms]\n', 12345),
)


def workload(pattern, scale=1.0, **values):
    return bench_model.Workload(
        name='w', workload_class=bench_model.WorkloadClass.CPU, about='',
        command='true', figures=(bench_model.WorkloadFigure(
            name='f', unit='s', better=bench_model.Better.LOWER,
            pattern=pattern,
            scale=scale),), **values)


@ddt.ddt
class TestRead(oslotest.BaseTestCase):

    def test_shipped_are_all_here(self):
        self.assertEqual(set(workload_catalogue.shipped()),
                         {*_SEEN, 'cassandra'})

    @ddt.data(*sorted(_SEEN))
    def test_shipped(self, name):
        path = OUTPUTS / f'{name}.txt'
        text = path.read_text() if path.exists() else ''
        found = figures.read(workload_catalogue.shipped()[name], text,
                             _OUTSIDE_SECONDS)
        self.assertEqual(set(_SEEN[name]), set(found))
        for figure, value in _SEEN[name].items():
            self.assertAlmostEqual(value, found[figure], msg=figure)

    @ddt.data(*_CASSANDRA)
    @ddt.unpack
    def test_cassandra(self, text, rate):
        self.assertEqual(
            {'operations': rate, 'latency_mean': 0.6, 'latency_p99': 3.4},
            figures.read(workload_catalogue.shipped()['cassandra'], text, 1))

    def test_last_match_counts(self):
        self.assertEqual({'f': 3.0}, figures.read(
            workload('^x=(.*)$'), 'x=1\nx=2\ny\nx=3\nyx=4\n', 9))

    def test_outside(self):
        self.assertEqual({'f': 9000.0}, figures.read(
            workload(None, scale=1000), 'x', 9))

    @ddt.data(('1e3', 1000.0), ('12,345.5', 12345.5), (' -3 ', -3.0))
    @ddt.unpack
    def test_numbers(self, text, expected):
        self.assertEqual({'f': expected}, figures.read(
            workload('x=(.*)'), f'x={text}', 9))

    @ddt.data('', 'nan', 'inf', '1 2', '-', '1e999')
    def test_no_numbers(self, text):
        error = self.assertRaises(
            bench_errors.WorkloadError, figures.read, workload('x=(.*)'),
            f'x={text}', 9)
        self.assertEqual(f'w: f is {text!r}, which is not a number',
                         str(error))

    def test_group_without_a_part(self):
        self.assertRaises(bench_errors.WorkloadError, figures.read,
                          workload('x(y)?'), 'x', 9)

    @ddt.data(('', '(nothing)'), ('\n \n', '(nothing)'),
              ('a\nb\n', 'a | b'), ('1\n2\n3\n4\n5\n6', '2 | 3 | 4 | 5 | 6'))
    @ddt.unpack
    def test_missing(self, text, end):
        error = self.assertRaises(bench_errors.WorkloadError, figures.read,
                                  workload('x=(.*)'), text, 9)
        self.assertEqual(
            f'w: there is no f in what it printed, which ends with: {end}',
            str(error))
        self.assertEqual('the pattern is x=(.*)', error.advice)

    @ddt.data(('x', '0 groups'), ('(a)(b)', '2 groups'),
              ('(', 'not a regular expression'))
    @ddt.unpack
    def test_bad_patterns(self, pattern, said):
        error = self.assertRaises(ValueError, figures.compiled, pattern)
        self.assertIn(said, str(error))
