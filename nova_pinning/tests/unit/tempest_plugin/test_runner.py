# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_pinning.tempest_plugin.runner."""

from nova_pinning.tempest_plugin import runner
from nova_pinning.tests.unit import unit_base


class RunnerTest(unit_base.TestCase):

    def _run(self, host_command, words, addresses=(), **options):
        return runner.CommandRunner(host_command, dict(addresses),
                                    **options).run('compute-1', words)

    def test_one_argument(self):
        """The command arrives as one argument, which a shell can read."""
        self.assertEqual(
            "compute-1 | cat 'a b' '$x'\n",
            self._run('echo {host} |', ['cat', 'a b', '$x']))

    def test_address(self):
        self.assertEqual('u@192.0.2.1 true\n', self._run(
            'echo u@{host}', ['true'], {'compute-1': '192.0.2.1'}))

    def test_a_shell_gets_what_was_meant(self):
        odd = 'a "b" \'c\' $HOME `id` \\ \n*'
        self.assertEqual(odd, self._run('sh -c', ['printf', '%s', odd]))

    def test_script(self):
        self.assertEqual('1\n2\n', runner.CommandRunner('sh -c', {}).script(
            'compute-1', 'for x in 1 2\ndo echo $x\ndone'))

    def test_failure(self):
        error = self.assertRaises(
            runner.CommandError, self._run, 'sh -c',
            ['sh', '-c', 'echo no such domain >&2; exit 3'])
        self.assertIn('host compute-1 ended with status 3', str(error))
        self.assertIn('no such domain', str(error))

    def test_no_such_program(self):
        error = self.assertRaises(
            runner.CommandError, self._run, '/nonexistent {host}', ['true'])
        self.assertEqual(
            "'/nonexistent' of [pinning] host_command cannot be run: No such "
            "file or directory", str(error))

    def test_too_slow(self):
        error = self.assertRaises(
            runner.CommandError, self._run, 'sh -c', ['sleep', '60'],
            deadline_seconds=0.05)
        self.assertIn('did not end within 0.05 seconds', str(error))
