# SPDX-License-Identifier: Apache-2.0
"""Hosts with their guests for the page's document."""

import collections
from collections.abc import Hashable
from collections.abc import Iterable
import dataclasses
from typing import Any

from nova_pinning.admission import device_room
from nova_pinning.admission import devices
from nova_pinning.admission import guest_request
from nova_pinning.admission import host_occupancy
from nova_pinning.admission import l3_layout
from nova_pinning.admission import offered_host
from nova_pinning.admission import resident_guest
from nova_pinning.capacity import count
from nova_pinning.capacity import stranded
from nova_pinning import cpuset
from nova_pinning.document import cpu_sequence
from nova_pinning.fit import usage
from nova_pinning.fleet import snapshot
from nova_pinning import model
from nova_pinning.presentation import capacity_report
from nova_pinning.presentation import drawing
from nova_pinning.presentation import fleet_host_picture
from nova_pinning.presentation import host_structure
from nova_pinning import spelling

_Json = dict[str, Any]


class _Numbers(dict[str, int]):
    """Texts that are written once, by their numbers."""

    def of(self, text: str) -> int:
        """The number of a text."""
        return self.setdefault(spelling.printable(text), len(self))


class HostWriter:
    """Writes hosts, and keeps what many of them share in tables."""

    def __init__(self, fleet: snapshot.Fleet) -> None:
        self._aliases = {
            devices.kind(spec): name for name, alias
            in fleet.pci_aliases.items() for spec in alias.specs}
        self._classes, self._aggregates, self._flavors = (
            _Numbers(), _Numbers(), _Numbers())
        self._layouts = l3_layout.L3Layouts({
            aggregate.name: aggregate for aggregate in fleet.aggregates})
        self._shapes: dict[Hashable, int] = {}
        self._shape_values: list[_Json] = []

    def tables(self) -> _Json:
        """What hosts refer to by number."""
        return {
            'classes': list(self._classes),
            'aggregates': list(self._aggregates),
            'guest_flavors': list(self._flavors),
            'shapes': self._shape_values}

    def host(self, occupancy: host_occupancy.HostOccupancy) -> _Json:
        """A host with its guests."""
        host = occupancy.host
        cells = {cell.id: cell for cell in host.cells}
        found: _Json = {
            'name': spelling.printable(host.name),
            'shape': self._shape(host),
            'class': self._class(host.host_class),
            'guests': [self._guest(guest, cells, self._layouts.caches(
                host, guest.topology, guest.fit))
                for guest in occupancy.guests],
            # In nova's order, as in the shape.
            'cells': [_cell(cell) for cell in occupancy.engine.cells]}
        if host.aggregates:
            found['aggregates'] = [
                self._aggregates.of(name) for name in host.aggregates]
        if not host.is_enabled:
            found['disabled'] = spelling.printable(
                host.disabled_reason or 'no reason given')
        if host.gaps:
            found['gaps'] = [spelling.printable(gap.text)
                             for gap in host.gaps]
        return found

    def devices(
        self, occupancy: host_occupancy.HostOccupancy,
        found: stranded.StrandedResources,
        requests: Iterable[guest_request.GuestRequest],
    ) -> list[list[Any]]:
        """The devices of a host that go by one name, node and group.

        :param found: what is stranded of it
        :param requests: one guest of each flavor on sale
        :returns: of each these three, how many there are, how many are free,
            and how many of those are stranded for which cause
        """
        pools = occupancy.host.pci_pools
        left = devices.left(pools, occupancy.device_uses)
        on_sale = device_room.on_sale(requests, occupancy)
        sold = {alias for alias, _free in on_sale.values()}
        rows: dict[tuple[str, int | None, str], list[int]] = {}
        for place, pool in enumerate(pools):
            # What no flavor asks for is no more of what one does.
            name = self._device(pool.kind)
            name, free = on_sale.get(place) or (
                pool.kind if name in sold else name, left.get(place, 0))
            counts = rows.setdefault(
                (name, pool.numa_node, device_room.group_traits(
                    pool, occupancy.providers)), [0, 0])
            counts[0] += pool.total
            counts[1] += free
        causes = list(count.CapacityCause)
        return [[spelling.printable(name), node, traits, *counts, [
            [causes.index(cause), number]
            for (group, cause), number in found.devices.items()
            if group == (name, node, traits)]]
            for (name, node, traits), counts in rows.items()]

    def _class(self, host_class: object) -> int:
        return self._classes.of(capacity_report.class_name(host_class))

    def _device(self, kind: str) -> str:
        return spelling.printable(self._aliases.get(kind, kind))

    def _guest(self, guest: resident_guest.ResidentGuest,
               cells: dict[int, model.HostCell],
               caches: l3_layout.GuestCaches | None) -> list[Any]:
        """Its name, flavor, vCPUs, MiB, class, cells, UUID, and maybe devices
        and L3 caches.
        """
        counts = collections.Counter[str]()
        for use in guest.devices:
            counts[self._device(use.kind)] += use.count
        devices_text = ', '.join(
            f'{number} × {name}' for name, number in counts.items())
        return [
            spelling.printable(guest.name or guest.uuid),
            self._flavors.of(guest.flavor or 'flavor not known'),
            guest.vcpus, guest.memory_mib, self._class(guest.guest_class),
            list(placed(guest.topology, guest.fit, cells)), guest.uuid,
            *([devices_text, *(caches or ())]
              if devices_text or caches else [])]

    def _shape(self, host: offered_host.OfferedHost) -> int:
        key = host.cells, host.l3_domains
        number = self._shapes.setdefault(key, len(self._shapes))
        if number == len(self._shape_values):
            self._shape_values.append(_shape(host))
        return number


def placed(
    topology: model.Guest | None, fit: model.Fit | None,
    cells: dict[int, model.HostCell],
) -> Iterable[list[Any]]:
    """Where a guest is: for each of its cells that of the host, CPUs, vCPUs.

    The CPUs of its vCPUs, in their order; the vCPUs, '' if all and in order;
    and what else it keeps from others.
    """
    if topology is None or fit is None:
        return
    for guest_cell, cell_fit in zip(topology.cells, fit.cells):
        pins = sorted(cell_fit.pins)
        cpus = tuple(cpu for _vcpu, cpu in pins)
        taken = cpuset.CpuSet(cell_fit.emulator_cpus)
        if topology.is_pinned and cell_fit.host_cell in cells:
            taken = usage.taken_cpus(
                cells[cell_fit.host_cell], topology, cell_fit)
        yield [cell_fit.host_cell, cpu_sequence.text_of(cpus),
               cpu_sequence.text_of(tuple(vcpu for vcpu, _cpu in pins)),
               str(taken - cpuset.CpuSet(cpus)), guest_cell.memory_mib]


def _cell(cell: model.CellView) -> list[Any]:
    """What is used of a cell: memory, floating vCPUs, pages that are large."""
    return [cell.memory_used_mib, cell.shared_used, [
        [pool.size_kib, pool.total - pool.reserved, pool.used]
        for pool in host_structure.huge_pools(cell) if pool.total]]


def _shape(host: offered_host.OfferedHost) -> _Json:
    description = fleet_host_picture.fleet_host_description(host)
    return {
        'summary': host_structure.summary(description),
        'dedicated': str(host.dedicated_cpus), 'shared': str(host.shared_cpus),
        'ratio': host.cpu_allocation_ratio,
        'sockets': [dataclasses.asdict(socket)
                    for socket in drawing.sockets(description)],
        # In nova's order, as what is used and stranded of them.
        'order': [cell.id for cell in host.cells]}
