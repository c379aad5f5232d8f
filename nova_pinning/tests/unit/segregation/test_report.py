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

"""What people and programs are told of an audit."""

import io
import json
import pathlib
import re

import ddt
from prometheus_client import parser

from nova_pinning.cli import base as cli_base
from nova_pinning.flavors.checks import reference as flavor_reference
from nova_pinning.segregation.audit import reference
from nova_pinning.segregation.audit import rule
from nova_pinning.segregation.audit import run
from nova_pinning.segregation import finding
from nova_pinning.segregation import metrics
from nova_pinning.segregation import report
from nova_pinning.tests.unit import base
from nova_pinning.tests.unit.segregation import auditcloud as fake

CHECKOUT = pathlib.Path(__file__).parents[4]
PAGE = CHECKOUT / 'doc' / 'source' / 'reference' / 'segregation-checks.rst'

DEDICATED, SHARED = fake.DEDICATED, fake.SHARED


def made(*findings, **changes):
    """An audit that found this."""
    return run.Audit(**{
        'findings': findings, 'hosts': {DEDICATED: 2, None: 1},
        'servers': {(DEDICATED, DEDICATED): 1, (DEDICATED, SHARED): 1234},
        'flavors': 1, 'aggregates': 0, 'started': 100.0, 'duration_s': 2.5,
        **changes})


def found(code, name='x', **changes):
    """A finding with the words of its rule."""
    one = run.RULES[code].finding(rule.Problem(
        fake.server(name, 'h', SHARED) if code < 'S2' else fake.host(name),
        'it is wrong', ('openstack mend it',)))
    return finding.Finding(**{
        **{key: getattr(one, key) for key in one.__slots__}, **changes})


def shown(audit, width=80, **options):
    stream = io.StringIO()
    console = cli_base.console(stream)
    console.width = width
    report.show(audit, console, **options)
    return stream.getvalue()


@ddt.ddt
class TestTable(base.TestCase):

    def test_nothing(self):
        self.assertEqual(
            'nothing found in 3 hosts, 1,235 servers, 1 flavor, 0 '
            'aggregates\n', shown(made()))

    def test_findings(self):
        text = shown(made(found('S101', 'a'), found('S101', 'b'),
                          found('S302', 'c')))
        self.assertIn('S101 error: shared server on a dedicated host (2)\n',
                      text)
        self.assertIn('  - server a id-a: it is wrong\n'
                      '      openstack mend it\n', text)
        self.assertIn('  - host c: it is wrong\n', text)
        self.assertEqual(2, text.count('  why: '))
        self.assertIn('2 errors and 1 warning in 3 hosts', text)

    def test_limit(self):
        many = [found('S101', str(number)) for number in range(1300)]
        text = shown(made(*many))
        self.assertEqual(10, text.count('  - server '))
        self.assertIn('  and 1,290 more (--limit)\n', text)
        self.assertEqual(1300, shown(made(*many), limit=2000).count('  - '))

    @ddt.data(40, 80, 200)
    def test_width(self, width):
        command = f'openstack {"mend " * 60}it'
        text = shown(made(*(
            found(code, mends=(command,), message='word ' * 40)
            for code in run.RULES)), width)
        self.assertEqual(len(run.RULES), text.count(f'      {command}\n'))
        for line in text.splitlines():
            if 'openstack' not in line and not re.match('S[0-9]', line):
                self.assertLessEqual(len(line), width)

    def test_severity_is_the_worst(self):
        note = found('S202', severity=finding.Severity.NOTE)
        self.assertIn('S202 note: ', shown(made(note)))
        self.assertIn('S202 warning: ', shown(made(note, found('S202'))))

    def test_names_do_nothing_to_a_terminal(self):
        text = shown(made(found('S302', 'a\x1b[31m\r\nb', mends=('\x1b',),
                                message='\x9b')))
        self.assertIsNone(re.search('[\x1b\r\x9b]', text))


class TestJson(base.TestCase):

    def test_content(self):
        text = json.dumps(report.as_dict(
            made(found('S101', 'a'), unmatched=('y',)), 'north'))
        content = json.loads(text)
        [one] = content.pop('findings')
        self.assertEqual({
            'version': 1, 'cloud': 'north', 'started': 100.0,
            'duration_seconds': 2.5, 'flavors': 1, 'aggregates': 0,
            'hosts': {'none': 1, 'dedicated': 2}, 'unmatched': ['y'],
            'servers': [
                {'host_class': 'dedicated', 'server_class': 'dedicated',
                 'count': 1},
                {'host_class': 'dedicated', 'server_class': 'shared',
                 'count': 1234}],
            'totals': {'error': 1, 'warning': 0, 'note': 0}}, content)
        self.assertEqual({
            'code': 'S101', 'severity': 'error', 'kind': 'server',
            'id': 'id-a', 'name': 'a', 'host': 'h', 'message': 'it is wrong',
            'why': run.RULES['S101'].why,
            'advice': run.RULES['S101'].advice,
            'commands': ['openstack mend it']}, one)


class TestPrometheus(base.TestCase):

    def samples(self, audit):
        """The values by name and labels, as Prometheus reads them."""
        text = metrics.exposition(audit)
        return {
            (sample.name.removeprefix('nova_pinning_segregation_'),
             *sample.labels.values()): sample.value
            for family in parser.text_string_to_metric_families(text)
            for sample in family.samples}

    def test_nothing(self):
        samples = self.samples(made())
        for code, one in run.RULES.items():
            self.assertEqual(0, samples['violations', code,
                                        str(one.severity)])
        self.assertEqual(102.5, samples['last_success_timestamp_seconds',])
        self.assertEqual(2.5, samples['duration_seconds',])
        self.assertEqual(
            (2, 0, 1), tuple(samples['hosts', name] for name in (
                'dedicated', 'shared', 'none')))
        self.assertEqual(1234, samples['servers', 'dedicated', 'shared'])
        self.assertEqual(0, samples['servers', 'shared', 'shared'])
        self.assertEqual(9, sum(key[0] == 'servers' for key in samples))


class TestReference(base.TestCase):

    def test_page_is_up_to_date(self):
        if not PAGE.is_file():
            self.skipTest('not run from a checkout')
        self.assertEqual(
            reference.page(), PAGE.read_text(),
            f'stale; write the output of python -m '
            f'nova_pinning.segregation.audit to {PAGE.name}')

    def test_page_has_all_codes(self):
        page = reference.page()
        for code, one in run.RULES.items():
            self.assertIn(f'\n{code}: {one.title}\n~', page)
            self.assertIn(code[:2], reference.GROUPS)

    def test_sections_of_flavor_checks_are_their_own(self):
        self.assertNotIn('What mends it', flavor_reference.page())
