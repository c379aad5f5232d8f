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

import hypothesis
from nova import objects
from nova.scheduler.filters import numa_topology_filter
from nova.virt import hardware

from nova_pinning.bridge import numa
from nova_pinning.model import Reason
from nova_pinning.scheduler import filters
from nova_pinning.scheduler import requests
from nova_pinning.tests.oracle import case as case_lib
from nova_pinning.tests.oracle import check
from nova_pinning.tests.oracle import compare
from nova_pinning.tests.oracle import oracle
from nova_pinning.tests.unit import base
from nova_pinning.tests.unit import builders
from nova_pinning.tests.unit.oracle import cases


def _as_scheduled(case):
    """The case with limits: in nova-scheduler there always are some."""
    data = case_lib.Case.parse(str(case)).data
    data['limits'] = data['limits'] or {
        'cpu': 16.0, 'ram': 1.5, 'network': None}
    return case_lib.Case(data)


def _refusal(state, spec):
    return filters.PinnedTopologyFilter().refusal(state, requests.read(spec))


class TestAgainstNova(base.TestCase, cases.TestCase):

    @base.settings(100)
    @hypothesis.given(builders.ANY_CASE)
    def test_same_where_nova_is_right(self, case):
        """Verdict, limits and candidates."""
        case = _as_scheduled(case)
        hypothesis.assume(not case.data['odd'])
        hypothesis.assume(not compare.compare(case, None).nova_wrong)
        with case.configured():
            their_state, their_spec = builders.scheduled(case)
            theirs = numa_topology_filter.NUMATopologyFilter().host_passes(
                their_state, their_spec)
            state, spec = builders.scheduled(case)
            ours = filters.PinnedTopologyFilter().host_passes(state, spec)
            if theirs and not ours:
                # Nova is right this time, but not always, with this guest.
                refusal = _refusal(*builders.scheduled(case))
                self.assertEqual(Reason.NOVA_WRONG, refusal.reason)
                self.assertIn('aborted', refusal.detail)
                return
        self.assertEqual(theirs, ours, str(case))
        if not theirs:
            self.assertEqual({}, state.limits)
            return
        self.assertEqual(
            their_state.allocation_candidates, state.allocation_candidates)
        self.assertEqual(
            their_state.limits['numa_topology'].obj_to_primitive(),
            state.limits['numa_topology'].obj_to_primitive())

    @base.settings(100)
    @hypothesis.given(builders.ANY_CASE)
    def test_what_passes_can_be_claimed(self, case):
        """By nova-compute's own function, on broken hosts as well."""
        case = _as_scheduled(case)
        with case.configured():
            state, spec = builders.scheduled(case)
            hypothesis.assume(
                filters.PinnedTopologyFilter().host_passes(state, spec))
            claimed = hardware.numa_fit_instance_to_host(*case.inputs())
        self.assertIsNotNone(claimed, str(case))
        self.assertEqual(
            set(), check.faults(case, oracle.answer_of(claimed)))

    @base.settings(100)
    @hypothesis.given(builders.ANY_CASE)
    def test_same_as_the_engine_but_for_novas_faults(self, case):
        case = _as_scheduled(case)
        with case.configured():
            outcome = numa.explain(*case.inputs())
            self.set_option('check_nova_claim', True)
            refusal = _refusal(*builders.scheduled(case))
            if outcome:
                self.assertTrue(
                    refusal is None or refusal.reason in (
                        Reason.NOVA_WRONG, Reason.NOVA_SLOW),
                    f'{refusal} {case}')
            else:
                self.assertIsNotNone(refusal, f'{outcome} {case}')
            self.set_option('check_nova_claim', False)
            refusal = _refusal(*builders.scheduled(case))
            self.assertEqual(bool(outcome), refusal is None, str(refusal))

    def test_siblings_that_overlap(self):
        """As many CPUs are listed as there are, but some of them twice."""
        for siblings in ([[0, 1], [1, 2]], [[0, 1], [0, 1]],
                         [[0], [0], [0], [0]]):
            for vcpus in (1, 2, 3, 4):
                for threads in (None, 'require'):
                    case = _as_scheduled(cases.case(
                        [cases.host_cell(0, range(4), siblings=siblings)],
                        cases.guest((vcpus, 256), threads=threads)))
                    explained = numa.explain(*case.inputs())
                    refusal = _refusal(*builders.scheduled(case))
                    self.assertEqual(
                        bool(explained), refusal is None,
                        f'{siblings}, {vcpus} vCPUs: {explained}, {refusal}')

    def test_siblings_of_other_cpus(self):
        """As many as there are dedicated CPUs, but none of them."""
        case = _as_scheduled(cases.case(
            [cases.host_cell(0, [1, 5], shared=[0, 4], siblings=[[0, 4]])],
            cases.guest((1, 256))))
        self.assertFalse(numa.explain(*case.inputs()))
        self.assertIsNotNone(_refusal(*builders.scheduled(case)))


class TestRefusals(base.TestCase, cases.TestCase):

    def _assert_refused(self, reason, text, state, spec):
        refusal = _refusal(state, spec)
        self.assertEqual(reason, refusal.reason)
        self.assertEqual(text, str(refusal))
        self.assertFalse(
            filters.PinnedTopologyFilter().host_passes(state, spec))
        self.assertNotIn('numa_topology', state.limits)

    def test_no_room(self):
        state, spec = builders.scheduled(_as_scheduled(cases.full()))
        self._assert_refused(
            Reason.FREE_CPUS, 'cell 0 has 1 free dedicated CPUs, 2 needed; '
            'cell 1 has 1 free dedicated CPUs, 2 needed', state, spec)

    def test_no_topology(self):
        state, spec = builders.scheduled(cases.plain())
        state.numa_topology = None
        self._assert_refused(
            Reason.NO_TOPOLOGY, 'the host reports no NUMA topology',
            state, spec)

    def test_no_candidates(self):
        state, spec = builders.scheduled(cases.plain())
        state.allocation_candidates = []
        self._assert_refused(
            Reason.ALLOCATION, 'Placement offers no allocation on this host',
            state, spec)

    def test_broken_topologies(self):
        state, spec = builders.scheduled(cases.plain())
        del state.numa_topology.cells[0]._obj_pcpuset
        self._assert_refused(
            Reason.BROKEN_TOPOLOGY, 'a NUMA topology is broken: cell 0: '
            'field pcpuset is not set', state, spec)
        state, spec = builders.scheduled(cases.plain())
        spec.numa_topology.cells[0]._obj_cpu_policy = 'lavish'
        self.assertEqual(
            Reason.BROKEN_TOPOLOGY, _refusal(state, spec).reason)

    def test_novas_claim(self):
        case = cases.uneven_cpus()
        state, spec = builders.scheduled(case)
        self._assert_refused(
            Reason.NOVA_WRONG, "the guest fits, but nova-compute's own claim "
            'would come out wrong: it finds no place', state, spec)
        self.set_option('check_nova_claim', False)
        self.assertIsNone(_refusal(*builders.scheduled(case)))

    def test_slow_claims(self):
        case = cases.case(
            [cases.host_cell(number, [number], memory_used=128 * number,
                             pages=[]) for number in range(8)] +
            [cases.host_cell(8, [8, 9], memory_used=3584, pages=[],
                             pinned=[])],
            cases.guest((1, 2048), (1, 512), (2, 256)), pack=True)
        with case.configured():
            state, spec = builders.scheduled(case)
            self.set_option('nova_claim_max_permutations', 1)
            refusal = _refusal(state, spec)
            self.assertEqual(Reason.NOVA_SLOW, refusal.reason)
            self.set_option('check_nova_claim', False)
            self.assertIsNone(_refusal(*builders.scheduled(case)))


class TestThreads(cases.TestCase):
    """The check of nova's filter for hosts without hardware threads."""

    def _both(self, topology, extra_specs, image):
        def ask(kind):
            return kind().host_passes(
                builders.host_state(topology=topology),
                builders.spec(None, extra_specs, image))

        return (ask(numa_topology_filter.NUMATopologyFilter),
                ask(filters.PinnedTopologyFilter))

    def test_against_nova(self):
        without = builders.host_topology(cases.host_cell(0, [0, 1]))
        with_threads = builders.host_topology(
            cases.host_cell(0, [0, 1], siblings=[[0, 1]]))
        policies = (None, 'shared', 'dedicated', 'mixed')
        threads = (None, 'prefer', 'isolate', 'require')
        verdicts = set()
        for topology in (None, without, with_threads):
            for cpu in policies:
                for thread in threads:
                    for flavor_cpu in (True, False):
                        for flavor_thread in (True, False):
                            flavor, image = {}, {}
                            if cpu and flavor_cpu:
                                flavor['hw:cpu_policy'] = cpu
                            elif cpu:
                                image['hw_cpu_policy'] = cpu
                            if thread and flavor_thread:
                                flavor['hw:cpu_thread_policy'] = thread
                            elif thread:
                                image['hw_cpu_thread_policy'] = thread
                            nova, ours = self._both(topology, flavor, image)
                            self.assertEqual(nova, ours, (flavor, image))
                            verdicts.add(ours)
        self.assertEqual({True, False}, verdicts)


class TestPasses(cases.TestCase):

    def test_guests_without_topology(self):
        """Whatever the host may look like; and nothing is noted down."""
        for topology in (
                None, builders.host_topology(cases.host_cell(0, [0]))):
            state = builders.host_state(
                topology=topology, allocation_candidates=[])
            spec = builders.spec()
            self.assertTrue(
                filters.PinnedTopologyFilter().host_passes(state, spec))
            self.assertEqual({}, state.limits)

    def test_rebuild(self):
        """Nova does not ask again where a rebuilt guest is already."""
        state, spec = builders.scheduled(cases.full())
        chosen = filters.PinnedTopologyFilter()
        self.assertEqual([], list(chosen.filter_all([state], spec)))
        spec.scheduler_hints = {'_nova_check_type': ['rebuild']}
        self.assertEqual([state], list(chosen.filter_all([state], spec)))
        self.assertEqual({}, state.limits)

    def test_ratios_of_the_host_are_the_limits(self):
        state, spec = builders.scheduled(cases.plain())
        state.cpu_allocation_ratio, state.ram_allocation_ratio = 3.0, 1.25
        spec.network_metadata = objects.NetworkMetadata(
            physnets={'red'}, tunneled=True)
        self.assertTrue(
            filters.PinnedTopologyFilter().host_passes(state, spec))
        limits = state.limits['numa_topology']
        self.assertEqual((3.0, 1.25), (
            limits.cpu_allocation_ratio, limits.ram_allocation_ratio))
        self.assertEqual({'red'}, limits.network_metadata.physnets)
        self.assertTrue(limits.network_metadata.tunneled)

    def test_spec_is_left_alone(self):
        state, spec = builders.scheduled(_as_scheduled(cases.uneven_cpus()))
        before = spec.obj_to_primitive()
        filters.PinnedTopologyFilter().host_passes(state, spec)
        self.assertEqual(before, spec.obj_to_primitive())


class TestCandidates(cases.TestCase):
    """Allocation candidates that differ in the devices they allot."""

    def setUp(self):
        super().setUp()
        self.case = cases.case(
            [cases.host_cell(0, [0, 1]),
             cases.host_cell(1, [2, 3], pinned=[2, 3])],
            cases.guest((1, 256)), pci={
                'pools': [
                    {'vendor_id': '8086', 'product_id': '1520', 'count': 1,
                     'numa_node': node, 'dev_type': 'type-PCI',
                     'rp_uuid': case_lib.provider_id(node)}
                    for node in (0, 1)],
                'requests': [
                    {'count': 1, 'spec': [{'vendor_id': '8086'}],
                     'alias': 'nic', 'policy': 'required'}],
                'mapping': {}})

    def _candidates(self, *nodes):
        return [{'mappings': {f'{case_lib.request_id(0)}-0': [
            case_lib.provider_id(node)]}} for node in nodes]

    def _narrowed(self, kind, candidates):
        state, spec = builders.scheduled(self.case)
        state.allocation_candidates = candidates
        passes = kind().host_passes(state, spec)
        return passes, state.allocation_candidates

    def test_against_nova(self):
        for nodes in ((0,), (1,), (0, 1), (1, 0), (1, 0, 1, 0), (1, 1)):
            theirs = self._narrowed(
                numa_topology_filter.NUMATopologyFilter,
                self._candidates(*nodes))
            ours = self._narrowed(
                filters.PinnedTopologyFilter, self._candidates(*nodes))
            self.assertEqual(0 in nodes, ours[0], nodes)
            self.assertEqual(theirs[0], ours[0], nodes)
            if ours[0]:
                self.assertEqual(theirs[1], ours[1], nodes)
                self.assertEqual(
                    self._candidates(*[0] * nodes.count(0)), ours[1])
