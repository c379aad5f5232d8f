# SPDX-License-Identifier: Apache-2.0


import dataclasses
import itertools
import random
from unittest import mock

import ddt
import hypothesis
from hypothesis import strategies
import testtools

from nova_pinning.admission import devices
from nova_pinning.admission import guest_request
from nova_pinning.admission import host_occupancy
from nova_pinning.admission import judge
from nova_pinning.admission import offered_host
from nova_pinning.admission import outcome
from nova_pinning.admission import providers
from nova_pinning.admission import scheduler_rules
from nova_pinning.bridge.offline import deferred_claim
from nova_pinning.capacity import count
from nova_pinning.capacity import like_hosts
from nova_pinning.capacity import search
from nova_pinning import cpuset
from nova_pinning import fit as engine_fit
from nova_pinning.fit import cell_check
from nova_pinning.fit import usage
from nova_pinning.fleet import generate
from nova_pinning.fleet import occupied
from nova_pinning import model
from nova_pinning.model import hostclass
from nova_pinning.placement import inventory
from nova_pinning.tests.unit.admission import placing
from nova_pinning.tests.unit import builders
from nova_pinning.tests.unit import unit_base

_NIC = devices.device_keys('8086', '1520')
_MANY = 400
Cause = count.CapacityCause


def wanted(topology=None, requests=(), guest_class='dedicated', vcpus=None,
           memory_mib=None, disk_gib=0, queries=None):
    """A guest to be placed, with the query that nova would make of it."""
    pinned = sum(demand.dedicated + demand.emulator
                 for demand in topology.demands) if topology else 0
    emulator = sum(
        demand.emulator for demand in topology.demands) if topology else 0
    if vcpus is None:
        vcpus = sum(
            demand.dedicated + demand.shared for demand in topology.demands)
        memory_mib = sum(demand.memory_mib for demand in topology.demands)
    resources = {'PCPU': pinned, 'VCPU': vcpus - pinned + emulator,
                 'MEMORY_MB': memory_mib, 'DISK_GB': disk_gib}
    if queries is None:
        queries = [guest_request.query(resources={
            name: amount for name, amount in resources.items() if amount})]
        if pinned:
            queries.append(guest_request.query(resources={
                'VCPU': vcpus, 'MEMORY_MB': memory_mib}))
    return guest_request.GuestRequest(
        name='guest', vcpus=vcpus, memory_mib=memory_mib, disk_gib=disk_gib,
        guest_class=hostclass.HostClass(guest_class), topology=topology,
        devices=tuple(requests), queries=tuple(queries))


def fleet_host(*cells, name='host1', **values):
    return offered_host.OfferedHost(name=name, cells=tuple(cells), **values)


def count_one(host, guest, packs_cells=False):
    """What a counter says of a host without guests."""
    place = like_hosts.Numbering().host(host_occupancy.of_host(host))
    return count.Counter(guest, placing.judge_of(packs_cells)).count(place)


def _pack(occupancy, guest, packs_cells):
    """Guests that go on a host one after another, up to _MANY."""
    found = 0
    while found < _MANY:
        fit = placing.verdict(occupancy, guest, packs_cells)
        if not fit:
            return found
        occupancy = placing.with_guest(occupancy, guest, fit)
        found += 1
    return found


def _most(host, guest, pools, left):
    """The most guests of left, by trying all host cells for each."""
    if not left:
        return 0
    best = 0
    for cells in itertools.permutations(
            host.cells, len(guest.topology.cells)):
        if any(cell_check.shortage(cell, host, guest.topology, demand)
               for cell, demand in zip(cells, guest.topology.demands)):
            continue
        taken = devices.take(pools, (), guest.devices,
                             [cell.id for cell in cells], host.cells)
        if taken is None:
            continue
        fit = engine_fit.pin(guest.topology, cells)
        best = max(best, 1 + _most(
            usage.take(host, guest.topology, fit), guest,
            devices.free(pools, taken), left - 1))
        if best == left:
            break
    return best


@strategies.composite
def _hosts(draw, max_cpus=12, max_cells=4):
    cells = []
    threads = draw(strategies.sampled_from([1, 2, 2]))
    first = 0
    pages = draw(strategies.booleans())
    for number in range(draw(strategies.integers(1, max_cells))):
        cpus = range(first, first + 2 * draw(
            strategies.integers(0, max_cpus // 2)))
        first = cpus.stop
        pinned = [] if not cpus else draw(
            strategies.sets(strategies.sampled_from(cpus), max_size=3))
        memory_mib = draw(strategies.sampled_from([1024, 3072, 4096]))
        cells.append(builders.host_cell(
            number, cpus, threads, pinned_cpus=pinned,
            memory_mib=memory_mib, socket=number // 2,
            memory_used_mib=draw(strategies.sampled_from([0, 0, 512, 1000])),
            shared_used=draw(strategies.integers(0, 3)),
            shared_cpus=draw(strategies.sampled_from(
                [(), (), (100 + number,), cpus])),
            pages=(
                model.PagePool(4, draw(strategies.integers(0, 400000))),
                model.PagePool(2048, draw(strategies.integers(0, 2000)), 3),
                model.PagePool(1048576, 4, draw(strategies.integers(0, 4))),
            ) if pages else ()))
    pools = draw(strategies.lists(strategies.builds(
        devices.PciPool, strategies.just(_NIC),
        strategies.sampled_from([0, 1, 2, None]), strategies.integers(1, 3),
        strategies.none()), max_size=3))
    return fleet_host(
        *cells, pci_pools=tuple(pools),
        host_class=draw(strategies.sampled_from(
            [None, *hostclass.HostClass])),
        cpu_allocation_ratio=draw(strategies.sampled_from([1.0, 2.0, 4.3])),
        ram_allocation_ratio=draw(strategies.sampled_from([1.0, 1.5])),
        reserved_memory_mib=draw(strategies.sampled_from([0, 0, 512])),
        disk_gib=draw(strategies.sampled_from([None, None, 40])),
        is_enabled=draw(strategies.integers(0, 9)) > 0)


@strategies.composite
def _guest_cells(draw, page_size_kib, is_mixed, is_floating, number):
    vcpus = draw(strategies.integers(1, 4))
    dedicated = 0 if is_floating else vcpus
    if is_mixed:
        dedicated = draw(strategies.integers(0, vcpus))
    ids = range(10 * number, 10 * number + vcpus)
    return model.GuestCell(
        tuple(ids[:dedicated]), tuple(ids[dedicated:]),
        draw(strategies.sampled_from([100, 256, 512, 1024])), page_size_kib)


@strategies.composite
def _wanted(draw, max_cells=3):
    if not draw(strategies.integers(0, 9)):
        topology = None
    else:
        policy = draw(strategies.sampled_from(
            ['dedicated'] * 4 + ['mixed', 'shared']))
        page_size_kib = draw(strategies.sampled_from(
            [None, None, 4, 2048, 1048576, model.PAGES_ANY,
             model.PAGES_LARGE, model.PAGES_SMALL]))
        cell = _guest_cells(
            page_size_kib, policy == 'mixed', policy == 'shared', 0)
        cells = [draw(cell)] * draw(strategies.integers(1, max_cells))
        if draw(strategies.booleans()):
            cells = [draw(cell) for _cell in cells]
        topology = model.Guest(
            tuple(cells), model.CpuPolicy(policy),
            draw(strategies.sampled_from(
                [model.ThreadPolicy.PREFER, *model.ThreadPolicy])),
            policy != 'shared' and draw(strategies.integers(0, 4)) == 0)
    requests = draw(strategies.lists(strategies.builds(
        devices.PciRequest, strategies.just('nic'),
        strategies.just((_NIC,)), strategies.integers(1, 2),
        strategies.sampled_from(
            ['legacy', 'preferred', 'required', 'socket'])), max_size=1))
    values = {}
    if topology is None:
        values = {'vcpus': 2, 'memory_mib': 600}
    return wanted(
        topology, requests,
        draw(strategies.sampled_from(['dedicated', 'shared'])),
        disk_gib=draw(strategies.sampled_from([0, 5])), **values)


class TestCount(testtools.TestCase):

    @unit_base.settings(600)
    @hypothesis.given(_hosts(), _wanted(), strategies.booleans())
    def test_as_packed_one_after_another(self, host, guest, packs_cells):
        # An unmarked host goes by its guests, and those whose flavor names
        # another class than their vCPUs show may change its class.
        hypothesis.assume(host.known_class or (
            guest.guest_class is hostclass.HostClass.DEDICATED)
            == bool(guest.topology and guest.topology.is_pinned))
        occupancy = host_occupancy.of_host(host)
        found = count_one(host, guest, packs_cells)
        self.assertEqual(_pack(occupancy, guest, packs_cells), found.fits)
        self.assertEqual(found.totals - found.fits,
                         sum(found.missing.values()))
        if found.most is not None:
            self.assertLessEqual(found.fits, found.most)

    @unit_base.settings(200)
    @hypothesis.given(_hosts(8, 3), _wanted(2), strategies.booleans())
    def test_most_as_by_brute_force(self, host, guest, packs_cells):
        hypothesis.assume(guest.topology is not None)
        occupancy = host_occupancy.of_host(host)
        found = count_one(host, guest, packs_cells)
        if found.most is None or not placing.verdict(occupancy, guest):
            return
        # Placement's limits are compared in the other test.
        hypothesis.assume(not found.missing.keys() & {
            Cause.PLACEMENT, Cause.DISK, Cause.MEMORY, Cause.PAGES})
        hypothesis.assume(found.most < 7)
        self.assertEqual(
            found.most, _most(occupancy.engine, guest,
                              devices.free(host.pci_pools, ()), 7))

    def test_page_size_that_another_cell_has_left(self):
        """What nova finds on a full cell it asks the other one for."""
        cells = [builders.host_cell(
            number, range(6 * number, 6 * number + 6), memory_mib=1024,
            pages=(model.PagePool(4, 131072), model.PagePool(2048, 256)))
            for number in range(2)]
        place = like_hosts.Numbering().host(
            host_occupancy.of_host(fleet_host(*cells)))
        guests = {size: wanted(model.Guest(
            (model.GuestCell((0, 1), (), 256, size),),
            model.CpuPolicy.DEDICATED))
            for size in (model.PAGES_ANY, model.PAGES_LARGE)}
        minded = judge.AdmissionJudge(scheduler_rules.SchedulerRules(
            packs_cells=True), deferred_claim.BOUNDS)
        found = {size: count.Counter(guest, minded).count(place)
                 for size, guest in guests.items()}
        self.assertEqual((5, 6), found[model.PAGES_ANY][:2])
        # There is one large size only.
        self.assertEqual((4, 4), found[model.PAGES_LARGE][:2])

    def test_hosts_that_pin_to_shared_cpus(self):
        """They are found by nova's second query."""
        host = fleet_host(builders.host_cell(
            0, range(8), shared_cpus=range(8)),
            host_class=hostclass.HostClass.DEDICATED)
        self.assertEqual(
            4, count_one(host, wanted(builders.guest((2, 100)))).fits)

    def test_emulator_on_a_whole_core(self):
        """Its CPU is the first that is free, not one whose core is not."""
        host = fleet_host(builders.host_cell(
            0, range(10), 2, pinned_cpus=[5, 7, 9]))
        guest = wanted(builders.guest(
            (2, 100), thread_policy=model.ThreadPolicy.REQUIRE,
            emulator_isolated=True))
        self.assertEqual(
            1, _pack(host_occupancy.of_host(host), guest, False))
        self.assertEqual(1, count_one(host, guest).fits)

    def test_hosts_with_other_devices(self):
        """Nothing that is known of one host is taken for another."""
        request = devices.PciRequest('nic', (_NIC,), 1, 'required')
        guest = wanted(builders.guest((2, 100)), [request])
        hosts = [
            fleet_host(
                builders.host_cell(first, range(8)),
                builders.host_cell(first + 1, range(10, 18)),
                pci_pools=tuple(devices.PciPool(_NIC, node, 2)
                                for node in nodes))
            for first, nodes in ((0, (0,)), (0, (0, 1)), (1, (0, 1)),
                                 (2, (0, 1)), (0, ()))]
        counter = count.Counter(guest)
        self.assertEqual([2, 4, 2, 0, 0], [
            counter.count(counted_host).fits
            for counted_host in map(
                like_hosts.Numbering().host,
                map(host_occupancy.of_host, hosts))])

    def test_hosts_that_are_alike_are_counted_alike(self):
        """What is remembered of one host does not spoil the next."""
        guest = wanted(builders.guest((4, 100), (4, 100)))
        counter = count.Counter(guest)
        hosts = [fleet_host(builders.host_cell(0, range(a)),
                            builders.host_cell(1, range(20, 20 + b)),
                            builders.host_cell(2, range(40, 40 + c)))
                 for a in (4, 8) for b in (4, 12) for c in (3, 8)]
        places = map(like_hosts.Numbering().host,
                     map(host_occupancy.of_host, hosts * 2))
        self.assertEqual([count_one(host, guest) for host in hosts * 2],
                         list(map(counter.count, places)))


class TestSearch(testtools.TestCase):

    def _count(self, *sizes):
        """Count guests of unequal cells on hosts with cells of these sizes."""
        counter = count.Counter(wanted(builders.guest((1, 100), (2, 100))))
        numbering = like_hosts.Numbering()
        hosts = [
            fleet_host(*[
                builders.host_cell(
                    number, range(32 * number, 32 * number + cpus))
                for number, cpus in enumerate(size)])
            for size in sizes]
        return [counter.count(numbering.host(host_occupancy.of_host(host)))
                for host in hosts]

    def test_given_up_once(self):
        """Where one host is too much, no other is searched."""
        hard = [(8, 9, 10, 20 + more) for more in range(4)]
        with (mock.patch.object(search, 'MAX_STATES', 20),
              mock.patch.object(
                  search._Search, '_successors', autospec=True,
                  side_effect=search._Search._successors) as successors):
            found = self._count(*hard)
        self.assertEqual([None] * 4, [one.most for one in found])
        self.assertLessEqual(successors.call_count, 20)
        for one in found:
            self.assertLess(0, one.fits)
            self.assertEqual(one.totals - one.fits,
                             sum(one.missing.values()))

    def test_all_hosts_together(self):
        easy = [(2, 3, 3 + more) for more in range(6)]
        known = self._count(*easy)
        self.assertNotIn(None, [one.most for one in known])
        with mock.patch.object(search, 'MAX_STATES_IN_ALL', 12):
            found = self._count(*easy)
        mosts = [one.most for one in found]
        self.assertIn(None, mosts)
        first = mosts.index(None)
        self.assertLess(0, first)
        self.assertEqual([one.most for one in known[:first]], mosts[:first])
        self.assertEqual([one.fits for one in known],
                         [one.fits for one in found])


class TestCauses(testtools.TestCase):

    def _host(self, **values):
        return fleet_host(
            builders.host_cell(0, range(12), 2, pinned_cpus=[0, 2, 4, 6]),
            builders.host_cell(1, range(20, 32), 2, pinned_cpus=[20, 21]),
            **values)

    def _missing(self, guest, **values):
        found = count_one(self._host(**values), guest)
        self.assertEqual(found.totals - found.fits,
                         sum(found.missing.values()))
        return found.missing

    def test_scattered_over_cells(self):
        self.assertEqual({Cause.CELLS: 1}, self._missing(
            wanted(builders.guest((9, 100)))) | {})

    def test_larger_than_any_cell(self):
        """Whatever is free, no cell has so many CPUs."""
        self.assertEqual({Cause.CELLS: 1}, self._missing(
            wanted(builders.guest((12, 100)))))
        self.assertEqual({Cause.CELL_SIZE: 1}, self._missing(
            wanted(builders.guest((13, 100)))))
        self.assertEqual({Cause.CELLS: 1}, self._missing(
            wanted(builders.guest((9, 100), (9, 100)))))

    def test_no_whole_cores(self):
        self.assertEqual({Cause.CORES: 2}, self._missing(wanted(
            builders.guest(
                (2, 100), thread_policy=model.ThreadPolicy.REQUIRE))))

    def test_guests_on_other_cpus(self):
        """They close their cell, and host totals do not rise."""
        cells = [builders.host_cell(0, range(12), 2),
                 builders.host_cell(1, range(20, 32), 2)]
        guest = wanted(builders.guest((4, 100)))
        self.assertEqual(
            (6, 6, 6, {}, (), 0, ()), count_one(fleet_host(*cells), guest))
        closed = dataclasses.replace(
            cells[0], pinned_cpus=cpuset.CpuSet([0, 1, 90, 91]))
        self.assertEqual(
            (3, 3, 5, {Cause.STRAY_PINS: 2}, (), 0, ()),
            count_one(fleet_host(closed, cells[1]), guest))
        # Where it is one of two things, each has its share.
        odd = dataclasses.replace(
            cells[1], pinned_cpus=cpuset.CpuSet(range(20, 32, 2)))
        found = count_one(fleet_host(closed, odd), wanted(builders.guest(
            (4, 100), thread_policy=model.ThreadPolicy.REQUIRE)))
        self.assertEqual(
            (0, 0, 3, {Cause.STRAY_PINS: 2, Cause.CORES: 1}, (), 0, ()),
            found)

    def test_memory(self):
        self.assertEqual({Cause.MEMORY: 5}, self._missing(
            wanted(builders.guest((2, 8192)))))

    def test_pages(self):
        self.assertEqual({Cause.PAGES: 9}, self._missing(
            wanted(builders.guest((2, 1024, 1048576)))))

    def test_disk(self):
        self.assertEqual({Cause.DISK: 7}, self._missing(
            wanted(builders.guest((2, 100)), disk_gib=20), disk_gib=50))

    def test_disabled(self):
        self.assertEqual({Cause.DISABLED: 9}, self._missing(
            wanted(builders.guest((2, 100))), is_enabled=False))

    def test_number_of_guests(self):
        """What filters let be on a host at once, whatever room there is."""
        occupancy = host_occupancy.of_host(self._host(aggregates=('rack',)))
        for names, limits, expected in (
                (('NumInstancesFilter',), {}, 7), ((), {}, 9), (None, {}, 9),
                (('AggregateNumInstancesFilter',),
                 {'max_instances_per_host': '4'}, 4),
                (None, {'max_instances_per_host': '4'}, 4)):
            rules = scheduler_rules.SchedulerRules(
                enabled_filters=names, max_instances_per_host=7,
                aggregates={'rack': offered_host.Aggregate(
                    'rack', metadata=limits)})
            found = count.Counter(
                wanted(builders.guest((2, 100))), judge.AdmissionJudge(rules),
            ).count(like_hosts.Numbering().host(occupancy))
            self.assertEqual((expected, 9 - expected), (
                found.fits, found.missing.get(Cause.FILTERS, 0)), names)

    def test_class(self):
        self.assertEqual({Cause.CLASS: 9}, self._missing(
            wanted(builders.guest((2, 100))),
            host_class=hostclass.HostClass.SHARED))

    def test_traits(self):
        self.assertEqual({Cause.TRAITS: 9}, self._missing(
            wanted(builders.guest((2, 100)),
                   queries=[guest_request.query(
                       resources={'PCPU': 2, 'MEMORY_MB': 100},
                       required=frozenset(['CUSTOM_X']))]),
            traits=frozenset()))

    def test_devices(self):
        request = devices.PciRequest('nic', (_NIC,), 1, 'required')
        found = count_one(
            self._host(pci_pools=(devices.PciPool(_NIC, 1, 3),)),
            wanted(builders.guest((2, 100)), [request]))
        self.assertEqual((3, 3), found[:2])
        self.assertEqual({Cause.DEVICES: 6}, found.missing)

    def test_devices_far_from_cpus(self):
        """Those that are free, but not where CPUs are, are not too few."""
        request = devices.PciRequest('nic', (_NIC,), 2, 'required')
        found = count_one(
            self._host(pci_pools=(devices.PciPool(_NIC, 1, 3),
                                  devices.PciPool(_NIC, 2, 9))),
            wanted(builders.guest((2, 100)), [request]))
        self.assertEqual((1, 1), found[:2])
        self.assertEqual({Cause.DEVICES: 3, Cause.AFFINITY: 5}, found.missing)

    def test_order(self):
        """Nova packs the fullest cells, of which there should be more."""
        host = fleet_host(*[builders.host_cell(
            number, range(10 * number, 10 * number + cpus))
            for number, cpus in enumerate((2, 2, 4))])
        found = count_one(
            host, wanted(builders.guest((2, 100), (2, 100))), True)
        self.assertEqual((1, 2), found[:2])
        self.assertEqual({Cause.ORDER: 1}, found.missing)


@ddt.ddt
class TestFleets(testtools.TestCase):
    """Hosts with guests on them, as they come and go."""

    @ddt.data('two-socket-80', 'epyc-nps4', 'two-socket-88',
              'two-socket-96-pci')
    def test_as_packed_one_after_another(self, shape):
        fleet = generate.generate_fleet(6, shape, 11, filled=0.85, shared=0.3,
                                        churn=1.0)
        pages = min((pool.size_kib for pool in fleet.hosts[0].cells[0].pages
                     if pool.total), default=None)
        kind = fleet.hosts[0].pci_pools[0].keys if (
            fleet.hosts[0].pci_pools) else _NIC
        guests = [
            wanted(builders.guest((2, 4096, pages))),
            wanted(builders.guest((8, 8192, pages), (8, 8192, pages))),
            wanted(builders.guest((4, 8192, pages), (8, 4096, pages))),
            wanted(builders.guest((3, 2048, pages),
                                  thread_policy=model.ThreadPolicy.REQUIRE)),
            wanted(builders.guest((4, 2048, pages), emulator_isolated=True)),
            wanted(builders.guest((2, 2048, pages)), [
                devices.PciRequest('nic', (kind,), 1, 'required')]),
            wanted(builders.guest((2, 2048, pages)), [
                devices.PciRequest('nic', (kind,), 1, 'preferred')]),
            wanted(builders.floating_guest((4, 4096, pages)),
                   guest_class='shared'),
            wanted(vcpus=4, memory_mib=4096, guest_class='shared')]
        occupancies = list(occupied.of_fleet(fleet).values())
        places = list(map(like_hosts.Numbering().host, occupancies))
        for packs_cells in (False, True):
            for guest in guests:
                counter = count.Counter(guest, placing.judge_of(packs_cells))
                self.assertEqual(
                    [_pack(occupancy, guest, packs_cells)
                     for occupancy in occupancies],
                    [counter.count(place).fits for place in places], guest)


class TestInTurn(testtools.TestCase):
    """All that a guest asks for counts, whoever gives it."""

    @staticmethod
    def _case(rng):
        """A host with GPUs, licences and NICs, and a guest that wants some."""
        layout = [builders.host_cell(cell, range(8 * cell, 8 * cell + 8))
                  for cell in range(2)]
        host = fleet_host(*layout)
        root = dict(host.root_inventories)
        if rng.random() < 0.5:
            root['CUSTOM_LICENCE'] = inventory.Inventory(
                rng.randint(1, 5), step_size=rng.choice((1, 1, 2)))
        host = dataclasses.replace(
            host, inventories=root, traits=frozenset(), children=tuple(
                offered_host.OfferedProvider(0, tuple({
                    'VGPU': inventory.Inventory(
                        rng.randint(1, 4), max_unit=rng.choice((None, 1))),
                }.items()), frozenset(rng.choice(((), ('CUSTOM_A',)))))
                for _gpu in range(rng.randint(0, 2))),
            pci_pools=tuple(
                devices.PciPool(_NIC, cell, rng.randint(1, 3))
                for cell in range(rng.randint(0, 2))))
        topology = rng.choice((
            builders.guest((1, 64)), builders.guest((2, 64)),
            builders.guest((1, 64), (1, 64)),
            builders.guest((1, 64), (2, 64))))
        vcpus = sum(demand.dedicated for demand in topology.demands)
        unnamed = {'PCPU': vcpus, 'MEMORY_MB': 64}
        groups = []
        if rng.random() < 0.4:
            unnamed['CUSTOM_LICENCE'] = rng.randint(1, 2)
        if rng.random() < 0.6:
            where = rng.choice(('', '1'))
            if where:
                groups.append(guest_request.RequestGroup(
                    where, (('VGPU', rng.randint(1, 2)),)))
                # One that can only be of some leaves little to the other.
                if rng.random() < 0.5:
                    groups.append(guest_request.RequestGroup(
                        '2', (('VGPU', 1),), frozenset(('CUSTOM_A',))))
            else:
                unnamed['VGPU'] = 1
        requests = ()
        if rng.random() < 0.4:
            requests = (devices.PciRequest(
                'nic', (_NIC,), 1,
                rng.choice(('legacy', 'preferred', 'required'))),)
        groups.append(guest_request.RequestGroup(
            '', tuple(sorted(unnamed.items()))))
        return host, wanted(topology, requests, queries=[
            guest_request.CandidatesQuery(groups=tuple(groups))])

    @unit_base.settings(200)
    @hypothesis.given(strategies.integers(0, 10 ** 6))
    def test_as_they_come(self, seed):
        host, guest = self._case(random.Random(seed))
        admission = placing.judge_of(False)
        occupancy = host_occupancy.of_host(host)
        placed = 0
        while isinstance(found := admission.answer(guest, occupancy),
                         outcome.Admitted):
            occupancy = occupancy.adding(judge.resident(
                guest, occupancy, found.use))
            placed += 1
        counted = count_one(host, guest)
        self.assertEqual(placed, counted.certain)
        if counted.most is not None:
            self.assertLessEqual(placed, counted.most)
        self.assertEqual(counted.totals - counted.fits,
                         sum(counted.missing.values()))

    @unit_base.settings(200)
    @hypothesis.given(strategies.integers(0, 10 ** 6))
    def test_most_whichever_providers_they_take(self, seed):
        host, guest = self._case(random.Random(seed))
        occupancy = host_occupancy.of_host(host)
        counted = count_one(host, guest)
        hypothesis.assume(not counted.doubts and counted.fits < 6)
        self.assertLessEqual(
            _most_of_candidates(guest, occupancy), counted.most)


def _most_of_candidates(guest, occupancy):
    """How many fit, of those orders in which nova could take candidates."""
    admission, seen = placing.judge_of(False), {}

    def most(occupancy):
        key = tuple(tuple(sorted(used.items())) for used in occupancy.used)
        if key not in seen:
            seen[key] = 0
            for query in guest.queries:
                for candidate in providers.takeable(
                        occupancy.host, occupancy.used, query):
                    place = admission.fit_on(guest, occupancy, candidate)
                    if isinstance(place, model.Fit):
                        seen[key] = max(seen[key], 1 + most(occupancy.adding(
                            judge.resident(guest, occupancy, judge.use_of(
                                guest, occupancy, place, candidate)))))
        return seen[key]

    return most(occupancy)
