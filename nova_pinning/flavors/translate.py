# SPDX-License-Identifier: Apache-2.0
"""A shape of the catalogue as the extra specs that nova reads.

What each word becomes is in doc/source/reference/catalogue.rst; words that
are one extra spec each are in nova_pinning.flavors.words. A family without
any gets none but ``pinning:catalogue`` and ``pinning:family``.
"""

from collections.abc import Iterator
import fractions
import math
from typing import Any

from nova_pinning.admission import pci_alias
from nova_pinning import cpuset
from nova_pinning import errors
from nova_pinning.flavors import cells
from nova_pinning.flavors import figures
from nova_pinning.flavors import flavor_model
from nova_pinning.flavors import guest_cores
from nova_pinning.flavors import shape
from nova_pinning.flavors import words
from nova_pinning.placement import cache_resources

#: An extra spec, its value, and the setting that it comes from.
Spec = tuple[str, str, shape.Placed[Any]]

#: Of a cache; the kernel's masks have as many bits.
MOST_WAYS = 64
# Nova's limit for keys and values (nova.api.validation.parameter_types).
_MAX_LENGTH = 255
#: Of a cap, unless it says otherwise.
PERIOD_US = 100_000
# libvirt takes no quota below it.
_MIN_QUOTA_US = 1000


def extra_specs(
    size: shape.CatalogueEntry,
) -> tuple[dict[str, str], dict[str, errors.Location]]:
    """The extra specs of a size, and where each comes from.

    :raises errors.InputError: if something in it makes no sense
    """
    specs: dict[str, str] = {}
    origins: dict[str, errors.Location] = {}
    for key, value, setting in _all(size):
        if key in specs:
            raise size.error(
                f'{key} is there already, from {origins[key].key}', setting,
                'leave one of them out')
        if len(value) > _MAX_LENGTH:
            raise size.error(
                f'{key} gets longer than the {_MAX_LENGTH} characters that '
                'nova takes', setting)
        specs[key] = value
        origins[key] = setting.key
    return specs, origins


def _all(size: shape.CatalogueEntry) -> Iterator[Spec]:
    yield flavor_model.CATALOGUE_KEY, size.catalogue.value, size.catalogue
    yield flavor_model.FAMILY_KEY, size.family.value, size.family
    guest_cells = cells.cells_of(size)
    dedicated = size.get('dedicated_vcpus')
    if dedicated:
        yield ('hw:cpu_dedicated_mask',
               _dedicated_mask(size, dedicated, guest_cells), dedicated)
    yield from _numa(size, guest_cells)
    yield from _topology(size, guest_cells)
    for word in words.WORDS:
        setting = size.get(*word.path)
        if setting:
            value = word.codec[0](size, setting)
            if value is not None:
                yield word.key, value, setting
    yield from _devices(size)
    yield from _cpu_cap(size)
    yield from _caches(size, guest_cells)
    for requirement, traits in size.group('traits').items():
        for trait in traits.value:
            yield f'trait:{trait.value}', requirement, trait
    for name, amount in size.group('resources').items():
        yield f'resources:{name}', str(figures.number(size, amount)), amount
    for key, setting in size.group('extra_specs').items():
        yield key, words.text(setting.value), setting


def _dedicated_mask(size: shape.CatalogueEntry,
                    dedicated: shape.Placed[Any],
                    guest_cells: cells.FlavorCells | None) -> str:
    if isinstance(dedicated.value, str):
        return words.mask(size, dedicated)
    vcpus = size.vcpus.value
    count = figures.number(size, dedicated.value['count'])
    if not 0 < count < vcpus:
        raise size.error(
            f'{count} of {vcpus} vCPUs are not a mixture', dedicated,
            'at least one must be dedicated, and one must not')
    whole = cells.FlavorCells(
        (cells.FlavorCell(cpuset.CpuSet(range(vcpus)), 0),), False)
    return str(cells.dedicated_of(
        guest_cells or whole, count,
        2 if size.says('thread_policy', 'require') else 1))


def _numa(size: shape.CatalogueEntry, guest_cells: cells.FlavorCells | None,
          ) -> Iterator[Spec]:
    nodes = size.get('numa_nodes')
    if not nodes or not guest_cells:
        return
    yield 'hw:numa_nodes', str(len(guest_cells.cells)), nodes
    if not guest_cells.is_explicit:
        return
    for number, cell in enumerate(guest_cells.cells):
        setting = (nodes.value[number] if isinstance(nodes.value, list)
                   else nodes)
        yield f'hw:numa_cpus.{number}', str(cell.vcpus), setting
        yield f'hw:numa_mem.{number}', str(cell.memory_mib), setting


def _topology(
    size: shape.CatalogueEntry,
    guest_cells: cells.FlavorCells | None,
) -> Iterator[Spec]:
    setting = size.get('cpu_topology')
    if setting and setting.value == 'match-host':
        for key, value in _match_host(size, guest_cells, setting).items():
            yield f'hw:cpu_{key}', str(value), setting
    elif setting and len(setting.value) == 3:
        product = math.prod(below.value for below in setting.value.values())
        if product != size.vcpus.value:
            raise size.error(
                f'sockets, cores and threads make {product} vCPUs, not '
                f'{size.vcpus.value}', setting)


def _match_host(
    size: shape.CatalogueEntry, guest_cells: cells.FlavorCells | None,
    setting: shape.Placed[Any],
) -> dict[str, int]:
    """A topology like that of the host CPUs that the vCPUs will be.

    A socket for each NUMA cell, and two threads for each core where the
    thread policy pairs siblings and no core would have another kind of vCPU
    or another cell on its second thread.
    """
    vcpus = size.vcpus.value
    groups = [cell.vcpus for cell in guest_cells.cells] if guest_cells else [
        cpuset.CpuSet(range(vcpus))]
    counts = [len(group) for group in groups]
    sockets = len(counts) if len(set(counts)) == 1 else 1
    threads = 1
    if size.says('thread_policy', 'require') and size.says(
            'class', 'dedicated', 'mixed') and all(
                count % 2 == 0 for count in counts):
        pinned = cpuset.CpuSet(range(vcpus))
        dedicated = size.get('dedicated_vcpus')
        if size.says('class', 'mixed') and dedicated:
            pinned = cells.vcpus_of(size, _dedicated_mask(
                size, dedicated, guest_cells), dedicated)
        # Cores that are pinned in part are a mistake of the mask.
        threads = 2 if guest_cores.is_in_whole_cores(pinned, 2) else 1
    for kind, each in (('core', threads), ('socket', vcpus // sockets)):
        split = guest_cores.split_by_cells(groups, each)
        if split and (kind == 'core' or sockets > 1):
            raise size.error(
                f'vCPUs {split} would be one {kind} of the guest, but are in '
                'different NUMA cells', setting,
                'give each cell vCPUs that follow each other, or leave '
                'cpu_topology out')
    return {'sockets': sockets, 'cores': vcpus // sockets // threads,
            'threads': threads}


def _devices(size: shape.CatalogueEntry) -> Iterator[Spec]:
    counts = []
    for alias, setting in size.group('pci_devices').items():
        if alias == 'affinity':
            continue
        count = figures.number(size, setting)
        if not count:
            raise size.error(f'0 devices {alias} are none', setting)
        counts.append(f'{alias}:{count}')
        last = setting
    if counts:
        yield pci_alias.KEY, ','.join(counts), last


def _caches(size: shape.CatalogueEntry,
            guest_cells: cells.FlavorCells | None) -> Iterator[Spec]:
    """Cache ways and memory bandwidth, with what Placement is to count."""
    values = {}
    for key, setting, most in (
            (flavor_model.L3_WAYS_KEY, size.get('l3_ways'), MOST_WAYS),
            (flavor_model.BANDWIDTH_KEY, size.get('memory_bandwidth'), 100)):
        if setting is None:
            continue
        value = figures.number(size, setting)
        if not 1 <= value <= most:
            raise size.error(f'{value} is not from 1 to {most}', setting,
                             'leave it out if nothing is wanted')
        values[key] = value
        last = setting
        yield key, str(value), setting
    if not values:
        return
    amounts, required = cache_resources.request(
        values.get(flavor_model.L3_WAYS_KEY, 0),
        flavor_model.BANDWIDTH_KEY in values,
        len(guest_cells.cells) if guest_cells else 1)
    for name, amount in amounts.items():
        yield f'resources:{name}', str(amount), last
    for trait in sorted(required):
        yield f'trait:{trait}', 'required', last


def _cpu_cap(size: shape.CatalogueEntry) -> Iterator[Spec]:
    setting = size.get('cpu_cap')
    if not setting:
        return
    cap = {key: below.value for key, below in setting.value.items()}
    period = cap.get('period_us', PERIOD_US)
    quota = int(period * fractions.Fraction(str(cap['percent'])) / 100)
    if quota < _MIN_QUOTA_US:
        raise size.error(
            f'{cap["percent"]} percent of {period} microseconds are less '
            f'than {_MIN_QUOTA_US}, the least that libvirt takes',
            setting, 'make the period longer')
    yield 'quota:cpu_period', str(period), setting
    yield 'quota:cpu_quota', str(quota), setting
