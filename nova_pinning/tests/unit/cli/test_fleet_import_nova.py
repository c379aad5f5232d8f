# SPDX-License-Identifier: Apache-2.0

from nova_pinning.fleet import document
from nova_pinning.tests import novadatabase
from nova_pinning.tests.unit.cli import cli_case


class ImportNovaTestCase(cli_case.TestCase):

    def setUp(self):
        super().setUp()
        self.nova = novadatabase.NovaDatabase(self.dir, ('north', 'south'))
        self.addCleanup(self.nova.close)
        self.nova.create_tables()
        self.nova.add_mappings()
        self.nova.add_host('cmp-1', numa_topology=novadatabase.topology_json(
            is_dedicated=False))
        self.nova.add_guest('a', 'cmp-1')
        self.output = self.dir / 'fleet.json'

    def import_(self, *arguments):
        return self.run_command(
            'fleet', 'import', 'nova', '--config-file', str(self.nova.conf),
            '--output', str(self.output), *arguments)

    def test_import(self):
        done = self.import_()
        self.assertEqual((0, '', ''), (done.status, done.out, done.err))
        fleet = document.read(self.output)
        self.assertEqual(['cmp-1'], [host.name for host in fleet.hosts])
        self.assertEqual(['a'], [guest.name for guest in fleet.guests])

    def test_a_directory_for_nova_conf(self):
        """All files of it that end in .conf count."""
        directory = self.dir / 'nova.conf.d'
        directory.mkdir()
        self.nova.conf.rename(directory / 'a.conf')
        done = self.run_command('fleet', 'import', 'nova', '--config-file',
                                str(directory), '--output', str(self.output))
        self.assertEqual((0, '', ''), (done.status, done.out, done.err))
        self.assertEqual(1, len(document.read(self.output).hosts))

    def test_warnings(self):
        for number in range(30):
            self.nova.add_host(f'odd-{number}', numa_topology='{')
        done = self.import_()
        self.assertEqual(0, done.status)
        lines = [line for line in done.err.splitlines()
                 if 'cannot be read' in line or 'more like these' in line]
        self.assertEqual(21, len(lines))
        self.assertTrue(lines[0].startswith('warning: host odd-0: '))
        self.assertEqual('warning: and 10 more like these', lines[-1])

    def test_row_that_no_snapshot_can_hold(self):
        self.nova.add_guest('b', 'cmp-1', extra={
            'numa_topology': novadatabase.guest_json('b', {-1: [0]})})
        done = self.import_()
        self.assertEqual(0, done.status)
        uuid = novadatabase.uuid('b')
        self.assertIn(f'warning: server {uuid} on cmp-1: what nova has of its '
                      'topology makes no sense', done.err)
        self.assertEqual(2, len(document.read(self.output).guests))

    def test_host_files(self):
        directory = self.dir / 'hosts'
        directory.mkdir()
        for name in ('cmp-1', 'other'):
            (directory / f'{name}.yaml').write_text(
                f'version: 1\nname: {name}\nnodes:\n'
                '- {id: 0, cpus: "0-3", memory: 1GiB, l3_domains: ["0-3"]}\n')
        done = self.import_('--host-files', str(directory))
        self.assertEqual(
            'warning: there is a file for host other, which the cloud does '
            'not have\n', done.err)
        host, = document.read(self.output).hosts
        self.assertEqual(1, len(host.l3_domains))

    def test_nothing_half_written(self):
        self.output.write_text('as before')
        (self.dir / 'south.sqlite').unlink()
        (self.dir / 'south.sqlite').mkdir()
        done = self.import_()
        self.assertEqual(2, done.status)
        self.assertIn('error: cell south: it cannot be read: ', done.err)
        self.assertEqual('as before', self.output.read_text())
        done = self.import_('--skip-down-cells')
        self.assertEqual(0, done.status)
        self.assertIn('warning: cell south: ', done.err)
        self.assertEqual(1, len(document.read(self.output).hosts))

    def test_output_that_cannot_be(self):
        self.output = self.dir / 'nowhere' / 'fleet.json'
        self.assertEqual(2, self.import_().status)

    def test_no_conf(self):
        done = self.run_command(
            'fleet', 'import', 'nova', '--config-file', 'nowhere.conf',
            '--output', str(self.output))
        self.assertEqual(2, done.status)
        self.assertIn('nowhere.conf', done.err)

    def test_no_placement(self):
        done = self.import_('--placement')
        self.assertEqual(2, done.status)
        self.assertIn('[placement]', done.err)
