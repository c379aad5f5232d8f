# SPDX-License-Identifier: Apache-2.0
"""Requests as nova-scheduler receives them."""

# nova.objects has its classes only once they are registered.
from __future__ import annotations

import typing as ty

from nova import context
from nova import objects

from nova_pinning.admission import devices
from nova_pinning.admission import pci_alias
from nova_pinning.bridge.offline import flavor_request
from nova_pinning.flavors import flavor_model
from nova_pinning.tests.oracle import nova_replay

DISK_GIB = 20

# The devices that guests ask for, and others that only stand in the way.
VENDOR_ID = '10de'
WANTED_PRODUCT = '20b5'
OTHER_PRODUCT = '1eb8'
# All of them near the guest.
_ALIASES = {'gpu': pci_alias.PciAlias(
    (devices.device_keys(VENDOR_ID, WANTED_PRODUCT),), 'required')}


class Request:
    """One flavor's request, from which any number of specs can be made.

    :param devices: how many PCI devices of one alias the flavor asks for
    """

    def __init__(self, vcpus: int, memory_mib: int,
                 extra_specs: dict[str, str], devices: int = 0) -> None:
        self.vcpus = vcpus
        self.memory_mib = memory_mib
        self._context = context.RequestContext(
            user_id='benchmark', project_id='benchmark', is_admin=False)
        if devices:
            extra_specs = {**extra_specs,
                           'pci_passthrough:alias': f'gpu:{devices}'}
        spec = nova_replay.request_spec(
            flavor_request.request_for(flavor_model.Flavor(
                name='benchmark', vcpus=vcpus, memory_mib=memory_mib,
                disk_gib=DISK_GIB, extra_specs=extra_specs), {}, _ALIASES),
            self._context)
        # A guest on an ordinary tenant network.
        spec.network_metadata = objects.NetworkMetadata(
            physnets=set(), tunneled=True)
        self._primitive = spec.obj_to_primitive()

    def spec(self) -> objects.RequestSpec:
        """Return a new spec, as it comes off the message bus."""
        return objects.RequestSpec.obj_from_primitive(
            self._primitive, self._context)

    def candidate(self, provider: str, resource_class: str = 'PCPU',
                  ) -> dict[str, ty.Any]:
        """Return Placement's allocation candidate for a host."""
        return {
            'allocations': {provider: {'resources': {
                resource_class: self.vcpus, 'MEMORY_MB': self.memory_mib,
                'DISK_GB': DISK_GIB}}},
            'mappings': {'': [provider]}}
