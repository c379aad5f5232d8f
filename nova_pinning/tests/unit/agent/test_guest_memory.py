# SPDX-License-Identifier: Apache-2.0
"""Where memory of guests is, and whether it follows them."""

import errno
import os
import pathlib
import re

import fixtures

from nova_pinning.agent import agent_model
from nova_pinning.agent import decision
from nova_pinning.agent import guest_memory
from nova_pinning.agent import host_agent
from nova_pinning.agent import kernel_files
from nova_pinning import cpuset
from nova_pinning.host import agent_record
from nova_pinning.tests.unit import unit_base

CPUS = cpuset.CpuSet.parse
GIB = 1 << 30
HOST = agent_model.AgentHost(
    {0: CPUS('0-3'), 1: CPUS('4-7')}, {0: CPUS('0-3'), 1: CPUS('4-7')},
    CPUS('0'), CPUS('0-7'), agent_model.NO_CPUS)


class MemoryCase(unit_base.TestCase):

    def setUp(self):
        super().setUp()
        self.root = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        self.files = kernel_files.WritableTree(self.root)
        self.write('sys/devices/system/node/node1/meminfo',
                   f'Node 1 MemTotal: {8 << 20} kB\n'
                   f'Node 1 MemFree: {4 << 20} kB\n')

    def write(self, path, text):
        path = self.root / path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def group(self, pid, text, entry='0::', root='sys/fs/cgroup'):
        """A guest's control group as libvirt makes it."""
        scope = f'/machine.slice/machine-{pid}.scope'
        self.write(f'proc/{pid}/cgroup',
                   f'2:cpu:/x\n{entry}{scope}/libvirt/emulator\n')
        self.write(f'{root}{scope}/memory.numa_stat', text)


class ReadingTestCase(MemoryCase):

    def test_cgroup_2(self):
        self.group(7, f'anon N0={GIB} N1=4096\nfile N0=9 N1=9\n'
                      'shmem N0=0 N1=4096\n')
        self.assertEqual({0: GIB, 1: 8192},
                         guest_memory.by_node(self.files, 7))

    def test_cgroup_1(self):
        self.group(7, 'total=9 N0=9 N1=0\nhierarchical_total=3 N0=1 N1=2\n',
                   '4:memory:', 'sys/fs/cgroup/memory')
        page = os.sysconf('SC_PAGE_SIZE')
        self.assertEqual({0: page, 1: 2 * page},
                         guest_memory.by_node(self.files, 7))

    def test_not_known(self):
        """The root group's figures are not the guest's."""
        self.write('sys/fs/cgroup/memory.numa_stat', 'anon N0=1')
        for text in ('0::/\n', '', 'nonsense\n', '0::/gone\n'):
            self.write('proc/7/cgroup', text)
            self.assertEqual({}, guest_memory.by_node(self.files, 7))

    def test_balancing(self):
        self.assertFalse(guest_memory.is_balanced(self.files))
        for expected, text in ((False, '0\n'), (True, '1\n'), (True, '2\n')):
            self.write('proc/sys/kernel/numa_balancing', text)
            self.assertEqual(expected, guest_memory.is_balanced(self.files))


class FollowTestCase(MemoryCase):

    def setUp(self):
        super().setUp()
        self.asked, self.pending, self.answer = [], set(), 0
        self.mover = guest_memory.MemoryMover(self.migrate)
        self.follower = guest_memory.MemoryFollower(
            self.files, self.pending, self.mover)
        self.addCleanup(self.mover.wait)

    def migrate(self, pid, sources, target):
        self.asked.append((pid, str(sources), target))
        if self.answer:
            raise OSError(self.answer, os.strerror(self.answer))
        return 0

    def guest(self, **values):
        return agent_model.AgentGuest(**{
            'uuid': 'u', 'name': 'n', 'pid': 7,
            'vcpus': {0: CPUS('0-7')}, **values})

    def follow(self, memory, before=0, after=1, dry_run=False, **values):
        homes = {'u': frozenset([after])}
        self.follower.note(HOST, {'u': frozenset([before])}, homes)
        told = self.follower.follow(HOST, [self.guest(**values)], homes,
                                    {'u': memory}, dry_run)
        self.mover.wait()
        return told

    def test_it_follows(self):
        done, troubles = self.follow({0: GIB, 1: 5})
        self.assertEqual(['memory of guest n (u): 1024 MiB from NUMA node 0 '
                          'to 1'], done)
        self.assertEqual([], troubles)
        self.assertEqual([(7, '0', 1)], self.asked)
        # Once for each move.
        self.assertEqual(([], []), self.follow({0: GIB}, before=1))

    def test_only_to_another_node(self):
        self.assertEqual(([], []), self.follow({0: GIB}, before=1))
        self.assertEqual([], self.asked)

    def test_dry_run(self):
        done, _troubles = self.follow({0: GIB}, dry_run=True)
        self.assertEqual((1, []), (len(done), self.asked))

    def test_nova_has_placed_it(self):
        self.follow({0: GIB}, nodes=CPUS('0'))
        self.assertEqual(([], set()), (self.asked, self.pending))

    def test_no_room(self):
        _done, troubles = self.follow({0: 4 * GIB})
        self.assertIn('node 1 has 3686 MiB to spare, and 4096 MiB are needed',
                      troubles[0])
        self.assertEqual(([], {'u'}), (self.asked, self.pending))
        self.follow({0: GIB}, before=1)
        self.assertEqual([(7, '0', 1)], self.asked)

    def test_the_kernel_refuses(self):
        self.answer = errno.EPERM
        self.follow({0: GIB})
        _done, troubles = self.follow({0: GIB}, before=1)
        self.assertIn('cannot be moved: operation not permitted', troubles[0])

    def test_the_guest_is_gone(self):
        self.pending.add('v')
        self.follow({0: GIB}, before=1)
        self.assertEqual(set(), self.pending)

    def test_a_round_of_the_agent(self):
        """Two busy guests on one node, nobody on the other."""
        record = agent_record.AgentRecord(homes=dict.fromkeys(
            'ab', frozenset([0])))
        ran = dict.fromkeys((7, 8), 0)
        for pid in ran:
            self.group(pid, f'anon N0={GIB} N1=0\n')
        guests = [self.guest(uuid=uuid, name=uuid, pid=pid,
                             vcpus=dict.fromkeys(range(4), CPUS('0-7')),
                             vcpu_tasks=frozenset([pid]))
                  for uuid, pid in zip('ab', ran)]
        source = type('Source', (), {'guests': lambda self: guests})()
        now = [0.0]
        agent = host_agent.HostAgent(
            HOST, decision.Scheme(cache=False, interrupts=False), self.files,
            source, record, lambda record: None, clock=lambda: now[0],
            mover=self.mover)
        for _round in range(2):
            now[0] += 400
            for pid in ran:
                ran[pid] += 4 * 400 * 10**9
                self.write(f'proc/{pid}/task/{pid}/schedstat',
                           f'{ran[pid]} 0 0\n')
            done = agent.reconcile()
            agent.finish()
        self.assertIn('memory of guest a (a): 1024 MiB', done.done[-1])
        self.assertEqual([(7, '0', 1)], self.asked)


class MigrateTestCase(unit_base.TestCase):

    def test_the_kernel_is_asked(self):
        """Of this process, to where it is: nothing has to be moved."""
        maps = pathlib.Path('/proc/self/numa_maps')
        if not maps.exists():
            self.skipTest('the kernel knows of no NUMA nodes')
        node = int(re.search(r' N(\d+)=', maps.read_text())[1])
        self.assertEqual(0, guest_memory.migrate_pages(
            os.getpid(), [node], node))
        error = self.assertRaises(OSError, guest_memory.migrate_pages,
                                  os.getpid(), [node], 1000)
        # It looks at what we may do first, or at the node.
        self.assertIn(error.errno, (errno.EINVAL, errno.ENODEV, errno.EPERM))
