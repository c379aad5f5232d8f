# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_pinning.tempest_plugin.output."""

import subprocess

from nova_pinning.tempest_plugin import output
from nova_pinning.tests.unit import unit_base


class OutputTest(unit_base.TestCase):

    def test_sections(self):
        self.assertEqual(
            {'one': 'a\nb', 'two': '', 'three': 'c'},
            output.sections('Welcome!\n@@ one\na\nb\n@@ two\n@@ three\nc\n'))

    def test_marks_are_found_again(self):
        printed = subprocess.run(
            ['sh', '-c', f'{output.mark("one")}; echo a'],
            capture_output=True, text=True, check=True).stdout
        self.assertEqual({'one': 'a'}, output.sections(printed))

    def test_files(self):
        self.assertEqual(
            [('/a', '1'), ('/b', 'x: y'), ('/c', '')],
            list(output.files('/a:1\nnoise\nno: path\n/b:x: y\n/c:\n')))
