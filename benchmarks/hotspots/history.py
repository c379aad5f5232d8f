# SPDX-License-Identifier: Apache-2.0
"""The fleet as a run finds it: as its own weighers have filled it before.

Which hosts are nearly full, and so how many requests aim at the same few of
them, is the weighers' own work. The engine's simulator does it, since nova's
code would take longer than all the rest.
"""

from collections.abc import Mapping
import dataclasses
import functools
import json
import random
from typing import Any
from typing import NamedTuple
import uuid as uuid_module

from nova import objects

from benchmarks.hotspots import setups
from benchmarks import requests
from nova_pinning.bridge import nova_objects
from nova_pinning.bridge import numa
from nova_pinning.bridge import topology
from nova_pinning.flavors import flavor_model
from nova_pinning.fleet import guest_request
from nova_pinning.fleet import shapes
from nova_pinning.fleet import snapshot
from nova_pinning.model import hostclass
from nova_pinning.simulation import fast
from nova_pinning.simulation import occupancy_ledger
from nova_pinning.simulation import scheduler_configuration

#: How often guests are replaced by others, on average.
_CHURN = 2
#: More than guests ask for. To Placement disks are never short.
_DISK_GIB = 1 << 20


class HistoryGuest(NamedTuple):
    """A guest that is there at the start.

    :param guest: place in setups.GUESTS
    :param host: place among the hosts
    :param claimed: nova.objects.InstanceNUMATopology with its pins
    """

    uuid: str
    guest: int
    host: int
    claimed: Any


@dataclasses.dataclass(frozen=True, slots=True)
class Host:
    """A host with guests.

    :param capacity: Placement's inventory, by resource class
    :param numa_topology: as the database has it
    """

    name: str
    capacity: Mapping[str, int]
    numa_topology: str


class Fleet(NamedTuple):
    """All hosts, and their guests."""

    hosts: tuple[Host, ...]
    placed_guests: tuple[HistoryGuest, ...]


@functools.cache
def guest_topology(guest: int) -> Any:
    """The topology that nova-api gives to a guest; not to be changed."""
    kind = setups.GUESTS[guest]
    return requests.guest_topology(
        kind.vcpus, kind.memory_mib, kind.extra_specs)


def resources(guest: int) -> dict[str, int]:
    """What Placement counts a guest with."""
    kind = setups.GUESTS[guest]
    return {'PCPU': kind.vcpus, 'MEMORY_MB': kind.memory_mib,
            'DISK_GB': requests.DISK_GIB}


@functools.cache
def _request(guest: int) -> guest_request.GuestRequest:
    kind = setups.GUESTS[guest]
    return guest_request.GuestRequest(
        flavor=flavor_model.Flavor(
            name=f'{kind}', vcpus=kind.vcpus, memory_mib=kind.memory_mib,
            extra_specs=kind.extra_specs),
        guest_class=hostclass.HostClass.DEDICATED,
        topology=topology.guest_from_nova(guest_topology(guest), None),
        queries=(guest_request.PlacementQuery(resources=resources(guest)),))


def draw(random_source: random.Random) -> int:
    """A guest, as often as it is asked for."""
    return random_source.choices(
        range(len(setups.GUESTS)),
        [guest.weight for guest in setups.GUESTS])[0]


def new_uuid(random_source: random.Random) -> str:
    """A UUID that the same seed gives again."""
    return str(uuid_module.UUID(int=random_source.getrandbits(128)))


@functools.lru_cache(maxsize=2)
def fleet(scene: setups.Scene, seed: int, weighers: str) -> Fleet:
    """Hosts on which guests have come and gone.

    :param weighers: a configuration of nova_pinning.simulation
    """
    objects.register_all()
    shape = shapes.SHAPES[setups.SHAPE]
    ledger = occupancy_ledger.OccupancyLedger([
        snapshot.FleetHost(
            name=f'compute-{number:03}', cells=shape.cells(),
            l3_domains=shape.l3_domains(),
            host_class=hostclass.HostClass.DEDICATED)
        for number in range(scene.hosts)])
    engine = fast.FastScheduler(ledger,
                                scheduler_configuration.NAMED[weighers])
    draws = random.Random(f'history-{seed}')
    guests: dict[str, int] = {}
    most = ledger.dedicated_cpus * scene.filled
    placed = 0
    while placed < (1 + _CHURN) * most:
        uuid, guest = new_uuid(draws), draw(draws)
        if engine.place(uuid, _request(guest)).host is not None:
            guests[uuid] = guest
            placed += setups.GUESTS[guest].vcpus
        while ledger.dedicated_vcpus > most:
            leaving = draws.choice(list(guests))
            engine.remove(leaving)
            del guests[leaving]
    return Fleet(
        hosts=tuple(
            Host(host.name,
                 {'PCPU': len(host.dedicated_cpus),
                  'MEMORY_MB': host.memory_mib, 'DISK_GB': _DISK_GIB},
                 json.dumps(nova_objects.host_topology(
                     ledger.engine(index)).obj_to_primitive()))
            for index, host in enumerate(ledger.hosts)),
        placed_guests=tuple(
            _guest(uuid, guest, ledger) for uuid, guest in guests.items()))


def _guest(uuid: str, guest: int,
           ledger: occupancy_ledger.OccupancyLedger) -> HistoryGuest:
    placed = ledger.placed_guests[uuid]
    assert placed.fit is not None
    return HistoryGuest(
        uuid, guest, placed.host, numa.instance_topology_from_fit(
            guest_topology(guest), placed.fit))
