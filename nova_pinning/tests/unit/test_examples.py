# SPDX-License-Identifier: Apache-2.0
"""The help texts of all commands, and the examples in them."""

import contextlib
import io
import pathlib
import re
import shlex

from nova_pinning.tests import command_lines
from nova_pinning.tests.unit.cli import cli_case

_COLUMNS = 80
_ROOT = pathlib.Path(__file__).parents[3]


def _wide(text):
    return [line for line in text.splitlines() if len(line) > _COLUMNS]


class TestFrontPages(cli_case.TestCase):

    def test_the_picture_is_of_the_command_below_it(self):
        """By what stands in the picture, and in words beside it."""
        fleet = str(self.dir / 'fleet.json')
        asked = set()
        for page in (_ROOT / 'README.rst', _ROOT / 'doc/source/index.rst'):
            text = page.read_text()
            fits, size, promised = re.search(
                r'(\d+) more guests of (\d+) vCPUs fit where host totals\s+'
                r'promise (\d+)', text).groups()
            line = next(line for line in command_lines.joined(text)
                        if 'nova-pinning fleet generate' in line)
            asked.add((line[line.index('fleet generate'):].replace(
                'fleet.json', fleet), fits, size, promised))
        (words, fits, size, promised), = asked
        self.assertEqual(0, self.run_command(*words.split()).status)
        done = self.run_command('capacity', fleet, '--flavor',
                                f'dedicated-{size}', '-f', 'json')
        self.assertEqual(0, done.status, done.err)
        self.assertIn(f'"fits": {fits}', done.out)
        self.assertIn(f'"by_host_totals": {promised}', done.out)


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
