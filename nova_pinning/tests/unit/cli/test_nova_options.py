# SPDX-License-Identifier: Apache-2.0

import argparse
import os

from nova_pinning.admission import devices
from nova_pinning.admission import pci_alias
from nova_pinning.admission import scheduler_rules
from nova_pinning.cli import nova_options
from nova_pinning import errors
from nova_pinning.fleet import snapshot
from nova_pinning.tests.unit.cli import cli_case

_TYPO = 'ComputeFilter,PinnedTopologyFilter,HostClasFilter'
_ALIAS = '{"name": "gpu", "vendor_id": "%s", "product_id": "20b5"}'


class TestNovaOptions(cli_case.TestCase):

    def _told(self, *argv, **has):
        """The fleet as commands take it.

        :param has: what the snapshot has
        """
        parser = argparse.ArgumentParser()
        nova_options.add_option(parser)
        return nova_options.with_options(
            parser.parse_args(argv), snapshot.Fleet(
                hosts=(), where=errors.Location('fleet.json'), **has))

    def _filters(self, *argv, snapshot_has=()):
        return nova_options.enabled_filters(self._told(
            *argv, enabled_filters=snapshot_has))

    def _nova_conf(self, *lines, name='nova.conf'):
        return '--config-file', self.write(name, '\n'.join(lines))

    def _with_filters(self, filters):
        return self._nova_conf('[filter_scheduler]',
                               f'enabled_filters = {filters}')

    def test_filters(self):
        own, nova = ('HostClassFilter',
                     'PinnedTopologyFilter'), ('NUMATopologyFilter',)
        self.assertIsNone(self._filters())
        self.assertEqual(nova, self._filters(snapshot_has=nova))
        self.assertEqual(own, self._filters(
            *self._with_filters(','.join(own)), snapshot_has=nova))
        # The file may be another service's.
        self.assertEqual(nova, self._filters(
            *self._nova_conf('[pci]'), snapshot_has=nova))

    def test_what_a_file_does_not_set_stays(self):
        rules = scheduler_rules.SchedulerRules(
            default_zone='z', limits_tenants=True)
        told = self._told(*self._nova_conf(
            '[scheduler]', 'enable_isolated_aggregate_filtering = true'),
            rules=rules, packs_cells=True)
        self.assertEqual(('z', True, True, True), (
            told.rules.default_zone, told.rules.isolates,
            told.rules.limits_tenants, told.packs_cells))
        told = self._told(*self._nova_conf(
            '[DEFAULT]', 'default_availability_zone = y', '[compute]',
            'packing_host_numa_cells_allocation_strategy = false'),
            rules=rules, packs_cells=True)
        self.assertEqual(('y', False),
                         (told.rules.default_zone, told.packs_cells))

    def test_aliases(self):
        known = {name: pci_alias.PciAlias((devices.device_keys('1', '2'),))
                 for name in ('gpu', 'nic')}
        told = self._told(*self._nova_conf(
            '[pci]', f'alias = {_ALIAS % "10de"}'), pci_aliases=known)
        self.assertEqual(known['nic'], told.pci_aliases['nic'])
        spec, = told.pci_aliases['gpu'].specs
        self.assertEqual('10de', dict(spec)['vendor_id'])
        error = self.assertRaises(errors.InputError, self._told, *(
            self._nova_conf('[pci]', 'alias = nonsense')))
        self.assertIn('[pci] alias', error.message)

    def test_a_directory(self):
        (self.dir / 'conf.d').mkdir()
        self._nova_conf('[DEFAULT]', 'default_availability_zone = y',
                        name='conf.d/a.conf')
        told = self._told('--config-file', os.fspath(self.dir / 'conf.d'))
        self.assertEqual('y', told.rules.default_zone)

    def test_no_topology_filter(self):
        error = self.assertRaises(errors.InputError, self._filters,
                                  snapshot_has=('ComputeFilter',))
        self.assertEqual('fleet.json: enabled_filters', str(error.where))
        self.assertIn('neither PinnedTopologyFilter nor', error.message)
        self.assertIn('--config-file', error.advice)

    def test_a_name_that_is_misspelt(self):
        """Guests would not be kept off hosts of the other class."""
        option, path = self._with_filters(_TYPO)
        error = self.assertRaises(
            errors.InputError, self._filters, option, path)
        self.assertEqual(path, str(error.where))
        self.assertEqual('write HostClassFilter', error.advice)

    def test_a_file_that_is_not_there(self):
        error = self.assertRaises(errors.InputError, self._told,
                                  '--config-file', 'none.conf')
        self.assertIn('none.conf', error.message)
