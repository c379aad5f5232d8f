# SPDX-License-Identifier: Apache-2.0


"""Host files: YAML or JSON, version 1.

doc/source/reference/host-files.rst describes the format, host-1.json is its
schema.
"""

from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
import itertools
from typing import Any
from typing import TypeVar

from nova_pinning import cpuset
from nova_pinning.document import quantities
from nova_pinning.document import schema
from nova_pinning.document import source
from nova_pinning import errors
from nova_pinning.host import hardware
from nova_pinning.host import host_model
from nova_pinning.host import plan_document
from nova_pinning.host import plan_model
from nova_pinning.host import problems

#: The smallest page size in KiB that is a huge page somewhere.
_LEAST_HUGE_KIB = 16
_MAX_CPUS = cpuset.MAX_CPU_ID + 1

_T = TypeVar('_T')


def read(document: source.YamlDocument) -> host_model.HostDescription:
    """The host that a file describes.

    :raises errors.InputErrors: all that is wrong with it
    """
    schema.validate(document, schema.shipped(__package__, 'host-1.json'))
    reader = _HostFileReader(document)
    description = reader.host()
    if not reader.errors:
        reader.check(description)
    if reader.errors:
        raise errors.InputErrors(tuple(reader.errors))
    return description


def split_cores(
    cpus: cpuset.CpuSet, threads: int, numbering: str,
) -> tuple[tuple[int, ...], ...]:
    """Cores from CPU ids that were given out in order.

    :param cpus: as many as make up whole cores
    :param numbering: 'split' if all first threads come before any second
        one: 0-3 with two threads are (0, 2), (1, 3). 'adjacent' if the
        threads of a core are neighbours: (0, 1), (2, 3)
    """
    ids = tuple(cpus)
    if numbering == 'adjacent':
        return tuple(ids[first:first + threads]
                     for first in range(0, len(ids), threads))
    count = len(ids) // threads
    return tuple(ids[core::count] for core in range(count))


def even_domains(
    cores: Sequence[tuple[int, ...]], size: int,
) -> tuple[cpuset.CpuSet, ...]:
    """L3 domains that each have so many cores, in the order of the cores."""
    return tuple(
        cpuset.CpuSet(itertools.chain.from_iterable(cores[first:first + size]))
        for first in range(0, len(cores), size))


def private_domains(
    nodes: Iterable[host_model.NumaNode],
) -> dict[str, tuple[cpuset.CpuSet, ...]]:
    """What caches have for domains that no two cores share, ascending.

    :returns: 'cores' if each core has one, 'cpus' if each CPU has
    """
    cores = [core for node in nodes for core in node.cores]
    return {
        'cores': tuple(sorted(map(cpuset.CpuSet, cores))),
        'cpus': tuple(cpuset.CpuSet([cpu]) for cpu in sorted(
            itertools.chain.from_iterable(cores)))}


class _HostFileReader:
    """Reads a document that the schema has found good."""

    def __init__(self, document: source.YamlDocument) -> None:
        self._document = document
        self._value: dict[str, Any] = document.value
        cpu = self._value.get('cpu', {})
        self._threads: int = cpu.get('threads_per_core', 1)
        self._numbering: str = cpu.get('numbering', 'split')
        self._cores_per_l3: int | None = cpu.get('cores_per_l3')
        self._cpu_count = 0
        self.errors: list[errors.InputError] = []

    def host(self) -> host_model.HostDescription:
        value = self._value
        cpu = value.get('cpu', {})
        nodes = [self._node(node, ('nodes', index))
                 for index, node in enumerate(value['nodes'])]
        return host_model.HostDescription(
            name=value['name'],
            nodes=tuple(sorted(nodes, key=lambda node: node.id)),
            pci_devices=tuple(
                self._device(device, ('pci_devices', index))
                for index, device in enumerate(value.get('pci_devices', ()))),
            nova=self._nova(value.get('nova', {})),
            cpu_model=host_model.CpuModel(
                arch=cpu.get('arch', 'x86_64'),
                model=cpu.get('model', ''),
                vendor=cpu.get('vendor', ''),
                features=tuple(sorted(cpu.get('features', ())))),
            traits=frozenset(value.get('traits', ())),
            description=value.get('description', ''),
            offline_cpus=self._cpus(
                value.get('offline_cpus', ''), ('offline_cpus',)),
            dies=tuple(
                self._die(die, ('dies', index))
                for index, die in enumerate(value.get('dies', ()))),
            caches=tuple(
                self._caches(caches, nodes, ('caches', index))
                for index, caches in enumerate(value.get('caches', ()))),
            core_kinds=tuple(
                self._core_kind(kind, ('core_kinds', index))
                for index, kind in enumerate(value.get('core_kinds', ()))),
            resctrl=(self._resctrl(value['resctrl'])
                     if 'resctrl' in value else None),
            system=self._system(value.get('system', {})),
            plan=self._plan(value['plan']) if 'plan' in value else None,
            where=self._document.locate())

    def check(self, description: host_model.HostDescription) -> None:
        """Add what cannot be true of the host as a whole."""
        ids = [node['id'] for node in self._value['nodes']]
        # Nodes were sorted (a stable sort, which matters where ids repeat).
        indexes = sorted(range(len(ids)), key=ids.__getitem__)
        for problem in problems.inconsistencies(description):
            path = problem.path
            if path[0] == 'nodes' and len(path) > 1:
                index = indexes[int(path[1])]
                node = self._value['nodes'][index]
                if path[2] == 'l3_domains' and 'l3_domains' not in node:
                    # Made from the cores, whose own errors are told.
                    continue
                path = self._node_path(index, path[2:])
            self._fail(problem.message, path, problem.advice)

    def _node_path(self, index: int, rest: source.Path) -> source.Path:
        """Where a node's problem stands: CPUs have two ways to be given."""
        node = self._value['nodes'][index]
        for key, other in (('cpus', 'cores'), ('cores', 'cpus')):
            if rest[0] == key and key not in node:
                return 'nodes', index, other
        return 'nodes', index, *rest

    def _node(self, value: Mapping[str, Any],
              path: source.Path) -> host_model.NumaNode:
        cores = self._cores(value, path)
        if 'l3_domains' in value:
            domains = tuple(
                self._cpus(text, (*path, 'l3_domains', index))
                for index, text in enumerate(value['l3_domains']))
        else:
            domains = self._domains(cores, path)
        return host_model.NumaNode(
            id=value['id'],
            socket=value.get('socket', 0),
            cores=cores,
            memory_mib=self._memory(value['memory'], (*path, 'memory')),
            huge_pages=self._pages(
                value.get('huge_pages', {}), (*path, 'huge_pages')),
            l3_domains=domains,
            distances=tuple(value.get('distances', ())))

    def _cores(
        self, value: Mapping[str, Any], path: source.Path,
    ) -> tuple[tuple[int, ...], ...]:
        if ('cpus' in value) == ('cores' in value):
            self._fail('a node has either cpus or cores', path,
                       "write cpus: '0-19,40-59', or cores: '0,40 1,41'")
            return ()
        if 'cores' in value:
            cores = (self._own_cpus(text, (*path, 'cores'))
                     for text in value['cores'].split())
            return tuple(sorted(tuple(core) for core in cores if core))
        cpus = self._own_cpus(value['cpus'], (*path, 'cpus'))
        if len(cpus) % self._threads:
            self._fail(
                f'{len(cpus)} CPUs do not make up cores of {self._threads} '
                'threads', (*path, 'cpus'),
                'use cores where CPUs are offline')
            return ()
        return split_cores(cpus, self._threads, self._numbering)

    def _domains(
        self, cores: Sequence[tuple[int, ...]], path: source.Path,
    ) -> tuple[cpuset.CpuSet, ...]:
        size = self._cores_per_l3
        if size is None:
            return ()
        if len(cores) % size:
            self._fail(
                f'its {len(cores)} cores cannot be shared out to L3 caches '
                f'of {size} cores', path, 'give the node its l3_domains')
        return even_domains(cores, size)

    def _device(
        self, value: Mapping[str, Any], path: source.Path,
    ) -> host_model.PciDevice:
        return host_model.PciDevice(
            address=value['address'].lower(),
            vendor_id=str(value['vendor_id']).lower(),
            product_id=str(value['product_id']).lower(),
            numa_node=value.get('numa_node'),
            alias=value.get('alias', ''),
            kind=hardware.PciKind(value.get('kind', 'other')),
            driver=value.get('driver', ''),
            names=tuple(value.get('names', ())),
            iommu_group=value.get('iommu_group'),
            queues=value.get('queues', 0),
            interrupts=tuple(self._cpus(
                value.get('interrupts', ''), (*path, 'interrupts'))),
            speed_mbps=value.get('speed_mbps', 0),
            in_use=value.get('in_use', ''),
            physical_function=value.get('physical_function', '').lower())

    def _die(
        self, value: Mapping[str, Any], path: source.Path,
    ) -> hardware.Die:
        return hardware.Die(value['socket'], value['id'],
                            self._cpus(value['cpus'], (*path, 'cpus')))

    def _caches(
        self, value: Mapping[str, Any], nodes: Sequence[host_model.NumaNode],
        path: source.Path,
    ) -> hardware.Caches:
        domains = value['domains']
        size = self._try(quantities.page_size_kib, value.get('size', 0),
                         (*path, 'size'))
        return hardware.Caches(
            level=value['level'],
            kind=hardware.CacheKind(value['kind']),
            size_kib=size or 0,
            domains=private_domains(nodes)[domains]
            if isinstance(domains, str) else tuple(
                self._cpus(text, (*path, 'domains', index))
                for index, text in enumerate(domains)))

    def _core_kind(
        self, value: Mapping[str, Any], path: source.Path,
    ) -> hardware.CoreKind:
        return hardware.CoreKind(
            value['name'], self._cpus(value['cpus'], (*path, 'cpus')),
            value.get('capacity', 0))

    def _resctrl(self, value: Mapping[str, Any]) -> hardware.Resctrl:
        l3 = value.get('l3')
        mb = value.get('mb')
        return hardware.Resctrl(
            {int(number): self._cpus(text, ('resctrl', 'domains', number))
             for number, text in value['domains'].items()},
            l3 and hardware.CacheAllocation(
                int(str(l3['cbm_mask']), 16), l3.get('min_cbm_bits', 1),
                int(str(l3.get('shareable_bits', 0)), 16),
                l3.get('num_closids', 1), l3.get('cdp', False)),
            mb and hardware.BandwidthAllocation(**mb))

    def _system(self, value: Mapping[str, Any]) -> hardware.System:
        governors = {
            name: self._cpus(text, ('system', 'governors', name))
            for name, text in value.get('governors', {}).items()}
        return hardware.System(
            kernel=value.get('kernel', ''),
            command_line=value.get('command_line', ''),
            isolated_cpus=self._cpus(
                value.get('isolated_cpus', ''), ('system', 'isolated_cpus')),
            nohz_full_cpus=self._cpus(
                value.get('nohz_full_cpus', ''),
                ('system', 'nohz_full_cpus')),
            smt=value.get('smt', ''),
            cpufreq_driver=value.get('cpufreq_driver', ''),
            governors=governors,
            virtualization=value.get('virtualization', ''),
            has_iommu=value.get('iommu'),
            posted_interrupts=value.get('posted_interrupts'),
            mitigations=dict(value.get('mitigations', {})))

    def _nova(self, value: Mapping[str, Any]) -> host_model.NovaSettings:
        path = 'nova', 'reserved_huge_pages'
        reserved = {
            (int(node), size): count
            for node, pages in value.get('reserved_huge_pages', {}).items()
            for size, count in self._pages(pages, (*path, node)).items()}
        return host_model.NovaSettings(
            dedicated_cpus=self._cpus_or_none(value, 'dedicated_cpus'),
            shared_cpus=self._cpus_or_none(value, 'shared_cpus'),
            cpu_allocation_ratio=float(
                value.get('cpu_allocation_ratio', 1.0)),
            ram_allocation_ratio=float(
                value.get('ram_allocation_ratio', 1.0)),
            reserved_memory_mib=self._memory(
                value.get('reserved_memory', 0), ('nova', 'reserved_memory')),
            reserved_huge_pages=reserved,
            packs_cells=value.get('packs_cells'))

    def _plan(self, value: Mapping[str, Any]) -> plan_model.HostPlan:
        return plan_document.read(value, plan_document.ValueReaders(
            cpus=lambda text, path: self._cpus(text, ('plan', *path)),
            memory_mib=lambda text, path: self._memory(
                text, ('plan', *path)),
            page_size_kib=lambda text, path: self._try(
                quantities.page_size_kib, text, ('plan', *path)) or 0))

    def _cpus_or_none(
        self, value: Mapping[str, Any], key: str,
    ) -> cpuset.CpuSet | None:
        if key not in value:
            return None
        return self._cpus(value[key], ('nova', key))

    def _own_cpus(self, text: str | int, path: source.Path) -> cpuset.CpuSet:
        """CPUs that are the host's; no more of them than there can be."""
        cpus = self._cpus(text, path)
        before = self._cpu_count
        self._cpu_count += len(cpus)
        if self._cpu_count <= _MAX_CPUS:
            return cpus
        if before <= _MAX_CPUS:
            self._fail(f'the host has more than {_MAX_CPUS} CPUs up to here',
                       path)
        return cpuset.CpuSet()

    def _cpus(self, text: str | int, path: source.Path) -> cpuset.CpuSet:
        try:
            return cpuset.CpuSet.parse(str(text))
        except ValueError as error:
            self._fail(str(error), path)
            return cpuset.CpuSet()

    def _pages(
        self, value: Mapping[str, int], path: source.Path,
    ) -> dict[int, int]:
        pages: dict[int, int] = {}
        for text, count in value.items():
            here = (*path, text)
            size = self._try(quantities.page_size_kib, text, here)
            if size is None:
                continue
            if size < _LEAST_HUGE_KIB or size.bit_count() != 1:
                self._fail(f'{text} is not a size of huge pages', here,
                           'write it like 2MiB or 1GiB', key=True)
            elif size in pages:
                self._fail(f'{text} appears here a second time', here,
                           key=True)
            pages[size] = count
        return pages

    def _memory(self, value: str | int, path: source.Path) -> int:
        return self._try(quantities.memory_mib, value, path) or 0

    def _try(
        self, read: Callable[[_T, errors.Location], int], value: _T,
        path: source.Path,
    ) -> int | None:
        try:
            return read(value, self._document.locate(path))
        except errors.InputError as error:
            self.errors.append(error)
            return None

    def _fail(self, message: str, path: source.Path, advice: str = '',
              key: bool = False) -> None:
        self.errors.append(self._document.error(message, path, advice, key))
