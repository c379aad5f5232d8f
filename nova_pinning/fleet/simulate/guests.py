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

"""Guests that are told by their size alone."""

from nova_pinning.flavors import model as flavor_model
from nova_pinning.fleet import wanted as fleet_wanted
from nova_pinning import model
from nova_pinning.model import hostclass


def plain(
    vcpus: int,
    memory_mib: int,
    guest_class: hostclass.HostClass = hostclass.HostClass.DEDICATED,
    cells: int = 1,
    name: str = '',
) -> fleet_wanted.Wanted:
    """A guest without wishes besides its size.

    It is what ``bridge.wanted`` makes of the flavor that it comes with,
    without a look at nova.

    :param cells: of a dedicated guest, over which it is spread evenly
    """
    name = name or f'{guest_class}-{vcpus}x{memory_mib}'
    resources = {'MEMORY_MB': memory_mib}
    if guest_class is hostclass.HostClass.SHARED:
        return fleet_wanted.Wanted(
            flavor=flavor_model.Flavor(
                name=name, vcpus=vcpus, memory_mib=memory_mib),
            guest_class=guest_class, topology=None,
            queries=(fleet_wanted.Query(
                resources={'VCPU': vcpus, **resources}),))
    size = vcpus // cells
    return fleet_wanted.Wanted(
        flavor=flavor_model.Flavor(
            name=name, vcpus=vcpus, memory_mib=memory_mib,
            extra_specs={'hw:cpu_policy': 'dedicated',
                         'hw:numa_nodes': str(cells)}),
        guest_class=guest_class,
        topology=model.Guest(
            cells=tuple(
                model.GuestCell(
                    tuple(range(number * size, (number + 1) * size)), (),
                    memory_mib // cells)
                for number in range(cells)),
            cpu_policy=model.CpuPolicy.DEDICATED),
        queries=(
            fleet_wanted.Query(resources={'PCPU': vcpus, **resources}),
            fleet_wanted.Query(resources={'VCPU': vcpus, **resources})))
