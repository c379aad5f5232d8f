# SPDX-License-Identifier: Apache-2.0
"""Hosts to check flavors against, and what fills them.

Hosts of the same shape are looked at once. Placement and the claim are asked,
not the filters: what keeps classes of guests apart, flavors show by
themselves.
"""

from collections.abc import Hashable
from collections.abc import Iterable
import dataclasses

from nova_pinning.admission import device_lacks
from nova_pinning.admission import device_room
from nova_pinning.admission import devices
from nova_pinning.admission import guest_request
from nova_pinning.admission import host_occupancy
from nova_pinning.admission import judge
from nova_pinning.admission import offered_host
from nova_pinning.admission import outcome
from nova_pinning.admission import pci_alias
from nova_pinning.admission import scheduler_rules
from nova_pinning.admission import shortages
from nova_pinning import cpuset
from nova_pinning.host import cache_capacity
from nova_pinning.host import device_offer
from nova_pinning.host import host_model
from nova_pinning.host import host_offer
from nova_pinning import model

_MAX_SHORTAGES = 3


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class TargetHosts:
    """Hosts that do not differ in anything that matters to a flavor.

    :param description: of one of them
    :param names: of all of them
    :param empty: one of them, without guests
    """

    description: host_model.HostDescription
    names: tuple[str, ...]
    empty: host_occupancy.HostOccupancy

    @property
    def title(self) -> str:
        """How to call them in a message."""
        if len(self.names) == 1:
            return f'host {self.names[0]}'
        return f'host {self.names[0]} and {len(self.names) - 1} alike'

    @property
    def host(self) -> offered_host.OfferedHost:
        """What they offer."""
        return self.empty.host

    @property
    def has_threads(self) -> bool:
        """Whether CPUs for pinned guests share cores."""
        return any(size > 1 for cell in self.host.cells
                   for size in cell.core_sizes)

    @property
    def is_legacy(self) -> bool:
        """Whether pinned and floating guests use the same CPUs."""
        return all(cell.is_legacy for cell in self.host.cells)

    @property
    def caches(self) -> cache_capacity.CacheCapacity | None:
        """What guests can have of its L3 caches, None if that is not told."""
        return cache_capacity.of_host(self.description)

    @property
    def judge(self) -> judge.AdmissionJudge:
        """Says what Placement and the claim make of a guest on it."""
        return judge.AdmissionJudge(scheduler_rules.SchedulerRules(
            enabled_filters=(),
            packs_cells=bool(self.description.nova.packs_cells)))

    def of_host(
        self, request: guest_request.GuestRequest,
    ) -> guest_request.GuestRequest:
        """A request whose aliases stand for what they do on the host."""
        return pci_alias.asked(
            request, device_offer.aliases(self.description),
            device_offer.is_in_placement(self.description))

    def pools(
        self, request: guest_request.GuestRequest,
    ) -> dict[str, list[devices.PciPool]]:
        """Of what devices each alias that a guest asks for may be."""
        told = self.of_host(request)
        return {asked.alias: [self.host.pci_pools[place] for place in places]
                for asked, places in zip(
                    told.devices, device_room.usable(
                        told, self.host.pci_pools, self.empty.providers))}

    def answer(
        self, request: guest_request.GuestRequest,
    ) -> outcome.Outcome:
        """Whether a guest may be on it, if it is the first."""
        return self.judge.answer(self.of_host(request), self.empty)

    def refusal(self, request: guest_request.GuestRequest) -> str:
        """Why a guest cannot be on it as the first, '' if it can."""
        return self._refusal(self.of_host(request), self.empty)

    def wrong_traits(
        self, request: guest_request.GuestRequest,
    ) -> frozenset[str]:
        """The traits for which Placement would not offer it."""
        return frozenset(
            short.about for short in shortages.shortages(
                self.host, self.empty.used, request.queries)
            if short.name.endswith('-trait'))

    def _refusal(self, request: guest_request.GuestRequest,
                 occupancy: host_occupancy.HostOccupancy) -> str:
        found = self.judge.verdicts(request, occupancy)
        lack = device_lacks.find(request, occupancy, self.judge, found)
        if lack:
            return lack.text
        # Once there are guests, what the cells lack says more.
        if isinstance(found.fit, model.Refusal) and (
                occupancy.guests or len(found.refusals) == 1):
            return _in_short(found.fit)
        return '; '.join(
            f'it {refusal.text}' if refusal.name.endswith('-trait')
            else f'Placement: {refusal.text}' for refusal in found.refusals
            if refusal.layer is outcome.RefusalLayer.PLACEMENT)

    def fill(
        self, request: guest_request.GuestRequest,
        companions: Iterable[guest_request.GuestRequest] = (),
        may_stay: float = 0,
    ) -> 'HostFill':
        """Put as many guests as fit on it, one after the other.

        What is not known of it is taken to be enough.

        :param request: with vCPUs that are pinned, without which there is no
            end
        :param companions: guests that fill what is left then, each as often
            as it fits
        :param may_stay: unsold CPUs that are too few to go on for
        """
        request = self.of_host(request)
        filled = self.judge.filled(request, self.empty, is_hopeful=True)
        guests, why = len(filled.guests), self._refusal(request, filled)
        has_cpus = filled.has_cpus_for(request.topology)
        for companion in companions:
            if _unsold(filled) <= may_stay:
                break
            filled = self.judge.filled(
                self.of_host(companion), filled, is_hopeful=True)
        return HostFill(guests, _unsold(filled), why, has_cpus)


@dataclasses.dataclass(frozen=True, slots=True)
class HostFill:
    """A host filled with guests of one size.

    :param guests: how many there are
    :param unsold: dedicated CPUs that no guest has
    :param why: why there is no room for another one
    :param has_cpus: whether there are dedicated CPUs for it, so that it is
        something else that has run out
    """

    guests: int
    unsold: int
    why: str
    has_cpus: bool


def targets(
    descriptions: Iterable[host_model.HostDescription],
) -> tuple[TargetHosts, ...]:
    """Hosts, with those of the same shape taken together."""
    shapes: dict[Hashable, list[host_model.HostDescription]] = {}
    for description in descriptions:
        shapes.setdefault(_shape(description), []).append(description)
    return tuple(
        TargetHosts(alike[0], tuple(description.name for description in alike),
                    host_occupancy.of_host(host_offer.offered(alike[0])))
        for alike in shapes.values())


def _shape(description: host_model.HostDescription) -> Hashable:
    return (dataclasses.replace(host_offer.offered(description), name=''),
            description.nova.packs_cells, description.system.version,
            description.cpu_model.maxphysaddr_bits,
            frozenset((device.alias, device.bars_kib)
                      for device in description.pci_devices if device.alias),
            cache_capacity.of_host(description), tuple(
                sorted(device_offer.aliases(description).items())))


def _unsold(occupancy: host_occupancy.HostOccupancy) -> int:
    return sum(cell.free_count for cell in occupancy.engine.cells)


def _in_short(refusal: model.Refusal) -> str:
    """A refusal, with host cells that lack the same taken together."""
    cells: dict[str, list[int]] = {}
    for shortage in refusal.shortages:
        lack = str(shortage).removeprefix(f'cell {shortage.host_cell} has ')
        cells.setdefault(lack, []).append(shortage.host_cell)
    if not cells:
        return str(refusal)
    told = [
        f'{"cell" if len(ids) == 1 else "cells"} {cpuset.CpuSet(ids)} '
        f'{"has" if len(ids) == 1 else "have"} {lack}'
        for lack, ids in list(cells.items())[:_MAX_SHORTAGES]]
    if len(cells) > _MAX_SHORTAGES:
        told.append('and so on')
    if refusal.guest_cell:
        told[0] = f'for guest cell {refusal.guest_cell}: {told[0]}'
    return '; '.join(told)
