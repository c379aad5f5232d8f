# SPDX-License-Identifier: Apache-2.0
"""A fleet from the values of its JSON document.

What JSON Schema cannot say is checked here: names that stand twice, lists of
CPUs, positions that lead nowhere. What is odd but can be is left to
nova_pinning.fleet.problems.
"""

from collections.abc import Mapping
from collections.abc import Sequence
import functools
import operator
from typing import Any
from typing import TypeVar

from nova_pinning.admission import devices
from nova_pinning import cpuset
from nova_pinning.document import cpu_sequence
from nova_pinning.document import source
from nova_pinning import errors
from nova_pinning.flavors import flavor_model
from nova_pinning.fleet import encode
from nova_pinning.fleet import snapshot
from nova_pinning import model
from nova_pinning.model import hostclass
from nova_pinning.model import nova_release
from nova_pinning.placement import inventory

_PAGES = {name: number for number, name in encode.PAGE_NAMES.items()}
_CLASSES = {str(host_class): host_class for host_class in hostclass.HostClass}

_Value = TypeVar('_Value')
_Json = Mapping[str, Any]


def decode_fleet(document: source.YamlDocument) -> snapshot.Fleet:
    """The fleet of a document that the schema allows.

    :raises errors.InputError: if it makes no sense all the same
    """
    return _Decoder(document).fleet()


class _Decoder:
    """Reads one document."""

    def __init__(self, document: source.YamlDocument) -> None:
        self._document = document
        self._value: _Json = document.value

    def fleet(self) -> snapshot.Fleet:
        value = self._value
        layouts = [
            self._layout(layout, ('layouts', number))
            for number, layout in enumerate(value['layouts'])]
        topologies = [
            self._topology(topology, ('topologies', number))
            for number, topology in enumerate(value.get('topologies', ()))]
        trait_sets = list(map(frozenset, value.get('trait_sets', ())))
        cpu_models = list(map(_cpu_model, value.get('cpu_models', ())))
        fleet = snapshot.Fleet(
            hosts=tuple([
                self._host(host, number, layouts, trait_sets, cpu_models)
                for number, host in enumerate(value['hosts'])]),
            guests=tuple([
                self._guest(guest, number, topologies)
                for number, guest in enumerate(value.get('guests', ()))]),
            flavors=tuple(
                self._flavor(flavor, number)
                for number, flavor in enumerate(value.get('flavors', ()))),
            aggregates=tuple(map(_aggregate, value.get('aggregates', ()))),
            server_groups=tuple(map(
                _server_group, value.get('server_groups', ()))),
            pci_aliases={
                name: snapshot.PciAlias(
                    tuple([_spec(spec) for spec in alias['specs']]
                          if 'specs' in alias
                          else map(_keys_of_kind, alias['kinds'])),
                    alias.get('policy', 'legacy'))
                for name, alias in value.get('pci_aliases', {}).items()},
            packs_cells=value.get('packs_cells', False),
            enabled_filters=tuple(value.get('enabled_filters', ())),
            taken_at=value.get('taken_at', ''),
            source=value.get('source', ''),
            where=errors.Location(self._document.source))
        self._check_unique('hosts', 'name', [
            host.name for host in fleet.hosts])
        self._check_unique('guests', 'uuid', [
            guest.uuid for guest in fleet.guests])
        self._check_unique('flavors', 'name', [
            flavor.name for flavor in fleet.flavors])
        self._check_unique('aggregates', 'name', [
            aggregate.name for aggregate in fleet.aggregates])
        self._check_unique('server_groups', 'id', [
            group.id for group in fleet.server_groups])
        return fleet

    def _check_unique(self, section: str, key: str,
                      names: Sequence[str]) -> None:
        if len(set(names)) == len(names):
            return
        first: dict[str, int] = {}
        for number, name in enumerate(names):
            if name in first:
                raise self._document.error(
                    f'{name} appears here a second time',
                    (section, number, key),
                    f'the first is {section}[{first[name]}]')
            first[name] = number

    def _cpus(self, text: str, path: source.Path) -> cpuset.CpuSet:
        try:
            return cpuset.CpuSet.parse(text)
        except ValueError as error:
            raise self._document.error(str(error), path) from None

    def _entry(self, table: Sequence[_Value], number: int, name: str,
               path: source.Path) -> _Value:
        if number >= len(table):
            raise self._document.error(
                f'there is no {name}[{number}]', path,
                f'{name} has {len(table):,}, counted from 0')
        return table[number]

    def _layout(
        self, value: _Json, path: source.Path,
    ) -> tuple[tuple[model.HostCell, ...], tuple[cpuset.CpuSet, ...]]:
        cells = tuple(self._cell(cell, (*path, 'cells', number))
                      for number, cell in enumerate(value['cells']))
        seen = set()
        for number, cell in enumerate(cells):
            if cell.id in seen:
                raise self._document.error(
                    f'a cell {cell.id} stands here already',
                    (*path, 'cells', number, 'id'))
            seen.add(cell.id)
        domains = tuple(
            self._cpus(text, (*path, 'l3_domains', number))
            for number, text in enumerate(value.get('l3_domains', ())))
        return cells, domains

    def _cell(self, value: _Json, path: source.Path) -> model.HostCell:
        return model.HostCell(
            id=value['id'],
            shared_cpus=self._cpus(
                value.get('shared_cpus', ''), (*path, 'shared_cpus')),
            dedicated_cpus=self._cpus(
                value.get('dedicated_cpus', ''), (*path, 'dedicated_cpus')),
            pinned_cpus=cpuset.CpuSet(),
            cores=tuple(map(tuple, value.get('cores', ()))),
            memory_mib=value['memory_mib'],
            pages=tuple(
                model.PagePool(pool['size_kib'], pool['total'],
                               reserved=pool.get('reserved', 0))
                for pool in value.get('pages', ())),
            physnets=frozenset(value.get('physnets', ())),
            tunneled=value.get('tunneled', False),
            socket=value.get('socket'))

    def _topology(self, value: _Json, path: source.Path) -> model.Guest:
        return model.Guest(
            cells=tuple(
                self._guest_cell(cell, (*path, 'cells', number))
                for number, cell in enumerate(value['cells'])),
            cpu_policy=model.CpuPolicy(value.get('cpu_policy', 'shared')),
            thread_policy=model.ThreadPolicy(
                value.get('thread_policy', 'prefer')),
            emulator_isolated=value.get('emulator_isolated', False),
            physnets=frozenset(value.get('physnets', ())),
            tunneled=value.get('tunneled', False))

    def _guest_cell(self, value: _Json, path: source.Path) -> model.GuestCell:
        size = value.get('page_size')
        return model.GuestCell(
            dedicated_vcpus=tuple(self._cpus(
                value.get('dedicated_vcpus', ''),
                (*path, 'dedicated_vcpus'))),
            shared_vcpus=tuple(self._cpus(
                value.get('shared_vcpus', ''), (*path, 'shared_vcpus'))),
            memory_mib=value['memory_mib'],
            page_size_kib=_PAGES[size] if isinstance(size, str) else size)

    def _host(
        self, value: _Json, number: int,
        layouts: Sequence[tuple[tuple[model.HostCell, ...],
                                tuple[cpuset.CpuSet, ...]]],
        trait_sets: Sequence[frozenset[str]],
        cpu_models: Sequence[snapshot.HostCpuModel],
    ) -> snapshot.FleetHost:
        path = 'hosts', number
        cells, l3_domains = self._entry(
            layouts, value['layout'], 'layouts', (*path, 'layout'))
        traits = None
        if 'traits' in value:
            traits = self._entry(trait_sets, value['traits'], 'trait_sets',
                                 (*path, 'traits'))
        cpu_model = None
        if 'cpu_model' in value:
            cpu_model = self._entry(cpu_models, value['cpu_model'],
                                    'cpu_models', (*path, 'cpu_model'))
        host_class = value.get('class')
        return snapshot.FleetHost(
            name=value['name'], cells=cells, l3_domains=l3_domains,
            host_class=_CLASSES[host_class] if host_class else None,
            traits=traits, aggregates=tuple(value.get('aggregates', ())),
            pci_pools=tuple(
                snapshot.PciPool(
                    _device_keys(pool), pool['numa_node'], pool['total'],
                    pool.get('provider'), pool.get('is_complete', False))
                for pool in value.get('pci_pools', ())),
            cpu_allocation_ratio=float(value.get('cpu_allocation_ratio', 1)),
            ram_allocation_ratio=float(value.get('ram_allocation_ratio', 1)),
            disk_allocation_ratio=float(
                value.get('disk_allocation_ratio', 1)),
            reserved_memory_mib=value.get('reserved_memory_mib', 0),
            disk_gib=value.get('disk_gib'),
            resources=value.get('resources', {}),
            is_enabled=value.get('is_enabled', True),
            disabled_reason=value.get('disabled_reason', ''),
            nova_release=self._release(value, (*path, 'nova_release')),
            nova_cell=value.get('nova_cell', ''), cpu_model=cpu_model,
            hypervisor_version=value.get('hypervisor_version'),
            inventories=_inventories(value.get('inventories')),
            held={name: has['held'] for name, has
                  in value.get('inventories', {}).items() if 'held' in has},
            gaps=tuple([
                snapshot.HostGap(snapshot.GapKind(gap['kind']), gap['text'],
                                 gap.get('about', ''))
                for gap in value.get('gaps', ())]))

    def _release(self, value: _Json, path: source.Path) -> str | None:
        """The name of a release of nova, None if it is not given."""
        if 'nova_release' not in value:
            return None
        try:
            return nova_release.of_name(value['nova_release']).name
        except nova_release.UnknownRelease as error:
            raise self._document.error(str(error), path) from None

    def _guest(self, value: _Json, number: int,
               topologies: Sequence[model.Guest]) -> snapshot.FleetGuest:
        topology = fit = None
        if 'topology' in value:
            topology = self._entry(
                topologies, value['topology'], 'topologies',
                ('guests', number, 'topology'))
        if (topology is None) is not ('fit' not in value):
            raise self._document.error(
                'of topology and fit one is missing', ('guests', number))
        if topology is not None:
            fit = self._fit(value['fit'], topology, ('guests', number, 'fit'))
        return snapshot.FleetGuest(
            uuid=value['uuid'], host=value['host'], vcpus=value['vcpus'],
            memory_mib=value['memory_mib'],
            guest_class=_CLASSES[value['class']],
            name=value.get('name', ''), flavor=value.get('flavor', ''),
            disk_gib=value.get('disk_gib', 0),
            resources=value.get('resources', {}), topology=topology, fit=fit,
            devices=tuple([
                snapshot.PciUse(_device_keys(use), use['numa_node'],
                                use['count'])
                for use in value.get('devices', ())]),
            is_movable=value.get('is_movable', True),
            launched_at=value.get('launched_at', ''),
            vm_state=value.get('vm_state', ''),
            project=value.get('project', ''),
            availability_zone=value.get('availability_zone'),
            server_group=value.get('server_group', ''),
            cpu_model=value.get('cpu_model', ''),
            metadata=value.get('metadata', {}),
            tags=tuple(value.get('tags', ())))

    def _fit(self, values: Sequence[_Json], topology: model.Guest,
             path: source.Path) -> model.Fit:
        if len(values) != len(topology.cells):
            raise self._document.error(
                f'places {len(values)} cells, where the topology has '
                f'{len(topology.cells)}', path)
        return model.Fit(tuple([
            self._cell_fit(value, cell, (*path, number))
            for number, (value, cell) in enumerate(
                zip(values, topology.cells))]))

    def _cell_fit(self, value: _Json, cell: model.GuestCell,
                  path: source.Path) -> model.CellFit:
        cpus = None
        if 'cpus' in value:
            cpus = self._sequence(value['cpus'], (*path, 'cpus'))
        if cpus is not None and len(cpus) != len(cell.dedicated_vcpus):
            raise self._document.error(
                f'has {len(cpus)} CPUs, where the cell has '
                f'{len(cell.dedicated_vcpus)} dedicated vCPUs',
                (*path, 'cpus'),
                'write pins where other vCPUs are pinned')
        if cpus is not None and 'pins' in value:
            raise self._document.error('has both cpus and pins', path)
        return model.CellFit(
            host_cell=value['cell'],
            pins=(tuple(zip(cell.dedicated_vcpus, cpus)) if cpus is not None
                  else tuple([(vcpu, cpu)
                              for vcpu, cpu in value.get('pins', ())])),
            emulator_cpus=(self._sequence(
                value['emulator_cpus'], (*path, 'emulator_cpus'))
                if 'emulator_cpus' in value else ()),
            page_size_kib=value.get('page_size_kib'))

    def _sequence(self, text: str, path: source.Path) -> tuple[int, ...]:
        try:
            return cpu_sequence.parse(text)
        except ValueError as error:
            raise self._document.error(str(error), path) from None

    def _flavor(self, value: _Json, number: int) -> flavor_model.Flavor:
        return flavor_model.Flavor(
            name=value['name'], id=value.get('id', ''),
            vcpus=value['vcpus'], memory_mib=value['memory_mib'],
            disk_gib=value.get('disk_gib', 0),
            ephemeral_gib=value.get('ephemeral_gib', 0),
            swap_mib=value.get('swap_mib', 0),
            rxtx_factor=float(value.get('rxtx_factor', 1)),
            is_public=value.get('is_public', True),
            projects=tuple(value.get('projects', ())),
            description=value.get('description', ''),
            extra_specs=value.get('extra_specs', {}),
            where=errors.Location(self._document.source,
                                  key=f'flavors[{number}]'))


def _aggregate(value: _Json) -> snapshot.FleetAggregate:
    return snapshot.FleetAggregate(
        value['name'], value.get('availability_zone'),
        value.get('metadata', {}))


def _server_group(value: _Json) -> snapshot.FleetServerGroup:
    return snapshot.FleetServerGroup(
        id=value['id'], policy=snapshot.GroupPolicy(value['policy']),
        name=value.get('name', ''),
        max_per_host=value.get('max_per_host', 1))


def _inventories(
    value: _Json | None,
) -> Mapping[str, inventory.Inventory] | None:
    if value is None:
        return None
    return {name: inventory.Inventory(
        has['total'], has.get('reserved', 0),
        float(has.get('allocation_ratio', 1)), has.get('min_unit', 1),
        has.get('max_unit'), has.get('step_size', 1))
        for name, has in value.items() if 'total' in has}


def _cpu_model(value: _Json) -> snapshot.HostCpuModel:
    return snapshot.HostCpuModel(
        arch=value.get('arch', ''), vendor=value.get('vendor', ''),
        model=value['model'],
        features=frozenset(value.get('features', ())))


@functools.lru_cache(maxsize=4096)
def _keys_of_kind(text: str) -> devices.Pairs:
    vendor_id, _colon, product_id = text.partition(':')
    return devices.device_keys(vendor_id, product_id, '')


def _device_keys(value: _Json) -> devices.Pairs:
    keys = _keys_of_kind(value['kind'])
    more = value.get('keys')
    return tuple(sorted((*keys, *more.items()))) if more else keys


def _spec(value: Mapping[str, str | None]) -> devices.PciSpec:
    return tuple(sorted(value.items(), key=operator.itemgetter(0)))
