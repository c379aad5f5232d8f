# SPDX-License-Identifier: Apache-2.0
"""What a check has found, for programs."""

import json
import pathlib
import re

import ddt
import hypothesis
from hypothesis import strategies
from prometheus_client import parser

from nova_pinning.checks import check_rule
from nova_pinning.checks import metrics
from nova_pinning.checks import report
from nova_pinning import errors
from nova_pinning.host.check import facts
from nova_pinning.tests.unit.checks import samples
from nova_pinning.tests.unit import unit_base

REFERENCE = pathlib.Path(__file__).parents[4] / 'doc/source/reference'


class TestJson(unit_base.TestCase):

    def test_head(self):
        content = json.loads(json.dumps(samples.check_report(
            samples.finding()).as_dict()))
        [_finding] = content.pop('findings')
        self.assertEqual({
            'version': 1, 'numbers': 7, 'started': 100.0,
            'duration_seconds': 2.5,
            'totals': {'error': 1, 'warning': 0, 'note': 0},
            'waived': []}, content)

    def test_finding(self):
        [told] = report.findings_as_dicts([samples.finding(
            'server a b', kind='server', id='b', name='a', host='c',
            location=errors.Location('a.yaml', 41, 5, 'families.a'),
            remediation=('d', 'e'), details={'guests': ['f']},
            evidence=(facts.HostEvidence(pid=7),))])
        self.assertEqual({
            'code': 'X101', 'severity': 'error', 'subject': 'server a b',
            'kind': 'server', 'id': 'b', 'name': 'a', 'host': 'c',
            'guests': ['f'], 'source': 'a.yaml', 'line': 41, 'column': 5,
            'key': 'families.a', 'message': 'it is wrong',
            'why': 'it breaks', 'advice': 'make it even',
            'commands': ['d', 'e'],
            'evidence': [facts.HostEvidence(pid=7).as_dict()]},
            json.loads(json.dumps(told)))

    def test_sample_of_the_documentation(self):
        path = REFERENCE / 'check-formats.inc'
        if not path.is_file():
            self.skipTest('not run from a checkout')
        sample = re.search(r'\{.*\}', path.read_text(), re.DOTALL)[0]
        self.assertEqual(list(report.findings_as_dicts([samples.finding()])[
            0]), list(json.loads(sample)))


@ddt.ddt
class TestMetrics(unit_base.TestCase):

    def read(self, *findings, **values):
        """The values by name and labels, as Prometheus reads them."""
        text = metrics.exposition(samples.check_report(*findings, **values))
        return {
            (sample.name.removeprefix('nova_pinning_number_'),
             *sample.labels.values()): sample.value
            for family in parser.text_string_to_metric_families(text)
            for sample in family.samples}

    @unit_base.settings(50)
    @hypothesis.given(strategies.lists(strategies.builds(
        samples.finding, code=strategies.sampled_from(list(samples.RULES)),
        severity=strategies.sampled_from(check_rule.Severity))))
    def test_violations(self, findings):
        values = {key[1:]: value for key, value
                  in self.read(*findings).items() if key[0] == 'violations'}
        self.assertEqual(len(findings), sum(values.values()))
        for one in findings:
            self.assertEqual(
                sum(other.code == one.code and other.severity == one.severity
                    for other in findings),
                values[one.code, str(one.severity)])
        for code, one in samples.RULES.items():
            self.assertIn((code, str(one.severity)), values)

    def test_times(self):
        values = self.read()
        self.assertEqual(2.5, values['duration_seconds',])
        self.assertEqual(102.5, values['last_success_timestamp_seconds',])

    def test_figures(self):
        values = self.read(figures=(
            report.Figure('size', 'How large', {(): 3}),
            report.Figure('share', 'How much', {('a', '1'): 0.5}, ('k', 'n')),
            report.Figure('none', 'Nothing', {}, ('k',))))
        self.assertEqual(3, values['size',])
        self.assertEqual(0.5, values['share', 'a', '1'])
        self.assertNotIn('none', {key[0] for key in values})
