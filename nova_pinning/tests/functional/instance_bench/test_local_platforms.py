# SPDX-License-Identifier: Apache-2.0
"""Real processes and real containers, on this machine."""

import contextlib
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

import ddt

from nova_pinning import cpuset
from nova_pinning.host import machine_files
from nova_pinning.instance_bench import bench_model
from nova_pinning.instance_bench import cpu_layout
from nova_pinning.instance_bench.platforms import process
from nova_pinning.model import hostclass
from nova_pinning.tests import local_instances
from nova_pinning.tests import namespaces
from nova_pinning.tests.unit import unit_base

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


def _missing(name):
    """Why this machine can have no instance of a platform, '' if it can."""
    if not cpu_layout.load().cpus.issubset(
            cpuset.CpuSet(os.sched_getaffinity(0))):
        return 'tests may not run on all CPUs'
    if name == 'cn':
        return namespaces.no_container()
    return namespaces.missing(
        *(('--user', '--map-root-user') if os.geteuid() else ()),
        '--mount', '--pid', '--fork', '--mount-proc')


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
        if trouble := _missing(name):
            self.skipTest(trouble)
        stack = contextlib.ExitStack()
        found = stack.enter_context(local_instances.running(name, *tenants))
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

    def test_an_affinity_that_was_changed_shows(self):
        instance, = self.instances('bm', local_instances.tenant('bm'))
        if instance.cpus == cpu_layout.load().cpus:
            self.skipTest('needs two CPUs')
        instance.start('taskset -p -c 0-4095 $$; sleep 30')
        deadline = time.monotonic() + local_instances.SECONDS
        while all(affinity.is_in_force for affinity in instance.affinities()):
            self.assertLess(time.monotonic(), deadline)

    def test_a_control_group_does_not_let_it_be_changed(self):
        instance, = self.instances('cn', local_instances.tenant('cn'))

        outcome = local_instances.wait(instance.start(
            'taskset -p -c 0-4095 $$ >/dev/null 2>&1; nproc'))

        self.assertEqual(f'{len(instance.cpus)}\n', outcome.stdout)

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
        # at the time is just about it, and if nobody has to be waited for.
        while _left(space):
            self.assertLess(time.monotonic(), deadline)
            self.instances('bm', local_instances.tenant('bm'))
            self.doCleanups()

    def test_weights(self):
        shared = {'guest_class': hostclass.HostClass.SHARED,
                  'provisioning': bench_model.Provisioning.VANILLA}
        heavy, light = self.instances(
            'cn', local_instances.tenant('cn', 'heavy', weight=100, **shared),
            local_instances.tenant('cn', 'light', weight=50, **shared))

        for one in heavy, light:
            for group in self.groups(one):
                self.assertEqual(
                    one._members(), sorted(map(int, (
                        group.parent / 'cgroup.procs').read_text().split())))
        of_heavy, of_light = (
            {int(group.read_text()) for group in self.groups(one)}
            for one in (heavy, light))
        self.assertEqual(of_heavy, {2 * weight for weight in of_light})
        self.assertEqual(1, len(of_heavy))

    def groups(self, container):
        """Files with its weight, in either version of control groups."""
        group = '/'.join(container._directory.parts[-2:])
        return [*pathlib.Path('/sys/fs/cgroup').glob(f'{group}/cpu.weight'),
                *pathlib.Path('/sys/fs/cgroup').glob(f'*/{group}/cpu.shares')]

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
