# SPDX-License-Identifier: Apache-2.0

import ddt
import jsonschema
from oslotest import base as oslotest

from nova_pinning.watcher import parameters


@ddt.ddt
class TestParameters(oslotest.BaseTestCase):

    @ddt.data(parameters.DEFRAGMENTATION, parameters.DRAIN)
    def test_schema_is_one(self, known):
        schema = parameters.schema(known)
        jsonschema.Draft4Validator.check_schema(schema)
        self.assertEqual({one.name for one in known},
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
            parameters.schema(parameters.DEFRAGMENTATION)).validate(values)

    @ddt.data({}, {'sizes': 0}, {'sizes': '--svg=/etc/x'},
              {'sizes': 16, 'moves': 0}, {'sizes': 16, 'moves': '3'},
              {'sizes': 16, 'moves': '-1%'}, {'sizes': 16, 'until': 0},
              {'sizes': 16, 'hosts': ['h']}, {'sizes': 16, 'tags': 'db'},
              {'sizes': 16, 'fixed': ['-o']}, {'sizes': 16, 'seconds': 0})
    def test_bad(self, values):
        self.assertRaises(
            jsonschema.ValidationError, jsonschema.Draft4Validator(
                parameters.schema(parameters.DEFRAGMENTATION)).validate,
            values)

    @ddt.data({}, {'hosts': []}, {'hosts': 'h'}, {'hosts': ['h', 'h']},
              {'hosts': ['h'], 'until': 3})
    def test_bad_drain(self, values):
        self.assertRaises(
            jsonschema.ValidationError, jsonschema.Draft4Validator(
                parameters.schema(parameters.DRAIN)).validate, values)

    def test_options(self):
        self.assertEqual(
            ['--for=16:3,8:1', '--moves=25', '--live-only', '--tag=a',
             '--tag=b', '--seconds=60'],
            parameters.command_options(parameters.DEFRAGMENTATION, {
                'sizes': '16:3,8:1', 'moves': 25, 'tags': ['a', 'b'],
                'fixed': [], 'live_only': True, 'seconds': 60,
                'until': None}))

    def test_options_that_are_not_the_command_s(self):
        self.assertEqual(
            ['--host=a', '--host=b'],
            parameters.command_options(parameters.DRAIN, {
                'hosts': ['a', 'b'], 'disable': True, 'live_only': False}))
