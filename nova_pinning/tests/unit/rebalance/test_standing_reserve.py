# SPDX-License-Identifier: Apache-2.0

import dataclasses
import pathlib
import tempfile

import ddt
from oslotest import base

from nova_pinning.admission import offered_host
from nova_pinning.admission import outcome
from nova_pinning import errors
from nova_pinning.fleet import snapshot
from nova_pinning.model import reserve
from nova_pinning.rebalance import standing_reserve
from nova_pinning.tests.unit.simulation import simulation_scenes

RACKS = tuple(offered_host.Aggregate(name=name, metadata={'rack': name})
              for name in ('r1', 'r2'))


def host(name, *aggregates, **values):
    return dataclasses.replace(
        simulation_scenes.host(name, **values), aggregates=aggregates)


def full(name):
    return simulation_scenes.full(host(name, cells=1))


def fleet(*hosts, guests=(), aggregates=RACKS):
    return snapshot.Fleet(hosts=hosts, guests=tuple(guests),
                          aggregates=tuple(aggregates))


def wish(**values):
    return standing_reserve.ReserveFile(reserves={
        'spare': standing_reserve.ReserveWish(**values)})


@ddt.ddt
class TestPlan(base.BaseTestCase):

    def planned(self, some, **values):
        made, = standing_reserve.plan(some, wish(**values))
        return made

    def test_one_of_each_kind(self):
        made = self.planned(fleet(
            host('a1'), host('a2'), host('a3'), host('b1', cores=4),
            host('b2', cores=4)), losses='host')
        self.assertEqual(('a1', 'b1'), made.hosts)
        self.assertEqual(('a1', 'b1'), made.joins)
        self.assertEqual(((), ()), (made.leaves, made.missing))
        self.assertIs(reserve.ReserveUse.EVACUATIONS, made.use)

    def test_as_many_as_a_rack_has(self):
        hosts = [host(f'{rack}{number}', rack) for rack, count in (
            ('r1', 3), ('r2', 2)) for number in range(count)]
        made = self.planned(fleet(*hosts), losses='rack')
        self.assertEqual(3, len(made.hosts))
        # Flavors may ask for what aggregates say.
        made = self.planned(fleet(*hosts), losses='host')
        self.assertEqual(2, len(made.hosts))

    def test_hosts_with_guests_are_not_kept(self):
        hosts = [host(name, cells=1) for name in 'abc']
        made = self.planned(fleet(*hosts, guests=[full('a')]), losses='host')
        self.assertEqual(('b',), made.hosts)
        made = self.planned(fleet(*hosts, guests=map(full, 'abc')),
                            losses='host')
        self.assertEqual((), made.hosts)
        self.assertIn('1 more empty hosts like a are needed', made.missing[0])

    def test_those_that_are_kept_stay(self):
        kept = (*RACKS, offered_host.Aggregate(
            name='spare', metadata={'pinning:reserve': 'evacuations'}))
        hosts = [host('a', cells=1), host('b', 'spare', cells=1),
                 host('c', cells=1)]
        made = self.planned(fleet(*hosts, aggregates=kept), losses='host')
        self.assertEqual((('b',), (), ()),
                         (made.hosts, made.joins, made.leaves))
        # Its guests came from a lost host.
        made = self.planned(fleet(*hosts, aggregates=kept,
                                  guests=[full('b')]), losses='host')
        self.assertEqual((('a',), ('a',), ('b',)),
                         (made.hosts, made.joins, made.leaves))
        # Unless no other can take its place.
        made = self.planned(fleet(*hosts, aggregates=kept,
                                  guests=map(full, 'abc')), losses='host')
        self.assertEqual(((), (), ()),
                         (made.hosts, made.joins, made.leaves))

    def test_hosts_of_which_not_all_is_known(self):
        """Such as those that the compute API tells of."""
        for kind, kept in (('devices', ('a',)), ('held', ('b',))):
            odd = dataclasses.replace(host('a'), gaps=(
                outcome.Doubt(outcome.DoubtKind(kind), 'odd'),))
            self.assertEqual(kept, self.planned(
                fleet(odd, host('b')), losses='host').hosts)

    def test_slots(self):
        """Hosts have two cells of 12 CPUs each."""
        hosts = [host(name) for name in 'abcd']
        for count, kept, missing in ((1, 1, 0), (4, 1, 0), (5, 2, 0),
                                     (17, 4, 1)):
            made = self.planned(fleet(*hosts), slots=(
                standing_reserve.SlotWish(count=count, vcpus=5,
                                          memory_mib=1024),))
            self.assertEqual((kept, bool(missing)),
                             (len(made.hosts), bool(made.missing)))
        self.assertEqual(
            ('1 slots of 5 vCPUs and 1024 MiB are missing',), made.missing)

    def test_slots_on_what_is_kept_for_losses(self):
        made = self.planned(
            fleet(*[host(name) for name in 'abcd']), losses='host', slots=(
                standing_reserve.SlotWish(count=4, vcpus=6, memory_mib=1),))
        self.assertEqual(1, len(made.hosts))

    def test_several_reserves_share_no_host(self):
        made = standing_reserve.plan(
            fleet(host('a'), host('b'), host('c', cores=4)),
            standing_reserve.ReserveFile(reserves={
                name: standing_reserve.ReserveWish(slots=(
                    standing_reserve.SlotWish(count=1, vcpus=5,
                                              memory_mib=1),))
                for name in ('first', 'second')}))
        self.assertEqual([('a',), ('b',)], [one.hosts for one in made])

    def test_hosts_of_an_aggregate(self):
        made = self.planned(
            fleet(host('a', 'r2'), host('b', 'r1'), host('c', 'r1')),
            among='r1', losses='host')
        self.assertEqual(('b',), made.hosts)
        self.assertRaises(errors.InputError, self.planned, fleet(host('a')),
                          among='x', losses='host')

    @ddt.data(
        ('version: 1\nreserves: {}', 'keeps nothing'),
        ('version: 1\nreserves: {a: {}}', 'keeps nothing'),
        ('version: 1\nreserves: {a: {losses: host, use: never}}', 'use'),
        ('version: 2\nreserves: {a: {losses: host}}', 'version'),
        ('version: 1\nreserves: {a: {slots: [{count: 0, vcpus: 2, '
         'memory_mib: 1}]}}', 'count'))
    @ddt.unpack
    def test_bad_file(self, text, told):
        error = self.assertRaises(errors.InputError, self.load, text)
        self.assertIn(told, str(error))

    def test_good_file(self):
        found = self.load(
            'version: 1\nreserves:\n  spare: {among: r1, losses: rack, '
            'use: last}\n  large:\n    slots:\n    - {count: 4, vcpus: 16, '
            'memory_mib: 65536}\n')
        self.assertEqual(['spare', 'large'], [*found.reserves])
        self.assertIs(reserve.ReserveUse.LAST, found.reserves['spare'].use)

    def load(self, text):
        with tempfile.TemporaryDirectory() as directory:
            path = pathlib.Path(directory) / 'reserve.yaml'
            path.write_text(text)
            return standing_reserve.load(path)
