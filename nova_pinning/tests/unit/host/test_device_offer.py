# SPDX-License-Identifier: Apache-2.0

import dataclasses

import ddt
from oslotest import base as oslotest

from nova_pinning.host import device_offer
from nova_pinning.host import host_model
from nova_pinning.host import host_offer
from nova_pinning.tests.unit.host.plan import test_device_groups


def grouped(**devices):
    """The GPUs and NICs of four switches, sold by switch.

    :param devices: fields of each of them
    """
    planned = test_device_groups.plan(
        test_device_groups.server(), (('h100', 'gpu'), ('ib', '15b3:1021')),
        pci_groups={'h100': test_device_groups.SWITCH,
                    'ib': test_device_groups.SWITCH})
    return dataclasses.replace(planned, pci_devices=tuple(
        dataclasses.replace(device, **devices)
        for device in planned.pci_devices))


@ddt.ddt
class TestAliases(oslotest.BaseTestCase):

    def test_of_groups(self):
        found = device_offer.aliases(grouped())
        self.assertEqual(
            {alias + group for alias in ('h100', 'ib') for group in (
                '', *[f'-switch-{number}' for number in range(4)])},
            set(found))
        spec, = found['h100-switch-2'].specs
        self.assertEqual({
            'dev_type': 'type-PCI', 'resource_class': 'CUSTOM_H100',
            'traits': 'CUSTOM_H100_SWITCH_2'}, dict(spec))
        spec, = found['h100'].specs
        self.assertEqual({
            'dev_type': 'type-PCI', 'resource_class': 'CUSTOM_H100',
            'vendor_id': '10de', 'product_id': '2330'}, dict(spec))
        self.assertEqual(
            ['0000:08:00.0', '0000:09:00.0'],
            [device.address for device
             in device_offer.by_alias(grouped())['h100-switch-2']])

    def test_one_by_one(self):
        plain = grouped(resource_class='', traits=())
        self.assertEqual(['h100', 'ib'], sorted(device_offer.aliases(plain)))
        offered = host_offer.offered(plain)
        self.assertEqual((), offered.children)
        self.assertEqual([None] * 4, [
            pool.provider for pool in offered.pci_pools])


@ddt.ddt
class TestOffered(oslotest.BaseTestCase):

    def test_a_provider_and_a_pool_for_each(self):
        host = host_offer.offered(grouped())
        self.assertEqual(12, len(host.children))
        for pool in host.pci_pools:
            provider = host.providers[pool.provider]
            self.assertEqual(1, pool.total)
            self.assertIn(dict(pool.keys)['address'].upper(), provider.name)
        self.assertEqual(
            {2}, {sum(trait in child.traits for child in host.children)
                  for trait in [f'CUSTOM_H100_SWITCH_{number}'
                                for number in range(4)]})

    @ddt.data(
        ({'alias': 'pf'}, {}, 'and its virtual function'),
        ({'alias': ''}, {}, ''),
        ({'alias': ''}, {'resource_class': 'CUSTOM_OTHER'},
         'of several resource classes or traits'),
        ({'alias': ''}, {'traits': ('CUSTOM_T',)},
         'of several resource classes or traits'))
    @ddt.unpack
    def test_what_nova_does_not_report(self, physical, other, text):
        """Then nobody knows what Placement has of the host."""
        function = host_model.PciDevice(
            '0000:40:00.1', '10de', '2331', 0, 'vf',
            physical_function='0000:40:00.0', resource_class='CUSTOM_VF')
        host = dataclasses.replace(grouped(), pci_devices=(
            host_model.PciDevice('0000:40:00.0', '10de', '2330', 0,
                                 **physical),
            function, dataclasses.replace(
                function, address='0000:40:00.2', **other)))
        told = [gap.text for gap in host_offer.offered(host).gaps
                if gap.kind == 'devices']
        self.assertEqual(bool(text), bool(told))
        self.assertIn(text, ''.join(told))

    def test_functions_of_a_device_that_guests_get(self):
        """Its device_spec is for them, too (see nova.pci.devspec)."""
        def function(bus, **more):
            return host_model.PciDevice(
                f'0000:{bus}:00.1', '15b3', '101e', 0,
                physical_function=f'0000:{bus}:00.0', **more)

        def pools(**more):
            return [(pool.kind, pool.total) for pool in host_offer.offered(
                dataclasses.replace(grouped(), pci_devices=(
                    host_model.PciDevice(
                        '0000:40:00.0', '15b3', '1021', 0, **more),
                    function(40), function(41, alias='part')))).pci_pools]

        self.assertEqual([('15b3:101e', 1)], pools())
        self.assertEqual([('15b3:1021', 1), ('15b3:101e', 1),
                          ('15b3:101e', 1)], pools(alias='whole'))
