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

"""A host with a guest on it, drawn as SVG."""

import collections

from nova_pinning import cpuset
from nova_pinning.document import quantities
from nova_pinning.drawing import picture
from nova_pinning.drawing import plan as plan_lib
from nova_pinning.drawing import topology
from nova_pinning.host import model

# White letters on these have a contrast of 4.5 or more (WCAG 2 AA).
_GUEST_COLOURS = ('#1a5fb4', '#a03c00', '#1b6e3c', '#7a3b96',
                  '#8a5a00', '#00687a', '#a1295b', '#4d5566')

#: The sign on a CPU without a vCPU number.
_SIGNS = {
    plan_lib.Kind.EMULATOR: 'E',
    plan_lib.Kind.FLOATING: '~',
    plan_lib.Kind.TAKEN: '×',
    plan_lib.Kind.FREE: '',
    plan_lib.Kind.SHARED: ':',
    plan_lib.Kind.KEPT: '#',
}

_STYLE = ''.join([
    '.np-free{fill:#fff;stroke:#8d98aa}',
    '.np-shared{fill:#d9eef2;stroke:#4c8f9d}',
    '.np-floating{fill:#bfe0fa;stroke:#1a5fb4;stroke-width:1.6;'
    'stroke-dasharray:4 2}',
    '.np-emulator{fill:#ffe08a;stroke:#8a5a00;stroke-width:1.6}',
    '.np-taken{fill:url(#np-hatch);stroke:#6b7585}',
    '.np-kept{fill:url(#np-dots);stroke:#98a2b3}',
    *(f'.np-pinned{cell}{{fill:{colour};stroke:#fff;stroke-width:0.6}}'
      f'.np-cell{cell}{{fill:{colour};font-size:12px;font-weight:600}}'
      for cell, colour in enumerate(_GUEST_COLOURS)),
])
_DEFINITIONS = (
    '<pattern id="np-hatch" width="6" height="6" '
    'patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
    '<rect width="6" height="6" fill="#e4e7ec"/>'
    '<rect width="1.8" height="6" fill="#c3c9d3"/></pattern>'
    '<pattern id="np-dots" width="5" height="5" '
    'patternUnits="userSpaceOnUse"><rect width="5" height="5" '
    'fill="#e6e9ee"/><circle cx="2.5" cy="2.5" r="0.8" fill="#b6bdc9"/>'
    '</pattern>')


def render(
    description: model.HostDescription,
    used: cpuset.CpuSet = cpuset.CpuSet(),
    placement: plan_lib.Placement | None = None,
) -> str:
    """Draw a host with a guest on it.

    :param used: CPUs that other guests are pinned to
    :param placement: None for the host on its own
    :returns: a whole SVG document
    """
    found = plan_lib.plan(description, used, placement)
    apart = _emulator_is_apart(found)
    tiles = {cpu: _tile(use, apart) for cpu, use in found.uses.items()}
    notes = []
    if any(tile.corner for tile in tiles.values()):
        notes.append("An e marks vCPUs that share their CPU with the guest's "
                     'emulator threads.')
    return picture.render(picture.Picture(
        description=description,
        title=plan_lib.title(found),
        remarks=list(plan_lib.remarks(found)),
        tiles=tiles,
        legend=[(tiles[cpu], meaning)
                for _, cpu, meaning in plan_lib.legend(found)],
        notes=notes,
        heads=_heads(found),
        style=_STYLE,
        definitions=_DEFINITIONS))


def _heads(found: plan_lib.Plan) -> dict[int, list[picture.Text]]:
    """What stands below the nodes' names."""
    nodes = found.description.nodes
    heads: dict[int, list[picture.Text]] = {node.id: [] for node in nodes}
    if any(_equipment(node, found) for node in nodes):
        for node in nodes:
            heads[node.id].append(picture.Text(_equipment(node, found)))
    if any(found.guest_on(node) for node in nodes):
        for node in nodes:
            cell = min(found.guest_cells(node), default=0)
            heads[node.id].append(picture.Text(
                found.guest_on(node), f'np-cell{cell % len(_GUEST_COLOURS)}',
                12.5))
    return heads


def _equipment(node: model.Node, found: plan_lib.Plan) -> str:
    """Huge pages and devices of a node: '160 × 1 GiB, 2 × nvme'."""
    parts = [f'{pages} × {quantities.shown_page_size(size)} pages'
             for size, pages in sorted(node.huge_pages.items()) if pages]
    devices = collections.Counter(
        topology.printable(device.alias)
        for device in found.description.pci_devices
        if device.alias and device.numa_node == node.id)
    parts += [f'{number} × {alias}'
              for alias, number in sorted(devices.items())]
    return ', '.join(parts)


def _tile(use: plan_lib.Use, emulator_is_apart: bool) -> picture.Tile:
    style = f'np-{use.kind}'
    sign = _SIGNS.get(use.kind, '')
    is_pinned = use.kind is plan_lib.Kind.PINNED
    if is_pinned:
        style += str((use.guest_cell or 0) % len(_GUEST_COLOURS))
        sign = ','.join(map(str, use.vcpus))
    return picture.Tile(
        style=style, sign=sign, meaning=_purpose(use), is_dark=is_pinned,
        corner='e' if is_pinned and use.emulator and emulator_is_apart
        else '')


def _purpose(use: plan_lib.Use) -> str:
    purpose = {
        plan_lib.Kind.PINNED: 'pinned to it',
        plan_lib.Kind.FLOATING: 'floating over it',
        plan_lib.Kind.EMULATOR: '',
        plan_lib.Kind.TAKEN: 'taken by another guest',
        plan_lib.Kind.FREE: 'free',
        plan_lib.Kind.SHARED: 'shared by floating guests',
        plan_lib.Kind.KEPT: 'kept for the host',
    }[use.kind]
    parts = [f'{plan_lib.vcpus_text(use.vcpus)} {purpose}' if use.vcpus
             else purpose]
    if use.emulator:
        parts.append('emulator threads')
    return ', '.join(filter(None, parts))


def _emulator_is_apart(found: plan_lib.Plan) -> bool:
    """Whether emulator threads run on some of the vCPUs' CPUs only."""
    return not found.cpus_of(plan_lib.Kind.PINNED).issubset(
        found.placement.emulator_cpus)
