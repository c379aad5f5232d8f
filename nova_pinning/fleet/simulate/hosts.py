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

"""What nova-scheduler would know of a host of a fleet."""

import collections
from collections.abc import Iterable
from collections.abc import Mapping

from nova_pinning.fleet import model as fleet_model
from nova_pinning.model import hostclass
from nova_pinning.placement import traits as placement_traits


def host_class(
    host: fleet_model.FleetHost, unknown: str = 'allow',
) -> hostclass.HostClass | None:
    """The class that HostClassFilter takes a host to be of.

    :param unknown: [pinning] unknown_host_class
    :returns: None if nothing tells
    """
    if host.host_class is not None:
        return host.host_class
    found = fleet_model.class_of_cells(host.cells)
    if found is None and unknown in ('dedicated', 'shared'):
        return hostclass.HostClass(unknown)
    return found


def l3_cpus(
    host: fleet_model.FleetHost,
    aggregates: Mapping[str, fleet_model.Aggregate],
) -> int | None:
    """The host CPUs in each L3 domain, None if nothing tells.

    What aggregates say counts first, then traits, then the domains that the
    host is known to have: those of the size that most of them have.
    """
    said = min(_from_aggregates(host, aggregates), default=None)
    if said is None:
        said = placement_traits.l3_cpus(host.traits or ())
    if said is not None or not host.l3_domains:
        return said
    sizes = collections.Counter(map(len, host.l3_domains))
    return max(sizes, key=lambda size: (sizes[size], size))


def _from_aggregates(
    host: fleet_model.FleetHost,
    aggregates: Mapping[str, fleet_model.Aggregate],
) -> Iterable[int]:
    for name in host.aggregates:
        if name in aggregates:
            said = placement_traits.parse_l3_cpus(
                aggregates[name].metadata.get(placement_traits.L3_KEY, ''))
            if said is not None:
                yield said
