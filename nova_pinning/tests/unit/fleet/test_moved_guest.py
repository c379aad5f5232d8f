# SPDX-License-Identifier: Apache-2.0

import dataclasses

import ddt

from nova_pinning.admission import devices
from nova_pinning.admission import guest_request
from nova_pinning.admission import pci_alias
from nova_pinning.admission import resident_guest
from nova_pinning.admission import scheduler_rules
from nova_pinning.flavors import flavor_model
from nova_pinning.fleet import moved_guest
from nova_pinning.fleet import snapshot
from nova_pinning.model import hostclass
from nova_pinning.tests.unit import unit_base

_GUEST = resident_guest.ResidentGuest(
    uuid='guest', host='host', vcpus=2, memory_mib=1024,
    guest_class=hostclass.HostClass.SHARED, resources={'CUSTOM_L3_WAYS': 3})


_GPU = devices.device_keys('10de', '20b5')
_GPUS = devices.PciUse(_GPU, 0, 1),
_ALIASES = {name: pci_alias.PciAlias((specs,), policy)
            for name, specs, policy in (
                ('any', _GPU, 'preferred'), ('gpu', _GPU, 'required'),
                ('gold', (('resource_class', 'GOLD'),), 'required'))}


@ddt.ddt
class TestOfGuest(unit_base.TestCase):

    def test_all_that_its_flavor_asks_for(self):
        guest = dataclasses.replace(_GUEST, devices=_GPUS)
        request = moved_guest.of_guest(guest, {
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
        guest = dataclasses.replace(_GUEST, devices=_GPUS)
        self.assertEqual(
            ((devices.PciRequest('', (_GPU,), 1),), []),
            moved_guest.device_requests(
                guest, {}, {'gold': _ALIASES['gold']}))

    @ddt.data(('any:1', '', 'any', 'preferred'),
              ('gpu:1', '', 'gpu', 'required'),
              ('gold:1', '', 'gold', 'required'),
              ('gpu:1', 'socket', 'gpu', 'socket'),
              ('gpu:1,any:1', 'legacy', 'any', 'legacy'))
    @ddt.unpack
    def test_affinity(self, asked, policy, alias, expected):
        """As the flavor has it, or else the alias that it names."""
        specs = {'pci_passthrough:alias': asked}
        if policy:
            specs['hw:pci_numa_affinity_policy'] = policy
        guest = dataclasses.replace(_GUEST, devices=_GPUS)
        self.assertEqual(
            ((devices.PciRequest(
                alias, _ALIASES[alias].specs, 1, expected),), []),
            moved_guest.device_requests(guest, specs, _ALIASES))

    def test_affinity_that_its_image_had(self):
        """What nova wrote down outweighs what flavor and alias say now."""
        guest = dataclasses.replace(
            _GUEST, devices=_GPUS, device_policy='socket')
        for specs in ({}, {'hw:pci_numa_affinity_policy': 'preferred'}):
            [request], _doubts = moved_guest.device_requests(
                guest, {'pci_passthrough:alias': 'gpu:1', **specs}, _ALIASES)
            self.assertEqual('socket', request.policy)

    def test_traits_that_its_image_asks_for(self):
        guest = dataclasses.replace(_GUEST, image={
            'hw_pci_numa_affinity_policy': 'socket',
            'trait:HW_CPU_X86_AVX2': 'required'})
        for there, expected in (
                (_GUEST, set()),
                (guest, {'COMPUTE_SOCKET_PCI_NUMA_AFFINITY',
                         'HW_CPU_X86_AVX2'})):
            request = moved_guest.of_guest(there, {'hw:numa_nodes': '1'})
            for query in request.queries:
                self.assertEqual(expected, {
                    trait for group in query.groups
                    for trait in group.required})

    def test_one_alias_of_several_devices(self):
        """One request for what the guest has of two kinds."""
        other = devices.device_keys('10de', '2342')
        alias = pci_alias.PciAlias((_GPU, other), 'required')
        guest = dataclasses.replace(_GUEST, devices=(
            *_GPUS, devices.PciUse(other, 1, 1)))
        self.assertEqual(
            ((devices.PciRequest('gpu', alias.specs, 2, 'required'),), []),
            moved_guest.device_requests(
                guest, {'pci_passthrough:alias': 'gpu:2'}, {'gpu': alias}))

    def test_devices_in_placement(self):
        """Placement is asked for them by the alias of the flavor."""
        alias = pci_alias.PciAlias((
            (('resource_class', 'GOLD'), ('traits', 'CUSTOM_SWITCH_0')),))
        guest = dataclasses.replace(_GUEST, devices=_GPUS, flavor='f')
        request = moved_guest.RequestReader(snapshot.Fleet(
            hosts=(), pci_aliases={'gold': alias}, flavors=(
                flavor_model.Flavor(
                    name='f', vcpus=2, memory_mib=1024, extra_specs={
                        'pci_passthrough:alias': 'gold:1'}),),
            rules=scheduler_rules.SchedulerRules(pci_in_placement=True),
        )).request(guest)
        [asked] = request.devices
        [suffix] = asked.groups
        for query in request.queries:
            self.assertIn(guest_request.RequestGroup(
                suffix, (('CUSTOM_GOLD', 1),),
                frozenset({'CUSTOM_SWITCH_0'})), query.groups)
        # The claim on the other host knows nothing of that.
        self.assertEqual(
            (dataclasses.replace(asked, groups=()),), request.claims)

    @ddt.data('gpu:1,any:1', 'other:1', '')
    def test_affinity_is_not_known(self, asked):
        guest = dataclasses.replace(_GUEST, devices=_GPUS)
        _requests, doubts = moved_guest.device_requests(
            guest, {'pci_passthrough:alias': asked}, _ALIASES)
        self.assertEqual(['it is not known by which alias it has its devices '
                          '10de:20b5'], [doubt.text for doubt in doubts])

    def test_devices_are_not_told(self):
        """As where the compute API was read: it has some all the same."""
        request = moved_guest.of_guest(
            _GUEST, {'pci_passthrough:alias': 'gpu:1'})
        self.assertEqual(['pci_passthrough:alias'],
                         [doubt.about for doubt in request.doubts])
