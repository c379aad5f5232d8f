# SPDX-License-Identifier: Apache-2.0
"""Plans of hosts that have memory on nodes without CPUs."""

import dataclasses

import ddt
from oslotest import base as oslotest

from nova_pinning.host import hardware
from nova_pinning.host import host_model
from nova_pinning.host.plan import plan_request
from nova_pinning.host.plan import planner
from nova_pinning.host import plan_model
from nova_pinning.tests.unit.host import host_samples

GIB = 1024
_GPU = '0009:01:00.0'
_PURPOSE = plan_model.Purpose


def superchip(gpu=''):
    """72 CPUs with 480 GiB, and 96 GiB on a node without CPUs."""
    return host_samples.host(nodes=(
        host_model.NumaNode(0, 0, tuple((cpu,) for cpu in range(72)),
                            480 * GIB, {2048: 0}),
        host_model.NumaNode(1, 0, (), 96 * GIB, {2048: 0}, gpu=gpu)),
        pci_devices=(host_model.PciDevice(
            _GPU, '10de', '2342', 0, kind=hardware.PciKind.GPU),))


def planned(purpose, gpu='', **wanted):
    return planner.plan(superchip(gpu), plan_request.PlanOptions(
        purpose, host_cpus=4, **{'host_memory_mib': 32 * GIB} | wanted))


def sold_gib(host):
    """What Placement may give out of MEMORY_MB."""
    return (sum(node.memory_mib for node in host.nodes)
            - host.nova.reserved_memory_mib) / GIB


def warning(host):
    return next((one for one in host.plan.warnings
                 if one.code == 'memory-without-cpus'), None)


@ddt.ddt
class TestNodesWithoutCpus(oslotest.BaseTestCase):

    @ddt.data(
        (_PURPOSE.DEDICATED, '', 448), (_PURPOSE.SHARED, '', 544),
        (_PURPOSE.BOTH, '', 544), (_PURPOSE.DEDICATED, _GPU, 448),
        (_PURPOSE.SHARED, _GPU, 448), (_PURPOSE.BOTH, _GPU, 448))
    @ddt.unpack
    def test_what_is_sold(self, purpose, gpu, expected):
        """Pinned guests get none of it, and nobody that of a GPU."""
        for page_size_kib in (None, 0):
            host = planned(purpose, gpu, page_size_kib=page_size_kib)
            self.assertEqual(expected, sold_gib(host))
            self.assertEqual(96 * GIB, host.plan.memory_kept_mib[1])
            self.assertEqual(bool(gpu), 'GPU' in warning(host).message)

    @ddt.data(*_PURPOSE)
    def test_gpu_of_guests(self, purpose):
        """Its memory goes with it."""
        host = planned(purpose, _GPU, pci_aliases=(('gh200', 'gpu'),))
        self.assertEqual([480 * GIB, 0],
                         [node.memory_mib for node in host.nodes])
        self.assertEqual(448, sold_gib(host))
        self.assertIsNone(warning(host))
        self.assertIn(f'that of {_GPU} goes to guests with the GPU', [
            reason.text for reason in host.plan.reasons])

    def test_the_host_has_its_memory_near_its_cpus(self):
        host = planned(_PURPOSE.DEDICATED)
        self.assertEqual({0: 32 * GIB, 1: 96 * GIB},
                         host.plan.memory_kept_mib)
        # 8 GiB and 4 % of what guests might have.
        host = planned(_PURPOSE.DEDICATED, host_memory_mib=None)
        self.assertEqual(8 * GIB + 480 * GIB * 4 // 100,
                         host.plan.memory_kept_mib[0])
        # All there is, and what it lacks.
        host = planned(_PURPOSE.SHARED, host_memory_mib=500 * GIB)
        self.assertEqual(76, sold_gib(host))

    def test_what_helps(self):
        for purpose, gpu, expected in (
                (_PURPOSE.DEDICATED, '', 'have shared guests'),
                (_PURPOSE.SHARED, '', '--host-memory'),
                (_PURPOSE.SHARED, _GPU, '--pci-alias')):
            self.assertIn(expected, warning(planned(purpose, gpu)).advice)

    def test_nodes_whose_cpus_are_all_the_hosts(self):
        """Without huge pages their memory was sold to pinned guests."""
        first, bare = superchip().nodes
        second = dataclasses.replace(
            bare, cores=tuple((cpu,) for cpu in range(72, 76)))
        host = planner.plan(
            host_samples.host(nodes=(first, second)),
            plan_request.PlanOptions(
                host_cpus=4, host_memory_mib=32 * GIB, page_size_kib=0,
                sizes=(plan_model.GuestSize(8),)))
        self.assertEqual('72-75', str(host.plan.host_cpus))
        self.assertLess(sold_gib(host), 480)
