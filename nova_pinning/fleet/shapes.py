# SPDX-License-Identifier: Apache-2.0
"""Kinds of hosts that fleets are generated of, and what is sold on them."""

from collections.abc import Mapping
import dataclasses

from nova_pinning.admission import devices
from nova_pinning import cpuset
from nova_pinning.host import engine
from nova_pinning.host import host_model
from nova_pinning import model
from nova_pinning import units


@dataclasses.dataclass(frozen=True, slots=True)
class TemplateDevices:
    """PCI devices that every cell has some of, under an alias.

    :param per_cell: devices near each cell
    :param share: of 100 dedicated guests, how many get one
    """

    alias: str
    keys: devices.Pairs
    per_cell: int
    share: int


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class HostTemplate:
    """A kind of host.

    Its CPUs are numbered as the kernel does on most machines: the first
    threads of all cores, cell by cell, then the second ones.

    :param cores: of each cell
    :param threads: of each core
    :param l3_cores: cores under each last-level cache
    :param kept_cores: cores that the host keeps in the cells, by cell id:
        the first ones
    :param memory_mib: of each cell
    :param page_size_kib: of the huge pages for guests, 0 for none
    :param huge_mib: of each cell in huge pages
    :param memory_per_vcpu_mib: of the guests
    :param mix: the sizes that are sold, as host plan --for takes them
    """

    name: str
    description: str
    sockets: int
    cells_per_socket: int = 1
    cores: int
    threads: int = 2
    l3_cores: int
    kept_cores: Mapping[int, int] = dataclasses.field(default_factory=dict)
    memory_mib: int
    page_size_kib: int = 0
    huge_mib: int = 0
    memory_per_vcpu_mib: int
    mix: str
    cell_devices: tuple[TemplateDevices, ...] = ()

    @property
    def cell_count(self) -> int:
        return self.sockets * self.cells_per_socket

    @property
    def cpus(self) -> int:
        return self.cell_count * self.cores * self.threads

    def cells(self, is_shared: bool = False) -> tuple[model.HostCell, ...]:
        """The cells of such a host.

        :param is_shared: whether floating guests get what pinned ones get
            otherwise; there are no huge pages then
        """
        sold = cpuset.CpuSet(
            cpu for number in range(self.cell_count)
            for core in self._cores(number)[self.kept_cores.get(number, 0):]
            for cpu in core)
        pages = {} if is_shared or not self.huge_mib else {
            self.page_size_kib:
                self.huge_mib * units.KIB_PER_MIB // self.page_size_kib}
        return engine.engine_cells(dataclasses.replace(
            self.hardware(pages),
            nova=host_model.NovaSettings(shared_cpus=sold) if is_shared
            else host_model.NovaSettings(dedicated_cpus=sold)))

    def hardware(
        self, pages: Mapping[int, int] | None = None,
    ) -> host_model.HostDescription:
        """Such a host as its file describes it, without nova's settings.

        :param pages: huge pages of each cell, by their size in KiB
        """
        domains = self.l3_domains()
        nodes = []
        for number in range(self.cell_count):
            cores = self._cores(number)
            nodes.append(host_model.NumaNode(
                number, number // self.cells_per_socket, cores,
                self.memory_mib, pages or {}, tuple(
                    domain for domain in domains
                    if any(core[0] in domain for core in cores))))
        return host_model.HostDescription(self.name, tuple(nodes))

    def _cores(self, number: int) -> tuple[tuple[int, ...], ...]:
        step = self.cpus // self.threads
        first = number * self.cores
        return tuple(
            tuple(core + thread * step for thread in range(self.threads))
            for core in range(first, first + self.cores))

    def l3_domains(self) -> tuple[cpuset.CpuSet, ...]:
        """The CPUs under each last-level cache."""
        cores = [core for number in range(self.cell_count)
                 for core in self._cores(number)]
        return tuple(
            cpuset.CpuSet(cpu for core in cores[first:first + self.l3_cores]
                          for cpu in core)
            for first in range(0, len(cores), self.l3_cores))

    def pci_pools(self) -> tuple[devices.PciPool, ...]:
        """The PCI devices of such a host."""
        return tuple(
            devices.PciPool(made.keys, number, made.per_cell)
            for made in self.cell_devices
            for number in range(self.cell_count))


#: All shapes by name.
SHAPES: Mapping[str, HostTemplate] = {
    shape.name: shape
    for shape in (
        HostTemplate(
            name='two-socket-80',
            description='80 CPUs: two sockets of 20 cores with two threads, a '
            'core of each kept for the host',
            sockets=2,
            cores=20,
            l3_cores=20,
            kept_cores={0: 1, 1: 1},
            memory_mib=192 * 1024,
            memory_per_vcpu_mib=4096,
            mix='2:30,4:25,8:20,16:15,32:10'),
        HostTemplate(
            name='two-socket-88',
            description='88 CPUs: two sockets of 44 cores without threads, '
            'all memory in pages of 2 MiB',
            sockets=2,
            cores=44,
            threads=1,
            l3_cores=44,
            memory_mib=184388,
            page_size_kib=2048,
            huge_mib=180292,
            memory_per_vcpu_mib=2048,
            mix='2:16,4:42,8:18,16:11,32x2:5,64x2:6'),
        HostTemplate(
            name='epyc-nps4',
            description='256 CPUs: two sockets of 4 NUMA nodes, each with two '
            'caches of 8 cores with two threads; 2 cores kept',
            sockets=2,
            cells_per_socket=4,
            cores=16,
            l3_cores=8,
            kept_cores={0: 1, 4: 1},
            memory_mib=128 * 1024,
            memory_per_vcpu_mib=3072,
            mix='2:30,4:25,8:20,16:15,32x2:10'),
        HostTemplate(
            name='two-socket-96-pci',
            description='96 CPUs: two sockets of 24 cores with two threads, a '
            'core of each kept; pages of 1 GiB, GPUs and NICs',
            sockets=2,
            cores=24,
            l3_cores=24,
            kept_cores={0: 1, 1: 1},
            memory_mib=256 * 1024,
            page_size_kib=1024 * 1024,
            huge_mib=240 * 1024,
            memory_per_vcpu_mib=4096,
            mix='4:40,8:30,16:20,32x2:10',
            cell_devices=(
                TemplateDevices(
                    'gpu', devices.device_keys('10de', '20b5'), 2, 10),
                TemplateDevices(
                    'nic', devices.device_keys('8086', '154c'), 16, 30))))}
