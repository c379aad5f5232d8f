# SPDX-License-Identifier: Apache-2.0
"""Rounds of the agent, over files and guests in memory."""

import contextlib
import errno
import os
import pathlib
import socket
from unittest import mock

import fixtures

from nova_pinning.agent import agent_metrics
from nova_pinning.agent import agent_model
from nova_pinning.agent import agent_service
from nova_pinning.agent import decision
from nova_pinning.agent import host_agent
from nova_pinning.agent import host_reading
from nova_pinning.agent import kernel_files
from nova_pinning.agent import running_guests
from nova_pinning.agent import settings_ledger
from nova_pinning import cpuset
from nova_pinning.document import decoder
from nova_pinning.document import encoder
from nova_pinning import errors
from nova_pinning.host import agent_record
from nova_pinning.host import cache_masks
from nova_pinning.host import machine_files
from nova_pinning import signals
from nova_pinning.tests import forms
from nova_pinning.tests.oracle import agent_round_fuzz
from nova_pinning.tests.oracle import fake_resctrl
from nova_pinning.tests.unit import unit_base

CPUS = cpuset.CpuSet.parse
GROUP = '/sys/fs/cgroup/machine/{}/libvirt/emulator/cpuset.cpus'


class Kernel(fake_resctrl.FakeResctrl):
    """With interrupts and threads as well."""

    def __init__(self):
        super().__init__({0: range(4), 1: range(4, 8)}, ways=12)
        self.interrupts = {24: CPUS('0'), 25: CPUS('0')}
        self.groups_of_libvirt = {}

    def text(self, path):
        if path in self.groups_of_libvirt:
            return str(self.groups_of_libvirt[path])
        parts = path.split('/')
        if path.startswith('/proc/irq/') and int(parts[3]) in self.interrupts:
            return str(self.interrupts[int(parts[3])])
        return super().text(path)

    def names(self, path):
        if path == '/sys/bus/pci/devices/0000:81:00.0/msi_irqs':
            return ['25']
        return super().names(path)

    def write(self, path, text):
        parts = path.split('/')
        if path.startswith('/proc/irq/'):
            self.fault(f'write {path}')
            self.interrupts[int(parts[3])] = CPUS(text.strip())
        elif path in self.groups_of_libvirt:
            self.fault(f'write {path}')
            self.groups_of_libvirt[path] = CPUS(text.strip())
        else:
            super().write(path, text)


class Source:
    """libvirt, which has guests."""

    def __init__(self):
        self.running = {}
        self.is_gone = False

    def guests(self):
        if self.is_gone:
            raise running_guests.GuestsUnknownError('no route')
        return list(self.running.values())


class AgentTestCase(unit_base.TestCase):

    def setUp(self):
        super().setUp()
        self.kernel, self.source = Kernel(), Source()
        self.now = 1000.0
        self.saved = []
        self.record = agent_record.AgentRecord()
        self.agent = self.new_agent()

    def new_agent(self):
        host = agent_model.AgentHost(
            {0: CPUS('0-3'), 1: CPUS('4-7')}, {0: CPUS('0-7')}, CPUS('0'),
            CPUS('1,4-5'), CPUS('2-3,6-7'), (
                agent_model.ServingNic('0000:01:00.0', ('eth0',), (24,)),))
        return host_agent.HostAgent(
            host, decision.Scheme(), self.kernel, self.source, self.record,
            lambda record: self.saved.append(len(record.settings)),
            clock=lambda: self.now)

    def emulator(self, uuid):
        """Where the kernel has its emulator threads."""
        return self.kernel.groups_of_libvirt[GROUP.format(uuid)]

    def start(self, uuid, cpus, **values):
        self.kernel.groups_of_libvirt[GROUP.format(uuid)] = CPUS(cpus)
        self.kernel.live.add(1000 + min(CPUS(cpus)))
        self.source.running[uuid] = agent_model.AgentGuest(**{
            'uuid': uuid, 'name': f'name-{uuid}', 'pid': 7,
            'vcpus': {number: CPUS(str(cpu))
                      for number, cpu in enumerate(CPUS(cpus))},
            'emulator_cpus': CPUS(cpus),
            'emulator_group': GROUP.format(uuid),
            'tasks': frozenset([1000 + min(CPUS(cpus))]), **values})


class HostAgentTestCase(AgentTestCase):

    def test_all_is_put_back(self):
        self.start('a', '6-7', interfaces=1,
                   hostdevs=frozenset(['0000:81:00.0']),
                   wishes=agent_model.Wishes(4))
        done = self.agent.reconcile()
        self.assertEqual([], done.trouble)
        self.assertEqual(CPUS('4-5'), self.emulator('a'))
        self.assertEqual({24: CPUS('4'), 25: CPUS('4-5')},
                         self.kernel.interrupts)
        self.assertEqual({'a': {1: 0b1111}}, done.masks)
        self.assertEqual([], self.agent.reconcile().done)

        self.assertEqual([], self.agent.release().trouble)
        self.assertEqual(CPUS('6-7'), self.emulator('a'))
        self.assertEqual({24: CPUS('0'), 25: CPUS('0')},
                         self.kernel.interrupts)
        self.assertEqual({}, self.kernel.groups)
        self.assertTrue(self.record.is_empty)
        self.assertTrue(self.record.history)

    def test_also_by_another_agent(self):
        """Which only knows the record."""
        self.start('a', '6-7', wishes=agent_model.Wishes(4))
        self.agent.reconcile()
        self.new_agent().release()
        self.assertEqual(CPUS('6-7'), self.emulator('a'))
        self.assertEqual({}, self.kernel.groups)

    def test_it_is_written_down_first(self):
        self.start('a', '6-7')
        self.kernel.fault = mock.Mock(side_effect=fake_resctrl.Crash)
        self.assertRaises(fake_resctrl.Crash, self.agent.reconcile)
        self.assertEqual([1], self.saved)

    def test_dry_run_changes_nothing(self):
        self.start('a', '6-7', wishes=agent_model.Wishes(4))
        done = self.agent.reconcile(dry_run=True)
        self.assertEqual(
            ['emulator threads of guest name-a (a): CPUs 4-5 (was 6-7)',
             'group of guest name-a (a) is made'],
            [text for text in done.done if 'emulator' in text
             or text.endswith('made')])
        self.assertEqual(CPUS('6-7'), self.emulator('a'))
        self.assertEqual([], self.saved)
        self.assertEqual({}, self.kernel.groups)

    def test_nova_is_not_fought(self):
        """Whoever sets it again and again has it in the end."""
        self.start('a', '6-7')
        for _time in range(settings_ledger.PATIENCE):
            self.agent.reconcile()
            self.kernel.groups_of_libvirt[GROUP.format('a')] = CPUS('6')
        told = self.agent.reconcile()
        self.assertEqual(CPUS('6'), self.emulator('a'))
        self.assertIn('left alone for an hour', told.trouble[0])
        self.now += 3601
        self.agent.reconcile()
        self.assertEqual(CPUS('4-5'), self.emulator('a'))
        self.agent.release()
        # What nova wanted in the end, not what it wanted at first.
        self.assertEqual(CPUS('6'), self.emulator('a'))

    def test_what_cannot_be_set_is_told(self):
        def fault(what):
            if 'irq/25' in what:
                raise OSError(errno.EIO, os.strerror(errno.EIO))

        self.kernel.fault = fault
        self.start('a', '6', hostdevs=frozenset(['0000:81:00.0']))
        for _time in range(settings_ledger.PATIENCE + 1):
            told = self.agent.reconcile()
        self.assertEqual(1, len(told.trouble))
        self.assertIn('interrupt 25', told.trouble[0])
        self.agent.release()
        self.assertEqual(CPUS('0'), self.kernel.interrupts[25])

    def test_a_guest_that_waits_is_told(self):
        self.start('a', '6', wishes=agent_model.Wishes(
            20, problems=('pinning:memory_bandwidth',)))
        told = self.agent.reconcile()
        self.assertEqual(2, len(told.waiting))
        self.assertIn('can give 11 of 12', told.waiting[1])
        self.assertIn('name-a', told.waiting[1])

    def test_guests_are_not_known(self):
        """So all stays."""
        self.start('a', '6', wishes=agent_model.Wishes(2))
        self.agent.reconcile()
        self.source.is_gone = True
        self.assertRaises(running_guests.GuestsUnknownError,
                          self.agent.reconcile)
        self.assertEqual(['nova-pinning-a'], list(self.kernel.groups))

    def test_who_is_watched(self):
        self.start('a', '6', wishes=agent_model.Wishes(2))
        self.start('b', '2')
        done = self.agent.reconcile()
        self.kernel.counters = {
            ('nova-pinning-a', 1, 'llc_occupancy'): 4096,
            ('/nova-pinning-b', 0, 'mbm_total_bytes'): 77}
        text = agent_metrics.exposition(
            done, self.agent.monitoring.uses(done.guests), 0, 0.0)
        self.assertIn('nova_pinning_agent_l3_occupancy_bytes{domain="1",'
                      'guest="name-a",uuid="a"} 4096.0', text)
        self.assertIn('nova_pinning_agent_memory_total_bytes{domain="0",'
                      'guest="name-b",uuid="b"} 77.0', text)
        self.assertIn('nova_pinning_agent_l3_ways{domain="1",'
                      'guest="name-a",uuid="a"} 2.0', text)
        del self.source.running['b']
        self.agent.reconcile()
        self.assertEqual({}, self.kernel.default.monitors)

    def test_more_guests_than_can_be_watched(self):
        self.kernel.rmids = 1
        self.start('b', '2')
        self.assertIn('num_rmids', self.agent.reconcile().trouble[0])


class RoundsTestCase(unit_base.TestCase):

    def test_at_random(self):
        for seed in range(3 if forms.SHORT else 30):
            agent_round_fuzz.RoundCase(seed).run(30)


class LedgerTestCase(unit_base.TestCase):

    def setUp(self):
        super().setUp()
        self.setting = agent_model.interrupt(7)
        self.ledger = settings_ledger.SettingsLedger({})

    def changes(self, wanted, present):
        """What an agent sees that has only the record of the last one."""
        found = [*self.ledger.changes(
            {self.setting: CPUS(wanted)} if wanted else {},
            {self.setting: CPUS(present)}, 0.0)]
        values = encoder.encode(agent_record.AgentRecord(self.ledger.entries))
        self.ledger = settings_ledger.SettingsLedger(decoder.decode(
            agent_record.AgentRecord, values).settings)
        return found

    def test_killed_before_it_wrote(self):
        """What is there then is the agent's own still."""
        for change in self.changes('1', '0-3'):
            self.ledger.made(change)
        self.changes('2', '1')
        again, = self.changes('2', '1')
        self.assertEqual((), self.ledger.entries[self.setting].overrides)
        self.ledger.made(again)
        back, = self.changes('', '2')
        self.assertEqual(CPUS('0-3'), back.cpus)

    def test_killed_before_it_put_it_back(self):
        for change in self.changes('1', '0-3'):
            self.ledger.made(change)
        for _time in range(2):
            back, = self.changes('', '1')
            self.assertEqual(CPUS('0-3'), back.cpus)
        self.assertEqual([], self.changes('', '0-3'))
        self.assertEqual({}, self.ledger.entries)

    def test_putting_back_that_fails_is_tried_again(self):
        for change in self.changes('1', '0-3'):
            self.ledger.made(change)
        for _time in range(settings_ledger.PATIENCE + 1):
            back, = self.changes('', '1')
            self.ledger.failed(back, 0.0)


class RecordTestCase(unit_base.TestCase):

    def test_it_comes_back(self):
        record = agent_record.AgentRecord(
            {agent_model.interrupt(7): agent_record.SettingEntry(
                CPUS('0-3'), CPUS('1'), (1.5,), CPUS('0-3'))},
            {cache_masks.Slot('L3CODE', 0): 0xfff},
            {'a': frozenset([1, 2])}, (3.0,), frozenset([7]), ('x',))
        root = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        agent_record.save(record, str(root / 'agent.json'))
        tree = machine_files.Tree(root)
        self.assertEqual(record, agent_record.load(tree, '/agent.json'))
        self.assertTrue(agent_record.load(tree, '/none').is_empty)
        # What the last agent of an earlier release has left.
        (root / 'agent.json').write_text(
            '{"version": 1, "settings": [], "banned_interrupts": null}')
        self.assertTrue(agent_record.load(tree, '/agent.json').is_empty)
        (root / 'agent.json').write_text(
            '{"version": 2, "awaited_memory": ["a"]}')
        self.assertTrue(agent_record.load(tree, '/agent.json').is_empty)
        for text in ('[]', '{"version": 3}', '{', '{}',
                     '{"version": 1, "settings": [{}]}',
                     '{"version": 2, "settings": {"x 7": {}}}',
                     '[' * 100_000):
            (root / 'agent.json').write_text(text)
            self.assertRaises(errors.InputError, agent_record.load, tree,
                              '/agent.json')


class ServiceTestCase(unit_base.TestCase):

    def setUp(self):
        super().setUp()
        self.root = pathlib.Path(self.useFixture(fixtures.TempDir()).path)

    def test_one_at_a_time(self):
        path = str(self.root / 'agent.json')
        with agent_service.alone(path):
            with self.assertRaisesRegex(errors.InputError,
                                        f'process id {os.getpid()}'):
                with agent_service.alone(path):
                    pass
        with agent_service.alone(path):
            pass

    def test_notify(self):
        manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.addCleanup(manager.close)
        manager.bind(str(self.root / 'socket'))
        for address in (str(self.root / 'socket'), str(self.root / 'none'),
                        ''):
            self.useFixture(fixtures.EnvironmentVariable(
                'NOTIFY_SOCKET', address))
            agent_service.notify(READY=1, STATUS='2 guests')
        self.assertEqual(b'READY=1\nSTATUS=2 guests', manager.recv(99))

    def test_a_service_manager_that_does_not_listen(self):
        manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.addCleanup(manager.close)
        manager.bind(str(self.root / 'socket'))
        self.useFixture(fixtures.EnvironmentVariable(
            'NOTIFY_SOCKET', str(self.root / 'socket')))
        self.useFixture(fixtures.MockPatchObject(
            agent_service, '_NOTIFY_SECONDS', 0.0))
        # The kernel keeps sysctl net.unix.max_dgram_qlen of them.
        for _time in range(10_000):
            agent_service.notify(WATCHDOG=1)

    def service(self, agent=None, changed=lambda: 0, metrics_file=''):
        return agent_service.AgentService(agent or mock.Mock(), 3600.0,
                                          changed, metrics_file)

    def test_guests_are_not_known(self):
        """It is told once; the metrics are those of the last round."""
        agent = mock.Mock()
        agent.monitoring.uses.return_value = ()
        agent.record.moves = []
        path = self.root / 'agent.prom'
        service = self.service(agent, metrics_file=str(path))
        guest = agent_model.AgentGuest('u', 'n', 7, {})
        agent.reconcile.return_value = host_agent.Round((guest,))
        self.assertIn('1 guests', service.round())
        before = path.read_text()
        self.assertIn('agent_guests 1.0', before)
        agent.reconcile.side_effect = running_guests.GuestsUnknownError('x')
        with self.assertLogs(agent_service.LOG) as told:
            for _time in range(3):
                self.assertIn('it is not known which guests run',
                              service.round())
        self.assertEqual(1, len(told.output))
        self.assertEqual(before, path.read_text())

    def clock(self, happens=lambda now: None):
        """Time that passes while the service rests.

        :param happens: called with each new time
        """
        now = [0.0]

        def sleep(seconds):
            now[0] += seconds
            happens(now[0])

        self.useFixture(fixtures.MockPatchObject(
            agent_service.time, 'monotonic', lambda: now[0]))
        self.useFixture(fixtures.MockPatchObject(
            agent_service.time, 'sleep', sleep))
        self.useFixture(fixtures.MockPatchObject(
            signals, 'handled', lambda *arguments: contextlib.nullcontext()))
        return now

    def test_the_watchdog_is_seen_to(self):
        told = self.useFixture(fixtures.MockPatchObject(
            agent_service, 'notify')).mock
        service = self.service()
        self.clock(lambda now: now >= 100 and service.stop())
        service._wait()
        self.assertGreater(told.call_count, 100)
        told.assert_called_with(WATCHDOG=1)

    def burst(self, seconds, gap=0.1):
        """Rounds that follow changes for so long, one each gap."""
        agent = mock.Mock()
        agent.reconcile.return_value = host_agent.Round()
        agent.release.return_value = host_agent.Round()
        now = self.clock(lambda now: now > seconds + 60 and service.stop())
        service = self.service(
            agent, lambda: int(min(now[0], seconds) / gap))
        service.serve()
        agent.release.assert_called_once_with()
        # Not the one at the start.
        return agent.reconcile.call_count - 1

    def test_nothing_happens(self):
        self.assertEqual(0, self.burst(0.0))

    def test_many_guests_at_once_are_one_round(self):
        self.assertEqual(1, self.burst(2.0, 0.002))

    def test_guests_without_end_do_not_hold_it_up(self):
        """100 seconds in which one starts each 0.1 s."""
        rounds = self.burst(100.0)
        self.assertGreater(rounds, 5)
        self.assertLess(rounds, 20)


class ReadingTestCase(unit_base.TestCase):

    def tree(self, **files):
        root = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        for path, text in files.items():
            path = root / path.replace('__', '/').lstrip('/')
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return kernel_files.WritableTree(root)

    def test_a_kernel_that_knows_caches(self):
        release = {'proc__sys__kernel__osrelease': '7.2.0\n'}
        config = {'boot__config-7.2.0': 'CONFIG_SCHED_CACHE=y\n'}
        self.assertFalse(host_reading.knows_caches(self.tree(**release)))
        self.assertTrue(host_reading.knows_caches(
            self.tree(**release, **config)))
        self.assertFalse(host_reading.knows_caches(self.tree(
            **release, **config, sys__kernel__debug__sched__features='A '
            'NO_SCHED_CACHE B')))

    def test_interrupts_of_queues(self):
        for name in ('eth0-TxRx-3', 'mlx5_comp3@pci:0000:3b:00.0',
                     'virtio0-input.3', 'i40e-eth0-TxRx-0', 'eth0-fp-0'):
            self.assertTrue(host_reading.is_of_queue(name), name)
        for name in ('mlx5_async0@pci:0000:3b:00.0', 'virtio0-config',
                     'ice-0000:3b:00.0:misc', 'eth0'):
            self.assertFalse(host_reading.is_of_queue(name), name)

    def test_domains_without_ids(self):
        files = {}
        for cpu in range(4):
            path = f'sys__devices__system__cpu__cpu{cpu}__cache__index3__'
            files |= {f'{path}level': '3\n', f'{path}type': 'Unified\n',
                      f'{path}shared_cpu_list':
                      '0-1\n' if cpu < 2 else '2-3\n'}
        self.assertEqual({0: CPUS('0-1'), 1: CPUS('2-3')},
                         host_reading.l3_domains(self.tree(**files)))

    def test_domains(self):
        files = {}
        for cpu in range(4):
            path = f'sys__devices__system__cpu__cpu{cpu}__cache__index3__'
            files |= {f'{path}level': '3\n', f'{path}id': f'{cpu // 2}\n'}
        self.assertEqual({0: CPUS('0-1'), 1: CPUS('2-3')},
                         host_reading.l3_domains(self.tree(**files)))
