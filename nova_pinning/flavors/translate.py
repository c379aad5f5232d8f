# SPDX-License-Identifier: Apache-2.0
"""A shape of the catalogue as the extra specs that nova reads.

What each word becomes is in doc/source/reference/catalogue.rst. A family
without a class, and without any other word, gets none but
``pinning:catalogue`` and ``pinning:family``. A class adds ``hw:cpu_policy``;
``dedicated`` with ``thread_policy: require`` adds a guest CPU topology as
well, unless ``cpu_topology`` says otherwise.
"""

from collections.abc import Iterator
import fractions
import math
import re
from typing import Any

from nova_pinning import cpuset
from nova_pinning.document import quantities
from nova_pinning import errors
from nova_pinning.flavors import cells
from nova_pinning.flavors import flavor_model
from nova_pinning.flavors import guest_cores
from nova_pinning.flavors import shape
from nova_pinning.flavors import size_formulas
from nova_pinning.placement import cache_resources

#: An extra spec, its value, and the setting that it comes from.
Spec = tuple[str, str, shape.Placed[Any]]

#: Of a cache; the kernel's masks have as many bits.
MOST_WAYS = 64
# Nova's limit for keys and values (nova.api.validation.parameter_types).
_MAX_LENGTH = 255
_MASK = re.compile(r'\^?\d+(-\d+)?(,\^?\d+(-\d+)?)*', re.ASCII)
_PERIOD_US = 100_000
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
    yield from _cpu_policies(size, guest_cells)
    yield from _numa(size, guest_cells)
    yield from _topology(size, guest_cells)
    yield from _memory(size)
    yield from _realtime(size)
    yield from _security(size)
    yield from _devices(size)
    yield from _cpu_quotas(size)
    yield from _caches(size, guest_cells)
    yield from size_formulas.throttles(size)
    if size.traits:
        for word in ('required', 'forbidden'):
            if word in size.traits.value:
                for trait in size.traits.value[word].value:
                    yield f'trait:{trait.value}', word, trait
    for name, amount in size.resources.items():
        yield (f'resources:{name}', str(size_formulas.number(size, amount)),
               amount)
    for key, setting in size.extra_specs.items():
        yield key, size_formulas.filled(size, _text(setting.value),
                                        setting), setting


def _text(value: str | int | bool) -> str:
    """As nova's own documents write it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _plain(spec: str, setting: shape.Placed[Any] | None) -> Iterator[Spec]:
    """An extra spec that is what the catalogue says, if it says it."""
    if setting:
        yield spec, _text(setting.value), setting


def _cpu_policies(size: shape.CatalogueEntry,
                  guest_cells: cells.FlavorCells | None) -> Iterator[Spec]:
    yield from _plain('hw:cpu_policy', size.cpu_policy)
    yield from _plain('hw:cpu_thread_policy', size.thread_policy)
    # Nova lets them run on the guest's vCPUs if nothing is said.
    threads = size.emulator_threads
    if threads and threads.value != 'on-vcpus':
        yield 'hw:emulator_threads_policy', threads.value, threads
    if size.dedicated_vcpus:
        yield ('hw:cpu_dedicated_mask',
               _dedicated_mask(size, size.dedicated_vcpus, guest_cells),
               size.dedicated_vcpus)


def _dedicated_mask(size: shape.CatalogueEntry,
                    dedicated: shape.Placed[Any],
                    guest_cells: cells.FlavorCells | None) -> str:
    if isinstance(dedicated.value, str):
        return _mask(size, dedicated)
    vcpus = size.vcpus.value
    count = size_formulas.number(size, dedicated.value['count'])
    if not 0 < count < vcpus:
        raise size.error(
            f'{count} of {vcpus} vCPUs are not a mixture', dedicated,
            'at least one must be dedicated, and one must not')
    whole = cells.FlavorCells(
        (cells.FlavorCell(cpuset.CpuSet(range(vcpus)), 0),), False)
    return str(cells.dedicated_of(
        guest_cells or whole, count, 2 if _wants_siblings(size) else 1))


def _wants_siblings(size: shape.CatalogueEntry) -> bool:
    return bool(size.thread_policy and size.thread_policy.value == 'require')


def _mask(size: shape.CatalogueEntry, text: shape.Placed[str]) -> str:
    """A mask of vCPUs as nova takes it, with its ``^``."""
    mask = ''.join(text.value.split())
    if not _MASK.fullmatch(mask):
        raise size.error(f'{text.value!r} is not a list of vCPUs', text,
                         "write it like '2-7' or '^0-1'")
    cells.vcpus_of(size, mask, text)
    return mask


def _numa(size: shape.CatalogueEntry, guest_cells: cells.FlavorCells | None,
          ) -> Iterator[Spec]:
    nodes = size.numa_nodes
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
    limits = size.cpu_topology_limits
    for key in ('sockets', 'cores', 'threads'):
        if limits and key in limits.value:
            yield f'hw:cpu_max_{key}', str(limits.value[key].value), limits
    vcpus = size.vcpus.value
    setting = size.cpu_topology
    if not setting and size.cpu_policy and _wants_siblings(size) and (
            size.cpu_policy.value == 'dedicated'):
        setting = size.thread_policy
    if not setting or setting.value == 'none':
        return
    if isinstance(setting.value, str):
        topology = _match_host(size, guest_cells, setting)
    else:
        topology = {key: below.value for key, below in setting.value.items()}
        product = math.prod(topology.values())
        if len(topology) == 3 and product != vcpus:
            raise size.error(
                f'sockets, cores and threads make {product} vCPUs, not '
                f'{vcpus}', setting)
    for key in ('sockets', 'cores', 'threads'):
        if key in topology:
            yield f'hw:cpu_{key}', str(topology[key]), setting


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
    if _wants_siblings(size) and size.cpu_policy and (
            size.cpu_policy.value in ('dedicated', 'mixed')) and all(
                count % 2 == 0 for count in counts):
        pinned = cpuset.CpuSet(range(vcpus))
        if size.cpu_policy.value == 'mixed' and size.dedicated_vcpus:
            pinned = cells.vcpus_of(size, _dedicated_mask(
                size, size.dedicated_vcpus, guest_cells),
                size.dedicated_vcpus)
        # Cores that are pinned in part are a mistake of the mask.
        threads = 2 if guest_cores.is_in_whole_cores(pinned, 2) else 1
    for kind, each in (('core', threads), ('socket', vcpus // sockets)):
        split = guest_cores.split_by_cells(groups, each)
        if split and (kind == 'core' or sockets > 1):
            raise size.error(
                f'vCPUs {split} would be one {kind} of the guest, but are in '
                'different NUMA cells', setting,
                'give each cell vCPUs that follow each other, or write '
                'cpu_topology: none')
    return {'sockets': sockets, 'cores': vcpus // sockets // threads,
            'threads': threads}


def _memory(size: shape.CatalogueEntry) -> Iterator[Spec]:
    page = size.page_size
    if page and page.value in ('large', 'small', 'any'):
        yield from _plain('hw:mem_page_size', page)
    elif page:
        # A number of KiB: nova's check of names for units knows only some.
        kib = quantities.page_size_kib(page.value, page.where)
        if not kib:
            raise size.error('a page of no size is none', page)
        yield 'hw:mem_page_size', str(kib), page
    yield from _plain('hw:locked_memory', size.locked_memory)


def _realtime(size: shape.CatalogueEntry) -> Iterator[Spec]:
    realtime = size.realtime
    if not realtime or realtime.value is False:
        return
    yield 'hw:cpu_realtime', 'true', realtime
    if realtime.value is not True:
        vcpus = realtime.value['vcpus']
        yield 'hw:cpu_realtime_mask', _mask(size, vcpus), vcpus


def _security(size: shape.CatalogueEntry) -> Iterator[Spec]:
    yield from _plain('os:secure_boot', size.secure_boot)
    if size.tpm:
        for word, setting in size.tpm.value.items():
            yield f'hw:tpm_{word}', setting.value, setting
    encryption = size.memory_encryption
    if encryption and encryption.value is not False:
        yield 'hw:mem_encryption', 'true', encryption
        if encryption.value is not True:
            yield 'hw:mem_encryption_model', encryption.value, encryption


def _devices(size: shape.CatalogueEntry) -> Iterator[Spec]:
    counts = []
    for alias, setting in size.pci_devices.items():
        if alias == 'affinity':
            yield from _plain('hw:pci_numa_affinity_policy', setting)
            continue
        count = size_formulas.number(size, setting)
        if not count:
            raise size.error(f'0 devices {alias} are none', setting)
        counts.append(f'{alias}:{count}')
        last = setting
    if counts:
        yield 'pci_passthrough:alias', ','.join(counts), last
    yield from _plain('hw:vif_multiqueue_enabled', size.nic_multiqueue)


def _caches(size: shape.CatalogueEntry,
            guest_cells: cells.FlavorCells | None) -> Iterator[Spec]:
    """Cache ways and memory bandwidth, with what Placement is to count."""
    values = {}
    for key, setting, most in (
            (flavor_model.L3_WAYS_KEY, size.l3_ways, MOST_WAYS),
            (flavor_model.BANDWIDTH_KEY, size.memory_bandwidth, 100)):
        if setting is None:
            continue
        value = size_formulas.number(size, setting)
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


def _cpu_quotas(size: shape.CatalogueEntry) -> Iterator[Spec]:
    if size.cpu_priority:
        shares = size_formulas.number(size, size.cpu_priority)
        yield 'quota:cpu_shares', str(shares), size.cpu_priority
    if not size.cpu_cap:
        return
    cap = {key: below.value for key, below in size.cpu_cap.value.items()}
    if 'percent' in cap and 'quota_us' in cap:
        raise size.error('percent and quota_us say the same thing twice',
                         size.cpu_cap, 'leave one of them out')
    period = cap.get('period_us', _PERIOD_US)
    quota = cap.get('quota_us')
    if quota is None:
        quota = int(period * fractions.Fraction(str(cap['percent'])) / 100)
        if quota < _MIN_QUOTA_US:
            raise size.error(
                f'{cap["percent"]} percent of {period} microseconds are less '
                f'than {_MIN_QUOTA_US}, the least that libvirt takes',
                size.cpu_cap, 'make the period longer')
    yield 'quota:cpu_period', str(period), size.cpu_cap
    yield 'quota:cpu_quota', str(quota), size.cpu_cap
