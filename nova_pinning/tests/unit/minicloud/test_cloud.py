# SPDX-License-Identifier: Apache-2.0

import contextlib
import dataclasses
import io
import os
import re
import signal
import socket
import threading
from unittest import mock
import urllib.request

import fixtures

from minicloud import checks
from minicloud import cloud
from minicloud import errors
from minicloud import libvirt
from minicloud import main
from minicloud import prepare
from minicloud import service
from minicloud import settings
from nova_pinning.model import nova_release
from nova_pinning.tests.unit.minicloud import minicloud_case

HOSTS = (settings.HostSettings('pinning-1', '1', '0'),)


class Part(service.Part):
    """Something that notes when it is brought up and down."""

    def __init__(self, name, requires=(), error=None):
        super().__init__(None, None)
        self.name = name
        self.requires = requires
        self.error = error
        self.events = None

    def up(self):
        self.events.append(self.name)
        if self.error:
            raise self.error

    def down(self):
        self.events.append('-' + self.name)


class TestCloud(minicloud_case.StateTestCase):

    def cloud(self, *parts):
        made = cloud.Cloud(self.state, settings.Settings(hosts=()))
        made.parts = {part.name: part for part in parts}
        self.events = []
        for part in parts:
            part.events = self.events
        return made

    def test_order(self):
        made = self.cloud(Part('c', ('b',)), Part('b', ('a',)), Part('a'))
        for walk, names in ((made.up, 'abc'), (made.down, 'cba')):
            shown = mock.Mock()
            walk(shown)
            self.assertEqual(
                [(word, name) for name in names
                 for word in ('started', 'ended')],
                [(call[0], call[1][0].name) for call in shown.method_calls])
        self.assertEqual(['a', 'b', 'c', '-c', '-b', '-a'], self.events)

    def test_side_by_side(self):
        # Neither would ever be ready if one had to wait for the other.
        barrier = threading.Barrier(2, timeout=60)
        made = self.cloud(Part('a'), Part('b'))
        with mock.patch.object(Part, 'up', lambda part: barrier.wait()):
            made.up(mock.Mock())
        with mock.patch.object(Part, 'down', lambda part: barrier.wait()):
            made.down(mock.Mock())

    def test_down_goes_on(self):
        made = self.cloud(Part('a'), Part('b', ('a',)), Part('c', ('b',)))
        with mock.patch.object(made.parts['b'], 'down',
                               side_effect=OSError(16, 'Busy')):
            error = self.assertRaises(
                errors.MiniCloudError, made.down, mock.Mock())
        self.assertIn('b: [Errno 16] Busy', str(error))
        self.assertEqual(['-c', '-a'], self.events)

    def test_failed(self):
        made = self.cloud(
            Part('a', error=errors.MiniCloudError('broken')),
            Part('b', ('a',)))
        self.assertRaises(errors.MiniCloudError, made.up, mock.Mock())
        self.assertEqual(['a'], self.events)

    def test_failed_beside_a_slow_one(self):
        made = self.cloud(
            Part('slow'), Part('a', error=errors.MiniCloudError('broken')))

        def up(part):
            if part.name == 'slow':
                part.given_up.wait()
            elif part.error:
                raise part.error

        with mock.patch.object(Part, 'up', up):
            self.assertRaises(errors.MiniCloudError, made.up, mock.Mock())

    def test_what_is_required_is_there(self):
        made = cloud.Cloud(self.state, settings.Settings(hosts=HOSTS))
        for part in made.parts.values():
            self.assertEqual(
                set(), set(part.requires) - set(made.parts) - {'huge-pages'},
                part.name)

    def test_stop_writers(self):
        made = self.cloud(
            Part('schemas', ('databases',)), Part('nova', ('schemas',)),
            Part('nova-compute-1', ('nova',)), Part('rabbitmq'))
        shown = mock.Mock()
        made.stop_writers(shown)
        self.assertEqual(['-nova'], self.events)
        nova = made.parts['nova']
        self.assertEqual([mock.call.started(nova), mock.call.ended(nova)],
                         shown.method_calls)

    def test_all_that_write_to_databases(self):
        with mock.patch.object(service.Service, 'down', autospec=True) as down:
            cloud.Cloud(self.state, settings.Settings(
                hosts=HOSTS)).stop_writers(mock.Mock())
        self.assertEqual(
            {'keystone', 'placement', 'glance', 'nova', 'nova-conductor',
             'nova-scheduler'}, {call.args[0].name for call in
                                 down.mock_calls})

    def test_lock(self):
        with cloud.lock(self.state):
            with mock.patch.object(cloud.Cloud, 'up') as up:
                error = self.assertRaises(
                    errors.MiniCloudError, cloud.lock(self.state).__enter__)
            up.assert_not_called()
        self.assertIn('another minicloud is at work', str(error))
        with cloud.lock(self.state):
            pass

    def test_remove(self):
        self.state.save(settings.Settings(hosts=HOSTS))
        log = self.state.log / 'nova.log'
        log.touch()
        cloud.remove(self.state, mock.MagicMock())
        self.assertFalse(self.state.cloud.exists())
        self.assertTrue(log.exists())
        cloud.remove(self.state, mock.MagicMock())


class TestChecks(minicloud_case.DirectoryTestCase):

    def setUp(self):
        super().setUp()
        self.root = self.directory
        self.state = settings.State(self.root / 'a' / 'b')
        for target, name, value in (
                (checks.os, 'geteuid', 0), (checks.packages, 'missing', []),
                (checks.shutil, 'disk_usage', mock.Mock(free=4 << 30))):
            setattr(self, name, self.patch(target, name, return_value=value))

    def test_machine(self):
        checks.machine(self.state)

    def test_not_root(self):
        self.geteuid.return_value = 1000
        error = self.assertRaises(
            errors.MiniCloudError, checks.machine, self.state)
        self.assertIn('Run it with sudo', str(error))

    def test_place(self):
        for name, is_good in (
                ('state', True), ('.mini-cloud_2+3', True),
                ('my cloud', False), ('a:b', False), ('a$b', False),
                ('a%b', False), ('a#b', False), ('a"b', False)):
            state = settings.State(self.root / name)
            if is_good:
                checks.machine(state)
                continue
            error = self.assertRaises(
                errors.MiniCloudError, checks.machine, state)
            self.assertIn(f'{state.root} has characters', str(error))
            self.assertIn('--state', str(error))

    def test_missing_packages(self):
        self.missing.return_value = ['qemu-utils', 'gcc']
        error = self.assertRaises(
            errors.MiniCloudError, checks.machine, self.state)
        self.assertIn('missing: qemu-utils, gcc. Run: tools/minicloud deps',
                      str(error))

    def test_no_space(self):
        self.disk_usage.return_value = mock.Mock(free=7 << 20)
        error = self.assertRaises(
            errors.MiniCloudError, checks.machine, self.state)
        self.assertIn('has 7 MiB of free space, 2048 MiB are needed',
                      str(error))

    def test_no_memory(self):
        meminfo = self.root / 'meminfo'
        meminfo.write_text('MemTotal:   9000000 kB\n'
                           'MemAvailable:   7516192 kB\n')
        one = settings.HostSettings('virtual-1', '2-7', '0-1', '2x2x2')
        with mock.patch.object(checks, 'MEMORY', meminfo):
            checks.memory(
                settings.Settings(hosts=(*HOSTS, one), huge_pages=6))
            error = self.assertRaises(
                errors.MiniCloudError, checks.memory,
                settings.Settings(hosts=(*HOSTS, one), huge_pages=7))
        self.assertIn('7340 MiB of memory are available, 7342 MiB are '
                      'needed', str(error))

    def test_port_in_use(self):
        wanted = settings.Settings(hosts=HOSTS, base_port=61800)
        taken = set()
        self.patch(checks, '_is_free',
                   side_effect=lambda *where: where not in taken)
        checks.ports(wanted)
        for address, name in (('127.0.0.1', 'glance'),
                              ('127.0.0.11', 'libvirt')):
            taken = {(address, wanted.port(name))}
            error = self.assertRaises(
                errors.MiniCloudError, checks.ports, wanted)
            self.assertIn(f'port {wanted.port(name)} of {address}, for '
                          f'{name}, is in use', str(error))
            # Which another cloud could have.
            base, = re.findall(r'--base-port (\d+)', str(error))
            checks.ports(dataclasses.replace(wanted, base_port=int(base)))
            self.assertNotEqual(61800, int(base))

    def test_somebody_listens(self):
        with socket.create_server(('127.0.0.11', 0)) as server:
            self.assertFalse(checks._is_free(*server.getsockname()))

    def test_bases_are_far_enough_apart(self):
        last = libvirt.last_port_offset(2)
        self.assertLess(max(last, *settings.PORTS.values()),
                        checks.PORTS_APART)


class TestUp(minicloud_case.DirectoryTestCase):
    """What becomes of a cloud that does not come up."""

    def setUp(self):
        super().setUp()
        self.root = self.directory / 'state'
        for target, name in (
                (main.checks, 'machine'), (main.checks, 'ports'),
                (main.checks, 'memory'),
                (main.packages, 'venv_is_ready'),
                (main.packages, 'make_venv'),
                (cloud.Cloud, 'stop_writers'),
                (cloud.Cloud, 'up'), (cloud.Cloud, 'down')):
            setattr(self, name, self.patch(target, name))
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            self.addCleanup(signal.signal, number, signal.getsignal(number))

    def run_main(self, *arguments):
        return main.main(['--state', str(self.root), *arguments])

    def test_up(self):
        self.assertEqual(0, self.run_main('up'))
        self.down.assert_not_called()
        self.assertEqual(0, self.run_main('up'))
        self.assertEqual(0, self.run_main('down'))
        self.assertFalse((self.root / 'cloud').exists())

    def test_all_that_takes_long_is_told(self):
        self.run_main('up')

        def rmtree(path, **options):
            removed.append(path)
            self.assertIn('removing', said.getvalue())
            said.seek(0)
            said.truncate()

        removed = []
        with (contextlib.redirect_stdout(io.StringIO()) as said,
              mock.patch('shutil.rmtree', rmtree)):
            self.assertEqual(0, self.run_main('down', '--all'))
        self.assertEqual([self.root / 'cloud', self.root], removed)

    def test_failed(self):
        self.up.side_effect = errors.MiniCloudError('no luck')
        self.assertEqual(2, self.run_main('up'))
        self.down.assert_called_once()
        self.assertFalse((self.root / 'cloud').exists())

    def test_remark(self):
        def up(whole, shown):
            whole.parts['nova-compute-pinning-1'].remark = 'forced down'

        with mock.patch.object(cloud.Cloud, 'up', up):
            self.assertEqual(1, self.run_main('up'))
        self.down.assert_not_called()
        self.assertTrue((self.root / 'cloud').exists())

    def test_unknown_release(self):
        self.venv_is_ready.return_value = False
        self.assertEqual(2, self.run_main('up', '--release', '2031.1'))
        self.make_venv.assert_not_called()
        self.assertFalse(self.root.exists())

    def test_change_failed(self):
        self.run_main('up')
        state = settings.State(self.root)
        before = state.load()
        self.up.side_effect = errors.MiniCloudError('no luck')
        self.assertEqual(
            2, self.run_main('up', '--host-cpus', 'pinning-1=shared:0'))
        self.down.assert_not_called()
        self.assertEqual(before, state.load())

    def test_up_again_without_options(self):
        self.run_main('up', '--hosts', '3', '--host-cpus',
                      'pinning-1=shared:0')
        state = settings.State(self.root)
        before = state.load()
        self.assertEqual(0, self.run_main('up'))
        self.assertEqual(before, state.load())

    def test_told_to_end_twice(self):
        self.up.side_effect = lambda shown: signal.raise_signal(
            signal.SIGTERM)
        self.down.side_effect = lambda shown: signal.raise_signal(
            signal.SIGTERM)
        self.assertRaises(SystemExit, self.run_main, 'up')
        self.assertFalse((self.root / 'cloud').exists())

    def test_packages_have_changed(self):
        self.run_main('up')
        self.venv_is_ready.return_value = False
        self.assertEqual(2, self.run_main('up'))
        self.down.assert_not_called()

    def test_each_release_is_installed(self):
        self.venv_is_ready.side_effect = (
            lambda state, release: release == '2026.1')
        self.assertEqual(0, self.run_main(
            'up', '--release', '2026.1', '--host-release',
            'pinning-1=2025.1'))
        self.make_venv.assert_called_once_with(mock.ANY, '2025.1')

    def upgrade(self, *arguments):
        """Have a cloud of 2025.1, and bring it up with options."""
        self.assertEqual(0, self.run_main('up', '--release', '2025.1'))
        self.state = settings.State(self.root)
        self.state.base.mkdir(parents=True)
        (self.state.base / prepare.RELEASE).write_text('2025.1')
        self.stop_writers.assert_not_called()
        return self.run_main('up', *arguments)

    def test_upgrade(self):
        self.assertEqual(0, self.upgrade(
            '--release', '2026.1', '--host-release', 'pinning-2=2025.1'))
        self.stop_writers.assert_called_once_with(mock.ANY)
        self.assertEqual(['2025.1', '2026.1'], self.state.load().releases)

    def test_upgrade_to_the_default(self):
        self.assertEqual(0, self.upgrade('--release', '2026.1'))
        self.assertEqual(0, self.run_main(
            'up', '--release', nova_release.NEWEST.name))
        self.assertEqual([nova_release.NEWEST.name],
                         self.state.load().releases)

    def test_upgrade_past_a_slurp_release(self):
        self.assertEqual(2, self.upgrade('--release', '2026.2'))
        self.stop_writers.assert_not_called()
        self.assertEqual(['2025.1'], self.state.load().releases)
        # Nova looks at each host, so it is the last one that counts.
        self.assertEqual(0, self.run_main(
            'up', '--release', '2026.1', '--host-release',
            'pinning-1=2025.1'))
        self.assertEqual(2, self.run_main('up', '--release', '2026.2'))
        self.assertEqual('2026.1', self.state.load().release)

    def test_release_is_kept(self):
        self.assertEqual(0, self.upgrade())
        self.assertEqual(0, self.run_main(
            'up', '--host-cpus', 'pinning-1=shared:0'))
        self.stop_writers.assert_not_called()
        self.assertEqual(['2025.1'], self.state.load().releases)

    def test_upgrade_failed(self):
        self.up.side_effect = [None, errors.MiniCloudError('no luck')]
        self.assertEqual(2, self.upgrade('--release', '2026.1'))
        self.down.assert_not_called()
        # Its databases may be those of the other release by now.
        self.assertEqual('2026.1', self.state.load().release)

    def test_no_way_back(self):
        self.assertEqual(0, self.upgrade('--release', '2026.1'))
        self.assertEqual(2, self.run_main('up', '--release', '2025.1'))
        self.assertEqual('2026.1', self.state.load().release)
        self.down.assert_not_called()

    def test_no_permission(self):
        self.machine.side_effect = PermissionError(13, 'Denied', 'x')
        self.assertEqual(2, self.run_main('up'))

    def test_told_to_end(self):
        for number in (signal.SIGTERM, signal.SIGHUP):
            self.down.reset_mock()
            self.up.side_effect = lambda shown, number=number: (
                signal.raise_signal(number))
            error = self.assertRaises(SystemExit, self.run_main, 'up')
            self.assertEqual(128 + number, error.code)
            self.down.assert_called_once()

    def test_no_proxy_for_loopback(self):
        self.useFixture(fixtures.EnvironmentVariable(
            'http_proxy', 'http://127.0.0.1:1'))
        for upper, lower, expected in (
                (None, None, '127.0.0.1'),
                ('a.example', None, 'a.example,127.0.0.1'),
                ('a.example', 'b.example', 'b.example,127.0.0.1')):
            self.useFixture(fixtures.EnvironmentVariable('NO_PROXY', upper))
            self.useFixture(fixtures.EnvironmentVariable('no_proxy', lower))
            self.run_main('up')
            self.assertEqual(expected, os.environ['no_proxy'])
            self.assertTrue(
                urllib.request.proxy_bypass('127.0.0.1:17800'))

    def test_interrupted(self):
        self.up.side_effect = KeyboardInterrupt
        self.assertEqual(130, self.run_main('up'))
        self.down.assert_called_once()

    def test_other_hosts(self):
        self.run_main('up')
        self.assertEqual(2, self.run_main('up', '--hosts', '3'))
        self.down.assert_not_called()

    def test_other_cpus(self):
        self.run_main('up')
        self.assertEqual(
            0, self.run_main('up', '--host-cpus', 'pinning-1=shared:0'))

    def test_no_cloud(self):
        for command in ('status', 'env'):
            self.assertEqual(2, self.run_main(command))
        self.assertEqual(0, self.run_main('down'))

    def test_down_all(self):
        self.run_main('up')
        self.assertEqual(0, self.run_main('down', '--all'))
        self.assertFalse(self.root.exists())
