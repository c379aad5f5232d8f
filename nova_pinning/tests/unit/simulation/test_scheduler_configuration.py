# SPDX-License-Identifier: Apache-2.0

import pathlib
import sys
from unittest import mock

import ddt
import fixtures
import testtools

from nova_pinning import errors
from nova_pinning.scheduler import mix
from nova_pinning.simulation import scheduler_configuration
from nova_pinning.simulation import settings

BOTH = ('nova.scheduler.weights.all_weighers,'
        'nova_pinning.scheduler.weights.all_weighers')


@ddt.ddt
class TestConfigurationFile(testtools.TestCase):

    def setUp(self):
        super().setUp()
        self.path = pathlib.Path(self.useFixture(
            fixtures.TempDir()).path) / 'nova.conf'

    def read(self, text):
        self.path.write_text(text)
        return settings.load(str(self.path))

    def test_empty_is_default(self):
        found = self.read('[DEFAULT]\ndebug = true\n')
        self.assertEqual(
            scheduler_configuration.NAMED['nova-default'].weighers,
            found.weighers)
        self.assertEqual('nova.conf', found.name)

    def test_all(self):
        found = self.read(
            '[filter_scheduler]\n'
            f'weight_classes = {BOTH}\n'
            'ram_weight_multiplier = -2\n'
            'enabled_filters = PinnedTopologyFilter\n'
            '[compute]\n'
            'packing_host_numa_cells_allocation_strategy = true\n'
            '[pinning]\n'
            'fragmentation_weight_multiplier = 5.5\n'
            'fragmentation_mix = vcpus:8,memory_mib:16,weight:3\n'
            'prefer_exclusive_l3 = true\n')
        weighers = dict(found.weighers)
        self.assertEqual(
            (-2.0, 1.0, 5.5), tuple(weighers[name] for name in (
                'RAMWeigher', 'CPUWeigher', 'FragmentationWeigher')))
        self.assertTrue(found.packs_cells)
        read = settings.read(found)
        self.assertTrue(read.prefer_exclusive_l3)
        (size, share), = mix.configured_mix(read.fragmentation_mix)
        self.assertEqual((8, 16, 1.0), (size.vcpus, size.memory_mib, share))

    def test_what_is_installed_elsewhere(self):
        """Where nova-scheduler runs there is what its options need."""
        with mock.patch.dict(sys.modules, prometheus_client=None):
            self.read('[pinning]\nmetrics_directory = /x\n')

    def test_own_weighers_have_to_be_loaded(self):
        found = self.read(
            '[pinning]\nfragmentation_weight_multiplier = 5.5\n')
        self.assertNotIn('FragmentationWeigher', dict(found.weighers))

    def test_some_classes(self):
        found = self.read(
            '[filter_scheduler]\n'
            'weight_classes = nova.scheduler.weights.ram.RAMWeigher, '
            'nova.scheduler.weights.io_ops.IoOpsWeigher, '
            'nova_pinning.scheduler.weights.CacheLocalityWeigher\n')
        self.assertEqual(
            {'RAMWeigher': 1.0, 'CacheLocalityWeigher': 4.0},
            {name: value for name, value in found.weighers if value})

    @ddt.data(
        ('[filter_scheduler]\nram_weight_multiplier = much\n', 'much'),
        ('[filter_scheduler]\nram_weight_multiplier = inf\n',
         'the multiplier of RAMWeigher is inf'),
        ('[filter_scheduler]\nweight_classes = my.own.Weigher\n',
         "'my.own.Weigher' is a weigher that cannot be simulated"),
        ('[filter_scheduler]\n'
         'enabled_filters = PinnedTopologyFilter, HostClasFilter\n',
         'write HostClassFilter'),
        # As nova itself refuses it.
        ('[filter_scheduler]\npci_weight_multiplier = -1\n',
         'pci_weight_multiplier'),
        ('[pinning]\non_error = ignore\n', 'on_error'),
        ('[pinning]\nfragmentation_mix = vcpus:x\n', 'fragmentation_mix'),
        ('rubbish\n', 'rubbish'),
    )
    @ddt.unpack
    def test_bad(self, text, message):
        error = self.assertRaises(errors.InputError, self.read, text)
        self.assertIn(message, str(error))
        self.assertIn('nova.conf', str(error))

    def test_named(self):
        for name, one in scheduler_configuration.NAMED.items():
            self.assertIs(one, settings.load(name))

    def test_unknown(self):
        error = self.assertRaises(
            errors.InputError, settings.load, 'fastest')
        self.assertIn("'fastest' is neither a configuration nor a file",
                      str(error))
