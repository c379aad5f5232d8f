# SPDX-License-Identifier: Apache-2.0
"""What nova's fit logs while it is asked on behalf of the scheduler."""

import logging

from nova.virt import hardware
from oslotest import base as oslotest

from nova_pinning.bridge import claim
from nova_pinning.bridge import topology
from nova_pinning import fit
from nova_pinning.fit import known_defects
from nova_pinning.tests.unit.oracle import oracle_cases
from nova_pinning.tests.unit import unit_base


class TestHush(oslotest.BaseTestCase):

    def _records(self, case, is_asked):
        inputs = case.inputs()
        attempt = known_defects.ClaimAttempt(
            topology.host_from_nova(inputs.host_topology),
            topology.guest_from_nova(inputs.instance_topology))
        choice = fit.choose_cells(attempt.host, attempt.guest)
        with unit_base.log_records(
                hardware.__name__, logging.INFO) as records, case.configured():
            if is_asked:
                self.assertIsNotNone(
                    claim.predict_claim(
                        claim.NovaGuest(attempt.guest), inputs.host_topology,
                        attempt, choice, known_defects.ClaimBounds(1.0)))
            else:
                hardware.numa_fit_instance_to_host(*inputs)
        return records

    def test_only_what_we_ask(self):
        case = oracle_cases.uneven_cpus()
        self.assertEqual([], self._records(case, is_asked=True))
        self.assertNotEqual([], self._records(case, is_asked=False))
