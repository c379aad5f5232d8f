# SPDX-License-Identifier: Apache-2.0
"""Options that are wrong.

At the start of nova-scheduler one ends it, naming itself. Later, when SIGHUP
has nova-scheduler read its files again, it must not.
"""

import logging
import pathlib
import sys
from unittest import mock

from nova.scheduler import weights as nova_weights
from oslo_config import cfg

from nova_pinning.scheduler import errorlog
from nova_pinning.scheduler import filters
from nova_pinning.scheduler import fitting
from nova_pinning.scheduler import requests
from nova_pinning.scheduler import weights
from nova_pinning.tests.unit import builders
from nova_pinning.tests.unit.oracle import oracle_cases
from nova_pinning.tests.unit import unit_base

_KINDS = filters.all_filters() + weights.all_weighers()


class TestOptions(unit_base.TestCase):

    def _read_file(self, text):
        path = self.create_tempfiles(
            [('nova', f'[pinning]\n{text}\n')], ext='.conf')[0]
        self.options.set_config_files([path])
        self.options.conf.reload_config_files()

    def test_good_values(self):
        self._read_file('unknown_host_class = refuse\nexclusive_l3 = yes')
        for kind in _KINDS:
            kind()

    def test_wrong_values(self):
        for line in (
                'unknown_host_class = maybe', 'on_error = Refuse!',
                'check_nova_claim = si', 'nova_claim_max_seconds = -1',
                'prefer_exclusive_l3 = perhaps', 'mode = look',
                'request_budget_seconds = nan', 'traits_max_age_seconds = 1h',
                'fragmentation_weight_multiplier = abc',
                'fragmentation_weight_multiplier = nan',
                'cache_locality_weight_multiplier = inf'):
            self._read_file(line)
            for kind in _KINDS:
                error = self.assertRaises(ValueError, kind)
                self.assertIn(line.split(' ', 1)[0], str(error))
                self.assertIsInstance(error, cfg.ConfigFileValueError)

    def test_metrics_without_their_extra(self):
        with mock.patch.dict(sys.modules, prometheus_client=None):
            for kind in _KINDS:
                kind()
            self._read_file('metrics_directory = /x')
            for kind in _KINDS:
                error = self.assertRaises(cfg.ConfigFileValueError, kind)
                self.assertIn('[pinning] metrics_directory', str(error))
                self.assertIn('nova-pinning[metrics]', str(error))


class TestChangedOptions(unit_base.TestCase, oracle_cases.TestCase):
    """Options in a file that changes while nova-scheduler runs."""

    def setUp(self):
        super().setUp()
        self.enterContext(mock.patch.object(
            requests, '_ERRORS', errorlog.ErrorLog()))
        self.enterContext(mock.patch.object(
            requests, '_is_overridden', False))
        self.path = pathlib.Path(
            self.create_tempfiles([('nova', '[pinning]\n')], ext='.conf')[0])
        self.options.set_config_files([str(self.path)])
        self.options.conf.reload_config_files()
        self.filters = [kind() for kind in filters.all_filters()]
        self.weighers = [kind() for kind in weights.all_weighers()]

    def _change(self, text):
        self.path.write_text(f'[pinning]\n{text}\n')
        # As oslo.service does on SIGHUP: nova asks for that.
        self.options.conf.mutate_config_files()

    def _passes(self, state=None):
        """Whether all filters pass a host; weighers must not raise."""
        spec = builders.spec(
            builders.guest_topology((1, 256)),
            {'hw:cpu_policy': 'dedicated'})
        state = state or builders.host_state('host1', builders.host_topology(
            oracle_cases.host_cell(0, range(4))))
        for weigher in self.weighers:
            weigher.weight_multiplier(state)
            weigher.weigh_objects(
                [nova_weights.WeighedHost(state, 0.0)], spec)
        return all(list(one.filter_all([state], spec)) for one in self.filters)

    def test_a_good_value_counts_from_then_on(self):
        unclear = builders.host_state('host1', builders.host_topology(
            oracle_cases.host_cell(0, [0, 1], shared=[0, 1])))
        for word, passes in (('refuse', False), ('shared', False),
                             ('allow', True), ('dedicated', True)):
            self._change(f'unknown_host_class = {word}')
            self.assertEqual(passes, self._passes(state=unclear), word)

    def test_wrong_values(self):
        """Those that were good last go on to apply."""
        for line in ('mode = look', 'unknown_host_class = maybe',
                     'check_nova_claim = si', 'on_error = Refuse!',
                     'nova_claim_max_seconds = -1',
                     'request_budget_seconds = nan',
                     'prefer_exclusive_l3 = perhaps',
                     'fragmentation_weight_multiplier = much',
                     'cache_locality_weight_multiplier = nan'):
            before = requests.current_options()
            with unit_base.log_records() as records:
                self._change(line)
                self.assertTrue(self._passes(), line)
            self.assertEqual(before, requests.current_options(), line)
            self.assertNotIn('Unexpected error', ' '.join(
                record.getMessage() for record in records), line)

    def test_the_log_says_what_is_wrong(self):
        self.path.write_text('[pinning]\nrequest_budget_seconds = nan\n')
        # Nova never does that, so nothing has been seen to.
        self.options.conf.reload_config_files()
        with unit_base.log_records() as records:
            for _request in range(3):
                self.assertTrue(self._passes())
        said, = [record for record in records if record.levelname == 'ERROR']
        self.assertEqual(
            'An option of [pinning] is wrong; those that were right last '
            'still apply: [pinning] request_budget_seconds = nan: a number is '
            'needed; further errors of this kind are counted, and logged '
            'every hour', said.getMessage())

    def test_read_again_without_any_request_in_between(self):
        """As in the parent of native threads' processes."""
        self._change('unknown_host_class = refuse')
        with unit_base.log_records() as records:
            self._change('unknown_host_class = allow\nmode = look')
        said, = [record for record in records if record.levelname == 'ERROR']
        self.assertIn("found 'look'", said.getMessage())
        options = requests.current_options()
        self.assertEqual(('refuse', 'enforce'),
                         (options.unknown_host_class, options.mode))
        # As oslo.service does, under eventlet outside of any try.
        self.options.conf.log_opt_values(mock.Mock(), logging.DEBUG)
        self._change('mode = observe')
        options = requests.current_options()
        self.assertEqual(('by-guests', 'observe'),
                         (options.unknown_host_class, options.mode))

    def test_a_wrong_policy_while_hosts_cannot_be_judged(self):
        for policy, passes in (('pass', True), ('refuse', False)):
            self._change(f'on_error = {policy}')
            self.assertTrue(self._passes())
            self._change('on_error = perhaps')
            with mock.patch.object(fitting, 'fit_on_host',
                                   side_effect=KeyError):
                self.assertEqual(passes, self._passes(), policy)

    def test_weighers_go_on_to_weigh(self):
        self._change('mode = perhaps')
        states = [builders.host_state(f'host{free}', builders.host_topology(
            oracle_cases.host_cell(0, range(free)))) for free in (4, 6)]
        spec = builders.spec(builders.guest_topology((4, 256)))
        full, half_full = self.weighers[0].weigh_objects(
            [nova_weights.WeighedHost(state, 0.0) for state in states], spec)
        self.assertGreater(full, half_full)

    def test_the_mode(self):
        full = builders.host_state('host1', builders.host_topology(
            oracle_cases.host_cell(0, [0], pinned=[0])))
        for mode, passes in (('observe', True), ('enforce', False)):
            self._change(f'mode = {mode}')
            self.assertEqual(passes, self._passes(state=full), mode)
