# SPDX-License-Identifier: Apache-2.0
"""The help texts of all commands, and the examples in them."""

import contextlib
import io
import shlex

from nova_pinning.tests import command_lines
from nova_pinning.tests.unit.cli import cli_case

_COLUMNS = 80


def _wide(text):
    return [line for line in text.splitlines() if len(line) > _COLUMNS]


class TestHelp(cli_case.TestCase):

    def test_no_wider_than_a_terminal(self):
        """But for the usage, in which argparse breaks no option."""
        for name, parser in command_lines.parsers():
            _usage, _empty, told = parser.format_help().partition('\n\n')
            self.assertEqual([], _wide(told), name)

    def test_list_of_commands_is_no_wider(self):
        done = self.run_command('--help')
        self.assertIn('fleet report', done.out)
        self.assertEqual([], _wide(done.out))

    def test_examples_are_commands(self):
        """With options that there are, and each command has one of itself."""
        parsers = dict(command_lines.parsers())
        for name, parser in parsers.items():
            examples = [
                words for line in command_lines.joined(
                    parser.epilog.partition('::')[2])
                for words in command_lines.commands(line)]
            called = [command_lines.name_of(words, parsers)
                      for words in examples]
            self.assertIn(name, called)
            for other, words in zip(called, examples):
                self.assertIsNotNone(other, words)
                self._parse(parsers[other], words[len(other.split()):])

    def _parse(self, parser, words):
        with contextlib.redirect_stderr(io.StringIO()) as said:
            try:
                parser.parse_args(words)
            except SystemExit:
                self.fail(f'{parser.prog} {shlex.join(words)}: '
                          f'{said.getvalue()}')
