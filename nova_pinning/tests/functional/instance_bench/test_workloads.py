# SPDX-License-Identifier: Apache-2.0
"""Every workload that ships, run for a moment, and its real output read."""

import os
import pathlib
import signal
import socket
import subprocess
import time

import ddt
import fixtures
from oslotest import base

from nova_pinning import cpuset
from nova_pinning.instance_bench.workloads import command
from nova_pinning.instance_bench.workloads import figures
from nova_pinning.instance_bench.workloads import programs
from nova_pinning.instance_bench.workloads import workload_catalogue

_COMMAND_SECONDS = 60
# What makes each of them short, by name.
_SHORT = {
    'sysbench-cpu': {'duration': 1},
    'sysbench-cpu-fixed': {'max_prime': 2000, 'events': 2000},
    'bursts': {'longest': 1, 'duration': 2},
    'sysbench-memory-read': {'duration': 1},
    'sysbench-memory-write': {'duration': 1, 'block_kib': 4},
    'stream': {'array_mib': 8, 'best_of': 3},
    'mutex-up': {'rounds': 1_000_000},
    'mutex-smp': {'rounds': 1_000_000},
    'cyclictest': {'duration': 1},
    'iperf3': {'duration': 1},
    'iperf3-8': {'duration': 1},
    'fio-read': {'duration': 1, 'size_mib': 8},
    'fio-write': {'duration': 1, 'size_mib': 8},
    'ffmpeg': {'duration': 2, 'frame': '320x240'},
    'ffmpeg-pieces': {'duration': 2, 'frame': '320x240', 'at_once': 2},
    'mpi-primes': {'below': 300_000},
    'mpi-search': {'numbers': 10_000, 'rounds': 100},
    'web': {'users': 50, 'duration': 2},
    'redis': {'requests': 10_000},
    'cassandra': {'operations': 1000},
}
# Figures that may well be nothing.
_MAY_BE_ZERO = {'handovers', 'retransmits', 'failures'}


@ddt.ddt
class TestWorkloads(base.BaseTestCase):

    def setUp(self):
        super().setUp()
        self.directory = pathlib.Path(
            self.useFixture(fixtures.TempDir()).path)
        self.environment = dict(os.environ)
        self.values = command.InstanceValues(
            vcpus=2, cpus=cpuset.CpuSet(os.sched_getaffinity(0)),
            memory_mib=1024, programs=self.make('programs'),
            work=self.make('work'), peer='127.0.0.1')

    def make(self, name):
        path = self.directory / name
        path.mkdir()
        return str(path)

    def start(self, line):
        process = subprocess.Popen(
            ['/bin/sh', '-c', line], text=True, start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, env=self.environment)
        self.addCleanup(self.end, process)
        return process

    def end(self, process):
        with process:
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass

    def run_line(self, line):
        """Run a command to its end; returns what it printed."""
        process = self.start(line)
        stdout, stderr = process.communicate(timeout=_COMMAND_SECONDS)
        self.assertEqual(0, process.returncode, f'{line}\n{stdout}\n{stderr}')
        return stdout

    def prepared(self, name, **parameters):
        """A workload that can be run, and its parameters."""
        workload = workload_catalogue.shipped()[name]
        missing = programs.missing(workload)
        if missing:
            self.skipTest(f'not installed: {", ".join(missing)}')
        if len(self.values.cpus) < 2 and '{cpu1}' in workload.command:
            self.skipTest('there is one CPU')
        programs.build(workload, self.values.programs)
        merged = command.merge(workload, {**_SHORT[name], **parameters})
        if 'port' in merged:
            merged['port'] = self.free_port()
        for line in workload.prepare:
            self.run_line(command.fill(line, merged, self.values))
        return workload, merged

    def free_port(self):
        with socket.socket() as free:
            free.bind(('127.0.0.1', 0))
            return free.getsockname()[1]

    def measure(self, name, **parameters):
        workload, merged = self.prepared(name, **parameters)
        if workload.peer:
            self.start(command.fill(workload.peer, merged, self.values))
        start = time.monotonic()
        stdout = self.run_line(
            command.fill(workload.command, merged, self.values))
        return figures.read(workload, stdout, time.monotonic() - start)

    def test_all_are_tried(self):
        self.assertEqual(set(_SHORT), set(workload_catalogue.shipped()))

    @ddt.data(*sorted(set(_SHORT) - {'cassandra'}))
    def test_figures(self, name):
        found = self.measure(name)
        for figure, value in found.items():
            if figure not in _MAY_BE_ZERO:
                self.assertGreater(value, 0, f'{name}: {figure}')

    def test_cassandra(self):
        with socket.socket() as there:
            if there.connect_ex(('127.0.0.1', 9042)):
                self.skipTest('no Cassandra runs here')
        found = self.measure('cassandra')
        self.assertGreater(found['operations'], 0)

    def test_pieces(self):
        """Each piece becomes a job, and each job a video."""
        self.measure('ffmpeg-pieces', duration=3)
        made = sorted(pathlib.Path(self.values.work).glob('piece-*.out'))
        self.assertEqual(3, len(made))
        for path in made:
            self.assertGreater(path.stat().st_size, 1000)

    def test_web_page(self):
        """The page of our own, where WordPress is there too."""
        found = self.measure('web', site='page')
        self.assertGreater(found['requests'], 0)
        self.assertEqual(0, found['failures'])

    @ddt.data(
        ('web', {'site': 'page', 'duration': 50}, 'wrk'),
        ('redis', {'requests': 10 ** 9}, 'redis-benchmark'))
    @ddt.unpack
    def test_servers_end(self, name, parameters, last):
        """Whatever becomes of the script, its servers go too."""
        workload, merged = self.prepared(name, **parameters)
        for how in (signal.SIGTERM, signal.SIGKILL):
            process = self.start('exec ' + command.fill(
                workload.command, merged, self.values))
            self.wait_for(lambda p=process: last in self.descendants(p))
            self.check_others_are_kept_out(name)
            process.send_signal(how)
            # Load tools are not servers, and go with their group.
            self.wait_for(
                lambda p=process: not self.descendants(p) - {last})
            self.end(process)
            for path in pathlib.Path(self.values.work).iterdir():
                if path.suffix == '.sock':
                    # A thread of the server can outlive its first one.
                    self.wait_for(
                        lambda path=path: not self.is_answered(path))

    def check_others_are_kept_out(self, name):
        """Servers have no passwords, and as root they are root."""
        work = pathlib.Path(self.values.work)
        if name == 'web':
            self.assertEqual(0o700, work.stat().st_mode & 0o777)
            return
        for words in ('config get dir', 'module list', 'save',
                      'replicaof 127.0.0.1 1'):
            said = self.run_line(f'redis-cli -s {work}/redis.sock {words}')
            self.assertIn('unknown command', said)

    def descendants(self, process):
        """The names of the processes of a session."""
        found = set()
        for stat in pathlib.Path('/proc').glob('[0-9]*/stat'):
            try:
                text = stat.read_text()
            except (FileNotFoundError, ProcessLookupError):
                continue
            name, rest = text.split('(', 1)[1].rsplit(') ', 1)
            state, _parent, _group, session = rest.split()[:4]
            if session == str(process.pid) and state != 'Z':
                found.add(name)
        return found

    def wait_for(self, condition):
        deadline = time.monotonic() + _COMMAND_SECONDS
        while not condition():
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.05)

    def is_answered(self, path):
        with socket.socket(socket.AF_UNIX) as client:
            return client.connect_ex(str(path)) == 0
