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


"""Host files, written."""

from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
import json
import re
from typing import Any

from nova_pinning import cpuset
from nova_pinning.document import quantities
from nova_pinning.host import hostfile
from nova_pinning.host import model

# What YAML takes as text wherever it stands.
_PLAIN = re.compile(
    r'(?!(?:true|false|null)$)[a-z][a-z0-9_./-]*(?: [a-z0-9_./-]+)*'
    r'|[0-9]+[kmg]ib', re.IGNORECASE | re.ASCII)


def dump(description: model.HostDescription) -> str:
    """A host as a file that :func:`nova_pinning.host.load.load` reads.

    What is as it would be by default is left out.

    :returns: YAML
    """
    return ''.join(f'{line}\n' for line in _lines(description))


def _lines(description: model.HostDescription) -> Iterator[str]:
    yield 'version: 1'
    yield f'name: {_text(description.name)}'
    if description.description:
        yield f'description: {_text(description.description)}'
    numbering = _numbering(description.nodes)
    cpu = _cpu(description.cpu_model)
    if numbering and numbering[0] > 1:
        cpu['threads_per_core'], cpu['numbering'] = numbering
    cores_per_l3 = _cores_per_l3(description.nodes)
    if cores_per_l3:
        cpu['cores_per_l3'] = cores_per_l3
    if cpu:
        yield 'cpu:'
        yield from _mapping(cpu, '  ')
    yield 'nodes:'
    for node in description.nodes:
        value = _node(node, numbering is not None)
        if cores_per_l3:
            value.pop('l3_domains', None)
        yield from _item(value)
    if description.pci_devices:
        yield 'pci_devices:'
        for device in description.pci_devices:
            yield f'  - {_flow(_device(device))}'
    nova = _nova(description.nova)
    if nova:
        yield 'nova:'
        yield from _mapping(nova, '  ')
    if description.traits:
        yield 'traits:'
        for trait in sorted(description.traits):
            yield f'  - {trait}'


def _numbering(nodes: Sequence[model.Node]) -> tuple[int, str] | None:
    """Threads in each core and their numbering; None if cores differ."""
    sizes = {len(core) for node in nodes for core in node.cores}
    if len(sizes) != 1:
        return None
    threads = sizes.pop()
    for order in ('split', 'adjacent'):
        if all(node.cores == hostfile.split_cores(node.cpus, threads, order)
               for node in nodes):
            return threads, order
    return None


def _cores_per_l3(nodes: Sequence[model.Node]) -> int | None:
    """Cores that share each L3 cache; None if that does not say it all."""
    sizes = {len(domain & cpuset.CpuSet(core[0] for core in node.cores))
             for node in nodes for domain in node.l3_domains}
    if len(sizes) != 1:
        return None
    size = sizes.pop()
    if size and all(
            node.l3_domains == hostfile.even_domains(node.cores, size)
            for node in nodes):
        return size
    return None


def _cpu(cpu: model.CpuModel) -> dict[str, Any]:
    return _unless_default({
        'arch': (cpu.arch, 'x86_64'),
        'model': (cpu.model, ''),
        'vendor': (cpu.vendor, ''),
        'features': (list(cpu.features), []),
    })


def _node(node: model.Node, short: bool) -> dict[str, Any]:
    value: dict[str, Any] = {'id': node.id, 'socket': node.socket}
    if short:
        value['cpus'] = node.cpus
    else:
        value['cores'] = ' '.join(
            ','.join(map(str, core)) for core in node.cores)
    value['memory'] = quantities.text(node.memory_mib)
    return value | _unless_default({
        'huge_pages': (_pages(node.huge_pages), {}),
        'l3_domains': (list(node.l3_domains), []),
        'distances': (list(node.distances), []),
    })


def _device(device: model.PciDevice) -> dict[str, Any]:
    return {
        'address': device.address,
        'vendor_id': device.vendor_id,
        'product_id': device.product_id,
    } | _unless_default({
        'numa_node': (device.numa_node, None),
        'alias': (device.alias, ''),
    })


def _nova(nova: model.NovaSettings) -> dict[str, Any]:
    reserved: dict[int, dict[int, int]] = {}
    for (node, size), pages in sorted(nova.reserved_huge_pages.items()):
        reserved.setdefault(node, {})[size] = pages
    return _unless_default({
        'dedicated_cpus': (nova.dedicated_cpus, None),
        'shared_cpus': (nova.shared_cpus, None),
        'cpu_allocation_ratio': (nova.cpu_allocation_ratio, 1.0),
        'ram_allocation_ratio': (nova.ram_allocation_ratio, 1.0),
        'reserved_memory': (quantities.text(nova.reserved_memory_mib),
                            quantities.text(0)),
        'reserved_huge_pages': (
            {node: _pages(pages) for node, pages in reserved.items()}, {}),
    })


def _pages(pages: Mapping[int, int]) -> dict[str, int]:
    return {quantities.page_size_text(size): count
            for size, count in sorted(pages.items())}


def _unless_default(
    values: Mapping[str, tuple[Any, Any]],
) -> dict[str, Any]:
    return {key: value for key, (value, default) in values.items()
            if value != default}


def _item(value: Mapping[str, Any]) -> Iterator[str]:
    """A mapping as an item of a list."""
    first, *others = _mapping(value, '    ')
    yield f'  - {first.lstrip()}'
    yield from others


def _mapping(value: Mapping[str, Any], indent: str) -> Iterator[str]:
    for key, below in value.items():
        yield f'{indent}{key}: {_flow(below)}'


def _flow(value: Any) -> str:
    """A value on one line."""
    if isinstance(value, dict):
        items = (f'{key}: {_flow(below)}' for key, below in value.items())
        return f'{{{", ".join(items)}}}'
    if isinstance(value, list):
        return f'[{", ".join(map(_flow, value))}]'
    if isinstance(value, cpuset.CpuSet):
        return f"'{value}'"
    if isinstance(value, str):
        return _text(value)
    return json.dumps(value)


def _text(text: str) -> str:
    if _PLAIN.fullmatch(text):
        return text
    letters = (letter if letter.isprintable() and letter not in '"\\' else
               f'\\U{ord(letter):08X}' for letter in text)
    return f'"{"".join(letters)}"'
