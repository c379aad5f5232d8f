# SPDX-License-Identifier: Apache-2.0
"""Unit tests of nova_pinning.model.nova_release."""

from importlib import metadata
import itertools

import ddt
from nova.compute import api
from nova.objects import service
from oslotest import base

from nova_pinning.model import nova_release


@ddt.ddt
class TestNovaRelease(base.BaseTestCase):

    def test_nova_itself(self):
        """The nova that is installed agrees on what it is."""
        release = nova_release.of_nova_version(metadata.version('nova'))
        self.assertEqual(service.SERVICE_VERSION, release.service_version)
        aliases = service.SERVICE_VERSION_ALIASES
        for known in nova_release.RELEASES:
            # Of Caracal nova has had it wrong from the start.
            if known.code_name in aliases and known.code_name != 'Caracal':
                self.assertEqual(
                    aliases[known.code_name], known.service_version)

    def test_live_migration_of_tpms(self):
        """Nova of 2025.2 and before has no such constant, nor the feature."""
        least = getattr(api, 'MIN_COMPUTE_VTPM_LIVE_MIGRATION', None)
        release = nova_release.of_nova_version(metadata.version('nova'))
        self.assertEqual(release >= nova_release.MOVES_TPMS, bool(least))
        if least:
            self.assertEqual((nova_release.MOVES_TPMS,),
                             nova_release.of_service_version(least))

    def test_order(self):
        for older, newer in itertools.pairwise(nova_release.RELEASES):
            self.assertLess(older, newer)
            self.assertLess(older.name, newer.name)
            self.assertEqual(1, newer.major - older.major)
            self.assertLessEqual(older.service_version, newer.service_version)

    @ddt.data('2025.1', 'epoxy', 'Epoxy')
    def test_of_name(self, name):
        self.assertEqual(31, nova_release.of_name(name).major)

    @ddt.data('2025.3', '31', '')
    def test_of_an_unknown_name(self, name):
        error = self.assertRaises(
            nova_release.UnknownRelease, nova_release.of_name, name)
        self.assertIn(repr(name), str(error))
        self.assertIn('2026.2', str(error))

    @ddt.data(('31.3.1', '2025.1'), ('34.0.0.dev12', '2026.2'),
              ('35.0.0', None), ('3.1', None), ('', None))
    @ddt.unpack
    def test_of_nova_version(self, version, expected):
        release = nova_release.of_nova_version(version)
        self.assertEqual(expected, release and release.name)

    @ddt.data((66, ''), (67, '2024.1 2024.2'), (68, '2025.1'),
              (69, '2025.2'), (70, '2025.2'), (74, '2026.2'), (75, ''))
    @ddt.unpack
    def test_of_service_version(self, version, expected):
        self.assertEqual(expected, ' '.join(
            map(str, nova_release.of_service_version(version))))

    @ddt.data((95, ''), (96, '2024.1 2024.2'), (97, '2025.1'),
              (100, '2025.1 2025.2'), (101, '2026.1'), (104, '2026.2'),
              (105, ''))
    @ddt.unpack
    def test_of_microversion(self, microversion, expected):
        self.assertEqual(expected, ' '.join(
            map(str, nova_release.of_microversion(microversion))))
