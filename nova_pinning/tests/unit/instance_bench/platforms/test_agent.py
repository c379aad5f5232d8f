# SPDX-License-Identifier: Apache-2.0

import base64
import itertools
import json
import os
import pathlib
import shlex
import subprocess
import time

import ddt
import fixtures
import testtools

from nova_pinning.instance_bench import bench_errors
from nova_pinning.instance_bench.platforms import agent

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

    def __call__(self, line, seconds):
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
class AgentTestCase(testtools.TestCase):

    #: Whether a status waits for the end of the command.
    waits = True

    def setUp(self):
        super().setUp()
        self.work = self.useFixture(fixtures.TempDir()).path
        self.virsh = FakeVirsh(self)
        ticks = itertools.count()
        self.agent = agent.Agent(
            VIRSH, 'one', work=self.work, run=self.virsh,
            clock=lambda: float(next(ticks)), sleep=lambda seconds: None)

    @ddt.data(
        ('echo a; echo b >&2', 0, 'a\n', 'b\n'),
        ('exit 3', 3, '', ''),
        ('kill -9 $$', -9, '', ''),
        ('exit 255', 255, '', ''),
        ("printf %s '\"{}$'", 0, '"{}$', ''),
    )
    @ddt.unpack
    def test_outcome(self, command, status, stdout, stderr):
        outcome = self.agent.start(command).poll()
        self.assertEqual((status, stdout), (outcome.status, outcome.stdout))
        # A shell may say that something was killed.
        self.assertEqual(stderr, outcome.stderr.removesuffix('Killed\n'))

    def test_syntax_error(self):
        outcome = self.agent.start('if').poll()
        self.assertNotEqual(0, outcome.status)
        self.assertIn('yntax', outcome.stderr)

    def test_runs_in_work(self):
        self.assertEqual(self.work,
                         self.agent.start('pwd').poll().stdout.strip())

    def test_end_of_long_output_is_kept(self):
        outcome = self.agent.start(
            'head -c 5000000 /dev/zero | tr "\\0" x; echo end').poll()
        self.assertEqual(2 * 1024 * 1024, len(outcome.stdout))
        self.assertTrue(outcome.stdout.endswith('xend\n'))

    def test_running(self):
        self.waits = False
        fifo = os.path.join(self.work, 'fifo')
        os.mkfifo(fifo)
        job = self.agent.start(f'read -r line <{fifo}; echo "$line"')
        self.assertIsNone(job.poll())
        pathlib.Path(fifo).write_text('go\n')
        self.waits = True
        self.assertEqual('go\n', job.poll().stdout)

    def test_clock(self):
        before = time.time()
        reading = self.agent.clock()
        self.assertLessEqual(before, reading.inside)
        self.assertLess(abs(reading.offset), reading.uncertainty + 0.001)

    def test_silent_when_asked_for_the_time(self):
        self.virsh.fault = subprocess.CompletedProcess(
            [], 1, '', 'error: not connected')
        error = self.assertRaises(bench_errors.InstanceError,
                                  self.agent.clock)
        self.assertIn('guest-get-time: not connected', str(error))

    def test_stop_ends_children(self):
        self.waits = False
        fifo = os.path.join(self.work, 'fifo')
        os.mkfifo(fifo)
        job = self.agent.start(f'(echo $$; exec sleep 1000) >{fifo} & wait')
        with open(fifo) as lines:
            self.assertTrue(lines.readline())
            self.waits = True
            job.stop()
            # All that could write have ended.
            self.assertEqual('', lines.read())

    def test_stop_that_does_not_end(self):
        self.waits = False
        error = self.assertRaises(
            bench_errors.InstanceError, self.agent.carry_out,
            ['sleep', '1000'])
        for process in self.virsh.processes.values():
            process.kill()
        self.assertIn('sleep does not end', str(error))

    def test_stop_after_the_end(self):
        job = self.agent.start('true')
        job.poll()
        before = len(self.virsh.lines)
        job.stop()
        self.assertEqual(before, len(self.virsh.lines))

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
            bench_errors.InstanceError, self.agent.await_ready, 5)
        self.assertIn(words, str(error))
        self.assertIn('domain one is silent after 5 s', str(error))
        self.assertIn('virsh console one', error.advice)
        error = self.assertRaises(bench_errors.InstanceError, self.agent.start,
                                  ':')
        self.assertIn('guest-exec', str(error))

    def test_disabled(self):
        self.virsh.fault = subprocess.CompletedProcess(
            [], 1, '', 'error: Command guest-exec has been disabled')
        error = self.assertRaises(bench_errors.InstanceError, self.agent.start,
                                  ':')
        self.assertIn('allow it', error.advice)

    def test_ready(self):
        self.agent.await_ready(1)
        self.assertEqual([*VIRSH, 'qemu-agent-command', '--domain', 'one'],
                         self.virsh.lines[0][:6])

    def test_words(self):
        self.virsh.fault = FileNotFoundError(2, 'No such file')
        channel = agent.Agent(
            ('ssh', 'h', 'virsh'), 'one', run=self.virsh, word=shlex.quote)
        self.assertRaises(bench_errors.InstanceError, channel.execute,
                          ["it's", '$HOME'], True)
        *_before, message = shlex.split(' '.join(self.virsh.lines[-1]))
        self.assertEqual(["it's", ['$HOME']], [
            json.loads(message)['arguments'][name]
            for name in ('path', 'arg')])

    def test_cut_off(self):
        error = self.assertRaises(
            bench_errors.InstanceError,
            agent.Agent(VIRSH, 'one', work='/proc/none',
                        run=self.virsh).start('true').poll)
        self.assertIn('could not be started', str(error))
