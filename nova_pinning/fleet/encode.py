# SPDX-License-Identifier: Apache-2.0
"""A fleet as the values of its JSON document.

What is as it mostly is, is left out, and what many hosts or guests have alike
stands once.
"""

from collections.abc import Hashable
from collections.abc import Mapping
from typing import Any
from typing import Generic
from typing import TypeVar

from nova_pinning.admission import devices
from nova_pinning import cpuset
from nova_pinning.document import cpu_sequence
from nova_pinning.flavors import flavor_model
from nova_pinning.fleet import snapshot
from nova_pinning import model
from nova_pinning import spelling

VERSION = 1
# Keys of a device that stand together, apart from the others.
_OF_KIND = ('vendor_id', 'product_id')
PAGE_NAMES = {model.PAGES_SMALL: 'small', model.PAGES_LARGE: 'large',
              model.PAGES_ANY: 'any'}

_Shared = TypeVar('_Shared', bound=Hashable)
# The cells of a host, and its last-level caches.
_Layout = tuple[tuple[model.HostCell, ...], tuple[cpuset.CpuSet, ...]]


class _Table(Generic[_Shared]):
    """Different values in the order in which they come up."""

    def __init__(self) -> None:
        self.values: dict[_Shared, int] = {}

    def place(self, value: _Shared) -> int:
        return self.values.setdefault(value, len(self.values))


def encode_fleet(fleet: snapshot.Fleet) -> dict[str, Any]:
    """The document of a fleet.

    :raises ValueError: if a host has something used, which a snapshot does
        not tell other than by guests, or a guest's fit is not that of its
        topology
    """
    layouts: _Table[_Layout] = _Table()
    trait_sets: _Table[frozenset[str]] = _Table()
    cpu_models: _Table[snapshot.HostCpuModel] = _Table()
    topologies: _Table[model.Guest] = _Table()
    hosts = [_host(host, layouts, trait_sets, cpu_models)
             for host in fleet.hosts]
    guests = [_guest(guest, topologies) for guest in fleet.guests]
    return {
        'version': VERSION,
        **_given({
            'taken_at': fleet.taken_at,
            'source': spelling.printable(fleet.source, '\n'),
            'packs_cells': fleet.packs_cells,
            'enabled_filters': list(fleet.enabled_filters),
            'aggregates': list(map(_aggregate, fleet.aggregates)),
            'server_groups': list(map(_server_group, fleet.server_groups)),
            'pci_aliases': {name: _alias(alias) for name, alias
                            in sorted(fleet.pci_aliases.items())},
            'flavors': list(map(_flavor, fleet.flavors))}),
        'layouts': [_layout(*layout) for layout in layouts.values],
        **_given({
            'trait_sets': list(map(sorted, trait_sets.values)),
            'cpu_models': list(map(_cpu_model, cpu_models.values)),
            'topologies': list(map(_topology, topologies.values))}),
        'hosts': hosts,
        'guests': guests}


def _given(values: Mapping[str, Any], **usual: Any) -> dict[str, Any]:
    """Values that are not as usual, nor empty if nothing else is."""
    return {key: value for key, value in values.items()
            if (value != usual[key] if key in usual else value)}


def _aggregate(aggregate: snapshot.FleetAggregate) -> dict[str, Any]:
    return _given({
        'name': aggregate.name,
        'availability_zone': aggregate.availability_zone,
        'metadata': dict(sorted(aggregate.metadata.items()))})


def _server_group(group: snapshot.FleetServerGroup) -> dict[str, Any]:
    return {
        'id': group.id,
        **_given({'name': spelling.printable(group.name)}),
        'policy': str(group.policy),
        **_given({'max_per_host': group.max_per_host}, max_per_host=1)}


def _cpu_model(cpu: snapshot.HostCpuModel) -> dict[str, Any]:
    return {
        **_given({'arch': cpu.arch, 'vendor': cpu.vendor}),
        'model': cpu.model,
        **_given({'features': sorted(cpu.features)})}


def _alias(alias: snapshot.PciAlias) -> dict[str, Any]:
    # What was before specs had more than vendor and product is as it was.
    is_plain = all({key for key, _value in spec} == {*_OF_KIND}
                   for spec in alias.specs)
    return {**({'kinds': list(map(devices.kind, alias.specs))} if is_plain
               else {'specs': list(map(dict, alias.specs))}),
            **_given({'policy': alias.policy}, policy='legacy')}


def _device_keys(keys: devices.Pairs) -> dict[str, Any]:
    return {'kind': devices.kind(keys), **_given({'keys': {
        key: value for key, value in keys if key not in _OF_KIND}})}


def _flavor(flavor: flavor_model.Flavor) -> dict[str, Any]:
    return {
        'name': flavor.name,
        'vcpus': flavor.vcpus,
        'memory_mib': flavor.memory_mib,
        **_given({
            'id': flavor.id,
            'disk_gib': flavor.disk_gib,
            'ephemeral_gib': flavor.ephemeral_gib,
            'swap_mib': flavor.swap_mib,
            'rxtx_factor': flavor.rxtx_factor,
            'is_public': flavor.is_public,
            'projects': list(flavor.projects),
            'description': spelling.printable(flavor.description, '\n'),
            'extra_specs': dict(sorted(flavor.extra_specs.items())),
        }, rxtx_factor=1.0, is_public=True)}


def _layout(cells: tuple[model.HostCell, ...],
            l3_domains: tuple[cpuset.CpuSet, ...]) -> dict[str, Any]:
    return {'cells': list(map(_cell, cells)),
            **_given({'l3_domains': list(map(str, l3_domains))})}


def _cell(cell: model.HostCell) -> dict[str, Any]:
    if (cell.pinned_cpus or cell.memory_used_mib or cell.shared_used
            or any(pool.used for pool in cell.pages)):
        raise ValueError(f'cell {cell.id} of a host has something used')
    return {
        'id': cell.id,
        **_given({'socket': cell.socket}, socket=None),
        **_given({
            'dedicated_cpus': str(cell.dedicated_cpus),
            'shared_cpus': str(cell.shared_cpus),
            'cores': list(map(list, cell.cores))}),
        'memory_mib': cell.memory_mib,
        **_given({
            'pages': [{'size_kib': pool.size_kib, 'total': pool.total,
                       **_given({'reserved': pool.reserved})}
                      for pool in cell.pages],
            'physnets': sorted(cell.physnets),
            'tunneled': cell.tunneled})}


def _topology(topology: model.Guest) -> dict[str, Any]:
    return {
        **_given({
            'cpu_policy': str(topology.cpu_policy),
            'thread_policy': str(topology.thread_policy),
            'emulator_isolated': topology.emulator_isolated,
            'physnets': sorted(topology.physnets),
            'tunneled': topology.tunneled,
        }, cpu_policy=model.CpuPolicy.SHARED,
            thread_policy=model.ThreadPolicy.PREFER),
        'cells': list(map(_guest_cell, topology.cells))}


def _guest_cell(cell: model.GuestCell) -> dict[str, Any]:
    size = cell.page_size_kib
    return {
        **_given({
            'dedicated_vcpus': str(cpuset.CpuSet(cell.dedicated_vcpus)),
            'shared_vcpus': str(cpuset.CpuSet(cell.shared_vcpus))}),
        'memory_mib': cell.memory_mib,
        **_given({'page_size': None if size is None
                  else PAGE_NAMES.get(size, size)})}


def _host(host: snapshot.FleetHost, layouts: _Table[_Layout],
          trait_sets: _Table[frozenset[str]],
          cpu_models: _Table[snapshot.HostCpuModel]) -> dict[str, Any]:
    return {
        'name': host.name,
        'layout': layouts.place((host.cells, host.l3_domains)),
        **_given({
            'class': host.host_class and str(host.host_class),
            'traits': (None if host.traits is None
                       else trait_sets.place(host.traits)),
            'aggregates': list(host.aggregates),
            'pci_pools': [{
                **_device_keys(pool.keys), 'numa_node': pool.numa_node,
                'total': pool.total,
                **_given({'provider': pool.provider,
                          'is_complete': pool.is_complete}, provider=None)}
                for pool in host.pci_pools],
            'cpu_allocation_ratio': host.cpu_allocation_ratio,
            'ram_allocation_ratio': host.ram_allocation_ratio,
            'disk_allocation_ratio': host.disk_allocation_ratio,
            'reserved_memory_mib': host.reserved_memory_mib,
            'disk_gib': host.disk_gib,
            'resources': dict(sorted(host.resources.items())),
            'is_enabled': host.is_enabled,
            'disabled_reason': spelling.printable(host.disabled_reason, '\n'),
            'nova_release': host.nova_release,
            'nova_cell': spelling.printable(host.nova_cell),
            'cpu_model': (None if host.cpu_model is None
                          else cpu_models.place(host.cpu_model)),
            'hypervisor_version': host.hypervisor_version,
            'inventories': None if host.inventories is None else {
                name: _inventory(host, name)
                for name in sorted({*host.inventories, *host.held})},
            'gaps': [_given({'kind': str(gap.kind),
                             'text': spelling.printable(gap.text),
                             'about': spelling.printable(gap.about)})
                     for gap in host.gaps],
        }, inventories=None, traits=None, cpu_model=None,
            hypervisor_version=None, cpu_allocation_ratio=1.0,
            ram_allocation_ratio=1.0, disk_allocation_ratio=1.0,
            disk_gib=None, is_enabled=True)}


def _inventory(host: snapshot.FleetHost, name: str) -> dict[str, Any]:
    """What Placement has of a resource class; of none there may be a total."""
    has = (host.inventories or {}).get(name)
    return {
        **({} if has is None else {
            'total': has.total,
            **_given({'reserved': has.reserved,
                      'allocation_ratio': has.allocation_ratio,
                      'min_unit': has.min_unit, 'max_unit': has.max_unit,
                      'step_size': has.step_size},
                     reserved=0, allocation_ratio=1.0, min_unit=1,
                     max_unit=None, step_size=1)}),
        **_given({'held': host.held.get(name, 0)})}


def _guest(guest: snapshot.FleetGuest,
           topologies: _Table[model.Guest]) -> dict[str, Any]:
    # Without _given: there are very many guests.
    document: dict[str, Any] = {'uuid': guest.uuid}
    if guest.name:
        document['name'] = spelling.printable(guest.name)
    document['host'] = guest.host
    document['class'] = str(guest.guest_class)
    if guest.flavor:
        document['flavor'] = guest.flavor
    document['vcpus'] = guest.vcpus
    document['memory_mib'] = guest.memory_mib
    if guest.disk_gib:
        document['disk_gib'] = guest.disk_gib
    if guest.resources:
        document['resources'] = dict(sorted(guest.resources.items()))
    if guest.topology is not None:
        document['topology'] = topologies.place(guest.topology)
        if guest.fit is None:
            raise ValueError(f'guest {guest.uuid} has a topology and no fit')
        # strict: a fit of other cells is not one of this topology.
        document['fit'] = [
            _cell_fit(cell_fit, cell.dedicated_vcpus) for cell_fit, cell
            in zip(guest.fit.cells, guest.topology.cells, strict=True)]
    if guest.devices:
        document['devices'] = [
            {**_device_keys(use.keys), 'numa_node': use.numa_node,
             'count': use.count} for use in guest.devices]
    if not guest.is_movable:
        document['is_movable'] = False
    if guest.launched_at:
        document['launched_at'] = guest.launched_at
    if guest.vm_state:
        document['vm_state'] = guest.vm_state
    if guest.project:
        document['project'] = guest.project
    if guest.availability_zone is not None:
        document['availability_zone'] = guest.availability_zone
    if guest.server_group:
        document['server_group'] = guest.server_group
    if guest.cpu_model:
        document['cpu_model'] = guest.cpu_model
    if guest.metadata:
        document['metadata'] = {
            key: spelling.printable(value)
            for key, value in sorted(guest.metadata.items())}
    if guest.tags:
        document['tags'] = list(guest.tags)
    return document


def _cell_fit(fit: model.CellFit, vcpus: tuple[int, ...]) -> dict[str, Any]:
    document: dict[str, Any] = {'cell': fit.host_cell}
    if fit.pins:
        if tuple([vcpu for vcpu, _cpu in fit.pins]) == vcpus:
            document['cpus'] = cpu_sequence.text_of(
                tuple([cpu for _vcpu, cpu in fit.pins]))
        else:
            document['pins'] = list(map(list, fit.pins))
    if fit.emulator_cpus:
        document['emulator_cpus'] = cpu_sequence.text_of(fit.emulator_cpus)
    if fit.page_size_kib is not None:
        document['page_size_kib'] = fit.page_size_kib
    return document
