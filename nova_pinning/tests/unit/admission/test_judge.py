# SPDX-License-Identifier: Apache-2.0

import dataclasses

import ddt
from oslotest import base as oslotest

from nova_pinning.admission import devices
from nova_pinning.admission import guest_request
from nova_pinning.admission import host_occupancy
from nova_pinning.admission import judge
from nova_pinning.admission import offered_host
from nova_pinning.admission import outcome
from nova_pinning.admission import providers
from nova_pinning.admission import scheduler_rules
from nova_pinning.host import host_offer
from nova_pinning import model
from nova_pinning.model import hostclass
from nova_pinning.placement import inventory
from nova_pinning.tests.unit import builders
from nova_pinning.tests.unit.capacity import test_stranded_devices

VF = devices.device_keys('8086', '154c', 'type-VF')


def request(*queries, **values):
    """A floating guest that asks Placement for any of these."""
    return guest_request.GuestRequest(
        name='f', vcpus=1, memory_mib=64, topology=None,
        guest_class=hostclass.HostClass.SHARED, queries=tuple(
            guest_request.query(one) if isinstance(one, dict) else one
            for one in queries), **values)


def occupancy(*children, traits=frozenset(), gaps=(), pools=(), **totals):
    """An empty host of which Placement tells all."""
    return host_occupancy.of_host(offered_host.OfferedHost(
        name='h', cells=(), host_class=hostclass.HostClass.SHARED,
        traits=traits, gaps=gaps, pci_pools=pools,
        inventories=inventories(totals), children=tuple(
            offered_host.OfferedProvider(
                0, tuple(sorted(inventories(one).items())))
            for one in children)))


def inventories(totals):
    return {name: inventory.Inventory(total)
            for name, total in totals.items()}


class TestJudge(oslotest.BaseTestCase):

    def setUp(self):
        super().setUp()
        self.judge = judge.AdmissionJudge()

    def test_nothing_of_its_own_provider(self):
        """Nova looks candidates up by that, so there are none."""
        host = occupancy({'VGPU': 2}, VCPU=8)
        wanted = request({'VGPU': 1})
        answer = self.judge.answer(wanted, host)
        self.assertIsInstance(answer, outcome.NotAdmitted)
        refusal, = answer.refusals
        self.assertIn('own provider', refusal.text)
        self.assertEqual(answer.refusals,
                         self.judge.verdicts(wanted, host).refusals)
        self.assertFalse(self.judge.room(wanted, host))

    def test_any_query_of_which_all_is_known(self):
        """What another one would leave open then does not matter."""
        host = occupancy(VCPU=8, gaps=(outcome.Doubt(
            outcome.DoubtKind.PROVIDERS, 'nobody knows', 'VGPU'),))
        unsure, sure = {'VCPU': 1, 'VGPU': 1}, {'VCPU': 1}
        for queries, admitted in (((unsure,), outcome.Undecided),
                                  ((unsure, sure), outcome.Admitted)):
            wanted = request(*queries)
            self.assertIsInstance(self.judge.answer(wanted, host), admitted)
            found = self.judge.verdicts(wanted, host)
            self.assertEqual((), found.refusals)
            self.assertEqual(admitted is outcome.Undecided,
                             bool(found.doubts))
            self.assertEqual(admitted is outcome.Admitted, isinstance(
                self.judge.room(wanted, host), model.Fit))

    def test_devices_of_the_candidate_that_has_them(self):
        """A guest takes those with which it fits, not those named first."""
        host = occupancy(
            {'CUSTOM_VF': 1}, {'CUSTOM_VF': 1}, VCPU=8, pools=tuple(
                devices.PciPool(VF, None, total, provider)
                for total, provider in ((0, 1), (1, 2))))
        wanted = request(
            guest_request.CandidatesQuery(groups=(
                guest_request.RequestGroup('', (('VCPU', 1),)),
                guest_request.RequestGroup('_vf', (('CUSTOM_VF', 1),)))),
            devices=(devices.PciRequest('vf', (VF,), 1, groups=('_vf',)),))
        place = self.judge.room(wanted, host)
        self.assertIsInstance(place, model.Fit)
        placed = judge.placed_on(wanted, host, place)
        self.assertEqual(1, sum(use.count for use in placed.devices))
        self.assertEqual(((2, (('CUSTOM_VF', 1),)),), placed.allocations)

    def test_filter_that_minds_no_cells(self):
        """It hands out what is first, be it all that another alias has."""
        first, second = [devices.device_keys('10de', product)
                         for product in ('2342', '1eb8')]
        host = offered_host.OfferedHost(
            name='host', cells=(builders.host_cell(0, range(2)),),
            pci_pools=(devices.PciPool(first, 1, 1),
                       devices.PciPool(second, 0, 1)))
        request = guest_request.of_shape(
            'guest', 1, 512, hostclass.HostClass.DEDICATED,
            builders.guest((1, 512)))
        request = dataclasses.replace(request, devices=(
            devices.PciRequest('any', (first, second), 1, 'preferred'),
            devices.PciRequest('one', (first,), 1, 'preferred')))
        for names, expected in (
                ((), outcome.Admitted),
                (('PciPassthroughFilter',), outcome.NotAdmitted)):
            answer = judge.AdmissionJudge(scheduler_rules.SchedulerRules(
                enabled_filters=names)).answer(
                    request, host_occupancy.of_host(host))
            self.assertIsInstance(answer, expected)
        # It is not to blame where there is nothing to hand out.
        refused = judge.AdmissionJudge(scheduler_rules.SchedulerRules(
            enabled_filters=('PciPassthroughFilter',))).fit_on(
                request, host_occupancy.of_host(
                    dataclasses.replace(host, pci_pools=())))
        self.assertIn('2 wanted, 0 within reach', refused.detail)


@ddt.ddt
class TestMoved(oslotest.BaseTestCase):
    """Of eight GPUs in Placement, four a node and two a switch."""

    @ddt.data(
        # All that there are, or some of them.
        ('h100', 8, None, None), ('h100', 4, *('may allocate',) * 2),
        # A switch is told by Placement's trait only.
        ('h100-switch-1', 2, 'other devices than Placement allocates', None),
        ('h100-switch-3', 2, 'other devices than Placement allocates',
         'away from devices that Placement allocates'))
    @ddt.unpack
    def test_claim(self, alias, number, refusal, live_refusal):
        """It minds the alias, not what Placement chose."""
        asked = test_stranded_devices.request(alias, number)
        asked = dataclasses.replace(asked, devices=tuple(
            dataclasses.replace(one, policy='preferred')
            for one in asked.devices))
        there = host_occupancy.of_host(dataclasses.replace(
            host_offer.offered(test_stranded_devices.DESCRIBED),
            cells=test_stranded_devices.CELLS, gaps=(),
            reserved_memory_mib=0))
        admission = judge.AdmissionJudge()
        self.assertIsInstance(admission.room(asked, there), model.Fit)
        for is_live, why in ((False, refusal), (True, live_refusal)):
            asked = dataclasses.replace(asked, is_live=is_live, claims=tuple(
                dataclasses.replace(one, groups=()) for one in asked.devices))
            moved = admission.room(asked, there)
            self.assertIs(bool(why), isinstance(moved, model.Refusal), moved)
            self.assertIn(why or '', str(moved))

    def test_policy_of_the_claim(self):
        """Device of another cell of the socket, for a guest built "legacy"."""
        there = occupancy({'CUSTOM_NIC': 1}, pools=(
            devices.PciPool(VF, 1, 1, 1),), VCPU=8)
        built = devices.PciRequest('nic', (VF,), 1, groups=('a-0',))
        asked = request({'VCPU': 1}, devices=(built,), claims=(
            dataclasses.replace(built, policy='socket', groups=()),))
        there = dataclasses.replace(there, host=dataclasses.replace(
            there.host, cells=tuple(
                builders.host_cell(cell, [cell], socket=0)
                for cell in range(2))))
        # Live it is claimed as it was built.
        for is_live in (False, True):
            self.assertIs(is_live, judge._taken(
                dataclasses.replace(asked, is_live=is_live), there,
                model.Fit((model.CellFit(0, ((0, 0),)),)),
                providers.Candidate(mappings=(('a-0', (1,)),))) is None)

    def test_candidate_that_gives_too_few(self):
        """nova's filters let it pass to a guest without cells (U214)."""
        groups = 'a-0', 'a-1'
        built = devices.PciRequest('nic', (VF,), 2, groups=groups)
        query = guest_request.CandidatesQuery(groups=(
            guest_request.RequestGroup('', (('VCPU', 1),)), *[
                guest_request.RequestGroup(name, (('CUSTOM_NIC', 1),))
                for name in groups]))
        asked = dataclasses.replace(
            request({'VCPU': 1}, devices=(built,), claims=(
                dataclasses.replace(built, groups=()),)), queries=(query,))
        other = devices.device_keys('10de', '2342')
        there = occupancy({'CUSTOM_NIC': 1}, {'CUSTOM_NIC': 2}, pools=(
            devices.PciPool(other, None, 1, 1),
            devices.PciPool(VF, None, 2, 2)), VCPU=8)
        admission = judge.AdmissionJudge()
        self.assertIsInstance(admission.room(
            dataclasses.replace(asked, claims=()), there), model.Fit)
        self.assertIn('may allocate', str(admission.room(asked, there)))
