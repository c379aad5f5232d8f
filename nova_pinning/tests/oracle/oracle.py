# SPDX-License-Identifier: Apache-2.0
"""The right answer to "does this guest fit, and how", found the slow way.

The oracle walks through the permutations of host cells in nova's own order
and asks nova's own function for one guest cell on one host cell, each time
with a guest cell that nothing has touched yet. What it leaves out is what
nova gets wrong: guest cells that carry the page size, the pins and the id of
an earlier attempt, and a cache that goes by those ids.

An answer counts only if it can be carried out:

* every dedicated vCPU has a free CPU of its cell to itself;
* nova's own accounting takes it, as nova-compute would have to;
* nova's own checks of PCI devices and networks pass for the chosen cells;
* nova hands out as many devices as are asked for.

Two things are agreed rather than nova's. A host cell whose sibling sets
overlap is broken, so nothing is pinned there, even where nova would happen to
give out different CPUs. And the memory of pinned guests is that of 2025.1 and
later, with the nova of 2024.1, too: pages that are free.

The first permutation with such an answer is what the engine has to find.
"""

from __future__ import annotations

import copy
import itertools
import math
import types
import typing as ty
from unittest import mock

from nova import exception
from nova import objects
from nova.pci import stats
from nova.virt import hardware
from oslo_utils import units

from nova_pinning.bridge import nova_claim
from nova_pinning import compat

_PINNED = ('dedicated', 'mixed')


@compat.dataclass(frozen=True, slots=True)
class CellAnswer:
    """Where one guest cell goes.

    :param host_cell: the id of the host cell
    :param pins: pairs of a vCPU and its host CPU, by vCPU
    :param reserved: host CPUs set aside for emulator threads
    :param page_size_kib: None if the guest did not ask for one
    """

    host_cell: int
    pins: tuple[tuple[int, int], ...]
    reserved: tuple[int, ...]
    page_size_kib: int | None

    @classmethod
    def of(cls, cell: objects.InstanceNUMACell) -> 'CellAnswer':
        """Read what one cell of nova's answer says."""
        return cls(
            host_cell=cell.id,
            pins=tuple(sorted((cell.cpu_pinning or {}).items())),
            reserved=tuple(sorted(cell.cpuset_reserved or ())),
            page_size_kib=cell.pagesize)


#: One CellAnswer a guest cell, in the guest's order.
Answer = tuple[CellAnswer, ...]


def answer_of(topology: objects.InstanceNUMATopology) -> Answer:
    return tuple(map(CellAnswer.of, topology.cells))


class _Captured(Exception):
    """Stops nova once it has said in which order it takes the cells."""


def cells_in_order(
    host_topology: objects.NUMATopology,
    instance_topology: objects.InstanceNUMATopology,
    limits: objects.NUMATopologyLimits | None = None,
    pci_requests: list[objects.InstancePCIRequest] | None = None,
    pci_stats: stats.PciDeviceStats | None = None,
) -> list[objects.NUMACell] | None:
    """Return the host's cells in the order in which nova tries them.

    nova sorts the cells and hands them to ``itertools.permutations``, so
    this runs nova up to there and takes the list away from it: whatever nova
    sorts by, now or in a later release, is what the oracle goes by.

    :returns: the cells of host_topology, or None if nova gives up before
        it tries any
    """
    captured: list[objects.NUMACell] = []

    def permutations(cells: ty.Iterable[objects.NUMACell],
                     count: int) -> ty.NoReturn:
        captured.extend(cells)
        raise _Captured()

    stand_in = types.SimpleNamespace(permutations=permutations)
    with mock.patch.object(hardware, 'itertools', stand_in):
        try:
            hardware.numa_fit_instance_to_host(
                host_topology, instance_topology, None, limits=limits,
                pci_requests=pci_requests, pci_stats=pci_stats)
        except _Captured:
            return captured
    return None


def untouched(cell: objects.InstanceNUMACell) -> objects.InstanceNUMACell:
    """Return a copy of a guest cell that was never tried anywhere."""
    return objects.InstanceNUMACell(
        id=cell.id, cpuset=set(cell.cpuset), pcpuset=set(cell.pcpuset),
        memory=cell.memory, pagesize=cell.pagesize,
        cpu_policy=cell.cpu_policy, cpu_thread_policy=cell.cpu_thread_policy)


class Oracle:
    """One host and one guest; ``fit()`` has the answer.

    The arguments are those of nova's ``numa_fit_instance_to_host``. They
    are not changed, but the host's objects are handed to nova's functions,
    so they must not be shared with whoever is compared with the oracle.
    """

    def __init__(
        self,
        host_topology: objects.NUMATopology,
        instance_topology: objects.InstanceNUMATopology,
        provider_mapping: dict[str, list[str]] | None,
        limits: objects.NUMATopologyLimits | None = None,
        pci_requests: list[objects.InstancePCIRequest] | None = None,
        pci_stats: stats.PciDeviceStats | None = None,
    ) -> None:
        self.host_topology = host_topology
        self.instance_topology = instance_topology
        self.provider_mapping = provider_mapping
        self.limits = limits
        self.pci_requests = pci_requests
        self.pci_stats = pci_stats
        self._ledgers = {
            cell.id: ledger(cell) for cell in host_topology.cells}
        # What one guest cell gets on one host cell does not depend on where
        # the others go, as all that nova's function reads of them is
        # whether there are any before it.
        self._on_cell: dict[
            tuple[int, int], objects.InstanceNUMACell | None] = {}
        # PCI devices and networks only ask whether a cell's id is among
        # those chosen, never in what order, so a set of cells decides.
        self._connected: dict[frozenset[int], bool] = {}

    def fit(self) -> Answer | None:
        """Return the first assignment that works, None if none does."""
        order = cells_in_order(
            self.host_topology,
            objects.InstanceNUMATopology(cells=[
                untouched(cell) for cell in self.instance_topology.cells]),
            self.limits, self.pci_requests, self.pci_stats)
        if order is None:
            return None
        for chosen in itertools.permutations(
                order, len(self.instance_topology)):
            cells = self._try(chosen)
            if cells is not None:
                return tuple(map(CellAnswer.of, cells))
        return None

    def _try(
        self, chosen: tuple[objects.NUMACell, ...],
    ) -> list[objects.InstanceNUMACell] | None:
        cells = []
        for number, host_cell in enumerate(chosen):
            cell = self.on_cell(number, host_cell)
            if cell is None:
                return None
            cells.append(cell)
        key = frozenset(cell.id for cell in chosen)
        if key not in self._connected:
            self._connected[key] = self._is_connected(chosen, cells)
        return cells if self._connected[key] else None

    def on_cell(
        self, number: int, host_cell: objects.NUMACell,
    ) -> objects.InstanceNUMACell | None:
        """Return a guest cell as it would be on a host cell.

        :param number: which cell of the guest, 0 is the first
        :returns: None if it cannot be there
        """
        key = number, host_cell.id
        if key not in self._on_cell:
            self._on_cell[key] = self._find_on_cell(number, host_cell)
        return self._on_cell[key]

    def _find_on_cell(
        self, number: int, host_cell: objects.NUMACell,
    ) -> objects.InstanceNUMACell | None:
        asked = self.instance_topology.cells[number]
        # nova takes the CPU for emulator threads from the host cell of the
        # guest's first cell.
        reserved = int(
            number == 0 and self.instance_topology.emulator_threads_isolated)
        try:
            cell = _fit_cell(
                host_cell, untouched(asked), self.limits, reserved)
        except Exception:
            # A page size that the host lacks, or a host too odd for nova:
            # either way nothing can be put there.
            return None
        if cell is None:
            return None
        if asked.cpu_policy in _PINNED:
            if not _is_pinned_well(asked, cell, host_cell, reserved):
                return None
        return cell if self._is_accepted(cell, host_cell) else None

    def _is_accepted(
        self, cell: objects.InstanceNUMACell, host_cell: objects.NUMACell,
    ) -> bool:
        """Whether nova's accounting takes this cell of the answer.

        Accounting goes host cell by host cell and a guest has no two cells
        on one host cell, so they can be looked at one at a time.
        """
        try:
            hardware.numa_usage_from_instance_numa(
                objects.NUMATopology(cells=[self._ledgers[host_cell.id]]),
                objects.InstanceNUMATopology(cells=[cell]))
        except Exception:
            return False
        return True

    def _is_connected(
        self, chosen: tuple[objects.NUMACell, ...],
        cells: list[objects.InstanceNUMACell],
    ) -> bool:
        """Whether these cells can supply PCI devices and networks."""
        if self.pci_requests and self.pci_stats:
            if not self.pci_stats.support_requests(
                    self.pci_requests, self.provider_mapping, cells):
                return False
            if not gets_all_devices(
                    allotted(self.pci_requests, self.provider_mapping),
                    self.pci_stats, cells):
                return False
        if self.limits and 'network_metadata' in self.limits:
            return hardware._numa_cells_support_network_metadata(
                self.host_topology, list(chosen),
                self.limits.network_metadata)
        return True


def allotted(
    requests: ty.Iterable[objects.InstancePCIRequest],
    mapping: dict[str, list[str]] | None,
) -> list[objects.InstancePCIRequest]:
    """Return requests as nova-compute has them.

    There the requests themselves say which providers they were allotted;
    see nova.compute.utils.update_pci_request_with_placement_allocations.
    """
    asked = []
    for request in requests:
        providers = [provider for group, (provider,) in (mapping or {}).items()
                     if group.startswith(request.request_id)]
        asked.append(copy.copy(request))
        if providers:
            asked[-1].spec = [{**spec, 'rp_uuids': ','.join(providers)}
                              for spec in request.spec]
    return asked


def gets_all_devices(
    asked: list[objects.InstancePCIRequest],
    pci_stats: stats.PciDeviceStats,
    cells: list[objects.InstanceNUMACell],
) -> bool:
    """Return whether nova-compute hands out all devices that are asked for.

    :param asked: as :func:`allotted` returns them
    :param pci_stats: not changed
    """
    consumed = copy.deepcopy(pci_stats)
    for pool in consumed.pools:
        pool['devices'] = [
            types.SimpleNamespace(dev_type=None, request_id=None)
            for _ in range(pool['count'])]
    try:
        given = consumed.consume_requests(asked, cells)
    except exception.PciDeviceRequestFailed:
        return False
    return len(given) == sum(request.count for request in asked)


def _fit_cell(
    host_cell: objects.NUMACell, cell: objects.InstanceNUMACell,
    limits: objects.NUMATopologyLimits | None, reserved: int,
) -> objects.InstanceNUMACell | None:
    """Ask nova for one guest cell on one host cell, as of 2025.1 or later.

    Up to then, nova lets pinned guests that ask for no page size have pages
    that are in use, as if they were floating ones, and refuses all pinned
    guests where not as much of the cell's memory is free. Later it wants free
    pages of the smallest size, and looks at the memory of a cell only if that
    has no pages.
    """
    args = host_cell, cell, limits, reserved
    if (not nova_claim.forgets_pages() or not host_cell.mempages or
            cell.cpu_policy not in _PINNED):
        return hardware._numa_fit_instance_cell(*args)
    if not cell.pagesize:
        smallest = min(pages.size_kb for pages in host_cell.mempages)
        if not host_cell.can_fit_pagesize(
                smallest, cell.memory * units.Ki, use_free=True):
            return None
    with mock.patch.object(objects.NUMACell, 'avail_memory', math.inf):
        return hardware._numa_fit_instance_cell(*args)


def ledger(cell: objects.NUMACell) -> objects.NUMACell:
    """Return a copy of a host cell that nova's accounting can work on.

    nova fits guests on cells without page pools but its accounting then
    looks for the smallest pool and fails. That says nothing about the
    answer, so such cells get a pool here.
    """
    pages = list(cell.mempages) or [objects.NUMAPagesTopology(
        size_kb=4, total=0, used=0, reserved=0)]
    return objects.NUMACell(
        id=cell.id, cpuset=set(cell.cpuset), pcpuset=set(cell.pcpuset),
        pinned_cpus=set(cell.pinned_cpus), siblings=list(cell.siblings),
        memory=cell.memory, memory_usage=cell.memory_usage,
        cpu_usage=cell.cpu_usage, mempages=pages, socket=cell.socket)


def _is_pinned_well(
    asked: objects.InstanceNUMACell, cell: objects.InstanceNUMACell,
    host_cell: objects.NUMACell, reserved: int,
) -> bool:
    cores = [cpu for core in host_cell.siblings for cpu in core]
    pins = cell.cpu_pinning or {}
    used = list(pins.values()) + list(cell.cpuset_reserved or ())
    return (
        len(set(cores)) == len(cores) and
        set(pins) == set(asked.pcpuset) and
        len(cell.cpuset_reserved or ()) == reserved and
        len(set(used)) == len(used) and
        set(used) <= set(host_cell.pcpuset) - set(host_cell.pinned_cpus))


def fit(*args: ty.Any, **kwargs: ty.Any) -> Answer | None:
    """The oracle with the signature of nova's numa_fit_instance_to_host."""
    return Oracle(*args, **kwargs).fit()
