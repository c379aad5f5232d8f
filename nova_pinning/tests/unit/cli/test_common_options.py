# SPDX-License-Identifier: Apache-2.0
"""Options that several commands have."""

import argparse
import contextlib
import io
import os

import ddt

from nova_pinning.cli import common_options
from nova_pinning.tests.unit.cli import cli_case
from nova_pinning.tests.unit import unit_base


@ddt.ddt
class TestNumber(unit_base.TestCase):

    @ddt.data('1', '7', '1000')
    def test_in_the_range(self, text):
        self.assertEqual(int(text), common_options.number(1, 1000)(text))

    @ddt.data('x', '', '0', '1001', '1.5', '-1')
    def test_not_in_the_range(self, text):
        error = self.assertRaises(
            argparse.ArgumentTypeError, common_options.number(1, 1000), text)
        self.assertEqual(f"'{text}' is not a number from 1 to 1,000",
                         str(error))


class TestWriteOutput(cli_case.TestCase):

    def _says(self, path):
        """What is said of a text that goes to a path, and to no other."""
        with (contextlib.redirect_stdout(io.StringIO()) as out,
              contextlib.redirect_stderr(io.StringIO()) as err):
            common_options.write_output(path, 'text\n')
        self.assertEqual('text\n' if path == '-' else '', out.getvalue())
        return err.getvalue()

    def test_where_the_file_is(self):
        """Also where the name that was given does not tell."""
        path = self.dir / 'file'
        self.assertEqual(f'wrote {path}\n',
                         self._says(os.path.relpath(path)))
        self.assertEqual('text\n', path.read_text())

    def test_nothing_to_say(self):
        self.assertEqual('', self._says('-'))
        self.assertEqual('', self._says('/dev/null'))
