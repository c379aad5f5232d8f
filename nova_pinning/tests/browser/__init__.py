# SPDX-License-Identifier: Apache-2.0
"""Tests of pages in a real browser, Debian's chromium.

It is apart from the unit tests because they run where there is no browser.
"""

import importlib.util
import shutil
import unittest

for _package in ('playwright', 'axe_playwright_python'):
    if importlib.util.find_spec(_package) is None:
        raise unittest.SkipTest(
            f'{_package} is not installed; tox -e browser has it')
if shutil.which('chromium') is None:
    raise unittest.SkipTest('there is no chromium; apt-get install chromium')
