# SPDX-License-Identifier: Apache-2.0
"""One fit for each host and request, shared by filters and weighers."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence
import functools
from typing import Any

import os_resource_classes as orc

from nova_pinning.bridge import nova_claim
from nova_pinning.bridge import numa
from nova_pinning.bridge import pci
from nova_pinning.bridge import topology
from nova_pinning import fit
from nova_pinning.fit import score
from nova_pinning import model
from nova_pinning.model import cell_order
from nova_pinning.model import Reason
from nova_pinning.model import Refusal
from nova_pinning.scheduler import layout
from nova_pinning.scheduler import requests


class FittedGuest:
    """A guest that fits on a host.

    :param host_cells: all cells of the host
    :param limits: nova.objects.NUMATopologyLimits that it was found under
    :param candidates: the allocation candidates under which it fits; the
        decision is that of the first
    :ivar drawback: why the host is for guests that find no other, None if it
        is not
    """

    __slots__ = ('candidates', 'decision', 'drawback', 'host_cells', 'limits')

    def __init__(
        self,
        decision: fit.Decision,
        host_cells: tuple[model.CellView, ...],
        limits: Any,
        candidates: list[Any],
    ) -> None:
        self.decision = decision
        self.drawback = decision.drawback
        self.host_cells = host_cells
        self.limits = limits
        self.candidates = candidates

    @property
    def guest(self) -> model.Guest:
        return self.decision.guest

    @property
    def cells(self) -> tuple[model.CellView, ...]:
        """The host cell of each guest cell."""
        return self.decision.cells

    @property
    def other_cells(self) -> list[model.CellView]:
        """The cells of the host that the guest leaves alone."""
        taken = {cell.id for cell in self.cells}
        return [cell for cell in self.host_cells if cell.id not in taken]

    @property
    def fit(self) -> model.Fit:
        """The CPUs; only weighers ask, and only for hosts that passed.

        :raises topology.BrokenTopology: if the sibling lists cannot be read
        """
        return self.decision.fit


def fit_on_host(
    host_state: Any,
    request: requests.PinningRequest,
    is_patient: bool = False,
) -> FittedGuest | Refusal | None:
    """Whether and where the guest fits on the host.

    The answer is kept with the request. Nova makes HostStates and topologies
    anew for each request; within one for several instances, a host that takes
    one of them is looked at again.

    :param host_state: nova.scheduler.host_manager.HostState; not changed
    :param is_patient: whether to look at the host to the end, where there
        was too much to do there
    :returns: None if the guest asks for no NUMA topology
    """
    if request.spec_topology is None:
        return None
    host = request.hosts.get(host_state)
    if host is None:
        host = request.hosts[host_state] = _ScheduledHost(host_state)
    else:
        host.notice(host_state, request)
        if (is_patient and isinstance(host.outcome, Refusal)
                and fit.is_cut_off(host.outcome)):
            host.outcome = None
    outcome: FittedGuest | Refusal | None = host.outcome
    if outcome is None:
        outcome = _place(host, host_state, request, request.bounds, is_patient)
        if request.left_sizes is not None and isinstance(outcome, FittedGuest):
            _hold_against_others(outcome, request, request.left_sizes)
        host.outcome = outcome
    return outcome


def last_fit(host_state: Any,
             request: requests.PinningRequest) -> FittedGuest | None:
    """What :func:`fit_on_host` found last, if the guest fits."""
    host = request.hosts.get(host_state)
    if host is not None and isinstance(host.outcome, FittedGuest):
        return host.outcome
    return None


def device_stock(
    host_state: Any, request: requests.PinningRequest, placement: FittedGuest,
) -> score.DeviceStock | None:
    """The devices of a host that the guest fits on, None if none are free."""
    stats = request.hosts[host_state].pci_stats
    if stats is None or not stats.pools:
        return None
    ids, left = [cell.id for cell in placement.cells], stats
    if request.pci_requests:
        left = pci.pools_without(
            stats, stats.pools, request.pci_requests,
            placement.candidates[0]['mappings'], ids)
    return score.DeviceStock(
        [*ids, *[cell.id for cell in placement.other_cells]],
        *[functools.partial(pci.free_for, one.pools)
          for one in (stats, left)])


class _ScheduledHost:
    """A host as it is while one request is scheduled.

    When an instance of the request goes on a host, nova counts it there by
    its own fit, in the HostState. Where that finds no place, or another than
    the claim will, the books are wrong for the instances that follow. So they
    are kept here, by what was found to be what the claim does.

    :ivar topology: nova.objects.NUMATopology, with what instances of the
        request take
    :ivar pci_stats: nova.pci.stats.PciDeviceStats, likewise
    :ivar outcome: None if it has to be found anew
    """

    __slots__ = ('_instances', '_nova_topology', '_pools', 'outcome',
                 'pci_stats', 'topology')

    def __init__(self, host_state: Any) -> None:
        self.topology = host_state.numa_topology
        self.pci_stats = host_state.pci_stats
        self.outcome: FittedGuest | Refusal | None = None
        self._pools: Any = None
        self._nova_topology = self.topology
        self._instances = host_state.num_instances

    def _watch(self, host_state: Any) -> None:
        self._nova_topology = host_state.numa_topology
        self._instances = host_state.num_instances

    def keep_pools(self) -> None:
        """Remember the free devices, to be able to count from here."""
        if self.pci_stats is not None:
            self._pools = [dict(pool) for pool in self.pci_stats.pools]

    def notice(self, host_state: Any,
               request: requests.PinningRequest) -> None:
        """See what nova has done with the host since the last time."""
        taken = host_state.num_instances - self._instances
        if not taken and host_state.numa_topology is self._nova_topology:
            return
        has_booked = False
        while taken > 0 and isinstance(self.outcome, FittedGuest):
            self._count_guest(self.outcome, host_state, request)
            taken -= 1
            self.outcome = (
                _place(self, host_state, request, request.bounds, False)
                if taken else None)
            has_booked = True
        if not has_booked or taken:
            # Something else has changed, or took a guest, than our decision.
            self.topology = host_state.numa_topology
            self.pci_stats = host_state.pci_stats
        self.outcome = None
        self._watch(host_state)

    def _count_guest(self, placement: FittedGuest, host_state: Any,
                     request: requests.PinningRequest) -> None:
        booked = numa.with_guest(self.topology, placement.guest, placement.fit)
        if numa.is_used_alike(booked, host_state.numa_topology):
            self.topology = host_state.numa_topology
            self.pci_stats = host_state.pci_stats
            return
        self.topology = booked
        if request.pci_requests and self._pools is not None:
            self.pci_stats = pci.pools_without(
                host_state.pci_stats, self._pools, request.pci_requests,
                placement.candidates[0]['mappings'],
                [cell.id for cell in placement.cells])


def _hold_against_others(
    fitted: FittedGuest, request: requests.PinningRequest,
    left_sizes: dict[fit.PageSizes, Refusal | None],
) -> None:
    """Hold a host against those that passed before, as to page sizes.

    Where its claim is aborted, theirs start from those that it leaves. None
    may go wrong by that, as its own may not by what theirs leave.

    :param left_sizes: of the request
    """
    for sizes in fitted.decision.left_sizes():
        if fit.comes_alone(fitted.drawback):
            return
        if sizes not in left_sizes:
            left_sizes[sizes] = _misled_by(sizes, request)
            if left_sizes[sizes] is None:
                request.bounds = request.bounds._replace(
                    left_sizes=(*request.bounds.left_sizes, sizes))
        misled = left_sizes[sizes]
        if misled is not None:
            fitted.drawback = misled


def _misled_by(
    sizes: fit.PageSizes, request: requests.PinningRequest,
) -> Refusal | None:
    """What speaks against leaving these page sizes to hosts that passed."""
    bounds = request.bounds._replace(left_sizes=(sizes,))
    for host_state, host in request.hosts.items():
        if (not isinstance(host.outcome, FittedGuest)
                or fit.comes_alone(host.outcome.drawback)):
            continue
        # It may have passed after a look to the end. Where there are too few
        # steps left for another, there may be something.
        again = _place(host, host_state, request, bounds, True)
        wrong = again if isinstance(again, Refusal) else again.drawback
        if wrong is not None and (wrong is again or fit.comes_alone(wrong)):
            return Refusal(Reason.NOVA_AGAIN_WRONG,
                           detail=f'on host {host_state.host} {wrong.detail}')
    return None


def _place(
    host: _ScheduledHost, host_state: Any, request: requests.PinningRequest,
    bounds: fit.ClaimBounds, is_patient: bool,
) -> FittedGuest | Refusal:
    """Where the guest goes, if nova can count it there."""
    try:
        outcome = _fit(host, host_state, request, bounds, is_patient)
        if isinstance(outcome, FittedGuest):
            topology.check_countable(topology.nova_cells(outcome.cells))
        return outcome
    except topology.BrokenTopology as error:
        return Refusal(Reason.BROKEN_TOPOLOGY, detail=str(error))
    except Exception as error:
        # It may be the host's fault, or ours as well.
        try:
            topology.check_countable(host.topology.cells)
        except topology.BrokenTopology as broken:
            return Refusal(Reason.BROKEN_TOPOLOGY,
                           detail=f'{broken}; {error!r}')
        raise


def _fit(
    host: _ScheduledHost, host_state: Any, request: requests.PinningRequest,
    bounds: fit.ClaimBounds, is_patient: bool,
) -> FittedGuest | Refusal:
    """Where the guest goes.

    :raises topology.BrokenTopology: if the host cannot be read
    """
    if host.topology is None:
        return Refusal(Reason.NO_TOPOLOGY)
    if request.guest is None:
        assert request.guest_refusal is not None
        return request.guest_refusal
    candidates = host_state.allocation_candidates
    if not candidates:
        return Refusal(Reason.ALLOCATION)
    ratios = host_state.cpu_allocation_ratio, host_state.ram_allocation_ratio
    try:
        limits = request.claims.limits(ratios)
    except ValueError as error:
        raise topology.BrokenTopology(
            f'nova has not read its allocation ratios yet: {error}') from error
    if is_patient:
        bounds = bounds._replace(is_patient=True)
    packs_cells = layout.packs_cells(host_state, request.packs_cells)
    engine_host = topology.host_from_nova(host.topology, *ratios)
    version = _service_version(host_state)
    if cell_order.may_forget_pages(version):
        engine_host = engine_host._replace(may_forget_pages=True)
    stats = host.pci_stats
    if request.pci_requests:
        good, first = _decide_each(
            candidates, request.pci_requests, functools.partial(
                _decide, engine_host, stats, request, packs_cells, bounds))
    else:
        if stats is not None and stats.pools:
            engine_host = engine_host._replace(
                claim_order=nova_claim.order_of_compute(version))
        # Candidates differ in the devices they allot, so without a
        # request for devices they all fare alike.
        good, first = candidates, _decide(
            engine_host, stats, request, packs_cells, bounds, None)
    if isinstance(first, Refusal):
        freeing = _being_freed(engine_host, host_state, request)
        # A Refusal counts as false.
        return first if freeing is None else freeing
    if request.pci_requests and request.is_several:
        host.keep_pools()
    return FittedGuest(first, engine_host.cells, limits, good)


def _decide(
    engine_host: model.Host, stats: Any, request: requests.PinningRequest,
    packs_cells: bool, bounds: fit.ClaimBounds,
    mappings: dict[str, list[str]] | None,
) -> fit.Decision | Refusal:
    """Where the guest goes.

    :param stats: nova.pci.stats.PciDeviceStats of the host, or None
    :param mappings: of an allocation candidate
    """
    assert request.guest is not None
    check = None
    if stats is not None and (request.pci_requests or stats.pools):
        check = pci.NovaPciCheck(stats, request.pci_requests, mappings)
    request.budget.start_host()
    return fit.decide(engine_host, request.guest, pack=packs_cells,
                      pci=check, bounds=bounds)


def _decide_each(
    candidates: Sequence[Any],
    pci_requests: Sequence[Any],
    decide: Callable[[dict[str, list[str]]], fit.Decision | Refusal],
) -> tuple[list[Any], fit.Decision | Refusal]:
    """The candidates that will do, and what was decided for the first.

    Candidates that allot the same devices are tried once.

    :param candidates: allocation candidates, one at least
    :param pci_requests: nova.objects.InstancePCIRequest
    :param decide: where the guest goes, by the mappings of a candidate
    """
    known: dict[Any, fit.Decision | Refusal] = {}
    good = []
    first: fit.Decision | Refusal | None = None
    for candidate in candidates:
        mappings = candidate['mappings']
        key = pci.allotment(pci_requests, mappings)
        if key not in known:
            known[key] = decide(mappings)
        outcome = known[key]
        if isinstance(outcome, fit.Decision):
            good.append(candidate)
            if not isinstance(first, fit.Decision):
                first = outcome
        elif first is None:
            first = outcome
    assert first is not None
    if isinstance(first, fit.Decision):
        first.rivals += tuple([
            outcome for outcome in known.values()
            if isinstance(outcome, fit.Decision) and outcome is not first])
    return good, first


def _being_freed(
    host: model.Host, host_state: Any, request: requests.PinningRequest,
) -> Refusal | None:
    """The refusal of a host that Placement takes for emptier than it is.

    Placement offers a host only if it has as many PCPUs left as are asked
    for. Where the topology has fewer free CPUs in all, guests have left it
    whose CPUs nova-compute will free only when it updates its resources, as
    after a live migration; or another request has come first, whose guest was
    claimed after Placement had been asked for this one.

    :param host: the host as its topology has it
    :returns: None if the two do not disagree, or that cannot be told
    """
    if request.is_several or any(cell.has_stray_pins for cell in host.cells):
        # Placement has not counted the others, or they count for less.
        return None
    offered = max(
        candidate.get('allocations', {}).get(host_state.uuid, {}).get(
            'resources', {}).get(orc.PCPU, 0)
        for candidate in host_state.allocation_candidates)
    free = sum(cell.free_count for cell in host.cells)
    if offered <= free:
        return None
    freeing = offered - free
    are, have = ('CPU is', 'has') if freeing == 1 else ('CPUs are', 'have')
    return Refusal(
        Reason.CPUS_BEING_FREED,
        detail=f'{freeing} {are} being freed or {have} just been '
               f'taken, {free} {"is" if free == 1 else "are"} free, {offered} '
               'needed')


def _service_version(host_state: Any) -> int | None:
    """That of its nova-compute, as it stands in nova's database since that was
    started last.
    """
    # A HostState that was never updated has none.
    service = getattr(host_state, 'service', None) or {}
    version: int | None = service.get('version')
    return version
