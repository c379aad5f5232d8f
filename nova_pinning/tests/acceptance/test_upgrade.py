# SPDX-License-Identifier: Apache-2.0
"""A rolling upgrade of a real cloud, from one SLURP release to the next.

Pinned guests are booted on the old release and run on while everything is
upgraded around them. What ``upgrade check`` says of them before comes true
after, and what it advises helps.
"""

import datetime
import json
import pathlib
import shlex
import tempfile

import testtools

from minicloud import files
from minicloud import nova
from nova_pinning.tests.acceptance import minicloud_runner

BEFORE = '2025.1'
AFTER = '2026.1'
HOSTS = ('pinning-1', 'pinning-2')

# A pinned guest that has not been restarted since cannot be live-migrated.
BUG = '2152697'
# What nova-compute of 33.0 says of it, where the guest is.
SYMPTOM = "'NoneType' object has no attribute 'set'"

# A migration that failed leaves its claim behind on the other host, until
# that counts what it has: here every few seconds, and an attempt takes some.
COMPUTE = {'DEFAULT': {'update_resources_interval': 5}}
ATTEMPTS = 20

# Of migrations.
FINISHED = {'completed', 'error', 'failed', 'cancelled'}


def hit_by_bug(output):
    """Return what upgrade check says of the bug.

    :param output: JSON
    :returns: by guest, the commands that mend it
    """
    return {finding['name']: finding['commands']
            for finding in json.loads(output)['findings']
            if finding['bug'] == BUG and finding['kind'] == 'guest'}


class TestUpgrade(testtools.TestCase):

    def setUp(self):
        super().setUp()
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = pathlib.Path(directory.name)
        conf = self.directory / 'nova-compute.conf'
        files.write(conf, files.ini(COMPUTE))
        self.cloud = self.useFixture(minicloud_runner.MiniCloud(
            *(option for host in HOSTS for option in (
                '--host-cpus', f'{host}=dedicated:0-1',
                '--host-conf', f'{host}={conf}')), '--release', BEFORE))

    def openstack(self, command, status=0):
        return self.cloud.run(f'openstack {command}', status)

    def read(self, command):
        return json.loads(self.openstack(f'{command} -f json'))

    def upgrade(self, *left):
        """Upgrade the cloud, but for nova-compute of some hosts."""
        self.cloud.up('--release', AFTER, *(
            option for host in left
            for option in ('--host-release', f'{host}={BEFORE}')))
        for host in HOSTS:
            release = BEFORE if host in left else AFTER
            self.cloud.run_on(
                host, 'pgrep', '--full', f'/{release}/bin/nova-compute')

    def boot(self, name, host):
        self.openstack(f'server create --wait --nic none --image minicloud '
                       f'--flavor pinned --host {host} {name}')

    def place(self, name):
        """Return where a guest is, and its status."""
        server = self.read(f'server show {name}')
        return server['OS-EXT-SRV-ATTR:host'], server['status']

    def move(self, name, host, attempts=1):
        """Live-migrate a guest.

        :returns: where it is then, and its status
        """
        for _attempt in range(attempts):
            # Its status is zero even if the migration failed, and one if
            # the scheduler found no room.
            self.cloud.run(f'openstack server migrate --live-migration '
                           f'--host {host} --wait {name} || true')
            self.wait_for_migrations(name)
            found = self.place(name)
            if found == (host, 'ACTIVE'):
                break
        return found

    def wait_for_migrations(self, name):
        """Wait until the host that a guest has left knows of it, too.

        Its nova-compute would be stopped before it has given back all that
        the guest had there.
        """
        for _attempt in range(ATTEMPTS):
            status = {migration['Status'] for migration in self.read(
                f'server migration list --server {name}')}
            if status <= FINISHED:
                return
        self.fail(f'{name} still migrates: {status}')

    def qemus(self, host):
        """Return the QEMUs of a host, which are others after a restart."""
        # These files have no line ends.
        return set(self.cloud.run_on(
            host, 'sh', '-c', 'for file in /run/libvirt/qemu/instance-*.pid; '
            'do echo "$(cat "$file")"; done').split())

    def check(self, release, *options):
        """Have upgrade check look at the cloud, from its own controller.

        :param release: of the controller
        """
        program = self.cloud.state.bin('nova-pinning', release)
        fleet = self.directory / 'fleet.json'
        self.cloud.run(shlex.join([
            program, 'fleet', 'import', 'nova', '--output', str(fleet),
            *nova.config_files(self.cloud.state)]))
        return hit_by_bug(self.cloud.run(shlex.join([
            program, 'upgrade', 'check', str(fleet), '--to', AFTER,
            '--format', 'json', *options]), status=1))

    def test_upgrade(self):
        self.openstack('flavor create --vcpus 1 --ram 64 --disk 0 '
                       '--property hw:cpu_policy=dedicated pinned')
        for name in ('stays', 'drained'):
            self.boot(name, 'pinning-1')
        qemus = self.qemus('pinning-1')
        self.assertEqual({'stays', 'drained'}, set(self.check(BEFORE)))
        told = self.directory / 'told-by-the-api.json'
        self.openstack(f'pinning fleet import --output {told}')
        self.assertEqual({'stays', 'drained'}, set(hit_by_bug(self.cloud.run(
            f'nova-pinning upgrade check {told} --from {BEFORE} --to {AFTER} '
            f'--format json', status=1))))

        self.upgrade(*HOSTS)
        self.assertEqual(qemus, self.qemus('pinning-1'))
        # Before its host is upgraded, a guest can be moved.
        self.assertEqual(('pinning-2', 'ACTIVE'),
                         self.move('drained', 'pinning-2'))
        qemus = {host: self.qemus(host) for host in HOSTS}

        self.upgrade('pinning-2')
        upgraded_at = datetime.datetime.now(datetime.UTC)
        # The scheduler and one host are new, the other host is not.
        self.boot('new', 'pinning-1')
        self.upgrade()
        for host in HOSTS:
            self.assertLessEqual(qemus[host], self.qemus(host))

        commands = self.check(
            AFTER, '--upgraded-at', upgraded_at.isoformat(timespec='seconds'))
        self.assertEqual({'stays', 'drained'}, set(commands))
        self.assertEqual(('pinning-1', 'ERROR'),
                         self.move('stays', 'pinning-2'))
        self.assertIn(SYMPTOM, self.cloud.log('nova-compute-pinning-1'))
        # It mends one that has failed, for which the client does not wait,
        # since its status is an error until it runs; and one that would fail.
        for name, host, failed in (('stays', 'pinning-2', True),
                                   ('drained', 'pinning-1', False)):
            for command in commands[name]:
                self.cloud.run(f'{command} || {str(failed).lower()}')
            self.assertEqual((host, 'ACTIVE'),
                             self.move(name, host, ATTEMPTS))
        # One that was booted on the new release never had it.
        self.assertEqual(('pinning-2', 'ACTIVE'),
                         self.move('new', 'pinning-2', ATTEMPTS))
