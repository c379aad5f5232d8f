# SPDX-License-Identifier: Apache-2.0

import fractions
import math
import os
import pathlib
import shutil
import socket
import subprocess
import time

import ddt
import fixtures
import hypothesis
from hypothesis import strategies as st
from oslotest import base as oslotest

from nova_pinning import cpuset
from nova_pinning import errors
from nova_pinning.instance_bench import bench_errors
from nova_pinning.instance_bench import bench_model
from nova_pinning.instance_bench.workloads import command
from nova_pinning.instance_bench.workloads import programs
from nova_pinning.instance_bench.workloads import workload_catalogue
from nova_pinning.tests.unit import unit_base


def workload(**values):
    return bench_model.Workload(
        name='w', workload_class=bench_model.WorkloadClass.CPU, about='',
        command='true', figures=(), **values)


@ddt.ddt
class TestMissing(oslotest.BaseTestCase):

    def path(self, *names):
        """Where only programs of these names are."""
        home = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        for name in names:
            (home / name).touch(0o755)
        return str(home)

    @ddt.data(
        ({'a': 'one', 'b': 'two', 'c': 'one'}, 'abc', ''),
        # Each package once.
        ({'a': 'one', 'b': 'two', 'c': 'one', 'd': 'three one'}, 'b',
         'apt-get install one three'),
        # One of several will do.
        ({'c|b|a': 'x'}, 'a', ''), ({'c|b|a': 'x'}, 'c', ''),
        ({'c|b|a': 'x'}, 'd', 'apt-get install x'))
    @ddt.unpack
    def test_packages(self, needed, there, expected):
        try:
            programs.require('x', needed, self.path(*there))
            said = ''
        except errors.InputError as error:
            said = error.advice.removeprefix('install it with: ')
        self.assertEqual(expected, said)

    def test_require(self):
        needed = {'a': 'one', 'b': 'two'}
        programs.require('all', needed, self.path('a', 'b'))
        error = self.assertRaises(
            errors.InputError, programs.require, 'workload w', needed,
            self.path())
        self.assertEqual(
            'workload w needs what is not installed: one, two; install it '
            'with: apt-get install one two', str(error))


class TestVersions(oslotest.BaseTestCase):

    def setUp(self):
        super().setUp()
        self.root = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        database = self.root / 'var' / 'lib' / 'dpkg'
        for name in ('info', 'updates'):
            (database / name).mkdir(parents=True)
        (database / 'status').write_text('\n'.join(
            f'''Package: {name}
Status: {status}
Maintainer: nobody <nobody@example.org>
Architecture: all
Version: {version}
Description: of {name}
''' for name, status, version in (
                ('one', 'install ok installed', '1.0-1'),
                ('two', 'deinstall ok config-files', '2.0-1'),
                ('three', 'install ok installed', '1:3.0'))))

    def test_of_what_is_installed(self):
        if shutil.which('dpkg-query') is None:
            self.skipTest('needs dpkg-query')
        for asked in (['three', 'two', 'one', 'four'], None):
            self.assertEqual({'one': '1.0-1', 'three': '1:3.0'},
                             programs.versions(asked, self.root))

    def test_nothing_is_asked_of_nothing(self):
        with fixtures.MonkeyPatch('subprocess.run', None):
            self.assertEqual({}, programs.versions([]))

    def test_without_dpkg(self):
        with fixtures.EnvironmentVariable('PATH', str(self.root)):
            self.assertEqual({}, programs.versions(['one'], self.root))

    def test_packages(self):
        self.assertEqual(
            {'one', 'two', 'three', 'gcc', 'libc6-dev'},
            programs.packages(workload(
                programs={'a': 'one', 'b|c': 'two'}, packages=('three',),
                source='x.c', build='cc -o {programs}/x x.c')))


@ddt.ddt
class TestBuild(oslotest.BaseTestCase):

    def setUp(self):
        super().setUp()
        self.directory = pathlib.Path(
            self.useFixture(fixtures.TempDir()).path) / "it's here"
        self.directory.mkdir()

    def test_nothing_to_build(self):
        programs.build(workload(), '/nonexistent')

    def test_source_is_where_it_runs(self):
        programs.build(workload(
            source='mutex.c', build='cp mutex.c {programs}/x; '
            'echo {{}} > {programs}/y'), self.directory)
        self.assertEqual(
            (programs.sources() / 'mutex.c').read_text(),
            (self.directory / 'x').read_text())
        self.assertEqual('{}\n', (self.directory / 'y').read_text())

    @ddt.data(('cc', 'apt-get install gcc libc6-dev'),
              ('mpicc', 'apt-get install libopenmpi-dev gcc'))
    @ddt.unpack
    def test_no_compiler(self, compiler, line):
        self.useFixture(fixtures.EnvironmentVariable(
            'PATH', str(self.directory)))
        error = self.assertRaises(
            errors.InputError, programs.build,
            workload(source='x.c', build=f'{compiler} x.c'), self.directory)
        self.assertEqual(f'install it with: {line}', error.advice)

    @ddt.data(('echo wrong >&2; false; true', 'wrong'),
              ('exit 3', 'status 3'))
    @ddt.unpack
    def test_it_fails(self, build, said):
        error = self.assertRaises(
            bench_errors.WorkloadError, programs.build,
            workload(source='x', build=build), self.directory)
        self.assertEqual(f'the program of workload w cannot be built: {said}',
                         str(error))

    def test_it_hangs(self):
        self.useFixture(fixtures.MockPatchObject(
            programs, '_BUILD_SECONDS', 0.01))
        error = self.assertRaises(
            bench_errors.WorkloadError, programs.build,
            workload(source='x', build='exec sleep 60'), self.directory)
        self.assertIn('longer than 0.01 s', str(error))


@ddt.ddt
class TestPrograms(oslotest.BaseTestCase):
    """What needs no more than a compiler; the rest is tried elsewhere."""

    def built(self, name):
        directory = self.useFixture(fixtures.TempDir()).path
        found = workload_catalogue.shipped()[name]
        try:
            programs.build(found, directory)
        except errors.InputError as error:
            self.skipTest(str(error))
        return pathlib.Path(directory)

    def run_it(self, *words, **environment):
        return subprocess.run(
            list(map(str, words)), text=True, capture_output=True,
            check=False, timeout=60, env={**os.environ, **environment})

    @ddt.data(
        ((), 2, 'usage'), ((0, 1, 0), 2, 'some time'),
        ((1, -1, 0), 2, '1 MiB'), ((1, 100, 300), 1, 'do not fit'))
    @ddt.unpack
    def test_stream_refuses(self, words, status, said):
        done = self.run_it(self.built('stream') / 'stream', *words)
        self.assertEqual(status, done.returncode)
        self.assertIn(said, done.stderr)

    def test_stream(self):
        # It checks its own results.
        done = self.run_it(self.built('stream') / 'stream', 0.01, 1, 8,
                           OMP_NUM_THREADS='3')
        self.assertEqual(0, done.returncode, done.stderr)
        self.assertIn('threads: 3\n', done.stdout)
        self.assertRegex(done.stdout, '(?m)^rounds: [1-9]')

    def mutex(self, how, cpus, processors, *more, reply=None, seconds=0.1):
        """Run it with a peer of ours.

        :param reply: what that answers; the time that passed if None
        """
        with socket.create_server(('127.0.0.1', 0)) as server:
            server.settimeout(60)
            process = subprocess.Popen(
                [self.built('handover') / 'mutex', how, str(seconds),
                 '127.0.0.1', str(server.getsockname()[1]), cpus,
                 str(processors), *map(str, more)], text=True,
                stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            with process, server.accept()[0] as wire:
                file = wire.makefile('rw')
                started = time.monotonic()
                file.write('\n')
                file.flush()
                operations = file.readline()
                seconds = time.monotonic() - started
                file.write(f'{seconds:.9f}\n' if reply is None else reply)
                file.flush()
                wire.shutdown(socket.SHUT_WR)
                stdout, stderr = process.communicate(timeout=60)
        return process.returncode, stdout, stderr, operations, seconds

    def own(self):
        return str(cpuset.CpuSet(os.sched_getaffinity(0)))

    def figures(self, *words):
        """What it prints, by names, and the operations that it told."""
        status, stdout, stderr, operations, seconds = self.mutex(*words)
        self.assertEqual(0, status, stderr)
        found = dict(line.split(': ') for line in stdout.splitlines())
        self.assertEqual(operations.strip(), found['operations'])
        self.assertAlmostEqual(
            seconds / int(operations) * 1e9,
            float(found['outside'].split()[0]), delta=0.06)
        return found

    @ddt.data(1, 2)
    def test_handover(self, processors):
        if len(os.sched_getaffinity(0)) < processors:
            self.skipTest('there is one CPU')
        found = self.figures('handover', self.own(), processors)
        # Each takes a turn of its own, and on one CPU has to have it.
        self.assertEqual(0, int(found['operations']) % 2)
        self.assertGreater(float(found['median'].split()[0]), 0)
        if processors == 1:
            self.assertGreaterEqual(float(found['switches']), 0.99)

    @ddt.data(1, 2)
    def test_lock(self, processors):
        if len(os.sched_getaffinity(0)) < processors:
            self.skipTest('there is one CPU')
        self.assertNotIn('median', self.figures(
            'lock', self.own(), processors, 10, 10))

    @ddt.data('', '0\n', 'x\n')
    def test_mutex_without_a_time(self, reply):
        status, stdout, stderr, *_rest = self.mutex(
            'handover', self.own(), 1, reply=reply)
        self.assertEqual((1, ''), (status, stdout))
        self.assertIn('did not say how long', stderr)

    @ddt.data(('handover',), ('lock', 10, 10))
    @ddt.unpack
    def test_goes_on_until_there_are_enough(self, how, *more):
        """However little a busy machine does within its time."""
        status, _stdout, stderr, operations, _seconds = self.mutex(
            how, self.own(), 1, *more, seconds=0)
        self.assertEqual((0, ''), (status, stderr))
        self.assertGreaterEqual(int(operations), 1000)

    @ddt.data((), (1,), ('handover', 1, '127.0.0.1', 1, '0'),
              ('handover', 1, '127.0.0.1', 1, '0', 3),
              ('handover', 1, '127.0.0.1', 1, '5', 2),
              ('handover', 1, '127.0.0.1', 1, '', 1),
              ('handover', 1, '127.0.0.1', 1, '0', 1, 1, 1),
              ('lock', 1, '127.0.0.1', 1, '0', 1),
              ('other', 1, '127.0.0.1', 1, '0', 1),
              ('handover', 1, 'localhost', 1, '0', 1))
    def test_mutex_refuses(self, words):
        done = self.run_it(self.built('handover') / 'mutex', *words)
        self.assertEqual(2, done.returncode)


class TestMemoryNode(oslotest.BaseTestCase):
    """Which node STREAM's memory is bound to, on this machine."""

    def found(self, memory_node):
        directory = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        fake = directory / 'numactl'
        fake.write_text('#!/bin/sh\necho "$@"\n')
        fake.chmod(0o755)
        workload = workload_catalogue.shipped()['stream-on-node']
        cpus = cpuset.CpuSet(os.sched_getaffinity(0))
        line = command.fill(
            workload.command, command.merge(
                workload, {'memory_node': memory_node}),
            command.InstanceValues(vcpus=1, cpus=cpus, memory_mib=64,
                                   programs='/programs', work='/work'))
        return min(cpus), subprocess.run(
            ['/bin/sh', '-c', line], text=True, capture_output=True,
            env={'PATH': f'{directory}:/usr/bin:/bin'}, timeout=60)

    def test_own(self):
        cpu, done = self.found('own')
        nodes = list(pathlib.Path(
            f'/sys/devices/system/cpu/cpu{cpu}').glob('node*'))
        if not nodes:
            self.skipTest('the kernel knows no NUMA nodes')
        node, = nodes
        self.assertEqual(
            f'--membind={node.name.removeprefix("node")} /programs/stream '
            '10 0 64\n', done.stdout)

    def test_other(self):
        _cpu, done = self.found('other')
        if done.returncode:
            self.assertEqual(('', 'no such NUMA node has memory\n'),
                             (done.stdout, done.stderr))
        else:
            own = self.found('own')[1].stdout
            self.assertNotEqual(own, done.stdout)


@ddt.ddt
class TestPercentiles(oslotest.BaseTestCase):
    """Against all values in order."""

    PROGRAM = programs.sources() / 'percentiles.awk'

    def found(self, text):
        done = subprocess.run(
            ['awk', '-f', str(self.PROGRAM)], input=text, text=True,
            capture_output=True, check=True, timeout=60)
        return {name: int(value) for name, value in (
            line.split(': ') for line in done.stdout.splitlines())}

    def expected(self, values):
        ordered = sorted(values)
        found = {f'p{part}': ordered[
            math.ceil(fractions.Fraction(part) / 100 * len(ordered)) - 1]
            for part in ('50', '99', '99.9', '99.99', '99.999')}
        return {**found, 'max': ordered[-1], 'samples': len(ordered)}

    @unit_base.settings(20)
    @hypothesis.given(counts=st.lists(
        st.tuples(st.integers(0, 900), st.integers(0, 900)), min_size=1,
        max_size=9).filter(lambda counts: any(map(any, counts))),
        has_longer=st.booleans())
    def test_as_both_print_it(self, counts, has_longer):
        values = [us for us, both in enumerate(counts)
                  for _one in range(sum(both))]
        if has_longer:
            values.append(20000)
        longest = max(values)
        cyclictest = ''.join(
            f'{us:06} {a:06}\t{b:06}\n' for us, (a, b) in enumerate(counts))
        self.assertEqual(self.expected(values), self.found(
            f'# Histogram\n{cyclictest}# Total: 000001 000002\n'
            f'# Max Latencies: {longest:05} 00000\n'
            f'# Histogram Overflows: {has_longer:05} 00000\n'))
        oslat = ''.join(
            f'    {us:03} (us):\t {a} {b}\n'
            for us, (a, b) in enumerate(counts))
        self.assertEqual(self.expected(values), self.found(
            f'        Core:\t 0 1\n{oslat}    1024 (us):\t '
            f'{int(has_longer)} 0 (including overflows)\n'
            f'     Minimum:\t 0 0 (us)\n     Maximum:\t {longest} 0 (us)\n'
            f'     Max-Min:\t 99999 0 (us)\n'))

    def test_nothing(self):
        done = subprocess.run(
            ['awk', '-f', str(self.PROGRAM)], input='x\n', text=True,
            capture_output=True, check=False, timeout=60)
        self.assertEqual((1, ''), (done.returncode, done.stdout))
