# SPDX-License-Identifier: Apache-2.0
"""What is counted of a host of which Placement alone tells.

The oracle is the same host with all that is known of it.
"""

import dataclasses

import ddt
import hypothesis
from hypothesis import strategies
from oslotest import base

from nova_pinning.admission import devices
from nova_pinning.admission import guest_request
from nova_pinning.admission import host_occupancy
from nova_pinning.admission import offered_host
from nova_pinning.admission import outcome
from nova_pinning.capacity import capacity
from nova_pinning.capacity import count
from nova_pinning.capacity import like_hosts
from nova_pinning import cpuset
from nova_pinning.explain import host_verdicts
from nova_pinning.fleet import generate
from nova_pinning.fleet import occupied
from nova_pinning.fleet import snapshot
from nova_pinning.model import hostclass
from nova_pinning.placement import inventory
from nova_pinning.tests.unit.admission import placing
from nova_pinning.tests.unit import builders
from nova_pinning.tests.unit import unit_base

CELLS = outcome.Doubt(outcome.DoubtKind.CELLS, 'it has no host file')
DEVICES = outcome.Doubt(outcome.DoubtKind.DEVICES, 'not told')
GPU = devices.device_keys('10de', '20b5')


def opaque(host, *gaps):
    """The host as the API alone tells of it."""
    return dataclasses.replace(
        host, cells=(), inventories=host.root_inventories,
        gaps=(CELLS, *gaps))


def wanted(topology=None, vcpus=2, memory_mib=512, **values):
    host_class = (hostclass.HostClass.DEDICATED
                  if topology and topology.is_pinned
                  else hostclass.HostClass.SHARED)
    return guest_request.GuestRequest(
        name='f', vcpus=vcpus, memory_mib=memory_mib,
        guest_class=host_class, topology=topology, queries=tuple(
            guest_request.query(resources=resources)
            for resources in inventory.resource_requests(
                vcpus, memory_mib, 0, topology)), **values)


def counted(host, request, guests=(), **rules):
    place = like_hosts.Numbering().host(host_occupancy.of_host(host, guests))
    return count.Counter(request, placing.judge_of(**rules)).count(place)


def kinds(found):
    return tuple(doubt.kind for doubt in found.doubts)


def dedicated_host(**values):
    return offered_host.OfferedHost(
        name='h', host_class=hostclass.HostClass.DEDICATED, cells=(
            builders.host_cell(0, range(4), memory_mib=4096),
            builders.host_cell(1, range(4, 8), memory_mib=4096)), **values)


def shared_host(**values):
    return offered_host.OfferedHost(
        name='h', host_class=hostclass.HostClass.SHARED,
        cpu_allocation_ratio=2.0, cells=(dataclasses.replace(
            builders.host_cell(0, (), memory_mib=4096),
            shared_cpus=cpuset.CpuSet(range(6))),), **values)


@ddt.ddt
class BoundsTestCase(base.BaseTestCase):

    def test_floating_is_exact(self):
        for vcpus in (1, 2, 5):
            request = wanted(vcpus=vcpus)
            exact = counted(shared_host(), request)
            self.assertTrue(exact.fits)
            self.assertEqual(exact, counted(opaque(shared_host()), request))

    def test_pinned_is_a_bound(self):
        request = wanted(builders.guest((3, 512)), vcpus=3)
        self.assertEqual(2, counted(dedicated_host(), request).fits)
        found = counted(opaque(dedicated_host()), request)
        self.assertEqual((2, (outcome.DoubtKind.CELLS,)),
                         (found.fits, kinds(found)))

    def test_no_room_is_certain(self):
        request = wanted(builders.guest((9, 512)), vcpus=9)
        found = counted(opaque(dedicated_host()), request)
        self.assertEqual((0, ()), (found.fits, kinds(found)))

    def test_held(self):
        """What Placement has allocated otherwise is not free."""
        request = wanted(builders.guest((2, 512)))
        host = opaque(dedicated_host())
        self.assertEqual(4, counted(host, request).fits)
        self.assertEqual(2, counted(dataclasses.replace(
            host, held={'PCPU': 3}), request).fits)
        known = dataclasses.replace(
            dedicated_host(), inventories=host.inventories,
            held={'PCPU': 3})
        self.assertEqual(2, counted(known, request).fits)

    def test_other_class(self):
        request = wanted(vcpus=1)
        host = dataclasses.replace(
            opaque(shared_host()), host_class=hostclass.HostClass.DEDICATED)
        self.assertEqual(
            (0, {count.CapacityCause.CLASS: 12}),
            (counted(host, request).fits, counted(host, request).missing))
        self.assertEqual(8, counted(
            host, request,
            enabled_filters=('PinnedTopologyFilter',)).fits)

    def test_devices(self):
        request = wanted(
            builders.guest((2, 512)), devices=(
                devices.PciRequest('gpu', (GPU,), 1),))
        self.assertEqual(0, counted(dedicated_host(), request).fits)
        host = dataclasses.replace(dedicated_host(), gaps=(DEVICES,))
        found = counted(host, request)
        self.assertEqual((4, (outcome.DoubtKind.DEVICES,)),
                         (found.fits, kinds(found)))
        inventories = {**host.root_inventories,
                       'CUSTOM_PCI_10DE_20B5': inventory.Inventory(4)}
        found = counted(dataclasses.replace(
            host, inventories=inventories,
            held={'CUSTOM_PCI_10DE_20B5': 1}), request)
        self.assertEqual((3, {count.CapacityCause.DEVICES: 1}),
                         (found.fits, found.missing))
        # Two aliases may be of one class.
        found = counted(dataclasses.replace(
            host, inventories=inventories), dataclasses.replace(
                request, devices=request.devices * 2))
        self.assertEqual((2, {count.CapacityCause.DEVICES: 2}),
                         (found.fits, found.missing))

    def test_of_a_fleet(self):
        """One host that is not known makes the sum a bound."""
        fleet = snapshot.Fleet(hosts=(
            dedicated_host(), dataclasses.replace(
                opaque(dedicated_host()), name='other')))
        measured = capacity.measure(
            fleet, [wanted(builders.guest((2, 512))), wanted()], {'f': 1})
        first, second = measured.sizes()
        self.assertEqual((8, True), (first.fits, first.is_bound))
        self.assertFalse(second.is_bound)
        self.assertEqual((), measured.mixes)

    def test_verdict(self):
        judge = host_verdicts.HostJudge({}, placing.judge_of())
        occupied = host_occupancy.of_host(opaque(dedicated_host()))
        request = wanted(builders.guest((2, 512)))
        verdict = judge.verdict(occupied, request)
        self.assertTrue(verdict.fits)
        self.assertEqual('it has no host file', verdict.doubt)
        # What is to be moved needs a host that is sure to take it.
        self.assertFalse(judge.fits(occupied, request))
        floating = judge.verdict(
            host_occupancy.of_host(opaque(shared_host())), wanted())
        self.assertEqual((True, ''), (floating.fits, floating.doubt))

    @unit_base.settings(30)
    @hypothesis.given(
        seed=strategies.integers(0, 5), vcpus=strategies.integers(1, 12),
        cells=strategies.sampled_from([1, 2]))
    def test_never_too_few(self, seed, vcpus, cells):
        fleet = generate.generate_fleet(
            2, 'two-socket-80', seed, shared=0.5, filled=0.6, churn=0.5)
        guests = occupied.guests_by_host(fleet)
        requests = [
            wanted(builders.guest(*[(vcpus, 1024)] * cells),
                   vcpus=vcpus * cells, memory_mib=1024 * cells),
            wanted(vcpus=vcpus)]
        for host in fleet.hosts:
            for request in requests:
                exact = counted(host, request, guests[host.name])
                bound = counted(opaque(host), request, guests[host.name])
                if request.topology is None:
                    self.assertEqual(exact, bound)
                else:
                    self.assertGreaterEqual(bound.fits, exact.most)
                    self.assertEqual(bool(bound.fits), bool(bound.doubts))
