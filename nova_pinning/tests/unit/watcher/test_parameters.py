# SPDX-License-Identifier: Apache-2.0

import pathlib

import ddt
import jsonschema
from oslo_config import cfg
from oslotest import base as oslotest

from nova_pinning.cli import rebalance_defragment
from nova_pinning.cli import rebalance_drain
from nova_pinning.watcher import parameters
from nova_pinning.watcher import watcher_options

DEFRAGMENTATION = (
    parameters.DEFRAGMENTATION, rebalance_defragment.Defragment,
    {'sizes': '16:3,8:1', 'until': 40})
DRAIN = (parameters.DRAIN, rebalance_drain.Drain, {'hosts': ['a', 'b']})
COMMON = {'moves': '3%', 'memory': '2TiB', 'live_only': True,
          'fixed': ['x', 'y'], 'tags': ['db', 'mq'], 'min_age': '7d',
          'max_age': '60d', 'exclude': ['c', 'd'], 'seconds': 5}


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

    @ddt.data(DEFRAGMENTATION, DRAIN)
    @ddt.unpack
    def test_command_knows_them(self, known, command, values):
        """Each parameter, and each option for the cloud, reaches it."""
        values = values | COMMON
        self.assertEqual({one.name for one in known if one.option},
                         set(values))
        conf = cfg.ConfigOpts()
        watcher_options.register_opts(conf)
        conf([])
        for name, value in (
                ('release', '2026.1'), ('default_zone', 'z'),
                ('isolated_aggregates', True), ('cross_zones', True),
                ('restarted', True)):
            conf.set_override(name, value, 'pinning_watcher')
            self.addCleanup(conf.clear_override, name, 'pinning_watcher')
        parser = command(None, None).get_parser('x')
        parsed = parser.parse_args([
            'fleet.json',
            *watcher_options.command_options(conf.pinning_watcher),
            *parameters.command_options(known, values)])
        self.assertEqual(
            ('2026.1', 'z', True, True, True, ['x', 'y'], ['db', 'mq'],
             ['c', 'd'], True, '2TiB', 5, 7, 60),
            (parsed.release, parsed.default_zone, parsed.isolated_aggregates,
             parsed.cross_zones, parsed.restarted, parsed.fixed, parsed.tag,
             parsed.exclude, parsed.live_only, parsed.memory, parsed.seconds,
             parsed.min_age, parsed.max_age))
        self.assertEqual((3, True), parsed.moves)
        if 'sizes' in values:
            self.assertEqual(('16:3,8:1', 40), (parsed.sizes, parsed.until))
        else:
            self.assertEqual(['a', 'b'], parsed.host)

    def test_docs_have_them(self):
        page = (pathlib.Path(__file__).parents[4] / 'doc' / 'source' / 'admin'
                / 'watcher.rst')
        if not page.exists():
            self.skipTest('not run from a checkout')
        for one in (*parameters.DEFRAGMENTATION, *parameters.DRAIN):
            self.assertIn(f'   * - ``{one.name}``\n', page.read_text())
