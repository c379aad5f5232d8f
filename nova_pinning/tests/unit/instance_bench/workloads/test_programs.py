# SPDX-License-Identifier: Apache-2.0

import os
import pathlib
import shutil
import subprocess

import ddt
import fixtures
from oslotest import base as oslotest

from nova_pinning import errors
from nova_pinning.instance_bench import bench_errors
from nova_pinning.instance_bench import bench_model
from nova_pinning.instance_bench.workloads import programs
from nova_pinning.instance_bench.workloads import workload_catalogue


def workload(**values):
    return bench_model.Workload(
        name='w', workload_class=bench_model.WorkloadClass.CPU, about='',
        command='true', figures=(), **values)


class TestMissing(oslotest.BaseTestCase):

    def test_each_package_once(self):
        found = workload(programs={
            'a': 'one', 'b': 'two', 'c': 'one', 'd': 'three'})
        self.assertEqual((), programs.missing(found, lambda name: name))
        self.assertEqual(
            ('one', 'three'),
            programs.missing(found, lambda name: 'b' if name == 'b' else None))

    def test_one_of_several_will_do(self):
        found = workload(programs={'x9|x8|x': 'x'})
        for there in ('x9', 'x8', 'x'):
            self.assertEqual((), programs.missing(
                found, {there: '/usr/bin/x'}.get))
        self.assertEqual(('x',), programs.missing(found, {}.get))

    def test_require(self):
        found = workload(programs={'a': 'one', 'b': 'two'})
        programs.require(found, lambda name: name)
        error = self.assertRaises(
            errors.InputError, programs.require, found, {}.get)
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
        self.assertEqual(
            {'one': '1.0-1', 'three': '1:3.0'},
            programs.versions(['three', 'two', 'one', 'four'], self.root))

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

    def test_it_fails(self):
        error = self.assertRaises(
            bench_errors.WorkloadError, programs.build,
            workload(source='x', build='echo wrong >&2; false; true'),
            self.directory)
        self.assertEqual('the program of workload w cannot be built: wrong',
                         str(error))

    def test_it_says_nothing(self):
        error = self.assertRaises(
            bench_errors.WorkloadError, programs.build,
            workload(source='x', build='exit 3'), self.directory)
        self.assertIn('status 3', str(error))

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
        ((), 2, 'usage'), ((0, 1, 0), 2, '2 repetitions'),
        ((-1, 2, 0), 2, '1 MiB'), ((100, 2, 300), 1, 'do not fit'))
    @ddt.unpack
    def test_stream_refuses(self, words, status, said):
        done = self.run_it(self.built('stream') / 'stream', *words)
        self.assertEqual(status, done.returncode)
        self.assertIn(said, done.stderr)

    def test_stream(self):
        done = self.run_it(self.built('stream') / 'stream', 1, 2, 8,
                           OMP_NUM_THREADS='3')
        self.assertEqual(0, done.returncode, done.stderr)
        self.assertIn('threads: 3\n', done.stdout)
        self.assertIn('results are right', done.stdout)

    @ddt.data((), (1,), ('x', 0), (10, -1), (10, '0x'), (1, 0, 0, 0))
    def test_mutex_refuses(self, words):
        done = self.run_it(self.built('mutex-up') / 'mutex', *words)
        self.assertEqual(2, done.returncode)

    def test_mutex_without_the_cpu(self):
        done = self.run_it(self.built('mutex-up') / 'mutex', 1, 4095)
        self.assertEqual(1, done.returncode)
        self.assertIn('cannot run on CPU 4095', done.stderr)

    def test_mutex(self):
        cpu = min(os.sched_getaffinity(0))
        done = self.run_it(self.built('mutex-smp') / 'mutex', 500, cpu, cpu)
        self.assertEqual(0, done.returncode, done.stderr)
        self.assertIn('rounds: 1000\n', done.stdout)
