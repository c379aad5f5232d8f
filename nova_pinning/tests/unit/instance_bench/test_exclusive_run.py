# SPDX-License-Identifier: Apache-2.0
"""One run at a time, between processes that end as they like."""

import os
import subprocess
import sys

import fixtures

from nova_pinning import errors
from nova_pinning.instance_bench import exclusive_run
from nova_pinning.instance_bench import workspace
from nova_pinning.tests import namespaces
from nova_pinning.tests.unit import unit_base

_HOLDER = '''
import sys
from nova_pinning.instance_bench import exclusive_run
exclusive_run.NAME = sys.argv[1]
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
        self.path = os.path.join(directory, 'lock')
        # The last of these is as /var/tmp is, the first is the test's own.
        os.chmod(directory, 0o1777)
        os.chmod(os.path.dirname(directory), 0o711)
        self.useFixture(fixtures.MockPatchObject(
            exclusive_run, 'NAME', self.path))

    def hold(self, *before):
        held = subprocess.Popen(
            [*before, sys.executable, '-c', _HOLDER, self.path],
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
                self.assertIn(f'process {os.getpid()}', self.refused())

    def test_one_that_was_killed_holds_nothing(self):
        held = self.hold()
        self.assertIn(f'process {held.pid}', self.refused())

        held.kill()
        held.wait()

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
        # Where it is is what matters here.
        name = f'nova-pinning-bench-test-{os.getpid()}.lock'
        self.useFixture(fixtures.MockPatchObject(
            exclusive_run, 'NAME', name))
        self.addCleanup((workspace.PARENT / name).unlink)
        self.path = name
        self.hold('unshare', '--mount', '/bin/sh', '-c', _OWN_RUN)
        self.refused()

    def test_another_user(self):
        if os.geteuid():
            self.skipTest('needs root, to be another user')
        with exclusive_run.measuring():
            pass
        os.setegid(65534)
        os.seteuid(65534)
        try:
            with exclusive_run.measuring():
                pass
            # One that the first left without a permission to write.
            os.seteuid(0)
            os.chmod(self.path, 0o644)
            os.seteuid(65534)
            with exclusive_run.measuring():
                self.refused()
        finally:
            os.seteuid(0)
            os.setegid(0)

    def test_what_is_in_it_is_not_believed(self):
        with exclusive_run.measuring():
            with open(self.path, 'w') as file:
                file.write('x; rm -rf /\n')
            self.assertIn('on this host, and each', self.refused())

    def test_no_file_that_can_be_locked(self):
        os.symlink('/etc/passwd', self.path)
        self.assertIn('lock: cannot be opened', self.refused())
