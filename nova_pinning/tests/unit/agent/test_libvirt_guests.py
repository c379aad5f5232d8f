# SPDX-License-Identifier: Apache-2.0
"""Guests as libvirt tells of them, and a libvirt that does not answer."""

import pathlib
import sys
import threading
import types
from unittest import mock

import fixtures

from nova_pinning.agent import bounded_calls
from nova_pinning.agent import guest_processes
from nova_pinning.agent import kernel_files
from nova_pinning.agent import libvirt_guests
from nova_pinning import cpuset
from nova_pinning.tests.unit import unit_base

_UUID = 'a9e27000-0000-4000-8000-00000000000{}'
_XML = ('<domain><uuid>{}</uuid><name>{}</name><vcpu>1</vcpu><devices>'
        '<interface><target dev="tap{}"/></interface></devices></domain>')


class Tree(kernel_files.WritableTree):
    """Notes what is looked at."""

    def __init__(self, root):
        super().__init__(root)
        self.seen = []

    def text(self, path):
        self.seen.append(path)
        return super().text(path)

    def names(self, path):
        self.seen.append(path)
        return super().names(path)


class TreeTestCase(unit_base.TestCase):

    def setUp(self):
        super().setUp()
        self.root = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        self.files = Tree(self.root)

    def write(self, path, text):
        path = self.root / path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def add(self, pid, name, *threads, uuid=''):
        self.write(f'proc/{pid}/comm', f'{name}\n')
        self.write(f'proc/{pid}/cmdline', f'qemu\0-uuid\0{uuid}\0' if uuid
                   else '')
        for number, thread in enumerate(threads):
            self.write(f'proc/{pid}/task/{pid + number}/comm', f'{thread}\n')


class ProcessesTestCase(TreeTestCase):

    def test_vhost_is_looked_for_once(self):
        """Before Linux 6.4 it is in processes of its own."""
        guests = range(100, 200, 10)
        for pid in guests:
            self.add(pid, 'qemu', 'qemu', 'CPU 0/KVM', uuid=f'u{pid}')
            self.add(pid + 5, f'vhost-{pid}')
        self.write('proc/sys/kernel/osrelease', '6.1.0-18-amd64\n')
        look = guest_processes.GuestProcesses(self.files, {})
        for pid in guests:
            self.assertEqual(
                {pid: 'qemu', pid + 1: 'CPU 0/KVM', pid + 5: f'vhost-{pid}'},
                look.threads(pid))
        for path in '/proc', '/proc/105/comm':
            self.assertEqual(1, self.files.seen.count(path))

    def test_vhost_among_the_threads(self):
        self.add(100, 'qemu', 'qemu', 'vhost-100')
        self.write('proc/sys/kernel/osrelease', '6.8.0\n')
        look = guest_processes.GuestProcesses(self.files, {})
        self.assertEqual({100: 'qemu', 101: 'vhost-100'}, look.threads(100))
        self.assertNotIn('/proc', self.files.seen)

    def test_processes_are_looked_for_once(self):
        """Where libvirt's own files do not tell them."""
        for pid in 100, 110, 120:
            self.add(pid, 'qemu', uuid=f'u{pid}')
        look = guest_processes.GuestProcesses(self.files, {'u100': 110})
        self.assertEqual(
            [100, 110, 120, None],
            [look.pid(uuid, '') for uuid in ('u100', 'u110', 'u120', 'x')])
        self.assertEqual(1, self.files.seen.count('/proc'))


class BoundedCallsTestCase(unit_base.TestCase):

    def setUp(self):
        super().setUp()
        self.calls = bounded_calls.BoundedCalls()
        self.answer = threading.Event()
        self.addCleanup(self.answer.set)
        self.useFixture(fixtures.MockPatchObject(
            bounded_calls, '_LOOK_SECONDS', 0.001))

    def give_up(self):
        self.calls.meanwhile = lambda: 0.0
        self.assertRaises(TimeoutError, self.calls.run, self.answer.wait)

    def test_results_and_errors(self):
        self.assertEqual(3, self.calls.run(lambda: 3))
        self.assertRaises(ZeroDivisionError, self.calls.run, lambda: 1 / 0)
        self.assertEqual(4, self.calls.run(lambda: 4))

    def test_one_thread_is_left_behind(self):
        before = {*threading.enumerate()}
        self.give_up()
        for _time in range(3):
            self.assertRaises(TimeoutError, self.calls.run, lambda: 1)
        left, = {*threading.enumerate()} - before
        self.assertTrue(left.daemon)

    def test_its_answer_is_nobody_elses(self):
        self.give_up()
        self.answer.set()
        self.calls.meanwhile = lambda: 60.0
        self.assertEqual(5, self.calls.run(lambda: 5))

    def test_signs_of_life(self):
        """What takes long and comes along is waited for."""
        now = [0.0]
        self.useFixture(fixtures.MockPatchObject(
            bounded_calls.time, 'monotonic', lambda: now[0]))
        looks = threading.Semaphore(0)

        def meanwhile():
            looks.release()
            return 10.0

        def call():
            for _time in range(5):
                now[0] += 9.0
                self.calls.sign_of_life()
                looks.acquire()
            return 'done'

        self.calls.meanwhile = meanwhile
        self.assertEqual('done', self.calls.run(call))


class LibvirtError(Exception):
    code = 'another'

    def get_error_code(self):
        return self.code


class NoDomainError(LibvirtError):
    code = 'no domain'


class Domain:

    def __init__(self, number, pins):
        self.number, self.pins = number, pins
        self.ID = lambda: number
        self.name = lambda: f'guest-{number}'
        self.UUIDString = lambda: _UUID.format(number)
        self.vcpuPinInfo = lambda flags: [self.pins]
        self.emulatorPinInfo = lambda flags: self.pins

    def XMLDesc(self, flags):  # noqa: N802 - libvirt's name
        return _XML.format(self.UUIDString(), self.name(), self.number)

class LibvirtGuestsTestCase(TreeTestCase):

    def setUp(self):
        super().setUp()
        self.domain = Domain(1, (True, False, True))
        self.add(7, 'qemu', 'qemu', 'CPU 0/KVM', uuid=_UUID.format(1))
        self.is_mute = False
        self.answer = threading.Event()
        self.addCleanup(self.answer.set)
        self.connection = mock.Mock()
        self.connection.listAllDomains.side_effect = lambda flags: (
            self.answered([self.domain]))
        self.library = types.SimpleNamespace(
            libvirtError=LibvirtError, registerErrorHandler=mock.Mock(),
            VIR_CONNECT_LIST_DOMAINS_ACTIVE=1, VIR_DOMAIN_AFFECT_LIVE=1,
            VIR_ERR_NO_DOMAIN='no domain', VIR_ERR_OPERATION_INVALID='off',
            open=lambda uri: self.answered(self.connection))
        patch = mock.patch.dict(sys.modules, libvirt=self.library)
        patch.start()
        self.addCleanup(patch.stop)
        self.guests = libvirt_guests.LibvirtGuests('', self.files)
        self.useFixture(fixtures.MockPatchObject(
            bounded_calls, '_LOOK_SECONDS', 0.001))

    def answered(self, answer):
        """libvirt's answer, once it gives one."""
        if self.is_mute:
            self.answer.wait()
        return answer

    def mute(self):
        self.is_mute = True
        self.guests.calls.meanwhile = lambda: 0.0

    def unmute(self):
        self.is_mute = False
        self.answer.set()
        self.guests.calls.meanwhile = lambda: 60.0

    def test_guests(self):
        guest, = self.guests.guests()
        self.assertEqual(
            (_UUID.format(1), 7, cpuset.CpuSet([0, 2]), ('tap1',), {8}),
            (guest.uuid, guest.pid, guest.emulator_cpus, guest.taps,
             guest.vcpu_tasks))

    def test_where_emulator_threads_are(self):
        """Libvirt has a control group for them, by either version."""
        for line in ('0::/machine.slice/a.scope/libvirt/emulator',
                     '4:cpuset:/machine/a.libvirt-qemu/emulator'):
            self.write('proc/7/cgroup', f'{line}\n')
            guest, = self.guests.guests()
            self.assertRegex(guest.emulator_group,
                             '^/sys/fs/cgroup/.*/emulator/cpuset.cpus$')
        self.write('proc/7/cgroup', '0::/user.slice\n')
        guest, = self.guests.guests()
        self.assertEqual('', guest.emulator_group)

    def test_it_never_answers(self):
        """From the start, and later it does."""
        self.mute()
        for _time in range(2):
            self.assertRaises(libvirt_guests.LibvirtGone, self.guests.guests)
        self.unmute()
        self.assertEqual(1, len(self.guests.guests()))

    def test_it_goes_half_way(self):
        """A guest that cannot be read is as it was, or libvirt has gone."""
        other = Domain(2, (True, False, True))
        self.add(17, 'qemu', 'qemu', uuid=_UUID.format(2))
        self.connection.listAllDomains.side_effect = lambda flags: [
            self.domain, other]
        self.assertEqual(2, len(self.guests.guests()))
        before = self.guests.guests()
        other.XMLDesc = mock.Mock(side_effect=LibvirtError('reset by peer'))
        self.assertEqual(before, self.guests.guests())
        other.XMLDesc.side_effect = NoDomainError('no such domain')
        self.assertEqual(before[:1], self.guests.guests())
        # Not even seen once.
        other.XMLDesc.side_effect = LibvirtError('reset by peer')
        self.assertEqual(before[:1], self.guests.guests())
        self.connection.isAlive.return_value = 0
        error = self.assertRaises(libvirt_guests.LibvirtGone,
                                  self.guests.guests)
        self.assertIn('reset by peer', str(error))

    def test_it_is_not_there(self):
        self.library.open = mock.Mock(side_effect=LibvirtError('no socket'))
        error = self.assertRaises(libvirt_guests.LibvirtGone,
                                  self.guests.guests)
        self.assertIn('no socket', str(error))
