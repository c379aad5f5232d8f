#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

"""Tests of nova_pinning.tempest_plugin.output."""

import subprocess

from nova_pinning.tempest_plugin import output
from nova_pinning.tests.unit import base


class OutputTest(base.TestCase):

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
