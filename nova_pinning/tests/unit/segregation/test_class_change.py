# SPDX-License-Identifier: Apache-2.0
"""Hosts turned to a class, with a cloud in memory."""

import contextlib
import copy
import itertools
import shlex

import ddt
import hypothesis
from hypothesis import strategies as st
from oslotest import base as oslotest

from nova_pinning import errors
from nova_pinning.model import hostclass
from nova_pinning.placement import placement_traits
from nova_pinning.segregation import class_change
from nova_pinning.segregation import segregation_model
from nova_pinning.tests.unit.segregation import fake_host_cloud
from nova_pinning.tests.unit import unit_base

DEDICATED = hostclass.HostClass.DEDICATED
SHARED = hostclass.HostClass.SHARED
OTHERS = 'COMPUTE_NODE'
AGGREGATES = {
    'd': (['other'], {'pinning:class': 'dedicated'}),
    'di': (['other'], {f'trait:{placement_traits.DEDICATED}': 'required'}),
    's': (['h'], {'pinning:class': 'shared'}),
    'si': (['h'], {f'trait:{placement_traits.SHARED}': 'required'}),
    'odd': (['h'], {'pinning:class': 'gold'}),
    'rack': (['h'], {'rack': '1', 'trait:CUSTOM_FAST': 'required'}),
}


def shared_cloud(**options):
    """A cloud whose host h is for shared guests, by all sources."""
    return fake_host_cloud.FakeCloud(
        {'h': {OTHERS, placement_traits.SHARED, placement_traits.l3_trait(8)},
         'other': {OTHERS}}, AGGREGATES, **options)


def turn(cloud, host_class, aggregate=None, name='h', is_forced=False,
         **options):
    """Plan and apply, as a run of the command does."""
    [host] = class_change.find_hosts([name], cloud.hosts())
    joined = {one.name: one for one in cloud.aggregates()
              if one.name == aggregate}
    return class_change.apply(
        cloud, class_change.plan_change(host, host_class, joined, **options),
        joined, is_forced=is_forced)


def members(cloud):
    return {name for name, own in cloud.state[1].items() if 'h' in own}


class TestTurn(oslotest.BaseTestCase):

    def test_to_the_other_class(self):
        cloud = shared_cloud()
        result = turn(cloud, DEDICATED, 'd')
        self.assertIs(class_change.ChangeStatus.DONE, result.status)
        self.assertTrue(result.is_fine)
        self.assertEqual(
            {OTHERS, placement_traits.DEDICATED, placement_traits.l3_trait(8)},
            cloud.traits['rp-h'])
        self.assertEqual({'d', 'rack'}, members(cloud))
        # Closed before it is opened.
        self.assertEqual(['change_traits', 'add_host', *['remove_host'] * 3],
                         cloud.changes)
        [host] = class_change.find_hosts(['h'], cloud.hosts())
        self.assertIs(DEDICATED, segregation_model.host_class(host))

    def test_to_none(self):
        cloud = shared_cloud()
        self.assertTrue(turn(cloud, None).is_fine)
        self.assertEqual({OTHERS, placement_traits.l3_trait(8)},
                         cloud.traits['rp-h'])
        self.assertEqual({'rack'}, members(cloud))

    def test_again(self):
        cloud = shared_cloud()
        turn(cloud, DEDICATED, 'd')
        cloud.calls.clear()
        self.assertIs(class_change.ChangeStatus.UNCHANGED,
                      turn(cloud, DEDICATED, 'd').status)
        self.assertEqual([], cloud.changes)

    def test_both_traits(self):
        cloud = fake_host_cloud.FakeCloud(
            {'h': {placement_traits.DEDICATED, placement_traits.SHARED}})
        turn(cloud, DEDICATED)
        self.assertEqual({placement_traits.DEDICATED}, cloud.traits['rp-h'])

    def test_without_the_trait(self):
        cloud = shared_cloud()
        before = set(cloud.traits['rp-h'])
        turn(cloud, DEDICATED, 'di', keeps_traits=True)
        self.assertEqual(before, cloud.traits['rp-h'])
        self.assertEqual({'di', 'rack'}, members(cloud))
        self.assertNotIn('change_traits', cloud.changes)

    def test_a_host_without_a_provider(self):
        cloud = fake_host_cloud.FakeCloud({'h': None}, AGGREGATES)
        result = turn(cloud, DEDICATED)
        self.assertIs(class_change.ChangeStatus.FAILED, result.status)
        self.assertIn('no resource provider', result.message)
        self.assertEqual([], cloud.changes)
        # There is nothing in Placement to take away.
        self.assertTrue(turn(cloud, None).is_fine)

    def test_another_run_in_between(self):
        cloud = shared_cloud()
        cloud.traits['rp-h'].discard(placement_traits.SHARED)
        [host] = class_change.find_hosts(['h'], cloud.hosts())
        planned = class_change.plan_change(host, DEDICATED)
        self.assertEqual(frozenset(), planned.remove)
        cloud.traits['rp-h'].add(placement_traits.SHARED)
        class_change.apply(cloud, planned, {})
        self.assertNotIn(placement_traits.SHARED, cloud.traits['rp-h'])


class TestStrangers(oslotest.BaseTestCase):

    def test_refused(self):
        cloud = shared_cloud(servers=[
            fake_host_cloud.server('s1', SHARED, 'h'),
            fake_host_cloud.server('d1', DEDICATED, 'h'),
            fake_host_cloud.server('odd', None, 'h'),
            fake_host_cloud.server('away', SHARED, 'other')])
        result = turn(cloud, DEDICATED)
        self.assertIs(class_change.ChangeStatus.REFUSED, result.status)
        self.assertFalse(result.is_fine)
        self.assertEqual(['s1'],
                         [stranger.id for stranger in result.strangers])
        self.assertEqual([], cloud.changes)

        result = turn(cloud, DEDICATED, is_forced=True)
        self.assertIs(class_change.ChangeStatus.DONE, result.status)
        self.assertEqual((), result.strangers)
        # It is told again unless nobody wants to know.
        result = turn(cloud, DEDICATED)
        self.assertIs(class_change.ChangeStatus.UNCHANGED, result.status)
        self.assertEqual(['s1'],
                         [stranger.id for stranger in result.strangers])
        self.assertFalse(result.is_fine)
        self.assertTrue(turn(cloud, DEDICATED, is_forced=True).is_fine)
        # All may be on a host of no class.
        self.assertTrue(turn(cloud, None).is_fine)

    def test_not_certain(self):
        servers = [fake_host_cloud.server(name, SHARED, 'h', is_certain=False)
                   for name in ('floats', 'pinned')]
        for host_class, expected in ((SHARED, 'pinned'),
                                     (DEDICATED, 'floats')):
            cloud = fake_host_cloud.FakeCloud({'h': ()}, servers=servers,
                                              pinned=['pinned'])
            [stranger] = turn(cloud, host_class).strangers
            self.assertEqual(expected, stranger.id)
            self.assertTrue(stranger.is_certain)
            self.assertIs(host_class.other, stranger.host_class)

    def test_a_certain_one_is_not_asked_about(self):
        cloud = shared_cloud(
            servers=[fake_host_cloud.server('s', SHARED, 'h')])
        turn(cloud, DEDICATED)
        self.assertNotIn('topology', [call[0] for call in cloud.calls])

    def test_not_certain_and_gone(self):
        cloud = shared_cloud()
        gone = fake_host_cloud.server('gone', SHARED, 'h', is_certain=False)
        self.assertEqual(gone, class_change.with_settled_class(cloud, gone))

    def test_on_its_way(self):
        """Placement has it before nova says that it is there."""
        cloud = shared_cloud(
            servers=[fake_host_cloud.server('coming', SHARED)],
            consumers={'h': ['coming', 'a-migration']})
        result = turn(cloud, DEDICATED)
        self.assertEqual(['coming'],
                         [stranger.id for stranger in result.strangers])

    def test_may_come_back(self):
        """Its migration is not confirmed, and can be reverted."""
        for source, expected in (('h', ['left']), ('other', [])):
            cloud = shared_cloud(
                servers=[fake_host_cloud.server('left', SHARED, 'other')],
                consumers={'h': ['migration', 'gone']},
                migrations={'migration': (source, 'left')})
            result = turn(cloud, DEDICATED)
            self.assertEqual(expected,
                             [stranger.id for stranger in result.strangers])

    def test_resized_on_its_way(self):
        """Its flavor is the one that it has elsewhere, as yet."""
        for status, consumers, migrations in (
                ('RESIZE', ['s'], {}),
                ('VERIFY_RESIZE', ['m'], {'m': ('h', 's')}),
                ('REVERT_RESIZE', ['s'], {})):
            cloud = shared_cloud(
                servers=[fake_host_cloud.server('s', DEDICATED, 'other',
                                                status=status)],
                consumers={'h': consumers}, migrations=migrations)
            result = turn(cloud, DEDICATED)
            self.assertIs(class_change.ChangeStatus.REFUSED, result.status,
                          status)
            self.assertEqual([('s', SHARED)],
                             [(stranger.id, stranger.host_class)
                              for stranger in result.strangers])
            # A class that the host is not of says nothing about it.
            self.assertEqual(['s'], [
                stranger.id for stranger in turn(cloud, SHARED).strangers])
            cloud = fake_host_cloud.FakeCloud(
                {'h': ()}, servers=cloud.all_servers.values(),
                consumers={'h': consumers}, migrations=migrations)
            self.assertTrue(turn(cloud, DEDICATED).is_fine)

    def test_not_resized_on_its_way(self):
        """It comes with the flavor that it has."""
        for status in ('BUILD', 'MIGRATING', 'SHELVED_OFFLOADED'):
            cloud = shared_cloud(servers=[
                fake_host_cloud.server('s', DEDICATED, status=status)],
                                 consumers={'h': ['s']})
            self.assertTrue(turn(cloud, DEDICATED).is_fine, status)

    def test_resized_and_there(self):
        cloud = shared_cloud(servers=[
            fake_host_cloud.server('s', DEDICATED, 'h',
                                   status='VERIFY_RESIZE')])
        self.assertTrue(turn(cloud, DEDICATED).is_fine)

    def test_of_no_known_class(self):
        cloud = shared_cloud(servers=[
            fake_host_cloud.server('s', None, 'h', is_certain=False)])
        self.assertTrue(turn(cloud, DEDICATED).is_fine)
        self.assertNotIn('topology', [call[0] for call in cloud.calls])

    def test_migrations_are_only_looked_for_if_there_may_be_any(self):
        cloud = shared_cloud(
            servers=[fake_host_cloud.server('s', SHARED, 'h')])
        turn(cloud, DEDICATED)
        self.assertNotIn('revertible', [call[0] for call in cloud.calls])

    def test_arrived_meanwhile(self):
        cloud = shared_cloud(
            servers=[fake_host_cloud.server('s', SHARED, 'h')])

        def arrive(number, is_done):
            if cloud.calls[number][0] == 'change_traits' and is_done:
                cloud.put(fake_host_cloud.server('late', SHARED, 'h'),
                          fake_host_cloud.server('right', DEDICATED, 'h'))

        cloud.on_call = arrive
        result = turn(cloud, DEDICATED, is_forced=True)
        self.assertIs(class_change.ChangeStatus.DONE, result.status)
        self.assertEqual(['late'],
                         [stranger.id for stranger in result.strangers])
        self.assertFalse(result.is_fine)

    def test_arrives_while_it_is_looked_for(self):
        """Seen twice, or once, but never not at all."""
        for moment in range(20):
            cloud = shared_cloud(servers=[fake_host_cloud.server('s', SHARED)],
                                 consumers={'h': ['s']})

            def arrive(number, is_done, cloud=cloud, moment=moment):
                if number == moment:
                    cloud.move('s', 'h')
                    cloud._consumers = {}

            cloud.on_call = arrive
            self.assertEqual(['s'], [
                stranger.id for stranger in turn(cloud, DEDICATED).strangers])


@ddt.ddt
class TestFaults(oslotest.BaseTestCase):

    @ddt.data(errors.CloudError, errors.RefusedError, errors.UnsettledError)
    def test_each_call_fails_once(self, kind):
        wanted = shared_cloud()
        before = copy.deepcopy(wanted.state)
        turn(wanted, DEDICATED, 'd')
        for number, is_lost in itertools.product(
                range(len(wanted.calls)), (False, True)):
            cloud = shared_cloud()
            failed = []

            def fail(at, is_done, number=number, is_lost=is_lost,
                     failed=failed):
                if at == number and is_done is is_lost:
                    failed.append(at)
                    raise kind('a fault')

            cloud.on_call = fail
            try:
                result = turn(cloud, DEDICATED, 'd')
            except errors.CloudError:
                # While it was planned.
                self.assertEqual([], cloud.changes)
            else:
                self.assertEqual(bool(failed), (
                    result.status is class_change.ChangeStatus.FAILED))
                self.assertEqual('a fault' if failed else '', result.message)
                self.assertIn(cloud.state, (before, wanted.state))
            self.assertTrue(turn(cloud, DEDICATED, 'd').is_fine)
            self.assertEqual(wanted.state, cloud.state)

    @ddt.data('change_traits', 'add_host', 'remove_host')
    def test_what_is_always_refused_changes_nothing(self, name):
        cloud = shared_cloud()
        before = copy.deepcopy(cloud.state)
        # Only the first way: what takes a step back is the opposite one.
        self._refuse(cloud, lambda number: cloud.calls[number][0] == name
                     and name not in cloud.changes[:-1])
        result = turn(cloud, DEDICATED, 'd')
        self.assertIs(class_change.ChangeStatus.FAILED, result.status)
        self.assertEqual('no', result.message)
        self.assertEqual(before, cloud.state)

    def test_interrupted(self):
        wanted = shared_cloud()
        before = copy.deepcopy(wanted.state)
        turn(wanted, DEDICATED, 'd')
        for number, is_lost in itertools.product(
                range(len(wanted.calls)), (False, True)):
            cloud = shared_cloud()

            def interrupt(at, is_done, number=number, is_lost=is_lost):
                if (at, is_done) == (number, is_lost):
                    raise KeyboardInterrupt

            cloud.on_call = interrupt
            # Calls that only read are not told of when they are done.
            with contextlib.suppress(KeyboardInterrupt):
                turn(cloud, DEDICATED, 'd')
            self.assertIn(cloud.state, (before, wanted.state))

    def test_interrupted_and_not_taken_back(self):
        cloud = shared_cloud()

        def fail(number, is_done):
            if not is_done and len(cloud.changes) > 1:
                raise (KeyboardInterrupt if len(cloud.changes) == 2
                       else errors.CloudError('no'))

        cloud.on_call = fail
        error = self.assertRaises(KeyboardInterrupt, turn, cloud, DEDICATED,
                                  'd')
        self.assertIn('could not be taken back', str(error))

    def test_who_came_before_it_was_taken_back_is_told(self):
        cloud = fake_host_cloud.FakeCloud(
            {'h': {placement_traits.SHARED}}, {'d': AGGREGATES['d']})

        def arrive(number, is_done):
            if cloud.calls[number][0] == 'change_traits' and is_done:
                cloud.put(fake_host_cloud.server('late', DEDICATED, 'h'))
            elif cloud.calls[number][0] == 'add_host' and not is_done:
                cloud.on_call = lambda number, is_done: None
                raise errors.RefusedError('no')

        cloud.on_call = arrive
        result = turn(cloud, DEDICATED, 'd')
        self.assertIs(class_change.ChangeStatus.FAILED, result.status)
        self.assertEqual(['late'],
                         [stranger.id for stranger in result.strangers])

    def test_what_cannot_be_taken_back_is_told(self):
        cloud = shared_cloud()
        self._refuse(cloud, lambda _number: len(cloud.changes) > 1)
        result = turn(cloud, DEDICATED, 'd')
        self.assertIs(class_change.ChangeStatus.FAILED, result.status)
        self.assertIn('could not be taken back', result.message)
        cloud.on_call = lambda number, is_done: None
        [host] = class_change.find_hosts(['h'], cloud.hosts())
        # Which nobody gets into.
        self.assertLessEqual({DEDICATED, SHARED}, {
            mark.host_class for mark in segregation_model.marks(host)})

    @staticmethod
    def _refuse(cloud, is_refused):
        def refuse(number, is_done):
            if not is_done and is_refused(number):
                raise errors.RefusedError('no')

        cloud.on_call = refuse

    @unit_base.settings(200)
    @hypothesis.given(
        st.sets(st.sampled_from(
            [placement_traits.DEDICATED, placement_traits.SHARED, 'X'])),
        st.sets(st.sampled_from(sorted(AGGREGATES))),
        st.lists(st.sampled_from([DEDICATED, SHARED, None]), min_size=1,
                 max_size=3),
        st.sets(st.integers(0, 60)))
    def test_from_anywhere(self, own, joined, classes, faults):
        cloud = fake_host_cloud.FakeCloud({'h': own}, {
            name: (['h'] if name in joined else [], metadata)
            for name, (_members, metadata) in AGGREGATES.items()})

        def fail(number, is_done):
            if number in faults:
                raise errors.CloudError('a fault')

        cloud.on_call = fail
        for host_class in classes:
            try:
                turn(cloud, host_class)
            except errors.CloudError:
                pass
        cloud.on_call = lambda number, is_done: None
        self.assertTrue(turn(cloud, classes[-1]).is_fine)
        [host] = cloud.hosts()
        self.assertIs(classes[-1], segregation_model.host_class(host))
        self.assertEqual({classes[-1]} if classes[-1] else set(), {
            mark.host_class for mark in segregation_model.marks(host)})
        # What says nothing of a class is not touched.
        self.assertEqual('X' in own, 'X' in cloud.traits['rp-h'])
        self.assertEqual('rack' in joined, 'rack' in members(cloud))


class TestInput(oslotest.BaseTestCase):

    def test_find_hosts(self):
        hosts = shared_cloud().hosts()
        self.assertEqual(['other', 'h'], [
            find_host.name for find_host in class_change.find_hosts(
                ['other', 'h', 'other'], hosts)])
        error = self.assertRaises(errors.InputErrors, class_change.find_hosts,
                                  ['h', 'othr', 'zzz'], hosts)
        self.assertEqual(
            'there is no host othr; did you mean other?\n'
            'there is no host zzz', str(error))

    def test_what_to_do_about_names_that_no_host_has(self):
        hosts = [segregation_model.MarkedHost('cmp-1', 'n', 'u')]
        for name, expected in (
                ('CMP-2', 'there is no host CMP-2; did you mean cmp-1?'),
                ('cmp-*', 'there is no host cmp-*; patterns are for site '
                          'files, see openstack pinning segregation apply'),
                ('', "there is no host ''")):
            error = self.assertRaises(
                errors.InputErrors, class_change.find_hosts, [name], hosts)
            self.assertEqual(expected, str(error))

    def test_check_aggregate(self):
        by_name = {
            aggregate.name: aggregate
            for aggregate in shared_cloud().aggregates()}
        for name in ('d', 'di'):
            class_change.check_aggregate(by_name[name], DEDICATED)
        for name, host_class, told in (
                ('d', SHARED, 'metadata pinning:class=dedicated'),
                ('di', SHARED,
                 f'metadata trait:{placement_traits.DEDICATED}=required'),
                ('odd', SHARED, 'pinning:class=gold'),
                ('rack', SHARED, '--property pinning:class=shared rack'),
                ('d', None, 'of no class')):
            error = self.assertRaises(
                errors.InputError, class_change.check_aggregate, by_name[name],
                host_class)
            self.assertIn(told, str(error))

    def test_the_command_for_an_aggregate_of_two_words(self):
        error = self.assertRaises(
            errors.InputError, class_change.check_aggregate,
            segregation_model.HostAggregate(1, 'uuid', "rack's 1"), SHARED)
        self.assertEqual(
            ['openstack', 'aggregate', 'set', '--property',
             'pinning:class=shared', "rack's 1"], shlex.split(error.advice))
