# SPDX-License-Identifier: Apache-2.0
"""How a host is made up, and what is said of it: for all drawings of hosts.

Pure: nothing here knows what the CPUs are used for.
"""

from collections.abc import Iterable
from collections.abc import Mapping

from nova_pinning import cpuset
from nova_pinning.host import host_model
from nova_pinning.host import words
from nova_pinning import model

# No architecture's usual pages are larger.
_MAX_SMALL_PAGE_KIB = 64


def l3_numbers(description: host_model.HostDescription) -> dict[int, int]:
    """The L3 domain of each CPU, counted through the host.

    CPUs whose domain is not choose from left out.
    """
    numbers: dict[cpuset.CpuSet, int] = {}
    for node in description.nodes:
        for domain in node.l3_domains:
            # A domain that reaches beyond a node is listed by each of them.
            numbers.setdefault(domain, len(numbers))
    return {cpu: number for domain, number in numbers.items()
            for cpu in domain}


def socket_text(
    description: host_model.HostDescription, ids: Iterable[int],
) -> str:
    """Sockets as people count them: 'socket 0', 'sockets 0-1 (ids 36, 3180)'.

    Firmware gives sockets what ids it likes (physical_package_id). Only
    where those of a host are not 0, 1, 2 and so on are they in brackets.

    :param ids: the kernel's, of CPUs of the host
    :returns: '' if there are none
    """
    all_ids = description.sockets()
    own = sorted(ids)
    if not own:
        return ''
    numbers = cpuset.CpuSet(map(all_ids.index, own))
    text = numbered('socket', numbers)
    if all_ids == tuple(range(len(all_ids))):
        return text
    listed = ', '.join(map(str, own))
    return f'{text} (id{"s" if len(own) > 1 else ""} {listed})'


def l3_sizes_kib(description: host_model.HostDescription) -> dict[int, int]:
    """How large the L3 cache of each CPU is, as far as that is known."""
    return {cpu: caches.size_kib for caches in description.caches
            if caches.level == 3 for domain in caches.domains
            for cpu in domain}


def domains(
    node: host_model.NumaNode, numbers: Mapping[int, int],
) -> tuple[tuple[int | None, tuple[tuple[int, ...], ...]], ...]:
    """The node's cores, those with the same L3 cache together.

    :param numbers: from :func:`l3_numbers`
    :returns: the number of each L3 domain, and its cores on the node;
        cores whose domain is not known come last, under None
    """
    groups: dict[int | None, list[tuple[int, ...]]] = {}
    for core in node.cores:
        groups.setdefault(numbers.get(core[0]), []).append(core)
    return tuple(
        (number, tuple(groups[number]))
        for number in sorted(groups, key=lambda number: (
            number is None, number)))


def dies(description: host_model.HostDescription) -> dict[int, int]:
    """The die of each CPU, on sockets that have several."""
    sockets = [die.socket for die in description.dies]
    return {cpu: die.id for die in description.dies
            if sockets.count(die.socket) > 1 for cpu in die.cpus}


def summary(description: host_model.HostDescription) -> str:
    """A host in one line: '2 sockets, 2 NUMA nodes, 40 cores, 80 CPUs'."""
    nodes = description.nodes
    return ', '.join((
        words.count(len(description.sockets()), 'socket'),
        words.count(len(nodes), 'NUMA node'),
        words.count(sum(len(node.cores) for node in nodes), 'core'),
        words.count(len(description.cpus), 'CPU')))


def cpus_text(cpus: cpuset.CpuSet) -> str:
    """'CPUs 0-3,6'."""
    return numbered('CPU', cpus)


def numbered(noun: str, numbers: cpuset.CpuSet) -> str:
    """'socket 0', 'sockets 0-3'."""
    return f'{noun}{"s" if len(numbers) > 1 else ""} {numbers}'


def memory(mib: float) -> str:
    """An amount of memory to look at, not to calculate with: '376.4 GiB'."""
    number, unit = (mib, 'MiB') if mib < 1024 else (mib / 1024, 'GiB')
    return f'{number:.1f}'.removesuffix('.0') + f' {unit}'


def huge_pools(cell: model.CellView) -> list[model.PagePool]:
    """The pages of a host cell but those that all memory is made of."""
    smallest = cell.smallest_pages
    return [pool for pool in cell.pages
            if pool != smallest or pool.size_kib > _MAX_SMALL_PAGE_KIB]
