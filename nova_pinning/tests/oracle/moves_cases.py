# SPDX-License-Identifier: Apache-2.0
"""Small fleets at random, and what moves are wanted of them.

Up to three hosts and six guests, at most four moves. Each rule of what may be
moved where is switched on in a part of the cases, the others being left as
they mostly are.
"""

from collections.abc import Mapping
from collections.abc import Sequence
import dataclasses
import json
import random
from typing import Any

from nova_pinning.admission import devices
from nova_pinning.admission import host_occupancy
from nova_pinning.admission import judge
from nova_pinning.admission import offered_host
from nova_pinning.admission import outcome
from nova_pinning.admission import resident_guest
from nova_pinning.admission import scheduler_rules
from nova_pinning import cpuset
from nova_pinning.flavors import flavor_model
from nova_pinning.fleet import document
from nova_pinning.fleet import moved_guest
from nova_pinning.fleet import occupied
from nova_pinning.fleet import snapshot
from nova_pinning import model
from nova_pinning.model import hostclass
from nova_pinning.placement import inventory
from nova_pinning.rebalance import plan_document
from nova_pinning.rebalance import plan_model
from nova_pinning.rebalance import plan_request
from nova_pinning.rebalance import slot_size

MOST_MOVES, MOST_GUESTS = 4, 6
#: What is switched on in a part of the cases, and in how many of them.
SHARES: Mapping[str, float] = {
    'threads': 0.15, 'memory': 0.15, 'pages': 0.12, 'disks': 0.1,
    'devices': 0.14, 'live devices': 0.08, 'resources': 0.1, 'mixed': 0.1,
    'several cells': 0.2,
    'packing': 0.2, 'classes': 0.1, 'traits': 0.1, 'zones': 0.12,
    'crossed zones': 0.08, 'isolated aggregates': 0.08, 'extra specs': 0.08,
    'tenants': 0.08, 'disabled hosts': 0.08, 'nova cells': 0.08,
    'CPU models': 0.12, 'releases': 0.12, 'hypervisors': 0.08,
    'affinity': 0.1, 'anti-affinity': 0.12, 'soft-affinity': 0.08,
    'soft-anti-affinity': 0.08, 'states': 0.1, 'live only': 0.1,
    'devices stay': 0.08, 'fixed': 0.08, 'tags': 0.08, 'metadata': 0.08,
    'ages': 0.08, 'dirty rates': 0.08, 'TPMs': 0.08, 'memory limit': 0.1,
    'doubts': 0.08, 'unknown filters': 0.08, 'assumptions': 0.08,
    'shared disks': 0.08, 'counted guests': 0.1,
}
_FILTERS = (
    'ComputeFilter', 'HostClassFilter', 'AggregateInstanceExtraSpecsFilter',
    'AggregateMultiTenancyIsolation', 'ServerGroupAffinityFilter',
    'ServerGroupAntiAffinityFilter', 'PciPassthroughFilter',
    'PinnedTopologyFilter')
_NIC = devices.device_keys('8086', '1520')
_LIVE_NIC = devices.device_keys('8086', '1520', live_migratable='true')
_MIB = 1024
_TAKEN_AT = '2026-11-20T12:00:00+00:00'
_OLD, _NEW = '2026-10-01T12:00:00+00:00', '2026-11-19T12:00:00+00:00'
_CPU_MODELS = (
    None, *[offered_host.HostCpuModel(
        arch='x86_64', vendor='Intel', model=name,
        features=frozenset(features))
        for name, features in (('Cascadelake-Server', ()),
                               ('Cascadelake-Server', ('pku',)),
                               ('Icelake-Server', ()))])


@dataclasses.dataclass(frozen=True, slots=True)
class MovesCase:
    """A fleet, and what is wanted of it.

    :param rules: names of those in :data:`SHARES` that are switched on
    """

    fleet: snapshot.Fleet
    request: plan_request.PlanRequest
    rules: frozenset[str] = frozenset()

    def __str__(self) -> str:
        """On one line, as :func:`parse` takes it.

        What is under ``fleet`` and ``plan`` are the documents that
        ``rebalance plan FLEET --request PLAN`` reads.
        """
        drains = isinstance(self.request.goal, plan_request.DrainHosts)
        return json.dumps({
            'fleet': json.loads(document.dumps(self.fleet)),
            'plan': plan_document.plan_to_json(plan_model.RebalancePlan(
                goal=(plan_model.PlanGoal.DRAIN if drains
                      else plan_model.PlanGoal.DEFRAGMENT),
                request=self.request, moves=()))})


def parse(text: str) -> MovesCase:
    """A case as it was printed.

    :raises errors.InputError: if one of its documents makes no sense
    :raises ValueError: if it is not JSON, or has no documents
    """
    value = json.loads(text)
    if not isinstance(value, dict) or not {'fleet', 'plan'} <= set(value):
        raise ValueError('a case has a fleet and a plan')
    return MovesCase(
        document.loads(json.dumps(value['fleet']), 'fleet'),
        plan_document.loads(json.dumps(value['plan'])).known_request())


def draw(seed: int, number: int) -> MovesCase:
    """Case ``number`` of a series; the same whenever it is asked for."""
    return _Draw(random.Random(f'{seed} {number}')).case()


class _Draw:

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._on = frozenset(
            name for name, share in SHARES.items()
            if chance.random() < share)
        if 'live devices' in self._on:
            self._on |= {'devices'}
        self._nic = _LIVE_NIC if 'live devices' in self._on else _NIC
        self._threads = 2 if 'threads' in self._on else 1
        self._per_cell = self._cpus()

    def case(self) -> MovesCase:
        hosts = self._hosts()
        empty = snapshot.Fleet(
            hosts=hosts, flavors=self._flavors(),
            aggregates=(
                offered_host.Aggregate('north', 'north'),
                offered_host.Aggregate('south', 'south'),
                offered_host.Aggregate('isolated', metadata={
                    'trait:CUSTOM_ISOLATED': 'required'}),
                offered_host.Aggregate('ssd', metadata={'ssd': 'true'}),
                offered_host.Aggregate('own', metadata={
                    'filter_tenant_id': 'ours'})),
            server_groups=tuple(
                offered_host.ServerGroup(
                    id=policy, policy=policy,
                    max_per_host=self._chance.choice((1, 1, 2)))
                for policy in offered_host.GroupPolicy if policy in self._on),
            packs_cells='packing' in self._on,
            enabled_filters=(
                () if 'unknown filters' in self._on
                else (*_FILTERS, 'NumInstancesFilter')
                if 'counted guests' in self._on else _FILTERS),
            rules=scheduler_rules.SchedulerRules(
                max_instances_per_host=self._chance.randint(1, 4)),
            taken_at=_TAKEN_AT)
        fleet = dataclasses.replace(empty, guests=self._guests(empty))
        if 'shared disks' in self._on:
            fleet = self._shared(fleet)
        return MovesCase(fleet, self._request(fleet), self._on)

    def _is_some(self, name: str, share: float = 0.5) -> bool:
        """Whether a rule that is switched on is one for this host or guest.
        """
        return name in self._on and self._chance.random() < share

    # Hosts.

    def _hosts(self) -> tuple[offered_host.OfferedHost, ...]:
        count = self._chance.choice((2, 3, 3))
        cells = self._chance.choice((1, 2, 2))
        if 'several cells' in self._on:
            cells = 2
        return tuple(self._host(f'h{number}', cells)
                     for number in range(count))

    def _cpus(self) -> int:
        """Those of a cell."""
        return self._threads * self._chance.choice(
            (3, 4, 4, 5, 6) if self._threads == 1 else (2, 2, 3, 4))

    def _host(self, name: str, cells: int) -> offered_host.OfferedHost:
        chance = self._chance
        if chance.random() < 0.15:
            self._per_cell = self._cpus()
        made = []
        for number in range(cells):
            made.append(self._cell(number, number * 16))
        is_shared = self._is_some('classes')
        if is_shared:
            made = [dataclasses.replace(
                cell, shared_cpus=cell.dedicated_cpus,
                dedicated_cpus=cpuset.CpuSet()) for cell in made]
        elif 'mixed' in self._on:
            made = [dataclasses.replace(cell, shared_cpus=cpuset.CpuSet(
                (100 + 2 * cell.id, 101 + 2 * cell.id))) for cell in made]
        host = offered_host.OfferedHost(
            name=name, cells=tuple(made),
            host_class=(hostclass.HostClass.SHARED if is_shared
                        else hostclass.HostClass.DEDICATED),
            traits=frozenset(trait for rule, trait in (
                ('traits', 'CUSTOM_FAST'),
                ('isolated aggregates', 'CUSTOM_ISOLATED'))
                if self._is_some(rule, 0.6)),
            disk_gib=chance.choice((40, 60))
            if 'disks' in self._on and 'shared disks' not in self._on
            else None,
            is_enabled=not self._is_some('disabled hosts', 0.4),
            nova_cell=(chance.choice(('', 'one', 'two'))
                       if 'nova cells' in self._on else ''),
            cpu_model=(chance.choice(_CPU_MODELS)
                       if 'CPU models' in self._on else None),
            nova_release=(chance.choice((None, '2025.1', '2025.2', '2026.1'))
                          if 'releases' in self._on else None),
            hypervisor_version=(chance.choice((None, 7002000, 8002000))
                                if 'hypervisors' in self._on else None),
            pci_pools=tuple(
                devices.PciPool(self._nic, cell.id, chance.randint(1, 2))
                for cell in made[:chance.randint(0, 2)]
                if 'devices' in self._on),
            gaps=((outcome.Doubt(outcome.DoubtKind.HELD,
                                 'more may be held'),)
                  if self._is_some('doubts', 0.4) else ()))
        aggregates = [aggregate for rule, aggregate in (
            ('isolated aggregates', 'isolated'), ('extra specs', 'ssd'),
            ('tenants', 'own')) if self._is_some(rule, 0.4)]
        if 'zones' in self._on:
            aggregates += chance.choice(([], ['north'], ['south']))
        host = dataclasses.replace(host, aggregates=tuple(sorted(aggregates)))
        if 'shared disks' in self._on:
            host = dataclasses.replace(
                host, inventories=host.root_inventories, children=(
                    offered_host.OfferedProvider(
                        None, (('DISK_GB', inventory.Inventory(1000)),),
                        is_shared=True,
                        uuid=chance.choice(('nfs', 'nfs', 'ceph'))),))
        if 'resources' not in self._on:
            return host
        more = {'CUSTOM_LICENCE': inventory.Inventory(
            chance.randint(1, 4))} if chance.random() < 0.7 else {}
        return dataclasses.replace(
            host, inventories={**host.root_inventories, **more},
            children=host.children + tuple(
                offered_host.OfferedProvider(0, (
                    ('VGPU', inventory.Inventory(chance.randint(1, 2))),))
                for _gpu in range(chance.randint(0, 2))))

    def _shared(self, fleet: snapshot.Fleet) -> snapshot.Fleet:
        """The fleet with room for a guest or none more on shared disks."""
        of_host = {host.name: host.children[0].uuid for host in fleet.hosts}
        used: dict[str, int] = dict.fromkeys(of_host.values(), 0)
        own: dict[str, int] = dict.fromkeys(of_host, 0)
        for guest in fleet.guests:
            used[of_host[guest.host]] += guest.disk_gib
            own[guest.host] += guest.disk_gib
        more = {uuid: self._chance.choice((0, 20, 40)) for uuid in used}
        hosts = []
        for host in fleet.hosts:
            disk, *others = host.children
            held = used[disk.uuid] - own[host.name]
            hosts.append(dataclasses.replace(host, children=(
                dataclasses.replace(
                    disk, inventories=(('DISK_GB', inventory.Inventory(max(
                        1, used[disk.uuid] + more[disk.uuid]))),),
                    held=(('DISK_GB', held),) if held else ()), *others)))
        return dataclasses.replace(fleet, hosts=tuple(hosts))

    def _cell(self, number: int, first: int) -> model.HostCell:
        cpus = range(first, first + self._per_cell)
        memory_mib = 16 * _MIB
        if 'memory' in self._on:
            memory_mib = (self._per_cell + 2) * _MIB
        pages: tuple[model.PagePool, ...] = ()
        if 'pages' in self._on:
            large_mib = self._chance.choice((2, 3, 4)) * _MIB
            pages = (model.PagePool(4, (memory_mib - large_mib) * 256),
                     model.PagePool(2048, large_mib // 2))
        return model.HostCell(
            id=number, shared_cpus=cpuset.CpuSet(),
            dedicated_cpus=cpuset.CpuSet(cpus), pinned_cpus=cpuset.CpuSet(),
            cores=tuple(tuple(cpus[at:at + self._threads])
                        for at in range(0, len(cpus), self._threads)),
            memory_mib=memory_mib, pages=pages, socket=number)

    # Guests.

    def _flavors(self) -> tuple[flavor_model.Flavor, ...]:
        specs: dict[str, tuple[str, dict[str, str]]] = {
            'plain': ('', {}),
            'mixed': ('mixed', {'hw:cpu_policy': 'mixed',
                                'hw:cpu_dedicated_mask': '^0'}),
            'nic': ('devices', {}),
            'gpu': ('resources', {'resources:VGPU': '1'}),
            'licence': ('resources', {'resources:CUSTOM_LICENCE': '2'}),
            'fast': ('traits', {'trait:CUSTOM_FAST': 'required'}),
            'slow': ('traits', {'trait:CUSTOM_FAST': 'forbidden'}),
            'isolated': ('isolated aggregates', {
                'trait:CUSTOM_ISOLATED': 'required'}),
            'ssd': ('extra specs', {
                'aggregate_instance_extra_specs:ssd': 'true'}),
            'tpm': ('TPMs', {'hw:tpm_version': '2.0'}),
            'tpm-host': ('TPMs', {'hw:tpm_version': '2.0',
                                  'hw:tpm_secret_security': 'host'}),
            'staying': ('metadata', {'pinning:movable': 'false'}),
            'writing': ('dirty rates', {'pinning:dirty_rate': '900'})}
        return tuple(
            flavor_model.Flavor(
                name=name, vcpus=1, memory_mib=1, disk_gib=0,
                extra_specs={'hw:cpu_policy': 'dedicated', **more})
            for name, (rule, more) in specs.items()
            if not rule or rule in self._on)

    def _guests(
        self, fleet: snapshot.Fleet,
    ) -> tuple[resident_guest.ResidentGuest, ...]:
        """Guests that came, of which some have gone again."""
        chance = self._chance
        reader = moved_guest.RequestReader(fleet)
        # Where guests are need not be where they may go today.
        anywhere = judge.AdmissionJudge(dataclasses.replace(
            occupied.rules_of(fleet), aggregates={},
            enabled_filters=('ComputeFilter',)),
            assumes=frozenset(outcome.DoubtKind))
        occupancies = {
            host.name: host_occupancy.of_host(
                dataclasses.replace(host, is_enabled=True))
            for host in fleet.hosts}
        guests: dict[str, resident_guest.ResidentGuest] = {}
        for number in range(chance.choice((8, 12, 16))):
            if guests and chance.random() < 0.3:
                gone = guests.pop(chance.choice(sorted(guests)))
                occupancies[gone.host] = occupancies[gone.host].without(gone)
            host = occupancies[chance.choice(sorted(occupancies))]
            guest = self._guest(f'g{number}', host.host, fleet.flavors)
            request = reader.request(guest)
            found = anywhere.answer(request, host)
            if not isinstance(found, outcome.Admitted):
                continue
            there = judge.resident(request, host, found.use)
            guest = dataclasses.replace(
                guest, host=there.host, fit=there.fit, devices=there.devices,
                resources=there.resources, allocations=there.allocations)
            guests[guest.uuid] = guest
            occupancies[guest.host] = host.adding(guest)
        while len(guests) > MOST_GUESTS:
            guests.pop(chance.choice(sorted(guests)))
        return tuple(guests.values())

    def _guest(
        self, uuid: str, host: offered_host.OfferedHost,
        flavors: Sequence[flavor_model.Flavor],
    ) -> resident_guest.ResidentGuest:
        chance = self._chance
        flavor = chance.choice((*flavors, flavors[0])).name
        vcpus = chance.choice((2, 2, 3, 4) if flavor == 'mixed'
                              else (1, 2, 2, 3, 4))
        memory_mib = chance.choice((1, 1, 2, 4)) * _MIB
        is_shared = host.host_class is hostclass.HostClass.SHARED
        values: dict[str, Any] = {}
        if (policies := sorted(self._on.intersection(
                offered_host.GroupPolicy))) and chance.random() < 0.4:
            values['server_group'] = str(chance.choice(policies))
        if 'states' in self._on:
            values['vm_state'] = chance.choice(
                ('active', 'paused', 'stopped', 'error', ''))
        if self._is_some('tags', 0.3):
            values['tags'] = ('keep',)
        metadata = {}
        if self._is_some('metadata', 0.3):
            metadata['pinning:movable'] = chance.choice(('false', 'true'))
        if self._is_some('dirty rates', 0.3):
            metadata['pinning:dirty_rate'] = chance.choice(('idle', '2000'))
        if 'zones' in self._on:
            values['availability_zone'] = chance.choice(
                ('', '', 'north', 'south', None))
        return resident_guest.ResidentGuest(**{
            'uuid': uuid, 'host': '', 'vcpus': vcpus,
            'memory_mib': memory_mib, 'flavor': flavor,
            'disk_gib': 20 if self._on & {'disks', 'shared disks'} else 0,
            'guest_class': (hostclass.HostClass.SHARED if is_shared
                            else hostclass.HostClass.DEDICATED),
            'topology': None if is_shared else self._topology(
                vcpus, memory_mib, len(host.cells), flavor == 'mixed'),
            'devices': (devices.PciUse(self._nic, None, 1),)
            if flavor == 'nic' else (),
            'asks_live_devices': (chance.choice((True, True, False))
                                  if flavor == 'nic' else None),
            'is_movable': chance.random() > 0.1,
            'availability_zone': '', 'vm_state': 'active',
            'project': (chance.choice(('ours', 'theirs'))
                        if 'tenants' in self._on else 'ours'),
            'launched_at': (chance.choice((_OLD, _NEW, ''))
                            if 'ages' in self._on else ''),
            'metadata': metadata} | values)

    def _topology(self, vcpus: int, memory_mib: int, host_cells: int,
                  is_mixed: bool) -> model.Guest:
        chance = self._chance
        page_size_kib = (chance.choice((None, 2048, model.PAGES_LARGE))
                         if 'pages' in self._on else None)
        count = 1
        if host_cells > 1 and vcpus > 1 and self._is_some(
                'several cells', 0.4):
            count = 2
        cells = []
        for number in range(count):
            # The first gets what does not divide.
            first = 0 if not number else vcpus - vcpus // 2
            own = range(first, vcpus if number == count - 1
                        else vcpus - vcpus // 2)
            shared: tuple[int, ...] = ()
            if is_mixed and not number:
                shared, own = tuple(own[:1]), own[1:]
            cells.append(model.GuestCell(
                tuple(own), shared, memory_mib // count, page_size_kib))
        return model.Guest(
            tuple(cells),
            model.CpuPolicy.MIXED if is_mixed
            else model.CpuPolicy.DEDICATED,
            chance.choice((model.ThreadPolicy.PREFER,
                           model.ThreadPolicy.REQUIRE))
            if self._threads > 1 else model.ThreadPolicy.PREFER)

    # What is wanted.

    def _request(self, fleet: snapshot.Fleet) -> plan_request.PlanRequest:
        chance, on = self._chance, self._on
        moves = chance.randint(1, MOST_MOVES)
        goal: plan_request.MakeRoom | plan_request.DrainHosts = (
            plan_request.MakeRoom(
                sizes=tuple(self._size(fleet) for _size in range(
                    chance.choice((1, 1, 1, 1, 2)))),
                until=(chance.randint(1, 8) if chance.random() < 0.2
                       else None)))
        memory_mib = (chance.randint(1, 8) * _MIB if 'memory limit' in on
                      else None)
        if chance.random() < 0.35:
            host = chance.choice(fleet.hosts).name
            guests = [guest for guest in fleet.guests if guest.host == host]
            if len(guests) <= MOST_MOVES:
                goal = plan_request.DrainHosts(hosts=(host,))
                moves = chance.randint(max(1, len(guests)), MOST_MOVES)
                least_mib = sum(guest.memory_mib for guest in guests)
                if memory_mib is not None:
                    memory_mib = max(memory_mib, least_mib)
        return plan_request.PlanRequest(
            goal=goal, moves=moves, memory_mib=memory_mib,
            fixed=(fleet.guests[0].uuid,)
            if 'fixed' in on and fleet.guests else (),
            rules=plan_request.RuleSettings(
                allows_cold='live only' not in on,
                moves_devices='devices stay' not in on,
                fixed_tags=frozenset(('keep',) if 'tags' in on else ()),
                least_age_days=7.0 if 'ages' in on else None,
                crosses_zones='crossed zones' in on,
                isolates='isolated aggregates' in on,
                assumes=(frozenset((outcome.DoubtKind.FILTER,
                                    outcome.DoubtKind.REQUEST))
                         if 'assumptions' in on else frozenset())),
            cost=plan_request.CostSettings(
                auto_converge='dirty rates' not in on))

    def _size(self, fleet: snapshot.Fleet) -> slot_size.SlotSize:
        chance = self._chance
        return slot_size.dedicated_slot(
            chance.choice((2, 2, 3, 4, 5)), chance.choice((1, 2, 4)) * _MIB,
            chance.choice((1.0, 1.0, 2.0)),
            fleet.guests if 'pages' in self._on else ())
