# SPDX-License-Identifier: Apache-2.0
"""Fields of nova's objects, read past their getters."""

from nova import objects

from nova_pinning.bridge import nova_objects
from nova_pinning.tests.oracle import oracle_case
from nova_pinning.tests.unit import unit_base


class TestGiven(unit_base.TestCase):

    def setUp(self):
        super().setUp()
        oracle_case.setup()

    def test_a_field_that_is_set(self):
        spec = objects.RequestSpec(num_instances=3, instance_group=None)
        self.assertEqual(
            3, nova_objects.given(spec, 'num_instances', 1))
        self.assertIsNone(nova_objects.given(spec, 'instance_group', 1))

    def test_a_field_that_never_was(self):
        spec = objects.RequestSpec()
        self.assertEqual(1, nova_objects.given(spec, 'num_instances', 1))
        self.assertIsNone(nova_objects.given(spec, 'instance_group'))

    def test_every_field_is_where_it_is_read(self):
        for kind in (objects.RequestSpec, objects.Destination,
                     objects.InstanceGroup, objects.ImageMetaProps,
                     objects.NetworkMetadata, objects.InstanceNUMACell):
            for field in kind.fields:
                made = kind()
                setattr(made, f'_obj_{field}', self)
                self.assertIs(self, getattr(made, field), field)
