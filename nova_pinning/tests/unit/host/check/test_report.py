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

"""What people and programs are told of a check of a host."""

import io
import json
import re

import ddt
import hypothesis
from hypothesis import strategies
from prometheus_client import parser

from nova_pinning.cli import base as cli_base
from nova_pinning.host.check import finding
from nova_pinning.host.check import metrics
from nova_pinning.host.check import report
from nova_pinning.host.check import rule
from nova_pinning.host.check import run
from nova_pinning.tests.unit import base
from nova_pinning.tests.unit.host.check import samples

EVIDENCE = finding.Evidence(
    pid=7, tid=9, name='CPU 1/KVM', cpus=samples.cpus('3'),
    expected_cpus=samples.cpus('1,5'), run_seconds=0.25, is_estimate=True)


def found(code='H101', **changes):
    """A finding with the words of its rule."""
    one = run.RULES[code].finding(rule.Problem(
        subject='x', message='it is wrong', mends=('mend it',)))
    return finding.Finding(**{
        **{key: getattr(one, key) for key in one.__slots__}, **changes})


def made(*findings, **changes):
    """A result with these findings."""
    return finding.Result(**{
        'host': 'cmp-1', 'plan': 'cmp-1', 'findings': findings,
        'started': 100.0,
        'looked_at': {'processes': 1, 'threads': 1234, 'guests': 0},
        'duration_seconds': 2.5, **changes})


def shown(result, width=80, **options):
    stream = io.StringIO()
    console = cli_base.console(stream)
    console.width = width
    report.show(result, run.RULES, console, **options)
    return stream.getvalue()


@ddt.ddt
class TestTable(base.TestCase):

    def test_nothing(self):
        self.assertEqual(
            'nothing found on host cmp-1, in 1 process, 1,234 threads, 0 '
            'guests\n', shown(made()))

    def test_plan_of_a_kind_of_hosts(self):
        self.assertIn(' on host cmp-1 by plan dell-80, in ',
                      shown(made(plan='dell-80')))

    def test_overview(self):
        text = shown(made(found(), found(), found('H201')))
        self.assertIn(f'\nH101    2  {run.RULES["H101"].title}\n'
                      f'H201    1  {run.RULES["H201"].title}\n\n3 errors',
                      text)
        self.assertNotIn('H101    2', shown(made(found(), found())))

    def test_which_nova_conf(self):
        line = 'nova.conf as loaded from /a, /b\n'
        self.assertIn(line, shown(made(
            found(subject='nova.conf'), nova_conf_files=('/a', '/b'))))
        self.assertNotIn(line, shown(made(
            found(), nova_conf_files=('/a', '/b'))))

    def test_watched(self):
        self.assertIn(', watched for 9.5 s\n',
                      shown(made(watched_seconds=9.5), 200))

    def test_finding(self):
        text = shown(made(found(evidence=(EVIDENCE,)), found('H201')))
        self.assertIn(f'H101 error: {run.RULES["H101"].title} (1)\n', text)
        self.assertIn('  - x: it is wrong\n'
                      '    pid 7 tid 9 CPU 1/KVM: CPU 3, should be 1,5, about '
                      '250 ms\n      mend it\n', text)
        self.assertIn('2 errors on host cmp-1, in', text)

    @ddt.data(
        ({'name': 'eth0-rx-0', 'interrupt': 58, 'count': 1},
         'interrupt 58 eth0-rx-0: once'),
        ({'interrupt': 58, 'count': 1234}, 'interrupt 58: 1,234 times'),
        ({'name': 'nova-conductor:', 'pid': 7}, 'pid 7 nova-conductor'),
        ({'node': 0}, 'node 0'),
        ({'name': 'x', 'node': 1}, 'x node 1'),
        ({'cpus': samples.cpus('')}, 'no CPU'),
        ({'pid': 0, 'expected_cpus': samples.cpus('')},
         'pid 0: should be none'),
        ({'name': 'x', 'run_seconds': 0.0}, 'x: 0 µs'),
        ({}, ''))
    @ddt.unpack
    def test_evidence(self, values, line):
        self.assertEqual(line, report.evidence(finding.Evidence(**values)))

    def test_limit(self):
        many = [found(evidence=[EVIDENCE] * 12,
                      mends=[f'mend {place}' for place in range(1301)])
                for number in range(13)]
        text = shown(made(*many))
        self.assertEqual(10, text.count('  - x: '))
        self.assertIn('\n  and 3 more (--limit)\n', text)
        self.assertEqual(100, text.count('pid 7'))
        self.assertEqual(10, text.count('\n    and 2 more (--limit)\n'))
        self.assertEqual(100, text.count('      mend '))
        self.assertEqual(10, text.count('\n      and 1,291 more (--limit)\n'))
        self.assertNotIn('and ', re.sub('why: .*?- x', '', shown(
            made(*many), limit=2000), flags=re.DOTALL))

    def test_unread(self):
        text = shown(made(unread=(finding.Unread(
            '/etc/nova/nova.conf', 'permission denied',
            'what nova-compute offers'),)))
        self.assertIn('not known, for it could not be read:\n'
                      '  - what nova-compute offers: /etc/nova/nova.conf: '
                      'permission denied\n', text)

    def test_advice_of_its_own(self):
        text = shown(made(found(), found(advice='do something else')))
        self.assertEqual(1, text.count('    mend: do something else\n'))
        self.assertEqual(1, text.count(run.RULES['H101'].advice[:20]))

    @ddt.data(40, 80, 200)
    def test_width(self, width):
        command = f'taskset {"mend " * 60}it'
        text = shown(made(*(
            found(code, mends=(command,), message='word ' * 40,
                  evidence=(EVIDENCE,)) for code in run.RULES)), width)
        self.assertEqual(len(run.RULES), text.count(f'      {command}\n'))
        for line in text.splitlines():
            if 'taskset' not in line and not re.match('H[0-9]', line):
                self.assertLessEqual(len(line), width)

    def test_names_do_nothing_to_a_terminal(self):
        text = shown(made(found(
            subject='a\x1b[31m\r\nb', mends=('\x1b',), message='\x9b',
            evidence=(finding.Evidence(name='\x1b[0m'),)),
            host='\x1b', unread=(finding.Unread('\x1b', '\r', '\x07'),)))
        self.assertIsNone(re.search('[\x1b\r\x9b\x07]', text))


class TestJson(base.TestCase):

    def test_content(self):
        content = json.loads(json.dumps(report.as_dict(made(
            found(evidence=(EVIDENCE,)),
            unread=(finding.Unread('/a', 'denied', 'what'),),
            nova_conf_files=('/etc/nova/nova.conf',),
            watched_seconds=9.5, foreign_seconds={7: 0.5, 3: 0.25},
            free_pages={(1, 2048): 5, (0, 1048576): 2}))))
        [one] = content.pop('findings')
        self.assertEqual({
            'version': 1, 'host': 'cmp-1', 'plan': 'cmp-1', 'started': 100.0,
            'duration_seconds': 2.5, 'watched_seconds': 9.5,
            'nova_conf_files': ['/etc/nova/nova.conf'],
            'looked_at': {'processes': 1, 'threads': 1234, 'guests': 0},
            'foreign_seconds': [{'cpu': 3, 'seconds': 0.25},
                                {'cpu': 7, 'seconds': 0.5}],
            'free_pages': [
                {'node': 0, 'page_size_kib': 1048576, 'count': 2},
                {'node': 1, 'page_size_kib': 2048, 'count': 5}],
            'unread': [{'path': '/a', 'reason': 'denied', 'hides': 'what'}],
            'totals': {'error': 1, 'warning': 0, 'note': 0}}, content)
        self.assertEqual({
            'code': 'H101', 'severity': 'error', 'subject': 'x',
            'message': 'it is wrong', 'why': run.RULES['H101'].why,
            'advice': run.RULES['H101'].advice, 'commands': ['mend it'],
            'evidence': [{
                'pid': 7, 'tid': 9, 'name': 'CPU 1/KVM', 'interrupt': None,
                'node': None, 'cpus': '3', 'expected_cpus': '1,5',
                'run_seconds': 0.25, 'is_estimate': True, 'count': None}],
        }, one)

    @base.settings(30)
    @hypothesis.given(strategies.builds(
        finding.Evidence, cpus=strategies.none() | strategies.builds(
            samples.cpus, strategies.sampled_from(['', '0', '0-3,9']))))
    def test_all_of_evidence_is_there(self, one):
        """Nothing that a rule may say is left out, or looks otherwise."""
        [told] = report.as_dict(made(found(evidence=(one,))))[
            'findings'][0]['evidence']
        self.assertEqual(set(one.__slots__), set(told))
        for key, value in told.items():
            held = getattr(one, key)
            self.assertEqual(str(held) if key.endswith('cpus') and
                             held is not None else held, value)


class TestPrometheus(base.TestCase):

    def samples(self, result):
        """The values by name and labels, as Prometheus reads them."""
        text = metrics.exposition(result, run.RULES)
        return {
            (sample.name.removeprefix('nova_pinning_host_'),
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
        self.assertEqual(0, samples['unread',])
        self.assertEqual(1234, samples['looked_at', 'threads'])
        self.assertEqual(0, samples['looked_at', 'guests'])
        # Who was not watched did not run for 0 seconds.
        self.assertFalse({'watched_seconds', 'foreign_run_seconds'} &
                         {key[0] for key in samples})

    def test_all(self):
        samples = self.samples(made(
            watched_seconds=9.5, foreign_seconds={3: 0.25, 7: 0.0},
            free_pages={(0, 2048): 5, (1, 1048576): 0},
            unread=(finding.Unread('/a', 'denied', 'what'),)))
        for key, value in (
                (('watched_seconds',), 9.5), (('unread',), 1),
                (('foreign_run_seconds', '3'), 0.25),
                (('foreign_run_seconds', '7'), 0),
                (('huge_pages_free', '0', '2048'), 5),
                (('huge_pages_free', '1', '1048576'), 0)):
            self.assertEqual(value, samples[key])
