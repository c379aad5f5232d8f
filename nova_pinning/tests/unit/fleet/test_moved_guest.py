# SPDX-License-Identifier: Apache-2.0

import dataclasses

from nova_pinning.admission import devices
from nova_pinning.admission import pci_alias
from nova_pinning.admission import resident_guest
from nova_pinning.fleet import moved_guest
from nova_pinning.model import hostclass
from nova_pinning.tests.unit import unit_base

_GUEST = resident_guest.ResidentGuest(
    uuid='guest', host='host', vcpus=2, memory_mib=1024,
    guest_class=hostclass.HostClass.SHARED, resources={'CUSTOM_L3_WAYS': 3})


class TestOfGuest(unit_base.TestCase):

    def test_all_that_its_flavor_asks_for(self):
        request = moved_guest.of_guest(_GUEST, {
            'resources:VGPU': '1', 'resources1:CUSTOM_GOLD': '2',
            'trait1:CUSTOM_FAST': 'required', 'hw:tpm_version': '2.0',
            'pci_passthrough:alias': 'gpu:1'})
        [query] = request.queries
        self.assertEqual(
            {'VCPU': 2, 'MEMORY_MB': 1024, 'VGPU': 1, 'CUSTOM_GOLD': 2},
            query.resources)
        self.assertLessEqual({'CUSTOM_FAST', 'COMPUTE_SECURITY_TPM_2_0'},
                             query.required)
        self.assertEqual((), request.doubts)

    def test_what_its_flavor_asks_for_is_not_known(self):
        [query] = moved_guest.of_guest(_GUEST).queries
        self.assertEqual(
            {'VCPU': 2, 'MEMORY_MB': 1024, 'CUSTOM_L3_WAYS': 3},
            query.resources)

    def test_more_than_is_read(self):
        request = moved_guest.of_guest(
            _GUEST, {'accel:device_profile': 'fpga'})
        self.assertEqual(['accel:device_profile'],
                         [doubt.about for doubt in request.doubts])

    def test_what_placement_has_for_it(self):
        """From any provider; its own disks may be shared ones."""
        guest = dataclasses.replace(
            _GUEST, disk_gib=5, resources={'DISK_GB': 0, 'VGPU': 1},
            allocations=((1, (('VGPU', 2),)), (2, (('DISK_GB', 5),))))
        [query] = moved_guest.of_guest(guest).queries
        self.assertEqual({'VCPU': 2, 'MEMORY_MB': 1024, 'DISK_GB': 5,
                          'VGPU': 3}, query.resources)

    def test_alias_of_a_class(self):
        """Only Placement knows what that stands for: not any device."""
        keys = devices.device_keys('10de', '20b5')
        guest = dataclasses.replace(
            _GUEST, devices=(devices.PciUse(keys, 0, 1),))
        self.assertEqual(
            (devices.PciRequest('', (keys,), 1),),
            moved_guest.device_requests(guest, {'gold': pci_alias.PciAlias(
                ((('resource_class', 'GOLD'),),))}))
