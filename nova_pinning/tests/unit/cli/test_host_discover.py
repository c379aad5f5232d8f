# SPDX-License-Identifier: Apache-2.0
"""nova-pinning host discover."""

import json

import ddt

from nova_pinning.host import hardware
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

    def test_fabric(self):
        for bus in (0x3b, 0x3c):
            self.machine.pci(f'0000:{bus:02x}:00.0', '030200', '10de', '2330')
        topology = self.write('topo.txt', """\
\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID
GPU0\t X \tNV18\t0-3\t0\t\tN/A
GPU1\tNV18\t X \t0-3\t0\t\tN/A
""")
        partitions = self.write('fmpm.json', json.dumps({'partitionInfo': [{
            'partitionId': 7,
            'gpuInfo': [{'pciBusId': '00000000:3B:00.0'}]}]}))
        done = self.look('--fabric', topology, '--fabric', partitions)
        self.assertEqual(0, done.status)
        self.assertIn('PCIe tree is not told: /sys/bus/pci/devices has no',
                      done.err)
        host = host_loader.load(self.write('host.yaml', done.out))
        gpus = '0000:3b:00.0', '0000:3c:00.0'
        self.assertEqual((hardware.NvLinks(gpus, 18),), host.nvlinks)
        self.assertEqual((hardware.GpuPartition(7, gpus[:1]),),
                         host.gpu_partitions)
        done = self.look('--fabric', self.write('none', 'x'))
        self.assertEqual((2, ''), (done.status, done.out))
        self.assertIn('is no table', done.err)

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
