# SPDX-License-Identifier: Apache-2.0

import csv
import dataclasses
import json
import pathlib
import re
import shlex
import subprocess
import textwrap

import ddt
import fixtures

from nova_pinning.cli import advise
from nova_pinning.cli import base_command
from nova_pinning.cli import display
from nova_pinning.cli import shell
from nova_pinning.fleet import document
from nova_pinning.fleet import generate
from nova_pinning.presentation import typed_table
from nova_pinning.rebalance import plan_document
from nova_pinning.tests.unit.cli import cli_case
from nova_pinning.tests.unit.cli import displaychecks
from nova_pinning.tests.unit.rebalance import plan_samples

_PAGE = (pathlib.Path(__file__).parents[4] / 'doc' / 'source' / 'admin'
         / 'formats.rst')
_RACKS = _PAGE.parent / 'rebalance-fleet.json'
_DEDICATED = 'vcpus=8 ram=16GiB hw:cpu_policy=dedicated'

#: Commands with a column; {} is made by the tests.
_LISTS = (
    ('advise --workload web --host-file {host}', 'topic'),
    ('capacity {fleet}', 'fits'),
    ('capacity {fleet} --per-host', 'host'),
    ('explain {fleet} --flavor dedicated-2', 'layer'),
    ('explain {fleet} --flavor dedicated-2', 'name'),
    ('flavor show {catalogue}', 'name'),
    ('flavor show {catalogue}', 'vcpus'),
    ('rebalance failover {racks}', 'name'),
    ('rebalance plan {racks} --for 16', 'guest'),
    ('rebalance plan {racks} --drain cmp-2', 'guest'),
    ('rebalance plan {racks} --request {wishes}', 'guest'),
    ('rebalance show {plan}', 'guest'),
    ('rebalance show {plan} {moving}', 'guest'),
)
_SHOWS = (
    ('fleet show {fleet}', 'hosts'),
    (f"guest show --host-file {{host}} --flavor '{_DEDICATED}'", 'fits'),
    ('host show {host}', 'cpus_dedicated'),
    ('host show {host}', 'figures_cpus'),
)


@ddt.ddt
class TestCommands(displaychecks.Checks, cli_case.TestCase):

    def setUp(self):
        super().setUp()
        # What is in /etc of this machine is nobody's business here.
        self.useFixture(fixtures.MockPatchObject(
            advise, '_ROOTS', (cli_case.ETC.parents[1],)))

    def _runner(self, argv):
        """The command with its files, for displaychecks."""
        fleet = str(self.dir / 'fleet.json')
        if '{fleet}' in argv:
            document.write(fleet, generate.generate_fleet(
                4, 'two-socket-80', 3, filled=0.6, shared=0.3, churn=1.0))
        plan, moving = [
            str(self.dir / name) for name in ('plan.json', 'moving.json')]
        if '{plan}' in argv:
            planned_fleet, made = plan_samples.example()
            plan_document.write_plan(made, plan)
            document.write(moving, planned_fleet)
        wishes = str(self.dir / 'wishes.json')
        if '{wishes}' in argv:
            self.run_command('rebalance', 'plan', str(_RACKS), '--drain',
                             'cmp-2', '-o', wishes)
        if '{racks}' in argv and not _RACKS.exists():
            self.skipTest('not run from a checkout')
        words = shlex.split(argv.format(
            catalogue=cli_case.CATALOGUE, host=cli_case.HOST, fleet=fleet,
            racks=_RACKS, plan=plan, moving=moving, wishes=wishes))
        self._answer_once()

        def run(*more):
            done = self.run_command(*words, *more)
            return done.status, done.out, done.err

        return run

    def _answer_once(self):
        """Let the command work its answer out the first time only.

        What it is asked is the same each time; in which form is up to what
        comes after.
        """
        known = []

        def take_action(command, parsed_args):
            if not known:
                made = command.answer(parsed_args)
                # Some have them made while they are shown.
                rows = dataclasses.replace(
                    made.table, rows=tuple(made.table.rows))
                known.append((dataclasses.replace(made, table=rows),
                              command.status))
            answer, command.status = known[0]
            return answer.table.keys, answer

        self.useFixture(fixtures.MockPatchObject(
            display.Display, 'take_action', take_action))

    @ddt.data(*_LISTS)
    @ddt.unpack
    def test_list(self, argv, column):
        self.check(self._runner(argv), column)

    @ddt.data(*_SHOWS)
    @ddt.unpack
    def test_show(self, argv, column):
        self.check(self._runner(argv), column, is_list=False)

    def test_none_is_left_out(self):
        commands = {
            name for name, entry in shell.NovaPinning().command_manager
            if issubclass(entry.load(), display.Display)}
        for name in commands:
            self.assertTrue(any(argv.startswith(f'{name} ') or argv == name
                                for argv, _column in (*_LISTS, *_SHOWS)),
                            name)
        self.assertLessEqual(
            {name for name, _entry in shell.NovaPinning().command_manager
             if name.split()[-1] in ('list', 'show', 'diff')}, commands)

    @ddt.data(('flavor show {catalogue}', 'commands'),
              ('capacity {fleet}', 'prometheus'))
    @ddt.unpack
    def test_format_without_columns(self, argv, form):
        run = self._runner(argv)
        self.assertEqual(0, run('-f', form)[0])
        status, out, err = run('-f', form, '--sort-column', 'vcpus')
        self.assertEqual((2, ''), (status, out))
        self.assertIn(f'--format {form}', err)

    @ddt.data(('host show {host}', 'drawing'))
    @ddt.unpack
    def test_names_that_the_page_has_besides(self, argv, form):
        run = self._runner(argv)
        self.assertEqual(run(), run('-f', form))


class TestDocumentation(cli_case.TestCase):

    def test_examples(self):
        """What the page prints is what the commands print."""
        blocks = re.findall(
            r'^   \$ nova-pinning ((?:.*\\\n)*.*)\n((?:   [^$ ].*\n)+)',
            _PAGE.read_text(), re.MULTILINE)
        self.assertEqual(3, len(blocks))
        for command, output in blocks:
            done = self.run_command(*shlex.split(command.replace(
                '\\\n', '').replace('etc/nova-pinning', str(cli_case.ETC))))
            self.assertEqual((0, ''), (done.status, done.err))
            self.assertEqual(textwrap.dedent(output), done.out)


class _Odd(display.ShowOne):
    """Shows what others wrote."""

    content = {
        'plain': 'say "$(touch x)" `touch x` \\ $HOME', 'bad name;touch x': 1,
        'parts': [{'key': '\x1b[1m'}, {'key': ['a', 'b']}], 'formula': '=1+1',
        'empty': {}, 'none': None}

    def answer(self, parsed_args):
        return display.fields(self.content, lambda console: None)


class _OddList(display.Lister):
    """Lists it."""

    def answer(self, parsed_args):
        return display.Answer(
            typed_table.of_keys(_Odd.content, [_Odd.content]),
            lambda console: None, dict)


class TestOddContent(cli_case.TestCase):

    def _show(self, kind, *argv):
        command = kind(shell.NovaPinning(), None)
        command.app.stdout = stdout = (self.dir / 'out').open('w+')
        with stdout:
            self.assertEqual(base_command.OK, command.run(
                command.get_parser('x').parse_args(argv)))
            stdout.seek(0)
            return stdout.read()

    def test_shell(self):
        text = self._show(_Odd, '-f', 'shell')
        done = subprocess.run(
            ['bash', '-euc', f'{text}\nprintf "%s|" "$plain" '
             '"$bad_name_touch_x" "$none"'], cwd=self.dir, env={'HOME': '/'},
            capture_output=True, text=True, check=True)
        self.assertEqual(f'{_Odd.content["plain"]}|1|None|', done.stdout)
        self.assertFalse((self.dir / 'x').exists())

    def test_terminal(self):
        for kind in (_Odd, _OddList):
            text = self._show(kind, '-c', 'parts')
            self.assertNotIn('\x1b', text)
            self.assertIn('"key": ["a", "b"]', text)

    def test_spreadsheet(self):
        row, = csv.DictReader(self._show(_OddList, '-f', 'csv').splitlines())
        self.assertEqual(("'=1+1", ''), (row['formula'], row['none']))

    def test_columns_in_json(self):
        row, = json.loads(self._show(_OddList, '-f', 'json', '-c', 'parts',
                                     '-c', 'empty'))
        self.assertEqual(
            {key: _Odd.content[key] for key in ('parts', 'empty')}, row)
