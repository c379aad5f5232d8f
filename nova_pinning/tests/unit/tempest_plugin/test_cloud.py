# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_pinning.tempest_plugin.cloud."""

import contextlib
from unittest import mock

from tempest.lib import exceptions

from nova_pinning.tempest_plugin import cloud
from nova_pinning.tempest_plugin import hosts
from nova_pinning.tests.unit.tempest_plugin import guest_samples
from nova_pinning.tests.unit import unit_base


class Providers:
    """One provider in Placement, which somebody else changes at times.

    :param others: how often somebody else is faster
    """

    def __init__(self, traits, others=0):
        self.traits = set(traits)
        self.generation = 1
        self.others = others

    def list_resource_provider_traits(self, provider):
        answer = {'traits': sorted(self.traits),
                  'resource_provider_generation': self.generation}
        if self.others:
            self.others -= 1
            self.generation += 1
            self.traits.add(f'OTHER_{self.generation}')
        return answer

    def update_resource_provider_traits(
            self, provider, traits, resource_provider_generation):
        if resource_provider_generation != self.generation:
            raise exceptions.Conflict
        self.generation += 1
        self.traits = set(traits)


class TraitsTest(unit_base.TestCase):

    def _traits(self, providers, known, add, remove):
        clients = mock.Mock(resource_providers_client=providers)
        host = hosts.ComputeHost('a', 'uuid-a', guest_samples.SETS,
                                 frozenset(known), {})
        return cloud.traits(clients, host, add, remove)

    def test_there_and_back(self):
        providers = Providers({'A', 'B'})
        with self._traits(providers, {'A', 'B'}, {'C', 'A'}, {'B', 'D'}):
            self.assertEqual({'A', 'C'}, providers.traits)
        self.assertEqual({'A', 'B'}, providers.traits)

    def test_back_after_an_error(self):
        providers = Providers({'A'})
        try:
            with self._traits(providers, {'A'}, {'B'}, {'A'}):
                raise RuntimeError
        except RuntimeError:
            pass
        self.assertEqual({'A'}, providers.traits)

    def test_what_others_do_stays(self):
        providers = Providers({'A'}, others=2)
        with self._traits(providers, {'A'}, {'B'}, set()):
            self.assertEqual({'A', 'B', 'OTHER_2', 'OTHER_3'},
                             providers.traits)
        self.assertEqual({'A', 'OTHER_2', 'OTHER_3'}, providers.traits)

    def test_others_never_rest(self):
        providers = Providers({'A'}, others=1000)
        self.assertRaises(
            exceptions.Conflict,
            self._traits(providers, {'A'}, {'B'}, set()).__enter__)


class AggregateTest(unit_base.TestCase):

    def test_undone_when_it_cannot_be_made_whole(self):
        client = mock.Mock()
        client.create_aggregate.return_value = {'aggregate': {'id': 7}}
        client.add_host.side_effect = exceptions.Conflict
        host = hosts.ComputeHost('a', 'uuid-a', guest_samples.SETS,
                                 frozenset(), {})
        change = cloud.aggregate(
            mock.Mock(aggregates_client=client), host, 'x', {'k': 'v'})
        self.assertRaises(exceptions.Conflict, change.__enter__)
        client.delete_aggregate.assert_called_once_with(7)
        client.remove_host.assert_not_called()


class DisabledTest(unit_base.TestCase):

    def test_enabled_again(self):
        client = mock.Mock()
        client.list_services.return_value = {'services': [{'id': 'uuid-s'}]}
        host = hosts.ComputeHost('a', 'uuid-a', guest_samples.SETS,
                                 frozenset(), {})
        with (contextlib.suppress(ZeroDivisionError),
              cloud.disabled(mock.Mock(services_client=client), host)):
            client.update_service.assert_called_once_with(
                'uuid-s', status='disabled')
            raise ZeroDivisionError
        client.list_services.assert_called_once_with(
            binary='nova-compute', host='a')
        client.update_service.assert_called_with('uuid-s', status='enabled')


class HostsTest(unit_base.TestCase):

    def test_only_hosts_that_can_be_used(self):
        clients = mock.Mock()
        clients.services_client.list_services.return_value = {'services': [
            {'host': 'a', 'state': 'up', 'status': 'enabled'},
            {'host': 'b', 'state': 'down', 'status': 'enabled'},
            {'host': 'c', 'state': 'up', 'status': 'disabled'},
            {'host': 'd', 'state': 'up', 'status': 'enabled'}]}
        clients.hypervisor_client.list_hypervisors.return_value = {
            'hypervisors': [
                {'id': f'uuid-{name}', 'service': {'host': name}}
                for name in 'abcd']}
        providers = clients.resource_providers_client
        providers.list_resource_provider_inventories.return_value = {
            'inventories': {'PCPU': {
                'total': 6, 'reserved': 0, 'allocation_ratio': 1.0}}}
        providers.list_resource_provider_usages.return_value = {
            'usages': {'PCPU': 4}}
        providers.list_resource_provider_traits.return_value = {
            'traits': ['A']}
        sets = dict.fromkeys('abc', guest_samples.SETS)
        expected = hosts.ComputeHost('a', 'uuid-a', guest_samples.SETS,
                                     frozenset({'A'}), {'PCPU': 2})
        self.assertEqual({'a': expected}, cloud.read_hosts(clients, sets))
