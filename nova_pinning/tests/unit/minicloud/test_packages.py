# SPDX-License-Identifier: Apache-2.0
"""What has to be installed."""

from unittest import mock

import ddt

from minicloud import packages
from minicloud import settings
from nova_pinning.tests.unit.minicloud import minicloud_case


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


class TestConstraints(minicloud_case.DirectoryTestCase):

    def test_each_release_has_some(self):
        for release in settings.RELEASES:
            self.assertIn(f'\nnova=={release.major}.', packages.constraints(
                release.name).read_text())
