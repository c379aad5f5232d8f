# SPDX-License-Identifier: Apache-2.0
"""provider.yaml, read by nova's own loader and by a running nova-compute."""

import pathlib
import shutil

import fixtures
import hypothesis
from hypothesis import strategies as st
from oslotest import base as oslotest
import yaml

from nova.compute import provider_config as nova_config
from nova import exception

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
        self.assertEqual(made.entry.identity, identity)
        self.assertEqual(sorted(made.entry.traits),
                         found['traits']['additional'])


_NAMES = st.sampled_from(['$COMPUTE_NODE', UUID, UUID.upper(), 'node', '', 7,
                          None, 'x' * 201])
_TRAITS = st.sampled_from(['CUSTOM_A', 'CUSTOM_', 'CUSTOM_a', 'HW_NUMA_ROOT',
                           'A B', 1, None, 'CUSTOM_' + 'X' * 249])
_ANYTHING = st.sampled_from([None, [], {}, 'text', 1, True])


def _mostly(wanted):
    """What belongs there, and now and then something else."""
    return st.integers(0, 9).flatmap(
        lambda number: _ANYTHING if number == 5 else wanted)


_INVENTORIES = st.dictionaries(
    st.sampled_from(['CUSTOM_GPU', 'VCPU', 'custom_a']),
    _mostly(st.dictionaries(
        st.sampled_from(['total', 'reserved', 'allocation_ratio', 'more']),
        _mostly(st.sampled_from([1, 2.5])))))
_PROVIDER = st.fixed_dictionaries({
    'identification': _mostly(st.dictionaries(
        st.sampled_from(['uuid', 'uuid', 'name', 'other']), _NAMES,
        min_size=1, max_size=2)),
}, optional={
    'traits': _mostly(st.fixed_dictionaries({}, optional={
        'additional': _mostly(st.lists(_TRAITS, max_size=3)),
        'more': _ANYTHING})),
    'inventories': _mostly(st.fixed_dictionaries({}, optional={
        'additional': _mostly(st.lists(_INVENTORIES, max_size=2))})),
    'more': _ANYTHING,
})
_CONFIG = st.fixed_dictionaries({
    'meta': _mostly(st.fixed_dictionaries({'schema_version': _mostly(
        st.sampled_from(['1.0', '1.0', '1.0', '1.1', '2.0', '1', 1.0]))})),
}, optional={
    'providers': _mostly(st.lists(_PROVIDER, max_size=3)),
    'more': _ANYTHING,
    '__source_file': st.just('a'),
})


class TestRead(_Directory):
    """We read what nova reads, and refuse what it refuses."""

    @unit_base.settings(400)
    @hypothesis.given(st.lists(_CONFIG, min_size=1, max_size=2))
    def test_as_nova_does(self, configs):
        directory = self.lay_out({
            f'{number}.yaml': yaml.safe_dump(config)
            for number, config in enumerate(configs)})
        try:
            expected = nova_config.get_provider_configs(str(directory))
        except (exception.ProviderConfigException, TypeError,
                AttributeError):
            # nova does not start, whether it says so well or not.
            expected = None
        try:
            found = provider_config.read(directory)
        except errors.InputError:
            found = None
        hypothesis.event('refused' if expected is None else 'read')
        if expected is None or found is None:
            self.assertEqual(expected, found)
            return
        self.assertEqual(
            {name: frozenset(one.get('traits', {}).get('additional', ()))
             for name, one in expected.items()},
            {one.identity: one.traits for one in found})


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
        # The audit goes by this.
        self.assertEqual(
            made.entry, provider_config.entry_for(
                provider_config.read(directory),
                self.nova.stage.compute_rp_uuids['compute-1'], 'compute-1'))

    def test_the_entry_that_counts(self):
        directory = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        for name, provider, trait in (
                ('a', {}, 'CUSTOM_A'), ('b', {'name': 'compute-1'}, OTHER)):
            entry = provider_config.ProviderEntry(
                **{'uuid': '', **provider} if provider else {},
                traits=frozenset({trait}))
            (directory / f'{name}.yaml').write_text(provider_config.text(
                provider_config.ProviderFile(entry), 'compute-1'))
        for host in ('compute-1', 'compute-2'):
            self.nova.start_host(host, functional_base.small_host(options={
                ('compute', 'provider_config_location'): str(directory)}))
            found = provider_config.entry_for(
                provider_config.read(directory),
                self.nova.stage.compute_rp_uuids[host], host)
            self.assertEqual(found.traits, self.custom_traits(host))

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
