# SPDX-License-Identifier: Apache-2.0
"""nova-pinning host discover."""

import json

import ddt

from nova_pinning.host import host_loader
from nova_pinning.tests.unit.cli import cli_case
from nova_pinning.tests.unit.host.discover import sample_machines
from nova_pinning.tests.unit.host import unreadable


@ddt.ddt
class TestDiscoverHost(cli_case.TestCase):

    def setUp(self):
        super().setUp()
        self.machine = self.useFixture(sample_machines.Machine()).small()
        self.machine.write('etc/hostname', 'compute-1')

    def discover(self, *more):
        return self.run_command('host', 'discover', *more)

    def look(self, *more):
        return self.discover('--root', str(self.machine.root), *more)

    def test_output(self):
        done = self.look()
        self.assertEqual((0, ''), (done.status, done.err))
        path = self.dir / 'host.yaml'
        written = self.look('-o', str(path))
        self.assertEqual((0, '', ''),
                         (written.status, written.out, written.err))
        self.assertEqual(done.out, path.read_text())
        host = host_loader.load(path)
        self.assertEqual(('compute-1', 4), (host.name, len(host.cpus)))

    def test_json(self):
        path = self.dir / 'host.json'
        done = self.look('-f', 'json', '--output', str(path))
        self.assertEqual(0, done.status)
        self.assertEqual('compute-1', json.loads(path.read_text())['name'])
        plain = self.write('host.yaml', self.look().out)
        self.assertEqual(host_loader.load(plain), host_loader.load(path))

    def test_this_machine(self):
        done = self.discover('--name', 'this')
        self.assertEqual(0, done.status)
        host = host_loader.load(self.write('host.yaml', done.out))
        self.assertEqual('this', host.name)
        self.assertTrue(host.cpus)

    @ddt.data(['--name', ''], ['--name', 'a b'], ['--name', '-a'],
              ['--name', 'a\n'], ['--format', 'xml'])
    def test_bad_options(self, options):
        done = self.discover(*options)
        self.assertEqual((2, ''), (done.status, done.out))

    def test_no_machine(self):
        done = self.discover('--root', str(self.dir))
        self.assertEqual((2, ''), (done.status, done.out))
        self.assertIn(f'error: {self.dir}: is not a machine', done.err)

    def test_what_could_not_be_read_is_said(self):
        for number in range(9):
            self.machine.write(
                f'{sample_machines.CPU}/vulnerabilities/v{number}',
                'Vulnerable')
        self.useFixture(unreadable.files(
            lambda path: '/vulnerabilities/' in path))
        done = self.look()
        self.assertEqual(0, done.status)
        lines = done.err.splitlines()
        self.assertEqual(6, len(lines))
        self.assertEqual(
            'note: /sys/devices/system/cpu/vulnerabilities/v0 could not be '
            'read: permission denied', lines[0])
        self.assertEqual('note: 4 other files could not be read either',
                         lines[-1])

    def test_cpus_without_a_node_are_said(self):
        self.machine.node(0, '0-2')
        done = self.look()
        self.assertEqual(0, done.status)
        self.assertIn('note: CPUs 3 are in no NUMA node', done.err)
        host = host_loader.load(self.write('host.yaml', done.out))
        self.assertEqual(4, len(host.cpus))
