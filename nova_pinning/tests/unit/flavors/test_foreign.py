# SPDX-License-Identifier: Apache-2.0
"""Flavors in the files of other tools."""

import json
import textwrap

import ddt
import hypothesis
from hypothesis import strategies as st

from nova_pinning.document import source
from nova_pinning import errors
from nova_pinning.flavors import catalogue
from nova_pinning.flavors import flavor_model
from nova_pinning.flavors import foreign
from nova_pinning.tests.unit.cli import cli_case
from nova_pinning.tests.unit import unit_base

SPECS = {'hw:cpu_policy': 'dedicated'}
FLAVOR = flavor_model.Flavor(name='f', vcpus=4, memory_mib=8192, disk_gib=20,
                             is_public=False, extra_specs=SPECS)
PROPERTIES = {'name': 'f', 'vcpus': 4, 'ram': 8192, 'disk': 20,
              'is_public': False, 'extra_specs': SPECS}
TERRAFORM = {'name': 'f', 'vcpus': 4, 'ram': 8192, 'disk': 20,
             'is_public': False, 'extra_specs': SPECS, 'rx_tx_factor': 1,
             'flavor_id': None, 'region': None}
RESOURCE = {'type': 'openstack_compute_flavor_v2', 'values': TERRAFORM}
API = {'id': '', 'name': 'f', 'vcpus': 4, 'ram': 8192, 'disk': 20,
       'OS-FLV-EXT-DATA:ephemeral': 0, 'swap': '', 'rxtx_factor': 1.0,
       'os-flavor-access:is_public': False, 'links': [],
       'OS-FLV-DISABLED:disabled': False, 'description': None,
       'extra_specs': SPECS}
LISTED = {'ID': '', 'Name': 'f', 'RAM': 8192, 'Disk': 20, 'Ephemeral': 0,
          'VCPUs': 4, 'Is Public': False, 'Swap': '', 'RXTX Factor': 1.0,
          'Properties': SPECS, 'Description': None}
TASK = {'openstack.cloud.compute_flavor': PROPERTIES}


#: What makes files what they are.
WORDS = ('name', 'vcpus', 'ram', 'extra_specs', 'ID', 'RAM', 'flavors',
         'reference', 'mandatory', 'resources', 'type', 'properties',
         'values', 'instances', 'attributes', 'resource', 'hw:a', 'field',
         'default', foreign.TERRAFORM_TYPE, *foreign.ANSIBLE_MODULES)


def without(values, *keys):
    return {key: value for key, value in values.items() if key not in keys}


class TestCase(cli_case.TestCase):

    def load(self, text, suffix='.yaml'):
        path = self.dir / f'flavors{suffix}'
        path.write_text(textwrap.dedent(text))
        return catalogue.load(path)

    def assert_refused(self, said, text, suffix='.yaml'):
        error = self.assertRaises(errors.InputError, self.load, text, suffix)
        self.assertIn(said, str(error))


@ddt.ddt
class TestKinds(TestCase):

    @ddt.data(
        PROPERTIES, [PROPERTIES], {'flavors': [PROPERTIES]},
        # The command line, old and new.
        [LISTED], [LISTED | {'Properties': "hw:cpu_policy='dedicated'"}],
        without(API, 'links', 'extra_specs') | {
            'properties': SPECS, 'access_project_ids': None},
        # The API.
        {'flavors': [API]}, {'flavor': API},
        {'reference': [{'field': 'public', 'default': False},
                       {'field': 'name', 'mandatory_prefix': 'SCS-'}],
         'mandatory': [{'name': 'f', 'cpus': 4, 'ram': 8192, 'disk': 20,
                        **SPECS}]},
        {'resources': {'any': {'type': 'OS::Nova::Flavor',
                               'properties': PROPERTIES}}},
        # A plan, which also says what was there before.
        {'planned_values': {'root_module': {'child_modules': [
            {'resources': [RESOURCE]}]}},
         'prior_state': {'values': {'root_module': {
             'resources': [RESOURCE]}}}},
        {'values': {'root_module': {'resources': [RESOURCE]}}},
        {'version': 4, 'terraform_version': '1.9', 'resources': [
            without(RESOURCE, 'values') | {'instances': [
                {'attributes': TERRAFORM}]}]},
        {'resource': {'openstack_compute_flavor_v2': {'any': TERRAFORM}}},
        {'resource': [{'openstack_compute_flavor_v2': [
            {'any': [TERRAFORM]}]}]},
        [TASK], [{'hosts': 'localhost', 'tasks': [
            {'block': [TASK]}, {'os_nova_flavor': {
                'name': 'gone', 'state': 'absent'}}]}])
    def test_kind(self, value):
        found = self.load(json.dumps(value))
        self.assertEqual(('', (FLAVOR,)), (found.name, found.flavors))

    def test_where_things_are(self):
        flavor, = self.load("""\
            - name: f
              vcpus: 4
              ram: 8192
              extra_specs:
                hw:cpu_policy: dedicated
            """).flavors
        self.assertEqual([1, 2, 3, 5], [flavor.where.line, *(
            flavor.origin(key).line
            for key in ('vcpus', 'ram', 'hw:cpu_policy'))])

    def test_no_catalogue(self):
        """A command that has to know whose flavors they are does not take it.
        """
        path = self.dir / 'flavors.json'
        path.write_text(json.dumps([PROPERTIES]))
        error = self.assertRaises(errors.InputError, catalogue.load_own, path)
        self.assertIn('nova-pinning flavor show', str(error))


@ddt.ddt
class TestRefused(TestCase):

    @ddt.data(
        # Without --long there are none in the list, whatever the flavor has.
        ([without(LISTED, 'Properties')], 'has no extra specs, which is not'),
        ({'flavors': [without(API, 'extra_specs')]}, 'has no extra specs'),
        ([PROPERTIES, PROPERTIES], 'a second flavor is called f'),
        ([without(PROPERTIES, 'ram')], 'ram is missing'),
        ([PROPERTIES | {'vcpus': 0}], 'vcpus must be at least 1'),
        ([PROPERTIES | {'vcpus': '4x'}], "'4x' is no whole number"),
        ([PROPERTIES | {'ram': -1}], "'-1' is no whole number"),
        ([PROPERTIES | {'swop': 1}], 'swop is no property'),
        ([PROPERTIES | {'is_public': 'maybe'}], 'neither true nor false'),
        ([PROPERTIES | {'extra_specs': 'hw:cpu_policy=dedicated'}],
         'no mapping of extra specs'),
        ([PROPERTIES | {'extra_specs': {'a:b': {}}}], 'has no value'),
        ([PROPERTIES, 'text'], 'no mapping of the properties'),
        ([{'openstack.cloud.compute_flavor': PROPERTIES | {
            'vcpus': '{{ item.vcpus }}'}}], 'not known before the tool runs'),
        ({'resource': {'openstack_compute_flavor_v2': {
            'any': PROPERTIES | {'name': '${local.name}'}}}},
         'not known before the tool runs'),
        ({'resources': {'any': {'type': 'OS::Nova::Flavor', 'properties':
                                PROPERTIES | {'ram': {'get_param': 'ram'}}}}},
         'not known before the tool runs'),
        ([], 'has no flavors in any form'), (1, 'has no flavors in any form'),
        ({'resources': {}}, 'has no flavors in any form'),
        # What is nearly a catalogue is told what it lacks.
        ({'version': 2, 'name': 'x'}, 'families'))
    @ddt.unpack
    def test_file(self, value, said):
        self.assert_refused(said, json.dumps(value))

    @unit_base.settings(400)
    @hypothesis.given(st.recursive(
        st.sampled_from((None, 0, 1, 1.5, True, '', '1', 'f', '{{ x }}',
                         'OS::Nova::Flavor', foreign.TERRAFORM_TYPE)),
        lambda inner: st.lists(inner, max_size=2) | st.dictionaries(
            st.sampled_from(WORDS), inner, max_size=4)))
    def test_anything(self, value):
        """It has flavors, or is refused."""
        try:
            document = source.parse(json.dumps(value), 'file')
            for flavor in foreign.flavors(document):
                self.assertTrue(flavor.name and flavor.vcpus > 0)
        except errors.InputError as error:
            self.assertEqual('file', error.where.source)


@ddt.ddt
class TestTerraform(TestCase):

    def flavor(self, **values):
        lines = '\n'.join(f'{key} = {value}' for key, value in ({
            'name': '"f"', 'vcpus': '4', 'ram': '"8192"', 'disk': '20',
            'is_public': 'false'} | values).items())
        return ('resource "openstack_compute_flavor_v2" "any" {\n'
                f'{lines}\n}}\n')

    @ddt.data(
        '{ "hw:cpu_policy" = "dedicated" }', '{"hw:cpu_policy": "dedicated"}',
        'merge({}, { "hw:cpu_policy" = "shared" }, local.pinned)',
        'local.again', '{ ("hw:${local.what}") = var.policy }')
    def test_extra_specs(self, text):
        found = self.load("""\
            # comment
            locals {
              what = "cpu_policy"
              again = local.pinned
              pinned = {
                "hw:cpu_policy" = var.policy
              }
            }
            variable "policy" { default = "dedicated" }
            data "openstack_compute_flavor_v2" "theirs" { name = "x" }
            resource "openstack_compute_keypair_v2" "key" { name = f(1) }
            """ + self.flavor(extra_specs=text), '.tf')
        self.assertEqual((FLAVOR,), found.flavors)

    @ddt.data('var.unset', 'local.a', 'local.turn', 'f({})', 'a ? b : c',
              '[for x in y : x]', 'merge(1)', 'data.x.y.z', '{ x = each.key }',
              '{ "a:b" = "${module.x}" }', '{ (var.unset) = "b" }')
    def test_what_the_file_does_not_say(self, text):
        self.assert_refused(
            'is not known before the tool runs',
            """\
            locals {
              turn = local.round
              round = local.turn
            }
            """ + self.flavor(extra_specs=text), '.tf')

    def test_values(self):
        found = self.load('variable "b" { default = true }\n' + self.flavor(
            extra_specs='{ "a:b" = 1e3, "c:d" = "${var.b}", "e:f" = 1.5 }'),
            '.tf')
        self.assertEqual({'a:b': '1000', 'c:d': 'true', 'e:f': '1.5'},
                         found.flavors[0].extra_specs)

    @ddt.data('count', 'for_each')
    def test_many_at_once(self, name):
        self.assert_refused('not known before Terraform', self.flavor(
            **{name: '2'}), '.tf')

    @ddt.data('x', 'resource {', '{"a": 1}', 'a = "', '\0')
    def test_another_language(self, text):
        self.assert_refused('flavors.tf', text, '.tf')

    def test_no_flavors(self):
        self.assert_refused('has no flavors in any form', 'locals {}', '.tf')
