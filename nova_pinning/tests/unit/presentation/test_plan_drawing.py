# SPDX-License-Identifier: Apache-2.0

import dataclasses
import textwrap

import ddt
import hypothesis
from hypothesis import strategies
from oslotest import base as oslotest

from nova_pinning import cpuset
from nova_pinning.host import hardware
from nova_pinning.host import host_model
from nova_pinning.host import plan_model
from nova_pinning.presentation import plan_drawing
from nova_pinning.presentation import plan_facts
from nova_pinning.tests.unit.host import host_samples
from nova_pinning.tests.unit.presentation import drawings
from nova_pinning.tests.unit import unit_base


def cpus(cpu_list):
    return cpuset.CpuSet.parse(cpu_list)


def device(number, node, **values):
    return host_model.PciDevice(
        f'0000:{number:02x}:00.0', '8086', '158b', node, **values)


NIC = device(1, 0, kind=hardware.PciKind.NIC, names=('eth0',),
             speed_mbps=25000)


def planned(**values):
    """A host of every kind of CPU, with devices and huge pages."""
    host = host_samples.host(nova=host_samples.settings(
        '3,7', '2,6', reserved_huge_pages={(1, host_samples.GIB_PAGES): 1}))
    first, second = host.nodes
    plan = plan_model.HostPlan(
        plan_model.Purpose.BOTH, cpus('0,4'),
        offer=plan_model.Offer(
            (plan_model.Sale(1, 1, 2, 0, 0), plan_model.Sale(2, 2, 1, 0, 1)),
            {0: 0, 1: 1}, 6),
        sizes=(plan_model.GuestSize(1), plan_model.GuestSize(2, cells=2)),
        poll_cpus=cpus('1,5'), page_size_kib=host_samples.GIB_PAGES,
        poll_pages={1: 1},
        interrupts=(plan_model.Interrupts(NIC.address, 'eth0', cpus('0,4')),))
    return dataclasses.replace(host, **{
        'nodes': (first, dataclasses.replace(
            second, huge_pages={host_samples.GIB_PAGES: 4})),
        'pci_devices': (
            NIC,
            *(device(number, 1, kind=hardware.PciKind.NVME, alias='disk')
              for number in range(16, 22)),
            device(32, None)),
        'offline_cpus': cpus('8-9'),
        'plan': plan} | values)


@ddt.ddt
class TestFacts(oslotest.BaseTestCase):

    @ddt.data(
        ('3,7', '2', {'host': '0-1,4-6', 'shared': '2', 'dedicated': '3,7'}),
        ('3,7', None, {'host': '0-2,4-6', 'dedicated': '3,7'}),
        (None, '1-7', {'host': '0', 'shared': '1-7'}),
        (None, None, {'any': '0-7'}))
    @ddt.unpack
    def test_without_a_plan(self, dedicated, shared, kinds):
        found = plan_facts.facts(host_samples.host(
            nova=host_samples.settings(dedicated, shared)))
        self.assertEqual(kinds, {
            str(kind): str(found.cpus_of(kind))
            for kind in plan_drawing.KINDS if found.cpus_of(kind)})

    def test_devices_that_are_alike_are_told_together(self):
        found = plan_facts.facts(planned())
        self.assertEqual([
            (0, 'NIC: eth0; 25 Gbit/s; interrupts on CPUs 0,4'),
            (1, 'NVMe: 0000:10:00.0, 0000:11:00.0, 0000:12:00.0, 3 more; '
             'for guests as disk'),
            (None, 'PCI: 0000:20:00.0'),
        ], found.devices)

    def test_a_device_of_a_node_that_is_not_there(self):
        found = plan_facts.facts(host_samples.host(
            pci_devices=(device(1, 7),)))
        text, = found.devices_of(None)
        self.assertIn('of node 7, which is not there', text)

    def test_memory_is_for_the_guests_of_its_node(self):
        host = host_samples.host(nova=host_samples.settings('1,5', '3,7'))
        first, second = host.nodes
        bare = dataclasses.replace(first, cores=())
        found = plan_facts.facts(host)
        for node, kind in ((first, 'dedicated'), (second, 'shared'),
                           # Those that float have memory of any node.
                           (bare, 'shared')):
            part, = plan_facts.memory(found, node)
            self.assertEqual(kind, part.kind)
        for purpose, gpu, kind in (
                ('dedicated', '', 'host'), ('both', '', 'shared'),
                ('both', '0004:05:00.0', 'host')):
            found = plan_facts.facts(dataclasses.replace(
                host, plan=plan_model.HostPlan(
                    plan_model.Purpose(purpose), cpuset.CpuSet([0]),
                    offer=plan_model.Offer((), {}))))
            part, = plan_facts.memory(
                found, dataclasses.replace(bare, gpu=gpu))
            self.assertEqual(kind, part.kind)

    def test_memory_of_a_gpu(self):
        first, second = host_samples.host().nodes
        host = host_samples.host(nodes=(first, dataclasses.replace(
            second, cores=(), gpu='0004:05:00.0')))
        self.assertIn('node 1 (8 GiB)  memory of GPU 0004:05:00.0',
                      drawings.text(plan_drawing.draw(host)))

    def test_memory_that_is_not_planned(self):
        node = dataclasses.replace(host_samples.host().nodes[0],
                                   huge_pages={host_samples.MIB_PAGES: 512})
        for nova, told in (
                (host_samples.settings(), ['7 GiB in small pages',
                                           '512 pages of 2 MiB']),
                (host_samples.settings('0-3', reserved_huge_pages={
                    (0, host_samples.MIB_PAGES): 12}),
                 ['7 GiB for the host', '12 pages of 2 MiB reserved',
                  '500 pages of 2 MiB for guests'])):
            found = plan_facts.facts(host_samples.host(
                nodes=(node,), nova=nova))
            self.assertEqual(told, [
                part.text for part in plan_facts.memory(found, node)])

    @ddt.data((100, '100 Mbit/s'), (2500, '2.5 Gbit/s'),
              (100000, '100 Gbit/s'))
    @ddt.unpack
    def test_speed(self, mbps, shown):
        self.assertEqual(shown, plan_facts.speed(mbps))

    @unit_base.settings(max_examples=60)
    @hypothesis.given(host_samples.any_host())
    def test_parts_of_memory_add_up(self, host):
        found = plan_facts.facts(host)
        for node in host.nodes:
            self.assertEqual(node.memory_mib, sum(
                part.mib for part in plan_facts.memory(found, node)))


class TestDraw(oslotest.BaseTestCase):

    def test_every_kind(self):
        self.assertEqual(textwrap.dedent("""\
            small: 2 sockets, 2 NUMA nodes, 4 cores, 8 CPUs
              planned for dedicated and shared guests
              room for 2 guests of 1 vCPU, or 1 guest of 2 vCPUs on 2 nodes
              in the mix: 0 of 1 vCPU, 1 of 2 vCPUs on 2 nodes
              dedicated CPUs that are left over then: 1 of node 1
              6 vCPUs that float
              offline: CPUs 8-9
            node 0 (socket 0, 8 GiB)
              CPUs 0-1 H P
              CPUs 4-5 H P
              memory: 8 GiB in small pages
              NIC: eth0; 25 Gbit/s; interrupts on CPUs 0,4
            node 1 (socket 1, 8 GiB)
              CPUs 2-3 S D
              CPUs 6-7 S D
              memory: 4 GiB for host and shared guests, 1 page of 1 GiB for OVS-DPDK, 3
                pages of 1 GiB for guests
              NVMe: 0000:10:00.0, 0000:11:00.0, 0000:12:00.0, 3 more; for guests as disk
            no node
              PCI: 0000:20:00.0
              H host CPUs, no guest runs on them: CPUs 0,4
              P poll CPUs of OVS-DPDK: CPUs 1,5
              S shared CPUs, for floating vCPUs and emulator threads: CPUs 2,6
              D dedicated CPUs, for pinned vCPUs: CPUs 3,7
            """), drawings.text(plan_drawing.draw(planned())))  # noqa: E501

    def test_devices_behind_switches(self):
        def gpu(number, parent, **values):
            return dataclasses.replace(
                device(number, 0), vendor_id='10de', parent=parent,
                **{'kind': hardware.PciKind.GPU, 'bars_kib': (
                    16384, 128 * host_samples.GIB_PAGES)} | values)
        ports = hardware.PciPort
        self.assertEqual(textwrap.dedent("""\
            small: 2 sockets, 2 NUMA nodes, 4 cores, 8 CPUs
              18 NVLinks between each two of 0000:03:00.0 and 0000:04:00.0
              NVLink partitions of GPUs: 1 of 2, 2 of 1
            node 0 (socket 0, 8 GiB)
              CPUs 0-1 . .
              CPUs 4-5 . .
              memory: 8 GiB in small pages
              GPU: 0000:01:00.0; 10de:158b; 7 MIG instances; place in the PCIe tree unknown
              NIC: eth0, eth1; 8086:158b; 1 of 8 virtual functions; RDMA
              NIC: 0000:02:00.4; 8086:158b; virtual, of 0000:02:00.0; driver mlx5_vfio_pci
              NVMe: nvme0n1, nvme0n2; 8086:158b; 3577 GiB
              PCIe switch 0000:e1:00.0, below root port 0000:e0:01.0; without ACS
              └ GPU: 0000:03:00.0, 0000:04:00.0; for guests as h100; BAR of 128 GiB
              PCIe switch 0000:e4:00.0, below switch 0000:e1:00.0
              └ GPU: 0000:05:00.0; 10de:158b; BAR of 128 GiB; cannot be reset; in one IOMMU
                group with 0000:05:00.1
            node 1 (socket 1, 8 GiB)
              CPUs 2-3 . .
              CPUs 6-7 . .
              memory: 8 GiB in small pages
              . not planned, nova would use them for any guest: CPUs 0-7
            """), drawings.text(plan_drawing.draw(host_samples.host(  # noqa: E501
                pci_devices=(
                    gpu(1, '', bars_kib=None, mig_instances=7),
                    dataclasses.replace(
                        NIC, address='0000:02:00.0', speed_mbps=0,
                        names=('eth0', 'eth1'), sriov_totalvfs=8,
                        rdma_devices=('mlx5_0',)),
                    dataclasses.replace(
                        NIC, address='0000:02:00.4', names=(), speed_mbps=0,
                        driver='mlx5_vfio_pci',
                        physical_function='0000:02:00.0'),
                    device(6, 0, kind=hardware.PciKind.NVME,
                           names=('nvme0n1', 'nvme0n2'), namespaces_mib={
                               'nvme0n1': 3662830, 'nvme0n2': 1}),
                    gpu(3, '0000:e2:00.0', alias='h100'),
                    gpu(4, '0000:e2:01.0', alias='h100'),
                    gpu(5, '0000:e5:00.0', reset_methods=(),
                        companions=('0000:05:00.1',))),
                pci_bridges=tuple(
                    hardware.PciBridge(
                        address, parent, port, acs=address != '0000:e2:01.0')
                    for address, parent, port in (
                        ('0000:e0:01.0', 'pci0000:e0', ports.ROOT),
                        ('0000:e1:00.0', '0000:e0:01.0', ports.UPSTREAM),
                        ('0000:e2:00.0', '0000:e1:00.0', ports.DOWNSTREAM),
                        ('0000:e2:01.0', '0000:e1:00.0', ports.DOWNSTREAM),
                        ('0000:e2:02.0', '0000:e1:00.0', ports.DOWNSTREAM),
                        ('0000:e4:00.0', '0000:e2:02.0', None),
                        ('0000:e5:00.0', '0000:e4:00.0', ports.DOWNSTREAM))),
                nvlinks=(hardware.NvLinks(
                    ('0000:03:00.0', '0000:04:00.0'), 18),),
                gpu_partitions=tuple(
                    hardware.GpuPartition(number, addresses)
                    for number, addresses in enumerate((
                        ('0000:03:00.0', '0000:04:00.0'),
                        ('0000:03:00.0',), ('0000:04:00.0',))))))))

    def test_nvlinks_of_which_nobody_has_told(self):
        gpus = tuple(dataclasses.replace(
            device(number, 0), vendor_id='10de', kind=hardware.PciKind.GPU)
            for number in (1, 2))
        for nvlinks, told in ((None, True), ((), False)):
            lines = drawings.text(plan_drawing.draw(host_samples.host(
                pci_devices=gpus, nvlinks=nvlinks)))
            self.assertEqual(told, 'NVLinks between GPUs are not known' in
                             lines)

    def test_dies_and_core_kinds(self):
        lines = drawings.text(plan_drawing.draw(host_samples.host(
            dies=(hardware.Die(0, 0, cpus('0,4')),
                  hardware.Die(0, 1, cpus('1,5')),
                  hardware.Die(1, 0, cpus('2-3,6-7'))),
            core_kinds=(
                hardware.CoreKind('performance', cpus('0-1,4-5')),
                hardware.CoreKind('efficient', cpus('2-3,6-7'))))))
        self.assertIn('node 0 (socket 0, dies 0-1, 8 GiB)', lines)
        self.assertIn('node 1 (socket 1, 8 GiB)', lines)
        self.assertIn('performance on CPUs 0-1,4-5, efficient on', lines)

    def test_a_node_over_several_sockets(self):
        host = host_samples.host(dies=(
            hardware.Die(0, 0, cpus('0,4')), hardware.Die(3, 0, cpus('1,5'))))
        host = dataclasses.replace(host, nodes=host.nodes[:1])
        lines = drawings.text(plan_drawing.draw(host))
        self.assertIn('small: 2 sockets, 1 NUMA node', lines)
        self.assertIn('node 0 (sockets 0-1 (ids 0, 3), 8 GiB)', lines)

    @unit_base.settings(max_examples=100)
    @hypothesis.given(host_samples.any_host(), strategies.integers(40, 200))
    def test_any_host(self, host, width):
        drawn = plan_drawing.draw(host)
        for line in drawings.plain(drawn, width):
            self.assertLessEqual(len(line), width)
        self.assertEqual(set(host.cpus), set(drawings.tiles(drawn)))
        self.assertEqual(
            {tile.style for tile in drawings.tiles(drawn).values()},
            {tile.style for tile, _meaning in drawn.legend})
