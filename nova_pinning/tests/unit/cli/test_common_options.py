# SPDX-License-Identifier: Apache-2.0
"""Options that several commands have."""

import argparse

import ddt

from nova_pinning.cli import common_options
from nova_pinning.tests.unit import unit_base


@ddt.ddt
class TestNumber(unit_base.TestCase):

    @ddt.data('1', '7', '1000')
    def test_in_the_range(self, text):
        self.assertEqual(int(text), common_options.number(1, 1000)(text))

    @ddt.data('x', '', '0', '1001', '1.5', '-1')
    def test_not_in_the_range(self, text):
        error = self.assertRaises(
            argparse.ArgumentTypeError, common_options.number(1, 1000), text)
        self.assertEqual(f"'{text}' is not a number from 1 to 1,000",
                         str(error))
