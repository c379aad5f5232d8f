# SPDX-License-Identifier: Apache-2.0


import collections
import dataclasses
import json

import hypothesis
from oslotest import base

from nova_pinning.admission import offered_host
from nova_pinning.flavors import flavor_model
from nova_pinning.fleet import snapshot
from nova_pinning.fleet import summary
from nova_pinning.model import hostclass
from nova_pinning.placement import inventory
from nova_pinning.tests.unit.fleet import fleet_samples
from nova_pinning.tests.unit import unit_base

_DEDICATED = hostclass.HostClass.DEDICATED
_SHARED = hostclass.HostClass.SHARED


class TestSummary(base.BaseTestCase):

    def test_figures(self):
        fleet = fleet_samples.tidy()
        found = summary.summarise(fleet)
        dedicated, shared = (
            [guest for guest in fleet.guests if guest.guest_class is one]
            for one in (_DEDICATED, _SHARED))
        self.assertEqual([_DEDICATED, _SHARED], list(found.classes))
        total = found.classes[_DEDICATED]
        self.assertEqual(
            (3, 0, len(dedicated), 3 * 92, 0, 3 * 512 * 1024),
            (total.hosts, total.disabled, total.guests, total.dedicated_cpus,
             total.shared_cpus, total.memory_mib))
        self.assertEqual(sum(guest.vcpus for guest in dedicated),
                         total.pinned_cpus)
        self.assertEqual(sum(guest.memory_mib for guest in dedicated),
                         total.memory_used_mib)
        total = found.classes[_SHARED]
        self.assertEqual(
            (1, 0, 92, 4 * 92, sum(guest.vcpus for guest in shared)),
            (total.hosts, total.dedicated_cpus, total.shared_cpus,
             total.floating_limit, total.floating_vcpus))
        self.assertEqual([3, 1], list(found.kinds.values()))
        kind = next(iter(found.kinds))
        self.assertEqual(
            (((46, 0, 262144),) * 2, 2, 2, (((1048576, 245760),),) * 2,
             (('10de:20b5', 4), ('8086:154c', 32))),
            (kind.cells, kind.threads, kind.l3_domains, kind.huge_pages_mib,
             kind.devices))
        self.assertEqual(
            collections.Counter(
                (guest.flavor, guest.guest_class) for guest in fleet.guests),
            {(use.name, use.guest_class): use.guests
             for use in found.flavors})
        vcpus = [use.vcpus for use in found.flavors]
        self.assertEqual(sorted(vcpus, reverse=True), vcpus)

    def test_flavors_that_are_not_there(self):
        """Deleted or without a name, guests are told by what they are."""
        fleet = fleet_samples.tidy()
        gone = {'', 'deleted'}
        fleet = dataclasses.replace(
            fleet, flavors=(fleet.flavors or (flavor_model.Flavor(
                name='other', vcpus=1, memory_mib=1, extra_specs={}),)),
            guests=tuple(dataclasses.replace(guest, flavor=name)
                         for guest, name in zip(fleet.guests, gone)))
        for use in summary.summarise(fleet).flavors:
            self.assertRegex(
                use.name, r'^\d+ vCPUs? x \d+ [KMGT]iB (dedicated|shared)$')

    def test_opaque(self):
        """What Placement alone tells, counts."""
        host = offered_host.OfferedHost(name='a', cells=(), inventories={
            'PCPU': inventory.Inventory(8), 'VCPU': inventory.Inventory(4),
            'MEMORY_MB': inventory.Inventory(4096)})
        total = summary.summarise(
            snapshot.Fleet(hosts=(host,))).classes[None]
        self.assertEqual((8, 0, 4, 4, 4096), (
            total.dedicated_cpus, total.pinned_cpus, total.shared_cpus,
            total.floating_limit, total.memory_mib))

    def test_reserved_memory(self):
        host = offered_host.OfferedHost(
            name='a', cells=fleet_samples.tidy().hosts[0].cells,
            reserved_memory_mib=4096, is_enabled=False)
        total = summary.summarise(
            snapshot.Fleet(hosts=(host,))).classes[None]
        self.assertEqual((512 * 1024 - 4096, 1),
                         (total.memory_mib, total.disabled))

    @unit_base.settings(60)
    @hypothesis.given(fleet_samples.ANY_FLEET)
    def test_any(self, fleet):
        found = summary.summarise(fleet)
        value = summary.as_dict(fleet, found)
        json.dumps(value)
        self.assertEqual(len(fleet.hosts), sum(
            one['hosts'] for one in value['classes']))
        self.assertEqual(len(fleet.hosts), sum(
            one['hosts'] for one in value['kinds']))
        self.assertEqual(
            len(fleet.guests) - value['guests_on_unknown_hosts'],
            sum(one['guests'] for one in value['classes']))
