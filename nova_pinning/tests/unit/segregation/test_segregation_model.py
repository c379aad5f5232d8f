# SPDX-License-Identifier: Apache-2.0
"""What tells the class of hosts and of servers."""

import ddt
import hypothesis
from hypothesis import strategies as st
from oslotest import base as oslotest

from nova_pinning.model import hostclass
from nova_pinning.placement import placement_traits
from nova_pinning.segregation import segregation_model
from nova_pinning.tests.unit import unit_base

DEDICATED = hostclass.HostClass.DEDICATED
SHARED = hostclass.HostClass.SHARED
NAMES_DEDICATED = {'pinning:class': 'Dedicated'}
NAMES_SHARED = {'pinning:class': 'shared'}
ISOLATED = {f'trait:{placement_traits.DEDICATED}': 'required'}


def aggregate(name='a', **changes):
    return segregation_model.HostAggregate(1, 'uuid', name, frozenset({'h'}),
                                           **changes)


def host(own=(), *metadata):
    return segregation_model.MarkedHost(
        'h', 'h', 'rp', None if own is None else frozenset(own),
        tuple(aggregate(metadata=one) for one in metadata))


@ddt.ddt
class TestHostClass(oslotest.BaseTestCase):

    @ddt.data(
        (host(), None),
        (host(None), None),
        (host([placement_traits.l3_trait(8)]), None),
        (host([placement_traits.DEDICATED]), DEDICATED),
        (host([placement_traits.SHARED], {'rack': '1'}), SHARED),
        (host([placement_traits.DEDICATED, placement_traits.SHARED]), None),
        (host([], NAMES_DEDICATED), DEDICATED),
        (host([], ISOLATED), DEDICATED),
        (host([], {f'trait:{placement_traits.DEDICATED}': 'forbidden'}), None),
        (host([placement_traits.DEDICATED], NAMES_DEDICATED, ISOLATED),
         DEDICATED),
        (host([placement_traits.DEDICATED], NAMES_SHARED), None),
        (host([placement_traits.SHARED], ISOLATED), None),
        (host([], NAMES_DEDICATED, NAMES_SHARED), None),
        (host([placement_traits.DEDICATED], {'pinning:class': 'gold'}), None))
    @ddt.unpack
    def test_host_class(self, one, expected):
        self.assertIs(expected, segregation_model.host_class(one))

    def test_marks(self):
        found = list(segregation_model.marks(host(
            [placement_traits.SHARED], NAMES_DEDICATED | ISOLATED,
            {'pinning:class': 'gold'})))
        self.assertEqual([
            segregation_model.ClassMark(segregation_model.MarkSource.TRAIT,
                                        placement_traits.SHARED, SHARED),
            segregation_model.ClassMark(segregation_model.MarkSource.AGGREGATE,
                                        'a', DEDICATED),
            segregation_model.ClassMark(segregation_model.MarkSource.ISOLATION,
                                        'a', DEDICATED),
            segregation_model.ClassMark(segregation_model.MarkSource.AGGREGATE,
                                        'a', None)], found)

    @ddt.data(
        ({}, DEDICATED, False), ({}, None, False),
        (NAMES_DEDICATED, DEDICATED, False), (NAMES_DEDICATED, SHARED, True),
        (NAMES_DEDICATED, None, True), (ISOLATED, DEDICATED, False),
        (ISOLATED, SHARED, True), (ISOLATED | NAMES_SHARED, SHARED, True),
        ({'pinning:class': 'gold'}, DEDICATED, True),
        ({'pinning:class': 'gold'}, None, True))
    @ddt.unpack
    def test_speaks_against(self, metadata, host_class, expected):
        self.assertIs(expected, segregation_model.speaks_against(
            aggregate(metadata=metadata), host_class))


@ddt.ddt
class TestServerClass(oslotest.BaseTestCase):

    @ddt.data(
        ({}, {}, SHARED, True),
        ({}, None, SHARED, False),
        ({}, {'hw_cpu_policy': 'dedicated'}, DEDICATED, True),
        ({}, {'hw_cpu_policy': 'shared'}, SHARED, True),
        ({'hw:cpu_policy': 'dedicated'}, None, DEDICATED, True),
        ({'hw:cpu_policy': 'mixed'}, None, DEDICATED, True),
        ({'hw:cpu_policy': 'shared'}, None, SHARED, True),
        ({'resources:PCPU': '2'}, None, DEDICATED, True),
        ({'resources:PCPU': '0'}, None, SHARED, False),
        ({'pinning:class': 'shared'}, None, SHARED, True),
        ({'pinning:class': 'dedicated'}, None, DEDICATED, True),
        ({'pinning:class': 'shared'}, {'hw_cpu_policy': 'dedicated'}, SHARED,
         True),
        ({'pinning:class': 'gold'}, None, None, True),
        ({'pinning:class': 'gold'}, {}, None, True))
    @ddt.unpack
    def test_server_class(self, extra_specs, properties, *expected):
        self.assertEqual(
            tuple(expected),
            segregation_model.server_class(extra_specs, properties))

    @unit_base.settings(300)
    @hypothesis.given(
        st.fixed_dictionaries({}, optional={
            'hw:cpu_policy': st.sampled_from(['dedicated', 'shared', 'mixed']),
            'resources:PCPU': st.sampled_from(['0', '1']),
            'pinning:class': st.sampled_from(['dedicated', 'shared', 'x'])}),
        st.sampled_from(['dedicated', 'shared', None]))
    def test_what_is_certain_holds_for_any_image(self, extra_specs, policy):
        if policy == 'dedicated' and extra_specs.get(
                'hw:cpu_policy') == 'shared':
            # Nova makes no such server.
            return
        unknown = segregation_model.server_class(extra_specs, None)
        known = segregation_model.server_class(
            extra_specs, {'hw_cpu_policy': policy} if policy else {})
        self.assertTrue(known[1])
        if unknown[1]:
            self.assertEqual(known, unknown)
        else:
            # Else it would be certain.
            self.assertIs(DEDICATED, segregation_model.server_class(
                extra_specs, {'hw_cpu_policy': 'dedicated'})[0])
