# SPDX-License-Identifier: Apache-2.0
"""Nothing ever raises into nova-scheduler, whatever it is given."""

import logging
from unittest import mock

from nova import objects
from nova.scheduler import host_manager
from nova.scheduler import weights as nova_weights

from nova_pinning.bridge import numa
from nova_pinning.scheduler import filters
from nova_pinning.scheduler import fitting
from nova_pinning.scheduler import requests
from nova_pinning.scheduler import weights
from nova_pinning.tests.unit import builders
from nova_pinning.tests.unit.oracle import oracle_cases
from nova_pinning.tests.unit import unit_base


class _Unreadable(host_manager.HostState):
    """A HostState whose NUMA topology cannot be had."""

    def __init__(self, name='broken'):
        super().__init__(name, f'{name}.example', None)
        self.allocation_candidates = [{'mappings': {}}]
        self.cpu_allocation_ratio = 16.0
        self.ram_allocation_ratio = 1.5

    @property
    def numa_topology(self):
        raise ValueError('not JSON')

    @numa_topology.setter
    def numa_topology(self, value):
        pass


def _without(field, of):
    """A state in which a field of this object is not set."""
    def spoil(state):
        delattr(of(state), f'_obj_{field}')
    return spoil


def _cell(state):
    return state.numa_topology.cells[0]


def _set(**values):
    """Set nova's fields to what its getters would never take."""
    def spoil(state):
        for field, value in values.items():
            setattr(_cell(state), f'_obj_{field}', value)
    return spoil


def _aggregate(**metadata):
    def spoil(state):
        state.aggregates = [builders.aggregate(**metadata)]
    return spoil


#: Ways in which a host can be broken, by name.
_BROKEN_HOSTS = {
    'no cells': lambda state: setattr(state.numa_topology, '_obj_cells', []),
    'cells missing': _without('cells', lambda state: state.numa_topology),
    'cells none': lambda state: setattr(
        state.numa_topology, '_obj_cells', None),
    **{f'{field} missing': _without(field, _cell) for field in (
        'id', 'cpuset', 'pcpuset', 'pinned_cpus', 'siblings', 'memory',
        'memory_usage', 'cpu_usage', 'mempages')},
    **{f'{field} none': _set(**{field: None}) for field in (
        'cpuset', 'pcpuset', 'pinned_cpus', 'siblings', 'memory',
        'memory_usage', 'cpu_usage', 'mempages', 'network_metadata')},
    'empty siblings': _set(siblings=[]),
    'an empty sibling list': _set(siblings=[set(), {0, 1}, {2, 3}]),
    'siblings overlap': _set(siblings=[{0, 1}, {1, 2}]),
    'siblings twice': _set(siblings=[{0, 1}, {0, 1}]),
    'siblings without free CPUs': _set(
        siblings=[{100, 101}, {102, 103}]),
    'siblings leave CPUs out': _set(siblings=[{0, 1}]),
    'siblings of none': _set(siblings=[None, None]),
    'offline CPUs': _set(siblings=[{0}, {3}]),
    'pinned outside': _set(pinned_cpus={50, 51}),
    'all pinned and more': _set(pinned_cpus=set(range(10))),
    'negative memory': _set(memory=-1),
    'more used than there is': _set(memory_usage=10 ** 9),
    'memory as text': _set(memory='plenty'),
    'negative usage': _set(cpu_usage=-4),
    'pages of size 0': lambda state: setattr(
        _cell(state).mempages[0], '_obj_size_kb', 0),
    'pages of no size': lambda state: setattr(
        _cell(state).mempages[0], '_obj_size_kb', None),
    'more pages used than there are': lambda state: setattr(
        _cell(state).mempages[0], '_obj_used', 10 ** 12),
    'no pages': _set(mempages=[]),
    'total pages missing': _without(
        'total', lambda state: _cell(state).mempages[0]),
    'ids twice': lambda state: setattr(
        state.numa_topology, '_obj_cells', [_cell(state)] * 2),
    'no topology': lambda state: setattr(state, 'numa_topology', None),
    'no candidates': lambda state: setattr(
        state, 'allocation_candidates', []),
    'candidates none': lambda state: setattr(
        state, 'allocation_candidates', None),
    'candidates without mappings': lambda state: setattr(
        state, 'allocation_candidates', [{}]),
    'ratios none': lambda state: vars(state).update(
        cpu_allocation_ratio=None, ram_allocation_ratio=None),
    'ratios as text': lambda state: vars(state).update(
        cpu_allocation_ratio='a', ram_allocation_ratio='b'),
    'pools without count': lambda state: setattr(
        state, 'pci_stats', mock.Mock(pools=[{'numa_node': 0}])),
    'class of nonsense': _aggregate(pinning__class='gold'),
    'class empty': _aggregate(pinning__class=''),
    **{f'l3 of {text!r}': _aggregate(pinning__l3_cpus=text) for text in (
        '', '0', '-4', 'many', '4.5', '9' * 30, '٣', ' 4 ')},
    'multipliers of nonsense': _aggregate(
        fragmentation_weight_multiplier='much',
        cache_locality_weight_multiplier=''),
    'aggregates none': lambda state: setattr(state, 'aggregates', None),
    'metadata missing': lambda state: setattr(
        state, 'aggregates', [objects.Aggregate(name='a')]),
}


def _state(spoil=None, name='broken'):
    state = builders.host_state(name, builders.host_topology(
        oracle_cases.host_cell(0, range(4), siblings=[[0, 1], [2, 3]]),
        oracle_cases.host_cell(1, range(4, 8), siblings=[[4, 5], [6, 7]])))
    if spoil is not None:
        spoil(state)
    return state


def _of_both(spoil):
    """A host with a cell for guests of either class."""
    state = builders.host_state('broken', builders.host_topology(
        oracle_cases.host_cell(0, range(4), shared=[4, 5],
                               siblings=[[0, 1], [2, 3]])))
    spoil(state)
    return state


#: Kinds of guests, so that each way through the code is taken.
_GUESTS = (
    oracle_cases.guest((2, 256)),
    oracle_cases.guest((2, 256), threads='require', emulator='isolate'),
    oracle_cases.guest((2, 256), threads='isolate'),
    oracle_cases.guest((2, 256), (1, 512), pagesize=-3),
    oracle_cases.guest((2, 256), pagesize=-2),
    oracle_cases.guest() | {'policy': 'shared', 'cells': [
        {'dedicated': [], 'shared': [0], 'memory': 256}]},
    oracle_cases.guest() | {'policy': 'mixed', 'cells': [
        {'dedicated': [0], 'shared': [1], 'memory': 256}]},
)


def _spec(guest=_GUESTS[0], **values):
    return builders.spec(
        oracle_cases.case([], guest).guest(),
        {'hw:cpu_policy': guest['policy']}, **values)


class _NeverRaises(unit_base.TestCase):

    def _run(self, states, spec):
        """The filters and weighers over these hosts, as nova runs them."""
        with unit_base.log_records(level=logging.DEBUG):
            self._run_all(states, spec)

    def _run_all(self, states, spec):
        for kind in filters.all_filters():
            for state in states:
                self.assertIn(kind().host_passes(state, spec), (True, False))
            self.assertLessEqual(
                len(list(kind().filter_all(states, spec))), len(states))
        weighers = [kind() for kind in weights.all_weighers()]
        for weigher in weighers:
            found = weigher.weigh_objects(
                [nova_weights.WeighedHost(state, 0.0) for state in states],
                spec)
            self.assertEqual(len(states), len(found))
            for weight in found:
                self.assertIsInstance(weight, float)
        self.assertEqual(len(states), len(
            nova_weights.HostWeightHandler().get_weighed_objects(
                weighers, states, spec)))


class TestBrokenHosts(_NeverRaises):

    def _assert_survives(self, spoil, name):
        for guest in _GUESTS:
            for option in ('by-class', 'pass'):
                self.set_option('on_error', option)
                self.set_option('prefer_exclusive_l3', option == 'pass')
                try:
                    self._run([_state(spoil), _state(name='sound')],
                              _spec(guest))
                except Exception as error:
                    raise AssertionError(f'{name}, {guest}') from error

    def test_each(self):
        for name, spoil in _BROKEN_HOSTS.items():
            if name not in ('aggregates none', 'metadata missing'):
                self._assert_survives(spoil, name)

    def test_aggregates_that_cannot_be_read(self):
        for name in ('aggregates none', 'metadata missing'):
            self._assert_survives(_BROKEN_HOSTS[name], name)

    def test_a_topology_that_raises(self):
        for guest in _GUESTS:
            self._run([_Unreadable(), _state(name='sound')], _spec(guest))

    def test_nova_can_count_where_they_pass(self):
        """And what is wrong with a host is no error of ours."""
        for name, spoil in _BROKEN_HOSTS.items():
            if name in ('aggregates none', 'metadata missing',
                        'candidates without mappings', 'pools without count',
                        'network_metadata none', 'siblings of none'):
                # Not of the topology, or it cannot come out of a database.
                continue
            for guest in _GUESTS:
                state, spec = _of_both(spoil), _spec(guest)
                refusal = filters.PinnedTopologyFilter().refusal(
                    state, requests.read(spec))
                if refusal is None:
                    fitted = fitting.last_fit(state, requests.read(spec))
                    numa.with_guest(
                        state.numa_topology, fitted.guest, fitted.fit)

    def test_the_reason_names_what_is_missing(self):
        for name, said in (
                ('ratios none', 'nova has not read its allocation ratios yet'),
                ('no pages', 'cell 0: it has no memory pages, without which '
                             'nova cannot count memory'),
                ('cells none', 'the list of cells is missing'),
                ('cpu_usage missing', 'cell 0: field cpu_usage is not set'),
                ('memory none', 'cell 0: unsupported operand')):
            with unit_base.log_records() as records:
                self.assertEqual([], list(
                    filters.PinnedTopologyFilter().filter_all(
                        [_of_both(_BROKEN_HOSTS[name])], _spec())))
            said_of_host, = [
                record.getMessage() for record in records
                if record.levelno > logging.DEBUG]
            self.assertIn(f'a NUMA topology is broken (broken: {said}',
                          said_of_host, name)

    def test_an_error_is_not_hidden_by_a_broken_cell(self):
        with mock.patch.object(fitting.fit, 'decide',
                               side_effect=RuntimeError('of ours')):
            refusal = filters.PinnedTopologyFilter().refusal(
                _of_both(_BROKEN_HOSTS['no pages']), requests.read(_spec()))
        self.assertEqual(
            'cell 0: it has no memory pages, without which nova cannot count '
            "memory; RuntimeError('of ours')", refusal.detail)

    def test_a_broken_host_stands_in_no_others_way(self):
        for name, spoil in _BROKEN_HOSTS.items():
            states = [_state(spoil), _state(name='sound')]
            found = list(filters.PinnedTopologyFilter().filter_all(
                states, _spec()))
            self.assertIn(states[1], found, name)

    def test_pinned_guests_go_on_none_whose_cpus_are_unclear(self):
        """The default, for hosts of which no cell can be trusted."""
        for name in (
                'cells missing', 'pcpuset missing', 'pinned_cpus missing',
                'siblings missing', 'memory missing', 'cells none',
                'pcpuset none', 'siblings none', 'all pinned and more',
                'siblings of none', 'siblings without free CPUs',
                'negative memory', 'memory as text', 'empty siblings',
                'more used than there is', 'no topology', 'no cells'):
            state = _state()
            state.numa_topology.cells.pop()
            _BROKEN_HOSTS[name](state)
            # The pages of these hosts are sound, so without them.
            if name in ('negative memory', 'memory as text',
                        'more used than there is'):
                _cell(state)._obj_mempages = []
            self.assertFalse(
                filters.PinnedTopologyFilter().host_passes(state, _spec()),
                name)


class TestBrokenRequests(_NeverRaises):

    def test_fields_not_set(self):
        for field in ('flavor', 'image', 'numa_topology', 'pci_requests',
                      'scheduler_hints', 'network_metadata'):
            spec = _spec()
            if field in spec:
                delattr(spec, f'_obj_{field}')
            self._run([_state(), _state(name='other')], spec)

    def test_instance_uuid_not_set(self):
        spec = _spec()
        del spec._obj_instance_uuid
        for state in (_state(), _Unreadable()):
            self._run([state], spec)
            self._run([state, _state(name='other')], spec)

    def test_fields_that_are_none(self):
        for field in ('flavor', 'image', 'numa_topology', 'pci_requests',
                      'network_metadata'):
            spec = _spec()
            setattr(spec, f'_obj_{field}', None)
            self._run([_state(), _state(name='other')], spec)

    def test_broken_guests(self):
        for field in ('id', 'cpuset', 'pcpuset', 'memory', 'pagesize',
                      'cpu_policy', 'cpu_thread_policy'):
            for value in (None, 'odd', 'missing'):
                for guest in _GUESTS:
                    spec = _spec(guest)
                    cell = spec.numa_topology.cells[0]
                    if value == 'missing':
                        delattr(cell, f'_obj_{field}')
                    else:
                        setattr(cell, f'_obj_{field}', value)
                    self._run([_state(), _state(name='other')], spec)

    def test_no_cells(self):
        self._run([_state(), _state(name='other')], builders.spec(
            objects.InstanceNUMATopology(cells=[])))


class TestOnError(unit_base.TestCase):
    """What the filters do about a host on which they fail themselves."""

    def _passes(self, kind, guest):
        return kind().host_passes(_Unreadable(), _spec(guest))

    def test_policies(self):
        dedicated, shared, mixed = _GUESTS[0], _GUESTS[5], _GUESTS[6]
        for policy, passing in (
                ('by-class', [shared]), ('refuse', []),
                ('pass', [dedicated, shared, mixed])):
            self.set_option('on_error', policy)
            for kind in filters.all_filters():
                for guest in (dedicated, shared, mixed):
                    self.assertEqual(
                        guest in passing, self._passes(kind, guest),
                        (policy, kind, guest['policy']))

    def test_in_doubt_a_guest_is_dedicated(self):
        spec = _spec(_GUESTS[5])
        spec._obj_flavor = None
        self.assertFalse(
            filters.PinnedTopologyFilter().host_passes(_state(), spec))
        # Nor can it be told here, though the host is at fault too.
        spec = _spec(_GUESTS[5])
        spec.flavor.extra_specs['pinning:class'] = 'gold'
        self.assertFalse(
            filters.PinnedTopologyFilter().host_passes(_Unreadable(), spec))

    def test_class_named_by_the_flavor(self):
        spec = _spec(_GUESTS[0])
        spec.flavor.extra_specs['pinning:class'] = 'shared'
        self.assertTrue(
            filters.PinnedTopologyFilter().host_passes(_Unreadable(), spec))


class TestErrorsAreLoggedOnce(unit_base.TestCase):

    def _errors(self, records):
        return [record for record in records if record.levelno > logging.INFO]

    def test_filters(self):
        for kind in filters.all_filters():
            chosen = kind()
            states = [_Unreadable(f'host{n}') for n in range(5)]
            with unit_base.log_records() as records:
                list(chosen.filter_all(states, _spec()))
                list(chosen.filter_all(states, _spec(_GUESTS[5])))
            error, = self._errors(records)
            self.assertIn('host0', error.getMessage())
            self.assertIn(kind.__name__, error.getMessage())
            self.assertIn('not JSON', str(error.exc_info[1]))

    def test_an_error_of_another_kind(self):
        chosen = filters.PinnedTopologyFilter()
        with unit_base.log_records() as records:
            chosen.host_passes(_Unreadable(), _spec())
            with mock.patch.object(
                    fitting, 'fit_on_host', side_effect=RuntimeError('oops')):
                for number in range(3):
                    chosen.host_passes(_state(name=f'host{number}'), _spec())
        self.assertEqual(2, len(self._errors(records)))
        self.assertIn('host0', self._errors(records)[1].getMessage())

    def test_weighers(self):
        for kind in weights.all_weighers():
            weigher = kind()
            hosts = [nova_weights.WeighedHost(_Unreadable(f'host{n}'), 0.0)
                     for n in range(5)]
            with unit_base.log_records() as records:
                for _request in range(2):
                    self.assertEqual(
                        [0.0] * 5, weigher.weigh_objects(hosts, _spec()))
            error, = self._errors(records)
            self.assertIn('host0', error.getMessage())
            self.assertIn('not JSON', str(error.exc_info[1]))

    def test_the_refusal_says_what_happened(self):
        with unit_base.log_records() as records:
            list(filters.PinnedTopologyFilter().filter_all(
                [_Unreadable()], _spec()))
        self.assertIn(
            'No host for instance', records[-1].getMessage())
        self.assertIn('ValueError: not JSON', records[-1].getMessage())
