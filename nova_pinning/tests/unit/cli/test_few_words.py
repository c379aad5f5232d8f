# SPDX-License-Identifier: Apache-2.0

import argparse

from nova_pinning.tests import command_lines
from nova_pinning.tests.unit.cli import cli_case

#: Of both programs; an option of two commands counts twice.
MOST_COMMANDS = 36
MOST_OPTIONS = 296


class TestOneMeaning(cli_case.TestCase):

    def test_what_options_take(self):
        """An option takes the same kind of value whatever command it is of."""
        takes = {}
        for name, parser in command_lines.parsers():
            for action in parser._actions:
                kind = 'nothing' if action.nargs == 0 else action.metavar
                if '--output' in action.option_strings and kind == 'DIR':
                    # Where a command writes several files.
                    kind = 'FILE'
                for option in action.option_strings:
                    takes.setdefault(option, {}).setdefault(
                        kind, []).append(name)
        self.assertEqual({}, {option: kinds for option, kinds in takes.items()
                              if len(kinds) > 1})


class TestFewWords(cli_case.TestCase):

    def test_commands_and_options(self):
        """What there is to learn may shrink only."""
        parsers = dict(command_lines.parsers())
        options = [
            (name, action.option_strings) for name, parser in parsers.items()
            for action in parser._actions
            if action.option_strings and action.dest != 'help'
            and action.help != argparse.SUPPRESS]
        self.assertLessEqual(len(parsers), MOST_COMMANDS)
        self.assertLessEqual(len(options), MOST_OPTIONS)
