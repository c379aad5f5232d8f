# SPDX-License-Identifier: Apache-2.0
"""What commands that change a cloud have in common."""

import io
import re

import ddt
import fixtures
from oslotest import base as oslotest

from nova_pinning.cli import base_command
from nova_pinning import errors
from nova_pinning.osc import applying


class Terminal(io.StringIO):
    def isatty(self):
        return True


class Interrupted(Terminal):
    def readline(self):
        raise KeyboardInterrupt


@ddt.ddt
class TestApplying(oslotest.BaseTestCase):

    def setUp(self):
        super().setUp()
        self.out, self.err = io.StringIO(), io.StringIO()
        self.use(stdout=self.out, stderr=self.err)

    def use(self, **streams):
        for name, stream in streams.items():
            self.useFixture(fixtures.MonkeyPatch(f'sys.{name}', stream))

    @ddt.data(('y\n', True), ('Yes \n', True), ('n\n', False), ('\n', False),
              ('', False), ('yesterday\n', False))
    @ddt.unpack
    def test_ask(self, answer, expected):
        self.use(stdin=Terminal(answer))
        self.assertIs(expected, applying.is_agreed('north', 'text'))
        self.assertEqual('Apply to cloud north? [y/N] ', self.err.getvalue())
        self.assertEqual('' if expected else 'nothing was changed\n',
                         self.out.getvalue())

    def test_interrupted_question(self):
        self.use(stdin=Interrupted())
        self.assertRaises(KeyboardInterrupt, applying.is_agreed, 'north',
                          'text')
        self.assertIn('\nnothing was changed\n', self.err.getvalue())

    @ddt.data((io.StringIO('y\n'), 'text'), (Terminal('y\n'), 'json'))
    @ddt.unpack
    def test_nobody_to_ask(self, stdin, form):
        self.use(stdin=stdin)
        error = self.assertRaises(errors.InputError, applying.is_agreed,
                                  'north', form)
        self.assertIn('--yes', error.advice)
        self.assertEqual('', self.err.getvalue())

    def test_progress(self):
        results = iter('abc')
        self.assertEqual(['a', 'b', 'c'], list(
            applying.with_progress(results, 3, 'hosts')))
        self.assertEqual('', self.err.getvalue())
        terminal = Terminal()
        self.use(stderr=terminal)
        self.useFixture(fixtures.EnvironmentVariable('TERM', 'xterm'))
        self.assertEqual(['a', 'b', 'c'], list(
            applying.with_progress(iter('abc'), 3, 'hosts')))
        self.assertIn('hosts', terminal.getvalue())
        self.assertIn('3/3', terminal.getvalue())
        self.assertEqual('', self.out.getvalue())

    def test_results_have_lines_of_their_own(self):
        terminal = Terminal()
        self.use(stderr=terminal, stdout=terminal)
        self.useFixture(fixtures.EnvironmentVariable('TERM', 'xterm'))
        for result in applying.with_progress(iter('xyz'), 3, 'hosts'):
            base_command.console().print(result)
        # The bar's line is erased before.
        self.assertEqual(['x', 'y', 'z'], re.findall(
            '\r\x1b\\[2K([xyz])\n', terminal.getvalue()))

    def test_no_bar_on_a_terminal_that_can_erase_nothing(self):
        terminal = Terminal()
        self.use(stderr=terminal)
        self.useFixture(fixtures.EnvironmentVariable('TERM', 'dumb'))
        self.assertEqual(['x'], list(
            applying.with_progress(iter('x'), 1, 'hosts')))
        self.assertEqual('', terminal.getvalue())

    @ddt.data((KeyboardInterrupt(), 'interrupted'),
              (errors.CloudError('down'), 'stopped'))
    @ddt.unpack
    def test_how_far_it_came(self, error, word):
        done = []

        def work():
            with applying.interruptible(done, 3, 'hosts'):
                done.append('a')
                raise error

        self.assertRaises(type(error), work)
        self.assertEqual(f'{word} after 1 of 3 hosts; run the command again '
                         'to finish\n', self.err.getvalue())

    def test_nothing_to_tell(self):
        with applying.interruptible([], 0, 'hosts'):
            pass
        self.assertRaises(ValueError, self._fail)
        self.assertEqual('', self.err.getvalue())

    def _fail(self):
        with applying.interruptible([], 1, 'hosts'):
            raise ValueError
