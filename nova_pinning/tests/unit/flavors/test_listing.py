# SPDX-License-Identifier: Apache-2.0

from nova_pinning.flavors import flavor_model
from nova_pinning.flavors import listing
from nova_pinning.tests.unit import unit_base


def _flavor(name, family=None, **changes):
    specs = {flavor_model.FAMILY_KEY: family} if family else {}
    specs |= changes.pop('extra_specs', {})
    return flavor_model.Flavor(**{
        'name': name, 'vcpus': 2, 'memory_mib': 8192,
        'extra_specs': specs, **changes})


class TestFamilyTables(unit_base.TestCase):

    def test_what_sizes_share_is_said_once(self):
        table, = listing.family_tables([
            _flavor('e.large', 'e', extra_specs={
                'hw:cpu_policy': 'dedicated', 'hw:cpu_cores': '1'}),
            _flavor('e.xlarge', 'e', vcpus=4, memory_mib=16384, extra_specs={
                'hw:cpu_policy': 'dedicated', 'hw:cpu_cores': '2',
                'quota:cpu_shares': '7'}),
        ])
        self.assertEqual('e', table.family)
        self.assertEqual('e.', table.prefix)
        self.assertEqual(('large', 'xlarge'), table.columns)
        self.assertEqual(((flavor_model.FAMILY_KEY, 'e'),
                          ('hw:cpu_policy', 'dedicated')), table.common)
        self.assertEqual((
            ('vCPUs', ('2', '4')),
            ('memory', ('8 GiB', '16 GiB')),
            ('disk', ('', '')),
            ('hw:cpu_cores', ('1', '2')),
            ('quota:cpu_shares', ('', '7')),
        ), table.rows)

    def test_one_size_has_nothing_to_share(self):
        table, = listing.family_tables([_flavor('e.large', 'e')])
        self.assertEqual((), table.common)
        self.assertIn((flavor_model.FAMILY_KEY, ('e',)), table.rows)

    def test_families_in_their_order(self):
        tables = listing.family_tables([
            _flavor('z', 'two'), _flavor('a', 'one'), _flavor('b', 'two'),
            _flavor('plain')])
        self.assertEqual([('two', ('z', 'b')), ('one', ('a',)),
                          ('', ('plain',))],
                         [(table.family, table.columns) for table in tables])

    def test_rarer_properties(self):
        table, = listing.family_tables([
            _flavor('a', ephemeral_gib=7, is_public=False,
                    projects=('p', 'q')),
            _flavor('b', swap_mib=512, is_public=False)])
        rows = dict(table.rows)
        self.assertEqual(('7 GiB', ''), rows['ephemeral disk'])
        self.assertEqual(('', '512 MiB'), rows['swap'])
        self.assertEqual(('p\nq', 'none yet'), rows['projects'])

    def test_prefix(self):
        for names, prefix in ((('a.b-c', 'a.b-d'), 'a.b-'),
                              (('large', 'larger'), ''),
                              (('a.b',), ''),
                              (('a.', 'a.'), 'a.')):
            table, = listing.family_tables(map(_flavor, names))
            self.assertEqual(prefix, table.prefix)
            self.assertEqual(
                names, tuple(prefix + column for column in table.columns))

    def test_as_dict(self):
        flavor = _flavor('a', 'f', is_public=False, projects=('p',))
        as_dict = listing.as_dict(flavor)
        self.assertEqual(flavor, flavor_model.Flavor(
            **as_dict | {'projects': tuple(as_dict['projects'])}))
