# SPDX-License-Identifier: Apache-2.0
"""What filters and weighers tell the metrics of a request."""

from unittest import mock

from nova.scheduler import filters as nova_filters
from nova.scheduler import weights as nova_weights

from nova_pinning.model import Reason
from nova_pinning.scheduler import filters
from nova_pinning.scheduler import fitting
from nova_pinning.scheduler import metrics
from nova_pinning.scheduler import metrics_recorder
from nova_pinning.scheduler import weights
from nova_pinning.tests.unit import builders
from nova_pinning.tests.unit.oracle import oracle_cases
from nova_pinning.tests.unit import unit_base

_FILTER = 'PinnedTopologyFilter'


def _states(*pinned):
    """Hosts of four CPUs, of which so many are taken."""
    return [
        builders.host_state(f'host{number}', builders.host_topology(
            oracle_cases.host_cell(0, range(4), pinned=range(count))))
        for number, count in enumerate(pinned)]


def _spec():
    return builders.spec(builders.guest_topology((2, 1)))


class TestTold(unit_base.TestCase, oracle_cases.TestCase):

    def setUp(self):
        super().setUp()
        self.recorder = mock.Mock(spec_set=metrics_recorder.MetricsRecorder())
        metrics.use(self.recorder)
        self.filter = filters.PinnedTopologyFilter()
        self.recorder.reset_mock()

    def _filtered(self, states, spec):
        return nova_filters.HostFilterHandler().get_filtered_objects(
            [self.filter], states, spec)

    def _weigh(self, states, spec):
        nova_weights.HostWeightHandler().get_weighed_objects(
            [weights.FragmentationWeigher()], states, spec)

    def test_a_filter(self):
        self._filtered(_states(0, 3, 1, 4), _spec())
        [told] = self.recorder.filtered.call_args_list
        name, passed, refused, seconds = told.args
        self.assertEqual((_FILTER, 2, {Reason.FREE_CPUS: 2}),
                         (name, passed, dict(refused)))
        self.assertGreater(seconds, 0)

    def test_a_filter_that_observes(self):
        self.set_option('mode', 'observe')
        self.assertEqual(4, len(self._filtered(_states(0, 3, 1, 4), _spec())))
        [told] = self.recorder.filtered.call_args_list
        self.assertEqual((_FILTER, 2, {Reason.FREE_CPUS: 2}), told.args[:3])

    def test_a_weigher(self):
        self._weigh(_states(0, 1, 2), _spec())
        [told] = self.recorder.weighed.call_args_list
        name, hosts, seconds = told.args
        self.assertEqual(('FragmentationWeigher', 3), (name, hosts))
        self.assertGreater(seconds, 0)

    def test_errors(self):
        with mock.patch.object(fitting, 'fit_on_host',
                               side_effect=RuntimeError('oops')):
            self._filtered(_states(0, 1), _spec())
            self._weigh(_states(0, 1), _spec())
        self.assertEqual(
            [mock.call(_FILTER, 'RuntimeError')] * 2
            + [mock.call('FragmentationWeigher', 'RuntimeError')] * 2,
            self.recorder.error.call_args_list)
        # The first of a kind is in the log, and all of them here.
        [told] = self.recorder.filtered.call_args_list
        self.assertEqual((_FILTER, 0, {Reason.ERROR: 2}), told.args[:3])

    def test_the_budget_once_for_all_hosts(self):
        case = oracle_cases.near_a_device()
        for seconds, expected in ((0.0, 0), (1e-9, 1)):
            self.set_option('request_budget_seconds', seconds)
            state, spec = builders.scheduled(case)
            others = [builders.scheduled(case)[0] for _ in range(3)]
            left = self._filtered([state, *others], spec)
            self.assertEqual(0 if expected else 4, len(left))
            told = self.recorder.searched.call_args_list
            self.assertEqual([bool(expected)],
                             [call.args[1] for call in told])
            self.assertTrue(all(call.args[0] > 0 for call in told))
            self.recorder.searched.reset_mock()
        told = self.recorder.filtered.call_args_list[-1]
        self.assertEqual((_FILTER, 0, {Reason.BUDGET: 4}), told.args[:3])

    def test_the_budget_where_nothing_is_refused(self):
        self.set_option('mode', 'observe')
        self.set_option('request_budget_seconds', 1e-9)
        state, spec = builders.scheduled(oracle_cases.near_a_device())
        self.assertEqual([state], self._filtered([state], spec))
        [told] = self.recorder.searched.call_args_list
        self.assertTrue(told.args[1])
