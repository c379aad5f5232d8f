# SPDX-License-Identifier: Apache-2.0


import collections
import copy
import json
import os
from unittest import mock

import ddt
import fixtures
from oslotest import base as oslotest

from benchmarks import bytedance
from nova_pinning import errors
from nova_pinning.fleet import document
from nova_pinning.fleet import problems
from nova_pinning.tests.unit.cli import cli_case
from nova_pinning.tests.unit.fleet import bytedance_data
from nova_pinning.tests.unit.fleet import fleet_samples


def _node(number, free, huge_free, total=8):
    return {'node': number, 'total_cpu': total, 'free_cpu': free,
            'memory_huge_total_mb': 16384.0, 'memory_huge_free_mb': huge_free}


def _guest(number, host, *parts, kind='small', **more):
    return {'instance_id': f'vm_{number}', 'instance_type': kind,
            'host_id': host, 'numa': [
                {'node': node, 'cpu': cpus, 'mem_mb': mem_mb}
                for node, cpus, mem_mb in parts], **more}


#: Two clusters of a host each.
SMALL = {
    'cluster_list': [{
        'cluster_name': 'one',
        'host_info': [{
            'node_id': 'pm_0', 'status': 'ACTIVE',
            'numa': [_node(0, 2, 4096.0), _node(1, 4.0, 12288.0)]}],
        'vm_instance': [
            _guest(0, 'pm_0', (0, 2, 4096.0), allow_migration=False),
            _guest(1, 'pm_0', (0, 4, 4096.0), (1, 4, 4096.0), kind='large')],
    }, {
        'cluster_name': 'two',
        'host_info': [{
            'node_id': 'pm_1', 'status': 'DRAINED',
            'numa': [_node(0, 6, 14336.0)]}],
        'vm_instance': [_guest(2, 'pm_1', (0, 2, 4096.0))],
    }],
    'vm_type_list': [
        {'vm_type': 'small', 'request_cpu': 2, 'request_mem_mb': 4096.0,
         'numa': 1},
        {'vm_type': 'large', 'request_cpu': 8, 'request_mem_mb': 8192.0,
         'numa': 2}],
    'general_requirement': {},
}


@ddt.ddt
class TestSmall(oslotest.BaseTestCase):

    def setUp(self):
        super().setUp()
        self.value = copy.deepcopy(SMALL)
        self.path = os.path.join(
            self.useFixture(fixtures.TempDir()).path, 'clusters.json')

    def _read(self):
        with open(self.path, 'w') as file:
            json.dump(self.value, file, indent=1)
        return bytedance.read(self.path)

    def test_all(self):
        fleet = self._read()
        self.assertEqual(['pm_0', 'pm_1'], [host.name for host in fleet.hosts])
        self.assertEqual([('one',), ('two',)],
                         [host.aggregates for host in fleet.hosts])
        self.assertEqual(['one', 'two'],
                         [aggregate.name for aggregate in fleet.aggregates])
        self.assertEqual(['large', 'small'],
                         sorted(flavor.name for flavor in fleet.flavors))
        self.assertEqual([True, False],
                         [host.is_enabled for host in fleet.hosts])
        self.assertEqual((), problems.find(fleet))
        self.assertEqual(fleet, document.loads(document.dumps(fleet)))

    def test_guests(self):
        small, large, _other = self._read().guests
        self.assertEqual((2, 4096, 'small', False), (
            small.vcpus, small.memory_mib, small.flavor, small.is_movable))
        self.assertEqual((8, 8192, 'large', True), (
            large.vcpus, large.memory_mib, large.flavor, large.is_movable))
        self.assertEqual(((0, 0), (1, 1)), small.fit.cells[0].pins)
        self.assertEqual(
            [(0, ((0, 2), (1, 3), (2, 4), (3, 5))),
             (1, ((4, 8), (5, 9), (6, 10), (7, 11)))],
            [(cell.host_cell, cell.pins) for cell in large.fit.cells])
        self.assertEqual([2048, 2048], [
            cell.page_size_kib for cell in large.fit.cells])

    def test_free(self):
        # As the data says, with what is neither free nor a guest's reserved;
        # a node of which more is free than guests leave has what they leave.
        fleet = self._read()
        hosts = fleet_samples.engine_hosts(fleet)
        self.assertEqual(
            [[(2, 4096), (4, 12288)], [(6, 12288)]],
            [[(cell.free_count, cell.pages[0].free_kib // 1024)
              for cell in host.cells] for host in hosts.values()])
        self.assertEqual([2048, 0, 0], [
            cell.pages[0].reserved for host in fleet.hosts
            for cell in host.cells])
        self.assertIn('2,048 MiB together', fleet.source)
        del self.value['cluster_list'][1]
        self.assertNotIn('MiB together', self._read().source)

    @ddt.data(
        (('cluster_list', 0, 'host_info', 0, 'numa', 1, 'free_cpu'), 3,
         'node 1 of pm_0 has 3 CPUs free, where guests leave 4 of 8'),
        (('cluster_list', 0, 'host_info', 0, 'numa', 1, 'node'), 0,
         'node 0 of pm_0 has 4 CPUs free'),
        (('cluster_list', 0, 'vm_instance', 1, 'numa', 1, 'node'), 0,
         'vm_1 is not spread evenly over nodes'),
        (('cluster_list', 0, 'vm_instance', 1, 'numa', 1, 'cpu'), 2,
         'vm_1 is not spread evenly over nodes'),
        (('cluster_list', 0, 'vm_instance', 0, 'numa', 0, 'cpu'), 9,
         'vm_0 has no room in its nodes'),
        (('cluster_list', 0, 'vm_instance', 0, 'numa', 0, 'mem_mb'), 20000,
         'vm_0 has no room in its nodes'),
        (('cluster_list', 1, 'vm_instance', 0, 'host_id'), 'pm_9',
         'vm_2 is on no host'),
        (('cluster_list', 0, 'vm_instance', 0, 'numa', 0, 'cpu'), 2.5,
         '2.5 is not a number of vCPUs'),
        (('cluster_list', 0, 'vm_instance', 0, 'numa', 0, 'mem_mb'), -1,
         '-1 is not a number, 0 or more'),
        (('cluster_list', 0, 'host_info', 0, 'numa', 1, 'total_cpu'), 10 ** 9,
         'is not a number of CPUs'),
        (('cluster_list', 0, 'host_info', 0, 'node_id'), 'a\x1b',
         'is not a name in one line'),
        (('cluster_list',), [], 'cluster_list: is empty'),
        (('cluster_list',), None, 'cluster_list is missing'),
        (('vm_type_list', 0, 'numa'), 0, 'a number of NUMA nodes'),
    )
    @ddt.unpack
    def test_errors(self, path, value, message):
        at = self.value
        for part in path[:-1]:
            at = at[part]
        if value is None:
            del at[path[-1]]
        else:
            at[path[-1]] = value
        error = self.assertRaises(errors.InputError, self._read)
        self.assertIn(message, str(error))
        self.assertIn('clusters.json:', str(error))

    def test_guest_on_no_node(self):
        cluster = self.value['cluster_list'][0]
        cluster['vm_instance'].append(_guest(9, 'pm_0', (5, 2, 0.0)))
        error = self.assertRaises(errors.InputError, self._read)
        self.assertIn('does not agree with itself', str(error))

    def test_twice(self):
        """Of what there is two of, no snapshot can be written."""
        for section, name in (('host_info', 'pm_0'), ('vm_instance', 'vm_2')):
            self.value = copy.deepcopy(SMALL)
            cluster = self.value['cluster_list'][section == 'vm_instance']
            if section == 'vm_instance':
                cluster['host_info'][0]['numa'][0]['free_cpu'] = 4
            cluster[section] *= 2
            error = self.assertRaises(
                errors.InputError, document.dumps, self._read())
            self.assertIn('clusters.json:', str(error))
            self.assertIn(f'{name} appears here a second time', str(error))

    def test_cut_off(self):
        with open(self.path, 'w') as file:
            file.write(json.dumps(self.value)[:-100])
        error = self.assertRaises(
            errors.InputError, bytedance.read, self.path)
        self.assertIn('is not JSON', str(error))


class TestRealData(oslotest.BaseTestCase):

    def setUp(self):
        super().setUp()
        self.path = bytedance_data.path(self)

    def test_figures(self):
        # Further guests of 16 vCPUs in one node, and what host totals would
        # promise.
        fleet = bytedance.read(self.path)
        engines = fleet_samples.engine_hosts(fleet)
        self.assertEqual((), problems.find(fleet))
        for cluster, hosts, truth, totals in (
                ('cluster1', 236, 0, 16), ('cluster2', 43, 2, 26)):
            found = [engines[host.name] for host in fleet.hosts
                     if cluster in host.aggregates]
            self.assertEqual(hosts, len(found))
            self.assertEqual((truth, totals), (
                sum(cell.free_count // 16 for host in found
                    for cell in host.cells),
                sum(sum(cell.free_count for cell in host.cells) // 16
                    for host in found)))

    def test_agrees_with_the_data(self):
        fleet = bytedance.read(self.path)
        with open(self.path) as file:
            value = json.load(file)
        hosts = fleet_samples.engine_hosts(fleet)
        larger = 0
        for cluster in value['cluster_list']:
            for host in cluster['host_info']:
                for cell, node in zip(hosts[host['node_id']].cells,
                                      host['numa']):
                    self.assertEqual(node['free_cpu'], cell.free_count)
                    free = cell.pages[0].free_kib / 1024
                    self.assertLessEqual(free, node['memory_huge_free_mb'])
                    larger += node['memory_huge_free_mb'] - free
        self.assertIn(f'{larger:,.0f} MiB together', fleet.source)
        counted = collections.Counter(
            guest.flavor for guest in fleet.guests)
        self.assertEqual(2089, counted.total())
        self.assertEqual(
            counted, collections.Counter(
                guest['instance_type'] for cluster in value['cluster_list']
                for guest in cluster['vm_instance']))


class TestProgram(cli_case.TestCase):

    _DOC = cli_case.ETC.parents[1] / 'doc' / 'source' / 'admin'

    def _import(self, *more, value=SMALL):
        path = self.write('clusters.json', json.dumps(value))
        return self.run_command(path, *more, program=bytedance.main)

    def test_import(self):
        path = str(self.dir / 'one.json')
        done = self._import('-o', path)
        self.assertEqual((0, '', ''), (done.status, done.out, done.err))
        self.assertEqual(2, len(document.read(path).hosts))
        done = self._import()
        self.assertEqual(2, len(document.loads(done.out).hosts))

    def test_documented(self):
        shown = self._DOC / 'fleet-show.inc'
        if not shown.is_file():
            self.skipTest('not run from a checkout')
        path = str(self.dir / 'one.json')
        done = self.run_command(
            str(bytedance_data.path(self)), '-o', path,
            program=bytedance.main)
        self.assertEqual((0, ''), (done.status, done.err))
        self.useFixture(fixtures.EnvironmentVariable('COLUMNS', '78'))
        done = self.run_command('fleet', 'show', path)
        self.assertEqual(shown.read_text(), done.out)

    def test_old_file_stays(self):
        path = self.write('one.json', 'old')
        done = self._import('-o', path, value={'cluster_list': []})
        self.assertEqual((2, ''), (done.status, done.out))
        self.assertIn('cluster_list: is empty', done.err)
        with open(path) as file:
            self.assertEqual('old', file.read())

    def test_no_room(self):
        path = self.write('one.json', 'old')
        with mock.patch('os.fsync', side_effect=OSError(28, 'No space')):
            done = self._import('-o', path)
        self.assertEqual(2, done.status)
        self.assertIn('No space', done.err)
        self.assertEqual(['clusters.json', 'one.json'],
                         sorted(os.listdir(self.dir)))
        with open(path) as file:
            self.assertEqual('old', file.read())
