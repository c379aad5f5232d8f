# SPDX-License-Identifier: Apache-2.0
"""What the devstack plugin writes is what its readers take.

Its other tests are in devstack/tests and run under bats.
"""

import pathlib
import re
import subprocess
import unittest

import ddt
from nova.compute import provider_config
from oslotest import base

import nova_pinning
from nova_pinning.tempest_plugin import config

CHECKOUT = pathlib.Path(nova_pinning.__file__).resolve().parent.parent
PLUGIN = CHECKOUT / 'devstack' / 'plugin.sh'


@unittest.skipUnless(PLUGIN.is_file(), 'not run from a checkout')
@ddt.ddt
class DevstackTest(base.BaseTestCase):

    def test_tempest_options_exist(self):
        text = PLUGIN.read_text()
        [listed] = re.findall(
            r'^_NOVA_PINNING_TEMPEST_OPTIONS=\(([^)]*)\)', text, re.MULTILINE)
        written = {*listed.split(), 'isolated_aggregates', 'cpu_sets'}
        self.assertEqual({option.dest for option in config.OPTIONS}, written)
        self.assertEqual('pinning', config.GROUP.name)

    @ddt.data('dedicated', 'shared')
    def test_nova_can_read_the_provider_config(self, host_class):
        text = subprocess.run(
            ['bash', '-c', 'NOVA_PINNING_STATE_DIR=/nonexistent; '
             'source "$0"; nova_pinning_provider_config "$1"',
             str(PLUGIN), host_class],
            check=True, capture_output=True, text=True).stdout
        path = self.create_tempfiles([('nova-pinning', text)], '.yaml')[0]
        [(identity, entry)] = provider_config.get_provider_configs(
            str(pathlib.Path(path).parent)).items()
        self.assertEqual('$COMPUTE_NODE', identity)
        self.assertEqual([f'CUSTOM_PINNING_{host_class.upper()}'],
                         entry['traits']['additional'])
