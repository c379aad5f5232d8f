# SPDX-License-Identifier: Apache-2.0

import contextlib
import os
import pathlib
import subprocess
from unittest import mock

import ddt
import fixtures
import testtools

from nova_pinning import errors
from nova_pinning.instance_bench.image import build
from nova_pinning.instance_bench.image import image_root
from nova_pinning.instance_bench import image_manifest
from nova_pinning.instance_bench.workloads import workload_catalogue
from nova_pinning.instance_bench import workspace

MADE = image_manifest.Manifest(
    suite='bookworm', kernel='6.1',
    workloads=('stream',), packages={'dpkg': '1'})


@ddt.ddt
class ManifestTestCase(testtools.TestCase):

    def setUp(self):
        super().setUp()
        self.home = pathlib.Path(self.useFixture(fixtures.TempDir()).path)

    def test_read(self):
        (self.home / 'manifest.json').write_text(image_manifest.as_text(MADE))
        self.assertEqual(MADE, image_manifest.read(self.home))

    def test_of_one_from_before(self):
        text = image_manifest.as_text(MADE).replace(
            '"suite"', '"ssh": true, "architecture": "amd64", "size_gib": 8, '
            '"programs": {"x": "ab"}, "suite"')
        (self.home / 'manifest.json').write_text(text)
        self.assertEqual(MADE, image_manifest.read(self.home))

    @ddt.data('', '[]', '{}', '{"version": 2}', '{"version": 1}',
              '{"version": 1, "workloads": [], "other": 1}')
    def test_other_text(self, text):
        (self.home / 'manifest.json').write_text(text)
        error = self.assertRaises(
            errors.InputError, image_manifest.read, self.home)
        self.assertIn('bench run --image', error.advice)

    def test_absent(self):
        self.assertRaises(errors.InputError, image_manifest.read, self.home)


@ddt.ddt
class RootTestCase(testtools.TestCase):

    def setUp(self):
        super().setUp()
        self.home = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        for name in ('etc', 'sbin', 'root'):
            (self.home / name).mkdir()

    def test_packages(self):
        found = image_root.packages(
            [workload_catalogue.shipped()['sysbench-cpu']])
        self.assertIn('sysbench', found)
        self.assertIn('qemu-guest-agent', found)
        self.assertEqual(sorted(set(found)), list(found))

    @ddt.data(
        ('deb http://a/ bookworm main', True),
        ('Suites: bookworm bookworm-updates', True),
        ('Suites: bookworm-updates', False),
        ('# deb http://a/ bookworm main', False),
        ('Suites: nodistro', False),
    )
    @ddt.unpack
    def test_sources(self, text, is_wanted):
        path = pathlib.Path('/etc/apt/sources.list')
        self.assertEqual([str(path)] if is_wanted else [],
                         image_root.sources({path: text}, 'bookworm'))

    def test_apt_options(self):
        self.assertEqual(
            'Acquire::http::Proxy "p";\nAcquire::Check-Valid-Until "false";\n',
            image_root.apt_options('APT::Architecture "amd64";\n'
                                   'Acquire::http::Proxy "p";\n'
                                   'Acquire::Check-Valid-Until "false";\n'
                                   'Acquire::Languages "none";\n'))

    def test_place_own(self):
        home = self.home
        image_root.place_own(home)
        self.assertTrue(os.access(home / image_root.HOME / 'boot', os.X_OK))
        self.assertEqual('/bin/busybox', os.readlink(home / 'sbin/init'))

    def test_links_do_not_lead_out_of_the_root(self):
        home = self.home
        outside = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        links = ('sbin/shutdown', 'sbin/init', 'etc/inittab')
        for name in links:
            target = outside / pathlib.Path(name).name
            target.write_text('of the host')
            (home / name).symlink_to(target)
        image_root.place_own(home)
        for path in outside.iterdir():
            self.assertEqual('of the host', path.read_text())
        self.assertFalse((home / 'sbin/shutdown').is_symlink())


class BuildTestCase(testtools.TestCase):

    def setUp(self):
        super().setUp()
        self.home = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        self.output = self.home / 'image'
        for name, fake in (('_debian', self.debian), ('_fill', self.fill),
                           ('_make_disk', self.make),
                           ('run', self.run_command)):
            self.useFixture(fixtures.MockPatchObject(build, name, fake))
        self.fault = None

    def debian(self, suite, workloads, target, work, tell):
        (target / 'boot').mkdir(parents=True)
        for name in ('vmlinuz', 'initrd'):
            (target / 'boot' / name).write_text(name)

    def fill(self, suite, workloads, target):
        return MADE

    def run_command(self, *arguments):
        pass

    def make(self, source, target, work):
        if self.fault:
            raise self.fault
        target.write_text('disk')

    def build(self):
        return build.build_image((), self.output, lambda text: None)

    def names(self, path):
        return sorted(one.name for one in path.iterdir())

    def test_build(self):
        self.addCleanup(os.umask, os.umask(0o022))
        self.assertEqual(MADE, self.build())
        self.assertEqual(
            ['disk.qcow2', 'initrd', 'manifest.json', 'vmlinuz'],
            self.names(self.output))
        self.assertEqual(['image'], self.names(self.home))
        self.assertEqual(0o755, self.output.stat().st_mode & 0o777)

    def test_in_a_directory_that_is_there(self):
        self.output.mkdir()
        self.assertEqual(MADE, self.build())
        self.assertIn('disk.qcow2', self.names(self.output))

    def test_nothing_half_written(self):
        for fault in (KeyboardInterrupt(), OSError(28, 'No space left'),
                      errors.InputError('x')):
            self.fault = fault
            self.assertRaises(type(fault), self.build)
            self.assertEqual([], self.names(self.home))

    def test_what_was_left_is_cleared_away(self):
        # It is left as when its process is killed.
        with workspace.temporary(lambda path: None, self.home) as draft:
            (draft / 'root').mkdir()
            workspace.clear_left_over(workspace.remove, self.home)
            self.assertTrue(draft.exists())
        self.build()
        self.assertEqual(['image'], self.names(self.home))

    def check(self, absent=()):
        with contextlib.ExitStack() as stack:
            stack.enter_context(mock.patch.object(
                build.shutil, 'which',
                lambda tool, path: None if tool in absent else tool))
            stack.enter_context(mock.patch.object(
                build.os, 'geteuid', lambda: 0))
            build.check(self.output)

    def test_check(self):
        self.check()
        error = self.assertRaises(
            errors.InputError, self.check, ('mke2fs', 'mmdebstrap'))
        self.assertEqual('install it with: apt-get install mmdebstrap '
                         'e2fsprogs', error.advice)
        self.output.mkdir()
        self.check()
        (self.output / 'mine').touch()
        self.assertRaises(errors.InputError, self.check)


class RunTestCase(testtools.TestCase):

    def test_steps(self):
        told = []
        build.run(['sh', '-c', 'echo other; echo "I: extracting..."'],
                  told.append)
        self.assertEqual(['extracting'], told)

    def test_last_words(self):
        error = self.assertRaises(
            errors.InputError, build.run,
            ['sh', '-c', 'seq 100; echo no room >&2; exit 3'])
        self.assertIn('status 3', str(error))
        self.assertIn('no room', str(error))
        self.assertNotIn('\n50\n', str(error))

    def test_interrupted(self):
        started = []

        def interrupt(text):
            started.append(int(text))
            raise KeyboardInterrupt

        self.assertRaises(
            KeyboardInterrupt, build.run,
            ['sh', '-c', 'echo "I: $$"; sleep 1000 & wait'], interrupt)
        self.assertRaises(ProcessLookupError, os.kill, started[0], 0)

    def test_make_initrd_is_sh(self):
        own = pathlib.Path(build.__file__).parent / 'guest'
        for name in ('boot', 'agent', 'initrd-init', 'make-initrd',
                     'shutdown'):
            subprocess.run(['sh', '-n', own / name], check=True)
