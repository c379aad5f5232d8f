# SPDX-License-Identifier: Apache-2.0
"""What differs between two flavors."""

import dataclasses

from hypothesis import given
from hypothesis import strategies as st
from oslotest import base as oslotest

from nova_pinning.flavors import difference
from nova_pinning.flavors import flavor_model
from nova_pinning.tests.unit import unit_base

FLAVOR = flavor_model.Flavor(
    name='large', id='1', vcpus=2, memory_mib=8192,
    extra_specs={'hw:b': '1', 'hw:a': '2', 'hw:c': '3'})


@st.composite
def flavors(draw):
    return flavor_model.Flavor(
        name='large', id=draw(st.sampled_from('ab')),
        vcpus=draw(st.integers(1, 3)), memory_mib=512,
        rxtx_factor=draw(st.sampled_from((0.5, 1.0))),
        is_public=draw(st.booleans()),
        projects=tuple(draw(st.sets(st.sampled_from('pq')))),
        description=draw(st.sampled_from(('', 'words'))),
        extra_specs=draw(st.dictionaries(
            st.sampled_from(('a:a', 'b:b')), st.sampled_from('12'))))


class TestDifferences(oslotest.BaseTestCase):

    def found(self, before, after):
        return [(one.key, one.before, one.after) for one
                in difference.differences(before, after)]

    def test_changes(self):
        after = dataclasses.replace(
            FLAVOR, id='2', vcpus=4, is_public=False, projects=('p', 'q'),
            description='one\ntwo', extra_specs={
                'hw:a': '5', 'hw:d': '4', 'hw:c': '3'})
        found = difference.differences(FLAVOR, after)
        self.assertEqual(
            [('vcpus', 2, 4), ('is_public', True, False),
             ('projects', [], ['p', 'q']), ('description', '', 'one\ntwo'),
             ('hw:a', '2', '5'), ('hw:b', '1', None), ('hw:d', None, '4')],
            self.found(FLAVOR, after))
        self.assertEqual(
            ['- vcpus: 2', '+ vcpus: 4', '- is_public: yes',
             '+ is_public: no', '- projects: none', '+ projects: p, q',
             "- description: ''", '+ description: one two', '- hw:a: 2',
             '+ hw:a: 5', '- hw:b: 1', '+ hw:d: 4'],
            [' '.join(line) for line in difference.lines(found)])

    def test_what_comes_and_goes_is_brief(self):
        self.assertEqual(
            [('vcpus', None, 2), ('memory_mib', None, 8192),
             ('hw:b', None, '1'), ('hw:a', None, '2'), ('hw:c', None, '3')],
            self.found(None, FLAVOR))
        self.assertEqual(
            [('vcpus', 2, None), ('memory_mib', 8192, None),
             ('rxtx_factor', 2.0, None)],
            self.found(dataclasses.replace(
                FLAVOR, rxtx_factor=2.0, extra_specs={}), None))

    @given(flavors(), flavors())
    @unit_base.settings(100)
    def test_properties(self, before, after):
        found = difference.differences(before, after)
        # Nothing differs if and only if the flavors are equal, their ids
        # aside.
        self.assertEqual(
            dataclasses.replace(before, id='') == dataclasses.replace(
                after, id=''), not found)
        # The other way round it is the same, mirrored.
        self.assertEqual(
            [(one.key, one.after, one.before) for one in found],
            self.found(after, before))
        self.assertEqual(
            tuple(one.key for one in found if one.key in difference.SHAPE),
            difference.shape_changes(before, after))
