# SPDX-License-Identifier: Apache-2.0
"""Plans carried out, with every request going wrong in every way."""

import json
import os
import time
from unittest import mock

import ddt
import fixtures
from oslotest import base as oslotest
from requests_mock.contrib import fixture

from nova_pinning import errors
from nova_pinning import model
from nova_pinning.rebalance import apply_journal
from nova_pinning.rebalance import move_run
from nova_pinning.rebalance import plan_execution
from nova_pinning.rebalance import plan_model
from nova_pinning.tests import forms
from nova_pinning.tests.unit.rebalance import fake_nova

LIVE = plan_model.MigrationKind.LIVE
COLD = plan_model.MigrationKind.COLD
PLAN = 'sha256:plan'


def pins(*cpus):
    return ((0, tuple(enumerate(cpus))),)


def fit(*cpus):
    return model.Fit((model.CellFit(0, tuple(enumerate(cpus))),))


def move(guest, source, source_cpus, target, target_cpus, kind=LIVE,
         **fields):
    return plan_model.PlannedMove(
        guest=guest, source=source, target=target, kind=kind,
        vcpus=len(source_cpus), memory_mib=1024, source_fit=fit(*source_cpus),
        target_fit=fit(*target_cpus), **fields)


def plan_of(*moves):
    return plan_model.RebalancePlan(
        goal=plan_model.PlanGoal.DEFRAGMENT, moves=moves)


#: A swap by way of a third host, a cold move in it, and one move that has
#: nothing to do with the others.
MOVES = (
    move('g1', 'a', (0, 1), 'c', (2, 3), is_parking=True),
    move('g2', 'b', (0, 1), 'a', (0, 1), COLD, after=(0,)),
    move('g1', 'c', (2, 3), 'b', (0, 1), after=(1,)),
    move('g4', 'd', (0, 1), 'a', (2, 3), after=(1,)),
)
END = {'g1': ('b', pins(0, 1)), 'g2': ('a', pins(0, 1)),
       'g3': ('b', pins(2, 3)), 'g4': ('a', pins(2, 3)),
       'g5': ('c', pins(0, 1))}


def guests():
    return [fake_nova.Guest('g1', 'a', pins(0, 1)),
            fake_nova.Guest('g2', 'b', pins(0, 1), 'SHUTOFF'),
            fake_nova.Guest('g3', 'b', pins(2, 3)),
            fake_nova.Guest('g4', 'd', pins(0, 1)),
            fake_nova.Guest('g5', 'c', pins(0, 1))]


class Journal(apply_journal.ApplyJournal):
    """A journal that is held to the truth at every line.

    :ivar nova: what the truth is
    :ivar moves: of the plan
    """

    def write(self, event, **content):
        if event == 'ended' and content['status'] == 'done':
            planned = self.moves[content['move']]
            guest = self.nova.guests[planned.guest]
            assert guest.host == planned.target, content
            assert guest.cells == move_run.fit_cells(planned.target_fit)
            assert guest.task_state is None, content
            assert guest.status in ('ACTIVE', 'SHUTOFF'), content
        super().write(event, **content)


class ExecutionTestCase(oslotest.BaseTestCase):

    def setUp(self):
        super().setUp()
        self.http = self.useFixture(fixture.Fixture())
        self.useFixture(fixtures.MockPatch(
            'keystoneauth1.session.time',
            mock.Mock(wraps=time, sleep=lambda seconds: None)))
        self.directory = self.useFixture(fixtures.TempDir()).path
        self.path = os.path.join(self.directory, 'plan.json.journal')
        self.set_up_cloud()

    def set_up_cloud(self, *more):
        self.nova = fake_nova.FakeNova(
            {name: fake_nova.Host() for name in 'abcd'},
            [*guests(), *more])
        self.nova.serve(self.http)
        self.nova.watch = self.check
        self.forget()

    def forget(self):
        if os.path.exists(self.path):
            os.unlink(self.path)

    def check(self):
        """What must never be otherwise."""
        for name in self.nova.hosts:
            self.nova.taken(name)

    def journal(self, moves=MOVES):
        Journal.nova, Journal.moves = self.nova, moves
        return Journal(self.path, PLAN)

    def run_plan(self, moves=MOVES, **options):
        """Prepare and run.

        :returns: the execution; its events are in ``self.events``
        """
        self.events = []
        with self.journal(moves) as journal:
            self.execution = plan_execution.PlanExecution(
                self.nova.cloud(), plan_of(*moves), journal,
                sleep=self.nova.sleep, clock=self.nova.clock, **options)
            self.execution.prepare()
            if not self.execution.problems:
                for event in self.execution.run():
                    self.events.append(event)
        return self.execution

    def places(self):
        return {guest.uuid: (guest.host, guest.cells)
                for guest in self.nova.guests.values()}

    def statuses(self):
        return [(result.position, str(result.status))
                for result in self.execution.results]

    def assert_at_end(self, context=None):
        self.assertEqual(END, self.places(), context)
        self.assertEqual(
            {'g1': 'ACTIVE', 'g2': 'SHUTOFF', 'g3': 'ACTIVE', 'g4': 'ACTIVE',
             'g5': 'ACTIVE'},
            {guest.uuid: guest.status for guest in self.nova.guests.values()},
            context)
        self.assertEqual({'completed', 'confirmed'}, {
            one.status for one in self.nova.migrations}, context)

    def asked(self):
        return [path for method, path in self.nova.requests
                if method == 'POST']

    def lines(self):
        with open(self.path, encoding='utf-8') as file:
            return [json.loads(line) for line in file]


class TestExecution(ExecutionTestCase):

    def test_undisturbed(self):
        execution = self.run_plan()
        self.assert_at_end()
        self.assertEqual([(0, 'done'), (1, 'done'), (2, 'done'), (3, 'done')],
                         self.statuses())
        self.assertEqual(('', [], ()), (
            execution.halted, execution.problems, execution.left))
        self.assertEqual(5, len(self.asked()))
        # One with bytes, while it ran.
        self.assertIn((fake_nova.GIB, 2 * fake_nova.GIB), [
            (event.copied, event.left) for event in self.events
            if isinstance(event, move_run.MoveProgress)])
        self.assertEqual(
            ['begun', 'asked', 'ended', 'asked', 'confirming', 'ended',
             'asked', 'ended', 'asked', 'ended'],
            [line['event'] for line in self.lines()])

    def test_run_again(self):
        self.run_plan()
        for _journal in range(2):
            self.nova.restart()
            execution = self.run_plan()
            self.assertEqual([], execution.results)
            self.assertEqual([], self.asked())
            self.assertEqual((), execution.left)
            self.forget()

    def test_parallel(self):
        most = 0

        def watch():
            nonlocal most
            most = max(most, sum(
                one.status in fake_nova.LIVE_STEPS[:-1]
                for one in self.nova.migrations))

        self.nova.watch = watch
        self.run_plan(parallel=4)
        self.assert_at_end()
        self.assertEqual(2, most)
        # Nothing is begun before what it comes after is done.
        order = [(line['event'], line['move']) for line in self.lines()
                 if line['event'] in ('asked', 'ended')]
        for position, planned in enumerate(MOVES):
            for before in planned.after:
                self.assertLess(order.index(('ended', before)),
                                order.index(('asked', position)))

    def test_told_to_stop(self):
        self.run_plan(is_stopping=lambda: self.nova.ticks >= 3)
        self.assertEqual([(0, 'done')], self.statuses())
        self.assertIn('told to stop', self.execution.halted)
        self.assertEqual(
            ['g1'], [planned.guest for planned in self.execution.parked])
        self.run_plan()
        self.assertEqual([(1, 'done'), (2, 'done'), (3, 'done')],
                         self.statuses())
        self.assertEqual((), self.execution.parked)
        self.assert_at_end()

    def test_parked_on_the_way_to_where_it_was(self):
        """Only the journal tells that its moves are done."""
        moves = (move('g1', 'a', (0, 1), 'c', (2, 3), is_parking=True),
                 move('g4', 'd', (0, 1), 'a', (0, 1), after=(0,)),
                 move('g4', 'a', (0, 1), 'd', (0, 1), after=(1,)),
                 move('g1', 'c', (2, 3), 'a', (0, 1), after=(2,)))
        self.run_plan(moves, is_stopping=lambda: len(
            self.execution.results) == 3)
        self.assertEqual('d', self.nova.guests['g4'].host)
        self.run_plan(moves)
        self.assertEqual([(3, 'done')], self.statuses())


@ddt.ddt
class TestWorldThatChanged(ExecutionTestCase):

    def assert_stopped(self, *words, asked=0):
        self.assertEqual(asked, len(self.asked()))
        said = '\n'.join([self.execution.halted, *self.execution.problems])
        for word in words:
            self.assertIn(word, said)

    def test_before_it_begins(self):
        for change, *words in (
                (lambda nova: setattr(nova.guests['g4'], 'host', 'c') or
                 setattr(nova.guests['g4'], 'cells', pins(2, 3)),
                 'guest g4', 'the guest is on c'),
                (lambda nova: setattr(nova.guests['g4'], 'cells',
                                      pins(2, 3)),
                 'CPUs 2-3 of cell 0, not on d, CPUs 0-1 of cell 0'),
                (lambda nova: nova.guests.pop('g4'), 'no such guest'),
                (lambda nova: setattr(nova.guests['g4'], 'status', 'SHUTOFF'),
                 'g4: the guest is SHUTOFF'),
                (lambda nova: setattr(nova.guests['g2'], 'status', 'PAUSED'),
                 'g2: the guest is PAUSED'),
                (lambda nova: setattr(nova.guests['g4'], 'task_state',
                                      'rebooting'), 'rebooting'),
                (lambda nova: nova.guests.update(new=fake_nova.Guest(
                    'new', 'a', pins(2, 3))), 'guest new has CPU 2 of a')):
            self.set_up_cloud()
            change(self.nova)
            self.run_plan()
            self.assert_stopped(*words)

    def test_another_cloud(self):
        self.nova.guests.clear()
        error = self.assertRaises(errors.InputError, self.run_plan)
        self.assertIn('none of the 3 guests', str(error))
        self.set_up_cloud()
        del self.nova.hosts['d']
        error = self.assertRaises(errors.InputError, self.run_plan)
        self.assertIn('move 3: cloud fake has no host d', str(error))

    def test_while_it_runs(self):
        """What happens during the first move keeps the second from starting.
        """
        def other(nova):
            nova.migrations.append(fake_nova.Migration(
                2, 'g3', 'live-migration', 'queued', 'b', 'a', pins(2, 3)))

        def unconfirmed(nova):
            nova.migrations.append(fake_nova.Migration(
                2, 'g3', 'resize', 'finished', 'a', 'b'))

        for change, word in (
                (lambda nova: nova.guests.update(new=fake_nova.Guest(
                    'new', 'a', pins(2, 3))), 'guest new has come to it'),
                (lambda nova: nova.guests.pop('g2'), 'no such guest'),
                (lambda nova: setattr(nova.guests['g2'], 'status', 'ERROR'),
                 'the guest is ERROR'),
                (lambda nova: setattr(nova.guests['g2'], 'host', 'd') or
                 setattr(nova.guests['g2'], 'cells', pins(2, 3)),
                 'the guest is on d'),
                (lambda nova: setattr(nova.guests['g2'], 'cells', ()),
                 'no cell of its host, not on CPUs 0-1'),
                (lambda nova: setattr(nova.guests['g2'], 'task_state', 'x'),
                 'somebody else'),
                (lambda nova: setattr(nova.hosts['a'], 'status', 'disabled'),
                 'a is disabled: upgrade'),
                (lambda nova: setattr(nova.hosts['b'], 'state', 'down'),
                 'nova-compute of b is down'),
                (lambda nova: nova.hosts.pop('b'), 'no host b any more'),
                (unconfirmed, 'g3 may still come back to a'),
                (other, 'guest g3 is on its way from b to a')):
            self.set_up_cloud()
            self.nova.at_tick = lambda number: change(self.nova) if (
                number == 5) else None
            self.nova.watch = lambda: None
            self.run_plan()
            self.assertEqual([(0, 'done'), (1, 'changed')], self.statuses(),
                             word)
            self.assert_stopped(word, 'move 1: ', asked=1)

    def test_guest_that_floats(self):
        floating = fake_nova.Guest('f', 'd', ())
        self.set_up_cloud(floating)
        self.run_plan([plan_model.PlannedMove(
            guest='f', source='d', target='a', kind=LIVE, vcpus=1,
            memory_mib=1)])
        self.assertEqual([(0, 'done')], self.statuses())
        self.assertEqual('a', floating.host)


@ddt.ddt
class TestMigrationsThatFail(ExecutionTestCase):

    @ddt.data(*((at, how) for at in fake_nova.LIVE_STEPS[:-2]
                for how in ('error', 'failed', 'cancelled')))
    @ddt.unpack
    def test_live(self, at, how):
        self.nova.breaks['g1'] = (at, how)
        self.run_plan()
        self.assertEqual([(0, 'failed')], self.statuses())
        self.assertIn(f'ended in {how}: No valid host was found',
                      self.execution.halted)
        self.assertEqual(('a', pins(0, 1)), self.places()['g1'])
        self.run_plan()
        self.nova.migrations.pop(0)
        self.assert_at_end()

    @ddt.data('migrating', 'post-migrating', 'confirming')
    def test_cold(self, at):
        self.nova.breaks['g2'] = (at, 'error')
        self.run_plan()
        self.assertEqual([(0, 'done'), (1, 'stuck')], self.statuses())
        self.assertIn('in ERROR on', self.execution.halted)
        self.assertIn('the disk is full', self.execution.halted)
        self.assertIn('reboot --hard g2', self.execution.halted)
        self.assertEqual(1, len(self.execution.parked))
        self.run_plan()
        self.assertEqual([], self.execution.results)
        self.assertNotEqual([], self.execution.problems)

    def test_cold_that_is_not_begun(self):
        self.nova.breaks['g2'] = ('pre-migrating', 'error')
        self.run_plan()
        self.assertEqual([(0, 'done'), (1, 'failed')], self.statuses())
        self.run_plan()
        self.assertEqual([(1, 'done'), (2, 'done'), (3, 'done')],
                         self.statuses())

    def test_refused(self):
        def act(guest, action, content):
            return 400, {'badRequest': {'message': 'no PCI devices'}}

        with mock.patch.object(self.nova, '_act', act):
            self.run_plan()
        self.assertEqual([(0, 'failed')], self.statuses())
        self.assertIn('no PCI devices', self.execution.halted)

    def test_never_taken(self):
        def act(guest, action, content):
            return 409, {'conflictingRequest': {'message': 'locked'}}

        with mock.patch.object(self.nova, '_act', act):
            self.run_plan()
        self.assertEqual([(0, 'failed')], self.statuses())
        self.assertIn('did not take the request, 5 times',
                      self.execution.halted)
        self.assertIn('locked', self.execution.halted)

    def test_other_cpus(self):
        """Live: told; the rest goes on if it still fits."""
        self.nova.claims['g4', 'a'] = pins(3, 2)
        self.run_plan()
        self.assertEqual([(0, 'done'), (1, 'done'), (2, 'done'),
                          (3, 'deviated')], self.statuses())
        self.assertIn('CPUs 3,2 of cell 0 of a, not CPUs 2-3 of cell 0',
                      self.execution.results[-1].message)
        self.assertEqual((), self.execution.left)
        self.run_plan()
        self.assertEqual([], self.execution.results + self.execution.problems)

    def test_other_cpus_that_are_in_the_way(self):
        moves = (move('g4', 'd', (0, 1), 'c', (2, 3)),
                 move('g3', 'b', (2, 3), 'd', (0, 1), after=(0,)),
                 move('g5', 'c', (0, 1), 'd', (2, 3)))
        self.nova.claims['g3', 'd'] = pins(2, 3)
        self.run_plan(moves)
        self.assertEqual([(0, 'done'), (1, 'deviated')], self.statuses())
        self.assertIn('and so move 2: guest g3 has CPU 2 of d',
                      self.execution.halted)

    def test_other_cpus_cold(self):
        self.nova.claims['g2', 'a'] = pins(2, 3)
        self.run_plan()
        self.assertEqual([(0, 'done'), (1, 'reverted')], self.statuses())
        self.assertEqual(('b', pins(0, 1)), self.places()['g2'])
        self.assertEqual('SHUTOFF', self.nova.guests['g2'].status)
        self.nova.claims.clear()
        self.run_plan()
        self.assertEqual(END, self.places())

    def test_deviation_that_was_not_written(self):
        """The process was killed before it looked at the CPUs."""
        self.nova.claims['g1', 'c'] = pins(3, 2)
        self.nova.at_tick = self.kill_at(5)
        self.assertRaises(fake_nova.Killed, self.run_plan)
        self.nova.at_tick = lambda number: None
        self.run_plan()
        self.assertEqual([(1, 'done'), (2, 'done'), (3, 'done')],
                         self.statuses())
        self.assertEqual(END, self.places())

    def kill_at(self, tick):
        def at_tick(number):
            if number == tick:
                for one in self.nova.migrations:
                    for _step in range(5):
                        self.nova._go_on(one)
                raise fake_nova.Killed
        return at_tick

    @ddt.data(*'ac')
    def test_host_down_half_way(self, host):
        self.nova.at_tick = lambda number: number == 3 and setattr(
            self.nova.hosts[host], 'state', 'down')
        for _try in range(2):
            # Still down: it is waited for again, for a while.
            self.run_plan()
            self.assertEqual([(0, 'stuck')], self.statuses())
            self.assertIn(f'nova-compute of {host} is down, with the guest on '
                          'a; migration 1 is ', self.execution.halted)
            self.assertGreater(self.nova.now, 10)
        self.nova.hosts[host].state = 'up'
        self.nova.at_tick = lambda number: None
        self.run_plan()
        self.assert_at_end()

    @ddt.data(*'ac')
    def test_host_that_hangs(self, host):
        """Nova does not even abort it."""
        self.nova.at_tick = lambda number: number == 3 and setattr(
            self.nova.hosts[host], 'hangs', True)
        self.run_plan(timeout_seconds=60)
        self.assertEqual([(0, 'stuck')], self.statuses())
        self.assertIn('not ended it after 60 s', self.execution.halted)
        self.assertIn('nova-compute of a and of c', self.execution.halted)
        self.assertIn('aborting', [line['event'] for line in self.lines()])
        self.nova.hosts[host].hangs = False
        self.nova.at_tick = lambda number: None
        self.run_plan()
        self.assert_at_end()

    def test_host_down_in_a_cold_move(self):
        self.nova.at_tick = lambda number: number == 8 and setattr(
            self.nova.hosts['b'], 'hangs', True)
        self.run_plan(timeout_seconds=60)
        self.assertEqual([(0, 'done'), (1, 'stuck')], self.statuses())
        self.assertNotIn('aborting', [line['event'] for line in self.lines()])
        self.nova.at_tick = lambda number: None
        self.nova.hosts['b'].hangs = False
        for _journal in range(2):
            self.forget()
            self.run_plan()
        self.assert_at_end()

    def test_takes_too_long(self):
        """It is aborted, and nothing else is begun."""
        with mock.patch.object(fake_nova, 'LIVE_STEPS', (
                'accepted', *['running'] * 2, 'completed')):
            self.run_plan(timeout_seconds=30)
        self.assertEqual([(0, 'failed')], self.statuses())
        self.assertIn('it was aborted, since it took longer than 30 s',
                      self.execution.halted)
        self.assertEqual(('a', pins(0, 1)), self.places()['g1'])

    def test_deleted_half_way(self):
        self.nova.at_tick = lambda number: number == 3 and (
            self.nova.guests.pop('g1'))
        self.run_plan()
        self.assertEqual([(0, 'gone')], self.statuses())
        self.assertIn('deleted', self.execution.halted)

    def test_somebody_else_moves_it(self):
        def other(number):
            if number == 2:
                self.nova.migrations[0].target = 'd'
        self.nova.at_tick = other
        self.run_plan()
        self.assertEqual([(0, 'changed')], self.statuses())
        self.assertIn('from a to d', self.execution.halted)

    def test_a_resize_of_somebody_else(self):
        self.nova.migrations.append(fake_nova.Migration(
            1, 'g2', 'resize', 'finished', 'b', 'a'))
        self.nova.guests['g2'].status = 'VERIFY_RESIZE'
        self.run_plan()
        self.assertEqual([], self.asked())
        self.assertIn('migration 1 is finished', self.execution.problems[0])


@ddt.ddt
class TestEveryRequest(ExecutionTestCase):
    """Every request of a run, and every fault."""

    #: Requests of a run without faults.
    count = 0

    def turns(self, fault):
        if not self.count:
            self.run_plan()
            TestEveryRequest.count = len(self.nova.requests)
        return forms.turns(self.count, fault, tuple(fake_nova.Fault))

    @ddt.data(*fake_nova.TOLD)
    def test_one_fault(self, fault):
        for number in self.turns(fault):
            self.set_up_cloud()
            self.nova.restart(fault, (number,))
            context = (fault, number)
            try:
                self.run_plan()
            except errors.CloudError:
                # While it was prepared; nothing was asked for.
                self.assertEqual([], self.asked(), context)
                self.run_plan()
            self.assert_at_end(context)
            self.assertEqual(4, len(self.nova.migrations), context)

    @ddt.data(*fake_nova.Fault)
    def test_cut_off_and_run_again(self, fault):
        """With the journal, and without it; in CI by turns."""
        for turn, number in enumerate(self.turns(fault)):
            for is_lost in (False, True):
                if forms.SHORT and is_lost != bool(turn % 2):
                    continue
                self.set_up_cloud()
                context = fault, number, is_lost
                self.nova.restart(fault, range(number, 100_000))
                try:
                    self.run_plan()
                except (errors.CloudError, fake_nova.Killed):
                    pass
                self.nova.restart()
                if is_lost:
                    self.forget()
                # Whatever was under way may have ended, or not.
                for _tick in range(number % 7):
                    self.nova.sleep(1)
                self.run_plan()
                self.assertEqual([], self.execution.problems, context)
                self.assert_at_end(context)
