# SPDX-License-Identifier: Apache-2.0


import os
import pathlib
import stat

import fixtures
from oslotest import base as oslotest

from nova_pinning import errors
from nova_pinning.host import host_loader
from nova_pinning.host import hostfile_writer
from nova_pinning.tests.unit.host import host_samples

EXAMPLES = pathlib.Path(__file__).parents[4] / 'etc/nova-pinning/hosts'


class TestLoad(oslotest.BaseTestCase):

    def setUp(self):
        super().setUp()
        self.directory = pathlib.Path(
            self.useFixture(fixtures.TempDir()).path)

    def write(self, name, text):
        path = self.directory / name
        path.write_text(text)
        return path

    def test_by_content(self):
        host = host_samples.host()
        for name in ('small.txt', 'small.xml'):
            self.assertEqual(
                host,
                host_loader.load(self.write(name, hostfile_writer.dump(host))))

    def test_xml(self):
        error = self.assertRaises(
            errors.InputError, host_loader.load,
            self.write('a.xml', '\n' + host_samples.capabilities(
                host_samples.host())))
        self.assertIn('host discover', error.advice)

    def test_no_file(self):
        error = self.assertRaises(
            errors.InputError, host_loader.load, self.directory / 'none')
        self.assertIn('cannot be read', str(error))

    def test_directory(self):
        self.write('b.yaml',
                   hostfile_writer.dump(host_samples.host(name='one')))
        self.write('a.json', '{"version": 1, "name": "two", "nodes": '
                             '[{"id": 0, "cpus": 0, "memory": "1GiB"}]}')
        self.write('notes.txt', 'no host')
        (self.directory / 'd.yaml').mkdir()
        os.mkfifo(self.directory / 'e.yaml')
        self.assertEqual(
            ['two', 'one'],
            [host.name for host in host_loader.load_directory(self.directory)])

    def test_all_errors_of_a_directory(self):
        self.write('a.yaml', 'version: 1')
        self.write('b.yaml',
                   hostfile_writer.dump(host_samples.host(name='one')))
        self.write('c.yaml',
                   hostfile_writer.dump(host_samples.host(name='one')))
        self.write('d.xml', '<')
        error = self.assertRaises(
            errors.InputErrors, host_loader.load_directory, self.directory)
        self.assertEqual(
            ['a.yaml', 'a.yaml', 'c.yaml', 'd.xml'],
            [os.path.basename(one.where.source) for one in error.errors])
        self.assertIn('b.yaml as well', str(error.errors[2]))

    def test_no_hosts(self):
        for path in (self.directory, self.directory / 'none'):
            error = self.assertRaises(
                errors.InputError, host_loader.load_directory, path)
            self.assertEqual(str(path), error.where.source)


class TestExamples(oslotest.BaseTestCase):

    def test_every_example_is_good(self):
        hosts = host_loader.load_directory(EXAMPLES)
        self.assertEqual(
            {'epyc-256-l3-numa', 'epyc-256-nps1', 'epyc-256-nps4',
             'xeon-80-dedicated', 'xeon-80-shared'},
            {host.name for host in hosts})
        for host in hosts:
            self.assertEqual(
                host.name, pathlib.Path(host.where.source).stem)
            self.assertEqual(
                int(host.name.split('-')[1]), len(host.cpus))
            # The trait for the size of the caches says what the file does.
            sizes = {len(domain) for node in host.nodes
                     for domain in node.l3_domains}
            self.assertEqual(
                {f'CUSTOM_PINNING_L3_CPUS_{size}' for size in sizes},
                {trait for trait in host.traits if '_L3_' in trait})

    def test_distances_are_symmetric(self):
        for host in host_loader.load_directory(EXAMPLES):
            table = [node.distances for node in host.nodes]
            self.assertEqual(table, list(zip(*table)), host.name)
            self.assertEqual({10}, {row[number] for number, row
                                    in enumerate(table)})

    def test_they_may_be_read_by_all(self):
        for path in EXAMPLES.iterdir():
            self.assertTrue(path.stat().st_mode & stat.S_IROTH, path)
