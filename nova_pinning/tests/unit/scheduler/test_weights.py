# SPDX-License-Identifier: Apache-2.0

import logging
import math
import pathlib
from unittest import mock
import uuid

import fixtures
from nova import objects
from nova.scheduler import weights as nova_weights

from nova_pinning.fit import score
from nova_pinning.placement import placement_traits
from nova_pinning.scheduler import filters
from nova_pinning.scheduler import fitting
from nova_pinning.scheduler import layout
from nova_pinning.scheduler import mix
from nova_pinning.scheduler import requests
from nova_pinning.scheduler import weights
from nova_pinning.tests.unit import builders
from nova_pinning.tests.unit.oracle import oracle_cases
from nova_pinning.tests.unit.scheduler import scheduler_fakes
from nova_pinning.tests.unit import unit_base


def _state(name, *cells, **values):
    return builders.host_state(name, builders.host_topology(*cells), **values)


def _cell(number, cpus, pinned=(), threads=2, **values):
    """A host cell whose cores are pairs of neighbours."""
    cpus = list(cpus)
    return oracle_cases.host_cell(
        number, cpus, pinned=list(pinned), siblings=[
            cpus[first:first + threads]
            for first in range(0, len(cpus), threads)], **values)


def _spec(*cells, instance_uuid=None, **values):
    spec = builders.spec(builders.guest_topology(*cells, **values))
    if instance_uuid:
        spec.instance_uuid = instance_uuid
    return spec


def _raw(weigher, states, spec):
    """Weights by host name, before they are normalized."""
    request = weigher._request(spec)
    return {state.host: 0.0 if request is None
            else weigher._weight(state, request) for state in states}


def _weigh(weigher, states, spec):
    """Weights by host name, as nova gets them."""
    found = weigher.weigh_objects(
        [nova_weights.WeighedHost(state, 0.0) for state in states], spec)
    return {state.host: weight for state, weight in zip(states, found)}


def _stranded_by_hand(free_pairs, free_singles, size):
    """Free CPUs left after selling guests that want whole cores."""
    return 2 * free_pairs + free_singles - size * (2 * free_pairs // size)


class WithoutFreeCpus(unit_base.TestCase, oracle_cases.TestCase):
    """What is left free costs nothing, so that figures are round."""

    def setUp(self):
        super().setUp()
        patch = mock.patch.object(score, 'COST_OF_FREE_CPU', 0)
        patch.start()
        self.addCleanup(patch.stop)


class TestFragmentation(WithoutFreeCpus):

    def setUp(self):
        super().setUp()
        self.set_option('fragmentation_mix', [
            {'vcpus': '4', 'memory_mib': '256', 'thread_policy': 'require'}])

    def test_by_hand(self):
        """Every number of free cores, for guests of every even size."""
        weigher = weights.FragmentationWeigher()
        for free in range(1, 7):
            for vcpus in range(2, 2 * free + 1, 2):
                state = _state('h', _cell(
                    0, range(12), pinned=range(2 * free, 12)))
                found = _raw(
                    weigher, [state], _spec((vcpus, 256), threads='require'))
                before = _stranded_by_hand(free, 0, 4)
                after = _stranded_by_hand(free - vcpus // 2, 0, 4)
                self.assertEqual(
                    {'h': float(before - after)}, found, (free, vcpus))

    def test_prefers_the_host_that_strands_least(self):
        states = [
            # Six free CPUs in whole cores: two of them are stranded anyway.
            _state('uses the rest', _cell(0, range(6))),
            # Four free CPUs, which the guest would cut in two.
            _state('breaks a guest', _cell(0, range(4))),
            # Single threads, which nobody else can be sold.
            _state('uses up threads', _cell(
                0, range(8), pinned=[0, 2, 4, 6])),
            _state('room for many', _cell(0, range(16))),
        ]
        spec = _spec((2, 256))
        self.assertEqual(
            {'uses the rest': 2.0, 'breaks a guest': -2.0,
             'uses up threads': 2.0, 'room for many': -2.0},
            _raw(weights.FragmentationWeigher(), states, spec))
        best = nova_weights.HostWeightHandler().get_weighed_objects(
            [weights.FragmentationWeigher()], states[1:], spec)[0]
        self.assertEqual('uses up threads', best.obj.host)

    def test_memory_counts_too(self):
        """Taking the last memory strands all CPUs that are left."""
        states = [
            _state(name, _cell(0, range(8), memory=memory,
                               pages=[[4, 256 * memory, 0, 0]]))
            for name, memory in (('tight', 512), ('ample', 4096))]
        self.assertEqual(
            {'tight': 0.0, 'ample': 0.0}, _raw(
                weights.FragmentationWeigher(), states,
                _spec((4, 256), threads='require')))
        self.assertEqual(
            {'tight': -4.0, 'ample': 0.0}, _raw(
                weights.FragmentationWeigher(), states,
                _spec((4, 512), threads='require')))

    def test_guests_of_several_cells_look_at_the_whole_host(self):
        """The cell that the guest leaves alone counts too."""
        self.set_option('fragmentation_mix', [
            {'vcpus': '4', 'memory_mib': '1', 'cells': '2'}])
        states = [
            _state('pair', _cell(0, range(4)), _cell(1, range(4, 8))),
            _state('single', _cell(0, range(4)),
                   _cell(1, range(4, 8), pinned=[4, 5, 6]))]
        self.assertEqual(
            {'pair': -6.0, 'single': 2.0},
            _raw(weights.FragmentationWeigher(), states, _spec((2, 1))))

    def test_what_nova_gets(self):
        """The same between 0 and 1."""
        states = [_state(name, _cell(0, range(cpus))) for name, cpus in (
            ('worst', 4), ('best', 6), ('too small', 1))]
        self.assertEqual(
            {'worst': 0.0, 'best': 1.0, 'too small': 0.0},
            _weigh(weights.FragmentationWeigher(), states, _spec((2, 256))))

    def test_guests_that_are_not_pinned(self):
        state = _state('h', _cell(0, range(4), shared=range(4)))
        shared = builders.spec(builders.guest_topology((2, 1)))
        for cell in shared.numa_topology.cells:
            cell.cpu_policy = 'shared'
            cell.cpuset, cell.pcpuset = cell.pcpuset, set()
        for spec in (shared, builders.spec()):
            for kind in weights.all_weighers():
                self.assertEqual({'h': 0.0}, _weigh(kind(), [state], spec))

    def test_hosts_on_which_the_guest_does_not_fit(self):
        """No filter of ours ran; the weigher says nothing of its own."""
        states = [_state('full', _cell(0, range(4), pinned=range(4)))]
        for kind in weights.all_weighers():
            self.assertEqual(
                {'full': 0.0}, _weigh(kind(), states, _spec((2, 1))))

    def test_stock_after_the_emulators_cpu(self):
        """Its sibling is lost to guests that want whole cores."""
        state = _state('h', _cell(0, range(8)))
        found = _raw(weights.FragmentationWeigher(), [state], _spec(
            (4, 256), threads='require', emulator='isolate'))
        self.assertEqual({'h': -3.0}, found)


class TestOfEquals(unit_base.TestCase, oracle_cases.TestCase):
    """Hosts that strand as many CPUs."""

    def setUp(self):
        super().setUp()
        self.set_option('fragmentation_mix', [
            {'vcpus': '2', 'memory_mib': '1'}])

    def _weighed(self, states, *weighers):
        return {weighed.obj.host: weighed.weight
                for weighed in nova_weights.HostWeightHandler(
                    ).get_weighed_objects(
                        [kind() for kind in weighers], states, _spec((2, 1)))}

    def test_the_fullest_cell_comes_first(self):
        found = self._weighed([
            _state('empty', _cell(0, range(16))),
            _state('full', _cell(0, range(16), pinned=range(14))),
            _state('half', _cell(0, range(16), pinned=range(8)))],
            weights.FragmentationWeigher)
        self.assertEqual(['full', 'half', 'empty'], list(found))

    def test_that_does_not_outweigh_a_stranded_cpu(self):
        found = self._weighed([
            _state('strands', _cell(0, range(500), pinned=range(497))),
            _state('empty', _cell(0, range(500), pinned=range(1, 2))),
            _state('even', _cell(0, range(500)))],
            weights.FragmentationWeigher)
        # All lose as much: two CPUs are sold, and one is stranded anyway.
        self.assertEqual(['strands', 'empty', 'even'], list(found))
        self.set_option('fragmentation_mix', [
            {'vcpus': '3', 'memory_mib': '1'}])
        found = self._weighed([
            _state('strands', _cell(0, range(500), pinned=range(497))),
            _state('none', _cell(0, range(500)))],
            weights.FragmentationWeigher)
        self.assertEqual(['none', 'strands'], list(found))

    def test_nor_another_weigher(self):
        """Nova stretches weights, however little they differ."""
        for state in (near := _state('near', _cell(0, range(16))),
                      far := _state('far', _cell(
                          0, range(16), pinned=[*range(7), *range(9, 16)]))):
            state.aggregates = [builders.aggregate(pinning__l3_cpus='8')]
        found = self._weighed([near, far], weights.FragmentationWeigher,
                              weights.CacheLocalityWeigher)
        self.assertEqual(['near', 'far'], list(found))

    def test_one_multiplier_an_aggregate_does_not_lift_equals(self):
        """What nothing tells apart weighs nothing."""
        states = [_state('here', _cell(0, range(4))),
                  _state('there', _cell(0, range(4)))]
        states[0].aggregates = [builders.aggregate(
            fragmentation_weight_multiplier='9')]
        self.assertEqual({'here': 0.0, 'there': 0.0}, self._weighed(
            states, weights.FragmentationWeigher))


class TestRecentMix(WithoutFreeCpus):

    def _weight(self, weigher, spec):
        states = [_state('h', _cell(0, range(6)))]
        return _raw(weigher, states, spec)['h']

    def test_learns_from_requests(self):
        weigher = weights.FragmentationWeigher()
        # Guests of 2 strand nothing for guests of 2 ...
        self.assertEqual(0.0, self._weight(weigher, _spec((2, 1))))
        # ... but for the guests of 6 among them the loss is 4.
        self.assertEqual(0.0, self._weight(weigher, _spec((6, 1))))
        self.assertEqual(
            -4 * 36 / (4 + 36 + 4), self._weight(weigher, _spec((2, 1))))

    def test_one_request_counts_once(self):
        weigher = weights.FragmentationWeigher()
        six, two = _spec((6, 1)), _spec((2, 1))
        self._weight(weigher, six)
        for _again in range(3):
            self.assertEqual(-4 * 36 / 40, self._weight(weigher, two))

    def test_counts_requests_for_which_nothing_is_weighed(self):
        """Nova asks no weigher where at most one host is left."""
        list(filters.PinnedTopologyFilter().filter_all([], _spec((6, 1))))
        self.assertEqual(-4 * 36 / 40, self._weight(
            weights.FragmentationWeigher(), _spec((2, 1))))

    def test_instances_without_a_uuid(self):
        """They are weighed by what was asked for before."""
        weigher = weights.FragmentationWeigher()
        self._weight(weigher, _spec((6, 1)))
        spec = _spec((2, 1))
        del spec._obj_instance_uuid
        self.assertEqual(-4.0, self._weight(weigher, spec))
        self.assertEqual([6], [
            size.vcpus for size, _share in mix.recent().mix()])

    def test_many_instances_and_many_attempts(self):
        """Each instance counts once, whatever it came with."""
        many, again = _spec((16, 1)), _spec((2, 1))
        uuids = [str(uuid.uuid4()) for _instance in range(50)]
        before = None
        for instance in uuids:
            # As nova.scheduler.manager does for a request for several.
            many.instance_uuid = instance
            for _filter_or_weigher in range(3):
                request = requests.read(many)
                requests.note_instance(many, request)
            before = before or request.recent_mix
            self.assertIs(before, request.recent_mix)
        for _attempt in range(200):
            # Nova makes a new spec for each.
            spec = _spec((2, 1), instance_uuid=again.instance_uuid)
            requests.note_instance(spec, requests.read(spec))
        self.assertEqual(
            {16: 50 * 256 / (50 * 256 + 4), 2: 4 / (50 * 256 + 4)},
            {size.vcpus: share for size, share in mix.recent().mix()})

    def test_moves_ask_for_nothing_new(self):
        move = objects.Destination(cell=objects.CellMapping(
            uuid=str(uuid.uuid4())))
        new = _spec((6, 1))
        moved = _spec((2, 1))
        moved.requested_destination = move
        for spec in (new, moved):
            requests.note_instance(spec, requests.read(spec))
        self.assertEqual([6], [
            size.vcpus for size, _share in mix.recent().mix()])
        self.assertEqual(mix.recent().mix(), requests.read(moved).recent_mix)

    def test_forgets(self):
        self.useFixture(fixtures.MonkeyPatch(
            'nova_pinning.scheduler.mix.RECENT_INSTANCES', 2))
        weigher = weights.FragmentationWeigher()
        for spec in (_spec((6, 1)), _spec((2, 1))):
            self._weight(weigher, spec)
        self.assertEqual(0.0, self._weight(weigher, _spec((2, 1))))

    def test_learns_from_pinned_guests_only(self):
        weigher = weights.FragmentationWeigher()
        for spec in (builders.spec(), _spec((2, 1), policy='shared')):
            self._weight(weigher, spec)
        self.assertEqual((), mix.recent().mix())

    def test_a_configured_mix_does_not_learn(self):
        self.set_option('fragmentation_mix', [
            {'vcpus': '2', 'memory_mib': '1'}])
        weigher = weights.FragmentationWeigher()
        self._weight(weigher, _spec((6, 1)))
        self.assertEqual(0.0, self._weight(weigher, _spec((2, 1))))


class TestCacheLocality(unit_base.TestCase, oracle_cases.TestCase):

    def _weights(self, l3_cpus, *states, spec=None):
        for state in states:
            if l3_cpus is not None:
                state.aggregates = [builders.aggregate(
                    pinning__l3_cpus=l3_cpus)]
        return _raw(weights.CacheLocalityWeigher(), states,
                    spec or _spec((4, 1)))

    def test_the_fewest_domains(self):
        # Domains of CPUs 0-3, 4-7 and 8-11; a domain in one piece is free
        # on the first host, none on the others.
        states = [
            _state('one', _cell(0, range(12), pinned=range(4, 12))),
            _state('two', _cell(0, range(12), pinned=[0, 1, 6, 7, 8, 9, 10,
                                                      11])),
            _state('three', _cell(0, range(12), pinned=[
                0, 1, 2, 5, 6, 7, 9, 11]))]
        self.assertEqual(
            {'one': -1.0, 'two': -2.0, 'three': -3.0},
            self._weights('4', *states))
        best, *_rest, worst = (
            nova_weights.HostWeightHandler().get_weighed_objects(
                [weights.CacheLocalityWeigher()], states[::-1],
                _spec((4, 1))))
        self.assertEqual(('one', 'three'), (best.obj.host, worst.obj.host))

    def test_unknown_layouts_are_neutral(self):
        """They weigh as much as the others do on average."""
        known = [
            _state(name, _cell(0, range(12), pinned=pinned),
                   aggregates=[builders.aggregate(pinning__l3_cpus='4')])
            for name, pinned in (
                ('one', range(4, 12)),
                ('two', [0, 1, 6, 7, 8, 9, 10, 11]),
                ('three', [0, 1, 2, 5, 6, 7, 9, 11]),
                ('also one', range(4, 12)))]
        for text in (None, '', 'many', '0'):
            aggregates = [] if text is None else [
                builders.aggregate(pinning__l3_cpus=text)]
            unknown = [
                _state('unknown', _cell(0, range(12)), aggregates=aggregates),
                _state('too small', _cell(0, range(2)),
                       aggregates=aggregates)]
            for exclusive in (False, True):
                self.set_option('prefer_exclusive_l3', exclusive)
                weigher = weights.CacheLocalityWeigher()
                found = _weigh(weigher, [*unknown, *known], _spec((4, 1)))
                self.assertEqual(
                    _weigh(weigher, known, _spec((4, 1))),
                    {one.host: found[one.host] for one in known})
                self.assertEqual(
                    sum(found[one.host] for one in known) / 4,
                    found['unknown'])
                self.assertEqual(0.0, found['too small'])
                # As it is between equals, or where nothing is known.
                for states in ([unknown[0], known[0]], unknown):
                    self.assertEqual({0.0}, set(_weigh(
                        weigher, states, _spec((4, 1))).values()))

    def test_guests_of_several_cells(self):
        state = _state('h', _cell(0, range(8)), _cell(1, range(8, 16)))
        spec = _spec((4, 1), (6, 1))
        self.assertEqual({'h': -2.0}, self._weights('8', state, spec=spec))
        self.assertEqual({'h': -3.0}, self._weights('4', state, spec=spec))

    def test_shared_domains(self):
        # The guest takes CPUs 2, 3 and 4, 5; another guest has 0.
        state = _state('h', _cell(0, range(8), pinned=[0, 1, 6, 7]))
        quiet = _state('quiet', _cell(0, range(8), pinned=[]))
        for exclusive, expected in (
                (False, {'h': -2.0, 'quiet': -1.0}),
                (True, {'h': -6.0, 'quiet': -1.0})):
            self.set_option('prefer_exclusive_l3', exclusive)
            self.assertEqual(expected, self._weights('4', state, quiet))

    def test_only_shared_domains_count_more(self):
        self.set_option('prefer_exclusive_l3', True)
        state = _state('h', _cell(0, range(8), pinned=[0, 1]))
        # CPUs 2, 3 are in a domain with the other guest, 4, 5 are not.
        self.assertEqual({'h': -4.0}, self._weights('4', state))

    def test_domains_with_floating_vcpus(self):
        """Emulator threads float over the shared CPUs at least."""
        # The guest takes CPUs 2 to 5, of which 2 and 3 are near 0 and 1.
        mixed = _state('mixed', oracle_cases.host_cell(
            0, range(2, 8), shared=[0, 1],
            siblings=[[0, 1], [2, 3], [4, 5], [6, 7]]))
        legacy = [
            _state(f'legacy {used}', _cell(
                0, range(8), shared=range(8), cpu_usage=used,
                pinned=[0, 1]))
            for used in (0, 1)]
        for exclusive, expected in (
                (False, {'mixed': -2.0, 'legacy 0': -2.0, 'legacy 1': -2.0}),
                (True, {'mixed': -4.0, 'legacy 0': -4.0, 'legacy 1': -6.0})):
            self.set_option('prefer_exclusive_l3', exclusive)
            self.assertEqual(expected, self._weights('4', mixed, *legacy))

    def test_the_other_cells_tell_how_cores_are_numbered(self):
        """CPUs 0, 2, .. and 1, 3, .., or every other core sold."""
        in_turns = _state('in turns', _cell(0, range(0, 16, 2), threads=1),
                          _cell(1, range(1, 16, 2), threads=1))
        half = _state('half', _cell(0, range(0, 16, 2), threads=1),
                      _cell(1, range(17, 32, 2), threads=1))
        self.assertEqual({'in turns': -1.0, 'half': -2.0},
                         self._weights('4', in_turns, half))

    def test_traits(self):
        """They tell the L3 layout where aggregates do not."""
        for trait, aggregate, expected in (
                (2, None, -2.0), (8, None, -1.0), (2, '8', -1.0),
                (8, '2', -2.0), (2, 'many', -2.0), (None, '2', -2.0)):
            metadata = {} if aggregate is None else {
                'pinning__l3_cpus': aggregate}
            state = _state('h', _cell(0, range(8)), aggregates=[
                builders.aggregate(**metadata)])
            scheduler_fakes.serve({state.uuid: {
                placement_traits.DEDICATED,
                *([placement_traits.l3_trait(trait)] if trait else ())}})
            self.assertEqual(
                {'h': expected},
                _raw(weights.CacheLocalityWeigher(), [state],
                     _spec((4, 1))), (trait, aggregate))

    def test_traits_of_other_hosts(self):
        scheduler_fakes.serve({'other': {placement_traits.l3_trait(2)}})
        states = [_state('h', _cell(0, range(8))),
                  _state('other', _cell(0, range(8)), uuid='other')]
        found = _raw(weights.CacheLocalityWeigher(), states, _spec((4, 1)))
        self.assertTrue(math.isnan(found['h']))
        self.assertEqual(-2.0, found['other'])

    def test_l3_of_several_aggregates(self):
        for texts, expected in (
                ([], None), (['16'], 16), (['16', '8'], 8), ([' 8 '], 8),
                (['many', '8'], 8), (['0', '-8', '', '1e3'], None),
                (['1' * 7], None)):
            state = builders.host_state(aggregates=[
                builders.aggregate(pinning__l3_cpus=text) for text in texts
            ] + [builders.aggregate()])
            self.assertEqual(
                expected, layout.l3_cpus_from_aggregates(state), texts)


class TestHostsThatWillNotDo(unit_base.TestCase, oracle_cases.TestCase):

    def _states(self):
        return [_state('full', _cell(0, range(4), pinned=range(4))),
                _state('good', _cell(0, range(4)))]

    def test_weigh_no_more_than_the_worst(self):
        """As where nova's own filter let pass what ours would not."""
        for kind in weights.all_weighers():
            found = _weigh(kind(), self._states(), _spec((4, 1)))
            self.assertEqual(found['good'], found['full'], kind)

    def test_nothing_to_compare_with(self):
        for kind in weights.all_weighers():
            self.assertEqual({'full': 0.0}, _weigh(
                kind(), self._states()[:1], _spec((4, 1))))

    def test_allocation_candidates_are_left_alone(self):
        state = self._states()[1]
        candidates = state.allocation_candidates = [
            {'mappings': {}}, {'mappings': {}}]
        _weigh(weights.CacheLocalityWeigher(), [state], _spec((4, 1)))
        self.assertIs(candidates, state.allocation_candidates)


class TestObserving(unit_base.TestCase, oracle_cases.TestCase):

    def test_nothing_is_weighed(self):
        """Nor looked at: that would take time."""
        states = [_state('worse', _cell(0, range(4))),
                  _state('better', _cell(0, range(6)))]
        for state in states:
            state.aggregates = [builders.aggregate(pinning__l3_cpus='2')]
        weighers = [kind() for kind in weights.all_weighers()]
        # It is an option that may change while nova-scheduler runs.
        self.set_option('mode', 'observe')
        with mock.patch.object(fitting, 'fit_on_host') as place:
            for weigher in weighers:
                self.assertEqual({'worse': 0.0, 'better': 0.0}, _weigh(
                    weigher, states, _spec((3, 1))))
        place.assert_not_called()
        self.assertEqual((), mix.recent().mix())
        self.set_option('mode', 'enforce')
        self.assertNotEqual({'worse': 0.0, 'better': 0.0}, _weigh(
            weighers[0], states, _spec((3, 1))))


class TestMultipliers(unit_base.TestCase):

    def test_options_and_aggregates(self):
        for kind, name, default in (
                (weights.FragmentationWeigher,
                 'fragmentation_weight_multiplier', 8.0),
                (weights.CacheLocalityWeigher,
                 'cache_locality_weight_multiplier', 4.0)):
            self.assertEqual(
                default, kind().weight_multiplier(builders.host_state()))
            # It is an option that may change while nova-scheduler runs.
            weigher = kind()
            self.set_option(name, 3.5)
            requests.current_options()
            for texts, expected in (
                    ([], 3.5), (['-1.5'], -1.5), (['0'], 0.0),
                    (['4', '2.5'], 2.5), (['much'], 3.5),
                    (['nan'], 3.5), (['inf'], 3.5), (['-inf', '1'], 3.5),
                    ([''], 3.5)):
                state = builders.host_state(aggregates=[
                    builders.aggregate(), *(
                        builders.aggregate(**{name: text})
                        for text in texts)])
                self.assertEqual(
                    expected, weigher.weight_multiplier(state), texts)

    def test_options_that_went_wrong(self):
        """After the start, what was right last counts; nothing is raised."""
        self.enterContext(mock.patch.object(
            requests, '_is_overridden', False))
        path = pathlib.Path(
            self.create_tempfiles([('nova', '')], ext='.conf')[0])
        self.options.set_config_files([str(path)])
        for value, expected in (('3.5', 3.5), ('much', 3.5), ('nan', 3.5),
                                ('-1', -1.0), ('inf', -1.0)):
            path.write_text(
                f'[pinning]\nfragmentation_weight_multiplier = {value}\n')
            if value == '3.5':
                self.options.conf.reload_config_files()
                weigher = weights.FragmentationWeigher()
            with unit_base.log_records(level=logging.ERROR) as records:
                self.options.conf.mutate_config_files()
                self.assertEqual(expected, weigher.weight_multiplier(
                    builders.host_state()), value)
            said = ' '.join(record.getMessage() for record in records)
            is_wrong = value in ('much', 'nan', 'inf')
            self.assertEqual(
                is_wrong, 'fragmentation_weight_multiplier' in said, said)

    def test_a_multiplier_turns_the_order_round(self):
        self.set_option('fragmentation_mix', [
            {'vcpus': '4', 'memory_mib': '1'}])
        states = [_state('worse', _cell(0, range(4))),
                  _state('better', _cell(0, range(6)))]
        for multiplier, first in ((1.0, 'better'), (-1.0, 'worse')):
            self.set_option('fragmentation_weight_multiplier', multiplier)
            best = nova_weights.HostWeightHandler().get_weighed_objects(
                [weights.FragmentationWeigher()], states, _spec((2, 1)))[0]
            self.assertEqual(first, best.obj.host)

    def _assert_quiet(self, *texts):
        weigher = weights.FragmentationWeigher()
        with unit_base.log_records(name='') as records:
            for number in range(20):
                weigher.weight_multiplier(builders.host_state(
                    f'host{number}', aggregates=[
                        builders.aggregate(
                            fragmentation_weight_multiplier=text)
                        for text in texts]))
        self.assertLess(
            len([record for record in records if record.levelname != 'DEBUG']),
            2)

    def test_nonsense_is_not_logged_for_each_host(self):
        self._assert_quiet('much')

    def test_two_values_are_not_logged_for_each_host(self):
        self._assert_quiet('1', '2')
