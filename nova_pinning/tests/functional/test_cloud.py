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

"""The harness itself: hosts of any shape, each with its own nova.conf."""

from xml.etree import ElementTree

from oslotest import base as oslotest

from nova_pinning.demo import cloud
from nova_pinning.demo import hosts
from nova_pinning.demo import story
from nova_pinning.tests.functional import base


class TestHosts(base.TestCase):

    def test_shape(self):
        self.nova.start_host('host', hosts.HostShape(
            sockets=2, cells_per_socket=2, cores_per_cell=2, threads=2,
            numbering=hosts.Numbering.ADJACENT,
            memory_mib=32 * base.GIB, dedicated='2-13', shared='0-1',
            huge_pages={2048: 1024}, reserved_huge_pages=(
                'node:1,size:2048,count:64',),
            offline=frozenset({15}), reserved_memory_mib=512))

        cells = self.nova.host_topology('host').cells

        self.assertEqual([0, 1, 2, 3], [cell.id for cell in cells])
        self.assertEqual([0, 0, 1, 1], [cell.socket for cell in cells])
        self.assertEqual([{0, 1}, set(), set(), set()],
                         [cell.cpuset for cell in cells])
        self.assertEqual(
            [{2, 3}, {4, 5, 6, 7}, {8, 9, 10, 11}, {12, 13}],
            [cell.pcpuset for cell in cells])
        self.assertIn({4, 5}, cells[1].siblings)
        for cell in cells:
            self.assertEqual(8 * base.GIB, cell.memory)
            pages = {page.size_kb: page for page in cell.mempages}
            self.assertEqual(1024, pages[2048].total)
            self.assertEqual((8 - 2) * base.GIB * 1024 // 4, pages[4].total)
            self.assertEqual(64 if cell.id == 1 else 0, pages[2048].reserved)
        inventories = self.nova.inventories('host')
        self.assertEqual(12, inventories['PCPU']['total'])
        self.assertEqual(2, inventories['VCPU']['total'])
        self.assertEqual(32 * base.GIB, inventories['MEMORY_MB']['total'])
        self.assertEqual(512, inventories['MEMORY_MB']['reserved'])

    def test_split_siblings(self):
        self.nova.start_host('host', hosts.enterprise_host())

        first, second = self.nova.host_topology('host').cells

        self.assertEqual(set(range(2, 20)) | set(range(42, 60)),
                         first.pcpuset)
        self.assertEqual(set(range(20, 40)) | set(range(60, 80)),
                         second.pcpuset)
        self.assertEqual(
            sorted([cpu, cpu + 40] for cpu in range(2, 20)),
            sorted(sorted(core) for core in first.siblings))

    def test_no_host_sees_the_options_of_another(self):
        shapes = {
            'dedicated': base.small_host(),
            'shared': base.small_host(
                dedicated=None, shared='0-7', cpu_allocation_ratio=3.0),
            'both': base.small_host(
                dedicated='0-1,4-5', shared='2-3,6-7',
                cpu_allocation_ratio=2.0),
        }
        for name, shape in shapes.items():
            self.nova.start_host(name, shape)

        def found():
            return {name: (self.nova.inventories(name),
                           [(cell.cpuset, cell.pcpuset)
                            for cell in self.nova.host_topology(name).cells])
                    for name in shapes}

        at_first = found()
        self.assertEqual(
            [(set(), set(range(8)))], at_first['dedicated'][1])
        self.assertEqual(
            [(set(range(8)), set())], at_first['shared'][1])
        self.assertEqual(
            [({2, 3, 6, 7}, {0, 1, 4, 5})], at_first['both'][1])
        self.assertNotIn('VCPU', at_first['dedicated'][0])
        self.assertNotIn('PCPU', at_first['shared'][0])
        self.assertEqual(
            [3.0, 2.0], [at_first[name][0]['VCPU']['allocation_ratio']
                         for name in ('shared', 'both')])

        self.nova.stage._run_periodics(raise_on_error=True)
        self.assertEqual(at_first, found())

        for name in shapes:
            self.nova.restart_host(name)
        self.assertEqual(at_first, found())

        # The floating vCPUs of a guest stay on the shared CPUs of its host.
        self.nova.create_aggregate('all', list(shapes),
                                   {'pinning:class': 'shared'})
        flavor = self.nova.create_flavor('small', 1, base.GIB)
        for name, cpus in (('shared', '0-7'), ('both', '2-3,6-7')):
            server = self.nova.boot(f'on-{name}', flavor, host=name)
            self.assert_active([server], host=name)
            domain = ElementTree.fromstring(self.nova.guest_xml(server))
            self.assertEqual(cpus, domain.find('vcpu').get('cpuset'))


class TestNovaAlone(oslotest.BaseTestCase):

    def test_without_our_filters(self):
        nova = self.useFixture(cloud.Cloud(filters=cloud.NOVA_FILTERS))
        nova.start_host('host', base.small_host())
        flavor = nova.create_flavor('enterprise', 8, base.GIB,
                                    story.ENTERPRISE_SPECS)

        self.assertEqual('ACTIVE', nova.boot('first', flavor).status)
        self.assertEqual('ERROR', nova.boot('second', flavor).status)

        self.assertEqual((), nova.explanations)
        self.assertIn('nova.scheduler.manager', nova.nova_log)
