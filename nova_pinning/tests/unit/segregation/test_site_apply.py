# SPDX-License-Identifier: Apache-2.0
"""A cloud comes in step with a site file, whatever happens on the way."""

import itertools

import hypothesis
from hypothesis import strategies as st
from oslotest import base as oslotest

from nova_pinning import errors
from nova_pinning.model import hostclass
from nova_pinning.placement import placement_traits
from nova_pinning.segregation import class_change
from nova_pinning.segregation import segregation_model
from nova_pinning.segregation import site_apply
from nova_pinning.segregation import site_file
from nova_pinning.segregation import site_plan
from nova_pinning.tests.unit.segregation import fake_host_cloud
from nova_pinning.tests.unit.segregation import site_cloud
from nova_pinning.tests.unit import unit_base

DEDICATED = hostclass.HostClass.DEDICATED
SHARED = hostclass.HostClass.SHARED
OLD = 'CUSTOM_OLD'
OURS = tuple(placement_traits.TRAIT_OF.values())
ISOLATED = f'trait:{placement_traits.DEDICATED}'


class CutOff(BaseException):
    """The command is ended from outside."""


def server(name, host_class, host, is_certain=True):
    return fake_host_cloud.server(name, host_class, host,
                                  is_certain=is_certain)


def parse(groups, others='leave'):
    return site_file.parse(
        f'version: 1\ngroups: {groups}\nothers: {others}', 'site.yaml')


def make_plan(site, cloud):
    return site_plan.plan(site, site_plan.read(site, cloud))


def apply(site, cloud, **options):
    return list(site_apply.apply(make_plan(site, cloud), cloud, **options))


def told(results):
    """What became of what, in short."""
    return [(result.change.kept.name, str(result.status))
            if isinstance(result, site_apply.AggregateResult)
            else (result.change.host.name, str(result.status))
            for result in results]


BOTH = parse("""{
    a: {class: dedicated, hosts: [d1, d2],
        aggregate: {name: pinned, isolated: true}},
    b: {class: shared, hosts: [s1], aggregate: {name: floating}},
    c: {class: none, traits: [CUSTOM_OLD]}}""")


class TestApply(oslotest.BaseTestCase):

    def cloud(self, **changes):
        return site_cloud.SiteCloud(
            {'d1': {'CUSTOM_A'}, 'd2': {placement_traits.SHARED}, 's1': (),
             'o1': {OLD, *OURS}, 'x': {placement_traits.SHARED}},
            {'floating': ({'d2', 's1'}, {'pinning:class': 'shared'}),
             'az': ({'d1', 'x'}, {'availability_zone': 'az'})}, **changes)

    def test_everything(self):
        cloud = self.cloud()

        results = apply(BOTH, cloud)

        self.assertEqual(
            [('pinned', 'done'), ('d1', 'done'), ('d2', 'done'),
             ('s1', 'done'), ('o1', 'done')], told(results))
        self.assertEqual((
            {'d1': {'CUSTOM_A', placement_traits.DEDICATED},
             'd2': {placement_traits.DEDICATED},
             's1': {placement_traits.SHARED}, 'o1': {OLD},
             'x': {placement_traits.SHARED}},
            {'floating': ({'s1'}, {'pinning:class': 'shared'}),
             'pinned': ({'d1', 'd2'}, {'pinning:class': 'dedicated',
                                       ISOLATED: 'required'}),
             'az': ({'d1', 'x'}, {'availability_zone': 'az'})}),
            cloud.snapshot())
        self.assertEqual(
            [('create_aggregate', 'pinned'), ('set_metadata', 'pinned'),
             ('change_traits', 'rp-d1'), ('add_host', 'pinned', 'd1'),
             ('change_traits', 'rp-d2'), ('add_host', 'pinned', 'd2'),
             ('remove_host', 'floating', 'd2'),
             ('change_traits', 'rp-s1'), ('change_traits', 'rp-o1')],
            cloud.changes)
        cloud.calls.clear()
        self.assertEqual([], apply(BOTH, cloud))
        self.assertEqual([], cloud.changes)

    def test_servers_of_the_other_class(self):
        servers = (
            server('floats', SHARED, 'd2'), server('pinned', DEDICATED, 'd2'),
            server('by-image', SHARED, 's1', is_certain=False),
            # No class, nothing to keep apart.
            server('anybody', DEDICATED, 'o1'))
        cloud = self.cloud(servers=servers, pinned=['by-image'])
        before = cloud.snapshot()

        results = apply(BOTH, cloud)

        self.assertEqual(
            [('pinned', 'done'), ('d1', 'done'), ('d2', 'refused'),
             ('s1', 'refused'), ('o1', 'done')], told(results))
        self.assertEqual(['floats'], [
            stranger.name for stranger in results[2].strangers])
        self.assertFalse(results[2].is_fine)
        for host in ('d2', 's1'):
            self.assertEqual(before[0][host], cloud.snapshot()[0][host])
        self.assertEqual(before[1]['floating'],
                         cloud.snapshot()[1]['floating'])

        results = apply(BOTH, cloud, is_forced=True)
        self.assertEqual([('d2', 'done'), ('s1', 'done')], told(results))
        undisturbed = self.cloud()
        apply(BOTH, undisturbed)
        self.assertEqual(undisturbed.snapshot(), cloud.snapshot())

    def test_a_guest_that_comes_while_its_host_is_turned(self):
        cloud = self.cloud()

        def arrive():
            if cloud.changes[-1] == ('change_traits', 'rp-d2'):
                cloud.put(server('late', SHARED, 'd2'))

        cloud.look = arrive
        results = apply(BOTH, cloud)
        self.assertEqual(('d2', 'done'), told(results)[2])
        self.assertEqual(['late'], [
            stranger.name for stranger in results[2].strangers])
        self.assertFalse(results[2].is_fine)

    def test_a_guest_that_comes_before_its_host_joins(self):
        cloud = site_cloud.SiteCloud({'d1': (), 'd2': (), 's1': ()},
                                     {'pinned': ({'d1'}, {})})

        def arrive():
            if cloud.changes[-1] == ('change_traits', 'rp-d2'):
                cloud.put(server('late', SHARED, 'd2'))

        cloud.look = arrive
        last = apply(BOTH, cloud)[-1]
        self.assertEqual([('d2', 'done')], told([last]))
        self.assertIn(('add_host', 'pinned', 'd2'), cloud.changes)
        self.assertEqual(['late'], [
            stranger.name for stranger in last.strangers])

    def test_an_aggregate_that_has_hosts(self):
        # It is to say what they are only once they are.
        cloud = site_cloud.SiteCloud(
            {'d1': (), 'd2': (), 's1': {placement_traits.SHARED}, 'z': {
                placement_traits.DEDICATED}},
            {'pinned': ({'d1', 's1', 'z'}, {}),
             'floating': ((), {'pinning:class': 'shared'})})

        results = apply(BOTH, cloud)

        self.assertEqual({'done'}, {status for _name, status
                                    in told(results)})
        self.assertEqual(
            [('change_traits', 'rp-d1'), ('change_traits', 'rp-d2'),
             ('add_host', 'floating', 's1'), ('remove_host', 'pinned', 's1'),
             ('set_metadata', 'pinned'), ('add_host', 'pinned', 'd2')],
            cloud.changes)
        late = results[-1]
        self.assertEqual(
            ({placement_traits.DEDICATED}, ['pinned']),
            (set(late.change.add), list(late.change.joins)))

    def test_an_aggregate_whose_hosts_cannot_be_turned(self):
        cloud = site_cloud.SiteCloud(
            {'d1': (), 'd2': (), 's1': ()}, {'pinned': ({'d1'}, {})},
            [server('floats', SHARED, 'd1')])

        results = apply(BOTH, cloud)

        self.assertEqual(
            {'floating': 'done', 'd1': 'refused', 's1': 'done',
             'pinned': 'failed', 'd2': 'failed'}, dict(told(results)))
        by_name = dict(zip((name for name, _ in told(results)), results))
        self.assertEqual('d1 in it is not dedicated',
                         by_name['pinned'].message)
        self.assertIn('pinned is not ready', by_name['d2'].message)
        self.assertEqual(({'d1'}, {}), cloud.snapshot()[1]['pinned'])

    def test_an_aggregate_that_somebody_takes_meanwhile(self):
        for metadata, members, words in (
                ({'pinning:class': 'shared'}, (), 'by now'),
                ({}, ('x',), 'x in it is not dedicated')):
            cloud = self.cloud()
            made = make_plan(BOTH, cloud)
            taken = cloud.create_aggregate('pinned')
            cloud.set_metadata(taken, metadata)
            for host in members:
                cloud.add_host(taken, host)
            results = list(site_apply.apply(made, cloud))
            self.assertEqual(('pinned', 'failed'), told(results)[0])
            self.assertIn(words, results[0].message)
            self.assertEqual({'failed'}, {
                status for name, status in told(results)
                if name.startswith('d')})
            self.assertEqual((set(members), metadata),
                             cloud.snapshot()[1]['pinned'])

    def test_refused(self):
        for number, kind in itertools.product(
                range(9), (errors.RefusedError, errors.UnsettledError)):
            cloud = self.cloud()
            cloud.faults = {number: kind('because')}
            results = apply(BOTH, cloud)
            failed = [result for result in results if not result.is_fine]
            self.assertNotEqual([], failed)
            for one in failed:
                self.assertIn(
                    one.message,
                    ('because', 'aggregate pinned is not ready for it'))
            cloud.faults = {}
            apply(BOTH, cloud)
            undisturbed = self.cloud()
            apply(BOTH, undisturbed)
            self.assertEqual(undisturbed.snapshot(), cloud.snapshot())

    def test_an_ill_cloud_is_left_alone(self):
        cloud = self.cloud()
        made = make_plan(BOTH, cloud)

        def be_down(number, is_done):
            if len(cloud.changes) >= 3:
                raise errors.CloudError('down')

        cloud.on_call = be_down
        self.assertRaises(errors.CloudError, list,
                          site_apply.apply(made, cloud))
        self.assertEqual({'rp-d1'}, {
            call[-1] for call in cloud.calls
            if call[0] in ('change_traits', 'add_host', 'remove_host')})


# Any site, any cloud.

_HOSTS = ('h1', 'h2', 'h3', 'k1')
_AGGREGATES = ('a1', 'a2', 'a3')
_METADATA = st.sampled_from([
    {}, {}, {'pinning:class': 'dedicated'}, {'pinning:class': 'shared'},
    {ISOLATED: 'required'}, {'pinning:class': 'dedicated',
                             ISOLATED: 'required'}, {'pinning:class': 'x'}])


@st.composite
def any_cloud(draw):
    hosts = {name: draw(st.frozensets(st.sampled_from([*OURS, OLD])))
             for name in _HOSTS}
    aggregates = {
        name: (draw(st.frozensets(st.sampled_from(_HOSTS), max_size=2)),
               draw(_METADATA))
        for name in draw(st.sets(st.sampled_from(_AGGREGATES)))}
    servers = [
        server(f'on-{name}', host_class, name) for name in _HOSTS
        if (host_class := draw(st.sampled_from(
            [None, None, *hostclass.HostClass])))]
    return site_cloud.SiteCloud(hosts, aggregates, servers)


@st.composite
def _group(draw):
    host_class = draw(st.sampled_from(['dedicated', 'shared', 'none']))
    group = {'class': host_class}
    group |= draw(st.fixed_dictionaries({}, optional={
        'hosts': st.lists(st.sampled_from(['h1', 'h2', 'h*', 'k*', 'q*']),
                          min_size=1, max_size=2),
        'aggregates': st.lists(st.sampled_from(_AGGREGATES), min_size=1,
                               max_size=1),
        'traits': st.lists(st.sampled_from([OLD, 'CUSTOM_UNKNOWN']),
                           min_size=1, max_size=1)}))
    if host_class != 'none' and draw(st.booleans()):
        group['aggregate'] = {'name': draw(st.sampled_from(_AGGREGATES)),
                              'isolated': draw(st.booleans())}
    return group


@st.composite
def any_case(draw):
    """A cloud, and a site file that goes with it."""
    groups = {f'g{number}': draw(_group())
              for number in range(draw(st.integers(1, 3)))}
    others = draw(st.sampled_from(['leave', 'leave', 'shared', 'none',
                                   'dedicated', 'refuse']))
    cloud = draw(any_cloud())
    try:
        site = parse(str(groups), others)
        make_plan(site, cloud)
    except errors.InputErrors:
        hypothesis.assume(False)
    return site, cloud


def told_of(host):
    """What tells the class of a host, and which."""
    return {(mark.source, mark.host_class)
            for mark in segregation_model.marks(host)}


def closed(cloud, name, host_class):
    """What of a host keeps out guests of the other class, and what all."""
    [host] = [host for host in cloud.hosts() if host.name == name]
    found = told_of(host)
    if placement_traits.classes_of(host.traits) != {host_class}:
        found.discard((segregation_model.MarkSource.TRAIT, host_class))
    return {source for source, named in found if named is host_class}


class TestAnySite(oslotest.BaseTestCase):

    @unit_base.settings(60)
    @hypothesis.given(any_case(), st.booleans())
    def test_it_ends_as_the_file_says(self, case, is_forced):
        site, cloud = case
        before = make_plan(site, cloud)
        results = apply(site, cloud, is_forced=is_forced)
        self.assertEqual(len(before.changes), len(results))
        after = make_plan(site, cloud)
        # What is left to do is what was said to be.
        left = {result.change.host.name for result in results
                if isinstance(result, class_change.ChangeResult)
                and result.status is not class_change.ChangeStatus.DONE}
        self.assertEqual(
            left, {change.host.name for change in after.host_changes})
        self.assertEqual(
            {result.change.kept.name for result in results
             if isinstance(result, site_apply.AggregateResult)
             and not result.is_fine},
            {change.kept.name for change in after.aggregate_changes})
        if is_forced:
            self.assertEqual((), after.changes)
            for host in after.hosts:
                self.assertEqual({host.host_class} - {None}, {
                    mark.host_class
                    for mark in segregation_model.marks(host.host)})
        # Once more changes nothing.
        cloud.calls.clear()
        end = cloud.snapshot()
        apply(site, cloud, is_forced=is_forced)
        self.assertEqual(end, cloud.snapshot())

    @unit_base.settings(30)
    @hypothesis.given(any_case(), st.booleans())
    def test_cut_off_anywhere(self, case, is_forced):
        site, cloud = case
        undisturbed = cloud.copy()
        apply(site, undisturbed, is_forced=is_forced)
        for number in range(len(undisturbed.changes)):
            again = cloud.copy()
            again.faults = {number: CutOff()}
            self.assertRaises(CutOff, apply, site, again,
                              is_forced=is_forced)
            again.faults = {}
            apply(site, again, is_forced=is_forced)
            self.assertEqual(undisturbed.snapshot(), again.snapshot(), number)

    @unit_base.settings(30)
    @hypothesis.given(any_case(), st.integers(0, 9))
    def test_twice_at_once(self, case, steps):
        site, cloud = case
        undisturbed = cloud.copy()
        apply(site, undisturbed, is_forced=True)
        first = site_apply.apply(make_plan(site, cloud), cloud,
                                 is_forced=True)
        second = site_apply.apply(make_plan(site, cloud), cloud,
                                  is_forced=True)
        for _step in range(steps):
            next(first, None)
        list(second)
        list(first)
        self.assertEqual(undisturbed.snapshot(), cloud.snapshot())

    @unit_base.settings(60)
    @hypothesis.given(any_case())
    def test_nothing_is_opened_on_the_way(self, case):
        site, cloud = case
        made = make_plan(site, cloud)
        wanted = {host.host.name: host.host_class for host in made.hosts}
        known = {name: set() for name in wanted}
        left = {host.name: told_of(host) for host in cloud.hosts()
                if host.name not in wanted}

        def look():
            for name, host_class in wanted.items():
                if host_class:
                    now = closed(cloud, name, host_class)
                    self.assertLessEqual(known[name], now, name)
                    known[name] = now
            for host in cloud.hosts():
                if host.name in left:
                    before, now = left[host.name], told_of(host)
                    self.assertLessEqual(before, now)
                    self.assertLessEqual(now - before, self.said(host, site))

        cloud.look = look
        list(site_apply.apply(made, cloud, is_forced=True))
        look()

    def said(self, host, site):
        """What aggregates of the site may have come to say of a host.

        Only what is true of it already.
        """
        if len(placement_traits.classes_of(host.traits)) != 1:
            return set()
        [host_class] = placement_traits.classes_of(host.traits)
        kept = {group.aggregate.name for group in site.groups
                if group.aggregate}
        return {(mark.source, mark.host_class)
                for mark in segregation_model.marks(host)
                if mark.name in kept and mark.host_class is host_class}
