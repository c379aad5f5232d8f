# SPDX-License-Identifier: Apache-2.0
"""A compute host is lost with its guests, and comes back later."""

import json

import testtools

from minicloud import process
from nova_pinning.tempest_plugin import checks
from nova_pinning.tempest_plugin import guest_look
from nova_pinning.tempest_plugin import hosts
from nova_pinning.tempest_plugin import machine
from nova_pinning.tempest_plugin import runner
from nova_pinning.tempest_plugin import topology
from nova_pinning.tests.acceptance import minicloud_runner


class _Evacuation:
    """What both kinds of hosts go through.

    :cvar names: of the hosts, the lost one first
    :cvar options: of minicloud
    :cvar cpus: of each host, as minicloud takes them
    :cvar specs: extra specs of the guests, by their names
    """

    def setUp(self):
        super().setUp()
        self.cloud = self.useFixture(minicloud_runner.MiniCloud(
            *self.options, *(option for name in self.names for option in
                             ('--host-cpus', f'{name}={self.cpus}'))))
        for name, specs in self.specs.items():
            self.openstack(
                f'flavor create --vcpus 2 --ram 64 --disk 1 {name} ' +
                ' '.join(f'--property {key}={value}' for key, value in
                         {'hw:cpu_policy': 'dedicated', **specs}.items()))

    def openstack(self, command, status=0):
        return self.cloud.run(f'openstack {command}', status)

    def read(self, command):
        return json.loads(self.openstack(f'{command} -f json'))

    def check(self, server_id, flavor, name, *others):
        """Check all that must hold for a guest that runs on a host.

        :param flavor: its name
        :param others: names of hosts where it has allocations besides
        :returns: topology.ServerTopology
        """
        self.assertEqual(('ACTIVE', name), self.where(server_id))
        kept = topology.parse(self.cloud.get(f'/servers/{server_id}/topology'))
        commands = runner.CommandRunner(
            f'{minicloud_runner.PROGRAM} exec {{host}} -- sh -c', {}, 300.0)
        guest = guest_look.at_guest(commands, name, 'virsh', server_id)
        self.assertIsNotNone(guest, f'{name} does not have it')
        sets = hosts.CpuSetsType()(
            f'{name} ' + self.cpus.replace(',shared:', ' shared=').replace(
                ':', '='))[1]
        found = machine.parse(commands.script(name, machine.SCRIPT))
        self.assertEqual([], checks.all_of(guest, kept, sets, found, ''))
        specs = self.specs[flavor]
        if specs.get('hw:cpu_thread_policy') == 'require':
            self.assertEqual([], checks.siblings(kept, found))
        self.assertEqual(specs.get('hw:cpu_realtime') == 'yes',
                         guest.live.locked)
        self.assertEqual({host: {'PCPU': 2} for host in (name, *others)},
                         self.allocated(server_id))
        return kept

    def where(self, server_id):
        """Return a server's status and its host."""
        server = self.read(f'server show {server_id}')
        return server['status'], server['OS-EXT-SRV-ATTR:host']

    def wait_until_moved(self, server_id, status, name):
        """Wait until a server is on a host, or nova has given that up."""
        self.cloud.wait(
            lambda: (status, name) == self.where(server_id),
            lambda: minicloud_runner.why_not_moved(
                self.cloud.get, self.cloud.log, server_id))

    def allocated(self, server_id):
        """Dedicated CPUs that Placement has given a server, by host."""
        by_id = {provider['uuid']: provider['name']
                 for provider in self.read('resource provider list')}
        return {by_id[row['resource_provider']]: {
            'PCPU': row['resources'].get('PCPU', 0)} for row in self.read(
                f'resource provider allocation show {server_id}')}

    def test_lost_and_found(self):
        lost, other = self.names
        servers = {flavor: self.read(
            'server create --wait --nic none --image minicloud --flavor '
            f'{flavor} --host {lost} {flavor}')['id'] for flavor in self.specs}
        before = {flavor: self.check(server_id, flavor, lost)
                  for flavor, server_id in servers.items()}
        # With all that is on it: the guests, libvirtd, nova-compute.
        process.stop(self.cloud.state.run / f'host-{lost}.json')
        self.openstack(f'compute service set --down {lost} nova-compute')
        for flavor, server_id in servers.items():
            # Since microversion 2.95 nova leaves it stopped there.
            self.openstack(f'server evacuate {server_id}')
            self.wait_until_moved(server_id, 'SHUTOFF', other)
            self.openstack(f'server start {server_id}')
            self.cloud.wait(
                lambda: ('ACTIVE', other) == self.where(server_id))
            # Nova keeps what it had on the lost host, for that to clean up.
            there = self.check(server_id, flavor, other, lost)
            self.assertEqual(len(before[flavor].cells), len(there.cells))
        self.come_back(lost)
        self.cloud.wait(lambda: {lost} == {
            service['Host'] for service in self.read(
                f'compute service list --service nova-compute --host {lost}')
            if service['State'] == 'up'})
        # It knows that they are gone, and has room for them.
        for server_id in servers.values():
            self.cloud.wait(lambda: {other} == set(self.allocated(server_id)))
        found = self.cloud.run_on(lost, 'virsh', 'list', '--all', '--uuid')
        for flavor, server_id in servers.items():
            self.assertNotIn(server_id, found)
            # With --wait it fails without a reason.
            self.openstack('server migrate --live-migration --host '
                           f'{lost} {server_id}')
            self.wait_until_moved(server_id, 'ACTIVE', lost)
            self.check(server_id, flavor, lost)

    def come_back(self, lost):
        """The host is up again, but nobody has said so yet."""
        said = self.cloud.call('up', statuses=(1,))
        self.assertIn(f'{lost} is forced down', said)
        self.openstack(f'compute service set --up {lost} nova-compute')


class TestEvacuation(_Evacuation, testtools.TestCase):

    names = ('pinning-1', 'pinning-2')
    options = ()
    cpus = 'dedicated:0-1'
    specs = {'pinned': {}}


class TestNumaEvacuation(_Evacuation, testtools.TestCase):
    """The same with guests that need NUMA nodes, siblings or real time.

    Whichever comes first, there is room for the others.
    """

    names = ('virtual-1', 'virtual-2')
    options = ('--hosts', '0', *2 * ('--virtual-host', '2x2x2'))
    cpus = 'dedicated:0-2,4-7,shared:3'
    specs = {
        'cells': {'hw:numa_nodes': '2', 'hw:mem_page_size': '2048'},
        'siblings': {'hw:cpu_thread_policy': 'require'},
        'realtime': {'hw:cpu_realtime': 'yes', 'hw:cpu_realtime_mask': '^0'}}
