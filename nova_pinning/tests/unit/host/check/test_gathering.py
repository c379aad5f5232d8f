# SPDX-License-Identifier: Apache-2.0
"""Looking at a host: processes, guests, interrupts, pages."""

import os
import unittest

import ddt
import fixtures
import hypothesis
from hypothesis import strategies

from nova_pinning import errors
from nova_pinning.host.check import gathering
from nova_pinning.host.check import interrupt_lines
from nova_pinning.host.check import processes
from nova_pinning.host import machine_files
from nova_pinning.host import running_domains
from nova_pinning.tests.unit.host.check import fact_samples
from nova_pinning.tests.unit.host.check import sample_trees
from nova_pinning.tests.unit.host import unreadable
from nova_pinning.tests.unit import unit_base

UUID = '9bf0a1d2-2f0e-4d8f-9b6d-0c7f5f3f5a11'
QEMU = ('/usr/bin/qemu-system-x86_64', '-name', 'guest=vm,debug-threads=on',
        '-machine', 'pc', '-uuid', UUID)
XML = fact_samples.sample_domain_xml('vm', UUID, ('0', '1'), emulator='0',
                                     node=0)
MAPS = '''\
5556b2921000 bind:0 anon=20 dirty=20 N0=20 kernelpagesize_kB=4
5556dc46e000 default heap anon=1095 dirty=1095 N1=1095 kernelpagesize_kB=4
7ffc33330000 default stack anon=5 N1=5 kernelpagesize_kB=4
7f9abfe00000 bind:0
7f9ac4000000 bind:0 file=/dev/hugepages/libvirt/qemu/1-vm/x huge N0=2 \
kernelpagesize_kB=2048
7f9ad4000000 default file=/usr/lib/libc.so.6 mapped=9 N1=9 kernelpagesize_kB=4
'''
V1 = '9:name=systemd:{}\n3:cpuset:/other.slice\n0::/wrong.service'


class MachineTestCase(unit_base.TestCase):

    def setUp(self):
        super().setUp()
        self.machine = sample_trees.Machine(self.useFixture(
            fixtures.TempDir()).path)
        self.tree = machine_files.Tree(self.machine.root)

    def gather(self, **values):
        return gathering.gather(self.tree, fact_samples.planned(), **values)

    def forbid(self, path):
        """Let nobody read a file, not even root."""
        self.useFixture(unreadable.files(
            lambda opened: opened.endswith(path)))


@ddt.ddt
class ProcessesTestCase(MachineTestCase):

    def process(self, pid=7):
        return processes.process(self.tree, pid)

    def test_threads(self):
        self.machine.process(
            7, 'nova (x) y', '0', '/usr/bin/nova', '--debug',
            cgroup='0::/system.slice/nova-compute.service', threads=(
                (9, 'io', '0-1'),
                (10, 'iou-wrk-7', '0', sample_trees.MUST_STAY)))
        found = self.process()
        self.assertEqual(('nova (x) y', ('/usr/bin/nova', '--debug'),
                          'nova-compute.service', True, False),
                         (found.name, found.arguments, found.unit,
                          found.may_move, found.of_kernel))
        self.assertEqual([(7, '0', True), (9, '0-1', True), (10, '0', False)],
                         [(thread.tid, str(thread.cpus), thread.may_move)
                          for thread in found.threads])
        self.assertEqual(1, found.threads[0].last_cpu)

    @ddt.data((0, True), (sample_trees.MUST_STAY, False))
    @ddt.unpack
    def test_of_kernel(self, flag, may_move):
        self.machine.process(7, 'kswapd0', '0',
                             flags=sample_trees.OF_KERNEL | flag)
        found = self.process()
        self.assertTrue(found.of_kernel)
        self.assertIs(may_move, found.may_move)

    def test_wiped_command_line(self):
        self.machine.process(7, 'odd', '0')
        self.assertEqual(('odd',), self.process().arguments)

    def test_zombie(self):
        self.machine.process(7, 'gone', '0', state='Z')
        self.assertIsNone(self.process())

    def test_zombie_leader(self):
        """What a process' first thread leaves behind does not run."""
        self.machine.process(7, 'x', '0', threads=((8, 'y', '0'),))
        self.machine.thread(7, 7, 'x', '0', state='Z')
        self.assertEqual([8],
                         [thread.tid for thread in self.process().threads])

    def test_ends_meanwhile(self):
        self.machine.process(7, 'x', '0')
        (self.machine.root / 'proc/7/task/7/status').unlink()
        self.assertIsNone(self.process())
        (self.machine.root / 'proc/7/stat').unlink()
        self.assertIsNone(self.process())

    @ddt.data(
        ('0::/system.slice/a.service', 'a.service'),
        ('0::/system.slice/a.service/child', 'a.service'),
        ('0::/user.slice/user-0.slice/session-1.scope', 'session-1.scope'),
        ('0::/user.slice/user-1.slice/user@1.service/app.slice/b.service',
         'b.service'),
        ('0::/system.slice', 'system.slice'),
        ('0::/', ''), ('', ''), ('0::/docker/0123', ''),
        (V1.format('/system.slice/a.service'), 'a.service'),
        (V1.format('/machine.slice/machine-qemu\\x2d1.scope/emulator'),
         'machine-qemu\\x2d1.scope'))
    @ddt.unpack
    def test_unit(self, cgroup, unit):
        self.machine.process(7, 'x', '0', 'x', cgroup=cgroup)
        self.assertEqual(unit, self.process().unit)

    def test_whoever_looks(self):
        self.machine.process(7, 'x', '0', 'x')
        self.machine.process(8, 'y', '0', 'y')
        (self.machine.root / 'proc/self').symlink_to('7')
        self.assertEqual([8],
                         [process.pid for process in self.gather().processes])

    def test_many(self):
        for pid in range(100, 140):
            self.machine.process(pid, 'x', '0', 'x', threads=tuple(
                (1000 * pid + tid, 'y', '0') for tid in range(4)))
        found = self.gather().processes
        self.assertEqual(200, sum(len(one.threads) for one in found))


@ddt.ddt
class GuestsTestCase(MachineTestCase):

    def setUp(self):
        super().setUp()
        self.machine.process(50, 'cron', '0', '/usr/sbin/cron')

    def qemu(self, pid=7, *arguments, vhost=True):
        self.machine.process(
            pid, 'qemu-system-x86', '0', *(arguments or QEMU), threads=(
                (pid + 1, 'CPU 0/KVM', '0'), (pid + 2, 'CPU 1/KVM', '1'),
                (pid + 3, 'IO iothread1', '0')))
        self.machine.write(f'/proc/{pid}/numa_maps', MAPS)
        if vhost:
            self.machine.process(pid + 5, f'vhost-{pid}', '0',
                                 flags=sample_trees.OF_KERNEL)

    def test_known(self):
        self.qemu()
        self.machine.guest('vm', 7, XML, {0: 9, 1: 8})
        seen = self.gather()
        self.assertEqual([50], [process.pid for process in seen.processes])
        guest, = seen.guests
        self.assertEqual(('vm', UUID, False, True),
                         (guest.name, guest.uuid, guest.is_stranger,
                          guest.is_asked_for))
        # libvirt knows better than the names of the threads.
        self.assertEqual({0: 9, 1: 8}, {
            vcpu: thread.tid for vcpu, thread in guest.qemu.vcpus.items()})
        self.assertEqual([10], [
            iothread.tid for iothread in guest.qemu.iothreads.values()])
        self.assertEqual([12], [one.tid for one in guest.qemu.vhost])
        self.assertEqual([7], [one.tid for one in guest.qemu.emulator])
        self.assertEqual(12, guest.qemu.locked_kib)
        self.assertEqual('0', str(guest.domain.emulator_pin))

    def test_starting(self):
        """Its threads are not yet where they will be."""
        self.qemu()
        self.machine.guest('vm', 7, XML, {}, 'paused', 'starting up')
        for chosen in None, [7]:
            seen = self.gather(pids=chosen)
            guest, = seen.guests
            self.assertEqual((False, False),
                             (guest.is_stranger, guest.is_asked_for))
            unread, = seen.unread
            self.assertEqual(('vm', 'libvirt is starting it'),
                             (unread.path, unread.reason))

    def test_started_meanwhile(self):
        """Its threads were looked at before, its record afterwards."""
        self.qemu()
        self.machine.guest('vm', 7, XML, {0: 8, 1: 9})
        self.machine.thread(7, 9, 'CPU 1/KVM', '0-1')
        text = self.tree.text

        def read(path):
            if path.endswith('/vm.xml'):
                self.machine.thread(7, 9, 'CPU 1/KVM', '1')
            return text(path)

        self.useFixture(fixtures.MockPatchObject(self.tree, 'text', read))
        guest, = self.gather().guests
        self.assertEqual('1', str(guest.qemu.vcpus[1].cpus))

    def test_memory(self):
        self.qemu()
        guest, = self.gather().guests
        self.assertEqual([({0: 20}, 4), ({0: 2}, 2048)], [
            (region.pages, region.page_size_kib)
            for region in guest.qemu.regions])

    def test_stranger(self):
        self.qemu()
        (self.machine.root / 'run/libvirt/qemu').mkdir(parents=True)
        guest, = self.gather().guests
        self.assertEqual(('vm', UUID, True, None),
                         (guest.name, guest.uuid, guest.is_stranger,
                          guest.domain))
        self.assertEqual({0: 8, 1: 9}, {
            vcpu: thread.tid for vcpu, thread in guest.qemu.vcpus.items()})

    def test_no_records(self):
        """libvirt may run where its files are not to be seen."""
        self.qemu()
        seen = self.gather()
        self.assertFalse(seen.guests[0].is_stranger)
        unread, = seen.unread
        self.assertEqual(
            ('/run/libvirt/qemu', 'what libvirt has pinned in guests'),
            (unread.path, unread.hides))

    @ddt.data('libvirtd', 'virtqemud')
    def test_libvirt_in_a_container(self, name):
        """It has a directory that the host has not."""
        self.qemu()
        self.machine.process(50, name, '0', f'/usr/sbin/{name}')
        self.machine.guest('vm', 7, XML, {0: 9, 1: 8})
        root = self.machine.root / 'proc/50/root'
        root.mkdir()
        (self.machine.root / 'run').rename(root / 'run')
        # In a dump they would be those of the machine that looks at it.
        guest, = self.gather().guests
        self.assertIsNone(guest.domain)
        self.useFixture(fixtures.MockPatch(
            'nova_pinning.host.machine_files.Tree.is_live', True))
        seen = self.gather()
        guest, = seen.guests
        self.assertEqual((), seen.unread)
        self.assertEqual('0', str(guest.domain.emulator_pin))

    def test_other_emulator(self):
        """libvirt may be told to use any program."""
        self.qemu(7, '/opt/emulator', '-uuid', UUID)
        self.machine.guest('vm', 7, XML, {0: 8, 1: 9})
        self.assertEqual('vm', self.gather().guests[0].name)

    def test_record_of_an_earlier_process(self):
        self.machine.process(7, 'bash', '0', 'bash')
        self.machine.guest('vm', 7, XML, {0: 8})
        self.assertEqual((), self.gather().guests)

    @ddt.data('', '<domstatus', '<domstatus pid="7"/>',
              '<domstatus pid="x"><domain/></domstatus>',
              '<domstatus pid="7"><domain/></domstatus>',
              '<network/>', '<domstatus pid="7"><vcpus><vcpu id="x"/>'
              f'</vcpus>{XML}</domstatus>')
    def test_odd_record(self, text):
        self.qemu()
        self.machine.write('/run/libvirt/qemu/vm.xml', text)
        self.machine.write('/run/libvirt/qemu/vm.pid', '7')
        guest, = self.gather().guests
        self.assertIsNone(guest.domain)

    def test_record_not_readable(self):
        self.qemu()
        self.machine.guest('vm', 7, XML, {0: 8})
        self.forbid('/run/libvirt/qemu/vm.xml')
        seen = self.gather()
        guest, = seen.guests
        self.assertIsNone(guest.domain)
        self.assertFalse(guest.is_stranger)
        unread, = seen.unread
        self.assertEqual(
            ('/run/libvirt/qemu/vm.xml', 'permission denied',
             'what libvirt has pinned in guests'),
            (unread.path, unread.reason, unread.hides))

    def test_memory_not_readable(self):
        self.qemu()
        self.qemu(27, *QEMU[:3])
        (self.machine.root / 'run/libvirt/qemu').mkdir(parents=True)
        self.forbid('/numa_maps')
        seen = self.gather()
        unread, = seen.unread
        self.assertEqual('/proc/7/numa_maps and 1 more', unread.path)
        self.assertEqual((), seen.guests[0].qemu.regions)

    def test_asked_for(self):
        self.qemu()
        self.qemu(27, *QEMU[:3])
        self.assertEqual({7: False, 27: True}, {
            guest.qemu.pid: guest.is_asked_for
            for guest in self.gather(pids=[27]).guests})

    @ddt.data(
        (('qemu-kvm',), 'QEMU 7'),
        (('/usr/libexec/qemu-kvm', '-name', 'x'), 'x'),
        (('qemu-system-aarch64', '-name', 'debug-threads=on,guest=y'), 'y'),
        (('qemu-system-x86_64', '--name'), 'QEMU 7'))
    @ddt.unpack
    def test_names(self, arguments, name):
        self.qemu(7, *arguments)
        self.assertEqual(name, self.gather().guests[0].name)

    @ddt.data(
        ('qemu-system-x86_64', '-S', '-machine', 'none,accel=kvm:tcg'),
        ('qemu-img', 'convert'), ('vim', 'qemu-kvm'))
    def test_no_guests(self, *arguments):
        """libvirt starts QEMU without a machine to see what it can do."""
        self.qemu(7, *arguments, vhost=False)
        seen = self.gather()
        self.assertEqual((), seen.guests)
        self.assertEqual([7, 50], [process.pid for process in seen.processes])

    def test_vhost_of_nobody(self):
        self.machine.process(12, 'vhost-7', '0', flags=sample_trees.OF_KERNEL)
        self.assertEqual([12, 50],
                         [process.pid for process in self.gather().processes])

    def test_names_of_vhost(self):
        """Anybody can call a process like that."""
        self.qemu(vhost=False)
        self.machine.process(12, 'vhost-7', '0', './vhost-7')
        seen = self.gather()
        self.assertEqual([12, 50], [process.pid for process in seen.processes])
        self.assertEqual((), seen.guests[0].qemu.vhost)


@ddt.ddt
class InterruptsTestCase(MachineTestCase):

    def test_interrupts(self):
        self.machine.interrupt(9, 'acpi', '0-1')
        self.machine.interrupt(30, 'eth0-rx-0,eth0-tx-0', '0-1', '1',
                               fact_samples.NIC)
        self.machine.write(f'/sys/bus/pci/devices/{fact_samples.GPU}/irq', 31)
        self.machine.interrupt(31, 'nvidia', '0', '0')
        # Nobody handles it.
        self.machine.interrupt(32, '', '0')
        first, second, third = self.gather().interrupts
        self.assertEqual(
            (9, ('acpi',), '', '0-1', ''),
            (first.number, first.names, first.device, str(first.cpus),
             str(first.effective_cpus)))
        self.assertEqual(
            (('eth0-rx-0', 'eth0-tx-0'), fact_samples.NIC, '1'),
            (second.names, second.device, str(second.effective_cpus)))
        self.assertEqual(fact_samples.GPU, third.device)

    @ddt.data(('nvme0q0', False), ('nvme0q12', True), ('eth0', False),
              ('virtio1-req.0', True), ('virtio2-request', True),
              ('virtio2-input.0', False), ('mpt3sas0-msix1', True))
    @ddt.unpack
    def test_managed_by_name(self, name, is_managed):
        self.machine.interrupt(9, name, '0')
        found, = interrupt_lines.interrupts(self.tree)
        self.assertIs(is_managed, found.managed)

    def test_managed_by_mode(self):
        self.machine.interrupt(9, 'eth0', '0').chmod(0o444)
        found, = interrupt_lines.interrupts(self.tree)
        self.assertTrue(found.managed)

    @ddt.data(
        ('', None), ('A=1', None),
        ('IRQBALANCE_BANNED_CPULIST=1-3', '1-3'),
        ('IRQBALANCE_BANNED_CPULIST=1-3\0IRQBALANCE_BANNED_CPUS=f0', '1-3'),
        ('IRQBALANCE_BANNED_CPUS=00000001,000000f0', '4-7,32'),
        ('IRQBALANCE_BANNED_CPULIST=x', ''),
        ('IRQBALANCE_BANNED_CPUS=x', ''))
    @ddt.unpack
    def test_irqbalance(self, environment, banned):
        self.machine.process(7, 'irqbalance', '0', '/usr/sbin/irqbalance')
        self.machine.write('/proc/7/environ', environment)
        found = self.gather().irqbalance
        self.assertEqual(7, found.pid)
        if banned is None:
            self.assertIsNone(found.banned_cpus)
        else:
            self.assertEqual(banned, str(found.banned_cpus))

    def test_no_irqbalance(self):
        self.machine.process(7, 'cron', '0', 'cron')
        self.assertIsNone(self.gather().irqbalance)

    def test_irqbalance_not_readable(self):
        self.machine.process(7, 'irqbalance', '0', '/usr/sbin/irqbalance')
        self.machine.write('/proc/7/environ', '')
        self.forbid('/environ')
        seen = self.gather()
        self.assertIsNone(seen.irqbalance)
        self.assertEqual('which CPUs irqbalance keeps interrupts off',
                         seen.unread[0].hides)


@ddt.ddt
class GatherTestCase(MachineTestCase):

    def test_host(self):
        self.machine.write('/proc/sys/kernel/hostname', 'cmp-7')
        self.machine.write('/proc/irq/default_smp_affinity', '3')
        self.machine.write('/sys/devices/virtual/workqueue/cpumask', '1')
        self.machine.write('/proc/sys/kernel/numa_balancing', '1')
        self.machine.write('/sys/kernel/mm/ksm/run', '1')
        seen = self.gather()
        # The plan may be that of a kind of hosts.
        self.assertEqual('cmp-7', seen.host.name)
        self.assertEqual('0-1', str(seen.host.cpus))
        self.assertEqual({(0, 2048): 5}, seen.free_pages)
        self.assertEqual(('0-1', '0', True, True), (
            str(seen.default_interrupt_cpus), str(seen.workqueue_cpus),
            seen.numa_balancing, seen.merges_pages))
        self.assertEqual((), seen.unread)

    def test_started_unknown(self):
        self.machine.process(7, 'x', '0')
        self.assertIsNone(processes.started(self.tree, 7))
        self.machine.write('/proc/stat', 'cpu 1\nbtime 1000')
        self.assertEqual(1000, processes.started(self.tree, 7))
        self.assertIsNone(processes.started(self.tree, 8))

    def test_hidden_processes(self):
        """/proc is mounted with hidepid, or it is a dump without it."""
        (self.machine.root / 'proc' / '1').rmdir()
        unread, = self.gather().unread
        self.assertEqual(
            ('/proc', 'they are hidden (hidepid) or not there',
             'whether processes of other users are where they should be'),
            (unread.path, unread.reason, unread.hides))

    def test_bare(self):
        seen = self.gather()
        self.assertEqual((None, None, False, False), (
            seen.default_interrupt_cpus, seen.workqueue_cpus,
            seen.numa_balancing, seen.merges_pages))

    @ddt.data((1999, 0), (2001, 0), (2003, 1))
    @ddt.unpack
    def test_outdated(self, changed, count):
        """Started 1000 seconds after the machine, at 2000."""
        self.machine.write('/proc/stat', 'cpu 1\nbtime 1000\nprocesses 1')
        self.machine.process(
            7, 'nova-compute', '0', 'python3', '/usr/bin/nova-compute')
        self.machine.write('/proc/7/stat', sample_trees.stat_line(
            7, 'nova-compute', started=100000))
        file = self.machine.write('/etc/nova/nova.conf', '')
        os.utime(file, (changed, changed))
        conf = fact_samples.facts.NovaConf(
            (str(file), f'{file}.gone'), fact_samples.planned().nova)
        self.assertEqual(count, len(self.gather(nova_conf=conf).outdated))
        self.assertEqual((), self.gather().outdated)

    def test_without_numa(self):
        for path in ('node0/hugepages/hugepages-2048kB/nr_hugepages',
                     'node0/hugepages/hugepages-2048kB/free_hugepages'):
            (self.machine.root / 'sys/devices/system/node' / path).unlink()
        root = self.machine.root / 'sys/devices/system'
        (root / 'node').rename(root / 'elsewhere')
        self.machine.write(
            '/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages', 3)
        self.machine.write(
            '/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages', 4)
        self.assertEqual({(0, 2048): 3}, self.gather().free_pages)

    def test_no_machine(self):
        tree = machine_files.Tree(self.useFixture(fixtures.TempDir()).path)
        self.assertRaises(errors.InputError, gathering.gather, tree,
                          fact_samples.planned())

    @unittest.skipUnless(os.path.exists('/proc/self/task'), 'needs Linux')
    def test_this_machine(self):
        """Whatever runs here, it is read without a word."""
        seen = gathering.gather(machine_files.Tree(), fact_samples.planned())
        self.assertIn(os.getppid(),
                      [process.pid for process in seen.processes])
        self.assertNotIn(os.getpid(),
                         [process.pid for process in seen.processes])


class ParserTestCase(unit_base.TestCase):

    @unit_base.settings(200)
    @hypothesis.given(strategies.text(max_size=15), strategies.integers(
        0, 2 ** 32 - 1))
    def test_state(self, name, flags):
        """Names may hold whatever they like."""
        self.assertEqual(
            (name, 'S', flags),
            processes._state(sample_trees.stat_line(7, name, flags)))

    @unit_base.settings(300)
    @hypothesis.given(strategies.text(max_size=200))
    def test_record(self, text):
        """libvirt may be half way through writing it."""
        whole = (f'<domstatus pid="7"><vcpus><vcpu id="0" pid="8"/></vcpus>'
                 f'{XML}</domstatus>')
        self.assertIsNone(running_domains.parse(text))
        for cut in range(0, len(whole) - 1, 37):
            self.assertIsNone(running_domains.parse(whole[:cut]))
        self.assertEqual({8: 0}, running_domains.parse(whole).vcpu_tids)
