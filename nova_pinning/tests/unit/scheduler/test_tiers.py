# SPDX-License-Identifier: Apache-2.0

import pathlib
from unittest import mock
import uuid

import ddt
import nova.conf
from nova import objects
from nova.scheduler import filters as nova_filters
from nova.scheduler.filters import affinity_filter
from oslo_config import fixture as config_fixture

from nova_pinning import model
from nova_pinning.model import Reason
from nova_pinning.scheduler import filters
from nova_pinning.scheduler import fitting
from nova_pinning.scheduler import metrics
from nova_pinning.scheduler import metrics_recorder
from nova_pinning.scheduler import requests
from nova_pinning.tests.unit import builders
from nova_pinning.tests.unit.oracle import oracle_cases
from nova_pinning.tests.unit import unit_base


def _memory(memory_mib):
    """A host cell with so much of it, in pages of 4 KiB."""
    return {'memory': memory_mib, 'pages': [[4, 256 * memory_mib, 0, 0]]}


def _state(name, *memory_mib):
    """A host with a CPU in each cell."""
    return builders.host_state(name, builders.host_topology(*[
        oracle_cases.host_cell(number, [number], **_memory(memory))
        for number, memory in enumerate(memory_mib)]))


def _good(name):
    return _state(name, 512, 256)


def _second(name):
    """Nova's first claim is right, a second attempt finds no place."""
    return _state(name, 384, 512)


def _wrong(name):
    """A second attempt would be accepted with no CPUs for one cell."""
    return builders.host_state(name, builders.host_topology(
        oracle_cases.host_cell(0, range(4)),
        oracle_cases.host_cell(1, range(4, 6))))


def _floating(name, *cells):
    """A host of floating CPUs.

    :param cells: (CPUs, MiB of small pages, pages of 1 GiB)
    """
    return builders.host_state(name, builders.host_topology(*[
        oracle_cases.host_cell(
            number, shared=range(10 * number, 10 * number + cpus),
            pages=[[4, small * 256, 0, 0], [1048576, large, 0, 0]])
        for number, (cpus, small, large) in enumerate(cells)]),
        cpu_allocation_ratio=1.0)


def _spec(**values):
    return builders.spec(
        builders.guest_topology((1, 512), (1, 256)), **values)


def _uneven_spec(**values):
    return builders.spec(
        builders.guest_topology((2, 256), (4, 256)), **values)


def _spec_of_any_pages(**values):
    """A guest that comes to pages of two sizes on some hosts."""
    topology = builders.guest_topology(
        (2, 512), (1, 1024), policy='shared', pagesize=model.PAGES_ANY)
    for cell in topology.cells:
        cell.cpuset, cell.pcpuset = cell.pcpuset, set()
    return builders.spec(topology, **values)


def _apart():
    return objects.InstanceGroup(
        policy='anti-affinity', hosts=[], rules={}, uuid=str(uuid.uuid4()))


class _Recorder(metrics_recorder.MetricsRecorder):
    """Keeps which hosts of the second tier were counted, and how."""

    def __init__(self):
        self.told = []

    def held_back(self, reason, hosts, used):
        self.told.append((reason, hosts, used))


class TestTiers(unit_base.TestCase, oracle_cases.TestCase):

    def setUp(self):
        super().setUp()
        self.nova_options = self.useFixture(
            config_fixture.Config(nova.conf.CONF))
        self.filter = filters.PinnedTopologyFilter()

    def _left(self, states, spec):
        """Names of the hosts that pass, by way of nova's own handler."""
        return [state.host for state in
                nova_filters.HostFilterHandler().get_filtered_objects(
                    [self.filter], states, spec)]

    def _drawback(self, state, spec):
        return fitting.fit_on_host(state, requests.read(spec)).drawback

    def test_what_the_hosts_are(self):
        for state, spec, reason in (
                (_good('h'), _spec(), None),
                (_second('h'), _spec(), Reason.NOVA_AGAIN),
                (_wrong('h'), _uneven_spec(), Reason.NOVA_AGAIN_WRONG)):
            drawback = self._drawback(state, spec)
            self.assertEqual(reason, getattr(drawback, 'reason', None))

    def test_only_while_there_are_no_others(self):
        self.assertEqual(['good'], self._left(
            [_second('a'), _good('good'), _second('b')], _spec()))
        with unit_base.log_records() as records:
            self.assertEqual(['a', 'b'], self._left(
                [_second('a'), _state('full', 1, 1), _second('b')], _spec()))
        said = [record.getMessage() for record in records
                if record.levelname == 'INFO']
        self.assertEqual(1, len(said), said)
        self.assertIn('second choice', said[0])
        self.assertIn('2 hosts: ' + model.summarise(Reason.NOVA_AGAIN),
                      said[0])

    def test_each_is_counted_with_its_reason(self):
        recorder = _Recorder()
        metrics.use(recorder)
        self._left([_second('a'), _good('good'), _second('b')], _spec())
        self.assertEqual([(Reason.NOVA_AGAIN, 2, False)], recorder.told)
        recorder.told.clear()
        self._left([_second('a'), _state('full', 1, 1)], _spec())
        self.assertEqual([(Reason.NOVA_AGAIN, 1, True)], recorder.told)

    def test_where_no_second_attempt_can_come(self):
        move = objects.Destination(cell=objects.CellMapping(
            uuid=str(uuid.uuid4())))
        states = [_second('a'), _good('good')]
        self.assertEqual(['a', 'good'], self._left(
            states, _spec(requested_destination=move)))
        self.assertEqual(['good'], self._left(states, _spec(
            requested_destination=objects.Destination(host='a'))))
        self.nova_options.config(max_attempts=1, group='scheduler')
        self.assertEqual(['a', 'good'], self._left(states, _spec()))

    def test_what_could_be_accepted_wrongly_comes_alone(self):
        """Nova takes alternates from the hosts that are left."""
        for seconds in (1.0, 1e-9):
            # Also where the first claim takes long.
            self.set_option('nova_claim_max_seconds', seconds)
            self.assertEqual(['a'], self._left(
                [_wrong('a'), _wrong('b')], _uneven_spec()))

    def test_page_sizes_that_a_claim_elsewhere_leaves(self):
        """Nova takes the pages of one host for those of another."""
        def mixed(name):
            return _floating(name, (1, 256, 1), (2, 2048, 0))

        def small(name):
            return _floating(name, (2, 2048, 0), (2, 2048, 0))

        for states, expected in (
                ([mixed('a'), mixed('b')], ['a', 'b']),
                ([small('a'), small('b')], ['a', 'b']),
                ([mixed('a'), small('b'), mixed('c'), small('d')],
                 ['a', 'c']),
                ([small('a'), mixed('b'), small('c')], ['a', 'c'])):
            self.assertEqual(
                expected, self._left(states, _spec_of_any_pages()))
        self.nova_options.config(max_attempts=1, group='scheduler')
        self.assertEqual(['a', 'b'], self._left(
            [mixed('a'), small('b')], _spec_of_any_pages()))

    def test_page_sizes_left_to_claims_that_take_long(self):
        """They are followed for as long as the first time."""
        self.set_option('nova_claim_max_seconds', 1e-9)
        spec = _spec_of_any_pages()
        # What has no pages for the first cell is refused, and harms nobody.
        spec.numa_topology.cells.reverse()
        self.assertEqual(['a', 'b'], self._left([
            _floating('a', (2, 2048, 0), (1, 1024, 0)),
            _floating('b', (2, 2048, 1), (1, 256, 1))], spec))

    def test_claims_that_take_long(self):
        self.set_option('nova_claim_max_seconds', 1e-6)
        slow = builders.host_state('slow', builders.host_topology(*[
            oracle_cases.host_cell(number, [number], **_memory(memory))
            for number, memory in enumerate((64, 512, 512))]))
        self.nova_options.config(
            packing_host_numa_cells_allocation_strategy=True, group='compute')
        spec = builders.spec(builders.guest_topology((1, 256), (1, 256)))
        self.assertEqual(
            Reason.NOVA_SLOW, self._drawback(slow, spec).reason)
        self.assertEqual(['good'], self._left(
            [slow, _state('good', 256, 256)], spec))
        self.assertEqual(['slow'], self._left([slow], builders.spec(
            builders.guest_topology((1, 256), (1, 256)))))

    def test_an_error_in_the_choice_is_the_reason(self):
        with mock.patch.object(self.filter, 'second_choice',
                               side_effect=RuntimeError('oops')):
            with unit_base.log_records() as records:
                self.assertEqual([], self._left([_second('a')], _spec()))
        self.assertIn('No host for instance', records[-1].getMessage())
        self.assertIn('an unexpected error (a: RuntimeError: oops)',
                      records[-1].getMessage())

    def test_a_longer_look(self):
        """Nova is asked to the end where no other host is left."""
        self.set_option('nova_claim_max_seconds', 1e-9)
        self.assertEqual(['h'], self._left([_second('h')], _spec()))
        state, spec = builders.scheduled(oracle_cases.uneven_cpus())
        with unit_base.log_records() as records:
            self.assertEqual([], self._left([state], spec))
        self.assertIn(model.summarise(Reason.NOVA_WRONG),
                      records[-1].getMessage())

    def test_no_more_long_looks_than_hosts_may_be_tried(self):
        self.set_option('nova_claim_max_seconds', 1e-9)
        self.nova_options.config(max_attempts=3, group='scheduler')
        states = [_second(f'host{number}') for number in range(9)]
        with mock.patch.object(
                fitting, '_place', wraps=fitting._place) as placed:
            self.assertEqual(['host0', 'host1', 'host2'],
                             self._left(states, _spec()))
        self.assertEqual(
            [False] * 9 + [True] * 3, [call.args[4] for call
                                       in placed.call_args_list])

    def test_another_look_for_want_of_steps(self):
        """Hosts that the request had no steps for get some in the end."""
        self.set_option('request_budget_seconds', 0.001)
        state, spec = builders.scheduled(oracle_cases.near_a_device())
        # As after a search on another host that came to nothing.
        steps = requests.read(spec).budget
        while not steps.is_over():
            pass
        with unit_base.log_records() as records:
            self.assertEqual([state.host], self._left([state], spec))
        # It is as good as any.
        self.assertEqual([], [record.getMessage() for record in records
                              if record.levelname == 'INFO'])

    def test_the_packing_of_the_compute_host(self):
        """By its aggregate, whatever nova-scheduler is configured to."""
        key = 'pinning__packing_host_numa_cells_allocation_strategy'
        state = builders.host_state('h', builders.host_topology(
            oracle_cases.host_cell(0, [0, 1]), oracle_cases.host_cell(1, [2])))
        for default in (False, True):
            self.nova_options.config(
                packing_host_numa_cells_allocation_strategy=default,
                group='compute')
            for text, packs in (('true', True), ('no', False),
                                ('perhaps', default)):
                state.aggregates = [builders.aggregate(**{key: text})]
                placement = fitting.fit_on_host(state, requests.read(
                    builders.spec(builders.guest_topology((1, 256)))))
                self.assertEqual(int(packs), placement.cells[0].id)


class _Drops(nova_filters.BaseHostFilter):
    """A filter of somebody else, which has hosts of its own to refuse."""

    def __init__(self, *names):
        self._names = names

    def host_passes(self, host_state, _spec):
        return host_state.host not in self._names


class TestFollowed(unit_base.TestCase, oracle_cases.TestCase):
    """Where filters come after PinnedTopologyFilter."""

    def setUp(self):
        super().setUp()
        self.nova_options = self.useFixture(
            config_fixture.Config(nova.conf.CONF))

    def _start(self, *enabled):
        """Make the filter as nova-scheduler does.

        :returns: errors in the log
        """
        self.nova_options.config(
            enabled_filters=list(enabled), group='filter_scheduler')
        with unit_base.log_records(filters.__name__) as records:
            self.filter = filters.PinnedTopologyFilter()
        return _errors(records)

    def _left(self, states, spec, *dropped):
        return [state.host for state in
                nova_filters.HostFilterHandler().get_filtered_objects(
                    [self.filter, _Drops(*dropped)], states, spec)]

    def test_the_log_has_the_line_to_write(self):
        self.assertEqual([], self._start('Drops', 'PinnedTopologyFilter'))
        said, = self._start('A', 'PinnedTopologyFilter', 'Drops')
        self.assertIn('enabled_filters has Drops after Pinned', said)
        self.assertTrue(said.endswith(
            'write enabled_filters = A, Drops, PinnedTopologyFilter'), said)

    def test_not_while_it_only_observes(self):
        """So it is installed; the order matters once it acts."""
        path = pathlib.Path(self.create_tempfiles(
            [('nova', '[pinning]\nmode = observe\n')], ext='.conf')[0])
        self.options.set_config_files([str(path)])
        self.options.conf.reload_config_files()
        self.assertEqual([], self._start('PinnedTopologyFilter', 'Drops'))
        with unit_base.log_records() as records:
            self._left([_second('a'), _good('good')], _spec())
        self.assertIn('would refuse: 1 host: ' + model.summarise(
            Reason.NOVA_AGAIN), records[-1].getMessage())
        for text, count in (('mode = enforce', 1),
                            ('mode = enforce\non_error = pass', 0)):
            path.write_text(f'[pinning]\n{text}\n')
            with unit_base.log_records(filters.__name__) as records:
                self.options.conf.mutate_config_files()
            self.assertEqual(count, len(_errors(records)))

    def test_the_second_tier_passes_beside_the_first(self):
        self._start('PinnedTopologyFilter', 'Drops')
        states = [_second('a'), _good('good'), _second('b')]
        with unit_base.log_records() as records:
            self.assertEqual(
                ['a', 'b'], self._left(states, _spec(), 'good'))
        self.assertIn('or for later filters: 2 hosts: ',
                      records[-1].getMessage())
        self.assertEqual(
            ['good', 'a', 'b'], self._left(states, _spec()))
        # What fits nowhere is refused all the same.
        self.assertEqual(
            ['good'], self._left([_state('full', 1, 1), _good('good')],
                                 _spec()))

    def test_what_could_be_accepted_wrongly_does_not(self):
        """It could be an alternate then."""
        self._start('PinnedTopologyFilter', 'Drops')
        good = builders.host_state('good', builders.host_topology(
            oracle_cases.host_cell(0, range(4)),
            oracle_cases.host_cell(1, range(4, 8))))
        self.assertEqual(
            ['good'], self._left([_wrong('a'), good], _uneven_spec()))
        self.assertEqual(
            ['a'], self._left([_wrong('a'), _wrong('b')], _uneven_spec()))


def _errors(records):
    return [record.getMessage() for record in records
            if record.levelname == 'ERROR']


@ddt.ddt
class TestSeveralInstances(unit_base.TestCase, oracle_cases.TestCase):

    def setUp(self):
        super().setUp()
        self.filter = filters.PinnedTopologyFilter()

    def _take(self, states, spec, count, first=()):
        """Schedule as nova.scheduler.manager.SchedulerManager._schedule.

        :param first: filters that come before PinnedTopologyFilter
        :returns: names of the hosts taken, and those of the alternates
        """
        handler = nova_filters.HostFilterHandler()
        enabled = [*first, self.filter]
        instances = [str(uuid.uuid4()) for _ in range(count)]
        if first:
            spec.instance_group.members = instances
        taken, left = [], states
        for number, instance in enumerate(instances):
            spec.instance_uuid = instance
            left = handler.get_filtered_objects(enabled, left, spec, number)
            if not left:
                return taken, None
            host, *_others = left
            host.consume_from_request(spec)
            host.instances[instance] = None
            if first:
                spec.instance_group.hosts.append(host.host)
            taken.append(host.host)
        left = handler.get_filtered_objects(enabled, left, spec, number)
        return taken, [state.host for state in left if state.host not in taken]

    def test_hosts_left_aside_come_back(self):
        with unit_base.log_records() as records:
            taken, alternates = self._take(
                [_second('a'), _good('good'), _second('b')],
                _spec(num_instances=3), 3)
        self.assertEqual(['good', 'a', 'b'], taken)
        self.assertEqual([], alternates)
        # That none is left for alternates is not a failure.
        self.assertNotIn(
            'No host', ' '.join(record.getMessage()
                                for record in records
                                if record.levelname == 'INFO'))

    def test_what_could_be_accepted_wrongly_comes_together(self):
        """Alternates of several instances are looked for apart."""
        spec = _uneven_spec(num_instances=2)
        self.assertEqual(
            (['a', 'b'], []),
            self._take([_wrong('a'), _wrong('b'), _wrong('c')], spec, 2))

    def test_no_alternates_beside_what_could_be_accepted_wrongly(self):
        """What one host leaves of page sizes leads the other astray."""
        mixed, *small = [
            _floating('mixed', (1, 256, 1), (2, 2048, 0)),
            _floating('a', (2, 2048, 0), (2, 2048, 0)),
            _floating('b', (2, 2048, 0), (2, 2048, 0))]
        for states, count, expected in (
                ([*small, mixed], 3, ['a', 'b', 'mixed']),
                (small, 2, ['a', 'b'])):
            spec = _spec_of_any_pages(num_instances=count)
            spec.instance_group = _apart()
            handler = nova_filters.HostFilterHandler()
            spec.instance_uuid = str(uuid.uuid4())
            self.assertEqual(expected, [
                state.host for state in handler.get_filtered_objects(
                    [self.filter], states, spec)])
            # Nova asks once more, and may have taken mixed and left a.
            self.assertEqual(
                [] if mixed in states else ['a', 'b'],
                [state.host for state in handler.get_filtered_objects(
                    [self.filter], states, spec)])

    @ddt.data(
        (['good', 'a'], ['good', 'a', 'b'], 2),
        (['good', 'a', 'b'], ['good', 'a', 'b'], 3),
        # There are enough of the first tier.
        (['good', 'other'], ['good', 'a', 'other'], 2),
        (['good', 'other', 'a'], ['good', 'a', 'other'], 3))
    @ddt.unpack
    def test_each_on_a_host_of_its_own(self, expected, hosts, count):
        """A filter before ours may leave none for the next instance.

        Nova does not ask ours then.
        """
        spec = _spec(num_instances=count, instance_group=_apart())
        states = [_second(name) if len(name) == 1 else _good(name)
                  for name in hosts]
        taken, alternates = self._take(
            states, spec, count,
            [affinity_filter.ServerGroupAntiAffinityFilter()])
        self.assertEqual((expected, []), (taken, alternates))

    def test_a_hundred_members(self):
        """One on each host, those of the second tier when they are needed."""
        states = [(_good if number < 60 else _second)(f'host{number}')
                  for number in range(100)]
        spec = _spec(num_instances=100, instance_group=_apart())
        taken, alternates = self._take(
            states, spec, 100,
            [affinity_filter.ServerGroupAntiAffinityFilter()])
        self.assertEqual([state.host for state in states], taken)
        self.assertEqual([], alternates)

    def test_a_hundred_members_together(self):
        """As many as there are CPUs, all on the first one's host."""
        def state(name):
            return builders.host_state(name, builders.host_topology(*[
                oracle_cases.host_cell(cell, range(50 * cell, 50 * cell + 50))
                for cell in range(2)]))

        spec = builders.spec(
            builders.guest_topology((1, 16)), num_instances=101,
            instance_group=objects.InstanceGroup(
                policy='affinity', policies=['affinity'], hosts=[]))
        states = [state('one'), state('two')]
        taken, alternates = self._take(
            states, spec, 101, [affinity_filter.ServerGroupAffinityFilter()])
        self.assertEqual((['one'] * 100, None), (taken, alternates))
        for cell in states[0].numa_topology.cells:
            self.assertEqual(cell.pcpuset, cell.pinned_cpus)

    def test_several_once_and_moved_now(self):
        """How many a move is of, nova knows from when they were created."""
        request = requests.read(_spec(
            num_instances=3, instance_group=_apart(),
            requested_destination=objects.Destination(
                cell=objects.CellMapping(uuid=str(uuid.uuid4())))))
        self.assertFalse(request.is_several)

    def test_not_as_alternates(self):
        taken, alternates = self._take(
            [_good('one'), _good('two'), _second('a')],
            _spec(num_instances=2), 2)
        self.assertEqual(['one', 'two'], taken)
        self.assertEqual([], alternates)

    def test_not_where_the_group_has_to_stay_together(self):
        spec = _spec(num_instances=2, instance_group=objects.InstanceGroup(
            policy='affinity', hosts=[]))
        self.assertEqual(
            (['good'], None), self._take([_good('good'), _second('a')],
                                         spec, 2))

    def test_more_than_there_is_room_for(self):
        with unit_base.log_records() as records:
            taken, alternates = self._take(
                [_good('good'), _second('a')], _spec(num_instances=3), 3)
        self.assertEqual((['good', 'a'], None), (taken, alternates))
        self.assertEqual(1, sum(
            record.getMessage().startswith('No host') for record in records))
