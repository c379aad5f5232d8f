# SPDX-License-Identifier: Apache-2.0
"""What nova-compute would claim, asked for a guest of a fleet."""

import sys
import unittest

if sys.version_info < (3, 11):
    raise unittest.SkipTest('only nova-scheduler runs on this Python')

import dataclasses
import itertools

from nova import objects
from nova.virt import hardware
from oslo_config import cfg
import testtools

from nova_pinning.admission import devices
from nova_pinning.admission import guest_request
from nova_pinning.admission import host_occupancy
from nova_pinning.admission import offered_host
from nova_pinning.bridge import claim
from nova_pinning.bridge import nova_claim
from nova_pinning.bridge import nova_objects
from nova_pinning.bridge.offline import fleet_claim
from nova_pinning import fit
from nova_pinning.fit import known_defects
from nova_pinning.fleet import generate
from nova_pinning.fleet import moved_guest
from nova_pinning.fleet import occupied
from nova_pinning import model
from nova_pinning.model import hostclass
from nova_pinning.simulation import scheduler_configuration
from nova_pinning.tests.unit.admission import placing
from nova_pinning.tests.unit import builders
from nova_pinning.tests.unit.simulation import simulation_scenes

_PACKING = 'packing_host_numa_cells_allocation_strategy'


class TestForesee(testtools.TestCase):

    def setUp(self):
        super().setUp()
        objects.register_all()

    def _attempts(self, packs_cells):
        """Guests on half full hosts, in other cells than the first ones."""
        for seed in range(16):
            fleet = simulation_scenes.fleet(seed)
            engine = simulation_scenes.fast_scheduler(
                fleet, scheduler_configuration.NAMED['nova-default'])
            ledger = engine.ledger
            for arrival in simulation_scenes.load(seed, 20).arrivals(seed):
                engine.place(arrival.id, arrival.request)
            for occupancy in ledger.occupancies:
                pools = occupancy.host.pci_pools
                for wanted in simulation_scenes.KINDS.values():
                    if wanted.topology is None:
                        continue
                    check = devices.check(
                        pools, occupancy.device_uses, wanted.devices,
                        occupancy.host.cells)
                    choice = fit.choose_cells(
                        occupancy.engine, wanted.topology,
                        pack=packs_cells, pci=check)
                    if isinstance(choice,
                                  fit.CellChoice) and not choice.is_first:
                        yield (occupancy.engine, wanted, choice, check,
                               devices.free(pools, occupancy.device_uses))

    def test_is_what_nova_answers(self):
        asked = 0
        for packs_cells in (False, True):
            for host, wanted, choice, check, free in self._attempts(
                    packs_cells):
                answer = self._claim(
                    fit.ClaimAttempt(host, wanted.topology, check), choice,
                    1.0)
                if free or wanted.devices:
                    # Then the order of cells is that of their devices.
                    continue
                if isinstance(answer, model.Refusal):
                    continue
                found = self._nova(host, wanted, packs_cells)
                asked += answer.fit is not None
                self.assertEqual(found, answer.fit or fit.pin(
                    wanted.topology, choice.cells))
        self.assertGreater(asked, 0)

    def _claim(self, attempt, choice, seconds):
        bounds = fit.ClaimBounds(seconds)
        known = known_defects.known_claim(attempt, choice, bounds)
        if known is not None:
            return known
        return fleet_claim.predict_claim(attempt, choice, bounds)

    def _nova(self, host, wanted, packs_cells):
        cfg.CONF.set_override(_PACKING, packs_cells, 'compute')
        self.addCleanup(cfg.CONF.clear_override, _PACKING, 'compute')
        answer = hardware.numa_fit_instance_to_host(
            nova_objects.host_topology(host),
            nova_objects.instance_topology(wanted.topology), None,
            limits=objects.NUMATopologyLimits(
                cpu_allocation_ratio=host.cpu_allocation_ratio,
                ram_allocation_ratio=host.ram_allocation_ratio))
        cfg.CONF.clear_override(_PACKING, 'compute')
        return answer and claim.fit_from_nova(answer)

    def test_claims_that_take_too_long(self):
        for host, wanted, choice, check, _free in self._attempts(False):
            answer = self._claim(
                fit.ClaimAttempt(host, wanted.topology, check), choice, 0.0)
            refusal = (answer if isinstance(answer, model.Refusal)
                       else answer.drawback)
            self.assertEqual(model.Reason.NOVA_SLOW, refusal.reason)


def _taken(found):
    """A fit without the order of the threads of a core.

    Nova goes by the order of a set there.
    """
    return found and [
        (cell.host_cell, {cpu for _vcpu, cpu in cell.pins},
         cell.emulator_cpus, cell.page_size_kib) for cell in found.cells]


class TestClaimedFit(testtools.TestCase):

    def test_as_the_engine(self):
        # Of guests that its fit gets right, nova's claim and the engine agree
        # about everything: cells, CPUs, devices, refusals.
        compared = refused = 0
        for shape, packs in itertools.product(
                ('two-socket-80', 'two-socket-96-pci', 'epyc-nps4'),
                (False, True)):
            fleet = generate.generate_fleet(3, shape, 5, filled=0.7,
                                            churn=1.0)
            # Claims are those of the nova that is installed.
            occupancies = {
                name: dataclasses.replace(
                    occupancy, engine=occupancy.engine._replace(
                        claim_order=nova_claim.installed_order()))
                for name, occupancy in occupied.of_fleet(fleet).items()}
            requests = {
                (guest.topology, guest.vcpus): moved_guest.of_guest(guest)
                for guest in fleet.guests if not guest.devices}
            for request, occupancy in itertools.product(
                    list(requests.values())[:6], occupancies.values()):
                found = placing.fit_on(occupancy, request, packs)
                claimed = fleet_claim.claimed_fit(occupancy, request, packs)
                compared += 1
                refused += claimed is None
                self.assertEqual(_taken(
                    None if isinstance(found, model.Refusal) else found),
                    _taken(claimed))
        self.assertGreater(compared, 30)
        self.assertLess(refused, compared)

    def test_devices(self):
        kind = devices.device_keys('8086', '1572')
        cells = tuple(
            builders.host_cell(number, range(4 * number, 4 * number + 4))
            for number in range(2))
        for pools, expected in (({0: 1}, 0), ({1: 1}, 1), ({}, None)):
            occupancy = host_occupancy.of_host(offered_host.OfferedHost(
                name='h', cells=cells, pci_pools=tuple(
                    devices.PciPool(kind, node, count)
                    for node, count in pools.items())))
            request = guest_request.GuestRequest(
                name='f', vcpus=2, memory_mib=512,
                guest_class=hostclass.HostClass.DEDICATED,
                topology=model.Guest(
                    (model.GuestCell((0, 1), (), 512),),
                    model.CpuPolicy.DEDICATED),
                devices=(devices.PciRequest('nic', (kind,), 1, 'required'),))
            claimed = fleet_claim.claimed_fit(occupancy, request)
            self.assertEqual(
                expected, claimed and claimed.cells[0].host_cell)
            # A guest that moves is claimed so, whatever it was built with.
            moved = dataclasses.replace(
                request, claims=request.devices, devices=tuple(
                    dataclasses.replace(one, policy='preferred')
                    for one in request.devices))
            full = dataclasses.replace(occupancy, engine=(
                occupancy.engine._replace(cells=(
                    cells[0], builders.host_cell(1, [4])))))
            self.assertEqual(
                None if expected else claimed,
                fleet_claim.claimed_fit(full, moved))

    def test_packing_is_left_as_it_was(self):
        before = fleet_claim.CONF.compute[fleet_claim._PACKING]
        with fleet_claim._packing(not before):
            self.assertNotEqual(
                before, fleet_claim.CONF.compute[fleet_claim._PACKING])
        self.assertEqual(
            before, fleet_claim.CONF.compute[fleet_claim._PACKING])
