# SPDX-License-Identifier: Apache-2.0
"""Unit tests, in threads of the operating system with every release of nova.

Before 2026.1, importing some packages of nova patches the whole process for
eventlet, and with it the threads of tests.
"""

from nova_pinning.bridge.offline import standalone
from nova_pinning.tests import runner

runner.prepare()
standalone.prepare()
