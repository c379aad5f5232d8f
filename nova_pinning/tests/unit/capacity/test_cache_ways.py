# SPDX-License-Identifier: Apache-2.0
"""Cache ways in snapshots, what Placement makes of them, and capacity."""

import dataclasses

import ddt
from oslotest import base

from nova_pinning.admission import guest_request
from nova_pinning.admission import host_occupancy
from nova_pinning.admission import judge
from nova_pinning.capacity import count
from nova_pinning import cpuset
from nova_pinning.fleet import document
from nova_pinning.fleet import host_completion
from nova_pinning.fleet import occupied
from nova_pinning.fleet import snapshot
from nova_pinning.host import hardware
from nova_pinning.tests.unit.admission import placing
from nova_pinning.tests.unit import builders
from nova_pinning.tests.unit.capacity import test_count
from nova_pinning.tests.unit.host import host_samples

WAYS, GROUPS = 'CUSTOM_L3_WAYS', 'CUSTOM_RESCTRL_GROUPS'


def wanted(ways):
    """A guest of two vCPUs that asks for ways, and a group with them."""
    asked = {WAYS: ways, GROUPS: 1} if ways else {}
    plain = test_count.wanted(builders.guest((2, 100)))
    return dataclasses.replace(
        plain,
        extra_specs=tuple((f'resources:{name}', str(amount))
                          for name, amount in asked.items()),
        queries=tuple(guest_request.query(
            resources={**query.resources, **asked})
            for query in plain.queries))


def host(**resources):
    return test_count.fleet_host(
        builders.host_cell(0, range(16), memory_mib=10000),
        builders.host_cell(1, range(16, 32), memory_mib=10000),
        resources=resources)


@ddt.ddt
class TestCount(base.BaseTestCase):

    @ddt.data(
        # (ways of the host, groups, ways of a guest, guests)
        (18, 15, 4, 4), (18, 3, 4, 3), (18, 15, 19, 0), (18, 15, 0, 16),
        (18, 0, 1, 0), (0, 15, 1, 0), (64, 64, 1, 16))
    @ddt.unpack
    def test_guests(self, has, groups, ways, expected):
        place = host(**{WAYS: has, GROUPS: groups})
        request = wanted(ways)
        found = test_count.count_one(place, request)
        self.assertEqual(expected, found.fits)
        # As many as go there one after the other.
        fits, occupancy = 0, host_occupancy.of_host(place)
        while fit := placing.verdict(occupancy, request):
            occupancy = placing.with_guest(occupancy, request, fit)
            fits += 1
        self.assertEqual(expected, fits)
        if expected < 16:
            self.assertEqual({count.CapacityCause.CACHES: 16 - expected},
                             found.missing)

    def test_a_host_of_which_nobody_tells(self):
        self.assertEqual(16, test_count.count_one(host(), wanted(4)).fits)


class TestSnapshot(base.BaseTestCase):

    def test_file(self):
        occupancy = host_occupancy.of_host(host(**{WAYS: 18, GROUPS: 15}))
        request = wanted(4)
        fit = placing.verdict(occupancy, request)
        guest = dataclasses.replace(
            judge.placed_on(request, occupancy, fit), uuid='a')
        self.assertEqual({WAYS: 4, GROUPS: 1}, guest.resources)
        fleet = snapshot.Fleet(hosts=(occupancy.host,), guests=(guest,))
        again = document.loads(document.dumps(fleet))
        self.assertEqual(fleet, again)
        self.assertEqual(
            14, occupied.of_fleet(again)['host1'].inventories[
                WAYS].total - occupied.of_fleet(again)[
                    'host1'].resources_used[WAYS])

    def test_what_a_host_file_adds(self):
        description = host_samples.host(
            name='host1', nova=host_samples.settings('1-3,5-7', '0,4'),
            resctrl=hardware.Resctrl(
                {0: cpuset.CpuSet([0, 1, 4, 5])},
                hardware.CacheAllocation(0x7ff, 1, 0x600, 16)))
        (completed,) = host_completion.completed(
            (host(),), {'host1': description})
        self.assertEqual({WAYS: 9, GROUPS: 15}, completed.resources)
        # What Placement has counts more.
        (completed,) = host_completion.completed(
            (host(**{WAYS: 3}),), {'host1': description})
        self.assertEqual({WAYS: 3}, completed.resources)
