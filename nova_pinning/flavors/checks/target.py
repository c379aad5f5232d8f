# SPDX-License-Identifier: Apache-2.0
"""Hosts to check flavors against, and what fills them.

Hosts of the same shape are looked at once.
"""

import collections
from collections.abc import Hashable
from collections.abc import Iterable
import dataclasses

from nova_pinning.admission import devices
from nova_pinning import cpuset
from nova_pinning import fit
from nova_pinning.fit import usage
from nova_pinning.host import cache_capacity
from nova_pinning.host import engine
from nova_pinning.host import host_model
from nova_pinning import model
from nova_pinning.placement import cache_resources
from nova_pinning.placement import inventory

_MAX_SHORTAGES = 3
_UNITS = {
    inventory.VCPU: 'shared CPUs', inventory.PCPU: 'dedicated CPUs',
    inventory.MEMORY_MB: 'MiB of memory',
    cache_resources.L3_WAYS: 'ways of L3 caches for guests',
    cache_resources.RESCTRL_GROUPS: 'groups of guests in resctrl'}


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class TargetHosts:
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
    def is_legacy(self) -> bool:
        """Whether pinned and floating guests use the same CPUs."""
        return all(cell.is_legacy for cell in self.host.cells)

    @property
    def dedicated_count(self) -> int:
        return sum(cell.dedicated_count for cell in self.host.cells)

    @property
    def inventories(self) -> dict[str, inventory.Inventory]:
        """What Placement knows of it."""
        totals = self.caches.totals if self.caches else {}
        return inventory.host_inventories(
            self.host, self.description.nova.reserved_memory_mib) | {
                name: inventory.Inventory(total)
                for name, total in totals.items()}

    @property
    def caches(self) -> cache_capacity.CacheCapacity | None:
        """What guests can have of its L3 caches, None if that is not told."""
        return cache_capacity.of_host(self.description)

    @property
    def pci_pools(self) -> tuple[devices.PciPool, ...]:
        """The devices that guests may ask for."""
        return tuple(
            devices.PciPool(keys, numa_node, count)
            for (keys, numa_node), count in collections.Counter(
                (_keys(self.description, device), device.numa_node)
                for device in self.description.pci_devices if device.alias
            ).items())

    def specs(self, alias: str) -> tuple[devices.Pairs, ...]:
        """What an alias stands for on the host."""
        return tuple(dict.fromkeys(
            _keys(self.description, device)
            for device in self.description.pci_devices
            if device.alias == alias))


def targets(
    descriptions: Iterable[host_model.HostDescription],
) -> tuple[TargetHosts, ...]:
    """Hosts, with those of the same shape taken together."""
    shapes: dict[Hashable, list[host_model.HostDescription]] = {}
    for description in descriptions:
        shapes.setdefault(_shape(description), []).append(description)
    return tuple(
        TargetHosts(alike[0], tuple(description.name for description in alike),
                    engine.engine_host(alike[0]))
        for alike in shapes.values())


def _shape(description: host_model.HostDescription) -> Hashable:
    nova = description.nova
    return (engine.engine_host(description), description.traits,
            nova.reserved_memory_mib, cache_capacity.of_host(description),
            tuple(
                (device.alias, _keys(description, device), device.numa_node)
                for device in description.pci_devices if device.alias))


def _keys(description: host_model.HostDescription,
          device: host_model.PciDevice) -> devices.Pairs:
    return devices.device_keys(device.vendor_id, device.product_id,
                               description.device_type(device))


@dataclasses.dataclass(frozen=True, slots=True)
class TargetRequest:
    """What a guest asks of a host.

    :param vcpus: as Placement counts them, pinned ones included
    :param memory_mib: as Placement counts it
    :param guest: None if it has no NUMA topology
    :param devices: (alias, count) of PCI devices
    :param pci_policy: their NUMA affinity
    :param names_pcpus: whether the flavor asks for PCPU itself, where nova
        asks for nothing else
    """

    vcpus: int
    memory_mib: int
    guest: model.Guest | None
    devices: tuple[tuple[str, int], ...] = ()
    pci_policy: str = 'legacy'
    names_pcpus: bool = False
    cache_amounts: tuple[tuple[str, int], ...] = ()

    @property
    def amounts(self) -> tuple[int, int, int, model.Guest | None]:
        """vCPUs, memory and disk, as Placement counts them, and topology."""
        return self.vcpus, self.memory_mib, 0, self.guest


def refusal(order: TargetRequest, target: TargetHosts) -> str:
    """Why a guest does not go on an empty host, '' if it does."""
    return _Filling(order, target).place()


@dataclasses.dataclass(frozen=True, slots=True)
class Fill:
    """A host filled with guests of one size.

    :param guests: how many there are
    :param unsold: dedicated CPUs that no guest has
    :param why: why there is no room for another one
    :param has_cpus: whether there are dedicated CPUs for it, so that it is
        something else that has run out
    """

    guests: int
    unsold: int
    why: str
    has_cpus: bool


def fill(order: TargetRequest, target: TargetHosts,
         companions: Iterable[TargetRequest] = (),
         may_stay: float = 0) -> Fill:
    """Put as many guests as fit on an empty host, one after the other.

    :param order: with vCPUs that are pinned, without which there is no end
    :param companions: guests that fill what is left then, each as often as
        it fits
    :param may_stay: unsold CPUs that are too few to go on for
    """
    filling = _Filling(order, target)
    guests = 0
    while not (why := filling.place()):
        guests += 1
    has_cpus = filling.has_cpus
    for companion in companions:
        if filling.unsold <= may_stay:
            break
        filling.turn_to(companion)
        while not filling.place():
            pass
    return Fill(guests, filling.unsold, why, has_cpus)


class _Filling:
    """A host while it fills up with guests of one size."""

    def __init__(self, order: TargetRequest, target: TargetHosts) -> None:
        self._order = order
        self._host = target.host
        self._inventories = target.inventories
        self._used = dict.fromkeys(
            (*inventory.COUNTED, *cache_resources.CLASSES), 0)
        self._pools = target.pci_pools
        self._requests = tuple(
            devices.PciRequest(
                alias, target.specs(alias), count, order.pci_policy)
            for alias, count in order.devices)

    def turn_to(self, order: TargetRequest) -> None:
        """Go on with guests of another size, without devices."""
        self._order = order
        self._requests = ()

    @property
    def unsold(self) -> int:
        return sum(cell.free_count for cell in self._host.cells)

    @property
    def has_cpus(self) -> bool:
        """Whether the free CPUs are enough for each cell of a guest."""
        guest = self._order.guest
        needed = sorted((demand.dedicated for demand in guest.demands),
                        reverse=True) if guest else []
        free = sorted((cell.free_count for cell in self._host.cells),
                      reverse=True)
        return all(have >= need for have, need in zip(free, needed))

    def place(self) -> str:
        """Place one more; returns why not, '' if it is placed."""
        lack = self._placement_refusal()
        # Once there are guests, what the cells lack says more.
        if lack and not any(self._used.values()):
            return lack
        short = '; '.join(
            devices.device_shortages(self._pools, self._requests))
        if short:
            return f'it has {short}'
        guest, cells = self._order.guest, self._host.cells
        outcome = model.Fit(()) if guest is None else fit.fit_guest(
            self._host, guest, pci=devices.check(
                self._pools, (), self._requests, cells))
        if isinstance(outcome, model.Refusal):
            return _in_short(outcome)
        if lack:
            return lack
        if guest is not None:
            self._host = usage.take(self._host, guest, outcome)
        taken = devices.take(
            self._pools, (), self._requests,
            [cell.host_cell for cell in outcome.cells], cells)
        if taken is None:
            return str(model.Refusal(model.Reason.PCI))
        self._pools = devices.free(self._pools, taken)
        for name, amount in inventory.allocation(
                *self._order.amounts,
                on_pcpus=inventory.PCPU in self._inventories).items():
            self._used[name] += amount
        for name, amount in self._order.cache_amounts:
            self._used[name] += amount
        return ''

    def _placement_refusal(self) -> str:
        """What Placement has too little of, '' if any query finds the host."""
        lacks = []
        queries = inventory.resource_requests(*self._order.amounts)
        if self._order.names_pcpus:
            queries = queries[:1]
        for query in queries:
            lack = next(inventory.resource_shortages(
                self._inventories, self._used,
                query | dict(self._order.cache_amounts)), None)
            if lack is None:
                return ''
            lacks.append(lack)
        have, name, need = lacks[0].have, lacks[0].name, lacks[0].need
        left = ' left in Placement' if any(self._used.values()) else ''
        return f'it has {have} {_UNITS[name]}{left}, {need} needed'


def _in_short(refusal: model.Refusal) -> str:
    """A refusal, with host cells that lack the same taken together."""
    cells: dict[str, list[int]] = {}
    for shortage in refusal.shortages:
        lack = str(shortage).removeprefix(f'cell {shortage.host_cell} has ')
        cells.setdefault(lack, []).append(shortage.host_cell)
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
