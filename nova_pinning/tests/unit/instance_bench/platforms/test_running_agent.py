# SPDX-License-Identifier: Apache-2.0

import os
import pathlib
import sys

import fixtures

from nova_pinning.agent import agent_service
from nova_pinning import cpuset
from nova_pinning import errors
from nova_pinning.host import agent_record
from nova_pinning.instance_bench import bench_errors
from nova_pinning.instance_bench import bench_model
from nova_pinning.instance_bench.platforms import running_agent
from nova_pinning.instance_bench.platforms import settings
from nova_pinning.tests.unit import unit_base

STATIC = bench_model.AgentScheme.STATIC
#: Stands for the agent: says what it was told, and that it is ready.
READY = '''#!{python}
import os, signal, socket, sys
print(open(sys.argv[-1]).read(), flush=True)
manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
manager.connect(os.environ['NOTIFY_SOCKET'])
manager.send(b'STATUS=0 guests')
manager.send(b'STATUS=1 guests\\nREADY=1')
signal.pause()
'''


class RunningAgentTest(unit_base.TestCase):

    def setUp(self):
        super().setUp()
        self.root = pathlib.Path(self.useFixture(fixtures.TempDir()).path)

    def start(self, program, scheme=STATIC):
        path = self.root / 'python'
        path.write_text(program.format(python=sys.executable))
        path.chmod(0o755)
        self.useFixture(fixtures.MockPatchObject(
            running_agent.sys, 'executable', str(path)))
        agent = running_agent.RunningAgent(scheme, settings.PlatformSettings(
            plan='/etc/plan.yaml'), self.root)
        self.addCleanup(agent.close)
        return agent

    def test_it_runs_until_it_is_closed(self):
        agent = self.start(READY)
        told = (self.root / 'agent.log').read_text()
        for line in ('plan = /etc/plan.yaml', 'cache = false',
                     'floating_guests = off',
                     f'record = {self.root}/agent.json'):
            self.assertIn(line, told.splitlines())
        agent.close()
        agent.close()
        self.assertIsNotNone(agent._process.poll())

    def test_ways_of_caches(self):
        self.start(READY, bench_model.AgentScheme.WAYS)
        self.assertIn('cache = true', (
            self.root / 'agent.log').read_text().splitlines())

    def test_what_it_has_set_is_looked_at(self):
        agent = self.start(READY)
        mine = cpuset.CpuSet(os.sched_getaffinity(0))
        pid = os.getpid()
        setting, kind = agent_record.Setting, agent_record.Kind
        entry = agent_record.SettingEntry(cpuset.CpuSet([0]), mine)
        agent_record.save(agent_record.AgentRecord({
            setting(kind.THREAD, f'{pid}/{pid}'): entry,
            setting(kind.THREAD, f'1/{pid}'): entry,
        }), str(self.root / 'agent.json'))
        self.assertEqual(
            [bench_model.Affinity(thread=f'thread {pid}', asked=mine,
                                  seen=mine)], [*agent.affinities(pid)])
        self.assertEqual(mine, agent.emulator(pid))
        self.assertIsNone(agent.emulator(1))

    def test_it_does_not_come_up(self):
        error = self.assertRaises(
            bench_errors.InstanceError, self.start,
            '#!/bin/sh\necho error: there is no plan >&2; exit 2\n')
        self.assertIn('there is no plan', str(error))

    def test_another_one_would_spoil_it(self):
        path = str(self.root / 'agent.json')
        self.useFixture(fixtures.MockPatchObject(
            running_agent.agent_record, 'PATH', path))
        running_agent.check(bench_model.AgentScheme.NONE)
        with agent_service.alone(path):
            running_agent.check(None)
            error = self.assertRaises(
                errors.InputError, running_agent.check,
                bench_model.AgentScheme.NONE)
        self.assertIn(f'with process id {os.getpid()}', str(error))
