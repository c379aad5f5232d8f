# SPDX-License-Identifier: Apache-2.0
"""Changes in words."""

import io
import json

import fixtures
from oslotest import base as oslotest

from nova_pinning.cli import base_command
from nova_pinning.flavors import flavor_model
from nova_pinning.flavors import sync
from nova_pinning.osc import flavor

OLD = flavor_model.Flavor(name='a', id='old', vcpus=1, memory_mib=512)
NEW = flavor_model.Flavor(name='a', id='new', vcpus=2, memory_mib=512,
                          extra_specs={'hw:cpu_policy': 'dedicated'})
CHANGES = (
    sync.FlavorChange(sync.FlavorAction.CREATE, 'a', catalogue_flavor=NEW),
    sync.FlavorChange(sync.FlavorAction.REPLACE, 'a', NEW, OLD,
                      'nova cannot do it',
                      servers=('guest (1)',),
                      obstacle='1 server (guest (1)) use it'),
    sync.FlavorChange(sync.FlavorAction.RETIRE, 'a', live=OLD),
    sync.FlavorChange(sync.FlavorAction.CONFLICT, 'a', NEW, OLD, 'taken'),
    sync.FlavorChange(sync.FlavorAction.UNCHANGED, 'a', OLD, OLD))


class Terminal(io.StringIO):
    def isatty(self):
        return True


class TestShow(oslotest.BaseTestCase):

    def test_diff(self):
        output = io.StringIO()
        flavor.diff(CHANGES, base_command.console(output))
        self.assertEqual("""\
create a
  + vcpus: 2
  + memory_mib: 512
  + hw:cpu_policy: dedicated
replace a: nova cannot do it; 1 server (guest (1)) use it, so it stays as it is
  - vcpus: 1
  + vcpus: 2
  + hw:cpu_policy: dedicated
retire a
  - vcpus: 1
  - memory_mib: 512
conflict a: taken
""", output.getvalue())

    def test_colour_is_for_terminals(self):
        self.useFixture(fixtures.EnvironmentVariable('TERM', 'xterm'))
        self.useFixture(fixtures.EnvironmentVariable('NO_COLOR', None))
        output = Terminal()
        flavor.diff(CHANGES, base_command.console(output))
        self.assertIn('\x1b[', output.getvalue())

    def test_long_lines_stay_whole(self):
        output = io.StringIO()
        changed = sync.FlavorChange(
            sync.FlavorAction.CREATE, 'a',
            catalogue_flavor=flavor_model.Flavor(
                name='a', vcpus=1, memory_mib=1, description='word ' * 100))
        flavor.diff([changed], base_command.console(output))
        self.assertEqual(4, len(output.getvalue().splitlines()))

    def test_plan_totals(self):
        self.assertEqual(
            '1 to create, 1 to retire, 1 in conflict, 1 unchanged, '
            '1 left as they are', flavor.plan_totals(CHANGES))
        self.assertEqual('no flavors', flavor.plan_totals(()))

    def test_results(self):
        results = [
            sync.FlavorResult(CHANGES[0], sync.FlavorStatus.DONE),
            sync.FlavorResult(CHANGES[1], sync.FlavorStatus.SKIPPED, 'in use'),
            sync.FlavorResult(CHANGES[2], sync.FlavorStatus.FAILED, '500'),
            sync.FlavorResult(CHANGES[0], sync.FlavorStatus.LOST, 'others'),
            sync.FlavorResult(CHANGES[0], sync.FlavorStatus.DONE, 'servers'),
        ]
        self.assertEqual(
            ['created a', 'left a as it is: in use',
             'failed to retire a: 500', 'lost a: others',
             'created a: servers'],
            [flavor.result_line(result) for result in results])
        self.assertEqual('2 created, 1 left as they are, 1 failed, 1 lost',
                         flavor.result_totals(results))
        self.assertEqual('no flavors', flavor.result_totals([]))

    def test_every_action_has_its_words(self):
        for action in sync.FlavorAction:
            if action is not sync.FlavorAction.CONFLICT:
                result = sync.FlavorResult(sync.FlavorChange(action, 'a'),
                                           sync.FlavorStatus.DONE)
                self.assertTrue(flavor.result_line(result).endswith('d a'))

    def test_json(self):
        as_dict = flavor.result_as_dict(sync.FlavorResult(
            CHANGES[1], sync.FlavorStatus.SKIPPED, 'in use'))
        self.assertEqual({
            'action': 'replace', 'name': 'a', 'id': 'old', 'new_id': 'new',
            'reason': 'nova cannot do it', 'in_use': True,
            'servers': ['guest (1)'],
            'obstacle': '1 server (guest (1)) use it',
            'differences': [
                {'key': 'vcpus', 'before': 1, 'after': 2},
                {'key': 'hw:cpu_policy', 'before': None,
                 'after': 'dedicated'}],
            'status': 'skipped', 'message': 'in use'},
            json.loads(json.dumps(as_dict)))
