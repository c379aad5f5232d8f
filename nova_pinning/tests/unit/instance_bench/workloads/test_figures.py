# SPDX-License-Identifier: Apache-2.0

import pathlib

import ddt
from oslotest import base as oslotest

from nova_pinning.instance_bench import bench_errors
from nova_pinning.instance_bench import bench_model
from nova_pinning.instance_bench.workloads import figures
from nova_pinning.instance_bench.workloads import workload_catalogue

# What the programs printed when they were run; of fio's the figures that are
# read, and those that look like them.
OUTPUTS = pathlib.Path(__file__).parent / 'outputs'
# Those whose outputs have the form of another's.
_LIKE = {'fio-latency': 'fio-read',
         'stream-on-node': 'stream',
         'sysbench-memory-write': 'sysbench-memory-read'}
_OUTSIDE_SECONDS = 4.5
_SEEN = {
    'stress-cpu': {'operations': 375.17},
    'bursts': {'operations': 28.46},
    'stress-cache': {'operations': 71073.33},
    'stress-memory': {'operations': 30.52},
    'stress-disk': {'operations': 12092.91},
    'stress-network': {'operations': 410.7},
    'sysbench-cpu': {'events': 222.5, 'latency_mean': 8.82,
                     'latency_p95': 33.72, 'latency_max': 112.25},
    'sysbench-cpu-fixed': {'seconds': _OUTSIDE_SECONDS, 'inside': 0.2346},
    'ffmpeg': {'frames': 41.4023},
    'ffmpeg-30': {'frames': 23.4605},
    'mpi-primes': {'rounds': 15.481},
    'mpi-search': {'rounds': 2811.659},
    'fio-read': {'iops': 179147.852148, 'latency_mean': 175.128734764,
                 'latency_p99': 593.92},
    'fio-latency': {'latency_mean': 175.128734764, 'latency_p50': 146.432,
                    'latency_p99': 593.92, 'latency_p99_9': 3850.24},
    'fio-write': {'iops': 79395.604396, 'latency_mean': 395.488223844,
                  'latency_p99': 2834.432},
    'cyclictest': {'max': 9110, 'p99': 57, 'p99_9': 3343, 'p99_99': 9110,
                   'p99_999': 9110, 'p50': 25, 'samples': 1000},
    'oslat': {'max': 25110, 'p99': 1, 'p99_9': 1, 'p99_99': 1, 'p99_999': 52,
              'p50': 1, 'samples': 21904431},
    # No machine at hand has the tracer; this is the form of its report in
    # rt-tests 2.4.
    'hwlatdetect': {'max': 0, 'samples': 0},
    'sysbench-memory-read': {'moved': 1692.14},
    'sysbench-memory-write': {'moved': 1692.14},
    'stream': {'triad': 2851.8, 'copy': 2050.0, 'scale': 1652.8,
               'add': 3225.9},
    'stream-on-node': {'triad': 2851.8, 'copy': 2050.0, 'scale': 1652.8,
                       'add': 3225.9},
    'iperf3': {'received': 8407.0, 'retransmits': 8},
    # The sums of all streams.
    'iperf3-8': {'received': 4748.0, 'retransmits': 24},
    'iperf3-reverse': {'received': 8334.0, 'retransmits': 1},
    'sockperf': {'p50': 6.826, 'p99': 46.939, 'p99_9': 2158.3,
                 'mean': 13.369},
    'web': {'requests': 1180.34, 'latency_mean': 41.729,
            'latency_p99': 67.312, 'failures': 0},
    'redis': {'set': 63091.48, 'get': 71684.59, 'set_p99': 5.675,
              'get_p99': 4.055},
    'handover': {'median': 5115.5, 'outside': 19654.3, 'inside': 19651.9,
                 'switches': 0.999},
    'lock': {'outside': 417.6, 'inside': 417.6, 'switches': 0.0},
    'sysbench-mutex': {'total': 0.1617},
    'sched-pipe': {'handover': 1873.13},
    'ping-pong': {'handover': 84215.0},
}


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
        self.assertEqual(set(workload_catalogue.shipped()), set(_SEEN))

    @ddt.data(*sorted(_SEEN))
    def test_shipped(self, name):
        text = (OUTPUTS / f'{_LIKE.get(name, name)}.txt').read_text()
        found = figures.read(workload_catalogue.shipped()[name], text,
                             _OUTSIDE_SECONDS)
        self.assertEqual(set(_SEEN[name]), set(found))
        for figure, value in _SEEN[name].items():
            self.assertAlmostEqual(value, found[figure], msg=figure)

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
