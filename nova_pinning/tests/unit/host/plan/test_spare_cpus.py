# SPDX-License-Identifier: Apache-2.0
"""What a plan proposes to do with CPUs that stay unsold."""

import dataclasses
import re

import ddt
import hypothesis
from oslotest import base as oslotest

from nova_pinning import errors
from nova_pinning.host.plan import plan_request
from nova_pinning.host.plan import planner
from nova_pinning.tests.unit.host.plan import sample_hosts
from nova_pinning.tests.unit.host.plan import test_planner
from nova_pinning.tests.unit import unit_base


@ddt.ddt
class TestStrandedCpus(oslotest.BaseTestCase):

    @ddt.data(({}, 4, ''), (
        dict(pci_devices=(test_planner.nic(1, 0, 60000),)), 4,
        ', and 4 CPUs for the host may not keep up with NICs of 60 Gbit/s'))
    @ddt.unpack
    def test_stranded_cpus_are_put_to_use(self, values, host_cpus, nics):
        wanted = plan_request.PlanOptions(
            host_cpus=host_cpus, sizes=test_planner.sizes((8,)))
        planned = planner.plan(test_planner.xeon(**values), wanted)
        warning, = planned.plan.warnings
        self.assertEqual(('stranded-cpus', (
            '4 CPUs stay unsold when the mix is full, while emulator threads, '
            "and vhost threads with them, run on the guests' own CPUs"
            f'{nics}')), (warning.code, warning.message))
        self.assertIn('--shared-cpus 4 has emulator threads on them',
                      warning.advice)
        self.assertIn('--host-cpus 8 has them for the host', warning.advice)
        self.assertIn('sells the same 9 guests', warning.advice)
        # It is true, and there is nothing left to propose then.
        for key, number in (('shared_cpus', 4), ('host_cpus', 8)):
            other = planner.plan(
                test_planner.xeon(**values),
                dataclasses.replace(wanted, **{key: number}))
            self.assertEqual(planned.plan.offer.sales[0].alone,
                             other.plan.offer.sales[0].alone)
            self.assertNotIn('stranded-cpus', test_planner.codes(other))

    def test_stranded_cpus_that_are_of_use_to_some_guests(self):
        """What a size of its own would lose is not proposed."""
        wanted = plan_request.PlanOptions(
            host_cpus=4, sizes=test_planner.sizes((8, 5), (4, 1)))
        planned = planner.plan(test_planner.xeon(), wanted)
        self.assertEqual(19, planned.plan.offer.sales[1].alone)
        self.assertIn('no-emulator-cpus', test_planner.codes(planned))
        self.assertNotIn('stranded-cpus', test_planner.codes(planned))

    @unit_base.settings(max_examples=30)
    @hypothesis.given(sample_hosts.any_host(), test_planner.requests())
    def test_what_is_proposed_sells_the_same(self, description, wanted):
        try:
            planned = planner.plan(description, wanted)
        except errors.InputError:
            return
        for warning in planned.plan.warnings:
            if warning.code != 'stranded-cpus':
                continue
            for option, number in re.findall(
                    r'--(host|shared)-cpus (\d+)', warning.advice):
                other = planner.plan(description, dataclasses.replace(
                    wanted, sizes=planned.plan.sizes, choice=1,
                    **{f'{option}_cpus': int(number)}))
                for before, now in zip(planned.plan.offer.sales,
                                       other.plan.offer.sales):
                    self.assertGreaterEqual(now.alone, before.alone)
