# SPDX-License-Identifier: Apache-2.0

import itertools
from unittest import mock

from nova.virt import hardware

from nova_pinning.model import hostclass
from nova_pinning.model import Reason
from nova_pinning.placement import placement_traits
from nova_pinning.scheduler import classes
from nova_pinning.scheduler import filters
from nova_pinning.scheduler import requests
from nova_pinning.scheduler import traits_reader
from nova_pinning.tests.unit import builders
from nova_pinning.tests.unit.oracle import oracle_cases
from nova_pinning.tests.unit.scheduler import scheduler_fakes
from nova_pinning.tests.unit import unit_base

DEDICATED, SHARED = hostclass.HostClass.DEDICATED, hostclass.HostClass.SHARED


class TestGuestClass(unit_base.TestCase):

    def _class(self, extra_specs=None, image=None, topology=None):
        return classes.guest_class(
            builders.spec(topology, extra_specs, image))

    def test_flavor_and_image(self):
        for extra_specs, image, expected in (
                ({}, {}, SHARED),
                ({'hw:cpu_policy': 'shared'}, {}, SHARED),
                ({'hw:cpu_policy': 'dedicated'}, {}, DEDICATED),
                ({'hw:cpu_policy': 'mixed'}, {}, DEDICATED),
                ({}, {'hw_cpu_policy': 'dedicated'}, DEDICATED),
                ({}, {'hw_cpu_policy': 'mixed'}, DEDICATED),
                ({}, {'hw_cpu_policy': 'shared'}, SHARED),
                ({'hw:cpu_policy': 'dedicated'},
                 {'hw_cpu_policy': 'shared'}, DEDICATED),
                ({'resources:PCPU': '4'}, {}, DEDICATED),
                ({'resources1:PCPU': '4'}, {}, DEDICATED),
                ({'resources12:PCPU': ' 4 '}, {}, DEDICATED),
                ({'resources_CPUS:PCPU': '1'}, {}, DEDICATED),
                ({'resources:PCPU': '0'}, {}, SHARED),
                ({'resources:PCPU': ''}, {}, SHARED),
                ({'resources:VCPU': '4'}, {}, SHARED),
                ({'resources:CUSTOM_PCPU': '4'}, {}, SHARED),
                ({'myresources:PCPU': '4'}, {}, SHARED),
                ({'hw:mem_page_size': 'large'}, {}, SHARED),
                # What the operator says outweighs all of it.
                ({'hw:cpu_policy': 'dedicated', 'pinning:class': 'shared'},
                 {'hw_cpu_policy': 'dedicated'}, SHARED),
                ({'pinning:class': 'dedicated'}, {}, DEDICATED),
                ({'pinning:class': ' Shared '}, {}, SHARED)):
            self.assertIs(
                expected, self._class(extra_specs, image),
                (extra_specs, image))

    def test_topology(self):
        """As nova worked it out, from whatever that came."""
        for policy, expected in (
                ('dedicated', DEDICATED), ('mixed', DEDICATED),
                ('shared', SHARED), (None, SHARED)):
            topology = builders.guest_topology((1, 1), policy=policy)
            self.assertIs(expected, self._class(topology=topology), policy)

    def test_same_as_novas_own_reading(self):
        """Of policies and of resources, with and without groups."""
        for extra_specs in (
                {}, {'hw:cpu_policy': 'dedicated'}, {'resources:PCPU': '1'},
                {'resources3:PCPU': '1'}, {'resources:VCPU': '1'}):
            spec = builders.spec(None, extra_specs)
            topology = hardware.numa_get_constraints(spec.flavor, spec.image)
            self.assertIs(
                DEDICATED if topology else SHARED,
                self._class(extra_specs), extra_specs)

    def test_no_image(self):
        """A server that boots from a volume."""
        for specs, expected in (({}, 'shared'),
                                ({'hw:cpu_policy': 'mixed'}, 'dedicated')):
            spec = builders.spec(extra_specs=specs)
            spec.image = None
            self.assertEqual(expected, classes.guest_class(spec))
            state = builders.host_state(aggregates=[
                builders.aggregate(pinning__class=expected)])
            self.assertTrue(
                filters.HostClassFilter().host_passes(state, spec))

    def test_named_groups_of_resources(self):
        for key, value, expected in (
                ('resources_my-cpus:PCPU', '4', 'dedicated'),
                ('resources_A_1:PCPU', '4', 'dedicated'),
                ('resources:PCPU', '00', 'shared'),
                ('resources:PCPUS', '4', 'shared')):
            self.assertEqual(expected, classes.guest_class(
                builders.spec(extra_specs={key: value})), key)

    def test_nonsense(self):
        for name in ('', 'gold', 'dedicated,shared'):
            error = self.assertRaises(
                hostclass.UnknownClass, self._class, {'pinning:class': name})
            self.assertEqual(
                f'flavor extra spec pinning:class is {name!r}; it can be '
                f'dedicated or shared', str(error))


class TestHostClass(unit_base.TestCase):

    def _from_aggregates(self, *names):
        return hostclass.class_of_aggregates([
            builders.aggregate(
                f'aggregate{number}', **(
                    {'pinning__class': name} if name is not None else {}))
            for number, name in enumerate(names)])

    def test_aggregates(self):
        for names, expected in (
                ([], None),
                ([None], None),
                (['dedicated'], DEDICATED),
                (['shared'], SHARED),
                ([None, ' SHARED', None], SHARED),
                (['dedicated', 'dedicated'], DEDICATED)):
            self.assertIs(expected, self._from_aggregates(*names), names)

    def test_shared_cpus_in_the_first_cell_only(self):
        self.assertEqual('shared', classes.class_from_topology(
            builders.host_topology(
                oracle_cases.host_cell(0, [], shared=[0, 1]),
                oracle_cases.host_cell(1, []))))

    def test_topology_of_an_older_nova(self):
        state = builders.host_state(topology=builders.host_topology(
            oracle_cases.host_cell(0, [0, 1])))
        del state.numa_topology.cells[0]._obj_pcpuset
        self.assertIsNone(classes.class_from_topology(state.numa_topology))
        self.assertEqual('shared', classes.host_class(
            state, traits_reader.TraitsView(), 'by-guests'))

    def test_aggregates_in_conflict(self):
        error = self.assertRaises(
            hostclass.UnknownClass, self._from_aggregates,
            'shared', None, 'dedicated')
        self.assertEqual(
            'its aggregates name both classes under pinning:class',
            str(error))

    def test_aggregates_with_nonsense(self):
        for name in ('', 'gold', 'dedicated shared'):
            error = self.assertRaises(
                hostclass.UnknownClass, self._from_aggregates, 'shared', name)
            self.assertEqual(
                f'pinning:class of aggregate aggregate1 is {name!r}; it can '
                f'be dedicated or shared', str(error))

    def test_topology(self):
        dedicated = oracle_cases.host_cell(0, [0, 1])
        shared = oracle_cases.host_cell(1, shared=[2, 3])
        legacy = oracle_cases.host_cell(2, [4, 5], shared=[4, 5])
        both = oracle_cases.host_cell(3, [6], shared=[7])
        nothing = oracle_cases.host_cell(4)
        for cells, expected in (
                ([dedicated], DEDICATED), ([shared], SHARED),
                ([both], DEDICATED), ([legacy], None), ([nothing], None),
                ([], None), ([shared, dedicated], DEDICATED),
                ([nothing, shared], SHARED), ([nothing, both], DEDICATED)):
            topology = builders.host_topology(*cells)
            self.assertIs(
                expected, classes.class_from_topology(topology), cells)
            self.assertEqual(
                cells in ([both], [shared, dedicated], [nothing, both]),
                classes.has_cpus_for_both(topology), cells)
        self.assertIsNone(classes.class_from_topology(None))
        self.assertFalse(classes.has_cpus_for_both(None))


class TestHostClassFilter(unit_base.TestCase):

    def _refusal(self, guest=None, aggregate=None, cells=()):
        state = builders.host_state(
            topology=builders.host_topology(*cells) if cells else None)
        if aggregate:
            state.aggregates = [
                builders.aggregate(pinning__class=aggregate)]
        spec = builders.spec(
            None, {'pinning:class': guest} if guest else {})
        refusal = filters.HostClassFilter().refusal(
            state, requests.read(spec))
        self.assertEqual(
            refusal is None,
            filters.HostClassFilter().host_passes(state, spec))
        return refusal

    def test_like_to_like(self):
        for guest in ('dedicated', 'shared'):
            for host in ('dedicated', 'shared'):
                refusal = self._refusal(guest, host)
                if guest == host:
                    self.assertIsNone(refusal)
                else:
                    self.assertEqual(Reason.HOST_CLASS, refusal.reason)
                    self.assertEqual(
                        'the host is of another class than the guest: a '
                        f'{host} host, a {guest} guest', str(refusal))

    def test_aggregates_outweigh_the_topology(self):
        cells = [oracle_cases.host_cell(0, [0])]
        self.assertIsNone(self._refusal('dedicated', None, cells))
        self.assertIsNotNone(self._refusal('dedicated', 'shared', cells))
        self.assertIsNone(self._refusal('shared', 'shared', cells))

    def test_unknown_hosts(self):
        for policy, passing in (
                ('by-guests', ['shared']),
                ('allow', ['dedicated', 'shared']), ('refuse', []),
                ('dedicated', ['dedicated']), ('shared', ['shared'])):
            self.set_option('unknown_host_class', policy)
            for guest in ('dedicated', 'shared'):
                for cells in ((), [oracle_cases.host_cell(0, [1],
                                                          shared=[1])]):
                    refusal = self._refusal(guest, None, cells)
                    self.assertEqual(
                        guest in passing, refusal is None, (policy, guest))
            # A host that is known is no matter of this.
            self.assertIsNone(self._refusal('shared', 'shared'))
            self.assertIsNone(self._refusal('dedicated', 'dedicated'))
        self.set_option('unknown_host_class', 'refuse')
        refusal = self._refusal('shared')
        self.assertEqual(Reason.CLASS_UNKNOWN, refusal.reason)
        self.assertIn("nothing indicates the host's class", str(refusal))

    def test_by_guests(self):
        """A host without marks and CPU sets is what its guests are."""
        for pinned, in_cells, vcpus, passing in (
                # None, some that float, in cells and elsewhere.
                ([], 0, 0, 'shared'), ([], 0, 7, 'shared'),
                ([], 2, 2, 'shared'), ([], 2, 7, 'shared'),
                # Pinned, with policy mixed, with threads that are isolated.
                ([0, 1], 0, 2, 'dedicated'), ([0, 1], 1, 3, 'dedicated'),
                ([0, 1, 2], 0, 2, 'dedicated'),
                # Of both classes.
                ([0, 1], 0, 3, None), ([0, 1], 1, 4, None)):
            for guest in ('dedicated', 'shared'):
                state = builders.host_state(vcpus_used=vcpus, topology=(
                    builders.host_topology(oracle_cases.host_cell(
                        0, range(4), shared=list(range(4)), pinned=pinned,
                        cpu_usage=in_cells))))
                refusal = filters.HostClassFilter().refusal(
                    state, requests.read(builders.spec(
                        None, {'pinning:class': guest})))
                expected = (None if guest == passing else
                            Reason.HOST_CLASS if passing else
                            Reason.CLASS_UNKNOWN)
                self.assertIs(expected,
                              None if refusal is None else refusal.reason,
                              (pinned, in_cells, vcpus, guest))
        self.assertIn('and 1 vCPUs float over its CPUs, of which 2 are '
                      'pinned; mark it', str(refusal))

    def test_bare_metal(self):
        """Ironic's nodes are of neither class, whatever marks them."""
        specs = ({'resources:CUSTOM_BAREMETAL': '1', 'resources:VCPU': '0',
                  'resources:MEMORY_MB': '0', 'resources:DISK_GB': '0'},
                 {}, {'hw:cpu_policy': 'dedicated'})
        for policy in ('by-guests', 'allow', 'refuse', 'dedicated', 'shared'):
            self.set_option('unknown_host_class', policy)
            for extra_specs, named in itertools.product(
                    specs, ('', 'dedicated', 'shared', 'gold')):
                state = builders.host_state(
                    hypervisor_type='ironic', aggregates=[
                        builders.aggregate(pinning__class=named)]
                    if named else [])
                self.assertTrue(filters.HostClassFilter().host_passes(
                    state, builders.spec(extra_specs=extra_specs)))

    def test_nonsense(self):
        for guest, host, where in (
                ('gold', 'shared', 'flavor extra spec pinning:class'),
                ('shared', 'gold', 'pinning:class of aggregate aggregate1')):
            refusal = self._refusal(guest, host)
            self.assertEqual(Reason.CLASS_UNKNOWN, refusal.reason)
            self.assertIn(f"{where} is 'gold'", str(refusal))

    def test_rebuild(self):
        state = builders.host_state(
            aggregates=[builders.aggregate(pinning__class='dedicated')])
        spec = builders.spec()
        chosen = filters.HostClassFilter()
        self.assertEqual([], list(chosen.filter_all([state], spec)))
        spec.scheduler_hints = {'_nova_check_type': ['rebuild']}
        self.assertEqual([state], list(chosen.filter_all([state], spec)))


#: What aggregates, traits and the topology can say of a host's class; the
#: names of several classes are both, an unknown one is nonsense.
_NAMED = ((), ('dedicated',), ('shared',), ('dedicated', 'shared'), ('gold',))
_MARKED = ((), (DEDICATED,), (SHARED,), (DEDICATED, SHARED))
_SHOWN = (None, DEDICATED, SHARED)
_CELLS = {None: [], DEDICATED: [oracle_cases.host_cell(0, [0])],
          SHARED: [oracle_cases.host_cell(0, shared=[0])]}


def _expected(named, marked, shown, guest, is_stale, unknown):
    """The reason of the refusal, or None, from the rules in so many words."""
    if is_stale and guest is DEDICATED and not named:
        return Reason.TRAITS_STALE
    stated = {*named, *marked}
    if 'gold' in stated or len(stated) > 1:
        return Reason.CLASS_UNKNOWN
    known = stated or ({shown} if shown else set())
    if not known:
        if unknown == 'allow':
            return None
        if unknown == 'by-guests':
            # There are none.
            return None if guest is SHARED else Reason.HOST_CLASS
        if unknown == 'refuse':
            return Reason.CLASS_UNKNOWN
        known = {unknown}
    return None if known == {guest} else Reason.HOST_CLASS


class TestTraits(unit_base.TestCase):

    def _state(self, named=(), marked=(), shown=None):
        state = builders.host_state(
            topology=builders.host_topology(*_CELLS[shown]),
            aggregates=[
                builders.aggregate(f'aggregate-{name}', pinning__class=name)
                for name in named])
        self.placement.traits = {
            'other': {placement_traits.DEDICATED, placement_traits.SHARED}}
        if marked:
            self.placement.traits[state.uuid] = {
                placement_traits.TRAIT_OF[one] for one in marked}
        self.reader.refresh()
        return state

    def setUp(self):
        super().setUp()
        self.placement = scheduler_fakes.Placement()
        self.clock = scheduler_fakes.Clock()
        self.reader = scheduler_fakes.reader(self.placement, clock=self.clock)
        traits_reader.use(self.reader)

    def _refusal(self, state, guest):
        return filters.HostClassFilter().refusal(
            state, requests.read(builders.spec(
                None, {'pinning:class': guest})))

    def test_all_that_can_be_said(self):
        for named, marked, shown in itertools.product(
                _NAMED, _MARKED, _SHOWN):
            state = self._state(named, marked, shown)
            for guest, unknown, age in itertools.product(
                    (DEDICATED, SHARED),
                    ('by-guests', 'allow', 'refuse', 'dedicated', 'shared'),
                    (0, 3601)):
                self.set_option('unknown_host_class', unknown)
                self.clock.now += age
                refusal = self._refusal(state, guest)
                self.clock.now -= age
                self.assertIs(
                    _expected(named, marked, shown, guest, bool(age),
                              unknown),
                    None if refusal is None else refusal.reason,
                    (named, marked, shown, guest, unknown, age))

    def test_disagreement(self):
        state = self._state(['dedicated'], [SHARED])
        for guest in (DEDICATED, SHARED):
            self.assertEqual(
                'the class of the host or the guest is not known: its '
                'aggregates name dedicated under pinning:class, its provider '
                'has CUSTOM_PINNING_SHARED', str(self._refusal(state, guest)))

    def test_both_traits(self):
        state = self._state(['dedicated'], [DEDICATED, SHARED])
        for guest in (DEDICATED, SHARED):
            self.assertEqual(
                'the class of the host or the guest is not known: its '
                'provider has both CUSTOM_PINNING_DEDICATED and '
                'CUSTOM_PINNING_SHARED', str(self._refusal(state, guest)))

    def test_too_old(self):
        state = self._state([], [DEDICATED])
        self.clock.now += 4000
        self.assertEqual(
            'the traits that tell what the host is for could not be read '
            'from Placement for too long: last read 4000 s ago; [pinning] '
            'traits_max_age_seconds is 3600',
            str(self._refusal(state, DEDICATED)))
        # By the last traits that were read, too.
        self.assertEqual(
            Reason.HOST_CLASS, self._refusal(state, SHARED).reason)

    def test_never_read(self):
        """The topology tells, where no aggregate does; a site may do without
        traits.
        """
        for named, shown in itertools.product(
                ((), ('dedicated',), ('shared',)), _SHOWN):
            state = self._state(named, [SHARED], shown)
            reader = scheduler_fakes.reader(self.placement)
            self.placement.error = OSError('no Placement')
            self.assertFalse(reader.refresh())
            self.placement.error = None
            traits_reader.use(reader)
            known = named[0] if named else shown
            for guest in (DEDICATED, SHARED):
                expected = None
                if known not in (None, guest):
                    expected = Reason.HOST_CLASS
                elif known is None and guest is DEDICATED:
                    expected = Reason.TRAITS_STALE
                refusal = self._refusal(state, guest)
                self.assertIs(
                    expected, None if refusal is None else refusal.reason,
                    (named, shown, guest))

    def test_both_cpu_sets(self):
        """Dedicated without a mark, before traits are read and after it."""
        for cell, expected in (
                (oracle_cases.host_cell(0, [0]), Reason.HOST_CLASS),
                # A trait may say that it is shared.
                (oracle_cases.host_cell(0, [0], shared=[1]),
                 Reason.TRAITS_STALE)):
            state = builders.host_state(
                topology=builders.host_topology(cell))
            self.assertIsNone(self._refusal(state, DEDICATED))
            self.assertIs(expected, self._refusal(state, SHARED).reason)
        state.aggregates = [builders.aggregate(pinning__class='shared')]
        self.assertIsNone(self._refusal(state, SHARED))
        state.aggregates = []
        self.reader.refresh()
        self.assertIsNone(self._refusal(state, DEDICATED))
        self.assertEqual(Reason.HOST_CLASS,
                         self._refusal(state, SHARED).reason)
        self.placement.traits = {state.uuid: {placement_traits.SHARED}}
        self.reader.refresh()
        self.assertIsNone(self._refusal(state, SHARED))

    def test_one_view_for_the_whole_request(self):
        states = [self._state([], [SHARED]) for _number in range(3)]
        self.placement.traits = {
            state.uuid: {placement_traits.SHARED} for state in states}
        self.reader.refresh()
        chosen = filters.HostClassFilter()
        spec = builders.spec()
        passed = chosen.filter_all(iter(states), spec)
        self.assertIs(states[0], next(passed))
        self.placement.traits = {
            state.uuid: {placement_traits.DEDICATED} for state in states}
        self.reader.refresh()
        self.assertEqual(states[1:], list(passed))
        self.assertEqual([], list(chosen.filter_all(states, builders.spec())))
        self.assertEqual(5, self.placement.reads)

    def test_a_reader_that_fails(self):
        """What is configured for errors applies to it, too."""
        state = self._state(['dedicated'], [DEDICATED])
        for policy, passing in (('by-class', [SHARED]), ('refuse', []),
                                ('pass', [DEDICATED, SHARED])):
            self.set_option('on_error', policy)
            with mock.patch.object(traits_reader, 'view',
                                   side_effect=RuntimeError('no thread')):
                for guest in (DEDICATED, SHARED):
                    self.assertEqual(
                        guest in passing,
                        filters.HostClassFilter().host_passes(
                            state, builders.spec(
                                None, {'pinning:class': guest})),
                        (policy, guest))
