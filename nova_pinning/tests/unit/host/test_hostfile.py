# SPDX-License-Identifier: Apache-2.0


import textwrap

import ddt
import jsonschema
from oslotest import base as oslotest

from nova_pinning import cpuset
from nova_pinning.document import schema
from nova_pinning.document import source
from nova_pinning import errors
from nova_pinning.host import hardware
from nova_pinning.host import host_model
from nova_pinning.host import hostfile

GOOD = """\
version: 1
name: compute-1
description: a host
cpu: {model: EPYC-Milan, vendor: AMD, threads_per_core: 2, features: [b, a]}
nodes:
  - id: 1
    socket: 1
    cpus: 2-3,6-7
    memory: 16384
    distances: [21, 10]
  - id: 0
    cores: '0,4 1,5'
    memory: 16 gb
    huge_pages: {1GiB: 8, 2M: 1024}
    l3_domains: [0-1, 4-5]
    distances: [10, 21]
pci_devices:
  - {address: '0000:3B:00.0', vendor_id: 8086, product_id: '0953', alias: x}
  - {address: '0000:3b:00.1', vendor_id: 144D, product_id: a80a, numa_node: 1}
nova:
  dedicated_cpus: 1-3,5-7
  shared_cpus: 4
  cpu_allocation_ratio: 3
  reserved_memory: 512
  reserved_huge_pages: {0: {1GiB: 2}}
  packs_cells: false
traits: [CUSTOM_B, CUSTOM_A]
details: {nics: [whatever]}
"""

# What nova-pinning host discover writes besides.
HARDWARE = """\
version: 1
name: compute-1
cpu: {threads_per_core: 2}
nodes: [{id: 0, cpus: 0-3, memory: 4GiB}]
offline_cpus: 4-5
dies:
  - {socket: 0, id: 0, cpus: '0,2'}
  - {socket: 0, id: 1, cpus: '1,3'}
caches:
  - {level: 1, kind: data, size: 48KiB, domains: cpus}
  - {level: 2, kind: unified, size: 1280, domains: cores}
  - {level: 3, kind: unified, domains: [0-3]}
core_kinds:
  - {name: performance, cpus: '0,2', capacity: 1024}
  - {name: efficient, cpus: '1,3'}
pci_devices:
  - {address: '0000:3b:02.0', vendor_id: '8086', product_id: 154c, kind: nic,
     driver: iavf, names: [eth4], physical_function: '0000:3B:00.0',
     iommu_group: 0, queues: 4, interrupts: '9,120-122', speed_mbps: 25000,
     in_use: default route}
  - {address: '0000:3c:00.0', vendor_id: '8086', product_id: '0953',
     interrupts: 16}
system:
  kernel: 6.1.0-18-amd64
  command_line: isolcpus=2-3
  isolated_cpus: 2-3
  nohz_full_cpus: 3
  smt: on
  cpufreq_driver: intel_pstate
  governors: {performance: 0-2, powersave: 3}
  virtualization: vmx
  iommu: true
  mitigations: {l1tf: 'Mitigation: PTE Inversion'}
"""


def read(text):
    return hostfile.read(source.parse(text, 'host.yaml'))


def cpus(text):
    return cpuset.CpuSet.parse(text)


class TestRead(oslotest.BaseTestCase):

    def test_everything(self):
        self.assertEqual(host_model.HostDescription(
            name='compute-1',
            description='a host',
            cpu_model=host_model.CpuModel(
                'x86_64', 'EPYC-Milan', 'AMD', ('a', 'b')),
            nodes=(
                host_model.NumaNode(
                    0, 0, ((0, 4), (1, 5)), 16384,
                    {1048576: 8, 2048: 1024}, (cpus('0-1'), cpus('4-5')),
                    (10, 21)),
                host_model.NumaNode(
                    1, 1, ((2, 6), (3, 7)), 16384, distances=(21, 10))),
            pci_devices=(
                host_model.PciDevice('0000:3b:00.0', '8086', '0953', None,
                                     'x'),
                host_model.PciDevice('0000:3b:00.1', '144d', 'a80a', 1)),
            nova=host_model.NovaSettings(
                cpus('1-3,5-7'), cpus('4'), 3.0, 1.0, 512, {(0, 1048576): 2},
                packs_cells=False),
            traits=frozenset(['CUSTOM_A', 'CUSTOM_B'])), read(GOOD))
        self.assertEqual('host.yaml', read(GOOD).where.source)

    def test_hardware(self):
        nic, other = read(HARDWARE).pci_devices
        self.assertEqual(
            host_model.PciDevice(
                '0000:3b:02.0', '8086', '154c', None,
                kind=hardware.PciKind.NIC, driver='iavf', names=('eth4',),
                iommu_group=0, queues=4, interrupts=(9, 120, 121, 122),
                speed_mbps=25000, in_use='default route',
                physical_function='0000:3b:00.0'), nic)
        self.assertEqual((hardware.PciKind.OTHER, (16,), None),
                         (other.kind, other.interrupts, other.iommu_group))
        unified = hardware.CacheKind.UNIFIED
        self.assertEqual(host_model.HostDescription(
            name='compute-1',
            nodes=(host_model.NumaNode(0, 0, ((0, 2), (1, 3)), 4096),),
            pci_devices=(nic, other),
            offline_cpus=cpus('4-5'),
            dies=(hardware.Die(0, 0, cpus('0,2')),
                  hardware.Die(0, 1, cpus('1,3'))),
            caches=(
                hardware.Caches(1, hardware.CacheKind.DATA, 48,
                                tuple(map(cpus, '0123'))),
                hardware.Caches(2, unified, 1280,
                                (cpus('0,2'), cpus('1,3'))),
                hardware.Caches(3, unified, 0, (cpus('0-3'),))),
            core_kinds=(
                hardware.CoreKind('performance', cpus('0,2'), 1024),
                hardware.CoreKind('efficient', cpus('1,3'))),
            system=hardware.System(
                '6.1.0-18-amd64', 'isolcpus=2-3', cpus('2-3'), cpus('3'),
                'on', 'intel_pstate',
                {'performance': cpus('0-2'), 'powersave': cpus('3')}, 'vmx',
                True, mitigations={'l1tf': 'Mitigation: PTE Inversion'}),
        ), read(HARDWARE))

    def test_the_schema(self):
        jsonschema.Draft202012Validator.check_schema(
            schema.shipped(hostfile.__package__, 'host-1.json'))

    def test_the_least(self):
        self.assertEqual(
            host_model.HostDescription(
                'a', (host_model.NumaNode(0, 0, ((0,), (1,)), 1024),)),
            read('{"version": 1, "name": "a", "nodes": '
                 '[{"id": 0, "cpus": "0-1", "memory": "1GiB"}]}'))

    def test_numbering(self):
        text = textwrap.dedent("""\
            version: 1
            name: a
            cpu: {threads_per_core: 2, numbering: %s, cores_per_l3: 1}
            nodes: [{id: 0, cpus: 0-3, memory: 1GiB}]
            """)
        split, = read(text % 'split').nodes
        self.assertEqual(((0, 2), (1, 3)), split.cores)
        self.assertEqual((cpus('0,2'), cpus('1,3')), split.l3_domains)
        adjacent, = read(text % 'adjacent').nodes
        self.assertEqual(((0, 1), (2, 3)), adjacent.cores)

    def test_a_node_without_cpus(self):
        nodes = read("{version: 1, name: a, nodes: [{id: 0, cpus: 0, memory: "
                     "1GiB}, {id: 1, cpus: '', memory: 64GiB}]}").nodes
        self.assertEqual(((0,),), nodes[0].cores)
        self.assertEqual((), nodes[1].cores)


# What is changed in GOOD, the line and key of the error, and part of it.
BAD = {
    'version': ('version: 1', 'version: 2', 1, 'version', 'not a version'),
    'no name': ('name: compute-1\n', '', 1, '', 'name is missing'),
    'name': ('compute-1', "'a b'", 2, 'name', 'letters, digits'),
    'unknown key': ('distances: [21', 'distance: [21', 10,
                    'nodes[0].distance', 'did you mean distances'),
    'unknown nova key': ('reserved_memory:', 'reserved_ram:', 24,
                         'nova.reserved_ram', 'is not known'),
    'type': ('socket: 1', 'socket: one', 7, 'nodes[0].socket',
             'number of a socket'),
    'memory': ('16 gb', '16 apples', 13, 'nodes[1].memory', 'unit'),
    'pages': ('2M:', '3M:', 14, 'nodes[1].huge_pages.3M', 'size of huge'),
    'small pages': ('2M:', '4k:', 14, 'nodes[1].huge_pages.4k',
                    'size of huge'),
    'pages twice': ('2M:', '1024M:', 14, 'nodes[1].huge_pages.1024M',
                    'second time'),
    'pages beyond memory': ('1GiB: 8', '1GiB: 15', 14,
                            'nodes[1].huge_pages', '17408 MiB'),
    'CPU list': ('2-3,6-7', '2-3;6-7', 8, 'nodes[0].cpus', "'2-3;6-7'"),
    'CPU in two nodes': ('2-3,6-7', '2-3,5-6', 8, 'nodes[0].cpus',
                         'CPU 5 is in both node 0 and node 1'),
    'CPU in two cores': ('0,4 1,5', '0,4 1,4', 12, 'nodes[1].cores',
                         'CPU 4 is in two cores'),
    'odd CPUs': ('2-3,6-7', '2-3,6', 8, 'nodes[0].cpus', '3 CPUs do not'),
    'cpus and cores': ('    cores:', '    cpus: 9\n    cores:', 11,
                       'nodes[1]', 'either cpus or cores'),
    'neither': ("    cores: '0,4 1,5'\n", '', 11, 'nodes[1]',
                'either cpus or cores'),
    'node twice': ('- id: 1', '- id: 0', 11, 'nodes[1].id', 'two nodes 0'),
    'distances': ('[21, 10]', '[21, 10, 21]', 10, 'nodes[0].distances',
                  '3 distances for 2 nodes'),
    'l3 unknown': ('[0-1, 4-5]', '[0-1, 4-5, 8-9]', 15,
                   'nodes[1].l3_domains[2]', 'CPUs 8-9 are not in any node'),
    'l3 elsewhere': ('[0-1, 4-5]', '[2-3, 4-5]', 15,
                     'nodes[1].l3_domains[0]', 'none of these CPUs'),
    'l3 twice': ('[0-1, 4-5]', '[0-1, 1-5]', 15, 'nodes[1].l3_domains[1]',
                 'CPU 1 is in two'),
    'l3 size': ('threads_per_core: 2', 'threads_per_core: 2, cores_per_l3: 3',
                6, 'nodes[0]', '2 cores cannot'),
    'address': ("'0000:3B:00.0'", '3B', 18, 'pci_devices[0].address',
                'PCI address'),
    'address twice': ('3b:00.1', '3B:00.0', 19, 'pci_devices[1].address',
                      'two devices'),
    'PCI id': ("product_id: '0953'", 'product_id: 953', 18,
               'pci_devices[0].product_id', 'in quotes'),
    'dedicated': ('1-3,5-7', '1-3,5-9', 21, 'nova.dedicated_cpus',
                  'CPUs 8-9 are not on this host'),
    'no CPU': ('shared_cpus: 4', "shared_cpus: ''", 22, 'nova.shared_cpus',
               'no CPU in it'),
    'overlap': ('shared_cpus: 4', 'shared_cpus: 4-5', 22, 'nova.shared_cpus',
                'CPU 5 is among the dedicated'),
    'ratio': ('_ratio: 3', '_ratio: 0', 23, 'nova.cpu_allocation_ratio',
              'above 0'),
    'reserved': ('reserved_memory: 512', 'reserved_memory: 1T', 24,
                 'nova.reserved_memory', '32768 MiB'),
    'reserved node': ('{0: {', '{2: {', 25, 'nova.reserved_huge_pages.2',
                      'no node 2'),
    'reserved pages': ('GiB: 2}', 'GiB: 9}', 25, 'nova.reserved_huge_pages.0',
                       'node 0 has 8'),
    'packs cells': ('packs_cells: false', 'packs_cells: spread', 26,
                    'nova.packs_cells', 'not true or false'),
    'trait': ('CUSTOM_B', 'HW_B', 27, 'traits[0]', 'custom trait'),
}

# The same for HARDWARE.
BAD_HARDWARE = {
    'offline': ('4-5', '3-4', 5, 'offline_cpus', 'CPU 3 is in a node'),
    'die': ("id: 1, cpus: '1,3'", "id: 1, cpus: '1,2'", 8, 'dies[1].cpus',
            'CPU 2 is in two dies'),
    'die without a socket': ('- {socket: 0, id: 1', '- {id: 1', 8, 'dies[1]',
                             'socket is missing'),
    'kind of cache': ('kind: data', 'kind: date', 10, 'caches[0].kind',
                      'did you mean data'),
    'size of cache': ('48KiB', '48 acres', 10, 'caches[0].size', 'acres'),
    'word for domains': ('domains: cores', 'domains: core', 11,
                         'caches[1].domains', 'did you mean cores'),
    'domains': ('[0-3]', '[0-2;]', 12, 'caches[2].domains[0]', "'0-2;'"),
    'unknown domain': ('[0-3]', '[0-9]', 12, 'caches[2].domains[0]',
                       'CPUs 4-9 are not in any node'),
    'core kind': ("efficient, cpus: '1,3'", "efficient, cpus: '1-3'", 15,
                  'core_kinds[1].cpus', 'CPU 2 is in two kinds'),
    'capacity': ('1024', '2000', 14, 'core_kinds[0].capacity', '1 to 1024'),
    'kind of device': ('kind: nic', 'kind: nick', 17, 'pci_devices[0].kind',
                       'did you mean nic'),
    'interrupts': ('9,120-122', '9-', 19, 'pci_devices[0].interrupts',
                   'list of interrupts'),
    'interrupt': ('interrupts: 16', 'interrupts: -1', 22,
                  'pci_devices[1].interrupts', 'list of interrupts'),
    'virtual function': ('0000:3B:00.0', '3B:00.0', 18,
                         'pci_devices[0].physical_function', 'PCI address'),
    'isolated': ('isolated_cpus: 2-3', 'isolated_cpus: 2-8', 26,
                 'system.isolated_cpus', 'CPUs 6-8 are not on this host'),
    'governor': ('powersave: 3', 'powersave: 2-3', 30,
                 'system.governors.powersave', 'CPU 2 is in two governors'),
    'iommu': ('iommu: true', 'iommu: yes', 32, 'system.iommu', 'write true'),
    'unknown': ('  smt:', '  smd:', 28, 'system.smd', 'did you mean smt'),
}


@ddt.ddt
class TestBadInput(oslotest.BaseTestCase):

    @ddt.data(*BAD)
    def test_place_and_message(self, name):
        self._check(GOOD, *BAD[name])

    @ddt.data(*BAD_HARDWARE)
    def test_hardware(self, name):
        self._check(HARDWARE, *BAD_HARDWARE[name])

    def _check(self, good, old, new, line, key, message):
        self.assertEqual(1, good.count(old), 'one place to change')
        error = self.assertRaises(
            errors.InputErrors, read, good.replace(old, new))
        # A CPU that is missing in one place may be so in others.
        found = next(
            (one for one in error.errors if one.where.key == key), error)
        self.assertEqual(
            ('host.yaml', line), (found.where.source, found.where.line),
            error)
        self.assertIn(message, str(found))

    def test_all_errors_are_told(self):
        text = GOOD.replace('2-3,6-7', '2-3;').replace('16 gb', '16 miles')
        error = self.assertRaises(errors.InputErrors, read, text)
        self.assertEqual([8, 13], [one.where.line for one in error.errors])

    def test_caches_made_from_wrong_cores(self):
        error = self.assertRaises(
            errors.InputErrors, read,
            "{version: 1, name: a, cpu: {cores_per_l3: 1}, nodes: "
            "[{id: 0, cores: '0,1 1,2', memory: 1G}]}")
        self.assertEqual(
            ['nodes[0].cores'], [one.where.key for one in error.errors])

    def test_more_cpus_than_there_can_be(self):
        node = "{id: 0, cpus: 0-65535, memory: 1G}"
        cores = "{id: 0, cores: '" + '0-65535 ' * 100 + "', memory: 1G}"
        for nodes in ([node] * 100, [cores]):
            error = self.assertRaises(
                errors.InputErrors, read,
                f'{{version: 1, name: a, nodes: [{", ".join(nodes)}]}}')
            self.assertIn('more than 65536 CPUs', str(error))
            self.assertEqual(1, len(error.errors))

    def test_no_cpus_at_all(self):
        error = self.assertRaises(
            errors.InputErrors, read,
            "{version: 1, name: a, nodes: [{id: 0, cpus: '', memory: 1G}]}")
        self.assertIn('no CPUs', str(error))
