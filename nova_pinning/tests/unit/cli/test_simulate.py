# SPDX-License-Identifier: Apache-2.0
"""nova-pinning simulate."""

import dataclasses
import json
from unittest import mock

import ddt
import fixtures

from nova_pinning.admission import offered_host
from nova_pinning.admission import resident_guest
from nova_pinning.cli import simulate
from nova_pinning.flavors import flavor_model
from nova_pinning.fleet import document
from nova_pinning.placement import inventory
from nova_pinning.simulation import compare
from nova_pinning.tests.unit.cli import cli_case
from nova_pinning.tests.unit.simulation import simulation_scenes

ARRIVALS = 'mix=2:3,4:2,8 memory=1024 rate=30 lifetime=2h count=60'
TRACE = """time,id,vcpus,memory,lifetime
0,a,12,1024,100
1,b,12,1024,
2,c,12,1024,
200,d,12,1024,
"""


class _TestCase(cli_case.TestCase):

    def setUp(self):
        super().setUp()
        self.useFixture(fixtures.EnvironmentVariable('COLUMNS', '100'))
        # The processes' own starts take longer than such runs.
        self.useFixture(fixtures.MockPatchObject(
            simulate, '_cpus', return_value=1))

    def fleet(self, **changes):
        path = str(self.dir / 'fleet.json.zst')
        fleet = simulation_scenes.snapshot.Fleet(
            hosts=(simulation_scenes.host('one', cells=1),
                   simulation_scenes.host('two', cells=1)))
        document.write(path, dataclasses.replace(fleet, **changes))
        return path

    def simulate(self, *argv, fleet=None):
        return self.run_command('simulate', fleet or self.fleet(), *argv)


@ddt.ddt
class TestSimulate(_TestCase):

    def test_trace(self):
        done = self.simulate('--trace',
                             self.write('trace.csv', TRACE), '-f', 'json')
        self.assertEqual((0, ''), (done.status, done.err))
        run, = json.loads(done.out)['runs']
        # c finds both hosts full, and d the one that a has left.
        self.assertEqual((4, 1, 1),
                         (run['arrivals'], run['refused'], run['departures']))
        self.assertEqual(3, run['first_refusal']['arrivals'])

    def _filters(self, *argv, **changes):
        """Those of each configuration."""
        parser = simulate.Simulate(mock.Mock(), None).get_parser('simulate')
        study = simulate._study(parser.parse_args([
            self.fleet(**changes), '--arrivals', ARRIVALS, '--configuration',
            'pinning', '--configuration', self.write(
                'nova.conf', '[filter_scheduler]\nenabled_filters = '
                'HostClassFilter,NUMATopologyFilter\n'), *argv]))
        return [one.enabled_filters for one in study.configurations]

    def test_filters(self):
        """What a nova.conf has of it outweighs the snapshot."""
        without = ('NUMATopologyFilter',)
        own = ('HostClassFilter', *without)
        self.assertEqual([None, own], self._filters())
        self.assertEqual([without, own], self._filters(
            enabled_filters=without))
        self.assertEqual([without, own], self._filters(
            '--config-file', self.write('other.conf', (
                '[filter_scheduler]\nenabled_filters = '
                'NUMATopologyFilter\n'))))

    def test_table(self):
        done = self.simulate(
            '--arrivals', ARRIVALS, '--seeds', '3',
            '--configuration', 'nova-default', '--configuration', 'pinning')
        self.assertEqual((0, ''), (done.status, done.err))
        self.assertIn('2 hosts with 24 dedicated CPUs; 60 arrivals', done.out)
        self.assertIn('Change against nova-default', done.out)
        self.assertIn('dedicated-8x8192', done.out)
        self.assertIn('±', done.out)
        for line in done.out.splitlines():
            self.assertLessEqual(len(line), 100, line)
            self.assertEqual(line.rstrip(), line)

    def test_legend(self):
        """It tells of the columns that there are."""
        done = self.simulate('--arrivals', 'mix=2 memory=16 rate=1 '
                             'lifetime=1m count=5')
        text = ' '.join(done.out.split())
        self.assertIn('Dedicated CPUs sold on average;', text)
        self.assertIn('No guest was refused.', text)
        self.assertNotIn('limit', text)
        # Of less than a hundred no share is taken.
        done = self.simulate(
            '--arrivals',
            'mix=2 memory=16 rate=100 lifetime=9h count=60')
        text = ' '.join(done.out.split())
        self.assertIn('sold at the first refusal and on average;', text)
        self.assertIn('The limit, 1% of the latest 1,000 arrivals refused, '
                      'was never reached.', text)
        self.assertNotIn('(at limit)', text)

    @ddt.data(40, 80)
    def test_width(self, columns):
        self.useFixture(fixtures.EnvironmentVariable('COLUMNS', str(columns)))
        done = self.simulate('--arrivals', ARRIVALS)
        for line in done.out.splitlines():
            self.assertLessEqual(len(line), columns, line)

    def test_flavors(self):
        flavor = flavor_model.Flavor(
            name='big', vcpus=12, memory_mib=1024,
            extra_specs={'hw:cpu_policy': 'dedicated'})
        fleet = self.fleet(flavors=(flavor,))
        done = self.simulate(
            '--arrivals', 'mix=big rate=1 lifetime=forever count=3',
            '-f', 'json', fleet=fleet)
        self.assertEqual((0, ''), (done.status, done.err))
        kind, = json.loads(done.out)['runs'][0]['kinds']
        self.assertEqual(('big', 12, 3, 1), (
            kind['name'], kind['vcpus'], kind['arrivals'], kind['refused']))

    def test_what_a_flavor_asks_for(self):
        """One VGPU is one guest; one that nobody tells of is none."""
        flavor = flavor_model.Flavor(
            name='vgpu', vcpus=1, memory_mib=1024, extra_specs={
                'hw:cpu_policy': 'dedicated', 'resources:VGPU': '1'})
        one, two = [simulation_scenes.host(name) for name in ('one', 'two')]
        one = dataclasses.replace(one, inventories={
            **one.root_inventories, 'VGPU': inventory.Inventory(1)})
        argv = ('--arrivals',
                'mix=vgpu rate=1 lifetime=forever count=3')
        fleet = self.fleet(flavors=(flavor,), hosts=(one, two))
        done = self.simulate(*argv, '-f', 'json', fleet=fleet)
        document = json.loads(done.out)
        self.assertEqual((1, 2), (done.status, document['runs'][0]['refused']))
        gap, = document['gaps']
        self.assertEqual(('providers', 1), (gap['kind'], gap['hosts']))
        self.assertIn('two: it is not known how much VGPU', gap['example'])
        done = self.simulate(*argv, '--assume', 'providers', fleet=fleet)
        self.assertEqual((0, ''), (done.status, done.err))
        self.assertNotIn('Not certain', done.out)
        done = self.simulate(*argv, fleet=self.fleet(
            flavors=(flavor,), hosts=(two,)))
        self.assertEqual(1, done.status)
        self.assertIn('Left out of all figures: 3 guests that no host of the '
                      'fleet is known to have room for even if it was empty',
                      ' '.join(done.out.split()))
        self.assertIn('Not certain, since not all is known', done.out)
        # There was none to be accepted or refused.
        self.assertNotRegex(done.out, 'Accepted|refused')

    def test_filters_that_refuse(self):
        flavor = flavor_model.Flavor(name='one', vcpus=1, memory_mib=1024)
        fleet = self.fleet(
            flavors=(flavor,), hosts=(dataclasses.replace(
                simulation_scenes.host('host', is_shared=True),
                aggregates=('few',)),),
            aggregates=(offered_host.Aggregate(
                'few', metadata={'max_instances_per_host': '2'}),),
            enabled_filters=('AggregateNumInstancesFilter',
                             'NUMATopologyFilter'))
        done = self.simulate(
            '--arrivals', 'mix=one rate=1 lifetime=forever count=3',
            '-f', 'json', fleet=fleet)
        self.assertEqual((0, ''), (done.status, done.err))
        self.assertEqual(1, json.loads(done.out)['runs'][0]['refused'])

    def test_nova_conf(self):
        path = self.write('spread.conf', '[filter_scheduler]\n'
                          'ram_weight_multiplier = 3\n')
        done = self.simulate('--arrivals', ARRIVALS,
                             '--configuration', path, '-f', 'json')
        self.assertEqual('spread.conf', json.loads(
            done.out)['configurations'][0]['name'])

    def test_rebalance(self):
        """Each configuration with moves too, and what was moved."""
        argv = ('--arrivals', 'mix=2:3,6:2 memory=64 rate=20 '
                'lifetime=3h count=120', '--rebalance', 'every=1h moves=3')
        done = self.simulate(*argv)
        self.assertEqual((0, ''), (done.status, done.err))
        text = ' '.join(done.out.split())
        self.assertIn('Change against pinning, in points', text)
        self.assertRegex(text, r'pinning\+moves: \d+ guests moved by \d plans')
        still, moved = json.loads(self.simulate(
            *argv, '-f', 'json').out)['runs']
        self.assertEqual(('pinning', None),
                         (still['configuration'], still['moves']))
        self.assertEqual('pinning+moves', moved['configuration'])
        self.assertLessEqual({'plans', 'made', 'refused', 'memory_mib'},
                             moved['moves'].keys())

    def test_impossible(self):
        trace = self.write(
            'trace.csv', 'time,id,vcpus,memory,cells,pages\n'
            '0,a,8,1024,,\n1,b,16,1024,,\n2,c,16,1024,,\n3,d,8,1024,2,\n'
            '4,e,8,1024,,1GiB\n')
        words = ('Left out of all figures: 4 guests that no host of the '
                 'fleet could hold even if it was empty: '
                 'dedicated-8x1024-1GiB-pages (1), '
                 'dedicated-8x1024-2-cells (1) and dedicated-16x1024 (2).')
        done = self.simulate('--trace', trace)
        self.assertIn(words, ' '.join(done.out.split()))
        document = json.loads(self.simulate(
            '--trace', trace, '-f', 'json').out)
        self.assertEqual(
            [1, 1, 2], [kind['arrivals'] for kind in document['impossible']])
        run, = document['runs']
        self.assertEqual((1, 0), (run['arrivals'], run['refused']))

    def test_warns_of_problems(self):
        guest = resident_guest.ResidentGuest(
            uuid='stray', host='three', vcpus=1, memory_mib=1,
            guest_class=simulation_scenes.SHARED)
        done = self.simulate('--arrivals', ARRIVALS,
                             fleet=self.fleet(guests=(guest,)))
        self.assertEqual(0, done.status)
        self.assertIn('warning: ', done.err)


@ddt.ddt
class TestBadInput(_TestCase):

    @ddt.data(
        (('--arrivals', 'mix=big rate=1'), "no flavor called 'big'"),
        (('--arrivals', 'mix=8'), 'either rate or load'),
        (('--arrivals', ARRIVALS, '--configuration', 'none'),
         "'none' is neither a configuration"),
        (('--arrivals', ARRIVALS, '--configuration', 'pinning',
          '--configuration', 'pinning'), 'pinning appears twice'),
        (('--trace', '/nowhere/trace.csv'), 'cannot be read'),
        (('--trace', ''), '--trace: names no file'),
        (('--arrivals', ''), '--arrivals: mix is missing'),
        (('--arrivals', ARRIVALS, '--rebalance', ''),
         '--rebalance: every is missing'),
        (('--arrivals', ARRIVALS, '--rebalance', 'every=6h moves=0'),
         "--rebalance: moves '0' is neither"),
        (('--arrivals', 'mix=16 rate=1 count=9'),
         'no host of the fleet could hold any of the guests'),
    )
    @ddt.unpack
    def test_said(self, argv, message):
        done = self.simulate(*argv)
        self.assertEqual((2, ''), (done.status, done.out))
        self.assertIn(message, done.err)

    @ddt.data(
        ('--arrivals', ARRIVALS, '--seeds', '0'),
        ('--arrivals', ARRIVALS, '--lifetimes', 'long'),
        ('--arrivals', ARRIVALS, '--trace', 'x'),
        (),
    )
    def test_usage(self, argv):
        self.assertEqual(2, self.simulate(*argv).status)

    def test_flavor_of_trace(self):
        path = self.write('trace.csv', 'time,id,flavor\n0,a,small\n1,b,big\n')
        flavor = flavor_model.Flavor(name='small', vcpus=1, memory_mib=16)
        done = self.simulate('--trace', path,
                             fleet=self.fleet(flavors=(flavor,)))
        self.assertEqual(2, done.status)
        self.assertIn(f'{path}:3: ', done.err)
        self.assertIn("no flavor called 'big'", done.err)

    def test_no_hosts(self):
        done = self.simulate('--arrivals', ARRIVALS,
                             fleet=self.fleet(hosts=()))
        self.assertEqual(2, done.status)
        self.assertIn('has no hosts', done.err)


class TestInterrupt(_TestCase):

    def test_interrupt(self):
        with mock.patch.object(compare, 'perform',
                               side_effect=KeyboardInterrupt):
            done = self.simulate('--arrivals', ARRIVALS)
        self.assertEqual((130, ''), (done.status, done.out))
        self.assertIn('interrupted', done.err)
