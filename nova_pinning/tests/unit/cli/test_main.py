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

import errno
import io
import json
import subprocess
import sys
from unittest import mock

from nova_pinning.cli import main
from nova_pinning.flavors import catalogue
from nova_pinning.tests.unit.cli import base

COMMANDS = ('flavor check', 'flavor diff', 'flavor show', 'guest show')


class TestMain(base.TestCase):

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

    def test_unknown(self):
        for words in (['flavr'], ['flavor', 'sho'],
                      ['flavor', 'show', '--nonsense', 'x']):
            self.assertEqual(2, self.run_command(*words).status, words)

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
            self.assertEqual(141, main.main(
                ['flavor', 'show', base.CATALOGUE, '--commands']))

    def test_closed_pipe_of_a_table(self):
        class Closed(io.StringIO):
            def write(self, text):
                raise BrokenPipeError

        with mock.patch.object(sys, 'stdout', Closed()):
            self.assertEqual(141, main.main(
                ['flavor', 'show', base.CATALOGUE]))

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
            self.assertEqual(2, main.main(
                ['flavor', 'show', base.CATALOGUE, '--commands']))
        self.assertEqual('error: the output cannot be written: '
                         'No space left on device\n', err.getvalue())

    def test_closed_output(self):
        with mock.patch.object(sys, 'stdout', None):
            self.assertEqual(0, main.main(
                ['flavor', 'show', base.CATALOGUE]))
            sys.stdout.close()

    def test_what_the_encoding_lacks(self):
        path = self.write('one.yaml', (
            'version: 1\nname: c\nfamilies: {f: {sizes: {s: {vcpus: 1, '
            'memory: 1, name: "gro\\xdf"}}}}'))
        out = io.TextIOWrapper(io.BytesIO(), 'ascii')
        with mock.patch.object(sys, 'stdout', out):
            self.assertEqual(0, main.main(['flavor', 'show', path]))
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
            'from nova_pinning.cli import main\n'
            'status = main.main(sys.argv[1:])\n'
            'print(json.dumps([status, sorted(sys.modules)]),'
            ' file=sys.stderr)')
        for arguments in (['flavor', 'show', base.CATALOGUE],
                          ['flavor', 'diff', base.CATALOGUE, base.CATALOGUE],
                          ['--help']):
            done = subprocess.run(
                [sys.executable, '-W', 'ignore', '-c', program, *arguments],
                capture_output=True, text=True)
            if arguments == ['--help']:
                self.assertEqual(0, done.returncode)
                continue
            status, modules = json.loads(done.stderr)
            self.assertEqual(0, status)
            self.assertFalse(
                {'nova', 'openstack', 'keystoneauth1', 'libvirt'}
                & set(modules))
