# SPDX-License-Identifier: Apache-2.0
"""Tests of tools/build_docs.py."""

import contextlib
import importlib
import io
import sys
import threading
from unittest import mock

from oslotest import base

from minicloud import progress
from nova_pinning.tests.unit import test_run_tests


class BuildDocsTest(base.BaseTestCase):

    def setUp(self):
        super().setUp()
        with mock.patch.object(
                sys, 'path', [str(test_run_tests.TOOLS), *sys.path]):
            self.tool = importlib.import_module('build_docs')
        self.told = threading.Event()
        self.enterContext(mock.patch.multiple(
            progress, SILENCE_SECONDS=0, TERMINAL_SECONDS=0.001))

    def _sphinx(self, arguments):
        """What Sphinx does, but for the pages."""
        print('reading sources... [ 50%] index\n', flush=True)
        # Until that was handed on.
        self.assertTrue(self.told.wait(60))
        print('build finished with problems, 1 warning.\n')
        self.arguments = arguments
        return 1

    def _build(self, output):
        write = output.write

        def watch(text):
            if '50%' in text:
                self.told.set()
            return write(text)

        with (mock.patch('sphinx.cmd.build.main', self._sphinx),
              mock.patch.object(output, 'write', watch),
              contextlib.redirect_stdout(output)):
            self.assertEqual(1, self.tool.main('doc'))
        self.assertEqual('doc/build/html', self.arguments[-1])
        return output.getvalue()

    def test_in_a_log(self):
        first, *_others, last = self._build(Output()).splitlines()
        self.assertEqual('the pages of doc ...', first)
        self.assertEqual('build finished with problems, 1 warning.', last)

    def test_on_a_terminal(self):
        output = Output()
        output.isatty = lambda: True
        self.assertEqual(
            'Building the pages of doc ...\nreading sources... [ 50%] index\n'
            '\nbuild finished with problems, 1 warning.\n\n',
            self._build(output))


class Output(io.StringIO):
    """A stream that can be made a terminal."""
