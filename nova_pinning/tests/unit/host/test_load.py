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


import os
import pathlib
import stat

import fixtures
from oslotest import base as oslotest

from nova_pinning import cpuset
from nova_pinning import errors
from nova_pinning.host import dump
from nova_pinning.host import load
from nova_pinning.tests.unit.host import samples

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
        host = samples.host()
        for name in ('small.txt', 'small.xml'):
            self.assertEqual(
                host, load.load(self.write(name, dump.dump(host))))
            self.assertEqual(host, load.load(self.write(
                name, '\n' + samples.capabilities(host))))

    def test_no_file(self):
        error = self.assertRaises(
            errors.InputError, load.load, self.directory / 'none')
        self.assertIn('cannot be read', str(error))

    def test_directory(self):
        self.write('b.yaml', dump.dump(samples.host(name='one')))
        self.write('a.json', '{"version": 1, "name": "two", "nodes": '
                             '[{"id": 0, "cpus": 0, "memory": "1GiB"}]}')
        self.write('c.xml', samples.capabilities(samples.host()))
        self.write('notes.txt', 'no host')
        (self.directory / 'd.yaml').mkdir()
        os.mkfifo(self.directory / 'e.yaml')
        self.assertEqual(
            ['two', 'one', 'c'],
            [host.name for host in load.load_directory(self.directory)])

    def test_all_errors_of_a_directory(self):
        self.write('a.yaml', 'version: 1')
        self.write('b.yaml', dump.dump(samples.host(name='one')))
        self.write('c.yaml', dump.dump(samples.host(name='one')))
        self.write('d.xml', '<')
        error = self.assertRaises(
            errors.InputErrors, load.load_directory, self.directory)
        self.assertEqual(
            ['a.yaml', 'a.yaml', 'c.yaml', 'd.xml'],
            [os.path.basename(one.where.source) for one in error.errors])
        self.assertIn('b.yaml as well', str(error.errors[2]))

    def test_no_hosts(self):
        for path in (self.directory, self.directory / 'none'):
            error = self.assertRaises(
                errors.InputError, load.load_directory, path)
            self.assertEqual(str(path), error.where.source)


class TestOverride(oslotest.BaseTestCase):

    def test_both_are_replaced(self):
        host = samples.host(nova=samples.settings(
            '1-7', reserved_memory_mib=5))
        self.assertIs(host, load.override(host))
        changed = load.override(host, shared=cpuset.CpuSet([1, 2]))
        self.assertEqual(
            samples.settings(None, '1-2', reserved_memory_mib=5),
            changed.nova)

    def test_wrong_cpus(self):
        host = samples.host()
        error = self.assertRaises(
            errors.InputErrors, load.override, host,
            cpuset.CpuSet([1, 8]), cpuset.CpuSet([1]))
        self.assertEqual(
            ['nova.dedicated_cpus', 'nova.shared_cpus'],
            [one.where.key for one in error.errors])


class TestExamples(oslotest.BaseTestCase):

    def test_every_example_is_good(self):
        hosts = load.load_directory(EXAMPLES)
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
        for host in load.load_directory(EXAMPLES):
            table = [node.distances for node in host.nodes]
            self.assertEqual(table, list(zip(*table)), host.name)
            self.assertEqual({10}, {row[number] for number, row
                                    in enumerate(table)})

    def test_they_may_be_read_by_all(self):
        for path in EXAMPLES.iterdir():
            self.assertTrue(path.stat().st_mode & stat.S_IROTH, path)
