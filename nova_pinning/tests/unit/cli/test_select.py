# SPDX-License-Identifier: Apache-2.0

import argparse

import ddt

from nova_pinning.cli import common_options
from nova_pinning.cli import select
from nova_pinning import errors
from nova_pinning.flavors import flavor_model
from nova_pinning.tests.unit.cli import cli_case
from nova_pinning.tests.unit import unit_base

AMONG = tuple(
    flavor_model.Flavor(name=f'{family}.{size}', vcpus=2, memory_mib=1024,
                        extra_specs={flavor_model.FAMILY_KEY: family})
    for family in ('enterprise', 'shared') for size in ('large', 'xlarge'))


class TestFlavors(unit_base.TestCase):

    def _names(self, *names):
        return [flavor.name
                for flavor in select.named_flavors(AMONG, names, 'f.yaml')]

    def test_all(self):
        self.assertEqual([flavor.name for flavor in AMONG], self._names())

    def test_by_name_and_family(self):
        self.assertEqual(
            ['enterprise.xlarge', 'shared.large', 'shared.xlarge'],
            self._names('shared', 'enterprise.xlarge', 'shared.large'))

    def test_unknown(self):
        error = self.assertRaises(errors.InputError, self._names, 'shard')
        self.assertEqual('f.yaml', str(error.where))
        self.assertIn("'shard'", error.message)
        self.assertIn('shared', error.advice)


class TestFile(cli_case.TestCase):

    def test_by_name(self):
        self.assertEqual('shared.large', select.named_flavor(
            f'{cli_case.CATALOGUE}:shared.large').name)

    def test_one_of_several(self):
        error = self.assertRaises(
            errors.InputError, select.named_flavor, cli_case.CATALOGUE)
        self.assertIn('22 flavors', str(error))

    def test_the_only_one(self):
        path = self.write('one.yaml', (
            'version: 2\nname: c\nfamilies:\n  f:\n'
            '    sizes: {s: {vcpus: 1, memory: 1GiB}}\n'))
        self.assertEqual('f.s', select.named_flavor(path).name)

    def test_family(self):
        error = self.assertRaises(errors.InputError, select.named_flavor,
                                  f'{cli_case.CATALOGUE}:shared')
        self.assertIn('shared is a family', error.message)
        self.assertIn('shared.large', error.advice)

    def test_no_such_file(self):
        for text, path in (('none.yaml:a', 'none.yaml'), ('a/b', 'a/b'),
                           ('none.yaml', 'none.yaml')):
            error = self.assertRaises(
                errors.InputError, select.named_flavor, text)
            self.assertEqual(f'{path}: cannot be read: '
                             'No such file or directory', str(error))

    def test_name_alone(self):
        """Where no snapshot has flavors with names."""
        error = self.assertRaises(
            errors.InputError, select.named_flavor, 'enterprise.large')
        self.assertEqual('--flavor', str(error.where))
        self.assertIn("no file 'enterprise.large'", error.message)
        self.assertIn('flavors.yaml:enterprise.large', error.advice)
        error = self.assertRaises(errors.InputError, select.named_flavor, '')
        self.assertEqual('--flavor', str(error.where))
        self.assertIn('vcpus=8', error.advice)

    def test_unknown(self):
        error = self.assertRaises(
            errors.InputError, select.named_flavor,
            f'{cli_case.CATALOGUE}:shared.larg')
        self.assertIn('shared.large', error.advice)


@ddt.ddt
class TestWrittenOut(unit_base.TestCase):

    def test_all_there_is(self):
        flavor = select.named_flavor(
            'vcpus=8 ram=16GiB disk=10 ephemeral=5 swap=512 name=mine '
            'hw:cpu_policy=dedicated trait:CUSTOM_A=required pinned=true')
        self.assertEqual(flavor_model.Flavor(
            name='mine', vcpus=8, memory_mib=16384, disk_gib=10,
            ephemeral_gib=5, swap_mib=512,
            extra_specs={'hw:cpu_policy': 'dedicated',
                         'trait:CUSTOM_A': 'required',
                         'pinned': 'true'}), flavor)
        self.assertEqual('--flavor', str(flavor.origin('hw:cpu_policy')))

    def test_plain_memory_is_in_mib(self):
        self.assertEqual(
            2048, select.named_flavor('vcpus=1 ram=2048').memory_mib)

    def test_values_may_have_equals_signs(self):
        self.assertEqual(
            {'a:b': 'c=d'},
            select.named_flavor('vcpus=1 ram=1 a:b=c=d').extra_specs)

    @ddt.data(
        ('ram=1', 'vcpus is missing'),
        ('vcpus=1', 'ram is missing'),
        ('vcpus=0 ram=1', 'vcpus must be from 1 to 65536'),
        ('vcpus=65537 ram=1', 'vcpus must be from 1 to 65536'),
        ('vcpus=1 ram=0', 'ram must be at least 1'),
        ('vcpus=1 ram=1 name=a\x1b[31m', 'no text has, U+001B'),
        ('vcpus=x ram=1', 'vcpus=x'),
        ('vcpus=² ram=1', 'vcpus=²'),
        ('vcpus=-1 ram=1', 'vcpus=-1'),
        ('vcpus=99999999999 ram=1', 'vcpus=99999999999'),
        ('vcpus=1 ram=16apples', '16apples'),
        ('vcpus=1 ram=1 =3', "'=3'"),
        ('vcpus=1 ram=1 word', "'word'"),
        ('vcpus=1 vcpus=2 ram=1', 'twice'),
        ('vcpu=1 ram=1', 'did you mean vcpus'),
        ('vcpus=1 ram=1 disc=2', 'did you mean disk'),
        ('vcpus=1 ram=1 class=dedicated', 'write hw:cpu_policy'),
        ('vcpus=1 ram=1 page_size=1GiB', 'write hw:mem_page_size'),
        ('vcpus=1 ram=1 viommu_model=auto', 'perhaps hw:viommu_model'),
        ('vcpus=1 ram=1 hwcpu_policy=shared', 'perhaps hw:cpu_policy'),
    )
    @ddt.unpack
    def test_bad(self, text, said):
        error = self.assertRaises(errors.InputError, select.named_flavor, text)
        self.assertIn(said, str(error))
        self.assertIn('--flavor', str(error))


@ddt.ddt
class TestOptions(unit_base.TestCase):

    def test_cpu_list(self):
        self.assertEqual('1-3', str(common_options.cpu_list('1-3')))
        self.assertRaises(argparse.ArgumentTypeError, common_options.cpu_list,
                          'x')

    def _properties(self, *items):
        parser = argparse.ArgumentParser()
        common_options.add_image_properties(parser)
        return common_options.image_properties(parser.parse_args(
            [f'--image-property={item}' for item in items]))

    def test_image_properties(self):
        self.assertEqual({}, self._properties())
        self.assertEqual({'a': '1', 'b': 'x=y', 'c': ''},
                         self._properties('a=1', 'b=x=y', 'c='))

    @ddt.data(['a'], ['=1'], ['a=1', 'a=2'])
    def test_bad_image_properties(self, items):
        error = self.assertRaises(
            errors.InputError, self._properties, *items)
        self.assertIn('--image-property', str(error))
