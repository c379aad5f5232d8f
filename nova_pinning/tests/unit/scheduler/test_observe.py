# SPDX-License-Identifier: Apache-2.0


"""``[pinning] mode = observe``: nothing is changed, and all of it is told."""

import copy
from unittest import mock

import hypothesis
from hypothesis import strategies
from nova.scheduler import filters as nova_filters
from nova.scheduler.filters import numa_topology_filter
from nova.scheduler import weights as nova_weights

from nova_pinning.model import Reason
from nova_pinning.scheduler import filters
from nova_pinning.scheduler import fitting
from nova_pinning.scheduler import metrics
from nova_pinning.scheduler import metrics_recorder
from nova_pinning.scheduler import weights
from nova_pinning.tests.oracle import fleet_oracle
from nova_pinning.tests.oracle import scheduled_cases
from nova_pinning.tests.unit import builders
from nova_pinning.tests.unit.oracle import oracle_cases
from nova_pinning.tests.unit import unit_base

#: Like builders.ANY_CASE, with several hosts at times, and guests that nova
#: is apt to get wrong.
_ANY_FLEET = strategies.builds(
    fleet_oracle.fleet, strategies.just(11), strategies.integers(0, 10 ** 6))


class _Recorder(metrics_recorder.MetricsRecorder):
    """Keeps how many hosts differed, by filter, side and reason."""

    def __init__(self):
        self.found = {}
        self.used = []

    def differed(self, filter_name, who_refuses, reason, hosts):
        key = filter_name, who_refuses, reason
        self.found[key] = self.found.get(key, 0) + hosts

    def held_back(self, reason, hosts, used):
        self.used.append(reason)

    def hosts(self, who_refuses):
        return sum(hosts for (_name, who, _reason), hosts
                   in self.found.items() if who == who_refuses)


def _states(case):
    """The hosts of a case, each with its own name."""
    states = [
        scheduled_cases.state_of(host) for host in fleet_oracle.hosts(case)]
    for number, state in enumerate(states):
        state.host = f'host{number}'
    return states


def _value(value):
    """What there is to compare of a value of nova's."""
    if hasattr(value, 'obj_to_primitive'):
        return value.obj_to_primitive()
    if isinstance(value, dict):
        return {key: _value(one) for key, one in value.items()}
    pools = getattr(value, 'pools', None)
    return copy.deepcopy(value if pools is None else pools)


def _picture(thing):
    """All that there is to a HostState."""
    return {name: _value(value) for name, value in vars(thing).items()}


class TestCase(unit_base.TestCase, oracle_cases.TestCase):

    def setUp(self):
        super().setUp()
        self.set_option('mode', 'observe')
        self.recorder = self._record()
        self.addCleanup(metrics.use, None)

    def _record(self):
        recorder = _Recorder()
        metrics.use(recorder)
        return recorder

    def _passed(self, states, spec, kind=filters.PinnedTopologyFilter):
        return list(kind().filter_all(states, spec))


def _nova_passes(state, spec):
    try:
        return numa_topology_filter.NUMATopologyFilter().host_passes(
            state, spec)
    except Exception:
        return False


class TestDifference(TestCase):
    """What is said is what there would be."""

    def _assert_told(self, case):
        self.set_option(
            'nova_claim_max_seconds', 0 if case.data.get('hasty') else 1)
        with case.configured():
            nova = [_nova_passes(state, scheduled_cases.spec_of(case))
                    for state in _states(case)]
            self.set_option('mode', 'enforce')
            states = _states(case)
            passed = self._passed(states, scheduled_cases.spec_of(case))
            ours = [state in passed for state in states]
            self.set_option('mode', 'observe')
            self.recorder = self._record()
            states = _states(case)
            with unit_base.log_records() as records:
                self.assertEqual(
                    states, self._passed(states,
                                         scheduled_cases.spec_of(case)))
        only_nova = [state.host for state, theirs, mine
                     in zip(states, nova, ours) if theirs and not mine]
        only_ours = [state.host for state, theirs, mine
                     in zip(states, nova, ours) if mine and not theirs]
        self.assertEqual(
            (len(only_nova), len(only_ours)),
            (self.recorder.hosts('ours'), self.recorder.hosts('nova')),
            f'{nova} {ours} {self.recorder.found} {case}')
        said = [record.getMessage() for record in records
                if record.getMessage().startswith('Observing')]
        self.assertEqual(bool(only_nova or only_ours), bool(said), said)
        told = said[0] if said else ''
        self.assertEqual(
            (bool(only_nova), bool(only_ours)),
            ('would refuse: ' in told, 'nova refuses: ' in told))
        # Nothing was held back, and no host found second best.
        self.assertEqual([], self.recorder.used)
        self.assertFalse([record for record in records
                          if 'second choice' in record.getMessage()])

    @unit_base.settings(120)
    @hypothesis.given(builders.ANY_CASE)
    def test_of_one_host(self, case):
        self._assert_told(case)

    @unit_base.settings(120)
    @hypothesis.given(_ANY_FLEET)
    def test_of_several_hosts(self, case):
        self._assert_told(case)

    def test_a_slow_claim_where_nothing_else_is_left(self):
        """It would be used, so there is no difference to tell of."""
        case = oracle_cases.case(
            [oracle_cases.host_cell(0, [0, 1, 2]),
             oracle_cases.host_cell(1, [3, 4])],
            oracle_cases.guest((2, 256), (3, 256)), hasty=True)
        self._assert_told(case)
        self.assertEqual({}, self.recorder.found)

    def test_a_slow_claim_where_something_else_is_left(self):
        crossed = [oracle_cases.host_cell(0, [0, 1, 2]),
                   oracle_cases.host_cell(1, [3, 4])]
        easy = [oracle_cases.host_cell(0, [0, 1, 2]),
                oracle_cases.host_cell(1, [3, 4, 5])]
        self._assert_told(oracle_cases.case(
            crossed, oracle_cases.guest((2, 256), (3, 256)), hasty=True,
            others=[{'host': easy, 'pools': [], 'mapping': {}}]))
        self.assertEqual(
            {('PinnedTopologyFilter', 'ours', Reason.NOVA_SLOW): 1},
            self.recorder.found)

    def test_a_second_attempt_where_something_else_is_left(self):
        crossed = [oracle_cases.host_cell(0, range(4)),
                   oracle_cases.host_cell(1, range(4, 6))]
        easy = [oracle_cases.host_cell(0, [0, 1]),
                oracle_cases.host_cell(1, range(2, 6))]
        guest = oracle_cases.guest((2, 256), (4, 256))
        self._assert_told(oracle_cases.case(crossed, guest))
        self.assertEqual({}, self.recorder.found)
        self._assert_told(oracle_cases.case(crossed, guest, others=[
            {'host': easy, 'pools': [], 'mapping': {}}]))
        [key] = self.recorder.found
        self.assertEqual(('PinnedTopologyFilter', 'ours'), key[:2])
        self.assertIn(key[2], (Reason.NOVA_AGAIN, Reason.NOVA_AGAIN_WRONG))

    def test_where_nova_accepts_too_much(self):
        spec = scheduled_cases.spec_of(oracle_cases.uneven_memory())
        states = _states(oracle_cases.uneven_memory())
        states.append(builders.host_state('large', builders.host_topology(*(
            oracle_cases.host_cell(number, [2 * number, 2 * number + 1],
                                   memory=24576, pages=[[4, 6291456, 0, 0]])
            for number in range(3)))))
        with unit_base.log_records() as records:
            self._passed(states, spec)
        said, = [record.getMessage() for record in records
                 if record.getMessage().startswith('Observing')]
        self.assertEqual(
            f'Observing instance {spec.instance_uuid}, 2 hosts: nova passes '
            'what PinnedTopologyFilter would refuse: 1 host: too little '
            'memory in any one cell (host0: for guest cell 2: cell 0 has 8192 '
            'MiB of memory, 16384 MiB needed; cell 1 has 8192 MiB of memory, '
            '16384 MiB needed; cell 2 has 8192 MiB of memory, 16384 MiB '
            'needed)', said)
        self.assertEqual(
            {('PinnedTopologyFilter', 'ours', Reason.MEMORY): 1},
            self.recorder.found)

    def test_where_nova_refuses_too_much(self):
        self.set_option('check_nova_claim', False)
        case = oracle_cases.uneven_cpus()
        spec = scheduled_cases.spec_of(case)
        with unit_base.log_records() as records:
            self._passed(_states(case), spec)
        said, = [record.getMessage() for record in records
                 if record.getMessage().startswith('Observing')]
        self.assertEqual(
            f'Observing instance {spec.instance_uuid}, 1 hosts: '
            'PinnedTopologyFilter would pass what nova refuses: 1 host: '
            "nova's own filter refuses the host (host0)", said)
        self.assertEqual(
            {('PinnedTopologyFilter', 'nova', Reason.NOVA_REFUSES): 1},
            self.recorder.found)

    def test_classes(self):
        state = builders.host_state('shared-1', builders.host_topology(
            oracle_cases.host_cell(0, [], shared=[0, 1])))
        spec = builders.spec(None, {'hw:cpu_policy': 'dedicated'})
        with unit_base.log_records() as records:
            self.assertEqual([state], self._passed(
                [state], spec, filters.HostClassFilter))
        self.assertEqual(
            f'Observing instance {spec.instance_uuid}: HostClassFilter would '
            'refuse 1 of 1 hosts. 1 host: the host is of another class than '
            'the guest (shared-1: a shared host, a dedicated guest)',
            records[-1].getMessage())
        self.assertEqual(
            {('HostClassFilter', 'ours', Reason.HOST_CLASS): 1},
            self.recorder.found)

    def test_an_error_of_ours(self):
        """It is told like a refusal, and does no more."""
        states, spec = _states(oracle_cases.plain()), scheduled_cases.spec_of(
            oracle_cases.plain())
        with mock.patch.object(fitting, 'fit_on_host', side_effect=KeyError):
            self.assertEqual(states, self._passed(states, spec))
        self.assertEqual(
            {('PinnedTopologyFilter', 'ours', Reason.ERROR): 1},
            self.recorder.found)

    def test_an_error_in_what_is_told(self):
        for kind in filters.all_filters():
            states = _states(oracle_cases.full())
            with mock.patch.object(kind, 'observe', side_effect=KeyError):
                self.assertEqual(states, self._passed(
                    states, scheduled_cases.spec_of(oracle_cases.full()),
                    kind))


class TestNothingIsChanged(TestCase):

    @unit_base.settings(60)
    @hypothesis.given(strategies.one_of(builders.ANY_CASE, _ANY_FLEET))
    def test_hosts_and_request(self, case):
        with case.configured():
            for kind in filters.all_filters():
                states, spec = _states(case), scheduled_cases.spec_of(case)
                for number, state in enumerate(states):
                    state.limits['disk_gb'] = number
                before = [_picture(state) for state in states]
                asked = spec.obj_to_primitive()
                candidates = [state.allocation_candidates for state in states]

                self.assertEqual(states, self._passed(states, spec, kind))
                for state in states:
                    self.assertTrue(kind().host_passes(state, spec))

                self.assertEqual(before, [_picture(state) for state in states])
                self.assertEqual(asked, spec.obj_to_primitive())
                for state, those in zip(states, candidates):
                    self.assertIs(those, state.allocation_candidates)

    @unit_base.settings(40)
    @hypothesis.given(builders.ANY_CASE)
    def test_all_hosts_weigh_the_same(self, case):
        states, spec = _states(case), scheduled_cases.spec_of(case)
        states.append(builders.host_state('none'))
        weighed = [nova_weights.WeighedHost(state, 0.0) for state in states]
        for kind in weights.all_weighers():
            self.assertEqual([0.0] * len(states), list(
                kind().weigh_objects(weighed, spec)))

    def _schedule(self, case, kinds, count):
        """Hosts that take so many instances, as nova-scheduler goes about it.

        :returns: for each instance its host and what nova made of the spec,
            and the hosts as they are in the end
        """
        states, spec = _states(case), scheduled_cases.spec_of(case)
        chosen = [kind() for kind in kinds]
        left, taken = states, []
        for _instance in range(count):
            left = nova_filters.HostFilterHandler().get_filtered_objects(
                chosen, left, spec)
            if not left:
                taken.append(None)
                break
            left[0].consume_from_request(spec)
            taken.append((left[0].host, _value(spec.numa_topology)))
        return taken, [
            (_value(state.numa_topology), _value(state.limits),
             _value(state.pci_stats), state.num_instances)
            for state in states]

    @unit_base.settings(40)
    @hypothesis.given(strategies.one_of(builders.ANY_CASE, _ANY_FLEET))
    def test_several_instances_in_a_request(self, case):
        """Nova goes its own way, as wrong as that may be."""
        hypothesis.assume(not case.data['odd'])
        nova = (numa_topology_filter.NUMATopologyFilter,)
        ours = tuple(filters.all_filters())
        with case.configured():
            alone = self._schedule(case, nova, 3)
            self.assertEqual(alone, self._schedule(case, ours + nova, 3))
            self.assertEqual(alone, self._schedule(case, nova + ours, 3))

    def test_the_second_instance_of_a_request(self):
        """Of which nova has forgotten what it asked for."""
        small = [4, 1024, 0, 0]
        case = oracle_cases.case(
            [oracle_cases.host_cell(0, [0], pages=[small, [2048, 512, 0, 0]])],
            oracle_cases.guest((1, 1024), pagesize=-2), others=[{
                'host': [oracle_cases.host_cell(
                    0, [0], pages=[small, [1048576, 1, 0, 0]])],
                'pools': [], 'mapping': {}}])
        states, spec = _states(case), scheduled_cases.spec_of(case)
        spec.num_instances = 2
        chosen = filters.PinnedTopologyFilter()
        self.assertEqual(states, list(chosen.filter_all(states, spec)))
        self.assertEqual({}, self.recorder.found)
        states[0].consume_from_request(spec)
        spec.instance_uuid = '8d9b6c3a-7f5e-4a3b-9d2c-1e0f4a5b6c7d'
        self.assertEqual(states, list(chosen.filter_all(states, spec)))
        self.assertEqual(
            {('PinnedTopologyFilter', 'nova', Reason.NOVA_REFUSES): 1},
            self.recorder.found)
        # Of the first host, both say that it is full.
        [host] = [state.host for state in states if state.num_instances]
        self.assertEqual('host0', host)


class TestChangeOfMode(TestCase):

    def test_while_nova_scheduler_runs(self):
        chosen = filters.PinnedTopologyFilter()
        for mode, count in (('observe', 1), ('enforce', 0), ('observe', 1)):
            self.set_option('mode', mode)
            states = _states(oracle_cases.full())
            self.assertEqual(count, len(list(chosen.filter_all(
                states, scheduled_cases.spec_of(oracle_cases.full())))))
