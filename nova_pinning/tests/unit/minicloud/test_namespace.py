# SPDX-License-Identifier: Apache-2.0

import dataclasses
import json
import os
import pathlib
import select
import signal
import subprocess
import sys
from unittest import mock

from minicloud import accelerator
from minicloud import compute
from minicloud import errors
from minicloud import hostinit
from minicloud import hosts
from minicloud import namespace
from minicloud import process
from minicloud import service
from minicloud import settings
from nova_pinning.document import decoder
from nova_pinning.tests.unit.minicloud import minicloud_case

HOSTS = tuple(settings.HostSettings(name, '1', '0')
              for name in ('pinning-1', 'pinning-2'))

LONG_SECONDS = 60


class Base(minicloud_case.StateTestCase):

    def setUp(self):
        super().setUp()
        self.settings = settings.Settings(hosts=HOSTS)

    def host(self, number=0):
        return namespace.HostNamespace(
            self.state, self.settings, HOSTS[number])


class TestParts(Base):

    def test_shared_parts_have_the_same_names(self):
        names = [[part.name for part in hosts.parts(
            self.state, self.settings, host)] for host in HOSTS]
        self.assertEqual({'ssh-keys', 'virt-type'},
                         set(names[0]) & set(names[1]))
        self.assertEqual(
            ['host-pinning-1', 'sshd-pinning-1', 'libvirtd-pinning-1',
             'nova-compute-pinning-1'], names[0][2:])

    def test_nothing_runs_before_its_host(self):
        for host in HOSTS:
            parts = {part.name: part for part in hosts.parts(
                self.state, self.settings, host)}
            for kind in ('libvirtd', 'sshd', 'nova-compute'):
                self.assertIn(f'host-{host.name}',
                              parts[f'{kind}-{host.name}'].requires)


class TestHost(Base):

    def test_hosts_share_nothing(self):
        plans = [self.host(number).plan() for number in range(len(HOSTS))]
        self.assertNotEqual(*(plan.control_group for plan in plans))
        self.assertNotEqual(*(plan.groups_file for plan in plans))
        sources = [dict(map(reversed, plan.binds)) for plan in plans]
        # All hosts have the same targets, so a difference is of sources.
        self.assertEqual(*(set(source) for source in sources))
        shared = {target for target in sources[0]
                  if sources[0][target] == sources[1][target]}
        self.assertEqual({'/etc/ssh/ssh_config'}, shared)

    def test_clouds_share_no_control_groups(self):
        state = settings.State(pathlib.Path('/another'))
        other = namespace.HostNamespace(state, self.settings, HOSTS[0])
        self.assertNotEqual(self.host().plan().control_group,
                            other.plan().control_group)

    def test_nothing_is_bound_to_what_is_not_ours(self):
        for source, _ in self.host().plan().binds:
            self.assertTrue(source.startswith(str(self.state.root)), source)

    def test_plan_survives_the_file(self):
        host = self.host()
        self.assertEqual(host.plan(), decoder.decode(
            hostinit.Plan, json.loads(host.config()[host.plan_file])))

    def test_same_digest_each_time(self):
        self.assertEqual(self.host().made_from(), self.host().made_from())

    def test_prepare_makes_directories_but_no_files(self):
        host = self.host()
        for path, text in host.config().items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        (self.state.etc / 'ssh_config').touch()
        host.prepare()
        for source, target in host.plan().binds:
            kind = (os.path.isfile if target in (
                '/etc/hosts', '/etc/shadow', '/etc/ssh/ssh_config')
                else os.path.isdir)
            self.assertTrue(kind(source), source)
        self.assertTrue(compute.instances(self.state).is_dir())

    def test_state_that_the_host_could_not_see(self):
        self.state.root = pathlib.Path('/run/user/0/cloud')
        e = self.assertRaises(errors.MiniCloudError, self.host().prepare)
        self.assertIn('--state', str(e))

    def test_hosts_know_each_other(self):
        self.assertEqual(
            {'127.0.0.1': 'localhost', '127.0.0.11': 'pinning-1',
             '127.0.0.12': 'pinning-2'},
            dict(line.split() for line in self.host().config()[
                self.host().etc / 'hosts'].splitlines()))


class TestRelease(Base):
    """A host that gets another nova-compute keeps its guests."""

    def digests(self, release):
        for one in ('2025.1', '2026.1'):
            python = pathlib.Path(self.state.bin('python', one))
            python.parent.mkdir(parents=True, exist_ok=True)
            if not python.exists():
                python.symlink_to(sys.executable)
        made = settings.Settings(hosts=tuple(
            dataclasses.replace(host, release=release) for host in HOSTS),
            release=release)
        self.patch(accelerator, 'virt_type', return_value='qemu')
        self.patch(namespace.HostNamespace, 'init_pid', return_value=7)
        return {part.name: part.made_from() for part in hosts.parts(
            self.state, made, made.hosts[0])
            if isinstance(part, service.Service)}

    def test_what_starts_anew(self):
        before, after = map(self.digests, ('2025.1', '2026.1'))
        self.assertEqual(
            {'nova-compute-pinning-1'},
            {name for name in before if before[name] != after[name]})


class TestInitPid(Base):

    def start(self, code):
        host = self.host()
        process.start([sys.executable, '-c', code], host.record, host.log,
                      '', dict(os.environ))
        self.addCleanup(process.stop, host.record, 0)
        return host

    def test_is_the_child(self):
        host = self.start(
            'import os, subprocess, sys\n'
            'child = subprocess.Popen([sys.executable, "-c",\n'
            '                          "import signal; signal.pause()"])\n'
            'open("%s", "w").write(str(child.pid))\n'
            'child.wait()' % self.fifo())
        self.assertEqual(int(self.read_fifo()), host.init_pid())
        command = host.enter(['virsh', 'list'])
        self.assertEqual(
            ['nsenter', '--target', str(host.init_pid()), '--all', '--',
             'virsh', 'list'], command[-7:])

    def test_no_child_yet(self):
        host = self.start('import signal; signal.pause()')
        self.assertRaises(errors.NotReady, host.check)

    def test_not_up(self):
        self.assertRaises(errors.NotReady, self.host().check)
        e = self.assertRaises(
            errors.MiniCloudError, self.host().enter, ['true'])
        self.assertIn('pinning-1 is not up', str(e))

    def fifo(self):
        self.path = self.state.root / 'fifo'
        os.mkfifo(self.path)
        return self.path

    def read_fifo(self):
        return self.path.read_text()


class TestEnter(Base):

    def test_joins_all_groups_first(self):
        """The shell's part for real, with files for the kernel's."""
        groups = [self.state.root / 'a b', self.state.root / 'c']
        for group in groups:
            group.mkdir()
        self.host().groups_file.write_text(
            ''.join(f'{group}\n' for group in groups))
        with mock.patch.object(namespace.HostNamespace, 'init_pid',
                               return_value=7):
            command = self.host().enter(['two words', '$x'])
        at = command.index('nsenter')
        said = subprocess.run(
            [*command[:at], 'printf', '%s,', *command[at:]],
            check=True, capture_output=True, text=True).stdout
        self.assertEqual('nsenter,--target,7,--all,--,two words,$x,', said)
        for group in groups:
            self.assertEqual('0\n', (group / 'cgroup.procs').read_text())


class TestRemoveGroups(Base):

    def setUp(self):
        super().setUp()
        self.time = mock.patch.object(namespace, 'time').start()
        self.addCleanup(mock.patch.stopall)
        self.time.monotonic.side_effect = range(1000)
        self.found = self.host()
        name = self.found.plan().control_group
        self.groups = [self.state.root / 'cpuset' / name,
                       self.state.root / 'unified' / name]
        for group in self.groups:
            (group / 'machine' / 'qemu-1' / 'vcpu0').mkdir(parents=True)
        (self.groups[1] / 'init').mkdir()

    def record(self, *paths):
        self.found.groups_file.write_text(''.join(
            f'{path}\n' for path in paths))

    def test_all_that_libvirt_made(self):
        self.record(self.groups[0], self.groups[1] / 'init')
        self.found.down()
        for group in self.groups:
            self.assertFalse(group.exists())
            self.assertTrue(group.parent.exists())
        self.assertFalse(self.found.groups_file.exists())

    def test_nothing_of_others(self):
        other = self.state.root / 'cpuset' / 'machine'
        other.mkdir()
        self.record(other, self.groups[0])
        self.found.down()
        self.assertTrue(other.exists())
        self.assertFalse(self.groups[0].exists())

    def test_waits_for_the_last_process(self):
        busy = self.groups[0] / 'machine' / 'tasks'
        busy.touch()
        self.time.sleep.side_effect = lambda seconds: busy.unlink()
        self.record(self.groups[0])
        self.found.down()
        self.assertFalse(self.groups[0].exists())

    def test_gives_up(self):
        (self.groups[0] / 'machine' / 'tasks').touch()
        self.record(*self.groups)
        self.found.down()
        self.assertTrue(self.groups[0].exists())

    def test_gone_already(self):
        self.record(self.state.root / self.groups[0].name)
        self.found.down()
        self.found.down()


class Polite(hosts.Inside):
    """Tells on a FIFO that it is there, and that it was asked to end."""

    prefix = 'polite'
    deadline_seconds = LONG_SECONDS

    @property
    def fifo(self):
        return self.state.root / 'fifo'

    def inner_command(self):
        return [sys.executable, '-c', '''
import os, signal, sys
inherited = signal.getsignal(signal.SIGTERM)
signal.signal(signal.SIGTERM, lambda *_: sys.exit(os.write(out, b"bye")))
out = os.open(sys.argv[1], os.O_WRONLY)
os.write(out, b"hello,%d,%d" % (os.getpid(), inherited))
while True:
    signal.pause()
''', str(self.fifo)]

    def check(self):
        """It is heard of on the FIFO."""


class TestInside(Base):
    """Signals, with a shell in the place of nsenter: it forks and waits."""

    def setUp(self):
        super().setUp()

        def enter(host, command):
            return ['sh', '-c', '"$@"; exit', 'sh', *command]

        self.patch(namespace.HostNamespace, 'enter', new=enter)
        self.service = Polite(self.state, self.settings, HOSTS[0])
        os.mkfifo(self.service.fifo)
        self.pipe = os.open(self.service.fifo, os.O_RDONLY | os.O_NONBLOCK)
        self.addCleanup(os.close, self.pipe)
        self.service.up()
        self.addCleanup(self.service.down)
        _, pid, inherited = self.hear().split(b',')
        self.pid = int(pid)
        self.assertEqual(signal.SIG_DFL, int(inherited))

    def hear(self):
        self.assertTrue(select.select([self.pipe], [], [], LONG_SECONDS)[0])
        return os.read(self.pipe, 100)

    def test_asked_to_end_and_waited_for(self):
        outer = process.read(self.service.record)
        self.assertNotEqual(outer.pid, self.pid)
        self.service.down()
        self.assertEqual(b'bye', self.hear())
        self.assertIsNone(process.start_ticks(self.pid))

    def test_ends_with_the_one_that_is_recorded(self):
        inner = os.pidfd_open(self.pid)
        self.addCleanup(os.close, inner)
        os.kill(process.read(self.service.record).pid, signal.SIGKILL)
        self.assertTrue(select.select([inner], [], [], LONG_SECONDS)[0])
        self.assertEqual(b'', self.hear())
        self.assertFalse(self.service.running())

    def test_recorded_one_ends_with_it(self):
        outer = os.pidfd_open(process.read(self.service.record).pid)
        self.addCleanup(os.close, outer)
        os.kill(self.pid, signal.SIGKILL)
        self.assertTrue(select.select([outer], [], [], LONG_SECONDS)[0])
        self.assertFalse(self.service.running())


class TestServices(Base):

    def make(self, kind, number=0):
        return kind(self.state, self.settings, HOSTS[number])

    def test_libvirtd_reads_what_it_is_told(self):
        own = dict(map(reversed, self.host().plan().binds))
        read = {path.name: str(path.parent) for path in self.host().config()}
        for name in ('libvirt.conf', 'libvirtd.conf', 'qemu.conf'):
            self.assertEqual(own['/etc/libvirt'], read[name])

    def test_provider_files_of_an_earlier_up_go(self):
        nova_compute = self.make(hosts.NovaCompute)
        directory = nova_compute.providers
        directory.mkdir(parents=True)
        (directory / 'provider.yaml').touch()
        with mock.patch.object(accelerator, 'virt_type',
                               return_value='qemu'):
            nova_compute.prepare()
        self.assertEqual([], list(directory.iterdir()))

    def test_commands_name_their_files(self):
        self.patch(accelerator, 'virt_type', return_value='qemu')
        sshd = self.host().etc / 'sshd_config'
        self.assertIn(sshd, self.host().config())
        self.assertIn(str(sshd), self.make(hosts.Sshd).inner_command())
        nova_compute = self.make(hosts.NovaCompute)
        for path in nova_compute.config():
            self.assertIn(str(path), nova_compute.inner_command())
