# SPDX-License-Identifier: Apache-2.0
"""Which kinds of threads the services of the installed nova can run on.

Up to 2025.1 it is eventlet's alone: importing nova has it patch the process.
Importing this does so, too; then nova asks the same environment variable.
"""

import importlib.util
import unittest

from nova import monkey_patch

#: Whether there are native ones.
HAS_NATIVE = hasattr(monkey_patch, 'patch')

needs_native = unittest.skipUnless(
    HAS_NATIVE, 'services of this nova have no native threads')

# As demo.threads has it.
needs_native_harness = unittest.skipUnless(
    importlib.util.find_spec('nova.thread_pool_factory'),
    'the functional harness of this nova cannot do with native threads')
