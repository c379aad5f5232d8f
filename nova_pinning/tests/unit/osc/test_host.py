# SPDX-License-Identifier: Apache-2.0
"""The commands about hosts, with a cloud in memory."""

import contextlib
import io
import json
import types

import ddt
import fixtures
from oslotest import base as oslotest

from nova_pinning import errors
from nova_pinning.model import hostclass
from nova_pinning.osc import host
from nova_pinning.placement import client
from nova_pinning.placement import placement_traits
from nova_pinning.tests.unit.segregation import fake_host_cloud

DEDICATED = hostclass.HostClass.DEDICATED
SHARED = hostclass.HostClass.SHARED
INVENTORIES = {'PCPU': client.ProviderInventory(8, 0, 1.0),
               'VCPU': client.ProviderInventory(4, 1, 16.0),
               'MEMORY_MB': client.ProviderInventory(1, 0, 1.0)}


class CommandTestCase(oslotest.BaseTestCase):

    def setUp(self):
        super().setUp()
        self.useFixture(fixtures.EnvironmentVariable('COLUMNS', '80'))
        self.nova = fake_host_cloud.FakeCloud(
            {'d': [placement_traits.DEDICATED, placement_traits.l3_trait(8)],
             's': [placement_traits.SHARED], 'none': [], 'lost': None,
             'unclear': [placement_traits.SHARED], 'both': [
                 placement_traits.SHARED, placement_traits.DEDICATED]},
            {'dedicated': (['d', 'unclear'], {
                'pinning:class': 'dedicated',
                f'trait:{placement_traits.DEDICATED}': 'required'}),
             'odd': (['unclear'], {'pinning:class': 'gold'}),
             'rack': (['d', 's'], {'rack': '1'})},
            servers=[fake_host_cloud.server('d1', DEDICATED, 'd'),
                     fake_host_cloud.server('d2', SHARED, 'd',
                                            is_certain=False),
                     fake_host_cloud.server('s1', SHARED, 's')],
            pinned=['d2'], inventories=INVENTORIES)

    def run_command(self, kind, *arguments):
        """Run a command.

        :returns: (exit status, output, error output)
        """
        output, error = io.StringIO(), io.StringIO()
        app = types.SimpleNamespace(
            stdout=output, client_manager=types.SimpleNamespace(
                pinning=types.SimpleNamespace(name='fake')))
        command = kind(app, None)
        command.host_cloud = self.nova
        with (contextlib.redirect_stdout(output),
              contextlib.redirect_stderr(error)):
            status = command.run(
                command.get_parser('x').parse_args(list(arguments)))
        return status, output.getvalue(), error.getvalue()


@ddt.ddt
class TestList(CommandTestCase):

    def test_table(self):
        status, output, _error = self.run_command(host.ListHosts)
        self.assertEqual(0, status)
        self.assertEqual("""\
host     class      trait             aggregates          isolation  L3 CPUs
d        dedicated  dedicated         dedicated           dedicated        8
s        shared     shared            -                   -                -
none     none       -                 -                   -                -
lost     none       no provider       -                   -                -
unclear  unclear    shared            dedicated nonsense  dedicated        -
both     unclear    dedicated shared  -                   -                -
6 hosts: 1 dedicated, 1 shared, 2 of no class, 2 unclear
""", '\n'.join(line.rstrip() for line in output.splitlines()) + '\n')

    @ddt.data(('dedicated', ['d']), ('shared', ['s']),
              ('none', ['none', 'lost']), ('unclear', ['unclear', 'both']))
    @ddt.unpack
    def test_of_a_class(self, name, expected):
        _status, output, _error = self.run_command(
            host.ListHosts, '--class', name, '--format', 'json')
        self.assertEqual(expected, [
            load['name'] for load in json.loads(output)['hosts']])

    def test_json(self):
        _status, output, _error = self.run_command(
            host.ListHosts, '-f', 'json')
        found = json.loads(output)
        self.assertEqual((1, 'fake'), (found['version'], found['cloud']))
        by_name = {one['name']: one for one in found['hosts']}
        self.assertEqual({
            'name': 'd', 'node': 'd', 'provider': 'rp-d',
            'class': 'dedicated', 'agrees': True,
            'sources': {'trait': ['dedicated'], 'aggregate': ['dedicated'],
                        'isolation': ['dedicated']},
            'traits': [placement_traits.DEDICATED,
                       placement_traits.l3_trait(8)],
            'aggregates': ['dedicated', 'rack'], 'l3_cpus': 8}, by_name['d'])
        self.assertIsNone(by_name['lost']['traits'])
        self.assertEqual((None, False), (by_name['unclear']['class'],
                                         by_name['unclear']['agrees']))
        self.assertEqual((None, True), (by_name['none']['class'],
                                        by_name['none']['agrees']))

    def test_no_hosts(self):
        self.nova = fake_host_cloud.FakeCloud({})
        self.assertEqual((0, '0 hosts\n', ''),
                         self.run_command(host.ListHosts))


class TestSet(CommandTestCase):

    def set(self, *arguments):
        return self.run_command(host.SetHost, '--class', *arguments)

    def test_text(self):
        status, output, error = self.set('dedicated', 'd', 's', 'unclear',
                                         'lost')
        self.assertEqual((1, ''), (status, error))
        self.assertEqual(f"""\
d: dedicated already
s: left as it is; move these servers first, or give --force
  1 shared server on it
    s1  s1  shared
unclear: now dedicated
  - trait {placement_traits.SHARED}
  + trait {placement_traits.DEDICATED}
  - aggregate odd
lost: failed: Placement has no resource provider for it; nova-compute creates \
that when it starts
1 done, 1 unchanged, 1 left as they are, 1 failed
""", '\n'.join(line.rstrip() for line in output.splitlines()) + '\n')

    def test_json(self):
        status, output, _error = self.set('dedicated', 's', 'none',
                                          '--format', 'json')
        self.assertEqual(1, status)
        refused, done = json.loads(output)['results']
        self.assertEqual(('refused', ['s1']), (
            refused['status'], [one['id'] for one in refused['strangers']]))
        self.assertEqual({
            'host': 'none', 'node': 'none', 'provider': 'rp-none',
            'group': '', 'class': 'dedicated',
            'add_traits': [placement_traits.DEDICATED], 'remove_traits': [],
            'join_aggregates': [], 'leave_aggregates': [], 'status': 'done',
            'message': '', 'strangers': [], 'left': [],
            'kept_traits': []}, done)

    def test_dry_run(self):
        before = json.dumps(self.nova.state, default=sorted)
        status, output, _error = self.set('dedicated', '--dry-run', 'd', 's',
                                          'none', '--aggregate', 'dedicated')
        self.assertEqual(1, status)
        self.assertEqual(f"""\
dedicated: s
  - trait {placement_traits.SHARED}
  + trait {placement_traits.DEDICATED}
  + aggregate dedicated
dedicated: none
  + trait {placement_traits.DEDICATED}
  + aggregate dedicated
s would be left as it is: 1 shared server on it
    s1  s1  shared
2 of 3 hosts to change
""", '\n'.join(line.rstrip() for line in output.splitlines()) + '\n')
        status, output, _error = self.set('dedicated', '--dry-run', 's',
                                          '-f', 'json')
        [found] = json.loads(output)['changes']
        self.assertEqual(['s1'], [one['id'] for one in found['strangers']])
        self.assertEqual(before, json.dumps(self.nova.state, default=sorted))
        status, output, _error = self.set('dedicated', '--dry-run', 'd')
        self.assertEqual((0, '0 of 1 host to change\n'), (status, output))
        self.assertIn('s would be turned all the same: 1 shared server on it',
                      self.set('dedicated', '--dry-run', '--force', 's')[1])

    def test_dry_run_of_nothing_but_strangers(self):
        self.nova.move('s1', 'd')
        status, output, _error = self.set('dedicated', '--dry-run', 'd')
        self.assertEqual((1, 'd: 1 shared server on it'),
                         (status, output.partition('\n    ')[0]))

    def test_without_the_trait(self):
        self.set('dedicated', 'none', '--no-trait', '--aggregate',
                 'dedicated')
        self.assertEqual(['add_host'], self.nova.changes)

    def test_a_trait_that_is_kept_and_says_something_else(self):
        for arguments, more in (((), ''),
                                (('--dry-run',), '0 of 1 host to change\n')):
            status, output, _error = self.set(
                'dedicated', 'both', '--no-trait', *arguments)
            self.assertEqual(
                (1, f'both: its trait {placement_traits.SHARED} still says '
                 f'something else\n{more}'), (status, output))
        self.assertEqual([], self.nova.changes)

    def test_force(self):
        status, output, _error = self.set('dedicated', 's', '--force')
        self.assertEqual(0, status)
        self.assertIn('s: now dedicated', output)
        self.assertIn('  1 shared server on it, left there\n    s1', output)
        self.assertEqual({placement_traits.DEDICATED},
                         self.nova.traits['rp-s'])

    def test_bad_input_changes_nothing(self):
        for arguments, told in (
                (['dedicated', 'd', 'x', 'y'], 'there is no host y'),
                (['shared', 'd', '--aggregate', 'dedicatd'],
                 'error: --aggregate: there is no aggregate dedicatd; did '
                 'you mean dedicated?'),
                (['shared', 'd', '--aggregate', 'dedicated'],
                 'not for shared hosts')):
            status, output, error = self.set(*arguments)
            self.assertEqual((2, ''), (status, output))
            self.assertIn(told, error)
        self.assertEqual([], self.nova.changes)

    def test_a_cloud_that_fails(self):
        def fail(number, is_done):
            raise errors.CloudError('out of order')

        self.nova.on_call = fail
        status, output, error = self.set('dedicated', 'd')
        self.assertEqual((1, '', 'error: cloud fake: out of order\n'),
                         (status, output, error))

    def test_interrupted(self):
        def interrupt(number, is_done):
            if self.nova.calls[number][0] == 'change_traits' and is_done:
                raise KeyboardInterrupt

        self.nova.on_call = interrupt
        error = io.StringIO()
        with contextlib.redirect_stderr(error):
            self.assertRaises(KeyboardInterrupt, self.set, 'dedicated', 'd',
                              'none')
        self.nova.on_call = lambda number, is_done: None
        self.assertEqual(0, self.set('dedicated', 'd', 'none')[0])
