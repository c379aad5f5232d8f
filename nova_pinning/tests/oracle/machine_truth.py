# SPDX-License-Identifier: Apache-2.0
"""Random machines, and their files as a kernel would have them.

A machine is made first; its /sys and /proc follow from it. So what is read of
them can be compared with what they were made from.
"""

import dataclasses
import itertools
import pathlib
import random
import struct

from nova_pinning import cpuset
from nova_pinning.host import hardware
from nova_pinning.host import host_model

_CPU = 'sys/devices/system/cpu'
_NODE = 'sys/devices/system/node'
#: Smallest pages, and huge ones, in KiB.
_PAGES = {
    'x86_64': [(4, (2048,)), (4, (2048, 1048576))],
    's390x': [(4, (1024,)), (4, (1024, 2097152))],
    'ppc64le': [(64, (16384, 16777216)), (64, (2048, 1048576))],
    'aarch64': [(4, (64, 2048, 32768, 1048576)), (16, (2048, 32768, 1048576)),
                (64, (2048, 524288, 16777216))]}
_THREADS = {'x86_64': (1, 2, 2), 's390x': (1, 2), 'ppc64le': (4, 8, 1),
            'aarch64': (1, 1, 2)}
_BIG_ENDIAN = ('s390x',)


@dataclasses.dataclass(frozen=True)
class MachineTruth:
    """A machine as it is.

    :param host: what is to be read of it
    :param cores: all threads of each, offline ones too, by (socket, node)
    :param l3: the CPUs of each L3 cache, offline ones too
    :param style: how nodes name their CPUs: 'cpumap', 'cpulist', 'links', or
        'none' for a kernel without NUMA
    """

    host: host_model.HostDescription
    cores: dict[tuple[int, int], list[tuple[int, ...]]]
    l3: list[cpuset.CpuSet]
    style: str
    has_auxv: bool


def draw(chance: random.Random) -> MachineTruth:
    """A machine that somebody could have, or nearly."""
    arch = chance.choice(list(_PAGES))
    small_kib, huge_kib = chance.choice(_PAGES[arch])
    threads = chance.choice(_THREADS[arch])
    style = chance.choice(('cpumap', 'cpulist', 'cpulist', 'links', 'none'))
    per_socket, sockets = chance.choice(((1, 1), (1, 2), (2, 2), (4, 1),
                                         (4, 2), (1, 4), (3, 1)))
    if style == 'none':
        per_socket = sockets = 1
    places = _places(chance, sockets, per_socket)
    cores = _cores(chance, places, chance.randint(1, 6), threads)
    every = [cpu for own in cores.values() for core in own for cpu in core]
    offline = cpuset.CpuSet(
        cpu for cpu in every
        if chance.random() < chance.choice((0, 0, 0, 0.1, 0.5)))
    if len(offline) == len(every):
        offline -= cpuset.CpuSet([every[0]])
    l3 = _l3(chance, cores)
    nodes = _nodes(chance, places, cores, offline, l3, huge_kib)
    host = host_model.HostDescription(
        'machine', tuple(sorted(nodes, key=lambda node: node.id)),
        cpu_model=host_model.CpuModel(arch), offline_cpus=offline,
        system=hardware.System(page_size_kib=small_kib))
    return MachineTruth(host, cores, l3, style, chance.random() < 0.5)


def _places(chance, sockets, per_socket):
    """(Socket, node) of each node with CPUs, with gaps in both."""
    step = chance.choice((1, 1, 3))
    first = 0 if sockets * per_socket == 1 else chance.choice((0, 0, 2))
    numbers = itertools.count(first, chance.choice((1, 1, 2)))
    return [(socket * step, next(numbers))
            for socket in range(sockets) for _node in range(per_socket)]


def _cores(chance, places, per_node, threads):
    """Cores by place, numbered in one of the ways that there are."""
    total = len(places) * per_node
    size = total * threads
    way = chance.choice(('split', 'adjacent', 'sparse', 'shuffled'))
    ids = list(range(size))
    if way == 'sparse':
        ids = sorted(chance.sample(range(size * 3), size))
    elif way == 'shuffled':
        chance.shuffle(ids)
    cores = {}
    for index, place in enumerate(places):
        cores[place] = []
        for core in range(index * per_node, (index + 1) * per_node):
            own = (ids[core::total] if way == 'split'
                   else ids[core * threads:(core + 1) * threads])
            cores[place].append(tuple(sorted(own)))
    return cores


def _l3(chance, cores):
    """Caches of a few cores, of a node, of a socket, or none."""
    way = chance.choice(('none', 'cores', 'node', 'socket'))
    if way == 'socket':
        return [cpuset.CpuSet(
            cpu for (socket, _node), own in cores.items() if socket == one
            for core in own for cpu in core)
            for one in sorted({socket for socket, _node in cores})]
    size = {'none': 0, 'cores': chance.choice((1, 2, 4)), 'node': 100}[way]
    return [cpuset.CpuSet(itertools.chain.from_iterable(
        own[first:first + size]))
        for own in cores.values() if size
        for first in range(0, len(own), size)]


def _nodes(chance, places, cores, offline, l3, huge_kib):
    """Nodes with CPUs, and some with memory alone; some without memory."""
    numbers = [node for _socket, node in places]
    kinds = {node: chance.choice(('full', 'full', 'full', 'small', 'empty'))
             for node in numbers}
    if len(numbers) == 1 or not {'full'} & set(kinds.values()):
        kinds[numbers[0]] = 'full'
    if len(numbers) > 1:
        for _extra in range(chance.choice((0, 0, 0, 1, 2))):
            kinds[max(kinds) + chance.choice((1, 2, 5))] = 'full'
    for number, kind in sorted(kinds.items()):
        memory_mib = 0 if kind == 'empty' else chance.randint(0, 999) + (
            700 if kind == 'small' else chance.choice((16, 64, 384)) * 1024)
        pages, left_kib = {}, memory_mib * 512
        for size_kib in huge_kib:
            pages[size_kib] = chance.choice((0, 0, min(
                3, left_kib // size_kib)))
            left_kib -= pages[size_kib] * size_kib
        place = next((place for place in places if place[1] == number), None)
        own = [cpuset.CpuSet(core) - offline for core in cores.get(place, ())]
        online = cpuset.union(own)
        yield host_model.NumaNode(
            id=number, socket=place[0] if online else 0,
            cores=tuple(sorted(tuple(core) for core in own if core)),
            memory_mib=memory_mib, huge_pages=pages,
            l3_domains=tuple(sorted(
                domain - offline for domain in l3
                if not online.isdisjoint(domain))),
            distances=tuple(
                10 if other == number else 12 if _near(places, number, other)
                else 21 for other in sorted(kinds)))


def _near(places, some, other):
    sockets = [socket for socket, node in places if node in (some, other)]
    return len(sockets) == 2 and sockets[0] == sockets[1]


class MachineWriter:
    """Writes the files of a machine below a directory."""

    def __init__(self, root: pathlib.Path) -> None:
        self._root = root

    def write(self, truth: MachineTruth) -> None:
        """All that there is of it."""
        host = truth.host
        every = host.cpus | host.offline_cpus
        self._file('proc/sys/kernel/arch', host.cpu_model.arch)
        self._file('proc/sys/kernel/hostname', host.name)
        self._file('proc/sys/kernel/osrelease', '6.1.0')
        self._file('proc/1/comm', 'init')
        if truth.has_auxv:
            order = '>' if host.cpu_model.arch in _BIG_ENDIAN else '<'
            path = self._root / 'proc/1/auxv'
            path.write_bytes(struct.pack(
                f'{order}6Q', 33, 2 ** 40,
                6, host.system.page_size_kib * 1024, 0, 0))
        self._file(f'{_CPU}/present', every)
        self._file(f'{_CPU}/online', host.cpus)
        for (socket, _node), cores in truth.cores.items():
            for core in cores:
                for cpu in core:
                    self._cpu(truth, socket, cpuset.CpuSet(core), cpu)
        if truth.style == 'none':
            node, = host.nodes
            self._file('proc/meminfo',
                       f'MemTotal: {node.memory_mib * 1024} kB')
            self.pages(truth, node)
            return
        self._file(f'{_NODE}/online', cpuset.CpuSet(
            node.id for node in host.nodes))
        for node in host.nodes:
            self._node(truth, node)

    def _node(self, truth: MachineTruth, node: host_model.NumaNode) -> None:
        path = f'{_NODE}/node{node.id}'
        # The kernel lists offline CPUs in none of these.
        if truth.style == 'cpumap':
            self._file(f'{path}/cpumap', f'{node.cpus.mask:x}'.zfill(1)
                       if node.cpus.mask < 2 ** 32 else _mask(node.cpus))
        elif truth.style == 'cpulist':
            self._file(f'{path}/cpulist', node.cpus)
        else:
            for cpu in node.cpus:
                link = self._root / path / f'cpu{cpu}'
                link.parent.mkdir(parents=True, exist_ok=True)
                link.symlink_to(f'../../cpu/cpu{cpu}')
        self._file(f'{path}/meminfo',
                   f'Node {node.id} MemTotal: {node.memory_mib * 1024} kB')
        self._file(f'{path}/distance', ' '.join(map(str, node.distances)))
        self.pages(truth, node)

    def pages(self, truth: MachineTruth, node: host_model.NumaNode) -> None:
        """Have a node's huge pages be so many."""
        path = ('sys/kernel/mm/hugepages' if truth.style == 'none' else
                f'{_NODE}/node{node.id}/hugepages')
        for size, count in node.huge_pages.items():
            below = f'{path}/hugepages-{size}kB'
            self._file(f'{below}/nr_hugepages', count)
            self._file(f'{below}/free_hugepages', count)

    def _cpu(self, truth: MachineTruth, socket: int, core: cpuset.CpuSet,
             cpu: int) -> None:
        path, off = f'{_CPU}/cpu{cpu}', truth.host.offline_cpus
        self._file(f'{path}/online', int(cpu not in off))
        if cpu in off:
            return
        self._file(f'{path}/topology/physical_package_id', socket)
        self._file(f'{path}/topology/thread_siblings_list', core - off)
        for domain in truth.l3:
            if cpu in domain:
                cache = f'{path}/cache/index3'
                for name, text in (('level', 3), ('type', 'Unified'),
                                   ('size', '8192K'),
                                   ('shared_cpu_list', domain - off)):
                    self._file(f'{cache}/{name}', text)

    def _file(self, path: str, text: object) -> None:
        target = self._root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(f'{text}\n')


def _mask(cpus: cpuset.CpuSet) -> str:
    text = f'{cpus.mask:x}'
    text = text.zfill(-(-len(text) // 8) * 8)
    return ','.join(text[first:first + 8] for first in range(
        0, len(text), 8))
