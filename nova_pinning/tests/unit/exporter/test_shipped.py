# SPDX-License-Identifier: Apache-2.0
"""The rules for Prometheus and the dashboard that are shipped."""

import dataclasses
import json
import pathlib
import re
import shutil
import subprocess

import yaml

import nova_pinning
from nova_pinning.checks import check_rule
from nova_pinning.checks import metrics
from nova_pinning.checks import report
from nova_pinning.exporter import child_commands
from nova_pinning.exporter import fleet_watch
from nova_pinning.exporter import planned_figures
from nova_pinning.exporter import task_metrics
from nova_pinning.tests import runner
from nova_pinning.tests.unit.exporter import test_fleet_tally
from nova_pinning.tests.unit.exporter import test_fleet_watch
from nova_pinning.tests.unit.exporter import test_planned_figures
from nova_pinning.tests.unit import unit_base

_ETC = (pathlib.Path(nova_pinning.__file__).resolve().parent.parent / 'etc'
        / 'nova-pinning')
_RULES = _ETC / 'prometheus' / 'nova-pinning.rules.yml'
_TESTS = _ETC / 'prometheus' / 'nova-pinning.rules.test.yml'
_DASHBOARD = _ETC / 'grafana' / 'nova-pinning.json'
_NAME = re.compile(r'(?:\w+:)?nova_pinning_\w+(?::\w+)?')
#: Units that panels may have, of those that Grafana knows.
_UNITS = {'short', 'percentunit', 's', 'd', 'bytes'}


def promtool(test, *arguments):
    program = shutil.which('promtool')
    if program is None:
        test.skipTest('promtool is not installed; Debian has it in package '
                      'prometheus')
    done = subprocess.run([program, *arguments], capture_output=True,
                          text=True)
    test.assertEqual(0, done.returncode, done.stdout + done.stderr)


def names_in(expression):
    return set(_NAME.findall(expression))


class TestCase(unit_base.TestCase):

    def setUp(self):
        super().setUp()
        if not _ETC.is_dir():
            self.skipTest('not run from a checkout')
        runner.freeze(self)
        self.rules = [
            rule for group in yaml.safe_load(_RULES.read_text())['groups']
            for rule in group['rules']]

    def exported(self):
        """The names of all metrics, with those that checks write."""
        tasks = task_metrics.TaskMetrics()
        watch = fleet_watch.FleetWatch(
            test_fleet_watch.Source(dataclasses.replace(
                test_fleet_tally.make_fleet(2),
                taken_at='2026-11-23T12:00:00Z')),
            tasks=tasks)
        watch.refresh()
        tasks.run('mix', lambda: None)
        settings = test_planned_figures.settings_of(
            self, defragment=['16'], mix=True, failover=True)
        planned = planned_figures.PlannedFigures(
            settings, lambda: b'', tasks, child_commands.ChildCommands())
        planned._run = lambda *_arguments, **_options: {
            'flavors': [{'name': 'x', 'class': 'dedicated'}],
            'mixes': [{'flavors': [{'name': 'x', 'fits': 1}], 'bound': 2}],
            'left_out_of_mixes': {}, 'moves': [], 'verdict': 'no',
            'gains': [{'before': 1, 'after': 2}], 'reserve': {'count': 1},
            'losses': [{'verdict': 'no', 'down': []}]}
        planned.refresh()
        text = watch.text() + planned.text() + tasks.text()
        for name in ('host', 'segregation'):
            text += metrics.exposition(report.CheckReport(
                name=name, rules=check_rule.Registry(groups={}), findings=(),
                source='', scope='', head={}))
        return text

    def known_names(self):
        types = re.findall(r'^# TYPE (\w+)', self.exported(), re.MULTILINE)
        return {*types, *(rule['record'] for rule in self.rules
                          if 'record' in rule)}


class RulesTestCase(TestCase):

    def test_check(self):
        promtool(self, 'check', 'rules', str(_RULES))

    def test_test(self):
        promtool(self, 'test', 'rules', str(_TESTS))

    def test_names(self):
        known = self.known_names()
        for rule in self.rules:
            self.assertLessEqual(names_in(rule['expr']), known)

    def test_each_alert_is_tested(self):
        """Both that it comes, and that it stays away."""
        alerts = {rule['alert'] for rule in self.rules if 'alert' in rule}
        tested = [
            test for case in yaml.safe_load(_TESTS.read_text())['tests']
            for test in case.get('alert_rule_test', ())]
        self.assertEqual(alerts, {
            test['alertname'] for test in tested if test['exp_alerts']})
        quiet = {test['alertname'] for test in tested
                 if not test['exp_alerts']}
        # Whose case has hosts of which nobody is told.
        self.assertEqual({'NovaPinningHostPlanNotObeyed'}, alerts - quiet)

    def test_each_alert_says_what_to_do(self):
        for rule in self.rules:
            if 'alert' in rule:
                self.assertEqual({'summary', 'description'},
                                 set(rule['annotations']))
                self.assertIn(rule['labels']['severity'],
                              ('info', 'warning', 'critical'))


class DashboardTestCase(TestCase):

    def setUp(self):
        super().setUp()
        self.dashboard = json.loads(_DASHBOARD.read_text())
        self.panels = [panel for panel in self.dashboard['panels']
                       if panel['type'] != 'row']
        self.expressions = [target['expr'] for panel in self.panels
                            for target in panel['targets']]

    def test_expressions(self):
        """Each of them is one that Prometheus understands."""
        rules = {'groups': [{'name': 'dashboard', 'rules': [
            {'record': f'panel:{number}',
             'expr': expression.replace('$job', '.*').replace(
                 '$__rate_interval', '5m')}
            for number, expression in enumerate(self.expressions)]}]}
        path = self.create_tempfiles(
            [('dashboard', yaml.safe_dump(rules))], '.yml')[0]
        promtool(self, 'check', 'rules', str(path))

    def test_names(self):
        known = self.known_names()
        for expression in self.expressions:
            self.assertTrue(names_in(expression))
            self.assertLessEqual(names_in(expression), known)

    def test_all_is_shown(self):
        """What is exported is on the dashboard, or part of a rule."""
        shown = set.union(*map(names_in, (
            *self.expressions, *(rule['expr'] for rule in self.rules))))
        types = set(re.findall(
            r'^# TYPE (nova_pinning_(?:capacity|cloud|failover|mix|'
            r'defragmentation)\w+)', self.exported(), re.MULTILINE))
        self.assertEqual({'nova_pinning_mix_guests_bound'}, types - shown)

    def test_all_is_documented(self):
        page = (_ETC.parents[1] / 'doc' / 'source' / 'admin'
                / 'exporter.rst').read_text()
        documented = set(re.findall(r'\* - ``(nova_pinning_\w+)``', page))
        self.assertEqual({
            name for name in re.findall(
                r'^# TYPE (\w+)', self.exported(), re.MULTILINE)
            if not name.startswith(('nova_pinning_host_',
                                    'nova_pinning_segregation_'))
            and not name.endswith('_created')}, documented)
        for rule in self.rules:
            if 'alert' in rule:
                self.assertIn(f'``{rule["alert"]}``', page)

    def test_form(self):
        """What can be told without Grafana."""
        ids = [panel['id'] for panel in self.dashboard['panels']]
        self.assertEqual(len(ids), len(set(ids)))
        variables = {variable['name'] for variable
                     in self.dashboard['templating']['list']}
        self.assertEqual({'datasource', 'job'}, variables)
        for panel in self.panels:
            self.assertTrue(panel['title'] and panel['description'])
            self.assertIn(panel['fieldConfig']['defaults']['unit'], _UNITS)
            references = [target['refId'] for target in panel['targets']]
            self.assertEqual(len(references), len(set(references)))
            self.assertEqual('${datasource}', panel['datasource']['uid'])

    def test_nothing_overlaps(self):
        taken = set()
        for panel in self.dashboard['panels']:
            place = panel['gridPos']
            for x in range(place['x'], place['x'] + place['w']):
                self.assertLess(x, 24)
                for y in range(place['y'], place['y'] + place['h']):
                    self.assertNotIn((x, y), taken)
                    taken.add((x, y))
