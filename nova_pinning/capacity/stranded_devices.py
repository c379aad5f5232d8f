# SPDX-License-Identifier: Apache-2.0
"""Free PCI devices that not one further guest can have, and why.

As for CPUs, what is said is certain: a guest is tried on each set of host
cells that it may lie on, and wherever it is admitted it is taken to get any
device that it may have from there.
"""

from collections.abc import Collection
from collections.abc import Hashable
from collections.abc import Iterator
from collections.abc import Sequence
import dataclasses
import itertools
import math
from typing import NamedTuple

from nova_pinning.admission import device_lacks
from nova_pinning.admission import device_room
from nova_pinning.admission import devices
from nova_pinning.admission import judge
from nova_pinning.admission import outcome
from nova_pinning.capacity import count
from nova_pinning.capacity import like_hosts
from nova_pinning import model

_Cause = count.CapacityCause
_CAUSES = {
    model.Reason.FREE_CPUS: _Cause.CELLS,
    model.Reason.SHARED_CPUS: _Cause.CELLS,
    model.Reason.CPU_RATIO: _Cause.CELLS,
    model.Reason.CELLS_CONTENDED: _Cause.CELLS,
    model.Reason.CELL_TOO_SMALL: _Cause.CELL_SIZE,
    model.Reason.FREE_CORES: _Cause.CORES,
    model.Reason.NO_THREADS: _Cause.CORES,
    model.Reason.ISOLATE_ON_THREADS: _Cause.CORES,
    model.Reason.EMULATOR_CPU: _Cause.CORES,
    model.Reason.STRAY_PINS: _Cause.STRAY_PINS,
    model.Reason.MEMORY: _Cause.MEMORY,
    model.Reason.MEMORY_RATIO: _Cause.MEMORY,
    model.Reason.PAGE_SIZE: _Cause.PAGES,
    model.Reason.PAGE_MULTIPLE: _Cause.PAGES,
    model.Reason.PAGES: _Cause.PAGES,
    model.Reason.PCI: _Cause.DEVICES}


class DeviceGroup(NamedTuple):
    """Devices that are alike to the flavors on sale.

    :param alias: under which the most of their host are sold
    :param numa_node: id of the host cell, None if they belong to none
    :param traits: as device_room.group_traits has them
    """

    alias: str
    numa_node: int | None
    traits: str = ''


class CountedDevices(NamedTuple):
    """Some devices of one host.

    :param total: with those that guests have
    :param cause: why not one further guest can have those that are free, be
        it of the smallest flavor; None if one may
    """

    group: DeviceGroup
    total: int
    free: int
    cause: _Cause | None


class DeviceFinder:
    """Says of the free devices of hosts which are stranded.

    :param counters: of all flavors on sale, the smallest first
    """

    def __init__(self, counters: Sequence[count.Counter]) -> None:
        self._counters = [counter for counter in counters
                          if counter.request.devices]
        self._known: dict[Hashable, tuple[CountedDevices, ...]] = {}

    def on_host(
        self, host: like_hosts.CountedHost,
    ) -> tuple[CountedDevices, ...]:
        """The devices that any flavor asks for, by pool."""
        if not self._counters:
            return ()
        key = host.kind, host.site, host.left
        if key not in self._known:
            self._known[key] = tuple(self._counted(host))
        return self._known[key]

    def by_place(
        self, host: like_hosts.CountedHost,
    ) -> dict[int, _Cause | None]:
        """What keeps guests from each of ``host.pools`` that flavors use.

        :returns: of the smallest flavor; None if one may have devices of it
        """
        found: dict[int, _Cause | None] = {}
        for counter in self._counters:
            usable = device_room.usable(
                counter.request, host.pools, host.occupancy.providers)
            for place, cause in _causes(counter, host, usable).items():
                if cause is None or place not in found:
                    found[place] = cause
        return found

    def _counted(
        self, host: like_hosts.CountedHost,
    ) -> Iterator[CountedDevices]:
        occupancy = host.occupancy
        on_sale = device_room.on_sale(
            [counter.request for counter in self._counters], occupancy)
        left = devices.left(occupancy.host.pci_pools, occupancy.device_uses)
        # As host.pools has them.
        places = [place for place, count in left.items() if count > 0]
        causes = {places[index]: cause
                  for index, cause in self.by_place(host).items()}
        for place, (alias, free) in sorted(on_sale.items()):
            pool = occupancy.host.pci_pools[place]
            yield CountedDevices(DeviceGroup(
                alias, pool.numa_node, device_room.group_traits(
                    pool, occupancy.providers)), pool.total, free,
                causes.get(place))


def _causes(
    counter: count.Counter, host: like_hosts.CountedHost,
    usable: Sequence[Collection[int]],
) -> dict[int, _Cause | None]:
    """What keeps one further guest from the pools that it may use.

    :param usable: by each of its requests
    :returns: None for pools that it may get devices of
    """
    request, occupancy = counter.request, host.occupancy
    places = {place for own in usable for place in own}
    gate = counter.gate(host).cause
    if gate is not None:
        return dict.fromkeys(places, gate)
    cells = occupancy.engine.cells
    number = len(request.topology.cells) if request.topology else 0
    if math.comb(len(cells), number) > device_lacks.MOST_SETS:
        return dict.fromkeys(places)
    found: dict[int, _Cause | None] = dict.fromkeys(places, _Cause.AFFINITY)
    told = set[int]()
    # Whether nova gives one of them, were there no others.
    alone = [(place, devices.check(
        [host.pools[place]], (),
        [dataclasses.replace(asked, count=1, groups=())], cells))
        for asked, own in zip(request.devices, usable) for place in own]
    for chosen in itertools.combinations(cells, number):
        ids = tuple([cell.id for cell in chosen])
        near = {place for place, check in alone
                if found[place] is not None and check.supports(ids)}
        if not near:
            continue
        verdicts = counter.admission.verdicts(
            request, occupancy.with_cells(chosen) if chosen else occupancy)
        if not verdicts.refusals:
            found.update(dict.fromkeys(near))
        elif near - told:
            found.update(dict.fromkeys(
                near - told, _cause(counter, verdicts)))
            told |= near
    return found


def _cause(counter: count.Counter, verdicts: judge.LayerVerdicts) -> _Cause:
    """Why a guest is not admitted, by the first that nova's fit would say."""
    if isinstance(verdicts.fit, model.Refusal) and (
            verdicts.fit.reason in _CAUSES):
        return _CAUSES[verdicts.fit.reason]
    return next((counter.cause_of(refusal) for refusal in verdicts.refusals
                 if refusal.layer is outcome.RefusalLayer.PLACEMENT),
                _Cause.ORDER)
