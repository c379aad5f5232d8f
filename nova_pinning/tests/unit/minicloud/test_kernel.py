# SPDX-License-Identifier: Apache-2.0

import pathlib
from unittest import mock

from minicloud import errors
from minicloud import kernel
from minicloud import process
from nova_pinning.tests.unit.minicloud import minicloud_case

KERNEL = 'linux-image-6.1.0-9-amd64'


class Apt:
    """The commands that the kernel is fetched with.

    :ivar calls: list of str, the programs that were run
    :ivar prefix: where the packages' files are
    :ivar fails: program that ends with status 1
    :ivar missing: program that is not there
    """

    depends = f'linux-image-amd64\n  Depends: {KERNEL}\n'

    def __init__(self, prefix=''):
        self.prefix = prefix
        self.calls = []
        self.fails = self.missing = ''

    def run(self, command, cwd=None, **_):
        program = pathlib.PurePath(command[0]).name
        self.calls.append(program)
        if program == self.missing:
            raise FileNotFoundError(program)
        if program == self.fails:
            return mock.Mock(returncode=1, stdout='E: no such thing')
        method = getattr(self, program.replace('-', '_'))
        return mock.Mock(returncode=0, stdout=method(command, cwd) or '')

    def apt_cache(self, command, cwd):
        return self.depends

    def apt_get(self, command, cwd):
        for package in command[command.index('download') + 1:]:
            (cwd / f'{package}_1_amd64.deb').write_text(package)

    def dpkg_deb(self, command, cwd):
        package, root = map(pathlib.Path, command[-2:])
        name = package.read_text()
        paths = {KERNEL: ['boot/vmlinuz-6.1.0-9-amd64',
                          f'{self.prefix}lib/modules/6.1.0-9-amd64/x.ko'],
                 kernel.BUSYBOX_PACKAGE: [f'{self.prefix}bin/busybox']}[name]
        for path in paths:
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(name)

    def busybox(self, command, cwd):
        assert command[1:3] == ['depmod', '-b'], command
        base, release = command[3:]
        (pathlib.Path(base) / 'lib/modules' / release
         / 'modules.dep').write_text('x.ko:\n')


class TestKernel(minicloud_case.StateTestCase):

    def setUp(self):
        super().setUp()
        self.use(Apt())

    def use(self, apt):
        self.apt = apt
        self.patch(process.subprocess, 'run', new=apt.run)

    def assert_all_there(self):
        self.assertEqual(KERNEL, kernel.boot_image(self.state).read_text())
        self.assertEqual(kernel.BUSYBOX_PACKAGE,
                         kernel.busybox(self.state).read_text())
        modules = kernel.modules_dir(self.state)
        self.assertEqual('6.1.0-9-amd64', modules.name)
        self.assertTrue((modules / 'modules.dep').exists())
        self.assertTrue((modules / 'x.ko').exists())

    def test_packages_of_debian_12(self):
        self.assert_all_there()

    def test_packages_of_debian_13(self):
        self.use(Apt('usr/'))
        self.assert_all_there()

    def test_fetched_once(self):
        self.assert_all_there()
        self.assertEqual(1, self.apt.calls.count('apt-get'))
        self.apt.missing = 'apt-get'
        self.assert_all_there()

    def test_nothing_half_made_is_left(self):
        for program in ('apt-cache', 'apt-get', 'dpkg-deb', 'busybox'):
            for way in ('fails', 'missing'):
                apt = Apt()
                setattr(apt, way, program)
                self.use(apt)
                failure = self.assertRaises(
                    errors.MiniCloudError, kernel.boot_image, self.state)
                self.assertIn(program, failure.problem)
                self.assertTrue(failure.remedy)
                self.assertEqual([], list(self.state.cache.iterdir()))
        self.use(Apt())
        self.assert_all_there()

    def test_what_apt_says_is_shown(self):
        self.apt.fails = 'apt-get'
        failure = self.assertRaises(
            errors.MiniCloudError, kernel.boot_image, self.state)
        self.assertIn('E: no such thing', str(failure))

    def test_apt_knows_no_kernel(self):
        self.apt.depends = 'linux-image-amd64\n'
        failure = self.assertRaises(
            errors.MiniCloudError, kernel.boot_image, self.state)
        self.assertIn('apt-get update', failure.remedy)
