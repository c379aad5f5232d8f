# SPDX-License-Identifier: Apache-2.0
"""What nova 2026.2 can do besides, with our filters.

Devices that serve one guest only, until somebody resets them, and live
migrations over several connections that go on at the same time.
"""

import json

from nova.tests.fixtures import libvirt as fakelibvirt

from demo import hosts
from nova_pinning.tests.functional import functional_base
from nova_pinning.tests.functional import test_nova_numa_fit

GIB = functional_base.GIB
PINNED = {'hw:cpu_policy': 'dedicated'}


class TestOneTimeUse(functional_base.TestCase):
    """The device of a guest that is gone is free to nova, not to Placement."""

    def setUp(self):
        super().setUp()
        nic = {'vendor_id': '8086', 'product_id': test_nova_numa_fit.NIC}
        self.nova.stage.flags(
            device_spec=[json.dumps({**nic, 'one_time_use': 'true'})],
            alias=[json.dumps({
                **nic, 'name': 'nic', 'device_type': 'type-PCI',
                'numa_policy': 'required'})],
            report_in_placement=True, group='pci')
        self.nova.stage.flags(pci_in_placement=True, group='filter_scheduler')
        devices = fakelibvirt.HostPCIDevicesInfo(
            num_pci=0, num_pfs=0, num_vfs=0)
        for cell in range(2):
            devices.add_device(
                dev_type='PCI', bus=0x81, slot=cell, function=0,
                iommu_group=40 + cell, numa_node=cell,
                prod_id=test_nova_numa_fit.NIC)
        self.nova.start_host('host', hosts.HostShape(
            sockets=2, cores_per_cell=4, threads=1, memory_mib=16 * GIB,
            dedicated='0-7'), devices)
        self.near = self.nova.create_flavor(
            'near', 2, GIB, {**PINNED, 'pci_passthrough:alias': 'nic:1'})
        self.plain = self.nova.create_flavor('plain', 4, GIB, PINNED)

    def use_up(self):
        """Have a guest use a device up.

        :returns: its cell
        """
        used = self.nova.boot('used', self.near)
        self.assert_active([used])
        [cell] = self.nova.guest_topology(used).cells
        self.nova.delete(used)
        self.nova.update_resources()
        return cell.id

    def test_the_other_device_with_its_cell(self):
        first = self.use_up()
        second = self.nova.boot('second', self.near)
        self.assert_active([second])
        [cell] = self.nova.guest_topology(second).cells
        self.assertEqual(1 - first, cell.id)

    def test_no_cpus_near_what_is_left(self):
        """Those that are free are near the device that is used up."""
        first = self.use_up()
        for name in 'ab':
            filler = self.nova.boot(name, self.plain)
            self.assert_active([filler])
            [cell] = self.nova.guest_topology(filler).cells
            if cell.id == first:
                gone = filler
        self.nova.delete(gone)
        self.nova.update_resources()
        self.assert_refused(
            self.nova.boot('refused', self.near),
            'no set of cells with room for the guest has the PCI devices')


class TestParallelLiveMigrations(functional_base.TestCase):

    def test_two_guests_at_the_same_time(self):
        """Each finds CPUs of its own, wherever both want to go."""
        self.nova.stage.flags(max_concurrent_live_migrations=2)
        self.nova.stage.flags(
            live_migration_parallel_connections=4, group='libvirt')
        half = functional_base.small_host(dedicated='0-3')
        self.nova.start_host('source', functional_base.small_host())
        flavor = self.nova.create_flavor('pinned', 4, GIB, PINNED)
        first, second = (self.nova.boot(name, flavor) for name in 'ab')
        for name in ('one', 'two'):
            self.nova.start_host(name, half)
        self.nova.stage.api.post_server_action(first.id, {
            'os-migrateLive': {'host': None, 'block_migration': 'auto'}})
        second = self.nova.migrate_live(second)
        first = self.nova._wait('the first to be there', lambda: (
            (shown := self.nova.show(first)).host != 'source'
            and not self.nova._moves_on(first.id, '') and shown))
        self.assertEqual({'one', 'two'}, {first.host, second.host})
        for server in (first, second):
            self.assertEqual({0, 1, 2, 3}, self.pinned_cpus(server))
            self.assertEqual({0, 1, 2, 3}, self.host_pinned_cpus(server.host))
