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

"""What host files add to the hosts of a snapshot.

The compute API tells nothing of a host's cells, and nova's database nothing
of its caches. Host files do.
"""

from collections.abc import Mapping
import dataclasses
import itertools

from nova_pinning import cpuset
from nova_pinning.fleet import model as fleet_model
from nova_pinning.host import engine
from nova_pinning.host import model as host_model
from nova_pinning import model


def l3_domains(
    description: host_model.HostDescription,
) -> tuple[cpuset.CpuSet, ...]:
    """The CPUs that share each last-level cache, () if that is not known.

    A domain that reaches over several nodes is given once.
    """
    return tuple(dict.fromkeys(itertools.chain.from_iterable(
        node.l3_domains for node in description.nodes)))


def cells(
    description: host_model.HostDescription,
) -> tuple[model.HostCell, ...]:
    """The cells that nova-compute would report, with nothing used."""
    found: list[model.HostCell] = []
    for cell in engine.engine_host(description).cells:
        assert isinstance(cell, model.HostCell)
        found.append(cell)
    return tuple(found)


def completed(
    hosts: tuple[fleet_model.FleetHost, ...],
    descriptions: Mapping[str, host_model.HostDescription],
) -> tuple[fleet_model.FleetHost, ...]:
    """The hosts with what nova's database does not have, if files tell.

    That is their L3 domains, and how much memory is kept from guests.

    :param descriptions: by the name of the compute service
    """
    return tuple(_completed(host, descriptions[host.name])
                 if host.name in descriptions else host for host in hosts)


def _completed(
    host: fleet_model.FleetHost, description: host_model.HostDescription,
) -> fleet_model.FleetHost:
    return dataclasses.replace(
        host, l3_domains=l3_domains(description),
        reserved_memory_mib=(description.nova.reserved_memory_mib
                             or host.reserved_memory_mib))
