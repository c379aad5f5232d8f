# SPDX-License-Identifier: Apache-2.0

import os
import shlex
import subprocess
import sys

import ddt
import fixtures
import testtools

from nova_pinning import cpuset
from nova_pinning import errors
from nova_pinning.instance_bench import bench_errors
from nova_pinning.instance_bench import bench_model
from nova_pinning.instance_bench.platforms import hypervisor
from nova_pinning.instance_bench.platforms import process
from nova_pinning.instance_bench.platforms import settings
from nova_pinning.tests.unit.instance_bench.platforms import virsh_fakes


@ddt.ddt
class TestHypervisor(testtools.TestCase):

    def host(self, answers, **how):
        self.useFixture(fixtures.MockPatchObject(process, 'run', answers))
        return hypervisor.of_host(
            settings.PlatformSettings(**how), 'compute-1')

    def affinities(self, answers, **how):
        host = self.host(answers, **how)
        return virsh_fakes.seen(host.affinities(host.definition('x')))

    @ddt.data(
        ({}, ['virsh', '--connect', 'qemu:///system']),
        ({'hypervisor': "ssh -o 'A B' {host} --"},
         ['ssh', '-o', 'A B', 'compute-1', '--', 'virsh', '--connect',
          'qemu:///system']))
    @ddt.unpack
    def test_way_there(self, how, virsh):
        host = self.host(virsh_fakes.VirshHost(), **how)
        self.assertEqual(virsh, list(host.virsh))

    @ddt.data('ssh {host}', '/usr/bin/ssh -l root {host}')
    def test_ssh_has_a_shell(self, hypervisor_command):
        """What arrives is what was given, whatever is in it."""
        answers = virsh_fakes.VirshHost()
        host = self.host(answers, hypervisor=hypervisor_command)
        name = "a b; touch 'x'"
        host.definition(name)
        command = answers.commands[-1]
        place = command.index('virsh')
        self.assertEqual(
            ['virsh', '--connect', 'qemu:///system', 'dumpxml', name],
            shlex.split(' '.join(command[place:])))
        host.affinities(host.definition('x'))
        command = answers.commands[-1]
        words = shlex.split(' '.join(command[command.index('sh'):]))
        self.assertEqual(['sh', '-c'], words[:2])
        self.assertEqual(3, len(words))
        self.assertIn('instance-00000001.pid', words[2])

    def test_no_command(self):
        error = self.assertRaises(
            errors.InputError, self.host, virsh_fakes.VirshHost(),
            hypervisor="ssh 'h")
        self.assertIn('--hypervisor', str(error))

    def test_no_shell(self):
        for how in ({}, {'hypervisor': 'on {host}'}):
            self.assertEqual('a b', self.host(
                virsh_fakes.VirshHost(), **how).word('a b'))

    def test_english(self):
        self.useFixture(fixtures.EnvironmentVariable('LC_ALL', 'de_DE.UTF-8'))
        self.assertEqual('C\n', process.run(
            ['sh', '-c', 'echo "$LC_ALL"']))

    def test_version(self):
        self.assertEqual('7.2.22',
                         self.host(virsh_fakes.VirshHost()).version())

    def test_no_domain(self):
        answers = virsh_fakes.VirshHost()
        answers.xml = ''
        self.assertRaises(bench_errors.InstanceError,
                          self.host(answers).definition, 'x')

    def test_pinned(self):
        answers = virsh_fakes.VirshHost(threads=[
            ('CPU 0/TCG', '2'), ('CPU 1/KVM', '5'), ('qemu-system-x86', '2'),
            ('worker', '2,5'), ('vhost-9', '0-7')])
        self.assertEqual(
            [('vCPU 0', '2', '2', True),
             ('vCPU 1', '5', '5', True),
             ('emulator', '2,5', '2,5', True)],
            self.affinities(answers, hypervisor='on {host}'))
        self.assertEqual(['on', 'compute-1', 'sh', '-c'],
                         answers.commands[-1][:4])

    def test_not_in_force(self):
        answers = virsh_fakes.VirshHost(threads=[
            ('CPU 0/KVM', '2-3'), ('qemu', '2'), ('worker', '7')])
        self.assertEqual(
            [('vCPU 0', '2', '2-3', False),
             # This one is gone.
             ('vCPU 1', '5', '', False),
             ('emulator', '2,5', '2,7', False)],
            self.affinities(answers))

    @ddt.data((" cpuset='0-1'", '0-1'), ('', '0-7'))
    @ddt.unpack
    def test_floating(self, floats, over):
        answers = virsh_fakes.VirshHost(floats, '', [
            ('CPU 0/KVM', over), ('CPU 1/KVM', '0'), ('qemu', over)])
        self.assertEqual(
            [('vCPU 0', over, over, True), ('vCPU 1', over, '0', True),
             ('emulator', over, over, True)], self.affinities(answers))

    def test_real_threads(self):
        """The script finds this very process where it runs as a domain's."""
        if not os.path.exists('/sys/devices/system/cpu/online'):
            self.skipTest('the kernel does not say which CPUs are online')
        directory = self.useFixture(fixtures.TempDir()).path
        with open(f'{directory}/a b.pid', 'w') as file:
            # As libvirt writes it, without an end of line.
            file.write(str(os.getpid()))

        def run(command, run=process.run):
            *first, script = command
            self.assertEqual(['sh', '-c'], list(first))
            return run([*first, script.replace(
                '/run/libvirt/qemu', directory)])

        host = self.host(run)
        definition = virsh_fakes.VirshHost(pins='').xml.replace(
            'instance-00000001', 'a b')
        allowed = cpuset.CpuSet(os.sched_getaffinity(0))
        affinities = host.affinities(
            hypervisor.domain_xml.parse(definition))
        self.assertEqual(
            [cpuset.CpuSet(), cpuset.CpuSet(), allowed],
            [affinity.seen for affinity in affinities])
        self.assertEqual(bench_model.Affinity, type(affinities[0]))

    def test_no_such_process(self):
        """A host that cannot answer says so."""
        host = self.host(process.run)
        definition = virsh_fakes.VirshHost(pins='').xml.replace(
            'instance-00000001', 'instance-not-there')
        self.assertRaisesRegex(
            bench_errors.InstanceError, 'instance-not-there',
            host.affinities, hypervisor.domain_xml.parse(definition))


@ddt.ddt
class TestRun(testtools.TestCase):

    def test_output(self):
        self.assertEqual('out\n', process.run(
            [sys.executable, '-c', 'print("out")']))

    @ddt.data(
        (['sh', '-c', 'echo no such host >&2; exit 3'],
         'ended with status 3: no such host'),
        (['false'], 'false ended with status 1: it does not say why'),
        (['/nonexistent'], '/nonexistent: '))
    @ddt.unpack
    def test_failure(self, command, said):
        error = self.assertRaises(
            bench_errors.InstanceError, process.run, command)
        self.assertIn(said, str(error))

    def test_silent(self):
        def hang(*arguments, **options):
            raise subprocess.TimeoutExpired('virsh', options['timeout'])
        self.useFixture(fixtures.MonkeyPatch('subprocess.run', hang))
        error = self.assertRaises(
            bench_errors.InstanceError, process.run, ['virsh'])
        self.assertIn('does not end within 60 s', str(error))
