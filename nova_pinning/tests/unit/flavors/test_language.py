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
disk: 10GiB
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
            f'{key}: null' for key in keys))
        self.assertEqual(
            {'pinning:catalogue': 'c', 'pinning:family': 'f',
             'hw:cpu_policy': 'dedicated'}, dict(flavor.extra_specs))
        self.assertEqual((0, 0, 1.0, True),
                         (flavor.disk_gib, flavor.swap_mib,
                          flavor.rxtx_factor, flavor.is_public))

    @ddt.data(
        ('{switch: 2}', '{affinity: required}', [
            ('f.s-switch-0', 'h100-switch-0:2,ib-switch-0:1'),
            ('f.s-switch-1', 'h100-switch-1:2,ib-switch-1:1')]),
        ('{partition: [5, 0]}', '{h100: 4, ib: null}', [
            ('f.s-partition-5', 'h100-partition-5:4'),
            ('f.s-partition-0', 'h100-partition-0:4')]),
        ('{switch: 2}', '{together: null}', [('f.s', 'h100:2,ib:1')]))
    @ddt.unpack
    def test_a_flavor_for_each_group(self, together, size, expected):
        found = catalogue.parse(f"""
version: 2
name: c
families:
  f:
    pci_devices: {{h100: 2, ib: 1, affinity: required, together: {together}}}
    sizes: {{s: {{vcpus: 2, memory: 2GiB, pci_devices: {size}}}}}
""", 'c.yaml').flavors
        self.assertEqual(expected, [
            (flavor.name, flavor.extra_specs['pci_passthrough:alias'])
            for flavor in found])
        self.assertEqual({'required'}, {
            flavor.extra_specs['hw:pci_numa_affinity_policy']
            for flavor in found})
        self.assertEqual(len(found), len({flavor.id for flavor in found}))

    @ddt.data('{rack: 2}', 'switch', '{switch: 0}', '{switch: [-1]}',
              '{switch: 2, partition: 2}', '{partition: []}')
    def test_no_groups(self, together):
        self.assertRaises(errors.InputError, catalogue.parse, f"""
version: 2
name: c
families: {{f: {{pci_devices: {{gpu: 1, together: {together}}},
                 sizes: {{s: {{vcpus: 2, memory: 2GiB}}}}}}}}
""", 'c.yaml')

    @ddt.data(
        ('throttles: {disk_iops: 1, disk_bandwidth: 1MiB}',
         'throttles: {disk_iops: null}',
         {'quota:disk_total_bytes_sec': '1048576'}),
        ('pci_devices: {nvme: 1, gpu: 1}', 'pci_devices: {nvme: null}',
         {'pci_passthrough:alias': 'gpu:1'}),
        ('resources: {VGPU: 1, CUSTOM_A: 1}', 'resources: {VGPU: null}',
         {'resources:CUSTOM_A': '1'}),
        ("extra_specs: {'hw:pmu': true, 'hw:boot_menu': true}",
         "extra_specs: {'hw:pmu': null}", {'hw:boot_menu': 'true'}),
        # There it is a value.
        ('', "extra_specs: {'hw:usb_model': none}",
         {'hw:usb_model': 'none'}))
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

    def test_limits_and_resources(self):
        self.assertEqual(
            {'hw:cpu_max_sockets': '2', 'hw:cpu_max_threads': '1',
             'resources:VGPU': '1', 'resources:CUSTOM_A': '4'},
            specs('cpu_topology_limits: {sockets: 2, threads: 1}\n'
                  'resources: {VGPU: 1, CUSTOM_A: 4}'))

    def test_export_says_them(self):
        flavor = sized(
            "secure_boot: required\ntpm: {version: '2.0'}\n"
            'memory_encryption: true\ncpu_topology_limits: {cores: 4}\n'
            "resources: {VGPU: 1}\nextra_specs: {'a:b': '{c'}", 'disk: 1GiB')
        text = export.catalogue_text([flavor])
        for words in ('secure_boot: required', 'tpm:', 'VGPU: 1',
                      'memory_encryption: true', 'cpu_topology_limits:',
                      "a:b: '{c'"):
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

    @ddt.data('class: dedicated\ncpu_topology: match-host',
              'class: shared\ncpu_topology: match-host')
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


@ddt.ddt
class TestVersion2(unit_base.TestCase):

    def text(self, family, size='', vcpus=8):
        lines = test_catalogue.catalogue_text(family, vcpus=vcpus)
        return lines.replace('memory: 16GiB}', f'memory: 16GiB{size}}}')

    def specs(self, *words, **more):
        flavor, = catalogue.parse(self.text(*words, **more), 'f').flavors
        return {key: value for key, value in flavor.extra_specs.items()
                if not key.startswith('pinning:')}

    @ddt.data(
        ('{per_vcpu: 500}', 4000), ('{per_vcpu: 500, max: 1000}', 1000),
        ('{per_vcpu: 500, min: 5000}', 5000), ('{per_vcpu: 1/3}', 2),
        ('{per_vcpu: 0.5, min: 1, max: 9}', 4), ('7', 7))
    @ddt.unpack
    def test_figures(self, figure, expected):
        self.assertEqual(
            {'quota:cpu_shares': str(expected)},
            self.specs(f'cpu_priority: {figure}'))

    @ddt.data(
        ('network_in: {per_vcpu: 500Mbit, max: 2Gbit}',
         'vif_inbound_average', 250_000),
        ('network_out: 8kbit/s', 'vif_outbound_average', 1),
        ('network_in_burst: 10MiB', 'vif_inbound_burst', 10240),
        ('disk_bandwidth: {per_vcpu: 1KiB, min: 1MiB}',
         'disk_total_bytes_sec', 1 << 20))
    @ddt.unpack
    def test_amounts(self, throttle, key, expected):
        self.assertEqual({f'quota:{key}': str(expected)},
                         self.specs(f'throttles: {{{throttle}}}'))

    def test_percent(self):
        self.assertEqual(
            {'quota:cpu_period': '20000', 'quota:cpu_quota': '10000'},
            self.specs('cpu_cap: {percent: 50, period_us: 20000}'))

    @ddt.data(
        ('disk: 20', '20 is not an amount with its unit'),
        ('page_size: 2048', '2048 is not large, small, any, or a size'),
        ('cpu_priority: 100*vcpus', 'is not a number, or one by size such'),
        ('cpu_priority: {per_vcpu: 1, min: 3, max: 2}',
         'min is more than max'),
        ('throttles: {disk_iops: {per_vcpu: 1/16}}',
         'it is rounded down to 0, which is no limit; add a min'),
        ('cpu_priority: {per_vcpu: 1/0}', 'not a number, or a fraction'),
        ('throttles: {network_in: 1MiB}', 'is not bits a second'),
        ('throttles: {network_in: 100kbit}', '12.5 times 8kbit'),
        ('throttles: {network_out: network_in}', 'is not bits a second'),
        ('throttles: {disk_bandwidth: 1Mbit}', 'is not bytes, such as'),
        ('thread_policy: none', 'none is not one of prefer'),
        ('thread_policy: null', 'has no value'),
        ('cpu_topology: none', 'none is not match-host'),
        ('emulator_threads: on-vcpus', 'is not one of share, isolate'),
        ('realtime: false', 'false is not true, or {vcpus'),
        ('cpu_cap: {quota_us: 1000, percent: 1}', 'quota_us is not known'))
    @ddt.unpack
    def test_one_way(self, family, expected):
        error = self.assertRaises(
            errors.InputError, catalogue.parse, self.text(family), 'f')
        self.assertIn(expected, str(error))

    def test_null_unsets(self):
        keys = [line.partition(':')[0]
                for line in _EVERYTHING.splitlines()
                if not line.startswith('class')]
        self.assertEqual(
            {'hw:cpu_policy': 'dedicated'},
            self.specs(_EVERYTHING, ''.join(f', {key}: null' for key in keys)))
        self.assertEqual(
            {'quota:disk_read_iops_sec': '1'},
            self.specs('throttles: {disk_iops: 1, disk_read_iops: 1}',
                       ', throttles: {disk_iops: null}'))

    def test_no_topology_by_itself(self):
        self.assertEqual(
            {'hw:cpu_policy': 'dedicated', 'hw:cpu_thread_policy': 'require'},
            self.specs('class: dedicated\nthread_policy: require'))

    def test_brackets_are_text(self):
        self.assertEqual({'a:b': '{vcpus}'},
                         self.specs("extra_specs: {'a:b': '{vcpus}'}"))
