# SPDX-License-Identifier: Apache-2.0
"""Which kinds of threads the services of the installed nova can run on.

Up to 2025.1 it is eventlet's alone: importing nova has it patch the process.
Importing this does so, too; then nova asks the same environment variable.
"""

import importlib.util
import pathlib
import unittest

from demo import threads
from nova import monkey_patch

#: Whether there are native ones.
HAS_NATIVE = hasattr(monkey_patch, 'patch')

#: Whether options are told of it when native threads read their files again,
#: which oslo.service of 2025.2 does without oslo.config's hooks.
ARE_OPTIONS_MUTATED = HAS_NATIVE and 'reload_method' in pathlib.Path(
    importlib.util.find_spec(
        'oslo_service.backend._threading.service').origin).read_text()

needs_native = unittest.skipUnless(
    HAS_NATIVE, 'services of this nova have no native threads')

needs_native_harness = unittest.skipUnless(
    threads.IS_FOR_NATIVE,
    'the functional harness of this nova cannot do with native threads')
