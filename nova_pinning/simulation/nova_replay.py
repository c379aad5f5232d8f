# SPDX-License-Identifier: Apache-2.0
"""A simulation decided by nova's own classes.

Importing this imports nova: call ``bridge.standalone.prepare()`` first.
"""

from collections.abc import Iterator
from collections.abc import Mapping
import dataclasses
from typing import Any

import numpy

from nova_pinning.admission import devices
from nova_pinning.admission import guest_request
from nova_pinning import errors
from nova_pinning.fleet import snapshot
from nova_pinning.model import hostclass
from nova_pinning.placement import placement_traits
from nova_pinning.scheduler import driver
from nova_pinning.simulation import fast
from nova_pinning.simulation import hosts
from nova_pinning.simulation import occupancy_ledger
from nova_pinning.simulation import offers
from nova_pinning.simulation import scheduler_configuration
from nova_pinning.simulation import settings


@dataclasses.dataclass(frozen=True, slots=True)
class _GuestKind:
    """Guests that are asked for alike.

    :param request: kept alive, since its address is the key to this
    :param primitive: of its RequestSpec
    """

    request: guest_request.GuestRequest
    resource_queries: tuple[offers.ResourceQuery, ...]
    primitive: Any


class NovaReplay:
    """A scheduler for ``simulate.run`` that is nova's.

    There can be only one in a process until :meth:`close`.
    """

    def __init__(
        self, ledger: occupancy_ledger.OccupancyLedger,
        configuration: scheduler_configuration.SchedulerConfiguration,
        fleet: snapshot.Fleet,
    ) -> None:
        self.ledger = ledger
        self._driver = driver.SimulatedNova(
            _options(configuration), [
                *(name for name in scheduler_configuration.OWN_WEIGHERS
                  if name in configuration.multipliers),
                *((scheduler_configuration.BEST_FIT, ) if configuration.
                  multipliers.get(scheduler_configuration.BEST_FIT) else ())
            ], [ledger.engine(index) for index in range(len(ledger.hosts))],
            keeps_classes=configuration.keeps_classes is not False)
        self._placement = offers.PlacementCounts(ledger)
        self._kinds: dict[int, _GuestKind] = {}
        aggregates = {aggregate.name: aggregate
                      for aggregate in fleet.aggregates}
        self._aggregates = [
            tuple(_aggregates(host, aggregates)) for host in ledger.hosts]
        # The HostState of each host, with the version that it is of.
        self._states: dict[int, tuple[int, Any]] = {}
        self._claims: dict[str, driver.NodeClaim] = {}

    def close(self) -> None:
        """Give nova's options back."""
        self._driver.close()

    def place(
        self, uuid: str, request: guest_request.GuestRequest,
        known: fast.SchedulingDecision | None = None
    ) -> fast.SchedulingDecision:
        """Put a guest where nova would.

        :param known: the decision, if it was made in an earlier run
        """
        kind = self._kinds.get(id(request)) or self._new_kind(request)
        offered = self._placement.offers(kind.resource_queries)
        indices = numpy.flatnonzero(offered.any).tolist()
        if not indices:
            # Filters and weighers see requests that find hosts only.
            return fast.SchedulingDecision(None)
        spec = self._driver.spec(kind.primitive, uuid)
        if known is not None:
            if known.host is None:
                return known
            indices = [known.host]
        states = [self._state(index, offered) for index in indices]
        chosen = self._driver.choose(states, spec)
        if chosen is None:
            return fast.SchedulingDecision(None)
        index = indices[chosen]
        claim = self._claimed(index, states[chosen], spec, request)
        self._enter(uuid, index, claim, request, offered)
        return known or fast.SchedulingDecision(index)

    def move(self, uuid: str, request: guest_request.GuestRequest,
             target: int) -> bool:
        """Migrate a guest to a host that is named, if nova would.

        It is claimed there before it leaves its host.

        :param request: for the guest
        :param target: place of another host in the ledger
        :returns: whether it is there now; if not, it is where it was
        """
        kind = self._kinds.get(id(request)) or self._new_kind(request)
        offered = self._placement.offers(kind.resource_queries)
        if not offered.any[target]:
            return False
        spec = self._driver.spec(kind.primitive, uuid)
        state = self._state(target, offered)
        if self._driver.choose([state], spec) is None:
            return False
        claim = self._claimed(target, state, spec, request)
        self.remove(uuid)
        self._enter(uuid, target, claim, request, offered)
        return True

    def _new_kind(self, request: guest_request.GuestRequest) -> _GuestKind:
        kind = self._kinds[id(request)] = _GuestKind(
            request, self._placement.resource_queries(request),
            self._driver.primitive(request))
        return kind

    def _state(self, index: int, offered: offers.Offers) -> Any:
        """The HostState of a host, as it is for a new request."""
        version = int(self.ledger.version[index])
        known = self._states.get(index)
        if known is None or known[0] != version:
            known = self._states[index] = version, self._driver.state(
                index, self._node(index))
        state = known[1]
        self._driver.offer(state, [
            resources for resources, fine in offered.by_query if fine[index]])
        return state

    def _node(self, index: int) -> driver.ComputeNodeRecord:
        ledger, host = self.ledger, self.ledger.hosts[index]
        return driver.ComputeNodeRecord(
            host=host, topology=ledger.engine(index),
            free_memory_mib=int(ledger.free_memory_mib[index]),
            free_disk_gib=int(ledger.free_disk_gib[index]),
            total_vcpus=int(ledger.total_vcpus[index]),
            used_vcpus=int(ledger.used_vcpus[index]),
            guests=int(ledger.guests[index]),
            pci_pools=devices.free(host.pci_pools, ledger.uses[index]),
            aggregates=self._aggregates[index])

    def _claimed(self, index: int, state: Any, spec: Any,
                 request: guest_request.GuestRequest) -> driver.NodeClaim:
        """Claim a guest on a host.

        :raises errors.InputError: if nova-compute would not claim the guest
        """
        claim = self._driver.claim(
            index, state, spec, self.ledger.engine(index))
        if claim is None:
            raise errors.InputError(
                f'nova-compute does not claim guest {request.name} on host '
                f'{self.ledger.hosts[index].name}, which its scheduler chose',
                None, 'leave [pinning] check_nova_claim on, or simulate with '
                '--fast')
        return claim

    def _enter(self, uuid: str, index: int, claim: driver.NodeClaim,
               request: guest_request.GuestRequest,
               offered: offers.Offers) -> None:
        """Enter a guest that is claimed into the ledger."""
        self._claims[uuid] = claim
        placed_guest = self.ledger.placed_guest(
            index, request, claim.fit, offered.resources(index))
        self.ledger.take(
            uuid, dataclasses.replace(placed_guest, devices=claim.devices))

    def remove(self, uuid: str) -> None:
        """Take a guest off its host."""
        placed_guest = self.ledger.placed_guests[uuid]
        self.ledger.release(uuid)
        claim = self._claims.pop(uuid, None)
        if claim is not None or placed_guest.fit is not None:
            self._driver.release(placed_guest.host, claim,
                                 self.ledger.engine(placed_guest.host))


def _options(
    configuration: scheduler_configuration.SchedulerConfiguration,
) -> Mapping[tuple[str | None, str], Any]:
    options: dict[tuple[str | None, str], Any] = {
        ('compute', 'packing_host_numa_cells_allocation_strategy'):
            configuration.packs_cells,
        # Aggregates tell all about hosts.
        ('pinning', 'traits_refresh_seconds'): 0}
    for name, multiplier in configuration.weighers:
        if name in scheduler_configuration.NOVA_MULTIPLIERS:
            options[
                'filter_scheduler',
                scheduler_configuration.MULTIPLIER_OPTIONS[name]] = multiplier
    for name, value in settings.values(configuration).items():
        options['pinning', name] = value
    return options


def _aggregates(
    host: snapshot.FleetHost, aggregates: Mapping[str, snapshot.FleetAggregate]
) -> Iterator[tuple[str, Mapping[str, str]]]:
    """A host's aggregates, with what is known of it in another way."""
    known = {}
    if host.host_class is not None:
        known[hostclass.CLASS_KEY] = str(host.host_class)
    l3_cpus = hosts.l3_cpus(host, aggregates)
    if l3_cpus is not None:
        known[placement_traits.L3_KEY] = str(l3_cpus)
    yield 'known', known
    for name in host.aggregates:
        if name in aggregates:
            yield name, {
                key: value
                for key, value in aggregates[name].metadata.items()
                if key not in (hostclass.CLASS_KEY, placement_traits.L3_KEY)}
