#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

"""One fit for each host and request, shared by filters and weighers."""

from typing import Any

from nova_pinning.bridge import claim
from nova_pinning.bridge import pci
from nova_pinning.bridge import topology
from nova_pinning import fit
from nova_pinning import model
from nova_pinning.model import Reason
from nova_pinning.model import Refusal
from nova_pinning.scheduler import requests


class Placement:
    """A guest that fits on a host.

    :param cells: the host cell of each guest cell
    :param host_cells: all cells of the host
    :param limits: nova.objects.NUMATopologyLimits that it was found under
    :param claimed: nova's own answer, where that was asked for
    :ivar candidates: the allocation candidates under which it fits; the fit
        is that of the first
    """

    __slots__ = ('_fit', 'candidates', 'cells', 'guest', 'host_cells',
                 'limits')

    def __init__(
        self,
        guest: model.Guest,
        cells: tuple[model.CellView, ...],
        host_cells: tuple[model.CellView, ...],
        limits: Any,
        claimed: model.Fit | None = None,
    ) -> None:
        self.guest = guest
        self.cells = cells
        self.host_cells = host_cells
        self.limits = limits
        self.candidates: list[Any] = []
        self._fit = claimed

    @property
    def other_cells(self) -> list[model.CellView]:
        """The cells of the host that the guest leaves alone."""
        taken = {cell.id for cell in self.cells}
        return [cell for cell in self.host_cells if cell.id not in taken]

    @property
    def fit(self) -> model.Fit:
        """The CPUs; only weighers ask, and only for hosts that passed.

        :raises BrokenTopology: if the sibling lists cannot be read
        """
        if self._fit is None:
            self._fit = fit.pin(self.guest, self.cells)
        return self._fit


def place(
    host_state: Any, request: requests.Request,
) -> Placement | Refusal | None:
    """Whether and where the guest fits on the host.

    The answer is kept with the request. Nova makes HostStates and topologies
    anew for each request; within one for several instances it replaces the
    topology of the host that takes an instance, which is how a stale answer
    is told.

    :param host_state: nova.scheduler.host_manager.HostState; not changed
    :returns: None if the guest asks for no NUMA topology
    """
    if request.spec_topology is None:
        return None
    host_topology = host_state.numa_topology
    known = request.placements.get(host_state)
    if known is not None and known[0] is host_topology:
        outcome: Placement | Refusal = known[1]
        return outcome
    outcome = _place(host_state, request)
    request.placements[host_state] = (host_topology, outcome)
    return outcome


def _place(
    host_state: Any, request: requests.Request,
) -> Placement | Refusal:
    host_topology = host_state.numa_topology
    if host_topology is None:
        return Refusal(Reason.NO_TOPOLOGY)
    if request.guest is None:
        assert request.guest_refusal is not None
        return request.guest_refusal
    candidates = host_state.allocation_candidates
    if not candidates:
        return Refusal(Reason.ALLOCATION)
    ratios = host_state.cpu_allocation_ratio, host_state.ram_allocation_ratio
    limits = request.limits(ratios)
    try:
        host = topology.host_from_nova(host_topology, *ratios)
        if not request.pci_requests:
            # Candidates differ in the devices they allot, so without a
            # request for devices they all fare alike.
            outcome = _try(host_state, request, host, limits, None)
            if isinstance(outcome, Placement):
                outcome.candidates = candidates
            return outcome
        outcomes = [
            _try(host_state, request, host, limits, candidate['mappings'])
            for candidate in candidates]
    except topology.BrokenTopology as error:
        return Refusal(Reason.BROKEN_TOPOLOGY, detail=str(error))
    good = [(candidate, outcome)
            for candidate, outcome in zip(candidates, outcomes)
            if isinstance(outcome, Placement)]
    if not good:
        return outcomes[0]
    placement = good[0][1]
    placement.candidates = [candidate for candidate, _outcome in good]
    return placement


def _try(
    host_state: Any,
    request: requests.Request,
    host: model.Host,
    limits: Any,
    mappings: dict[str, list[str]] | None,
) -> Placement | Refusal:
    """One allocation candidate: our fit, then what nova makes of it."""
    assert request.guest is not None
    stats = host_state.pci_stats
    check = None
    if stats is not None and (request.pci_requests or stats.pools):
        check = pci.NovaPciCheck(stats, request.pci_requests, mappings)
    # Nova walks through each set at least once, so what is not among the
    # first is refused in the end anyway.
    max_sets = (request.options.nova_claim_max_permutations
                if request.options.check_nova_claim else None)
    choice = fit.choose_cells(
        host, request.guest, pack=request.packs_cells, pci=check,
        max_sets=max_sets)
    if isinstance(choice, Refusal):
        return choice
    if request.options.check_nova_claim and not choice.is_first:
        answer = claim.foresee(
            claim.NovaArguments(
                host_state.numa_topology, request.spec_topology, mappings,
                limits, request.pci_requests, check and check.as_stats()),
            claim.Attempt(host, request.guest, check),
            choice, request.options.nova_claim_max_permutations)
        if isinstance(answer, Refusal):
            return answer
        if answer is not None:
            views = {cell.id: cell for cell in host.cells}
            cells = tuple(views[cell.host_cell] for cell in answer.cells)
            return Placement(request.guest, cells, host.cells, limits,
                             answer)
    return Placement(request.guest, choice.cells, host.cells, limits)
