# SPDX-License-Identifier: Apache-2.0
"""The keys of host files, and what each stands for.

host-1.json says what may stand there, doc/source/reference/host-files.rst
what it means. What can be read in more than one way, such as the CPUs of a
node, is left to ``hostfile`` and ``hostfile_writer``.
"""

from collections.abc import Mapping
from typing import Any

from nova_pinning import cpuset
from nova_pinning.document import quantities
from nova_pinning.document import source
from nova_pinning.host import file_forms
from nova_pinning.host import hardware
from nova_pinning.host import host_model
from nova_pinning.host import plan_model

#: The smallest page size in KiB that is a huge page somewhere.
_LEAST_HUGE_KIB = 16


def _read_pages(reader: file_forms.DocumentReader, value: Mapping[str, int],
                path: source.Path) -> dict[int, int]:
    pages: dict[int, int] = {}
    for text, count in value.items():
        here = (*path, text)
        before = len(reader.errors)
        size = reader.amount(quantities.page_size_kib, text, here)
        if len(reader.errors) > before:
            continue
        if size < _LEAST_HUGE_KIB or size.bit_count() != 1:
            reader.fail(f'{text} is not a size of huge pages', here,
                        'write it like 2MiB or 1GiB', key=True)
        elif size in pages:
            reader.fail(f'{text} appears here a second time', here, key=True)
        pages[size] = count
    return pages


def _write_pages(pages: Mapping[int, int]) -> dict[str, int]:
    return {quantities.page_size_text(size): count
            for size, count in sorted(pages.items())}


def _read_reserved(
    reader: file_forms.DocumentReader, value: Mapping[str, Any],
    path: source.Path,
) -> dict[tuple[int, int], int]:
    return {(int(node), size): count
            for node, pages in value.items()
            for size, count in _read_pages(
                reader, pages, (*path, node)).items()}


def _write_reserved(
    reserved: Mapping[tuple[int, int], int],
) -> dict[int, dict[str, int]]:
    by_node: dict[int, dict[int, int]] = {}
    for (node, size), count in sorted(reserved.items()):
        by_node.setdefault(node, {})[size] = count
    return {node: _write_pages(pages) for node, pages in by_node.items()}


_DOMAINS = file_forms.listed(file_forms.CPUS)
_ADDRESSES = file_forms.listed(file_forms.LOWER)

#: What the types of attributes do not tell.
SPECIAL: file_forms.SpecialForms = {
    host_model.HostDescription: {
        'nodes': None,
        'cpu_model': file_forms.derived(host_model.CpuModel, {
            host_model.CpuModel: {'features': file_forms.converted(
                lambda value: tuple(sorted(value)), list)}}).at('cpu')},
    host_model.NumaNode: {
        'socket': file_forms.PLAIN.unless(0).always(),
        'cores': None,
        'memory_mib': file_forms.MEMORY_MIB.at('memory'),
        'huge_pages': file_forms.DocumentForm(_read_pages, _write_pages),
        'gpu': file_forms.LOWER},
    host_model.PciDevice: {
        'address': file_forms.LOWER,
        'vendor_id': file_forms.LOWER,
        'product_id': file_forms.LOWER,
        'numa_node': file_forms.PLAIN.unless(None),
        'interrupts': file_forms.DocumentForm(
            lambda reader, value, path: tuple(reader.cpus(value, path)),
            cpuset.CpuSet),
        'physical_function': file_forms.LOWER,
        'parent': file_forms.LOWER,
        'vgpu_type': file_forms.LOWER,
        'companions': _ADDRESSES,
        'bars_kib': file_forms.listed(file_forms.PAGE_SIZE_KIB).at('bars'),
        'namespaces_mib': file_forms.by_key(
            file_forms.MEMORY_MIB).at('namespaces')},
    hardware.PciBridge: {
        'address': file_forms.LOWER,
        'parent': file_forms.LOWER},
    hardware.VirtualGpuType: {'id': file_forms.converted(str, str)},
    hardware.NvLinks: {'addresses': _ADDRESSES},
    hardware.GpuPartition: {'addresses': _ADDRESSES},
    host_model.NovaSettings: {
        'reserved_memory_mib': file_forms.MEMORY_MIB.at('reserved_memory'),
        'reserved_huge_pages': file_forms.DocumentForm(
            _read_reserved, _write_reserved)},
    hardware.Caches: {
        'size_kib': file_forms.PAGE_SIZE_KIB.at('size').unless(0),
        # A word for domains that follow from the nodes' cores.
        'domains': file_forms.DocumentForm(
            lambda reader, value, path: value if isinstance(value, str)
            else _DOMAINS.read(reader, value, path), _DOMAINS.write)},
    hardware.CacheAllocation: {
        'cbm_mask': file_forms.MASK,
        'shareable_bits': file_forms.MASK,
        'has_cdp': file_forms.PLAIN.at('cdp')},
    hardware.System: {
        'has_iommu': file_forms.PLAIN.at('iommu'),
        'page_size_kib': file_forms.PAGE_SIZE_KIB.at('page_size')},
    plan_model.HostPlan: {
        'purpose': file_forms.converted(plan_model.Purpose, str).at('class'),
        'page_size_kib': file_forms.PAGE_SIZE_KIB.at('page_size'),
        'memory_kept_mib': file_forms.by_number(
            file_forms.MEMORY_MIB).at('memory_kept'),
        'levers': file_forms.by_key(file_forms.converted(str, str))},
    plan_model.GuestSize: {
        'weight': file_forms.PLAIN.always(),
        'cells': file_forms.PLAIN.always()},
    plan_model.Offer: {
        'shared_vcpus': file_forms.PLAIN.always()},
    plan_model.Interrupts: {
        'address': file_forms.LOWER}}

#: A host but for its nodes.
HOST = file_forms.RecordForm(host_model.HostDescription, SPECIAL)
#: A node but for its cores.
NODE = file_forms.RecordForm(host_model.NumaNode, SPECIAL)
