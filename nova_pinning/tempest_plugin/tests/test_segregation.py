# SPDX-License-Identifier: Apache-2.0
"""Dedicated guests stay off shared hosts, and the reverse."""

import contextlib
import time

from tempest import config
from tempest.lib.common.utils import data_utils

from nova_pinning.flavors import flavor_model
from nova_pinning.model import hostclass
from nova_pinning.placement import placement_traits
from nova_pinning.tempest_plugin import cloud
from nova_pinning.tempest_plugin import pinning_test

CONF = config.CONF

DEDICATED = hostclass.HostClass.DEDICATED
SHARED = hostclass.HostClass.SHARED

_REQUIRED = {f'trait:{placement_traits.DEDICATED}': 'required'}
_FORBIDDEN = {f'trait:{placement_traits.DEDICATED}': 'forbidden'}


class InventoryTest(pinning_test.PinningTest):
    """What Placement has of a host is enough where CPUs are of one kind.

    The host takes a guest of its own kind, or its refusal would say nothing.
    """

    def test_dedicated_guest(self) -> None:
        """It is refused by a host without dedicated CPUs."""
        host, = self.pick(
            shared=1, where=lambda host: not host.sets.dedicated)
        self.refused(host, 1, pinning_test.DEDICATED)
        self.boot(host)

    def test_shared_guest(self) -> None:
        """It is refused by a host without shared CPUs."""
        host, = self.pick(
            dedicated=1, where=lambda host: not host.sets.shared,
            what='and no shared ones')
        self.refused(host, 1, {})
        self.boot(host, 1, pinning_test.DEDICATED)


class MarksTest(pinning_test.PinningTest):
    """A host that could take guests of both classes takes those of its own."""

    @classmethod
    def skip_checks(cls) -> None:
        super().skip_checks()
        if not CONF.pinning.may_mark_hosts:
            raise cls.skipException('[pinning] may_mark_hosts is not set')

    def setUp(self) -> None:
        super().setUp()
        both = [host for host in self.hosts.values()
                if host.free.get('PCPU', 0) and host.free.get('VCPU', 0)]
        if not both:
            raise self.skipException(
                'a host with dedicated and shared CPUs needed, none found')
        self.host = both[0]

    def _mark(self, host_class: hostclass.HostClass) -> None:
        """Give the host's provider the trait of a class, for this test."""
        self._hold(
            cloud.traits(self.os_admin, self.host,
                         *placement_traits.class_traits(host_class)))

    def _gather(self, metadata: dict[str, str]) -> None:
        """Put the host into an aggregate, for this test."""
        self._hold(cloud.aggregate(
            self.os_admin, self.host, data_utils.rand_name('pinning'),
            metadata))

    def _hold(self, change: contextlib.AbstractContextManager[None]) -> None:
        change.__enter__()
        self.addCleanup(change.__exit__, None, None, None)

    def _boot(self, specs: dict[str, str]) -> None:
        """Boot a server whose flavor says this and nothing else.

        HostClassFilter may not yet know what the host was marked with.
        """
        flavor = self.flavor(1, specs)
        deadline = time.monotonic() + CONF.pinning.traits_seconds
        server_id = self.start(self.host, flavor)
        while self.built(server_id) != 'ACTIVE' and (
                time.monotonic() < deadline):
            self.delete(server_id)
            server_id = self.start(self.host, flavor)
        self.wait(server_id, 'ACTIVE')
        self.check(server_id)

    def test_dedicated_trait(self) -> None:
        """A host with the trait takes no guest that forbids it."""
        self._mark(DEDICATED)
        self.refused(self.host, 1, _FORBIDDEN)
        self._boot({**pinning_test.DEDICATED, **_REQUIRED})

    def test_shared_trait(self) -> None:
        """A host without the trait takes no guest that requires it."""
        self._mark(SHARED)
        # Of a trait that it does not know, Placement refuses both.
        self.os_admin.placement_client.create_trait(placement_traits.DEDICATED)
        self.refused(self.host, 1, {**pinning_test.DEDICATED, **_REQUIRED})
        self._boot(_FORBIDDEN)

    def test_isolated_aggregate(self) -> None:
        """An isolated host takes no guest that does not ask for it."""
        if not CONF.pinning.isolated_aggregates:
            raise self.skipException(
                '[pinning] isolated_aggregates is not set')
        self._mark(DEDICATED)
        self._gather(_REQUIRED)
        self.refused(self.host, 1, {})
        self._boot({**pinning_test.DEDICATED, **_REQUIRED})

    def test_filter_on_a_dedicated_host(self) -> None:
        """HostClassFilter refuses what neither flavor nor trait forbids."""
        self._filter(DEDICATED, {}, pinning_test.DEDICATED)

    def test_filter_on_a_shared_host(self) -> None:
        self._filter(SHARED, pinning_test.DEDICATED, {})

    def _filter(self, host_class: hostclass.HostClass,
                refused: dict[str, str], taken: dict[str, str]) -> None:
        self.require_filter('HostClassFilter')
        if placement_traits.classes_of(self.host.traits):
            raise self.skipException(
                f'the traits of {self.host.name} name its class already')
        self._gather({flavor_model.CLASS_KEY: str(host_class)})
        server_id = self.refused(self.host, 1, refused)
        if CONF.pinning.scheduler_log_command:
            self.assert_logged(server_id, 'HostClassFilter refused')
        self._boot(taken)
