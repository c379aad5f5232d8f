# SPDX-License-Identifier: Apache-2.0
"""A host with a guest on it, as a drawing."""

import collections
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
import dataclasses

from nova_pinning import cpuset
from nova_pinning.document import quantities
from nova_pinning.host import engine
from nova_pinning.host import guest_affinity
from nova_pinning.host import host_model
from nova_pinning.host import words
from nova_pinning.presentation import drawing
from nova_pinning.presentation import host_structure
from nova_pinning import spelling

_Style = drawing.TileStyle

#: The signs of what other guests use, and of what none does.
SIGNS = {
    _Style.EMULATOR: 'E',
    _Style.FLOATING: '~',
    _Style.TAKEN: 'x',
    _Style.FREE: '.',
    _Style.SHARED: ':',
    _Style.KEPT: '#',
}
#: What they mean.
MEANINGS = {
    _Style.TAKEN: 'taken by another guest',
    _Style.FREE: 'free',
    _Style.SHARED: 'shared by floating guests',
    _Style.KEPT: 'kept for the host',
}
_LEGEND = {
    _Style.EMULATOR: "this guest's emulator threads",
    _Style.FLOATING: "this guest's vCPUs float here",
} | MEANINGS


@dataclasses.dataclass(frozen=True, slots=True)
class CpuUse:
    """What one CPU is used for.

    :param style: the first that applies, in the order of ``TileStyle``
    :param vcpus: the guest's vCPUs that may run on it, ascending
    :param emulator: whether the guest's emulator threads may run on it
    :param guest_cell: the guest's cell here, 0 if it has none
    """

    style: _Style
    vcpus: tuple[int, ...] = ()
    emulator: bool = False
    guest_cell: int = 0


def cpu_uses(
    description: host_model.HostDescription, used: cpuset.CpuSet,
    placement: guest_affinity.GuestAffinity,
) -> dict[int, CpuUse]:
    """Work out what each CPU is used for.

    :param used: CPUs that other guests are pinned to
    :returns: by CPU id, all CPUs of the host
    """
    shared = engine.shared_cpus(description)
    dedicated = engine.dedicated_cpus(description)
    vcpus: dict[int, list[int]] = {cpu: [] for cpu in description.cpus}
    pinned: set[int] = set()
    for vcpu, cpus in sorted(placement.vcpu_cpus.items()):
        # A vCPU that floats over a single shared CPU is not pinned to it.
        if len(cpus) == 1 and not cpus.issubset(shared - dedicated):
            pinned.update(cpus)
        for cpu in (cpus or shared) & description.cpus:
            vcpus[cpu].append(vcpu)

    def style(cpu: int) -> _Style:
        if cpu in pinned:
            return _Style.PINNED
        if vcpus[cpu]:
            return _Style.FLOATING
        if cpu in placement.emulator_cpus:
            return _Style.EMULATOR
        if cpu in used:
            return _Style.TAKEN
        if cpu in dedicated:
            return _Style.FREE
        return _Style.SHARED if cpu in shared else _Style.KEPT

    return {
        cpu: CpuUse(style(cpu), tuple(vcpus[cpu]),
                    cpu in placement.emulator_cpus,
                    min(_cells(placement, node), default=0))
        for node in description.nodes for cpu in node.cpus}


def draw(
    description: host_model.HostDescription,
    used: cpuset.CpuSet = cpuset.CpuSet(),
    placement: guest_affinity.GuestAffinity | None = None,
) -> drawing.Drawing:
    """Draw a host with a guest on it.

    :param used: CPUs that other guests are pinned to
    :param placement: None for the host on its own
    """
    placement = placement or guest_affinity.GuestAffinity(vcpu_cpus={})
    uses = cpu_uses(description, used, placement)
    pinned = _of_style(uses, _Style.PINNED)
    tiles = {cpu: _tile(use) for cpu, use in uses.items()}
    nodes = description.nodes
    name = spelling.printable(description.name)
    return drawing.Drawing(
        _title(placement, name),
        tuple(_remarks(description, placement, pinned)),
        (drawing.DrawnHost(
            name, drawing.sockets(
                description,
                {node.id: _guest_on(node, uses, placement)
                 for node in nodes},
                {node.id: [*_equipment(description, node),
                           *_devices(description, node.id, placement)]
                 for node in nodes}),
            (drawing.DrawnState('', tiles),), drawing.about(description),
            tuple(_devices(description, None, placement))),),
        tuple(_legend(uses, tiles)))


def _cells(placement: guest_affinity.GuestAffinity,
           node: host_model.NumaNode) -> list[int]:
    """The cells of the guest that have their memory on a node."""
    return sorted(cell for cell, where in placement.memory_nodes.items()
                  if where == node.id)


def _of_style(uses: Mapping[int, CpuUse], style: _Style) -> cpuset.CpuSet:
    return cpuset.CpuSet(
        cpu for cpu, use in uses.items() if use.style is style)


def _guest_on(node: host_model.NumaNode, uses: Mapping[int, CpuUse],
              placement: guest_affinity.GuestAffinity) -> str:
    """'guest cell 0: vCPUs 0-7'; '' if nothing of the guest is on a node."""
    own = [uses[cpu] for cpu in node.cpus]
    vcpus = {vcpu for use in own for vcpu in use.vcpus}
    cells = _cells(placement, node)
    parts = []
    if cells:
        name = 'cell' if len(cells) == 1 else 'cells'
        parts.append(f'guest {name} {", ".join(map(str, cells))}')
    if vcpus:
        pinned = any(use.style is _Style.PINNED for use in own)
        parts.append(_vcpus(vcpus) + ('' if pinned else ' float'))
    return ': '.join(parts)


def _equipment(description: host_model.HostDescription,
               node: host_model.NumaNode) -> Iterator[str]:
    """Huge pages and devices of a node: '160 pages of 1 GiB, 2 x nvme'."""
    parts = [f'{words.count(pages, "page")} of '
             f'{quantities.shown_page_size(size)}'
             for size, pages in sorted(node.huge_pages.items()) if pages]
    devices = collections.Counter(
        spelling.printable(device.alias)
        for device in description.pci_devices
        if device.alias and device.numa_node == node.id)
    parts += [f'{number} x {alias}'
              for alias, number in sorted(devices.items())]
    if parts:
        yield ', '.join(parts)


def _devices(description: host_model.HostDescription, node: int | None,
             placement: guest_affinity.GuestAffinity) -> Iterator[str]:
    """The guest's devices on a node: 'for this guest: 0000:3b:00.0 (gpu)'."""
    alike: dict[tuple[str, str], list[str]] = {}
    for device in description.pci_devices:
        if device.address in placement.devices and device.numa_node == node:
            switch = description.switch_of(device.parent)
            alike.setdefault((spelling.printable(device.alias), switch),
                             []).append(device.address)
    for (alias, switch), addresses in alike.items():
        yield f'for this guest: {", ".join(addresses)} ({alias}' + (
            f', behind switch {switch})' if switch else ')')


def _tile(use: CpuUse) -> drawing.Tile:
    if use.style is not _Style.PINNED:
        return drawing.Tile(use.style, SIGNS[use.style])
    return drawing.Tile(
        use.style, ','.join(map(str, use.vcpus)), use.guest_cell)


def _title(placement: guest_affinity.GuestAffinity, host: str) -> str:
    """What is drawn: 'enterprise.large on compute-1'."""
    guest = spelling.printable(placement.name) or 'a guest'
    if placement.refusal:
        return f'{guest} does not fit on {host}'
    return f'{guest} on {host}' if placement.vcpu_cpus else host


def _legend(
    uses: Mapping[int, CpuUse], tiles: Mapping[int, drawing.Tile],
) -> Iterator[tuple[drawing.Tile, str]]:
    """What each style that occurs means here, with figures."""
    for style in _Style:
        cpus = _of_style(uses, style)
        if cpus:
            sample = tiles[min(cpus, key=lambda cpu: uses[cpu].vcpus)]
            yield sample, (
                'vCPU of this guest, by number, pinned'
                if style is _Style.PINNED
                else f'{_LEGEND[style]}: {host_structure.cpus_text(cpus)}')


def _remarks(
    description: host_model.HostDescription,
    placement: guest_affinity.GuestAffinity, pinned: cpuset.CpuSet,
) -> Iterator[str]:
    """The guest in sentences: where its vCPUs and emulator threads run."""
    if placement.refusal:
        yield spelling.printable(placement.refusal)
    if not placement.vcpu_cpus:
        return
    fixed = [vcpu for vcpu, cpus in placement.vcpu_cpus.items()
             if cpus and cpus.issubset(pinned)]
    if fixed:
        yield f'{_vcpus(fixed)} pinned to {host_structure.cpus_text(pinned)}'
    ranges: dict[cpuset.CpuSet, list[int]] = {}
    for vcpu, cpus in placement.vcpu_cpus.items():
        if not cpus.issubset(pinned) or not cpus:
            ranges.setdefault(cpus or engine.shared_cpus(description),
                              []).append(vcpu)
    for cpus, vcpus in ranges.items():
        yield (f'{_vcpus(vcpus)} floating over '
               f'{host_structure.cpus_text(cpus)}')
    emulator = placement.emulator_cpus
    if emulator and emulator == cpuset.union(placement.vcpu_cpus.values()):
        yield 'emulator threads on the same CPUs'
    elif emulator:
        yield f'emulator threads on {host_structure.cpus_text(emulator)}'
    if placement.devices:
        yield (f'{words.count(len(placement.devices), "PCI device")}, in the '
               'guest below no switch and on no NUMA node')


def _vcpus(vcpus: Iterable[int]) -> str:
    """'vCPUs 0-3,6', from vCPU numbers."""
    return host_structure.numbered('vCPU', cpuset.CpuSet(vcpus))
