# SPDX-License-Identifier: Apache-2.0
"""Units of systemd, for the installation that prints them."""

import os
import pathlib
import shutil
import subprocess
import sys

from nova_pinning.cli import unit_file
from nova_pinning.tests.unit.cli import cli_case

_MOUNT = (pathlib.Path(cli_case.__file__).parents[4]
          / 'etc/nova-pinning/systemd/sys-fs-resctrl.mount')


class UnitFileTestCase(cli_case.TestCase):

    def unit(self, command, *options):
        done = self.run_command(command, *options, '--print-unit')
        self.assertEqual((0, ''), (done.status, done.err))
        return done.out

    def verify(self, name, text):
        """What systemd says of a unit, as it is and where it is."""
        if shutil.which('systemd-analyze') is None:
            self.skipTest('systemd-analyze is not installed; Debian has it '
                          'in package systemd')
        path = self.write(name, text)
        done = subprocess.run(
            ['systemd-analyze', 'verify', '--man=no', path],
            capture_output=True, text=True)
        self.assertEqual((0, []), (done.returncode, [
            line for line in done.stderr.splitlines() if name in line]))

    def script(self, directory):
        """Have this process started by a script of pip's."""
        (self.dir / directory).mkdir()
        script = self.write(f'{directory}/nova-pinning', '#!/bin/sh\n')
        os.chmod(script, 0o755)
        self.useFixture(cli_case.fixtures.MonkeyPatch(
            'sys.argv', [script, 'agent']))
        return script

    def test_systemd_takes_them(self):
        conf = self.write('a.conf', '')
        for command in 'agent', 'exporter':
            for arguments in (), ('--config-file', conf):
                self.verify(f'nova-pinning-{command}.service',
                            self.unit(command, *arguments))

    def test_systemd_takes_the_mount(self):
        if not _MOUNT.is_file():
            self.skipTest('not run from a checkout')
        self.verify(_MOUNT.name, _MOUNT.read_text())

    def test_what_runs_is_what_is_started(self):
        conf = self.write('a.conf', '')
        self.assertIn(
            f'ExecStart={sys.executable} -m nova_pinning.cli.shell agent '
            f'--config-file {conf}\n',
            self.unit('agent', '--config-file', conf))
        script = self.script('bin')
        other = self.write('b.conf', '')
        self.assertIn(f'ExecStart={script} exporter --config-file {conf} '
                      f'--config-file {other}\n',
                      self.unit('exporter', '--config-file', conf,
                                '--config-file', other))

    def test_odd_paths(self):
        """Blanks, quotes, and what systemd would put something else for."""
        script = self.script('a b%n')
        conf = self.write("a b'%n$x;\".conf", '')
        text = self.unit('agent', '--config-file', conf)
        self.verify('nova-pinning-agent.service', text)
        escaped = script.replace('%', '%%')
        self.assertIn(f'ExecStart="{escaped}" agent --config-file '
                      f'"{self.dir}/a b\'%%n$$x;\\".conf"\n', text)

    def install(self):
        """Have this be an installation below /usr."""
        for name, value in (
                ('sys.executable', '/usr/bin/python3'), ('sys.prefix', '/usr'),
                ('nova_pinning.__path__', ['/usr/lib/nova_pinning'])):
            self.useFixture(cli_case.fixtures.MonkeyPatch(name, value))

    def test_what_is_hidden_otherwise(self):
        """An installation below a home directory, or that of a test."""
        self.install()
        for path, home, temporary in (
                ('/etc/a.conf', 'yes', 'yes'), ('/home/x', 'read-only', 'yes'),
                ('/homes/x', 'yes', 'yes'), ('/tmp/x', 'yes', 'no')):
            text = unit_file.text('agent', [], [path])
            self.assertIn(f'ProtectHome={home}\nPrivateTmp={temporary}\n',
                          text)

    def test_what_the_agent_reads_and_writes(self):
        """Wherever its configuration says that is."""
        self.install()
        for option in 'plan', 'catalogue', 'metrics_file', 'record':
            conf = self.write('a.conf', f'[agent]\n{option} = /home/x/y\n')
            text = self.unit('agent', '--config-file', conf)
            self.assertIn('ProtectHome=read-only\n', text, option)
            # Homes are closed to others, and root is one without it.
            self.assertIn('CAP_NET_ADMIN CAP_DAC_READ_SEARCH\n', text)

    def test_what_the_exporter_reads(self):
        self.install()
        for option in 'nova_conf', 'snapshot', 'host_files':
            conf = self.write(
                'e.conf', f'[pinning_exporter]\n{option} = /home/x/y\n')
            self.assertIn('ProtectHome=read-only\n', self.unit(
                'exporter', '--config-file', conf), option)

    def test_where_the_agent_writes(self):
        conf = self.write('a.conf', '[agent]\nmetrics_file = /var/x/a.prom\n')
        self.assertIn('ReadWritePaths=-/var/x\n',
                      self.unit('agent', '--config-file', conf))
        self.assertNotIn('ReadWritePaths=', self.unit('agent'))

    def test_options_are_looked_at_first(self):
        for command, text in (
                ('agent', '[agent]\nkept_ways = x\n'),
                ('exporter', '[pinning_exporter]\nlisten_port = x\n')):
            conf = self.write('a.conf', text)
            done = self.run_command(command, '--config-file', conf,
                                    '--print-unit')
            self.assertEqual((2, ''), (done.status, done.out))

    def test_little_of_the_power_of_root(self):
        self.install()
        for command, lines in (
                ('agent', ('CapabilityBoundingSet=CAP_SYS_NICE CAP_NET_ADMIN',
                           'RestrictAddressFamilies=AF_UNIX', 'Type=notify',
                           'WatchdogSec=180')),
                ('exporter', ('CapabilityBoundingSet=',
                              'User=nova-pinning'))):
            text = self.unit(command)
            for line in (*lines, 'NoNewPrivileges=yes',
                         'ProtectSystem=strict'):
                self.assertIn(f'{line}\n', text)
