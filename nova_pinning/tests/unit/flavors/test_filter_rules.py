# SPDX-License-Identifier: Apache-2.0
"""What nova reads, and how its filters compare, by nova's own code."""

import re

import ddt
from nova.api.validation.extra_specs import validators
from nova.scheduler.filters import extra_specs_ops
from oslotest import base

from nova_pinning.flavors.checks import filter_rules
from nova_pinning.flavors import host_separation
from nova_pinning.tests.unit.flavors import check_samples

#: As nova's libvirt driver has it of a host: all names of features.
FEATURES = str(['aes', 'avx2', 'vmx'])


@ddt.ddt
class TestNova(base.BaseTestCase):

    def setUp(self):
        super().setUp()
        validators.load_validators()

    def test_names(self):
        alone = {name for name in validators.VALIDATORS if ':' not in name}
        self.assertEqual(set(host_separation.OWN_KEYS), alone)

    def test_operators(self):
        self.assertEqual({*extra_specs_ops.op_methods, '<or>'},
                         set(filter_rules._OPERATORS))

    @ddt.data(
        ('features', 'avx2', FEATURES), ('features', ' avx2 ', FEATURES),
        ('features', 'avx2 aes', FEATURES), ('features', 'aes,vmx', FEATURES),
        ('vendor', 'intel', 'Intel'), ('vendor', 'amd', 'AMD'))
    @ddt.unpack
    def test_what_no_host_has(self, name, value, has):
        """And what to write instead."""
        found, = (finding for finding in check_samples.check(
            [check_samples.flavor({
                **check_samples.DEDICATED,
                f'capabilities:cpu_info:{name}': value})])
            if finding.code == 'P511')
        self.assertFalse(extra_specs_ops.match(has, value))
        right = re.fullmatch('write (.*)', found.advice)[1]
        self.assertTrue(extra_specs_ops.match(has, right), right)
