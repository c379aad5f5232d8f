# SPDX-License-Identifier: Apache-2.0
"""What a check has found, for people."""

import dataclasses
import io
import re
import shlex
import subprocess
from unittest import mock

import ddt
import hypothesis
from hypothesis import strategies

from nova_pinning.checks import check_rule
from nova_pinning.cli import base_command
from nova_pinning import errors
from nova_pinning.presentation import findings_text
from nova_pinning.tests.unit.checks import samples
from nova_pinning.tests.unit import unit_base

found = samples.finding


def shown(*findings, width=80, least=check_rule.Severity.NOTE, **values):
    stream = io.StringIO()
    console = base_command.console(stream)
    console.width = width
    findings_text.show(samples.check_report(*findings, **values), console,
                       least)
    return stream.getvalue()


class _Evidence:

    def __init__(self, text):
        self.text = text

    def __str__(self):
        return self.text


@ddt.ddt
class TestTable(unit_base.TestCase):

    def test_nothing(self):
        self.assertEqual('nothing found in 7 numbers\n', shown())

    def test_one(self):
        self.assertEqual(
            'X101 error: odd number (1)\n  why: it breaks\n'
            '  remedy: make it even\n  - host a: it is wrong\n    b\n    c\n'
            '      put it right\n\n1 error in 7 numbers\n',
            shown(found(remediation=('put it right',), evidence=(
                _Evidence('b'), _Evidence('c')))))

    def test_errors_come_first(self):
        """And few of the rest are shown, however many there are."""
        text = shown(
            *(found(f'host {number}', code='X102', message=f'it has {number}')
              for number in range(100)), found())
        self.assertLess(text.index('X101 error'), text.index('X102 warning'))
        self.assertIn('X102 warning: large number (100)', text)
        self.assertIn('- host 2: it has 2\n  and 97 more', text)

    def test_overview(self):
        text = shown(found(), found('host b'), found(code='X102'))
        self.assertIn('\nX101    2  odd number\nX102    1  large number\n\n'
                      '2 errors and 1 warning in 7 numbers\n', text)

    def test_what_is_less_severe_has_its_number(self):
        text = shown(found(), found('host b', code='X102'),
                     least=check_rule.Severity.ERROR)
        self.assertNotIn('host b', text)
        self.assertIn('\nX101    1  odd number\nX102    1  large number\n\n'
                      '1 error and 1 warning in 7 numbers\n', text)
        # Not even where it is alone.
        self.assertIn('X102    1  large number', shown(
            found(code='X102'), least=check_rule.Severity.ERROR))

    def test_codes_come_together(self):
        text = shown(found(), found(code='X201'), found())
        self.assertLess(text.index('X101 error'), text.index('X201 note'))
        self.assertEqual(1, text.count('why: it breaks'))

    def test_severity_is_the_worst(self):
        note = found(code='X102', severity=check_rule.Severity.NOTE)
        self.assertIn('X102 note: ', shown(note))
        self.assertIn('X102 warning: ', shown(note, found(code='X102')))

    def test_advice_of_its_own(self):
        text = shown(found(), found('host b', advice='do it otherwise'))
        self.assertIn('- host b: it is wrong\n    remedy: do it otherwise\n',
                      text)
        self.assertEqual(1, text.count('make it even'))

    def test_notes(self):
        self.assertIn('not read:\n  - a\n  - b\n\nof x\n\n', shown(
            notes=(('not read:', 'a', 'b'), ('of x',))))

    def test_location(self):
        text = shown(found('flavor a', kind='flavor', location=errors.Location(
            'a.yaml', 9, 1, 'families.a')))
        self.assertIn('- a.yaml:9: families.a: flavor a: it is wrong', text)
        text = shown(found(location=errors.Location('cloud a', key='b')))
        self.assertIn('  - host a: it is wrong', text)

    @ddt.data((1, 'flavor a0:'), (2, 'flavors a0 and a1:'),
              (3, 'flavors a0, a1 and a2:'),
              (12, 'flavors a0, a1, a2 and 9 more:'))
    @ddt.unpack
    def test_the_same_of_several(self, number, text):
        findings = [found(f'flavor a{place}', kind='flavor',
                          location=errors.Location('cloud c', key=str(place)))
                    for place in range(number)]
        self.assertIn(f'  - {text} it is wrong\n',
                      shown(*findings, width=200))

    def test_one_cause_is_one_line(self):
        """The first place stands for all, and three subjects for the rest."""
        findings = [found(f'flavor a{line}', kind='flavor',
                          location=errors.Location('a', line, key='k'))
                    for line in range(3, 97)]
        self.assertIn('  - a:3: k: flavors a3, a4, a5 and 91 more: it is '
                      'wrong\n', shown(*findings, width=200))
        self.assertEqual(2, shown(*(
            found(location=errors.Location(source, 3, key='k'))
            for source in 'ab')).count('it is wrong'))

    def test_key_that_the_message_names(self):
        text = shown(found(message='no x:y=1', location=errors.Location(
            'a', 3, key='[0].extra_specs.x:y')))
        self.assertIn('  - a:3: host a: no x:y=1\n', text)

    def test_all_kinds_of_errors_on_a_screen(self):
        text = shown(*(found(code=code, message=f'it is {number}',
                             severity=check_rule.Severity.ERROR)
                       for code in samples.RULES for number in range(20)))
        self.assertEqual(9, text.count('  - host a: '))
        self.assertLess(text[:text.index('X102 error')].count('\n'), 24)

    def test_one_row_a_cause(self):
        """Where errors would fill more than a screen."""
        text = shown(*(found(
            f'flavor a{line}', kind='flavor', message=f'{line} is {"x " * 60}',
            location=errors.Location('some/where/a.yaml', line, key='k'))
            for line in range(17)))
        rows = text.splitlines()
        self.assertEqual('X101 error: odd number (17)', rows[0])
        self.assertEqual('  remedy: make it even', rows[1])
        for line, row in enumerate(rows[2:19]):
            self.assertIn(f'{line} is x x', row)
            self.assertLessEqual(len(row), 80)
        self.assertTrue(rows[3].startswith('  - a.yaml:1: k: 1 is x'), rows)

    def test_many_kinds_of_many_errors(self):
        """How many there are of each is on the first screen at least."""
        text = shown(*(found(code=code, message=f'it is {number} {"x " * 60}',
                             severity=check_rule.Severity.ERROR)
                       for code in samples.RULES for number in range(20)))
        self.assertEqual(
            [f'{code}   20  {rule.title}'
             for code, rule in samples.RULES.items()], text.splitlines()[:3])

    def test_limit(self):
        many = [found(message=f'it is {number}', evidence=tuple(
            _Evidence(f'seen {place}') for place in range(12)))
            for number in range(1300)]
        text = shown(*many)
        self.assertEqual(10, text.count('  - host a: '))
        self.assertIn('\n  and 1,290 more (-f json has all)\n', text)
        self.assertEqual(100, text.count('    seen '))
        self.assertEqual(10, text.count(
            '\n    and 2 more (-f json has all)\n'))

    @ddt.data(40, 80, 200)
    def test_width(self, width):
        command = f'taskset {"word " * 60}it'
        text = shown(*(
            found(code=code, remediation=(command,), message='word ' * 40,
                  evidence=(_Evidence('seen ' * 40),))
            for code in samples.RULES), width=width)
        self.assertEqual(3, text.count(f'      {command}\n'))
        for line in text.splitlines():
            if 'taskset' not in line and not re.match('X[0-9]', line):
                self.assertLessEqual(len(line), width)

    def test_names_do_nothing_to_a_terminal(self):
        text = shown(found(
            'a\x1b[31m\r\nb', remediation=('\x1b',), message='\x9b',
            evidence=(_Evidence('\x1b[0m'),)),
            notes=(('\x1b', '\r\x07'),), scope='\x1b')
        self.assertIsNone(re.search('[\x1b\r\x9b\x07]', text))

    def test_markup_is_not_read(self):
        self.assertIn('[bold]x[/bold]', shown(
            found(message='[bold]x[/bold]')))


class TestRemedies(unit_base.TestCase):
    """Findings that one remedy puts right share it."""

    def test_one_loop(self):
        text = shown(*(
            found(f'service {name}', message=f'{name} is astray',
                  remediation=(f'taskset -pc 0,40 {pid}',))
            for name, pid in (('a', 7), ('b', 9), ('c', 11))), width=200)
        self.assertEqual(1, text.count('taskset'))
        self.assertIn(
            '- service c: c is astray\n    for all 3 of these:\n'
            '      for x in 7 9 11; do taskset -pc 0,40 $x; done\n', text)

    def test_hundreds_of_one_finding(self):
        commands = tuple(f'taskset -pc 0 {pid}' for pid in range(300))
        text = shown(found(remediation=commands))
        self.assertEqual(1, text.count('taskset'))
        self.assertIn('and 290 more (-f json has all)', text)
        self.assertNotIn('more', shown(found(remediation=commands[:10])))

    def test_what_differs_stays_with_its_finding(self):
        text = shown(
            found('guest a', message='x', remediation=(
                'virsh vcpupin a 0 4 --live',)),
            found('guest b', message='y', remediation=(
                'virsh vcpupin b 0 5 --live',)))
        self.assertIn('- guest a: x\n      virsh vcpupin a 0 4 --live\n'
                      '  - guest b: y\n      virsh vcpupin b 0 5 --live\n',
                      text)

    def test_once_what_is_the_same(self):
        text = shown(*(found(name, remediation=('trait create T',
                                                f'set T {name}'))
                       for name in 'ab'))
        self.assertIn('      trait create T\n      for x in a b; do set T $x; '
                      'done\n', text)

    def test_quoted_words_are_left_alone(self):
        text = shown(*(found(name, remediation=(f"set 'a {name}'",))
                       for name in 'ab'))
        self.assertNotIn('for x', text)
        self.assertIn("      set 'a b'\n", text)

    @unit_base.settings(25)
    @hypothesis.given(strategies.lists(strategies.lists(strategies.builds(
        lambda *words: shlex.join(words),
        strategies.sampled_from(['one', 'two']),
        strategies.sampled_from(['-pc', 'a b', '$x', '--']),
        strategies.sampled_from(['1', '22', 'a/b', 'c d', '-n', "'"]))),
        max_size=5))
    def test_a_shell_runs_what_json_has(self, remediations):
        """All commands of all findings, each once, and no others."""
        findings = [found(f'host {place}', remediation=tuple(commands))
                    for place, commands in enumerate(remediations)]
        with mock.patch.object(findings_text, 'LIMIT', 100):
            text = shown(*findings)
        lines = [line for line in text.splitlines()
                 if line.startswith('      ')]
        self.assertEqual(
            sorted(self.run_shell({command for commands in remediations
                                   for command in commands})),
            sorted(set(self.run_shell(lines))))

    def run_shell(self, lines):
        """The words of all commands that a shell makes of lines."""
        functions = ('one() { printf "<%s>" one "$@"; echo; }\n'
                     'two() { printf "<%s>" two "$@"; echo; }\n')
        return subprocess.run(
            ['sh', '-c', functions + '\n'.join(lines)], check=True, text=True,
            capture_output=True).stdout.splitlines()


class TestGroups(unit_base.TestCase):

    def test_evidence_keeps_findings_apart(self):
        one = found(evidence=(_Evidence('b'),))
        text = shown(one, dataclasses.replace(one, subject='host b'))
        self.assertEqual(2, text.count('it is wrong'))
        self.assertEqual(2, text.count('    b\n'))
