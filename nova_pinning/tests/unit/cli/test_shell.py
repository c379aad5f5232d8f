# SPDX-License-Identifier: Apache-2.0

import errno
import importlib.metadata
import io
import json
import shlex
import subprocess
import sys
from unittest import mock

import stevedore

from nova_pinning.cli import shell
from nova_pinning.flavors import catalogue
from nova_pinning.tests.unit.cli import cli_case

COMMANDS = ('flavor check', 'flavor show', 'guest show')


class TestMain(cli_case.TestCase):

    def test_nothing(self):
        done = self.run_command()
        self.assertEqual(2, done.status)
        for command in COMMANDS:
            self.assertIn(command, done.out)

    def test_help_of_each_has_an_example(self):
        for command in COMMANDS:
            done = self.run_command(*command.split(), '--help')
            self.assertEqual(0, done.status)
            self.assertIn(f'nova-pinning {command} ', done.out)
            self.assertIn('Example', done.out)

    def test_nobody_looks_through_all_packages(self):
        """That takes longer than most commands, their help included."""
        looked = AssertionError('all installed packages are looked at')
        with (mock.patch.object(importlib.metadata, 'packages_distributions',
                                side_effect=looked),
              mock.patch.object(stevedore.ExtensionManager, '__init__',
                                side_effect=looked)):
            for words in (['flavor', 'show', '--help'], ['help', 'capacity']):
                done = self.run_command(*words)
                self.assertEqual(0, done.status, done.err)

    def test_unknown(self):
        for words in (['flavr'], ['flavor', 'sho'],
                      ['flavor', 'show', '--nonsense', 'x']):
            self.assertEqual(2, self.run_command(*words).status, words)

    def test_help_of_nothing(self):
        for words in (['help', 'flavr'], ['flavr', '--help']):
            done = self.run_command(*words)
            self.assertEqual((2, ''), (done.status, done.out), words)
            self.assertIn("no command 'flavr'", done.err)
        done = self.run_command('help', 'flavor')
        self.assertEqual(0, done.status)
        self.assertIn('flavor show', done.out)

    def test_log_file_that_cannot_be_written(self):
        done = self.run_command('--log-file', str(self.dir), 'flavor', 'show',
                                cli_case.CATALOGUE)
        self.assertEqual((2, ''), (done.status, done.out))
        self.assertIn(f'argument --log-file: {self.dir} cannot be written: '
                      'Is a directory', done.err)

    def test_bug(self):
        with mock.patch.object(catalogue, 'load', side_effect=KeyError('x')):
            done = self.run_command('flavor', 'show', 'y')
        self.assertEqual(70, done.status)
        self.assertIn("internal error: KeyError: 'x'", done.err)

    def test_closed_pipe(self):
        class Closed(io.StringIO):
            def write(self, text):
                raise BrokenPipeError

        with mock.patch.object(sys, 'stdout', Closed()):
            self.assertEqual(141, shell.main(
                ['flavor', 'show', cli_case.CATALOGUE, '-f', 'commands']))

    def test_closed_pipe_of_a_table(self):
        class Closed(io.StringIO):
            def write(self, text):
                raise BrokenPipeError

        with mock.patch.object(sys, 'stdout', Closed()):
            self.assertEqual(141, shell.main(
                ['flavor', 'show', cli_case.CATALOGUE]))

    def test_options_alone(self):
        done = self.run_command('--debug')
        self.assertEqual(2, done.status)
        self.assertIn('flavor check', done.out)

    def test_full_disk(self):
        class Full(io.StringIO):
            def flush(self):
                raise OSError(errno.ENOSPC, 'No space left on device')

        err = io.StringIO()
        with (mock.patch.object(sys, 'stdout', Full()),
              mock.patch.object(sys, 'stderr', err)):
            self.assertEqual(2, shell.main(
                ['flavor', 'show', cli_case.CATALOGUE, '-f', 'commands']))
        self.assertEqual('error: the output cannot be written: '
                         'No space left on device\n', err.getvalue())

    def test_closed_output(self):
        with mock.patch.object(sys, 'stdout', None):
            self.assertEqual(0, shell.main(
                ['flavor', 'show', cli_case.CATALOGUE]))
            sys.stdout.close()

    def test_what_the_encoding_lacks(self):
        path = self.write('one.yaml', (
            'version: 2\nname: c\nfamilies: {f: {sizes: {s: {vcpus: 1, '
            'memory: 1M, name: "gro\\xdf"}}}}'))
        out = io.TextIOWrapper(io.BytesIO(), 'ascii')
        with mock.patch.object(sys, 'stdout', out):
            self.assertEqual(0, shell.main(['flavor', 'show', path]))
        self.assertIn(rb'gro\xdf', out.buffer.getvalue())

    def test_long_error(self):
        done = self.run_command('flavor', 'show', 'x' * 5000)
        self.assertEqual(2, done.status)
        self.assertTrue(done.err.endswith('x...\n'), done.err)
        self.assertLess(len(done.err), 2100)

    def test_what_is_not_imported(self):
        # Nova and openstacksdk cost more time than all the rest together.
        program = (
            'import sys, json\n'
            'from nova_pinning.cli import shell\n'
            'status = shell.main(sys.argv[1:])\n'
            'print(json.dumps([status, sorted(sys.modules)]),'
            ' file=sys.stderr)')
        done = subprocess.run(
            [sys.executable, '-W', 'ignore', '-c', program, 'flavor', 'show',
             cli_case.CATALOGUE], capture_output=True, text=True)
        status, modules = json.loads(done.stderr)
        self.assertEqual(0, status)
        self.assertFalse(
            {'nova', 'openstack', 'keystoneauth1', 'libvirt'} & set(modules))


class TestCompletion(cli_case.TestCase):
    """What bash proposes, with nothing of its own but the script."""

    def _completions(self, script, *words):
        """For the last word, in the directory of the test."""
        line = shlex.join(('nova-pinning', *words))
        program = (
            f'set -u\n{script}\nCOMP_WORDS=({line})\n'
            f'COMP_CWORD={len(words)}\n_nova_pinning\n'
            'printf "%s\\n" "${COMPREPLY[@]}"')
        done = subprocess.run(
            ['bash', '--norc', '-c', program], capture_output=True, text=True,
            cwd=self.dir, check=True)
        self.assertEqual('', done.stderr)
        return done.stdout.splitlines()

    def test_bash(self):
        self.write('a fleet.json', '')
        done = self.run_command('complete')
        self.assertEqual((0, ''), (done.status, done.err))
        for words, proposed in (
                (['fl'], ['flavor', 'fleet']),
                (['flavor', ''], ['check', 'show']),
                (['--debug', 'bench', 'ru'], ['run']),
                (['fleet', 'import', ''], ['nova']),
                (['flavor', 'show', '--sort-c'], ['--sort-column']),
                (['fleet', 'show', ''], ['a fleet.json']),
                (['fleet', 'show', 'a fleet.json', '--for'], ['--format']),
                (['fleet', 'show', './a fleet.json', 'a'],
                 ['a fleet.json']),
                (['fleet', 'show', '$(x)[`y`]', '--for'], ['--format']),
                (['explain', '--host', '=', ''], ['a fleet.json']),
                (['no', 'such', '--for'], [''])):
            self.assertEqual(proposed, self._completions(done.out, *words),
                             words)

    def test_not_in_the_list(self):
        self.assertNotIn('complete', self.run_command('--help').out)
