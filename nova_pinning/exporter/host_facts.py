# SPDX-License-Identifier: Apache-2.0
"""What a host adds to the sums over a fleet."""

import collections
from collections.abc import Collection
from collections.abc import Iterable
from collections.abc import Sequence
import enum
from typing import TypeAlias

from nova_pinning.admission import host_occupancy
from nova_pinning.admission import l3_layout
from nova_pinning.admission import resident_guest
from nova_pinning.model import hostclass
from nova_pinning.presentation import capacity_report
from nova_pinning import units

#: The label of flavors that are not counted one by one.
OTHER = 'other'


class FleetFact(enum.Enum):
    """What is summed, as a metric: its name, its help and its labels.

    Labels come in the order that they have in :data:`FactSums`.
    """

    def __init__(self, metric: str, help_text: str, *labels: str) -> None:
        self.metric = metric
        self.help_text = help_text
        self.labels = labels

    HOSTS = (
        'hosts', 'Hosts, by class and whether nova-scheduler may choose them',
        'class', 'state')
    GUESTS = (
        'guests', 'Guests, by the class of their host and their own; where '
        'the two differ the hosts are not kept apart', 'class', 'guest_class')
    FLAVOR_GUESTS = (
        'flavor_guests', 'Guests by flavor; other for flavors that are not '
        'counted', 'flavor')
    RESERVE_HOSTS = (
        'reserve_hosts', 'Hosts that are kept for guests of lost hosts, by '
        'aggregate and whether they are free, used by guests, or disabled',
        'reserve', 'state')
    DEDICATED_CPUS = (
        'dedicated_cpus', 'CPUs that pinned guests can have', 'class')
    PINNED_CPUS = 'pinned_cpus', 'CPUs that guests are pinned to', 'class'
    SHARED_CPUS = 'shared_cpus', 'CPUs that floating guests share', 'class'
    FLOATING_VCPUS = (
        'floating_vcpus', 'vCPUs of guests that float over shared CPUs',
        'class')
    CACHES = (
        'l3_caches', 'L3 caches of pinned guests, counted for each guest of '
        'which they are known', 'class')
    FEWEST_CACHES = (
        'fewest_l3_caches', 'The fewest that would do for these guests',
        'class')
    MEMORY_BYTES = (
        'memory_bytes', 'Memory of hosts in all NUMA cells', 'class')
    GUEST_MEMORY_BYTES = (
        'guest_memory_bytes', 'Memory that guests were sold', 'class')
    PAGE_BYTES = (
        'page_bytes', 'Memory in pages of a size', 'class', 'page_size_kib')
    USED_PAGE_BYTES = (
        'used_page_bytes', 'Memory in pages of a size that guests with page '
        'size or NUMA cells have', 'class', 'page_size_kib')


#: Sums by fact and labels: ``{(FleetFact.HOSTS, 'dedicated', 'enabled'): 4}``
FactSums: TypeAlias = collections.Counter[tuple[FleetFact | str | int, ...]]


def of_host(occupancy: host_occupancy.HostOccupancy,
            flavors: Collection[str], reserves: Iterable[str],
            layouts: l3_layout.L3Layouts) -> FactSums:
    """What one host adds.

    :param flavors: names of those that are counted one by one
    :param reserves: names of the aggregates that it is kept by
    """
    host = occupancy.host
    name = capacity_report.class_name(host.host_class)
    facts: FactSums = collections.Counter()
    facts[FleetFact.HOSTS, name,
          'enabled' if host.is_enabled else 'disabled'] += 1
    for reserve in reserves:
        facts[FleetFact.RESERVE_HOSTS, reserve,
              'disabled' if not host.is_enabled else
              'used' if occupancy.guests else 'free'] += 1
    facts[FleetFact.DEDICATED_CPUS, name] += host.dedicated_count
    facts[FleetFact.SHARED_CPUS, name] += host.shared_count
    facts[FleetFact.MEMORY_BYTES, name] += (
        host.memory_mib * units.BYTES_PER_MIB)
    _add_guests(facts, name, occupancy.guests, flavors)
    caches = l3_layout.total(layouts.caches(host, guest.topology, guest.fit)
                             for guest in occupancy.guests)
    facts[FleetFact.CACHES, name] += caches.caches
    facts[FleetFact.FEWEST_CACHES, name] += caches.fewest
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
                guests: Sequence[resident_guest.ResidentGuest],
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


def zeros(flavors: Collection[str],
          reserves: Iterable[str] = ()) -> FactSums:
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
        for fact in FleetFact:
            if fact.labels == ('class',):
                facts[fact, name] = 0
    for flavor in (*flavors, OTHER):
        facts[FleetFact.FLAVOR_GUESTS, flavor] = 0
    for reserve in reserves:
        for state in ('free', 'used', 'disabled'):
            facts[FleetFact.RESERVE_HOSTS, reserve, state] = 0
    return facts
