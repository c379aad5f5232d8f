# SPDX-License-Identifier: Apache-2.0

from unittest import mock

import hypothesis
from nova import objects
from nova.scheduler.filters import numa_topology_filter
from nova.virt import hardware

from nova_pinning.bridge import numa
from nova_pinning import fit
from nova_pinning.model import Reason
from nova_pinning.scheduler import filters
from nova_pinning.scheduler import requests
from nova_pinning.tests.oracle import oracle
from nova_pinning.tests.oracle import oracle_case
from nova_pinning.tests.oracle import oracle_check
from nova_pinning.tests.oracle import oracle_compare
from nova_pinning.tests.unit import builders
from nova_pinning.tests.unit.oracle import oracle_cases
from nova_pinning.tests.unit import unit_base


def _as_scheduled(case):
    """The case with limits and pages, which nova-scheduler always has."""
    data = oracle_case.Case.parse(str(case)).data
    data['limits'] = data['limits'] or {
        'cpu': 16.0, 'ram': 1.5, 'network': None}
    for cell in data['host']:
        # Without, nova fits a guest there and cannot count it.
        cell['pages'] = cell['pages'] or [[4, 256 * cell['memory'], 0, 0]]
    return oracle_case.Case(data)


def _refusal(state, spec):
    return filters.PinnedTopologyFilter().refusal(state, requests.read(spec))


class TestAgainstNova(unit_base.TestCase, oracle_cases.TestCase):

    @unit_base.settings(100)
    @hypothesis.given(builders.ANY_CASE)
    def test_same_where_nova_is_right(self, case):
        """Verdict, limits and candidates."""
        case = _as_scheduled(case)
        hypothesis.assume(not case.data['odd'])
        hypothesis.assume(not oracle_compare.compare(case, None).nova_wrong)
        with case.configured():
            their_state, their_spec = builders.scheduled(case)
            theirs = numa_topology_filter.NUMATopologyFilter().host_passes(
                their_state, their_spec)
            state, spec = builders.scheduled(case)
            ours = filters.PinnedTopologyFilter().host_passes(state, spec)
        self.assertEqual(theirs, ours, str(case))
        if not theirs:
            self.assertEqual({}, state.limits)
            return
        self.assertEqual(
            their_state.allocation_candidates, state.allocation_candidates)
        self.assertEqual(
            their_state.limits['numa_topology'].obj_to_primitive(),
            state.limits['numa_topology'].obj_to_primitive())

    @unit_base.settings(100)
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
            set(), oracle_check.faults(case, oracle.answer_of(claimed)))

    @unit_base.settings(100)
    @hypothesis.given(builders.ANY_CASE)
    def test_same_as_the_engine_but_for_novas_faults(self, case):
        case = _as_scheduled(case)
        with case.configured():
            outcome = numa.fit_or_refusal(*case.inputs())
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

    def test_cpus_that_are_being_freed(self):
        """Placement offers a host whose topology is not that far yet."""
        def refusal(asked, taken, **changes):
            case = _as_scheduled(oracle_cases.case(
                [oracle_cases.host_cell(
                    0, range(4), pinned=list(range(taken)))],
                oracle_cases.guest((asked, 256))))
            state, spec = builders.scheduled(case)
            state.allocation_candidates = [{
                'mappings': {}, 'allocations': {state.uuid: {
                    'resources': {'PCPU': asked}}}}]
            for name, value in changes.items():
                setattr(spec, name, value)
            return _refusal(state, spec)

        self.assertIsNone(refusal(2, 2))
        found = refusal(2, 3)
        self.assertEqual(Reason.CPUS_BEING_FREED, found.reason)
        self.assertEqual(
            'Placement counts CPUs as free that nova-compute counts as '
            'taken: 1 CPU is being freed or has just been taken, 1 is free, '
            '2 needed', str(found))
        self.assertIn('2 CPUs are being freed or have just been taken, 0 are '
                      'free, 2 needed', str(refusal(2, 4)))
        # The guests before it in a request are in no allocation yet.
        self.assertEqual(Reason.FREE_CPUS,
                         refusal(2, 3, num_instances=2).reason)

    def test_siblings_that_overlap(self):
        """As many CPUs are listed as there are, but some of them twice."""
        for siblings in ([[0, 1], [1, 2]], [[0, 1], [0, 1]],
                         [[0], [0], [0], [0]]):
            for vcpus in (1, 2, 3, 4):
                for threads in (None, 'require'):
                    case = _as_scheduled(oracle_cases.case(
                        [oracle_cases.host_cell(
                            0, range(4), siblings=siblings)],
                        oracle_cases.guest((vcpus, 256), threads=threads)))
                    explained = numa.fit_or_refusal(*case.inputs())
                    refusal = _refusal(*builders.scheduled(case))
                    self.assertEqual(
                        bool(explained), refusal is None,
                        f'{siblings}, {vcpus} vCPUs: {explained}, {refusal}')

    def test_siblings_of_other_cpus(self):
        """As many as there are dedicated CPUs, but none of them."""
        case = _as_scheduled(oracle_cases.case(
            [oracle_cases.host_cell(0, [1, 5], shared=[0, 4],
                                    siblings=[[0, 4]])],
            oracle_cases.guest((1, 256))))
        self.assertFalse(numa.fit_or_refusal(*case.inputs()))
        self.assertIsNotNone(_refusal(*builders.scheduled(case)))


class TestRefusals(unit_base.TestCase, oracle_cases.TestCase):

    def _assert_refused(self, reason, text, state, spec):
        refusal = _refusal(state, spec)
        self.assertEqual(reason, refusal.reason)
        self.assertEqual(text, str(refusal))
        self.assertFalse(
            filters.PinnedTopologyFilter().host_passes(state, spec))
        self.assertNotIn('numa_topology', state.limits)

    def test_no_room(self):
        state, spec = builders.scheduled(_as_scheduled(oracle_cases.full()))
        self._assert_refused(
            Reason.FREE_CPUS, 'cell 0 has 1 free dedicated CPUs, 2 needed; '
            'cell 1 has 1 free dedicated CPUs, 2 needed', state, spec)

    def test_no_topology(self):
        state, spec = builders.scheduled(oracle_cases.plain())
        state.numa_topology = None
        self._assert_refused(
            Reason.NO_TOPOLOGY, 'the host reports no NUMA topology',
            state, spec)

    def test_no_candidates(self):
        state, spec = builders.scheduled(oracle_cases.plain())
        state.allocation_candidates = []
        self._assert_refused(
            Reason.ALLOCATION, 'Placement offers no allocation on this host',
            state, spec)

    def test_broken_topologies(self):
        state, spec = builders.scheduled(oracle_cases.plain())
        del state.numa_topology.cells[0]._obj_pcpuset
        self._assert_refused(
            Reason.BROKEN_TOPOLOGY, 'a NUMA topology is broken: cell 0: '
            'field pcpuset is not set', state, spec)
        state, spec = builders.scheduled(oracle_cases.plain())
        spec.numa_topology.cells[0]._obj_cpu_policy = 'lavish'
        self.assertEqual(
            Reason.BROKEN_TOPOLOGY, _refusal(state, spec).reason)

    def test_novas_claim(self):
        case = oracle_cases.uneven_cpus()
        state, spec = builders.scheduled(case)
        self._assert_refused(
            Reason.NOVA_WRONG, "the guest fits, but nova-compute's own claim "
            'would come out wrong: it finds no host cells', state, spec)
        self.set_option('check_nova_claim', False)
        self.assertIsNone(_refusal(*builders.scheduled(case)))

    def test_realtime_guests_without_shared_cpus(self):
        """Nova-compute would fail to start them."""
        realtime = {'hw:cpu_realtime': 'yes', 'hw:cpu_realtime_mask': '^0',
                    'hw:cpu_policy': 'dedicated',
                    'hw:emulator_threads_policy': 'share'}
        without = builders.host_topology(oracle_cases.host_cell(0, [0, 1]))
        with_shared = builders.host_topology(
            oracle_cases.host_cell(0, [0, 1], shared=[2]))
        legacy = builders.host_topology(
            oracle_cases.host_cell(0, [0, 1], shared=[0, 1]))
        for topology, specs, is_refused in (
                (without, realtime, True), (with_shared, realtime, False),
                (legacy, realtime, False),
                (without, realtime | {'hw:cpu_realtime': 'no'}, False),
                (without, realtime | {'hw:emulator_threads_policy': 'isolate'},
                 False)):
            refusal = _refusal(
                builders.host_state(topology=topology),
                builders.spec(builders.guest_topology((1, 256)), specs))
            self.assertEqual(is_refused, refusal is not None, specs)
            if is_refused:
                self.assertEqual(Reason.NOVA_START, refusal.reason)
                self.assertIn('cpu_shared_set', str(refusal))


class TestSecondTier(unit_base.TestCase, oracle_cases.TestCase):
    """Hosts that are for guests that find no other."""

    #: The second pair of cells in nova's order is the right one.
    CROSSED = [oracle_cases.host_cell(0, range(4)),
               oracle_cases.host_cell(1, range(4, 6))]
    EASY = [oracle_cases.host_cell(0, range(2)),
            oracle_cases.host_cell(1, range(2, 6))]

    def _passed(self, guest, **cells):
        spec = builders.spec(
            oracle_case.Case(oracle_cases.case([], guest).data).guest())
        with unit_base.log_records() as records:
            found = list(filters.PinnedTopologyFilter().filter_all(
                [builders.host_state(name, builders.host_topology(*host))
                 for name, host in cells.items()], spec))
        self.said = records[-1].getMessage() if records else ''
        return [state.host for state in found]

    def test_a_second_attempt_that_is_accepted_though_wrong(self):
        """One host at a time, since nova takes alternates from the rest."""
        guest = oracle_cases.guest((2, 256), (4, 256))
        self.assertEqual(['easy'], self._passed(
            guest, one=self.CROSSED, easy=self.EASY, two=self.CROSSED))
        self.assertEqual(['one'], self._passed(
            guest, one=self.CROSSED, two=self.CROSSED))
        self.assertIn(
            "1 host: nova-compute's claim could come out wrong if one "
            'elsewhere was aborted before (one: ', self.said)

    def test_a_second_attempt_that_finds_no_place(self):
        """That does no harm, so all of them pass."""
        crossed = [oracle_cases.host_cell(0, [0]),
                   oracle_cases.host_cell(1, [1, 2]),
                   oracle_cases.host_cell(2, [3])]
        self.assertEqual(['one', 'two'], self._passed(
            oracle_cases.guest((2, 256), (1, 256), (1, 256)),
            one=crossed, two=crossed))
        self.assertIn(
            "2 hosts: nova-compute's claim would find no place if one "
            'elsewhere was aborted before (one: ', self.said)

    def test_a_slow_claim_that_is_wrong(self):
        """The reason is the one that counts, once it is known."""
        self.set_option('nova_claim_max_seconds', 0)
        self.assertEqual([], self._passed(
            oracle_cases.guest((2, 256), (4, 256)),
            host=oracle_cases.uneven_cpus().data['host']))
        self.assertIn("nova-compute's own claim would come out wrong (host: "
                      'it finds no host cells)', self.said)


class TestThreads(oracle_cases.TestCase):
    """The check of nova's filter for hosts without hardware threads."""

    def _both(self, topology, extra_specs, image):
        def ask(kind):
            return kind().host_passes(
                builders.host_state(topology=topology),
                builders.spec(None, extra_specs, image))

        return (ask(numa_topology_filter.NUMATopologyFilter),
                ask(filters.PinnedTopologyFilter))

    def test_against_nova(self):
        without = builders.host_topology(oracle_cases.host_cell(0, [0, 1]))
        with_threads = builders.host_topology(
            oracle_cases.host_cell(0, [0, 1], siblings=[[0, 1]]))
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


class TestPasses(oracle_cases.TestCase):

    def test_guests_without_topology(self):
        """Whatever the host may look like; and nothing is noted down."""
        for topology in (
                None, builders.host_topology(oracle_cases.host_cell(0, [0]))):
            state = builders.host_state(
                topology=topology, allocation_candidates=[])
            spec = builders.spec()
            self.assertTrue(
                filters.PinnedTopologyFilter().host_passes(state, spec))
            self.assertEqual({}, state.limits)

    def test_rebuild(self):
        """Nova does not ask again where a rebuilt guest is already."""
        state, spec = builders.scheduled(oracle_cases.full())
        chosen = filters.PinnedTopologyFilter()
        self.assertEqual([], list(chosen.filter_all([state], spec)))
        spec.scheduler_hints = {'_nova_check_type': ['rebuild']}
        self.assertEqual([state], list(chosen.filter_all([state], spec)))
        self.assertEqual({}, state.limits)

    def test_ratios_of_the_host_are_the_limits(self):
        state, spec = builders.scheduled(oracle_cases.plain())
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
        state, spec = builders.scheduled(
            _as_scheduled(oracle_cases.uneven_cpus()))
        before = spec.obj_to_primitive()
        filters.PinnedTopologyFilter().host_passes(state, spec)
        self.assertEqual(before, spec.obj_to_primitive())


class TestCandidates(oracle_cases.TestCase):
    """Allocation candidates that differ in the devices they allot."""

    def setUp(self):
        super().setUp()
        self.case = oracle_cases.case(
            [oracle_cases.host_cell(0, [0, 1]),
             oracle_cases.host_cell(1, [2, 3], pinned=[2, 3])],
            oracle_cases.guest((1, 256)), pci={
                'pools': [
                    {'vendor_id': '8086', 'product_id': '1520', 'count': 1,
                     'numa_node': node, 'dev_type': 'type-PCI',
                     'rp_uuid': oracle_case.provider_id(node)}
                    for node in (0, 1)],
                'requests': [
                    {'count': 1, 'spec': [{'vendor_id': '8086'}],
                     'alias': 'nic', 'policy': 'required'}],
                'mapping': {}})

    def _candidates(self, *nodes):
        return [{'mappings': {f'{oracle_case.request_id(0)}-0': [
            oracle_case.provider_id(node)]}} for node in nodes]

    def test_contexts_for_memory_encryption(self):
        """Of these providers nova-scheduler knows nothing, and needs not."""
        candidates = [
            {'mappings': {'': ['root', context], **candidate['mappings']}}
            for context in ('sev', 'sev-es')
            for candidate in self._candidates(1, 0)]
        theirs = self._narrowed(
            numa_topology_filter.NUMATopologyFilter, list(candidates))
        with mock.patch.object(fit, 'decide', wraps=fit.decide) as decide:
            ours = self._narrowed(
                filters.PinnedTopologyFilter, list(candidates))
        self.assertEqual((True, [candidates[1], candidates[3]]), ours)
        self.assertEqual(theirs, ours)
        self.assertEqual(2, decide.call_count)
        # The guest's other wishes as ever.
        self.case.data['host'][0]['pinned'] = [0, 1]
        self.assertFalse(self._narrowed(
            filters.PinnedTopologyFilter, list(candidates))[0])

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

    def test_devices_of_two_providers(self):
        """One of which is out of reach: the claim would get one device."""
        data = self.case.data['pci']
        data['requests'][0]['count'] = 2
        for pool in data['pools']:
            pool['count'] = 2
        spread, near = [
            {'mappings': {f'{oracle_case.request_id(0)}-{nth}': [
                oracle_case.provider_id(node)]
                for nth, node in enumerate(nodes)}}
            for nodes in ((0, 1), (0, 0))]
        for policy in ('legacy', 'required', 'socket', 'preferred'):
            data['requests'][0]['policy'] = policy
            self.assertEqual((True, [near]), self._narrowed(
                filters.PinnedTopologyFilter, [spread, near]), policy)
            self.assertFalse(self._narrowed(
                filters.PinnedTopologyFilter, [spread])[0], policy)

    def test_like_candidates_are_tried_once(self):
        """Placement may offer a host in a hundred ways that come to two."""
        with mock.patch.object(fit, 'decide', wraps=fit.decide) as decide:
            passes, left = self._narrowed(
                filters.PinnedTopologyFilter,
                self._candidates(*[1, 0] * 50))
        self.assertEqual((True, 50), (passes, len(left)))
        self.assertEqual(2, decide.call_count)
