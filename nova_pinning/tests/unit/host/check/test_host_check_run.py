# SPDX-License-Identifier: Apache-2.0
"""What a check of a host has to say."""

import json

import ddt
import hypothesis
from hypothesis import strategies

from nova_pinning.checks import check_rule
from nova_pinning.host.check import facts
from nova_pinning.host.check import host_check_run
from nova_pinning.host.check.rules import settings
from nova_pinning.tests.unit.host.check import fact_samples
from nova_pinning.tests.unit import unit_base

UNREAD = facts.Unread('/etc/nova', 'denied', 'what nova-compute offers')


def made(*findings, seen=None, **values):
    """A report of a check with these findings."""
    return host_check_run.make_report(fact_samples.view(seen), findings,
                                      **values)


@ddt.ddt
class TestEvidence(unit_base.TestCase):

    @ddt.data(
        ({'pid': 7, 'tid': 9, 'name': 'CPU 1/KVM', 'cpus': '3',
          'expected_cpus': '1,5', 'run_seconds': 0.25, 'is_estimate': True},
         'pid 7 tid 9 CPU 1/KVM: CPU 3, should be 1,5, about 250 ms'),
        ({'interrupt': 58, 'name': 'eth0', 'cpus': '0-3', 'count': 1234},
         'interrupt 58 eth0: CPUs 0-3, 1,234 times'),
        ({'name': 'x', 'count': 1}, 'x: once'),
        ({'node': 0, 'name': 'pages of 2 MiB'}, 'pages of 2 MiB node 0'),
        ({'cpus': ''}, 'no CPU'),
        ({'pid': 0, 'expected_cpus': ''}, 'pid 0: should be none'),
        ({'name': 'x:', 'run_seconds': 0.0}, 'x: 0 µs'),
        ({}, ''))
    @ddt.unpack
    def test_text(self, values, line):
        values = {
            key: fact_samples.cpus(value) if key.endswith('cpus') else value
            for key, value in values.items()}
        self.assertEqual(line, str(facts.HostEvidence(**values)))

    @unit_base.settings(30)
    @hypothesis.given(strategies.builds(
        facts.HostEvidence, cpus=strategies.none() | strategies.builds(
            fact_samples.cpus, strategies.sampled_from(['', '0', '0-3,9']))))
    def test_json(self, evidence):
        """Nothing that a rule may say is left out, or looks otherwise."""
        told = json.loads(json.dumps(evidence.as_dict()))
        self.assertEqual(set(evidence.__slots__), set(told))
        for key, value in told.items():
            held = getattr(evidence, key)
            self.assertEqual(str(held) if key.endswith('cpus') and
                             held is not None else held, value)


class TestReport(unit_base.TestCase):

    def test_nothing(self):
        report = made()
        looked_at = report.head['looked_at']
        self.assertEqual(
            {'processes', 'threads', 'interrupts', 'guests'}, set(looked_at))
        self.assertIn(
            f'nothing found on host {report.head["host"]}', report.totals)
        self.assertIn(f'{looked_at["threads"]:,} thread', report.totals)
        self.assertNotIn('watched', report.totals)
        self.assertEqual((), report.notes)
        self.assertNotIn('foreign_run_seconds',
                         [figure.name for figure in report.figures])

    def test_plan_of_a_kind_of_hosts(self):
        view = fact_samples.view()
        view = fact_samples.replace(view, planned=fact_samples.replace(
            view.planned, name='dell-80'))
        self.assertIn(' by plan dell-80, in ',
                      host_check_run.make_report(view, ()).totals)

    def test_unread(self):
        report = made(unread=(UNREAD,))
        [(_heading, item)] = report.notes
        self.assertEqual('what nova-compute offers: /etc/nova: denied', item)
        self.assertEqual([{'path': '/etc/nova', 'reason': 'denied',
                           'hides': 'what nova-compute offers'}],
                         report.head['unread'])

    def test_nova_conf_is_named_where_it_matters(self):
        seen = fact_samples.right_facts()
        finding = host_check_run.RULES['H101'].finding(check_rule.Violation(
            subject=settings.SUBJECT, message='x'))
        files = ', '.join(seen.nova_conf.files)
        self.assertIn(files, str(made(finding, seen=seen).notes))
        self.assertNotIn(files, str(made(seen=seen).notes))

    def test_watched(self):
        seen = fact_samples.replace(fact_samples.right_facts(), free_pages={
            (1, 2048): 5, (0, 1048576): 2})
        report = made(seen=seen, watched_seconds=9.5,
                      foreign_seconds={7: 0.5, 3: 0.25})
        self.assertIn(', watched for 9.5 s', report.totals)
        self.assertEqual([{'cpu': 3, 'seconds': 0.25},
                          {'cpu': 7, 'seconds': 0.5}],
                         report.head['foreign_seconds'])
        self.assertEqual(
            [{'node': 0, 'page_size_kib': 1048576, 'count': 2},
             {'node': 1, 'page_size_kib': 2048, 'count': 5}],
            report.head['free_pages'])
        figures = {figure.name: figure.values for figure in report.figures}
        self.assertEqual({('3',): 0.25, ('7',): 0.5},
                         figures['foreign_run_seconds'])
        self.assertEqual({(): 9.5}, figures['watched_seconds'])
        self.assertEqual({('0', '1048576'): 2, ('1', '2048'): 5},
                         figures['huge_pages_free'])
