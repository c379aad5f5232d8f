# SPDX-License-Identifier: Apache-2.0

import base64
import json
import shlex
import subprocess
import time

import ddt
import fixtures
import testtools

from nova_pinning.instance_bench import bench_errors
from nova_pinning.instance_bench.platforms import agent
from nova_pinning.instance_bench.platforms import hypervisor
from nova_pinning.instance_bench.platforms import process
from nova_pinning.tests.unit.instance_bench.platforms import channel_contract
from nova_pinning.tests.unit.instance_bench.platforms import platform_fakes

VIRSH = ('virsh', '--connect', 'test')


class FakeVirsh:
    """A virsh whose guest is this host.

    :ivar fault: how the next message fails: a result, or an error to raise
    :ivar lines: the command lines so far
    """

    def __init__(self, case):
        self.case = case
        self.fault = None
        self.lines = []
        self.processes = {}

    def __call__(self, line, **_how):
        self.lines.append(list(line))
        if isinstance(self.fault, Exception):
            raise self.fault
        if self.fault:
            return self.fault
        message = json.loads(line[line.index('--cmd') + 1])
        handle = getattr(self, message['execute'].replace('-', '_'))
        answer = handle(**{
            key.replace('-', '_'): value
            for key, value in message.get('arguments', {}).items()})
        return subprocess.CompletedProcess(
            line, 0, json.dumps({'return': answer}), '')

    def guest_ping(self):
        return {}

    def guest_get_time(self):
        return time.time_ns()

    def guest_exec(self, path, arg, capture_output):
        process = subprocess.Popen(
            [path, *arg], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE)
        self.case.addCleanup(process.wait)
        self.case.addCleanup(process.stdout.close)
        self.case.addCleanup(process.stderr.close)
        self.processes[process.pid] = process
        return {'pid': process.pid}

    def guest_exec_status(self, pid):
        process = self.processes[pid]
        if process.poll() is None and not self.case.waits:
            return {'exited': False}
        stdout, stderr = process.communicate()
        return {'exited': True, 'exitcode': process.returncode,
                'out-data': base64.b64encode(stdout).decode(),
                'err-data': base64.b64encode(stderr).decode()}


@ddt.ddt
class AgentTestCase(channel_contract.ChannelContract, testtools.TestCase):

    #: Whether a status waits for the end of the command.
    waits = False

    def setUp(self):
        super().setUp()
        self.virsh = FakeVirsh(self)
        self.useFixture(fixtures.MockPatchObject(
            process.subprocess, 'run', self.virsh))
        self.useFixture(platform_fakes.PassingTime())
        self.channel = self.instance()

    def instance(self, *prefix):
        return agent.RemoteInstance(
            platform_fakes.request(), hypervisor.ComputeHypervisor(
                prefix=prefix, connect='test'), 'one')

    def ended(self, job):
        self.waits = True
        return job.poll()

    def test_silent_when_asked_for_the_time(self):
        self.virsh.fault = subprocess.CompletedProcess(
            [], 1, '', 'error: not connected')
        error = self.assertRaises(bench_errors.InstanceError,
                                  self.channel.clock)
        self.assertIn('guest-get-time: virsh ended with status 1: not '
                      'connected', str(error))

    @ddt.data(
        (subprocess.CompletedProcess([], 1, '', 'error: not connected\n'),
         'not connected'),
        (subprocess.CompletedProcess([], 0, 'what', ''), "'what'"),
        (subprocess.CompletedProcess([], 0, '{}', ''), "'{}'"),
        (subprocess.TimeoutExpired([], 1), 'does not end'),
        (FileNotFoundError(2, 'No such file'), 'No such file'),
    )
    @ddt.unpack
    def test_silent(self, fault, words):
        self.virsh.fault = fault
        error = self.assertRaises(
            bench_errors.InstanceError, self.channel.await_ready, 5)
        self.assertIn(words, str(error))
        self.assertIn('domain one is silent after 5 s', str(error))
        self.assertIn('virsh console one', error.advice)
        error = self.assertRaises(bench_errors.InstanceError,
                                  self.channel.start, ':')
        self.assertIn('guest-exec', str(error))

    def test_disabled(self):
        self.virsh.fault = subprocess.CompletedProcess(
            [], 1, '', 'error: Command guest-exec has been disabled')
        error = self.assertRaises(bench_errors.InstanceError,
                                  self.channel.start, ':')
        self.assertIn('allow it', error.advice)

    def test_ready(self):
        self.channel.await_ready(1)
        self.assertEqual([*VIRSH, 'qemu-agent-command', '--domain', 'one'],
                         self.virsh.lines[0][:6])

    def test_words(self):
        self.virsh.fault = FileNotFoundError(2, 'No such file')
        self.assertRaises(
            bench_errors.InstanceError, self.instance('ssh', 'h').call,
            'guest-exec', {'arg': ["it's", '$HOME']})
        *_before, message = shlex.split(' '.join(self.virsh.lines[-1]))
        self.assertEqual(["it's", '$HOME'],
                         json.loads(message)['arguments']['arg'])
