# SPDX-License-Identifier: Apache-2.0
import os
import string
import time

import hypothesis
from hypothesis import strategies
from oslotest import base as oslotest
import yaml

import nova_pinning
from nova_pinning import errors
from nova_pinning.flavors import catalogue
from nova_pinning.flavors import flavor_model
from nova_pinning.tests.unit import unit_base

#: The catalogue that comes with the project.
SHIPPED = os.path.join(
    os.path.dirname(os.path.dirname(nova_pinning.__file__)), 'etc',
    'nova-pinning', 'flavors.yaml')

_OWN = (flavor_model.CATALOGUE_KEY, flavor_model.FAMILY_KEY)


def catalogue_text(family='', vcpus=8, memory='16GiB', top=''):
    """A catalogue of one flavor, its family in line 5, more in line 7."""
    return (f'version: 2\nname: c\n{top}\nfamilies:\n  f:\n'
            f'    sizes: {{s: {{vcpus: {vcpus}, memory: {memory}}}}}\n'
            + ''.join(f'    {line}\n' for line in family.split('\n')))


def _flavor(family='', **size):
    found = catalogue.parse(catalogue_text(family, **size), 'f').flavors
    assert len(found) == 1
    return found[0]


def _specs(family='', **size):
    """Extra specs but for the two that all flavors have."""
    specs = dict(_flavor(family, **size).extra_specs)
    for key in _OWN:
        del specs[key]
    return specs


def _cells(specs):
    """What nova would make of the NUMA keys: (vCPUs, MiB) of each cell."""
    return [(specs[f'hw:numa_cpus.{number}'], specs[f'hw:numa_mem.{number}'])
            for number in range(int(specs['hw:numa_nodes']))]


class TestFlavors(oslotest.BaseTestCase):

    def test_odd_memory_is_divided_to_the_last_mib(self):
        cells = _cells(_specs('numa_nodes: 3', vcpus=6, memory='3073MiB'))
        self.assertEqual(['1025', '1024', '1024'],
                         [memory for _vcpus, memory in cells])

    def test_least(self):
        flavor = _flavor()
        self.assertEqual(
            flavor_model.Flavor(
                name='f.s', id=flavor.id, vcpus=8, memory_mib=16384,
                extra_specs={'pinning:catalogue': 'c',
                             'pinning:family': 'f'}), flavor)

    def test_properties(self):
        flavor = _flavor('description: "{text}"\ndisk: 10GiB\n'
                         'ephemeral: 20GiB\n'
                         'swap: 512MiB\nrxtx_factor: 2\n'
                         'access: {projects: [b, a]}\nflavor_name: x{vcpus}')
        self.assertEqual(
            ('x8', '{text}', 10, 20, 512, 2.0, False, ('a', 'b')),
            (flavor.name, flavor.description, flavor.disk_gib,
             flavor.ephemeral_gib, flavor.swap_mib, flavor.rxtx_factor,
             flavor.is_public, flavor.projects))

    def test_sizes(self):
        found = catalogue.parse('''
version: 2
name: c
flavor_name: '{family}-{size}'
sizes:
  few:
    s: {vcpus: 1, memory: 512MiB, disk: 5GiB}
    m: {vcpus: 2, memory: 1.5GiB, name: Big One}
  rule: {vcpus: [2, 4], memory_per_vcpu: 2GiB}
families:
  a: {sizes: few, disk: 1GiB}
  b: {sizes: rule}
  c:
    sizes: {vcpus: [8], memory_per_vcpu: 1GiB,
            size_name: '{vcpus}x{memory_gib}'}
    flavor_name: '{size}'
''', 'f').flavors
        self.assertEqual(
            [('a-s', 1, 512, 5), ('Big One', 2, 1536, 1),
             ('b-2', 2, 4096, 0), ('b-4', 4, 8192, 0), ('8x8', 8, 8192, 0)],
            [(one.name, one.vcpus, one.memory_mib, one.disk_gib)
             for one in found])
        # A series says nothing of the family that it is for.
        self.assertEqual(
            ['families.a', 'families.a', 'families.b', 'families.b',
             'families.c.sizes.vcpus[0]'], [one.where.key for one in found])

    def test_a_size_changes_its_family(self):
        text = '''
version: 2
name: c
families:
  f:
    sizes:
      s: {vcpus: 2, memory: 2GiB, page_size: small, class: shared,
          pci_devices: {gpu: 1}, extra_specs: {'a:b': 2},
          throttles: {disk_iops: 7}}
'''.replace(' class: shared,\n', '\n') + '''\
    page_size: large
    nic_multiqueue: true
    pci_devices: {nvme: 1, affinity: required}
    extra_specs: {'a:b': 1, 'a:c': true}
    throttles: {disk_iops: 5, disk_read_iops: 6}
'''
        specs = dict(catalogue.parse(text, 'f').flavors[0].extra_specs)
        self.assertEqual({
            'pinning:catalogue': 'c', 'pinning:family': 'f',
            'hw:mem_page_size': 'small', 'hw:vif_multiqueue_enabled': 'true',
            'pci_passthrough:alias': 'nvme:1,gpu:1',
            'hw:pci_numa_affinity_policy': 'required', 'a:b': '2',
            'a:c': 'true', 'quota:disk_total_iops_sec': '7',
            'quota:disk_read_iops_sec': '6'}, specs)

    def test_anchors(self):
        text = '''
version: 2
name: c
families:
  a: &a
    sizes: {s: {vcpus: 2, memory: 2GiB}}
    thread_policy: prefer
  b:
    <<: *a
    class: dedicated
'''
        flavor = catalogue.parse(text, 'f').flavors[1]
        self.assertEqual('prefer', flavor.extra_specs['hw:cpu_thread_policy'])
        self.assertEqual('f:7:5: families.b.thread_policy',
                         str(flavor.origin('hw:cpu_thread_policy')))

    def test_origins(self):
        flavor = _flavor('class: dedicated\nthread_policy: require\n'
                         'throttles: {disk_iops: 5}\n'
                         'traits:\n  required: [B, A]\n'
                         'numa_nodes:\n- {vcpus: 0-3, memory: 8GiB}\n'
                         '- {vcpus: 4-7, memory: 8GiB}')
        for key, place in (
                ('pinning:catalogue', 'f:2:1: name'),
                ('pinning:family', 'f:5:3: families.f'),
                ('vcpus', 'f:6:17: families.f.sizes.s.vcpus'),
                ('ram', 'f:6:27: families.f.sizes.s.memory'),
                ('name', 'f:6:13: families.f.sizes.s'),
                ('disk', 'f:6:13: families.f.sizes.s'),
                ('hw:cpu_policy', 'f:7:5: families.f.class'),
                ('hw:cpu_thread_policy', 'f:8:5: families.f.thread_policy'),
                ('quota:disk_total_iops_sec',
                 'f:9:17: families.f.throttles.disk_iops'),
                ('trait:A', 'f:11:21: families.f.traits.required[1]'),
                ('hw:numa_nodes', 'f:12:5: families.f.numa_nodes'),
                ('hw:numa_mem.1', 'f:14:7: families.f.numa_nodes[1]'),
                ('no such key', 'f:6:13: families.f.sizes.s')):
            self.assertEqual(place, str(flavor.origin(key)), key)

    def test_every_extra_spec_has_an_origin(self):
        for flavor in catalogue.load(SHIPPED).flavors:
            self.assertEqual(set(),
                             set(flavor.extra_specs) - set(flavor.origins))

    def test_same_ids_everywhere(self):
        text = catalogue_text()
        first = catalogue.parse(text, 'a').flavors
        self.assertEqual(first, catalogue.parse(text, 'b').flavors)
        self.assertNotEqual(first[0].id, catalogue.parse(
            text.replace('vcpus: 8', 'vcpus: 4'), 'a').flavors[0].id)


class TestTranslation(oslotest.BaseTestCase):

    def test_words(self):
        for family, specs in (
                ('class: shared', {'hw:cpu_policy': 'shared'}),
                ('class: dedicated', {'hw:cpu_policy': 'dedicated'}),
                ('class: mixed\ndedicated_vcpus: ^0-1',
                 {'hw:cpu_policy': 'mixed', 'hw:cpu_dedicated_mask': '^0-1'}),
                ('dedicated_vcpus: {count: {per_vcpu: 0.5}}',
                 {'hw:cpu_dedicated_mask': '4-7'}),
                ('dedicated_vcpus: {count: 1}',
                 {'hw:cpu_dedicated_mask': '7'}),
                ('thread_policy: isolate',
                 {'hw:cpu_thread_policy': 'isolate'}),
                ('emulator_threads: share',
                 {'hw:emulator_threads_policy': 'share'}),
                ('page_size: large', {'hw:mem_page_size': 'large'}),
                ('page_size: 1GiB', {'hw:mem_page_size': '1048576'}),
                ('page_size: 2MiB', {'hw:mem_page_size': '2048'}),
                ('locked_memory: true', {'hw:locked_memory': 'true'}),
                ('locked_memory: false', {'hw:locked_memory': 'false'}),
                ('realtime: true', {'hw:cpu_realtime': 'true'}),
                ("realtime: {vcpus: '^0, ^3-4'}",
                 {'hw:cpu_realtime': 'true',
                  'hw:cpu_realtime_mask': '^0,^3-4'}),
                ('cpu_topology: {cores: 4, threads: 2}',
                 {'hw:cpu_cores': '4', 'hw:cpu_threads': '2'}),
                ('cpu_topology: {sockets: 1, cores: 4, threads: 2}',
                 {'hw:cpu_sockets': '1', 'hw:cpu_cores': '4',
                  'hw:cpu_threads': '2'}),
                ('cpu_topology: match-host',
                 {'hw:cpu_sockets': '1', 'hw:cpu_cores': '8',
                  'hw:cpu_threads': '1'}),
                ('class: dedicated\nthread_policy: require\n'
                 'cpu_topology: match-host',
                 {'hw:cpu_policy': 'dedicated',
                  'hw:cpu_thread_policy': 'require', 'hw:cpu_sockets': '1',
                  'hw:cpu_cores': '4', 'hw:cpu_threads': '2'}),
                ('class: dedicated\nthread_policy: require',
                 {'hw:cpu_policy': 'dedicated',
                  'hw:cpu_thread_policy': 'require'}),
                ('pci_devices: {gpu: 2, nvme: {per_vcpu: 0.25}, '
                 'affinity: socket}',
                 {'pci_passthrough:alias': 'gpu:2,nvme:2',
                  'hw:pci_numa_affinity_policy': 'socket'}),
                ('nic_multiqueue: true',
                 {'hw:vif_multiqueue_enabled': 'true'}),
                ('cpu_priority: {per_vcpu: 100}', {'quota:cpu_shares': '800'}),
                ('cpu_priority: 5', {'quota:cpu_shares': '5'}),
                ('cpu_cap: {percent: 12.5}',
                 {'quota:cpu_period': '100000', 'quota:cpu_quota': '12500'}),
                # As little as nova takes.
                ('cpu_cap: {percent: 1}',
                 {'quota:cpu_period': '100000', 'quota:cpu_quota': '1000'}),
                ('cpu_cap: {percent: 50, period_us: 20000}',
                 {'quota:cpu_period': '20000', 'quota:cpu_quota': '10000'}),
                ('traits: {required: [HW_CPU_X86_AVX2], forbidden: '
                 '[CUSTOM_A]}',
                 {'trait:HW_CPU_X86_AVX2': 'required',
                  'trait:CUSTOM_A': 'forbidden'}),
                ("extra_specs: {'hw:pmu': false, 'x': 010, 'y': 7}",
                 {'hw:pmu': 'false', 'x': '010', 'y': '7'})):
            self.assertEqual(specs, _specs(family), family)

    def test_throttles(self):
        for throttle, key, value in (
                ('disk_iops: {per_vcpu: 500, max: 20000}',
                 'disk_total_iops_sec', 4000),
                ('disk_write_iops: {per_vcpu: 0.3}', 'disk_write_iops_sec', 2),
                ('disk_bandwidth: {per_vcpu: 50MiB}', 'disk_total_bytes_sec',
                 400 << 20),
                ('disk_read_bandwidth: 1GiB', 'disk_read_bytes_sec',
                 1 << 30),
                ('disk_write_bandwidth: 7B', 'disk_write_bytes_sec', 7),
                ('network_in: 1Gbit', 'vif_inbound_average', 125_000),
                ('network_in_peak: 2Gbit', 'vif_inbound_peak', 250_000),
                ('network_in_burst: 1MiB', 'vif_inbound_burst', 1024),
                ('network_out: 8kbit', 'vif_outbound_average', 1),
                ('network_out_peak: {per_vcpu: 10Mbit}', 'vif_outbound_peak',
                 10_000),
                ('network_out_burst: 2MiB', 'vif_outbound_burst', 2048)):
            self.assertEqual(
                {f'quota:{key}': str(value)},
                _specs(f'throttles: {{{throttle}}}'))


class TestCells(oslotest.BaseTestCase):

    def test_left_to_nova(self):
        for nodes in (1, 2, 4, 8):
            self.assertEqual({'hw:numa_nodes': str(nodes)},
                             _specs(f'numa_nodes: {nodes}'))

    def test_written_out(self):
        specs = _specs("numa_nodes: [{vcpus: '0-1,7', memory: 4GiB}, "
                       "{vcpus: 2-6, memory: 12GiB}]")
        self.assertEqual([('0-1,7', '4096'), ('2-6', '12288')],
                         _cells(specs))

    def test_not_even(self):
        for family, vcpus, memory, expected in (
                ('numa_nodes: 2', 5, '8GiB',
                 [('0-2', '4096'), ('3-4', '4096')]),
                ('numa_nodes: 2', 4, '3GiB', None),
                ('numa_nodes: 2', 4, '1025MiB',
                 [('0-1', '513'), ('2-3', '512')]),
                # Whole GiB where it cannot be even anyway.
                ('numa_nodes: 3', 6, '8GiB',
                 [('0-1', '3072'), ('2-3', '3072'), ('4-5', '2048')]),
                # Siblings stay together.
                ('numa_nodes: 2\nthread_policy: require', 6, '8GiB',
                 [('0-3', '4096'), ('4-5', '4096')]),
                # A page does not lie in two cells.
                ('numa_nodes: 2\npage_size: 1GiB', 4, '3GiB',
                 [('0-1', '2048'), ('2-3', '1024')])):
            specs = _specs(family, vcpus=vcpus, memory=memory)
            if expected is None:
                self.assertEqual({'hw:numa_nodes': '2'}, specs)
            else:
                self.assertEqual(expected, _cells(specs), family)

    def test_topology(self):
        for nodes, vcpus, expected in (
                (1, 8, (1, 4, 2)), (2, 8, (2, 2, 2)), (4, 8, (4, 1, 2)),
                (8, 8, (8, 1, 1)), (1, 7, (1, 7, 1)), (2, 7, (1, 7, 1)),
                (2, 6, (1, 3, 2)), (4, 6, (1, 6, 1))):
            specs = _specs('class: dedicated\nthread_policy: require\n'
                           'cpu_topology: match-host\n'
                           f'numa_nodes: {nodes}', vcpus=vcpus)
            self.assertEqual(
                expected, tuple(int(specs[f'hw:cpu_{part}']) for part in (
                    'sockets', 'cores', 'threads')), (nodes, vcpus))

    @unit_base.settings(200)
    @hypothesis.given(
        strategies.integers(1, 200), strategies.integers(1, 1000),
        strategies.integers(2, 64), strategies.integers(1, 500),
        strategies.booleans(), strategies.sampled_from(
            [None, 'large', '1GiB', '2MiB']))
    def test_fewest(self, vcpus, memory_gib, room, room_gib, is_require,
                    page_size):
        family = 'numa_nodes: fewest' + (
            '\nthread_policy: require' if is_require else '') + (
            f'\npage_size: {page_size}' if page_size else '')
        try:
            specs = _specs(
                family, vcpus=vcpus, memory=f'{memory_gib}GiB',
                top=f'numa_cell: {{vcpus: {room}, memory: {room_gib}GiB}}')
        except errors.InputError as error:
            self.assertIn('do not go on', str(error))
            nodes = max(-(-vcpus // room), -(-memory_gib // room_gib))
            self.assertGreater(nodes, min(
                vcpus, memory_gib if page_size == '1GiB' else vcpus))
            return
        nodes = int(specs['hw:numa_nodes'])
        if 'hw:numa_mem.0' in specs:
            mibs = [int(mib) for _cpus, mib in _cells(specs)]
            counts = [one.count(',') + 1 if '-' not in one else
                      int(one.split('-')[1]) - int(one.split('-')[0]) + 1
                      for one, _mib in _cells(specs)]
        else:
            mibs = [memory_gib * 1024 // nodes] * nodes
            counts = [vcpus // nodes] * nodes
        self.assertEqual((vcpus, memory_gib * 1024), (sum(counts), sum(mibs)))
        self.assertLessEqual(max(counts), room)
        self.assertLessEqual(max(mibs), room_gib * 1024)
        self.assertEqual(max(-(-vcpus // room), -(-memory_gib // room_gib)),
                         nodes)
        if page_size == '1GiB':
            self.assertEqual([0] * nodes, [mib % 1024 for mib in mibs])


_NAMES = strategies.text(string.ascii_letters + string.digits, min_size=1,
                         max_size=8)
_SETTINGS = strategies.fixed_dictionaries({}, optional={
    'class': strategies.sampled_from(['dedicated', 'shared']),
    'thread_policy': strategies.sampled_from(['prefer', 'require',
                                              'isolate']),
    'emulator_threads': strategies.sampled_from(['share', 'isolate']),
    'page_size': strategies.sampled_from(['large', 'small', '2MiB']),
    'numa_nodes': strategies.integers(1, 4),
    'disk': strategies.integers(0, 100).map('{}GiB'.format),
    'cpu_priority': strategies.integers(2, 10000),
    'description': strategies.text(string.printable[:95], max_size=20),
    'throttles': strategies.dictionaries(
        strategies.sampled_from(['disk_iops', 'disk_read_iops']),
        strategies.integers(0, 10 ** 6)),
})


class TestAnyCatalogue(oslotest.BaseTestCase):

    @unit_base.settings(100)
    @hypothesis.given(strategies.dictionaries(
        _NAMES, strategies.tuples(_SETTINGS, strategies.dictionaries(
            _NAMES, strategies.tuples(strategies.integers(4, 64),
                                      strategies.integers(8, 10 ** 6)),
            min_size=1, max_size=3)), min_size=1, max_size=3))
    def test_flavors(self, families):
        text = yaml.safe_dump({'version': 2, 'name': 'c', 'families': {
            name: {**settings, 'sizes': {
                size: {'vcpus': vcpus, 'memory': f'{memory}MiB'}
                for size, (vcpus, memory) in sizes.items()}}
            for name, (settings, sizes) in families.items()}},
            sort_keys=False)
        found = catalogue.parse(text, 'f')
        self.assertEqual(
            [(f'{family}.{size}', *shape)
             for family, (_settings, sizes) in families.items()
             for size, shape in sizes.items()],
            [(flavor.name, flavor.vcpus, flavor.memory_mib)
             for flavor in found.flavors])
        for flavor in found.flavors:
            settings = families[flavor.extra_specs['pinning:family']][0]
            self.assertEqual(settings.get('class'),
                             flavor.extra_specs.get('hw:cpu_policy'))
            self.assertEqual(settings.get('disk', '0GiB'),
                             f'{flavor.disk_gib}GiB')
            self.assertEqual(settings.get('description', ''),
                             flavor.description)
            self.assertTrue(all(isinstance(value, str) for value
                                in flavor.extra_specs.values()))


class TestLarge(oslotest.BaseTestCase):

    def _time(self, text, expected):
        start = time.process_time()
        error = self.assertRaises(errors.InputError, catalogue.parse, text,
                                  'f')
        # A couple of seconds; what this is about would take minutes.
        self.assertLess(time.process_time() - start, 30)
        self.assertIn(expected, str(error))

    def test_sizes(self):
        head = 'version: 2\nname: c\nfamilies:\n  f:\n    sizes:\n'
        size = '      s{}: {{vcpus: 2, memory: 8GiB}}\n'.format
        self._time(head + ''.join(map(size, range(100_000))),
                   'more than 100,000 values up to here')
        self._time(head + ''.join(map(size, range(10_001))),
                   'f:6:7: families.f.sizes: up to here it makes 10,001 '
                   'flavors; more than 10,000 are refused')

    def test_families(self):
        text = ('version: 2\nname: c\nsizes:\n  many:\n    memory_per_vcpu: '
                f'1M\n    vcpus: {list(range(1, 5001))}\nfamilies:\n'
                '  a: {sizes: many}\n  b: {sizes: many}\n')
        self.assertEqual(10_000, len(catalogue.parse(text, 'f').flavors))
        self._time(text + '  c: {sizes: many}\n',
                   'f:10:14: families.c.sizes: up to here it makes 15,000')

    def test_series_that_nobody_uses(self):
        self._time('version: 2\nname: c\nsizes:\n  many: {memory_per_vcpu: 1M,'
                   f' vcpus: {list(range(10_001))}}}\nfamilies: {{}}\n',
                   'sizes.many: 10,001 sizes; more than 10,000 are refused')
