# SPDX-License-Identifier: Apache-2.0
"""What people get wrong in catalogues, and where they are told."""

from oslotest import base

from nova_pinning.document import schema
from nova_pinning import errors
from nova_pinning.flavors import catalogue
from nova_pinning.tests.unit.flavors import test_catalogue


class TestBadCatalogue(base.BaseTestCase):

    def _told(self, text):
        error = self.assertRaises(errors.InputError, catalogue.parse, text,
                                  'f')
        return str(error).split('\n')

    def _check(self, text, expected):
        told = self._told(text)
        self.assertEqual(1, len(told), told)
        self.assertIn(expected, told[0])

    def test_outside_of_families(self):
        for text, expected in (
                ('a: [1', 'f:2:1: a: is not YAML: '),
                ('version: 3', 'f:1:10: version: 3 is not a version'),
                ('version: 2\nname: c', 'f:1:1: families is missing'),
                ('version: 2\nname: c\nfamilies: {}',
                 'f:3:11: families: is empty'),
                ('version: 2\nname: c d\nfamilies: {a: {sizes: s}}',
                 "f:2:7: name: 'c d' is not a name of up to 64"),
                ('version: 2\nname: c\nfamilies: {a b: {sizes: s}}',
                 "f:3:12: families.a b: 'a b' is not a name of up to 64"),
                ('version: 2\nname: c\nfamilies: {a: {class: shared}}',
                 'f:3:15: families.a: sizes is missing'),
                ('version: 2\nname: c\nfamilies: {a: {sizes: standardd}}\n'
                 'sizes: {standard: {s: {vcpus: 1, memory: 1M}}}',
                 'f:3:23: families.a.sizes: there is no series of sizes '
                 'called standardd; did you mean standard?'),
                ('version: 2\nname: c\nfamilies: {a: {sizes: {s: {vcpus: 1}}'
                 '}}', 'f:3:27: families.a.sizes.s: memory is missing'),
                ('version: 2\nname: c\nfamilies: {a: {sizes: {s: {vcpus: 1, '
                 'memoryy: 2, memory: 1M}}}}',
                 'f:3:38: families.a.sizes.s.memoryy: memoryy is not known '
                 'here; did you mean memory'),
                ('version: 2\nname: c\nfamilies: {a: {sizes: {vcpus: [1], '
                 'memory_per_vcpu: 1M, x: 1}}}',
                 'f:3:57: families.a.sizes.x: x is not known here; '
                 'choose from vcpus, memory_per_vcpu, size_name'),
                ('version: 2\nname: c\nfamilies: {a: {sizes: {vcpus: [1], '
                 'memory_per_vcpu: 1M, size_name: "{size}"}}}',
                 'f:3:68: families.a.sizes.size_name: the template'),
                ('version: 2\nname: c\nnuma_cell: {vcpus: 1, memory: x}\n'
                 'families: {a: {sizes: {s: {vcpus: 1, memory: 1M}}}}',
                 "f:3:31: numa_cell.memory: x is not an amount"),
                ('version: 2\nname: c\nfamilies: {a: {sizes: {s: {vcpus: 1, '
                 'memory: 1M, name: n}, t: {vcpus: 2, memory: 1M, name: n}}}}',
                 'f:3:60: families.a.sizes.t: a second flavor is called n; '
                 'the first is families.a.sizes.s in line 3')):
            self._check(text, expected)

    def test_line_ends(self):
        for text, expected in (
                ('version: 2\nname: "c\\n"\nfamilies: {a: {sizes: s}}',
                 "f:2:7: name: 'c\\n' is not a name of up to 64"),
                ('version: 2\nname: c\nflavor_name: "{family}\\n{size}"\n'
                 'families: {a: {sizes: {s: {vcpus: 1, memory: 1M}}}}',
                 "f:3:14: flavor_name: for size s of family a, the name "
                 "'a\\ns' is not of 1 to 255 characters on one line"),
                (test_catalogue.catalogue_text(
                    'traits: {required: ["A\\n"]}'),
                 "'A\\n' is not a trait")):
            self._check(text, expected)

    def test_more_cells_than_anything(self):
        self._check(
            'version: 2\nname: c\nnuma_cell: {vcpus: 1, memory: 1MiB}\n'
            'families: {a: {numa_nodes: fewest, sizes: {s: {vcpus: 9, '
            'memory: 2047TiB}}}}', '9 vCPUs and 2146435072 MiB do not go on '
            '2146435072 NUMA nodes')

    def test_sizes(self):
        text = test_catalogue.catalogue_text
        for text, expected in (
                (text(memory='16 apples'),
                 "f:6:35: families.f.sizes.s.memory: '16 apples' has a unit "
                 "that is not known, 'apples'; write it like 8GiB"),
                (text(memory='0M'), 'memory: for size s of family f, 0 is not '
                                    'from 1 to'),
                (text(memory='9999PiB'), 'is not from 1 to 2147483647'),
                (text(vcpus=0), 'f:6:24: families.f.sizes.s.vcpus: 0 is not '
                                'a number of vCPUs, 1 to 65536'),
                (text(vcpus=65537), '65537 is not a number of vCPUs, 1 to'),
                (text(memory='1' * 65 + 'M'), 'is not an amount with its'),
                (text(vcpus='many'), 'many is not a number of vCPUs'),
                (text('disk: 1.5G'), "f:7:11: families.f.disk: '1.5G' is "
                                     'not a whole number of GiB')):
            self._check(text, expected)

    def test_settings(self):
        for family, expected in (
                ('thread_polcy: require', '7:5: families.f.thread_polcy: '
                 'thread_polcy is not known here; did you mean '
                 'thread_policy?'),
                ('class: dedicatd', '7:12: families.f.class: dedicatd is not '
                 'one of dedicated, shared, mixed; did you mean dedicated?'),
                ('numa_nodes: fewest', '7:17: families.f.numa_nodes: '
                 '"fewest" needs to know what a host NUMA cell offers'),
                ('numa_nodes: 9', '8 vCPUs and 16384 MiB do not go on 9'),
                ('numa_nodes: []', 'is not a number of NUMA nodes'),
                ('numa_nodes: [{vcpus: 0-7, memoryy: 1G, memory: 1G}]',
                 '7:31: families.f.numa_nodes[0].memoryy: memoryy is not '
                 'known here; did you mean memory?'),
                ('numa_nodes: [{vcpus: 0-x, memory: 1G}]',
                 "7:26: families.f.numa_nodes[0].vcpus: for size s of family "
                 "f, '0-x' is not a list of vCPUs"),
                ('numa_nodes: [{vcpus: 0-7, memory: 1 apple}]',
                 'families.f.numa_nodes[0].memory: '),
                ('page_size: huge', 'huge is not large, small, any, or a'),
                ('page_size: 0.5k', 'is not a whole number of KiB'),
                ('page_size: 0k', 'a page of no size is none'),
                ('locked_memory: yes', 'yes is not true or false; write true'),
                ('realtime: ^0', "is not true, or {vcpus: '^0'}"),
                ('realtime: {vcpus: ^0-7}', "'^0-7' leaves no vCPU"),
                ('dedicated_vcpus: 4', '4 is not a list of vCPUs in quotes'),
                ("dedicated_vcpus: '0-3:2'", "'0-3:2' is not a list of"),
                ('dedicated_vcpus: {count: 8}',
                 '8 of 8 vCPUs are not a mixture'),
                ('dedicated_vcpus: {count: 0}', '0 of 8 vCPUs are not a '
                                                'mixture'),
                ('cpu_topology: {sockets: 3, cores: 1, threads: 1}',
                 'sockets, cores and threads make 3 vCPUs, not 8'),
                ('pci_devices: {nvme: {per_vcpu: 0.1}}',
                 '0 devices nvme are none'),
                ('pci_devices: {"a:b": 1}', 'is not a PCI alias'),
                ('pci_devices: {gpu: 1, affinity: near}',
                 'near is not one of required, preferred, legacy, socket'),
                ('cpu_cap: {percent: 0.5}', 'less than 1000, the least'),
                ('throttles: {disk_iop: 5}', 'did you mean disk_iops'),
                ('traits: {required: [A], forbidden: [A]}',
                 'trait:A is there already, from families.f.traits.required'),
                ('traits: {required: [a]}', 'a is not a trait, in capitals'),
                ('access: private', 'private is not public, or {projects'),
                ('access: {projects: [12]}', '12 is not a project id'),
                ('extra_specs: {a: 1.10}',
                 '1.1 is not text of at most 255 characters'),
                ('extra_specs: {"a/b": 1}', 'is not the name of an extra'),
                ('extra_specs: {a: ' + 'x' * 256 + '}', 'at most 255'),
                ('extra_specs: {"pinning:family": x}',
                 'pinning:family is there already, from families.f'),
                ('class: shared\nextra_specs: {"hw:cpu_policy": shared}',
                 'f:8:36: families.f.extra_specs.hw:cpu_policy: for size s '
                 'of family f, hw:cpu_policy is there already, from '
                 'families.f.class'),
                ('flavor_name: "{vcpus!r}"', 'the template'),
                ('flavor_name: " {size}"', "the name ' s' is not of 1 to"),
                ('rxtx_factor: 0', '0 is not a number above 0'),
                ('pci_devices: {' + ', '.join(
                    f'{"a" * 60}{number}: 1' for number in range(5)) + '}',
                 'pci_passthrough:alias gets longer than the 255')):
            self._check(test_catalogue.catalogue_text(family), expected)

    def test_once_for_all_sizes_and_all_families(self):
        told = self._told('''
version: 2
name: c
sizes: {two: {s: {vcpus: 2, memory: 1M}, m: {vcpus: 4, memory: 1M}}}
families:
  a: {sizes: two, throttles: {disk_iops: {per_vcpu: 1, min: 2, max: 1}}}
  b: {sizes: two, dedicated_vcpus: {count: 9}}
''')
        self.assertEqual(['f:6:42', 'f:7:36'], [one[:6] for one in told])
        self.assertIn('for size s of family a', told[0])

    def test_not_too_many(self):
        told = self._told('version: 2\nname: c\nfamilies:\n' + ''.join(
            f'  f{number}: {{sizes: none}}\n' for number in range(50)))
        self.assertEqual(schema.MAX_ERRORS, len(told))
