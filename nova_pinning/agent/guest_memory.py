# SPDX-License-Identifier: Apache-2.0
"""Memory of guests: on which NUMA nodes it is, and how it gets to another.

The kernel is asked with migrate_pages(2), which needs CAP_SYS_NICE and, since
QEMU runs as another user, CAP_SYS_PTRACE.
"""

from collections.abc import Callable
from collections.abc import Collection
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
import ctypes
import dataclasses
import logging
import os
import platform
import re
import threading

from nova_pinning.agent import agent_model
from nova_pinning.agent import kernel_files
from nova_pinning import cpuset

LOG = logging.getLogger(__name__)
_NODES = '/sys/devices/system/node'
_BALANCING = '/proc/sys/kernel/numa_balancing'
_ON_NODE = re.compile(r'N(\d{1,5})=(\d{1,20})')
_FREE = re.compile(r'MemFree:\s*(\d{1,18}) kB')
_TOTAL = re.compile(r'MemTotal:\s*(\d{1,18}) kB')
# What guests have: of their own, or shared with what serves them.
_KINDS = ('anon', 'shmem')
# Of a node, for the kernel and whoever else is there.
_LEFT_FREE = 0.05
_PAGE = os.sysconf('SC_PAGE_SIZE')
_LONG = ctypes.sizeof(ctypes.c_ulong) * 8
# By architecture: asm/unistd.h.
_MIGRATE_PAGES = {'x86_64': 256, 'aarch64': 238, 'ppc64le': 258, 's390x': 287}


@dataclasses.dataclass(frozen=True, slots=True)
class MemoryMove:
    """Memory of a guest that is to get to where the guest is.

    :param sources: NUMA nodes that it is on
    :param target: the one that it is to be on
    :param size: in bytes
    """

    guest: agent_model.AgentGuest
    sources: cpuset.CpuSet
    target: int
    size: int

    def __str__(self) -> str:
        return (f'memory of guest {self.guest.name} ({self.guest.uuid}): '
                f'{self.size >> 20} MiB from NUMA node {self.sources} to '
                f'{self.target}')


def by_node(files: kernel_files.WritableTree, pid: int) -> dict[int, int]:
    """The memory of a process's control group in bytes, by NUMA node.

    :returns: {} if it has no group of its own, or the kernel does not count
    """
    root, path = kernel_files.control_group(files, pid, 'memory')
    # The threads of a guest are in groups below that of its memory.
    while path.strip('/'):
        text = files.text(f'{root}{path}/memory.numa_stat')
        if text is not None:
            return _counted(text)
        path = os.path.dirname(path)
    return {}


def is_balanced(files: kernel_files.WritableTree) -> bool:
    """Whether the kernel moves memory to where it is used by itself."""
    return files.text(_BALANCING) not in (None, '0')


def lacking(files: kernel_files.WritableTree, move: MemoryMove) -> str:
    """Why a node has no room for memory, '' if it has."""
    text = files.text(f'{_NODES}/node{move.target}/meminfo') or ''
    free, total = _FREE.search(text), _TOTAL.search(text)
    if not free or not total:
        return f'it is not known what NUMA node {move.target} has free'
    room = int(free[1]) - int(_LEFT_FREE * int(total[1]))
    if room >= move.size >> 10:
        return ''
    return (f'NUMA node {move.target} has {max(0, room) >> 10} MiB to spare, '
            f'and {move.size >> 20} MiB are needed')


class MemoryMover:
    """Moves memory of one guest at a time, beside all else.

    :param migrate: does it: process, nodes from, node to; returns how many
        pages stayed, and raises OSError
    """

    def __init__(
        self, migrate: Callable[[int, cpuset.CpuSet, int], int] | None = None,
    ) -> None:
        self._migrate = migrate or migrate_pages
        self._thread: threading.Thread | None = None
        self._trouble: list[str] = []

    @property
    def is_busy(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def start(self, move: MemoryMove) -> None:
        """Begin with one; nothing else may be under way."""
        self._thread = threading.Thread(
            target=self._run, args=(move,), name='memory', daemon=True)
        self._thread.start()

    def wait(self) -> None:
        """Until it is done."""
        if self._thread is not None:
            self._thread.join()

    def troubles(self) -> list[str]:
        """What went wrong since this was asked last."""
        told, self._trouble = self._trouble, []
        return told

    def _run(self, move: MemoryMove) -> None:
        try:
            left = self._migrate(move.guest.pid, move.sources, move.target)
        except OSError as error:
            self._trouble.append(
                f'{move} cannot be moved: {(error.strerror or "").lower()}')
            return
        LOG.info('%s is moved%s', move,
                 f', but for {left} pages that are in use' if left else '')


class MemoryFollower:
    """Has the memory of floating guests follow them to another NUMA node.

    :param pending: UUIDs of guests whose memory has not followed yet
    """

    def __init__(self, files: kernel_files.WritableTree, pending: set[str],
                 mover: MemoryMover) -> None:
        self._files, self.pending, self.mover = files, pending, mover

    def note(self, host: agent_model.AgentHost,
             before: Mapping[str, Collection[int]],
             after: Mapping[str, Collection[int]]) -> None:
        """Note who has got a home on other nodes.

        :param before: L3 domains that are homes, by UUID
        """
        self.pending.intersection_update(after)
        for uuid in before.keys() & after.keys():
            if host.nodes_of(before[uuid]).isdisjoint(
                    host.nodes_of(after[uuid])):
                self.pending.add(uuid)

    def follow(
        self, host: agent_model.AgentHost,
        guests: Iterable[agent_model.AgentGuest],
        homes: Mapping[str, Collection[int]],
        memory: Mapping[str, Mapping[int, int]], dry_run: bool,
    ) -> tuple[list[str], list[str]]:
        """Begin with the next of them.

        :param memory: bytes by node, by UUID
        :returns: what is begun, in words, and what cannot be done
        """
        done: list[str] = []
        troubles = self.mover.troubles()
        for guest in guests:
            if guest.uuid not in self.pending:
                continue
            move = _move(guest, host.nodes_of(homes[guest.uuid]),
                         memory.get(guest.uuid, {}))
            if move is None:
                self.pending.discard(guest.uuid)
            elif trouble := lacking(self._files, move):
                troubles.append(f'{move} has to wait: {trouble}')
            elif dry_run or not self.mover.is_busy:
                done.append(str(move))
                if not dry_run:
                    self.pending.discard(guest.uuid)
                    self.mover.start(move)
        return done, troubles


def migrate_pages(pid: int, sources: Iterable[int], target: int) -> int:
    """Have the kernel move the pages of a process.

    :returns: how many stayed where they are
    :raises OSError: if it refuses
    """
    number = _MIGRATE_PAGES.get(platform.machine())
    if number is None:
        raise OSError(None, f'not known how on {platform.machine()}')
    sources = [*sources]
    size = max(*sources, target) // _LONG + 1

    def mask(nodes: Iterable[int]) -> ctypes.Array[ctypes.c_ulong]:
        words = (ctypes.c_ulong * size)()
        for node in nodes:
            words[node // _LONG] |= 1 << node % _LONG
        return words

    library = ctypes.CDLL(None, use_errno=True)
    library.syscall.restype = ctypes.c_long
    # The kernel takes the number of bits to be one more than there are.
    left = library.syscall(
        ctypes.c_long(number), ctypes.c_int(pid),
        ctypes.c_ulong(size * _LONG + 1), mask(sources), mask([target]))
    if left < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return int(left)


def _move(guest: agent_model.AgentGuest, nodes: cpuset.CpuSet,
          memory: Mapping[int, int]) -> MemoryMove | None:
    """What has to be moved so that memory is on some nodes, if anything."""
    sources = cpuset.CpuSet(node for node, size in memory.items()
                            if size and node not in nodes)
    # What it was told to have its memory on is nova's to decide.
    if not sources or not nodes or guest.nodes:
        return None
    return MemoryMove(guest, sources, min(nodes),
                      sum(memory[node] for node in sources))


def _counted(text: str) -> dict[int, int]:
    """Of cgroup v2 in bytes ('anon N0=1'), of v1 in pages ('total=1 N0=1')."""
    found: dict[int, int] = {}
    for kind, rest in _lines(text):
        if kind in _KINDS or kind == 'hierarchical_total':
            unit = 1 if kind in _KINDS else _PAGE
            for node, amount in _ON_NODE.findall(rest):
                found[int(node)] = found.get(int(node), 0) + (
                    unit * int(amount))
    return found


def _lines(text: str) -> Iterator[tuple[str, str]]:
    for line in text.splitlines():
        first, _blank, rest = line.partition(' ')
        yield first.partition('=')[0], rest
