# SPDX-License-Identifier: Apache-2.0
"""nova-pinning agent, with guests that are made up."""

from unittest import mock

from nova_pinning.agent import agent_model
from nova_pinning.agent import running_guests
from nova_pinning import cpuset
from nova_pinning.host import agent_record
from nova_pinning.host import hostfile_writer
from nova_pinning.host import machine_files
from nova_pinning.tests.unit.cli import cli_case
from nova_pinning.tests.unit.host.check import fact_samples

GUEST = agent_model.AgentGuest(
    'uuid', 'guest', 7, {0: cpuset.CpuSet.parse('1')},
    wishes=agent_model.Wishes(2))


class AgentCommandTestCase(cli_case.TestCase):

    def setUp(self):
        super().setUp()
        self.plan = self.write('plan.yaml',
                               hostfile_writer.dump(fact_samples.planned()))
        self.conf = self.write('agent.conf', '\n'.join((
            '[agent]', f'plan = {self.plan}', f'record = {self.dir}/record',
            'interrupts = false', 'floating_guests = off')))
        self.source = mock.Mock()
        self.source.guests.return_value = []
        self.start = self.useFixture(cli_case.fixtures.MockPatchObject(
            running_guests, 'RunningGuests',
            return_value=self.source)).mock

    def run_agent(self, *options):
        return self.run_command('agent', '--config-file', self.conf, *options)

    def test_dry_run(self):
        done = self.run_agent('--dry-run')
        self.assertEqual((0, ''), (done.status, done.err))
        # This machine may have fewer CPUs than the plan.
        self.assertTrue(done.out.endswith('everything is as it is to be\n'))
        self.assertEqual([], list(self.dir.glob('record*')))

    def test_a_guest_waits(self):
        self.source.guests.return_value = [GUEST]
        done = self.run_agent('--once')
        self.assertEqual(1, done.status, done.err)
        self.assertIn('warning: guest guest (uuid): ', done.err)

    def test_release(self):
        done = self.run_agent('--undo')
        self.assertEqual(0, done.status, done.err)
        record = agent_record.load(machine_files.Tree(),
                                   str(self.dir / 'record'))
        self.assertTrue(record.is_empty)

    def test_release_needs_neither_plan_nor_guests(self):
        self.source.guests.side_effect = AssertionError
        for text in ('plan: [', ''):
            self.write('plan.yaml', text)
            self.assertEqual(0, self.run_agent('--undo').status)
        self.source.guests.assert_not_called()

    def test_guests_are_not_known(self):
        self.source.guests.side_effect = (
            running_guests.GuestsUnknownError('no'))
        done = self.run_agent('--once')
        self.assertEqual(2, done.status)
        self.assertIn('it is not known which guests run: no', done.err)
        self.assertIn('libvirt_state', done.err)

    def test_bad_input(self):
        for text, told in (('kept_ways = x', 'kept_ways'),
                           ('floating_guests = often', 'floating_guests'),
                           ('plan = /none', '/none')):
            conf = self.write('bad.conf', f'[agent]\n{text}\n')
            done = self.run_command('agent', '--config-file', conf,
                                    '--dry-run')
            self.assertEqual(2, done.status)
            self.assertIn(told, done.err)

    def test_a_directory_for_a_file(self):
        done = self.run_command('agent', '--config-file', str(self.dir),
                                '--dry-run')
        self.assertEqual(2, done.status)
        self.assertIn(f'{self.dir}: ', done.err)

    def test_no_plan(self):
        host = self.write('host.yaml',
                          hostfile_writer.dump(fact_samples.machine()))
        # By its configuration, and without any.
        conf = self.write('agent.conf', f'[agent]\nplan = {host}\n')
        self.useFixture(cli_case.fixtures.EnvironmentVariable(
            'OS_AGENT__PLAN', host))
        for options in ('--config-file', conf), ():
            done = self.run_command('agent', *options, '--dry-run')
            self.assertEqual(2, done.status)
            self.assertIn(f'{host}:1:1: ', done.err)
            self.assertIn('there is no plan in it', done.err)

    def test_a_plan_of_another_host(self):
        with mock.patch.object(machine_files.Tree, 'cpus',
                               return_value=cpuset.CpuSet([0])):
            done = self.run_agent('--dry-run')
        self.assertEqual(0, done.status, done.err)
        self.assertRegex(done.out, 'note: the plan has CPUs 1-.*, not online')

    def test_a_record_that_makes_no_sense(self):
        self.write('record', '{')
        done = self.run_agent('--once')
        self.assertEqual(2, done.status)
        self.assertIn('no record of nova-pinning agent', done.err)

    def test_a_catalogue(self):
        conf = self.write('older.conf', '\n'.join((
            '[agent]', f'plan = {self.plan}', f'record = {self.dir}/record',
            f'catalogue = {cli_case.CATALOGUE}', 'cache = false')))
        self.assertEqual(0, self.run_command(
            'agent', '--config-file', conf, '--dry-run').status)
        flavors = self.start.call_args.args[2]
        self.assertTrue(all(specs for specs in flavors.values()))
