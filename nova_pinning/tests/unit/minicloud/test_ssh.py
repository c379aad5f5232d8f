# SPDX-License-Identifier: Apache-2.0

import shutil
import subprocess
from unittest import mock

from minicloud import errors
from minicloud import settings
from minicloud import ssh
from nova_pinning.tests.unit.minicloud import minicloud_case

HOSTS = tuple(settings.HostSettings(name, '1', '0')
              for name in ('pinning-1', 'pinning-2'))


class Base(minicloud_case.StateTestCase):

    def setUp(self):
        super().setUp()
        self.settings = settings.Settings(hosts=HOSTS, base_port=23000)


class TestKeys(Base):

    def setUp(self):
        super().setUp()
        if not shutil.which('ssh-keygen'):
            self.skipTest('ssh-keygen is not installed')
        self.keys = ssh.SshKeys(self.state, self.settings)
        self.keys.up()

    def test_made_once(self):
        paths = [ssh.user_key(self.state),
                 *(ssh.host_key(self.state, host.name) for host in HOSTS)]
        before = [path.read_text() for path in paths]
        self.assertEqual(len(paths), len(set(before)))
        self.keys.up()
        self.assertEqual(before, [path.read_text() for path in paths])
        for path in paths:
            self.assertEqual(0o600, path.stat().st_mode & 0o777)

    def test_half_a_pair_is_none(self):
        path = ssh.user_key(self.state)
        before = path.read_text()
        path.with_name(f'{path.name}.pub').unlink()
        self.keys.up()
        self.assertNotEqual(before, path.read_text())

    def test_host_keys_are_known(self):
        found = (ssh.directory(self.state) / 'known_hosts').read_text()
        for host in HOSTS:
            public = ssh.host_key(self.state, host.name).with_suffix('.pub')
            self.assertIn(f'{host.name} {public.read_text()}', found)

    def test_as_ssh_reads_it(self):
        for given in ('pinning-2', '127.0.0.12'):
            said = subprocess.run(
                ['ssh', '-G', '-F', str(ssh.client_config(self.state)),
                 given], check=True, capture_output=True, text=True).stdout
            options = dict(line.split(' ', 1) for line in said.splitlines())
            expected = {
                'hostname': '127.0.0.12', 'port': '23020', 'user': 'root',
                'hostkeyalias': 'pinning-2', 'batchmode': 'yes',
                'identityfile': str(ssh.user_key(self.state)),
                'userknownhostsfile':
                    str(ssh.directory(self.state) / 'known_hosts')}
            self.assertEqual(
                expected, {name: options[name] for name in expected})
            self.assertIn(options['stricthostkeychecking'], ('true', 'yes'))


class TestNoKeys(Base):

    def up(self, **options):
        with mock.patch('subprocess.run', **options):
            return self.assertRaises(
                errors.MiniCloudError,
                ssh.SshKeys(self.state, self.settings).up)

    def test_no_program(self):
        e = self.up(side_effect=FileNotFoundError)
        self.assertIn('ssh-keygen is not installed', str(e))

    def test_fails(self):
        e = self.up(return_value=mock.Mock(
            returncode=1, stdout='No space left on device'))
        self.assertIn(str(ssh.user_key(self.state)), str(e))
        self.assertIn('No space left', str(e))
        self.assertFalse(ssh.client_config(self.state).exists())
