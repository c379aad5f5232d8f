# SPDX-License-Identifier: Apache-2.0

import re
import types

from oslo_config import cfg
from oslotest import base as oslotest

from nova_pinning import conf
from nova_pinning.conf import opts
from nova_pinning.conf import pinning


class TestOptions(oslotest.BaseTestCase):

    def _read(self, text=''):
        """Options of their own, read from a file with this text."""
        path = self.create_tempfiles([('nova', text)], ext='.conf')[0]
        options = cfg.ConfigOpts()
        options(['--config-file', path], project='nova')
        pinning.register_opts(options)
        return options.pinning

    def test_defaults(self):
        options = self._read()
        self.assertEqual({
            'mode': 'enforce',
            'unknown_host_class': 'by-guests',
            'on_error': 'by-class',
            'check_nova_claim': True,
            'nova_claim_max_seconds': 1.0,
            'request_budget_seconds': 5.0,
            'metrics_directory': None,
            'metrics_interval_seconds': 15,
            'traits_refresh_seconds': 60,
            'traits_max_age_seconds': 3600,
            'fragmentation_weight_multiplier': 8.0,
            'fragmentation_mix': None,
            'cache_locality_weight_multiplier': 4.0,
            'prefer_exclusive_l3': False,
        }, {name: options[name] for name in options})

    def test_a_mix(self):
        options = self._read(
            '[pinning]\n'
            'fragmentation_mix = vcpus:8,memory_mib:16384,weight:3\n'
            'fragmentation_mix = vcpus:16, memory_mib:1\n')
        self.assertEqual(
            [{'vcpus': '8', 'memory_mib': '16384', 'weight': '3'},
             {'vcpus': '16', 'memory_mib': '1'}], options.fragmentation_mix)

    def test_errors_name_the_option(self):
        for name, value in (
                ('unknown_host_class', 'reject'),
                ('on_error', 'raise'),
                ('check_nova_claim', 'perhaps'),
                ('mode', 'watch'),
                ('nova_claim_max_seconds', '-1'),
                ('nova_claim_max_seconds', 'many'),
                ('request_budget_seconds', '-0.5'),
                ('metrics_interval_seconds', '0'),
                ('traits_refresh_seconds', '-1'),
                ('traits_refresh_seconds', '1m'),
                ('traits_max_age_seconds', '-1'),
                ('fragmentation_weight_multiplier', 'much'),
                ('fragmentation_mix', 'vcpus=8'),
                ('cache_locality_weight_multiplier', '1,5'),
                ('prefer_exclusive_l3', 'maybe')):
            options = self._read(f'[pinning]\n{name} = {value}\n')
            error = self.assertRaises(
                cfg.ConfigFileValueError, getattr, options, name)
            self.assertIn(name, str(error))

    def test_ages_that_can_be_kept(self):
        for refresh, max_age, is_good in (
                (60, 120, True), (60, 0, True), (0, 0, True), (0, 1, True),
                (60, 119, False), (60, 1, False)):
            options = types.SimpleNamespace(pinning=self._read(
                f'[pinning]\ntraits_refresh_seconds = {refresh}\n'
                f'traits_max_age_seconds = {max_age}\n'))
            if is_good:
                pinning.check(options)
            else:
                error = self.assertRaises(
                    cfg.ConfigFileValueError, pinning.check, options)
                self.assertEqual(
                    f'[pinning] traits_max_age_seconds = {max_age}: must be 0 '
                    f'or at least twice traits_refresh_seconds, which is '
                    f'{refresh}', str(error))

    def test_every_option_says_when_to_change_it(self):
        verbs = re.compile(r'\b([Ss]et|Turn|Raise|Lower)\b')
        for group, options in opts.list_opts():
            self.assertEqual('pinning', group.name)
            self.assertTrue(group.help)
            for option in options:
                self.assertRegex(option.help, verbs, option.name)
                self.assertTrue(option.help.rstrip().endswith('.'))

    def test_list_has_all_that_is_registered(self):
        listed = {option.name for _group, options in opts.list_opts()
                  for option in options}
        self.assertEqual(listed, set(conf.CONF.pinning))

    def test_registered_twice(self):
        pinning.register_opts(conf.CONF)
