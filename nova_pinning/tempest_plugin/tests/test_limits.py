# SPDX-License-Identifier: Apache-2.0
"""Limits that a flavor sets, as they arrive at libvirt."""

from nova_pinning.tempest_plugin import pinning_test


class LimitsTest(pinning_test.PinningTest):
    """What keeps guests from taking more than they are sold."""

    def test_cpu(self) -> None:
        host, = self.pick(shared=1)
        live = self.boot(host, 1, {
            'quota:cpu_shares': '512', 'quota:cpu_period': '50000',
            'quota:cpu_quota': '25000'}).guest.live
        self.assertEqual((512, 50000, 25000),
                         (live.shares, live.period, live.quota))

    def test_disk(self) -> None:
        host, = self.pick(shared=1)
        live = self.boot(host, 1, {
            'quota:disk_total_iops_sec': '500',
            'quota:disk_read_bytes_sec': '10485760',
            'quota:disk_write_bytes_sec': '5242880'}).guest.live
        self.assertTrue(live.iotunes)
        for limits in live.iotunes.values():
            self.assertEqual(
                {'total_iops_sec': 500, 'read_bytes_sec': 10485760,
                 'write_bytes_sec': 5242880}, limits)
