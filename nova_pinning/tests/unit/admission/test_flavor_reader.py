# SPDX-License-Identifier: Apache-2.0

import random

from nova_pinning.admission import flavor_reader
from nova_pinning.admission import guest_request
from nova_pinning.bridge.offline import flavor_request
from nova_pinning.bridge.offline import placement_queries
from nova_pinning.bridge.offline import standalone
from nova_pinning import errors
from nova_pinning.flavors import flavor_model
from nova_pinning import model
from nova_pinning.tests.unit import builders
from nova_pinning.tests.unit import unit_base

#: Values that extra specs and properties of images are given.
_SPECS = {
    'resources:VGPU': ('1', '2', 'x', '-1', '0'),
    'resources:CUSTOM_GOLD': ('1', '3'),
    'resources:BOGUS': ('1',),
    'resources1:VGPU': ('1',),
    'resources_A:CUSTOM_GOLD': ('1', '2'),
    'resources:VCPU': ('0', '2', '4'),
    'resources:PCPU': ('2', '4'),
    'resources1:PCPU': ('2',),
    'resources:MEMORY_MB': ('0', '512'),
    'resources:DISK_GB': ('0', '7'),
    'trait:CUSTOM_GOLD': ('required', 'forbidden', 'x'),
    'trait1:HW_CPU_X86_AVX': ('required',),
    'trait_A:CUSTOM_GOLD': ('required', 'forbidden'),
    'trait:HW_CPU_HYPERTHREADING': ('required', 'forbidden'),
    'group_policy': ('none', 'isolate', 'x'),
    'hw:cpu_policy': (
        'dedicated', 'dedicated', 'dedicated', 'shared', 'mixed'),
    'hw:cpu_dedicated_mask': ('^0', '1-2'),
    'hw:cpu_thread_policy': ('prefer', 'require', 'isolate'),
    'hw:emulator_threads_policy': ('share', 'isolate'),
    'hw:mem_encryption': ('true', 'false'),
    'hw:mem_encryption_model': (
        'amd-sev', 'amd-sev-es', 'amd-sev-snp', 'intel-tdx'),
    'hw:pmem': ('4GB', '4GB,4GB,a', ''),
    'hw:tpm_version': ('1.2', '2.0'),
    'hw:tpm_model': ('tpm-tis', 'tpm-crb'),
    'hw:tpm_secret_security': ('host', 'user', 'deployment'),
    'os:secure_boot': ('required', 'optional'),
    'hw:maxphysaddr_mode': ('emulate', 'passthrough'),
    'hw:pci_numa_affinity_policy': ('socket', 'required'),
    'hw:virtio_packed_ring': ('true', 'false'),
    'hw:ephemeral_encryption': ('true',),
    'hw:ephemeral_encryption_format': ('luks', 'plain'),
    'hw:sound_model': ('virtio', 'sb16'),
    'hw:numa_nodes': ('1', '2'),
    'hw:mem_page_size': ('large',),
    'accel:device_profile': ('fpga',),
    'hw:cpu_realtime': ('yes',),
    'hw:cpu_realtime_mask': ('^0',),
}
_PROPERTIES = {
    'hw_cpu_policy': ('dedicated', 'shared', 'mixed'),
    'hw_cpu_thread_policy': ('require', 'isolate', 'prefer'),
    'trait:CUSTOM_GOLD': ('required', 'x'),
    'hw_mem_encryption': ('true', 'false'),
    'hw_firmware_type': ('uefi', 'bios'),
    'hw_machine_type': ('q35',),
    'hw_firmware_stateless': ('true',),
    'hw_tpm_version': ('2.0',),
    'os_secure_boot': ('required',),
    'hw_pci_numa_affinity_policy': ('socket',),
    'hw_virtio_packed_ring': ('true',),
    'hw_sound_model': ('virtio',),
    'hw_ephemeral_encryption': ('true',),
}


#: What only a nova with these request filters reads.
_NEWER = {
    'virtio_sound_filter': ('sound_model',),
    'tpm_secret_security_filter': (
        'tpm_version', 'tpm_model', 'tpm_secret_security')}


def _known(values):
    """Those that the nova at hand reads as the newest does."""
    filters = {known.__name__ for known in placement_queries.FILTERS}
    unknown = {root for name, roots in _NEWER.items() if name not in filters
               for root in roots}
    return {key: texts for key, texts in values.items()
            if key[3:] not in unknown}


def _some(chance, values, counts):
    return {key: chance.choice(values[key])
            for key in chance.sample(sorted(values), chance.choice(counts))}


def _reader(specs, image=(), topology=None):
    return flavor_reader.FlavorReader(2, 1024, 0, specs, image, topology)


class TestAsNova(unit_base.TestCase):

    def test_random_flavors(self):
        """Nova's queries, or a doubt that names what they lack."""
        standalone.prepare()
        compared = 0
        specs, properties = _known(_SPECS), _known(_PROPERTIES)
        with flavor_request.batch():
            for number in range(400):
                chance = random.Random(number)
                flavor = flavor_model.Flavor(
                    name='wanted', vcpus=chance.choice((1, 2, 4)),
                    memory_mib=2048, disk_gib=chance.choice((0, 5)),
                    extra_specs=_some(chance, specs, (1, 2, 3, 4, 6)))
                image = _some(chance, properties, (0, 0, 1, 2, 3))
                try:
                    nova = flavor_request.request_for(flavor, image, {})
                except errors.InputError:
                    continue
                reader = flavor_reader.FlavorReader(
                    flavor.vcpus, flavor.memory_mib, flavor.disk_gib,
                    flavor.extra_specs, guest_request.pairs(image),
                    nova.topology)
                if not list(reader.doubts()):
                    compared += 1
                    self.assertEqual(
                        list(map(_plain, nova.queries)),
                        list(map(_plain, reader.queries())), flavor)
        self.assertGreater(compared, 100)


def _plain(query):
    return (sorted(query.groups), query.root_required, query.root_forbidden)


class TestFlavorReader(unit_base.TestCase):

    def test_policy(self):
        for said, expected in (('isolate', 'isolate'), ('none', 'none'),
                               ('x', 'none'), (None, 'none')):
            specs = {} if said is None else {'group_policy': said}
            [query] = _reader(specs).queries()
            self.assertEqual(expected, query.group_policy)

    def test_doubts(self):
        for specs in ({'accel:device_profile': 'fpga'},
                      {'pci_passthrough:alias': 'gpu:1'},
                      {'resources1:VGPU': '1', 'resources2:VGPU': '1'}):
            self.assertEqual(1, len(list(_reader(specs).doubts())), specs)
        self.assertEqual([], list(_reader({
            'resources:VGPU': '1', 'group_policy': 'none',
            'resources1:VGPU': '1', 'resources2:VGPU': '1'}).doubts()))

    def test_pinned_by_an_image_that_is_not_known(self):
        topology = builders.guest((2, 1024))
        self.assertEqual(model.CpuPolicy.DEDICATED, topology.cpu_policy)
        first, second = _reader({}, None, topology).queries()
        self.assertEqual(2, first.resources['PCPU'])
        self.assertEqual(2, second.resources['VCPU'])
