# SPDX-License-Identifier: Apache-2.0
"""openstack pinning segregation apply on nova's own API and Placement."""

import itertools
import json

from nova_pinning import errors
from nova_pinning.placement import placement_traits
from nova_pinning.segregation import site_apply
from nova_pinning.segregation import site_file
from nova_pinning.segregation import site_plan
from nova_pinning.tests import forms
from nova_pinning.tests.functional import apiserver
from nova_pinning.tests.functional import functional_base
from nova_pinning.tests.functional import marked_cloud

OLD = 'CUSTOM_OLD_PINNED'
NOISE = 'CUSTOM_NOISE'
SITE = f"""
version: 1
groups:
  enterprise:
    class: dedicated
    hosts: ['d-*']
    aggregate: {{name: pinned, isolated: true}}
  rest:
    class: shared
    aggregates: [az]
    aggregate: {{name: floating}}
  legacy:
    class: none
    traits: [{OLD}, CUSTOM_NEVER_SEEN]
"""
ISOLATED = f'trait:{placement_traits.DEDICATED}'


class ApplyTestCase(functional_base.OneCloud,
                    marked_cloud.SegregationTestCase):

    HOSTS = ('d-1', 'd-2', 's-1', 'old')

    @classmethod
    def start(cls, nova):
        for name in cls.HOSTS:
            nova.start_host(name, functional_base.small_host(
                dedicated='0-5', shared='6-7'))
        nova.stage._create_trait(OLD)
        return {}

    def setUp(self):
        super().setUp()
        self.set_up_cloud()

    def set_up_cloud(self):
        """Bring hosts and aggregates to where each test begins."""
        api = self.nova.stage.admin_api
        for one in api.api_get('/os-aggregates').body['aggregates']:
            for host in one['hosts']:
                api.api_post(f'/os-aggregates/{one["id"]}/action',
                             {'remove_host': {'host': host}})
            api.api_delete(f'/os-aggregates/{one["id"]}')
        self.nova.create_aggregate('az', ['s-1'], {'team': 'a'})
        self.nova.create_aggregate(
            'floating', [name for name in self.HOSTS if name == 'd-2'],
            {'pinning:class': 'shared'})
        self.set_traits('d-1')
        if 'd-2' in self.HOSTS:
            self.set_traits('d-2', placement_traits.SHARED)
        self.set_traits('s-1', placement_traits.DEDICATED,
                        placement_traits.l3_trait(8))
        self.set_traits('old', placement_traits.DEDICATED)
        stage = self.nova.stage
        stage._set_provider_traits(self.provider('old'), sorted(
            {*stage._get_provider_traits(self.provider('old')), OLD}))

    def state(self):
        """What lasts of it."""
        found = self.nova.stage.admin_api.api_get(
            '/os-aggregates').body['aggregates']
        return (
            {host: frozenset(self.nova.stage._get_provider_traits(
                self.provider(host))) for host in self.HOSTS},
            {one['name']: (sorted(one['hosts']), one['metadata'])
             for one in found})

    def apply(self, text=SITE, **options):
        """Plan and apply, as a command does.

        :returns: the results
        """
        site = site_file.parse(text, 'site.yaml')
        cloud = self.cloud()
        made = site_plan.plan(site, site_plan.read(site, cloud))
        return list(site_apply.apply(made, cloud, **options))

    def check_end(self):
        """All is as the site file says."""
        for host, expected in (
                ('d-1', {placement_traits.DEDICATED}),
                ('d-2', {placement_traits.DEDICATED}),
                ('s-1',
                 {placement_traits.SHARED, placement_traits.l3_trait(8)}),
                ('old', set())):
            if host in self.HOSTS:
                self.assertEqual(expected, self.traits(host), host)
        self.assertEqual({
            'az': (['s-1'], {'team': 'a'}),
            'floating': (['s-1'], {'pinning:class': 'shared'}),
            'pinned': ([name for name in self.HOSTS if name < 'e'],
                       {'pinning:class': 'dedicated', ISOLATED: 'required'}),
        }, self.state()[1])


class TestCommand(ApplyTestCase):

    def setUp(self):
        super().setUp()
        [self.path] = self.create_tempfiles([('site', SITE)], '.yaml')

    def run_apply(self, *more, status=0, path=None):
        return self.call_command('segregation', 'apply', path or self.path,
                                 *more, status=status)

    def writes(self):
        return [method for method, _path in self.api.requests
                if method != 'GET']

    def test_apply(self):
        before = self.state()
        self.api.restart()
        output, error = self.run_apply('--dry-run', status=1)
        for words in ('create aggregate pinned', f'+ {ISOLATED}=required',
                      'enterprise: dedicated: d-1\n', '- aggregate floating',
                      f'  + trait {placement_traits.SHARED}\n',
                      'legacy: no class: old',
                      'cloud test: 1 of 2 aggregates and 4 of 4 hosts'):
            self.assertIn(words, output)
        self.assertIn('warning:', error)
        self.assertIn('no host has the trait CUSTOM_NEVER_SEEN', error)
        output, error = self.run_apply(status=2)
        self.assertIn('give --yes', error)
        self.assertEqual([], self.writes())
        self.assertEqual(before, self.state())

        output, error = self.run_apply('--yes')
        self.assertIn('d-2: now dedicated\n', output)
        self.assertIn('5 done', output)
        self.check_end()

        self.api.restart()
        for more in (['--yes'], ['--dry-run'], []):
            output, error = self.run_apply(*more)
            self.assertIn('0 of 4 hosts to change', output)
        self.assertEqual([], self.writes())

    def test_json(self):
        output, _error = self.run_apply('--dry-run', '--format', 'json',
                                        status=1)
        changes = json.loads(output)['changes']
        self.assertEqual(
            [('pinned', True)],
            [(change['aggregate'], change['create'])
             for change in changes['aggregates']])
        by_name = {change['host']: change for change in changes['hosts']}
        self.assertEqual(
            {'host': 'd-2', 'node': 'd-2', 'provider': self.provider('d-2'),
             'group': 'enterprise', 'class': 'dedicated',
             'add_traits': [placement_traits.DEDICATED],
             'remove_traits': [placement_traits.SHARED], 'kept_traits': [],
             'join_aggregates': ['pinned'], 'leave_aggregates': ['floating'],
             'strangers': []}, by_name['d-2'])
        self.run_apply('--format', 'json', status=2)
        output, _error = self.run_apply('--yes', '--format', 'json')
        results = json.loads(output)['results']
        self.assertEqual(['done'] * 5,
                         [result['status'] for result in results])
        self.check_end()

    def test_servers_of_the_other_class(self):
        plain = self.nova.create_flavor('plain', 1, 512)
        found = self.nova.boot('floats', plain, host='d-2')
        self.assert_active([found], 'd-2')

        output, _error = self.run_apply('--dry-run', status=1)
        self.assertIn('d-2 would be left as it is: 1 shared server', output)
        self.assertIn(found.id, output)
        output, _error = self.run_apply('--yes', status=1)
        self.assertIn('d-2: left as it is; move these servers first', output)
        self.assertIn('  1 shared server on it\n', output)
        self.assertIn(found.id, output)
        self.assertEqual({placement_traits.SHARED}, self.traits('d-2'))
        self.assertEqual({'floating'}, self.aggregates('d-2'))

        self.run_apply('--yes', '--force')
        self.check_end()

    def test_bad_input(self):
        before = self.state()
        [path] = self.create_tempfiles([('other', SITE.replace(
            "'d-*'", "'*'"))], '.yaml')
        self.api.restart()
        _output, error = self.run_apply('--yes', status=2, path=path)
        self.assertIn('host s-1 is to be shared here', error)
        [path] = self.create_tempfiles([('bad', 'version: 1')], '.yaml')
        _output, error = self.run_apply('--yes', status=2, path=path)
        self.assertIn('groups is missing', error)
        self.assertEqual([], self.writes())
        self.assertEqual(before, self.state())

    def test_an_ill_cloud(self):
        self.api.restart(apiserver.Fault.ERROR, range(1000))
        _output, error = self.run_apply('--yes', status=1)
        self.assertIn('cloud test', error)
        # Somewhere in the middle.
        self.api.restart(apiserver.Fault.ERROR, range(20, 1000))
        _output, error = self.run_apply('--yes', status=1)
        self.assertIn('of 5 changes; run the command again', error)
        self.api.restart()
        self.run_apply('--yes')
        self.check_end()


#: The other way round.
FLIPPED = f"""
version: 1
groups:
  enterprise:
    class: dedicated
    aggregates: [az]
    aggregate: {{name: pinned, isolated: true}}
  rest:
    class: shared
    hosts: ['d-*']
    aggregate: {{name: floating}}
  legacy:
    class: dedicated
    traits: [{OLD}]
"""


#: Each kind of what a client may make of a fault.
FAULTS = (apiserver.Fault.CONFLICT, apiserver.Fault.ERROR,
          apiserver.Fault.LOST)


class TestEveryRequest(ApplyTestCase):

    HOSTS = ('d-1', 's-1', 'old')

    def apply_fully(self, text):
        """Apply, undisturbed.

        :returns: the end, and how many requests it took
        """
        self.api.restart()
        self.assertEqual([], [one for one in self.apply(text)
                              if not one.is_fine])
        return self.state(), len(self.api.requests)

    def test_faults(self):
        """One cloud for all of them: to start one takes longest."""
        self.apply_fully(SITE)
        ends = [(text, *self.apply_fully(text)) for text in (FLIPPED, SITE)]
        count = max(requests for _text, _end, requests in ends)
        turns = itertools.cycle(ends)
        for fault in FAULTS:
            self.check_fault(fault, forms.turns(count + 1, fault, FAULTS),
                             turns)

    def check_fault(self, fault, numbers, turns):
        """A fault, of each of these requests.

        :param turns: what is applied next, and its end, without end
        """
        undone = 0
        for number in numbers:
            text, end, _requests = next(turns)
            self.api.restart(fault, (number,))
            is_done = False
            try:
                is_done = all(one.is_fine for one in self.apply(text))
            except errors.CloudError:
                pass
            if not is_done:
                undone += 1
                self.apply_fully(text)
            self.assertEqual(end, self.state(), (fault, number))
        if fault is not apiserver.Fault.CONFLICT:
            # All else is sent again. openstacksdk alone does not, when it
            # looks for the versions of an API.
            self.assertGreaterEqual(3, undone)

    def test_cut_off_and_run_again(self):
        end, count = self.apply_fully(SITE)
        self.check_end()
        for number in range(0, count, 20 if forms.SHORT else 3):
            self.set_up_cloud()
            self.api.restart(apiserver.Fault.LOST, range(number, 10_000))
            self.assertRaises(errors.CloudError, self.apply)
            self.apply_fully(SITE)
            self.assertEqual(end, self.state(), number)

    def test_generations_that_change_all_the_time(self):
        puts = []
        stage = self.nova.stage
        stage._create_trait(NOISE)

        def bump(number):
            method, path = self.api.requests[number]
            if method != 'PUT' or not path.endswith('/traits'):
                return
            puts.append(number)
            # Not each time, else no end would come.
            if len(puts) % 3:
                provider = path.split('/')[-2]
                stage._set_provider_traits(provider, sorted(
                    {NOISE} ^ set(stage._get_provider_traits(provider))))

        self.api.restart(before=bump)
        self.assertEqual([], [one for one in self.apply()
                              if not one.is_fine])
        self.check_end()
        self.assertEqual(3 * len(self.HOSTS), len(puts))
