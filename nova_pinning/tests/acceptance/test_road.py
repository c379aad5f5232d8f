#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

"""The whole road, on a real cloud, with the product's own tools.

From hosts of which nothing is known to guests that run where they should.
Then things are broken on purpose, and the tools have to find them.
"""

import json
import pathlib
import shlex
import tempfile

import testtools

from nova_pinning import cpuset
from nova_pinning.tempest_plugin import checks
from nova_pinning.tempest_plugin import look
from nova_pinning.tempest_plugin import runner
from nova_pinning.tests.acceptance import minicloud

CATALOGUE = """\
version: 1
name: acceptance
flavor_name: '{family}.{size}'
sizes:
  tiny:
    one: {vcpus: 1, memory: 64MiB}
    two: {vcpus: 2, memory: 128MiB}
families:
  enterprise:
    class: dedicated
    sizes: tiny
    cpu_topology: match-host
    page_size: large
    traits:
      required: [CUSTOM_PINNING_DEDICATED]
  standard:
    class: shared
    sizes: tiny
    traits:
      required: [CUSTOM_PINNING_SHARED]
"""

SITE = """\
version: 1
groups:
  enterprise:
    class: dedicated
    hosts: [pinning-1]
    aggregate: {name: enterprise, isolated: true}
  standard:
    class: shared
    hosts: [pinning-2]
    aggregate: {name: standard, isolated: true}
others: refuse
"""

HOSTS = {'pinning-1': 'dedicated', 'pinning-2': 'shared'}


class TestRoad(testtools.TestCase):

    def setUp(self):
        super().setUp()
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = pathlib.Path(directory.name)
        self.cloud = self.useFixture(minicloud.MiniCloud(
            '--host-cpus', 'pinning-1=dedicated:0-1',
            '--host-cpus', 'pinning-2=shared:0-1',
            '--huge-pages', '128'))

    def write(self, name, text):
        path = self.directory / name
        path.write_text(text)
        return path

    def openstack(self, command, status=0):
        return self.cloud.run(f'openstack {command}', status)

    def read(self, command):
        return json.loads(self.openstack(f'{command} -f json'))

    def check(self, status):
        """Return what the audit finds: codes, and the commands that mend."""
        output = self.openstack(
            f'pinning segregation check --format json --provider-configs '
            f'{self.directory / "providers"}', status)
        found = json.loads(output)['findings']
        return ({one['code'] for one in found},
                [command for one in found for command in one['commands']])

    def test_road(self):
        self._give_traits()
        self._set_classes()
        self._register_flavors()
        self._boot()
        self.assertEqual((set(), []), self.check(0))
        self._break_traits()
        self._break_flavors()
        self._break_pins()

    def _give_traits(self):
        """Each host's provider.yaml, from what its libvirt says."""
        providers = self.directory / 'providers'
        providers.mkdir()
        options = []
        for host, host_class in HOSTS.items():
            plan = self.write(
                f'{host}.xml',
                self.cloud.run_on(host, 'virsh', 'capabilities'))
            path = providers / f'{host}.yaml'
            self.cloud.run(f'nova-pinning host provider-config {plan} --class '
                           f'{host_class} --name {host} --output {path}')
            options += ['--provider-config', f'{host}={path}']
        self.cloud.up(*options)
        for host, host_class in HOSTS.items():
            uuid, = [provider['uuid'] for provider in
                     self.read('resource provider list')
                     if provider['name'] == host]
            found = {trait['name'] for trait in
                     self.read(f'resource provider trait list {uuid}')}
            self.assertIn(f'CUSTOM_PINNING_{host_class.upper()}', found)

    def _set_classes(self):
        site = self.write('site.yaml', SITE)
        self.openstack(f'pinning segregation apply {site} --yes')
        self.openstack(f'pinning segregation apply {site} --dry-run')

    def _register_flavors(self):
        self.catalogue = self.write('flavors.yaml', CATALOGUE)
        self.cloud.run(f'nova-pinning flavor check {self.catalogue}')
        self.openstack(f'pinning flavor diff {self.catalogue}', status=1)
        self.openstack(f'pinning flavor apply {self.catalogue} --yes')
        self.openstack(f'pinning flavor diff {self.catalogue}')

    def _boot(self):
        for name, flavor, host in (
                ('e', 'enterprise.two', 'pinning-1'),
                ('s', 'standard.two', 'pinning-2')):
            self.openstack(f'server create --wait --nic none --image '
                           f'minicloud --flavor {flavor} {name}')
            server = self.read(f'server show {name}')
            self.assertEqual('ACTIVE', server['status'])
            self.assertEqual(host, server['OS-EXT-SRV-ATTR:host'])
            pins = self.cloud.run_on(
                host, 'virsh', 'vcpupin',
                server['OS-EXT-SRV-ATTR:instance_name'])
            self.assertEqual(
                [['0', '0'], ['1', '1']] if name == 'e' else
                [['0', '0-1'], ['1', '0-1']],
                [line.split() for line in pins.splitlines()[2:] if line])
        # The dedicated host is full, the shared one does not count.
        self.openstack('server create --wait --nic none --image minicloud '
                       '--flavor enterprise.one none', status=1)
        self.openstack('server delete --wait none')

    def _mend(self, commands):
        for command in commands:
            self.cloud.run(command)
        self.assertEqual((set(), []), self.check(0))

    def _break_traits(self):
        """Somebody takes a trait away."""
        uuid, = [provider['uuid'] for provider in
                 self.read('resource provider list')
                 if provider['name'] == 'pinning-1']
        kept = [trait['name'] for trait in
                self.read(f'resource provider trait list {uuid}')
                if trait['name'] != 'CUSTOM_PINNING_DEDICATED']
        self.openstack(shlex.join(
            ['resource', 'provider', 'trait', 'set', uuid, *(
                word for name in kept for word in ('--trait', name))]))
        codes, commands = self.check(1)
        # provider.yaml has a trait that Placement has not.
        self.assertIn('S601', codes)
        self._mend(commands)

    def _break_flavors(self):
        """Somebody edits a flavor."""
        self.openstack('flavor set enterprise.one --property '
                       'hw:cpu_policy=shared')
        self.openstack('flavor unset standard.two --property '
                       'trait:CUSTOM_PINNING_SHARED')
        self.openstack(f'pinning flavor diff {self.catalogue}', status=1)
        codes, _commands = self.check(1)
        # A shared flavor that may land on dedicated hosts.
        self.assertIn('S202', codes)
        self.openstack(f'pinning flavor apply {self.catalogue} --yes')
        self.openstack(f'pinning flavor diff {self.catalogue}')
        self.assertEqual((set(), []), self.check(0))

    def _break_pins(self):
        """Somebody moves a thread, or tells libvirt other CPUs."""
        server = self.read('server show e')
        domain = server['OS-EXT-SRV-ATTR:instance_name']

        def pin(cpu):
            self.cloud.run_on(
                'pinning-1', 'virsh', 'vcpupin', domain, '1', cpu, '--live')

        def complaints():
            guest = self.look_at(server['id'])
            return (checks.affinities(guest, cpuset.CpuSet([0, 1])),
                    checks.persistence(guest))

        self.assertEqual(([], []), complaints())
        # The control group of a vCPU's thread leaves it no other CPU, but
        # the emulator may use both of them.
        qemu = self.look_at(server['id']).qemu
        self.cloud.run_on('pinning-1', 'taskset', '--pid', '--cpu-list', '0',
                          str(qemu.pid))
        (moved,), _ = complaints()
        self.assertIn('emulator ', moved)
        self.cloud.run_on(
            'pinning-1', 'virsh', 'emulatorpin', domain, '0-1', '--live')
        self.assertEqual(([], []), complaints())
        pin('0')
        _, (changed,) = complaints()
        self.assertIn('vcpu_pins', changed)
        pin('1')
        self.assertEqual(([], []), complaints())

    def look_at(self, server_id):
        """Return what libvirt and the kernel say of a guest."""
        return look.at_guest(
            runner.Runner(f'{minicloud.PROGRAM} exec {{host}} -- sh -c', {}),
            'pinning-1', 'virsh --connect qemu:///system', server_id)
