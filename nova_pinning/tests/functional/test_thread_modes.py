# SPDX-License-Identifier: Apache-2.0
"""Boots on either kind of threads that nova-scheduler can run."""

import os
import subprocess
import sys

from oslotest import base

from nova_pinning.tests.functional import thread_kinds

#: Seconds after which a process has failed; a busy machine may need them.
_PATIENCE = 240


class TestThreadModes(base.BaseTestCase):

    def _check(self, name, is_patched):
        environment = {
            **os.environ,
            'OS_NOVA_DISABLE_EVENTLET_PATCHING': str(int(not is_patched)),
            'PYTHONPATH': os.pathsep.join(filter(None, sys.path)),
        }
        done = subprocess.run(
            [sys.executable, '-m', 'testtools.run',
             f'nova_pinning.tests.functional.booting.{name}'],
            env=environment, stdin=subprocess.DEVNULL, capture_output=True,
            text=True, timeout=_PATIENCE)
        said = done.stdout + done.stderr
        self.assertEqual(0, done.returncode, said)
        self.assertIn('Ran 1 test', said)

    @thread_kinds.needs_native_harness
    def test_native_threads(self):
        self._check('TestNativeThreads', is_patched=False)

    def test_eventlet(self):
        self._check('TestEventlet', is_patched=True)
