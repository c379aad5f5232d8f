# SPDX-License-Identifier: Apache-2.0
"""What host files add to the hosts of a snapshot.

The compute API tells nothing of a host's cells, and nova's database nothing
of its caches. Host files do.
"""

from collections.abc import Mapping
import dataclasses

from nova_pinning.admission import offered_host
from nova_pinning.host import cache_capacity
from nova_pinning.host import host_model
from nova_pinning.host import host_offer


def completed(
    hosts: tuple[offered_host.OfferedHost, ...],
    descriptions: Mapping[str, host_model.HostDescription],
) -> tuple[offered_host.OfferedHost, ...]:
    """The hosts with what nova's database does not have, if files tell.

    That is their L3 domains, the ways of those that guests can have, and how
    much memory is kept from guests.

    :param descriptions: by the name of the compute service
    """
    return tuple(_completed(host, descriptions[host.name])
                 if host.name in descriptions else host for host in hosts)


def _completed(
    host: offered_host.OfferedHost, description: host_model.HostDescription,
) -> offered_host.OfferedHost:
    caches = cache_capacity.of_host(description)
    return dataclasses.replace(
        host, resources=host.resources or (caches.totals if caches else {}),
        l3_domains=host_offer.l3_domains(description),
        reserved_memory_mib=(description.nova.reserved_memory_mib
                             or host.reserved_memory_mib))
