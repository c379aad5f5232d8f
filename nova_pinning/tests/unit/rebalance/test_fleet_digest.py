# SPDX-License-Identifier: Apache-2.0


import dataclasses
import random

import ddt
import hypothesis
from hypothesis import strategies
from oslotest import base

from nova_pinning.admission import offered_host
from nova_pinning.fleet import document
from nova_pinning.fleet import snapshot
from nova_pinning import model
from nova_pinning.rebalance import fleet_digest
from nova_pinning.tests.unit.fleet import fleet_samples
from nova_pinning.tests.unit import unit_base


def _first(values, **changes):
    """The values, of which the first is changed."""
    return dataclasses.replace(values[0], **changes), *values[1:]


def _shuffled(values, chance):
    values = list(values)
    chance.shuffle(values)
    return tuple(values)


# What moves depend on.
_CHANGES = {
    'host is disabled': lambda fleet: {
        'hosts': _first(fleet.hosts, is_enabled=False)},
    'host is gone': lambda fleet: {'hosts': fleet.hosts[1:]},
    'host has more memory': lambda fleet: {'hosts': _first(
        fleet.hosts, cells=_first(
            fleet.hosts[0].cells,
            memory_mib=fleet.hosts[0].cells[0].memory_mib + 1))},
    'host has a trait': lambda fleet: {'hosts': _first(
        fleet.hosts, traits=frozenset({'CUSTOM_NEW'}))},
    'host is upgraded': lambda fleet: {'hosts': _first(
        fleet.hosts, nova_release='2024.1')},
    'guest is gone': lambda fleet: {'guests': fleet.guests[1:]},
    'guest is elsewhere': lambda fleet: {'guests': _first(
        fleet.guests, host=next(
            host.name for host in fleet.hosts
            if host.name != fleet.guests[0].host))},
    'guest lies elsewhere': lambda fleet: {'guests': _first(
        fleet.guests, fit=model.Fit(_first(
            fleet.guests[0].fit.cells, host_cell=9)))},
    'guest has less memory': lambda fleet: {'guests': _first(
        fleet.guests, memory_mib=1)},
    'guest is fixed': lambda fleet: {'guests': _first(
        fleet.guests, is_movable=False)},
    'cells are packed': lambda fleet: {'packs_cells': True},
}


def _fleet():
    fleet = fleet_samples.tidy()
    return dataclasses.replace(fleet, guests=tuple(sorted(
        fleet.guests, key=lambda guest: guest.fit is None)))


@ddt.ddt
class TestOfFleet(base.BaseTestCase):

    @unit_base.settings(60)
    @hypothesis.given(fleet_samples.ANY_FLEET, strategies.integers())
    def test_order(self, fleet, seed):
        chance = random.Random(seed)
        other = dataclasses.replace(
            fleet,
            hosts=tuple(dataclasses.replace(
                host, aggregates=_shuffled(host.aggregates, chance),
                pci_pools=_shuffled(host.pci_pools, chance))
                for host in _shuffled(fleet.hosts, chance)),
            guests=_shuffled(fleet.guests, chance),
            flavors=_shuffled(fleet.flavors, chance),
            aggregates=_shuffled(fleet.aggregates, chance),
            pci_aliases=dict(_shuffled(fleet.pci_aliases.items(), chance)))
        self.assertEqual(fleet_digest.of_fleet(fleet),
                         fleet_digest.of_fleet(other))

    @unit_base.settings(30)
    @hypothesis.given(fleet_samples.ANY_FLEET)
    def test_through_a_file(self, fleet):
        read = document.loads(document.dumps(fleet))
        self.assertEqual(fleet_digest.of_fleet(fleet),
                         fleet_digest.of_fleet(read))

    def test_of_no_consequence(self):
        fleet = _fleet()
        other = dataclasses.replace(
            fleet, taken_at='2030-01-01T00:00:00Z', source='elsewhere',
            enabled_filters=('NUMATopologyFilter',),
            hosts=_first(fleet.hosts, disabled_reason='lunch',
                         l3_domains=()),
            guests=_first(fleet.guests, name='renamed',
                          launched_at='2029-01-01T00:00:00Z'),
            aggregates=(*fleet.aggregates,
                        offered_host.Aggregate('of no host')),
            flavors=(*fleet.flavors, dataclasses.replace(
                fleet.flavors[0], name='of no guest')))
        self.assertEqual(fleet_digest.of_fleet(fleet),
                         fleet_digest.of_fleet(other))

    def test_server_groups(self):
        def grouped(*groups):
            fleet = _fleet()
            return fleet_digest.of_fleet(dataclasses.replace(
                fleet, server_groups=groups, guests=tuple(
                    dataclasses.replace(guest, server_group='ab'[place % 2])
                    for place, guest in enumerate(fleet.guests))))

        together, apart, unused = [
            offered_host.ServerGroup(id=name, policy=policy)
            for name, policy in (
                ('a', offered_host.GroupPolicy.AFFINITY),
                ('b', offered_host.GroupPolicy.ANTI_AFFINITY),
                ('c', offered_host.GroupPolicy.AFFINITY))]
        digest = grouped(together, apart)
        self.assertEqual(digest, grouped(
            apart, unused, dataclasses.replace(together, name='named')))
        self.assertNotEqual(digest, grouped(
            together, dataclasses.replace(apart, max_per_host=2)))
        self.assertNotEqual(digest, grouped(together))

    @ddt.data(*_CHANGES)
    def test_change(self, name):
        fleet = _fleet()
        self.assertNotEqual(
            fleet_digest.of_fleet(fleet), fleet_digest.of_fleet(
                dataclasses.replace(fleet, **_CHANGES[name](fleet))))

    def test_form(self):
        self.assertRegex(fleet_digest.of_fleet(snapshot.Fleet(hosts=())),
                         r'\Asha256:[0-9a-f]{64}\Z')
