# SPDX-License-Identifier: Apache-2.0
"""The names of the traits."""

import ddt
import hypothesis
from hypothesis import strategies as st
import os_traits
from oslotest import base as oslotest

from nova_pinning.model import hostclass
from nova_pinning.placement import placement_traits
from nova_pinning.tests.unit import unit_base

DEDICATED = hostclass.HostClass.DEDICATED
SHARED = hostclass.HostClass.SHARED


@ddt.ddt
class TestTraits(oslotest.BaseTestCase):

    def test_names_are_custom_ones(self):
        for name in (placement_traits.DEDICATED, placement_traits.SHARED,
                     placement_traits.l3_trait(8)):
            self.assertTrue(os_traits.is_custom(name))
            self.assertTrue(name.startswith(placement_traits.PREFIX))

    def test_classes(self):
        self.assertEqual(set(), placement_traits.classes_of(
            [placement_traits.l3_trait(8), 'X']))
        self.assertEqual({SHARED}, placement_traits.classes_of(
            [placement_traits.SHARED, 'X']))
        self.assertEqual({SHARED, DEDICATED}, placement_traits.classes_of(
            [placement_traits.SHARED, placement_traits.DEDICATED]))

    def test_class_traits(self):
        self.assertEqual(
            ({placement_traits.SHARED}, {placement_traits.DEDICATED}),
            placement_traits.class_traits(SHARED))
        self.assertEqual(
            ({placement_traits.DEDICATED}, {placement_traits.SHARED}),
            placement_traits.class_traits(DEDICATED))
        self.assertEqual(
            (set(), {placement_traits.DEDICATED, placement_traits.SHARED}),
            placement_traits.class_traits(None))

    @unit_base.settings(100)
    @hypothesis.given(st.sets(st.integers(1, 999999), max_size=3))
    def test_l3_there_and_back(self, numbers):
        names = [placement_traits.l3_trait(number) for number in numbers]
        self.assertEqual(
            min(numbers, default=None),
            placement_traits.l3_cpus([*names, placement_traits.SHARED]))

    @ddt.data(0, -1, 1000000)
    def test_no_number_of_cpus(self, number):
        self.assertRaises(ValueError, placement_traits.l3_trait, number)

    @ddt.data('', '0', '08', 'x', '8_', '1000000')
    def test_other_names(self, text):
        self.assertIsNone(placement_traits.l3_cpus(
            [f'{placement_traits.PREFIX}L3_CPUS_{text}']))

    @ddt.data(('TRUE', True), (' 1', True), ('no', False), ('off', False),
              ('', None), ('pack', None), ('2', None))
    @ddt.unpack
    def test_packing(self, text, said):
        self.assertIs(said, placement_traits.parse_packing(text))
