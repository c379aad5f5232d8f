# SPDX-License-Identifier: Apache-2.0
"""A drawing of hosts, as data: who fills it need not know who shows it.

``plan_drawing``, ``guest_drawing`` and ``moves_drawing`` fill it;
``terminal_drawing`` shows it, and the script of the fleet's page its sockets.
"""

from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
import dataclasses
import enum
import functools

from nova_pinning import cpuset
from nova_pinning.host import host_model
from nova_pinning.presentation import host_structure
from nova_pinning import spelling


class TileStyle(enum.StrEnum):
    """What a CPU looks like, by what it is used for."""

    #: A vCPU is pinned to it, of a guest with a colour of its own.
    PINNED = 'pinned'
    EMULATOR = 'emulator'
    FLOATING = 'floating'
    TAKEN = 'taken'
    FREE = 'free'
    HOST = 'host'
    POLL = 'poll'
    SHARED = 'shared'
    DEDICATED = 'dedicated'
    # Where nova.conf names no CPUs, nova uses all of them for both kinds.
    ANY = 'any'
    KEPT = 'kept'


@dataclasses.dataclass(frozen=True, slots=True)
class Tile:
    """How one CPU is drawn.

    :param sign: a letter, or a few; it says what the colour does
    :param guest: the number of a PINNED one's colour
    """

    style: TileStyle
    sign: str
    guest: int = 0


@dataclasses.dataclass(frozen=True, slots=True)
class DrawnCore:
    """The threads of a core, and where it is: 'node 0, socket 1'."""

    cpus: tuple[int, ...]
    where: str


@dataclasses.dataclass(frozen=True, slots=True)
class DrawnCache:
    """Cores of a node that share an L3 cache.

    :param name: 'L3 cache 3, 32 MiB'; '' if none of the host's is known
    """

    name: str
    cores: tuple[DrawnCore, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class DrawnNode:
    """A NUMA node.

    :param die: 'die 0' if its socket has several, '' if not
    :param above: what is written beside its name
    :param below: lines that are written below its cores
    """

    id: int
    die: str
    memory_mib: int
    caches: tuple[DrawnCache, ...]
    above: str = ''
    below: tuple[str, ...] = ()

    @property
    def cores(self) -> list[tuple[int, ...]]:
        """The CPUs of each core."""
        return [core.cpus for cache in self.caches for core in cache.cores]


@dataclasses.dataclass(frozen=True, slots=True)
class DrawnSocket:
    """A socket; several, where a node reaches over them.

    :param name: '' for nodes without CPUs, which are of none
    """

    name: str
    nodes: tuple[DrawnNode, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class DrawnState:
    """All CPUs of a host at some time, by their ids."""

    label: str
    tiles: Mapping[int, Tile]


@dataclasses.dataclass(frozen=True, slots=True)
class DrawnHost:
    """A host.

    :param about: what it is made of
    :param states: one; or several, which are drawn small and side by side
    :param notes: what belongs to none of its nodes
    """

    name: str
    sockets: tuple[DrawnSocket, ...]
    states: tuple[DrawnState, ...]
    about: str = ''
    notes: tuple[str, ...] = ()

    @property
    def nodes(self) -> Iterator[DrawnNode]:
        """Those of all sockets."""
        return (node for socket in self.sockets for node in socket.nodes)


@dataclasses.dataclass(frozen=True, slots=True)
class Drawing:
    """Hosts, with what is said of them.

    :param remarks: sentences below the title
    :param legend: tiles, and what they mean
    """

    title: str
    remarks: tuple[str, ...] = ()
    hosts: tuple[DrawnHost, ...] = ()
    legend: tuple[tuple[Tile, str], ...] = ()


def free_count(node: DrawnNode, tiles: Mapping[int, Tile]) -> int:
    """How many CPUs of a node are free."""
    return sum(tiles[cpu].style is TileStyle.FREE
               for core in node.cores for cpu in core)


def about(description: host_model.HostDescription) -> str:
    """What a host is made of: '2 sockets, ..., 80 CPUs, EPYC-Milan'."""
    return ', '.join(filter(None, (
        host_structure.summary(description),
        spelling.printable(description.cpu_model.model or ''))))


def sockets(
    description: host_model.HostDescription,
    above: Mapping[int, str] | None = None,
    below: Mapping[int, Sequence[str]] | None = None,
) -> tuple[DrawnSocket, ...]:
    """A host's sockets with their nodes, caches and cores.

    :param above: by the nodes' ids
    :param below: by the nodes' ids
    """
    # The same few for all cores.
    socket_text = functools.cache(functools.partial(
        host_structure.socket_text, description))
    numbers = host_structure.l3_numbers(description)
    sizes_kib = host_structure.l3_sizes_kib(description)
    dies = host_structure.dies(description)

    def die(node: host_model.NumaNode) -> str:
        own = cpuset.CpuSet(dies[cpu] for cpu in node.cpus if cpu in dies)
        return host_structure.numbered('die', own) if own else ''

    def caches(node: host_model.NumaNode) -> Iterator[DrawnCache]:
        for number, cores in host_structure.domains(node, numbers):
            name = 'no L3 known' if numbers else ''
            if number is not None:
                name = f'L3 cache {number}'
                if sizes_kib.get(cores[0][0]):
                    name += ', ' + host_structure.memory(
                        sizes_kib[cores[0][0]] / 1024)
            yield DrawnCache(name, tuple(
                DrawnCore(core, where(core, number, node)) for core in cores))

    def where(core: tuple[int, ...], cache: int | None,
              node: host_model.NumaNode) -> str:
        cpus = cpuset.CpuSet(core)
        return ', '.join(filter(None, (
            f'core of CPUs {cpus}' if len(core) > 1 else '',
            f'node {node.id}',
            socket_text(description.sockets(cpus)),
            f'die {dies[core[0]]}' if core[0] in dies else '',
            '' if cache is None else f'L3 cache {cache}')))

    nodes: dict[tuple[int, ...], list[DrawnNode]] = {}
    for node in description.nodes:
        nodes.setdefault(description.sockets(node.cpus), []).append(DrawnNode(
            node.id, die(node), node.memory_mib, tuple(caches(node)),
            (above or {}).get(node.id, ''),
            tuple((below or {}).get(node.id, ()))))
    return tuple(
        DrawnSocket(socket_text(ids), tuple(nodes[ids]))
        for ids in sorted(nodes, key=lambda ids: (not ids, ids)))
