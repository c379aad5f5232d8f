# SPDX-License-Identifier: Apache-2.0
"""All is put back: without libvirt, and where a step fails."""

import errno
import os

from nova_pinning.agent import actuators
from nova_pinning.agent import agent_model
from nova_pinning.host import agent_record
from nova_pinning.host import cache_masks
from nova_pinning.tests.unit.agent import test_host_agent

CPUS = test_host_agent.CPUS
_GROUP = '/machine.slice/qemu-1.scope/libvirt'
_CPUSET = f'/sys/fs/cgroup{_GROUP}/emulator/cpuset.cpus'


class Kernel(test_host_agent.Kernel):
    """With the QEMU of a guest, in a control group of libvirt's."""

    def __init__(self):
        super().__init__()
        self.files = {'/proc/7/cmdline': 'qemu\0-uuid\0a\0',
                      '/proc/7/cgroup': f'0::{_GROUP}/emulator',
                      _CPUSET: '6-7'}
        self.affinities = {7: CPUS('6-7')}

    def text(self, path):
        return self.files.get(path) or super().text(path)

    def write(self, path, text):
        if path in self.files:
            self.fault(f'write {path}')
            self.files[path] = text.strip()
        else:
            super().write(path, text)

    def set_affinity(self, tid, cpus):
        if not CPUS(self.files[_CPUSET]).mask & cpus.mask:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        self.affinities[tid] = cpus


class Source(test_host_agent.Source):
    """libvirt, which goes while it is told of pins.

    :ivar kernel: where it pins
    """

    is_mute = False

    def pin_emulator(self, uuid, cpus):
        if self.is_mute:
            self.is_gone = True
            raise TimeoutError('no answer for 10 seconds')
        self.do_pin(uuid, cpus)

    def do_pin(self, uuid, cpus):
        super().pin_emulator(uuid, cpus)
        self.kernel.files[_CPUSET] = str(cpus)
        self.kernel.affinities[7] = cpus

    def comes_back(self):
        self.is_mute = self.is_gone = False


class ReleaseTestCase(test_host_agent.AgentTestCase):

    def setUp(self):
        super().setUp()
        self.kernel, self.source = Kernel(), Source()
        self.source.kernel = self.kernel
        self.agent = self.new_agent()
        self.start('a', '6-7', wishes=agent_model.Wishes(2))

    def new_agent(self):
        agent = super().new_agent()
        if isinstance(self.kernel, Kernel):
            agent._settings = actuators.Actuators(
                self.kernel, self.source, self.kernel.affinities.__getitem__,
                self.kernel.set_affinity)
        return agent

    def places(self):
        """Of emulator threads: libvirt's word, the kernel's two."""
        return tuple(map(str, (
            self.source.running['a'].emulator_cpus, self.kernel.files[_CPUSET],
            self.kernel.affinities[7])))

    def test_without_libvirt(self):
        """The kernel has all as it was, and libvirt is told once it answers.
        """
        self.agent.reconcile()
        self.assertEqual(('4-5', '4-5', '4-5'), self.places())
        self.source.is_gone = True
        for _time in range(2):
            told = self.new_agent().release()
            self.assertEqual(('4-5', '6-7', '6-7'), self.places())
            self.assertIn('--release once it answers', told.trouble[-1])
            self.assertEqual({}, self.kernel.groups)
        entry, = self.record.settings.values()
        self.assertTrue(entry.is_owed)
        again = agent_record._decode(agent_record._encode(self.record))
        self.assertEqual(self.record, again)
        self.source.is_gone = False
        self.assertEqual((), self.new_agent().release().trouble)
        self.assertEqual(('6-7', '6-7', '6-7'), self.places())
        self.assertTrue(self.record.is_empty)

    def test_an_agent_that_comes_then(self):
        self.agent.reconcile()
        self.source.is_gone = True
        self.agent.release()
        self.source.is_gone = False
        agent = self.new_agent()
        for _time in range(2):
            self.assertEqual((), agent.reconcile().trouble)
        self.assertEqual(('4-5', '4-5', '4-5'), self.places())
        self.agent.release()
        self.assertEqual(('6-7', '6-7', '6-7'), self.places())

    def test_libvirt_goes_half_way(self):
        self.agent.reconcile()
        self.source.is_mute = True
        self.agent.release()
        self.assertEqual(('4-5', '6-7', '6-7'), self.places())
        self.source.comes_back()
        self.agent.release()
        self.assertEqual(('6-7', '6-7', '6-7'), self.places())

    def test_what_was_told_may_be_done_late(self):
        """No matter when, it is the agent's own and goes back."""
        self.source.is_mute = True
        told = self.agent.reconcile()
        self.assertEqual(1, len([text for text in told.trouble
                                 if 'libvirt does not answer' in text]))
        self.assertEqual(('6-7', '6-7', '6-7'), self.places())
        self.agent.release()
        self.source.comes_back()
        self.source.do_pin('a', CPUS('4-5'))
        self.agent.release()
        self.assertEqual(('6-7', '6-7', '6-7'), self.places())

    def test_a_late_pin_is_nobody_elses(self):
        self.source.is_mute = True
        self.agent.reconcile()
        self.source.comes_back()
        self.source.do_pin('a', CPUS('4-5'))
        self.agent.release()
        self.assertEqual(('6-7', '6-7', '6-7'), self.places())

    def test_nobody_else_is_overridden(self):
        """Who has pinned them meanwhile, or got the process id."""
        self.agent.reconcile()
        self.source.is_gone = True
        self.kernel.affinities[7] = CPUS('2')
        self.agent.release()
        self.assertEqual(CPUS('2'), self.kernel.affinities[7])
        self.source.comes_back()
        self.agent.reconcile()
        self.kernel.files['/proc/7/cmdline'] = 'another'
        self.source.is_gone = True
        before = self.places()
        self.agent.release()
        self.assertEqual(before, self.places())
        self.assertTrue(self.record.is_empty)

    def test_libvirt_is_not_asked_in_vain(self):
        self.source.is_gone = True
        self.assertEqual((), self.agent.release().trouble)

    def test_masks_that_cannot_be_put_back_stay_known(self):
        def fault(what):
            if what.endswith('resctrl/schemata'):
                raise OSError(errno.EIO, os.strerror(errno.EIO))

        self.agent.reconcile()
        self.kernel.fault = fault
        self.assertTrue(self.agent.release().trouble)
        self.assertEqual({cache_masks.Slot('L3', 1): 0xfff},
                         self.record.base_masks)
        self.kernel.fault = lambda what: None
        self.assertEqual((), self.new_agent().release().trouble)
        self.assertEqual(0xfff, self.kernel.default.masks['L3'][1])
        self.assertEqual({}, self.record.base_masks)

    def test_groups_that_watch_cannot_be_removed(self):
        def fault(what):
            if 'mon_groups' in what:
                raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))

        self.start('b', '1')
        self.agent.reconcile()
        self.kernel.fault = fault
        self.assertIn('groups to watch guests cannot be set',
                      ' '.join(self.agent.release().trouble))

    def test_each_write_fails_or_is_the_last(self):
        """What is left is known, and the next one puts it back."""
        crash = test_host_agent.fake_resctrl.Crash
        for error in OSError(errno.EIO, 'x'), crash():
            for number in range(12):
                self.setUpAgain()
                self.agent.reconcile()
                left = [number]

                def fault(what):
                    left[0] -= 1
                    if left[0] == -1:
                        raise error

                self.kernel.fault = fault
                self.source.is_gone = True
                try:
                    self.agent.release()
                except crash:
                    pass
                self.kernel.fault = lambda what: None
                self.source.is_gone = False
                saved = agent_record._decode(self.on_disk[-1])
                self.record = saved
                self.assertEqual((), self.new_agent().release().trouble)
                self.assertEqual(('6-7', '6-7', '6-7'), self.places())
                self.assertEqual({24: CPUS('0'), 25: CPUS('0')},
                                 self.kernel.interrupts)
                self.assertEqual(0xfff, self.kernel.default.masks['L3'][1])
                self.assertEqual({}, self.kernel.groups)
                self.assertTrue(self.record.is_empty)

    def setUpAgain(self):
        self.kernel, self.source = Kernel(), Source()
        self.source.kernel = self.kernel
        self.record = agent_record.AgentRecord()
        self.on_disk = []
        self.agent = self.new_agent()
        self.agent._save = lambda record: self.on_disk.append(
            agent_record._encode(record))
        self.start('a', '6-7', interfaces=1, wishes=agent_model.Wishes(2),
                   hostdevs=frozenset(['0000:81:00.0']))
