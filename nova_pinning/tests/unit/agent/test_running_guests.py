# SPDX-License-Identifier: Apache-2.0
"""Guests as libvirt's files and the kernel tell of them."""

import os
import pathlib

import fixtures

from nova_pinning.agent import agent_model
from nova_pinning.agent import kernel_files
from nova_pinning.agent import running_guests
from nova_pinning import cpuset
from nova_pinning.tests.unit.host import unreadable
from nova_pinning.tests.unit import unit_base

_UUID = 'a9e27000-0000-4000-8000-00000000000{}'
_STATE = '''
<domstatus state='running' pid='{pid}'>
  <vcpus><vcpu id='0' pid='{vcpu}'/></vcpus>
  <domain type='kvm' id='{number}'><name>guest-{number}</name>
    <uuid>{uuid}</uuid><metadata>{metadata}</metadata><vcpu>1</vcpu>
    <cputune><vcpupin vcpu='0' cpuset='2'/>
      <emulatorpin cpuset='0,2'/></cputune>
    <devices><interface type='bridge'><target dev='tap{number}'/></interface>
      <interface type='hostdev'/></devices></domain></domstatus>
'''
_METADATA = '''<nova:instance xmlns:nova="http://openstack.org/xmlns/libvirt/\
nova/1.1"><nova:flavor name="f">{}</nova:flavor></nova:instance>'''
_SPECS = ('<nova:extraSpecs><nova:extraSpec name="pinning:l3_ways">3'
          '</nova:extraSpec></nova:extraSpecs>')


class RunningGuestsTestCase(unit_base.TestCase):

    def setUp(self):
        super().setUp()
        self.root = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        self.seen = []
        test = self

        class Tree(kernel_files.WritableTree):
            """Notes what is looked at."""

            def text(self, path):
                test.seen.append(path)
                return super().text(path)

            def names(self, path):
                test.seen.append(path)
                return super().names(path)

        self.source = running_guests.RunningGuests(
            Tree(self.root), flavors={'f': {'pinning:l3_ways': '9'}})
        self.write('proc/sys/kernel/osrelease', '6.8.0\n')

    def write(self, path, text):
        path = self.root / path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def path(self, number):
        return self.root / f'run/libvirt/qemu/guest-{number}.xml'

    def start(self, number, metadata='', pid=0):
        pid = pid or 100 * number
        self.write(f'proc/{pid}/cmdline',
                   f'qemu\0-uuid\0{_UUID.format(number)}\0')
        for tid, name in enumerate((
                'qemu-system-x86', 'CPU 0/KVM', 'IO iothread1', 'worker',
                f'vhost-{pid}'), pid):
            self.write(f'proc/{pid}/task/{tid}/comm', f'{name}\n')
        self.write(f'run/libvirt/qemu/guest-{number}.xml', _STATE.format(
            number=number, uuid=_UUID.format(number), pid=pid, vcpu=pid + 1,
            metadata=metadata))

    def names(self):
        return [guest.name for guest in self.source.guests()]

    def test_a_guest(self):
        self.start(1)
        guest, = self.source.guests()
        self.assertEqual(agent_model.AgentGuest(
            _UUID.format(1), 'guest-1', 100, {0: cpuset.CpuSet([2])},
            cpuset.CpuSet([0, 2]), '', frozenset(range(100, 105)),
            frozenset([101]), frozenset([104]), frozenset([100, 103]),
            interfaces=1, taps=('tap1',)), guest)

    def test_starting(self):
        """A thread that is to be a vCPU has the name of QEMU at first."""
        self.start(1)
        self.write('proc/100/task/101/comm', 'qemu-system-x86\n')
        started = self.path(1).read_text()
        self.path(1).write_text(started.replace(
            "state='running'", "state='paused' reason='starting up'"))
        self.assertEqual([], self.source.guests())
        # libvirt has pinned it, and knows the thread by its number.
        self.path(1).write_text(started)
        guest, = self.source.guests()
        self.assertEqual({101}, guest.vcpu_tasks)
        self.assertNotIn(101, guest.emulator_tasks)

    def test_in_the_order_in_which_they_came(self):
        for number in 3, 1, 2:
            self.start(number)
        self.assertEqual(['guest-1', 'guest-2', 'guest-3'], self.names())

    def test_where_emulator_threads_are(self):
        """Libvirt has a control group for them, by either version."""
        self.start(1)
        for line in ('0::/machine.slice/a.scope/libvirt/emulator',
                     '4:cpuset:/machine/a.libvirt-qemu/emulator'):
            self.write('proc/100/cgroup', f'{line}\n')
            guest, = self.source.guests()
            self.assertRegex(guest.emulator_group,
                             '^/sys/fs/cgroup/.*/emulator/cpuset.cpus$')
        self.write('proc/100/cgroup', '0::/user.slice\n')
        guest, = self.source.guests()
        self.assertEqual('', guest.emulator_group)

    def test_who_has_ended(self):
        """Libvirt, too, may have, so that nobody takes its file away."""
        for number in 1, 2:
            self.start(number)
        self.write('proc/100/cmdline', 'another\0')
        self.assertEqual(['guest-2'], self.names())
        self.path(2).unlink()
        self.assertEqual([], self.names())

    def test_a_hard_reboot(self):
        self.start(1)
        self.assertEqual([100], [
            guest.pid for guest in self.source.guests()])
        self.start(1, pid=700)
        self.assertEqual([700], [
            guest.pid for guest in self.source.guests()])

    def test_a_file_that_makes_no_sense(self):
        """The guest is as it was seen last."""
        self.start(1)
        before = self.source.guests()
        for text in '', '<domstatus', '<domstatus/>', '<a><domain/></a>':
            self.path(1).write_text(text)
            self.assertEqual(before, self.source.guests())
        self.write('run/libvirt/qemu/other.xml', 'x')
        with self.assertLogs(running_guests.LOG) as told:
            self.assertEqual(before, self.source.guests())
        self.assertIn('other.xml makes no sense', told.output[0])

    def test_nobody_knows(self):
        """Which is not the same as no guests."""
        error = self.assertRaises(running_guests.GuestsUnknownError,
                                  self.source.guests)
        self.assertIn('/run/libvirt/qemu: ', str(error))
        self.path(1).parent.mkdir(parents=True)
        self.assertEqual([], self.source.guests())

    def test_who_may_not_look(self):
        self.start(1)
        with unreadable.files(lambda path: path.endswith('.xml')):
            error = self.assertRaises(running_guests.GuestsUnknownError,
                                      self.source.guests)
        self.assertIn('guest-1.xml: permission denied', str(error))

    def test_changes(self):
        told = [self.source.changed()]
        for change in (lambda: self.start(1), lambda: self.start(2),
                       self.path(2).unlink):
            change()
            # The clock of files is a coarse one.
            os.utime(self.path(1).parent, ns=(0, len(told) * 10 ** 9))
            told.append(self.source.changed())
        self.assertEqual(len(told), len({*told}))

    def test_what_a_flavor_asks_for(self):
        # What nova wrote is what the guest was started with.
        for metadata, ways in (('', 0), (_METADATA.format(''), 9),
                               (_METADATA.format(_SPECS), 3)):
            self.start(1, metadata)
            guest, = self.source.guests()
            self.assertEqual(agent_model.Wishes(ways), guest.wishes)

    def test_nonsense_in_a_flavor(self):
        for text in ('-1', 'x', '9' * 30, '1.5', ''):
            wishes = running_guests.wishes({'pinning:l3_ways': text})
            self.assertEqual(0, wishes.l3_ways)
            self.assertTrue(wishes.problems)

    def test_vhost_is_looked_for_once(self):
        """Before Linux 6.4 it is in processes of its own."""
        for number in 1, 2, 3:
            self.start(number)
            self.write(f'proc/{100 * number + 50}/comm',
                       f'vhost-{100 * number}\n')
        self.source.guests()
        self.assertNotIn('/proc', self.seen)
        self.write('proc/sys/kernel/osrelease', '6.1.0-18-amd64\n')
        for number, guest in enumerate(self.source.guests(), 1):
            self.assertEqual({100 * number + 4, 100 * number + 50},
                             guest.vhost)
        for path in '/proc', '/proc/150/comm':
            self.assertEqual(1, self.seen.count(path))
