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

"""What the reports of all checks share."""

import dataclasses
import io
import itertools

import ddt
import hypothesis
from hypothesis import strategies
from prometheus_client import parser

from nova_pinning.cli import base as cli_base
from nova_pinning.model import severity
from nova_pinning.reports import findings
from nova_pinning.reports import gauges
from nova_pinning.tests.unit import base

ERROR, WARNING, NOTE = severity.Severity


@dataclasses.dataclass(frozen=True)
class _Finding:
    severity: str = ERROR
    code: str = 'X1'
    message: str = 'it is wrong'
    why: str = 'it breaks'
    advice: str = 'do it again'
    mends: tuple = ('mend it',)


@ddt.ddt
class TestStatus(base.TestCase):

    @ddt.data(*itertools.product(severity.Severity, repeat=2))
    @ddt.unpack
    def test_exit_status(self, found, least):
        ranks = ['note', 'warning', 'error']
        self.assertEqual(
            int(ranks.index(found) >= ranks.index(least)),
            findings.exit_status([_Finding(found)], least))

    @ddt.data(*severity.Severity)
    def test_nothing(self, least):
        self.assertEqual(0, findings.exit_status([], least))

    @ddt.data(([], 'nothing found'), ([ERROR], '1 error'),
              ([NOTE, NOTE], '2 notes'),
              ([NOTE, ERROR, ERROR], '2 errors and 1 note'),
              (severity.Severity, '1 error, 1 warning and 1 note'))
    @ddt.unpack
    def test_summary(self, found, text):
        self.assertEqual(text, findings.summary(map(_Finding, found)))


@ddt.ddt
class TestShow(base.TestCase):

    def _shown(self, *found, **options):
        stream = io.StringIO()
        findings.show('X1', 'odd', found, cli_base.console(stream), 10,
                      subject=lambda one: 'host a', **options)
        return stream.getvalue()

    def test_one(self):
        self.assertEqual(
            'X1 error: odd (1)\n  why: it breaks\n  mend: do it again\n'
            '  - host a: it is wrong\n      mend it\n\n',
            self._shown(_Finding()))

    def test_details(self):
        self.assertIn(
            '  - host a: it is wrong\n    b\n    c\n      mend it\n',
            self._shown(_Finding(), details=lambda one: 'bc'))

    def test_advice_of_its_own(self):
        text = self._shown(_Finding(), _Finding(advice='do it otherwise'))
        self.assertIn('wrong\n    mend: do it otherwise\n      mend', text)
        self.assertEqual(1, text.count('do it again'))

    def test_severity_is_the_worst(self):
        self.assertIn('X1 warning: ', self._shown(
            _Finding(NOTE), _Finding(WARNING)))

    @ddt.data((None, 12, 0), (12, 12, 0), (11, 11, 1), (1, 1, 11))
    @ddt.unpack
    def test_commands(self, limit, shown, hidden):
        text = self._shown(_Finding(mends=('mend',) * 12), commands=limit)
        self.assertEqual(shown, text.count('      mend\n'))
        self.assertEqual(
            hidden > 0, f'      and {hidden} more (--limit)\n' in text)


class TestGauges(base.TestCase):

    def _samples(self, made):
        """The values by name and labels, as Prometheus reads them."""
        return {
            (sample.name, *sample.labels.values()): sample.value
            for family in parser.text_string_to_metric_families(made.text())
            for sample in family.samples}

    @base.settings(50)
    @hypothesis.given(strategies.lists(strategies.builds(
        _Finding, code=strategies.sampled_from(['X1', 'X2', 'X3']),
        severity=strategies.sampled_from(severity.Severity))))
    def test_violations(self, found):
        rules = {f'X{place}': one for place, one in enumerate(
            map(_Finding, severity.Severity), 1)}
        made = gauges.Gauges('check')
        made.add_violations('What is wrong', rules, found)
        samples = self._samples(made)
        self.assertEqual(len(found), sum(samples.values()))
        for one in found:
            self.assertEqual(
                sum(other.code == one.code and other.severity == one.severity
                    for other in found),
                samples['check_violations', one.code, str(one.severity)])
        for code, rule in rules.items():
            self.assertIn(('check_violations', code, str(rule.severity)),
                          samples)

    def test_times(self):
        made = gauges.Gauges('check')
        made.add_times('check', 100.0, 2.5)
        self.assertEqual(
            {('check_duration_seconds',): 2.5,
             ('check_last_success_timestamp_seconds',): 102.5},
            self._samples(made))
