# SPDX-License-Identifier: Apache-2.0
"""Names of Sovereign Cloud Stack's standards."""

import ddt

from nova_pinning.flavors.checks import checked
from nova_pinning.flavors.checks import scs_rules
from nova_pinning.flavors.checks import target
from nova_pinning.flavors import flavor_model
from nova_pinning.tests.unit.host import host_samples
from nova_pinning.tests.unit import unit_base


def flavor(name, vcpus=2, gib=4, disk=20, policy='shared', **specs):
    return flavor_model.Flavor(
        name=name, vcpus=vcpus, memory_mib=int(gib * 1024), disk_gib=disk,
        extra_specs={f'scs:{key.replace("_", "-")}': value
                     for key, value in specs.items()} | {
                         'hw:cpu_policy': policy})


def codes(one, has_scs=True):
    subject = checked.CheckedFlavor(one, has_scs=has_scs)
    return [found.code for rule in (
        scs_rules.bad_name, scs_rules.less_than_promised,
        scs_rules.other_cpus, scs_rules.oversubscribed)
        for found in rule.findings(subject)]


@ddt.ddt
class TestNames(unit_base.TestCase):

    # Examples of the standard's text.
    @ddt.data(
        'SCS-2V-4-10n', 'SCS-2Li-4-10n', 'SCS-2V-3.5-10n', 'SCS-2V-4uo-10n',
        'SCS-2V-4-n_bms_z3', 'SCS-2V-4-3x10s_bms_z3', 'SCS-2V-4-_ib',
        'SCS-2V-4-_bms_z3h_GNa-64_ib', 'SCS-2V-4_bms_z3', 'SCS-2V-4',
        'SCS-2V-4-10_kvm_hwv', 'SCS-2V-4-20s_GNa-14-6h', 'SCS-2V-4_a1',
        'other', 'SCS_2')
    def test_good(self, name):
        self.assertEqual([], codes(flavor(name)))

    @ddt.data('SCS-2-4-10n', 'SCS-2iT-4-10n', 'SCS-2C-4ou-10n',
              'SCS-2C-4-1.5n', 'SCS-2C-4-10_hwv_xen', 'SCS-2C:4', 'SCS-')
    def test_bad(self, name):
        self.assertEqual(['S001'], codes(flavor(name)))
        self.assertEqual([], codes(flavor(name), has_scs=False))

    @ddt.data(('SCS-4V-4', 1), ('SCS-2V-8', 1), ('SCS-2V-4-50', 1),
              ('SCS-4V-8-50', 3), ('SCS-1V-2-5', 0))
    @ddt.unpack
    def test_less(self, name, number):
        self.assertEqual(['S002'] * number, codes(flavor(name)))

    def test_other_names(self):
        self.assertEqual(['S002'], codes(flavor('x', name_v2='SCS-1L-5')))
        self.assertEqual(['S002'], codes(flavor('x', name_v1='SCS-1L:5')))
        self.assertEqual([], codes(flavor('x', name_v1='SCS-1L:4:20')))

    def test_cpus(self):
        self.assertEqual(['S003'], codes(flavor('SCS-2T-4')))
        self.assertEqual([], codes(flavor('SCS-2T-4',
                                          policy='dedicated')))
        self.assertEqual(['S003'], codes(flavor(
            'SCS-2V-4', cpu_type='crowded-core')))

    def test_missing(self):
        names = [finding.name for finding in scs_rules.missing(
            [flavor('SCS-2V-4'), flavor('x', name_v1='SCS-1L:1')])]
        self.assertEqual(13, len(names))
        self.assertNotIn('SCS-1L-1', names)

    @ddt.data(('SCS-2V-4', 3, 1, 0), ('SCS-2V-4', 4, 1, 1),
              ('SCS-2L-4', 16, 1, 0), ('SCS-2L-4', 16, 1.5, 1),
              ('SCS-2L-4o', 16, 1.5, 0), ('other', 16, 1.5, 0))
    @ddt.unpack
    def test_oversubscribed(self, name, cpu, ram, number):
        hosts = target.targets([host_samples.host(
            nova=host_samples.settings(
                None, '0-7', cpu_allocation_ratio=cpu,
                ram_allocation_ratio=ram))])
        self.assertEqual(number, len(list(scs_rules.oversubscribed.findings(
            checked.CheckedFlavor(flavor(name), hosts=hosts,
                                  has_scs=True)))))
