# SPDX-License-Identifier: Apache-2.0
"""The NUMA nodes of a machine, as in the kernel's
Documentation/ABI/stable/sysfs-devices-node.
"""

from collections.abc import Iterable
from collections.abc import Mapping
import dataclasses
import itertools
import re

from nova_pinning import cpuset
from nova_pinning import errors
from nova_pinning.host.discover import processors
from nova_pinning.host import hardware
from nova_pinning.host import host_model
from nova_pinning.host import machine_files
from nova_pinning.host import words

NODE = '/sys/devices/system/node'
_NODE_NAME = re.compile(r'node(\d{1,5})', re.ASCII)
_MEMINFO = '/proc/meminfo'
_MEMORY = re.compile(r'^(?:Node \d+ )?MemTotal:\s*(\d{1,18}) kB', re.M)
_HUGE_PAGES = re.compile(r'hugepages-(\d{1,12})kB', re.ASCII)
_GPUS = '/proc/driver/nvidia/gpus'
_GPU_NODE = re.compile(r'^Node:\s*(\d{1,5})$', re.M | re.A)
# The kernel has a byte for each (ACPI's SLIT).
_DISTANCE = re.compile(r'1?\d{1,2}|2[0-4]\d|25[0-5]', re.ASCII)


@dataclasses.dataclass(frozen=True, slots=True)
class Numa:
    """The NUMA nodes of a machine.

    :param stray: CPUs that are in no node the kernel tells of. They are in a
        node without memory here, since no guest with NUMA nodes can use them.
    """

    nodes: tuple[host_model.NumaNode, ...]
    stray: cpuset.CpuSet


def read(tree: machine_files.Tree, machine: processors.Processors,
         caches: Iterable[hardware.Caches]) -> Numa:
    """The nodes that are online; one node if the kernel knows of none.

    :raises errors.InputErrors: if nodes share CPUs
    """
    numbers = node_numbers(tree)
    cpus = {node: node_cpus(tree, node) & machine.online for node in numbers}
    _check_apart(tree, cpus)
    stray = machine.online - cpuset.union(cpus.values())
    if not numbers:
        cpus, stray = {0: machine.online}, cpuset.CpuSet()
    lone = len(cpus) == 1 and not stray
    if stray:
        cpus[_own_node(tree, stray, cpus)] = stray
    domains = [domain for alike in caches
               if alike.level == processors.LAST_LEVEL
               for domain in alike.domains]
    distances = {node: _distances(tree, node) for node in cpus}
    complete = all(len(row) == len(cpus) for row in distances.values())
    gpus = {int(found[1]): address for address in tree.names(_GPUS)
            if (found := _GPU_NODE.search(
                tree.text(f'{_GPUS}/{address}/numa_status') or ''))}
    nodes = (host_model.NumaNode(
        id=node,
        socket=min((machine.sockets[cpu] for cpu in own), default=0),
        cores=tuple(sorted(
            tuple(core & own) for core in machine.cores if core & own)),
        memory_mib=_memory_mib(tree, node, lone),
        huge_pages=_huge_pages(tree, node, lone),
        l3_domains=tuple(sorted(
            domain for domain in domains if not domain.isdisjoint(own))),
        distances=distances[node] if complete else (),
        gpu='' if own else gpus.get(node, ''),
    ) for node, own in sorted(cpus.items()))
    return Numa(tuple(nodes), stray)


def node_numbers(tree: machine_files.Tree) -> list[int]:
    """The nodes that are online; none if the kernel knows of none."""
    there = [int(match[1]) for match in map(
        _NODE_NAME.fullmatch, tree.names(NODE)) if match]
    online = tree.cpus(f'{NODE}/online', until_nul=True)
    return [node for node in there if online is None or node in online]


def node_cpus(tree: machine_files.Tree, node: int) -> cpuset.CpuSet:
    """What a node says, which may name CPUs that are offline."""
    path = f'{NODE}/node{node}'
    cpus = tree.mask(f'{path}/cpumap')
    if cpus is None:
        cpus = tree.cpus(f'{path}/cpulist')
    # What copies /sys may leave out all but the links.
    return processors.cpus_in(tree, path) if cpus is None else cpus


def _check_apart(tree: machine_files.Tree,
                 cpus: Mapping[int, cpuset.CpuSet]) -> None:
    """Refuse nodes that share CPUs.

    :raises errors.InputErrors: all of them
    """
    where = errors.Location(str(tree.root))
    wrong = []
    for (first, own), (second, others) in itertools.combinations(
            sorted(cpus.items()), 2):
        if own & others:
            wrong.append(errors.InputError(
                f'{_cpus_path(tree, second)} has {words.cpus(own & others)}, '
                f'which {_cpus_path(tree, first)} has as well: nodes {first} '
                f'and {second} cannot share CPUs', where))
    if wrong:
        raise errors.InputErrors(tuple(wrong))


def _cpus_path(tree: machine_files.Tree, node: int) -> str:
    """The file that says which CPUs a node has."""
    path = f'{NODE}/node{node}'
    return next((f'{path}/{name}' for name in ('cpumap', 'cpulist')
                 if tree.text(f'{path}/{name}')), path)


def _own_node(tree: machine_files.Tree, stray: cpuset.CpuSet,
              taken: Mapping[int, cpuset.CpuSet]) -> int:
    """The number for a node of CPUs that are in none of the others."""
    for cpu in stray:
        for name in tree.names(f'{processors.CPU}/cpu{cpu}'):
            match = _NODE_NAME.fullmatch(name)
            if match and int(match[1]) not in taken:
                return int(match[1])
    return next(node for node in range(len(taken) + 1) if node not in taken)


def all_memory_mib(tree: machine_files.Tree) -> int:
    """What the kernel has, 0 if it does not tell.

    That can be more than its nodes know of: what a virtual machine was given
    later is in no node's figures.
    """
    return _total_mib(tree.text(_MEMINFO))


def _memory_mib(tree: machine_files.Tree, node: int, lone: bool) -> int:
    path = f'{NODE}/node{node}/meminfo'
    text = tree.text(path)
    if text is None and lone:
        text = tree.text(_MEMINFO)
    if text is None and tree.exists(f'{NODE}/node{node}'):
        tree.nonsense.setdefault(path, 'is not there')
    elif text and not _MEMORY.search(text):
        tree.note_nonsense(path, text)
    return _total_mib(text)


def _total_mib(text: str | None) -> int:
    match = _MEMORY.search(text or '')
    return int(match[1]) // 1024 if match else 0


def _huge_pages(tree: machine_files.Tree, node: int,
                lone: bool) -> dict[int, int]:
    """How many there are by size in KiB, with sizes there are none of."""
    path = f'{NODE}/node{node}/hugepages'
    if lone and not tree.exists(path):
        path = '/sys/kernel/mm/hugepages'
    return {
        int(match[1]): tree.number(f'{path}/{match[0]}/nr_hugepages') or 0
        for match in map(_HUGE_PAGES.fullmatch, tree.names(path)) if match}


def _distances(tree: machine_files.Tree, node: int) -> tuple[int, ...]:
    path = f'{NODE}/node{node}/distance'
    text = tree.text(path) or ''
    distances = text.split()
    if not all(map(_DISTANCE.fullmatch, distances)):
        tree.note_nonsense(path, text)
        return ()
    return tuple(map(int, distances))
