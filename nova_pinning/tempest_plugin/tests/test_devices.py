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

import ddt
from tempest import config

from nova_pinning.tempest_plugin import base
from nova_pinning.tempest_plugin import checks

CONF = config.CONF


@ddt.ddt
class PciTest(base.PinningTest):
    """A PCI device near a guest, or not."""

    @classmethod
    def skip_checks(cls) -> None:
        super().skip_checks()
        if not CONF.pinning.pci_alias:
            raise cls.skipException('no [pinning] pci_alias in tempest.conf')

    @ddt.data('required', 'legacy', 'preferred', 'socket')
    def test_affinity(self, policy: str) -> None:
        """The domain has the device, on the guest's node where that is a must.

        Which host has one, the scheduler knows.
        """
        host, = self.pick(dedicated=1, where=self._has_device,
                          what='and the PCI device of the alias')
        seen = self.boot(host, 1, {
            **base.DEDICATED, 'hw:pci_numa_affinity_policy': policy,
            'pci_passthrough:alias': f'{CONF.pinning.pci_alias}:1'})
        address, = seen.guest.live.hostdevs
        node = int(self.commands.run(
            host.name,
            ['cat', f'/sys/bus/pci/devices/{address}/numa_node']))
        cell, = seen.kept.cells
        if policy == 'required':
            self.assertEqual(cell.host_node, node)
        elif policy == 'legacy' and node >= 0:
            # Legacy tolerates devices that belong to no node, no others.
            self.assertEqual(cell.host_node, node)
