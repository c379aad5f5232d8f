# SPDX-License-Identifier: Apache-2.0
"""Devices of a real machine on their way into guests.

Discovery reads the machine, a plan sells its devices, what is rendered is
nova's configuration, a catalogue makes the flavors. Only libvirt is nova's
fake, with the devices that were discovered.
"""

import pathlib

import fixtures
from nova.conf import compute as compute_conf
from nova.conf import pci as pci_conf
from nova.conf import scheduler as scheduler_conf
from nova.tests.fixtures import libvirt as fakelibvirt
from oslo_config import cfg

from demo import hosts
from nova_pinning.bridge.offline import flavor_request
from nova_pinning.capacity import capacity
from nova_pinning.flavors import catalogue
from nova_pinning.host import discover
from nova_pinning.host import domain_xml
from nova_pinning.host import host_offer
from nova_pinning.host.plan import device_groups
from nova_pinning.host.plan import plan_request
from nova_pinning.host.plan import planner
from nova_pinning.host import plan_model
from nova_pinning.host import render
from nova_pinning.host.render import nova_conf
from nova_pinning.host.render import provider
from nova_pinning.tests.functional import functional_base
from nova_pinning.tests.functional import stored_fleet
from nova_pinning.tests.unit.host.discover import qemu_machine

HOST = 'devices-1'
PLAN = plan_request.PlanOptions(
    host_cpus=1, page_size_kib=0,
    sizes=(plan_model.GuestSize(1),), pci_aliases=(
        ('nic', '8086:10d3'), ('disk', '1b36:0010'),
        ('part', '0000:46:00.1'), ('part', '0000:46:00.2')),
    pci_groups={'disk': device_groups.GroupBy.SWITCH})
FLAVORS = qemu_machine.FLAVORS + """\
      nic: {vcpus: 1, memory: 64MiB, pci_devices: {nic: 1}}
      part: {vcpus: 1, memory: 64MiB, pci_devices: {
        part: 1, affinity: preferred}}
"""


class TestDeviceRoad(functional_base.TestCase):

    def setUp(self):
        super().setUp()
        self.tree = self.useFixture(qemu_machine.QemuMachine()).tree()
        self.planned = planner.plan(
            discover.discover_host(self.tree, HOST), PLAN)
        self.root = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        files = render.files(self.planned)
        for path in (nova_conf.PATH, provider.PATH):
            (self.root / pathlib.Path(path).name).write_text(files[path].text)
        # Nova looks there for what is an address, not a pattern.
        self.useFixture(fixtures.MockPatch(
            'nova.pci.utils.is_physical_function',
            lambda *address: bool(self.tree.count(
                '/sys/bus/pci/devices/{}:{}:{}.{}/sriov_totalvfs'.format(
                    *address)))))
        self.start_host(self.rendered())
        self.flavors = {flavor.name: flavor for flavor in catalogue.parse(
            FLAVORS, 'flavors.yaml').flavors}
        self.ids = {flavor.name: self.nova.create_flavor(
            flavor.name, flavor.vcpus, flavor.memory_mib, flavor.extra_specs)
            for flavor in self.flavors.values()}

    def rendered(self):
        """Nova's options as they were rendered."""
        conf = cfg.ConfigOpts()
        for module in (compute_conf, pci_conf, scheduler_conf):
            module.register_opts(conf)
        [path] = self.root.glob('*.conf')
        conf([f'--config-file={path}'], project='nova',
             default_config_files=[], default_config_dirs=[])
        return conf

    def start_host(self, conf):
        stage = self.nova.stage
        stage.flags(group='pci', alias=conf.pci.alias,
                    report_in_placement=conf.pci.report_in_placement)
        stage.flags(group='filter_scheduler', pci_in_placement=(
            conf.filter_scheduler.pci_in_placement))
        self.nova.start_host(HOST, hosts.HostShape(
            sockets=2, threads=1, memory_mib=sum(
                node.memory_mib for node in self.planned.nodes),
            dedicated=conf.compute.cpu_dedicated_set, options={
                ('pci', 'device_spec'): conf.pci.device_spec,
                ('compute', 'provider_config_location'): str(self.root)}),
            self.devices())

    def devices(self):
        """What was discovered, as libvirt would have it."""
        found = fakelibvirt.HostPCIDevicesInfo(num_pfs=0, num_vfs=0)
        for device in self.planned.pci_devices:
            _domain, bus, slot, function = (
                int(part, 16)
                for part in device.address.replace('.', ':').split(':'))
            kind = self.planned.device_type(device).removeprefix('type-')
            parts = {} if kind == 'PCI' else {'vf_ratio': 2}
            if kind == 'VF':
                parts['parent'] = bus, slot, 0
            found.add_device(
                kind, bus, slot, function, device.iommu_group,
                device.numa_node, vend_id=device.vendor_id,
                vend_name='vendor', prod_id=device.product_id,
                prod_name='product', driver_name=device.driver, **parts)
        return found

    def providers(self):
        """Of devices in Placement: class, number and traits by name."""
        stage = self.nova.stage
        root = stage.compute_rp_uuids[HOST]
        return {one['name']: (
            [(name, has['total']) for name, has in stage.placement.get(
                f'/resource_providers/{one["uuid"]}/inventories'
                ).body['inventories'].items()],
            # Nova's mark of its own providers, which nobody asks for.
            set(stage._get_provider_traits(one['uuid'])) - {'OWNER_NOVA'})
            for one in stage.placement.get(
                f'/resource_providers?in_tree={root}', version='1.14'
                ).body['resource_providers'] if one['uuid'] != root}

    def sold(self):
        """How many more guests of each flavor this project counts."""
        fleet = stored_fleet.read(self, asks_placement=True)
        return {size.request.name: (size.certain, size.fits)
                for size in capacity.measure(fleet, [
                    flavor_request.request_for(flavor)
                    for flavor in self.flavors.values()]).sizes()}

    def boot(self, flavor):
        """Boot a guest.

        :returns: addresses of its devices, and the server
        """
        server = self.nova.boot('guest', self.ids[flavor])
        self.assert_active([server], HOST)
        return domain_xml.parse(self.nova.guest_xml(server)).hostdevs, server

    def test_road(self):
        self.assertEqual(
            {one.name: ([(name, has.total)
                         for name, has in one.inventories], one.traits)
             for one in host_offer.offered(self.planned).children},
            self.providers())
        self.assertEqual(
            {'d.pair-switch-0': (1, 1), 'd.pair-switch-1': (1, 1),
             'd.nic': (2, 2), 'd.part': (2, 2)}, self.sold())

        for number, addresses in enumerate((
                {'0000:44:00.0', '0000:45:00.0'},
                {'0000:54:00.0', '0000:55:00.0'})):
            devices, server = self.boot(f'd.pair-switch-{number}')
            self.assertEqual(addresses, devices)
            self.assertEqual([number], [
                cell.id for cell in self.nova.guest_topology(server).cells])
            self.assertEqual((0, 0), self.sold()[f'd.pair-switch-{number}'])
        self.assertEqual(
            {'d.pair-switch-0': (0, 0), 'd.pair-switch-1': (0, 0),
             'd.nic': (1, 1), 'd.part': (1, 1)}, self.sold())

        self.assertEqual('ERROR', self.nova.boot(
            'guest', self.ids['d.pair-switch-0']).status)
        devices, server = self.boot('d.part')
        self.assertLess(devices, {'0000:46:00.1', '0000:46:00.2'})
        self.nova.delete(server)
        devices, server = self.boot('d.nic')
        self.assertLess(devices, {'0000:41:00.0', '0000:51:00.0'})
        self.assertEqual({(0, 0)}, {*self.sold().values()})
