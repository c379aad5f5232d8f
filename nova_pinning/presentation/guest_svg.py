# SPDX-License-Identifier: Apache-2.0
"""A host with a guest on it, drawn as SVG."""

import collections

from nova_pinning import cpuset
from nova_pinning.document import quantities
from nova_pinning.host import guest_affinity
from nova_pinning.host import host_model
from nova_pinning.presentation import cpu_use
from nova_pinning.presentation import host_picture
from nova_pinning import spelling

#: White letters on these have a contrast of 4.5 or more (WCAG 2 AA).
GUEST_COLOURS = ('#1a5fb4', '#a03c00', '#1b6e3c', '#7a3b96',
                 '#8a5a00', '#00687a', '#a1295b', '#4d5566')

#: The sign on a CPU without a vCPU number.
_SIGNS = {
    cpu_use.CpuUseKind.EMULATOR: 'E',
    cpu_use.CpuUseKind.FLOATING: '~',
    cpu_use.CpuUseKind.TAKEN: '×',
    cpu_use.CpuUseKind.FREE: '',
    cpu_use.CpuUseKind.SHARED: ':',
    cpu_use.CpuUseKind.KEPT: '#',
}

#: CSS of the tiles.
STYLE = ''.join([
    '.np-free{fill:#fff;stroke:#8d98aa}',
    '.np-shared{fill:#d9eef2;stroke:#4c8f9d}',
    '.np-floating{fill:#bfe0fa;stroke:#1a5fb4;stroke-width:1.6;'
    'stroke-dasharray:4 2}',
    '.np-emulator{fill:#ffe08a;stroke:#8a5a00;stroke-width:1.6}',
    '.np-taken{fill:url(#np-hatch);stroke:#6b7585}',
    '.np-kept{fill:url(#np-dots);stroke:#98a2b3}',
    *(f'.np-pinned{cell}{{fill:{colour};stroke:#fff;stroke-width:0.6}}'
      f'.np-cell{cell}{{fill:{colour};font-size:12px;font-weight:600}}'
      for cell, colour in enumerate(GUEST_COLOURS)),
])
#: Patterns that it uses.
DEFINITIONS = (
    '<pattern id="np-hatch" width="6" height="6" '
    'patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
    '<rect width="6" height="6" fill="#e4e7ec"/>'
    '<rect width="1.8" height="6" fill="#c3c9d3"/></pattern>'
    '<pattern id="np-dots" width="5" height="5" '
    'patternUnits="userSpaceOnUse"><rect width="5" height="5" '
    'fill="#e6e9ee"/><circle cx="2.5" cy="2.5" r="0.8" fill="#b6bdc9"/>'
    '</pattern>')


def render(
    description: host_model.HostDescription,
    used: cpuset.CpuSet = cpuset.CpuSet(),
    placement: guest_affinity.GuestAffinity | None = None,
) -> str:
    """Draw a host with a guest on it.

    :param used: CPUs that other guests are pinned to
    :param placement: None for the host on its own
    :returns: a whole SVG document
    """
    cpu_uses = cpu_use.cpu_use_of(description, used, placement)
    apart = _emulator_is_apart(cpu_uses)
    tiles = {cpu: _tile(use, apart) for cpu, use in cpu_uses.uses.items()}
    notes = []
    if any(tile.corner for tile in tiles.values()):
        notes.append("An e marks vCPUs that share their CPU with the guest's "
                     'emulator threads.')
    return host_picture.render(host_picture.HostPicture(
        description=description,
        title=cpu_use.title(cpu_uses),
        remarks=list(cpu_use.remarks(cpu_uses)),
        tiles=tiles,
        legend=[(tiles[cpu], meaning)
                for _, cpu, meaning in cpu_use.legend(cpu_uses)],
        notes=notes,
        heads=_heads(cpu_uses),
        style=STYLE,
        definitions=DEFINITIONS))


def _heads(
        host_use: cpu_use.HostCpuUse
) -> dict[int, list[host_picture.PictureText]]:
    """What stands below the nodes' names."""
    nodes = host_use.description.nodes
    heads: dict[int, list[host_picture.PictureText]] = {
        node.id: []
        for node in nodes}
    if any(_equipment(node, host_use) for node in nodes):
        for node in nodes:
            heads[node.id].append(
                host_picture.PictureText(_equipment(node, host_use)))
    if any(host_use.guest_on(node) for node in nodes):
        for node in nodes:
            cell = min(host_use.guest_cells(node), default=0)
            heads[node.id].append(
                host_picture.PictureText(
                    host_use.guest_on(node),
                    f'np-cell{cell % len(GUEST_COLOURS)}', 12.5))
    return heads


def _equipment(node: host_model.NumaNode, host_use: cpu_use.HostCpuUse) -> str:
    """Huge pages and devices of a node: '160 × 1 GiB, 2 × nvme'."""
    parts = [f'{pages} × {quantities.shown_page_size(size)} pages'
             for size, pages in sorted(node.huge_pages.items()) if pages]
    devices = collections.Counter(
        spelling.printable(device.alias)
        for device in host_use.description.pci_devices
        if device.alias and device.numa_node == node.id)
    parts += [f'{number} × {alias}'
              for alias, number in sorted(devices.items())]
    return ', '.join(parts)


def _tile(use: cpu_use.CpuUse,
          emulator_is_apart: bool) -> host_picture.PictureTile:
    style = f'np-{use.kind}'
    sign = _SIGNS.get(use.kind, '')
    is_pinned = use.kind is cpu_use.CpuUseKind.PINNED
    if is_pinned:
        style += str((use.guest_cell or 0) % len(GUEST_COLOURS))
        sign = ','.join(map(str, use.vcpus))
    return host_picture.PictureTile(
        style=style, sign=sign, meaning=_purpose(use), is_dark=is_pinned,
        corner='e' if is_pinned and use.emulator and emulator_is_apart
        else '')


def _purpose(use: cpu_use.CpuUse) -> str:
    purpose = {
        cpu_use.CpuUseKind.PINNED: 'pinned to it',
        cpu_use.CpuUseKind.FLOATING: 'floating over it',
        cpu_use.CpuUseKind.EMULATOR: '',
        cpu_use.CpuUseKind.TAKEN: 'taken by another guest',
        cpu_use.CpuUseKind.FREE: 'free',
        cpu_use.CpuUseKind.SHARED: 'shared by floating guests',
        cpu_use.CpuUseKind.KEPT: 'kept for the host',
    }[use.kind]
    parts = [f'{cpu_use.vcpus_text(use.vcpus)} {purpose}' if use.vcpus
             else purpose]
    if use.emulator:
        parts.append('emulator threads')
    return ', '.join(filter(None, parts))


def _emulator_is_apart(host_use: cpu_use.HostCpuUse) -> bool:
    """Whether emulator threads run on some of the vCPUs' CPUs only."""
    return not host_use.cpus_of(cpu_use.CpuUseKind.PINNED).issubset(
        host_use.placement.emulator_cpus)
