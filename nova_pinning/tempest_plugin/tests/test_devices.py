#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

"""PCI devices and network interfaces."""

from tempest import config

from nova_pinning.host import domain
from nova_pinning.tempest_plugin import base
from nova_pinning.tempest_plugin import hosts

CONF = config.CONF


class PciTest(base.PinningTest):
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

    def _socket(self, host: hosts.Host, cpu: int) -> str:
        return self.commands.run(host.name, [
            'cat', f'/sys/devices/system/cpu/cpu{cpu}/topology/'
            f'physical_package_id'])

    def _boot(self, policy: str) -> tuple[base.Seen, int]:
        """Boot a guest with the device.

        :returns: the server, and the device's node on its host, or -1
        """
        host, = self.pick(dedicated=1)
        # Which hosts have the device, only nova knows.
        server_id = self.start(None, self.flavor(1, self.specs_for(host, {
            **base.DEDICATED, 'hw:pci_numa_affinity_policy': policy,
            'pci_passthrough:alias': f'{CONF.pinning.pci_alias}:1'})))
        self.wait(server_id, 'ACTIVE')
        seen = self.check(server_id)
        address, = seen.guest.live.hostdevs
        node = int(self.commands.run(seen.host.name, [
            'cat', f'/sys/bus/pci/devices/{address}/numa_node']))
        return seen, node


class NetworkTest(base.PinningTest):
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
        super(base.PinningTest, cls).setup_credentials()

    def _boot(self, specs: dict[str, str]) -> base.Seen:
        host, = self.pick(dedicated=2)
        network = self.get_tenant_network(credentials_type='admin')
        return self.boot(host, 2, {**base.DEDICATED, **specs},
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
        own = seen.guest.live.emulator_pin or domain.NO_CPUS
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
