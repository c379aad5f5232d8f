# SPDX-License-Identifier: Apache-2.0

import json
import os
import pathlib
import subprocess
import sys
import unittest
from unittest import mock

import ddt
import hypothesis
from hypothesis import strategies as st
from oslotest import base as oslo_base

from minicloud import hostinit
from nova_pinning.host import machine_files
from nova_pinning.tests.unit.minicloud import minicloud_case
from nova_pinning.tests.unit import unit_base

V1 = """\
22 27 0:21 / /proc rw,relatime - proc proc rw
30 25 0:27 / /dev/shm rw,relatime shared:3 - tmpfs tmpfs rw,size=24682416k
31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct
34 31 0:31 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset,clone_children
40 31 0:37 / /sys/fs/cgroup/systemd rw shared:9 - cgroup cgroup \
rw,xattr,release_agent=/lib/systemd/agent,name=systemd
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
"""

V2 = """\
24 20 0:22 / /sys rw,nosuid shared:7 - sysfs sysfs rw
30 24 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 \
rw,nsdelegate,memory_recursiveprot
"""

GROUPS = """\
9:name=systemd:/
4:cpuset:/docker/abc/def
2:cpu,cpuacct:/docker/abc
0::/user.slice/with:colon
"""


ROOT = pathlib.Path(hostinit.__file__).resolve().parent.parent

#: Before what PID 1 does in a test.
INIT = """
import os, signal, subprocess
from minicloud import hostinit
signal.pthread_sigmask(signal.SIG_BLOCK, hostinit.SIGNALS)

def unblock():
    signal.pthread_sigmask(signal.SIG_UNBLOCK, hostinit.SIGNALS)

def start(trap):
    process = subprocess.Popen(
        ['sh', '-c', trap + '; echo ready; while :; do sleep 0.05; done'],
        preexec_fn=unblock, stdout=subprocess.PIPE, text=True)
    process.stdout.readline()
    hostinit.output = process.stdout

def show():
    try:
        os.kill(-1, 0)
    except ProcessLookupError:
        if hasattr(hostinit, 'output'):
            print(hostinit.output.read())
        print('alone')
    else:
        print('others')
"""


class TestHierarchies(oslo_base.BaseTestCase):

    def test_version_1_beside_2(self):
        found = hostinit.hierarchies(V1)
        self.assertEqual(
            [('cpu,cpuacct', ('cpu', 'cpuacct'), 1),
             ('cpuset', ('cpuset',), 1),
             ('systemd', ('name=systemd',), 1),
             ('unified', (), 2)],
            [(one.mount_point.name, one.controllers, one.version)
             for one in found])

    def test_version_2(self):
        self.assertEqual(
            [hostinit.Hierarchy(pathlib.Path('/sys/fs/cgroup'), '/', 2)],
            hostinit.hierarchies(V2))

    def test_this_machine(self):
        """Whatever is mounted here, the kernel finds our groups in it."""
        text = pathlib.Path('/proc/self/mountinfo').read_text()
        groups = machine_files.control_groups(
            pathlib.Path('/proc/self/cgroup').read_text())
        for hierarchy in hostinit.hierarchies(text):
            parent = hierarchy.parent(groups)
            self.assertTrue((parent / 'cgroup.procs').exists(), parent)
            if hierarchy.version == 1:
                self.assertIn(
                    str(os.getpid()),
                    (parent / 'cgroup.procs').read_text().split())

    def test_own_groups(self):
        self.assertEqual(
            {'name=systemd': '/', 'cpuset': '/docker/abc/def',
             'cpu,cpuacct': '/docker/abc', '': '/user.slice/with:colon'},
            machine_files.control_groups(GROUPS))

    def test_mount_command(self):
        commands = [hierarchy.mount_command()
                    for hierarchy in hostinit.hierarchies(V1)]
        self.assertEqual(
            ['mount', '-t', 'cgroup', '-o', 'cpu,cpuacct', 'cgroup',
             '/sys/fs/cgroup/cpu,cpuacct'], commands[0])
        self.assertEqual(
            ['mount', '-t', 'cgroup2', 'cgroup2', '/sys/fs/cgroup/unified'],
            commands[-1])


@ddt.ddt
class TestParent(oslo_base.BaseTestCase):

    @ddt.data(
        # (root of the mount, own group, directory below the mount point)
        ('/', '/', ''),
        ('/', '/docker/abc', 'docker/abc'),
        ('/docker/abc', '/docker/abc', ''),
        ('/docker/abc', '/docker/abc/def', 'def'),
        # What is above the mount's root cannot be seen.
        ('/docker/abc', '/', ''),
        ('/docker/abc', '/docker/abcdef', ''),
        ('/', '/../..', ''))
    @ddt.unpack
    def test_version_1(self, root, own, expected):
        one = hostinit.Hierarchy(pathlib.Path('/m'), root, 1, ('cpuset',))
        self.assertEqual(pathlib.Path('/m') / expected,
                         one.parent({'cpuset': own}))

    def test_version_2_is_the_top(self):
        one = hostinit.Hierarchy(pathlib.Path('/m'), '/', 2)
        self.assertEqual(pathlib.Path('/m'), one.parent({'': '/user.slice'}))

    @unit_base.settings(max_examples=200)
    @hypothesis.given(st.lists(st.sampled_from('ab'), max_size=4),
                      st.lists(st.sampled_from('ab'), max_size=4))
    def test_never_above_the_mount_point(self, root, own):
        one = hostinit.Hierarchy(pathlib.Path('/m'), '/' + '/'.join(root), 1,
                                 ('cpuset',))
        parent = one.parent({'cpuset': '/' + '/'.join(own)})
        self.assertTrue(parent.is_relative_to('/m'))
        self.assertNotIn('..', parent.parts)
        if own[:len(root)] == root:
            self.assertEqual(('/', 'm', *own[len(root):]), parent.parts)


class Directory(minicloud_case.DirectoryTestCase):

    def setUp(self):
        super().setUp()
        self.top = self.directory


class TestGroups(Directory):
    """Files stand in for the kernel's."""

    def group(self, name, **texts):
        directory = self.top / name
        directory.mkdir(parents=True, exist_ok=True)
        for file, text in texts.items():
            (directory / file.replace('_', '.', 1)).write_text(text)
        return directory

    def test_cpus_are_the_parents(self):
        parent = self.group('cpuset', cpuset_cpus='0-3\n', cpuset_mems='0\n')
        # The kernel makes the files.
        made = self.group('cpuset/host', cpuset_cpus='\n', cpuset_mems='\n')
        one = hostinit.Hierarchy(parent, '/', 1, ('cpuset',))
        hostinit.make_group(one, made)
        self.assertEqual('0-3\n', (made / 'cpuset.cpus').read_text())
        self.assertEqual('0\n', (made / 'cpuset.mems').read_text())

    def test_version_1_without_cpus(self):
        one = hostinit.Hierarchy(self.top, '/', 1, ('memory',))
        hostinit.make_group(one, self.top / 'host')
        self.assertEqual([], list((self.top / 'host').iterdir()))

    def test_version_2_has_a_leaf(self):
        self.group('.', cgroup_controllers='cpu memory misc\n')
        one = hostinit.Hierarchy(self.top, '/', 2)
        hostinit.make_group(one, self.top / 'host')
        hostinit.make_group(one, self.top / 'host')
        self.assertTrue((self.top / 'host' / 'init').is_dir())
        # One at a time, since all fail if one does; the last is left.
        self.assertEqual(
            '+memory', (self.top / 'cgroup.subtree_control').read_text())

    def test_controllers_that_cannot_be_had(self):
        self.group('.', cgroup_controllers='cpu memory\n')
        (self.top / 'cgroup.subtree_control').mkdir()
        hostinit.enable_controllers(self.top)

    def test_join(self):
        self.group('v1/mine/host')
        self.group('v2/host', cgroup_controllers='')
        self.group('v2', cgroup_controllers='')
        record = self.top / 'groups'
        plan = hostinit.Plan('a', 'host', str(record), ())
        found = [
            hostinit.Hierarchy(self.top / 'v1', '/', 1, ('cpu',)),
            hostinit.Hierarchy(self.top / 'v2', '/', 2)]
        with (mock.patch.object(hostinit, 'hierarchies', return_value=found),
              mock.patch.object(machine_files, 'control_groups',
                                return_value={'cpu': '/mine', '': '/'})):
            hostinit.join_groups(plan)
        for name in ('v1/mine/host', 'v2/host'):
            self.assertEqual(
                '0', (self.top / name / 'cgroup.procs').read_text())
        # Others join the leaf: this process has gone there by then.
        self.assertEqual(
            [str(self.top / 'v1/mine/host'), str(self.top / 'v2/host/init')],
            record.read_text().splitlines())

    def test_record_is_first(self):
        record = self.top / 'groups'
        plan = hostinit.Plan('a', 'host', str(record), ())
        found = [hostinit.Hierarchy(self.top / 'gone', '/', 1, ('cpu',))]
        with mock.patch.object(hostinit, 'hierarchies', return_value=found):
            self.assertRaises(OSError, hostinit.join_groups, plan)
        self.assertEqual(f'{self.top}/gone/host\n', record.read_text())


@unittest.skipUnless(os.geteuid() == 0, 'only root can make namespaces')
class TestInit(oslo_base.BaseTestCase):
    """The first process of a namespace, as a host's is."""

    def run_first(self, code):
        """Run code as PID 1 of a new namespace.

        :returns: what it printed
        """
        done = subprocess.run(
            ['unshare', '--pid', '--fork', '--mount-proc', sys.executable,
             '-c', INIT + code], cwd=ROOT, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=60)
        if done.returncode and 'unshare failed' in done.stderr:
            self.skipTest(done.stderr)
        self.assertEqual(0, done.returncode, done.stderr)
        return done.stdout.split()

    def test_nobody_there(self):
        self.assertEqual(['alone'], self.run_first("""
hostinit.end_all()
show()
"""))

    def test_waits_for_the_last(self):
        self.assertEqual(['cleaned', 'alone'], self.run_first("""
start('trap "sleep 0.2; echo cleaned; exit" TERM')
hostinit.end_all()
show()
"""))

    def test_does_not_wait_for_ever(self):
        self.assertEqual(['others'], self.run_first("""
start('trap "" TERM')
hostinit.GRACE_SECONDS = 0.2
hostinit.end_all()
show()
"""))

    def test_orphans_are_reaped_until_the_signal(self):
        self.assertEqual(['alone'], self.run_first("""
for _number in range(3):
    subprocess.run(['sh', '-c', 'true & exit'])
subprocess.Popen(['sh', '-c', 'sleep 0.2; kill -TERM 1'])
hostinit.wait_for_end()
hostinit.end_all()
show()
"""))


class TestMain(Directory):

    def setUp(self):
        super().setUp()
        self.path = self.top / 'plan.json'
        self.path.write_text(json.dumps(
            {'name': 'a', 'control_group': 'b', 'groups_file': 'c',
             'binds': [['/x', '/y']], 'hidden': ['/z']}))

    def test_a_command_that_fails_is_the_end(self):
        e = self.assertRaises(SystemExit, hostinit.run, ['false', 'x'])
        self.assertIn('failed with status 1: false x', str(e))

    def test_errors_say_which_host(self):
        with mock.patch.object(hostinit, 'join_groups',
                               side_effect=PermissionError(13, 'no', '/x')):
            e = self.assertRaises(
                SystemExit, hostinit.main, [str(self.path)])
        self.assertIn('cannot set up a: ', str(e))
        self.assertIn('/x', str(e))
