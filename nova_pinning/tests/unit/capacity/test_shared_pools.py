# SPDX-License-Identifier: Apache-2.0


import dataclasses

import hypothesis
from hypothesis import strategies
import testtools

from nova_pinning.admission import guest_request
from nova_pinning.admission import host_occupancy
from nova_pinning.admission import judge
from nova_pinning.admission import l3_layout
from nova_pinning.admission import offered_host
from nova_pinning.admission import outcome
from nova_pinning.capacity import capacity
from nova_pinning.capacity import count
from nova_pinning.exporter import fleet_tally
from nova_pinning.fleet import snapshot
from nova_pinning.placement import inventory
from nova_pinning.simulation import guests
from nova_pinning.tests.unit.simulation import simulation_scenes
from nova_pinning.tests.unit import unit_base

_SIZES = strategies.integers(0, 90)


def fleet(pools, sharing):
    """Hosts of 24 CPUs that take their disks from pools.

    :param pools: GiB and what of it is held, by the UUID of the provider
    :param sharing: the providers that share with each host
    """
    return snapshot.Fleet(hosts=tuple(
        dataclasses.replace(
            simulation_scenes.host(f'host-{number}'), aggregates=(),
            inventories={
                'PCPU': inventory.Inventory(24),
                'MEMORY_MB': inventory.Inventory(40960)},
            children=tuple(
                offered_host.OfferedProvider(
                    None, (('DISK_GB', inventory.Inventory(pools[uuid][0])),),
                    is_shared=True, held=(('DISK_GB', pools[uuid][1]),),
                    uuid=uuid)
                for uuid in sorted(uuids)))
        for number, uuids in enumerate(sharing)))


def one_after_another(made, request):
    """How many guests go on the hosts, each with what is left by then."""
    admission = judge.AdmissionJudge()
    hosts = [host_occupancy.of_host(host) for host in made.hosts]
    placed = 0
    for index, occupancy in enumerate(hosts):
        while isinstance(found := admission.answer(request, hosts[index]),
                         outcome.Admitted):
            placed += 1
            guest = judge.resident(request, hosts[index], found.use, '')
            hosts[index] = hosts[index].adding(guest)
            for number, amounts in guest.allocations:
                uuid = occupancy.host.children[number - 1].uuid
                for other, beside in enumerate(hosts):
                    for place, child in enumerate(beside.host.children, 1):
                        if other != index and child.uuid == uuid:
                            hosts[other] = hosts[other].shared_with(
                                place, amounts, 1)
    return placed


class TestSharedPools(testtools.TestCase):

    @unit_base.settings(max_examples=40)
    @hypothesis.given(
        strategies.tuples(_SIZES, _SIZES), strategies.integers(0, 9),
        strategies.lists(strategies.sampled_from(('', 'a', 'b')), min_size=1,
                         max_size=4),
        strategies.integers(1, 25))
    def test_hosts_take_from_one_pool(self, sizes, held, sharing, disk_gib):
        pools = {uuid: (max(1, size), held)
                 for uuid, size in zip('ab', sizes)}
        made = fleet(pools, sharing)
        plain = guests.plain(6, 1024)
        request = dataclasses.replace(plain, name='disk', queries=(
            guest_request.query({**plain.queries[0].resources,
                                 'DISK_GB': disk_gib}),))
        [size] = capacity.measure(made, [request]).sizes()
        expected = one_after_another(made, request)
        self.assertEqual((expected, expected), (size.fits, size.certain))
        self.assertEqual(size.totals - size.fits, sum(size.missing.values()))
        tally = fleet_tally.FleetTally([request])
        tally.update(made)
        sizes, _left = tally.by_class()[simulation_scenes.DEDICATED]
        # What is kept up to date does not look for the CPUs.
        self.assertEqual(
            (dataclasses.replace(size, caches=l3_layout.CacheSum()),), sizes)

    def test_cause(self):
        made = fleet({'a': (40, 0)}, ['a', 'a', 'a'])
        plain = guests.plain(6, 1024)
        request = dataclasses.replace(plain, queries=(
            guest_request.query({**plain.queries[0].resources,
                                 'DISK_GB': 10}),))
        [size] = capacity.measure(made, [request]).sizes()
        self.assertEqual((4, 4), (size.fits, size.most))
        self.assertEqual({count.CapacityCause.DISK: 8}, size.missing)

    def test_what_is_free_changes(self):
        plain = guests.plain(6, 1024)
        request = dataclasses.replace(plain, queries=(
            guest_request.query({**plain.queries[0].resources,
                                 'DISK_GB': 10}),))
        tally = fleet_tally.FleetTally([request])
        for held, fits in ((30, 1), (0, 4), (20, 2)):
            tally.update(fleet({'a': (40, held)}, ['a', 'a', 'a']))
            sizes, _left = tally.by_class()[simulation_scenes.DEDICATED]
            self.assertEqual(fits, sizes[0].fits)
