# SPDX-License-Identifier: Apache-2.0
"""openstack pinning rebalance apply, on a compute API in memory."""

import contextlib
import io
import json
import os
import signal
import time
from unittest import mock

import fixtures
from oslotest import base as oslotest
from requests_mock.contrib import fixture

from nova_pinning import errors
from nova_pinning.osc import rebalance_apply
from nova_pinning.rebalance import plan_document
from nova_pinning.rebalance import plan_execution
from nova_pinning.rebalance import plan_model
from nova_pinning.rebalance import plan_request
from nova_pinning.rebalance import slot_size
from nova_pinning.tests.unit.rebalance import fake_nova
from nova_pinning.tests.unit.rebalance import test_plan_execution

#: Room for a guest of four vCPUs.
SIZE_4 = plan_request.MakeRoom(sizes=(slot_size.dedicated_slot(4),))
STATE = plan_model.FleetState(digest=f'sha256:{"0" * 64}')


class Terminal(io.StringIO):
    def isatty(self):
        return True


class TestApply(oslotest.BaseTestCase):

    def setUp(self):
        super().setUp()
        self.useFixture(fixtures.EnvironmentVariable('COLUMNS', '100'))
        self.http = self.useFixture(fixture.Fixture())
        self.useFixture(fixtures.MockPatch(
            'keystoneauth1.session.time',
            mock.Mock(wraps=time, sleep=lambda seconds: None)))
        self.nova = fake_nova.FakeNova(
            {name: fake_nova.Host() for name in 'abcd'},
            test_plan_execution.guests())
        self.nova.serve(self.http)
        kind = plan_execution.PlanExecution
        self.useFixture(fixtures.MockPatchObject(
            rebalance_apply.plan_execution, 'PlanExecution',
            lambda *args, **options: kind(
                *args, sleep=self.nova.sleep, clock=self.nova.clock,
                **options)))
        self.path = os.path.join(
            self.useFixture(fixtures.TempDir()).path, 'plan.json')
        self.write(test_plan_execution.MOVES)

    def write(self, moves, **fields):
        plan_document.write_plan(plan_model.RebalancePlan(
            goal=plan_model.PlanGoal.DEFRAGMENT, moves=tuple(moves),
            fleet=STATE, request=plan_request.PlanRequest(goal=SIZE_4),
            **fields), self.path)

    def run_apply(self, *options, answer=None, path=None):
        """Run the command.

        :returns: (status, output, error output)
        """
        kind = rebalance_apply.ApplyPlan
        command = kind(mock.Mock(), None)
        cloud = self.nova.cloud()
        output, error = io.StringIO(), io.StringIO()
        stdin = io.StringIO() if answer is None else Terminal(answer)
        with (mock.patch.object(kind, 'fleet_cloud', cloud),
              mock.patch.object(kind, 'cloud', cloud),
              mock.patch('sys.stdin', stdin),
              contextlib.redirect_stdout(output),
              contextlib.redirect_stderr(error)):
            try:
                status = command.run(command.get_parser('apply').parse_args(
                    [path or self.path, *options]))
            finally:
                self.said = output.getvalue(), error.getvalue()
        return status, *self.said

    def posts(self):
        return [path for method, path in self.nova.requests
                if method != 'GET']

    def test_text(self):
        status, output, error = self.run_apply('--dry-run')
        self.assertEqual((1, ''), (status, error))
        self.assertEqual("""\
   step  guest  vCPUs  memory  from  cell  to  cell  CPUs  how   note
A     1  g1         2   1 GiB  a     0     c   0     2-3   live  moves on later
B     2  g2         2   1 GiB  b     0     a   0     0-1   cold
A     3  g1         2   1 GiB  c     0     b   0     0-1   live
C     3  g4         2   1 GiB  d     0     a   0     2-3   live
4 moves to make, 4 GiB to copy
""".split(), output.split())
        self.assertEqual([], self.posts())
        self.assertEqual(['plan.json'], os.listdir(
            os.path.dirname(self.path)))
        status, output, error = self.run_apply('--yes')
        self.assertEqual((0, ''), (status, error))
        self.assertEqual([
            '0: g1 from a to c: done, on CPUs 2-3 of cell 0, 1,024 MiB copied',
            '1: g2 from b to a: done, on CPUs 0-1 of cell 0',
            '2: g1 from c to b: done, on CPUs 0-1 of cell 0, 1,024 MiB copied',
            '3: g4 from d to a: done, on CPUs 2-3 of cell 0, 1,024 MiB copied',
            '4 of 4 moves done'], output.splitlines()[-5:])
        status, output, error = self.run_apply('--dry-run')
        self.assertEqual((0, ''), (status, error))
        self.assertIn('4 of 4 done already', output)
        status, output, _error = self.run_apply()
        self.assertEqual((0, 'nothing to do'),
                         (status, output.splitlines()[-1]))

    def test_answers(self):
        status, output, _error = self.run_apply(answer='n\n')
        self.assertEqual(1, status)
        self.assertIn('nothing was changed', output)
        status, _output, error = self.run_apply()
        self.assertEqual(2, status)
        self.assertIn('--yes', error)
        self.assertEqual([], self.posts())
        status, _output, _error = self.run_apply(answer='y\n')
        self.assertEqual(0, status)

    def test_the_cloud_changes_while_it_is_asked(self):
        class Slow(Terminal):
            def readline(answer):
                self.nova.guests['g4'].status = 'SHUTOFF'
                return 'y'

        with mock.patch(f'{__name__}.Terminal', Slow):
            status, _output, error = self.run_apply(answer='y')
        self.assertEqual(1, status)
        self.assertIn('the guest is SHUTOFF', error)
        self.assertIn('nothing was moved', error)
        self.assertEqual([], self.posts())

    def test_json(self):
        status, output, _error = self.run_apply('--dry-run', '-f', 'json')
        told = json.loads(output)
        self.assertEqual(
            (1, 'fake', [], ['g1', 'g2', 'g1', 'g4']),
            (status, told['cloud'], told['problems'],
             [one['guest'] for one in told['moves']]))
        self.nova.claims['g4', 'a'] = test_plan_execution.pins(3, 2)
        status, output, _error = self.run_apply('--yes', '-f', 'json')
        told = json.loads(output)['results']
        self.assertEqual(1, status)
        self.assertEqual(['done', 'done', 'done', 'deviated'],
                         [one['status'] for one in told])
        self.assertEqual([{'cell': 0, 'vcpus': [0, 1], 'cpus': [3, 2]}],
                         told[-1]['cells'])

    def test_stopped_with_a_parked_guest(self):
        self.nova.breaks['g2'] = ('pre-migrating', 'error')
        status, output, error = self.run_apply('--yes')
        self.assertEqual(1, status)
        self.assertIn('1 of 4 moves done', output)
        self.assertIn('stopped: move 1: ', error)
        self.assertIn(
            'g1 is parked on c; to take it back: openstack server migrate '
            '--live-migration --host a g1', error)

    def test_ctrl_c(self):
        """The first lets the move end, after which it can go on."""
        self.nova.at_tick = lambda number: number == 2 and os.kill(
            os.getpid(), signal.SIGINT)
        before = signal.getsignal(signal.SIGINT)
        status, output, error = self.run_apply('--yes')
        self.assertEqual(1, status)
        self.assertIn('no more moves will be begun', error)
        self.assertIn('0: g1 from a to c: done', output)
        self.assertIn('1 of 4 moves done', output)
        self.assertIs(before, signal.getsignal(signal.SIGINT))
        self.nova.at_tick = lambda number: None
        self.assertEqual(0, self.run_apply('--yes')[0])

    def test_ctrl_c_twice(self):
        self.nova.at_tick = lambda number: number in (2, 3) and os.kill(
            os.getpid(), signal.SIGINT)
        self.assertRaises(KeyboardInterrupt, self.run_apply, '--yes')
        _output, error = self.said
        self.assertIn('the move of g1 to c goes on in nova; to end it: '
                      'openstack server migration abort g1 ', error)
        self.assertIn('interrupted after 0 of 4 moves', error)
        self.nova.at_tick = lambda number: None
        self.assertEqual(0, self.run_apply('--yes')[0])
        self.assertEqual(4, len(self.nova.migrations))

    def test_two_at_once(self):
        def other(number):
            self.nova.at_tick = lambda number: None
            self.assertEqual(2, self.run_apply('--yes')[0])
            said.append(self.said[1])

        said = []
        self.nova.at_tick = other
        self.assertEqual(0, self.run_apply('--yes')[0])
        self.assertIn('another process is carrying this plan out', said[0])

    def test_ill_cloud(self):
        self.run_apply('--dry-run')
        count = len(self.nova.requests)
        self.nova.restart(fake_nova.Fault.UNAVAILABLE,
                          range(count + 12, 10_000))
        status, _output, error = self.run_apply('--yes')
        self.assertEqual(1, status)
        self.assertIn('cloud fake: ', error)
        self.assertIn('run the command again to finish', error)

    def test_bad_input(self):
        for options, path, words in (
                ((), '-', 'no place for a journal'),
                ((), '/nowhere/plan.json', 'No such file')):
            status, _output, error = self.run_apply(
                '--yes', *options, path=path)
            self.assertEqual(2, status)
            self.assertIn(words, error)
        self.run_apply('--yes')
        self.write(test_plan_execution.MOVES, stopped='a')
        status, _output, error = self.run_apply('--yes')
        self.assertEqual(2, status)
        self.assertIn('is the journal of another plan', error)

    def test_without_request(self):
        """It can be carried out."""
        with open(self.path) as file:
            made = json.load(file)
        with open(self.path, 'w') as file:
            json.dump({**made, 'request': None}, file)
        self.assertEqual(0, self.run_apply('--yes')[0])

    def test_a_plan_of_no_moves(self):
        self.write(())
        self.assertEqual((0, ''), self.run_apply('--yes')[::2])

    def test_cannot_be_asked(self):
        with mock.patch.object(
                self.nova, '_nova', lambda *args: (403, {'forbidden': {
                    'message': 'policy'}})):
            status, _output, error = self.run_apply('--yes')
        self.assertEqual(1, status)
        self.assertIn('an administrator may', error)
        self.assertNotIn(errors.InputError.__name__, error)
