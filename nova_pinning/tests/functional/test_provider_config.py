# SPDX-License-Identifier: Apache-2.0
"""provider.yaml, read by nova's own loader and by a running nova-compute."""

import pathlib
import shutil

import fixtures
import hypothesis
from oslotest import base as oslotest

from nova.compute import provider_config as nova_config

from nova_pinning import errors
from nova_pinning.host import provider_config
from nova_pinning.placement import placement_traits
from nova_pinning.tests.functional import functional_base
from nova_pinning.tests.unit.host import host_samples
from nova_pinning.tests.unit import unit_base

UUID = '5c2b1f60-7f3a-4f53-9f3c-0a4f6f2f8c11'
OTHER = 'CUSTOM_OTHER'


class _Directory(oslotest.BaseTestCase):
    """Files as nova-compute reads them."""

    def setUp(self):
        super().setUp()
        self.useFixture(fixtures.FakeLogger())
        self.root = self.useFixture(fixtures.TempDir()).path

    def lay_out(self, texts):
        """A new directory with these files, by name."""
        directory = pathlib.Path(self.root, 'provider_config')
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir()
        for name, text in texts.items():
            (directory / name).write_text(text)
        return directory


class TestWritten(_Directory):
    """nova takes what we write."""

    @unit_base.settings(100)
    @hypothesis.given(host_samples.any_host())
    def test_any_host(self, host):
        try:
            made = provider_config.make(host)
        except errors.InputError:
            return
        directory = self.lay_out(
            {'a.yaml': provider_config.text(made, host.name)})
        [(identity, found)] = nova_config.get_provider_configs(
            str(directory)).items()
        self.assertEqual(provider_config.COMPUTE_NODE, identity)
        self.assertEqual(sorted(made.traits),
                         found['traits']['additional'])


class TestCompute(functional_base.TestCase):
    """nova-compute puts the traits on its provider in Placement."""

    def test_traits_in_placement(self):
        host = host_samples.host(
            name='compute-1', nova=host_samples.settings('0-7'),
            traits=frozenset({OTHER, placement_traits.l3_trait(4)}))
        directory = self.useFixture(fixtures.TempDir()).path
        made = provider_config.make(host)
        pathlib.Path(directory, 'pinning.yaml').write_text(
            provider_config.text(made, host.name))
        self.nova.start_host('compute-1', functional_base.small_host(options={
            ('compute', 'provider_config_location'): directory}))
        self.nova.start_host('compute-2', functional_base.small_host())

        self.assertEqual(
            {placement_traits.DEDICATED, OTHER, placement_traits.l3_trait(4)},
            self.custom_traits('compute-1'))
        self.assertEqual(set(), self.custom_traits('compute-2'))

    def test_a_trait_that_is_no_longer_in_the_file_stays(self):
        # As the head of the file says.
        path = pathlib.Path(self.useFixture(fixtures.TempDir()).path,
                            'pinning.yaml')
        shared = provider_config.make(host_samples.host(
            nova=host_samples.settings(shared='0-7')))
        dedicated = provider_config.make(host_samples.host(
            nova=host_samples.settings('0-7')))
        path.write_text(provider_config.text(dedicated, 'compute-1'))
        self.nova.start_host('compute-1', functional_base.small_host(options={
            ('compute', 'provider_config_location'): str(path.parent)}))
        path.write_text(provider_config.text(shared, 'compute-1'))
        self.nova.restart_host('compute-1')
        self.assertEqual(set(placement_traits.TRAIT_OF.values()),
                         self.custom_traits('compute-1'))

    def custom_traits(self, host):
        found = self.nova.stage._get_provider_traits(
            self.nova.stage.compute_rp_uuids[host])
        return {trait for trait in found if trait.startswith('CUSTOM_')}
