# SPDX-License-Identifier: Apache-2.0
"""The self-test at start-up, on this nova and on others."""

from importlib import metadata
import logging
from unittest import mock

import ddt
from nova.scheduler.filters import numa_topology_filter
from nova.virt import hardware

from nova_pinning.model import nova_release
from nova_pinning.scheduler import filters
from nova_pinning.scheduler import metrics
from nova_pinning.scheduler import metrics_recorder
from nova_pinning.scheduler import selftest
from nova_pinning.tests.unit import builders
from nova_pinning.tests.unit.oracle import oracle_cases
from nova_pinning.tests.unit import unit_base

_NOVAS = hardware.numa_fit_instance_to_host


def _last_cell(host_topology, instance_topology, *args, **kwargs):
    """A nova that takes host cells from the back."""
    turned = host_topology.obj_clone()
    turned.cells = turned.cells[::-1]
    cells = {cell.id: len(turned.cells) - 1 - index
             for index, cell in enumerate(host_topology.cells)}
    answer = _NOVAS(turned, instance_topology, *args, **kwargs)
    for cell in answer.cells if answer else ():
        cell.id = cells[cell.id]
    return answer


def _finds_nothing(*args, **kwargs):
    return None


def _raises(*args, **kwargs):
    raise TypeError('an argument more is needed')


def _finds_what_does_not_fit(host_topology, instance_topology, *args,
                             **kwargs):
    return instance_topology


class TestCase(unit_base.TestCase, oracle_cases.TestCase):

    def setUp(self):
        super().setUp()
        selftest.at_start_up.cache_clear()
        self.addCleanup(selftest.at_start_up.cache_clear)
        self.recorder = mock.create_autospec(metrics_recorder.MetricsRecorder,
                                             instance=True)
        metrics.use(self.recorder)
        self.addCleanup(metrics.use, None)

    def _start(self, nova=_NOVAS):
        """Make the filter, as nova-scheduler does when it starts.

        :returns: the filter, and what the self-test has logged
        """
        with mock.patch.object(hardware, 'numa_fit_instance_to_host', nova):
            with unit_base.log_records() as records:
                chosen = filters.PinnedTopologyFilter()
        said, = [record for record in records
                 if 'self-test' in record.getMessage()]
        return chosen, said


class TestThisNova(TestCase):

    def test_passes(self):
        _chosen, said = self._start()
        self.assertEqual(logging.INFO, said.levelno)
        self.assertRegex(
            said.getMessage(),
            r'^nova-pinning \S+ on nova \d+\.\S+, which it is tested with: '
            r'self-test passed, 8 cases$')
        self.recorder.self_test.assert_called_once_with(True)

    def test_nova_says_nothing_of_guests_that_are_none(self):
        with unit_base.log_records('nova', logging.INFO) as records:
            selftest.run()
        self.assertEqual([], records)

    def test_some_cases_fit_and_others_do_not(self):
        """Or a nova that finds nothing, or anything, would pass."""
        with mock.patch.object(
                hardware, 'numa_fit_instance_to_host', _finds_nothing):
            refusing = selftest.run()
        self.assertIn(len(refusing.failures), range(1, refusing.checked))

    def test_once_in_a_process(self):
        self._start()
        with mock.patch.object(selftest, 'run') as run:
            for _filter in range(3):
                filters.PinnedTopologyFilter()
        run.assert_not_called()
        self.recorder.self_test.assert_called_once_with(True)

    def test_a_release_that_was_not_tested(self):
        with mock.patch.object(nova_release, 'TESTED', ()):
            chosen, said = self._start()
        self.assertEqual(logging.WARNING, said.levelno)
        self.assertIn(
            ', which it is not tested with: self-test passed, 8 cases',
            said.getMessage())
        self.assertTrue(chosen.host_passes(
            *builders.scheduled(oracle_cases.plain())))

    def test_versions(self):
        for version, is_tested in (
                ('34.0.0', True), ('34.1.0.dev12', True), ('35.0.0', False),
                ('31.0.0', True), ('28.0.0', False), ('3.4', False),
                ('340.0', False), ('', False), ('v34', False), ('0', False)):
            with mock.patch.object(
                    metrics_recorder.metadata, 'version',
                    return_value=version):
                self.assertEqual(
                    (version, is_tested), selftest.nova_version())

    def test_nova_that_is_no_package(self):
        with mock.patch.object(
                metrics_recorder.metadata, 'version',
                side_effect=metadata.PackageNotFoundError('nova')):
            _chosen, said = self._start()
        self.assertIn('nova unknown, which it is not tested with',
                      said.getMessage())


@ddt.ddt
class TestAnotherNova(TestCase):

    @ddt.data(
        (_last_cell, 'the emptiest cell: nova has Fit('),
        (_finds_nothing, 'the emptiest cell: nova has None, we have Fit('),
        (_finds_what_does_not_fit, 'no room: nova has Fit('),
        (_raises, 'TypeError: an argument more is needed'))
    @ddt.unpack
    def test_the_log_says_what_to_do(self, nova, problem):
        _chosen, said = self._start(nova)
        self.assertEqual(logging.ERROR, said.levelno)
        message = said.getMessage()
        self.assertRegex(message, r'self-test failed in [1-8] of 8 cases\. ')
        self.assertIn(
            "so nova's own NUMATopologyFilter judges hosts, with all that it "
            'gets wrong, unless [pinning] on_error says otherwise. Install a '
            'version that is tested with this nova, and report these: ',
            message)
        self.assertIn(problem, message)
        self.recorder.self_test.assert_called_once_with(False)

    @ddt.data(_NOVAS, _last_cell, _finds_nothing, _finds_what_does_not_fit)
    def test_novas_own_filter_judges_by_default(self, nova):
        """As if ours were not there: hosts, limits and candidates."""
        chosen, _said = self._start(_raises)
        own = numa_topology_filter.NUMATopologyFilter()
        for case in (oracle_cases.plain(), oracle_cases.uneven_cpus(),
                     oracle_cases.near_a_device(), _shared(),
                     oracle_cases.full()):
            expected, spec = builders.scheduled(case)
            state, _spec = builders.scheduled(case)
            with mock.patch.object(
                    hardware, 'numa_fit_instance_to_host', nova):
                passes = own.host_passes(expected, spec)
                self.assertEqual([state][:passes],
                                 list(chosen.filter_all([state], spec)))
            self.assertEqual(set(expected.limits), set(state.limits))
            if passes:
                self.assertEqual(expected.allocation_candidates,
                                 state.allocation_candidates)

    def test_where_that_fails_too(self):
        chosen, _said = self._start(_raises)
        with mock.patch.object(
                hardware, 'numa_fit_instance_to_host', _raises):
            with unit_base.log_records() as records:
                self.assertEqual([], list(chosen.filter_all(
                    *_one(oracle_cases.plain()))))
        self.assertIn("nova's own filter refuses the host (host1: TypeError: "
                      'an argument more', records[-1].getMessage())

    @ddt.data(_last_cell, _finds_nothing, _finds_what_does_not_fit, _raises)
    def test_hosts_are_judged_as_configured(self, nova):
        """For guests with a NUMA topology; others are none of its business."""
        chosen, _said = self._start(nova)
        for policy in ('refuse', 'pass'):
            self.set_option('on_error', policy)
            for case in (oracle_cases.plain(), oracle_cases.full(), _shared()):
                state, spec = builders.scheduled(case)
                self.assertEqual([state][:policy == 'pass'],
                                 list(chosen.filter_all([state], spec)))
            state = builders.host_state(topology=oracle_cases.plain().host())
            spec = builders.spec()
            self.assertEqual([state], list(chosen.filter_all([state], spec)))

    def test_the_log_says_so_time_and_again(self):
        """Once for all requests, and every hour how many hosts it was."""
        chosen, _said = self._start(_finds_nothing)
        with unit_base.log_records() as records:
            for _request in range(3):
                list(chosen.filter_all(*_one(oracle_cases.plain())))
        errors = [record for record in records
                  if record.levelno == logging.ERROR]
        self.assertEqual(1, len(errors), errors)
        self.assertIn('SelfTestFailed', str(errors[0].exc_info))
        self.assertEqual(3, self.recorder.error.call_count)

    @ddt.data(('by-class', 0), ('refuse', 1))
    @ddt.unpack
    def test_observed(self, policy, differences):
        """Nothing is refused; what would have been counts."""
        self.set_option('mode', 'observe')
        self.set_option('on_error', policy)
        chosen, _said = self._start(_finds_nothing)
        states, spec = _one(oracle_cases.plain())
        self.assertEqual(states, list(chosen.filter_all(states, spec)))
        self.assertEqual({}, states[0].limits)
        self.assertEqual([mock.call(
            'PinnedTopologyFilter', 'ours', 'error', 1)] * differences,
            self.recorder.differed.mock_calls)


def _shared():
    return oracle_cases.case(
        [oracle_cases.host_cell(0, shared=[0, 1])],
        oracle_cases.guest() | {'policy': 'shared', 'cells': [
            {'dedicated': [], 'shared': [0], 'memory': 256}]})


def _one(case):
    state, spec = builders.scheduled(case)
    return [state], spec
