# SPDX-License-Identifier: Apache-2.0
"""Tests of tools/count_lines.py."""

import pathlib
import subprocess
import sys
import tempfile

from oslotest import base

_TOOL = pathlib.Path(__file__).parents[3] / 'tools' / 'count_lines.py'

#: Five lines of code.
_MODULE = '''\
# SPDX-License-Identifier: Apache-2.0
"""What it is.

And more of that.
"""

LONG = (  # a comment
    1,

    2)
TEXT = """
# no comment"""
'''


class TestCountLines(base.BaseTestCase):

    def setUp(self):
        super().setUp()
        self.root = pathlib.Path(
            self.enterContext(tempfile.TemporaryDirectory()))
        self.write('nova_pinning/fit/one.py')
        self.write('nova_pinning/fit/deeper/two.py')
        self.write('nova_pinning/tests/unit/test_fit.py')
        self.write('.tox/shared/nova.py')
        self.write('demo/three.py', '"""Nothing."""\n' * 7)

    def write(self, name, text=_MODULE):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def count(self, *options):
        return subprocess.run(
            [sys.executable, str(_TOOL), *map(str, options)],
            capture_output=True, text=True)

    def test_rooms(self):
        done = self.count(self.root)
        self.assertEqual((0, ''), (done.returncode, done.stderr))
        self.assertEqual(
            ['10 in all', '10 nova_pinning/fit', '0 demo'],
            [line.strip() for line in done.stdout.splitlines()])

    def test_long_files(self):
        done = self.count(self.root, '--longer-than', 7)
        self.assertEqual(1, done.returncode)
        self.assertEqual(
            ['12 nova_pinning/fit/deeper/two.py',
             '12 nova_pinning/fit/one.py'],
            [line.strip() for line in done.stdout.splitlines()])
        done = self.count(self.root, '--longer-than', 12)
        self.assertEqual((0, ''), (done.returncode, done.stdout))

    def test_no_python(self):
        self.write('nova_pinning/cut.py', 'NUMBERS = (1,\n')
        done = self.count(self.root)
        self.assertEqual(2, done.returncode)
        self.assertIn('cut.py', done.stderr)

    def test_no_directory(self):
        done = self.count(self.root / 'nothing')
        self.assertEqual(2, done.returncode)
        self.assertIn('nothing is no directory', done.stderr)
