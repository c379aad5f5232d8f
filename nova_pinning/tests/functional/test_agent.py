# SPDX-License-Identifier: Apache-2.0
"""The agent beside a real libvirtd and real QEMUs, by what the kernel says."""

import dataclasses
import os
import pathlib
import select
import socket
import subprocess
import sys

import fixtures

from nova_pinning import cpuset
from nova_pinning.host import agent_record
from nova_pinning.host import host_model
from nova_pinning.host import hostfile_writer
from nova_pinning.host import machine_files
from nova_pinning.tests.functional import test_host_check

FIRST, DEDICATED = test_host_check.FIRST, test_host_check.DEDICATED
UUID = 'a9e27000-0000-4000-8000-00000000000{}'
# What host check finds of a guest is told by its name, and other processes of
# the same tests have guests at the same time.
NAME = f'guest-{os.getpid()}-{{}}'
# As nova 2025.2 writes it, as far as it matters.
METADATA = '''
  <metadata><nova:instance
      xmlns:nova="http://openstack.org/xmlns/libvirt/nova/1.1">
    <nova:flavor name="fast"><nova:extraSpecs>
      <nova:extraSpec name="pinning:l3_ways">2</nova:extraSpec>
    </nova:extraSpecs></nova:flavor></nova:instance></metadata>
'''
DOMAIN = '''
<domain type="qemu"><name>{name}</name><uuid>{uuid}</uuid>{metadata}
  <memory unit="KiB">16384</memory><vcpu placement="static">1</vcpu>
  <cputune><vcpupin vcpu="0" cpuset="{cpus}"/>
    <emulatorpin cpuset="{cpus}"/></cputune>
  <os><type arch="x86_64" machine="pc">hvm</type></os>
  <devices><emulator>{qemu}</emulator></devices></domain>
'''
CONFIG = '''
[agent]
plan = {root}/plan.yaml
record = {root}/agent.json
metrics_file = {root}/agent.prom
interval_seconds = 3600
'''
RESTART = '''
libvirtd -d -p /run/libvirt/pid -f /etc/libvirt/libvirtd.conf >/dev/null 2>&1
cat /run/libvirt/pid
'''


@test_host_check.needs_libvirt
class AgentTestCase(test_host_check.HostCheckTestCase):

    def setUp(self):
        super().setUp()
        self.root = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        started = subprocess.run(
            ['unshare', '--mount', '--net', 'sh', '-c',
             test_host_check.LIBVIRT],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if started.returncode:
            self.skipTest(f'libvirtd does not start: {started.stdout}')
        self.libvirtd = int(started.stdout)
        self.addCleanup(lambda: self.end(self.libvirtd))
        # It stays when the first libvirtd has gone.
        self.holder = subprocess.Popen(
            [*self.inside(), 'sh', '-c', 'echo; read line'],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.holder.stdout.readline()
        self.addCleanup(self.holder.communicate)
        # A plan, and no make-shift: these two never share a CPU.
        self.planned = dataclasses.replace(
            self.planned, nova=host_model.NovaSettings(
                dedicated_cpus=DEDICATED))
        (self.root / 'plan.yaml').write_text(
            hostfile_writer.dump(self.planned))
        (self.root / 'agent.conf').write_text(CONFIG.format(root=self.root))
        self.record = str(self.root / 'agent.json')
        load = agent_record.load
        self.useFixture(fixtures.MockPatchObject(
            agent_record, 'load', lambda tree, path=self.record: load(
                tree, path)))
        self.manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.addCleanup(self.manager.close)
        self.manager.bind(str(self.root / 'notify'))
        self.manager.settimeout(120)

    def inside(self):
        return 'nsenter', '-t', str(self.libvirtd), '-m', '--'

    def end(self, pid, number=15):
        try:
            descriptor = os.pidfd_open(pid)
        except ProcessLookupError:
            return
        try:
            os.kill(pid, number)
            select.select([descriptor], [], [], 30)
        except ProcessLookupError:
            pass
        finally:
            os.close(descriptor)

    def virsh(self, *arguments):
        return test_host_check.virsh(
            ('nsenter', '-t', str(self.holder.pid), '-m', '--'), *arguments)

    def boot(self, number, metadata='', cpus=DEDICATED):
        """Start a guest as nova does without a policy for emulator threads.

        :returns: its process
        """
        file = self.root / f'{number}.xml'
        file.write_text(DOMAIN.format(
            name=NAME.format(number), uuid=UUID.format(number),
            metadata=metadata,
            cpus=cpus, qemu=test_host_check.QEMU))
        self.virsh('create', '--paused', str(file))
        path = (f'/proc/{self.holder.pid}/root/run/libvirt/qemu/'
                f'{NAME.format(number)}.pid')
        pid = int(pathlib.Path(path).read_text())
        self.addCleanup(self.end, pid)
        return pid

    def start_agent(self, *options):
        process = subprocess.Popen(
            ['nsenter', '-t', str(self.holder.pid), '-m', '--',
             sys.executable, '-W', 'ignore', '-m', 'nova_pinning.cli.shell',
             'agent', '--config-file', str(self.root / 'agent.conf'),
             *options],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env={**os.environ, 'NOTIFY_SOCKET': str(self.root / 'notify'),
                 'PYTHONPATH': os.pathsep.join(sys.path)})
        self.addCleanup(lambda: process.poll() is None and process.kill())
        return process

    def hear(self, *texts):
        """Wait until the agent has told the service manager all of this."""
        while True:
            told = self.manager.recv(4096).decode()
            if all(text in told for text in texts):
                return told

    def await_mended(self, pid):
        """Of several rounds some may be from before libvirt has pinned it."""
        while self.emulator(pid) != FIRST:
            self.hear('2 guests')

    def emulator(self, pid):
        """Where the kernel lets a guest's emulator threads run."""
        return cpuset.CpuSet(os.sched_getaffinity(pid))

    def vcpu(self, pid):
        return next(
            cpuset.CpuSet(
                os.sched_getaffinity(int(thread.name)))
            for thread in pathlib.Path(f'/proc/{pid}/task').iterdir()
            if (thread / 'comm').read_text().startswith('CPU'))

    def test_all_of_it(self):
        """In one test, since it takes seconds to start libvirt."""
        first = self.boot(0)
        self.assertEqual(DEDICATED, self.emulator(first))
        dry = self.start_agent('--dry-run')
        text, told = dry.communicate(timeout=300)
        self.assertEqual(0, dry.returncode, told)
        self.assertIn(f'emulator threads of guest {NAME.format(0)} '
                      f'({UUID.format(0)}): CPUs {FIRST}', text)
        self.assertEqual(DEDICATED, self.emulator(first))

        agent = self.start_agent()
        self.hear('READY=1', '1 guests')
        self.assertEqual(FIRST, self.emulator(first))
        self.assertEqual(DEDICATED, self.vcpu(first))
        other = self.start_agent('--once')
        _text, trouble = other.communicate(timeout=300)
        self.assertEqual(2, other.returncode, trouble)
        self.assertIn('another agent runs', trouble)

        # A guest comes; it wants what is not there.
        second = self.boot(1, METADATA)
        self.hear('2 guests', '1 of them waiting')
        self.await_mended(second)
        # Both of them are pinned to the one CPU that there is.
        # Others may run QEMUs on this machine, too.
        self.assertEqual(
            {'H604'}, {one.code for one in self.check('H6')
                       if NAME.format('') in one.subject} - {'H611'})

        # A hard reboot: nova has libvirt start another QEMU.
        self.virsh('destroy', NAME.format(0))
        first = self.boot(0)
        self.hear('2 guests')
        self.await_mended(first)

        # The agent is killed, and another takes over.
        agent.kill()
        agent.wait()
        self.assertTrue(agent_record.load(
            machine_files.Tree(), self.record).settings)
        agent = self.start_agent()
        self.hear('READY=1', '2 guests')
        self.assertEqual(FIRST, self.emulator(first))

        # libvirtd ends, and is started anew; guests run on.
        self.end(self.libvirtd, 9)
        agent.terminate()
        _text, told = agent.communicate(timeout=300)
        self.assertEqual(0, agent.returncode, told)
        self.assertEqual(DEDICATED, self.emulator(first))
        agent = self.start_agent()
        self.hear('READY=1', '2 guests')
        self.libvirtd = int(subprocess.run(
            ['nsenter', '-t', str(self.holder.pid), '-m', '--', 'sh', '-c',
             RESTART], stdout=subprocess.PIPE, text=True).stdout)
        self.assertEqual(FIRST, self.emulator(first))

        agent.terminate()
        _text, told = agent.communicate(timeout=300)
        self.assertEqual(0, agent.returncode, told)
        self.assertIn('mount it with', told)
        for pid in first, second:
            self.assertEqual(DEDICATED, self.emulator(pid))
        self.assertTrue(agent_record.load(
            machine_files.Tree(), self.record).is_empty)
        self.assertIn('nova_pinning_agent_guests 2.0',
                      (self.root / 'agent.prom').read_text())
        for number in 0, 1:
            self.virsh('destroy', NAME.format(number))

    def test_floating_guests(self):
        """Two CPUs stand for two L3 domains, as far as the agent sees."""
        both = FIRST | DEDICATED
        for number, cpu in enumerate(both):
            path = f'/sys/devices/system/cpu/cpu{cpu}/cache/index3/id'
            if not pathlib.Path(path).exists():
                self.skipTest('the kernel does not tell of L3 caches')
            (self.root / f'id-{cpu}').write_text(f'{100 + number}')
            subprocess.run(
                ['nsenter', '-t', str(self.holder.pid), '-m', '--', 'mount',
                 '--bind', str(self.root / f'id-{cpu}'), path], check=True)
        # A third CPU would be the host's.
        extra = max(both) + 1
        node, *others = self.planned.nodes
        (self.root / 'plan.yaml').write_text(hostfile_writer.dump(
            dataclasses.replace(
                self.planned, caches=(), nodes=(dataclasses.replace(
                    node, cores=(*node.cores, (extra,)), l3_domains=()),
                    *others),
                nova=host_model.NovaSettings(shared_cpus=both),
                plan=dataclasses.replace(
                    self.planned.plan, host_cpus=cpuset.CpuSet([extra])))))
        guests = [self.boot(number, cpus=both) for number in range(2)]
        agent = self.start_agent()
        self.hear('READY=1', '2 guests')
        homes = [self.vcpu(pid) for pid in guests]
        self.assertEqual({FIRST, DEDICATED}, set(homes))
        self.assertEqual(homes, [self.emulator(pid) for pid in guests])
        # libvirt is not told, nor is nova, which would tell another host.
        self.assertIn(f"<vcpupin vcpu='0' cpuset='{both}'/>",
                      self.virsh('dumpxml', NAME.format(0)))

        # Who takes over leaves them where they are.
        agent.kill()
        agent.wait()
        agent = self.start_agent()
        self.hear('READY=1', '2 guests')
        self.assertEqual(homes, [self.vcpu(pid) for pid in guests])

        agent.terminate()
        _text, told = agent.communicate(timeout=300)
        self.assertEqual(0, agent.returncode, told)
        self.assertEqual([both] * 4, [
            place(pid) for pid in guests
            for place in (self.vcpu, self.emulator)])
