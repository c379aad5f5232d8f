# SPDX-License-Identifier: Apache-2.0

import dataclasses

import fixtures
from hypothesis import given
from hypothesis import strategies as st
from oslotest import base as oslo_base

from minicloud import errors
from minicloud import options
from minicloud import settings
from nova_pinning import cpuset
from nova_pinning.model import nova_release
from nova_pinning.tests.unit.minicloud import minicloud_case

NAMES = ['pinning-1', 'pinning-2']


def parse(*arguments):
    return options.settings_of(options.parser().parse_args(['up', *arguments]))


class TestState(minicloud_case.DirectoryTestCase):

    def setUp(self):
        super().setUp()
        self.root = self.directory / 'state'
        self.state = settings.State(self.root)

    def test_create(self):
        self.state.create()
        self.state.create()
        self.assertEqual(0o700, self.root.stat().st_mode & 0o777)

    def test_create_again_after_it_failed(self):
        self.state.log = self.root / 'version' / 'log'
        self.assertRaises(errors.MiniCloudError, self.state.create)
        settings.State(self.root).create()

    def test_secret_is_made_before_anybody_asks(self):
        # Two that ask at the same time would make two of them.
        self.state.create()
        self.assertTrue((self.root / 'secret').exists())

    def test_secret(self):
        self.state.create()
        self.assertEqual(self.state.secret, settings.State(self.root).secret)
        self.assertEqual(32, len(self.state.secret))
        mode = (self.root / 'secret').stat().st_mode
        self.assertEqual(0o600, mode & 0o777)

    def test_other_version(self):
        self.state.create()
        (self.root / 'version').write_text('0\n')
        error = self.assertRaises(
            errors.MiniCloudError, self.state.create)
        self.assertIn('was made by version 0 of minicloud', str(error))

    def test_not_ours(self):
        self.root.mkdir()
        (self.root / 'thesis.txt').touch()
        error = self.assertRaises(
            errors.MiniCloudError, self.state.create)
        self.assertIn('is not a state directory', str(error))
        self.assertEqual(['thesis.txt'],
                         [path.name for path in self.root.iterdir()])

    def test_not_a_directory(self):
        self.root.touch()
        error = self.assertRaises(
            errors.MiniCloudError, self.state.check_version)
        self.assertIn('is not a directory', str(error))

    def test_not_writable(self):
        self.root.touch()
        state = settings.State(self.root / 'below')
        error = self.assertRaises(errors.MiniCloudError, state.create)
        self.assertIn('cannot write to', str(error))
        self.assertIn('--state', str(error))

    def test_save_and_load(self):
        self.state.create()
        self.assertIsNone(self.state.load())
        made = parse('--virtual-host', '2x2x2',
                     '--release', '2026.1', '--host-release',
                     'pinning-2=2025.1')
        self.state.save(made)
        self.assertEqual(made, self.state.load())

    def test_load_what_another_version_saved(self):
        self.state.create()
        (self.state.cloud / 'settings.json').write_text(
            '{"hosts": [], "sqlite": true}')
        error = self.assertRaises(errors.MiniCloudError, self.state.load)
        self.assertIn('sqlite', str(error))
        self.assertIn('with its own minicloud', str(error))


class TestOptions(oslo_base.BaseTestCase):

    def test_default(self):
        made = parse()
        self.assertEqual(NAMES, [host.name for host in made.hosts])
        self.assertEqual(
            ['127.0.0.11', '127.0.0.12'],
            [made.host_address(name) for name in NAMES])

    def test_ports_differ(self):
        ports = [parse().port(name) for name in settings.PORTS]
        self.assertEqual(len(ports), len(set(ports)))

    def test_release(self):
        newest = nova_release.NEWEST.name
        made = parse()
        self.assertEqual([newest], made.releases)
        made = parse('--release', 'epoxy')
        self.assertEqual('2025.1', made.release)
        self.assertEqual(['2025.1'], made.releases)
        made = parse('--release', '2026.1', '--host-release',
                     'pinning-2=2025.1')
        self.assertEqual(['2026.1', '2025.1'],
                         [host.release for host in made.hosts])
        self.assertEqual(['2025.1', '2026.1'], made.releases)

    def test_release_of_the_cloud_that_is_there(self):
        args = options.parser().parse_args(
            ['up', '--host-release', 'pinning-1=2025.1'])
        made = options.settings_of(args, '2026.1')
        self.assertEqual('2026.1', made.release)
        self.assertEqual(['2025.1', '2026.1'],
                         [host.release for host in made.hosts])

    def test_virtual_host(self):
        made = parse('--hosts', '0', '--virtual-host', '2x2x2')
        host, = made.hosts
        self.assertEqual('virtual-1', host.name)
        self.assertEqual('2x2x2', host.topology)
        self.assertEqual('0-1', host.shared)
        self.assertEqual('2-7', host.dedicated)

    @given(st.sets(st.integers(0, 7)), st.sets(st.integers(0, 7)),
           st.booleans())
    def test_cpus(self, dedicated, shared, swap):
        shared = shared - dedicated
        sets = [(name, cpuset.CpuSet(cpus)) for name, cpus in
                (('dedicated', dedicated), ('shared', shared)) if cpus]
        if not sets:
            return
        if swap:
            sets.reverse()
        text = ','.join(f'{name}:{cpus}' for name, cpus in sets)
        host, = parse('--hosts', '0', '--virtual-host', '2x2x2',
                      '--host-cpus', f'virtual-1={text}').hosts
        self.assertEqual(str(cpuset.CpuSet(dedicated)), host.dedicated)
        self.assertEqual(str(cpuset.CpuSet(shared)), host.shared)

    def test_bad(self):
        for arguments, words in (
                (['--host-cpus', 'pinning-3=dedicated:1'], 'no host'),
                (['--host-cpus', 'pinning-1='], 'not lists of CPUs'),
                (['--host-cpus', 'pinning-1=1-2'], 'not lists of CPUs'),
                (['--host-cpus', 'pinning-1=both:1'], 'not lists of CPUs'),
                (['--host-cpus', 'pinning-1=dedicated:'], 'not lists'),
                (['--host-cpus', 'pinning-1=shared:a'], 'not lists'),
                (['--host-cpus', 'pinning-1=shared:0,,'], 'not lists'),
                (['--host-cpus', 'pinning-1=dedicated:0,shared:0'],
                 '0 cannot be both'),
                (['--host-cpus', 'pinning-1=dedicated:999'],
                 'has only the CPUs '),
                (['--virtual-host', '1x2x1', '--host-cpus',
                  'virtual-1=shared:1,dedicated:2'],
                 'has only the CPUs 0-1'),
                (['--host-conf', 'pinning-1=/none'], 'is not a file'),
                (['--host-conf', 'pinning-1'], 'not HOST='),
                (['--nova-conf', '/'], 'is not a file'),
                (['--nova-conf', '/none'], 'is not a file'),
                (['--virtual-host', '2x2'], '2x2x2'),
                (['--virtual-host', '0x1x1'], '2x2x2'),
                (['--hosts', '0'], 'without a compute host'),
                (['--hosts', '-1'], 'without a compute host'),
                (['--hosts', '245'], 'there can be 244 at most'),
                (['--huge-pages', '-1'], '--huge-pages -1'),
                (['--release', '2031.1'], "'2031.1' is not a release"),
                (['--release', '2024.1'], 'this does not bring up. '
                 'Give one of 2025.1, '),
                (['--host-release', 'pinning-1=x'],
                 "--host-release pinning-1: 'x' is not a release"),
                (['--host-release', 'pinning-9=2025.1'], 'no host'),
                (['--release', '2025.1', '--host-release',
                  'pinning-1=2026.1'],
                 '2026.1 is newer than the cloud, which is of 2025.1'),
                (['--release', '2026.2', '--host-release',
                  'pinning-1=2025.1'],
                 '2025.1 is too old for a cloud of 2026.2, which supports '
                 'nova-compute from 2026.1 on'),
                (['--base-port', '22'], '1024 to 65396'),
                (['--base-port', '65397'], '1024 to 65396')):
            error = self.assertRaises(
                errors.MiniCloudError, parse, *arguments)
            self.assertIn(words, str(error))

    def test_state_before_the_command_or_after_it(self):
        with fixtures.EnvironmentVariable('MINICLOUD_STATE', '/third'):
            parser = options.parser()
            for command in (['up'], ['down'], ['status'], ['env'], ['deps'],
                            ['exec', 'pinning-1', 'true']):
                for arguments, state in (
                        (command, '/third'),
                        (['--state', '/first', *command], '/first'),
                        ([command[0], '--state', '/second', *command[1:]],
                         '/second'),
                        (['--state', '/first', command[0], '--state',
                          '/second', *command[1:]], '/second')):
                    self.assertEqual(
                        state, str(parser.parse_args(arguments).state),
                        arguments)

    def test_base_port_from_the_environment(self):
        with fixtures.EnvironmentVariable('MINICLOUD_BASE_PORT', '23000'):
            self.assertEqual(23000, parse().base_port)
            self.assertEqual(24000, parse('--base-port', '24000').base_port)

    def test_default_cpus_are_apart(self):
        for topology in ('', '1x1x1', '1x1x2', '1x4x1', '2x2x2', '2x8x2'):
            dedicated, shared = map(
                cpuset.CpuSet.parse, options.default_cpus(topology))
            self.assertTrue(dedicated)
            self.assertFalse(dedicated & shared)

    def test_frozen(self):
        self.assertRaises(dataclasses.FrozenInstanceError,
                          setattr, parse(), 'huge_pages', 1)
