# SPDX-License-Identifier: Apache-2.0
"""Small fleets, and all that moves can make of them."""

import dataclasses
import itertools
import random

from nova_pinning.admission import devices
from nova_pinning.admission import host_occupancy
from nova_pinning.admission import judge
from nova_pinning.admission import offered_host
from nova_pinning.admission import outcome
from nova_pinning.admission import resident_guest
from nova_pinning.flavors import flavor_model
from nova_pinning.fleet import moved_guest
from nova_pinning.fleet import occupied
from nova_pinning.fleet import snapshot
from nova_pinning import model
from nova_pinning.model import hostclass
from nova_pinning.placement import inventory
from nova_pinning.rebalance import slot_size
from nova_pinning.tests import forms
from nova_pinning.tests.unit.admission import placing
from nova_pinning.tests.unit import builders


def fleet_host(number, *cells, memory_mib=16384, threads=1, pages=(),
               **values):
    """A host with cells of so many dedicated CPUs each."""
    made, first = [], 0
    for cell, cpus in enumerate(cells):
        made.append(builders.host_cell(
            cell, range(first, first + cpus), threads, memory_mib=memory_mib,
            socket=cell, pages=pages))
        first += cpus
    return offered_host.OfferedHost(**{
        'name': f'host{number}', 'cells': tuple(made),
        'host_class': hostclass.HostClass.DEDICATED} | values)


def put(occupancy, name, topology, cells=None, **values):
    """A guest of a host, on these cells or where nova would put it."""
    host = occupancy.host
    guest = resident_guest.ResidentGuest(**{
        'uuid': name, 'name': name, 'host': host.name,
        'vcpus': sum(demand.dedicated + demand.shared
                     for demand in topology.demands),
        'memory_mib': sum(cell.memory_mib for cell in topology.cells),
        'guest_class': hostclass.HostClass.DEDICATED, 'topology': topology,
        } | values)
    engine = occupancy.engine
    if cells is not None:
        # Other cells are as if they were full.
        chosen = [cell for number in cells for cell in engine.cells
                  if cell.id == number]
        engine = engine._replace(cells=tuple(chosen))
        occupancy = dataclasses.replace(occupancy, engine=engine)
    request = slot_size.SlotSize(
        request=_request(guest), name='').request
    fit = placing.fit_on(occupancy, request)
    return dataclasses.replace(guest, fit=fit) if fit else None


def _request(guest):
    return dataclasses.replace(
        slot_size.dedicated_slot(guest.vcpus).request,
        topology=guest.topology)


def fleet_of(hosts, guests, **values):
    """A fleet of hosts with guests.

    :param guests: (host's number, host cells, vCPUs of each cell) with MiB
        per vCPU at the end if it is not 1
    """
    occupancies = {host.name: host_occupancy.of_host(host) for host in hosts}
    made = []
    for number, (host, cells, vcpus, *more) in enumerate(guests):
        name = f'host{host}'
        per_vcpu = more[0] if more else 1
        topology = builders.guest(*[(vcpus, vcpus * per_vcpu)] * len(cells))
        guest = put(occupancies[name], f'guest{number}', topology, cells)
        occupancies[name] = occupancies[name].adding(guest)
        made.append(guest)
    return snapshot.Fleet(hosts=tuple(hosts), guests=tuple(made), **values)


def random_fleet(seed):
    """Two to four hosts with a few guests, and some free CPUs in pieces."""
    rng = random.Random(seed)
    count = rng.choice((1, 2, 2))
    threads = rng.choice((1, 1, 2))
    cpus = rng.choice((4, 6, 8))
    memory_mib = rng.choice((16384, 16384, cpus + 2))
    hosts = [fleet_host(number, *[cpus] * count, threads=threads,
                        memory_mib=memory_mib)
             for number in range(rng.randint(2, 4))]
    occupancies = {host.name: host_occupancy.of_host(host) for host in hosts}
    guests = {}
    for number in range(60):
        name = rng.choice(list(occupancies))
        if guests and rng.random() < 0.35:
            gone = guests.pop(rng.choice(sorted(guests)))
            occupancies[gone.host] = occupancies[gone.host].without(gone)
        vcpus = rng.choice((1, 2, 2, 3, 4))
        per_vcpu = rng.choice((1, 1, 2))
        cells = rng.choice((1, 1, 1, 1, count))
        guest = put(occupancies[name], f'guest{number:02}', builders.guest(
            *[(vcpus, vcpus * per_vcpu)] * cells,
            thread_policy=rng.choice((model.ThreadPolicy.PREFER,) * 5 + (
                model.ThreadPolicy.REQUIRE,))),
            is_movable=rng.random() < 0.9)
        if guest is not None:
            guests[guest.uuid] = guest
            occupancies[name] = occupancies[name].adding(guest)
    return snapshot.Fleet(hosts=tuple(hosts), guests=tuple(guests.values()),
                          packs_cells=rng.random() < 0.3)


_NIC = devices.device_keys('8086', '1520')
#: What guests may ask for beside CPUs and memory.
FLAVORS = tuple(
    flavor_model.Flavor(name=name, vcpus=1, memory_mib=1, disk_gib=0,
                        extra_specs={'hw:cpu_policy': 'dedicated', **specs})
    for name, specs in (
        ('plain', {}), ('nic', {}), ('gpu', {'resources:VGPU': '1'}),
        ('gpus', {'resources1:VGPU': '1', 'resources2:VGPU': '1',
                  'group_policy': 'isolate'}),
        ('licence', {'resources:CUSTOM_LICENCE': '2'})))


def asking_fleet(seed):
    """A few hosts with GPUs, licences and NICs, and guests that have some."""
    rng = random.Random(seed)
    hosts = []
    for number in range(rng.randint(2, 3)):
        host = fleet_host(number, *[4] * rng.randint(1, 2))
        hosts.append(dataclasses.replace(
            host, inventories=host.root_inventories | ({
                'CUSTOM_LICENCE': inventory.Inventory(
                    rng.randint(1, 5), step_size=rng.choice((1, 2)))}
                if rng.random() < 0.6 else {}),
            children=tuple(
                offered_host.OfferedProvider(0, (
                    ('VGPU', inventory.Inventory(rng.randint(1, 2))),))
                for _gpu in range(rng.randint(0, 2))),
            pci_pools=tuple(
                devices.PciPool(_NIC, cell.id, rng.randint(1, 2))
                for cell in host.cells[:rng.randint(0, 2)])))
    empty = snapshot.Fleet(hosts=tuple(hosts), guests=(), flavors=FLAVORS,
                           packs_cells=rng.random() < 0.3)
    occupancies = {host.name: host_occupancy.of_host(host) for host in hosts}
    mover = Mover(empty)
    guests = {}
    for number in range(24):
        if guests and rng.random() < 0.35:
            gone = guests.pop(rng.choice(sorted(guests)))
            occupancies[gone.host] = occupancies[gone.host].without(gone)
        flavor = rng.choice(FLAVORS).name
        vcpus = rng.choice((1, 1, 2, 3))
        name = rng.choice(list(occupancies))
        guest = mover.moved(resident_guest.ResidentGuest(
            uuid=f'guest{number:02}', name=f'guest{number:02}', host='',
            vcpus=vcpus, memory_mib=vcpus, flavor=flavor,
            guest_class=hostclass.HostClass.DEDICATED,
            topology=builders.guest((vcpus, vcpus)),
            devices=(devices.PciUse(_NIC, None, 1),)
            if flavor == 'nic' else (),
            is_movable=rng.random() < 0.9), occupancies[name])
        if guest is not None:
            guests[guest.uuid] = guest
            occupancies[name] = occupancies[name].adding(guest)
    return dataclasses.replace(empty, guests=tuple(guests.values()))


def doubted(fleet, *names):
    """The fleet if it is not known what else is held of these hosts."""
    doubt = outcome.Doubt(outcome.DoubtKind.HELD, 'more may be held')
    return dataclasses.replace(fleet, hosts=tuple(
        dataclasses.replace(host, gaps=(doubt,)) if host.name in names
        else host for host in fleet.hosts))


def on_shared_disks(fleet, totals):
    """The fleet with a disk of 20 GiB for each guest where its host has one.

    :param totals: of each host, the UUID of what it shares, and its total
    """
    guests = tuple(
        dataclasses.replace(
            guest, disk_gib=20, resources={'DISK_GB': 0},
            allocations=((1, (('DISK_GB', 20),)),)) for guest in fleet.guests)
    uuid_of = {host.name: totals[number][0]
               for number, host in enumerate(fleet.hosts)}
    hosts = []
    for host, (uuid, total) in zip(fleet.hosts, totals):
        others = [guest for guest in guests if uuid_of[guest.host] == uuid
                  and guest.host != host.name]
        hosts.append(dataclasses.replace(
            host, inventories=host.root_inventories, children=(
                offered_host.OfferedProvider(
                    None, (('DISK_GB', inventory.Inventory(total)),),
                    is_shared=True, uuid=uuid, held=(
                        (('DISK_GB', 20 * len(others)),)
                        if others else ())),)))
    return dataclasses.replace(fleet, hosts=tuple(hosts), guests=guests)


class Mover:
    """Puts guests of a fleet on hosts, by all that nova asks."""

    def __init__(self, fleet):
        self._reader = moved_guest.RequestReader(fleet)
        self._judge = placing.judge_of(fleet.packs_cells)

    def moved(self, guest, occupancy):
        """The guest as it is then, None if it is not admitted."""
        request = self._reader.request(guest)
        found = self._judge.answer(request, occupancy)
        if not isinstance(found, outcome.Admitted):
            return None
        there = judge.resident(request, occupancy, found.use)
        return dataclasses.replace(
            guest, host=there.host, fit=there.fit, devices=there.devices,
            resources=there.resources, allocations=there.allocations)


class BruteForce:
    """Every sequence of a few moves, by the engine.

    :param value: what a list of occupancies is worth
    :param most_states: give up after as many, which the largest fleets need
    """

    def __init__(self, fleet, value,
                 most_states=1500 if forms.SHORT else 20000):
        self._fleet = fleet
        self._mover = Mover(fleet)
        self._value = value
        self._left = most_states
        self._by_state = {}

    def best(self, moves):
        """(The most value, the fewest moves for it) of up to so many."""
        states = {self._key(start): start
                  for start in [occupied.of_fleet(self._fleet)]}
        best, fewest = self._value(list(
            *[start.values() for start in states.values()])), 0
        seen = set(states)
        for number in range(1, moves + 1):
            after = {}
            for state in states.values():
                for other in self._successors(state):
                    key = self._key(other)
                    if key in seen:
                        continue
                    seen.add(key)
                    after[key] = other
                    value = self._value(list(other.values()))
                    if value > best:
                        best, fewest = value, number
                    self._left -= 1
                    if not self._left:
                        return None
            states = after
        return best, fewest

    def _successors(self, state):
        for source, target in itertools.permutations(state, 2):
            for guest in state[source].guests:
                if not guest.is_movable:
                    continue
                moved = self._mover.moved(guest, state[target])
                if moved:
                    yield state | {
                        source: state[source].without(guest),
                        target: state[target].adding(moved)}

    @staticmethod
    def _key(state):
        return tuple(frozenset(
            (guest.topology, guest.fit, guest.is_movable, guest.flavor,
             guest.devices, guest.allocations)
            for guest in occupancy.guests) for occupancy in state.values())
