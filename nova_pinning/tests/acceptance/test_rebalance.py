# SPDX-License-Identifier: Apache-2.0
"""Plans of moves carried out on a real cloud, with libvirt's migrations."""

import json
import os
import pathlib
import subprocess
import tempfile
import time
import xml.etree.ElementTree as ElementTree

import testtools

from nova_pinning import model
from nova_pinning.rebalance import plan_document
from nova_pinning.rebalance import plan_model
from nova_pinning.tests.acceptance import minicloud_runner

ONE, TWO = HOSTS = ('pinning-1', 'pinning-2')
MEMORY_MIB = 64
LIVE = plan_model.MigrationKind.LIVE
COLD = plan_model.MigrationKind.COLD
PATIENCE_SECONDS = 120


class TestRebalance(testtools.TestCase):

    def setUp(self):
        super().setUp()
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = pathlib.Path(directory.name)
        self.path = self.directory / 'plan.json'
        self.cloud = self.useFixture(minicloud_runner.MiniCloud(*(
            option for host in HOSTS
            for option in ('--host-cpus', f'{host}=dedicated:0-1'))))
        self.openstack(
            f'flavor create --vcpus 1 --ram {MEMORY_MIB} --disk 0 '
            '--property hw:cpu_policy=dedicated pinned')

    def openstack(self, command, status=0):
        return self.cloud.run(f'openstack {command}', status)

    def boot(self, name, host):
        return json.loads(self.openstack(
            'server create --wait --nic none --image minicloud --flavor '
            f'pinned --host {host} {name} -f json'))['id']

    def write(self, *moves):
        """Write a plan, from (guest, source, CPU, target, CPU, kind)."""
        for path in self.directory.iterdir():
            path.unlink()
        plan_document.write_plan(plan_model.RebalancePlan(
            goal=plan_model.PlanGoal.DEFRAGMENT,
            fleet=plan_model.FleetState(digest=f'sha256:{"0" * 64}'),
            moves=tuple(plan_model.PlannedMove(
                guest=guest, source=source, target=target, kind=kind,
                vcpus=1, memory_mib=MEMORY_MIB, source_fit=_fit(cpu),
                target_fit=_fit(target_cpu),
                after=tuple(range(position)))
                for position, (guest, source, cpu, target, target_cpu, kind)
                in enumerate(moves))), self.path)

    def apply(self, *options, status=0):
        command = ' '.join(('pinning rebalance apply --yes', *options,
                            str(self.path), '2>&1'))
        output = self.openstack(command, status)
        print(f'$ openstack {command}\n{output}')
        return output

    def begin(self):
        """Start a command, and wait until it has asked nova for a move."""
        started = subprocess.Popen(
            ['openstack', 'pinning', 'rebalance', 'apply', '--yes',
             str(self.path)], env=self.cloud.environment,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL)
        self.addCleanup(started.wait)
        self.addCleanup(started.kill)
        self.wait(lambda: '"asked"' in self.journal())
        return started

    def wait(self, is_there):
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not is_there():
            if time.monotonic() > deadline:
                self.fail('it took too long')
            time.sleep(0.1)

    def journal(self):
        path = f'{self.path}.journal'
        return (pathlib.Path(path).read_text(encoding='utf-8')
                if os.path.exists(path) else '')

    def assert_on(self, guest, host, cpu):
        """Libvirt of the host runs it there, and that of no other does."""
        for name in HOSTS:
            found = self.cloud.run_on(name, 'virsh', 'list', '--all',
                                      '--uuid').split()
            self.assertEqual(name == host, guest in found, (name, found))
        tree = ElementTree.fromstring(
            self.cloud.run_on(host, 'virsh', 'dumpxml', guest))
        self.assertEqual([str(cpu)], [
            pin.get('cpuset') for pin in tree.iter('vcpupin')])
        self.assertEqual('running\n\n', self.cloud.run_on(
            host, 'virsh', 'domstate', guest))

    def test_rebalance(self):
        """One cloud for all of it, since to make one takes long."""
        one, two = self.boot('one', ONE), self.boot('two', TWO)
        self.check_moves(one, two)
        self.check_kill(one)
        self.check_journal_lost(one)
        self.check_other_cpus(one)
        self.check_compute_that_hangs(one)

    def check_moves(self, one, two):
        """Two guests change places, and one is moved cold."""
        self.write((one, ONE, 0, TWO, 1, LIVE), (two, TWO, 0, ONE, 0, LIVE),
                   (one, TWO, 1, ONE, 1, COLD))
        self.apply('--dry-run', status=1)
        self.assert_on(one, ONE, 0)
        output = self.apply()
        self.assertIn('3 of 3 moves done', output)
        self.assert_on(one, ONE, 1)
        self.assert_on(two, ONE, 0)
        print(self.journal())
        self.assertIn('3 of 3 done already', self.apply())

    def check_kill(self, one):
        """Nova goes on without the command, which finds out what it did."""
        self.write((one, ONE, 1, TWO, 0, LIVE), (one, TWO, 0, ONE, 1, LIVE))
        self.begin().kill()
        output = self.apply()
        self.assertIn('done', output)
        self.assert_on(one, ONE, 1)

    def check_journal_lost(self, one):
        self.write((one, ONE, 1, TWO, 0, LIVE))
        started = self.begin()
        started.kill()
        started.wait()
        os.unlink(f'{self.path}.journal')
        self.apply()
        self.assert_on(one, TWO, 0)
        # Not asked for twice; the two others are of before.
        self.assertEqual(3, len([
            migration for migration in json.loads(self.openstack(
                f'server migration list --server {one} -f json'))
            if migration['Status'] == 'completed'
            and migration['Dest Compute'] == TWO]))

    def check_other_cpus(self, one):
        """CPU 0 of the other host is taken, so that nova has but one."""
        self.write((one, TWO, 0, ONE, 1, COLD))
        self.apply()
        self.write((one, ONE, 1, TWO, 1, COLD))
        output = self.apply(status=1)
        self.assertIn('reverted: the guest got CPU 0 of cell 0', output)
        self.assert_on(one, ONE, 1)
        self.write((one, ONE, 1, TWO, 1, LIVE))
        output = self.apply(status=1)
        self.assertIn('deviated: the guest got CPU 0 of cell 0', output)
        self.assert_on(one, TWO, 0)

    def check_compute_that_hangs(self, one):
        """It is given up, and carried on with when the host is back."""
        self.write((one, TWO, 0, ONE, 1, LIVE))
        self.cloud.run_on(ONE, 'pkill', '-STOP', '-f', 'nova-compute')
        try:
            output = self.apply('--timeout', '10', status=1)
        finally:
            self.cloud.run_on(ONE, 'pkill', '-CONT', '-f', 'nova-compute')
        self.assertIn('stuck: nova has not ended it after 10 s', output)
        # It may still be moved, or nova may have given up waiting.
        for _try in range(2):
            command = f'pinning rebalance apply --yes {self.path} 2>&1 || true'
            print(self.openstack(command))
        self.assert_on(one, ONE, 1)


def _fit(cpu):
    return model.Fit((model.CellFit(0, ((0, cpu),)),))
