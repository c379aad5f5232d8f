# SPDX-License-Identifier: Apache-2.0

import argparse
import contextlib
import io
from unittest import mock

import ddt

from nova_pinning.cli import renamed
from nova_pinning.osc import plugin
from nova_pinning.tests import command_lines
from nova_pinning.tests.unit.cli import cli_case

#: Of both programs; an option of two commands counts twice.
MOST_COMMANDS = 37
MOST_OPTIONS = 308


@ddt.ddt
class TestRenamed(cli_case.TestCase):

    @ddt.data(('agent --release', '--undo'),
              ('explain fleet.json --hosts', '--per-host'),
              ('flavor check flavors.yaml --hosts=hosts', '--host-files'),
              ('fleet check fleet.json --strict', '--fail-on note'),
              ('host render plan.yaml --out here', '--output'))
    @ddt.unpack
    def test_error_names_the_new_one(self, line, now):
        done = self.run_command(*line.split())
        self.assertEqual((2, ''), (done.status, done.out))
        self.assertTrue(done.err.endswith(f' any more: write {now}\n'),
                        done.err)

    def test_commands(self):
        done = self.run_command('rebalance', 'drain', 'fleet.json')
        self.assertEqual((2, ''), (done.status, done.out))
        self.assertIn('write nova-pinning rebalance plan FLEET --drain HOST\n',
                      done.err)

    @ddt.data(('pinning host list', 0, ''), ('server list', 0, ''),
              ('--os-cloud north pinning flavor diff flavors.yaml', 2,
               'write openstack pinning flavor apply CATALOGUE --dry-run\n'))
    @ddt.unpack
    def test_commands_that_ask_a_cloud(self, line, status, told):
        err = io.StringIO()
        with (mock.patch('sys.argv', ['openstack', *line.split()]),
              contextlib.redirect_stderr(err)):
            try:
                plugin.build_option_parser(argparse.ArgumentParser())
                ended = 0
            except SystemExit as end:
                ended = end.code
        self.assertEqual((status, told), (ended, err.getvalue()[-len(told):]
                                          if told else err.getvalue()))

    def test_each_is_of_a_command(self):
        """What nobody could give any more is out of the table."""
        parsers = dict(command_lines.parsers())
        told = {old: now for parser in parsers.values() for old, now
                in renamed.options(parser._option_string_actions).items()}
        self.assertLessEqual({old for old, _other, _now in renamed._OPTIONS},
                             set(told))


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
