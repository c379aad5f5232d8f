# SPDX-License-Identifier: Apache-2.0
"""What a site file changes in a cloud."""

import ddt
from oslotest import base as oslotest

from nova_pinning import errors
from nova_pinning.placement import placement_traits
from nova_pinning.segregation import segregation_model
from nova_pinning.segregation import site_file
from nova_pinning.segregation import site_plan

D = placement_traits.DEDICATED
S = placement_traits.SHARED


def parse(groups, others='leave'):
    return site_file.parse(
        f'version: 1\ngroups: {groups}\nothers: {others}', 'site.yaml')


def state(hosts=('h1', 'h2'), aggregates=(), by_trait=()):
    """A cloud.

    :param hosts: names, or traits by name
    :param aggregates: (hosts, metadata) by name
    """
    if not isinstance(hosts, dict):
        hosts = dict.fromkeys(hosts, frozenset())
    made = [segregation_model.HostAggregate(
        number, f'uuid-{name}', name, frozenset(members), metadata)
            for number, (name, (members, metadata)) in enumerate(
                dict(aggregates).items())]
    return site_plan.CloudState(
        tuple(segregation_model.MarkedHost(
            name, f'node-{name}', f'provider-{name}', traits,
            tuple(aggregate for aggregate in made if name in aggregate.hosts))
              for name, traits in hosts.items()),
        tuple(made), dict(by_trait))


def classes(made):
    """The class of each host that gets one, and its group."""
    return {host.host.name: (str(host.host_class), host.group)
            for host in made.hosts}


@ddt.ddt
class TestWhichHosts(oslotest.BaseTestCase):

    @ddt.data(
        ('hosts: [h1]', {'h1'}),
        ("hosts: ['h*']", {'h1', 'h2', 'h[1]'}),
        ("hosts: ['h?']", {'h1', 'h2'}),
        # A host's own name, first of all.
        ("hosts: ['h[1]']", {'h[1]'}),
        ("hosts: ['H1*', h2]", {'h2'}),
        ('aggregates: [a]', {'h2', 'k'}),
        ('traits: [CUSTOM_A]', {'k'}),
        ('hosts: [h1], aggregates: [a], traits: [CUSTOM_A]',
         {'h1', 'h2', 'k'}),
    )
    @ddt.unpack
    def test_selectors(self, text, expected):
        made = site_plan.plan(
            parse(f'{{g: {{class: shared, {text}}}}}'),
            state(('h1', 'h2', 'h[1]', 'k'), {'a': (('h2', 'k'), {})},
                  {'CUSTOM_A': frozenset({'provider-k', 'else'})}))
        self.assertEqual(dict.fromkeys(expected, ('shared', 'g')),
                         classes(made))

    @ddt.data(
        ("hosts: ['x*']", 'no host has a name like x*'),
        ('traits: [CUSTOM_A]', 'no host has the trait CUSTOM_A'),
        ('aggregates: [empty]', 'no hosts in aggregate empty'),
    )
    @ddt.unpack
    def test_warnings(self, text, words):
        made = site_plan.plan(
            parse(f'{{g: {{class: shared, {text}}}}}'),
            state(aggregates={'empty': ((), {})},
                  by_trait={'CUSTOM_A': frozenset()}))
        self.assertEqual({}, classes(made))
        [warning] = made.warnings
        self.assertIn(words, warning)
        self.assertIn('site.yaml:2:', warning)

    @ddt.data(
        ('hosts: [cmp-d-01]', 'there is no host cmp-d-01',
         'did you mean cmp-d-1?'),
        ('hosts: [x]', 'there is no host x', ''),
        ('aggregates: [pin]', 'there is no aggregate pin',
         'did you mean pins?'),
    )
    @ddt.unpack
    def test_what_there_is_not(self, text, words, advice):
        error = self.assertRaises(
            errors.InputErrors, site_plan.plan,
            parse(f'{{g: {{class: shared, {text}}}}}'),
            state(['cmp-d-1', 'h1'], {'pins': ((), {})}))
        self.assertIn(words, error.message)
        self.assertEqual(advice, error.advice)

    def test_an_aggregate_that_is_yet_to_be_created(self):
        made = site_plan.plan(parse(
            '{g: {class: shared, aggregates: [a], aggregate: {name: a}}}'),
            state())
        self.assertEqual({}, classes(made))

    @ddt.data({'pinning:class': 'dedicated'}, {'pinning:class': 'x'},
              {f'trait:{D}': 'required'})
    def test_an_aggregate_that_its_hosts_would_leave(self, metadata):
        for host_class in ('shared', 'none'):
            error = self.assertRaises(
                errors.InputErrors, site_plan.plan,
                parse(f'{{g: {{class: {host_class}, aggregates: [a]}}}}'),
                state(aggregates={'a': (('h1',), metadata)}))
            self.assertIn('may be', str(error))

    def test_a_host_in_two_classes(self):
        site = parse("\n  a: {class: shared, hosts: [h1]}"
                     "\n  b: {class: dedicated, hosts: ['h*', 'h1']}")
        error = self.assertRaises(errors.InputErrors, site_plan.plan, site,
                                  state())
        self.assertEqual('host h1 is to be dedicated here', error.message)
        self.assertEqual(1, len(error.errors))
        self.assertEqual('groups.b.hosts[0]', error.where.key)
        self.assertEqual(
            'groups.a.hosts[0] in line 3 makes it to be shared',
            error.advice)

    def test_a_host_in_two_groups_of_one_class(self):
        site = parse("""{
            a: {class: shared, hosts: [h1], aggregate: {name: x}},
            b: {class: shared, hosts: ['h*'], aggregate: {name: y}}}""")
        made = site_plan.plan(site, state())
        self.assertEqual({'h1': ('shared', 'a'), 'h2': ('shared', 'b')},
                         classes(made))
        self.assertEqual([('x', 'y'), ('y',)],
                         [host.joins for host in made.hosts])

    @ddt.data('dedicated', 'shared', 'none')
    def test_others(self, name):
        made = site_plan.plan(
            parse('{g: {class: shared, hosts: [h1]}}', name), state())
        self.assertEqual(name.replace('none', 'None'),
                         classes(made)['h2'][0])
        self.assertEqual('others', classes(made)['h2'][1])

    def test_others_refused(self):
        names = [f'h{number}' for number in range(9)]
        error = self.assertRaises(
            errors.InputErrors, site_plan.plan,
            parse('{g: {class: shared, hosts: [h0]}}', 'refuse'),
            state(names))
        self.assertEqual('no group names h1, h2, h3, h4, h5 and 3 more',
                         error.message)
        self.assertEqual('others', error.where.key)

    def test_all_errors_at_once(self):
        hosts = ', '.join(f'x{number}' for number in range(30))
        error = self.assertRaises(
            errors.InputErrors, site_plan.plan,
            parse(f'{{g: {{class: shared, hosts: [{hosts}]}}}}'), state())
        self.assertEqual(20, len(error.errors))
        self.assertTrue(error.has_more)


@ddt.ddt
class TestWhatChanges(oslotest.BaseTestCase):

    def plan(self, text, **cloud):
        return site_plan.plan(parse(f'{{g: {text}}}'), state(**cloud))

    @ddt.data(
        ('dedicated', set(), {D}, set()),
        ('dedicated', {S}, {D}, {S}),
        ('dedicated', {D, 'CUSTOM_PINNING_L3_CPUS_8'}, set(), set()),
        ('shared', {D, S}, set(), {D}),
        ('none', {D}, set(), {D}),
        ('none', set(), set(), set()),
    )
    @ddt.unpack
    def test_traits(self, host_class, has, add, remove):
        made = self.plan(f'{{class: {host_class}, hosts: [h1]}}',
                         hosts={'h1': frozenset(has)})
        [one] = made.hosts
        self.assertEqual((add, remove), (one.add, one.remove))
        self.assertEqual(bool(add or remove), one.is_needed)
        self.assertEqual((one,) if one.is_needed else (), made.changes)

    def test_aggregates_that_a_host_leaves(self):
        aggregates = {
            'old': (('h1',), {'pinning:class': 'shared'}),
            'nonsense': (('h1',), {'pinning:class': 'x'}),
            'isolated': (('h1',), {f'trait:{S}': 'required'}),
            'same': (('h1',), {'pinning:class': 'dedicated'}),
            'az': (('h1',), {'availability_zone': 'az'})}
        made = self.plan('{class: dedicated, hosts: [h1]}',
                         aggregates=aggregates)
        [one] = made.hosts
        self.assertEqual(['old', 'nonsense', 'isolated'],
                         [aggregate.name for aggregate in one.leaves])

    def test_an_aggregate_that_is_to_be_for_others(self):
        site = parse("""{
            a: {class: dedicated, hosts: [h1], aggregate: {name: x}},
            b: {class: shared, hosts: [h2]}}""")
        made = site_plan.plan(site, state(
            aggregates={'x': (('h2',), {})}))
        self.assertEqual([['x'], []], [list(host.joins)
                                       for host in made.hosts])
        self.assertEqual([[], ['x']], [
            [aggregate.name for aggregate in host.leaves]
            for host in made.hosts])

    @ddt.data(
        # There is none; nothing; half of it; all of it; more.
        (None, {'pinning:class': 'dedicated', f'trait:{D}': 'required'}),
        ({}, {'pinning:class': 'dedicated', f'trait:{D}': 'required'}),
        ({'pinning:class': 'dedicated'}, {f'trait:{D}': 'required'}),
        # Not to the letter.
        ({'pinning:class': 'Dedicated ', f'trait:{D}': 'forbidden'},
         {'pinning:class': 'dedicated', f'trait:{D}': 'required'}),
        ({'pinning:class': 'dedicated', f'trait:{D}': 'required', 'a': 'b'},
         {}),
    )
    @ddt.unpack
    def test_metadata(self, has, expected):
        made = self.plan(
            '{class: dedicated, hosts: [h1], aggregate: '
            '{name: x, isolated: true}}',
            aggregates={} if has is None else {'x': (('h1',), has)})
        [one] = made.aggregates
        self.assertEqual(expected, one.metadata)
        self.assertEqual((one,) if expected else (), made.aggregate_changes)
        self.assertEqual(has is not None, one.has_hosts)

    def test_isolation_is_not_taken_away(self):
        made = self.plan(
            '{class: dedicated, hosts: [h1], aggregate: {name: x}}',
            aggregates={'x': (('h1',), {'pinning:class': 'dedicated',
                                        f'trait:{D}': 'required'})})
        self.assertEqual((), made.aggregate_changes)

    @ddt.data({'pinning:class': 'shared'}, {'pinning:class': 'x'},
              {f'trait:{S}': 'required'})
    def test_an_aggregate_for_another_class(self, metadata):
        error = self.assertRaises(
            errors.InputErrors, self.plan,
            '{class: dedicated, hosts: [h1], aggregate: {name: x}}',
            aggregates={'x': ((), metadata)})
        self.assertIn('aggregate x is for hosts of another class',
                      str(error))

    def test_an_aggregate_with_hosts_that_no_group_names(self):
        text = '{class: dedicated, hosts: [h1], aggregate: {name: x}}'
        aggregates = {'x': (('h1', 'h2', 'gone'), {})}
        for own in ((), (D, S), (S,)):
            error = self.assertRaises(
                errors.InputErrors, self.plan, text, aggregates=aggregates,
                hosts={'h1': frozenset(), 'h2': frozenset(own)})
            self.assertIn('aggregate x has h2 in it, which no group names',
                          str(error))
        # No news of h2.
        self.plan(text, aggregates=aggregates,
                  hosts={'h1': frozenset(), 'h2': frozenset({D})})
        self.plan(text, aggregates={
            'x': (('h1', 'h2'), {'pinning:class': 'dedicated'})})

    def test_a_host_without_a_provider(self):
        made = self.plan('{class: dedicated, hosts: [h1]}',
                         hosts={'h1': None})
        self.assertEqual({D}, made.hosts[0].add)
