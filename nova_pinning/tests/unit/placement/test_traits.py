#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

"""The names of the traits."""

import ddt
import hypothesis
from hypothesis import strategies as st
import os_traits
from oslotest import base as oslotest

from nova_pinning.model import hostclass
from nova_pinning.placement import traits
from nova_pinning.tests.unit import base

DEDICATED = hostclass.HostClass.DEDICATED
SHARED = hostclass.HostClass.SHARED


@ddt.ddt
class TestTraits(oslotest.BaseTestCase):

    def test_names_are_custom_ones(self):
        for name in (traits.DEDICATED, traits.SHARED, traits.l3_trait(8)):
            self.assertTrue(os_traits.is_custom(name))
            self.assertTrue(name.startswith(traits.PREFIX))

    def test_classes(self):
        self.assertEqual(set(), traits.classes([traits.l3_trait(8), 'X']))
        self.assertEqual({SHARED}, traits.classes([traits.SHARED, 'X']))
        self.assertEqual({SHARED, DEDICATED}, traits.classes(
            [traits.SHARED, traits.DEDICATED]))

    def test_class_traits(self):
        self.assertEqual(({traits.SHARED}, {traits.DEDICATED}),
                         traits.class_traits(SHARED))
        self.assertEqual(({traits.DEDICATED}, {traits.SHARED}),
                         traits.class_traits(DEDICATED))
        self.assertEqual((set(), {traits.DEDICATED, traits.SHARED}),
                         traits.class_traits(None))

    @base.settings(100)
    @hypothesis.given(st.sets(st.integers(1, 999999), max_size=3))
    def test_l3_there_and_back(self, numbers):
        names = [traits.l3_trait(number) for number in numbers]
        self.assertEqual(min(numbers, default=None),
                         traits.l3_cpus([*names, traits.SHARED]))

    @ddt.data(0, -1, 1000000)
    def test_no_number_of_cpus(self, number):
        self.assertRaises(ValueError, traits.l3_trait, number)

    @ddt.data('', '0', '08', 'x', '8_', '1000000')
    def test_other_names(self, text):
        self.assertIsNone(traits.l3_cpus([f'{traits.PREFIX}L3_CPUS_{text}']))
