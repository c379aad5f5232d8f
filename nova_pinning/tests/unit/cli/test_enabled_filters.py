# SPDX-License-Identifier: Apache-2.0

import argparse

from nova_pinning.admission import scheduler_rules
from nova_pinning.cli import enabled_filters
from nova_pinning import errors
from nova_pinning.fleet import snapshot
from nova_pinning.tests.unit.cli import cli_case

_TYPO = 'ComputeFilter,PinnedTopologyFilter,HostClasFilter'


class TestEnabledFilters(cli_case.TestCase):

    def _keeps_classes(self, *argv, snapshot_has=()):
        """What is said of a fleet.

        :param snapshot_has: its enabled_filters
        """
        parser = argparse.ArgumentParser()
        enabled_filters.add_option(parser)
        names = enabled_filters.names(
            parser.parse_args(argv), snapshot.Fleet(
                hosts=(), enabled_filters=snapshot_has,
                where=errors.Location('fleet.json')))
        return scheduler_rules.SchedulerRules(
            enabled_filters=names).keeps_classes

    def _refused(self, text):
        return self.assertRaises(
            errors.InputError, self._keeps_classes, '--filters', text)

    def _nova_conf(self, filters):
        return self.write('nova.conf', (
            f'[filter_scheduler]\nenabled_filters = {filters}\n'))

    def test_names(self):
        self.assertTrue(self._keeps_classes())
        self.assertTrue(self._keeps_classes(
            '--filters', 'HostClassFilter, PinnedTopologyFilter'))
        self.assertFalse(self._keeps_classes(
            '--filters', 'ComputeFilter,NUMATopologyFilter'))

    def test_those_of_the_snapshot(self):
        self.assertTrue(self._keeps_classes(
            snapshot_has=('HostClassFilter', 'PinnedTopologyFilter')))
        self.assertFalse(self._keeps_classes(
            snapshot_has=('NUMATopologyFilter',)))
        self.assertTrue(self._keeps_classes(
            '--filters', 'HostClassFilter,PinnedTopologyFilter',
            snapshot_has=('NUMATopologyFilter',)))

    def test_a_snapshot_of_a_cloud_that_looks_at_no_topology(self):
        error = self.assertRaises(
            errors.InputError, self._keeps_classes,
            snapshot_has=('ComputeFilter',))
        self.assertEqual('fleet.json: enabled_filters', str(error.where))
        self.assertIn('neither PinnedTopologyFilter nor', error.message)
        self.assertIn('--filters', error.advice)

    def test_a_name_that_is_misspelt(self):
        """Guests would not be kept off hosts of the other class."""
        error = self._refused(_TYPO)
        self.assertEqual('--filters', str(error.where))
        self.assertEqual('write HostClassFilter', error.advice)

    def test_a_name_that_is_misspelt_in_a_file(self):
        path = self._nova_conf(_TYPO)
        error = self._refused(path)
        self.assertEqual(path, str(error.where))
        self.assertEqual('write HostClassFilter', error.advice)

    def test_the_only_name_is_misspelt(self):
        self.assertEqual('write PinnedTopologyFilter',
                         self._refused('PinnedTopologyFiler').advice)

    def test_a_file_that_is_not_there(self):
        for path in ('none.conf', str(self.dir / 'none')):
            error = self._refused(path)
            self.assertEqual(f'--config-file {path}', str(error.where))
            self.assertIn('Failed to find', error.message)
