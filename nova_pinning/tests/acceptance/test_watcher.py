# SPDX-License-Identifier: Apache-2.0
"""Watcher's own services move guests on a real cloud, as our plans say.

watcher-api, watcher-decision-engine and watcher-applier run beside a minicloud
of three hosts with two dedicated CPUs each.
"""

import json
import pathlib
import re
import tempfile
import time

import testtools

from nova_pinning.tests.acceptance import minicloud_runner
from nova_pinning.tests.acceptance import watcher_services

HOSTS = ('pinning-1', 'pinning-2', 'pinning-3')
NOVA = """
nova:
  dedicated_cpus: 0-1
"""
SECONDS = 180


class TestWatcher(testtools.TestCase):

    def setUp(self):
        super().setUp()
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        host_files = pathlib.Path(directory.name)
        self.cloud = self.useFixture(minicloud_runner.MiniCloud(
            '--hosts', str(len(HOSTS)),
            *(option for host in HOSTS for option in (
                '--host-cpus', f'{host}=dedicated:0-1'))))
        for host in HOSTS:
            found = self.cloud.run_on(
                host, str(watcher_services.BIN / 'nova-pinning'), 'host',
                'discover')
            (host_files / f'{host}.yaml').write_text(found + NOVA)
        self.useFixture(watcher_services.Watcher(self.cloud, host_files))
        self.openstack('flavor create --vcpus 1 --ram 64 --disk 1 '
                       '--property hw:cpu_policy=dedicated pinned')

    def openstack(self, command):
        return self.cloud.run(f'openstack {command}')

    def read(self, command):
        return json.loads(self.openstack(f'{command} -f json'))

    def boot(self, name, host):
        self.openstack(f'server create --wait --nic none --image minicloud '
                       f'--flavor pinned --host {host} {name}')

    def place(self, name):
        """Return the host of a guest, and the CPU that it is pinned to."""
        server = self.read(f'server show {name}')
        self.assertEqual('ACTIVE', server['status'])
        host = server['OS-EXT-SRV-ATTR:host']
        pins = self.cloud.run_on(
            host, 'virsh', 'vcpupin', server['OS-EXT-SRV-ATTR:instance_name'])
        (_vcpu, cpu), = [line.split() for line in pins.splitlines()[2:]
                         if line]
        return host, cpu

    def wait(self, what, look):
        """Look until something is there; returns it."""
        limit = time.monotonic() + SECONDS
        while not (found := look()):
            if time.monotonic() > limit:
                self.fail(f'no {what} within {SECONDS} seconds:\n' +
                          self.cloud.log('watcher-decision-engine')[-20000:])
        return found

    def audit(self, goal, strategy, *options):
        """Have Watcher make an audit; returns its UUID."""
        audit = self.read(f'optimize audit create --goal {goal} '
                          f'--strategy {strategy} {" ".join(options)}')
        return audit['UUID']

    def plans(self, audit, state):
        """Return the UUIDs of an audit's plans that are in a state."""
        return [plan['UUID'] for plan in self.read(
            f'optimize actionplan list --audit {audit}')
            if plan['State'] == state]

    def actions(self, plan):
        """Return the actions of a plan, each by what it says."""
        return [self.read(f'optimize action show {action["UUID"]}')
                for action in self.read(
                    f'optimize action list --action-plan {plan}')]

    def figures(self, plan):
        """Return the efficacy indicators of a plan: values by name."""
        shown = self.read(f'optimize actionplan show {plan}')
        return {figure['name']: figure['value']
                for figure in shown['Efficacy indicators']}

    def carry_out(self, plan):
        """Start a plan, and wait until all of it succeeded."""
        self.openstack(f'optimize actionplan start {plan}')

        def look():
            state = self.read(f'optimize actionplan show {plan}')['State']
            self.assertNotIn(state, ('FAILED', 'CANCELLED'),
                             self.cloud.log('watcher-applier')[-20000:])
            return state == 'SUCCEEDED'

        self.wait('end of the action plan', look)

    def planned_cpus(self, server):
        """Return the host and CPU that the log says a guest was planned on."""
        uuid = self.read(f'server show {server}')['id']
        *_, last = re.finditer(
            rf'{uuid} goes from \S+ to (\S+), to CPUs (\S+)',
            self.cloud.log('watcher-decision-engine'))
        return last[1], last[2]

    def test_watcher(self):
        self._defragment_once()
        self._defragment_continuously()
        self._drain()

    def _defragment_once(self):
        """Two guests on two hosts: one of them moves to the other."""
        self.boot('a', 'pinning-1')
        self.boot('b', 'pinning-2')
        before = {name: self.place(name) for name in 'ab'}
        audit = self.audit('server_consolidation', 'pinning_defragmentation',
                           '--parameter', 'sizes=2',
                           '--parameter', 'moves=5')
        plan, = self.wait('action plan',
                          lambda: self.plans(audit, 'RECOMMENDED'))
        action, = self.actions(plan)
        self.assertEqual('migrate', action['Action'])
        figures = self.figures(plan)
        self.assertEqual((1, 2), (figures['slots_before:2'],
                                  figures['slots_after:2']))
        self.assertEqual(1, figures['moves'])
        self.carry_out(plan)
        moved, = [name for name in 'ab' if self.place(name) != before[name]]
        self.assertEqual(self.planned_cpus(moved), self.place(moved))
        self.assertEqual(1, len({self.place(name)[0] for name in 'ab'}))
        self.assertEqual({'0', '1'}, {self.place(name)[1] for name in 'ab'})

    def _defragment_continuously(self):
        """There is nothing to do, until the fleet changes."""
        audit = self.audit('server_consolidation', 'pinning_defragmentation',
                           '--audit_type CONTINUOUS', '--interval 5',
                           '--parameter', 'sizes=2',
                           '--parameter', 'moves=5')
        # A plan without actions is done.
        self.wait('empty plan', lambda: self.plans(audit, 'SUCCEEDED'))
        self.assertEqual([], self.plans(audit, 'RECOMMENDED'))
        host, _cpu = self.place('a')
        other = next(name for name in HOSTS if name != host)
        self.openstack('server delete --wait a')
        self.boot('c', other)
        plan = self.wait('second plan',
                         lambda: self.plans(audit, 'RECOMMENDED'))[0]
        self.assertEqual(['migrate'], [
            action['Action'] for action in self.actions(plan)])
        self.openstack(f'optimize audit update {audit} replace '
                       'state=CANCELLED')

    def _drain(self):
        """The guests of a host go to another, which has room for them."""
        host, _cpu = self.place('b')
        audit = self.audit('cluster_maintaining', 'pinning_drain',
                           '--parameter', f"'hosts=[\"{host}\"]'")
        plan, = self.wait('action plan',
                          lambda: self.plans(audit, 'RECOMMENDED'))
        self.assertEqual(
            ['change_nova_service_state', 'migrate'],
            sorted(action['Action'] for action in self.actions(plan)))
        self.carry_out(plan)
        self.assertEqual(self.planned_cpus('b'), self.place('b'))
        self.assertNotEqual(host, self.place('b')[0])
        service, = self.read(
            f'compute service list --service nova-compute --host {host}')
        self.assertEqual('disabled', service['Status'])
