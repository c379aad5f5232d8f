# SPDX-License-Identifier: Apache-2.0
"""Why a boot was refused, in the log of nova-scheduler."""

from tempest import config

from nova_pinning.tempest_plugin import pinning_test

CONF = config.CONF

_SIZES_KIB = (2048, 1048576)


class RefusalTest(pinning_test.PinningTest):
    """PinnedTopologyFilter tells the reason."""

    def test_reason(self) -> None:
        """Asked for are huge pages of which the host has none left.

        Placement knows nothing of them, so the filter has to refuse.
        """
        self.require_filter('PinnedTopologyFilter')
        if not CONF.pinning.scheduler_log_command:
            raise self.skipException(
                'no [pinning] scheduler_log_command in tempest.conf')
        host, = self.pick(dedicated=1)
        free = self.machine_now(host).free_pages
        lacking = [size for size in _SIZES_KIB if not any(
            amount for (_node, page), amount in free.items() if page == size)]
        if not lacking:
            raise self.skipException(
                f'{host.name} has free huge pages of all sizes')
        server_id = self.refused(host, 1, self.specs_for(host, {
            **pinning_test.DEDICATED, 'hw:mem_page_size': str(lacking[-1])}),
            ram_mib=1024)
        self.assert_logged(
            server_id, 'PinnedTopologyFilter refused 1 host: ',
            'pages of the size asked for', host.name)
