# SPDX-License-Identifier: Apache-2.0
"""PCI devices and network interfaces."""

from tempest import config

from nova_pinning.host import domain_xml
from nova_pinning.tempest_plugin import hosts
from nova_pinning.tempest_plugin import pinning_test

CONF = config.CONF


class PciTest(pinning_test.PinningTest):
    """A PCI device near a guest."""

    @classmethod
    def skip_checks(cls) -> None:
        super().skip_checks()
        if not CONF.pinning.pci_alias:
            raise cls.skipException('no [pinning] pci_alias in tempest.conf')

    def test_required(self) -> None:
        """The guest is on the node of the device."""
        seen, node = self._boot('required')
        self.assertEqual(node, seen.kept.cells[0].host_node)

    def test_legacy(self) -> None:
        """The same, but a device that belongs to no node will do."""
        seen, node = self._boot('legacy')
        self.assertIn(node, (-1, seen.kept.cells[0].host_node))

    def test_preferred(self) -> None:
        self._boot('preferred')

    def test_socket(self) -> None:
        """The guest is on the socket of the device."""
        seen, node = self._boot('socket')
        cpus = self.machine_of(seen.host).nodes
        if node >= 0:
            sockets = {self._socket(seen.host, next(iter(cpus[one])))
                       for one in (node, seen.kept.cells[0].host_node)}
            self.assertEqual(1, len(sockets))

    def _socket(self, host: hosts.ComputeHost, cpu: int) -> str:
        return self.commands.run(host.name, [
            'cat', f'/sys/devices/system/cpu/cpu{cpu}/topology/'
            f'physical_package_id'])

    def _boot(self, policy: str) -> tuple[pinning_test.ServerViews, int]:
        """Boot a guest with the device.

        :returns: the server, and the device's node on its host, or -1
        """
        host, = self.pick(dedicated=1)
        # Which hosts have the device, only nova knows.
        server_id = self.start(None, self.flavor(1, self.specs_for(host, {
            **pinning_test.DEDICATED, 'hw:pci_numa_affinity_policy': policy,
            'pci_passthrough:alias': f'{CONF.pinning.pci_alias}:1'})))
        self.wait(server_id, 'ACTIVE')
        seen = self.check(server_id)
        address, = seen.guest.live.hostdevs
        node = int(self.commands.run(seen.host.name, [
            'cat', f'/sys/bus/pci/devices/{address}/numa_node']))
        return seen, node


class NetworkTest(pinning_test.PinningTest):
    """Network interfaces of pinned guests."""

    @classmethod
    def skip_checks(cls) -> None:
        super().skip_checks()
        if not CONF.service_available.neutron:
            raise cls.skipException('neutron is not available')

    @classmethod
    def setup_credentials(cls) -> None:
        cls.set_network_resources(network=True, subnet=True)
        # Not that of the parent, which asks for no network.
        super(pinning_test.PinningTest, cls).setup_credentials()

    def _boot(self, specs: dict[str, str]) -> pinning_test.ServerViews:
        host, = self.pick(dedicated=2)
        network = self.get_tenant_network(credentials_type='admin')
        return self.boot(host, 2, {**pinning_test.DEDICATED, **specs},
                         networks=[{'uuid': network['id']}])

    def test_queues(self) -> None:
        """An interface has a pair of queues a vCPU.

        Where each of them goes is checked with all other threads.
        """
        seen = self._boot({'hw:vif_multiqueue_enabled': 'true'})
        interface, = seen.guest.live.interfaces
        self.assertEqual(2, interface.queues)

    def test_vhost(self) -> None:
        """The kernel's threads for the interface stay with the emulator."""
        seen = self._boot({})
        if not seen.qemu.vhost:
            raise self.skipException('the hosts run no vhost threads')
        own = seen.guest.live.emulator_pin or domain_xml.NO_CPUS
        for thread in seen.qemu.vhost:
            self.assertTrue(thread.cpus.issubset(own), thread)

    def test_bandwidth(self) -> None:
        seen = self._boot({
            'quota:vif_inbound_average': '10240',
            'quota:vif_inbound_peak': '20480',
            'quota:vif_outbound_average': '5120'})
        interface, = seen.guest.live.interfaces
        self.assertEqual({'average': 10240, 'peak': 20480},
                         interface.inbound)
        self.assertEqual({'average': 5120}, interface.outbound)
