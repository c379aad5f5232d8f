# SPDX-License-Identifier: Apache-2.0


"""What cannot be true of a host, whatever described it."""

from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Sequence
import dataclasses
from typing import Any

from nova_pinning import cpuset
from nova_pinning.host import hardware
from nova_pinning.host import host_model
from nova_pinning.host import plan_model
from nova_pinning.host import words

# Of caches, on every machine that has NUMA nodes to speak of.
_LAST_LEVEL = 3


@dataclasses.dataclass(frozen=True, slots=True)
class Inconsistency:
    """Something that cannot be.

    :param path: where it stands, as in a host file: ('nodes', 0, 'memory')
    """

    path: tuple[str | int, ...]
    message: str
    advice: str = ''


def inconsistencies(
        description: host_model.HostDescription) -> Iterator[Inconsistency]:
    """Whatever cannot be true of a host.

    The positions in the paths are those in the description's tuples.
    """
    yield from _node_problems(description)
    yield from _hardware_problems(description)
    yield from _device_problems(description)
    yield from settings_problems(description)
    yield from _plan_problems(description)


def _node_problems(
        description: host_model.HostDescription) -> Iterator[Inconsistency]:
    nodes = description.nodes
    everything = cpuset.union(node.cpus for node in nodes)
    node_of: dict[int, int] = {}
    yield from _unique(('nodes',), [node.id for node in nodes], 'id',
                       'there are two nodes {0}')
    for index, node in enumerate(nodes):
        path = 'nodes', index
        yield from _cpu_problems(path, node, node_of)
        yield from _memory_problems(
            path, node, description.system.page_size_kib)
        yield from _cache_problems(path, node, everything)
        if node.distances and len(node.distances) != len(nodes):
            yield Inconsistency(
                (*path, 'distances'),
                f'there are {len(node.distances)} distances for '
                f'{len(nodes)} nodes',
                'give one for each node, this one included')
    if not everything:
        yield Inconsistency(('nodes',), 'the host has no CPUs')


def _cpu_problems(
    path: tuple[str, int], node: host_model.NumaNode, node_of: dict[int, int],
) -> Iterator[Inconsistency]:
    seen = cpuset.CpuSet()
    for core in node.cores:
        twice = seen & cpuset.CpuSet(core)
        if twice:
            yield Inconsistency((*path, 'cores'),
                                f'{_cpus(twice)} in two cores')
        seen |= cpuset.CpuSet(core)
    shared: dict[int, list[int]] = {}
    for cpu in seen:
        other = node_of.setdefault(cpu, node.id)
        if other != node.id:
            shared.setdefault(other, []).append(cpu)
    for other, cpus in shared.items():
        yield Inconsistency(
            (*path, 'cpus'), f'{_cpus(cpuset.CpuSet(cpus))} in both node '
            f'{other} and node {node.id}')


def _memory_problems(
    path: tuple[str, int], node: host_model.NumaNode, page_size_kib: int,
) -> Iterator[Inconsistency]:
    for size_kib in node.huge_pages:
        if size_kib <= page_size_kib:
            yield Inconsistency(
                (*path, 'huge_pages'),
                f'pages of {size_kib} KiB are no huge pages where the '
                f'smallest are of {page_size_kib} KiB')
    huge_kib = sum(size * pages for size, pages in node.huge_pages.items())
    if huge_kib > node.memory_mib * 1024:
        yield Inconsistency(
            (*path, 'huge_pages'),
            f'the huge pages of node {node.id} are {huge_kib // 1024} MiB, '
            f'but it has {node.memory_mib} MiB of memory')


def _cache_problems(
    path: tuple[str, int],
    node: host_model.NumaNode,
    everything: cpuset.CpuSet,
) -> Iterator[Inconsistency]:
    parts = [((*path, 'l3_domains', index), domain)
             for index, domain in enumerate(node.l3_domains)]
    yield from _share_problems(parts, everything, 'two L3 domains')
    for here, domain in parts:
        if domain.issubset(everything) and domain.isdisjoint(node.cpus):
            yield Inconsistency(here,
                                f'none of these CPUs is in node {node.id}')


def _hardware_problems(
    description: host_model.HostDescription,
) -> Iterator[Inconsistency]:
    online = description.cpus
    twice = description.offline_cpus & online
    if twice:
        yield Inconsistency(('offline_cpus', ),
                            f'{_cpus(twice)} in a node as well',
                            'list only CPUs that are online in nodes')
    yield from _unique(
        ('dies',), [(die.socket, die.id) for die in description.dies], 'id',
        'there are two dies {0[1]} of socket {0[0]}')
    yield from _share_problems(
        [(('dies', index, 'cpus'), die.cpus)
         for index, die in enumerate(description.dies)], online, 'two dies')
    yield from _unique(
        ('core_kinds',), [kind.name for kind in description.core_kinds],
        'name', 'there are two kinds {0}')
    yield from _share_problems(
        [(('core_kinds', index, 'cpus'), kind.cpus)
         for index, kind in enumerate(description.core_kinds)],
        online, 'two kinds')
    yield from _all_caches_problems(description)
    yield from _resctrl_problems(description)
    yield from _system_problems(description)


def _resctrl_problems(
    description: host_model.HostDescription,
) -> Iterator[Inconsistency]:
    resctrl = description.resctrl
    if resctrl is None:
        return
    yield from _share_problems(
        [(('resctrl', 'domains', str(number)), cpus)
         for number, cpus in resctrl.domains.items()],
        description.cpus, 'two domains')
    if resctrl.l3:
        yield from cache_problems(resctrl.l3)


def cache_problems(
        l3: hardware.CacheAllocation) -> Iterator[Inconsistency]:
    """What cannot be of how L3 caches are divided."""
    # Documentation/filesystems/resctrl.rst: "cbm_mask: The bitmask which is
    # valid for this resource. This mask is equivalent to 100%."
    if not l3.cbm_mask or l3.cbm_mask & (l3.cbm_mask + 1):
        yield Inconsistency(
            ('resctrl', 'l3', 'cbm_mask'),
            f'{l3.cbm_mask:x} is no run of bits from the first one on')
    elif l3.shareable_bits & ~l3.cbm_mask:
        yield Inconsistency(
            ('resctrl', 'l3', 'shareable_bits'),
            f'{l3.shareable_bits:x} has ways that {l3.cbm_mask:x} has not')
    elif l3.min_cbm_bits > l3.ways:
        yield Inconsistency(
            ('resctrl', 'l3', 'min_cbm_bits'),
            f'{l3.min_cbm_bits} are more than there are, '
            f'{words.count(l3.ways, "way")}')


def _unique(
    path: tuple[str], names: Sequence[Any], key: str, message: str,
) -> Iterator[Inconsistency]:
    seen = set()
    for index, name in enumerate(names):
        if name in seen:
            yield Inconsistency((*path, index, key), message.format(name))
        seen.add(name)


def _share_problems(
    parts: Iterable[tuple[tuple[str | int, ...], cpuset.CpuSet]],
    known: cpuset.CpuSet, several: str,
) -> Iterator[Inconsistency]:
    """What cannot be of parts that CPUs are divided into.

    :param several: what one CPU cannot be in
    """
    seen = cpuset.CpuSet()
    for path, cpus in parts:
        if not cpus:
            yield Inconsistency(path, 'there is no CPU in it')
        if cpus - known:
            yield Inconsistency(path, f'{_cpus(cpus - known)} not in any node')
        if cpus & seen:
            yield Inconsistency(path, f'{_cpus(cpus & seen)} in {several}')
        seen |= cpus


def _all_caches_problems(
    description: host_model.HostDescription,
) -> Iterator[Inconsistency]:
    same: dict[tuple[int, str], list[tuple[tuple[str | int, ...],
                                           cpuset.CpuSet]]] = {}
    for index, caches in enumerate(description.caches):
        same.setdefault((caches.level, caches.kind), []).extend(
            (('caches', index, 'domains', number), domain)
            for number, domain in enumerate(caches.domains))
    for (level, kind), parts in same.items():
        yield from _share_problems(
            parts, description.cpus, f'two {kind} caches of level {level}')
    yield from _last_level_problems(description)


def _last_level_problems(
    description: host_model.HostDescription,
) -> Iterator[Inconsistency]:
    """Where what is said of L3 caches and of nodes' L3 domains differs."""
    indexes = [index for index, caches in enumerate(description.caches)
               if caches.level == _LAST_LEVEL]
    last = {domain for index in indexes
            for domain in description.caches[index].domains}
    for node in description.nodes:
        own = {domain for domain in last if not domain.isdisjoint(node.cpus)}
        if own and node.l3_domains and own != set(node.l3_domains):
            told = ' and '.join(map(str, sorted(node.l3_domains)))
            yield Inconsistency(
                ('caches', indexes[0], 'domains'),
                f'node {node.id} has other L3 domains, {told}')


def _system_problems(
    description: host_model.HostDescription,
) -> Iterator[Inconsistency]:
    known = description.cpus | description.offline_cpus
    system = description.system
    if system.page_size_kib < 4 or system.page_size_kib.bit_count() != 1:
        yield Inconsistency(('system', 'page_size'),
                            f'no kernel has pages of {system.page_size_kib} '
                            'KiB', 'give what getconf PAGESIZE prints')
    for key, cpus in (('isolated_cpus', system.isolated_cpus),
                      ('nohz_full_cpus', system.nohz_full_cpus)):
        if cpus - known:
            yield Inconsistency(('system', key),
                                f'{_cpus(cpus - known)} not on this host')
    yield from _share_problems(
        [(('system', 'governors', name), cpus)
         for name, cpus in system.governors.items()],
        description.cpus, 'two governors')


def _device_problems(
    description: host_model.HostDescription,
) -> Iterator[Inconsistency]:
    yield from _unique(
        ('pci_devices',),
        [device.address for device in description.pci_devices], 'address',
        'there are two devices {0}')
    yield from _tree_problems(description)
    there = {device.address for device in description.pci_devices}
    for path, addresses in (
            *((('nvlinks', index), one.addresses)
              for index, one in enumerate(description.nvlinks or ())),
            *((('gpu_partitions', index), one.addresses)
              for index, one in enumerate(description.gpu_partitions))):
        for place, address in enumerate(addresses):
            if address not in there:
                yield Inconsistency((*path, 'addresses', place),
                                    f'there is no device {address}')


def _tree_problems(
    description: host_model.HostDescription,
) -> Iterator[Inconsistency]:
    """Bridges that are not there, or above themselves."""
    parents = {bridge.address: bridge.parent
               for bridge in description.pci_bridges}
    yield from _unique(
        ('pci_bridges',),
        [bridge.address for bridge in description.pci_bridges], 'address',
        'there are two bridges {0}')
    for key, above in (
            ('pci_devices', [one.parent for one in description.pci_devices]),
            ('pci_bridges', [one.parent for one in description.pci_bridges])):
        for index, parent in enumerate(above):
            # Root buses are called pci0000:00.
            if parent and not parent.startswith('pci') and (
                    parent not in parents):
                yield Inconsistency((key, index, 'parent'),
                                    f'there is no bridge {parent}')
    for index, bridge in enumerate(description.pci_bridges):
        parent = bridge.address
        for _bridge in parents:
            parent = parents.get(parent, '')
            if parent == bridge.address:
                yield Inconsistency(('pci_bridges', index, 'parent'),
                                    f'{bridge.address} is above itself')
                break


def settings_problems(
    description: host_model.HostDescription,
) -> Iterator[Inconsistency]:
    """What cannot be true of nova's settings on this host."""
    nova = description.nova
    dedicated = nova.dedicated_cpus
    shared = nova.shared_cpus
    for key, cpus in (('dedicated_cpus', dedicated), ('shared_cpus', shared)):
        path = 'nova', key
        if cpus is None:
            continue
        if not cpus:
            yield Inconsistency(path, 'there is no CPU in it',
                                'leave it out if nova.conf does not set it')
        unknown = cpus - description.cpus
        if unknown:
            yield Inconsistency(path, f'{_cpus(unknown)} not on this host')
    if dedicated and shared and dedicated & shared:
        yield Inconsistency(
            ('nova', 'shared_cpus'),
            f'{_cpus(dedicated & shared)} among the dedicated CPUs as well')
    memory_mib = sum(node.memory_mib for node in description.nodes)
    if nova.reserved_memory_mib > memory_mib:
        yield Inconsistency(
            ('nova', 'reserved_memory'),
            f'{nova.reserved_memory_mib} MiB are reserved, but the host has '
            f'{memory_mib} MiB of memory')
    yield from _reserved_page_problems(description)


def _plan_problems(
        description: host_model.HostDescription) -> Iterator[Inconsistency]:
    """Where a plan is not about this host, or has a CPU for two uses."""
    plan = description.plan
    if plan is None:
        return
    nodes = {node.id for node in description.nodes}
    for key, by_node in (('memory_kept', plan.memory_kept_mib),
                         ('poll_pages', plan.poll_pages)):
        for number in sorted(by_node.keys() - nodes):
            yield Inconsistency(('plan', key, str(number)),
                                f'there is no node {number}')
    yield from _offer_problems(plan)
    for index, interrupts in enumerate(plan.interrupts):
        if interrupts.cpus - plan.host_cpus:
            yield Inconsistency(
                ('plan', 'interrupts', index, 'cpus'),
                f'{_cpus(interrupts.cpus - plan.host_cpus)} not for the '
                'host')
    empty = cpuset.CpuSet()
    nova = description.nova
    uses = [
        (('plan', 'host_cpus'), plan.host_cpus),
        (('plan', 'poll_cpus'), plan.poll_cpus),
        (('nova', 'shared_cpus'), nova.shared_cpus or empty),
        (('nova', 'dedicated_cpus'), nova.dedicated_cpus or empty)]
    twice = plan.host_cpus & plan.poll_cpus
    if twice:
        yield Inconsistency(('plan', 'poll_cpus'),
                            f'{_cpus(twice)} for the host as well')
    own = plan.host_cpus | plan.poll_cpus
    for path, cpus in uses:
        wrong = cpus - description.cpus
        if path[0] == 'plan' and wrong:
            yield Inconsistency(path, f'{_cpus(wrong)} not on this host')
        if path[0] == 'nova' and cpus & own:
            yield Inconsistency(
                path, f'{_cpus(cpus & own)} for the host or for '
                'polling as well')
    if not plan.host_cpus:
        yield Inconsistency(('plan', 'host_cpus'), 'there is no CPU in it')
    unused = description.cpus - cpuset.union(cpus for _path, cpus in uses)
    if unused:
        yield Inconsistency(('plan',), f'{_cpus(unused)} for nothing',
                            'plan again: the host has changed since')
    yield from _split_core_problems(
        description, [(path[1], cpus) for path, cpus in uses])


def _offer_problems(plan: plan_model.HostPlan) -> Iterator[Inconsistency]:
    """Where a plan is for other guests than it says to sell."""
    sizes = [(size.vcpus, size.cells) for size in plan.sizes]
    offers: list[tuple[tuple[str | int, ...], plan_model.Offer]] = [
        (('plan', 'offer', 'sales'), plan.offer)]
    offers += [(('plan', 'alternatives', index, 'offer', 'sales'), other.offer)
               for index, other in enumerate(plan.alternatives)]
    for path, offer in offers:
        if [(sale.vcpus, sale.cells) for sale in offer.sales] != sizes:
            yield Inconsistency(
                path, 'these are not the sizes that the plan is for',
                'plan again')


def _split_core_problems(
    description: host_model.HostDescription,
    uses: Sequence[tuple[str, cpuset.CpuSet]],
) -> Iterator[Inconsistency]:
    for core in sorted(core for node in description.nodes
                       for core in node.cores):
        threads = cpuset.CpuSet(core)
        owners = [(name, cpus & threads) for name, cpus in uses
                  if cpus & threads]
        # A thread that is in two of them has been told already.
        if len(owners) > 1 and len(threads) == sum(
                len(cpus) for _name, cpus in owners):
            yield Inconsistency(
                ('plan',), f'the threads of core {threads} are for '
                f'{owners[0][0]} and {owners[1][0]}',
                'the threads of a core go together')


def _reserved_page_problems(
    description: host_model.HostDescription,
) -> Iterator[Inconsistency]:
    nodes = {node.id: node for node in description.nodes}
    reserved = description.nova.reserved_huge_pages
    for (number, size_kib), pages in reserved.items():
        path = 'nova', 'reserved_huge_pages', str(number)
        if number not in nodes:
            yield Inconsistency(path, f'there is no node {number}')
            continue
        there = nodes[number].huge_pages.get(size_kib, 0)
        if pages > there:
            yield Inconsistency(
                path, f'{pages} pages of {size_kib} KiB are reserved, but '
                f'node {number} has {there}')


def _cpus(cpus: cpuset.CpuSet) -> str:
    return f'CPUs {cpus} are' if len(cpus) > 1 else f'CPU {cpus} is'
