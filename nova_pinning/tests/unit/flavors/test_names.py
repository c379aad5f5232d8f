# SPDX-License-Identifier: Apache-2.0
import dataclasses

from oslotest import base

from nova_pinning.flavors import flavor_model
from nova_pinning.flavors import names

_FLAVOR = flavor_model.Flavor(name='a', vcpus=2, memory_mib=4096)


class TestTemplates(base.BaseTestCase):

    def test_fill(self):
        for template, expected in (
                ('{family}.{size}', 'f.s'), ('{vcpus}x{memory_gib}', '2x1.5'),
                ('{{{size}}}', '{s}'), ('plain', 'plain')):
            self.assertEqual('', names.template_mistake(template))
            self.assertEqual(expected, names.fill_template(
                template, vcpus=2, memory_mib=1536, family='f', size='s'))

    def test_refusals(self):
        for template in ('{', '}', '{}', '{other}', '{size.real}', '{size!r}',
                         '{size[0]}', '{vcpus:>999999999}', '{0}'):
            self.assertNotEqual('', names.template_mistake(template))


class TestFlavorId(base.BaseTestCase):

    def test_is_for_ever(self):
        # Clouds know flavors by it, so that it must never change.
        self.assertEqual('986f0607-ea9f-5e73-9cf8-27a9be01d251',
                         names.flavor_id('default', _FLAVOR))

    def test_what_it_hangs_on(self):
        ids = {names.flavor_id('default', dataclasses.replace(
            _FLAVOR, **{key: value})) for key, value in (
                ('name', 'b'), ('vcpus', 3), ('memory_mib', 1),
                ('disk_gib', 1), ('ephemeral_gib', 1), ('swap_mib', 1),
                ('rxtx_factor', 2.0), ('is_public', False), ('id', 'x'))}
        ids.add(names.flavor_id('other', _FLAVOR))
        # All differ but for the id itself, which does not matter.
        self.assertEqual(10, len(ids))
        for key, value in (
                ('id', 'x'), ('description', 'x'), ('projects', ('x',)),
                ('extra_specs', {'a': 'b'}), ('rxtx_factor', 1)):
            self.assertEqual(
                names.flavor_id('default', _FLAVOR),
                names.flavor_id('default', dataclasses.replace(
                    _FLAVOR, **{key: value})))
