# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_pinning.tempest_plugin.process."""

import os
import subprocess
import sys
import uuid

from nova_pinning import cpuset
from nova_pinning.host import domain_xml
from nova_pinning.host import qemu_process
from nova_pinning.tempest_plugin import process
from nova_pinning.tests.unit.tempest_plugin import guest_samples
from nova_pinning.tests.unit import unit_base

# The name of one thread, as QEMU and others may choose it.
ODD = 'a) b (c'

THREADS = [
    (100, 'qemu-system-x86', '4-5', 0, 0), (101, ODD, '4-5', 3, 0),
    (102, 'IO iothread1', '0', 0, 0), (103, 'CPU 0/KVM', '4', 1, 1),
    (104, 'CPU 11/TCG', '5', 2, 7), (105, 'IO mon_iothread', '4-5', 0, 0)]
REGIONS = [
    '7f0000000000 bind:1 anon=9 dirty=9 N1=9 kernelpagesize_kB=4',
    '7f1000000000 bind=static:0-1 file=/dev/hugepages/libvirt/qemu/1-x '
    'huge dirty=32 N0=30 N1=2 kernelpagesize_kB=2048',
    '7f2000000000 prefer (many):3 anon=1 N0=1 kernelpagesize_kB=4',
    '7f3000000000 default file=/dev/hugepages/x huge '
    'kernelpagesize_kB=2048']

# Renames its own threads, pins them, and waits to be killed.
CHILD = """
import os, sys, threading
def run(name):
    tid = threading.get_native_id()
    with open(f'/proc/self/task/{tid}/comm', 'w') as file:
        file.write(name)
    cpu = min(os.sched_getaffinity(0))
    os.sched_setaffinity(tid, {cpu})
    ready.release()
    threading.Event().wait()
ready = threading.Semaphore(0)
for name in ('CPU 0/TCG', 'IO iothread1'):
    threading.Thread(target=run, args=(name,), daemon=True).start()
    ready.acquire()
print('ready', flush=True)
sys.stdin.read()
"""


class ParseTest(unit_base.TestCase):

    def test_threads(self):
        found = process.parse(guest_samples.proc(
            100, THREADS, vhost=[(200, 'vhost-100', '4', 0, 0)],
            locked_kib=1234))
        self.assertEqual(100, found.pid)
        self.assertEqual({0, 11}, set(found.vcpus))
        self.assertEqual(
            qemu_process.QemuThread(103, 'CPU 0/KVM', guest_samples.cpus('4'),
                                    domain_xml.ThreadScheduler('fifo', 1)),
            found.vcpus[0])
        self.assertEqual(domain_xml.ThreadScheduler('rr', 7),
                         found.vcpus[11].scheduler)
        self.assertEqual([1], list(found.iothreads))
        self.assertEqual(
            {'qemu-system-x86', ODD, 'IO mon_iothread'},
            {thread.name for thread in found.emulator})
        self.assertEqual([200], [thread.tid for thread in found.vhost])
        self.assertEqual(1234, found.locked_kib)
        self.assertEqual(7, len(found.threads))

    def test_vhost_threads_of_qemu_itself(self):
        found = process.parse(guest_samples.proc(
            100, [*THREADS, (106, 'vhost-100', '4', 0, 0)]))
        self.assertEqual([106], [thread.tid for thread in found.vhost])

    def test_memory(self):
        found = process.parse(guest_samples.proc(100, THREADS,
                                                 regions=REGIONS))
        cpus = guest_samples.cpus
        self.assertEqual((
            qemu_process.MemoryRegion(cpus('1'), {1: 9}, 4),
            qemu_process.MemoryRegion(cpus('0-1'), {0: 30, 1: 2}, 2048),
            qemu_process.MemoryRegion(cpus('3'), {0: 1}, 4),
            qemu_process.MemoryRegion(cpus(''), {}, 2048)), found.regions)

    def test_programs_are_no_memory(self):
        """They are in memory once, whichever node read them first."""
        mapped = '7f00 bind:1 file={} mapped=9 N0=9 kernelpagesize_kB=4'.format
        self.assertEqual((), process.parse(guest_samples.proc(
            100, THREADS, regions=[
                mapped('/usr/bin/qemu-system-x86_64'),
                mapped('/usr/lib/x86_64-linux-gnu/libc.so.6')])).regions)
        self.assertEqual(2, len(process.parse(guest_samples.proc(
            100, THREADS, regions=[
                mapped('/memfd:memory-backend-memfd\\040(deleted)'),
                mapped('/var/lib/libvirt/qemu/ram/1-x/ram-node0')])).regions))

    def test_none(self):
        self.assertIsNone(process.parse(''))

    def test_several(self):
        text = '\n'.join(guest_samples.proc(pid, [(pid, 'qemu', '0', 0, 0)])
                         for pid in (100, 300))
        error = self.assertRaises(ValueError, process.parse, text)
        self.assertEqual(
            'one guest has several processes: 100, 300', str(error))

    def test_a_thread_that_ended_meanwhile(self):
        lines = guest_samples.proc(100, THREADS).splitlines()
        kept = [line for line in lines
                if not line.startswith('/proc/100/task/101/status')]
        found = process.parse('\n'.join(kept))
        self.assertNotIn(101, [thread.tid for thread in found.threads])


class ScriptTest(unit_base.TestCase):
    """The script and the kernel of this very machine."""

    def _run(self, server_id):
        done = subprocess.run(
            ['sh', '-c', process.script(server_id)], capture_output=True,
            text=True)
        self.assertEqual('', done.stderr)
        return process.parse(done.stdout)

    def test_no_process(self):
        self.assertIsNone(self._run(str(uuid.uuid4())))

    def test_a_process(self):
        server_id = str(uuid.uuid4())
        with subprocess.Popen(
                [sys.executable, '-c', CHILD, '-uuid', server_id],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                text=True) as child:
            self.addCleanup(child.kill)
            self.assertEqual('ready\n', child.stdout.readline())
            found = self._run(server_id)
            child.stdin.close()
        first = cpuset.CpuSet([min(os.sched_getaffinity(0))])
        self.assertEqual(child.pid, found.pid)
        self.assertEqual(first, found.vcpus[0].cpus)
        self.assertEqual(first, found.iothreads[1].cpus)
        self.assertEqual([cpuset.CpuSet(os.sched_getaffinity(0))],
                         [thread.cpus for thread in found.emulator])
        self.assertEqual(guest_samples.OTHER, found.vcpus[0].scheduler)
