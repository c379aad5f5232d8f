# SPDX-License-Identifier: Apache-2.0
"""Site files: the format."""

import pathlib

import ddt
import fixtures
from oslotest import base as oslotest

from nova_pinning import errors
from nova_pinning.model import hostclass
from nova_pinning.placement import placement_traits
from nova_pinning.segregation import site_file

DEDICATED = hostclass.HostClass.DEDICATED
SHARED = hostclass.HostClass.SHARED
EXAMPLE = (pathlib.Path(__file__).parents[4] / 'etc' / 'nova-pinning'
           / 'site.yaml')

GOOD = """
version: 1
description: all that there is
groups:
  enterprise:
    description: words
    class: dedicated
    hosts: [cmp-1, 'cmp-d-*']
    traits: [CUSTOM_FAST]
    aggregates: [pinned]
    aggregate: {name: pinned, isolated: true}
  more:
    class: dedicated
    aggregates: [az 1]
  rest:
    class: shared
    hosts: [a]
    aggregate: {name: floating}
  legacy:
    class: none
    traits: [CUSTOM_OLD]
others: refuse
"""


def parse(text):
    return site_file.parse(text, 'site.yaml')


def one_group(text, more=''):
    return parse(f'version: 1\ngroups: {{g: {{{text}}}}}\n{more}')


@ddt.ddt
class TestParse(oslotest.BaseTestCase):

    def test_all(self):
        found = parse(GOOD)
        self.assertIs(site_file.OtherHosts.REFUSE, found.others)
        self.assertEqual(
            [('enterprise', DEDICATED), ('more', DEDICATED),
             ('rest', SHARED), ('legacy', None)],
            [(group.name, group.host_class) for group in found.groups])
        first, more, rest, legacy = found.groups
        self.assertEqual(
            [('hosts', 'cmp-1'), ('hosts', 'cmp-d-*'),
             ('aggregates', 'pinned'), ('traits', 'CUSTOM_FAST')],
            [(selector.kind, selector.text) for selector in first.selectors])
        self.assertEqual('site.yaml:8:20: groups.enterprise.hosts[1]',
                         str(first.selectors[1].where))
        self.assertEqual(
            {'pinning:class': 'dedicated',
             f'trait:{placement_traits.DEDICATED}': 'required'},
            first.aggregate.metadata)
        self.assertIsNone(more.aggregate)
        self.assertEqual({'pinning:class': 'shared'},
                         rest.aggregate.metadata)
        self.assertIsNone(legacy.aggregate)

    @ddt.data(('', site_file.OtherHosts.LEAVE),
              ('others: leave', site_file.OtherHosts.LEAVE),
              ('others: refuse', site_file.OtherHosts.REFUSE),
              ('others: none', None),
              ('others: shared', SHARED), ('others: dedicated', DEDICATED))
    @ddt.unpack
    def test_others(self, text, expected):
        found = one_group('class: shared, hosts: [a]', text)
        self.assertIs(expected, found.others)

    def test_example(self):
        found = site_file.load(EXAMPLE)
        self.assertEqual(['enterprise', 'standard'],
                         [group.name for group in found.groups])

    def test_no_file(self):
        path = self.useFixture(fixtures.TempDir()).join('none')
        self.assertRaises(errors.InputError, site_file.load, path)

    @ddt.data(
        ('{}', 'no version'),
        ('version: 2\ngroups: {}', 'version'),
        ('version: 1', 'groups is missing'),
        ('version: 1\ngroups: {}', 'is empty'),
        ('version: 1\ngroups: {a b: {class: shared, hosts: [a]}}', 'letters'),
        ('version: 1\ngruops: {}', 'did you mean groups?'),
        ('version: 1\ngroups: {a: {class: shared, hosts: [a]}}\n'
         'others: keep', 'leave, refuse'),
    )
    @ddt.unpack
    def test_bad_file(self, text, words):
        error = self.assertRaises(errors.InputErrors, parse, text)
        self.assertIn(words, str(error))

    @ddt.data(
        ('hosts: [a]', 'class is missing'),
        ('class: pinned, hosts: [a]', 'dedicated, shared, none'),
        ('class: shared', 'names no hosts'),
        ('class: shared, hosts: []', 'is empty'),
        ('class: shared, hosts: a', 'a list of host names'),
        ("class: shared, hosts: ['']", 'a host name'),
        ('class: shared, host: [a]', 'did you mean hosts'),
        ('class: shared, traits: [custom]', 'a trait such as'),
        ('class: shared, hosts: [a], aggregate: b', 'such as {name'),
        ('class: shared, hosts: [a], aggregate: {}', 'name is missing'),
        ("class: shared, hosts: [a], aggregate: {name: ' b'}", 'no blanks'),
        ('class: shared, hosts: [a], aggregate: {name: b, isolated: yes}',
         'write true'),
        ('class: none, hosts: [a], aggregate: {name: b}', 'no aggregate'),
        # What is done would change who is found.
        (f'class: shared, traits: [{placement_traits.DEDICATED}]',
         'in another way'),
        (f'class: dedicated, traits: [{placement_traits.DEDICATED}]',
         'in another way'),
        (f'class: none, traits: [{placement_traits.SHARED}]',
         'in another way'),
    )
    @ddt.unpack
    def test_bad_group(self, text, words):
        error = self.assertRaises(errors.InputErrors, one_group, text)
        self.assertIn(words, str(error))
        self.assertLess(0, error.where.line)

    def test_an_aggregate_in_two_ways(self):
        first = ('version: 1\ngroups:\n  a: {class: dedicated, hosts: [a], '
                 'aggregate: {name: x}}\n  b: ')
        for other in ('{class: shared, hosts: [b], aggregate: {name: x}}',
                      '{class: dedicated, hosts: [b], '
                      'aggregate: {name: x, isolated: true}}'):
            error = self.assertRaises(errors.InputErrors, parse,
                                      first + other)
            self.assertIn('in two ways', str(error))
            self.assertIn('groups.a.aggregate in line 3', str(error))

    def test_hosts_of_an_aggregate_of_another_group(self):
        error = self.assertRaises(errors.InputErrors, parse, (
            'version: 1\ngroups:\n'
            '  a: {class: dedicated, hosts: [a], aggregate: {name: x}}\n'
            '  b: {class: dedicated, aggregates: [x]}\n'))
        self.assertIn('the hosts of aggregate x', str(error))
        self.assertEqual('groups.b.aggregates[0]', error.where.key)

    def test_many_errors(self):
        groups = '\n'.join(f'  g{number}: {{class: shared}}'
                           for number in range(30))
        error = self.assertRaises(errors.InputErrors, parse,
                                  f'version: 1\ngroups:\n{groups}')
        self.assertTrue(error.has_more)
