# SPDX-License-Identifier: Apache-2.0
"""Watching what runs on CPUs: who, where, and for how long."""

import os
import pathlib
from unittest import mock

import ddt
import fixtures
import hypothesis
from hypothesis import strategies

from nova_pinning import cpuset
from nova_pinning.host.check import cpu_watch
from nova_pinning.host import machine_files
from nova_pinning.tests.unit.host import unreadable
from nova_pinning.tests.unit import unit_base

NO_SETAFFINITY, KTHREAD = 0x04000000, 0x00200000


def cpus(text):
    return cpuset.CpuSet.parse(text)


class Machine:
    """A /proc and a /sys whose time goes by when somebody sleeps.

    :ivar events: called one after the other, each by one sleep
    """

    def __init__(self, path, possible='0-3'):
        self.root = pathlib.Path(path)
        self.now = 100.0
        self.slept = []
        self.events = []
        self.write('sys/devices/system/cpu/possible', possible)
        self.write('proc/self/schedstat', '1 1 1')
        self.write('sys/kernel/irq/1/per_cpu_count', '0,0,0,0')
        self.thread(1, 1, 'init', ran=1, cpu=0)

    @property
    def tree(self):
        return machine_files.Tree(self.root)

    def write(self, path, text):
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f'{text}\n')

    def thread(self, pid, tid, name, ran, cpu, allowed='0-3', flags=0):
        """Make a thread, or set what it has run for, in ns, and where."""
        directory = f'proc/{pid}/task/{tid}'
        rest = ['S'] + ['0'] * 50
        rest[6], rest[36] = str(flags), str(cpu)
        self.write(f'{directory}/schedstat', f'{ran} 7 9')
        self.write(f'{directory}/stat', f'{tid} ({name}) {" ".join(rest)}')
        self.write(f'{directory}/status',
                   f'Name:\t{name}\nCpus_allowed_list:\t{allowed}')
        if pid == tid:
            self.write(f'proc/{pid}/stat', f'{tid} ({name}) {" ".join(rest)}')
            self.write(f'proc/{pid}/cmdline',
                       '' if flags & KTHREAD else f'/bin/{name}\0-x')

    def end(self, pid, tid):
        for file in (self.root / f'proc/{pid}/task/{tid}').iterdir():
            file.unlink()
        (self.root / f'proc/{pid}/task/{tid}').rmdir()

    def clock(self):
        return self.now

    def sleep(self, seconds):
        self.slept.append(seconds)
        self.now += seconds
        if self.events:
            self.events.pop(0)()

    def watch(self, on='2-3', seconds=0.35, **options):
        return cpu_watch.watch(self.tree, cpus(on), seconds, clock=self.clock,
                               sleep=self.sleep, **options)


def ran(watched):
    """Nanoseconds by thread and CPU."""
    return {run.thread.tid: {cpu: round(seconds * 10 ** 9)
                             for cpu, seconds in run.seconds.items()}
            for run in watched.runs}


@ddt.ddt
class TestWatch(unit_base.TestCase):

    def setUp(self):
        super().setUp()
        self.machine = Machine(self.useFixture(fixtures.TempDir()).path)
        self.thread, self.events = self.machine.thread, self.machine.events

    def test_nothing_runs(self):
        self.thread(7, 7, 'idle', ran=5000, cpu=2)
        watched = self.machine.watch()
        self.assertEqual(((), ()), (watched.runs, watched.arrivals))
        self.assertEqual((cpus('2-3'), 5, False), (
            watched.cpus, watched.looks, watched.is_cut))
        self.assertAlmostEqual(0.35, watched.seconds)
        self.assertEqual((), watched.unread)

    def test_time_goes_to_where_it_is_seen(self):
        self.thread(7, 7, 'busy', ran=5000, cpu=2)
        self.events += [
            lambda: self.thread(7, 7, 'busy', ran=5100, cpu=3),
            lambda: self.thread(7, 7, 'busy', ran=5300, cpu=1),
            lambda: self.thread(7, 7, 'busy', ran=5700, cpu=3)]
        watched = self.machine.watch()
        self.assertEqual({7: {3: 500}}, ran(watched))
        [one] = watched.runs
        self.assertEqual(('busy', cpus('0-3')),
                         (one.process.name, one.thread.cpus))

    def test_who_comes_later_has_run_since(self):
        self.thread(7, 7, 'parent', ran=0, cpu=0)
        self.events += [
            lambda: self.thread(7, 8, 'child', ran=40, cpu=2),
            lambda: self.thread(9, 9, 'other', ran=50, cpu=3)]
        self.assertEqual({8: {2: 40}, 9: {3: 50}}, ran(self.machine.watch()))

    def test_a_number_that_is_used_again(self):
        self.thread(7, 7, 'first', ran=5000, cpu=0)
        self.events.append(lambda: self.thread(7, 7, 'next', ran=30, cpu=2))
        self.assertEqual({7: {2: 30}}, ran(self.machine.watch()))

    def test_who_ends_is_not_forgotten(self):
        self.thread(7, 7, 'leader', ran=0, cpu=0)
        self.thread(7, 8, 'worker', ran=0, cpu=0)
        self.events += [
            lambda: self.thread(7, 8, 'worker', ran=60, cpu=3),
            lambda: self.machine.end(7, 8)]
        watched = self.machine.watch()
        self.assertEqual({8: {3: 60}}, ran(watched))
        [one] = watched.runs
        self.assertEqual((7, 'leader', 'worker'), (
            one.process.pid, one.process.name, one.thread.name))

    def test_ends_while_it_is_looked_at(self):
        self.thread(7, 7, 'gone', ran=0, cpu=0)

        def half():
            self.thread(7, 7, 'gone', ran=60, cpu=3)
            (self.machine.root / 'proc/7/stat').unlink()

        self.events.append(half)
        [one] = self.machine.watch().runs
        self.assertEqual(('gone', cpuset.CpuSet(), False), (
            one.process.name, one.thread.cpus, one.process.of_kernel))

    def test_vanishes_between_its_files(self):
        self.thread(7, 7, 'gone', ran=0, cpu=0)

        def half():
            self.thread(7, 7, 'gone', ran=60, cpu=3)
            (self.machine.root / 'proc/7/task/7/stat').unlink()

        self.events.append(half)
        self.assertEqual((), self.machine.watch().runs)

    @ddt.data((KTHREAD | NO_SETAFFINITY, True, False), (KTHREAD, True, True),
              (NO_SETAFFINITY, False, False), (0, False, True))
    @ddt.unpack
    def test_kind(self, flags, of_kernel, may_move):
        def run(nanoseconds):
            self.thread(7, 7, 'a (b) c', ran=nanoseconds, cpu=2,
                        allowed='2', flags=flags)

        run(0)
        self.events.append(lambda: run(9))
        [one] = self.machine.watch().runs
        self.assertEqual(
            ('a (b) c', of_kernel, may_move, cpus('2')),
            (one.thread.name, one.process.of_kernel, one.thread.may_move,
             one.thread.cpus))

    def test_itself_is_left_out(self):
        own = os.getpid()
        self.thread(own, own, 'self', ran=0, cpu=2)
        self.events.append(
            lambda: self.thread(own, own, 'self', ran=99, cpu=2))
        self.assertEqual((), self.machine.watch().runs)

    @unit_base.settings(30)
    @hypothesis.given(strategies.lists(strategies.lists(
        strategies.tuples(strategies.integers(1, 4),
                          strategies.integers(0, 10 ** 12),
                          strategies.integers(0, 3)), max_size=4),
        max_size=6))
    def test_all_that_was_run_is_found(self, steps):
        """Whatever is seen on a CPU adds up, be it watched or not."""
        machine = Machine(self.useFixture(fixtures.TempDir()).path)
        total = dict.fromkeys(range(1, 5), 0)
        expected = {}

        def run(step):
            last = {}
            for tid, nanoseconds, cpu in step:
                total[tid] += nanoseconds
                machine.thread(1, tid, 'x', ran=total[tid], cpu=cpu)
                since, _cpu = last.get(tid, (0, cpu))
                last[tid] = (since + nanoseconds, cpu)
            for tid, (since, cpu) in last.items():
                if cpu > 1 and since:
                    by_cpu = expected.setdefault(tid, {})
                    by_cpu[cpu] = by_cpu.get(cpu, 0) + since

        for tid in total:
            machine.thread(1, tid, 'x', ran=0, cpu=0)
        machine.events += [lambda step=step: run(step) for step in steps]
        self.assertEqual(expected, ran(machine.watch(seconds=1)))

    def test_rests_longer_than_it_looks(self):
        machine, moments = self.machine, []

        def slow(tree):
            machine.now += 0.5
            moments.append(machine.now)
            return []

        with mock.patch.object(cpu_watch.processes, 'pids', slow):
            watched = machine.watch(seconds=60)
        self.assertEqual(9.5, machine.slept[0])
        self.assertEqual(len(moments), watched.looks)
        self.assertLessEqual(watched.looks * 0.5, 0.05 * 60 + 1)

    def test_tells(self):
        told = []
        self.machine.watch(tell=told.append)
        self.assertEqual([0.1, 0.2, 0.3, 0.35],
                         [round(one, 3) for one in told])

    def test_interrupted(self):
        self.thread(7, 7, 'busy', ran=0, cpu=0)

        def interrupt():
            self.machine.write('sys/kernel/irq/1/per_cpu_count', '0,0,0,5')
            raise KeyboardInterrupt

        self.events += [lambda: self.thread(7, 7, 'busy', ran=9, cpu=3),
                        interrupt]
        watched = self.machine.watch(seconds=3600)
        self.assertEqual((True, 2, {7: {3: 9}}),
                         (watched.is_cut, watched.looks, ran(watched)))
        self.assertAlmostEqual(0.2, watched.seconds)
        self.assertEqual({3: 5}, watched.arrivals[0].counts)


class TestInterrupts(unit_base.TestCase):

    def setUp(self):
        super().setUp()
        self.machine = Machine(self.useFixture(fixtures.TempDir()).path,
                               possible='0-1,8-9')

    def _counts(self, number, counts):
        self.machine.write(f'sys/kernel/irq/{number}/per_cpu_count', counts)

    def _watch(self, before, after, on='1,9'):
        for number, counts in before.items():
            self._counts(number, counts)
            self.machine.write(f'sys/kernel/irq/{number}/actions', 'a,b')
        self.machine.events.append(lambda: [
            self._counts(number, counts) for number, counts in after.items()])
        return {arrival.number: (arrival.names, arrival.counts)
                for arrival in self.machine.watch(on).arrivals}

    def test_cpus_are_the_possible_ones(self):
        self.assertEqual(
            {30: (('a', 'b'), {9: 3}), 31: (('a', 'b'), {1: 1, 9: 2})},
            self._watch({30: '1,1,1,1', 31: '0,0,0,0', 32: '0,0,0,0'},
                        {30: '5,1,1,4', 31: '0,1,0,2', 32: '9,0,9,0'}))

    def test_new_interrupt(self):
        self.assertEqual({40: ((), {9: 7})},
                         self._watch({}, {40: '0,0,0,7'}))

    def test_count_starts_again(self):
        self.assertEqual(
            {30: (('a', 'b'), {9: 3})},
            self._watch({30: f'0,0,0,{2 ** 32 - 1}'}, {30: '0,0,0,2'}))

    def test_count_that_is_cut_off(self):
        self.assertEqual({}, self._watch({30: '0,0,0,0'}, {30: '9,9,9'}))


class TestUnread(unit_base.TestCase):

    def setUp(self):
        super().setUp()
        self.machine = Machine(self.useFixture(fixtures.TempDir()).path)

    def _hidden(self):
        return {one.hides: (one.path, one.reason)
                for one in self.machine.watch().unread}

    def test_hidden_processes(self):
        self.machine.end(1, 1)
        for name in ('stat', 'cmdline', 'task'):
            path = self.machine.root / 'proc/1' / name
            path.rmdir() if path.is_dir() else path.unlink()
        (self.machine.root / 'proc/1').rmdir()
        self.assertIn('hidepid', self._hidden()[
            'what threads of other users ran where'][1])

    def test_processes_that_must_not_be_read(self):
        self.machine.thread(7, 7, 'busy', ran=0, cpu=0)
        with unreadable.files(lambda path: '/proc/7/' in path):
            self.assertEqual(
                {'what threads of 1 process ran where':
                 ('/proc/PID', 'permission denied')}, self._hidden())

    def test_kernel_that_does_not_count(self):
        (self.machine.root / 'proc/self/schedstat').unlink()
        self.assertIn('what threads ran where', self._hidden())

    def test_no_interrupts(self):
        (self.machine.root / 'sys/kernel/irq/1/per_cpu_count').unlink()
        (self.machine.root / 'sys/kernel/irq/1').rmdir()
        (self.machine.root / 'sys/kernel/irq').rmdir()
        self.assertIn('what interrupts arrived where', self._hidden())
