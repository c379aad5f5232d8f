# SPDX-License-Identifier: Apache-2.0
"""One run at a time, between processes that end as they like."""

import os
import pathlib
import subprocess
import sys

import fixtures

from nova_pinning import errors
from nova_pinning.instance_bench import exclusive_run
from nova_pinning.instance_bench import workspace
from nova_pinning.tests import namespaces
from nova_pinning.tests.unit import unit_base

_HOLDER = '''
import pathlib
import sys
from nova_pinning.instance_bench import exclusive_run
from nova_pinning.instance_bench import workspace
workspace.PARENT = pathlib.Path(sys.argv[1])
with exclusive_run.measuring():
    print('it is mine', flush=True)
    sys.stdin.read()
'''

_OWN_RUN = '''
mount -t tmpfs -o mode=755 none /run && mkdir -m 755 /run/lock &&
exec "$0" "$@"
'''


class ExclusiveRunTestCase(unit_base.TestCase):

    def setUp(self):
        super().setUp()
        directory = self.useFixture(fixtures.TempDir()).path
        self.path = pathlib.Path(directory, 'tmp')
        # As /var/tmp is, in one that others may pass.
        self.path.mkdir()
        self.path.chmod(0o1777)
        os.chmod(directory, 0o711)
        os.chmod(os.path.dirname(directory), 0o711)
        self.useFixture(fixtures.MockPatchObject(
            workspace, 'PARENT', self.path))

    def hold(self, *before):
        held = subprocess.Popen(
            [*before, sys.executable, '-c', _HOLDER, str(self.path)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.addCleanup(held.communicate)
        self.addCleanup(held.kill)
        self.assertEqual(b'it is mine\n', held.stdout.readline())
        return held

    def refused(self):
        def measure():
            with exclusive_run.measuring():
                pass
        return str(self.assertRaises(errors.InputError, measure))

    def test_one_after_the_other(self):
        for _number in range(2):
            with exclusive_run.measuring():
                self.assertIn(f'{self.path}: is locked', self.refused())

    def test_one_that_was_killed_holds_nothing(self):
        held = self.hold()
        self.refused()

        held.kill()
        held.wait()

        with exclusive_run.measuring():
            pass

    def test_what_it_started_holds_nothing(self):
        with exclusive_run.measuring():
            left = subprocess.Popen(['sleep', '60'])
        self.addCleanup(left.wait)
        self.addCleanup(left.kill)
        with exclusive_run.measuring():
            pass

    def test_whatever_the_network(self):
        if namespaces.missing('--net'):
            self.skipTest(namespaces.missing('--net'))
        self.hold('unshare', '--net')
        self.refused()

    def test_whatever_is_mounted(self):
        """A host of the minicloud has a /run of its own."""
        if namespaces.missing('--mount'):
            self.skipTest(namespaces.missing('--mount'))
        self.hold('unshare', '--mount', '/bin/sh', '-c', _OWN_RUN)
        self.refused()

    def test_another_user(self):
        if os.geteuid():
            self.skipTest('needs root, to be another user')
        os.setegid(65534)
        os.seteuid(65534)
        try:
            with exclusive_run.measuring():
                os.seteuid(0)
                self.refused()
        finally:
            os.seteuid(0)
            os.setegid(0)

    def test_no_directory_that_can_be_locked(self):
        self.path.rmdir()
        self.path.symlink_to('/')
        self.assertIn('cannot be locked', self.refused())
