# SPDX-License-Identifier: Apache-2.0
"""What Placement compares: inventories with what a guest takes.

As nova-compute reports its host (update_provider_tree in
nova/virt/libvirt/driver.py), as nova-scheduler asks for a guest
(nova.scheduler.utils.ResourceRequest) and as Placement compares
(get_providers_with_resource there).
"""

from collections.abc import Iterable
import dataclasses

import os_traits

from nova_pinning import model

VCPU = 'VCPU'
PCPU = 'PCPU'
MEMORY_MB = 'MEMORY_MB'
DISK_GB = 'DISK_GB'

#: The trait that shows in a host's CPUs themselves.
THREADS = os_traits.HW_CPU_HYPERTHREADING

#: Resource classes of which it is known how much a guest takes.
COUNTED = (VCPU, PCPU, MEMORY_MB, DISK_GB)


@dataclasses.dataclass(frozen=True, slots=True)
class Inventory:
    """How much of a resource class a host has, as Placement knows it.

    :param min_unit: the least that one provider gives one guest
    :param max_unit: the most; None for ``total``, as nova-compute reports it
    :param step_size: what it gives is a multiple of
    """

    total: int
    reserved: int = 0
    allocation_ratio: float = 1.0
    min_unit: int = 1
    max_unit: int | None = None
    step_size: int = 1

    @property
    def capacity(self) -> float:
        """What all guests together may have."""
        return (self.total - self.reserved) * self.allocation_ratio

    @property
    def most(self) -> int:
        """The most that one guest can have."""
        return self.total if self.max_unit is None else self.max_unit

    def free(self, used: int) -> int:
        """What further guests together can have, 0 for nothing."""
        return max(0, int(self.capacity) - used)

    def left(self, used: int) -> int:
        """The most that one more guest can have, 0 for nothing."""
        return min(self.free(used), self.most)

    def gives(self, amount: int, used: int) -> bool:
        """Whether one more guest can have so much.

        See _capacity_check_clause in placement/objects/research_context.py.
        """
        most = self.total if self.max_unit is None else self.max_unit
        return (self.min_unit <= amount <= most
                and amount % self.step_size == 0
                and used + amount
                <= (self.total - self.reserved) * self.allocation_ratio)


def host_inventories(
    host: model.Host, reserved_memory_mib: int = 0,
) -> dict[str, Inventory]:
    """What nova-compute reports of a host, by resource class, without disk.

    On a host where pinned and floating vCPUs use the same CPUs it reports
    VCPU only; of a host without cells nothing is known.

    :param reserved_memory_mib: kept from guests (reserved_host_memory_mb)
    """
    inventories = {}
    shared = sum(cell.shared_count for cell in host.cells)
    if shared:
        inventories[VCPU] = Inventory(
            shared, allocation_ratio=_ratio(host.cpu_allocation_ratio))
    if has_pcpus(host.cells):
        inventories[PCPU] = Inventory(
            sum(cell.dedicated_count for cell in host.cells))
    if host.cells:
        inventories[MEMORY_MB] = Inventory(
            sum(cell.memory_mib for cell in host.cells), reserved_memory_mib,
            _ratio(host.ram_allocation_ratio))
    return inventories


def has_pcpus(cells: Iterable[model.CellView]) -> bool:
    """Whether CPUs of a host are set aside for pinned vCPUs."""
    return any(cell.dedicated_count and not cell.is_legacy for cell in cells)


def _ratio(ratio: float | None) -> float:
    return 1.0 if ratio is None else ratio


def resource_requests(
    vcpus: int, memory_mib: int, disk_gib: int, topology: model.Guest | None,
) -> tuple[dict[str, int], ...]:
    """What nova-scheduler asks Placement for, by resource class.

    Hosts that have any of it are offered: first come those with PCPU, then,
    if all vCPUs are to be pinned, those with as many VCPU in its place.

    :param vcpus: all of them
    """
    return tuple(
        {name: amount for name, amount in {
            **cpus, MEMORY_MB: memory_mib, DISK_GB: disk_gib}.items()
         if amount} for cpus in _of_cpus(vcpus, topology))


def _of_cpus(vcpus: int,
             topology: model.Guest | None) -> list[dict[str, int]]:
    """The part of each query that is about CPUs."""
    queries = [{VCPU: vcpus}]
    if topology is not None and topology.is_pinned:
        pinned = sum([demand.dedicated for demand in topology.demands])
        emulator = sum([demand.emulator for demand in topology.demands])
        queries.insert(0, {PCPU: pinned + emulator, VCPU: vcpus - pinned})
        if topology.cpu_policy is model.CpuPolicy.MIXED:
            queries.pop()
    return queries


def allocation(
    vcpus: int, memory_mib: int, disk_gib: int, topology: model.Guest | None,
    *, on_pcpus: bool,
) -> dict[str, int]:
    """What a guest on a host is counted with, for all of COUNTED.

    :param on_pcpus: whether the host has an inventory of PCPU; guests come
        to others by the query with VCPU in its place
    """
    return {VCPU: 0, PCPU: 0, MEMORY_MB: memory_mib, DISK_GB: disk_gib,
            **_of_cpus(vcpus, topology)[0 if on_pcpus else -1]}
