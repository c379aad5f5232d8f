# SPDX-License-Identifier: Apache-2.0
"""A cloud comes in step with a catalogue, whatever happens on the way."""

import dataclasses
import threading

import ddt
import hypothesis
from hypothesis import strategies as st
from oslotest import base as oslotest

from nova_pinning import errors
from nova_pinning.flavors import difference
from nova_pinning.flavors import flavor_model
from nova_pinning.flavors import names
from nova_pinning.flavors import sync
from nova_pinning.tests.unit.flavors import fake_flavor_cloud
from nova_pinning.tests.unit import unit_base

OURS = 'ours'


def flavor(name='ours.large', catalogue=OURS, **fields):
    """A flavor as the catalogue has it, with its own id."""
    fields = {'vcpus': 2, 'memory_mib': 8192, **fields}
    extra_specs = {'pinning:catalogue': catalogue,
                   **fields.pop('extra_specs', {})}
    one = flavor_model.Flavor(name=name, extra_specs=extra_specs, **fields)
    return dataclasses.replace(one, id=names.flavor_id(catalogue, one))


def foreign(name='m1.large', flavor_id='foreign', **fields):
    """One that an operator has made by hand."""
    return flavor_model.Flavor(**{'name': name, 'id': flavor_id, 'vcpus': 2,
                                  'memory_mib': 8192, **fields})


def half_created(one):
    return dataclasses.replace(one, extra_specs={}, projects=())


def apply(wanted, cloud, catalogue=OURS, **options):
    """Plan and apply, without waiting."""
    live = sync.read(cloud, wanted, catalogue)
    changes = sync.plan(wanted, live, catalogue, **options)
    return list(sync.apply(changes, cloud, catalogue, sleep=lambda s: None))


@ddt.ddt
class TestPlan(oslotest.BaseTestCase):

    def plan(self, wanted, live, **options):
        return [(change.action, change.name) for change in sync.plan(
            wanted, live, OURS, **options)]

    def test_create(self):
        self.assertEqual([('create', 'ours.large')],
                         self.plan([flavor()], [foreign()]))

    def test_unchanged(self):
        self.assertEqual([('unchanged', 'ours.large')],
                         self.plan([flavor()], [flavor()]))

    @ddt.data(
        {'extra_specs': {'hw:cpu_policy': 'dedicated'}},
        {'description': 'other'},
        {'is_public': False, 'projects': ('p1',)},
    )
    def test_update(self, change):
        # What cannot be changed in place is the same before and after.
        before = flavor(is_public=change.get('is_public', True))
        self.assertEqual([('update', 'ours.large')],
                         self.plan([flavor(**change)], [before]))
        self.assertEqual([('update', 'ours.large')],
                         self.plan([before], [flavor(**change)]))

    @ddt.data({'vcpus': 4}, {'memory_mib': 1}, {'disk_gib': 1},
              {'ephemeral_gib': 1}, {'swap_mib': 1}, {'rxtx_factor': 2.0},
              {'is_public': False})
    def test_replace(self, change):
        [found] = sync.plan([flavor(**change)], [flavor()], OURS)
        self.assertEqual('replace', found.action)
        self.assertIn(next(iter(change)), found.reason)
        self.assertNotEqual(found.catalogue_flavor.id, found.live.id)

    def test_a_factor_that_mysql_has_rounded(self):
        live = dataclasses.replace(flavor(rxtx_factor=1 / 3),
                                   rxtx_factor=0.333333)
        self.assertEqual([('unchanged', 'ours.large')],
                         self.plan([flavor(rxtx_factor=1 / 3)], [live]))

    def test_retire(self):
        live = [flavor('ours.old'), flavor('theirs', 'theirs'), foreign()]
        self.assertEqual([('retire', 'ours.old')], self.plan([], live))
        self.assertEqual([], self.plan([], live, retires=False))

    @ddt.data(foreign('ours.large'),
              foreign('ours.large', extra_specs={'hw:cpu_policy': 'shared'}),
              flavor(catalogue='theirs'),
              # Half-created, but by another catalogue.
              half_created(flavor(catalogue='theirs')))
    def test_conflict(self, live):
        self.assertEqual([('conflict', 'ours.large')],
                         self.plan([flavor()], [live]))

    def test_conflict_of_ids(self):
        thief = foreign('thief', flavor().id)
        [change] = sync.plan([flavor()], [thief], OURS)
        self.assertEqual('conflict', change.action)
        self.assertIn("'thief'", change.reason)

    def test_adopt(self):
        live = foreign('ours.large', extra_specs={'hw:cpu_policy': 'shared'})
        [change] = sync.plan([flavor()], [live], OURS, adopts=True)
        self.assertEqual('adopt', change.action)
        self.assertEqual(
            [difference.Difference('hw:cpu_policy', 'shared', None),
             difference.Difference('pinning:catalogue', None, OURS)],
            list(change.differences))

    @ddt.data(foreign('ours.large', vcpus=3), flavor(catalogue='theirs'))
    def test_what_cannot_be_adopted(self, live):
        self.assertEqual([('conflict', 'ours.large')],
                         self.plan([flavor()], [live], adopts=True))

    def test_adopted_flavors_keep_their_id(self):
        live = dataclasses.replace(flavor(), id='as it was')
        self.assertEqual([('unchanged', 'ours.large')],
                         self.plan([flavor()], [live]))

    def test_half_created(self):
        one = flavor(extra_specs={'hw:cpu_policy': 'dedicated'})
        self.assertEqual([('update', one.name)],
                         self.plan([one], [half_created(one)]))
        # The catalogue has changed its mind since.
        self.assertEqual([('replace', one.name)],
                         self.plan([flavor(vcpus=16)], [half_created(one)]))
        self.assertEqual([('retire', one.name)],
                         self.plan([], [half_created(one)]))

    def test_order(self):
        wanted = [flavor(name) for name in 'zayb']
        live = [flavor(name) for name in 'ybc']
        self.assertEqual(['z', 'a', 'y', 'b', 'c'],
                         [name for _action, name in self.plan(wanted, live)])


@ddt.ddt
class TestApply(oslotest.BaseTestCase):

    def test_everything(self):
        before = [
            flavor('same'),
            flavor('changed', description='old', extra_specs={
                'a:gone': '1', 'a:other': '1'}),
            flavor('shape', vcpus=1),
            flavor('private', is_public=False, projects=('p1', 'p2')),
            flavor('unlisted'),
            foreign(),
        ]
        wanted = [
            flavor('same'),
            flavor('changed', description='new', extra_specs={
                'a:new': '1', 'a:other': '2'}),
            flavor('shape', vcpus=2),
            flavor('private', is_public=False, projects=('p2', 'p3')),
            flavor('more', is_public=False, projects=('p1',)),
        ]
        cloud = fake_flavor_cloud.FakeCloud(before)

        results = apply(wanted, cloud)

        self.assertEqual({'done'}, {result.status for result in results})
        self.assertEqual({one.name: one for one in [*wanted, foreign()]},
                         cloud.state())
        self.assertEqual(
            ['flavors',
             'set_extra_specs', 'unset_extra_spec', 'set_description',
             'has_servers', 'delete', 'create', 'set_extra_specs',
             'add_project', 'remove_project',
             'create', 'set_extra_specs', 'add_project',
             'has_servers', 'delete'], cloud.requests)
        cloud.requests.clear()
        apply(wanted, cloud)
        self.assertEqual(['flavors'], cloud.requests)

    def test_servers_are_in_the_way(self):
        before = [flavor('shape', vcpus=1), flavor('unlisted')]
        cloud = fake_flavor_cloud.FakeCloud(before, [one.id for one in before])

        results = apply([flavor('shape'), flavor('new')], cloud)

        self.assertEqual(['skipped', 'done', 'skipped'],
                         [result.status for result in results])
        self.assertIn(before[0].id, results[0].message)
        self.assertEqual(
            {one.name: one for one in [*before, flavor('new')]},
            cloud.state())

    def test_look_up_use(self):
        before = [flavor('shape', vcpus=1), flavor('unlisted'),
                  flavor('changed', description='old')]
        cloud = fake_flavor_cloud.FakeCloud(before,
                                            [before[0].id, before[2].id])
        changes = sync.plan([flavor('shape'), flavor('changed')], before,
                            OURS)

        found = sync.look_up_use(changes, cloud)

        self.assertEqual(
            [('shape', True), ('changed', False), ('unlisted', False)],
            [(change.name, change.is_in_use) for change in found])

    def test_refused(self):
        class Picky(fake_flavor_cloud.FakeCloud):
            def set_extra_specs(self, flavor_id, extra_specs):
                if 'hw:bad' in extra_specs:
                    raise errors.RefusedError('no such extra spec')
                super().set_extra_specs(flavor_id, extra_specs)

        cloud = Picky()
        results = apply([flavor('bad', extra_specs={'hw:bad': '1'}),
                         flavor('good')], cloud)

        self.assertEqual(
            [('failed', 'no such extra spec'), ('done', '')],
            [(result.status, result.message) for result in results])

    def test_one_that_never_settles(self):
        waits = []
        cloud = fake_flavor_cloud.FakeCloud()
        create = cloud.create

        def create_unless_bad(one):
            if one.name == 'bad':
                raise errors.UnsettledError('500')
            create(one)

        cloud.create = create_unless_bad
        changes = sync.plan([flavor('bad'), flavor('good')], (), OURS)

        results = list(sync.apply(changes, cloud, OURS, sleep=waits.append))

        self.assertEqual([('failed', '500'), ('done', '')],
                         [(result.status, result.message)
                          for result in results])
        self.assertEqual(list(sync.WAITS_S), waits)

    def test_an_ill_cloud_is_left_alone(self):
        cloud = fake_flavor_cloud.FakeCloud()

        def create(one):
            cloud.requests.append('create')
            raise errors.UnsettledError('500')

        cloud.create = create
        changes = sync.plan([flavor(str(n)) for n in range(9)], (), OURS)
        results = []

        error = self.assertRaises(
            errors.CloudError, results.extend, sync.apply(
                changes, cloud, OURS, waits_s=(1,), sleep=lambda s: None))

        self.assertIn('3 flavors in a row', str(error))
        self.assertEqual(3 * 2, cloud.requests.count('create'))

    def test_failures_with_successes_in_between(self):
        cloud = fake_flavor_cloud.FakeCloud()
        create = cloud.create

        def create_unless_bad(one):
            if one.name.startswith('bad'):
                raise errors.UnsettledError('500')
            create(one)

        cloud.create = create_unless_bad
        wanted = [flavor(f'{kind}{number}') for number in range(5)
                  for kind in ('bad', 'good')]

        results = apply(wanted, cloud)

        self.assertEqual(['failed', 'done'] * 5,
                         [result.status for result in results])

    @ddt.data(foreign('ours.large'), foreign('thief', flavor().id))
    def test_somebody_is_quicker(self, other):
        cloud = fake_flavor_cloud.FakeCloud()

        def be_quicker(number):
            if cloud.requests[number] == 'create':
                cloud.hook = None
                cloud.stored[other.id] = other

        cloud.hook = be_quicker
        # Nobody has agreed to the adoption of this one.
        [result] = apply([flavor()], cloud, adopts=True)

        self.assertEqual('skipped', result.status)
        self.assertEqual({other.name: other}, cloud.state())


class Stop(BaseException):
    """The power fails."""


NAMES = ('one', 'two', 'three')
PROJECTS = ('p1', 'p2', 'p3')


@st.composite
def any_flavor(draw, name, catalogue=OURS):
    is_public = draw(st.booleans())
    return flavor(
        name, catalogue, vcpus=draw(st.integers(1, 2)), is_public=is_public,
        projects=() if is_public else tuple(sorted(draw(
            st.sets(st.sampled_from(PROJECTS))))),
        description=draw(st.sampled_from(('', 'words'))),
        extra_specs=draw(st.dictionaries(
            st.sampled_from(('hw:a', 'hw:b')), st.sampled_from('12'))))


@st.composite
def clouds(draw):
    """What is wanted, what is there, and the ids that servers use."""
    wanted = [draw(any_flavor(name)) for name in NAMES
              if draw(st.booleans())]
    live = []
    for name in (*NAMES, 'unlisted'):
        kind = draw(st.sampled_from(
            ('none', 'ours', 'ours', 'half', 'theirs', 'foreign')))
        one = draw(any_flavor(
            name, 'theirs' if kind == 'theirs' else OURS))
        if kind == 'half':
            one = half_created(one)
        elif kind == 'foreign':
            one = dataclasses.replace(one, id=name, extra_specs={})
        if kind != 'none':
            live.append(one)
    used = [one.id for one in live if draw(st.booleans())]
    return wanted, live, used


def owned(flavors):
    return [one for one in flavors if sync.is_owned(one, OURS)]


class TestWhateverHappens(oslotest.BaseTestCase):
    """Apply ends in one state, by whatever way it gets there."""

    def undisturbed(self, wanted, live, used, **options):
        cloud = fake_flavor_cloud.FakeCloud(live, used)
        apply(wanted, cloud, **options)
        return cloud

    @hypothesis.given(clouds(), st.booleans())
    @unit_base.settings(200)
    def test_undisturbed(self, setting, adopts):
        wanted, live, used = setting
        cloud = self.undisturbed(*setting, adopts=adopts)
        # What is foreign stays; what is wanted is there, unless a foreign
        # flavor or a server is in the way.
        state = cloud.state()
        for one in live:
            if not (sync.is_owned(one, OURS)
                    or adopts and one.name in {w.name for w in wanted}):
                self.assertEqual(one, state[one.name])
        in_the_way = {one.name for one in live
                      if one.id in used or not sync.is_owned(one, OURS)}
        for one in wanted:
            if one.name not in in_the_way:
                self.assertEqual(one, state[one.name])
        self.assertEqual(
            {one.name for one in wanted} - in_the_way,
            {one.name for one in owned(state.values())} - in_the_way)
        # There is nothing left that could be done.
        for change in sync.plan(wanted, state.values(), OURS, adopts=adopts):
            if change.action in ('replace', 'retire'):
                self.assertIn(change.live.id, used)
            else:
                self.assertIn(change.action, ('unchanged', 'conflict'))

    @hypothesis.given(clouds(), st.booleans(), st.dictionaries(
        st.integers(0, 40), st.sampled_from(fake_flavor_cloud.Fault),
        max_size=4))
    @unit_base.settings(300)
    def test_faults(self, setting, adopts, faults):
        wanted, live, used = setting
        end = self.undisturbed(*setting, adopts=adopts).state()
        cloud = fake_flavor_cloud.FakeCloud(live, used)
        cloud.faults = dict(faults)

        results = apply(wanted, cloud, adopts=adopts)

        self.assertEqual(end, cloud.state())
        self.assertNotIn('failed', [result.status for result in results])

    @hypothesis.given(clouds(), st.booleans(), st.integers(0, 20))
    @unit_base.settings(200)
    def test_cut_off_and_run_again(self, setting, adopts, at):
        wanted, live, used = setting
        end = self.undisturbed(*setting, adopts=adopts).state()
        cloud = fake_flavor_cloud.FakeCloud(live, used)

        def stop(number):
            if number == at:
                raise Stop

        cloud.hook = stop
        try:
            apply(wanted, cloud, adopts=adopts)
        except Stop:
            apply(wanted, cloud, adopts=adopts)

        self.assertEqual(end, cloud.state())

    @hypothesis.given(clouds(), st.booleans(), st.integers(0, 20))
    @unit_base.settings(200)
    def test_another_run_gets_in_between(self, setting, adopts, at):
        wanted, live, used = setting
        end = self.undisturbed(*setting, adopts=adopts).state()
        cloud = fake_flavor_cloud.FakeCloud(live, used)

        def run_another(number):
            if number == at:
                cloud.hook = None
                apply(wanted, cloud, adopts=adopts)

        cloud.hook = run_another
        results = apply(wanted, cloud, adopts=adopts)

        self.assertEqual(end, cloud.state())
        self.assertNotIn('failed', [result.status for result in results])

    @hypothesis.given(clouds(), st.lists(st.integers(0, 1), max_size=30))
    @unit_base.settings(60)
    def test_two_runs_take_turns(self, setting, turns):
        wanted, live, used = setting
        end = self.undisturbed(*setting).state()
        cloud = fake_flavor_cloud.FakeCloud(live, used)
        in_turn = TakeTurns(cloud, turns)

        in_turn.run(lambda: apply(wanted, cloud))

        self.assertEqual([], in_turn.failures)
        self.assertEqual(end, cloud.state())


class TakeTurns:
    """Runs a function twice at once, one request of one of them at a time.

    A turn lasts until the next request of the same run.

    :param turns: whose turn it is, as long as both go on; then the first
        goes on alone, and then the second
    """

    def __init__(self, cloud, turns):
        self.failures = []
        self._turns = list(turns)
        self._is_running = [True, True]
        self._taken = False
        self._changed = threading.Condition()
        self._mine = threading.local()
        cloud.hook = self._wait

    def run(self, function):
        threads = [threading.Thread(target=self._run, args=(me, function))
                   for me in (0, 1)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _run(self, me, function):
        self._mine.me = me
        self._mine.has_turn = False
        try:
            function()
        except BaseException as error:
            self.failures.append(error)
        with self._changed:
            self._is_running[me] = False
            self._end_turn()

    def _end_turn(self):
        if self._mine.has_turn:
            self._mine.has_turn = self._taken = False
            del self._turns[:1]
        self._changed.notify_all()

    def _is_mine(self):
        if self._taken:
            return False
        if not all(self._is_running):
            return True
        return self._mine.me == (self._turns[0] if self._turns else 0)

    def _wait(self, number):
        with self._changed:
            self._end_turn()
            self._changed.wait_for(self._is_mine)
            self._mine.has_turn = self._taken = True
