# SPDX-License-Identifier: Apache-2.0
"""NVLinks of GPUs, and their partitions, as NVIDIA's tools print them.

No file of the kernel has them. ``nvidia-smi topo -m`` prints a table of what
is between each two GPUs and NICs; ``fmpm -l`` of Fabric Manager prints the
partitions that it can give to guests where GPUs are behind NVSwitches (shared
NVSwitch model), see the Fabric Manager User Guide.
"""

from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
import dataclasses
import itertools
import json
import re
from typing import Any

from nova_pinning import errors
from nova_pinning.host import hardware
from nova_pinning.host import host_model

_GPU = re.compile(r'GPU(\d{1,4})', re.ASCII)
_NVLINKS = re.compile(r'NV(\d{1,3})', re.ASCII)
# What the table is underlined by.
_ESCAPE = re.compile('\x1b\\[[0-9;]*m')
_BUS_ID = re.compile(
    r'([0-9a-f]{4,8})(:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])', re.ASCII)
# Connections without a host bridge in between, and those with one; PSB and SOC
# are of old drivers.
_NEAR, _FAR = ('PIX', 'PXB', 'PSB'), ('PHB', 'NODE', 'SYS', 'SOC')
#: Where Fabric Manager runs in a guest it knows no addresses of the host's.
_NO_ADDRESS = '0000:00:00.0'


def with_fabric(description: host_model.HostDescription, text: str,
                where: errors.Location) -> host_model.HostDescription:
    """A host with what one of the tools prints.

    :param text: a table of ``nvidia-smi topo -m``, or JSON of ``fmpm -l``
    :raises errors.InputError: if it is neither, or of another host
    """
    if text.lstrip().startswith('{'):
        return dataclasses.replace(description, gpu_partitions=_partitions(
            description, text, where))
    return dataclasses.replace(description, nvlinks=tuple(
        _joined(_links(description, text, where))))


def _links(
    description: host_model.HostDescription, text: str,
    where: errors.Location,
) -> dict[tuple[str, str], int]:
    """NVLinks by the addresses of two GPUs."""
    rows = [line.split() for line in _ESCAPE.sub('', text).splitlines()]
    header = next((row for row in rows if row and row[0] == 'GPU0'), [])
    count = len(list(itertools.takewhile(_GPU.fullmatch, header)))
    columns = header.index('CPU') if 'CPU' in header else len(header)
    table = {row[0]: row[1:] for row in rows
             if len(row) > columns and row[0] in header[:count]
             and row is not header}
    if not count or list(table) != header[:count]:
        raise errors.InputError(
            'is no table of what is between GPUs', where,
            'give what nvidia-smi topo -m prints, or fmpm -l of Fabric '
            'Manager')
    gpus = _gpus(description)
    if len(gpus) != count:
        raise errors.InputError(
            f'has {count} GPUs, but the host has {len(gpus)} of NVIDIA', where,
            'give what nvidia-smi prints on this host')
    links = {}
    for place, (gpu, name) in enumerate(zip(gpus, header)):
        cells = table[name]
        _check_node(gpu, name, cells[columns:], where)
        for other, column, cell in zip(gpus, header, cells):
            match = _NVLINKS.fullmatch(cell)
            if cell != table[column][place] or not match and cell not in (
                    (*_NEAR, *_FAR) if other is not gpu else ('X', )):
                raise errors.InputError(
                    f'has {cell} of {name} to {column}, and '
                    f'{table[column][place]} back: that is no table of '
                    'nvidia-smi topo -m', where,
                    'give all of it, and as it was printed')
            _check_way(description, (gpu, other), cell, where)
            if match:
                links[gpu.address, other.address] = int(match[1])
    return links


def _gpus(
    description: host_model.HostDescription,
) -> Sequence[host_model.PciDevice]:
    """Those that nvidia-smi lists, in its order, which is by address."""
    gpus = description.nvidia_gpus
    return [gpu for gpu in gpus if gpu.driver == 'nvidia'] or gpus


def _check_node(gpu: host_model.PciDevice, name: str, rest: Sequence[str],
                where: errors.Location) -> None:
    """Refuse a table by which a GPU is on another node.

    :param rest: of its row: CPUs and nodes that are near, if it has any
    """
    near = rest[1] if len(rest) > 1 else ''
    if (near.isdecimal() and gpu.numa_node is not None
            and int(near) != gpu.numa_node):
        raise errors.InputError(
            f'{name} is on node {near}, but {gpu.address} is on node '
            f'{gpu.numa_node}', where, 'give what nvidia-smi prints on this '
            'host, with all its GPUs')


def _check_way(
    description: host_model.HostDescription,
    pair: tuple[host_model.PciDevice, host_model.PciDevice], cell: str,
    where: errors.Location,
) -> None:
    """Refuse a table by which two GPUs are connected in another way."""
    tops = [above[-1].address for gpu in pair
            if (above := description.bridges_above(gpu.parent))]
    if len(tops) == 2 and cell in (_FAR if tops[0] == tops[1] else _NEAR):
        raise errors.InputError(
            f'{cell} is between {pair[0].address} and {pair[1].address}, but '
            f'their root ports are {" and ".join(tops)}', where,
            'give what nvidia-smi prints on this host, with all its GPUs')


def _joined(
    links: Mapping[tuple[str, str], int],
) -> Iterator[hardware.NvLinks]:
    """GPUs that are all linked with each other alike, together."""
    left = dict(links)
    for first, second in sorted(links):
        count = left.get((first, second))
        if count is None:
            continue
        kept = [first, second]
        for gpu in sorted({gpu for gpu, _other in left} - {first, second}):
            if _is_linked(left, gpu, kept, count):
                kept.append(gpu)
        for pair in itertools.permutations(kept, 2):
            left.pop(pair, None)
        yield hardware.NvLinks(tuple(sorted(kept)), count)


def _is_linked(links: Mapping[tuple[str, str], int], gpu: str,
               others: Iterable[str], count: int) -> bool:
    return all(links.get((gpu, other)) == count for other in others)


def _partitions(
    description: host_model.HostDescription, text: str,
    where: errors.Location,
) -> tuple[hardware.GpuPartition, ...]:
    try:
        listed: Any = json.loads(text)['partitionInfo']
        found = {
            int(one['partitionId']): tuple(sorted(
                _address(gpu['pciBusId']) for gpu in one['gpuInfo']))
            for one in listed}
    except (ValueError, KeyError, TypeError) as error:
        raise errors.InputError(
            'is no list of partitions of Fabric Manager', where,
            'give what fmpm -l prints') from error
    there = {device.address for device in description.pci_devices}
    for number, addresses in found.items():
        if _NO_ADDRESS in addresses:
            raise errors.InputError(
                f'does not tell the addresses of the GPUs of partition '
                f'{number}', where, 'have Fabric Manager list them while the '
                'GPUs are on the host and not in a guest')
        for address in addresses:
            if address not in there:
                raise errors.InputError(
                    f'partition {number} has a GPU {address}, which the host '
                    'has not', where, 'give what fmpm prints on this host')
    return tuple(hardware.GpuPartition(number, addresses)
                 for number, addresses in sorted(found.items()))


def _address(bus_id: str) -> str:
    """The kernel's address for NVIDIA's, which has a longer domain.

    :raises ValueError: if it is none
    """
    match = _BUS_ID.fullmatch(bus_id.lower())
    if not match:
        raise ValueError(bus_id)
    return f'{int(match[1], 16):04x}{match[2]}'
