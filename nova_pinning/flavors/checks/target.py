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

"""Hosts to check flavors against, and what fills them.

Hosts of the same shape are looked at once.
"""

from collections.abc import Hashable
from collections.abc import Iterable
from collections.abc import Sequence
import dataclasses

from nova_pinning import cpuset
from nova_pinning import fit
from nova_pinning.host import engine
from nova_pinning.host import model as host_model
from nova_pinning import model

_MAX_SHORTAGES = 3


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Target:
    """Hosts that do not differ in anything that matters to a flavor.

    :param description: of one of them
    :param names: of all of them
    :param host: as the engine takes it, empty
    """

    description: host_model.HostDescription
    names: tuple[str, ...]
    host: model.Host

    @property
    def title(self) -> str:
        """How to call them in a message."""
        if len(self.names) == 1:
            return f'host {self.names[0]}'
        return f'host {self.names[0]} and {len(self.names) - 1} alike'

    @property
    def has_threads(self) -> bool:
        """Whether CPUs for pinned guests share cores."""
        return any(size > 1 for cell in self.host.cells
                   for size in cell.core_sizes)

    @property
    def reports_threads(self) -> bool:
        """Whether nova-compute reports hardware threads as a trait."""
        return any(len(core) > 1 for node in self.description.nodes
                   for core in node.cores)

    @property
    def is_legacy(self) -> bool:
        """Whether pinned and floating guests use the same CPUs."""
        return all(cell.is_legacy for cell in self.host.cells)

    @property
    def dedicated_count(self) -> int:
        return sum(cell.dedicated_count for cell in self.host.cells)

    @property
    def shared_count(self) -> int:
        return sum(cell.shared_count for cell in self.host.cells)

    @property
    def memory_mib(self) -> int:
        """All memory, as Placement has it in its inventory."""
        return sum(node.memory_mib for node in self.description.nodes)

    @property
    def memory_limit_mib(self) -> int:
        """How much of it Placement gives to all guests together."""
        nova = self.description.nova
        return int((self.memory_mib - nova.reserved_memory_mib)
                   * nova.ram_allocation_ratio)


def targets(
    descriptions: Iterable[host_model.HostDescription],
) -> tuple[Target, ...]:
    """Hosts, with those of the same shape taken together."""
    shapes: dict[Hashable, list[host_model.HostDescription]] = {}
    for one in descriptions:
        shapes.setdefault(_shape(one), []).append(one)
    return tuple(
        Target(alike[0], tuple(one.name for one in alike),
               engine.engine_host(alike[0]))
        for alike in shapes.values())


def _shape(description: host_model.HostDescription) -> Hashable:
    nova = description.nova
    return (engine.engine_host(description), description.traits,
            nova.reserved_memory_mib, tuple(
                (device.alias, device.numa_node)
                for device in description.pci_devices))


@dataclasses.dataclass(frozen=True, slots=True)
class Order:
    """What a guest asks of a host.

    :param vcpus: as Placement counts them, pinned ones included
    :param memory_mib: as Placement counts it
    :param guest: None if it has no NUMA topology
    :param devices: (alias, count) of PCI devices
    :param pci_policy: their NUMA affinity, '' for nova's default
    """

    vcpus: int
    memory_mib: int
    guest: model.Guest | None
    devices: tuple[tuple[str, int], ...] = ()
    pci_policy: str = ''


class Devices:
    """The PCI devices that a host has left; a fit.PciCheck.

    As nova.pci.stats judges them. Devices that nova keeps for other uses
    (SR-IOV, vDPA) are not told apart.

    :param left: (alias, NUMA node) each
    """

    def __init__(self, order: Order, host: model.Host,
                 left: Sequence[tuple[str, int | None]]) -> None:
        self._order = order
        self._sockets = {cell.id: getattr(cell, 'socket', None)
                         for cell in host.cells}
        self.left = list(left)
        self.is_requested = bool(order.devices)

    def device_count(self, cell_id: int) -> int:
        return sum(node == cell_id for _alias, node in self.left)

    def label(self, cell: model.CellView) -> Hashable:
        return (self._sockets.get(cell.id), tuple(
            sum(one == (alias, cell.id) for one in self.left)
            for alias, _count in self._order.devices))

    def supports(self, cell_ids: tuple[int, ...]) -> bool:
        return all(
            len(self._usable(alias, cell_ids)) >= count
            for alias, count in self._order.devices)

    def take(self, cell_ids: tuple[int, ...]) -> None:
        """Take what the guest asks for, devices near it first."""
        for alias, count in self._order.devices:
            usable = self._usable(alias, cell_ids)
            for one in sorted(usable, key=lambda one: one[1] not in cell_ids)[
                    :count]:
                self.left.remove(one)

    def shortage(self) -> str:
        """What the host has too few of wherever they are, or ''."""
        for alias, count in self._order.devices:
            have = sum(one == alias for one, _node in self.left)
            if have < count:
                return (f'{have} PCI devices with alias "{alias}", {count} '
                        'needed')
        return ''

    def _usable(self, alias: str, cell_ids: tuple[int, ...],
                ) -> list[tuple[str, int | None]]:
        return [one for one in self.left
                if one[0] == alias and self._is_near(one[1], cell_ids)]

    def _is_near(self, node: int | None, cell_ids: tuple[int, ...]) -> bool:
        policy = self._order.pci_policy
        if not cell_ids or policy == 'preferred' or node in cell_ids:
            return True
        if policy == 'required' or (policy == 'socket' and node is None):
            return False
        if policy == 'socket':
            socket = self._sockets.get(node) if node is not None else None
            return socket is not None and socket in {
                self._sockets.get(one) for one in cell_ids}
        return node is None


def refusal(order: Order, target: Target) -> str:
    """Why a guest does not go on an empty host, '' if it does."""
    return (_placement_refusal(order, target)
            or _Filling(order, target).place())


@dataclasses.dataclass(frozen=True, slots=True)
class Fill:
    """A host filled with guests of one size.

    :param guests: how many there are
    :param unsold: dedicated CPUs that no guest has
    :param why: why there is no room for another one
    """

    guests: int
    unsold: int
    why: str


def fill(order: Order, target: Target) -> Fill:
    """Put as many guests as fit on an empty host, one after the other.

    :param order: with vCPUs that are pinned, without which there is no end
    """
    filling = _Filling(order, target)
    guests = 0
    while True:
        if (guests + 1) * order.memory_mib > target.memory_limit_mib:
            why = 'the memory that Placement gives away is used up'
            break
        why = filling.place()
        if why:
            break
        guests += 1
    return Fill(guests, filling.unsold, why)


def _placement_refusal(order: Order, target: Target) -> str:
    """What Placement has too little of on the host, in all or for one guest.

    See update_provider_tree of nova.virt.libvirt.driver.LibvirtDriver, and
    nova.scheduler.utils.ResourceRequest.
    """
    ratio = target.description.nova.cpu_allocation_ratio
    for name, total, limit, need in _resources(order, target, ratio):
        if need > min(total, limit):
            return f'it has {min(total, limit)} {name}, {need} needed'
    return ''


def _resources(order: Order, target: Target, ratio: float,
               ) -> Iterable[tuple[str, int, int, int]]:
    shared = target.shared_count
    pinned = 0
    if order.guest and order.guest.is_pinned:
        pinned = sum(one.dedicated + one.emulator
                     for one in order.guest.demands)
    floating = order.vcpus - sum(
        one.dedicated for one in order.guest.demands
    ) if order.guest else order.vcpus
    dedicated = target.dedicated_count
    if target.is_legacy and order.guest and (
            order.guest.cpu_policy is model.CpuPolicy.MIXED):
        # Placement has no PCPU there, and nova asks for VCPU in their place
        # only for guests all of whose vCPUs are pinned.
        dedicated = 0
    yield 'shared CPUs', shared, int(shared * ratio), floating
    yield 'dedicated CPUs', dedicated, dedicated, pinned
    yield ('MiB of memory', target.memory_mib, target.memory_limit_mib,
           order.memory_mib)


class _Filling:
    """A host while it fills up with guests of one size."""

    def __init__(self, order: Order, target: Target) -> None:
        self._order = order
        self._host = target.host
        self._devices = Devices(order, target.host, [
            (device.alias, device.numa_node)
            for device in target.description.pci_devices])

    @property
    def unsold(self) -> int:
        return sum(cell.free_count for cell in self._host.cells)

    def place(self) -> str:
        """Place one more; returns why not, '' if it is placed."""
        short = self._devices.shortage()
        if short:
            return f'it has {short}'
        if not self._order.guest:
            self._devices.take(())
            return ''
        outcome = fit.fit(self._host, self._order.guest, pci=self._devices)
        if isinstance(outcome, model.Refusal):
            return _in_short(outcome)
        cells = {cell.id: cell for cell in self._host.cells}
        for found, demand in zip(outcome.cells, self._order.guest.demands):
            cells[found.host_cell] = _occupied(
                cells[found.host_cell], found, demand,
                self._order.guest.thread_policy)
        self._host = self._host._replace(cells=tuple(cells.values()))
        self._devices.take(tuple(one.host_cell for one in outcome.cells))
        return ''


def _in_short(refusal: model.Refusal) -> str:
    """A refusal, with host cells that lack the same taken together."""
    cells: dict[str, list[int]] = {}
    for one in refusal.shortages:
        lack = str(one).removeprefix(f'cell {one.host_cell} has ')
        cells.setdefault(lack, []).append(one.host_cell)
    if not cells:
        return str(refusal)
    told = [
        f'{"cell" if len(ids) == 1 else "cells"} {cpuset.CpuSet(ids)} '
        f'{"has" if len(ids) == 1 else "have"} {lack}'
        for lack, ids in list(cells.items())[:_MAX_SHORTAGES]]
    if len(cells) > _MAX_SHORTAGES:
        told.append('and so on')
    if refusal.guest_cell:
        told[0] = f'for guest cell {refusal.guest_cell}: {told[0]}'
    return '; '.join(told)


def _occupied(cell: model.CellView, found: model.CellFit,
              demand: model.Demand,
              policy: model.ThreadPolicy) -> model.HostCell:
    """The host cell with one more guest cell on it.

    See nova.virt.hardware.numa_usage_from_instance_numa.
    """
    assert isinstance(cell, model.HostCell)
    taken = {cpu for _vcpu, cpu in found.pins} | set(found.emulator_cpus)
    if policy is model.ThreadPolicy.ISOLATE:
        taken = {cpu for core in cell.cores if taken & set(core)
                 for cpu in core}
    smallest = cell.smallest_pages
    size_kib = found.page_size_kib or (smallest.size_kib if smallest else 0)
    return dataclasses.replace(
        cell,
        pinned_cpus=cell.pinned_cpus | cpuset.CpuSet(taken),
        memory_used_mib=cell.memory_used_mib + demand.memory_mib,
        shared_used=cell.shared_used + demand.shared,
        pages=tuple(
            pool._replace(
                used=pool.used + demand.memory_mib * 1024 // pool.size_kib)
            if pool.size_kib == size_kib else pool for pool in cell.pages))
