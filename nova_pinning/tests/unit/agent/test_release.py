# SPDX-License-Identifier: Apache-2.0
"""All is put back: whoever runs by then, and where a step fails."""

import errno
import os

from nova_pinning.agent import actuators
from nova_pinning.agent import agent_model
from nova_pinning.document import decoder
from nova_pinning.document import encoder
from nova_pinning.host import agent_record
from nova_pinning.host import cache_masks
from nova_pinning.tests.unit.agent import test_host_agent

CPUS = test_host_agent.CPUS
_GROUP = test_host_agent.GROUP.format('a')


class Kernel(test_host_agent.Kernel):
    """With the emulator thread of a guest, which its control group confines.
    """

    def __init__(self):
        super().__init__()
        self.affinities = {7: CPUS('6-7')}

    def exists(self, path):
        return path == '/proc/7/task/7' or super().exists(path)

    def write(self, path, text):
        super().write(path, text)
        if path == _GROUP:
            self.affinities[7] = CPUS(text.strip())

    def set_affinity(self, tid, cpus):
        self.fault(f'affinity {tid}')
        if not self.groups_of_libvirt[_GROUP].mask & cpus.mask:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        self.affinities[tid] = cpus


class ReleaseTestCase(test_host_agent.AgentTestCase):

    def setUp(self):
        super().setUp()
        self.on_disk = []
        self.setUpAgain()

    def setUpAgain(self):
        self.kernel, self.source = Kernel(), test_host_agent.Source()
        self.record = agent_record.AgentRecord()
        self.agent = self.new_agent()
        self.start('a', '6-7', interfaces=1, wishes=agent_model.Wishes(2),
                   emulator_tasks=frozenset([7]),
                   hostdevs=frozenset(['0000:81:00.0']))

    def new_agent(self):
        agent = super().new_agent()
        if isinstance(self.kernel, Kernel):
            agent._settings = actuators.Actuators(
                self.kernel, self.kernel.affinities.__getitem__,
                self.kernel.set_affinity)
            agent._save = lambda record: self.on_disk.append(
                encoder.encode(record))
        return agent

    def assertPlaces(self, cpus):
        """Of emulator threads: of their group, and of the thread."""
        self.assertEqual((CPUS(cpus), CPUS(cpus)),
                         (self.emulator('a'), self.kernel.affinities[7]))

    def test_nobody_is_asked_for_guests(self):
        self.agent.reconcile()
        self.assertPlaces('4-5')
        self.source.is_gone = True
        self.assertEqual([], self.new_agent().release().trouble)
        self.assertPlaces('6-7')
        self.assertTrue(self.record.is_empty)

    def test_nobody_else_is_overridden(self):
        """Who has moved them meanwhile, or got the process id."""
        self.agent.reconcile()
        self.kernel.affinities[7] = CPUS('2')
        self.agent.release()
        self.assertEqual(CPUS('6-7'), self.emulator('a'))
        self.setUpAgain()
        self.agent.reconcile()
        self.kernel.groups_of_libvirt.clear()
        self.kernel.exists = lambda path: False
        self.assertEqual([], self.agent.release().trouble)
        self.assertEqual(CPUS('4-5'), self.kernel.affinities[7])
        self.assertTrue(self.record.is_empty)

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
        self.assertEqual([], self.new_agent().release().trouble)
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
                try:
                    self.agent.release()
                except crash:
                    pass
                self.kernel.fault = lambda what: None
                self.record = decoder.decode(
                    agent_record.AgentRecord, self.on_disk[-1])
                self.assertEqual([], self.new_agent().release().trouble)
                self.assertPlaces('6-7')
                self.assertEqual({24: CPUS('0'), 25: CPUS('0')},
                                 self.kernel.interrupts)
                self.assertEqual(0xfff, self.kernel.default.masks['L3'][1])
                self.assertEqual({}, self.kernel.groups)
                self.assertTrue(self.record.is_empty)
