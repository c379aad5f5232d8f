# SPDX-License-Identifier: Apache-2.0
"""Hosts as counters look at them: what is alike has the same numbers."""

from collections.abc import Hashable
from collections.abc import Iterable
from collections.abc import Mapping
from typing import NamedTuple

from nova_pinning.admission import devices
from nova_pinning.admission import filter_rules
from nova_pinning.admission import host_occupancy
from nova_pinning.fit import counting
from nova_pinning.model import hostclass
from nova_pinning.placement import inventory


class CountedHost(NamedTuple):
    """A host with what counts of it, looked at once for all flavors.

    :param numbers: of the cells, equal for those that are alike
    :param kind: equal for hosts whose cells and free devices are alike
    :param site: equal for hosts that are offered and filtered alike, room
        apart
    :param free_cpus: free dedicated CPUs, but for as many as guests have
        elsewhere that should have them
    :param offers: what the host's own provider has left of each resource,
        and how it gives it
    :param has_pcpus: whether pinned vCPUs count as PCPU
    :param has_stray_pins: whether any cell has
    """

    occupancy: host_occupancy.HostOccupancy
    cells: tuple[counting.CountedCell, ...]
    numbers: tuple[int, ...]
    pools: tuple[devices.PciPool, ...]
    kind: int
    site: int
    free_cpus: int
    offers: Mapping[str, tuple[int, inventory.Inventory]]
    has_pcpus: bool
    has_stray_pins: bool

    @property
    def left(self) -> tuple[Hashable, ...]:
        """What Placement has left of it, and who shares, for comparing."""
        return (tuple(sorted(self.offers.items())),
                *[(child.uuid if child.is_shared else '',
                   *sorted(used.items()))
                  for child, used in zip(self.occupancy.host.children,
                                         self.occupancy.used[1:])])


class Numbering:
    """Looks at hosts, and numbers what is alike: cells, kinds and sites.

    Counters remember what they found by these numbers, so all their hosts
    need the same numbering.

    :param counts_guests: as SchedulerRules has it
    """

    def __init__(self, counts_guests: bool = True) -> None:
        self._counts_guests = counts_guests
        self._alike: dict[Hashable, int] = {}
        self._kinds: dict[Hashable, int] = {}
        self._sites: dict[Hashable, int] = {}

    def host(self, occupancy: host_occupancy.HostOccupancy) -> CountedHost:
        """A host with its guests."""
        cells = counting.cells(occupancy.engine)
        pools = devices.free(occupancy.host.pci_pools, occupancy.device_uses)
        alike = self._alike
        numbers = tuple([alike.setdefault(cell.key, len(alike))
                         for cell in cells])
        # Devices are near cells by their ids.
        kind = numbers, tuple([cell.view.id for cell in cells]), pools
        site = _site(occupancy, cells, self._counts_guests)
        return CountedHost(
            occupancy, cells, numbers, pools,
            self._kinds.setdefault(kind, len(self._kinds)),
            self._sites.setdefault(site, len(self._sites)),
            sum(map(_free_cpus, cells)),
            {name: (has.free(occupancy.resources_used.get(name, 0)), has)
             for name, has in occupancy.inventories.items()},
            inventory.PCPU in occupancy.inventories,
            any([cell.view.has_stray_pins for cell in cells]))


def _site(occupancy: host_occupancy.HostOccupancy,
          cells: Iterable[counting.CountedCell],
          counts_guests: bool) -> Hashable:
    """All that answers depend on beside what is free."""
    host = occupancy.host
    host_class: Hashable
    try:
        host_class = filter_rules.host_class(occupancy)
    except hostclass.UnknownClass as error:
        host_class = str(error)
    return (
        host.traits, host.aggregates, host.children, host.gaps,
        host.is_enabled, host.known_class, host_class,
        len(occupancy.guests) if counts_guests else None,
        host.is_opaque, host.inventories is None, host.disk_gib is None,
        frozenset(occupancy.inventories), host.pci_pools,
        any([max(cell.threads, default=1) > 1 for cell in cells]))


def _free_cpus(cell: counting.CountedCell) -> int:
    view = cell.view
    if not view.has_stray_pins:
        return cell.free_cpus
    return max(0, cell.free_cpus - len(view.pinned_cpus - view.dedicated_cpus))
