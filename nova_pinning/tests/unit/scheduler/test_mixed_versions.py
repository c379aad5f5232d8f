# SPDX-License-Identifier: Apache-2.0
"""Hosts whose nova-compute is older than nova-scheduler."""

from unittest import mock
import uuid

from nova.objects import service
from nova.scheduler import filters as nova_filters

from nova_pinning.bridge import nova_claim
from nova_pinning import model
from nova_pinning.model import cell_order
from nova_pinning.model import CellOrder
from nova_pinning.model import nova_release
from nova_pinning.model import Reason
from nova_pinning.scheduler import filters
from nova_pinning.scheduler import fitting
from nova_pinning.scheduler import requests
from nova_pinning.tests.oracle import claims
from nova_pinning.tests.oracle import fleet_oracle
from nova_pinning.tests.unit import builders
from nova_pinning.tests.unit.oracle import oracle_cases
from nova_pinning.tests.unit import unit_base

_OLD = nova_release.of_name('2025.1').service_version
_NEW = nova_release.of_name('2026.2').service_version


def _state(name, version, *, cpus=(4, 2), node=0):
    """A host with so many CPUs in each cell, and a device in one cell."""
    case = oracle_cases.case(
        [oracle_cases.host_cell(number, range(8 * number, 8 * number + count))
         for number, count in enumerate(cpus)],
        oracle_cases.guest((1, 1)), pci={
            'pools': [{'vendor_id': '8086', 'product_id': '1520',
                       'numa_node': node, 'dev_type': 'type-VF', 'count': 1}],
            'requests': [], 'mapping': None})
    return builders.host_state(
        name, case.host(), pci_stats=case.pci_stats(),
        service=None if version == 'none' else {'version': version})


class TestMixedVersions(unit_base.TestCase, oracle_cases.TestCase):

    def setUp(self):
        super().setUp()
        self.filter = filters.PinnedTopologyFilter()

    def _spec(self, **values):
        return builders.spec(builders.guest_topology((1, 256)), **values)

    def _left(self, states, spec):
        return [state.host for state in
                nova_filters.HostFilterHandler().get_filtered_objects(
                    [self.filter], states, spec)]

    def test_the_cell_that_the_claim_takes(self):
        for version, cell in ((_OLD, 0), (_NEW, 1)):
            fitted = fitting.fit_on_host(
                _state('h', version), requests.read(self._spec()))
            self.assertEqual([cell], [view.id for view in fitted.cells])
            self.assertIsNone(fitted.drawback)

    def test_not_known_is_second_choice(self):
        states = [_state('unknown', None), _state('old', _OLD),
                  _state('unheard', 'none'), _state('new', _NEW)]
        self.assertEqual(['old', 'new'], self._left(states, self._spec()))
        with unit_base.log_records() as records:
            self.assertEqual(
                ['unknown', 'unheard'],
                self._left([states[0], states[2]], self._spec()))
        said = [record.getMessage() for record in records
                if record.levelname == 'INFO']
        self.assertEqual(1, len(said), said)
        self.assertIn('2 hosts: ' + model.summarise(Reason.NOVA_UNKNOWN),
                      said[0])

    def test_not_known_but_the_same_either_way(self):
        """The cell with the device is the fuller one, or there is no room."""
        states = [_state('a', None, node=1), _state('b', None, cpus=(4, 0))]
        self.assertEqual(['a', 'b'], self._left(states, self._spec()))

    def test_without_the_check_of_claims(self):
        self.set_option('check_nova_claim', False)
        self.assertEqual(
            ['a'], self._left([_state('a', None)], self._spec()))

    def test_hosts_without_devices_are_not_asked_for_it(self):
        state = builders.host_state('h', builders.host_topology(
            oracle_cases.host_cell(0, [0]), oracle_cases.host_cell(1, [1])))
        with mock.patch.object(nova_claim, 'order_of_compute') as asked:
            self.assertEqual(['h'], self._left([state], self._spec()))
        asked.assert_not_called()

    def test_several_instances_are_counted_where_the_claim_puts_them(self):
        """Nova itself counts them as its own release would claim them."""
        for version, cells in ((_OLD, [0, 0, 1]), (_NEW, [1, 1, 0])):
            state = _state('h', version, cpus=(2, 2))
            spec = self._spec(num_instances=3)
            taken = []
            for _number in cells:
                spec.instance_uuid = str(uuid.uuid4())
                self.assertEqual(['h'], self._left([state], spec))
                fitted = fitting.last_fit(state, requests.read(spec))
                taken.append(fitted.cells[0].id)
                state.consume_from_request(spec)
            if version == _OLD:
                # The emptier one each time.
                cells = [0, 1, 0]
            self.assertEqual(cells, taken, version)


class TestForgottenPages(unit_base.TestCase, oracle_cases.TestCase):
    """Computes of 2024.1, which do not see which pages are free."""

    def _drawback(self, version):
        # All small pages of the emptier cell are taken.
        case = oracle_cases.case([
            oracle_cases.host_cell(0, range(4), pages=[[4, 65536, 65536, 0]]),
            oracle_cases.host_cell(1, range(8, 10))],
            oracle_cases.guest((1, 256)))
        fitted = fitting.fit_on_host(
            builders.host_state('h', case.host(),
                                service={'version': version}),
            requests.read(builders.spec(builders.guest_topology((1, 256)))))
        self.assertEqual([1], [cell.id for cell in fitted.cells])
        return fitted.drawback

    def test_by_the_table(self):
        """The table and nova's own code have to agree."""
        self.assertEqual(
            nova_claim.forgets_pages(),
            cell_order.may_forget_pages(service.SERVICE_VERSION))

    def test_second_choice(self):
        if nova_claim.forgets_pages():
            self.skipTest('the nova that is installed is asked')
        for version in 66, 67:
            drawback = self._drawback(version)
            self.assertIs(Reason.NOVA_UNKNOWN, drawback.reason)
            self.assertIn('before 2024.2', drawback.detail)
        for version in _OLD, _NEW:
            self.assertIsNone(self._drawback(version))


class TestAgainstClaims(unit_base.TestCase, oracle_cases.TestCase):
    """Cases of the claims fuzz that went wrong where releases were ignored."""

    def _disagreements(self, number):
        # A new filter each time: it is not asked about the same HostState.
        return claims.Trial(fleet_oracle.fleet(3, number),
                            filters.PinnedTopologyFilter()).disagreements()

    def test_old_and_new_hosts(self):
        for number in 342, 3416, 3862:
            self.assertEqual(set(), self._disagreements(number), number)
            with mock.patch.object(nova_claim, 'order_of_compute',
                                   return_value=CellOrder.FEWEST_DEVICES):
                self.assertNotEqual(
                    set(), self._disagreements(number), number)
