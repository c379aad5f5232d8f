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

"""What nova's fit logs while it is asked on behalf of the scheduler."""

import logging

from nova.virt import hardware
from oslotest import base as oslotest

from nova_pinning.bridge import claim
from nova_pinning.bridge import topology
from nova_pinning import fit
from nova_pinning.tests.unit import base
from nova_pinning.tests.unit.oracle import cases


class TestHush(oslotest.BaseTestCase):

    def _records(self, case, is_asked):
        inputs = case.inputs()
        attempt = claim.Attempt(
            topology.host_from_nova(inputs.host_topology),
            topology.guest_from_nova(inputs.instance_topology))
        choice = fit.choose_cells(attempt.host, attempt.guest)
        arguments = claim.NovaArguments(*inputs)
        with base.log_records(
                hardware.__name__, logging.INFO) as records, case.configured():
            if is_asked:
                self.assertIsNotNone(
                    claim.foresee(arguments, attempt, choice, 1000))
            else:
                hardware.numa_fit_instance_to_host(*arguments)
        return records

    def test_only_what_we_ask(self):
        case = cases.uneven_cpus()
        self.assertEqual([], self._records(case, is_asked=True))
        self.assertNotEqual([], self._records(case, is_asked=False))
