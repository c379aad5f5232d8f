# SPDX-License-Identifier: Apache-2.0
"""openstack pinning segregation apply, on a cloud in memory."""

import contextlib
import io
import json
from unittest import mock

import fixtures
from oslotest import base as oslotest

from nova_pinning import errors
from nova_pinning.model import hostclass
from nova_pinning.osc import segregation_apply
from nova_pinning.placement import placement_traits
from nova_pinning.tests.unit.segregation import fake_host_cloud
from nova_pinning.tests.unit.segregation import site_cloud

SITE = """
version: 1
groups:
  a:
    class: dedicated
    hosts: ['cmp-*']
    aggregate: {name: pinned, isolated: true}
  b: {class: none, hosts: [old], traits: [CUSTOM_GONE]}
"""
HOSTS = {f'cmp-{number}': {placement_traits.SHARED} for number in range(12)}


class Terminal(io.StringIO):
    def isatty(self):
        return True


class TestApply(oslotest.BaseTestCase):

    def setUp(self):
        super().setUp()
        self.useFixture(fixtures.EnvironmentVariable('COLUMNS', '80'))
        self.host_cloud = site_cloud.SiteCloud(
            {**HOSTS, 'old': {placement_traits.SHARED}},
            {'floating': (['cmp-7'], {'pinning:class': 'shared'})},
            [fake_host_cloud.server('web', hostclass.HostClass.SHARED,
                                    'cmp-3')])
        [self.path] = self.create_tempfiles([('site', SITE)], '.yaml')

    def run_apply(self, *options, answer=None):
        """Run the command.

        :returns: (status, output, error output)
        """
        command = segregation_apply.ApplySegregation(mock.Mock(), None)
        output, error = io.StringIO(), io.StringIO()
        stdin = io.StringIO() if answer is None else Terminal(answer)
        kind = segregation_apply.ApplySegregation
        with (mock.patch.object(kind, 'host_cloud', self.host_cloud),
              mock.patch.object(kind, 'cloud', self.host_cloud),
              mock.patch('sys.stdin', stdin),
              contextlib.redirect_stdout(output),
              contextlib.redirect_stderr(error)):
            status = command.run(command.get_parser('apply').parse_args(
                [self.path, *options]))
        return status, output.getvalue(), error.getvalue()

    def test_text(self):
        status, output, error = self.run_apply('--dry-run')
        self.assertEqual(1, status)
        self.assertEqual(f"""\
create aggregate pinned
  + pinning:class=dedicated
  + trait:{placement_traits.DEDICATED}=required
a: dedicated: cmp-0, cmp-1, cmp-2, cmp-3, cmp-4, cmp-5, cmp-6, cmp-8, cmp-9,
  cmp-10, cmp-11
  - trait {placement_traits.SHARED}
  + trait {placement_traits.DEDICATED}
  + aggregate pinned
a: dedicated: cmp-7
  - trait {placement_traits.SHARED}
  + trait {placement_traits.DEDICATED}
  - aggregate floating
  + aggregate pinned
b: no class: old
  - trait {placement_traits.SHARED}
cmp-3 would be left as it is: 1 shared server on it
    web  web  shared
""", output[:output.index('site ')])
        self.assertIn('cloud fake: 1 of 1 aggregates and 13 of 13 hosts to '
                      'change', output)
        self.assertIn('warning: ', error)
        self.assertIn('no host has the trait CUSTOM_GONE', error)
        self.assertEqual([], self.host_cloud.changes)

    def test_answers(self):
        status, output, _error = self.run_apply(answer='n\n')
        self.assertEqual(1, status)
        self.assertIn('nothing was changed', output)
        status, output, error = self.run_apply()
        self.assertEqual(2, status)
        self.assertIn('--yes', error)
        self.assertEqual([], self.host_cloud.changes)
        status, output, _error = self.run_apply(answer='y\n')
        self.assertEqual(1, status)
        for line in ('create aggregate pinned: done', 'cmp-7: now dedicated',
                     'cmp-3: left as it is; move these servers first, or '
                     'give --force\n  1 shared server on it\n'
                     '    web  web  shared', 'old: now no class',
                     '13 done, 1 left as they are'):
            self.assertIn(f'\n{line}\n', output)
        status, output, _error = self.run_apply('--force', answer='y\n')
        self.assertEqual(0, status)
        self.assertNotIn('would be left', output)
        self.assertIn('cmp-3: now dedicated\n  1 shared server on it, left '
                      'there\n    web  web  shared\n', output)
        status, output, _error = self.run_apply()
        self.assertEqual((0, 'nothing to do'),
                         (status, output.splitlines()[-1]))

    def test_the_cloud_changes_while_it_is_asked(self):
        class Slow(Terminal):
            def readline(answer):
                self.host_cloud.traits['rp-old'].clear()
                return 'y'

        with mock.patch(f'{__name__}.Terminal', Slow):
            status, _output, error = self.run_apply(answer='y')
        self.assertEqual(1, status)
        self.assertIn('have changed since', error)
        self.assertEqual([], self.host_cloud.changes)

    def test_json(self):
        status, output, _error = self.run_apply('--yes', '--format', 'json')
        self.assertEqual(1, status)
        told = json.loads(output)
        self.assertEqual((1, self.path, 'fake'), (
            told['version'], told['site'], told['cloud']))
        self.assertEqual(14, len(told['results']))
        [left] = [one for one in told['results'] if one['status'] != 'done']
        self.assertEqual(
            ('cmp-3', 'dedicated', 'refused', ['web']),
            (left['host'], left['class'], left['status'],
             [one['id'] for one in left['strangers']]))

    def test_cut_off(self):
        self.host_cloud.faults = {4: KeyboardInterrupt()}
        self.assertRaises(KeyboardInterrupt, self.run_apply, '--yes')
        self.host_cloud.faults = {}
        self.host_cloud.calls.clear()

        def be_down(number, is_done):
            if len(self.host_cloud.changes) >= 4:
                raise errors.CloudError('down')

        self.host_cloud.on_call = be_down
        status, output, error = self.run_apply('--yes', '--format', 'json')
        self.assertEqual(1, status)
        self.assertIn('changes; run the command again to finish', error)
        self.assertIn('cloud fake: down', error)
        json.loads(output)
