# SPDX-License-Identifier: Apache-2.0
"""Real threads, QEMU and libvirt in the wrong place are found, and fixed.

Nothing is made up but the plan, which says of this very machine that its last
CPU is dedicated and all others are not. Where a test speaks of the guests of
a host it sees its own only: other tests may run some as well.
"""

import dataclasses
import json
import os
import pathlib
import select
import shutil
import subprocess
import sys
import textwrap
import unittest

import fixtures

from minicloud import packages
from nova_pinning import cpuset
from nova_pinning.host.check import facts
from nova_pinning.host.check import gathering
from nova_pinning.host.check import host_check_run
from nova_pinning.host import discover
from nova_pinning.host import host_model
from nova_pinning.host import machine_files
from nova_pinning.host import plan_model
from nova_pinning.tests.unit.host.check import fact_samples
from nova_pinning.tests.unit import unit_base

QEMU = shutil.which('qemu-system-x86_64')
UUID = '9bf0a1d2-2f0e-4d8f-9b6d-0c7f5f3f5a1{}'
#: A process with one more thread; it ends with its input.
TWO_THREADS = '''
import sys, threading
ended = threading.Event()
threading.Thread(target=ended.wait).start()
print('ready', flush=True)
sys.stdin.read()
ended.set()
'''

_cpus = sorted(os.sched_getaffinity(0))
HOST = cpuset.CpuSet(_cpus[:-1])
FIRST = cpuset.CpuSet(_cpus[:1])
DEDICATED = cpuset.CpuSet(_cpus[-1:])

needs_qemu = unittest.skipUnless(QEMU, 'qemu-system-x86_64 is not installed')
_missing = packages.missing((
    'libvirt-daemon-system', 'libvirt-clients', 'qemu-system-x86',
    'util-linux'))
needs_libvirt = unittest.skipIf(
    os.geteuid() or _missing, f'needs root, and {", ".join(_missing)}'
    if _missing else 'needs root')


@unittest.skipIf(len(_cpus) < 2, 'needs two CPUs')
class HostCheckTestCase(unit_base.TestCase):

    def setUp(self):
        super().setUp()
        host = discover.discover_host(machine_files.Tree(), 'here')
        # There may be two CPUs only, so that the host's are shared as well.
        self.planned = dataclasses.replace(
            host, nova=host_model.NovaSettings(
                dedicated_cpus=DEDICATED, shared_cpus=HOST),
            plan=plan_model.HostPlan(plan_model.Purpose.BOTH, HOST,
                                     offer=plan_model.Offer((), {})))
        self.node = next(node.id for node in host.nodes
                         if DEDICATED.issubset(node.cpus))
        self.tree = machine_files.Tree()

    def check(self, group, **values):
        """Findings of a group of rules: 'H3', 'H6'."""
        seen = gathering.gather(self.tree, self.planned, **values)
        return [finding for finding in host_check_run.findings(
                    facts.CheckedHost(self.planned, seen))
                if finding.code.startswith(group)]

    def codes(self):
        return [one.code for one in self.check('H6')]

    def start(self, *command):
        """Start a process that ends with its input, at the latest here.

        :returns: it, having said something
        """
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.terminate)
        self.addCleanup(process.stdin.close)
        self.assertTrue(process.stdout.readline(), 'it has ended')
        return process

    def mend(self, findings, *prefix):
        """Run the very commands that are to fix it."""
        commands = [
            command for finding in findings for command in finding.remediation]
        self.assertTrue(commands)
        for command in commands:
            subprocess.run([*prefix, 'sh', '-c', command], check=True,
                           stdout=subprocess.DEVNULL)


@unittest.skipUnless(shutil.which('taskset'), 'taskset is not installed')
class ProcessesTestCase(HostCheckTestCase):

    def found(self, process):
        """Findings with evidence of a process, and that evidence only."""
        findings = []
        for one in self.check('H3'):
            evidence = tuple(piece for piece in one.evidence
                             if piece.pid == process.pid)
            if evidence:
                findings.append(dataclasses.replace(
                    one, evidence=evidence, remediation=tuple(
                        command for command in one.remediation
                        if int(command.split()[-1]) in {
                            process.pid, *(piece.tid for piece in evidence)})))
        return findings

    def threads(self, process):
        return sorted(map(int, os.listdir(f'/proc/{process.pid}/task')))

    def process(self, first, second):
        """A process whose threads may run on these CPUs."""
        process = self.start(sys.executable, '-c', TWO_THREADS)
        for tid, cpus in zip(self.threads(process), (first, second)):
            os.sched_setaffinity(tid, cpus)
        return process

    def test_confined(self):
        self.assertEqual([], self.found(self.process(HOST, FIRST)))

    def test_unconfined(self):
        process = self.process(HOST | DEDICATED, HOST | DEDICATED)
        found, = self.found(process)
        # On a machine with more CPUs than this test may use it is the other.
        self.assertIn(found.code, ('H301', 'H302'))
        self.assertEqual(self.threads(process),
                         [one.tid for one in found.evidence])
        self.assertEqual((f'taskset -apc {HOST} {process.pid}',),
                         found.remediation)
        self.mend([found])
        self.assertEqual([], self.found(process))

    def test_one_thread_misplaced(self):
        process = self.process(HOST, DEDICATED)
        found, = self.found(process)
        self.assertEqual('H302', found.code)
        one, = found.evidence
        self.assertEqual((self.threads(process)[1], DEDICATED, HOST),
                         (one.tid, one.cpus, one.expected_cpus))
        self.mend([found])
        self.assertEqual([], self.found(process))
        self.assertEqual(set(HOST), os.sched_getaffinity(one.tid))

    def test_ended(self):
        process = self.process(HOST, DEDICATED)
        process.communicate()
        self.assertEqual([], self.found(process))


class IsolatedTestCase(HostCheckTestCase):
    """Sees this machine, but of all processes only those it is shown."""

    def setUp(self):
        super().setUp()
        self.root = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        (self.root / 'sys').symlink_to('/sys')
        (self.root / 'proc').mkdir()
        for name in os.listdir('/proc'):
            if not name.isdecimal() and 'self' not in name:
                self.link(name)
        self.tree = machine_files.Tree(self.root)

    def link(self, name):
        (self.root / 'proc' / name).symlink_to(f'/proc/{name}')


@needs_qemu
class QemuTestCase(IsolatedTestCase):
    """QEMU without an operating system, and with records as libvirt's are."""

    def setUp(self):
        super().setUp()
        self.records = self.root / 'run/libvirt/qemu'
        self.records.mkdir(parents=True)

    def qemu(self, number=0, vcpu=DEDICATED, emulator=FIRST):
        """A QEMU with a vCPU, whose threads may run on these CPUs.

        :returns: its process, and the thread of its vCPU
        """
        qemu = self.start(
            QEMU, '-S', '-accel', 'tcg', '-machine', 'pc,memory-backend=m',
            '-m', '16', '-nodefaults', '-display', 'none', '-qmp', 'stdio',
            '-object', 'memory-backend-ram,id=m,size=16M,prealloc=on,'
            f'host-nodes={self.node},policy=bind', '-uuid',
            UUID.format(number), '-name',
            f'guest=guest-{number},debug-threads=on')
        tid = self._vcpu(qemu)
        for thread in os.listdir(f'/proc/{qemu.pid}/task'):
            os.sched_setaffinity(
                int(thread), vcpu if int(thread) == tid else emulator)
        self.link(str(qemu.pid))
        return qemu, tid

    def _vcpu(self, qemu):
        for command in ('qmp_capabilities', 'query-cpus-fast'):
            qemu.stdin.write(json.dumps({'execute': command}).encode())
            qemu.stdin.flush()
            while 'return' not in (
                    answer := json.loads(qemu.stdout.readline())):
                pass
        return answer['return'][0]['thread-id']

    def record(self, qemu, tid, number=0, pins=None, emulator=FIRST,
               node=None, **values):
        """What libvirt would write."""
        xml = fact_samples.sample_domain_xml(
            f'guest-{number}', UUID.format(number),
            [DEDICATED] if pins is None else pins, emulator=emulator,
            node=self.node if node is None else node, vcpus=1, **values)
        (self.records / f'guest-{number}.xml').write_text(
            f'<domstatus pid="{qemu.pid}"><vcpus>'
            f'<vcpu id="0" pid="{tid}"/></vcpus>{xml}</domstatus>')

    def put_right(self, found):
        """Do with the kernel what virsh would have libvirt do."""
        for one in found.evidence:
            os.sched_setaffinity(one.tid, one.expected_cpus)

    def test_right(self):
        self.record(*self.qemu())
        self.assertEqual([], self.check('H6'))

    def test_vcpu_moved(self):
        qemu, tid = self.qemu(vcpu=FIRST)
        self.record(qemu, tid)
        found, = self.check('H6')
        self.assertEqual(('H601', 'guest guest-0'),
                         (found.code, found.subject))
        self.assertEqual(
            (f'virsh vcpupin guest-0 0 {DEDICATED} --live',),
            found.remediation)
        self.assertEqual([tid], [one.tid for one in found.evidence])
        self.put_right(found)
        self.assertEqual([], self.check('H6'))

    def test_vcpu_floats(self):
        qemu, tid = self.qemu(vcpu=HOST | DEDICATED)
        self.record(qemu, tid, pins=())
        found, = self.check('H6')
        self.assertEqual('H602', found.code)
        self.put_right(found)
        self.record(qemu, tid, pins=[HOST])
        self.assertEqual([], self.check('H6'))

    def test_two_guests_on_a_cpu(self):
        for number in (0, 1):
            self.record(*self.qemu(number), number)
        found, = self.check('H6')
        self.assertEqual(('H604', 'guests guest-0 and guest-1'),
                         (found.code, found.subject))
        self.assertEqual(2, len({one.pid for one in found.evidence}))

    def test_one_of_two_guests(self):
        """Another guest that was put where this one is."""
        qemu, _tid = self.qemu(0)
        self.record(qemu, _tid, 0)
        other, tid = self.qemu(1, vcpu=DEDICATED)
        self.record(other, tid, 1, pins=[HOST])
        self.assertEqual(
            ['H601', 'H604'], [one.code for one in self.check('H6')])
        # Asked for the first, only what touches it is told.
        found, = self.check('H6', pids=[qemu.pid])
        self.assertEqual('H604', found.code)
        found, = (one for one in self.check('H6') if one.code == 'H601')
        self.put_right(found)
        self.assertEqual([], self.check('H6'))

    def test_emulator_astray(self):
        qemu, tid = self.qemu(emulator=DEDICATED)
        self.record(qemu, tid)
        found, = self.check('H6')
        self.assertEqual('H606', found.code)
        self.assertNotIn(tid, [one.tid for one in found.evidence])
        self.put_right(found)
        self.assertEqual([], self.check('H6'))

    def test_emulator_nobody_has_pinned(self):
        qemu, tid = self.qemu(emulator=HOST | DEDICATED)
        self.record(qemu, tid, pins=[HOST], emulator='')
        os.sched_setaffinity(tid, HOST)
        found, = self.check('H6')
        self.assertEqual('H609', found.code)
        self.put_right(found)
        self.assertEqual([], self.check('H6'))

    def test_memory_on_the_wrong_node(self):
        """Its memory is where it is: here libvirt was told another node."""
        qemu, tid = self.qemu()
        self.record(qemu, tid, node=self.node + 1)
        found = {one.code: one for one in self.check('H6')}
        # Its vCPU is on another node than its memory is to be.
        self.assertEqual({'H610', 'H612'}, set(found))
        self.assertIn('100 % of its memory', found['H610'].message)
        self.assertEqual([self.node],
                         [one.node for one in found['H610'].evidence])
        self.record(qemu, tid)
        self.assertEqual([], self.check('H6'))

    @unittest.skipUnless(shutil.which('taskset'), 'taskset is not installed')
    def test_stranger(self):
        """libvirt knows nothing of it, so that taskset has to do."""
        qemu, tid = self.qemu(vcpu=HOST | DEDICATED,
                              emulator=HOST | DEDICATED)
        found = self.check('H6')
        self.assertEqual(['H602', 'H609', 'H611'],
                         [one.code for one in found])
        self.mend(found)
        found, = self.check('H6')
        self.assertEqual('H611', found.code)
        qemu.terminate()
        qemu.wait()
        self.assertEqual([], self.check('H6'))


def virsh(inside, *arguments):
    """Run virsh.

    :param inside: words that bring it to where libvirtd is
    :returns: what it says
    """
    done = subprocess.run(
        [*inside, 'virsh', '-q', '-c', 'qemu:///system', *arguments],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        raise AssertionError(f'virsh {" ".join(arguments)}: {done.stdout}')
    return done.stdout


LIBVIRT = textwrap.dedent('''
    set -e
    for directory in /run /var/lib /var/cache /var/log /etc; do
        mkdir -p $directory/libvirt
        mount -t tmpfs tmpfs $directory/libvirt
    done
    cat > /etc/libvirt/qemu.conf <<END
    user = "root"
    group = "root"
    security_driver = "none"
    cgroup_controllers = []
    namespaces = []
    stdio_handler = "file"
    remember_owner = 0
    END
    echo 'auth_unix_rw = "none"' > /etc/libvirt/libvirtd.conf
    libvirtd -d -p /run/libvirt/pid -f /etc/libvirt/libvirtd.conf \\
        >/dev/null 2>&1
    cat /run/libvirt/pid
''')
DOMAIN = '''
<domain type="qemu"><name>guest-0</name><uuid>{uuid}</uuid>
  <memory unit="KiB">16384</memory><vcpu placement="static">1</vcpu>
  <iothreads>1</iothreads>
  <cputune><vcpupin vcpu="0" cpuset="{vcpu}"/>
    <emulatorpin cpuset="{emulator}"/>
    <iothreadpin iothread="1" cpuset="{emulator}"/></cputune>
  <numatune><memory mode="strict" nodeset="{node}"/>
    <memnode cellid="0" mode="strict" nodeset="{node}"/></numatune>
  <os><type arch="x86_64" machine="pc">hvm</type></os>
  <cpu><numa><cell id="0" cpus="0" memory="16384" unit="KiB"/></numa></cpu>
  <devices><emulator>{qemu}</emulator></devices></domain>
'''


@needs_libvirt
@unittest.skipUnless(shutil.which('taskset'), 'taskset is not installed')
class LibvirtTestCase(IsolatedTestCase):
    """A libvirt with directories and its own network, and its QEMU."""

    def setUp(self):
        super().setUp()
        started = subprocess.run(
            ['unshare', '--mount', '--net', 'sh', '-c', LIBVIRT],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if started.returncode:
            self.skipTest(f'libvirtd does not start: {started.stdout}')
        self.libvirtd = int(started.stdout)
        self.addCleanup(self.end, self.libvirtd)
        self.inside = ('nsenter', '-t', str(self.libvirtd), '-m', '--')
        for name in ('run', 'etc'):
            (self.root / name).symlink_to(f'/proc/{self.libvirtd}/root/{name}')
        xml = self.domain(DEDICATED)
        self.virsh('create', '--paused', xml)
        record = self.root / 'run/libvirt/qemu/guest-0.xml'
        self.qemu = int((record.parent / 'guest-0.pid').read_text())
        self.addCleanup(self.end, self.qemu)
        self.addCleanup(self.virsh, 'destroy', 'guest-0')
        self.link(str(self.qemu))

    def domain(self, vcpu):
        """A file that libvirt can read."""
        file = self.root / 'domain.xml'
        file.write_text(DOMAIN.format(
            uuid=UUID.format(0), vcpu=vcpu, emulator=FIRST, node=self.node,
            qemu=QEMU))
        return str(file)

    def virsh(self, *arguments):
        return virsh(self.inside, *arguments)

    def end(self, pid):
        """End a process that is nobody's child, and wait for that."""
        try:
            descriptor = os.pidfd_open(pid)
        except ProcessLookupError:
            return
        try:
            os.kill(pid, 15)
            select.select([descriptor], [], [], 30)
        except ProcessLookupError:
            pass
        finally:
            os.close(descriptor)

    def tids(self, kind):
        """Threads of the guest: 'CPU', 'IO iothread'."""
        return [int(thread.name)
                for thread in pathlib.Path(f'/proc/{self.qemu}/task').iterdir()
                if (thread / 'comm').read_text().startswith(kind)]

    def mend_all(self, *codes):
        """Have the findings' own commands fix them."""
        found = self.check('H6')
        self.assertEqual(list(codes), [one.code for one in found])
        self.mend(found, *self.inside)
        self.assertEqual([], self.check('H6'))

    def test_all_of_it(self):
        """In one test, since it takes seconds to start libvirt."""
        self.useFixture(fixtures.EnvironmentVariable(
            'LIBVIRT_DEFAULT_URI', 'qemu:///system'))
        self.assertEqual([], self.check('H6'))
        os.sched_setaffinity(self.tids('CPU')[0], HOST)
        self.mend_all('H601')
        os.sched_setaffinity(self.qemu, HOST | DEDICATED)
        self.mend_all('H606')
        os.sched_setaffinity(self.tids('IO iothread')[0], DEDICATED)
        self.mend_all('H606')
        # Told by somebody who did not ask nova.
        self.virsh('vcpupin', 'guest-0', '0', str(FIRST), '--live')
        self.assertEqual(
            [] if FIRST == HOST else ['H603'], self.codes())
