# SPDX-License-Identifier: Apache-2.0
"""Texts on a console."""

import io
import re

import hypothesis
from hypothesis import strategies

from nova_pinning.cli import base_command
from nova_pinning import cpuset
from nova_pinning.presentation import printing
from nova_pinning.tests.unit import unit_base

#: Texts, and columns of terminals.
WORDS = strategies.lists(
    strategies.text('abc0-', min_size=1, max_size=8) | strategies.builds(
        lambda cpus: str(cpuset.CpuSet(cpus)),
        strategies.sets(strategies.integers(0, 1023), min_size=1)),
    min_size=1).map(' '.join)
WIDTHS = strategies.integers(40, 200)


def printed(show, *args, width=80, **options):
    """The lines that a function prints."""
    stream = io.StringIO()
    console = base_command.console(stream)
    console.width = width
    show(*args, console, **options)
    return stream.getvalue().splitlines()


class TestPrinting(unit_base.TestCase):

    def check(self, lines, width):
        for line in lines:
            self.assertLessEqual(len(line), width)
            self.assertEqual(line.rstrip(), line)

    def test_heading(self):
        self.assertEqual(['', 'What it sells'],
                         printed(printing.heading, 'What it sells'))

    def test_say(self):
        self.assertEqual(
            ['  choice 2: 9 guests of 8 vCPUs on CPUs',
             '    0,20,40,60 of this host'],
            printed(printing.say, 'choice 2: 9 guests of 8 vCPUs on CPUs '
                    '0,20,40,60 of this host', width=40, indent='  '))

    def test_pairs(self):
        self.assertEqual(
            ['  caches   L3', '  node 10  1 GiB, CPUs', '           20,40'],
            printed(printing.pairs, [
                ('caches', 'L3'), ('node 10', '1 GiB, CPUs 20,40')],
                width=27))
        self.assertEqual([], printed(printing.pairs, []))

    def test_names_do_nothing_to_a_terminal(self):
        for lines in (printed(printing.say, 'a\x1b[31m'),
                      printed(printing.heading, 'a\x1b[31m'),
                      printed(printing.pairs, [('a\x1b[31m', '\x9b')])):
            self.assertIsNone(re.search('[\x1b\x9b]', ''.join(lines)))

    @unit_base.settings(60)
    @hypothesis.given(WORDS, WIDTHS)
    def test_texts_break_after_blanks_and_commas(self, text, width):
        for lines in (printed(printing.say, text, width=width),
                      printed(printing.say, text, width=width, indent='    '),
                      printed(printing.pairs, [('label', text)], width=width),
                      printed(printing.pairs, [('label' * 6, text)],
                              width=width)):
            self.check(lines, min(width, 100))
            # Nothing is lost, and no number is cut in two.
            self.assertEqual(
                re.findall('[^ ,]+', text),
                re.findall('[^ ,]+', re.sub(
                    '^ *(label)+:?', '', '\n'.join(lines)).replace(
                        '\n', ' ')))
