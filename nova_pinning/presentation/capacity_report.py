# SPDX-License-Identifier: Apache-2.0
"""Capacity for machines, and what is in its way in words."""

from collections.abc import Collection
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

from nova_pinning.admission import gaps
from nova_pinning.capacity import capacity
from nova_pinning.capacity import count
from nova_pinning.capacity import stranded
from nova_pinning.capacity import stranded_devices
from nova_pinning.checks import metrics
from nova_pinning.model import hostclass
from nova_pinning.presentation import typed_table
from nova_pinning import units

_UNKNOWN = 'unknown'
_DEVICE_LABELS = 'alias', 'numa_node', 'traits'
#: What is in the way, in words that fit a table.
CAUSES: Mapping[count.CapacityCause, str] = {
    count.CapacityCause.DISABLED: 'hosts are disabled',
    count.CapacityCause.TRAITS: 'traits of hosts',
    count.CapacityCause.AGGREGATES: 'aggregates of hosts',
    count.CapacityCause.FILTERS: 'other filters',
    count.CapacityCause.CLASS: 'other class of hosts',
    count.CapacityCause.CELL_SIZE: 'larger than any cell',
    count.CapacityCause.CELLS: 'scattered over cells',
    count.CapacityCause.CORES: 'no whole cores',
    count.CapacityCause.STRAY_PINS: 'a guest on other CPUs',
    count.CapacityCause.MEMORY: 'too little memory',
    count.CapacityCause.PAGES: 'too few pages',
    count.CapacityCause.DISK: 'too little disk',
    count.CapacityCause.PLACEMENT: 'fewer CPUs in Placement',
    count.CapacityCause.CACHES: 'too few cache ways',
    count.CapacityCause.RESOURCES: 'other resources',
    count.CapacityCause.DEVICES: 'too few devices',
    count.CapacityCause.AFFINITY: 'devices far from CPUs',
    count.CapacityCause.ORDER: "nova's order of cells",
}
#: What keeps free CPUs, or devices, from being sold, for a sentence.
STRANDED: Mapping[count.CapacityCause, str] = {
    **CAUSES,
    count.CapacityCause.CELL_SIZE: 'each flavor is larger than any cell',
    count.CapacityCause.CELLS: 'too few CPUs are left in a NUMA cell',
    count.CapacityCause.CORES: 'cores are not whole',
    count.CapacityCause.STRAY_PINS:
        'a guest is pinned to other than dedicated CPUs',
    count.CapacityCause.MEMORY: 'too little memory is left for them',
    count.CapacityCause.PAGES: 'too few pages are left for them',
    count.CapacityCause.DEVICES:
        'fewer devices are left together than one guest wants',
    count.CapacityCause.AFFINITY: 'no CPUs for guests are near them',
}


def as_dict(capacity: capacity.FleetCapacity, per_host: bool = False) -> dict[
        str, Any]:
    """All of it for JSON.

    :param per_host: whether to list the hosts
    """
    data: dict[str, Any] = {
        'version': 1,
        'source': capacity.fleet.source,
        'taken_at': capacity.fleet.taken_at,
        'hosts': len(capacity.hosts),
        'guests': len(capacity.fleet.guests),
        'gaps': gaps.as_list(host.host for host in capacity.hosts),
        'flavors': [_flavor(size) for size in capacity.sizes()],
        'stranded': _stranded(total(capacity.hosts)),
        'by_class': {
            class_name(host_class): {
                'hosts': len(hosts),
                'flavors': [_counts(size) for size in capacity.sizes(hosts)],
                'stranded': _stranded(total(hosts)),
            } for host_class, hosts in capacity.by_class().items()},
        'mixes': [{
            'flavors': [
                {'name': request.name, 'weight': weight, 'fits': fits}
                for request, weight, fits in zip(
                    mix.requests, mix.weights, mix.mix.counts)],
            'fits': mix.mix.guests,
            'bound': mix.mix.bound,
            'exact': mix.mix.is_exact,
        } for mix in capacity.mixes],
        'left_out_of_mixes': dict(capacity.left_out)}
    if per_host:
        data['by_host'] = [{
            'name': host.host.name,
            'class': class_name(host.host.host_class),
            'flavors': [_counts(size) for size in capacity.sizes([host])],
            'stranded': _stranded(host.stranded),
        } for host in capacity.hosts]
    return data


def table(
    fleet_capacity: capacity.FleetCapacity, per_class: bool = False,
    per_host: bool = False,
) -> typed_table.Table:
    """A row for each flavor, or flavor and class of hosts, or and host."""
    groups: Iterable[tuple[
        str, hostclass.HostClass | None, Sequence[capacity.HostCapacity]]]
    if per_host:
        groups = ((host.host.name, host.host.host_class, [host])
                  for host in fleet_capacity.hosts)
    elif per_class:
        groups = (('', host_class, hosts) for host_class, hosts
                  in fleet_capacity.by_class().items())
    else:
        groups = ('', None, fleet_capacity.hosts),
    return typed_table.of_keys(
        ('host',) * per_host + ('class',) * (per_class or per_host) + (
            'flavor', 'vcpus', 'memory_mib', 'fits', 'most',
            'by_host_totals', 'missing_because', 'is_bound', 'l3_caches',
            'fewest_l3_caches'),
        [{**_flavor(size), 'host': name, 'class': class_name(host_class),
          'flavor': size.request.name,
          'missing_because': next(iter(size.missing), '')}
         for name, host_class, hosts in groups
         for size in fleet_capacity.sizes(hosts)])


def as_metrics(capacity: capacity.FleetCapacity) -> str:
    """Gauges for Prometheus' textfile collector."""
    made = metrics.Gauges('nova_pinning_capacity')
    by_class = capacity.by_class()
    add_gauges(made, {
        host_class: (capacity.sizes(hosts), total(hosts))
        for host_class in (*hostclass.HostClass, None)
        for hosts in (by_class.get(host_class, []),)}, _page_sizes(capacity))
    return made.text()


def add_gauges(
    made: metrics.Gauges,
    by_class: Mapping[hostclass.HostClass | None, tuple[
        Sequence[capacity.FlavorCapacity], stranded.StrandedResources]],
    page_sizes: Collection[int],
) -> None:
    """Gauges of what can still be sold, and of what is stranded.

    :param made: to which they are added
    :param by_class: both for the hosts of each class
    :param page_sizes: in KiB, those that hosts have
    """
    fits = made.add('guests', 'Further guests that nova will place',
                    'flavor', 'class')
    bound = made.add(
        'guests_is_bound',
        'Whether less may fit, since not all of the hosts is known',
        'flavor', 'class')
    totals = made.add(
        'guests_by_host_totals',
        'Further guests that the free CPUs of hosts as a whole promise',
        'flavor', 'class')
    missing = made.add(
        'guests_missing',
        'Guests that host totals promise and that do not fit, by cause',
        'flavor', 'class', 'cause')
    free = made.add('free_cpus', 'Free dedicated CPUs', 'class')
    cpus = made.add(
        'stranded_cpus',
        'Free dedicated CPUs that no flavor on sale can use, by cause',
        'class', 'cause')
    orphans = made.add(
        'orphan_threads',
        'Free CPUs on cores of which another CPU is taken', 'class')
    memory = made.add(
        'stranded_memory_bytes',
        'Free memory for which no CPU is left, by page size', 'class',
        'page_size_kib')
    all_devices = made.add(
        'devices', 'PCI devices that flavors ask for, used ones included',
        'class', *_DEVICE_LABELS)
    free_devices = made.add(
        'free_devices', 'Free PCI devices that flavors ask for', 'class',
        *_DEVICE_LABELS)
    devices = made.add(
        'stranded_devices', 'Free PCI devices that no further guest can have, '
        'by cause', 'class', *_DEVICE_LABELS, 'cause')
    # What is missing is there with 0, so that an alert sees it come and go.
    for host_class, (sizes, sums) in by_class.items():
        name = class_name(host_class)
        for size in sizes:
            fits.labels(size.request.name, name).set(size.fits)
            bound.labels(size.request.name, name).set(size.is_bound)
            totals.labels(size.request.name, name).set(size.totals)
            for cause, guests in size.missing.items():
                missing.labels(size.request.name, name, cause).set(guests)
        free.labels(name).set(sums.free_cpus)
        orphans.labels(name).set(sums.orphans)
        for cause in count.CapacityCause:
            cpus.labels(name, cause).set(sums.cpus.get(cause, 0))
        for group, number in sums.all_devices.items():
            labels = (name, group.alias, '' if group.numa_node is None
                      else group.numa_node, group.traits)
            all_devices.labels(*labels).set(number)
            free_devices.labels(*labels).set(sums.free_devices.get(group, 0))
            for cause in count.CapacityCause:
                devices.labels(*labels, cause).set(
                    sums.devices.get((group, cause), 0))
        for page_size in page_sizes:
            memory.labels(name, page_size).set(
                sums.memory_mib.get(page_size, 0) * units.BYTES_PER_MIB)


def _page_sizes(capacity: capacity.FleetCapacity) -> list[int]:
    """In KiB, as what is stranded has them."""
    layouts = {id(host.host.cells): host.host.cells for host in capacity.hosts}
    return sorted({0, *(pool.size_kib for cells in layouts.values()
                        for cell in cells for pool in cell.pages)})


def total(
        hosts: Iterable[capacity.HostCapacity]) -> stranded.StrandedResources:
    """What is stranded on hosts together."""
    return stranded.total(host.stranded for host in hosts)


def class_name(host_class: object) -> str:
    """A class of hosts in words."""
    return _UNKNOWN if host_class is None else str(host_class)


def _flavor(size: capacity.FlavorCapacity) -> dict[str, Any]:
    request = size.request
    guest = request.topology
    return {
        'name': request.name,
        'class': str(request.guest_class),
        'vcpus': request.vcpus,
        'memory_mib': request.memory_mib,
        'cells': len(guest.cells) if guest is not None else 0,
        **_figures(size)}


def _counts(size: capacity.FlavorCapacity) -> dict[str, Any]:
    return {'name': size.request.name, **_figures(size)}


def _figures(size: capacity.FlavorCapacity) -> dict[str, Any]:
    return {
        'fits': size.fits,
        'is_bound': size.is_bound,
        'certain': size.certain,
        'doubts': [{'kind': str(doubt.kind), 'about': doubt.about,
                    'text': doubt.text, 'guests': guests}
                   for doubt, guests in size.doubts.items()],
        'most': size.most,
        'by_host_totals': size.totals,
        'missing': dict(_plain(size.missing.items())),
        **size.caches.means}


def _stranded(stranded: stranded.StrandedResources) -> dict[str, Any]:
    return {
        'free_cpus': stranded.free_cpus,
        'stranded_cpus': dict(_plain(stranded.cpus.items())),
        'orphan_threads': stranded.orphans,
        'stranded_memory_mib': {
            str(size): mib
            for size, mib in sorted(stranded.memory_mib.items())},
        'devices': [
            {**group._asdict(), 'total': total,
             'free': stranded.free_devices.get(group, 0), 'stranded': {
                 str(cause): number for (other, cause), number
                 in stranded.devices.items() if other == group}}
            for group, total in sorted(
                stranded.all_devices.items(), key=_in_order)]}


def _in_order(
    item: tuple[stranded_devices.DeviceGroup, int],
) -> tuple[str, int, str]:
    alias, node, traits = item[0]
    return alias, -1 if node is None else node, traits


def by_alias(
    numbers: Mapping[stranded_devices.DeviceGroup, int],
) -> dict[str, int]:
    """Devices of all nodes and groups, by the alias that they are under."""
    sums: dict[str, int] = {}
    for group, number in numbers.items():
        sums[group.alias] = sums.get(group.alias, 0) + number
    return sums


def _plain(items: Iterable[tuple[object, int]]) -> Iterator[tuple[str, int]]:
    return ((str(key), value) for key, value in items)
