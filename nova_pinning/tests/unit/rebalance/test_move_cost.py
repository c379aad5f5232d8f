# SPDX-License-Identifier: Apache-2.0

import math

import ddt
import hypothesis
from hypothesis import strategies
from oslotest import base

from nova_pinning.admission import resident_guest
from nova_pinning import errors
from nova_pinning.fleet import snapshot
from nova_pinning.model import hostclass
from nova_pinning.rebalance import move_cost
from nova_pinning.rebalance import plan_model
from nova_pinning.rebalance import plan_request
from nova_pinning.tests.unit import unit_base

COLD = plan_model.MigrationKind.COLD
BARE = {'overhead_seconds': 0.0, 'stop_seconds': 0.0}


def move(guest='g', memory_mib=16000, **values):
    return plan_model.PlannedMove(**{
        'guest': guest, 'source': 'h0', 'target': 'h1', 'vcpus': 4,
        'kind': plan_model.MigrationKind.LIVE,
        'memory_mib': memory_mib} | values)


def plan(*moves):
    return plan_model.RebalancePlan(
        goal=plan_model.PlanGoal.DRAIN, moves=tuple(moves))


def guest(metadata=None, flavor=''):
    return resident_guest.ResidentGuest(
        uuid='g', host='h0', vcpus=4, memory_mib=1, flavor=flavor,
        guest_class=hostclass.HostClass.DEDICATED, metadata=metadata or {})


@ddt.ddt
class EstimateTestCase(base.BaseTestCase):

    def test_memory_once(self):
        self.assertEqual(10.0 + 16.0, move_cost.seconds_of(
            move(), plan_request.CostSettings()))

    @ddt.data((True, 0.0), (False, 20 * 1.024))
    @ddt.unpack
    def test_disks(self, shared, more):
        settings = plan_request.CostSettings(shared_storage=shared)
        self.assertAlmostEqual(26.0 + more, move_cost.seconds_of(
            move(disk_gib=20), settings))
        self.assertAlmostEqual(70.0 + more, move_cost.seconds_of(
            move(disk_gib=20, kind=COLD), settings))

    @unit_base.settings(200)
    @hypothesis.given(
        strategies.integers(1000, 10**6), strategies.floats(1, 990))
    def test_geometric_series(self, memory_mib, rate_mib):
        """The sum of Clark et al., in closed form."""
        found = move_cost.seconds_of(
            move(memory_mib=memory_mib), plan_request.CostSettings(**BARE),
            rate_mib)
        ratio = rate_mib / 1000
        rounds = max(1, math.ceil(
            math.log(500 / memory_mib) / math.log(ratio) - 1e-9))
        whole = memory_mib * (1 - ratio ** (rounds + 1)) / (1 - ratio)
        self.assertAlmostEqual(whole / 1000, found, delta=1e-6 * whole)

    @ddt.data(1000, 5000)
    def test_does_not_end(self, rate_mib):
        self.assertIsNone(move_cost.seconds_of(
            move(), plan_request.CostSettings(), rate_mib))

    def test_post_copy(self):
        settings = plan_request.CostSettings(post_copy=True, **BARE)
        # Two rounds of all memory, and what was written meanwhile.
        self.assertAlmostEqual(
            48.0, move_cost.seconds_of(move(), settings, 5000))
        self.assertIsNone(settings.dirty_limit_mib)

    def test_auto_converge(self):
        settings = plan_request.CostSettings(auto_converge=True, **BARE)
        self.assertGreater(move_cost.seconds_of(move(), settings, 1500), 16.0)
        self.assertIsNotNone(move_cost.seconds_of(move(), settings, 90000))

    @ddt.data(
        ({'pinning:dirty_rate': 'high'}, {}, 500.0),
        ({}, {'pinning:dirty_rate': 'idle'}, 1.0),
        ({'pinning:dirty_rate': '7.5'}, {'pinning:dirty_rate': 'high'}, 7.5),
        ({'pinning:dirty_rate': 'much'}, {}, None),
        ({'pinning:dirty_rate': 'nan'}, {}, None),
        ({'pinning:dirty_rate': '-1'}, {}, None), ({}, {}, None))
    @ddt.unpack
    def test_dirty_rates(self, metadata, extra_specs, wanted):
        self.assertEqual(wanted, move_cost.dirty_rate(
            guest(metadata), extra_specs))


@ddt.ddt
class PricedTestCase(base.BaseTestCase):

    def settings(self, **values):
        return plan_request.CostSettings(**BARE | values)

    def seconds(self, *each, after=None, **values):
        """How long moves of so many seconds take."""
        settings = self.settings(**values)
        priced = move_cost.priced(plan(*(
            move(str(number), seconds * 1000, after=(after or {}).get(
                number, ())) for number, seconds in enumerate(each))),
            settings)
        return move_cost.total_seconds(priced, settings)

    @ddt.data((1, 6.0), (2, 3.0), (3, 3.0))
    @ddt.unpack
    def test_parallel(self, parallel, wanted):
        self.assertEqual(wanted, self.seconds(1, 2, 3, parallel=parallel)
                         if parallel != 2 else self.seconds(
                             2, 1, 2, parallel=2))

    def test_after(self):
        self.assertEqual(6.0, self.seconds(
            1, 2, 3, parallel=3, after={1: (0,), 2: (1,)}))

    def test_none(self):
        self.assertEqual(0.0, self.seconds())

    def test_dirty_guest(self):
        fleet = snapshot.Fleet(hosts=(), guests=(
            guest({'pinning:dirty_rate': '2000'}),))
        settings = self.settings()
        priced = move_cost.priced(plan(move()), settings, fleet)
        self.assertIsNone(priced.moves[0].seconds)
        self.assertIsNone(move_cost.total_seconds(priced, settings))
        self.assertEqual(16.0, move_cost.priced(
            plan(move()), settings).moves[0].seconds)

    def test_windows(self):
        settings = self.settings(window_seconds=4.0)
        priced = move_cost.priced(plan(*(
            move(str(number), seconds * 1000, after=(0,) if number else ())
            for number, seconds in enumerate((2, 1, 3, 4)))), settings)
        self.assertEqual((range(2), range(2, 3), range(3, 4)),
                         move_cost.windows(priced, settings))
        self.assertEqual('takes 3 windows of 4 s', priced.stopped)

    def test_one_window(self):
        settings = self.settings(window_seconds=40.0)
        priced = move_cost.priced(plan(move()), settings)
        self.assertEqual((range(1),), move_cost.windows(priced, settings))
        self.assertEqual('', priced.stopped)

    def test_window_too_short(self):
        error = self.assertRaises(
            errors.InputError, move_cost.priced, plan(move(name='web')),
            self.settings(window_seconds=4.0))
        self.assertIn('the move of web from h0 takes 16 s, and a window has 4 '
                      's', str(error))
