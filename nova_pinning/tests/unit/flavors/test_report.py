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

import io
import json

import ddt
import rich.console

from nova_pinning import errors
from nova_pinning.flavors import checks
from nova_pinning.flavors import finding
from nova_pinning.flavors.finding import Severity
from nova_pinning.flavors import report
from nova_pinning.flavors import sarif
from nova_pinning.tests.unit import base

_PLACE = errors.Location('etc/flavors.yaml', 41, 5, 'families.a.class')


def found(flavor='large', where=_PLACE, code='P105',
          severity=Severity.WARNING, message='it is so', why='it hurts',
          advice='write it so'):
    return finding.Finding(
        code, severity, flavor, where, message, why, advice)


def shown(findings, checked=22, width=100, **options):
    stream = io.StringIO()
    report.show(findings, checked, rich.console.Console(
        file=stream, width=width, highlight=False, markup=False,
        emoji=False, **options))
    return stream.getvalue()


@ddt.ddt
class StatusTest(base.TestCase):

    @ddt.data(
        ((), False, 0), ((Severity.NOTE,), False, 0),
        ((Severity.NOTE,), True, 1),
        ((Severity.NOTE, Severity.WARNING), False, 1),
        ((Severity.ERROR,), False, 1))
    @ddt.unpack
    def test_status(self, severities, strict, expected):
        self.assertEqual(expected, report.exit_status(
            [found(severity=one) for one in severities], strict))

    @ddt.data(
        ((), 1, 'nothing found in 1 flavor'),
        ((Severity.NOTE,), 22, '1 note in 22 flavors'),
        ((Severity.NOTE, Severity.ERROR, Severity.ERROR, Severity.WARNING), 2,
         '2 errors, 1 warning and 1 note in 2 flavors'))
    @ddt.unpack
    def test_totals(self, severities, checked, expected):
        self.assertEqual(expected, report.totals(
            [found(severity=one) for one in severities], checked))


class JsonTest(base.TestCase):

    def test_shape(self):
        self.assertEqual({
            'version': 1, 'flavors': 3,
            'totals': {'error': 0, 'warning': 1, 'note': 0},
            'findings': [{
                'code': 'P105', 'severity': 'warning', 'flavor': 'large',
                'source': 'etc/flavors.yaml', 'line': 41, 'column': 5,
                'key': 'families.a.class', 'message': 'it is so',
                'why': 'it hurts', 'advice': 'write it so'}],
        }, json.loads(json.dumps(report.as_dict([found()], 3))))


class ShowTest(base.TestCase):

    def lines(self, *args, **kwargs):
        return [' '.join(line.split())
                for line in shown(*args, **kwargs).splitlines()]

    def test_one(self):
        self.assertEqual([
            'etc/flavors.yaml',
            'warning P105 41: families.a.class',
            'large: it is so',
            'why: it hurts',
            'instead: write it so',
            '',
            '1 warning in 22 flavors',
        ], self.lines([found()]))

    def test_nothing(self):
        self.assertEqual(['nothing found in 22 flavors'], self.lines([]))

    def test_the_same_in_several_flavors(self):
        lines = self.lines([found(name) for name in 'abcdef'])
        self.assertIn('6 flavors (a ... f): it is so', lines)
        self.assertEqual(1, sum('it is so' in line for line in lines))

    def test_two_flavors(self):
        self.assertIn('a and b: it is so',
                      self.lines([found('a'), found('b')]))

    def test_nearly_the_same_in_many_flavors(self):
        lines = self.lines([
            found(f'a{number}', message=f'it is {number}')
            for number in range(1000)])
        self.assertIn('a2: it is 2', lines)
        self.assertNotIn('a3: it is 3', lines)
        self.assertIn('and 997 more like these, in 997 flavors (a10 ... a999)',
                      lines)

    def test_four_are_not_cut(self):
        lines = self.lines([
            found(f'a{number}', message=f'it is {number}')
            for number in range(4)])
        self.assertIn('a3: it is 3', lines)

    def test_reasons_are_told_once(self):
        other = errors.Location('etc/flavors.yaml', 50, 5, 'families.b.class')
        lines = self.lines([
            found(), found(where=other), found(code='P106', where=other)])
        self.assertEqual(2, lines.count('why: it hurts'))
        self.assertEqual(2, lines.count('instead: write it so'))

    def test_by_file_and_line_the_worst_first(self):
        cloud = errors.Location('cloud a', key='flavor large')
        lines = self.lines([
            found(where=cloud),
            found(where=errors.Location('a.yaml', 50, 1, 'b')),
            found(where=errors.Location('a.yaml', 9, 1, 'a')),
            found(where=errors.Location('a.yaml', 9, 1, 'a'), code='N002',
                  severity=Severity.ERROR)])
        self.assertEqual(
            ['cloud a', 'warning P105 large: it is so', 'a.yaml',
             'error N002 9: a', 'warning P105 9: a', 'warning P105 50: b'],
            [line for line in lines if line.startswith((
                'cloud', 'a.yaml', 'warning', 'error'))])

    def test_flavors_of_a_cloud_are_folded(self):
        lines = self.lines([
            found(name, errors.Location('cloud a', key=f'flavor {name}'))
            for name in 'abc'])
        self.assertIn('warning P105 3 flavors (a ... c): it is so', lines)

    def test_fits_the_terminal(self):
        text = shown([found(message='word ' * 50 + 'x' * 100)], width=60)
        self.assertLessEqual(max(map(len, text.splitlines())), 60)
        self.assertEqual(50, text.count('word'))
        self.assertEqual(100, text.count('x'))

    def test_colour_on_terminals_only(self):
        self.assertNotIn('\x1b', shown([found()]))
        coloured = shown([found()], force_terminal=True,
                         color_system='standard')
        self.assertIn('\x1b', coloured)
        self.assertIn('warning', coloured)

    def test_markup_is_not_read(self):
        self.assertIn('[bold]x[/bold]', shown([
            found(message='[bold]x[/bold]')]))


class SarifTest(base.TestCase):

    def result(self, **values):
        log = json.loads(json.dumps(
            sarif.as_sarif([found(**values)], checks.RULES)))
        one, = log['runs'][0]['results']
        return one

    def test_rules(self):
        log = sarif.as_sarif([], checks.RULES)
        self.assertEqual('2.1.0', log['version'])
        run, = log['runs']
        self.assertEqual([], run['results'])
        rules = run['tool']['driver']['rules']
        self.assertEqual(list(checks.RULES), [one['id'] for one in rules])
        for one in rules:
            self.assertIn(one['defaultConfiguration']['level'],
                          ('error', 'warning', 'note'))
            for text in (one['shortDescription'], one['fullDescription'],
                         one['help']):
                self.assertRegex(text['text'], r'^[A-Z].*[^.?]\.$')

    def test_a_file(self):
        one = self.result()
        self.assertEqual(('P105', 'warning'), (one['ruleId'], one['level']))
        self.assertEqual(
            'P105', list(checks.RULES)[one['ruleIndex']])
        self.assertEqual('flavor large: it is so; write it so',
                         one['message']['text'])
        place, = one['locations']
        self.assertEqual(
            {'artifactLocation': {'uri': 'etc/flavors.yaml'},
             'region': {'startLine': 41, 'startColumn': 5}},
            place['physicalLocation'])
        self.assertEqual(
            'etc/flavors.yaml: families.a.class',
            place['logicalLocations'][0]['fullyQualifiedName'])

    def test_paths(self):
        for path, uri in (('/a b/f.yaml', 'file:///a%20b/f.yaml'),
                          ('a b.yaml', 'a%20b.yaml'),
                          ('./a.yaml', 'a.yaml')):
            place, = self.result(where=errors.Location(path, 1))['locations']
            self.assertEqual(
                {'artifactLocation': {'uri': uri}, 'region': {
                    'startLine': 1}}, place['physicalLocation'])

    def test_a_cloud(self):
        place, = self.result(where=errors.Location(
            'cloud a', key='flavor large'))['locations']
        self.assertEqual(
            [{'name': 'large', 'kind': 'member',
              'fullyQualifiedName': 'cloud a: flavor large'}],
            place.pop('logicalLocations'))
        self.assertEqual({}, place)
