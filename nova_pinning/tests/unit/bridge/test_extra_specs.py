# SPDX-License-Identifier: Apache-2.0

import json
import pathlib

import ddt
from nova.api.validation.extra_specs import validators
from nova import exception

from nova_pinning.bridge import extra_specs
import nova_pinning.flavors
from nova_pinning.flavors import flavor_model
from nova_pinning.tests.unit import unit_base

_KEYS = (flavor_model.CLASS_KEY, flavor_model.CATALOGUE_KEY,
         flavor_model.FAMILY_KEY, flavor_model.L3_WAYS_KEY,
         flavor_model.BANDWIDTH_KEY)


@ddt.ddt
class ExtraSpecsTest(unit_base.TestCase):
    """What nova-api says, with the entry point as it is installed."""

    def setUp(self):
        super().setUp()
        validators.load_validators()

    def test_there_is_one_for_each_key(self):
        self.assertEqual(
            sorted(_KEYS), sorted(one.name for one in extra_specs.register()))
        for key in _KEYS:
            self.assertIn(key, validators.VALIDATORS)

    @ddt.data(
        ('pinning:class', 'dedicated'), ('pinning:class', 'shared'),
        ('pinning:l3_ways', '1'), ('pinning:l3_ways', '64'),
        ('pinning:memory_bandwidth', '100'),
        ('pinning:catalogue', 'default'), ('pinning:family', 'local-nvme'),
        ('pinning:family', 'a' * 64), ('pinning:family', '2.x_b'))
    @ddt.unpack
    def test_right(self, key, value):
        validators.validate(key, value)

    @ddt.data(
        ('pinning:class', 'Dedicated'), ('pinning:class', ''),
        ('pinning:class', 'mixed'), ('pinning:clas', 'dedicated'),
        ('pinning:', 'dedicated'), ('pinning:classes', 'shared'),
        ('pinning:l3_ways', '0'), ('pinning:l3_ways', '65'),
        ('pinning:l3_ways', 'all'), ('pinning:memory_bandwidth', '101'),
        ('pinning:catalogue', ''), ('pinning:catalogue', 'a b'),
        ('pinning:family', 'a' * 65), ('pinning:family', '-a'))
    @ddt.unpack
    def test_wrong(self, key, value):
        self.assertRaises(
            exception.ValidationError, validators.validate, key, value)

    def test_names_are_those_of_the_schema(self):
        schema = pathlib.Path(
            nova_pinning.flavors.__file__).with_name('catalogue-2.json')
        names = json.loads(schema.read_text())['properties']['name']
        self.assertEqual(names['pattern'], f'^{extra_specs._NAME}$')
