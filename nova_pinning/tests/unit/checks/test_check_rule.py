# SPDX-License-Identifier: Apache-2.0
"""Rules, and the registries of all checks."""

import dataclasses
import itertools

import ddt

from nova_pinning.checks import check_rule
from nova_pinning import errors
from nova_pinning.flavors.checks import flavor_check_run
from nova_pinning.fleet import problems
from nova_pinning.host.check import host_check_run
from nova_pinning.segregation.audit import audit_run
from nova_pinning.tests.unit.checks import samples
from nova_pinning.tests.unit import unit_base

ERROR, WARNING, NOTE = check_rule.Severity


@ddt.ddt
class TestRule(unit_base.TestCase):

    def test_words_of_the_rule(self):
        finding, = samples.odd.findings(3)
        self.assertEqual(
            ('X101', ERROR, 'number 3', 'it is odd', 'it breaks',
             'make it even'),
            (finding.code, finding.severity, finding.subject,
             finding.message, finding.why, finding.advice))

    @ddt.data((11, NOTE, 'take a smaller one'),
              (20, WARNING, 'take a smaller one'),
              (100, WARNING, 'take a much smaller one'))
    @ddt.unpack
    def test_a_violation_may_say_otherwise(self, number, severity, advice):
        finding, = samples.large.findings(number)
        self.assertEqual((severity, advice),
                         (finding.severity, finding.advice))

    @ddt.data((False, 'make it even'), (True, 'write it even'))
    @ddt.unpack
    def test_words_of_a_catalogue(self, is_catalogue, advice):
        self.assertEqual(
            advice, samples.finding(is_catalogue=is_catalogue).advice)
        self.assertEqual('take a smaller one', samples.finding(
            code='X102', is_catalogue=is_catalogue).advice)

    def test_nothing_is_lost(self):
        violation = check_rule.Violation(
            subject='a', message='b', kind='c', id='d', name='e', host='f',
            location=errors.Location('g'), remediation=('h',),
            severity=NOTE, advice='i', why='k', details={'j': 1},
            is_catalogue=True)
        finding = samples.odd.finding(violation)
        for field in dataclasses.fields(violation):
            self.assertEqual(getattr(violation, field.name),
                             getattr(finding, field.name))


@ddt.ddt
class TestRegistry(unit_base.TestCase):

    def test_run(self):
        self.assertEqual(
            ['X101', 'X102'],
            [finding.code for finding in samples.RULES.run(13)])
        self.assertEqual([], list(samples.RULES.run(2)))

    def test_a_code_twice(self):
        twin = dataclasses.replace(samples.large, code='X101')
        self.assertRaises(
            ValueError, check_rule.Registry, samples.module(samples.odd),
            samples.module(twin), groups={'X1': 'Numbers'})

    def test_a_code_of_no_group(self):
        self.assertRaises(ValueError, check_rule.Registry,
                          samples.module(samples.odd), groups={'X2': 'y'})

    @ddt.data((flavor_check_run.RULES, '[NPS]', 50),
              (host_check_run.RULES, 'H', 45),
              (audit_run.RULES, 'S', 30), (problems.RULES, 'F', 17))
    @ddt.unpack
    def test_those_of_the_checks(self, rules, letter, least):
        self.assertLessEqual(least, len(rules))
        for code, one in rules.items():
            self.assertRegex(code, f'^{letter}[0-9]{{3}}$')
            self.assertEqual(code, one.code)
            self.assertIsInstance(one.severity, check_rule.Severity)
            for text in (one.title, one.why, one.advice):
                self.assertRegex(text, r'^\S(.*\S)?$')
                self.assertNotIn(text[-1], '.?')
        self.assertEqual(set(rules.groups), {code[:2] for code in rules})

    def test_no_code_is_of_two_checks(self):
        codes = [
            *flavor_check_run.RULES, *host_check_run.RULES, *audit_run.RULES,
            *problems.RULES]
        self.assertEqual(len(codes), len(set(codes)))


@ddt.ddt
class TestStatus(unit_base.TestCase):

    @ddt.data(*itertools.product(check_rule.Severity, repeat=2))
    @ddt.unpack
    def test_exit_status(self, severity, least):
        ranks = ['note', 'warning', 'error']
        self.assertEqual(
            int(ranks.index(severity) >= ranks.index(least)),
            check_rule.exit_status([samples.finding(severity=severity)],
                                   least))

    @ddt.data(*check_rule.Severity)
    def test_nothing(self, least):
        self.assertEqual(0, check_rule.exit_status([], least))

    @ddt.data(([], 'nothing found'), ([ERROR], '1 error'),
              ([NOTE, NOTE], '2 notes'),
              ([NOTE, ERROR, ERROR], '2 errors and 1 note'),
              (check_rule.Severity, '1 error, 1 warning and 1 note'))
    @ddt.unpack
    def test_summary(self, severities, text):
        self.assertEqual(text, check_rule.summary(
            samples.finding(severity=severity) for severity in severities))
