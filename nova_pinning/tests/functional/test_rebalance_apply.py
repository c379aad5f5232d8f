# SPDX-License-Identifier: Apache-2.0
"""openstack pinning rebalance apply on nova's own API, with its migrations."""

import contextlib
import datetime
import io
import itertools
import json
import os
import random
from unittest import mock

import fixtures
from nova.tests.fixtures import libvirt as fakelibvirt
from testtools import content

from nova_pinning.cli import shell
from nova_pinning import errors
from nova_pinning.fleet import document
from nova_pinning import model
from nova_pinning.rebalance import apply_journal
from nova_pinning.rebalance import migration_cloud
from nova_pinning.rebalance import plan_document
from nova_pinning.rebalance import plan_execution
from nova_pinning.rebalance import plan_model
from nova_pinning.tests import forms
from nova_pinning.tests.functional import apiserver
from nova_pinning.tests.functional import functional_base
from nova_pinning.tests.functional import marked_cloud
from nova_pinning.tests.functional import stored_fleet

LIVE = plan_model.MigrationKind.LIVE
COLD = plan_model.MigrationKind.COLD
#: Whether each request meets each fault, which takes many minutes.
EVERY_FAULT = bool(os.environ.get('NOVA_PINNING_EVERY_FAULT'))


def fit(*cpus):
    return model.Fit((model.CellFit(0, tuple(enumerate(cpus))),))


class RebalanceTestCase(marked_cloud.SegregationTestCase):
    """Hosts of four CPUs without threads, which nova gives out in order."""

    HOSTS = ('a', 'b', 'c')

    @classmethod
    def start(cls, nova):
        for name in cls.HOSTS:
            nova.start_host(name, functional_base.small_host(
                cores_per_cell=4, threads=1, dedicated='0-3'))
        return {'flavor': nova.create_flavor(
            'pinned', 2, 1024, {'hw:cpu_policy': 'dedicated'})}

    def setUp(self):
        super().setUp()
        self.useFixture(fixtures.MockPatchObject(
            plan_execution, 'POLL_SECONDS', 0.1))
        self.directory = self.useFixture(fixtures.TempDir()).path
        self.path = os.path.join(self.directory, 'plan.json')

    def boot(self, name, host):
        server = self.nova.boot(name, self.flavor, host)
        self.assert_active([server], host)
        return server

    def move(self, server, source, source_cpus, target, target_cpus,
             kind=LIVE, **fields):
        return plan_model.PlannedMove(
            guest=server.id, name=server.name, source=source, target=target,
            kind=kind, vcpus=2, memory_mib=1024,
            source_fit=fit(*source_cpus), target_fit=fit(*target_cpus),
            **fields)

    def write(self, *moves):
        plan = plan_model.RebalancePlan(
            goal=plan_model.PlanGoal.DEFRAGMENT, moves=moves,
            fleet=plan_model.FleetState(digest=f'sha256:{"0" * 64}'))
        plan_document.write_plan(plan, self.path)
        return plan

    def forget(self):
        os.unlink(self.path + apply_journal.SUFFIX)

    def run_apply(self, *more, status=0):
        return self.call_command('rebalance', 'apply', self.path, *more,
                                 status=status)

    def assert_at(self, server, host, cpus, status='ACTIVE'):
        """Nova's databases say that it is there, and nowhere else."""
        shown = self.nova.show(server)
        self.assertEqual((status, host), (shown.status, shown.host))
        self.assertEqual(cpus, self.pinned_cpus(server))
        self.nova.update_resources()
        for name in self.HOSTS:
            pinned = self.host_pinned_cpus(name)
            if name == host:
                self.assertLessEqual(cpus, pinned)
        # Nothing is held for a migration.
        self.assertEqual(
            [host], [name for name in self.HOSTS
                     if server.id in self.nova.allocations(name)])

    def writes(self):
        return [path for method, path in self.api.requests
                if method != 'GET']

    def lines(self):
        with open(self.path + apply_journal.SUFFIX,
                  encoding='utf-8') as file:
            return [json.loads(line) for line in file]


class TestCommand(functional_base.OneCloud, RebalanceTestCase):

    def test_swap_by_way_of_a_third_host(self):
        one, two = self.boot('one', 'a'), self.boot('two', 'b')
        three, four = self.boot('three', 'a'), self.boot('four', 'b')
        self.nova._act(three, {'os-stop': None})
        self.write(
            self.move(one, 'a', (0, 1), 'c', (0, 1), is_parking=True),
            self.move(two, 'b', (0, 1), 'a', (0, 1), after=(0,)),
            self.move(one, 'c', (0, 1), 'b', (0, 1), after=(1,)),
            self.move(three, 'a', (2, 3), 'c', (0, 1), COLD, after=(2,)))
        self.api.restart()
        output, error = self.run_apply('--dry-run', status=1)
        self.assertEqual([], self.writes())
        self.assertEqual(['plan.json'], os.listdir(self.directory))
        for words in ('one', 'live  moves on later',
                      '4 moves to make, 4 GiB to copy'):
            self.assertIn(words, output)
        _output, error = self.run_apply(status=2)
        self.assertIn('give --yes', error)
        self.assertEqual([], self.writes())

        output, error = self.run_apply('--yes')
        self.assertIn('3: three from a to c: done, on CPUs 0-1 of cell 0\n'
                      '4 of 4 moves done\n', output)
        self.assert_at(one, 'b', {0, 1})
        self.assert_at(two, 'a', {0, 1})
        self.assert_at(three, 'c', {0, 1}, 'SHUTOFF')
        self.assert_at(four, 'b', {2, 3})
        for name, cpus in (('a', {0, 1}), ('b', {0, 1, 2, 3}),
                           ('c', {0, 1})):
            self.assertEqual(cpus, self.host_pinned_cpus(name), name)

        self.api.restart()
        for _journal in range(2):
            output, _error = self.run_apply('--yes')
            self.assertIn('4 of 4 done already', output)
            self.forget()
        self.assertEqual([], self.writes())

    def test_json(self):
        server = self.boot('one', 'a')
        self.write(self.move(server, 'a', (0, 1), 'c', (0, 1)))
        output, _error = self.call_command(
            'rebalance', 'apply', self.path, '--yes', '--format', 'json')
        [result] = json.loads(output)['results']
        self.assertEqual(
            ('done', [{'cell': 0, 'vcpus': [0, 1], 'cpus': [0, 1]}]),
            (result['status'], result['cells']))
        self.assert_at(server, 'c', {0, 1})

    def test_other_cpus_than_planned(self):
        one, two = self.boot('one', 'a'), self.boot('two', 'b')
        self.write(self.move(one, 'a', (0, 1), 'c', (2, 3)),
                   self.move(two, 'b', (0, 1), 'c', (0, 1), COLD))
        output, error = self.run_apply('--yes', status=1)
        self.assertIn('one from a to c: deviated: the guest got CPUs 0-1 of '
                      'cell 0 of c, not CPUs 2-3 of cell 0', output)
        self.assertIn(
            f'and so move 1: guest {one.id} has CPU 0 of c, which the plan '
            f'gives to {two.id}', error)
        self.assert_at(two, 'b', {0, 1})

    def test_other_cpus_than_planned_cold(self):
        server = self.boot('one', 'a')
        self.write(self.move(server, 'a', (0, 1), 'c', (2, 3), COLD))
        output, error = self.run_apply('--yes', status=1)
        self.assertIn('reverted: the guest got CPUs 0-1 of cell 0 of c, not '
                      'CPUs 2-3 of cell 0, so it was taken back', output)
        self.assert_at(server, 'a', {0, 1})

    def test_bad_input(self):
        server = self.boot('one', 'a')
        self.api.restart()
        self.write(self.move(server, 'a', (0, 1), 'x', (0, 1)))
        _output, error = self.run_apply('--yes', status=2)
        self.assertIn('move 0: cloud test has no host x', error)
        self.forget()
        ghost = self.move(server, 'a', (0, 1), 'b', (0, 1))
        self.write(plan_model.PlannedMove(**{
            name: getattr(ghost, name) for name in ghost.__slots__}
            | {'guest': '5b7f8ac5-2b1f-4c2c-8a7c-1ff5a4c6e3aa'}))
        _output, error = self.run_apply('--yes', status=2)
        self.assertIn('none of the 1 guests of the plan is in cloud test',
                      error)
        # Older than the cloud is.
        self.write(self.move(server, 'a', (2, 3), 'b', (0, 1)))
        _output, error = self.run_apply('--yes', status=2)
        self.assertIn('is the journal of another plan', error)
        self.forget()
        _output, error = self.run_apply('--yes', status=1)
        self.assertIn('the guest is on a, CPUs 0-1 of cell 0, not on a, CPUs '
                      '2-3 of cell 0', error)
        self.assertEqual([], self.writes())


class TestFromTheDatabases(RebalanceTestCase):
    """All of the way: nova's databases, a plan, and the moves."""

    def setUp(self):
        super().setUp()
        self.servers = {name: self.boot(name, host) for name, host in (
            ('one', 'a'), ('two', 'b'), ('three', 'c'))}
        self.fleet = os.path.join(self.directory, 'fleet.json')

    def run_rebalance(self, command, *argv, status=0):
        """Run a command on the fleet as the databases have it now."""
        document.write(self.fleet, stored_fleet.read(self))
        # Now, since the directory is gone when details are asked for.
        self.addDetail('fleet', content.content_from_file(
            self.fleet, buffer_now=True))
        output, error = io.StringIO(), io.StringIO()
        with (contextlib.redirect_stdout(output),
              contextlib.redirect_stderr(error)):
            done = shell.main(['rebalance', command, *argv])
        self.assertEqual((status, []), (done, [
            line for line in error.getvalue().splitlines()
            if line != f'wrote {self.path}']))
        return output.getvalue()

    def test_room_and_a_host_that_is_emptied(self):
        output = self.run_rebalance(
            'plan', self.fleet, '--for', '4', '--moves', '2',
            '-o', self.path)
        self.run_rebalance('show', self.path, self.fleet, '--nova-claim')
        self.assertIn('1 move makes room for 1 more guest of 4 vCPUs', output)
        move, = plan_document.read_plan(self.path).moves
        output, _error = self.run_apply('--yes')
        # The CPUs that it got are those that the plan has.
        self.assertIn('done, on CPUs', output)
        moved = self.servers[move.name]
        self.assert_at(moved, move.target, {
            cpu for cell in move.target_fit.cells for _vcpu, cpu in cell.pins})
        output = self.run_rebalance('show', self.path, self.fleet)
        self.assertIn('of which 1 is made already', output)
        self.assertIn('4 vCPUs: 1 fit now, 1 after', output)
        # So a guest of that size comes up where none did.
        large = self.nova.create_flavor(
            'large', 4, 1024, {'hw:cpu_policy': 'dedicated'})
        server = self.nova.boot('large', large, move.source)
        self.assert_active([server], move.source)

        # What is left has no room for more.
        self.forget()
        output = self.run_rebalance('plan', self.fleet, '--drain',
                                    move.target, status=1)
        self.assertIn(f'{move.target} cannot be drained', output)
        self.nova.delete(server)
        self.run_rebalance('plan', self.fleet, '--drain', move.target,
                           '-o', self.path)
        self.run_apply('--yes')
        self.nova.update_resources()
        self.assertEqual(set(), self.host_pinned_cpus(move.target))


class TestMigrationsThatFail(functional_base.OneCloud, RebalanceTestCase):

    def setUp(self):
        super().setUp()
        self.server = self.boot('one', 'a')
        self.write(self.move(self.server, 'a', (0, 1), 'c', (0, 1)))

    def test_no_valid_host(self):
        aggregate = self.nova.create_aggregate(
            'shared', ['c'], {'pinning:class': 'shared'})
        output, error = self.run_apply('--yes', status=1)
        self.assertIn('one from a to c: failed: migration', output)
        self.assertIn('No valid host was found', error)
        self.assert_at(self.server, 'a', {0, 1})
        self.nova.stage.admin_api.remove_host_from_aggregate(aggregate, 'c')
        self.run_apply('--yes')
        self.assert_at(self.server, 'c', {0, 1})

    def test_libvirt_that_gives_up(self):
        def fail(domain, *args, **options):
            domain.fail_job()
            domains.append(domain)

        domains = []
        with mock.patch('nova.tests.fixtures.libvirt.Domain.migrateToURI3',
                        fail):
            output, _error = self.run_apply('--yes', status=1)
        # Nova's fake would still say so of the next one.
        domains[0]._job_type = fakelibvirt.VIR_DOMAIN_JOB_NONE
        self.assertIn('one from a to c: failed: migration', output)
        self.assert_at(self.server, 'a', {0, 1})
        self.run_apply('--yes')
        self.assert_at(self.server, 'c', {0, 1})

    def test_nova_that_fails(self):
        """It then has the guest in ERROR, though that runs on."""
        with mock.patch('nova.virt.libvirt.LibvirtDriver.live_migration',
                        side_effect=RuntimeError('a mistake in nova')):
            output, error = self.run_apply('--yes', status=1)
        self.assertIn('one from a to c: stuck: the guest is in ERROR on a',
                      output)
        command = f'server set --state active {self.server.id}'
        self.assertIn(f'openstack {command}', error)
        _output, error = self.run_apply('--yes', status=1)
        self.assertIn('the guest is in ERROR on a', error)
        self.nova.stage.admin_api.post_server_action(
            self.server.id, {'os-resetState': {'state': 'active'}})
        # Till then c counts what it had set aside.
        self.nova.update_resources()
        self.run_apply('--yes')
        self.assert_at(self.server, 'c', {0, 1})

    def test_host_that_is_down(self):
        self.nova.fail_host('c')
        self.addCleanup(self.nova.recover_host, 'c')
        _output, error = self.run_apply('--yes', status=1)
        self.assertIn('nova-compute of c is down', error)
        self.assert_at(self.server, 'a', {0, 1})
        self.assertEqual(['begun', 'ended', 'halted'],
                         [line['event'] for line in self.lines()])

    def test_somebody_takes_the_place(self):
        other = self.boot('other', 'c')
        _output, error = self.run_apply('--yes', status=1)
        self.assertIn(f'guest {other.id} has CPU 0 of c', error)
        self.assert_at(self.server, 'a', {0, 1})

    def test_deleted_as_it_is_asked_for(self):
        def before(number):
            if self.api.requests[number][0] == 'POST':
                self.nova.delete(self.server)

        self.api.restart(before=before)
        output, _error = self.run_apply('--yes', status=1)
        self.assertIn('gone: the guest was deleted', output)


class TestEveryRequest(RebalanceTestCase):
    """One cloud for all faults: to start one takes longer than to use it."""

    def setUp(self):
        super().setUp()
        self.servers = [self.boot('one', 'a'), self.boot('two', 'b')]
        # There and back again.
        self.plans = [
            plan_model.RebalancePlan(
                goal=plan_model.PlanGoal.DEFRAGMENT, moves=moves)
            for moves in (
                (self.move(self.servers[0], 'a', (0, 1), 'c', (0, 1)),
                 self.move(self.servers[1], 'b', (0, 1), 'a', (0, 1), COLD,
                           after=(0,))),
                (self.move(self.servers[1], 'a', (0, 1), 'b', (0, 1), COLD),
                 self.move(self.servers[0], 'c', (0, 1), 'a', (0, 1),
                           after=(0,))))]
        self.turn = 0

    def carry_out(self):
        """Carry the plan out whose turn it is.

        :returns: the moves that are left
        """
        with apply_journal.ApplyJournal(self.journal, 'plan') as journal:
            execution = plan_execution.PlanExecution(
                migration_cloud.MigrationCloud(self.connect(), 'test'),
                self.plans[self.turn], journal, poll_seconds=0.1)
            execution.prepare()
            self.assertEqual([], execution.problems)
            list(execution.run())
        return execution.left

    @property
    def journal(self):
        return os.path.join(self.directory, f'{self.turn}.journal')

    def forget(self):
        if os.path.exists(self.journal):
            os.unlink(self.journal)

    def end(self):
        """All is where the plan has it; the other one is next."""
        one, two = self.servers
        self.assert_at(one, *(('c', {0, 1}), ('a', {0, 1}))[self.turn])
        self.assert_at(two, *(('a', {0, 1}), ('b', {0, 1}))[self.turn])
        self.forget()
        self.turn = 1 - self.turn

    def cases(self):
        """Which request what befalls, and whether for good.

        The last is 'once', or 'cut off': no request is answered from then on,
        and the program is started again, maybe without its journal.
        """
        self.api.restart()
        self.assertEqual((), self.carry_out())
        self.end()
        count = len(self.api.requests)
        once = list(itertools.product(
            apiserver.Fault, range(count), ('once',)))
        cut_off = list(itertools.product(
            (apiserver.Fault.DROPPED, apiserver.Fault.LOST), range(3, count),
            ('cut off', 'cut off, journal lost')))
        if EVERY_FAULT:
            return once + cut_off
        # Other ones each day.
        seed = int(os.environ.get(
            'NOVA_PINNING_FAULT_SEED',
            datetime.datetime.now(datetime.timezone.utc).toordinal()))
        self.addDetail('seed', content.text_content(
            f'NOVA_PINNING_FAULT_SEED={seed}'))
        chance = random.Random(seed)
        return (chance.sample(once, 2 if forms.SHORT else 5) +
                chance.sample(cut_off, 1 if forms.SHORT else 3))

    def test_faults(self):
        for fault, number, how in self.cases():
            try:
                self._meet(fault, number, how)
            except Exception:
                self.addDetail('case', content.text_content(
                    f'{fault} of request {number}, {how}'))
                raise

    def _meet(self, fault, number, how):
        is_once = how == 'once'
        self.api.restart(
            fault, (number,) if is_once else range(number, 10_000))
        for _try in range(3):
            with contextlib.suppress(errors.CloudError):
                if not self.carry_out():
                    break
            if not is_once:
                self.api.restart()
                if how.endswith('lost'):
                    self.forget()
        self.end()
