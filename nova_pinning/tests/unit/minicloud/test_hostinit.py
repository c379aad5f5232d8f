#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

import json
import os
import pathlib
import signal
from unittest import mock

import ddt
import hypothesis
from hypothesis import strategies as st
from oslotest import base as oslo_base

from minicloud import hostinit
from nova_pinning.tests.unit import base as unit_base
from nova_pinning.tests.unit.minicloud import base

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
        groups = hostinit.own_groups(
            pathlib.Path('/proc/self/cgroup').read_text())
        for one in hostinit.hierarchies(text):
            parent = one.parent(groups)
            self.assertTrue((parent / 'cgroup.procs').exists(), parent)
            if one.version == 1:
                self.assertIn(
                    str(os.getpid()),
                    (parent / 'cgroup.procs').read_text().split())

    def test_own_groups(self):
        self.assertEqual(
            {'name=systemd': '/', 'cpuset': '/docker/abc/def',
             'cpu,cpuacct': '/docker/abc', '': '/user.slice/with:colon'},
            hostinit.own_groups(GROUPS))

    def test_mount_command(self):
        commands = [one.mount_command() for one in hostinit.hierarchies(V1)]
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


class Directory(base.DirectoryTestCase):

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
              mock.patch.object(hostinit, 'own_groups',
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


class TestSetUp(Directory):

    def setUp(self):
        super().setUp()
        self.commands = []
        for name in ('RUN', 'READY', 'HUGE_PAGES'):
            self.patch(hostinit, name, new=self.top / name)
        (self.top / 'RUN').mkdir()
        for size_kib in (1048576, 2048):
            (self.top / 'HUGE_PAGES' / f'hugepages-{size_kib}kB').mkdir(
                parents=True)
        self.plan = hostinit.Plan('pinning-9', 'group', 'file', (
            ('/own/etc', '/etc/libvirt'), ('/own/hosts', '/etc/hosts')),
            (str(self.top), '/no/such/directory'))

    def set_up(self, mountinfo):
        text = pathlib.Path.read_text

        def read_text(path, *arguments):
            if path == pathlib.Path('/proc/self/mountinfo'):
                return mountinfo
            if path.name == 'cgroup.controllers':
                return 'cpu'
            return text(path, *arguments)

        with (mock.patch.object(hostinit, 'run', self.commands.append),
              mock.patch.object(pathlib.Path, 'read_text', read_text),
              mock.patch.object(pathlib.Path, 'write_text', autospec=True)
              as write_text,
              mock.patch('socket.sethostname') as sethostname):
            hostinit.set_up(self.plan)
        sethostname.assert_called_once_with('pinning-9')
        return [(str(call.args[0]), call.args[1])
                for call in write_text.call_args_list]

    def test_mounts(self):
        self.set_up(V1)
        run = str(self.top / 'RUN')
        targets = [command[-1] for command in self.commands
                   if command[0] == 'mount']
        groups = [f'/sys/fs/cgroup/{name}' for name in (
            'cpu,cpuacct', 'cpuset', 'systemd', 'unified')]
        self.assertEqual(
            [*groups, run, '/etc/libvirt', '/etc/hosts', str(self.top),
             f'{run}/hugepages/2048', f'{run}/hugepages/1048576'], targets)
        self.assertIn(['mount', '--bind', '/own/etc', '/etc/libvirt'],
                      self.commands)
        self.assertEqual(
            groups, [command[1] for command in self.commands
                     if command[0] == 'umount'])
        self.assertTrue((self.top / 'READY').exists())
        self.assertTrue((self.top / 'RUN' / 'sshd').is_dir())

    def test_version_2_leaves_the_top_before_it_enables(self):
        self.assertEqual(
            [('/sys/fs/cgroup/init/cgroup.procs', '0'),
             ('/sys/fs/cgroup/cgroup.subtree_control', '+cpu')],
            self.set_up(V2))

    def test_not_ready_if_a_mount_fails(self):
        with mock.patch('socket.sethostname'):
            with mock.patch.object(hostinit, 'hierarchies', return_value=[]):
                with mock.patch('subprocess.run') as run:
                    run.return_value.returncode = 32
                    e = self.assertRaises(
                        SystemExit, hostinit.set_up, self.plan)
        self.assertIn('failed with status 32: mount -t tmpfs', str(e))
        self.assertFalse((self.top / 'READY').exists())


class TestEnd(oslo_base.BaseTestCase):
    """How the host ends. Not for real: kill(-1) would be the test's end."""

    def setUp(self):
        super().setUp()
        self.left = []
        self.kill = mock.patch('os.kill', side_effect=self._kill).start()
        self.reap = mock.patch.object(hostinit, 'reap').start()
        self.time = mock.patch.object(hostinit, 'time').start()
        self.addCleanup(mock.patch.stopall)
        self.now = 0.0
        self.time.monotonic.side_effect = lambda: self.now
        self.time.sleep.side_effect = self._sleep

    def _sleep(self, seconds):
        self.now += seconds
        self.left = [until for until in self.left if until > self.now]

    def _kill(self, pid, number):
        self.assertEqual(-1, pid)
        if not self.left:
            raise ProcessLookupError

    def signals(self):
        return [call.args[1] for call in self.kill.call_args_list]

    def test_nobody_there(self):
        hostinit.end_all()
        self.assertEqual([signal.SIGTERM], self.signals())

    def test_waits_for_the_last(self):
        self.left = [0.2, 1.0]
        hostinit.end_all()
        self.assertAlmostEqual(1.0, self.now, delta=0.1)
        self.assertEqual({signal.SIGTERM, 0}, set(self.signals()))
        self.assertEqual(1, self.signals().count(signal.SIGTERM))

    def test_does_not_wait_for_ever(self):
        self.left = [1e9]
        hostinit.end_all()
        self.assertAlmostEqual(hostinit.GRACE_SECONDS, self.now, delta=0.1)

    def test_orphans_are_reaped_until_the_signal(self):
        with mock.patch('signal.sigwait', side_effect=[
                signal.SIGCHLD, signal.SIGCHLD, signal.SIGTERM]):
            hostinit.wait_for_end()
        self.assertEqual(3, self.reap.call_count)


class TestReap(oslo_base.BaseTestCase):

    def test_all_that_have_ended(self):
        answers = [(7, 0), (8, 9), (0, 0)]
        with mock.patch('os.waitpid', side_effect=answers) as waitpid:
            hostinit.reap()
        self.assertEqual([mock.call(-1, os.WNOHANG)] * 3,
                         waitpid.call_args_list)

    def test_no_children(self):
        with mock.patch('os.waitpid', side_effect=ChildProcessError):
            hostinit.reap()


class TestMain(Directory):

    def setUp(self):
        super().setUp()
        self.path = self.top / 'plan.json'
        self.plan = {'name': 'a', 'control_group': 'b', 'groups_file': 'c',
                     'binds': [['/x', '/y']], 'hidden': ['/z']}
        self.path.write_text(json.dumps(self.plan))

    def test_first_round_joins_and_goes_on(self):
        with (mock.patch.object(hostinit, 'join_groups') as join_groups,
              mock.patch('os.execvp', side_effect=SystemExit) as execvp):
            self.assertRaises(SystemExit, hostinit.main, [str(self.path)])
        join_groups.assert_called_once_with(
            hostinit.Plan('a', 'b', 'c', (('/x', '/y'),), ('/z',)))
        command = execvp.call_args.args[1]
        self.assertEqual(['unshare', '--cgroup'], command[:2])
        self.assertEqual(['-m', 'minicloud.hostinit', '--inside',
                          str(self.path)], command[3:])

    def test_second_round(self):
        happened = mock.Mock()
        names = ('set_up', 'wait_for_end', 'end_all')
        with (mock.patch.multiple(hostinit, **{
                name: getattr(happened, name) for name in names}),
              mock.patch('signal.pthread_sigmask', happened.block)):
            hostinit.main(['--inside', str(self.path)])
        self.assertEqual(
            ['block', *names], [call[0] for call in happened.mock_calls])

    def test_errors_say_which_host(self):
        with mock.patch.object(hostinit, 'join_groups',
                               side_effect=PermissionError(13, 'no', '/x')):
            e = self.assertRaises(
                SystemExit, hostinit.main, [str(self.path)])
        self.assertIn('cannot set up a: ', str(e))
        self.assertIn('/x', str(e))
