# SPDX-License-Identifier: Apache-2.0
"""What is written for another tool is read again as the same flavors."""

import dataclasses

import ddt
import hypothesis
from hypothesis import strategies as st
from oslotest import base

from nova_pinning.document import source
from nova_pinning import errors
from nova_pinning.flavors import convert
from nova_pinning.flavors import foreign
from nova_pinning.flavors import terraform
from nova_pinning.tests.unit.flavors import test_export
from nova_pinning.tests.unit import unit_base

OTHERS = sorted(convert.FORMS)
#: What a form has no word for.
WORDLESS = {
    'list': {'projects'}, 'terraform': {'projects'}, 'ansible': {'projects'},
    'heat': {'description'}, 'scs': {
        'id', 'ephemeral_gib', 'swap_mib', 'rxtx_factor', 'projects',
        'description'}}


def read(text, form):
    parse = terraform.parse if form == 'terraform' else source.parse
    return foreign.flavors(parse(text, 'file'))


def usual(flavor, fields):
    """A flavor without what a form has no word for."""
    plain = test_export.plain(id='')
    return dataclasses.replace(
        flavor, extra_specs={
            key: value for key, value in flavor.extra_specs.items()
            if key not in ('pinning:catalogue', 'pinning:family')},
        **{field: getattr(plain, field) for field in fields})


@ddt.ddt
class TestThereAndBack(base.BaseTestCase):

    @ddt.data(*OTHERS)
    def test_flavors(self, form):
        @unit_base.settings(100)
        @hypothesis.given(st.lists(
            st.sampled_from(test_export.NAMES), min_size=1, max_size=3,
            unique=True).flatmap(
                lambda names: st.tuples(*map(test_export.flavors, names))))
        def check(flavors):
            said = [usual(flavor, WORDLESS[form]) for flavor in flavors]
            self.assertEqual(
                {flavor.name: flavor for flavor in said},
                {flavor.name: flavor for flavor in read(
                    convert.text(said, form), form)})

        check()

    @ddt.data(*OTHERS)
    def test_nothing_is_lost(self, form):
        whole = test_export.plain(
            id='', ephemeral_gib=1, swap_mib=2, rxtx_factor=2.0,
            description='words', is_public=False, projects=('p',))
        for field in WORDLESS[form] - {'id'}:
            flavor = usual(whole, WORDLESS[form] - {field})
            error = self.assertRaises(errors.InputError, convert.text,
                                      [flavor], form)
            self.assertIn(f'm1.small has {field}', str(error))

    @ddt.data('{{ x }}', '{% x %}', '{# x #}')
    def test_what_ansible_would_work_out(self, text):
        flavor = test_export.plain(extra_specs={'a:b': text})
        self.assertIn('template', str(self.assertRaises(
            errors.InputError, convert.text, [flavor], 'ansible')))

    @ddt.data('${x}', '%{x}', '$${x}', '$', '"\\', '\\n')
    def test_what_terraform_would_work_out(self, text):
        flavor = test_export.plain(extra_specs={'a:b': text})
        found, = read(convert.text([flavor], 'terraform'), 'terraform')
        self.assertEqual(flavor, found)

    def test_labels(self):
        names = ('a.b', 'a b', 'a_b', '1', 'é', '..')
        text = convert.text(map(test_export.plain, names), 'terraform')
        found = read(text, 'terraform')
        self.assertEqual(list(names), [flavor.name for flavor in found])
