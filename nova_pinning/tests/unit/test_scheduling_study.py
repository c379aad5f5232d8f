# SPDX-License-Identifier: Apache-2.0
"""The study of weighers: its bound, against every possible scheduler."""

import collections
import contextlib
import io
import itertools
import pathlib
import tempfile
from unittest import mock

import fixtures
import hypothesis
from hypothesis import strategies
import numpy
from oslotest import base as oslotest

from benchmarks.scheduling import __main__
from benchmarks.scheduling import bound
from benchmarks.scheduling import fleets
from benchmarks.scheduling import gpus
from benchmarks.scheduling import study
from benchmarks.scheduling import waiting
from nova_pinning.admission import devices
from nova_pinning.admission import host_occupancy
from nova_pinning.admission import judge
from nova_pinning.admission import offered_host
from nova_pinning.fleet import generate
from nova_pinning.fleet import snapshot
from nova_pinning.model import hostclass
from nova_pinning.simulation import arrival_process
from nova_pinning.simulation import simulation_run
from nova_pinning.tests.unit import builders
from nova_pinning.tests.unit.fleet import bytedance_data
from nova_pinning.tests.unit import unit_base

_NVME = devices.device_keys('144d', 'a808')
_GIB = 1024


def _fleet(*hosts):
    """A fleet of hosts given as their cells, (CPUs, GiB), and devices."""
    return snapshot.Fleet(hosts=tuple(
        offered_host.OfferedHost(
            name=f'h{number}',
            cells=tuple(
                builders.host_cell(place, range(10 * place, 10 * place + cpus),
                                   memory_mib=gib * _GIB)
                for place, (cpus, gib) in enumerate(cells)),
            host_class=hostclass.HostClass.DEDICATED,
            pci_pools=(devices.PciPool(_NVME, 0, nvmes),)
            if nvmes else ())
        for number, (cells, nvmes) in enumerate(hosts)))


_FLEETS = strategies.lists(
    strategies.tuples(
        strategies.lists(
            strategies.tuples(strategies.integers(2, 5),
                              strategies.integers(2, 6)),
            min_size=1, max_size=2),
        strategies.integers(0, 1)),
    min_size=1, max_size=2).map(lambda hosts: _fleet(*hosts))

_GUESTS = strategies.builds(
    lambda vcpus, gib, cells, nvmes: fleets.guest(
        vcpus * cells, gib * cells, cells=cells, nvmes=nvmes),
    strategies.integers(1, 4), strategies.integers(1, 4),
    strategies.integers(1, 2), strategies.sampled_from([0, 0, 1]))


class _Room:
    """Free CPUs and GiB of each cell, free devices of each host."""

    def __init__(self, fleet):
        self.cells = [[[cell.dedicated_count, cell.memory_mib // _GIB]
                       for cell in host.cells] for host in fleet.hosts]
        self.devices = [sum(pool.total for pool in host.pci_pools)
                        for host in fleet.hosts]

    def places(self, guest):
        """All ways to put a guest: host and cells."""
        demand = guest.topology.demands[0]
        count = len(guest.topology.cells)
        nvmes = sum(device.count for device in guest.devices)
        for host, cells in enumerate(self.cells):
            for chosen in itertools.combinations(range(len(cells)), count):
                if self.devices[host] >= nvmes and all(
                        cells[place][0] >= demand.dedicated
                        and cells[place][1] * _GIB >= demand.memory_mib
                        for place in chosen):
                    yield host, chosen

    def change(self, guest, where, sign):
        demand = guest.topology.demands[0]
        host, chosen = where
        self.devices[host] += sign * sum(
            device.count for device in guest.devices)
        for place in chosen:
            self.cells[host][place][0] += sign * demand.dedicated
            self.cells[host][place][1] += sign * demand.memory_mib // _GIB


def _best(room, guests, refusals):
    """The most vCPUs of guests, refusing no more than so many, or None."""
    if not guests:
        return 0
    first, *rest = guests
    found = []
    if refusals:
        found.append(_best(room, rest, refusals - 1))
    for where in list(room.places(first)):
        room.change(first, where, -1)
        more = _best(room, rest, refusals)
        room.change(first, where, 1)
        if more is not None:
            found.append(more + first.vcpus)
    return max((one for one in found if one is not None), default=None)


def _kind(guest):
    return bound.Kind(guest.topology,
                      sum(device.count for device in guest.devices))


class TestRelaxation(oslotest.BaseTestCase):

    @unit_base.settings(60)
    @hypothesis.given(
        _FLEETS, strategies.lists(_GUESTS, min_size=1, max_size=5),
        strategies.integers(0, 5))
    def test_against_all_ways_to_place_them(self, fleet, guests, refusals):
        counts = collections.Counter(map(_kind, guests))
        alive = numpy.array(list(counts.values()), dtype=float)
        program = bound.Relaxation(fleet, list(counts))
        most = program.most(alive, [(alive, float(refusals))])
        best = _best(_Room(fleet), guests, refusals)
        if most is None:
            self.assertIsNone(best)
        elif best is not None:
            self.assertLessEqual(best, most + 1e-6)
            self.assertLessEqual(best, program.ceiling() + 1e-6)

    def test_sizes_that_leave_gaps(self):
        """Guests of 8 and 16 leave 6 CPUs of each cell of 38."""
        program = bound.Relaxation(
            _fleet(([(38, 999)] * 2, 0)),
            [_kind(fleets.guest(8, 1)), _kind(fleets.guest(16, 1))])
        self.assertAlmostEqual(64.0, program.ceiling())

    def test_memory_and_devices(self):
        fleet = _fleet(([(8, 8)], 1), ([(8, 8)], 0))
        for guest, most in ((fleets.guest(2, 4), 8.0),
                            (fleets.guest(2, 1), 16.0),
                            (fleets.guest(4, 1, nvmes=1), 4.0)):
            alive = numpy.array([9.0])
            self.assertAlmostEqual(most, bound.Relaxation(
                fleet, [_kind(guest)]).most(alive, [(alive, 9.0)]))

    def test_too_many_to_refuse(self):
        program = bound.Relaxation(
            _fleet(([(8, 99)], 0)), [_kind(fleets.guest(4, 1))])
        alive = numpy.array([4.0])
        self.assertIsNone(program.most(alive, [(alive, 1.0)]))
        self.assertAlmostEqual(8.0, program.most(alive, [(alive, 2.0)]))

    def test_prices_of_another_moment(self):
        """What is known of one saves to look closer at another."""
        program = bound.Relaxation(
            _fleet(([(8, 99)], 0)), [_kind(fleets.guest(4, 1))])
        for count in (4.0, 5.0):
            alive = numpy.array([count])
            self.assertAlmostEqual(
                8.0, program.most(alive, [(alive, 9.0)], enough=8.0))


class TestBound(oslotest.BaseTestCase):

    WINDOW = 3
    SHARE = 0.5

    def _most_sold(self, fleet, course):
        """What is sold when any scheduler reaches the limit, at the most.

        Tries all hosts and cells for each guest, and to refuse it.
        """
        room = _Room(fleet)
        sold = [0.0]

        def go(number, alive, refused):
            if number == len(course):
                return
            arrival = course[number]
            now = arrival.time_seconds
            gone = [one for one in alive if one[0] <= now]
            alive = [one for one in alive if one[0] > now]
            for _end, guest, where in gone:
                room.change(guest, where, 1)
            guest = arrival.request
            for where in list(room.places(guest)):
                room.change(guest, where, -1)
                go(number + 1,
                   [*alive, (now + arrival.lifetime_seconds, guest, where)],
                   [*refused, False])
                room.change(guest, where, 1)
            last = [*refused, True][-self.WINDOW:]
            if (len(last) == self.WINDOW
                    and sum(last) >= self.SHARE * self.WINDOW):
                sold.append(sum(
                    one.vcpus for _end, one, _where in alive))
            else:
                go(number + 1, alive, [*refused, True])
            for _end, guest, where in gone:
                room.change(guest, where, -1)

        go(0, [], [])
        return max(sold)

    @unit_base.settings(25)
    @hypothesis.given(
        _FLEETS, strategies.lists(_GUESTS, min_size=1, max_size=2),
        strategies.lists(
            strategies.tuples(strategies.integers(0, 1),
                              strategies.integers(1, 6)),
            min_size=4, max_size=6))
    def test_no_scheduler_beats_it(self, fleet, kinds, drawn):
        course = [
            arrival_process.Arrival(float(number), f'a{number}',
                                    kinds[kind % len(kinds)], float(lifetime))
            for number, (kind, lifetime) in enumerate(drawn)]
        self.assertLessEqual(
            self._most_sold(fleet, course),
            bound.bound(fleet, course, refused_share=self.SHARE,
                        window=self.WINDOW) + 1e-6)

    def test_to_refuse_early_may_pay(self):
        """To refuse the second makes room for the fourth, the largest."""
        fleet = _fleet(([(4, 99)], 0))
        small, large = fleets.guest(1, 1), fleets.guest(4, 1)
        course = [
            arrival_process.Arrival(float(number), f'a{number}', guest,
                                    lifetime)
            for number, (guest, lifetime) in enumerate((
                (small, 0.5), (small, 99.0), (small, 0.5), (large, 99.0),
                (large, 99.0), (large, 99.0)))]
        # Where nobody may be refused, two small ones are most at a time, of
        # which one is gone when the first large one is refused.
        for share, most, limit in ((0.6, 4.0, 4.0), (0.5, 1.0, 2.0)):
            self.WINDOW, self.SHARE = 2, share
            self.assertEqual(most, self._most_sold(fleet, course))
            self.assertAlmostEqual(limit, bound.bound(
                fleet, course, refused_share=share, window=2))

    def test_refusals_before_there_is_a_limit(self):
        """Whoever refuses both small ones at once has room for a large one.

        The limit is looked at with the third arrival for the first time, and
        only when that or a later one is refused.
        """
        fleet = _fleet(([(4, 99)], 0))
        small, large = fleets.guest(3, 1), fleets.guest(4, 1)
        course = [
            arrival_process.Arrival(float(number), f'a{number}', guest, 99.0)
            for number, guest in enumerate((small, small, large, large))]
        self.assertEqual(4.0, self._most_sold(fleet, course))
        self.assertAlmostEqual(4.0, bound.bound(
            fleet, course, refused_share=self.SHARE, window=self.WINDOW))

    def test_own_guests_leave_as_in_the_run(self):
        fleet = generate.generate_fleet(3, 'two-socket-80', 1)
        stays = simulation_run.own_stays(
            (guest.uuid for guest in fleet.guests), 5, 2.0)
        self.assertEqual(len(fleet.guests), len(stays))
        ends = sorted(stays.values())
        between = (ends[9] + ends[10]) / 2
        result = simulation_run.run(
            fleet,
            [arrival_process.Arrival(between, 'a', fleets.guest(2, 1), 1.0)],
            study.CONFIGURATIONS[study.DEFAULT], seed=5,
            plan=simulation_run.RunPlan(stay_hours=2.0))
        self.assertEqual(10, result.departures)


class TestFleets(oslotest.BaseTestCase):

    def test_scenarios(self):
        for name in fleets.NAMES:
            if name in fleets.NEED_DATA:
                continue
            one = fleets.scenario(name, is_short=True)
            asked = next(iter(one.arrivals(1)))
            self.assertEqual(asked, next(iter(one.arrivals(1))))
            self.assertGreaterEqual(asked.time_seconds,
                                    one.quiet_hours * 3600)

    def test_the_snapshot(self):
        bytedance_data.path(self)
        one = fleets.scenario('snapshot')
        self.assertEqual(
            (279, 2089), (len(one.fleet.hosts), len(one.fleet.guests)))
        self.assertEqual(2089, sum(weight for _guest, weight in one.mix))


def _ran(configuration, seed, share, possible=0, met=0):
    return study.StudyRun(
        study.StudyJob('epyc-nps4', seed, configuration, True), share,
        possible, met)


def _run(main, *arguments):
    """Run a command in its quick form, with one seed.

    :returns: its status, what it said, and what it wrote
    """
    with tempfile.TemporaryDirectory() as directory:
        path = pathlib.Path(directory, 'rst')
        with contextlib.redirect_stdout(io.StringIO()) as said:
            status = main([
                '--quick', '--seeds', '1', '--processes', '1', '--rst',
                str(path), *arguments])
        return status, said.getvalue(), path.read_text()


class TestSummary(oslotest.BaseTestCase):

    def setUp(self):
        super().setUp()
        self.scenario = fleets.scenario('epyc-nps4', is_short=True)

    def _summary(self, *runs):
        return list(study.summarise(self.scenario, runs))

    def _ours(self, share, met=99):
        shares = {study.DEFAULT: 0.6, study.PACKING: 0.9, 'best-fit': 0.9,
                  study.AS_INSTALLED: 0.8, study.OURS: share,
                  waiting.OURS: 0.9, study.BOUND: 1.0}
        *others, ours, _apart, _bound = self._summary(*(
            _ran(name, seed, share, 100, met)
            for name, share in shares.items() for seed in range(3)))
        self.assertEqual(study.OURS, ours.name)
        for other in others:
            self.assertEqual([], other.bars)
        return ours

    def test_all_bars_reached(self):
        ours = self._ours(0.99)
        self.assertEqual(['met'] * 5, [bar.verdict for bar in ours.bars])
        self.assertEqual(
            ('99.0% ± 0.0%', '+65.0% ± 0.0%', '+10.0% ± 0.0%',
             '+10.0% ± 0.0%', '99.0% ± 0.0%', '99.0%'), ours.cells[1:])

    def test_bars_missed(self):
        ours = self._ours(0.62, 90)
        self.assertEqual(
            [f'>={bar} missed' for bar in (
                '10.0% over default', '3.0% over packing',
                '0.0% over best-fit', '98.0% of bound', '95.0% L3')],
            [f'{bar.bar} {bar.verdict.lower()}' for bar in ours.bars])

    def test_errors_by_student(self):
        """Of 1, 2, 3: the deviation is 1, Student's t of 2 is 4.303."""
        *_others, limit = self._summary(*(
            _ran(name, seed, (1 + seed) / 10)
            for name in (*study.CONFIGURATIONS, study.BOUND)
            for seed in range(3)))
        self.assertEqual(f'20.0% ± {10 * 4.303 / 3 ** 0.5:.1f}%',
                         limit.cells[1])

    def test_runs_without_an_end(self):
        outcomes = self._summary(*(
            _ran(name, seed, None if not seed else 0.5)
            for name in (*study.CONFIGURATIONS, study.BOUND)
            for seed in range(3)))
        self.assertIn('; 3 seeds. 7 runs are not counted',
                      study.explain(outcomes, None))
        self.assertEqual('50.0% ± 0.0%', outcomes[-1].cells[1])

    def test_no_run_has_an_end(self):
        first, *_others = self._summary(*(
            _ran(name, 0, None)
            for name in (*study.CONFIGURATIONS, study.BOUND)))
        self.assertEqual('nan%', first.cells[1])

    def test_waits_against_others(self):
        """A tenth at either end is left out; all parts tell the same."""
        waits = {name: 100 for name in waiting.CONFIGURATIONS}
        waits |= {waiting.OURS: 50, 'best-fit': 40}
        found = {outcome.name: outcome for outcome in study.summarise_waits([
            study.StudyRun(
                study.StudyJob('spane', part, name), None,
                waits=[0, *[wait] * 8, 10 ** 9])
            for name, wait in waits.items() for part in range(3)])}
        ours = found[waiting.OURS]
        self.assertEqual(
            ('50', *['-50%, -50% to -50%'] * 3, '+25%, +25% to +25%'),
            ours.cells[1:])
        self.assertEqual(['met', 'met', 'met', 'MISSED'],
                         [bar.verdict for bar in ours.bars])
        self.assertEqual([], found['pinning'].bars)

    def test_runs_that_are_kept(self):
        path = pathlib.Path(self.useFixture(fixtures.TempDir()).path, 'runs')
        jobs = [study.StudyJob('two-socket-8-16', seed, study.PACKING, True)
                for seed in range(2)]
        first = list(study.perform_all(jobs[:1], 1, path))
        with mock.patch.object(study, 'perform', wraps=study.perform) as made:
            both = list(study.perform_all(jobs, 1, path))
        made.assert_called_once_with(jobs[1])
        self.assertEqual(first, both[:1])
        self.assertEqual(jobs, [run.job for run in both])


class TestGpus(oslotest.BaseTestCase):

    def test_what_is_stranded(self):
        """32 vCPUs in a cell of 60 leave two of its GPUs without 12."""
        scenario = gpus.SCENARIOS['gpus-filled']()
        admission = judge.AdmissionJudge()
        occupancy = host_occupancy.of_host(scenario.fleet.hosts[0])
        small, taking = scenario.mix[0][0], fleets.guest(32, 128)
        self.assertEqual(8, len(admission.filled(small, occupancy).guests))
        self.assertEqual(1 + 6, len(admission.filled(
            small, occupancy.adding(judge.placed_on(
                taking, occupancy,
                admission.room(taking, occupancy)))).guests))

    def test_summary(self):
        shares = dict(zip(gpus.CONFIGURATIONS, (0.8, 0.85, 0.9, 0.95)))
        found = {outcome.name: outcome for outcome in study.summarise_gpus([
            study.StudyRun(study.StudyJob('gpus', seed, name), share,
                           stranded=0.04)
            for seed in range(3) for name, share in shares.items()])}
        ours = found[gpus.OURS]
        self.assertEqual(
            ('90.0% ± 0.0%', '+10.0% ± 0.0%', '+5.0% ± 0.0%', '4.0% ± 0.0%'),
            ours.cells[1:])
        self.assertEqual(['met'], [bar.verdict for bar in ours.bars])
        self.assertEqual([], found['nova-default'].bars)


class TestWaiting(oslotest.BaseTestCase):
    """Ten cells of 40 CPUs and 90 GiB."""

    def _waits(self, *lines):
        directory = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        (directory / 'spane/data').mkdir(parents=True)
        directory.joinpath('spane/data/Huawei-East-1-lt.csv').write_text(
            'vmid,cpu,mem,at,lt\n' + ''.join(
                f'{number},{line}\n' for number, line in enumerate(lines)))
        numpy.save(directory / 'spane/data/test_random_time_1000.npy', [0])
        self.useFixture(fixtures.EnvironmentVariable(
            'NOVA_PINNING_DATA', str(directory)))
        for cached in (waiting.read, waiting._first_fit, waiting._queue):
            cached.cache_clear()
            self.addCleanup(cached.cache_clear)
        return {name: waiting.total_wait(0, name)
                for name in waiting.CONFIGURATIONS}

    def test_in_the_order_of_arrival(self):
        """The eleventh waits for the first to go, and one behind it too."""
        full = [f'40,8,{number},100' for number in range(10)]
        for name, wait in self._waits(
                *full, '40,8,10,5', '1,1,20,5', '1,1,300,5').items():
            # The second finds room in a cell that is free at 101.
            self.assertEqual(90 + 81, wait, name)

    def test_not_only_in_the_first_cell(self):
        found = self._waits(
            *['10,8,0,99'] * 2, *['80,16,0,1000'] * 4, '60,16,1,5')
        for name in (waiting.FIRST_FIT, 'pinning'):
            self.assertEqual(98, found[name])
        self.assertEqual(0, found[waiting.OURS])


class TestCommand(oslotest.BaseTestCase):

    def test_quick(self):
        status, said, rst = _run(
            __main__.main, '--case', 'two-socket-8-16')
        self.assertIn(status, (0, 1))
        found = {words[0]: float(words[1].rstrip('%'))
                 for words in map(str.split, rst.splitlines())
                 if words and words[0] in (*study.CONFIGURATIONS,
                                           study.BOUND)}
        self.assertEqual(len(study.CONFIGURATIONS) + 1, len(found))
        for text in (said, rst):
            self.assertIn('8 and 16 vCPUs on 12 hosts', text)
        limit = found.pop(study.BOUND)
        self.assertEqual(84.2, limit)
        for share in found.values():
            self.assertLessEqual(share, limit)
        self.assertLess(found[study.DEFAULT], found[study.OURS])

    def test_no_data(self):
        with (fixtures.EnvironmentVariable('NOVA_PINNING_DATA', '/none'),
              contextlib.redirect_stderr(io.StringIO()) as said):
            self.assertEqual(
                2, __main__.main(['--quick', '--case', 'snapshot']))
        self.assertIn('NOVA_PINNING_DATA', said.getvalue())
