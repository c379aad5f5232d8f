# SPDX-License-Identifier: Apache-2.0
"""What a nova-scheduler in shadow mode has to do, however it was deployed.

It runs in a container beside a minicloud of one host, whose own nova-scheduler
makes room for it. How long it took is printed.
"""

import pathlib
import sys
import tempfile
import time

import testtools

from minicloud import files
from minicloud import nova
from nova_pinning.tests.acceptance import container_engine
from nova_pinning.tests.acceptance import minicloud_runner

WORKERS = 2
_BEGINS = 'Starting scheduler node'
_DIFFERED = 'nova_pinning_scheduler_hosts_differed_total'


class ShadowModeTest(testtools.TestCase):
    """A test with a cloud, an engine of containers, and a page.

    :cvar page: deployment_page.DeploymentPage, what the operator reads
    :cvar release: str, of OpenStack
    """

    def setUp(self):
        super().setUp()
        self.cloud = self.useFixture(minicloud_runner.MiniCloud(
            '--hosts', '1', '--release', self.release))
        self.directory = pathlib.Path(self.enterContext(
            tempfile.TemporaryDirectory(prefix='nova-scheduler-')))
        self.metrics = self.directory / 'metrics'
        self.engine = container_engine.Engine(
            self.cloud.state, self.cloud.state.load())
        self.addCleanup(self.engine.down)
        self.engine.up()
        self.cloud.run("""set -e
            openstack flavor create --vcpus 1 --ram 64 --disk 0 shared
            openstack flavor create --vcpus 1 --ram 64 --disk 0 \\
                --property hw:cpu_policy=dedicated pinned
            """)

    def log(self):
        """Return nova-scheduler's log, '' before there is one."""
        raise NotImplementedError

    def change_mode(self, mode):
        """Have nova-scheduler read another mode, without a restart."""
        raise NotImplementedError

    def nova_conf(self, **default):
        """Return the nova.conf of a scheduler that knows nothing of us.

        :param default: options for [DEFAULT]
        """
        sections = nova.controller(self.cloud.state, self.cloud.state.load())
        del sections['filter_scheduler'], sections['pinning']
        sections['DEFAULT'] |= {
            'debug': False, 'state_path': '/var/lib/nova', 'use_stderr': None,
            **default}
        sections['oslo_concurrency'] = {'lock_path': '/var/lib/nova/tmp'}
        sections['scheduler']['workers'] = WORKERS
        # The page on the configuration has it, for 2026.1.
        sections['DEFAULT']['manager_shutdown_timeout'] = 0
        return files.ini(sections)

    def run_scheduler(self, *options):
        """Start a container in place of the cloud's own nova-scheduler.

        :param options: of ``docker run``
        """
        nova.NovaScheduler(self.cloud.state, self.cloud.state.load()).down()
        self.addCleanup(self.engine.run, [
            'docker', 'rm', '--force', '--volumes', 'nova_scheduler'])
        self.engine.run(['docker', 'run', '--detach', '--name',
                         'nova_scheduler', '--network', 'host', *options])

    def wait_for_self_test(self, began):
        """Wait until it has begun, and say when that was.

        :param began: of time.monotonic()
        """
        self.cloud.wait(lambda: 'self-test' in self.log(), self._why_ended)
        print(f'    {self.id()}: from a running cloud to shadow mode in '
              f'{time.monotonic() - began:.0f} s', file=sys.__stderr__)
        self.assertIn('self-test passed', self.log())

    def _why_ended(self):
        if self.engine.ask('docker', 'inspect', '--format',
                           '{{.State.Running}}', 'nova_scheduler') == 'true':
            return ''
        return self.engine.run('docker logs nova_scheduler 2>&1')

    def judge(self):
        """Guests are judged and refused nothing, until the mode changes."""
        self._boot('pinned', 'pinned')
        uuid = self._boot('shared', 'shared')
        self.assertIn(
            f'Observing instance {uuid}: HostClassFilter would refuse 1 of 1 '
            f'hosts', self.log())
        self.cloud.wait(lambda: any(
            _DIFFERED in path.read_text()
            for path in self.metrics.glob('nova-pinning-*.prom')))
        self._change_mode('observe', 'enforce')
        self._boot('refused', 'shared', 'ERROR')
        self._change_mode('enforce', 'observe')
        self._boot('again', 'shared')

    def _boot(self, name, flavor, status='ACTIVE'):
        """Boot a guest; returns its UUID."""
        self.cloud.run(
            f'openstack server create --wait --nic none --image minicloud '
            f'--flavor {flavor} {name}', 0 if status == 'ACTIVE' else 1)
        uuid, found = self.cloud.run(
            f'openstack server show {name} -f value -c id -c status').split()
        self.assertEqual(status, found)
        return uuid

    def _change_mode(self, before, after):
        changed = f'Option pinning.mode changed from [{before}] to [{after}]'
        log = self.log()
        self.assertNotIn(changed, log)
        known = log.count(_BEGINS)
        self.change_mode(after)
        # The process and its workers; with native threads there are new ones
        # of these, which begin with what the process knows.
        self.cloud.wait(lambda: (
            self.log().count(changed) == 1 + WORKERS or changed in self.log()
            and self.log().count(_BEGINS) == known + WORKERS))
