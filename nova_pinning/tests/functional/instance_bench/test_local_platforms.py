# SPDX-License-Identifier: Apache-2.0
"""Real processes and real containers, on this machine.

What is compared are counts of what a busy loop did within one and the same
second or so, with wide margins: the machine may do other things meanwhile.
"""

import contextlib
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

import ddt

from nova_pinning import errors
from nova_pinning.host import machine_files
from nova_pinning.instance_bench import bench_model
from nova_pinning.instance_bench import cpu_layout
from nova_pinning.instance_bench.platforms import process
from nova_pinning.model import hostclass
from nova_pinning.tests import local_instances
from nova_pinning.tests.unit import unit_base

# Counts from one second of the wall clock to another, and prints how far it
# came.
_COUNT = ('while [ $(date +%s) -lt {begin} ]; do sleep 0.02; done; i=0; '
          'while [ $((i % 1000)) -ne 0 ] || [ $(date +%s) -lt {end} ]; '
          'do i=$((i + 1)); done; echo $i')
_BOTH = ('bm', 'cn')
# Starts an instance with a daemon, says so, and waits to be killed.
_HOLDER = '''
import sys, time
from nova_pinning.tests import local_instances
with local_instances.running(
        sys.argv[1], local_instances.tenant(sys.argv[1])) as (instance,):
    local_instances.wait(instance.start('setsid sleep 4711 >/dev/null 2>&1 &'))
    print(instance._directory.parent.name, instance._members()[0],
          flush=True)
    time.sleep(60)
'''


def _left(space):
    """What a run has left on disk and in control groups.

    :param space: the name of its directory; others may run at the time
    """
    return {path for pattern in (
        f'var/tmp/{space}*', f'sys/fs/cgroup/{space}*',
        f'sys/fs/cgroup/*/{space}*')
        for path in pathlib.Path('/').glob(pattern)}


@ddt.ddt
class LocalPlatformsTestCase(unit_base.TestCase):

    def instances(self, name, *tenants):
        stack = contextlib.ExitStack()
        try:
            found = stack.enter_context(local_instances.running(
                name, *tenants))
        except errors.InputError as error:
            self.skipTest(str(error))
        self.addCleanup(stack.close)
        return found

    @ddt.data(*_BOTH)
    def test_a_command(self, name):
        instance, = self.instances(name, local_instances.tenant(name))

        outcome = local_instances.wait(instance.start(
            'echo out; echo err >&2; pwd; ls | wc -l; exit 7'))

        self.assertEqual(7, outcome.status)
        self.assertEqual(['out', instance.work, '0'],
                         outcome.stdout.split())
        self.assertEqual('err\n', outcome.stderr)

    @ddt.data(*_BOTH)
    def test_its_clock_is_ours(self, name):
        instance, = self.instances(name, local_instances.tenant(name))

        before, reading = time.time(), instance.clock()
        shown = int(local_instances.wait(
            instance.start('date +%s%N')).stdout) / 1e9

        self.assertEqual(0, reading.uncertainty)
        self.assertLessEqual(before, reading.inside)
        self.assertLessEqual(reading.inside, shown)
        self.assertLessEqual(shown, time.time())

    @ddt.data(*_BOTH)
    def test_cpu_time_of_what_has_ended(self, name):
        instance, = self.instances(name, local_instances.tenant(name))
        first = instance.counters()
        before = first['cpu_seconds']
        spin = 'for i in $(seq 300000); do :; done; times'

        # What a command runs, and what it leaves behind when it ends.
        shown = ''.join(local_instances.wait(instance.start(command)).stdout
                        for command in (
                            f"sh -c '{spin}' | cat",
                            f"mkfifo f; (sh -c '{spin}' >f) & exec cat f"))

        told = sum(60 * int(minutes) + float(seconds) for minutes, seconds
                   in re.findall(r'(\d+)m([\d.]+)s', shown))
        self.assertGreater(told, 0.1)
        # What is left behind is soon waited for, and ticks are coarse.
        deadline = time.monotonic() + local_instances.SECONDS
        while instance.counters()['cpu_seconds'] < before + told - 0.05:
            self.assertLess(time.monotonic(), deadline)
        after = instance.counters()
        for counter, value in first.items():
            self.assertGreaterEqual(after[counter], value)

    @ddt.data(*_BOTH)
    def test_signals_and_odd_words(self, name):
        instance, = self.instances(name, local_instances.tenant(name))

        killed = local_instances.wait(instance.start('kill -9 $$'))
        odd = local_instances.wait(instance.start(
            'printf "%s|" "a  b" \'$HOME\' "\N{SNOWMAN}" "-n"'))

        self.assertEqual(-signal.SIGKILL, killed.status)
        self.assertEqual('a  b|$HOME|\N{SNOWMAN}|-n|', odd.stdout)

    @ddt.data(*_BOTH)
    def test_affinities_are_in_force(self, name):
        first, second = self.instances(
            name, local_instances.tenant(name), local_instances.tenant(
                name, 'floating',
                provisioning=bench_model.Provisioning.VANILLA,
                guest_class=hostclass.HostClass.SHARED))
        job = first.start('sleep 30')
        self.assertIsNone(job.poll())

        for instance in first, second:
            found = instance.affinities()
            self.assertTrue(found)
            for one in found:
                self.assertEqual(instance.cpus, one.asked, one)
                self.assertEqual(instance.cpus, one.seen, one)
        seen = local_instances.wait(second.start('nproc')).stdout
        self.assertEqual(str(len(second.cpus)), seen.strip())

    @ddt.data(*_BOTH)
    def test_an_affinity_that_was_changed_shows(self, name):
        instance, = self.instances(name, local_instances.tenant(name))
        instance.start('taskset -p -c 0-4095 $$ || :; sleep 30')
        deadline = time.monotonic() + local_instances.SECONDS
        if name == 'cn':
            # A control group does not let it.
            time.sleep(0.2)
            self.assertTrue(all(
                affinity.is_in_force for affinity in instance.affinities()))
            return
        if instance.cpus == cpu_layout.load().cpus:
            self.skipTest('needs two CPUs')
        while all(affinity.is_in_force for affinity in instance.affinities()):
            self.assertLess(time.monotonic(), deadline)

    @ddt.data(*_BOTH)
    def test_close_ends_commands_and_daemons(self, name):
        instance, = self.instances(name, local_instances.tenant(name))
        local_instances.wait(
            instance.start('setsid sleep 4711 >/dev/null 2>&1 &'))
        before = set(instance._members())
        instance.start('setsid sleep 4712 & (while :; do :; done) & wait')
        deadline = time.monotonic() + local_instances.SECONDS
        while len(inside := set(instance._members())) < len(before) + 3:
            self.assertLess(time.monotonic(), deadline)

        instance.close()

        for pid in inside:
            self.assertFalse(os.path.exists(f'/proc/{pid}/exe'), pid)
        instance.close()

    @ddt.data(*_BOTH)
    def test_close_waits_for_the_last_of_many(self, name):
        instance, = self.instances(name, local_instances.tenant(name))
        local_instances.wait(instance.start(
            'for i in $(seq 200); do setsid sleep 4711 & done '
            '>/dev/null 2>&1'))
        inside = instance._members()
        self.assertGreater(len(inside), 200)

        instance.close()

        self.assertEqual([], [pid for pid in inside
                              if os.path.exists(f'/proc/{pid}/exe')])

    @ddt.data(*_BOTH)
    def test_nothing_is_left(self, name):
        instance, = self.instances(name, local_instances.tenant(name))
        local_instances.wait(instance.start('touch a; mkdir b; chmod 0 b'))
        space = instance._directory.parent.name
        self.assertNotEqual(set(), _left(space))

        self.doCleanups()

        self.assertEqual(set(), _left(space))

    @ddt.data(*_BOTH)
    def test_nothing_is_left_of_a_run_that_was_killed(self, name):
        self.instances(name, local_instances.tenant(name))
        self.doCleanups()
        holder = subprocess.Popen(
            [sys.executable, '-c', _HOLDER, name], stdout=subprocess.PIPE)
        self.addCleanup(holder.communicate)
        self.addCleanup(holder.kill)
        space, first = holder.stdout.readline().decode().split()
        inside = process.members(machine_files.Tree(), int(first))
        self.assertGreater(len(inside), 1)

        holder.kill()
        holder.wait()

        deadline = time.monotonic() + local_instances.SECONDS
        while any(os.path.exists(f'/proc/{pid}/exe') for pid in inside):
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.01)
        # What is on disk the next one clears away, if not another that runs
        # at the time is just about it.
        self.instances('bm', local_instances.tenant('bm'))
        self.doCleanups()
        while _left(space):
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.01)

    def test_weights(self):
        shared = {'guest_class': hostclass.HostClass.SHARED,
                  'provisioning': bench_model.Provisioning.VANILLA}
        heavy, light = self.instances(
            'cn', local_instances.tenant('cn', 'heavy', weight=100, **shared),
            local_instances.tenant('cn', 'light', weight=50, **shared))
        # All at the same time: who counts while the other does not yet, or
        # does no more, has no rival.
        begin = int(time.time()) + 3
        count = _COUNT.format(begin=begin, end=begin + 3)
        busy = ' '.join(f'({count}) &' for _cpu in heavy.cpus)

        jobs = [one.start(f'{busy} wait') for one in (heavy, light)]
        counts = [sum(map(int, local_instances.wait(job).stdout.split()))
                  for job in jobs]

        self.assertGreater(counts[0], 1.4 * counts[1], counts)
        self.assertLess(counts[0], 2.8 * counts[1], counts)

    def test_memory_is_limited(self):
        instance, = self.instances('cn', local_instances.tenant('cn'))

        outcome = local_instances.wait(instance.start(
            'head -c 512M /dev/zero | tail -c 400M | wc -c'))

        self.assertNotIn(str(400 * 1024 * 1024), outcome.stdout)

    def test_a_container_cannot_write_to_the_host(self):
        instance, = self.instances('cn', local_instances.tenant('cn'))

        outcome = local_instances.wait(instance.start(
            'touch /etc/x /usr/x /programs/x; touch /tmp/{0} /run/{0} x'
            .format(__name__)))

        self.assertEqual(3, outcome.stderr.count('Read-only file system'))
        self.assertEqual(0, outcome.status)
        self.assertFalse(os.path.exists(f'/tmp/{__name__}'))

    @ddt.data(*_BOTH)
    def test_without_permission(self, name):
        if os.geteuid():
            self.skipTest('needs root, to give it up')
        # Skipped as well where there is nothing to run containers with.
        self.instances(name, local_instances.tenant(name))

        done = subprocess.run(
            ['setpriv', '--bounding-set=-sys_admin', sys.executable, '-c',
             _HOLDER, name], capture_output=True, text=True, timeout=60,
            check=False)

        self.assertIn('InputError', done.stderr)
        self.assertIn('not permitted', done.stderr.splitlines()[-1])
