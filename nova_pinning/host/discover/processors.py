# SPDX-License-Identifier: Apache-2.0
"""The CPUs of a machine: which there are, and what they share.

Most of it is described in the kernel's
Documentation/ABI/stable/sysfs-devices-system-cpu. Where there is a mask and a
list of the same CPUs, the mask is read: old kernels have no lists, and hwloc
reads the masks too.
"""

from collections.abc import Iterator
from collections.abc import Mapping
import dataclasses
import re

from nova_pinning import cpuset
from nova_pinning.host import hardware
from nova_pinning.host import machine_files

CPU = '/sys/devices/system/cpu'
_CPU_NAME = re.compile(r'cpu(\d{1,5})', re.ASCII)
_CACHE_NAME = re.compile(r'index\d+', re.ASCII)
_CACHE_SIZE = re.compile(r'(\d{1,9})([KM])', re.ASCII)
_KIB = {'K': 1, 'M': 1024}
_CACHE_KINDS = {'Data': hardware.CacheKind.DATA,
                'Instruction': hardware.CacheKind.INSTRUCTION,
                'Unified': hardware.CacheKind.UNIFIED}
_LEVELS = range(1, 10)
LAST_LEVEL = 3
# What perf's devices for hybrid CPUs are named, by what people call them.
_KINDS = {'performance': 'cpu_core', 'efficient': 'cpu_atom',
          'low-power': 'cpu_lowpower'}
_MAX_ID = 2 ** 31 - 1


@dataclasses.dataclass(frozen=True, slots=True)
class Processors:
    """The CPUs of a machine.

    :param offline: CPUs that are there, but switched off
    :param cores: the online CPUs of each core, ascending
    :param sockets: by CPU that is online
    :param dies: the same, as the kernel numbers the dies of a socket
    """

    online: cpuset.CpuSet
    offline: cpuset.CpuSet
    cores: tuple[cpuset.CpuSet, ...]
    sockets: Mapping[int, int]
    dies: Mapping[int, int]


def read(tree: machine_files.Tree) -> Processors:
    """What CPUs there are."""
    there = cpus_in(tree, CPU)
    online = tree.cpus(f'{CPU}/online')
    if online is None:
        # CPU 0 often has no such file: it cannot be switched off.
        online = cpuset.CpuSet(
            cpu for cpu in there
            if tree.number(f'{CPU}/cpu{cpu}/online') != 0)
    present = tree.cpus(f'{CPU}/present')
    return Processors(
        online=online,
        offline=(there if present is None else present) - online,
        cores=_cores(tree, online),
        sockets=_ids(tree, online, 'physical_package_id'),
        dies=_ids(tree, online, 'die_id'))


def cpus_in(tree: machine_files.Tree, path: str) -> cpuset.CpuSet:
    """The CPUs by whose names a directory has files."""
    return cpuset.CpuSet(int(match[1]) for match in map(
        _CPU_NAME.fullmatch, tree.names(path)) if match)


def dies(processors: Processors, *, always: bool) -> tuple[hardware.Die, ...]:
    """The dies, if a socket has several.

    :param always: or else too
    """
    dies: dict[tuple[int, int], list[int]] = {}
    for cpu in processors.online:
        die = processors.sockets[cpu], processors.dies[cpu]
        dies.setdefault(die, []).append(cpu)
    sockets = [socket for socket, _die in dies]
    if not always and len(sockets) == len(set(sockets)):
        return ()
    return tuple(hardware.Die(socket, die, cpuset.CpuSet(cpus))
                 for (socket, die), cpus in sorted(dies.items()))


def caches(tree: machine_files.Tree,
           online: cpuset.CpuSet) -> tuple[hardware.Caches, ...]:
    """The caches of every level, as far as CPUs that are online use them."""
    domains: dict[tuple[int, str, int], list[cpuset.CpuSet]] = {}
    # A CPU is in one cache of a level and kind, whatever the files say.
    seen: dict[tuple[int, str], cpuset.CpuSet] = {}
    for cpu in online:
        is_in_last = False
        for path in cache_paths(tree, cpu):
            level = tree.number(f'{path}/level')
            kind = _CACHE_KINDS.get(tree.text(f'{path}/type') or '')
            if level not in _LEVELS or level is None or kind is None:
                continue
            if level == LAST_LEVEL and is_in_last:
                tree.nonsense[path] = f'is a second L3 cache of CPU {cpu}'
            is_in_last |= level == LAST_LEVEL
            covered = seen.get((level, kind), cpuset.CpuSet())
            if cpu in covered:
                continue
            domain = _shared(tree, f'{path}/shared_cpu_map',
                             f'{path}/shared_cpu_list', cpu=cpu)
            domain = domain & online - covered
            seen[level, kind] = covered | domain
            key = level, kind, _size_kib(tree.text(f'{path}/size'))
            domains.setdefault(key, []).append(domain)
    return tuple(
        hardware.Caches(level, hardware.CacheKind(kind), size_kib,
                        tuple(sorted(domains)))
        for (level, kind, size_kib), domains in sorted(domains.items()))


def cache_paths(tree: machine_files.Tree, cpu: int) -> Iterator[str]:
    """The directory of each cache that a CPU uses."""
    below = f'{CPU}/cpu{cpu}/cache'
    for name in filter(_CACHE_NAME.fullmatch, tree.names(below)):
        yield f'{below}/{name}'


def core_kinds(
    tree: machine_files.Tree, online: cpuset.CpuSet,
) -> tuple[hardware.CoreKind, ...]:
    """The kinds of cores, () if all are alike, the fastest first."""
    capacities = {
        cpu: tree.number(f'{CPU}/cpu{cpu}/cpu_capacity') or 0
        for cpu in online}
    named = {
        name: (tree.cpus(f'/sys/devices/{device}/cpus')
               or cpuset.CpuSet()) & online
        for name, device in _KINDS.items()}
    if not any(named.values()):
        for cpu, capacity in sorted(
                capacities.items(), key=lambda item: (-item[1], item[0])):
            name = f'capacity-{capacity}'
            named[name] = (
                named.get(name, cpuset.CpuSet()) | cpuset.CpuSet([cpu]))
    kinds = tuple(
        hardware.CoreKind(name, cpus, max(capacities[cpu] for cpu in cpus))
        for name, cpus in named.items() if cpus)
    return kinds if len(kinds) > 1 else ()


def _cores(
    tree: machine_files.Tree, online: cpuset.CpuSet,
) -> tuple[cpuset.CpuSet, ...]:
    cores = []
    left = online
    for cpu in online:
        if cpu not in left:
            continue
        path = f'{CPU}/cpu{cpu}/topology'
        core = _shared(
            tree, f'{path}/thread_siblings', f'{path}/thread_siblings_list',
            f'{path}/core_cpus', f'{path}/core_cpus_list', cpu=cpu) & left
        cores.append(core)
        left -= core
    return tuple(cores)


def _shared(tree: machine_files.Tree, *paths: str, cpu: int) -> cpuset.CpuSet:
    """The CPUs that share something with one, by the first file there is."""
    own = cpuset.CpuSet([cpu])
    for path in paths:
        cpus = (tree.cpus if path.endswith('_list') else tree.mask)(path)
        if cpus is not None:
            return cpus | own
    return own


def _ids(
    tree: machine_files.Tree, online: cpuset.CpuSet, name: str,
) -> dict[int, int]:
    """A number of each CPU's place; 0 where there is none, or -1."""
    numbers = {cpu: tree.number(f'{CPU}/cpu{cpu}/topology/{name}')
               for cpu in online}
    return {cpu: number if number and 0 < number <= _MAX_ID else 0
            for cpu, number in numbers.items()}


def _size_kib(text: str | None) -> int:
    match = _CACHE_SIZE.fullmatch(text or '')
    return int(match[1]) * _KIB[match[2]] if match else 0
