# SPDX-License-Identifier: Apache-2.0

import dataclasses

import hypothesis
from hypothesis import strategies
from oslotest import base

from nova_pinning.admission import outcome
from nova_pinning.rebalance import certain_losses
from nova_pinning.rebalance import failover
from nova_pinning.tests.unit.rebalance import small_fleets
from nova_pinning.tests.unit.rebalance import test_failover
from nova_pinning.tests.unit import unit_base


class CertainLossesTestCase(base.BaseTestCase):

    @unit_base.settings(60)
    @hypothesis.given(test_failover.small_fleets() | strategies.builds(
        small_fleets.asking_fleet, strategies.integers(0, 10 ** 6)))
    def test_as_failover(self, fleet):
        """They are those that failover is certain of, host by host."""
        found = certain_losses.find(fleet)
        report = failover.check_failover(
            fleet, settings=failover.FailoverSettings(has_reserve=False))
        self.assertEqual(
            {loss.name: {guest.guest for guest in loss.down
                         if guest.is_certain}
             for loss in report.losses
             if any(guest.is_certain for guest in loss.down)}, found)

    def test_room_on_a_host_in_doubt(self):
        """Whoever may come up there is not certain to stay down."""
        hosts = [test_failover.host('h1', 4), test_failover.host('h2', 4)]
        fleet = test_failover.filled(hosts, [[(4,)], [(2,)]])
        self.assertEqual({'h1': {'h1-0'}, 'h2': {'h2-0'}},
                         certain_losses.find(fleet))
        gap = outcome.Doubt(outcome.DoubtKind.CELLS, 'no host file')
        doubted = dataclasses.replace(
            test_failover.host('h3', 4), gaps=(gap,))
        self.assertEqual({}, certain_losses.find(dataclasses.replace(
            fleet, hosts=(*fleet.hosts, doubted))))

    def test_room_for_one_of_two(self):
        """Whether all come up together is not asked."""
        hosts = [test_failover.host('h1', 4), test_failover.host('h2', 2)]
        fleet = test_failover.filled(hosts, [[(2,), (2,)], []])
        self.assertEqual({}, certain_losses.find(fleet))
