# SPDX-License-Identifier: Apache-2.0
"""What is read of packages that are installed."""

import pathlib
from unittest import mock

import ddt
import nova
from nova import version

from minicloud import packages
from minicloud import settings
from nova_pinning.tests.unit.minicloud import minicloud_case


class TestNova(minicloud_case.StateTestCase):

    def write(self, path, text):
        whole = (self.state.venv('2025.1') / 'lib' / 'python3.11' /
                 'site-packages' / 'nova' / path)
        whole.parent.mkdir(parents=True)
        whole.write_text(text)

    def test_oldest(self):
        self.write('virt/libvirt/driver.py', """\
MIN_LIBVIRT_VERSION = (8, 0, 0)
MIN_QEMU_VERSION = (6, 2, 0)
NEXT_MIN_LIBVIRT_VERSION = (10, 0, 0)
""")
        for program, expected in (('LIBVIRT', (8, 0, 0)), ('QEMU', (6, 2, 0))):
            self.assertEqual(
                expected, packages.oldest(self.state, '2025.1', program))

    def test_the_nova_that_is_here(self):
        module = pathlib.Path(nova.__file__).parent
        path = 'virt/libvirt/driver.py'
        self.write(path, (module / path).read_text())
        for program in ('LIBVIRT', 'QEMU'):
            self.assertLess(
                (5, 0), packages.oldest(self.state, '2025.1', program))

    def test_api_has_threads(self):
        path = 'wsgi/osapi_compute.py'
        self.write(path, 'from nova.api.openstack import wsgi_app\n')
        self.assertFalse(packages.api_has_threads(self.state, '2025.1'))

    def test_api_has_threads_here(self):
        module = pathlib.Path(nova.__file__).parent
        path = 'wsgi/osapi_compute.py'
        self.write(path, (module / path).read_text())
        major = int(version.version_string().partition('.')[0])
        self.assertEqual(
            major >= 33, packages.api_has_threads(self.state, '2025.1'))


@ddt.ddt
class TestMissing(minicloud_case.DirectoryTestCase):
    """A machine that has what a test puts there, and nothing else."""

    def setUp(self):
        super().setUp()
        self.patch(packages, '_path', return_value=str(self.directory))
        self.users = self.patch(packages.pwd, 'getpwall', return_value=[])
        self.patch(packages.os.path, 'exists', return_value=True)
        for program in packages.DEBIAN.values():
            if not program.startswith('/'):
                path = self.directory / program
                path.write_text('')
                path.chmod(0o755)

    def with_user(self, name):
        self.users.return_value = [mock.Mock(pw_name=name)]

    def test_libvirtd_of_another_package(self):
        self.with_user('root')
        self.assertEqual(['libvirt-daemon-system'], packages.missing())

    @ddt.data('libvirt-qemu', 'qemu')
    def test_all_are_here(self, name):
        self.with_user(name)
        self.assertEqual([], packages.missing())

    def test_a_program_is_missing(self):
        self.with_user('libvirt-qemu')
        for program in ('virsh', 'qemu-img'):
            (self.directory / program).unlink()
        self.assertEqual(['libvirt-clients', 'qemu-utils'],
                         packages.missing())
        self.assertEqual(['qemu-utils'], packages.missing(
            ['gcc', 'qemu-utils']))


class TestInstalling(minicloud_case.StateTestCase):

    def test_what_pip_is_at(self):
        self.assertEqual('', packages.installing(self.state, '2026.2'))
        log = self.state.log / 'pip-2026.2.log'
        for line, said in (
                ('Looking in links: /wheels', ''),
                ('Collecting nova==34.0.0 (from x)',
                 'package 1, nova==34.0.0'),
                ('  Downloading nova-34.0.0.whl', 'package 1, nova==34.0.0'),
                ('Collecting a', 'package 2, a'),
                ('Installing collected packages: a, nova',
                 'installing 2 packages')):
            with log.open('a') as file:
                print(line, file=file)
            self.assertEqual(said, packages.installing(self.state, '2026.2'))


class TestConstraints(minicloud_case.DirectoryTestCase):

    def test_each_release_has_some(self):
        for release in settings.RELEASES:
            self.assertIn(f'\nnova=={release.major}.', packages.constraints(
                release.name).read_text())
