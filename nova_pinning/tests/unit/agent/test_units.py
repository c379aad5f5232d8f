# SPDX-License-Identifier: Apache-2.0
"""The units of systemd that are shipped for the agent."""

import pathlib
import shutil
import subprocess

import fixtures

import nova_pinning
from nova_pinning.tests.unit import unit_base

_UNITS = (pathlib.Path(nova_pinning.__file__).parents[1]
          / 'etc/nova-pinning/systemd')


class UnitsTestCase(unit_base.TestCase):

    def setUp(self):
        super().setUp()
        if not _UNITS.is_dir():
            self.skipTest('not run from a checkout')

    def test_verify(self):
        if shutil.which('systemd-analyze') is None:
            self.skipTest('systemd-analyze is not installed')
        root = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        for name in 'nova-pinning-agent.service', 'sys-fs-resctrl.mount':
            path = root / name
            path.write_text((_UNITS / name).read_text().replace(
                '/usr/bin/nova-pinning', '/bin/true'))
            done = subprocess.run(
                ['systemd-analyze', 'verify', '--man=no', str(path)],
                capture_output=True, text=True)
            self.assertEqual((0, []), (done.returncode, [
                line for line in done.stderr.splitlines() if name in line]))

    def test_root_with_little_of_its_power(self):
        text = (_UNITS / 'nova-pinning-agent.service').read_text()
        for line in (
                'CapabilityBoundingSet=CAP_SYS_NICE CAP_NET_ADMIN '
                'CAP_SYS_PTRACE', 'NoNewPrivileges=yes',
                'ProtectSystem=strict', 'RestrictAddressFamilies=AF_UNIX',
                'Type=notify', 'WatchdogSec=180'):
            self.assertIn(f'{line}\n', text)
