# SPDX-License-Identifier: Apache-2.0
"""Every workload that ships, run for a moment, and its real output read."""

import os
import pathlib
import re
import signal
import subprocess
import time

import ddt
import fixtures
from oslotest import base

from nova_pinning import cpuset
from nova_pinning import errors
from nova_pinning.instance_bench.workloads import command
from nova_pinning.instance_bench.workloads import figures
from nova_pinning.instance_bench.workloads import programs
from nova_pinning.instance_bench.workloads import workload_catalogue
from nova_pinning.tests import forms
from nova_pinning.tests import ports

_COMMAND_SECONDS = 60
# What makes each of them short, by name, beside a duration of a second.
_SHORT = {
    'stream-on-node': {'array_mib': 8},
    'sysbench-cpu-fixed': {'max_prime': 2000, 'events': 2000},
    'sysbench-memory-write': {'block_kib': 4},
    'stream': {'array_mib': 8},
    'fio-read': {'size_mib': 8},
    'fio-latency': {'size_mib': 8},
    'fio-write': {'size_mib': 8},
    'ffmpeg': {'frame': '320x240', 'duration': 2},
    'ffmpeg-30': {'frame': '160x120', 'jobs': 3, 'duration': 4},
    'stress-disk': {'size_mib': 8},
    'stress-memory': {'buffer_mib': 8},
    'web': {'users': 50},
    'sysbench-mutex': {'locks': 100000},
}
# Figures that may well be nothing.
_MAY_BE_ZERO = {'retransmits', 'failures', 'samples', 'switches'}
# Names of processes that show that a workload is under way.
_UNDER_WAY = {
    'web': 'nginx', 'redis': 'redis-server', 'handover': 'mutex',
    'iperf3': 'iperf3', 'sockperf': 'sockperf', 'fio-write': 'fio',
    'ffmpeg': 'ffmpeg', 'mpi-search': 'mpi', 'stress-disk': 'stress-ng-hdd',
    'sched-pipe': 'sched-pipe',
    'ping-pong': 'sockperf',
}


@ddt.ddt
class TestWorkloads(base.BaseTestCase):

    def setUp(self):
        super().setUp()
        self.directory = pathlib.Path(
            self.useFixture(fixtures.TempDir()).path)
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
            stderr=subprocess.PIPE, cwd=self.directory)
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
        return self.printed(line, self.start(line))

    def printed(self, line, process):
        """What the process of a command has printed when it ends."""
        stdout, stderr = process.communicate(timeout=_COMMAND_SECONDS)
        self.assertEqual(0, process.returncode, f'{line}\n{stdout}\n{stderr}')
        # sockperf says so of a second in which it was hardly ever on a CPU.
        if re.search('No valid observations|No messages were received',
                     stdout):
            return self.run_line(line)
        return stdout

    def prepared(self, name, **parameters):
        """A workload that can be run, and its parameters."""
        workload = workload_catalogue.shipped()[name]
        try:
            programs.require(
                name, {**workload.programs, **workload.peer_programs})
        except errors.InputError as error:
            self.skipTest(str(error))
        if len(self.values.cpus) < 2 and ('{cpu1}' in workload.command
                                          or 'processors' in parameters):
            self.skipTest('there is one CPU')
        programs.build(workload, self.values.programs)
        short = {'duration': 1} if 'duration' in workload.parameters else {}
        merged = command.merge(
            workload, {**short, **_SHORT.get(name, {}), **parameters})
        if 'port' in merged:
            merged['port'] = ports.free()
        for line in workload.prepare:
            self.run_line(command.fill(line, merged, self.values))
        return workload, merged

    def with_peer(self, name, **parameters):
        """The command of a workload whose peer runs."""
        workload, merged = self.prepared(name, **parameters)
        if workload.peer:
            self.start(command.fill(workload.peer, merged, self.values))
        return workload, command.fill(workload.command, merged, self.values)

    def measure_line(self, workload, line):
        start = time.monotonic()
        stdout = self.run_line(line)
        keep = os.environ.get('NOVA_PINNING_KEEP_OUTPUTS')
        if keep:
            pathlib.Path(keep, f'{workload.name}.txt').write_text(stdout)
        found = figures.read(workload, stdout, time.monotonic() - start)
        for figure, value in found.items():
            if figure not in _MAY_BE_ZERO:
                self.assertGreater(value, 0, f'{workload.name}: {figure}')
        return found

    def measure(self, name, **parameters):
        return self.measure_line(*self.with_peer(name, **parameters))

    @ddt.data(*sorted(set(workload_catalogue.shipped()) - {'hwlatdetect'}))
    def test_figures(self, name):
        """Also a second time, in the same directory.

        In CI only where test_killed does not go through that.
        """
        workload, line = self.with_peer(name)
        for _time in range(1 if forms.SHORT and name in _UNDER_WAY else 2):
            self.measure_line(workload, line)

    def test_hwlatdetect(self):
        workload, line = self.with_peer('hwlatdetect')
        tracing = pathlib.Path('/sys/kernel/tracing/available_tracers')
        if tracing.exists() and 'hwlat' in tracing.read_text().split():
            self.measure_line(workload, line)
            return
        process = self.start(line)
        self.assertIn('CONFIG_HWLAT_TRACER', process.communicate()[1])
        self.assertNotEqual(0, process.returncode)

    @ddt.data('handover', 'redis', 'sockperf', 'stress-network', 'web')
    def test_several_at_a_time(self, name):
        """Two instances share a peer; here also the network."""
        workload, line = self.with_peer(name, duration=1)
        lines = [line.replace(self.values.work, self.make(f'work-{number}'))
                 for number in range(2)]
        for line, process in [(line, self.start(line)) for line in lines]:
            figures.read(workload, self.printed(line, process), 1)

    @ddt.data(*sorted(_UNDER_WAY))
    def test_killed(self, name):
        """What is killed leaves nothing that runs, or is in the way."""
        workload, line = self.with_peer(name)
        for how in (signal.SIGTERM, signal.SIGKILL):
            process = self.under_way(name, line)
            os.killpg(process.pid, how)
            self.wait_for(lambda p=process: not self.descendants(p))
        self.measure_line(workload, line)

    def test_ranks_end_with_their_mpirun(self):
        """Also before they know each other; here a shell takes its place."""
        self.prepared('mpi-search')
        shell = self.start(
            'OMPI_MCA_ess_singleton_isolated=1 '
            f'{self.values.programs}/mpi search 500 & echo $!; wait')
        rank = shell.stdout.readline().strip()
        # MPI has threads of its own as soon as it is set up.
        self.wait_for(lambda: len(os.listdir(f'/proc/{rank}/task')) > 1)
        shell.send_signal(signal.SIGKILL)
        self.wait_for(lambda: not self.descendants(shell))

    @ddt.data('web', 'redis')
    def test_servers_end(self, name):
        """They go with their script, also if that has no time for it."""
        _workload, line = self.with_peer(name, duration=50)
        process = self.start(line.replace(' && ', ' && exec ', 1))
        self.wait_for(
            lambda: _UNDER_WAY[name] in self.descendants(process))
        process.send_signal(signal.SIGKILL)
        self.wait_for(lambda: not self.descendants(process) - {'cat'})

    def test_a_server_that_does_not_start_gets_another_port(self):
        workload, line = self.with_peer('sockperf')
        self.measure_line(workload, line.replace(
            'exec sockperf', 'mkdir tried || exec sockperf', 1))

    def test_redis_has_no_password(self):
        """So it has no commands that would be the worse for it."""
        workload, _merged = self.prepared('redis')
        port = ports.free()
        _head, server = workload.command.split('sh -c', 1)
        process = self.start(
            f'cd {self.values.work}; export ADDRESS=127.0.0.1 PORT={port}; '
            f'exec sh -c{server}')
        self.wait_for(lambda: not self.status(f'redis-cli -p {port} ping'))
        for words in ('config get dir', 'module list', 'save',
                      'replicaof 127.0.0.1 1'):
            said = self.run_line(f'redis-cli -p {port} {words}')
            self.assertIn('unknown command', said)
        self.assertIsNone(process.poll())

    def test_device_with_a_file_system(self):
        disk = self.directory / 'disk'
        with disk.open('wb') as file:
            file.truncate(8 << 20)
        if self.status(f'mke2fs -q -F {disk}'):
            self.skipTest('needs mke2fs')
        workload = workload_catalogue.shipped()['fio-read']
        line = command.fill(workload.prepare[0], command.merge(
            workload, {'device': str(disk)}), self.values)
        process = self.start(line)
        self.assertIn('has a file system', process.communicate()[1])
        self.assertEqual(1, process.returncode)
        self.run_line(f'wipefs --quiet --all {disk}')
        self.measure('fio-read', device=str(disk))

    def status(self, line):
        return subprocess.run(
            ['/bin/sh', '-c', line], stdin=subprocess.DEVNULL,
            capture_output=True, check=False).returncode

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

    def under_way(self, name, line):
        """The process of a command that runs what it is for.

        On a busy machine it may have ended before anybody looks.
        """
        deadline = time.monotonic() + _COMMAND_SECONDS
        process = self.start(line)
        while _UNDER_WAY[name] not in self.descendants(process):
            self.assertLess(time.monotonic(), deadline)
            if process.poll() is not None:
                self.assertEqual(0, process.returncode)
                process = self.start(line)
            time.sleep(0.05)
        return process

    def wait_for(self, condition):
        deadline = time.monotonic() + _COMMAND_SECONDS
        while not condition():
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.05)
