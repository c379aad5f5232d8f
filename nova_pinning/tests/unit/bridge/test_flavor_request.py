# SPDX-License-Identifier: Apache-2.0

import dataclasses
import sys
import unittest

if sys.version_info < (3, 11):
    raise unittest.SkipTest('only nova-scheduler runs on this Python')

import ddt

from nova_pinning.admission import devices
from nova_pinning.admission import pci_alias
from nova_pinning.bridge.offline import flavor_request
from nova_pinning import errors
from nova_pinning.flavors import flavor_model
from nova_pinning import model
from nova_pinning.model import hostclass
from nova_pinning.tests.unit import unit_base

_GPU = devices.device_keys('10de', '20b5')
_GPU2 = devices.device_keys('10de', '20b7')


def _flavor(**extra_specs):
    return flavor_model.Flavor(
        name='f', vcpus=4, memory_mib=4096, disk_gib=10, ephemeral_gib=5,
        extra_specs=extra_specs)


@ddt.ddt
class TestWanted(unit_base.TestCase):

    def test_floating(self):
        found = flavor_request.request_for(_flavor())
        self.assertIsNone(found.topology)
        self.assertEqual(hostclass.HostClass.SHARED, found.guest_class)
        self.assertEqual(15, found.disk_gib)
        query, = found.queries
        self.assertEqual({'VCPU': 4, 'MEMORY_MB': 4096, 'DISK_GB': 15},
                         query.resources)
        self.assertEqual((), found.devices)
        self.assertEqual('f', found.name)

    def test_dedicated(self):
        found = flavor_request.request_for(_flavor(**{
            'hw:cpu_policy': 'dedicated', 'hw:cpu_thread_policy': 'require',
            'hw:numa_nodes': '2', 'hw:mem_page_size': '1GB',
            'trait:CUSTOM_A': 'required', 'trait:CUSTOM_B': 'forbidden'}))
        self.assertEqual(hostclass.HostClass.DEDICATED, found.guest_class)
        self.assertEqual(model.Guest(
            (model.GuestCell((0, 1), (), 2048, 1024 * 1024),
             model.GuestCell((2, 3), (), 2048, 1024 * 1024)),
            model.CpuPolicy.DEDICATED, model.ThreadPolicy.REQUIRE),
            found.topology)
        first, second = found.queries
        self.assertEqual({'PCPU': 4, 'MEMORY_MB': 4096, 'DISK_GB': 15},
                         first.resources)
        self.assertEqual({'VCPU': 4, 'MEMORY_MB': 4096, 'DISK_GB': 15},
                         second.resources)
        # That of the release is left out.
        self.assertEqual({'CUSTOM_A', 'HW_CPU_HYPERTHREADING'},
                         first.required)
        self.assertEqual({'CUSTOM_A'}, second.required)
        self.assertIn('CUSTOM_B', second.forbidden)

    def test_image(self):
        found = flavor_request.request_for(
            _flavor(), {'hw_cpu_policy': 'dedicated'})
        self.assertTrue(found.topology.is_pinned)
        self.assertEqual(hostclass.HostClass.DEDICATED, found.guest_class)

    def test_devices(self):
        found = flavor_request.request_for(
            _flavor(**{'pci_passthrough:alias': 'gpu:2'}), {},
            {'gpu': pci_alias.PciAlias((_GPU, _GPU2), 'required')})
        self.assertEqual(
            (devices.PciRequest('gpu', (_GPU, _GPU2), 2, 'required'),),
            found.devices)

    def test_devices_that_placement_finds(self):
        """A group of Placement's for each device, named the same each time."""
        flavor = _flavor(**{'pci_passthrough:alias': 'gpu:2,gold:1'})
        aliases = {'gpu': pci_alias.PciAlias((_GPU,)),
                   'gold': pci_alias.PciAlias(((
                       ('resource_class', 'gold'), ('traits', 'fast')),))}
        with flavor_request.batch(pci_in_placement=True):
            found, again = [flavor_request.request_for(flavor, {}, aliases)
                            for _time in range(2)]
        self.assertEqual(found, again)
        groups = {group.suffix: group for group in found.queries[0].groups}
        gpus, gold = [request.groups for request in found.devices]
        self.assertEqual(3, len({*gpus, *gold}))
        self.assertEqual(
            [{'CUSTOM_PCI_10DE_20B5': 1}] * 2 + [{'CUSTOM_GOLD': 1}],
            [dict(groups[suffix].resources) for suffix in (*gpus, *gold)])
        self.assertEqual({'CUSTOM_FAST'}, groups[gold[0]].required)
        with flavor_request.batch():
            without = flavor_request.request_for(
                _flavor(**{'pci_passthrough:alias': 'gpu:2'}), {},
                {'gpu': aliases['gpu']})
        self.assertEqual((), without.devices[0].groups)

    def test_aliases_of_other_flavors(self):
        """What nova has against them is nothing to this one."""
        aliases = {
            'gpu': pci_alias.PciAlias((_GPU,)),
            'gold': pci_alias.PciAlias(((('resource_class', 'gold'),),)),
            'two': pci_alias.PciAlias((_GPU, _GPU2)),
            'strange': pci_alias.PciAlias(((('colour', 'red'),),))}
        for in_placement in (False, True):
            with flavor_request.batch(in_placement):
                found = flavor_request.request_for(
                    _flavor(**{'pci_passthrough:alias': 'gpu:1'}), {}, aliases)
            self.assertEqual(in_placement, bool(found.devices[0].groups))
        self.assertIn('colour', str(self.assertRaises(
            errors.InputError, flavor_request.request_for,
            _flavor(**{'pci_passthrough:alias': 'strange:1'}), {}, aliases)))

    @ddt.data(
        {'resource_class': 'CUSTOM_H100', 'traits': 'CUSTOM_H100_SWITCH_0'},
        {'resource_class': 'h 100', 'traits': 'fast, HW_GPU_API_DXVA,'},
        {'resource_class': 'VGPU'}, dict(_GPU),
        {**dict(_GPU), 'resource_class': 'custom_gold', 'traits': 'custom_t'},
        {**dict(_GPU), 'live_migratable': 'true'})
    def test_as_it_is_told_without_nova(self, keys):
        """Of host files, nova reads no aliases."""
        aliases = {'gpu': pci_alias.PciAlias((tuple(sorted(keys.items())),)),
                   'other': pci_alias.PciAlias((_GPU2,))}
        with flavor_request.batch(pci_in_placement=True):
            found = flavor_request.request_for(_flavor(**{
                'pci_passthrough:alias': 'gpu:2,other:1,gpu:1'}), {}, aliases)
        plain = dataclasses.replace(
            found, devices=tuple(
                dataclasses.replace(device, specs=(), groups=())
                for device in found.devices),
            queries=tuple(dataclasses.replace(query, groups=tuple(
                group for group in query.groups if not group.suffix))
                for query in found.queries))
        self.assertEqual(found, pci_alias.asked(plain, aliases, True))
        self.assertEqual(plain.queries, pci_alias.asked(
            plain, aliases, False).queries)

    def test_policy_of_the_flavor(self):
        found = flavor_request.request_for(
            _flavor(**{'pci_passthrough:alias': 'gpu:1',
                       'hw:pci_numa_affinity_policy': 'preferred'}), {},
            {'gpu': pci_alias.PciAlias((_GPU,))})
        self.assertEqual('preferred', found.devices[0].policy)

    @ddt.data(
        ({'pci_passthrough:alias': 'gpu:1'}, 'PCI alias gpu is not defined'),
        ({'hw:cpu_policy': 'dedicate'}, 'dedicate'),
        ({'hw:cpu_policy': 'dedicated', 'hw:numa_nodes': '3'},
         'cannot be evenly distributed'),
        ({'pinning:class': 'gold'}, "'gold'"))
    @ddt.unpack
    def test_refused(self, extra_specs, text):
        with flavor_request.batch():
            error = self.assertRaises(
                errors.InputError, flavor_request.request_for,
                _flavor(**extra_specs), {}, {})
        self.assertEqual('flavor f: ', str(error)[:10])
        self.assertIn(text, str(error))

    @ddt.data('gpu:x', 'gpu', 'gpu:1:2')
    def test_aliases_that_cannot_be_read(self, text):
        error = self.assertRaises(
            errors.InputError, flavor_request.request_for,
            _flavor(**{'pci_passthrough:alias': text}), {},
            {'gpu': pci_alias.PciAlias((_GPU,))})
        self.assertIn(f'cannot read pci_passthrough:alias = {text}: ',
                      str(error))

    def test_many_alike(self):
        flavor = _flavor(**{'hw:cpu_policy': 'dedicated'})
        with flavor_request.batch():
            found = flavor_request.request_for(flavor)
        self.assertEqual(flavor_request.request_for(flavor), found)
