# SPDX-License-Identifier: Apache-2.0
"""Tests in Watcher's own decision engine and applier, run in this process.

Nova cannot be imported there too, so these are apart from the unit tests.
"""

import importlib.util
import unittest

if importlib.util.find_spec('watcher') is None:
    raise unittest.SkipTest(
        'python-watcher is not installed; tox -e watcher has it')

# It has oslo.service run on threads, which has to be settled before anything
# else of Watcher is imported.
importlib.import_module('watcher.tests.unit')
