# SPDX-License-Identifier: Apache-2.0
import fractions

import hypothesis
from hypothesis import strategies
from oslotest import base as oslotest

from nova_pinning.document import quantities
from nova_pinning import errors
from nova_pinning.tests.unit import unit_base

_WHERE = errors.Location('f', 3, 1, 'families.a.memory')


class TestQuantities(oslotest.BaseTestCase):

    def test_memory(self):
        for value, mib in (
                ('16G', 16384), ('16 gb', 16384), ('16GiB', 16384),
                ('16 gib', 16384), ('512 MiB', 512), ('512m', 512),
                (512, 512), ('512', 512), (' 1T ', 1 << 20), ('1.5G', 1536),
                ('0.5GiB', 512), ('2048k', 2), ('1048576 bytes', 1), (0, 0),
                ('1048576B', 1)):
            self.assertEqual(mib, quantities.memory_mib(value, _WHERE), value)

    def test_other_units(self):
        self.assertEqual(2048, quantities.page_size_kib('2M', _WHERE))
        self.assertEqual(64, quantities.page_size_kib(64, _WHERE))
        self.assertEqual(10, quantities.disk_gib('10240 MB', _WHERE))
        self.assertEqual(10, quantities.disk_gib(10, _WHERE))

    def test_refusals(self):
        for value, expected in (
                ('16 apples', "a unit that is not known, 'apples'"),
                ('16 ib', "a unit that is not known, 'ib'"),
                ('16i', "a unit that is not known, 'i'"),
                ('8 Gbit', "a unit that is not known, 'Gbit'"),
                ('-1G', 'is not an amount'), ('G', 'is not an amount'),
                ('', 'is not an amount'), ('1e3', 'has a unit|not an amount'),
                ('1,5G', 'is not an amount'), (True, 'is not an amount'),
                ('\u0661G', 'is not an amount'),
                ('9' * 19, 'is not an amount'),
                ('1.0001G', 'is not a whole number of MiB'),
                ('1k', 'is not a whole number of MiB')):
            error = self.assertRaises(
                errors.InputError, quantities.memory_mib, value, _WHERE)
            self.assertTrue(
                any(one in error.message for one in expected.split('|')),
                error.message)
            self.assertEqual(_WHERE, error.where)

    def test_units(self):
        self.assertEqual(125_000, quantities.unit_bytes('Mbit'))
        self.assertEqual(fractions.Fraction(1, 8), quantities.unit_bytes(
            'bit'))
        self.assertEqual(1 << 50, quantities.unit_bytes('PiB'))
        self.assertIsNone(quantities.unit_bytes(''))
        self.assertIsNone(quantities.unit_bytes('max'))

    def test_amounts_to_compare(self):
        self.assertEqual(('0 MiB', '1500 MiB', '2048 MiB'),
                         quantities.shown_alike(0, 1500, 2048))
        self.assertEqual(('0 GiB', '2 GiB'), quantities.shown_alike(0, 2048))

    @unit_base.settings(100)
    @hypothesis.given(strategies.integers(0, 1 << 40))
    def test_text(self, mib):
        text = quantities.text(mib)
        self.assertEqual(mib, quantities.memory_mib(text, _WHERE))
