# SPDX-License-Identifier: Apache-2.0
"""Guests that are told by their size alone."""

from nova_pinning.flavors import flavor_model
from nova_pinning.fleet import guest_request
from nova_pinning import model
from nova_pinning.model import hostclass
from nova_pinning.placement import inventory


def plain(
    vcpus: int, memory_mib: int,
    guest_class: hostclass.HostClass = hostclass.HostClass.DEDICATED,
    cells: int = 1, name: str = '',
) -> guest_request.GuestRequest:
    """A guest without wishes besides its size.

    It is what ``bridge.flavor_request`` makes of the flavor that it comes
    with, without a look at nova.

    :param cells: of a dedicated guest, over which it is spread evenly
    """
    name = name or f'{guest_class}-{vcpus}x{memory_mib}'
    topology, extra_specs = None, {}
    if guest_class is hostclass.HostClass.DEDICATED:
        size = vcpus // cells
        topology = model.Guest(
            cells=tuple(
                model.GuestCell(
                    tuple(range(number * size, (number + 1) * size)), (),
                    memory_mib // cells)
                for number in range(cells)),
            cpu_policy=model.CpuPolicy.DEDICATED)
        extra_specs = {'hw:cpu_policy': 'dedicated',
                       'hw:numa_nodes': str(cells)}
    return guest_request.GuestRequest(
        flavor=flavor_model.Flavor(
            name=name, vcpus=vcpus, memory_mib=memory_mib,
            extra_specs=extra_specs),
        guest_class=guest_class, topology=topology,
        queries=tuple(
            guest_request.PlacementQuery(resources=resources)
            for resources in inventory.resource_requests(
                vcpus, memory_mib, 0, topology)))
