# SPDX-License-Identifier: Apache-2.0
"""Devices are given as nova's PciDeviceStats gives them."""

import subprocess
import sys

from oslotest import base

from nova_pinning.tests.oracle import device_oracle
from nova_pinning.tests.oracle import flavor_device_oracle
from nova_pinning.tests.oracle import lack_oracle
from nova_pinning.tests.oracle import numbered_cases
from nova_pinning.tests.oracle import stranded_oracle

# Placement's database is configured once in a process, and other tests have
# theirs.
_SERIES = 'nova_pinning.tests.oracle.device_series'


class TestDevices(base.BaseTestCase):

    def _counts(self, oracle, numbers, seed=1):
        """What an oracle counts that has nothing to say."""
        wrong, counts = numbered_cases.run(oracle.differences, seed, numbers)
        self.assertEqual([], wrong)
        return counts

    def test_as_nova(self):
        counts = self._counts(device_oracle, range(250))
        self.assertGreater(counts['claimed'], 100, counts)
        self.assertGreater(counts['refused'], 100, counts)
        self.assertGreater(counts['claim fails'], 0, counts)

    def test_stranded(self):
        """No device is called stranded that nova gives to one more guest."""
        counts = self._counts(stranded_oracle, range(150))
        self.assertGreater(counts['None'], 50, counts)
        for cause in ('devices', 'cells', 'memory'):
            self.assertGreater(counts[cause], 0, counts)
        self.assertEqual(0, counts['not said'], counts)

    def test_all_answers(self):
        """As Placement and nova's claims, with all commands."""
        done = subprocess.run(
            [sys.executable, '-W', 'ignore', '-m', _SERIES,
             '--cases', '241', '--seed', '49'], capture_output=True, text=True)
        self.assertEqual(0, done.returncode, done.stdout + done.stderr)
        for answer in ('nova yes with devices', 'nova no', 'judge yes',
                       'filter yes', 'capacity yes', 'simulate yes',
                       'move cold with devices yes',
                       'move live with devices yes', 'second yes',
                       'second filter yes'):
            self.assertRegex(done.stdout, f'[1-9][0-9,]* {answer}\n')

    def test_lacks(self):
        """What is named refuses the guest, and it comes further without."""
        counts = self._counts(lack_oracle, range(120))
        for name in ('no-device', 'taken', 'group', 'affinity', 'together'):
            self.assertGreater(counts[name], 0, counts)

    def test_flavor_check(self):
        """Flavors are refused for devices that nova finds on no host."""
        counts = self._counts(flavor_device_oracle, range(120))
        # Devices that it has beside others, and would not have alone.
        self._counts(flavor_device_oracle, [4967], seed=2)
        for code in ('P310', 'P311', 'P601', 'P602', 'whole', 'none'):
            self.assertGreater(counts[code], 0, counts)
