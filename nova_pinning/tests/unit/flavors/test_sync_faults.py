# SPDX-License-Identifier: Apache-2.0
"""Whatever befalls a request, a flavor is what it was or what it is to be."""

import dataclasses

import ddt
import hypothesis
from hypothesis import strategies as st
from oslotest import base as oslotest

from nova_pinning import errors
from nova_pinning.flavors import sync
from nova_pinning.flavors import sync_apply
from nova_pinning.model import hostclass
from nova_pinning.tests.unit.flavors import fake_flavor_cloud
from nova_pinning.tests.unit.flavors import take_turns
from nova_pinning.tests.unit.flavors import test_sync
from nova_pinning.tests.unit import unit_base

Fault = fake_flavor_cloud.Fault
OURS = test_sync.OURS
apply = test_sync.apply
flavor = test_sync.flavor
half_created = test_sync.half_created

DEDICATED = {'hw:cpu_policy': 'dedicated', 'trait:CUSTOM_D': 'required'}
SHARED = {'pinning:class': 'shared', 'trait:CUSTOM_S': 'required'}
NAME = 'ours.large'
PRIVATE = {'is_public': False, 'projects': ('p1', 'p2')}


def changing(before, after, **options):
    """One flavor on its way; None where there is none."""
    return before, after, options


#: Every kind of change.
CHANGES = {
    'create': changing(None, flavor(extra_specs=DEDICATED)),
    'create private': changing(
        None, flavor(extra_specs=DEDICATED, **PRIVATE)),
    'update': changing(
        flavor(extra_specs=DEDICATED | {'hw:a': '1', 'hw:b': '1'}),
        flavor(extra_specs=DEDICATED | {'hw:b': '2', 'hw:c': '1'},
               description='new')),
    'update projects': changing(
        flavor(extra_specs=DEDICATED, is_public=False, projects=('p0', 'p1')),
        flavor(extra_specs=DEDICATED | {'hw:a': '1'}, **PRIVATE)),
    'to dedicated': changing(flavor(extra_specs=SHARED),
                             flavor(extra_specs=DEDICATED)),
    'to shared': changing(flavor(extra_specs=DEDICATED),
                          flavor(extra_specs={'hw:cpu_policy': 'shared'})),
    'adopt': changing(
        test_sync.foreign(NAME, extra_specs=DEDICATED | {'hw:a': '1'}),
        flavor(extra_specs=DEDICATED | {'hw:b': '1'}), adopts=True),
    'replace': changing(flavor(extra_specs=DEDICATED),
                        flavor(extra_specs=DEDICATED, memory_mib=1024)),
    'replace private': changing(
        flavor(extra_specs=DEDICATED, **PRIVATE),
        flavor(extra_specs=DEDICATED | {'hw:a': '1'}, vcpus=3,
               is_public=False, projects=('p2', 'p3'))),
    'publish': changing(flavor(extra_specs=DEDICATED, **PRIVATE),
                        flavor(extra_specs=DEDICATED)),
    'retire': changing(flavor(extra_specs=DEDICATED), None),
}


class Settled(fake_flavor_cloud.FakeCloud):
    """A cloud that holds us to what is sold between two requests.

    :ivar refused: (method, name of a flavor) that are always refused
    """

    def __init__(self, before, after):
        super().__init__([before] if before else [])
        self.hook = self._check
        self.refused = set()
        self._sold = [one.extra_specs for one in (before, after) if one]

    def _check(self, number):
        for one in self.visible().values():
            if not one.extra_specs:
                # The one window that nova leaves.
                assert self.writes[-1] == ('create', NAME), self.writes
                assert self.requests[number] in (
                    'set_extra_specs', 'flavor', 'delete'), self.requests
            elif one.extra_specs not in self._sold:
                # Keys that are to go are still there; the class is not that
                # of the other one.
                assert any(
                    sold.items() <= (one.extra_specs | {
                        key: value for key, value in sold.items()
                        if key == 'pinning:class'}).items()
                    and hostclass.class_of_guest(sold) is
                    hostclass.class_of_guest(one.extra_specs)
                    for sold in self._sold), one.extra_specs

    def _write(self, name, flavor_name, change):
        if flavor_name.startswith(sync.PROBE_PREFIX):
            flavor_name = sync.PROBE_PREFIX
        if (name, flavor_name) in self.refused:
            self._request(name)
            raise errors.RefusedError('never')
        super()._write(name, flavor_name, change)


def run(cloud, after, options):
    """Apply, whatever comes of it.

    :returns: what became of the change, or what ended it
    """
    try:
        return [(result.status, result.message) for result in apply(
            [after] if after else [], cloud, **options)]
    except (errors.CloudError, fake_flavor_cloud.Killed) as error:
        return [(type(error), str(error))]


@ddt.ddt
class TestEveryRequest(oslotest.BaseTestCase):

    def cloud(self, what):
        before, after, options = CHANGES[what]
        return Settled(before, after), before, after, options

    def writes(self, what):
        """The numbers of the requests that change something."""
        cloud, _before, after, options = self.cloud(what)
        run(cloud, after, options)
        self.assert_state(cloud, after)
        return [number for number, name in enumerate(cloud.requests)
                if name not in ('flavors', 'flavor', 'servers', 'resizing')]

    def assert_state(self, cloud, *states):
        found = cloud.state()
        probes = {name for name in found
                  if name.startswith(sync.PROBE_PREFIX)}
        for name in probes:
            self.assertEqual((False, ()), (found[name].is_public,
                                           found[name].projects))
            del found[name]
        self.assertIn(found, [{state.name: kept(state, cloud)} if state
                              else {} for state in states])
        return probes

    @ddt.data(*CHANGES)
    def test_a_fault(self, what):
        for number in self.writes(what):
            for fault in Fault:
                if fault in fake_flavor_cloud.KILLS:
                    continue
                cloud, before, after, options = self.cloud(what)
                cloud.faults = {number: fault}

                results = run(cloud, after, options)

                with self.subTest(number=number, fault=fault):
                    if fault.is_settled:
                        self.assertEqual([('done', '')], results)
                        self.assertEqual(set(), self.assert_state(
                            cloud, after))
                    else:
                        self.assertNotEqual('done', results[0][0])
                        self.assert_state(cloud, before, after)
                    run(cloud, after, options)
                    self.assertEqual(set(), self.assert_state(cloud, after))

    @ddt.data(*CHANGES)
    def test_killed(self, what):
        for number in self.writes(what):
            for fault in fake_flavor_cloud.KILLS:
                cloud, before, after, options = self.cloud(what)
                cloud.faults = {number: fault}

                run(cloud, after, options)

                left = cloud.visible().get(NAME)
                # What can be left is what may be seen between two requests.
                cloud.requests.append('set_extra_specs')
                cloud._check(-1)
                cloud.requests.clear()
                cloud.writes.clear()
                cloud.is_dead = False
                cloud.hook = None
                run(cloud, after, options)
                if left and not left.extra_specs:
                    self.assertEqual(('set_extra_specs', NAME),
                                     cloud.writes[0])
                self.assertEqual(set(), self.assert_state(cloud, after))

    @ddt.data(*CHANGES)
    def test_refused_for_good(self, what):
        cloud, _before, after, options = self.cloud(what)
        run(cloud, after, options)
        for write in dict.fromkeys(cloud.writes):
            cloud, before, after, options = self.cloud(what)
            cloud.refused = {write}

            [(status, message)] = run(cloud, after, options)

            with self.subTest(write=write):
                self.assertEqual('failed', status)
                # Where nova takes neither the new one nor the old one back,
                # there is none, and the message says so.
                states = [before]
                if 'could not be made what it was' in message:
                    states.append(None if cloud.writes[-1][0] == 'delete'
                                  else cloud.state()[NAME])
                self.assert_state(cloud, *states)
                run(cloud, after, options)
                cloud.refused = set()
                run(cloud, after, options)
                self.assertEqual(set(), self.assert_state(cloud, after))

    @ddt.data('create', 'replace', 'replace private', 'publish')
    def test_extra_specs_that_nova_does_not_take(self, what):
        cloud, before, after, options = self.cloud(what)
        cloud.unknown = {'hw:cpu_policy'}
        for _run in range(2):
            self.assertEqual([('failed', 'no such extra spec')],
                             run(cloud, after, options))
            self.assertEqual(set(), self.assert_state(cloud, before))

    def test_a_cut_off_one_goes_before_anything_else(self):
        one, new = (flavor(name, extra_specs=DEDICATED) for name in 'oz')
        for wanted, writes in (
                ([new, one], [('set_extra_specs', 'o')]),
                ([new, dataclasses.replace(one, vcpus=9, id='other')],
                 [('delete', 'o')]),
                ([new], [('delete', 'o')])):
            cloud = fake_flavor_cloud.FakeCloud([half_created(one)])
            # It may have a server by now.
            cloud.used = {one.id}
            results = apply(wanted, cloud)
            self.assertEqual({'done'}, {result.status for result in results})
            self.assertEqual(writes, cloud.writes[:1])
            self.assertEqual({each.name: each for each in wanted},
                             cloud.state())

    def test_a_cut_off_one_that_nova_will_not_have(self):
        one = flavor(extra_specs=DEDICATED)
        cloud = fake_flavor_cloud.FakeCloud([half_created(one)])
        cloud.unknown = {'hw:cpu_policy'}
        [result] = apply([one], cloud)
        self.assertEqual('failed', result.status)
        self.assertEqual({}, cloud.state())

    def test_interrupted(self):
        for number in self.writes('replace'):
            cloud, before, after, options = self.cloud('replace')

            def interrupt(at, cloud=cloud, number=number):
                cloud._check(at)
                if at == number:
                    raise KeyboardInterrupt

            cloud.hook = interrupt
            self.assertRaises(KeyboardInterrupt, run, cloud, after, options)
            self.assert_state(cloud, before, after)

    def test_a_probe_that_was_left(self):
        [probe] = self.assert_state_of_a_left_probe()
        for options in ({}, {'retires': False}):
            cloud = fake_flavor_cloud.FakeCloud([probe])
            [change] = sync.plan((), cloud.stored.values(), OURS, **options)
            self.assertIn('cut off', change.reason)
            run(cloud, None, options)
            self.assertEqual({}, cloud.state())

    def assert_state_of_a_left_probe(self):
        cloud, _before, after, options = self.cloud('create')
        cloud.faults = {self.writes('create')[1]: Fault.KILLED_BEFORE}
        run(cloud, after, options)
        self.assertEqual(1, len(self.assert_state(cloud, None)))
        return cloud.stored.values()


def kept(state, cloud):
    """A flavor with the id that an adopted one keeps."""
    live = cloud.state().get(state.name)
    return dataclasses.replace(state, id='foreign') if (
        live and live.id == 'foreign') else state


@ddt.ddt
class TestTwoCatalogues(oslotest.BaseTestCase):
    """Of one name, applied at the same time."""

    WANTED = tuple(
        [flavor('one', extra_specs=DEDICATED | {'hw:a': number}),
         flavor('two', vcpus=int(number)), flavor(f'own {number}')]
        for number in '12')

    def run_one(self, cloud, wanted):
        results = apply(wanted, cloud)
        results += sync.lost(results, sync.plan(
            wanted, sync.read(cloud, wanted, OURS), OURS))
        return [result.status for result in results]

    @ddt.data(
        (), (flavor('one', extra_specs=DEDICATED), flavor('two', vcpus=3)))
    def test_one_after_the_plan_of_the_other(self, live):
        first, second = self.WANTED
        cloud = fake_flavor_cloud.FakeCloud(live)
        changes = sync.plan(first, cloud.stored.values(), OURS)
        self.run_one(cloud, second)
        end = cloud.state()

        results = list(sync_apply.apply(changes[:2], cloud, OURS,
                                        sleep=lambda s: None))

        self.assertEqual(['failed', 'failed'],
                         [result.status for result in results])
        self.assertIn('somebody else has changed it', results[0].message)
        self.assertEqual(end, cloud.state())

    def test_one_after_the_other_has_applied(self):
        first, second = self.WANTED
        cloud = fake_flavor_cloud.FakeCloud()
        results = apply(first, cloud)
        self.run_one(cloud, second)

        lost = sync.lost(results, sync.plan(
            first, cloud.stored.values(), OURS))

        self.assertEqual({('lost', name) for name in (
            'one', 'two', 'own 1', 'own 2')},
            {(one.status, one.change.name) for one in lost})

    @hypothesis.given(st.lists(st.integers(0, 1), max_size=60),
                      st.sampled_from(('', 'one', 'one two')))
    @unit_base.settings(60)
    def test_any_order(self, turns, before):
        cloud = fake_flavor_cloud.FakeCloud(
            [flavor(name, vcpus=3) for name in before.split()])
        ended = {}
        in_turn = take_turns.TakeTurns(cloud, turns)

        def apply_mine():
            me = in_turn.me()
            ended[me] = self.run_one(cloud, self.WANTED[me])

        in_turn.run(apply_mine)

        self.assertEqual([], in_turn.failures)
        if all(set(statuses) == {'done'} for statuses in ended.values()):
            # One came after the other, and neither mixed with it.
            self.assertIn(cloud.state(), [
                {one.name: one for one in wanted} for wanted in self.WANTED])


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
        st.integers(0, 60), st.sampled_from(
            [fault for fault in Fault if fault.is_settled]),
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

    @hypothesis.given(clouds(), st.booleans(), st.integers(0, 40))
    @unit_base.settings(200)
    def test_cut_off_and_run_again(self, setting, adopts, at):
        wanted, live, used = setting
        end = self.undisturbed(*setting, adopts=adopts).state()
        cloud = fake_flavor_cloud.FakeCloud(live, used)

        cloud.faults = {at: Fault.KILLED_BEFORE}
        try:
            apply(wanted, cloud, adopts=adopts)
        except fake_flavor_cloud.Killed:
            cloud.is_dead = False
            apply(wanted, cloud, adopts=adopts)

        self.assertEqual(end, cloud.state())

    @hypothesis.given(clouds(), st.booleans(), st.integers(0, 40))
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
        in_turn = take_turns.TakeTurns(cloud, turns)

        in_turn.run(lambda: apply(wanted, cloud))

        self.assertEqual([], in_turn.failures)
        self.assertEqual(end, cloud.state())
