#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

"""A wrong option ends the start of nova-scheduler, naming itself."""

from oslo_config import cfg

from nova_pinning.scheduler import filters
from nova_pinning.scheduler import weights
from nova_pinning.tests.unit import base

_KINDS = filters.all_filters() + weights.all_weighers()


class TestOptions(base.TestCase):

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
                'check_nova_claim = si', 'nova_claim_max_permutations = 0',
                'exclusive_l3 = perhaps', 'traits_max_age_seconds = 1h',
                'traits_first_wait_seconds = nan',
                'fragmentation_weight_multiplier = abc',
                'fragmentation_weight_multiplier = nan',
                'cache_locality_weight_multiplier = inf',
                'fragmentation_recent_requests = 0'):
            self._read_file(line)
            for kind in _KINDS:
                error = self.assertRaises(ValueError, kind)
                self.assertIn(line.split(' ', 1)[0], str(error))
                self.assertIsInstance(error, cfg.ConfigFileValueError)
