# SPDX-License-Identifier: Apache-2.0
"""What the compute API and Placement leave open about hosts.

And where a host file says other than Placement. The cloud is right then: a
file is of the day it was written.
"""

from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
import dataclasses

from nova_pinning.admission import offered_host
from nova_pinning.admission import outcome
from nova_pinning.admission import resident_guest
from nova_pinning import cpuset
from nova_pinning.fleet import provider_trees
from nova_pinning.host import engine
from nova_pinning.host import host_model
from nova_pinning.host import words
from nova_pinning import model
from nova_pinning.model import hostclass
from nova_pinning.placement import inventory

#: What the kernel and the firmware keep of nodes' memory makes so much of a
#: difference between a host file and libvirt; more is another machine.
_MEMORY_SHARE = 0.05
_PCI = 'CUSTOM_PCI_'
#: What a guest holds of a host that limits where others can be put.
_HELD = (inventory.PCPU, inventory.VCPU, inventory.MEMORY_MB)


def known_cells(
    description: host_model.HostDescription | None,
    tree: provider_trees.HostTree,
) -> tuple[tuple[model.HostCell, ...], tuple[outcome.Doubt, ...]]:
    """The cells of a host, and what remains open about it.

    :param description: its host file, None if there is none
    :param tree: what Placement has of it
    :returns: the cells without dedicated CPUs if Placement has none, and the
        gaps that every host of a compute API has, or by its file
    """
    devices = outcome.Doubt(
        outcome.DoubtKind.DEVICES,
        'the API does not tell its PCI devices'
        if not any(name.startswith(_PCI) for provider in tree
                   for name in provider.inventories) else
        'the API does not tell near which cells its PCI devices are')
    if description is None:
        return (), (outcome.Doubt(
            outcome.DoubtKind.CELLS, 'it has no host file'), devices)
    cells = engine.engine_cells(description)
    inventories = tree[0].inventories if tree else {}
    contradictions = list(_contradictions(cells, inventories))
    if inventory.PCPU not in inventories and inventory.has_pcpus(cells):
        cells = tuple(
            dataclasses.replace(cell, dedicated_cpus=cpuset.CpuSet())
            for cell in cells)
    if not contradictions:
        return cells, (devices,)
    return cells, (outcome.Doubt(
        outcome.DoubtKind.CONTRADICTION,
        f'its host file has {words.listed(contradictions)}'), devices)


def _contradictions(
    cells: Sequence[model.HostCell],
    inventories: Mapping[str, inventory.Inventory],
) -> Iterator[str]:
    """What a host file says other than Placement: '8 X, Placement 4'."""
    ours = inventory.host_inventories(model.Host(tuple(cells)))
    for name, what in ((inventory.PCPU, 'dedicated CPUs'),
                       (inventory.VCPU, 'shared CPUs')):
        here = ours[name].total if name in ours else 0
        there = inventories[name].total if name in inventories else 0
        if here != there:
            yield (f'{here or "no"} {what} where Placement has '
                   f'{there or "no"} {name}')
    here = ours[inventory.MEMORY_MB].total
    there = (inventories[inventory.MEMORY_MB].total
             if inventory.MEMORY_MB in inventories else 0)
    if abs(here - there) > _MEMORY_SHARE * max(here, there):
        yield (f'{here:,} MiB of memory where Placement has {there:,}')


def usage_gaps(
    held: Mapping[str, int], guests: Sequence[resident_guest.ResidentGuest],
) -> Iterator[outcome.Doubt]:
    """What remains open of a host because of what is on it.

    :param held: what Placement has allocated of it beside its guests
    """
    isolated = sum(guest.topology is not None
                   and guest.topology.emulator_isolated for guest in guests)
    if isolated:
        yield outcome.Doubt(
            outcome.DoubtKind.EMULATOR_CPUS,
            f'the API does not tell the CPU for emulator threads of '
            f'{words.count(isolated, "server")}')
    beside = [f'{held[name]:,} {name}' for name in _HELD
              if held.get(name, 0) > 0]
    if beside:
        yield outcome.Doubt(
            outcome.DoubtKind.HELD,
            f'Placement has {words.listed(beside)} allocated of it beside '
            'its servers, for a migration or a server that is being built')


def class_by_placement(
    host: offered_host.OfferedHost,
    guests: Iterable[resident_guest.ResidentGuest],
) -> hostclass.HostClass | None:
    """The class of a host without marks and host file; None if that is open.

    Placement has PCPUs of hosts with cpu_dedicated_set, and of no others. A
    host without is shared by its cpu_shared_set, or where it has neither by
    its guests, as long as none is pinned. What is held beside them may be one
    that is. One with PCPUs takes shared guests where nova-scheduler has no
    HostClassFilter, which the API does not tell.

    :param guests: all that are on it
    """
    has = host.inventories or {}
    if host.cells or inventory.PCPU in has or inventory.VCPU not in has:
        return None
    if any(gap.kind is outcome.DoubtKind.HELD for gap in host.gaps) or any(
            guest.topology is not None and guest.topology.is_pinned
            for guest in guests):
        return None
    return hostclass.HostClass.SHARED
