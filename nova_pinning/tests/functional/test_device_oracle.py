# SPDX-License-Identifier: Apache-2.0
"""Devices are given as nova's PciDeviceStats gives them."""

from oslotest import base

from nova_pinning.tests.oracle import device_oracle
from nova_pinning.tests.oracle import stranded_oracle


class TestDevices(base.BaseTestCase):

    def test_as_nova(self):
        wrong, counts = device_oracle.disagreements(1, range(250))
        self.assertEqual([], wrong)
        self.assertGreater(counts['claimed'], 100, counts)
        self.assertGreater(counts['refused'], 100, counts)
        self.assertGreater(counts['claim fails'], 0, counts)

    def test_stranded(self):
        """No device is called stranded that nova gives to one more guest."""
        wrong, counts = stranded_oracle.disagreements(1, range(150))
        self.assertEqual([], wrong)
        self.assertGreater(counts['None'], 50, counts)
        for cause in ('devices', 'cells', 'memory'):
            self.assertGreater(counts[cause], 0, counts)
        self.assertEqual(0, counts['not said'], counts)
