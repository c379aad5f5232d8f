# SPDX-License-Identifier: Apache-2.0
"""Nova as a library, in a process of its own."""

import sys
import unittest

if sys.version_info < (3, 11):
    raise unittest.SkipTest('only nova-scheduler runs on this Python')

import subprocess

from oslotest import base

from nova_pinning.bridge.offline import standalone

_PROGRAM = '''
from nova_pinning.bridge.offline import standalone
standalone.prepare()
from oslo_service import loopingcall
import nova.api.openstack
import threading
print(threading.current_thread.__module__)
'''


class TestPrepare(base.BaseTestCase):

    def test_oslo_service_before_nova(self):
        """Nova 32 refused a backend that was chosen by being imported."""
        done = subprocess.run(
            [sys.executable, '-W', 'ignore', '-c', _PROGRAM],
            capture_output=True, text=True, check=False)
        # Threads are those of the operating system, and nobody is warned of
        # that, as services are by nova 32.
        self.assertEqual((0, 'threading\n', ''),
                         (done.returncode, done.stdout, done.stderr))

    def test_twice(self):
        standalone.prepare()
        standalone.prepare()
