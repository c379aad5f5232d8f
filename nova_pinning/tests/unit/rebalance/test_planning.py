# SPDX-License-Identifier: Apache-2.0
"""What a request keeps out of a plan."""

import dataclasses

from oslotest import base as oslotest

from nova_pinning import errors
from nova_pinning.rebalance import plan_request
from nova_pinning.rebalance import planning
from nova_pinning.tests.unit.rebalance import small_fleets


class TestMakePlan(oslotest.BaseTestCase):

    def setUp(self):
        super().setUp()
        hosts = [small_fleets.fleet_host(number, 4) for number in range(4)]
        self.fleet = small_fleets.fleet_of(
            hosts, [(number, (0,), 2) for number in range(4)])

    def test_excluded(self):
        """Wishes for what is gone do not matter."""
        fixed = self.fleet.guests[1]
        request = plan_request.PlanRequest(
            goal=plan_request.DrainHosts(hosts=('host0',)),
            fixed=(fixed.uuid, 'gone'), excluded=('host2', 'gone'),
            share_percent=25)
        plan = planning.make_plan(request, self.fleet)
        (move,) = plan.moves
        self.assertNotEqual('host2', move.target)
        self.assertEqual(request, plan.request)
        self.assertEqual(1, planning.limits_of(request, self.fleet).moves)
        everything = dataclasses.replace(request, excluded=tuple(
            host.name for host in self.fleet.hosts))
        self.assertRaises(errors.InputError, planning.make_plan, everything,
                          self.fleet)
