# SPDX-License-Identifier: Apache-2.0
"""Floating guests with a page size, on hosts with few shared CPUs.

A page size gives a guest a NUMA cell, and no cell may have more floating vCPUs
than the host cell has shared CPUs: nova allows no guest to overcommit against
itself.
"""

from nova import objects
from nova.virt import hardware
from oslotest import base

from nova_pinning.tests.oracle import stand_in


_SMALL, _LARGE = -1, -2


def host(shared, dedicated):
    return objects.NUMATopology(cells=[objects.NUMACell(
        id=0, socket=0, cpuset=shared, pcpuset=dedicated, pinned_cpus=set(),
        siblings=[], cpu_usage=0, memory=4096, memory_usage=0,
        mempages=[
            objects.NUMAPagesTopology(size_kb=4, total=900_000, used=0),
            objects.NUMAPagesTopology(size_kb=2048, total=128, used=0)],
        network_metadata=objects.NetworkMetadata(
            physnets=set(), tunneled=False))])


def guest(page_size):
    return objects.InstanceNUMATopology(cells=[objects.InstanceNUMACell(
        id=0, cpuset={0, 1}, pcpuset=set(), cpu_policy=None, memory=64,
        pagesize=page_size)])


class FloatingPagesTest(base.BaseTestCase):

    def setUp(self):
        super().setUp()
        objects.register_all()

    def fits(self, *host_cpus):
        """Whether two vCPUs fit, by page size; of nova, then of ours."""
        limits = objects.NUMATopologyLimits(
            cpu_allocation_ratio=4.0, ram_allocation_ratio=1.0)
        return [
            {page_size: bool(fit(
                host(*host_cpus), guest(page_size), {}, limits))
             for page_size in (_SMALL, _LARGE, 2048)}
            for fit in (hardware.numa_fit_instance_to_host,
                        stand_in.numa_fit_instance_to_host)]

    def test_one_shared_cpu_is_too_few_for_two_vcpus(self):
        for fits in self.fits({0}, {1}):
            self.assertEqual({_SMALL: False, _LARGE: False, 2048: False},
                             fits)

    def test_two_are_enough(self):
        for fits in self.fits({0, 1}, {2, 3}):
            self.assertEqual({_SMALL: True, _LARGE: True, 2048: True}, fits)
