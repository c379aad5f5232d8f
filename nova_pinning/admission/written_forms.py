# SPDX-License-Identifier: Apache-2.0
"""How hosts and guests stand in files where their classes know of none.

The engine's classes, and those of Placement's inventories, are below all that
has to do with files.
"""

from collections.abc import Mapping
import functools
import operator
from typing import Annotated
from typing import Any
from typing import Literal
from typing import TypeAlias

from nova_pinning import cpuset
from nova_pinning.document import codec
from nova_pinning.document import cpu_sequence
from nova_pinning.document import terms
from nova_pinning import model
from nova_pinning.model import nova_release
from nova_pinning.placement import inventory

_PAGE_NAMES = {size: word for word, size in model.PAGE_WORDS.items()}
_SEQUENCE = '[0-9]{1,5}(-[0-9]{1,5})?(,[0-9]{1,5}(-[0-9]{1,5})?)*'
_MAX_SEQUENCE = 262144
_MAX_CELLS = 1024

Trait = Annotated[str, codec.Limit(
    title='a trait such as CUSTOM_PINNING_DEDICATED',
    pattern='^[A-Z0-9_]{1,255}$')]
Traits: TypeAlias = Annotated[frozenset[Trait], codec.Shared('trait_sets')]
ResourceClass = Annotated[str, codec.Limit(
    title='a resource class such as PCPU', pattern='^[A-Z0-9_]{1,255}$')]
Texts: TypeAlias = Mapping[terms.Word, terms.Prose]
ShownTexts: TypeAlias = Mapping[terms.Word, terms.ShownProse]
Release = Annotated[str, codec.Form(
    Annotated[str, codec.Limit(title='a release of nova, such as 2025.1',
                               pattern='^20[0-9][0-9][.][12]$')],
    str, lambda name: nova_release.of_name(name).name)]


def _sorted_pairs(mapping: Mapping[str, Any]) -> tuple[tuple[str, Any], ...]:
    return tuple((name, mapping[name]) for name in sorted(mapping))


_Inventory: TypeAlias = Annotated[inventory.Inventory, codec.Fields(
    total=terms.Amount, reserved=terms.Amount, allocation_ratio=terms.Ratio,
    min_unit=terms.Amount, max_unit=terms.Amount | None,
    step_size=terms.Amount)]
Inventories: TypeAlias = Annotated[
    Mapping[ResourceClass, _Inventory], codec.Shared('inventories')]
#: Sorted pairs that stand for such a mapping.
InventoryPairs: TypeAlias = Annotated[
    tuple[tuple[str, inventory.Inventory], ...],
    codec.Form(Inventories, dict, _sorted_pairs)]
Amounts: TypeAlias = Annotated[
    tuple[tuple[str, int], ...],
    codec.Form(Mapping[ResourceClass, terms.Amount], dict, _sorted_pairs)]
#: The same where some may be below 0.
Differences: TypeAlias = Annotated[
    tuple[tuple[str, int], ...],
    codec.Form(Mapping[ResourceClass, terms.Difference], dict, _sorted_pairs)]
#: Of a PCI alias.
AliasSpec: TypeAlias = Annotated[
    tuple[tuple[str, str], ...],
    codec.Form(Mapping[terms.Word, terms.Line], dict, _sorted_pairs)]
DeviceKeys: TypeAlias = Annotated[AliasSpec, codec.Shared('device_keys')]


def _distinct(
    cells: tuple[model.HostCell, ...],
) -> tuple[model.HostCell, ...]:
    seen = set()
    for number, cell in enumerate(cells):
        if cell.id in seen:
            raise codec.MisfitError(
                f'a cell {cell.id} stands here already', number, 'id')
        seen.add(cell.id)
    return cells


#: What is used of them follows from guests.
Cells: TypeAlias = Annotated[tuple[model.HostCell, ...], codec.Form(
    Annotated[tuple[Annotated[model.HostCell, codec.Fields(
        {'pinned_cpus': cpuset.CpuSet(), 'memory_used_mib': 0,
         'shared_used': 0},
        id=terms.Node, cores=tuple[tuple[terms.Cpu, ...], ...],
        memory_mib=terms.Amount, physnets=frozenset[terms.Word],
        pages=tuple[Annotated[model.PagePool, codec.Fields(
            {'used': 0}, size_kib=terms.PageSizeKib, total=terms.Amount,
            reserved=terms.Amount)], ...],
        socket=Annotated[int, codec.Limit(
            title='the number of a socket', minimum=0,
            maximum=2 ** 31 - 1)] | None)], ...],
        codec.Limit(maxItems=_MAX_CELLS)],
    tuple, _distinct), codec.Shared('layouts')]

_Vcpus: TypeAlias = Annotated[tuple[int, ...], codec.Form(
    codec.CPUS.kind, lambda vcpus: str(cpuset.CpuSet(vcpus)),
    lambda text: tuple(cpuset.CpuSet.parse(text)))]
Topology: TypeAlias = Annotated[model.Guest, codec.Fields(
    cells=Annotated[tuple[Annotated[model.GuestCell, codec.Fields(
        dedicated_vcpus=_Vcpus, shared_vcpus=_Vcpus, memory_mib=terms.Amount,
        page_size_kib=Annotated[int, codec.Form(
            Annotated[terms.PageSizeKib | Literal['small', 'large', 'any'],
                      codec.Limit(title='a page size in KiB, or small, large '
                                        'or any')],
            lambda size: _PAGE_NAMES.get(size, size),
            lambda size: model.PAGE_WORDS.get(size, size))] | None)], ...],
        codec.Limit(minItems=1, maxItems=_MAX_CELLS)],
    physnets=frozenset[terms.Word]), codec.Shared('topologies')]


@functools.lru_cache(maxsize=65536)
def _pins_text(pins: tuple[tuple[int, int], ...]) -> str:
    vcpus, cpus = zip(*pins)
    text = cpu_sequence.text_of(cpus)
    if vcpus == tuple(range(len(vcpus))):
        return text
    return f'{cpu_sequence.text_of(vcpus)}:{text}'


@functools.lru_cache(maxsize=65536)
def _pins(text: str) -> tuple[tuple[int, int], ...]:
    of_vcpus, colon, of_cpus = text.rpartition(':')
    cpus = cpu_sequence.parse(of_cpus)
    vcpus = (cpu_sequence.parse(of_vcpus) if colon
             else tuple(range(len(cpus))))
    if len(vcpus) != len(cpus):
        raise ValueError(f'{text} has {len(cpus)} CPUs for {len(vcpus)} vCPUs')
    return tuple(zip(vcpus, cpus))


#: The vCPUs before the colon are left out if they are counted from 0.
_Pins: TypeAlias = Annotated[tuple[tuple[int, int], ...], codec.Form(
    Annotated[str, codec.Limit(
        title='a sequence of CPUs such as 4-7,44-47, or that of vCPUs before '
              'it, 8-15:4-7,44-47', maxLength=2 * _MAX_SEQUENCE,
        pattern=f'^({_SEQUENCE}:)?{_SEQUENCE}$')], _pins_text, _pins)]
Place: TypeAlias = Annotated[model.Fit, codec.Form(
    Annotated[tuple[Annotated[model.CellFit, codec.Fields(
        host_cell=terms.Node, pins=_Pins,
        emulator_cpus=Annotated[tuple[int, ...], codec.Form(
            Annotated[str, codec.Limit(
                title='a sequence of CPUs such as 4-7,44-47',
                maxLength=_MAX_SEQUENCE, pattern=f'^{_SEQUENCE}$')],
            cpu_sequence.text_of, cpu_sequence.parse)],
        page_size_kib=terms.PageSizeKib | None)], ...],
        codec.Limit(minItems=1)],
    operator.attrgetter('cells'), model.Fit)]
