# SPDX-License-Identifier: Apache-2.0
"""The shape of a make-believe host: its CPUs, memory and nova options.

Pure: nothing here imports nova, so shapes can be written, checked and
drawn before the seconds that importing nova takes.
"""

from __future__ import annotations

from collections.abc import Mapping
import dataclasses
import enum
import typing as ty

from nova_pinning.host import host_model

#: (group or None for [DEFAULT], option) to value, as nova-compute sees it.
Options = Mapping[tuple[str | None, str], ty.Any]


class Numbering(enum.Enum):
    """How the firmware numbers the threads of a core."""

    #: Every core's first thread comes before any second thread: 40 cores
    #: make sibling pairs (0, 40), (1, 41), ... Usual on x86 servers.
    SPLIT = 'split'
    #: The threads of a core are neighbours: (0, 1), (2, 3), ...
    ADJACENT = 'adjacent'


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class HostShape:
    """What a host looks like to libvirt, and how its nova.conf is set.

    :param sockets: number of sockets
    :param cells_per_socket: NUMA cells in each socket
    :param cores_per_cell: cores in each cell
    :param threads: threads in each core
    :param numbering: which CPU ids the threads of a core have
    :param memory_mib: memory of the whole host in MiB, spread evenly
    :param dedicated: [compute] cpu_dedicated_set, None leaves it unset
    :param shared: [compute] cpu_shared_set, None leaves it unset
    :param cpu_allocation_ratio: vCPUs that may be sold for a shared CPU
    :param ram_allocation_ratio: memory that may be sold for what is there
    :param reserved_memory_mib: [DEFAULT] reserved_host_memory_mb
    :param huge_pages: page size in KiB to the number of pages per cell;
        what they leave of the cell's memory is 4 KiB pages
    :param reserved_huge_pages: [DEFAULT] reserved_huge_pages, for instance
        ``('node:0,size:2048,count:64',)``
    :param offline: ids of CPUs that are switched off
    :param options: any other option of this host's nova.conf
    :raises ValueError: when the host could not exist
    """

    sockets: int = 1
    cells_per_socket: int = 1
    cores_per_cell: int = 2
    threads: int = 2
    numbering: Numbering = Numbering.SPLIT
    memory_mib: int = 16 * 1024
    dedicated: str | None = None
    shared: str | None = None
    cpu_allocation_ratio: float = 1.0
    ram_allocation_ratio: float = 1.0
    reserved_memory_mib: int = 0
    huge_pages: Mapping[int, int] = dataclasses.field(default_factory=dict)
    reserved_huge_pages: tuple[str, ...] = ()
    offline: frozenset[int] = frozenset()
    options: Options = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ('sockets', 'cells_per_socket', 'cores_per_cell',
                     'threads', 'memory_mib'):
            if getattr(self, name) < 1:
                raise ValueError(f'{name} must be at least 1')
        if self.small_pages_kib < 0:
            raise ValueError('the huge pages are more than a cell has memory')

    @property
    def cpu_count(self) -> int:
        """CPUs of the host, those that are offline included."""
        return (self.sockets * self.cells_per_socket * self.cores_per_cell *
                self.threads)

    @property
    def cell_memory_mib(self) -> int:
        """Memory of one cell in MiB."""
        return self.memory_mib // (self.sockets * self.cells_per_socket)

    @property
    def small_pages_kib(self) -> int:
        """Memory of one cell that is not in huge pages, in KiB."""
        return self.cell_memory_mib * 1024 - sum(
            size * count for size, count in self.huge_pages.items())

    @property
    def cells(self) -> tuple[host_model.NumaNode, ...]:
        """The host's NUMA cells; offline CPUs are left out, as in sysfs."""
        cells = []
        for cell_id in range(self.sockets * self.cells_per_socket):
            first = cell_id * self.cores_per_cell
            cores = [self._threads_of(core)
                     for core in range(first, first + self.cores_per_cell)]
            cells.append(host_model.NumaNode(
                id=cell_id,
                socket=cell_id // self.cells_per_socket,
                cores=tuple(core for core in cores if core),
                memory_mib=self.cell_memory_mib))
        return tuple(cells)

    def _threads_of(self, core: int) -> tuple[int, ...]:
        if self.numbering is Numbering.ADJACENT:
            ids = range(core * self.threads, (core + 1) * self.threads)
        else:
            ids = range(core, self.cpu_count, self.cpu_count // self.threads)
        return tuple(cpu for cpu in ids if cpu not in self.offline)

    def nova_options(self) -> Options:
        """This host's own nova.conf, as far as it is about CPUs and memory.

        Options that are left unset are named too, with None: one process
        plays all hosts, and none may see what another has set.
        """
        return {
            ('compute', 'cpu_dedicated_set'): self.dedicated,
            ('compute', 'cpu_shared_set'): self.shared,
            (None, 'cpu_allocation_ratio'): self.cpu_allocation_ratio,
            (None, 'ram_allocation_ratio'): self.ram_allocation_ratio,
            (None, 'reserved_host_memory_mb'): self.reserved_memory_mib,
            (None, 'reserved_huge_pages'): self._reserved_huge_pages(),
            **self.options}

    def _reserved_huge_pages(self) -> list[dict[str, str]] | None:
        # The option is a MultiOpt of dictionaries; an override skips the
        # parsing, so the dictionaries are made here.
        if not self.reserved_huge_pages:
            return None
        return [dict(item.split(':', 1) for item in pages.split(','))
                for pages in self.reserved_huge_pages]


def enterprise_host() -> HostShape:
    """A host that sells dedicated CPUs only: 80 CPUs, 768 GiB.

    The first two cores of socket 0 (CPUs 0, 1 and their siblings 40, 41)
    are kept for the host's own processes.
    """
    return HostShape(sockets=2, cores_per_cell=20, threads=2,
                     memory_mib=768 * 1024, dedicated='2-39,42-79')


def shared_host() -> HostShape:
    """The same hardware with all CPUs floating, each sold three times."""
    return HostShape(sockets=2, cores_per_cell=20, threads=2,
                     memory_mib=768 * 1024, shared='0-79',
                     cpu_allocation_ratio=3.0)
