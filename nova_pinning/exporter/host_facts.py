# SPDX-License-Identifier: Apache-2.0
"""What a host adds to the sums over a fleet."""

import collections
from collections.abc import Collection
from collections.abc import Sequence
import enum
from typing import TypeAlias

from nova_pinning.admission import host_occupancy
from nova_pinning.fleet import snapshot
from nova_pinning.model import hostclass
from nova_pinning.presentation import capacity_report
from nova_pinning import units

#: The label of flavors that are not counted one by one.
OTHER = 'other'


class FleetFact(enum.Enum):
    """What is summed, with the labels that it has in :data:`FactSums`."""

    #: class of hosts; enabled or disabled
    HOSTS = enum.auto()
    #: class of hosts, class of guests
    GUESTS = enum.auto()
    #: flavor
    FLAVOR_GUESTS = enum.auto()
    #: class of hosts, for these five
    DEDICATED_CPUS = enum.auto()
    PINNED_CPUS = enum.auto()
    SHARED_CPUS = enum.auto()
    FLOATING_VCPUS = enum.auto()
    MEMORY_BYTES = enum.auto()
    GUEST_MEMORY_BYTES = enum.auto()
    #: class of hosts, page size in KiB
    PAGE_BYTES = enum.auto()
    USED_PAGE_BYTES = enum.auto()


#: Sums by fact and labels: ``{(FleetFact.HOSTS, 'dedicated', 'enabled'): 4}``
FactSums: TypeAlias = collections.Counter[tuple[FleetFact | str | int, ...]]


def of_host(occupancy: host_occupancy.HostOccupancy,
            flavors: Collection[str]) -> FactSums:
    """What one host adds.

    :param flavors: names of those that are counted one by one
    """
    host = occupancy.host
    name = capacity_report.class_name(host.host_class)
    facts: FactSums = collections.Counter()
    facts[FleetFact.HOSTS, name,
          'enabled' if host.is_enabled else 'disabled'] += 1
    facts[FleetFact.DEDICATED_CPUS, name] += host.dedicated_count
    facts[FleetFact.SHARED_CPUS, name] += host.shared_count
    facts[FleetFact.MEMORY_BYTES, name] += (
        host.memory_mib * units.BYTES_PER_MIB)
    _add_guests(facts, name, occupancy.guests, flavors)
    for cell in occupancy.engine.cells:
        facts[FleetFact.PINNED_CPUS, name] += len(cell.pinned_cpus)
        for pool in cell.pages:
            page_bytes = pool.size_kib * units.BYTES_PER_KIB
            facts[FleetFact.PAGE_BYTES, name, pool.size_kib] += (
                pool.total * page_bytes)
            facts[FleetFact.USED_PAGE_BYTES, name, pool.size_kib] += (
                pool.used * page_bytes)
    return facts


def _add_guests(facts: FactSums, name: str,
                guests: Sequence[snapshot.FleetGuest],
                flavors: Collection[str]) -> None:
    for guest in guests:
        facts[FleetFact.GUESTS, name, str(guest.guest_class)] += 1
        facts[FleetFact.FLAVOR_GUESTS,
              guest.flavor if guest.flavor in flavors else OTHER] += 1
        facts[FleetFact.GUEST_MEMORY_BYTES, name] += (
            guest.memory_mib * units.BYTES_PER_MIB)
        pinned = 0
        if guest.topology is not None and guest.topology.is_pinned:
            pinned = sum(len(cell.dedicated_vcpus)
                         for cell in guest.topology.cells)
        facts[FleetFact.FLOATING_VCPUS, name] += guest.vcpus - pinned


def zeros(flavors: Collection[str]) -> FactSums:
    """Zero for all labels that are known beforehand.

    A series that comes and goes is one that an alert misses.
    """
    facts: FactSums = collections.Counter()
    for host_class in (*hostclass.HostClass, None):
        name = capacity_report.class_name(host_class)
        for state in ('enabled', 'disabled'):
            facts[FleetFact.HOSTS, name, state] = 0
        for guest_class in hostclass.HostClass:
            facts[FleetFact.GUESTS, name, str(guest_class)] = 0
        for fact in (FleetFact.DEDICATED_CPUS, FleetFact.PINNED_CPUS,
                     FleetFact.SHARED_CPUS, FleetFact.FLOATING_VCPUS,
                     FleetFact.MEMORY_BYTES, FleetFact.GUEST_MEMORY_BYTES):
            facts[fact, name] = 0
    for flavor in (*flavors, OTHER):
        facts[FleetFact.FLAVOR_GUESTS, flavor] = 0
    return facts
