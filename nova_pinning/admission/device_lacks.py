# SPDX-License-Identifier: Apache-2.0
"""What of a host's PCI devices keeps a guest from it.

Each alias is looked at for itself, then all of them together: whether the
host has so many devices, whether they are free, whether near each other, and
what the host cells near them lack.
"""

import collections
from collections.abc import Hashable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
import dataclasses
import enum
import itertools
import math
from typing import NamedTuple

from nova_pinning.admission import device_room
from nova_pinning.admission import devices
from nova_pinning.admission import gaps
from nova_pinning.admission import guest_request
from nova_pinning.admission import host_occupancy
from nova_pinning.admission import judge
from nova_pinning.fit import counting
from nova_pinning import model

#: Sets of host cells that are looked at; of more nothing is said.
MOST_SETS = 300


class DeviceObstacle(enum.StrEnum):
    """What may be wrong with a host's devices, beside what its cells lack."""

    NO_DEVICE = 'no-device'
    TAKEN = 'taken'
    GROUP = 'group'
    TOGETHER = 'together'
    AFFINITY = 'affinity'


class DeviceLack(NamedTuple):
    """Why a guest cannot have its devices on a host.

    :param name: a DeviceObstacle; a ``model.Reason`` if the host cells near
        the devices lack something
    :param aliases: those that are concerned, 'h100' or 'h100 and ib'
    :param text: a clause with figures
    """

    name: str
    aliases: str
    text: str


@dataclasses.dataclass(frozen=True, slots=True)
class AliasDevices:
    """What a guest asks for by one alias, and what a host has of it.

    :param alias: '' of Neutron ports
    :param request: the guest, as if it asked for nothing else
    """

    alias: str
    request: guest_request.GuestRequest
    stocks: tuple[device_room.UsableDevices, ...]

    @property
    def policy(self) -> str:
        return self.request.devices[0].policy

    @property
    def wanted(self) -> int:
        return sum(asked.count for asked in self.request.devices)

    @property
    def free(self) -> int:
        return sum(stock.free for stock in self.stocks)

    @property
    def total(self) -> int:
        return sum(stock.total for stock in self.stocks)


def by_alias(
    request: guest_request.GuestRequest,
    occupancy: host_occupancy.HostOccupancy,
) -> Iterator[AliasDevices]:
    """What a guest asks for, alias by alias."""
    for alias in dict.fromkeys(asked.alias for asked in request.devices):
        own = device_room.part(request, [
            asked for asked in request.devices if asked.alias == alias])
        yield AliasDevices(alias, own, device_room.stocks(own, occupancy))


def most(request: guest_request.GuestRequest,
         occupancy: host_occupancy.HostOccupancy) -> int:
    """No more guests have free devices, wherever these are."""
    return min([one.free // one.wanted
                for one in by_alias(request, occupancy) if one.wanted],
               default=counting.UNLIMITED)


def find(
    request: guest_request.GuestRequest,
    occupancy: host_occupancy.HostOccupancy,
    admission: judge.AdmissionJudge, found: judge.LayerVerdicts,
) -> DeviceLack | None:
    """The first of what keeps a guest from its devices; None if all is well.

    Also None where it would not fit without devices either, or what there is
    is not known, or would take too long to find out.

    :param found: what the judge says of the guest there
    """
    if not request.devices or not found.refusals or isinstance(
            admission.fit_on(device_room.part(request, ()), occupancy),
            model.Refusal):
        return None
    parts = list(by_alias(request, occupancy))
    if gaps.without_devices(occupancy.host, request) is not request:
        return next((
            DeviceLack(DeviceObstacle.TAKEN, one.alias, f'{_head(one)}, and '
                       'Placement has fewer left') for one in parts
            if gaps.device_limit(occupancy, one.request) == 0), None)
    for one in parts:
        lack = _too_few(one, occupancy)
        if lack is not None:
            return lack
    aliases = _name([one.alias for one in parts])
    choices = _choices(request, occupancy)
    if not any(_has(request, occupancy, (), chosen) for chosen in choices):
        return DeviceLack(DeviceObstacle.TOGETHER, aliases,
                          f'{aliases}: free, but not all for one guest')
    lack = _near(request, occupancy, admission,
                 '; '.join(map(_figures, parts)), choices)
    if (lack is None or lack.name != DeviceObstacle.AFFINITY
            or len(parts) == 1):
        return lack
    for one in parts:
        alone = _near(one.request, occupancy, admission, _figures(one),
                      _choices(one.request, occupancy))
        if alone is not None and alone.name == DeviceObstacle.AFFINITY:
            return alone
    return lack


def _too_few(
    one: AliasDevices, occupancy: host_occupancy.HostOccupancy,
) -> DeviceLack | None:
    """Why there are too few free devices of one alias."""
    loose = dataclasses.replace(one, stocks=device_room.stocks(
        device_room.part(one.request, one.request.devices, False), occupancy))
    name = _name([one.alias])
    # Nova wants a pool even for none.
    if loose.total < max(1, one.wanted):
        counted = {group for asked in one.request.devices
                   for group in asked.groups}
        return DeviceLack(
            DeviceObstacle.NO_DEVICE, name,
            f'{_head(one)}, {loose.total:,} on the host'
            + ' as Placement counts them' * bool(counted))
    if loose.free < one.wanted:
        return DeviceLack(DeviceObstacle.TAKEN, name, _figures(loose))
    if one.free < one.wanted:
        return DeviceLack(
            DeviceObstacle.GROUP, name, f'{_figures(one)}, '
            f'{loose.free - one.free:,} free in other groups')
    return None


def _near(
    request: guest_request.GuestRequest,
    occupancy: host_occupancy.HostOccupancy,
    admission: judge.AdmissionJudge, figures: str,
    choices: Sequence[Mapping[str, int]],
) -> DeviceLack | None:
    """Why a guest cannot lie where its devices are within reach."""
    cells, guest = occupancy.engine.cells, request.topology
    if (guest is None or occupancy.host.is_opaque
            or math.comb(len(cells), len(guest.cells)) > MOST_SETS):
        return None
    found = [
        admission.fit_on(device_room.part(request, ()),
                         occupancy.with_cells(some))
        for some in itertools.combinations(cells, len(guest.cells))
        if any(_has(request, occupancy, [cell.id for cell in some], chosen)
               for chosen in choices)]
    aliases = _name(list(dict.fromkeys(
        asked.alias for asked in request.devices)))
    if not found:
        policies = ' and '.join(dict.fromkeys(
            f'"{asked.policy}"' for asked in request.devices))
        return DeviceLack(
            DeviceObstacle.AFFINITY, aliases,
            f'{figures}, with policy {policies}' + (
                '; nova looks no further where others near are like these'
                if 'preferred' in policies else ''))
    refusals = [place for place in found if isinstance(place, model.Refusal)]
    if len(refusals) < len(found):
        return None
    reason = collections.Counter(
        refusal.reason for refusal in refusals).most_common(1)[0][0]
    texts = dict.fromkeys(map(str, refusals))
    return DeviceLack(
        str(reason), aliases, f'{figures}; near these '
        + '; '.join(list(texts)[:3]))


def _choices(
    request: guest_request.GuestRequest,
    occupancy: host_occupancy.HostOccupancy,
) -> list[Mapping[str, int]]:
    """The providers that Placement may choose for the devices.

    {} stands for any, where it does not choose, or finds nothing for the
    guest whatever its devices.
    """
    found: dict[Hashable, Mapping[str, int]] = {}
    for candidate in judge.candidates(request, occupancy):
        chosen = judge.chosen(candidate)
        # In a request all devices are alike.
        found.setdefault(tuple([tuple(sorted(
            chosen[suffix] for suffix in asked.groups if suffix in chosen))
            for asked in request.devices]), chosen)
    if not found and not any(True for _ in judge.candidates(
            device_room.part(request, ()), occupancy)):
        return [{}]
    return list(found.values())


def _has(
    request: guest_request.GuestRequest,
    occupancy: host_occupancy.HostOccupancy, cell_ids: list[int] | tuple[()],
    chosen: Mapping[str, int],
) -> bool:
    """Whether nova gives a guest its devices on some host cells."""
    return devices.take(
        occupancy.host.pci_pools, occupancy.device_uses, request.devices,
        cell_ids, occupancy.host.cells, chosen) is not None


def _figures(one: AliasDevices) -> str:
    """'alias h100: 4 wanted, 3 free of 8 (node 0: 1 of 4, ...)'."""
    nodes: dict[int | None, list[int]] = {}
    for stock in one.stocks:
        counts = nodes.setdefault(stock.numa_node, [0, 0])
        counts[0] += stock.free
        counts[1] += stock.total
    places = ', '.join(
        f'{"no node" if node is None else f"node {node}"}: {free:,} of '
        f'{total:,}' for node, (free, total) in nodes.items())
    return (f'{_head(one)}, {one.free:,} free of {one.total:,}'
            + (f' ({places})' if places else ''))


def _head(one: AliasDevices) -> str:
    return f'{_name([one.alias])}: {one.wanted:,} wanted'


def _name(aliases: list[str]) -> str:
    """'alias h100', 'alias h100 and alias ib', 'ports'."""
    return ' and '.join(
        f'alias {alias}' if alias else 'ports' for alias in aliases)
