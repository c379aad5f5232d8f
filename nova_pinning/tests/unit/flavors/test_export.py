# SPDX-License-Identifier: Apache-2.0
"""A catalogue of existing flavors becomes the same flavors again."""

import dataclasses
import pathlib

import ddt
import hypothesis
from hypothesis import strategies as st
from oslotest import base as oslotest
import yaml

import nova_pinning
from nova_pinning import errors
from nova_pinning.flavors import catalogue
from nova_pinning.flavors import export
from nova_pinning.flavors import flavor_model
from nova_pinning.flavors import sync
from nova_pinning.tests.unit import unit_base

SHIPPED = (pathlib.Path(nova_pinning.__file__).resolve().parent.parent
           / 'etc' / 'nova-pinning' / 'flavors.yaml')

#: Extra specs with values that there are words for, and others.
SPECS = {
    'hw:cpu_policy': ('dedicated', 'shared', 'mixed', 'odd'),
    'hw:cpu_thread_policy': ('prefer', 'require', 'isolate'),
    'hw:emulator_threads_policy': ('share', 'isolate'),
    'hw:cpu_dedicated_mask': ('2-3', '^0', '^0,^1', ' 1 ', '7'),
    'hw:numa_nodes': ('1', '2', '3', '01', '1000'),
    'hw:numa_cpus.0': ('0-1', '0', '1,0', 'x'),
    'hw:numa_mem.0': ('512', '4096', 'x'),
    'hw:numa_cpus.1': ('2-3', '1-3'),
    'hw:numa_mem.1': ('512', '4096'),
    'hw:mem_page_size': ('large', 'any', '2048', '1048576', '1GB', '0',
                         '4'),
    'hw:locked_memory': ('true', 'True', 'false', 'yes'),
    'hw:cpu_realtime': ('true', 'yes'),
    'hw:cpu_realtime_mask': ('^0', '2-3'),
    'hw:cpu_sockets': ('1', '2', '0'),
    'hw:cpu_cores': ('1', '2', '4'),
    'hw:cpu_threads': ('1', '2'),
    'hw:pci_numa_affinity_policy': ('required', 'odd'),
    'pci_passthrough:alias': ('nvme:1', 'b:2,a:1', 'a:1,a:1', 'x', ''),
    'hw:vif_multiqueue_enabled': ('true', 'false'),
    'quota:cpu_shares': ('100', '010', '-1'),
    'quota:cpu_period': ('100000', '1'),
    'quota:cpu_quota': ('50000', '-1', '0'),
    'quota:disk_total_iops_sec': ('500', '0', '1e3'),
    'quota:disk_total_bytes_sec': ('1048576', '1000', '1'),
    'quota:vif_inbound_average': ('1000', '125', '1', '0'),
    'quota:vif_inbound_burst': ('1', '1024', '0'),
    'trait:CUSTOM_A': ('required', 'forbidden', 'odd'),
    'trait:HW_B': ('required', 'forbidden'),
    'trait:lower': ('required',),
    'pinning:class': ('dedicated',),
    'pinning:family': ('enterprise', 'no family!', ''),
    'pinning:catalogue': ('theirs',),
    'odd key.of:nobody': ('', 'no', '1:30', '010', '1e3', '~', "it's", '"',
                          '# no comment', 'a: b', '- x', 'é\U0001F600',
                          '{family}'),
}

NAMES = ('m1.small', 'm1.large', 'Big One', 'Big-One', 'Big.One', '010',
         'no', 'é', '.', 'a.b.c', '-x', 'y' * 255, "it's: # {odd}",
         'enterprise.large', 'm1.y')


@st.composite
def flavors(draw, name):
    keys = draw(st.sets(st.sampled_from(tuple(SPECS)), max_size=8))
    is_public = draw(st.booleans())
    return flavor_model.Flavor(
        name=name, id=name, vcpus=draw(st.sampled_from((1, 4, 1000))),
        memory_mib=draw(st.sampled_from((1, 1024, 8192, 1500))),
        disk_gib=draw(st.sampled_from((0, 7))),
        ephemeral_gib=draw(st.sampled_from((0, 7))),
        swap_mib=draw(st.sampled_from((0, 1024, 7))),
        rxtx_factor=draw(st.sampled_from((1.0, 0.25, 1e-7, 1e30))),
        is_public=is_public,
        projects=() if is_public else draw(st.sampled_from(
            ((), ('0123',), ('a', 'b')))),
        description=draw(st.sampled_from(
            ('', 'words', 'a: b\n # "c"\n', '{family}', ' ', '\t', '\x85'))),
        extra_specs={key: draw(st.sampled_from(SPECS[key]))
                     for key in sorted(keys)})


def plain(name='m1.small', **fields):
    return flavor_model.Flavor(**{'name': name, 'id': '1', 'vcpus': 2,
                                  'memory_mib': 4096, **fields})


@ddt.ddt
class TestExport(oslotest.BaseTestCase):

    def export(self, *flavors, name=None):
        return yaml.safe_load(export.catalogue_text(flavors, name))

    def test_a_plain_flavor(self):
        self.assertEqual(
            {'version': 2, 'name': 'exported', 'families': {
                'm1': {'sizes': {'small': {'vcpus': 2, 'memory': '4GiB'}}}}},
            self.export(plain()))

    def test_words(self):
        specs = {
            'hw:cpu_policy': 'dedicated', 'hw:cpu_thread_policy': 'require',
            'hw:cpu_sockets': '1', 'hw:cpu_cores': '1',
            'hw:cpu_threads': '2', 'hw:mem_page_size': '2048',
            'hw:numa_nodes': '1', 'pci_passthrough:alias': 'nvme:1',
            'hw:pci_numa_affinity_policy': 'required',
            'quota:cpu_period': '100000', 'quota:cpu_quota': '50000',
            'quota:disk_read_bytes_sec': '3145728',
            'quota:vif_outbound_average': '125000',
            'trait:CUSTOM_A': 'required', 'trait:CUSTOM_B': 'forbidden',
            'other:key': '1'}
        found = self.export(plain(
            disk_gib=20, swap_mib=512, extra_specs=specs, is_public=False,
            projects=('p',)))
        family = found['families']['m1']
        [size] = family.pop('sizes').values()
        self.assertEqual({
            'class': 'dedicated', 'vcpus': 2, 'memory': '4GiB',
            'disk': '20GiB', 'swap': '512MiB', 'access': {'projects': ['p']},
            'thread_policy': 'require', 'page_size': '2MiB', 'numa_nodes': 1,
            'pci_devices': {'nvme': 1, 'affinity': 'required'},
            'cpu_topology': 'match-host',
            'cpu_cap': {'percent': 50},
            'throttles': {'disk_read_bandwidth': '3MiB',
                          'network_out': '1000Mbit'},
            'traits': {'required': ['CUSTOM_A'], 'forbidden': ['CUSTOM_B']},
            'extra_specs': {'other:key': '1'}}, {**family, **size})

    def test_no_topology_that_was_not_there(self):
        found = self.export(plain(extra_specs={
            'hw:cpu_policy': 'dedicated', 'hw:cpu_thread_policy': 'require'}))
        self.assertNotIn('cpu_topology', found['families']['m1'])

    def test_a_wrong_word_does_not_take_the_others_with_it(self):
        found = self.export(plain(extra_specs={
            'hw:cpu_dedicated_mask': 'odd', 'hw:mem_page_size': 'large'}))
        family = found['families']['m1']
        self.assertEqual('large', family['page_size'])
        self.assertEqual({'hw:cpu_dedicated_mask': 'odd'},
                         family['extra_specs'])

    def test_a_family_says_what_its_sizes_share(self):
        specs = {'hw:mem_page_size': 'large', 'a:b': '1'}
        found = self.export(
            plain('m1.small', extra_specs={**specs, 'c:d': '1'}),
            plain('m1.large', extra_specs={**specs, 'c:d': '2'}, vcpus=4))
        expected = {
            'page_size': 'large', 'extra_specs': {'a:b': '1'}, 'sizes': {
                'small': {'vcpus': 2, 'memory': '4GiB',
                          'extra_specs': {'c:d': '1'}},
                'large': {'vcpus': 4, 'memory': '4GiB',
                          'extra_specs': {'c:d': '2'}}}}
        self.assertEqual(expected, found['families']['m1'])

    def test_a_class_only_some_have(self):
        found = self.export(
            plain('m1.small', extra_specs={'hw:cpu_policy': 'dedicated'}),
            plain('m1.large'))
        self.assertNotIn('class', found['families']['m1'])

    @ddt.data('no', 'y', 'true', 'null', '~', '', '1:30', '010', '1e3',
              '0o17', '0x1f', '1_000', '.5', '2026-01-01', '<<', '=', '*a',
              '&a', '!a', '{a}', '[a]', 'a: b', 'a #b', '- a', '%', '@',
              '"', "'", "it's", ' a ', 'a\n', '\t', '\u2028', '\xe9')
    def test_odd_values(self, value):
        text = export.catalogue_text([plain(
            extra_specs={'a:b': value}, description=value)])
        [again] = catalogue.parse(text, 'again').flavors
        self.assertEqual(value, again.extra_specs['a:b'])
        self.assertEqual(value, again.description)

    @ddt.data(('theirs', ('theirs', 'theirs')),
              ('exported', ('theirs', 'others')), ('exported', ('a b',)))
    @ddt.unpack
    def test_name(self, expected, catalogues):
        found = self.export(*(
            plain(f'm{number}', extra_specs={'pinning:catalogue': name})
            for number, name in enumerate(catalogues)))
        self.assertEqual(expected, found['name'])

    def test_given_name(self):
        self.assertEqual('mine', self.export(plain(), name='mine')['name'])
        error = self.assertRaises(errors.InputError, self.export, plain(),
                                  name='not/mine')
        self.assertIn('--name', str(error))

    def test_nothing(self):
        self.assertRaises(errors.InputError, self.export)

    def test_shipped_catalogue(self):
        for one in self.shipped():
            text = export.catalogue_text([one])
            self.assertEqual((one,), catalogue.parse(text, 'again').flavors)
        text = export.catalogue_text(self.shipped())
        self.assertEqual(self.shipped(),
                         catalogue.parse(text, 'again').flavors)

    def shipped(self):
        if not SHIPPED.is_file():
            self.skipTest('not run from a checkout')
        return catalogue.load(SHIPPED).flavors

    @hypothesis.given(st.data())
    @unit_base.settings(100)
    def test_again(self, data):
        live = [data.draw(flavors(name)) for name in data.draw(
            st.lists(st.sampled_from(NAMES), min_size=1, max_size=4,
                     unique=True))]

        text = export.catalogue_text(live)

        again = catalogue.parse(text, 'again')
        unowned = [dataclasses.replace(one, extra_specs={
            key: value for key, value in one.extra_specs.items()
            if key != 'pinning:catalogue'}) for one in live]
        changes = sync.plan(again.flavors, unowned, again.name, adopts=True)
        self.assertEqual(len(live), len(changes))
        for change in changes:
            # What is half-created is known by its id, and none of these is.
            self.assertEqual('adopt', change.action)
            self.assertLessEqual(
                {difference.key for difference in change.differences},
                {'pinning:catalogue', 'pinning:family'})
