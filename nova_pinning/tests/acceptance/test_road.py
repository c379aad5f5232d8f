# SPDX-License-Identifier: Apache-2.0
"""The whole road, on a real cloud, with the product's own tools.

From hosts of which nothing is known to guests that run where they should.
Then things are broken on purpose, and the tools have to find them.
"""

import contextlib
import json
import pathlib
import shlex
import sys
import tempfile

import testtools

from nova_pinning.tests.acceptance import minicloud_runner

CATALOGUE = """\
version: 2
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
    page_size: small
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

# The command itself, for hosts, whose PATH is not this one.
NOVA_PINNING = str(pathlib.Path(sys.executable).parent / 'nova-pinning')

# Runs until it is told to end, on the CPUs that it is given.
BUSY = """
import os, signal, sys
signal.alarm(60)
os.sched_setaffinity(0, {int(sys.argv[1])})
if os.fork():
    os._exit(0)
os.setsid()
for number in range(3):
    os.close(number)
with open('/tmp/busy.pid', 'w') as file:
    file.write(str(os.getpid()))
while True:
    pass
"""


class TestRoad(testtools.TestCase):

    def setUp(self):
        super().setUp()
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = pathlib.Path(directory.name)
        self.cloud = self.useFixture(minicloud_runner.MiniCloud())

    def write(self, name, text):
        path = self.directory / name
        path.write_text(text)
        return path

    def openstack(self, command, status=0):
        return self.cloud.run(f'openstack {command}', status)

    def read(self, command):
        return json.loads(self.openstack(f'{command} -f json'))

    def check(self, status):
        """Return what the audit finds: codes, and the commands that fix."""
        output = self.openstack(
            f'pinning segregation check --format json --host-files '
            f'{self.directory / "plans"}', status)
        found = json.loads(output)['findings']
        return ({one['code'] for one in found},
                [command for one in found for command in one['commands']])

    def check_host(self, *options, host='pinning-1'):
        """Return what host check finds, but for what is the machine's.

        :returns: findings by code
        """
        plan = self.directory / 'plans' / f'{host}.yaml'
        output = self.cloud.run_on(
            host, NOVA_PINNING, 'host', 'check', str(plan), '--format', 'json',
            *options, statuses=(0, 1))
        found = {}
        for load in json.loads(output)['findings']:
            if not load['code'].startswith(minicloud_runner.OF_MACHINE):
                found.setdefault(load['code'], []).append(load)
        return found

    def mend_host(self, findings, host='pinning-1'):
        """Run the commands that host check says are to be run."""
        self.cloud.run_on(
            host, 'sh', '-ec', '\n'.join(command for finding in findings
                                         for command in finding['commands']))

    def test_road(self):
        self._lay_out_cpus()
        self._confine_services()
        self._set_classes()
        self._register_flavors()
        self._boot()
        self.assertEqual((set(), []), self.check(0))
        self.assertEqual({}, self.check_host())
        self._break_traits()
        self._break_flavors()
        self._break_pins()
        self._break_host()

    def _lay_out_cpus(self):
        """Look at each host, plan its CPUs, and put that into force."""
        plans = self.directory / 'plans'
        plans.mkdir()
        options = []
        for host, host_class in HOSTS.items():
            found = self.write(f'{host}.yaml', self.cloud.run_on(
                host, NOVA_PINNING, 'host', 'discover'))
            plan = plans / f'{host}.yaml'
            self.cloud.run(
                f'nova-pinning host plan {found} --class {host_class} '
                f'--host-cpus 1 --page-size none --output {plan}')
            rendered = self.directory / 'rendered' / host
            self.cloud.run(f'nova-pinning host render {plan} -o {rendered}')
            self.assertIn('nova-pinning-host.service', self.cloud.run(
                f'ls {rendered}/etc/systemd/system'))
            etc = rendered / 'etc' / 'nova'
            provider, = (etc / 'provider_config').iterdir()
            snippet, = (etc / 'nova.conf.d').iterdir()
            options += ['--host-conf', f'{host}={snippet}',
                        '--provider-config', f'{host}={provider}']
        self.assertIn('H103', self.check_host())
        self.cloud.up(*options)
        for host, host_class in HOSTS.items():
            uuid, = [provider['uuid'] for provider in
                     self.read('resource provider list')
                     if provider['name'] == host]
            found = {trait['name'] for trait in
                     self.read(f'resource provider trait list {uuid}')}
            self.assertIn(f'CUSTOM_PINNING_{host_class.upper()}', found)
            inventory = self.read(f'resource provider inventory list {uuid}')
            self.assertEqual(
                {'dedicated': ['PCPU'], 'shared': ['VCPU']}[host_class],
                [one['resource_class'] for one in inventory
                 if one['resource_class'].endswith('CPU')])

    def _confine_services(self):
        """No systemd runs here, so its drop-ins cannot do it."""
        found = self.check_host()
        self.assertEqual({'H301'}, set(found))
        self.mend_host(found['H301'])
        self.assertEqual({}, self.check_host())

    def _set_classes(self):
        site = self.write('site.yaml', SITE)
        self.openstack(f'pinning segregation apply {site} --yes')
        self.openstack(f'pinning segregation apply {site} --dry-run')

    def _register_flavors(self):
        self.catalogue = self.write('flavors.yaml', CATALOGUE)
        self.cloud.run(f'nova-pinning flavor check {self.catalogue}')
        self.openstack(f'pinning flavor apply {self.catalogue} --dry-run',
                       status=1)
        self.openstack(f'pinning flavor apply {self.catalogue} --yes')
        self.openstack(f'pinning flavor apply {self.catalogue} --dry-run')

    def _boot(self):
        for name, flavor, host in (
                ('e', 'enterprise.one', 'pinning-1'),
                ('s', 'standard.one', 'pinning-2')):
            self.openstack(f'server create --wait --nic none --image '
                           f'minicloud --flavor {flavor} {name}')
            server = self.read(f'server show {name}')
            self.assertEqual('ACTIVE', server['status'])
            self.assertEqual(host, server['OS-EXT-SRV-ATTR:host'])
            pins = self.cloud.run_on(
                host, 'virsh', 'vcpupin',
                server['OS-EXT-SRV-ATTR:instance_name'])
            # CPU 0 is the host's.
            self.assertEqual(
                [['0', '1']],
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
        # The host is of no class, and its aggregate says of which it is.
        self.assertIn('S402', codes)
        self._mend(commands)

    def _break_flavors(self):
        """Somebody edits a flavor."""
        self.openstack('flavor set enterprise.one --property '
                       'hw:cpu_policy=shared')
        self.openstack('flavor unset standard.two --property '
                       'trait:CUSTOM_PINNING_SHARED')
        self.openstack(f'pinning flavor apply {self.catalogue} --dry-run',
                       status=1)
        codes, _commands = self.check(1)
        # A shared flavor that may land on dedicated hosts.
        self.assertIn('S202', codes)
        self.openstack(f'pinning flavor apply {self.catalogue} --yes')
        self.openstack(f'pinning flavor apply {self.catalogue} --dry-run')
        self.assertEqual((set(), []), self.check(0))

    def _break_pins(self):
        """Somebody moves a thread, or tells libvirt other CPUs."""
        server = self.read('server show e')
        domain = server['OS-EXT-SRV-ATTR:instance_name']

        def virsh(command, *words):
            self.cloud.run_on('pinning-1', 'virsh', command, domain, *words)

        # Its control group leaves a thread no other CPUs than libvirt's, so
        # it takes two of them to move the emulator.
        virsh('emulatorpin', '0-1', '--live')
        self.assertEqual({}, self.check_host())
        self.cloud.run_on(
            'pinning-1', 'sh', '-c', 'taskset --pid --cpu-list 0 '
            f'"$(cat /run/libvirt/qemu/{domain}.pid)"')
        found = self.check_host()
        self.assertEqual({'H606'}, set(found))
        self.mend_host(found['H606'])
        self.assertEqual({}, self.check_host())
        virsh('emulatorpin', '1', '--live')
        virsh('vcpupin', '0', '0', '--live')
        self.assertEqual({'H603'}, set(self.check_host()))
        virsh('vcpupin', '0', '1', '--live')
        self.assertEqual({}, self.check_host())

    def _break_host(self):
        """Something runs where a guest does."""
        with self._busy('1'):
            found = self.check_host('--watch', '2')
        self.assertEqual({'H302', 'H701'}, set(found))
        self.assertTrue(
            [evidence for one in found['H701'] for evidence in one['evidence']
             if evidence['run_seconds'] > 0.1])
        self.assertEqual({}, self.check_host())

    @contextlib.contextmanager
    def _busy(self, cpu):
        """Have something run on a CPU of pinning-1."""
        self.cloud.run_on('pinning-1', sys.executable, '-c', BUSY, cpu)
        try:
            yield
        finally:
            self.cloud.run_on('pinning-1', 'sh', '-c',
                              'kill "$(cat /tmp/busy.pid)"')
