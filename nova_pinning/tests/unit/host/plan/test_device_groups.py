# SPDX-License-Identifier: Apache-2.0
"""Devices that are sold in groups or divided up, and warnings about them."""

import dataclasses

import ddt
from oslotest import base as oslotest

from nova_pinning import errors
from nova_pinning.host import hardware
from nova_pinning.host import host_model
from nova_pinning.host.plan import device_groups
from nova_pinning.host.plan import plan_request
from nova_pinning.host.plan import planner
from nova_pinning.tests.unit.host.plan import test_planner

SWITCH, PARTITION, NVLINK = device_groups.GroupBy
TYPES = (hardware.VirtualGpuType('nvidia-699'),
         hardware.VirtualGpuType('nvidia-700'))


def device(bus, switch, kind=hardware.PciKind.GPU, **values):
    """A device on the node of its switch, 0 or 1."""
    ids = ('10de', '2330') if kind is hardware.PciKind.GPU else (
        '15b3', '1021')
    return host_model.PciDevice(
        f'0000:{bus:02x}:00.0', *ids,
        **{'numa_node': switch // 2, 'kind': kind, 'iommu_group': bus,
           'parent': f'0000:e{switch}:00.0'} | values)


def server(devices=None, **values):
    """Four switches, two on each node, each with two GPUs and a NIC."""
    if devices is None:
        devices = [
            device(4 * switch + place, switch, kind)
            for switch in range(4)
            for place, kind in enumerate((
                hardware.PciKind.GPU, hardware.PciKind.GPU,
                hardware.PciKind.NIC))]
    return test_planner.xeon(
        pci_devices=tuple(devices),
        pci_bridges=tuple(hardware.PciBridge(
            f'0000:e{switch}:00.0', 'pci0000:e0', hardware.PciPort.UPSTREAM)
            for switch in range(4)), **values)


def plan(host, aliases=(('h100', 'gpu'),), **wanted):
    return planner.plan(host, plan_request.PlanOptions(**{
        'host_cpus': 4, 'sizes': test_planner.sizes((8,)),
        'pci_aliases': tuple(aliases)} | wanted))


def groups(host):
    """Addresses by resource class and trait."""
    found = {}
    for one in host.pci_devices:
        for trait in one.traits:
            found.setdefault((one.resource_class, trait), []).append(
                one.address)
    return found


@ddt.ddt
class TestGroups(oslotest.BaseTestCase):

    def refused(self, *args, **wanted):
        return str(self.assertRaises(
            errors.InputError, plan, *args, **wanted))

    def test_by_switch(self):
        """GPUs and NICs of one switch have the same number."""
        planned = plan(server(), (('h100', 'gpu'), ('ib', '15b3:1021')),
                       pci_groups={'h100': SWITCH, 'ib': SWITCH})
        self.assertEqual({
            **{('CUSTOM_H100', f'CUSTOM_H100_SWITCH_{number}'):
                [f'0000:{4 * number:02x}:00.0',
                 f'0000:{4 * number + 1:02x}:00.0'] for number in range(4)},
            **{('CUSTOM_IB', f'CUSTOM_IB_SWITCH_{number}'):
                [f'0000:{4 * number + 2:02x}:00.0'] for number in range(4)}},
            groups(planned))
        self.assertIn('h100-switch-3 is 0000:0c:00.0 and 0000:0d:00.0', [
            reason.text for reason in planned.plan.reasons])

    def test_others_are_counted_by_placement_as_well(self):
        planned = plan(server(), (('h100', 'gpu'), ('ib', '15b3:1021')),
                       pci_groups={'h100': SWITCH})
        self.assertEqual({('CUSTOM_IB', ())}, {
            (one.resource_class, one.traits) for one in planned.pci_devices
            if one.alias == 'ib'})

    def test_one_by_one_as_before(self):
        planned = plan(server())
        self.assertEqual({('', ())}, {
            (one.resource_class, one.traits) for one in planned.pci_devices})

    def test_by_partition(self):
        host = server()
        gpus = [one.address for one in host.pci_devices
                if one.kind is hardware.PciKind.GPU]
        host = dataclasses.replace(host, gpu_partitions=(
            hardware.GpuPartition(0, tuple(gpus)),
            hardware.GpuPartition(5, tuple(gpus[:2])),
            hardware.GpuPartition(7, (gpus[0],))))
        planned = plan(host, pci_groups={'h100': PARTITION})
        self.assertEqual({
            ('CUSTOM_H100', 'CUSTOM_H100_PARTITION_0'): gpus,
            ('CUSTOM_H100', 'CUSTOM_H100_PARTITION_5'): gpus[:2]},
            groups(planned))
        # One of whose GPUs not all are for guests under this name.
        planned = plan(host, [('h100', address) for address in gpus[:2]],
                       pci_groups={'h100': PARTITION})
        self.assertEqual(
            {('CUSTOM_H100', 'CUSTOM_H100_PARTITION_5'): gpus[:2]},
            groups(planned))

    def test_by_nvlink(self):
        """Bridges join two of four cards; the others have none."""
        host = server()
        gpus = [one.address for one in host.pci_devices
                if one.kind is hardware.PciKind.GPU]
        host = dataclasses.replace(host, nvlinks=(
            hardware.NvLinks((gpus[0], gpus[3]), 4),
            hardware.NvLinks((gpus[1], gpus[2]), 12)))
        self.assertEqual({
            ('CUSTOM_H100', 'CUSTOM_H100_NVLINK_0'): [gpus[0], gpus[3]],
            ('CUSTOM_H100', 'CUSTOM_H100_NVLINK_1'): gpus[1:3]},
            groups(plan(host, pci_groups={'h100': NVLINK})))
        # As in a cube: each has neighbours that are none of each other.
        host = dataclasses.replace(host, nvlinks=(
            hardware.NvLinks((gpus[0], gpus[3]), 4),
            hardware.NvLinks((gpus[1], gpus[3]), 2)))
        self.assertIn(
            f'{gpus[3]} has other NVLinks to {gpus[0]} than to {gpus[1]}',
            self.refused(host, pci_groups={'h100': NVLINK}))
        for links in (None, ()):
            self.assertIn('no group by nvlink is known', self.refused(
                dataclasses.replace(host, nvlinks=links),
                pci_groups={'h100': NVLINK}))

    def test_a_plan_of_a_plan(self):
        planned = plan(server(), pci_groups={'h100': SWITCH})
        again = plan(planned, ())
        self.assertEqual(planned.pci_devices, again.pci_devices)
        again = plan(planned, [('other', '0000:00:00.0')])
        self.assertEqual(('other', '', ()), (
            again.pci_devices[0].alias, again.pci_devices[0].resource_class,
            again.pci_devices[0].traits))

    def test_what_is_not_known_is_not_sold(self):
        self.assertIn('it is not known where 0000:01:00.0 is', self.refused(
            server([device(1, 0, parent='')]), pci_groups={'h100': SWITCH}))
        self.assertIn('0000:01:00.0 is behind no PCIe switch', self.refused(
            server([device(1, 0, parent='pci0000:00')]),
            pci_groups={'h100': SWITCH}))
        self.assertIn('no group by partition is known', self.refused(
            server(), pci_groups={'h100': PARTITION}))
        self.assertIn("no device has the alias 'a100'", self.refused(
            server(), pci_groups={'a100': SWITCH}))
        self.assertIn('ib-1 and ib_1 would both be CUSTOM_IB_1', self.refused(
            server(), (('ib_1', '0000:00:00.0'), ('ib-1', '0000:01:00.0')),
            pci_groups={'ib-1': SWITCH}))

    def test_domains_that_nova_does_not_take(self):
        behind_vmd = dataclasses.replace(
            device(1, 0), address='10000:01:00.0')
        self.assertIn('is in a PCI domain above ffff', self.refused(
            server([behind_vmd])))
        planned = plan(server([behind_vmd, device(2, 0)]))
        self.assertEqual(['', 'h100'],
                         [one.alias for one in planned.pci_devices])
        self.assertIn('10000:01:00.0', warning(planned, 'device-in-use'))

    def test_many_devices(self):
        """Nobody reads the addresses of 512 virtual functions."""
        host = server([
            device(number, number % 4, hardware.PciKind.NIC, driver='ice',
                   in_use='in bond0' * (number % 8 < 4))
            for number in range(80)])
        planned = plan(host, [('vf', 'nic')], pci_groups={'vf': SWITCH})
        texts = [one.text for one in planned.plan.reasons] + [
            one.message for one in planned.plan.warnings]
        self.assertIn('0000:03:00.0 is in bond0', warning(
            planned, 'device-in-use'))
        for text in (*texts, self.refused(server([
                one for one in host.pci_devices if one.in_use]), [
                    ('vf', 'nic')])):
            self.assertLessEqual(text.count('0000:'), 8)
        self.assertEqual(12, str(texts).count(' more'))

    def test_mediated_devices(self):
        host = server([device(1, 0, mdev_types=TYPES), device(2, 0),
                       device(3, 1, mdev_types=TYPES[:1])])
        planned = plan(host, (), mdev_types=(('nvidia-699', 'gpu'),))
        self.assertEqual(['nvidia-699', '', 'nvidia-699'],
                         [one.mdev_type for one in planned.pci_devices])
        again = plan(planned, (('h100', '0000:01:00.0'),))
        self.assertEqual(['', '', 'nvidia-699'],
                         [one.mdev_type for one in again.pci_devices])
        self.assertIn("no device '0000:02:00.0' can be divided into "
                      'nvidia-699', self.refused(host, (), mdev_types=(
                          ('nvidia-699', '0000:02:00.0'),)))
        self.assertIn('0000:01:00.0 cannot be for nvidia-699 and h100',
                      self.refused(host, (('h100', '0000:01:00.0'),),
                                   mdev_types=(('nvidia-699', 'gpu'),)))
        self.assertIn('0000:01:00.0 cannot be for nvidia-700 and nvidia-699',
                      self.refused(host, (), mdev_types=(
                          ('nvidia-699', 'gpu'), ('nvidia-700', 'gpu'))))


def warning(planned, code):
    return next((one.message for one in planned.plan.warnings
                 if one.code == code), None)


class TestWarnings(oslotest.BaseTestCase):

    def test_none(self):
        planned = plan(server())
        for code in ('iommu-group-shared', 'no-reset', 'gpus-small-pages',
                     'device-on-no-node',
                     'gpus-without-cpus', 'aliases-refused', 'not-whole'):
            self.assertIsNone(warning(planned, code))

    def test_one_iommu_group(self):
        planned = plan(server([
            device(1, 0, iommu_group=7), device(2, 0, iommu_group=7),
            device(3, 1, iommu_group=8), device(
                4, 1, hardware.PciKind.NIC, iommu_group=8),
            device(5, 2), device(6, 2, hardware.PciKind.NIC, iommu_group=9),
            device(7, 2, hardware.PciKind.NIC, iommu_group=9)]))
        self.assertIn(
            'group 7 has 0000:01:00.0 and 0000:02:00.0; group 8 has '
            '0000:03:00.0, and 0000:04:00.0, which the host keeps',
            warning(planned, 'iommu-group-shared'))
        self.assertNotIn('group 9', warning(planned, 'iommu-group-shared'))

    def test_no_reset(self):
        planned = plan(server([device(1, 0, reset_methods=()), device(
            2, 0, reset_methods=('bus',))]))
        self.assertIn('cannot reset 0000:01:00.0:',
                      warning(planned, 'no-reset'))

    def test_a_node_that_is_not_there(self):
        planned = plan(server([
            device(1, 0), device(2, 0, numa_node=7),
            device(3, 0, hardware.PciKind.NIC, numa_node=7)]))
        self.assertIn('leaves out, the node of 0000:02:00.0 (node 7): nova',
                      warning(planned, 'device-on-no-node'))

    def test_what_render_refuses(self):
        """One GPU is split into virtual functions, another is not."""
        split = device(1, 0, sriov_totalvfs=2)
        parts = [device(number, 0, physical_function=split.address)
                 for number in (2, 3)]
        planned = plan(server([split, *parts, device(4, 0)]))
        self.assertIn("the devices of PCI alias 'h100' are type-PCI and "
                      'type-VF', warning(planned, 'aliases-refused'))
        planned = plan(server([split, *parts]), (
            ('a', parts[0].address), ('b', parts[1].address)), pci_groups={
                'a': SWITCH})
        self.assertIn(f'functions of {split.address} are of several resource',
                      warning(planned, 'aliases-refused'))

    def test_what_is_no_use_as_a_whole(self):
        functions = [
            device(number, 0, physical_function='0000:00:00.0', **values)
            for number, values in enumerate((
                {}, {'mdev_types': TYPES}, {'vgpu_types': TYPES},
                {'vgpu_types': TYPES, 'vgpu_type': '1155'}), 1)]
        self.assertIn('0000:02:00.0 and 0000:03:00.0 without a vGPU type',
                      warning(plan(server(functions)), 'not-whole'))
        self.assertIn('0000:05:00.0 with MIG instances', warning(plan(server([
            device(4, 0, mig_instances=0), device(5, 0, mig_instances=7),
            device(6, 0, mdev_types=TYPES)])), 'not-whole'))

    def test_small_pages(self):
        self.assertIsNotNone(warning(
            plan(server(), page_size_kib=0), 'gpus-small-pages'))

    def test_gpus_without_cpus(self):
        """Node 0 has 36 CPUs left: two guests of 16, and four GPUs."""
        host = server()
        planned = plan(host, sizes=test_planner.sizes((16,)))
        near = planned.nodes[0].cpus & planned.plan.host_cpus
        self.assertIn(
            'node 0 has CPUs for 2 guests of 16, and 4 GPUs '
            f'(CPUs {near} there are for the host)',
            warning(planned, 'gpus-without-cpus'))
        self.assertIn('node 1 has CPUs for 2 guests',
                      warning(planned, 'gpus-without-cpus'))

    def test_cpus_near_gpus_are_left_to_guests(self):
        for node in (0, 1):
            planned = plan(server([device(1, 2 * node), device(2, 2 * node)]))
            self.assertFalse(planned.plan.host_cpus
                             & planned.nodes[node].cpus)
