# SPDX-License-Identifier: Apache-2.0
"""Hosts and their class through nova's own API and Placement over HTTP."""

import collections
from concurrent import futures
import json
from unittest import mock

from nova import context
from nova import objects
from testtools import content

from demo import hosts
from nova_pinning import errors
from nova_pinning.model import hostclass
from nova_pinning.placement import client
from nova_pinning.placement import placement_traits
from nova_pinning.segregation import class_change
from nova_pinning.segregation import segregation_cloud
from nova_pinning.segregation import segregation_model
from nova_pinning.tests import forms
from nova_pinning.tests.functional import apiserver
from nova_pinning.tests.functional import functional_base
from nova_pinning.tests.functional import marked_cloud

DEDICATED = hostclass.HostClass.DEDICATED
SHARED = hostclass.HostClass.SHARED


class TestCloud(functional_base.OneCloud, marked_cloud.SegregationTestCase):
    """The cloud as segregation.cloud reads and changes it."""

    @classmethod
    def start(cls, nova):
        nova.start_host('one', functional_base.small_host(dedicated='0-5',
                                                          shared='6-7'))
        nova.start_host('two', hosts.shared_host())
        return {}

    def setUp(self):
        super().setUp()
        self.host_cloud = self.cloud()

    def test_hosts(self):
        self.nova.create_aggregate(
            'a', ['one'], {'pinning:class': 'dedicated'})
        self.set_traits('one', placement_traits.DEDICATED,
                        placement_traits.l3_trait(8))

        one, two = self.host_cloud.hosts()

        self.assertEqual(
            ('one', 'one', self.provider('one'),
             frozenset(
                 {placement_traits.DEDICATED, 'CUSTOM_PINNING_L3_CPUS_8'})),
            (one.name, one.node, one.provider, one.traits))
        [aggregate] = one.aggregates
        self.assertEqual(('a', frozenset({'one'})),
                         (aggregate.name, aggregate.hosts))
        self.assertEqual('dedicated', aggregate.metadata['pinning:class'])
        self.assertEqual(('two', frozenset(), ()),
                         (two.name, two.traits, two.aggregates))
        self.assertEqual({one.provider}, self.host_cloud.members(aggregate))

    def test_servers(self):
        pinned = self.nova.create_flavor(
            'pinned', 2, functional_base.GIB, {'hw:cpu_policy': 'dedicated'})
        plain = self.nova.create_flavor('plain', 2, functional_base.GIB)
        image = self.nova.create_image({'hw_cpu_policy': 'dedicated'})
        found = {
            'pinned': self.nova.boot('pinned', pinned, host='one'),
            'plain': self.nova.boot('plain', plain, host='two'),
            'by-image': self.nova.boot('by-image', plain, host='one',
                                       image=image)}
        self.nova.boot('nowhere', self.nova.create_flavor(
            'huge', 1, 1024 * functional_base.GIB))
        self.set_option('max_limit', 2, 'api')

        servers = {server.name: server for server in self.host_cloud.servers()}

        self.assertEqual(
            {'pinned': ('one', 'pinned', DEDICATED, True),
             'plain': ('two', 'plain', SHARED, True),
             'by-image': ('one', 'plain', DEDICATED, True),
             'nowhere': ('', 'huge', SHARED, True)},
            {name: (one.host, one.flavor, one.host_class, one.is_certain)
             for name, one in servers.items()})
        self.assertEqual(found['plain'].id, servers['plain'].id)
        self.assertEqual(self.nova.stage.api_fixture.project_id,
                         servers['plain'].project)
        self.assertEqual(
            {'pinned', 'by-image'},
            {server.name for server in self.host_cloud.servers('one')})
        self.assertEqual(
            {'pinned': True, 'plain': False, 'by-image': True},
            {name: any(node['cpu_pinning'] for node
                       in self.host_cloud.topology(one.id)['nodes'])
             for name, one in found.items()})
        self.assertIsNone(self.host_cloud.topology('gone'))

    def test_a_page_whose_last_server_goes(self):
        plain = self.nova.create_flavor('plain', 1, 512)
        for name in 'abcde':
            self.nova.boot(name, plain, host='two')
        self.set_option('max_limit', 2, 'api')
        listing = self.host_cloud.servers()
        first = [next(listing), next(listing)]
        self.nova.delete(self.nova.show(first[1]))
        # As nova-manage db archive_deleted_rows does.
        objects.InstanceMapping.get_by_instance_uuid(
            context.get_admin_context(), first[1].id).destroy()

        names = sorted(one.name for one in [*first, *listing])

        self.assertEqual(list('abcde'), names)
        self.assertIn(400, self.api.statuses)

    def test_aggregates(self):
        made = self.host_cloud.create_aggregate('a')
        self.assertEqual(made, self.host_cloud.create_aggregate('a'))
        self.assertEqual([made], list(self.host_cloud.aggregates()))
        for _time in range(2):
            self.host_cloud.set_metadata(made, {'x': '1', 'y': '2'})
        for _time in range(2):
            self.host_cloud.set_metadata(made, {'x': None, 'z': '3'})
            self.host_cloud.add_host(made, 'one')
        [now] = self.host_cloud.aggregates()
        self.assertEqual(
            segregation_model.HostAggregate(made.id, made.uuid, 'a',
                                            frozenset({'one'}),
                                            {'y': '2', 'z': '3'}), now)
        self.assertEqual({self.provider('one')},
                         self.host_cloud.members(now))
        for _time in range(2):
            self.host_cloud.remove_host(made, 'one')
        self.assertEqual(set(), self.aggregates('one'))
        self.assertEqual(frozenset(), self.host_cloud.members(now))

    def test_what_nova_will_not_do(self):
        made = self.host_cloud.create_aggregate('a')
        error = self.assertRaises(errors.RefusedError,
                                  self.host_cloud.add_host, made, 'three')
        self.assertIn('three', str(error))
        zones = [self.host_cloud.create_aggregate(name) for name in 'bc']
        for zone in zones:
            self.host_cloud.set_metadata(
                zone, {'availability_zone': zone.name})
        self.host_cloud.add_host(zones[0], 'one')
        error = self.assertRaises(errors.RefusedError,
                                  self.host_cloud.add_host, zones[1], 'one')
        self.assertIn('availability zone', str(error))


class TestPlacement(marked_cloud.SegregationTestCase):
    """The client, against Placement itself."""

    def setUp(self):
        super().setUp()
        self.nova.start_host('one', functional_base.small_host())
        self.client = client.PlacementClient(self.connect().placement)

    def bump(self, _number=0):
        """Have the provider changed, as others do."""
        placement = self.nova.stage.placement
        path = f'/resource_providers/{self.provider("one")}/inventories'
        body = placement.get(path).body
        placement.put(path, body)

    def test_what_there_is(self):
        self.set_traits('one', placement_traits.SHARED)
        [provider] = self.client.providers()
        self.assertEqual(('one', None), (provider.name, provider.parent))
        self.assertEqual(
            (provider,),
            self.client.providers(required=placement_traits.SHARED))
        self.assertEqual((placement_traits.SHARED,),
                         self.client.known_traits(placement_traits.PREFIX))
        self.assertEqual(
            {provider.uuid: frozenset({placement_traits.SHARED})},
            self.client.traits_by_provider(placement_traits.PREFIX))
        inventory = self.client.inventories(provider.uuid)['PCPU']
        self.assertEqual((8, 0, 1.0), (
            inventory.total, inventory.reserved, inventory.allocation_ratio))
        # A trait that it does not know.
        self.assertRaises(errors.RefusedError, self.client.providers,
                          required=placement_traits.DEDICATED)
        self.assertRaises(errors.RefusedError, self.client.traits,
                          '00000000-0000-0000-0000-000000000000')

    def test_a_generation_that_always_changes(self):
        provider = self.provider('one')
        before = self.client.traits(provider)
        self.api.restart(before=self.bump)
        error = self.assertRaises(
            errors.CloudError, self.client.change_traits, provider,
            [placement_traits.DEDICATED])
        self.assertIn('changes faster', str(error))
        self.assertEqual(before.names, self.client.traits(provider).names)

    def test_a_generation_that_changes_for_a_while(self):
        provider = self.provider('one')
        before = self.client.traits(provider)
        self.api.restart(
            before=lambda number: number < 12 and self.bump())
        self.assertTrue(self.client.change_traits(
            provider, [placement_traits.DEDICATED]))
        self.assertEqual(before.names | {placement_traits.DEDICATED},
                         self.client.traits(provider).names)
        self.assertIn(409, self.api.statuses)
        self.assertFalse(self.client.change_traits(
            provider, [placement_traits.DEDICATED], [placement_traits.SHARED]))


class CommandTestCase(marked_cloud.SegregationTestCase):
    """Two hosts on which guests of both classes can run."""

    @classmethod
    def start(cls, nova):
        for name in ('one', 'two'):
            nova.start_host(name, functional_base.small_host(
                dedicated='0-5', shared='6-7'))
        return {
            'pinned': nova.create_flavor('pinned', 2, functional_base.GIB, {
                'hw:cpu_policy': 'dedicated'}),
            'plain': nova.create_flavor('plain', 1, functional_base.GIB)}

    def set(self, *arguments, **options):
        return self.call_command('host', 'set', '--class', *arguments,
                                 **options)

    def sources(self):
        """What Placement and nova say of the hosts."""
        return {host: (self.traits(host), self.aggregates(host))
                for host in ('one', 'two')}


class TestCommands(functional_base.OneCloud, CommandTestCase):

    def test_there_and_back(self):
        self.nova.create_aggregate(
            'fast', ['two'], {
                'pinning:class': 'dedicated',
                f'trait:{placement_traits.DEDICATED}': 'required'})
        self.nova.create_aggregate('rack', ['one', 'two'], {'rack': '1'})
        self.set_traits('two', placement_traits.DEDICATED,
                        placement_traits.l3_trait(4))
        before = self.sources()

        output, _error = self.set('dedicated', '--dry-run', 'one',
                                  '--aggregate', 'fast', status=1)
        self.assertEqual(
            f'dedicated: one\n  + trait {placement_traits.DEDICATED}\n'
            '  + aggregate fast\n1 of 1 host to change\n', output)
        self.assertEqual(before, self.sources())

        output, error = self.call_command(
            'host', 'set', '--class', 'dedicated', '--aggregate', 'fast',
            'one', 'two')
        self.assertEqual(
            f'one: now dedicated\n  + trait {placement_traits.DEDICATED}\n'
            '  + aggregate fast\ntwo: dedicated already\n'
            '1 done, 1 unchanged\n', output)
        self.assertEqual('', error)
        self.assertEqual(
            before | {'one': ({placement_traits.DEDICATED}, {'fast', 'rack'})},
            self.sources())

        self.set('shared', 'one', 'two')
        self.assertEqual(
            {'one': ({placement_traits.SHARED}, {'rack'}),
             'two': ({placement_traits.SHARED, placement_traits.l3_trait(4)},
                     {'rack'})},
            self.sources())
        self.set('none', 'one')
        self.assertEqual((set(), {'rack'}), self.sources()['one'])
        self.set('dedicated', '--aggregate', 'fast', 'two')
        self.assertEqual(before, self.sources())
        self.set('dedicated', '--aggregate', 'fast', 'two')
        self.assertEqual(before, self.sources())

    def test_only_the_aggregate(self):
        self.nova.create_aggregate('fast', [], {'pinning:class': 'dedicated'})
        self.set('dedicated', '--no-trait', '--aggregate', 'fast', 'one')
        self.assertEqual((set(), {'fast'}), self.sources()['one'])
        self.set('none', '--no-trait', 'one')
        self.assertEqual((set(), set()), self.sources()['one'])

    def test_servers_of_the_other_class(self):
        self.set('dedicated', 'one')
        pinned = self.nova.boot('p', self.pinned, host='one')
        before = self.sources()

        output, _error = self.set('shared', 'one', 'two', status=1)

        self.assertIn('one: left as it is; move these servers first, or give '
                      '--force\n  1 dedicated server on it\n'
                      f'    {pinned.id}  p  dedicated', output)
        self.assertIn('two: now shared\n', output)
        self.assertIn('1 done, 1 left as they are', output)
        self.assertEqual(before['one'], self.sources()['one'])
        output, _error = self.set('shared', '--dry-run', 'one', status=1)
        self.assertIn('one would be left as it is: 1 dedicated server on it',
                      output)

        output, _error = self.set('shared', 'one', '--force')
        self.assertIn('one: now shared', output)
        self.assertEqual(({placement_traits.SHARED}, set()),
                         self.sources()['one'])
        output, _error = self.set('shared', 'one', status=1)
        self.assertIn('one: shared already\n  1 dedicated server on it',
                      output)
        # None is of no class, so all may stay.
        self.set('none', 'one')

    def test_an_image_that_asks_for_pinned_cpus(self):
        self.nova.boot('p', self.plain, host='one', image=(
            self.nova.create_image({'hw_cpu_policy': 'dedicated'})))
        with mock.patch.object(segregation_cloud, 'MICROVERSION', '2.97'):
            [server] = self.cloud().servers()
            self.assertFalse(server.is_certain)
            self.set('dedicated', 'one')
            output, _error = self.set('shared', 'one', status=1)
        self.assertIn('1 dedicated server on it', output)

    def test_list(self):
        self.nova.create_aggregate('a', ['one'], {'pinning:class': 'shared'})
        self.set_traits('one', placement_traits.DEDICATED,
                        placement_traits.l3_trait(4))
        output, _error = self.call_command('host', 'list')
        self.assertEqual(
            ['host  class    trait      aggregates  isolation  L3 CPUs',
             'one   unclear  dedicated  shared      -                4',
             'two   none     -          -           -                -',
             '2 hosts: 1 of no class, 1 unclear'], output.splitlines())
        output, _error = self.call_command('host', 'list', '--class', 'none',
                                           '--format', 'json')
        self.assertEqual(['two'], [load['name'] for load in
                                   json.loads(output)['hosts']])

    def test_what_is_not_there(self):
        self.nova.create_aggregate('rack', [], {'rack': '1'})
        self.nova.create_aggregate('slow', [], {'pinning:class': 'shared'})
        before = self.sources()
        for arguments, told in (
                (['none', 'one', 'onee'], 'there is no host onee; did you '
                                          'mean one?'),
                (['dedicated', 'one', '--aggregate', 'rak'],
                 'there is no aggregate rak; did you mean rack?'),
                (['dedicated', 'one', '--aggregate', 'rack'],
                 'name no class; openstack aggregate set --property '
                 'pinning:class=dedicated rack'),
                (['dedicated', 'one', '--aggregate', 'slow'],
                 'aggregate slow is not for dedicated hosts, by its metadata '
                 'pinning:class=shared'),
                (['none', 'one', '--aggregate', 'slow'],
                 'a host of no class is not put into an aggregate')):
            _output, error = self.set(*arguments, status=2)
            self.assertIn(told, error)
        self.assertEqual(before, self.sources())


class TestLostProvider(CommandTestCase):

    def test_a_host_without_one(self):
        self.nova.stage.placement.delete(
            f'/resource_providers/{self.provider("one")}')
        self.assertEqual([None, frozenset()], [
            host.traits for host in self.cloud().hosts()])
        output, _error = self.set('dedicated', 'one', 'two', status=1)
        self.assertIn('one: failed: Placement has no resource provider',
                      output)
        self.assertIn('two: now dedicated', output)


class TestWhileItIsUsed(functional_base.OneCloud, CommandTestCase):
    """Hosts that are turned while others use the cloud."""

    def turn(self, host_class=DEDICATED):
        nova = self.cloud()
        [host] = class_change.find_hosts(['one'], nova.hosts())
        return class_change.apply(
            nova, class_change.plan_change(host, host_class), {})

    def test_a_server_that_arrives_meanwhile(self):
        self.nova.create_aggregate('s', ['one'], {'pinning:class': 'shared'})
        arrived = []

        def boot(number):
            method, path = self.api.requests[number]
            if (not arrived and method == 'PUT'
                    and path.endswith('/traits')):
                arrived.append(self.nova.boot('late', self.plain, host='one'))

        self.api.restart(before=boot)

        result = self.turn()

        self.assertEqual(({placement_traits.DEDICATED}, set()),
                         self.sources()['one'])
        self.assertEqual('ACTIVE', arrived[0].status)
        self.assertEqual('done', result.status)
        self.assertEqual([arrived[0].id], [
            stranger.id for stranger in result.strangers])
        self.assertFalse(result.is_fine)
        # Nor is it forgotten later.
        self.assertEqual([arrived[0].id], [
            stranger.id for stranger in self.turn().strangers])

    def test_a_server_that_is_on_its_way(self):
        server = self.nova.boot('coming', self.nova.create_flavor(
            'huge', 1, 1024 * functional_base.GIB))
        self.assertIsNone(server.host)
        self.nova.stage.placement.put(f'/allocations/{server.id}', {
            'allocations': {self.provider('one'): {'resources': {'VCPU': 1}}},
            'consumer_generation': None,
            'project_id': 'p', 'user_id': 'u'}, version='1.28')
        self.addCleanup(self.nova.stage.placement.delete,
                        f'/allocations/{server.id}')

        result = self.turn()

        self.assertEqual('refused', result.status)
        self.assertEqual([server.id],
                         [stranger.id for stranger in result.strangers])

    def test_a_server_that_may_come_back(self):
        server = self.nova.boot('p', self.pinned, host='one')
        api = self.nova.stage.api
        with mock.patch('nova.virt.libvirt.driver.LibvirtDriver.'
                        'migrate_disk_and_power_off', return_value='{}'):
            api.post_server_action(server.id, {'migrate': None})
            self.nova.settle(server.id, 'VERIFY_RESIZE')
        self.assertEqual('two', self.nova.show(server).host)

        result = self.turn(SHARED)

        self.assertEqual('refused', result.status)
        self.assertEqual([server.id],
                         [stranger.id for stranger in result.strangers])
        api.post_server_action(server.id, {'confirmResize': None})
        self.nova.settle(server.id, 'ACTIVE')
        self.assertTrue(self.turn(SHARED).is_fine)

    def test_a_server_that_may_come_back_with_another_flavor(self):
        self.set_traits('one', placement_traits.SHARED)
        server = self.nova.resize(
            self.nova.boot('p', self.plain, host='one'), self.pinned,
            confirm=False)
        self.assertEqual(('two', 'VERIFY_RESIZE'),
                         (server.host, server.status))

        result = self.turn(DEDICATED)

        self.assertEqual('refused', result.status)
        self.assertEqual([(server.id, SHARED)],
                         [(stranger.id, stranger.host_class)
                          for stranger in result.strangers])
        self.nova.confirm(server)
        self.assertTrue(self.turn(DEDICATED).is_fine)

    def test_others_change_the_provider(self):
        provider = self.provider('one')
        placement = self.nova.stage.placement

        def bump(number):
            path = f'/resource_providers/{provider}/inventories'
            if number < 18:
                placement.put(path, placement.get(path).body)

        self.api.restart(before=bump)
        self.assertEqual('done', self.turn().status)
        self.assertIn(409, self.api.statuses)
        self.assertEqual({placement_traits.DEDICATED}, self.traits('one'))

    def test_two_at_once(self):
        self.nova.create_aggregate('s', ['one'], {'pinning:class': 'shared'})
        self.set_traits('one', placement_traits.SHARED)
        with futures.ThreadPoolExecutor(4) as pool:
            results = list(pool.map(lambda _: self.turn(), range(4)))
        self.assertTrue(all(result.is_fine for result in results), results)
        self.assertEqual(({placement_traits.DEDICATED}, set()),
                         self.sources()['one'])


#: Each kind of what a client may make of a fault.
FAULTS = (apiserver.Fault.CONFLICT, apiserver.Fault.ERROR,
          apiserver.Fault.DROPPED, apiserver.Fault.LOST)


class TestEveryRequest(CommandTestCase):
    """Any request to nova or Placement may go wrong."""

    def setUp(self):
        super().setUp()
        self.nova.create_aggregate('d', ['two'],
                                   {'pinning:class': 'dedicated'})
        self.nova.create_aggregate('s', ['one'], {'pinning:class': 'shared'})
        self.nova.boot('p', self.pinned, host='one')
        self.set_traits('one', placement_traits.SHARED,
                        placement_traits.l3_trait(4))
        self.before = self.sources()
        self.nova_cloud = self.cloud()
        self.aggregate = {aggregate.name: aggregate
                          for aggregate in self.nova_cloud.aggregates()}
        self.api.restart()
        self.assertTrue(self.turn().is_fine)
        self.end = self.sources()
        self.count = len(self.api.requests)

    def turn(self):
        nova = self.cloud()
        [host] = class_change.find_hosts(['one'], nova.hosts())
        aggregates = {aggregate.name: aggregate
                      for aggregate in nova.aggregates()
                      if aggregate.name == 'd'}
        return class_change.apply(
            nova, class_change.plan_change(host, DEDICATED, aggregates),
            aggregates)

    def turn_back(self):
        self.api.restart()
        self.nova_cloud.add_host(self.aggregate['s'], 'one')
        self.nova_cloud.remove_host(self.aggregate['d'], 'one')
        self.set_traits('one', placement_traits.SHARED,
                        placement_traits.l3_trait(4))
        self.assertEqual(self.before, self.sources())

    def test_faults(self):
        """One cloud for all of them: to start one takes longest."""
        for fault in FAULTS:
            self.check_fault(fault)
        for fault in (apiserver.Fault.ERROR, apiserver.Fault.DROPPED):
            self.check_cut_off(fault)

    def check_fault(self, fault):
        ends = collections.Counter()
        numbers = forms.turns(self.count, fault, FAULTS)
        for number in numbers:
            self.turn_back()
            self.api.restart(fault, at=(number,))
            try:
                first = self.turn()
            except errors.CloudError as error:
                ends['stopped'] += 1
                self.assertNotEqual('', str(error))
            else:
                ends[first.status] += 1
                if first.is_fine:
                    self.assertEqual(self.end, self.sources())
                    continue
            self.assertTrue(self.turn().is_fine)
            self.assertEqual(self.end, self.sources(),
                             f'{fault} of request {number}')
        self.addDetail(f'ends of {fault}', content.text_content(str(ends)))
        if len(numbers) == self.count:
            self.assertTrue(ends['done'])
        if fault is not apiserver.Fault.CONFLICT:
            # Not the search for the versions of the APIs, but all else that
            # may pass is waited for.
            self.assertLessEqual(ends['stopped'], 2)
            self.assertEqual(len(numbers) - ends['stopped'], ends['done'])

    def check_cut_off(self, fault):
        """From some request on nothing works."""
        for number in range(0, self.count, 12 if forms.SHORT else 4):
            self.turn_back()
            self.api.restart(fault, at=range(number, 1000))
            try:
                self.assertEqual('failed', self.turn().status)
            except errors.CloudError:
                pass
            self.api.restart()
            self.assertTrue(self.turn().is_fine)
            self.assertEqual(self.end, self.sources())
