# SPDX-License-Identifier: Apache-2.0
"""Guests with several cells, huge pages, siblings or real time that move."""

from collections.abc import Mapping

from tempest import config

from nova_pinning.tempest_plugin import checks
from nova_pinning.tempest_plugin import cloud
from nova_pinning.tempest_plugin import hosts
from nova_pinning.tempest_plugin import pinning_test

CONF = config.CONF

_PAGE_KIB = 2048

_TWO_CELLS = {**pinning_test.DEDICATED, 'hw:numa_nodes': '2',
              'hw:mem_page_size': str(_PAGE_KIB)}
_SIBLINGS = {**pinning_test.DEDICATED, 'hw:cpu_thread_policy': 'require'}
_REAL_TIME = {**pinning_test.DEDICATED, 'hw:cpu_realtime': 'yes',
              'hw:cpu_realtime_mask': '^0'}


class NumaMoveTest(pinning_test.PinningTest):
    """What such a guest has on its new host is what nova claimed there.

    CPUs, memory nodes and pages, according to nova, libvirt and the kernel.
    On the new host some CPUs are taken, so that it cannot keep its own.
    """

    def setUp(self) -> None:
        super().setUp()
        self.source, self.target = self.pick(
            dedicated=4, count=2, where=self._is_suitable,
            what='on two NUMA nodes, with free huge pages')
        for host in (self.source, self.target):
            # When all guests are gone.
            self.addCleanup(self.assert_whole, host)
        self.pages = {host.name: self._pages(host)
                      for host in (self.source, self.target)}

    def _is_suitable(self, host: hosts.ComputeHost) -> bool:
        now = self.machine_now(host)
        nodes = now.per_node(host.sets.dedicated)
        needed = -(-self.reference_flavor()['ram'] * 1024 // _PAGE_KIB)
        return (sum(len(cpus) > 1 for cpus in nodes.values()) > 1 and
                all(now.free_pages.get((node, _PAGE_KIB), 0) >= needed
                    for node in nodes))

    def _pages(self, host: hosts.ComputeHost) -> Mapping[tuple[int, int], int]:
        return dict(self.machine_now(host).free_pages)

    def _boot(self, specs: Mapping[str, str] = _TWO_CELLS
              ) -> pinning_test.ServerViews:
        """Boot a guest, and see that it cannot keep its CPUs elsewhere."""
        seen = self.boot(self.source, 2, dict(specs))
        self._assert_pages(seen)
        for _number in seen.kept.cells:
            taken = self.boot(self.target, 1, pinning_test.DEDICATED)
            if taken.kept.pinned_cpus & seen.kept.pinned_cpus:
                return seen
        raise self.failureException(
            f'{self.target.name} has other CPUs than {self.source.name}')

    def _assert_pages(self, *guests: pinning_test.ServerViews) -> None:
        """Check that no pages are gone but those that nova keeps.

        :param guests: all that have huge pages
        """
        for host in (self.source, self.target):
            expected = dict(self.pages[host.name])
            for seen in guests:
                if seen.host.name == host.name and seen.kept.page_size_kib:
                    for cell in seen.kept.cells:
                        expected[cell.host_node, _PAGE_KIB] -= (
                            cell.memory_mib * 1024 // _PAGE_KIB)
            self.assertEqual(expected, self._pages(host), host.name)

    def _assert_moved(self, before: pinning_test.ServerViews,
                      ) -> pinning_test.ServerViews:
        after = self.check(before.server_id)
        self.assertEqual(self.target.name, after.host.name)
        self.assert_clean(checks.disjoint({
            server_id: self.kept(server_id).pinned_cpus
            for server_id in self.guests_on(after.host)}))
        self.assertNotEqual(before.kept.pins, after.kept.pins)
        return after

    def _move_live(self, seen: pinning_test.ServerViews,
                   ) -> pinning_test.ServerViews:
        if not CONF.compute_feature_enabled.live_migration:
            raise self.skipException(
                'live_migration of [compute-feature-enabled] is off in '
                'tempest.conf')
        self.servers.live_migrate_server(
            seen.server_id, host=self.target.name, block_migration='auto')
        self.wait(seen.server_id, 'ACTIVE')
        after = self._assert_moved(seen)
        self.assert_not_on(self.source, seen.server_id)
        return after

    def _resize(self, seen: pinning_test.ServerViews, vcpus: int,
                specs: Mapping[str, str]) -> pinning_test.ServerViews:
        """Resize a server to another host, and confirm it."""
        self.servers.resize_server(
            seen.server_id,
            self.flavor(vcpus, self.specs_for(self.target, specs)))
        self.wait(seen.server_id, 'VERIFY_RESIZE')
        self._assert_moved(seen)
        self.servers.confirm_resize_server(seen.server_id)
        self.wait(seen.server_id, 'ACTIVE')
        after = self._assert_moved(seen)
        self.assert_not_on(self.source, seen.server_id)
        return after

    def _shelve(self, server_id: str) -> None:
        """Shelve a server, and see that its host has nothing of it left."""
        self.servers.shelve_server(server_id)
        if CONF.compute.shelved_offload_time != 0:
            self.wait(server_id, 'SHELVED')
            self.servers.shelve_offload_server(server_id)
        self.wait(server_id, 'SHELVED_OFFLOADED')
        self.assert_not_on(self.source, server_id)
        self._assert_pages()

    def _shelve_and_unshelve_elsewhere(self, seen: pinning_test.ServerViews,
                                       ) -> pinning_test.ServerViews:
        """Unshelve a server on a host that it was not on."""
        self._shelve(seen.server_id)
        with cloud.disabled(self.os_admin, self.source):
            self.servers.unshelve_server(seen.server_id)
            self.wait(seen.server_id, 'ACTIVE')
        return self._assert_moved(seen)

    def _need_marks(self) -> None:
        if not CONF.pinning.may_mark_hosts:
            raise self.skipException('[pinning] may_mark_hosts is not set')

    def _need_real_time(self) -> None:
        for host in (self.source, self.target):
            found = self.machine_of(host)
            if not (found.can_run_realtime and found.can_lock_memory):
                raise self.skipException(
                    'two hosts that let guests run in real time and lock '
                    'memory are needed')

    def _assert_siblings(self, after: pinning_test.ServerViews) -> None:
        self.assert_clean(checks.siblings(
            after.kept, self.machine_of(self.target)))

    def _assert_real_time(self, before: pinning_test.ServerViews,
                          after: pinning_test.ServerViews) -> None:
        """That the kernel agrees with libvirt is checked of every guest."""
        self.assertEqual(before.guest.live.vcpu_schedulers,
                         after.guest.live.vcpu_schedulers)
        self.assertTrue(after.guest.live.locked)

    def test_live_migration(self) -> None:
        seen = self._boot()
        after = self._move_live(seen)
        self.assertEqual(2, len(after.kept.nodes))
        self._assert_pages(after)

    def test_live_migration_of_siblings(self) -> None:
        self._assert_siblings(self._move_live(self._boot(_SIBLINGS)))

    def test_live_migration_in_real_time(self) -> None:
        self._need_real_time()
        seen = self._boot(_REAL_TIME)
        self._assert_real_time(seen, self._move_live(seen))

    def test_resize(self) -> None:
        """It gets another vCPU in each cell, on another host."""
        seen = self.boot(self.source, 2, _TWO_CELLS)
        after = self._resize(seen, 4, _TWO_CELLS)
        self.assertEqual(4, len(after.kept.pins))
        self._assert_pages(after)

    def test_resize_of_siblings(self) -> None:
        """It keeps its size, and gets another core on another host."""
        self._assert_siblings(
            self._resize(self._boot(_SIBLINGS), 2, _SIBLINGS))

    def test_resize_in_real_time(self) -> None:
        self._need_real_time()
        seen = self._boot(_REAL_TIME)
        self._assert_real_time(seen, self._resize(seen, 2, _REAL_TIME))

    def test_cold_migration_reverted(self) -> None:
        seen = self._boot()
        self.servers.migrate_server(seen.server_id, host=self.target.name)
        self.wait(seen.server_id, 'VERIFY_RESIZE')
        self._assert_moved(seen)
        self.servers.revert_resize_server(seen.server_id)
        self.wait(seen.server_id, 'ACTIVE')
        after = self.check(seen.server_id)
        self.assertEqual(seen.kept, after.kept)
        self.assert_not_on(self.target, seen.server_id)
        self._assert_pages(after)

    def test_shelve_and_unshelve(self) -> None:
        """It gets CPUs and pages of two cells again, wherever that is."""
        seen = self._boot()
        server_id = seen.server_id
        self._shelve(server_id)
        self.servers.unshelve_server(server_id)
        self.wait(server_id, 'ACTIVE')
        after = self.check(server_id)
        self.assertEqual(2, len(after.kept.nodes))
        self._assert_pages(after)

    def test_shelve_and_unshelve_siblings(self) -> None:
        self._need_marks()
        self._assert_siblings(
            self._shelve_and_unshelve_elsewhere(self._boot(_SIBLINGS)))

    def test_shelve_and_unshelve_in_real_time(self) -> None:
        self._need_marks()
        self._need_real_time()
        seen = self._boot(_REAL_TIME)
        self._assert_real_time(
            seen, self._shelve_and_unshelve_elsewhere(seen))
