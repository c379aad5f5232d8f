# SPDX-License-Identifier: Apache-2.0


"""nova-pinning capacity."""

import csv
import dataclasses
import itertools
import json
import pathlib
import re

import ddt
import fixtures
from prometheus_client import parser

from benchmarks import bytedance
from nova_pinning.capacity import count
from nova_pinning.cli import capacity_command
from nova_pinning.fleet import document
from nova_pinning.fleet import generate
from nova_pinning.fleet import snapshot
from nova_pinning.model import hostclass
from nova_pinning.presentation import capacity_report
from nova_pinning.tests.unit.capacity import test_bounds
from nova_pinning.tests.unit.cli import cli_case
from nova_pinning.tests.unit.fleet import bytedance_data

_PAGE = (pathlib.Path(__file__).parents[4] / 'doc' / 'source' / 'admin'
         / 'capacity.rst')
_REQUIRE = ('name=whole vcpus=8 ram=16GiB hw:cpu_policy=dedicated '
            'hw:cpu_thread_policy=require')


@ddt.ddt
class TestShowCapacity(cli_case.TestCase):

    def setUp(self):
        super().setUp()
        self.fleet = generate.generate_fleet(
            12, 'two-socket-80', 5, filled=0.9,
            shared=0.25, churn=1.0)
        self.path = str(self.dir / 'fleet.json')

    def _run(self, *argv, fleet=None):
        document.write(self.path, fleet or self.fleet)
        return self.run_command('capacity', self.path, *argv)

    def _json(self, *argv, **values):
        done = self._run('-f', 'json', *argv, **values)
        self.assertEqual((0, ''), (done.status, done.err))
        return json.loads(done.out)

    def test_table(self):
        done = self._run('--mix', '--per-class', '--per-host')
        self.assertEqual((0, ''), (done.status, done.err))
        for text in ('What fits on 12 hosts with ', 'Class dedicated: 9 hosts',
                     'Class shared: 3 hosts', 'As a mix: ', '\nHosts\n',
                     'Free, but not usable by any of these flavors'):
            self.assertIn(text, done.out)
        for host in self.fleet.hosts:
            self.assertIn(host.name, done.out)
        lines = done.out.splitlines()
        self.assertEqual([line.rstrip() for line in lines], lines)
        self.assertLessEqual(max(map(len, lines)), 80)

    def test_mix_before_the_fleet(self):
        document.write(self.path, self.fleet)
        expected = self._json('--mix')['mixes']
        for argv in (('--mix', self.path), ('--mix', '4:3,8:1', self.path)):
            done = self.run_command('capacity', '-f', 'json', *argv)
            self.assertEqual((0, ''), (done.status, done.err))
            found = json.loads(done.out)['mixes']
            self.assertEqual(len(argv) == 2, expected == found)
        done = self.run_command('capacity', '--mix', '4:3')
        self.assertEqual((2, 'error: FLEET: is missin'), (
            done.status, done.err.partition('\n')[0][:23]))

    def test_bounds(self):
        """Where Placement alone tells, each figure says so."""
        fleet = dataclasses.replace(self.fleet, hosts=tuple(
            test_bounds.opaque(host) for host in self.fleet.hosts))
        done = self._run('--per-host', fleet=fleet)
        self.assertEqual(1, done.status)
        self.assertIn('F107', done.err)
        self.assertRegex(done.out, r'dedicated-4 .* at most \d+')
        self.assertIn('At most, since not all is known', done.out)
        self.assertIn('it has no host file', done.out)
        document.write(self.path, fleet)
        done = self.run_command('capacity', self.path, '-f', 'json')
        found = json.loads(done.out)
        self.assertEqual(
            [{'kind': 'cells', 'hosts': 12,
              'example': f'{fleet.hosts[0].name}: it has no host file'}],
            found['gaps'])
        exact = {one['name']: one for one in self._json()['flavors']}
        for one in found['flavors']:
            known = exact[one['name']]
            if one['class'] == 'shared':
                self.assertEqual(known, one)
            else:
                self.assertGreaterEqual(one['fits'], known['most'])
                self.assertEqual(bool(one['fits']), one['is_bound'])

    def test_filters(self):
        """Classes are kept apart only where the filter is enabled."""
        shared = dataclasses.replace(self.fleet, hosts=tuple(
            dataclasses.replace(host, host_class=hostclass.HostClass.SHARED)
            for host in self.fleet.hosts))

        def fits(*argv, fleet=shared):
            found, = self._json('--flavor', 'dedicated-4', *argv,
                                fleet=fleet)['flavors']
            return found['fits']

        def conf(filters):
            return '--config-file', self.write(
                f'{filters}.conf',
                f'[filter_scheduler]\nenabled_filters = {filters}\n')

        self.assertEqual(0, fits())
        self.assertEqual(0, fits(*conf(
            'ComputeFilter,HostClassFilter,PinnedTopologyFilter')))
        self.assertTrue(fits(*conf('ComputeFilter,NUMATopologyFilter')))
        self.assertTrue(fits(fleet=dataclasses.replace(
            shared, enabled_filters=('NUMATopologyFilter',))))
        for argv, message in (
                (conf('Nonsense'), 'neither PinnedTopologyFilter nor'),
                (('--config-file', 'none.conf'), 'none.conf')):
            done = self._run(*argv)
            self.assertEqual(2, done.status)
            self.assertIn(message, done.err)

    def test_sums_agree(self):
        """Hosts sum up to classes, and classes to all."""
        found = self._json('--per-host', '--flavor', 'dedicated-4',
                           '--flavor', 'shared-2', '--flavor', _REQUIRE)
        self.assertEqual(1, found['version'])
        for place, size in enumerate(found['flavors']):
            self.assertEqual(size['by_host_totals'] - size['fits'],
                             sum(size['missing'].values()))
            for parts in (found['by_class'].values(), found['by_host']):
                for key in ('fits', 'most', 'by_host_totals'):
                    self.assertEqual(size[key], sum(
                        part['flavors'][place][key] for part in parts))
        for key in ('free_cpus', 'orphan_threads'):
            for parts in (found['by_class'].values(), found['by_host']):
                self.assertEqual(found['stranded'][key], sum(
                    part['stranded'][key] for part in parts))
        self.assertNotIn('by_host', self._json())

    @ddt.data((), ('--per-class',), ('--per-host',))
    def test_csv(self, options):
        done = self._run('-f', 'csv', *options)
        rows = list(csv.DictReader(done.out.splitlines()))
        found = self._json()
        if not options:
            # A row a flavor, as in the table.
            self.assertEqual([size['name'] for size in found['flavors']],
                             [row['flavor'] for row in rows])
        for size in found['flavors']:
            for column, key in (('fits', 'fits'),
                                ('by_host_totals', 'by_host_totals')):
                self.assertEqual(size[key], sum(
                    int(row[column]) for row in rows
                    if row['flavor'] == size['name']))

    def test_prometheus(self):
        done = self._run('-f', 'prometheus')
        samples = [sample for family
                   in parser.text_string_to_metric_families(done.out)
                   for sample in family.samples]
        for size in self._json()['flavors']:
            self.assertEqual(size['fits'], sum(
                sample.value for sample in samples
                if sample.name == 'nova_pinning_capacity_guests'
                and sample.labels['flavor'] == size['name']))
        stranded = {
            (sample.labels['class'], sample.labels['cause'])
            for sample in samples
            if sample.name == 'nova_pinning_capacity_stranded_cpus'}
        self.assertEqual(set(itertools.product(
            ('dedicated', 'shared', 'unknown'), count.CapacityCause)),
                         stranded)
        self.assertEqual(
            {'dedicated', 'shared', 'unknown'},
            {sample.labels['class'] for sample in samples if sample.name
             == 'nova_pinning_capacity_stranded_memory_bytes'})

    @ddt.data(('cells', 'CPUs'), ('devices', 'devices'))
    @ddt.unpack
    def test_what_too_few_are_left_of(self, cause, what):
        """The free ones that it is said of may be CPUs or devices."""
        self.assertIn(f' {what} are left', capacity_command._of_free(
            {count.CapacityCause(cause): 8}, 9))

    def test_flavors_without_a_name(self):
        """None of them is lost."""
        done = self._run('-f', 'prometheus', *[
            word for vcpus in (2, 4, 8) for word in (
                '--flavor',
                f'vcpus={vcpus} ram=4GiB hw:cpu_policy=dedicated')])
        names = {sample.labels['flavor'] for family
                 in parser.text_string_to_metric_families(done.out)
                 for sample in family.samples
                 if sample.name == 'nova_pinning_capacity_guests'}
        self.assertEqual({f'{vcpus} vCPUs x 4 GiB dedicated'
                          for vcpus in (2, 4, 8)}, names)

    def test_mix(self):
        """Sizes stand for the flavor that most guests of the size have."""
        found, = self._json('--mix', '4:3,dedicated-8:1')['mixes']
        self.assertEqual(
            {'dedicated-4': 3, 'dedicated-8': 1},
            {one['name']: one['weight'] for one in found['flavors']})
        self.assertTrue(found['exact'])
        self.assertEqual(found['bound'], found['fits'])

    def test_flavors_that_are_in_no_mix(self):
        found = self._json(
            '--mix', 'whole:1,two:1,large:1', '--flavor', _REQUIRE,
            '--flavor', 'name=two vcpus=4 ram=4GiB hw:numa_nodes=2',
            '--flavor', 'name=large vcpus=38 ram=1GiB '
            'hw:cpu_policy=dedicated')
        self.assertEqual({'large', 'two'}, set(found['left_out_of_mixes']))

    @ddt.data(('8:x', 'is not a size'), ('8:0', 'has no weight'),
              ('7:1', 'is called 7'), ('none:1', 'is called none'),
              ('4:1,dedicated-4:1', 'in it twice'))
    @ddt.unpack
    def test_bad_mix(self, mix, text):
        done = self._run('--mix', mix)
        self.assertEqual((2, ''), (done.status, done.out))
        self.assertIn(text, done.err)

    def test_mix_of_a_fleet_without_guests(self):
        done = self._run('--mix', fleet=dataclasses.replace(
            self.fleet, guests=()))
        self.assertEqual(2, done.status)
        self.assertIn('has no guests of these flavors', done.err)

    def test_no_hosts(self):
        done = self._run(fleet=snapshot.Fleet(hosts=()))
        self.assertEqual(2, done.status)
        self.assertIn(': has no hosts', done.err)

    def test_begins_with_a_line(self):
        self.assertRegex(self._run().out, '^What fits')

    def test_narrow(self):
        self.useFixture(fixtures.EnvironmentVariable('COLUMNS', '40'))
        done = self._run()
        self.assertNotIn('█', done.out)
        self.assertIn('fits: ', done.out)

    def test_flavors_that_nova_refuses(self):
        bad = dataclasses.replace(
            self.fleet.flavors[0], name='bad',
            extra_specs={'hw:cpu_policy': 'odd'})
        fleet = dataclasses.replace(
            self.fleet, flavors=(bad, *self.fleet.flavors))
        done = self._run(fleet=fleet)
        self.assertEqual(0, done.status, done.err)
        self.assertIn('warning: left out: ', done.err)
        self.assertIn('flavor bad: ', done.err)
        self.assertNotIn('bad', done.out)
        self.assertIn('dedicated-4', done.out)
        done = self._run('--flavor', 'bad', fleet=fleet)
        self.assertEqual((2, ''), (done.status, done.out))
        done = self._run(fleet=dataclasses.replace(fleet, flavors=(bad,)))
        self.assertEqual((2, ''), (done.status, done.out))
        self.assertIn('none of its flavors', done.err)

    def test_alias_that_nobody_defined(self):
        flavor = ("vcpus=2 ram=1GiB hw:cpu_policy=dedicated "
                  'pci_passthrough:alias=gpu:1')
        done = self._run('--flavor', flavor)
        self.assertEqual((2, ''), (done.status, done.out))
        self.assertIn('alias = {"name": "gpu", "vendor_id"', done.err)
        self.assertNotIn('flavor flavor', done.err)
        self.assertEqual(0, self._run(
            '--flavor', flavor, '--config-file', self.write(
                'nova.conf', '[pci]\nalias = {"name": "gpu", "vendor_id": '
                '"10de", "product_id": "20b5"}\n')).status)

    def test_names_that_a_spreadsheet_would_run(self):
        flavor = dataclasses.replace(self.fleet.flavors[0], name='=1+1')
        done = self._run('-f', 'csv', fleet=dataclasses.replace(
            self.fleet, flavors=(flavor,)))
        self.assertIn("\n'=1+1,", done.out)

    def test_all_causes_have_words(self):
        self.assertEqual(set(count.CapacityCause),
                         set(capacity_report.CAUSES))


class TestByteDance(cli_case.TestCase):
    """What a fleet of real hosts has room for."""

    def test_table(self):
        data = json.loads(bytedance_data.path(self).read_text())
        for cluster, hosts, fits, promised in (
                (0, 236, 0, 16), (1, 43, 2, 26)):
            path = self.write('clusters.json', json.dumps({
                **data, 'cluster_list': [data['cluster_list'][cluster]]}))
            fleet = str(self.dir / 'fleet.json')
            done = self.run_command(path, '-o', fleet, program=bytedance.main)
            self.assertEqual(0, done.status, done.err)
            done = self.run_command('capacity', fleet)
            self.assertIn(f'What fits on {hosts} hosts', done.out)
            row = next(line.split() for line in done.out.splitlines()
                       if line.split()[1:2] == ['16'])
            self.assertEqual(str(fits), row[4])
            self.assertEqual(str(promised), row[6])


class TestDocumentation(cli_case.TestCase):

    def test_what_the_documentation_shows(self):
        """If the output is as it is to be, take it over."""
        path = str(self.dir / 'fleet.json.zst')
        shown = re.findall(
            r'(?m)^   \$ nova-pinning ((?:.*\\\n)*.*)\n'
            r'((?:   (?!\$ ).*\n|\n(?=   (?!\$)|\n))*)', _PAGE.read_text())
        compared = 0
        for line, expected in shown:
            argv = [path if word == 'fleet.json.zst' else word
                    for word in line.replace('\\\n', '').split()]
            done = self.run_command(*argv)
            self.assertEqual(0, done.status, done.err)
            self.assertEqual(
                [text[3:] for text in expected.strip('\n').splitlines()],
                done.out.strip('\n').splitlines(), line)
            compared += bool(expected.strip())
        self.assertEqual(2, compared)
