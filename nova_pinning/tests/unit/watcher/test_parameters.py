# SPDX-License-Identifier: Apache-2.0

import pathlib

import ddt
import jsonschema
from oslo_config import cfg
from oslotest import base as oslotest

from nova_pinning import errors
from nova_pinning.rebalance import plan_document
from nova_pinning.rebalance import plan_model
from nova_pinning.rebalance import plan_request
from nova_pinning.watcher import parameters
from nova_pinning.watcher import watcher_options

GOAL = plan_request.DrainHosts(hosts=('a',))


@ddt.ddt
class TestParameters(oslotest.BaseTestCase):

    @ddt.data(parameters.DEFRAGMENTATION, parameters.DRAIN)
    def test_schema_is_one(self, schema):
        jsonschema.Draft4Validator.check_schema(schema)
        self.assertLessEqual(set(schema['required']),
                             set(schema['properties']))
        for one in schema['properties'].values():
            self.assertTrue(one['description'].endswith('.'))
            if 'default' in one:
                jsonschema.Draft4Validator(one).validate(one['default'])

    @ddt.data({'sizes': 16}, {'sizes': '16:3,8:1', 'moves': '3%'},
              {'sizes': 'enterprise.4xlarge', 'until': 40, 'moves': 25},
              {'sizes': '2', 'min_age': '7d', 'tags': ['db'],
               'memory': '2TiB', 'live_only': False, 'seconds': 5})
    def test_good(self, values):
        jsonschema.Draft4Validator(
            parameters.DEFRAGMENTATION).validate(values)

    @ddt.data({}, {'sizes': 0}, {'sizes': '--svg=/etc/x'},
              {'sizes': 16, 'moves': 0}, {'sizes': 16, 'moves': '3'},
              {'sizes': 16, 'moves': '-1%'}, {'sizes': 16, 'until': 0},
              {'sizes': 16, 'hosts': ['h']}, {'sizes': 16, 'tags': 'db'},
              {'sizes': 16, 'fixed': ['-o']}, {'sizes': 16, 'seconds': 0})
    def test_bad(self, values):
        self.assertRaises(
            jsonschema.ValidationError, jsonschema.Draft4Validator(
                parameters.DEFRAGMENTATION).validate,
            values)

    @ddt.data({}, {'hosts': []}, {'hosts': 'h'}, {'hosts': ['h', 'h']},
              {'hosts': ['h'], 'until': 3})
    def test_bad_drain(self, values):
        self.assertRaises(
            jsonschema.ValidationError, jsonschema.Draft4Validator(
                parameters.DRAIN).validate, values)

    def request_of(self, values, **settings):
        conf = cfg.ConfigOpts()
        watcher_options.register_opts(conf)
        conf([])
        for name, value in settings.items():
            conf.set_override(name, value, 'pinning_watcher')
            # It is kept with the group, which is one for all tests.
            self.addCleanup(conf.clear_override, name, 'pinning_watcher')
        return parameters.request_of(values, conf.pinning_watcher, GOAL)

    def test_all(self):
        """Each parameter, and each option for the cloud, counts."""
        self.assertEqual(
            plan_request.PlanRequest(
                goal=GOAL, share_percent=3.0, memory_mib=2 * 2 ** 20,
                fixed=('x', 'y'), excluded=('c', 'd'), seconds=5,
                rules=plan_request.RuleSettings(
                    allows_cold=False, moves_devices=False, release='2026.1',
                    is_restarted=True, fixed_tags=frozenset({'db', 'mq'}),
                    least_age_days=7, most_age_days=60, crosses_zones=True,
                    isolates=True)),
            self.request_of({
                'moves': '3%', 'memory': '2TiB', 'live_only': True,
                'fixed': ['x', 'y'], 'tags': ['db', 'mq'], 'min_age': '7d',
                'max_age': '60d', 'exclude': ['c', 'd'], 'seconds': 5},
                release='2026.1', restarted=True,
                isolated_aggregates=True, cross_zones=True))

    def test_what_is_left_out(self):
        for values in ({}, dict.fromkeys((
                'moves', 'memory', 'live_only', 'fixed', 'tags', 'min_age',
                'max_age', 'exclude', 'seconds'))):
            self.assertEqual(plan_request.PlanRequest(goal=GOAL),
                             self.request_of(values))
        self.assertEqual(25, self.request_of({'moves': 25}).moves)

    @ddt.data({'min_age': '7'}, {'max_age': '3 weeks'}, {'memory': '9XB'},
              {'min_age': '7d', 'max_age': '1d'})
    def test_values_that_are_none(self, values):
        error = self.assertRaises(errors.InputError, self.request_of, values)
        self.assertIn(str(list(values)[-1]), str(error))

    def test_written(self):
        """The command reads what an audit asks for."""
        request = self.request_of({'moves': 3, 'tags': ['db']})
        text = plan_document.dumps(plan_model.RebalancePlan(
            goal=plan_model.PlanGoal.DRAIN, moves=(), request=request))
        self.assertEqual(request, plan_document.loads(text).known_request())

    def test_docs_have_them(self):
        page = (pathlib.Path(__file__).parents[4] / 'doc' / 'source' / 'admin'
                / 'watcher.rst')
        if not page.exists():
            self.skipTest('not run from a checkout')
        for schema in (parameters.DEFRAGMENTATION, parameters.DRAIN):
            for name in schema['properties']:
                self.assertIn(f'   * - ``{name}``\n', page.read_text())
