# SPDX-License-Identifier: Apache-2.0
"""A host that Placement takes for emptier than its nova-compute does.

As "Moving pinned guests" in the admin guide tells it.
"""

from nova_pinning.tests.functional import functional_base


class TestBeingFreed(functional_base.TestCase):

    def setUp(self):
        super().setUp()
        for name in ('source', 'target'):
            self.nova.start_host(name, functional_base.small_host())
        self.small = self.nova.create_flavor(
            'small', 2, functional_base.GIB, {'hw:cpu_policy': 'dedicated'})
        self.large = self.nova.create_flavor(
            'large', 8, functional_base.GIB, {'hw:cpu_policy': 'dedicated'})

    def check(self, move):
        """A guest is moved, and deleted before its new host has looked."""
        server = self.nova.boot('moved', self.small, 'source')
        moved = move(server)
        self.assertEqual('target', moved.host)
        self.nova.delete(moved)
        self.assertEqual(0, self.nova.usages('target').get('PCPU', 0))
        freeing = len(self.host_pinned_cpus('target'))
        refused = self.nova.boot('refused', self.large, 'target')
        if freeing:
            self.assert_refused(
                refused, 'Placement counts CPUs as free that nova-compute '
                f'counts as taken (target: {freeing} CPUs are being freed or '
                f'have just been taken, {8 - freeing} are free, 8 needed)')
        else:
            self.assert_active([refused])
            self.nova.delete(refused)
        self.nova.update_resources()
        self.assert_active([self.nova.boot('then', self.large, 'target')])
        return freeing

    def test_live_migration(self):
        self.check(self.nova.migrate_live)

    def test_cold_migration(self):
        self.assertEqual(2, self.check(self.nova.migrate))
