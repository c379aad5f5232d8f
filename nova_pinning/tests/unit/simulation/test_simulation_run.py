# SPDX-License-Identifier: Apache-2.0

import dataclasses

import ddt
import hypothesis
from hypothesis import strategies
from nova import weights as nova_weights
import numpy
import testtools

from nova_pinning.admission import offered_host
from nova_pinning.admission import resident_guest
from nova_pinning.fit import score
from nova_pinning.fleet import occupied
from nova_pinning.fleet import snapshot
from nova_pinning.model import hostclass
from nova_pinning.simulation import arrival_process
from nova_pinning.simulation import fast
from nova_pinning.simulation import guests
from nova_pinning.simulation import occupancy_ledger
from nova_pinning.simulation import scheduler_configuration
from nova_pinning.simulation import simulation_run
from nova_pinning.simulation import statistic
from nova_pinning.tests.unit.simulation import simulation_scenes
from nova_pinning.tests.unit import unit_base

PACKING = scheduler_configuration.NAMED['nova-packing']
DEFAULT = scheduler_configuration.NAMED['nova-default']


def _fleet(*hosts, **values):
    return snapshot.Fleet(hosts=hosts, **values)


def _arrivals(*wanted, lifetime=None):
    return [arrival_process.Arrival(float(number), str(number), one, lifetime)
            for number, one in enumerate(wanted)]


class TestWeights(testtools.TestCase):

    @hypothesis.given(
        strategies.lists(strategies.one_of(
            strategies.integers(-10 ** 9, 10 ** 9),
            strategies.floats(-1e9, 1e9)), min_size=2, max_size=30),
        strategies.floats(-5, 5), strategies.sampled_from((None, 0)),
        strategies.sampled_from((0.0, 0.25)))
    @unit_base.settings(100)
    def test_as_nova(self, raw, multiplier, least, least_range):
        # To the last bit, since the last bit can decide.
        if least is not None:
            raw = [max(one, least) for one in raw]
        expected = [
            0.0 + multiplier * weight
            for weight in nova_weights.normalize(
                raw, least, max(max(raw), (
                    min(raw) if least is None else least) + least_range))]
        found = fast._normalized(
            numpy.array(raw, dtype=float), least, least_range)
        scores = numpy.zeros(len(raw))
        if found is not None:
            scores += numpy.full(len(raw), multiplier) * found
        self.assertEqual(expected, scores.tolist())

    @hypothesis.given(
        strategies.lists(strategies.one_of(
            strategies.floats(-1e9, 1e9), strategies.just(score.UNKNOWN)),
            min_size=2, max_size=30),
        strategies.sampled_from((0.0, 0.25)))
    @unit_base.settings(100)
    def test_as_our_weighers(self, raw, least_range):
        found = fast._normalized(numpy.array(raw), None, least_range)
        self.assertEqual(
            score.normalized(raw, least_range),
            [0.0] * len(raw) if found is None else found.tolist())

    def test_first_of_equals(self):
        fleet = _fleet(*(simulation_scenes.host(f'host{number}')
                         for number in range(4)))
        engine = simulation_scenes.fast_scheduler(
            fleet, DEFAULT, [2, 0, 3, 1])
        self.assertEqual(0, engine.place('a', guests.plain(2, 1024)).host)

    def test_aggregates_outweigh(self):
        # On host1 nova's RAM weigher packs, which beats any spreading.
        empty = simulation_scenes.host('host0')
        busy = dataclasses.replace(
            simulation_scenes.host('host1'), aggregates=('odd',))
        aggregate = offered_host.Aggregate(
            'odd', metadata={'ram_weight_multiplier': '-100'})
        wanted = guests.plain(2, 1024)
        for known, second in (((), 1), ((aggregate,), 0)):
            engine = simulation_scenes.fast_scheduler(
                _fleet(empty, busy, aggregates=known), DEFAULT)
            # The first guest makes a difference between the two.
            engine.ledger.take(0, resident_guest.ResidentGuest(
                uuid='a', host='host0', vcpus=2, memory_mib=1024,
                guest_class=hostclass.HostClass.DEDICATED))
            self.assertEqual(second, engine.place('b', wanted).host)


@ddt.ddt
class TestPlacement(testtools.TestCase):

    def _places(self, host, *wanted):
        engine = simulation_scenes.fast_scheduler(_fleet(host), DEFAULT)
        return [engine.place(str(number), one).host
                for number, one in enumerate(wanted)]

    def test_memory(self):
        # 24 GiB, of which 512 MiB are reserved.
        host = simulation_scenes.host('host', memory_mib=12288)
        self.assertEqual(
            [0, None], self._places(host, guests.plain(2, 12288),
                                    guests.plain(2, 12288)))
        self.assertEqual(
            [0, 0], self._places(host, guests.plain(2, 12288),
                                 guests.plain(2, 11776)))

    def test_disk(self):
        host = simulation_scenes.host('host', disk_gib=30)
        wanted = simulation_scenes.KINDS['disk']
        self.assertEqual([0, None], self._places(host, wanted, wanted))

    def test_class(self):
        shared = guests.plain(2, 1024, hostclass.HostClass.SHARED)
        dedicated = guests.plain(2, 1024)
        self.assertEqual([None, 0], self._places(
            simulation_scenes.host('host', is_shared=True), dedicated, shared))
        self.assertEqual([0, None], self._places(
            simulation_scenes.host('host'), dedicated, shared))

    def test_overcommit(self):
        # 4 CPUs at a ratio of 3.
        shared = guests.plain(4, 1024, hostclass.HostClass.SHARED)
        host = simulation_scenes.host('host', cells=1, cores=4, threads=1,
                                      is_shared=True)
        self.assertEqual([0, 0, 0, None], self._places(host, *[shared] * 4))

    def test_disabled(self):
        wanted = guests.plain(2, 1024)
        self.assertEqual([None], self._places(
            dataclasses.replace(simulation_scenes.host('host'),
                                is_enabled=False),
            wanted))

    def test_mix_is_of_requests_that_filters_see(self):
        """Nova gives up before the filters if Placement finds no host."""
        seen, unseen = guests.plain(2, 1024), guests.plain(64, 1024)
        engine = simulation_scenes.fast_scheduler(
            _fleet(simulation_scenes.host('host')),
            scheduler_configuration.NAMED['pinning'])
        for name, wanted in (('a', unseen), ('b', seen), ('c', unseen)):
            engine.place(name, wanted)
        self.assertEqual(
            [2], [size.vcpus for size, _share in engine._recent.mix()])

    def test_one_guest_no_more_than_there_is(self):
        shared = guests.plain(5, 1024, hostclass.HostClass.SHARED)
        host = simulation_scenes.host('host', cells=1, cores=4, threads=1,
                                      is_shared=True)
        self.assertEqual([None], self._places(host, shared))


class TestRun(testtools.TestCase):

    def test_departures_make_room(self):
        host = simulation_scenes.host('host', cells=1, cores=4, threads=1)
        wanted = guests.plain(4, 1024)
        fleet = _fleet(host)
        stay = simulation_run.run(fleet, _arrivals(*[wanted] * 4), DEFAULT)
        self.assertEqual((3, 0), (stay.refused, stay.departures))
        leave = simulation_run.run(fleet, _arrivals(*[wanted] * 4,
                                                    lifetime=1.0), DEFAULT)
        self.assertEqual((0, 3), (leave.refused, leave.departures))
        self.assertEqual(1.0, leave.acceptance)

    def test_own_guests(self):
        host = simulation_scenes.host('host', cells=1, cores=4, threads=1)
        first = guests.plain(4, 1024)
        engine = simulation_scenes.fast_scheduler(_fleet(host), DEFAULT)
        engine.place('0', first)
        fleet = _fleet(host, guests=(engine.ledger.placed_guests['0'].guest,))
        for plan, refused in (
                (simulation_run.RunPlan(), 1),
                (simulation_run.RunPlan(is_empty=True), 0),
                (simulation_run.RunPlan(stay_hours=1e-6), 0)):
            found = simulation_run.run(
                fleet, [arrival_process.Arrival(9.0, '0', first)],
                DEFAULT, plan=plan)
            self.assertEqual(refused, found.refused, plan)

    def test_own_guests_of_any_name(self):
        """An arrival is never taken for one of them."""
        host, wanted = simulation_scenes.host('host'), guests.plain(2, 1024)
        own = tuple(
            resident_guest.ResidentGuest(
                uuid=uuid, host='host', vcpus=2, memory_mib=1024,
                guest_class=hostclass.HostClass.SHARED)
            for uuid in ('0', '+0', '++0'))
        found = simulation_run.run(
            _fleet(host, guests=own),
            [arrival_process.Arrival(0.0, '0', wanted, 0.001),
             arrival_process.Arrival(1e9, '1', wanted)],
            DEFAULT, plan=simulation_run.RunPlan(stay_hours=1.0))
        self.assertEqual((4, 2), (found.departures, found.final_vcpus))

    def test_overlapping_guests_leave(self):
        # What another guest has too stays taken.
        host = simulation_scenes.host('host', cells=1, cores=4, threads=1)
        one = simulation_scenes.full(host)
        ledger = occupancy_ledger.OccupancyLedger(_fleet(host, guests=(
            one, dataclasses.replace(one, uuid='b'))), [0])
        for uuid, free in ((one.uuid, 0), ('b', 4)):
            ledger.release(uuid)
            cell, = ledger.occupancies[0].engine.cells
            self.assertEqual(free, cell.free_count)

    def test_moments(self):
        host = simulation_scenes.host('host', cells=1, cores=4, threads=1)
        wanted = [guests.plain(3, 16)] + [guests.plain(2, 16)] * 2
        found = simulation_run.run(_fleet(host), _arrivals(*wanted), DEFAULT)
        self.assertEqual((2, 1.0, 3), (
            found.first_refusal.arrivals, found.first_refusal.time_seconds,
            found.first_refusal.dedicated_vcpus))
        # One CPU is free, which no guest of 2 or 3 vCPUs can use.
        self.assertEqual([1.0, 1.0, 1.0],
                         [sample.stranded_cpus for sample in found.samples])

    def test_limit(self):
        # 1% of 200 arrivals is reached by the second refusal.
        host = simulation_scenes.host('host', cells=1, cores=4, threads=1)
        big = simulation_scenes.host('big', cells=1, cores=6, threads=1)
        good, bad = guests.plain(4, 16), guests.plain(5, 16)
        wanted = [good] * 150 + [bad] + [good] * 20 + [bad] + [good] * 9
        found = simulation_run.run(
            _fleet(host, big, guests=(simulation_scenes.full(big),)),
            _arrivals(*wanted, lifetime=0.5), DEFAULT,
            plan=simulation_run.RunPlan(stops_at_limit=True))
        self.assertEqual(172, found.limit.arrivals)
        self.assertEqual(172, found.arrivals)
        self.assertEqual(0.6, found.limit_share)

    def test_impossible(self):
        """Guests that no empty host could hold are in no other figure."""
        host = simulation_scenes.host('host', cells=2, cores=4, threads=1)
        good, bad = guests.plain(4, 16), guests.plain(5, 16)
        worse = guests.plain(4, 16, page_size_kib=1048576)
        wide = guests.plain(8, 16, cells=2)
        wanted = [good] * 150 + [bad] * 7 + [wide] + [worse] + [bad]
        found, without = [simulation_run.run(
            _fleet(host), [arrival for arrival in _arrivals(
                *wanted, lifetime=0.5) if arrival.request in kinds], DEFAULT)
            for kinds in ((good, bad, wide, worse), (good, wide))]
        self.assertEqual(without, dataclasses.replace(found, impossible=()))
        self.assertEqual(0, found.refused)
        self.assertEqual(
            ((worse.name, 4, 1), (bad.name, 5, 8)), found.impossible)

    def test_a_full_fleet_is_not_impossible(self):
        host = simulation_scenes.host('host', cells=1, cores=4, threads=1)
        found = simulation_run.run(
            _fleet(host, guests=(simulation_scenes.full(host),)),
            _arrivals(guests.plain(4, 16)), DEFAULT)
        self.assertEqual((1, ()), (found.refused, found.impossible))

    @hypothesis.given(strategies.integers(0, 10 ** 6))
    @unit_base.settings(16)
    def test_impossible_by_trial(self, seed):
        """What an empty fleet takes is possible, and nothing else is."""
        fleet = occupied.without_reserve(simulation_scenes.fleet(seed))
        columns = simulation_scenes.columns(fleet, DEFAULT)
        for request in simulation_scenes.KINDS.values():
            places = [simulation_scenes.fast_scheduler(
                fleet, DEFAULT, [number]).place('a', request).host
                for number in range(len(fleet.hosts))]
            if any(place is not None for place in places):
                self.assertTrue(columns.could_hold(request), request.name)
            elif not request.devices:
                # Nova's own claim may stand in the way of those.
                self.assertFalse(columns.could_hold(request), request.name)

    def test_hosts_that_are_kept(self):
        hosts = [dataclasses.replace(
            simulation_scenes.host(name, cells=1, cores=4, threads=1),
            aggregates=aggregates) for name, aggregates in (
                ('a', ()), ('b', ('spare',)), ('c', ('late',)))]
        fleet = _fleet(*hosts, aggregates=[
            offered_host.Aggregate(name, metadata={'pinning:reserve': use})
            for name, use in (('spare', 'evacuations'), ('late', 'last'))])
        wanted = _arrivals(*[guests.plain(2, 16)] * 8)
        for configuration, refused, placed in (
                (DEFAULT, 4, [0, 0, 2, 2]),
                (DEFAULT.without_reserve(), 2, None)):
            found = simulation_run.run(fleet, wanted, configuration)
            self.assertEqual(refused, found.refused)
            engine = simulation_scenes.fast_scheduler(fleet, configuration)
            if placed:
                self.assertEqual(placed, [
                    engine.place(arrival.id, arrival.request).host
                    for arrival in wanted[:4]])

    def test_samples_are_bounded(self):
        wanted = guests.plain(1, 16)
        found = simulation_run.run(
            _fleet(simulation_scenes.host('host')),
            _arrivals(*[wanted] * 1500, lifetime=2.5), DEFAULT)
        self.assertLess(len(found.samples), 240)
        self.assertGreater(len(found.samples), 100)
        step, = {after.arrivals - before.arrivals for before, after
                 in zip(found.samples, found.samples[1:])}
        self.assertEqual(step, found.samples[0].arrivals)

    def test_l3(self):
        # Two domains of 4 CPUs; the first guest takes 2 of one of them.
        host = simulation_scenes.host('host', cells=1, cores=8, threads=1,
                                      l3_cores=4)
        wanted = [guests.plain(2, 16), guests.plain(4, 16)]
        found = simulation_run.run(_fleet(host), _arrivals(*wanted), DEFAULT,
                                   plan=simulation_run.RunPlan(
                                       looks_at_l3=True))
        # Nova takes CPUs 2 to 5, across both, so there is no such place.
        self.assertEqual((1, 1), (found.l3_possible, found.l3_met))


class TestStatistic(testtools.TestCase):

    def test_interval(self):
        # Quantiles from a printed table of Student's t.
        for values, mean, error in (
                ([0, 2], 1, 12.706), ([1, 2, 3], 2, 4.303 / 3 ** .5),
                ([1, 2, 3] * 20 + [2], 2, 2.000 * (40 / 60 / 61) ** .5)):
            found = statistic.estimate(values)
            self.assertAlmostEqual(mean, found.mean)
            self.assertAlmostEqual(error, found.error, 3)

    def test_few(self):
        self.assertIsNone(statistic.estimate([]))
        self.assertEqual(statistic.SeedEstimate(3.0, None, 1),
                         statistic.estimate([3.0]))
