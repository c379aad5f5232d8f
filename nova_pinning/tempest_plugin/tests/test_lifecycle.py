# SPDX-License-Identifier: Apache-2.0
"""What a guest goes through in its life leaves its pins right."""

from tempest import config

from nova_pinning.tempest_plugin import checks
from nova_pinning.tempest_plugin import cloud
from nova_pinning.tempest_plugin import hosts
from nova_pinning.tempest_plugin import pinning_test

CONF = config.CONF


def _require(feature: str) -> None:
    if not getattr(CONF.compute_feature_enabled, feature):
        raise pinning_test.PinningTest.skipException(
            f'{feature} of [compute-feature-enabled] is off in tempest.conf')


class InPlaceTest(pinning_test.PinningTest):
    """A guest that stays on its host keeps its CPUs."""

    def setUp(self) -> None:
        super().setUp()
        host, = self.pick(dedicated=2)
        self.before = self.boot(host, 2, pinning_test.DEDICATED)
        self.server_id = self.before.server_id

    def _check_same(self) -> pinning_test.ServerViews:
        after = self.check(self.server_id)
        self.assertEqual(self.before.host.name, after.host.name)
        self.assertEqual(self.before.kept, after.kept)
        self.assertEqual(self.before.guest.live.vcpu_pins,
                         after.guest.live.vcpu_pins)
        return after

    def _assert_stopped(self) -> None:
        """Check that it does not run, and has its CPUs nevertheless."""
        guest = self.look_at(self.before.host, self.server_id)
        if guest is not None:
            self.assertIsNone(guest.qemu)
        self.assertEqual(self.before.kept, self.kept(self.server_id))
        self.assert_allocated(self.before, PCPU=2)

    def test_reboot(self) -> None:
        self.servers.reboot_server(self.server_id, type='HARD')
        self.wait(self.server_id, 'ACTIVE')
        after = self._check_same()
        self.assertNotEqual(self.before.qemu.pid, after.qemu.pid)

    def test_stop_and_start(self) -> None:
        self.servers.stop_server(self.server_id)
        self.wait(self.server_id, 'SHUTOFF')
        self._assert_stopped()
        self.servers.start_server(self.server_id)
        self.wait(self.server_id, 'ACTIVE')
        self._check_same()

    def test_rebuild(self) -> None:
        self.servers.rebuild_server(self.server_id, CONF.compute.image_ref)
        self.wait(self.server_id, 'ACTIVE')
        self._check_same()

    def test_suspend_and_resume(self) -> None:
        _require('suspend')
        self.servers.suspend_server(self.server_id)
        self.wait(self.server_id, 'SUSPENDED')
        self._assert_stopped()
        self.servers.resume_server(self.server_id)
        self.wait(self.server_id, 'ACTIVE')
        self._check_same()

    def test_rescue_and_unrescue(self) -> None:
        """It is as pinned in rescue mode as it is otherwise."""
        _require('rescue')
        self.servers.rescue_server(self.server_id)
        self.wait(self.server_id, 'RESCUE')
        self._check_same()
        self.servers.unrescue_server(self.server_id)
        self.wait(self.server_id, 'ACTIVE')
        self._check_same()

    def test_delete(self) -> None:
        """All its CPUs can be obtained again."""
        self.delete(self.server_id)
        self.assert_whole(self.before.host)


class MoveTest(pinning_test.PinningTest):
    """A guest that moves gets CPUs there and gives back those it had."""

    def _boot(self, count: int = 2) -> pinning_test.ServerViews:
        """Boot a guest on the first of several dedicated hosts.

        On the others, its CPUs are taken, so that it cannot keep its pins
        when it goes there.
        """
        self.source, *others = self.pick(dedicated=2, count=count)
        for host in others:
            # When all guests are gone.
            self.addCleanup(self.assert_whole, host)
        seen = self.boot(self.source, 1, pinning_test.DEDICATED)
        for host in others:
            taken = self.boot(host, 1, pinning_test.DEDICATED)
            if host.sets == self.source.sets:
                self.assertEqual(taken.kept.pins, seen.kept.pins)
        self.target = others[0] if others else self.source
        return seen

    def _assert_moved(self, before: pinning_test.ServerViews) -> None:
        after = self.check(before.server_id)
        self.assertEqual(self.target.name, after.host.name)
        if self.target.sets == self.source.sets:
            self.assertNotEqual(before.kept.pins, after.kept.pins)
        self._assert_alone(after)

    def _assert_alone(self, seen: pinning_test.ServerViews) -> None:
        """Check that no other guest of this test has its CPUs."""
        self.assert_clean(checks.disjoint({
            server_id: self.kept(server_id).pinned_cpus
            for server_id in self.guests_on(seen.host)}))

    def _assert_left(self, seen: pinning_test.ServerViews,
                     host: hosts.ComputeHost) -> None:
        """Check that nothing of a guest is left on a host."""
        self.assert_not_on(host, seen.server_id)
        self.assert_whole(host)

    def test_shelve_and_unshelve(self) -> None:
        _require('shelve')
        seen = self._boot(count=1)
        server_id = seen.server_id
        self.servers.shelve_server(server_id)
        if CONF.compute.shelved_offload_time != 0:
            self.wait(server_id, 'SHELVED')
            self.servers.shelve_offload_server(server_id)
        self.wait(server_id, 'SHELVED_OFFLOADED')
        self.assertEqual({}, cloud.allocated(self.os_admin, server_id))
        self._assert_left(seen, self.source)
        self.servers.unshelve_server(server_id)
        self.wait(server_id, 'ACTIVE')
        self.check(server_id)

    def test_cold_migration(self) -> None:
        seen = self._migrate()
        self._assert_moved(seen)
        self.servers.confirm_resize_server(seen.server_id)
        self.wait(seen.server_id, 'ACTIVE')
        self._assert_moved(seen)
        self._assert_left(seen, self.source)

    def test_cold_migration_reverted(self) -> None:
        seen = self._migrate()
        self.servers.revert_resize_server(seen.server_id)
        self.wait(seen.server_id, 'ACTIVE')
        after = self.check(seen.server_id)
        self.assertEqual(self.source.name, after.host.name)
        self.assertEqual(seen.kept, after.kept)
        self.assert_not_on(self.target, seen.server_id)

    def _migrate(self) -> pinning_test.ServerViews:
        _require('cold_migration')
        seen = self._boot()
        self.servers.migrate_server(seen.server_id, host=self.target.name)
        self.wait(seen.server_id, 'VERIFY_RESIZE')
        return seen

    def test_live_migration(self) -> None:
        _require('live_migration')
        seen = self._boot()
        self.servers.live_migrate_server(
            seen.server_id, host=self.target.name, block_migration='auto')
        # Its status is MIGRATING until it is ACTIVE again, here or there.
        self.wait(seen.server_id, 'ACTIVE')
        self._assert_moved(seen)
        self._assert_left(seen, self.source)


class ResizeTest(pinning_test.PinningTest):
    """A guest changes its class."""

    def setUp(self) -> None:
        super().setUp()
        _require('resize')
        self.dedicated, = self.pick(dedicated=1)
        self.shared, = self.pick(shared=1)
        # When all guests are gone: it may have gone to any.
        for host in hosts.room(self.hosts.values(), 1, 0):
            self.addCleanup(self.assert_whole, host)

    def test_shared_to_dedicated(self) -> None:
        before = self.boot(self.shared)
        after = self._resize(before, self.dedicated, pinning_test.DEDICATED)
        self.assertEqual({0}, set(after.kept.pins))
        self.assert_allocated(after, PCPU=1, VCPU=0)

    def test_dedicated_to_shared(self) -> None:
        before = self.boot(self.dedicated, 1, pinning_test.DEDICATED)
        after = self._resize(before, self.shared, {})
        self.assertEqual({}, after.guest.live.vcpu_pins)
        self.assert_allocated(after, PCPU=0, VCPU=1)

    def test_reverted(self) -> None:
        """The host that it did not go to has all its CPUs again."""
        before = self.boot(self.shared)
        moved = self._start_resize(before, self.dedicated,
                                   pinning_test.DEDICATED)
        self.servers.revert_resize_server(before.server_id)
        self.wait(before.server_id, 'ACTIVE')
        after = self.check(before.server_id)
        self.assertEqual(before.host.name, after.host.name)
        self.assertEqual({}, after.guest.live.vcpu_pins)
        self.assert_not_on(moved.host, before.server_id)
        self.assert_whole(moved.host)

    def _resize(self, before: pinning_test.ServerViews,
                model: hosts.ComputeHost,
                specs: dict[str, str]) -> pinning_test.ServerViews:
        self._start_resize(before, model, specs)
        self.servers.confirm_resize_server(before.server_id)
        self.wait(before.server_id, 'ACTIVE')
        after = self.check(before.server_id)
        self.assert_not_on(before.host, before.server_id)
        self.assert_whole(before.host)
        return after

    def _start_resize(self, before: pinning_test.ServerViews,
                      model: hosts.ComputeHost,
                      specs: dict[str, str]) -> pinning_test.ServerViews:
        """Resize a guest to another class.

        :param model: a host of that class; nova may choose another
        """
        self.servers.resize_server(
            before.server_id,
            self.flavor(1, self.specs_for(model, specs)))
        self.wait(before.server_id, 'VERIFY_RESIZE')
        after = self.check(before.server_id)
        self.assertNotEqual(before.host.name, after.host.name)
        return after
