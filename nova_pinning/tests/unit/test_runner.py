# SPDX-License-Identifier: Apache-2.0

from oslo_versionedobjects import base
from oslo_versionedobjects import fields
from oslotest import base as test_base


class _Interrupted(set):
    """Fields that another thread changes when they are gone through first."""

    is_changed = False

    def __iter__(self):
        for field in super().__iter__():
            if not self.is_changed:
                self.is_changed = True
                self.add('another')
            yield field


class _Changing(base.VersionedObject):
    fields = {'one': fields.IntegerField(), 'two': fields.IntegerField()}


class RunnerTest(test_base.BaseTestCase):

    def test_what_changes_while_it_is_looked_at(self):
        """Nova would give up the host of the guest that is built."""
        changing = _Changing(one=1, two=2)
        changing._changed_fields = _Interrupted(('one', 'two'))
        self.assertEqual({'one', 'two'}, changing.obj_what_changed())
        self.assertTrue(changing._changed_fields.is_changed)
