# SPDX-License-Identifier: Apache-2.0


"""Fleets for tests: any that can be written down, and small tidy ones."""

import dataclasses

from hypothesis import strategies

from nova_pinning.admission import devices
from nova_pinning.admission import host_occupancy
from nova_pinning.admission import offered_host
from nova_pinning.admission import outcome
from nova_pinning.admission import pci_alias
from nova_pinning.admission import resident_guest
from nova_pinning.admission import scheduler_rules
from nova_pinning import cpuset
from nova_pinning.flavors import flavor_model
from nova_pinning.fleet import generate
from nova_pinning.fleet import occupied
from nova_pinning.fleet import snapshot
from nova_pinning import model
from nova_pinning.model import hostclass
from nova_pinning.placement import inventory

_AMOUNTS = strategies.integers(0, 2 ** 53 - 1)
_NODES = strategies.integers(0, 65535)
_WORDS = strategies.text(strategies.characters(
    codec='utf-8', exclude_categories=('Cc', 'Cf', 'Cs', 'Zl', 'Zp', 'Zs',
                                       'Co', 'Cn')), min_size=1, max_size=8)
_NAMES = strategies.text('abc-.019', min_size=1, max_size=4)
# Some next to each other.
_CPUS = strategies.integers(0, 8) | strategies.integers(0, 300)
_CPU_SETS = strategies.builds(
    cpuset.CpuSet, strategies.sets(_CPUS, max_size=6))
_SEQUENCES = strategies.lists(_CPUS, max_size=6).map(tuple)
_RATIOS = strategies.floats(0.001, 10 ** 6)
_CLASSES = strategies.sampled_from(hostclass.HostClass)
_KINDS = strategies.builds(
    devices.device_keys, strategies.sampled_from(['8086', '10de']),
    strategies.sampled_from(['1572', '20b5']),
    strategies.sampled_from(['', 'type-PCI', 'type-VF']),
    physical_network=_WORDS)
_POLICIES = strategies.sampled_from(
    ['legacy', 'preferred', 'required', 'socket'])
_TEXTS = strategies.dictionaries(_WORDS, _WORDS, max_size=2)
_NETWORKS = strategies.frozensets(_WORDS, max_size=2)
_ANY_NODE = strategies.none() | _NODES


_RESOURCES = strategies.sampled_from(['PCPU', 'VCPU', 'CUSTOM_PCI_10DE_20B5'])


def _tuples(values, most=3, **options):
    return strategies.lists(values, max_size=most, **options).map(tuple)


_INVENTORIES = strategies.dictionaries(
    _RESOURCES, strategies.builds(
        inventory.Inventory, _AMOUNTS, _AMOUNTS, _RATIOS,
        strategies.integers(1, 9), strategies.none() | _AMOUNTS,
        strategies.integers(1, 9)), max_size=2)
_TRAITS = strategies.none() | strategies.frozensets(
    strategies.sampled_from(['CUSTOM_A', 'HW_B']))
_COUNTS = strategies.dictionaries(_RESOURCES, _AMOUNTS, max_size=2)
_PROVIDERS = strategies.builds(
    offered_host.OfferedProvider, strategies.none() | _NODES,
    _INVENTORIES.map(lambda has: tuple(sorted(has.items()))), _TRAITS,
    strategies.booleans(), strategies.dictionaries(
        _RESOURCES, strategies.integers(-9, 9), max_size=2).map(
            lambda held: tuple(sorted(held.items()))), _WORDS, _WORDS)
_CELLS = strategies.builds(
    model.HostCell, id=strategies.integers(0, 9), shared_cpus=_CPU_SETS,
    dedicated_cpus=_CPU_SETS, pinned_cpus=strategies.just(cpuset.CpuSet()),
    cores=_tuples(_SEQUENCES), memory_mib=_AMOUNTS,
    pages=_tuples(strategies.builds(
        model.PagePool, strategies.integers(1, 2 ** 40), _AMOUNTS,
        strategies.just(0), _AMOUNTS)),
    physnets=_NETWORKS, tunneled=strategies.booleans(), socket=_ANY_NODE)
_GUEST_CELLS = strategies.builds(
    model.GuestCell, strategies.sets(_CPUS, max_size=4).map(sorted).map(tuple),
    strategies.sets(_CPUS, max_size=2).map(sorted).map(tuple), _AMOUNTS,
    strategies.sampled_from([None, model.PAGES_SMALL, model.PAGES_LARGE,
                             model.PAGES_ANY, 4, 2048, 1048576]))
_TOPOLOGIES = strategies.builds(
    model.Guest, _tuples(_GUEST_CELLS, min_size=1),
    strategies.sampled_from(model.CpuPolicy),
    strategies.sampled_from(model.ThreadPolicy), strategies.booleans(),
    _NETWORKS, strategies.booleans())
_HOSTS = strategies.builds(
    offered_host.OfferedHost, name=_NAMES,
    cells=_tuples(_CELLS, unique_by=lambda cell: cell.id),
    l3_domains=_tuples(_CPU_SETS), host_class=strategies.none() | _CLASSES,
    traits=_TRAITS,
    aggregates=_tuples(_WORDS),
    pci_pools=_tuples(strategies.builds(
        devices.PciPool, _KINDS, _ANY_NODE, _AMOUNTS,
        strategies.none() | strategies.integers(0, 9),
        strategies.booleans(), _AMOUNTS)),
    cpu_allocation_ratio=_RATIOS, ram_allocation_ratio=_RATIOS,
    disk_allocation_ratio=_RATIOS, reserved_memory_mib=_AMOUNTS,
    disk_gib=strategies.none() | _AMOUNTS, is_enabled=strategies.booleans(),
    disabled_reason=strategies.just('') | _WORDS,
    nova_release=strategies.sampled_from([None, '2025.1', '2026.2']),
    nova_cell=strategies.just('') | _WORDS,
    cpu_model=strategies.none() | strategies.builds(
        offered_host.HostCpuModel, arch=strategies.just('') | _WORDS,
        vendor=strategies.just('') | _WORDS, model=_WORDS,
        features=strategies.frozensets(_WORDS, max_size=2)),
    hypervisor_version=strategies.none() | _AMOUNTS,
    gaps=_tuples(strategies.builds(
        outcome.Doubt, strategies.sampled_from(outcome.DoubtKind), _WORDS,
        strategies.just('') | _WORDS)),
    resources=_COUNTS, inventories=strategies.none() | _INVENTORIES,
    held=strategies.dictionaries(
        _RESOURCES, strategies.integers(-9, 9), max_size=2),
    children=_tuples(_PROVIDERS))


@strategies.composite
def _fits(draw, topology):
    return model.Fit(tuple(
        model.CellFit(
            draw(_NODES), tuple(zip(
                draw(strategies.just(cell.dedicated_vcpus) | _SEQUENCES),
                draw(strategies.lists(_CPUS, min_size=4, max_size=4)))),
            draw(_SEQUENCES),
            draw(strategies.none() | strategies.integers(1, 2 ** 30)))
        for cell in topology.cells))


@strategies.composite
def _guests(draw):
    topology = draw(strategies.none() | _TOPOLOGIES)
    return resident_guest.ResidentGuest(
        uuid=draw(_WORDS), host=draw(_NAMES),
        vcpus=draw(strategies.integers(1, 65536)), memory_mib=draw(_AMOUNTS),
        guest_class=draw(_CLASSES), name=draw(strategies.just('') | _WORDS),
        flavor=draw(strategies.just('') | _WORDS), disk_gib=draw(_AMOUNTS),
        resources=draw(_COUNTS), allocations=draw(_tuples(strategies.tuples(
            _NODES, _COUNTS.map(lambda has: tuple(sorted(has.items())))))),
        topology=topology, fit=topology and draw(_fits(topology)),
        devices=draw(_tuples(strategies.builds(
            devices.PciUse, _KINDS, _ANY_NODE, _AMOUNTS))),
        is_movable=draw(strategies.booleans()),
        launched_at=draw(strategies.sampled_from(
            ['', '2026-05-04T10:11:12Z'])),
        vm_state=draw(strategies.sampled_from(['', 'active', 'stopped'])),
        project=draw(strategies.just('') | _WORDS),
        availability_zone=draw(strategies.sampled_from([None, '', 'east'])),
        server_group=draw(strategies.just('') | _WORDS),
        cpu_model=draw(strategies.just('') | _WORDS),
        image=draw(_TEXTS), metadata=draw(_TEXTS),
        tags=draw(_tuples(_WORDS)))


def _with_own_providers(fleet):
    """The fleet with no provider of anything that is not there."""
    last = {host.name: len(host.children) for host in fleet.hosts}
    return dataclasses.replace(
        fleet, hosts=tuple(dataclasses.replace(
            host, children=tuple(
                child if child.parent is None else dataclasses.replace(
                    child, parent=min(child.parent, place))
                for place, child in enumerate(host.children)),
            pci_pools=tuple(
                pool if pool.provider is None else pool._replace(
                    provider=min(pool.provider, last[host.name]))
                for pool in host.pci_pools)) for host in fleet.hosts),
        guests=tuple(dataclasses.replace(guest, allocations=tuple(
            (min(index, last.get(guest.host, index)), amounts)
            for index, amounts in guest.allocations))
            for guest in fleet.guests))


#: Whatever a snapshot can tell, most of which makes no sense.
ANY_FLEET = strategies.builds(
    snapshot.Fleet,
    hosts=_tuples(_HOSTS, unique_by=lambda host: host.name),
    guests=_tuples(_guests(), unique_by=lambda guest: guest.uuid),
    flavors=_tuples(strategies.builds(
        flavor_model.Flavor, name=_WORDS, id=strategies.just('') | _WORDS,
        vcpus=strategies.integers(1, 65536), memory_mib=_AMOUNTS,
        disk_gib=_AMOUNTS, ephemeral_gib=_AMOUNTS, swap_mib=_AMOUNTS,
        rxtx_factor=_RATIOS, is_public=strategies.booleans(),
        projects=_tuples(_WORDS), description=strategies.just('') | _WORDS,
        extra_specs=_TEXTS), unique_by=lambda flavor: flavor.name),
    aggregates=_tuples(strategies.builds(
        offered_host.Aggregate, _WORDS, strategies.none() | _WORDS, _TEXTS),
        unique_by=lambda aggregate: aggregate.name),
    server_groups=_tuples(strategies.builds(
        offered_host.ServerGroup, id=_WORDS, policy=strategies.sampled_from(
            offered_host.GroupPolicy),
        name=strategies.just('') | _WORDS,
        max_per_host=strategies.integers(1, 65536)),
        unique_by=lambda group: group.id),
    pci_aliases=strategies.dictionaries(_WORDS, strategies.builds(
        pci_alias.PciAlias, _tuples(_KINDS | strategies.dictionaries(
            _WORDS, _WORDS, max_size=2).map(
                lambda spec: tuple(sorted(spec.items())))),
        _POLICIES), max_size=2),
    packs_cells=strategies.booleans(), rules=strategies.builds(
        scheduler_rules.SchedulerRules, default_zone=_WORDS,
        isolates=strategies.booleans(), limits_tenants=strategies.booleans(),
        max_instances_per_host=_AMOUNTS, isolates_hosts=strategies.none()
        | strategies.booleans(), image_separator=_WORDS),
    enabled_filters=_tuples(_WORDS),
    taken_at=strategies.sampled_from(
        ['', '2026-01-31T12:00:00Z', '2026-01-31T12:00:00.5+00:00']),
    source=strategies.just('') | _WORDS).map(_with_own_providers)


def tidy(shape='two-socket-96-pci', **options):
    """A small fleet about which nothing is odd."""
    return generate.generate_fleet(4, shape, 1, shared=0.25, **options)


def engine_hosts(fleet):
    """All hosts of a fleet with their guests, as the engine takes them."""
    guests = occupied.guests_by_host(fleet)
    return {host.name: host_occupancy.engine_host(host, guests[host.name])
            for host in fleet.hosts}
