# SPDX-License-Identifier: Apache-2.0
"""Apply ends in one state, whatever befalls its requests."""

import dataclasses

import hypothesis
from hypothesis import strategies as st
from oslotest import base as oslotest

from nova_pinning.flavors import sync
from nova_pinning.tests.unit.flavors import fake_flavor_cloud
from nova_pinning.tests.unit.flavors import take_turns
from nova_pinning.tests.unit.flavors import test_sync
from nova_pinning.tests.unit import unit_base

OURS = test_sync.OURS
apply = test_sync.apply
flavor = test_sync.flavor
half_created = test_sync.half_created


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
        in_turn = take_turns.TakeTurns(cloud, turns)

        in_turn.run(lambda: apply(wanted, cloud))

        self.assertEqual([], in_turn.failures)
        self.assertEqual(end, cloud.state())
