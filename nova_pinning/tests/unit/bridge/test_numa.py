# SPDX-License-Identifier: Apache-2.0

import hypothesis
from nova import objects
from nova.virt import hardware

from nova_pinning.bridge import numa
from nova_pinning.model import Reason
from nova_pinning.tests.oracle import oracle
from nova_pinning.tests.oracle import oracle_compare
from nova_pinning.tests.oracle import stand_in
from nova_pinning.tests.unit import builders
from nova_pinning.tests.unit.oracle import oracle_cases
from nova_pinning.tests.unit import unit_base


def _primitives(inputs):
    """All that the arguments hold, to be compared later."""
    return [
        inputs.host_topology.obj_to_primitive(),
        inputs.instance_topology.obj_to_primitive(),
        inputs.provider_mapping and dict(inputs.provider_mapping),
        inputs.limits and inputs.limits.obj_to_primitive(),
        inputs.pci_requests and [
            pci_request.obj_to_primitive()
            for pci_request in inputs.pci_requests],
        inputs.pci_stats and [dict(pool) for pool in inputs.pci_stats.pools]]


class TestFit(oracle_cases.TestCase):

    @unit_base.settings(80)
    @hypothesis.given(builders.ANY_CASE)
    def test_changes_no_arguments(self, case):
        inputs = case.inputs()
        before = _primitives(inputs)
        with case.configured():
            answer = stand_in.numa_fit_instance_to_host(*inputs)
        self.assertEqual(before, _primitives(inputs))
        if answer:
            # The answer shares nothing with the question either.
            for cell in answer.cells:
                cell.cpuset.add(99)
                cell.pcpuset.add(99)
            self.assertEqual(before, _primitives(inputs))

    @unit_base.settings(80)
    @hypothesis.given(builders.ANY_CASE)
    def test_explains_what_it_does(self, case):
        with case.configured():
            answer = stand_in.numa_fit_instance_to_host(*case.inputs())
            outcome = numa.fit_or_refusal(*case.inputs())
        self.assertEqual(answer is not None, bool(outcome))
        self.assertIn(' ', str(outcome))

    @unit_base.settings(80)
    @hypothesis.given(builders.ANY_CASE)
    def test_fills_in_the_fields_that_nova_does(self, case):
        """Where the answers agree, whoever reads them finds the same."""
        with case.configured():
            ours = stand_in.numa_fit_instance_to_host(*case.inputs())
            try:
                novas = hardware.numa_fit_instance_to_host(*case.inputs())
            except Exception:
                novas = None
        hypothesis.assume(ours and novas and (
            oracle.answer_of(ours) == oracle.answer_of(novas)))
        self.assertEqual(
            novas.emulator_threads_policy, ours.emulator_threads_policy)
        for mine, theirs in zip(ours.cells, novas.cells):
            for field in theirs.fields:
                self.assertEqual(field in theirs, field in mine, field)
                if field in theirs:
                    self.assertEqual(
                        getattr(theirs, field), getattr(mine, field), field)


class TestExplain(oracle_cases.TestCase):

    def _explain(self, case, **values):
        inputs = case.inputs()._replace(**values)
        return (numa.fit_or_refusal(*inputs),
                stand_in.numa_fit_instance_to_host(*inputs))

    def _assert_refused(self, reason, case, **values):
        outcome, answer = self._explain(case, **values)
        self.assertIsNone(answer)
        self.assertEqual(reason, outcome.reason)

    def test_nothing_to_fit(self):
        for name in ('host_topology', 'instance_topology'):
            self._assert_refused(
                Reason.NO_TOPOLOGY, oracle_cases.plain(), **{name: None})
        self._assert_refused(
            Reason.NO_TOPOLOGY, oracle_cases.plain(),
            host_topology=objects.NUMATopology(cells=[]))

    def test_broken(self):
        host = oracle_cases.plain().host()
        del host.cells[1]._obj_pcpuset
        self._assert_refused(
            Reason.BROKEN_TOPOLOGY, oracle_cases.plain(), host_topology=host)
        guest = oracle_cases.plain().guest()
        del guest.cells[0]._obj_memory
        self._assert_refused(Reason.BROKEN_TOPOLOGY,
                             oracle_cases.plain(),
                             instance_topology=guest)

    def test_limits(self):
        host = [oracle_cases.host_cell(0, shared=[0, 1], cpu_usage=3)]
        guest = {'cells': [{'dedicated': [], 'shared': [0, 1],
                            'memory': 256}], 'policy': None}
        for limits, fits in (
                (None, True),
                ({'cpu': 2.0, 'ram': 1.0, 'network': None}, False),
                ({'cpu': 4.0, 'ram': 1.0, 'network': None}, True)):
            outcome, answer = self._explain(
                oracle_cases.case(host, oracle_cases.guest() | guest,
                                  limits=limits))
            self.assertEqual((fits, fits), (bool(outcome), bool(answer)))

    def test_networks_come_with_the_limits(self):
        host = [
            oracle_cases.host_cell(0, [0, 1, 2]),
            oracle_cases.host_cell(1, [3, 4],
                                   network={'physnets': ['red'],
                                            'tunneled': False})]
        limits = {'cpu': 1.0, 'ram': 1.0,
                  'network': {'physnets': ['red'], 'tunneled': False}}
        for with_network, cell in ((limits, 1), (None, 0)):
            _outcome, answer = self._explain(oracle_cases.case(
                host, oracle_cases.guest((1, 256)), limits=with_network))
            self.assertEqual([cell], [cell.id for cell in answer.cells])

    def test_packing_is_an_option_of_novas(self):
        host = [oracle_cases.host_cell(0, [0, 1], memory_used=2048),
                oracle_cases.host_cell(1, [2, 3])]
        for pack, cell in ((False, 1), (True, 0)):
            case = oracle_cases.case(host, oracle_cases.guest((1, 256)),
                                     pack=pack)
            with case.configured():
                self.assertEqual(pack, numa.packs_cells())
                _outcome, answer = self._explain(case)
            self.assertEqual([cell], [cell.id for cell in answer.cells])


class TestNovaIsWrong(oracle_cases.TestCase):
    """Where nova's function goes wrong, ours does not."""

    def test_known_kinds(self):
        for case, fits in (
                (oracle_cases.uneven_memory(), False),
                (oracle_cases.uneven_cpus(), True),
                (oracle_cases.sticky_page_size(), True),
                (oracle_cases.half_used_core(), False)):
            with case.configured():
                ours = stand_in.numa_fit_instance_to_host(*case.inputs())
            self.assertEqual(fits, ours is not None, str(case))
            verdict = oracle_compare.compare(
                case, stand_in.numa_fit_instance_to_host, numa.fit_or_refusal)
            self.assertNotEqual(set(), verdict.nova_wrong, str(case))

    def test_a_missing_field_of_the_request(self):
        guest = builders.guest_topology((1, 256))
        del guest._obj_emulator_threads_policy
        answer = stand_in.numa_fit_instance_to_host(
            oracle_cases.plain().host(), guest, None)
        self.assertIsNone(answer.emulator_threads_policy)
