# SPDX-License-Identifier: Apache-2.0
"""Machines of all kinds are read, planned, rendered and checked rightly."""

from unittest import mock

import ddt
from oslotest import base

from nova_pinning.host.discover import system
from nova_pinning.host.plan import plan_request
from nova_pinning.tests import forms
from nova_pinning.tests.oracle import machine_fuzz


@ddt.ddt
class TestMachines(base.BaseTestCase):

    def test_none_is_wrong(self):
        """A few of the cases of ``./run fuzz-machines``."""
        count = 50 if forms.SHORT else 100
        tally = machine_fuzz.run(1, range(count))
        self.assertEqual([], tally.wrong)
        self.assertGreater(tally.planned, 0.6 * count)
        self.assertLess(len(tally.refused), 8, tally.refused)

    @ddt.data((system, '_AT_PAGESZ', 7),
              (plan_request, 'huge_page_sizes_kib', lambda host: (2048,)))
    @ddt.unpack
    def test_what_is_wrong_is_found(self, module, name, value):
        with mock.patch.object(module, name, value):
            self.assertNotEqual([], machine_fuzz.run(1, range(25)).wrong)
