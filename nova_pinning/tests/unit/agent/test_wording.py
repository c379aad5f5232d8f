# SPDX-License-Identifier: Apache-2.0

from nova_pinning.agent import agent_model
from nova_pinning.agent import settings_ledger
from nova_pinning.agent import wording
from nova_pinning import cpuset
from nova_pinning.host import agent_record
from nova_pinning.tests.unit import unit_base

CPUS = cpuset.CpuSet.parse


class WordingTestCase(unit_base.TestCase):

    def words(self, *changes):
        guest = agent_model.AgentGuest(
            'u', 'n', 7, {}, emulator_group='g',
            vcpu_tasks=frozenset([70, 71]), vhost=frozenset([72]),
            emulator_tasks=frozenset([7, 73]))
        return [*wording.changes(
            [settings_ledger.Change(setting(guest), *map(CPUS, cpus), *back)
             for setting, cpus, *back in changes],
            wording.Subjects([guest]))]

    def test_what_is_alike_is_said_once(self):
        def thread(tid):
            return lambda guest: agent_model.thread(guest, tid)

        def group(guest):
            return agent_record.Setting(agent_record.Kind.GROUP, 'g')

        self.assertEqual(
            ['emulator threads of guest n (u): CPUs 1-3 (was any)',
             'vCPUs of guest n (u): CPUs 1-3 (was 1-7)',
             'vhost of guest n (u): CPUs 1-7, as before (was 1-3)'],
            self.words((group, ('1-3', '')),
                       (thread(70), ('1-3', '1-7')),
                       (thread(71), ('1-3', '1-7')),
                       (thread(73), ('1-3', '')),
                       (thread(72), ('1-7', '1-3'), True)))

    def test_interrupts(self):
        def interrupt(number):
            return lambda guest: agent_model.interrupt(number)

        self.assertEqual(
            ['interrupts 24-25: CPUs 0 (was 0-7)',
             'interrupt 26: CPUs 4 (was 0-7)'],
            self.words((interrupt(24), ('0', '0-7')),
                       (interrupt(26), ('4', '0-7')),
                       (interrupt(25), ('0', '0-7'))))

    def test_a_guest_that_is_gone(self):
        gone = agent_model.AgentGuest('v', 'm', 9, {})
        self.assertEqual(
            ['thread 9/91: CPUs 1 (was 2)'],
            self.words((lambda guest: agent_model.thread(gone, 91),
                        ('1', '2'))))
