# SPDX-License-Identifier: Apache-2.0
"""Two clouds on one machine, which know nothing of each other."""

import json
import tempfile

import testtools

from nova_pinning.tests.acceptance import minicloud_runner

HOST = 'pinning-1'


class TestTwoClouds(testtools.TestCase):

    def _cloud(self, *options, **where):
        """A cloud with one host, of one dedicated and one shared CPU."""
        cloud = self.useFixture(minicloud_runner.MiniCloud(
            '--hosts', '1', '--host-cpus', f'{HOST}=dedicated:1,shared:0',
            *options, **where))
        cloud.run('openstack flavor create --vcpus 1 --ram 64 --disk 0 '
                  '--property hw:cpu_policy=dedicated pinned')
        return cloud

    def _boot(self, cloud, name):
        return json.loads(cloud.run(
            'openstack server create --wait --nic none --image minicloud '
            f'--flavor pinned {name} -f json'))['id']

    def _servers(self, cloud):
        return {server['Name']: server['Status'] for server in json.loads(
            cloud.run('openstack server list -f json'))}

    def _domains(self, cloud):
        return cloud.run_on(HOST, 'virsh', 'list', '--uuid').split()

    def test_each_has_its_own(self):
        """Names of hosts, ports, guests, and an end of its own."""
        first = self._cloud()
        second = self._cloud(
            '--base-port', '18800', state=self.enterContext(
                tempfile.TemporaryDirectory(prefix='minicloud-')))
        guests = [self._boot(first, 'one'), self._boot(second, 'two')]
        self.assertEqual([{'one': 'ACTIVE'}, {'two': 'ACTIVE'}],
                         list(map(self._servers, (first, second))))
        self.assertEqual([[guest] for guest in guests],
                         list(map(self._domains, (first, second))))
        second.call('down')
        self.assertEqual({'one': 'ACTIVE'}, self._servers(first))
        self.assertEqual(guests[:1], self._domains(first))
