# SPDX-License-Identifier: Apache-2.0
"""Real threads that run on a dedicated CPU are seen while it is watched.

No time is waited for: it goes by as a thread runs, which never rests.
"""

import contextlib
import json
import os
import pathlib
import pty
import signal
import subprocess
import sys

import fixtures

from nova_pinning.checks import check_rule
from nova_pinning import cpuset
from nova_pinning.host.check import cpu_watch
from nova_pinning.host.check import facts
from nova_pinning.host.check import foreign
from nova_pinning.host.check import gathering
from nova_pinning.host import domain_xml
from nova_pinning.host import hostfile_writer
from nova_pinning.host import machine_files
from nova_pinning.host import qemu_process
from nova_pinning.tests.functional import test_host_check
from nova_pinning.tests.unit.host.check import fact_samples

DEDICATED, HOST = test_host_check.DEDICATED, test_host_check.HOST
FIRST = test_host_check.FIRST
#: Runs all the time, but for what it takes to notice the end of its input.
BUSY = """
import os, sys, threading
ended = threading.Event()
def run():
    while not ended.is_set():
        pass
os.sched_setaffinity(0, map(int, sys.argv[1].split(',')))
threading.Thread(target=run).start()
print('ready', flush=True)
sys.stdin.read()
ended.set()
"""


class _Busy:
    """A thread that runs all the time, and its own time."""

    def __init__(self, process):
        self.pid = process.pid
        *_others, self.tid = sorted(
            map(int, os.listdir(f'/proc/{self.pid}/task')))
        self._is_held = False

    def clock(self):
        """Seconds that the thread has run."""
        path = pathlib.Path(f'/proc/{self.pid}/task/{self.tid}/schedstat')
        return int(path.read_text().split()[0]) / 10 ** 9

    def sleep(self, seconds):
        os.kill(self.pid, signal.SIGCONT)
        until = self.clock() + seconds
        while self.clock() < until:
            os.sched_yield()
        if self._is_held:
            self._stop()

    @contextlib.contextmanager
    def held(self):
        """Have it run only while somebody sleeps, however long looks take."""
        self._stop()
        self._is_held = True
        try:
            yield
        finally:
            self._is_held = False
            os.kill(self.pid, signal.SIGCONT)

    def _stop(self):
        os.kill(self.pid, signal.SIGSTOP)
        stat = pathlib.Path(f'/proc/{self.pid}/task/{self.tid}/stat')
        while stat.read_text().rpartition(') ')[2][0] != 'T':
            os.sched_yield()


class WatchTestCase(test_host_check.HostCheckTestCase):

    def busy(self, cpus):
        """Start a thread that may run on these CPUs only."""
        return _Busy(self.start(
            sys.executable, '-c', BUSY, ','.join(map(str, cpus))))

    def watch(self, busy, seconds=0.25, sleep=None):
        with busy.held():
            return cpu_watch.watch(
                self.tree, DEDICATED, seconds, clock=busy.clock,
                sleep=sleep or busy.sleep)

    def judge(self, watched, busy, **values):
        """Findings with evidence of a thread, and that evidence."""
        seen = fact_samples.replace(
            gathering.gather(self.tree, self.planned), **values)
        judge = foreign.ForeignWorkJudge(watched,
                                         facts.CheckedHost(self.planned, seen))
        return [(finding, piece) for finding in judge.findings()
                for piece in finding.evidence if piece.tid == busy.tid]

    def test_stray_thread(self):
        busy = self.busy(DEDICATED)
        watched = self.watch(busy)
        [(one, evidence)] = self.judge(watched, busy)
        self.assertEqual(('H701', check_rule.Severity.ERROR),
                         (one.code, one.severity))
        self.assertEqual(
            (busy.pid, DEDICATED, HOST, False),
            (evidence.pid, evidence.cpus, evidence.expected_cpus,
             evidence.is_estimate))
        self.assertAlmostEqual(
            watched.seconds, evidence.run_seconds, delta=0.05)
        [mend] = [command for command in one.remediation
                  if command.endswith(f' {busy.tid}')]
        subprocess.run(['sh', '-c', mend], check=True,
                       stdout=subprocess.DEVNULL)
        self.assertEqual([], self.judge(self.watch(busy), busy))

    def test_thread_in_its_place(self):
        busy = self.busy(HOST)
        self.assertEqual([], self.judge(self.watch(busy), busy))

    def test_process_that_comes_later(self):
        """All that it has run counts, and not only what came after."""
        clock, later = self.busy(HOST), []

        def sleep(seconds):
            if not later:
                later.append(self.busy(DEDICATED))
                later[0].sleep(0.05)
            clock.sleep(seconds)

        watched = self.watch(clock, seconds=0.15, sleep=sleep)
        [(_one, evidence)] = self.judge(watched, later[0])
        self.assertLessEqual(0.05, evidence.run_seconds)

    def test_vcpu(self):
        """It may do so on its own CPU, and on no other's."""
        busy = self.busy(DEDICATED)
        watched = self.watch(busy)
        thread = qemu_process.QemuThread(busy.tid, 'CPU 0/KVM', DEDICATED,
                                         domain_xml.ThreadScheduler('other'))
        qemu = qemu_process.QemuProcess(busy.pid, {0: thread}, {}, (), (), 0,
                                        ())
        for pin, subjects in ((DEDICATED, []), (FIRST, ['guest a'])):
            known = domain_xml.parse(fact_samples.sample_domain_xml(
                'a', 'x', [str(pin)], vcpus=1))
            found = self.judge(watched, busy, guests=(
                facts.RunningGuest(qemu, 'a', 'x', known),))
            self.assertEqual(subjects, [one.subject for one, _piece in found])
            for one, _piece in found:
                self.assertEqual((f'virsh vcpupin a 0 {pin} --live',),
                                 one.remediation)

    def test_interrupts_are_counted_as_the_kernel_tells_people(self):
        tree = machine_files.Tree()
        everywhere = tree.cpus('/sys/devices/system/cpu/online')
        before = dict(cpu_watch._counts(tree, everywhere))
        first, *lines = pathlib.Path('/proc/interrupts').read_text(
            ).splitlines()
        after = dict(cpu_watch._counts(tree, everywhere))
        cpus = [int(name.removeprefix('CPU')) for name in first.split()]
        compared = 0
        for line in lines:
            number, *counts = line.split()
            number = number.removesuffix(':')
            if number in before and number in after:
                for cpu, count in zip(cpus, map(int, counts)):
                    compared += 1
                    self.assertTrue(
                        before[number][cpu] <= count <= after[number][cpu],
                        line)
        if not compared:
            self.skipTest('there are no interrupts')

    def test_command_that_is_interrupted(self):
        """What was seen until then is told, and the bar is gone."""
        busy = self.busy(DEDICATED)
        directory = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        plan, output = directory / 'plan.yaml', directory / 'out.json'
        plan.write_text(hostfile_writer.dump(fact_samples.replace(
            self.planned, nova=fact_samples.replace(
                self.planned.nova, shared_cpus=None))))
        master, slave = pty.openpty()
        self.addCleanup(os.close, master)
        process = subprocess.Popen(
            [sys.executable, '-W', 'ignore', '-m', 'nova_pinning.cli.shell',
             'host', 'check', str(plan), '--watch', '3600', '-f', 'json'],
            stdout=output.open('w'), stderr=slave,
            env=os.environ | {'TERM': 'xterm'},
            # Shells have what they start in the background ignore it.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        os.close(slave)
        told = self.read_until(master, b'watching')
        self.assertEqual(HOST, cpuset.CpuSet(
            os.sched_getaffinity(process.pid)))
        # Beyond the first look, which only says where all begins.
        busy.sleep(1)
        process.send_signal(signal.SIGINT)
        told += self.read_until(master, b'until then')
        self.assertIn(b'interrupted', told)
        self.assertEqual(1, process.wait())
        content = json.loads(output.read_text())
        self.assertTrue(0 < content['watched_seconds'] < 3600)
        seen = {evidence['tid'] for one in content['findings']
                if one['code'] == 'H701' for evidence in one['evidence']}
        self.assertIn(busy.tid, seen)
        self.assertNotIn(process.pid, seen)

    def read_until(self, descriptor, word):
        """What comes from a terminal, until it has said this."""
        found = b''
        # Linux gives EIO where all others have closed it.
        with contextlib.suppress(OSError):
            while word not in found:
                found += os.read(descriptor, 4096)
        self.assertIn(word, found)
        return found
