# SPDX-License-Identifier: Apache-2.0
"""Devices from a host's PCIe tree into guests, on a real cloud.

QEMU emulates the host with its devices and IOMMU, and in it a guest, which
gets them by VFIO and lists what it has.
"""

import pathlib
import tempfile

import testtools

from minicloud import api
from minicloud import guest
from minicloud import nova
from nova_pinning.host import domain_xml
from nova_pinning.host import host_loader
from nova_pinning.host import host_offer
from nova_pinning.tests.acceptance import minicloud_runner
from nova_pinning.tests.acceptance import test_road
from nova_pinning.tests.unit.host.discover import qemu_machine

HOST = 'virtual-1'
# The host has CPU 0, so that one is left on the first node.
OPTIONS = ('--hosts', '0', '--virtual-host', '2x2x1')
FLAVORS = qemu_machine.FLAVORS + """\
      part: {vcpus: 1, memory: 64MiB, pci_devices: {
        part: 1, affinity: required}}
"""
# [pci] device_spec has these beside those of the plan.
SINGLE = f'{nova.PCI_ALIAS["name"]}:1'
DISK, PART = '1b36:0010', '8086:5845'


class TestDevices(testtools.TestCase):

    def setUp(self):
        super().setUp()
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = pathlib.Path(directory.name)
        self.cloud = self.useFixture(minicloud_runner.MiniCloud(*OPTIONS))

    def write(self, name, text):
        path = self.directory / name
        path.write_text(text)
        return path

    def test_devices(self):
        plan = self.plan()
        self.configure()
        self.assertEqual(self.offered(plan), self.providers(plan))
        self.openstack(f'pinning flavor apply --yes {self.flavors}')
        self.openstack('flavor create --vcpus 1 --ram 64 --disk 0 single '
                       '--property hw:cpu_policy=dedicated '
                       f'--property pci_passthrough:alias={SINGLE}')
        self.assertEqual({'d.pair-switch-0': 1, 'd.pair-switch-1': 1,
                          'd.part': 1}, self.sold())

        switches = {
            f'd.pair-switch-{number}': {
                device.address for device in plan.pci_devices
                if f'CUSTOM_DISK_SWITCH_{number}' in device.traits}
            for number in range(2)}
        for flavor, addresses in switches.items():
            self.check(flavor, 2 * [DISK], lambda found, wanted=addresses:
                       found == wanted)
        parts = {device.address for device in plan.pci_devices
                 if device.alias == 'part'}
        self.check('d.part', [PART], lambda found: found < parts)
        single = '{vendor_id}:{product_id}'.format(**nova.PCI_ALIAS)
        self.check('single', [single], lambda found: len(found) == 1)

    def plan(self):
        """Discover the host, and plan what becomes of its devices."""
        found = self.write('host.yaml', self.cloud.run_on(
            HOST, test_road.NOVA_PINNING, 'host', 'discover'))
        host = host_loader.load(found)
        parts = ' '.join(
            f'--pci-alias part={device.address}'
            for device in host.pci_devices
            if device.physical_function and device.numa_node == 0)
        path = self.directory / 'plan.yaml'
        self.cloud.run(
            f'nova-pinning host plan {found} --for 1 --host-cpus 1 '
            f'--page-size none --pci-alias disk={DISK} --pci-group disk=switch'
            f' {parts} --output {path}')
        self.cloud.run(f'nova-pinning host render {path} '
                       f'--output {self.directory / "rendered"}')
        return host_loader.load(path)

    def configure(self):
        """Give nova what was rendered."""
        rendered = self.directory / 'rendered/etc/nova'
        [options] = rendered.glob('nova.conf.d/*')
        [provider] = rendered.glob('provider_config/*')
        aliases = '\n'.join(line for line in options.read_text().splitlines()
                            if line.startswith('alias'))
        control = self.write('control.conf', (
            f'[pci]\n{aliases}\n[filter_scheduler]\npci_in_placement = true'
            '\n'))
        self.flavors = self.write('flavors.yaml', FLAVORS)
        self.cloud.up('--host-conf', f'{HOST}={options}',
                      '--provider-config', f'{HOST}={provider}',
                      '--nova-conf', str(control))

    def offered(self, plan):
        """Class, number and traits of each device's provider, by name."""
        return {one.name: (
            {name: has.total for name, has in one.inventories}, one.traits)
            for one in host_offer.offered(plan).children}

    def providers(self, plan):
        """The same as Placement has it, but for those that no plan has."""
        placement = api.Api(self.cloud.state, self.cloud.state.load())
        found = {one['name']: one['uuid'] for one in placement.get(
            'placement', '/resource_providers')['resource_providers']}
        return {name: (
            {key: has['total'] for key, has in placement.get(
                'placement', f'/resource_providers/{found[name]}/inventories'
                )['inventories'].items()},
            set(placement.get(
                'placement', f'/resource_providers/{found[name]}/traits'
                )['traits']) - {'OWNER_NOVA'})
            for name in found.keys() & self.offered(plan).keys()}

    def sold(self):
        """How many more guests of each flavor are counted."""
        fleet = self.directory / 'fleet.json'
        conf = nova.directory(self.cloud.state)
        self.cloud.run(
            'nova-pinning fleet import nova --placement '
            f'--config-file {conf / "nova.conf"} '
            f'--config-file {conf / "extra.conf"} --output {fleet}')
        counts = self.cloud.run(
            f'nova-pinning capacity {fleet} --flavor {self.flavors} -f value '
            '-c flavor -c fits').split()
        return dict(zip(counts[::2], map(int, counts[1::2])))

    def openstack(self, command):
        return self.cloud.run(f'openstack {command}')

    def check(self, flavor, inside, are_right):
        """Boot a guest, compare what all see of its devices, delete it.

        :param inside: what it has to list
        :param are_right: whether addresses on the host are as they should be
        """
        server = self.openstack(
            'server create --wait --nic none --image minicloud -f value '
            f'-c id --flavor {flavor} guest').strip()
        addresses = domain_xml.parse(self.cloud.run_on(
            HOST, 'virsh', 'dumpxml', server)).hostdevs
        self.assertTrue(are_right(addresses), addresses)
        for address in addresses:
            self.assertEqual('vfio-pci', pathlib.Path(self.cloud.run_on(
                HOST, 'readlink', f'/sys/bus/pci/devices/{address}/driver'
                ).strip()).name)
        seen = []
        self.cloud.wait(lambda: self.listed(server, seen, len(inside)))
        self.assertEqual(inside, seen)
        self.openstack(f'server delete --wait {server}')

    def listed(self, server, seen, count):
        """Whether a guest has listed so many devices of ours."""
        said = self.openstack(f'console log show {server}')
        lines = said.partition(guest.GREETING)[2].split()
        seen[:] = [line for line in lines if line in (
            DISK, PART, '{vendor_id}:{product_id}'.format(**nova.PCI_ALIAS))]
        return len(seen) >= count
