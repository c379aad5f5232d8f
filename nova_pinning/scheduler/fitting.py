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

import dataclasses
import functools
from typing import Any
import weakref

from nova_pinning.bridge import claim
from nova_pinning.bridge import pci
from nova_pinning.bridge import topology
from nova_pinning import conf
from nova_pinning import fit
from nova_pinning import model
from nova_pinning.model import Reason
from nova_pinning.model import Refusal
from nova_pinning.scheduler import requests

CONF = conf.CONF


@dataclasses.dataclass
class Placement:
    """A guest that fits on a host.

    :param cells: the host cell of each guest cell
    :param claimed: nova's own answer, where it differs from ours
    """

    guest: model.Guest
    cells: tuple[model.CellView, ...]
    claimed: model.Fit | None = None

    @functools.cached_property
    def fit(self) -> model.Fit:
        """The CPUs; only weighers ask, and only for hosts that passed."""
        return self.claimed or fit.pin(self.guest, self.cells)


@dataclasses.dataclass(slots=True)
class _Known:
    """What was found for a host, with what it was found for.

    Nova makes HostStates anew for each request. Within a request for several
    instances it replaces the topology of the host that takes one, and the
    topology of the spec, so that both are compared by identity.
    """

    host_topology: Any
    request: requests.Request
    outcome: Placement | Refusal


_known: weakref.WeakKeyDictionary[Any, _Known] = weakref.WeakKeyDictionary()


def place(host_state: Any, spec_obj: Any) -> Placement | Refusal | None:
    """Whether and where the guest fits on the host.

    :param host_state: nova.scheduler.host_manager.HostState; its list of
        allocation candidates is narrowed to those that do
    :param spec_obj: nova.objects.RequestSpec
    :returns: None if the guest asks for no NUMA topology
    """
    request = requests.read(spec_obj)
    if request.spec_topology is None:
        return None
    outcome = known(host_state, request)
    if outcome is None:
        outcome = _place(host_state, request)
        _known[host_state] = _Known(
            host_state.numa_topology, request, outcome)
    return outcome


def known(
    host_state: Any, request: requests.Request,
) -> Placement | Refusal | None:
    """What place() found, if nothing has changed since."""
    entry = _known.get(host_state)
    if (entry is None or entry.request is not request or
            entry.host_topology is not host_state.numa_topology):
        return None
    return entry.outcome


def _place(
    host_state: Any, request: requests.Request,
) -> Placement | Refusal:
    host_topology = host_state.numa_topology
    if not host_topology:
        return Refusal(Reason.NO_TOPOLOGY)
    if request.guest is None:
        return request.refusal or Refusal(Reason.BROKEN_TOPOLOGY)
    candidates = host_state.allocation_candidates
    if not candidates:
        return Refusal(Reason.ALLOCATION)
    limits = request.limits(
        host_state.cpu_allocation_ratio, host_state.ram_allocation_ratio)
    try:
        host = topology.host_from_nova(host_topology, limits)
        if not request.pci_requests:
            # Candidates differ in the devices they allot, so without a
            # request for devices they all fare alike.
            return _try(host_state, request, host, limits, None)
        outcomes = [
            _try(host_state, request, host, limits, candidate['mappings'])
            for candidate in candidates]
    except topology.BrokenTopology as error:
        return Refusal(Reason.BROKEN_TOPOLOGY, detail=str(error))
    good = [index for index, outcome in enumerate(outcomes)
            if isinstance(outcome, Placement)]
    if not good:
        return outcomes[0]
    host_state.allocation_candidates = [candidates[index] for index in good]
    return outcomes[good[0]]


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
    attempt = claim.Attempt(host, request.guest, request.packs_cells, check)
    cells = attempt.choose_cells()
    if isinstance(cells, Refusal):
        return cells
    placement = Placement(request.guest, cells)
    if CONF.pinning.check_nova_claim and len(host.cells) > 1:
        arguments = claim.NovaArguments(
            host_state.numa_topology, request.spec_topology, mappings,
            limits, request.pci_requests, stats)
        claimed = claim.foresee(
            arguments, attempt, cells,
            CONF.pinning.nova_claim_max_permutations)
        if isinstance(claimed, Refusal):
            return claimed
        placement.claimed = claimed
    return placement
