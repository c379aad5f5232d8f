# SPDX-License-Identifier: Apache-2.0
"""Words that a family has for its sizes, and how sizes are without them."""

import ddt

from nova_pinning import cpuset
from nova_pinning import errors
from nova_pinning.flavors import catalogue
from nova_pinning.flavors import export
from nova_pinning.tests.unit.flavors import test_catalogue
from nova_pinning.tests.unit import unit_base

_EVERYTHING = """\
class: dedicated
thread_policy: require
emulator_threads: share
page_size: large
numa_nodes: 2
disk: 10
swap: 1GiB
locked_memory: true
nic_multiqueue: true
cpu_priority: 10
cpu_cap: {percent: 50}
realtime: {vcpus: ^0}
throttles: {disk_iops: 100}
pci_devices: {nvme: 1, affinity: required}
traits: {required: [CUSTOM_A]}
secure_boot: required
tpm: {version: '2.0'}
memory_encryption: true
cpu_topology_limits: {sockets: 2}
resources: {VGPU: 1}
access: {projects: [a]}
rxtx_factor: 2
extra_specs: {'hw:pmu': false}
"""


def specs(family='', **size):
    found = dict(catalogue.parse(test_catalogue.catalogue_text(
        family, **size), 'f').flavors[0].extra_specs)
    return {key: value for key, value in found.items()
            if not key.startswith('pinning:')}


def sized(family, size):
    """The flavor of a size that says something itself."""
    text = test_catalogue.catalogue_text(family).replace(
        'memory: 16GiB}', f'memory: 16GiB, {size}}}')
    return catalogue.parse(text, 'f').flavors[0]


@ddt.ddt
class TestUnset(unit_base.TestCase):

    def test_everything(self):
        """Each key of a family can be unset, and leaves nothing then."""
        keys = [line.partition(':')[0]
                for line in _EVERYTHING.splitlines()
                if not line.startswith('class')]
        flavor = sized(_EVERYTHING, ', '.join(
            f'{key}: none' for key in keys))
        self.assertEqual(
            {'pinning:catalogue': 'c', 'pinning:family': 'f',
             'hw:cpu_policy': 'dedicated'}, dict(flavor.extra_specs))
        self.assertEqual((0, 0, 1.0, True),
                         (flavor.disk_gib, flavor.swap_mib,
                          flavor.rxtx_factor, flavor.is_public))

    @ddt.data(
        ('throttles: {disk_iops: 1, disk_bandwidth: 1MiB}',
         'throttles: {disk_iops: none}',
         {'quota:disk_total_bytes_sec': '1048576'}),
        ('pci_devices: {nvme: 1, gpu: 1}', 'pci_devices: {nvme: none}',
         {'pci_passthrough:alias': 'gpu:1'}),
        ('resources: {VGPU: 1, CUSTOM_A: 1}', 'resources: {VGPU: none}',
         {'resources:CUSTOM_A': '1'}),
        ("extra_specs: {'hw:pmu': true, 'hw:boot_menu': true}",
         "extra_specs: {'hw:pmu': null}", {'hw:boot_menu': 'true'}),
        # There it is a value.
        ('', "extra_specs: {'hw:usb_model': none}",
         {'hw:usb_model': 'none'}),
        ('class: dedicated\nthread_policy: require', 'cpu_topology: none',
         {'hw:cpu_policy': 'dedicated', 'hw:cpu_thread_policy': 'require'}))
    @ddt.unpack
    def test_one_of_a_group(self, family, size, expected):
        found = dict(sized(family, size).extra_specs)
        self.assertEqual(expected, {
            key: value for key, value in found.items()
            if not key.startswith('pinning:')})

    def test_a_description_may_be_none(self):
        self.assertEqual('none', sized('', 'description: none').description)


class TestWords(unit_base.TestCase):

    def test_security(self):
        self.assertEqual(
            {'os:secure_boot': 'disabled', 'hw:tpm_version': '2.0',
             'hw:tpm_model': 'tpm-crb', 'hw:tpm_secret_security': 'host',
             'hw:mem_encryption': 'true',
             'hw:mem_encryption_model': 'amd-sev-es'},
            specs("secure_boot: disabled\ntpm: {version: '2.0', model: "
                  'tpm-crb, secret_security: host}\n'
                  'memory_encryption: amd-sev-es'))
        self.assertEqual({}, specs('memory_encryption: false'))

    def test_limits_and_resources(self):
        self.assertEqual(
            {'hw:cpu_max_sockets': '2', 'hw:cpu_max_threads': '1',
             'resources:VGPU': '1', 'resources:CUSTOM_A': '4'},
            specs('cpu_topology_limits: {sockets: 2, threads: 1}\n'
                  'resources: {VGPU: 1, CUSTOM_A: vcpus/2}'))

    def test_formulas_in_extra_specs(self):
        self.assertEqual(
            {'a:b': 'x16y', 'a:c': '{z}', 'hw:numa_cpus.0': '0-3'},
            specs("extra_specs: {'a:b': 'x{2*vcpus}y', 'a:c': '{{z}}', "
                  "'hw:numa_cpus.0': '0-{vcpus/2-1}'}"))

    def test_brackets_alone(self):
        for text in ('{vcpus', 'vcpus}', '{}', '{vcps}', '{1GiB}'):
            error = self.assertRaises(
                errors.InputErrors, specs, f"extra_specs: {{'a:b': '{text}'}}")
            self.assertIn('f:7', str(error))

    def test_export_says_them(self):
        flavor = sized(
            "secure_boot: required\ntpm: {version: '2.0'}\n"
            'memory_encryption: true\ncpu_topology_limits: {cores: 4}\n'
            "resources: {VGPU: 1}\nextra_specs: {'a:b': '{{c'}", 'disk: 1')
        text = export.catalogue_text([flavor])
        for words in ('secure_boot: required', 'tpm:', 'VGPU: 1',
                      'memory_encryption: true', 'cpu_topology_limits:',
                      '{{c'):
            self.assertIn(words, text)


@ddt.ddt
class TestCells(unit_base.TestCase):

    CELL = 'numa_cell: {vcpus: 36, memory: 180GiB}'

    @ddt.data((35, 1), (36, 2), (71, 2), (72, 3))
    @ddt.unpack
    def test_room_for_the_emulator(self, vcpus, cells):
        made = specs('class: dedicated\nemulator_threads: isolate\n'
                     'numa_nodes: fewest', top=self.CELL, vcpus=vcpus,
                     memory='36GiB')
        self.assertEqual(str(cells), made['hw:numa_nodes'])
        first = cpuset.CpuSet.parse(made.get(
            'hw:numa_cpus.0', f'0-{vcpus // cells - 1}'))
        self.assertLess(len(first), 36)

    @ddt.data(
        # With threads in pairs, the first vCPUs of each cell float.
        ('thread_policy: require\nnuma_nodes: 2', 4, '2-3,6-7'),
        ('numa_nodes: 2', 3, '2-3,7'), ('numa_nodes: 2', 1, '3'),
        ('numa_nodes: 4', 6, '1-3,5,7'), ('', 3, '5-7'),
        ("numa_nodes: [{vcpus: '0-5', memory: 8GiB}, "
         "{vcpus: '6-7', memory: 8GiB}]", 4, '3-5,7'))
    @ddt.unpack
    def test_dedicated_vcpus_of_all_cells(self, family, count, mask):
        made = specs(f'class: mixed\ndedicated_vcpus: {{count: {count}}}\n'
                     f'{family}')['hw:cpu_dedicated_mask']
        self.assertEqual(count, len(cpuset.CpuSet.parse(made)))
        if '4' not in family:
            self.assertEqual(mask, made)

    @ddt.data('class: dedicated', 'class: dedicated\ncpu_topology: '
              'match-host', 'class: shared\ncpu_topology: match-host')
    def test_interleaved_cells(self, words):
        error = self.assertRaises(
            errors.InputErrors, specs,
            f"{words}\n"
            + ('thread_policy: require\n' if 'dedicated' in words else '')
            + "numa_nodes: [{vcpus: '0,2,4,6', memory: 8GiB}, "
            "{vcpus: '1,3,5,7', memory: 8GiB}]")
        self.assertIn('in different NUMA cells', str(error))

    def test_match_host_for_mixed_guests(self):
        made = specs('class: mixed\nthread_policy: require\n'
                     "cpu_topology: match-host\ndedicated_vcpus: '2-7'")
        self.assertEqual('2', made['hw:cpu_threads'])
        made = specs('class: mixed\nthread_policy: require\n'
                     "cpu_topology: match-host\ndedicated_vcpus: '1-4'")
        self.assertEqual('1', made['hw:cpu_threads'])
