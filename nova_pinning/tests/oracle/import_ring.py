# SPDX-License-Identifier: Apache-2.0
"""What an import makes of a fleet, held against the fleet itself.

A random fleet of ``admission_cases`` gets guests, PCI devices, aggregates and
options of nova-scheduler, and is written into nova's databases and
Placement's. The same is asked of it as it was drawn, and as both imports read
it: an answer has to be the same, or undecided, with a doubt of a kind that
the import cannot help.
"""

import collections
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
import contextlib
import dataclasses
import json
import pathlib
import random
import tempfile
import types
from typing import Any
import uuid

from nova.db.api import models as api_models
from nova.db.main import models
import sqlalchemy as sa

from nova_pinning.admission import devices
from nova_pinning.admission import gaps
from nova_pinning.admission import guest_request
from nova_pinning.admission import host_occupancy
from nova_pinning.admission import judge
from nova_pinning.admission import offered_host
from nova_pinning.admission import outcome
from nova_pinning.admission import resident_guest
from nova_pinning.admission import scheduler_rules
from nova_pinning.bridge.importer import fleet_import
from nova_pinning.bridge.importer import nova_database
from nova_pinning.fleet import occupied
from nova_pinning.fleet import provider_trees
from nova_pinning.fleet import snapshot
from nova_pinning.importers import compute_api
from nova_pinning.importers import compute_run
from nova_pinning.model import hostclass
from nova_pinning.placement import client
from nova_pinning.segregation import segregation_model
from nova_pinning.tests import novadatabase
from nova_pinning.tests.oracle import admission_cases
from nova_pinning.tests.oracle import placement_app

#: What the imports cannot help. Without host files the compute API tells
#: neither cells nor devices, and nothing of nova-scheduler.
NOVA = frozenset({outcome.DoubtKind.DEVICE_TAGS})
API = NOVA | {outcome.DoubtKind.CELLS, outcome.DoubtKind.DEVICES,
              outcome.DoubtKind.FILTER}
_FILTERS = (
    'ComputeFilter', 'AggregateInstanceExtraSpecsFilter',
    'AggregateImagePropertiesIsolation', 'AggregateMultiTenancyIsolation',
    'AggregateTypeAffinityFilter', 'NumInstancesFilter',
    'AggregateNumInstancesFilter', 'PciPassthroughFilter')
_TAGS = {'physical_network': ('east', 'west'), 'remote_managed': ('true',),
         'live_migratable': ('true', 'false'), 'managed': ('true', 'false'),
         'rack': ('1', '2')}
# There is one connection to the database of Placement.
_JOBS = 1
_SHARED = hostclass.HostClass.SHARED
# Of what every guest of a case is.
_VCPUS, _MEMORY_MIB, _DISK_GIB = 1, 512, 1


@dataclasses.dataclass(frozen=True, slots=True)
class DrawnPool:
    """Devices of one address.

    :param provider: index in the host's providers, None if none counts them
    :param free: how many nobody has
    :param owners: the guests that have the others
    """

    keys: devices.Pairs
    address: str
    numa_node: int | None
    provider: int | None
    free: int
    owners: tuple[str, ...]


class DrawnFleet:
    """A fleet with all that an import could drop."""

    def __init__(self, seed: int, number: int) -> None:
        self.chance = chance = random.Random(f'import {seed} {number}')
        self.drawn = admission_cases.fleet(seed, number)
        self.aggregates = {
            name: offered_host.Aggregate(
                name, chance.choice((None, None, name)), self._metadata())
            for name in ('agg-a', 'agg-b', 'agg-c')}
        self.rules = scheduler_rules.SchedulerRules(
            enabled_filters=tuple(
                name for name in _FILTERS if chance.random() < 0.7),
            aggregates=self.aggregates,
            default_zone=chance.choice(('nova', 'agg-b')),
            isolates=chance.random() < 0.2,
            limits_tenants=chance.random() < 0.3,
            requires_tenant_aggregate=chance.random() < 0.2,
            pci_in_placement=chance.random() < 0.5,
            max_instances_per_host=chance.choice((2, 50, 50)),
            isolates_hosts=False)
        #: What consumers have, by provider's UUID.
        self.owners: dict[str, dict[str, dict[str, int]]] = (
            collections.defaultdict(dict))
        # Most queries of a fleet find nothing on most hosts.
        self._weights = [
            1 + sum(bool(admission_cases.ours(host, used, query))
                    for host, used
                    in zip(self.drawn.hosts, self.drawn.used)) ** 3
            for query in self.drawn.queries]
        self._share_out_shared()
        self.unmapped = {host.name for host in self.drawn.hosts
                         if chance.random() < 0.07}
        self.pools: dict[str, tuple[DrawnPool, ...]] = {}
        self.occupancies = {
            host.name: self._occupancy(host, used)
            for host, used in zip(self.drawn.hosts, self.drawn.used)}

    def _metadata(self) -> dict[str, str]:
        chance = self.chance
        found = {}
        for key, values in (
                ('ssd', ('true', 'a,b')), ('instance_type', ('f', 'g')),
                ('filter_tenant_id', ('p', 'q')), ('hw_cpu_policy', ('x',)),
                ('trait:CUSTOM_A', ('required',)),
                ('max_instances_per_host', ('1', '3'))):
            if chance.random() < 0.1:
                found[key] = chance.choice(values)
        return found

    def _share_out_shared(self) -> None:
        """What is used of shared providers strangers have, all of it."""
        for host, used in zip(self.drawn.hosts, self.drawn.used):
            for child, amounts in zip(host.children, used[1:]):
                if child.is_shared and any(amounts.values()):
                    self.owners[child.uuid] = {
                        _uuid(f'stranger of {child.uuid}'): dict(amounts)}

    def _occupancy(
        self, host: offered_host.OfferedHost,
        used: Sequence[Mapping[str, int]],
    ) -> host_occupancy.HostOccupancy:
        """A host with guests, who have what is used of its own tree."""
        chance = self.chance
        guests = [_uuid(f'{host.name} {number}')
                  for number in range(chance.randrange(4))]
        names = [*guests, _uuid(f'migration of {host.name}')]
        for index, amounts in enumerate(used):
            provider = host.children[index - 1] if index else None
            if provider is not None and provider.is_shared:
                continue
            own = self.owners[provider.uuid if provider else host.name]
            for name, amount in amounts.items():
                while amount:
                    part = chance.randint(1, amount)
                    of_one = own.setdefault(chance.choice(names), {})
                    of_one[name] = of_one.get(name, 0) + part
                    amount -= part
        self.pools[host.name] = tuple(self._draw_pools(host, guests))
        is_enabled = (chance.random() < 0.85
                      and host.name not in self.unmapped)
        host = dataclasses.replace(
            host, is_enabled=is_enabled, pci_pools=_joined(
                self.pools[host.name]),
            aggregates=tuple(name for name in self.aggregates
                             if chance.random() < 0.3))
        residents = [resident_guest.ResidentGuest(
            uuid=guest, host=host.name, vcpus=_VCPUS, memory_mib=_MEMORY_MIB,
            disk_gib=_DISK_GIB, guest_class=_SHARED, flavor='f',
            devices=tuple(
                devices.PciUse(_keys(pool), pool.numa_node,
                               pool.owners.count(guest))
                for pool in self.pools[host.name] if guest in pool.owners))
            for guest in guests]
        return dataclasses.replace(
            host_occupancy.of_host(host, residents), used=tuple(used))

    def _draw_pools(self, host: offered_host.OfferedHost,
                    guests: Sequence[str]) -> Iterator[DrawnPool]:
        chance = self.chance
        counted = [index for index, child in enumerate(host.children, 1)
                   if not child.is_shared]
        chance.shuffle(counted)
        for number in range(chance.choice((0, 1, 2, 2, 3))):
            kinds = chance.choice((
                (devices.STANDARD,), (devices.VIRTUAL,), (devices.PHYSICAL,),
                (devices.PHYSICAL, devices.VIRTUAL)))
            address = f'0000:{number:02x}:00.0'
            node = chance.choice((None, 0, 1))
            provider = (counted.pop() if counted and len(kinds) == 1
                        and self.rules.pci_in_placement else None)
            product = chance.choice(('20b5', '20b7'))
            has_whole = False
            for kind in kinds:
                tags = {key: chance.choice(values)
                        for key, values in _TAGS.items()
                        if chance.random() < 0.3
                        and (key != 'remote_managed'
                             or kind == devices.VIRTUAL)}
                if kind != devices.STANDARD:
                    tags.setdefault('remote_managed', 'false')
                total = chance.randint(1, 3) if kind == devices.VIRTUAL else 1
                taken = 0 if has_whole or not guests else chance.randint(
                    0, total)
                if kind == devices.PHYSICAL and len(kinds) > 1:
                    has_whole = bool(taken)
                yield DrawnPool(
                    devices.device_keys('10de', product, kind, **tags),
                    address, node, provider, total - taken,
                    tuple(chance.choice(guests) for _ in range(taken)))

    def question(self) -> tuple[guest_request.GuestRequest,
                                guest_request.GuestWishes]:
        """A guest that is asked for."""
        chance = self.chance
        [query] = chance.choices(self.drawn.queries, self._weights)
        if chance.random() < 0.4:
            query = guest_request.query(
                {chance.choice(('VCPU', 'MEMORY_MB', 'CUSTOM_GOLD')): 1})
        wanted = ()
        if chance.random() < 0.4:
            keys = {'vendor_id': '10de',
                    'product_id': chance.choice(('20b5', '20b7'))}
            for key, values in (*_TAGS.items(), ('dev_type', (
                    devices.VIRTUAL, devices.PHYSICAL, devices.STANDARD))):
                if chance.random() < 0.15:
                    keys[key] = chance.choice(values)
            # Most queries drawn have none, and some devices have one.
            groups = ('_0',) if chance.random() < 0.5 else ()
            wanted = (devices.PciRequest(
                'gpu', (tuple(sorted(keys.items())),),
                1 if groups else chance.choice((1, 1, 2)),
                groups=groups if self.rules.pci_in_placement else ()),)
        specs = {'ssd': 'true'} if chance.random() < 0.1 else {}
        return guest_request.GuestRequest(
            name=chance.choice(('f', 'g')), vcpus=_VCPUS,
            memory_mib=_MEMORY_MIB, guest_class=_SHARED, topology=None,
            devices=wanted, queries=(query,),
            extra_specs=guest_request.pairs(specs),
            image=guest_request.pairs(
                {'hw_cpu_policy': 'x'} if chance.random() < 0.2 else {}),
        ), guest_request.GuestWishes(
            project=chance.choice(('p', 'q')),
            availability_zone=chance.choice(
                (*[None] * 8, 'agg-a', 'agg-b', 'nova')))


def _uuid(name: str) -> str:
    return str(uuid.uuid5(uuid.NAMESPACE_OID, name))


def _is_split(pool: DrawnPool, pools: Sequence[DrawnPool]) -> bool:
    """Whether its address tells it apart in an import."""
    return pool.provider is not None or any(
        pool.address == other.address and pool is not other
        for other in pools)


def _keys(pool: DrawnPool) -> devices.Pairs:
    return tuple(sorted((*pool.keys, ('address', pool.address))))


def _joined(pools: Sequence[DrawnPool]) -> tuple[devices.PciPool, ...]:
    """As nova-scheduler has them, those with the fewest tags first."""
    return tuple(sorted((
        devices.PciPool(_keys(pool), pool.numa_node,
                        pool.free + len(pool.owners), pool.provider)
        for pool in pools), key=lambda pool: len(pool.keys)
        + (pool.provider is not None)))


# Into nova's databases, and out of them.

def _conf(rules: scheduler_rules.SchedulerRules) -> str:
    return f'''
[DEFAULT]
default_availability_zone = {rules.default_zone}
[scheduler]
enable_isolated_aggregate_filtering = {rules.isolates}
limit_tenants_to_placement_aggregate = {rules.limits_tenants}
placement_aggregate_required_for_tenants = {rules.requires_tenant_aggregate}
[filter_scheduler]
enabled_filters = {','.join((*rules.enabled_filters, 'AllHostsFilter'))}
pci_in_placement = {rules.pci_in_placement}
max_instances_per_host = {rules.max_instances_per_host}
'''


def _write(nova: novadatabase.NovaDatabase, case: DrawnFleet) -> None:
    nova.create_tables()
    nova.add_mappings()
    nova.write_conf(_conf(case.rules))
    for name, aggregate in case.aggregates.items():
        _write_aggregate(nova, aggregate, [
            host for host, one in case.occupancies.items()
            if name in one.host.aggregates])
    for name, occupancy in case.occupancies.items():
        host = occupancy.host
        nova.add_host(
            name, uuid=name, numa_topology=None,
            is_mapped=name not in case.unmapped,
            pci_stats=json.dumps([
                {**dict(pool.keys), 'address': pool.address,
                 'numa_node': pool.numa_node, 'count': pool.free, **(
                     {} if pool.provider is None else {
                         'rp_uuid': host.children[pool.provider - 1].uuid})}
                for pool in _left(case.pools[name])]),
            service={'disabled': not host.is_enabled
                     and name not in case.unmapped})
        for guest in occupancy.guests:
            _write_guest(nova, guest, case.pools[name])
        _write_devices(nova, name, host, case.pools[name])


def _left(pools: Sequence[DrawnPool]) -> Iterator[DrawnPool]:
    """What nova-compute has of pools: none of what another function takes."""
    for pool in pools:
        if pool.free and not any(
                other.owners and other.address == pool.address
                and other is not pool for other in pools):
            yield pool


def _write_aggregate(nova: novadatabase.NovaDatabase,
                     aggregate: offered_host.Aggregate,
                     hosts: Sequence[str]) -> None:
    nova.insert('api', api_models.Aggregate, [
        {'name': aggregate.name, 'uuid': _uuid(aggregate.name)}])
    (number,), = nova.execute('api', sa.select(api_models.Aggregate.id).where(
        api_models.Aggregate.name == aggregate.name))
    metadata = dict(aggregate.metadata)
    if aggregate.availability_zone is not None:
        metadata['availability_zone'] = aggregate.availability_zone
    for table, rows in (
            (api_models.AggregateHost, [{'host': host} for host in hosts]),
            (api_models.AggregateMetadata, [
                {'key': key, 'value': value}
                for key, value in metadata.items()])):
        if rows:
            nova.insert('api', table, [
                {'aggregate_id': number, **row} for row in rows])


def _write_guest(
    nova: novadatabase.NovaDatabase, guest: resident_guest.ResidentGuest,
    pools: Sequence[DrawnPool],
) -> None:
    flavor = novadatabase.flavor('f', _VCPUS, _MEMORY_MIB)
    flavor.root_gb = _DISK_GIB
    nova.insert('north', models.Instance, [novadatabase.instance_row(
        guest.uuid, guest.host, uuid=guest.uuid, vcpus=_VCPUS,
        memory_mb=_MEMORY_MIB, root_gb=_DISK_GIB)])
    nova.insert('north', models.InstanceExtra, [{
        'instance_uuid': guest.uuid, 'deleted': 0, 'numa_topology': None,
        'migration_context': None,
        'flavor': novadatabase.flavors_json(flavor),
        'pci_requests': json.dumps([
            {'request_id': _uuid(f'{guest.uuid} {pool.address} {pool.keys}'),
             'count': pool.owners.count(guest.uuid), 'alias_name': 'gpu',
             'spec': [{key: value for key, value in pool.keys
                       if key in ('vendor_id', 'product_id', 'dev_type')
                       or (key, value) == ('remote_managed', 'true')}]}
            for pool in pools if guest.uuid in pool.owners])}])


def _write_devices(
    nova: novadatabase.NovaDatabase, name: str,
    host: offered_host.OfferedHost, pools: Sequence[DrawnPool],
) -> None:
    rows = []
    for pool in pools:
        keys = dict(pool.keys)
        is_virtual = keys['dev_type'] == devices.VIRTUAL
        is_displaced = pool.free and pool not in list(_left(pools))
        for number, owner in enumerate((*pool.owners, *[None] * pool.free)):
            beside = {key: keys[key] for key in ('managed', 'live_migratable')
                      if key in keys}
            if pool.provider is not None:
                beside['rp_uuid'] = host.children[pool.provider - 1].uuid
            rows.append({
                'compute_node_id': nova.node_id(name), 'deleted': 0,
                'address': f'{pool.address[:-2]}1.{number}' if is_virtual
                else pool.address,
                'parent_addr': pool.address if is_virtual else None,
                'vendor_id': keys['vendor_id'],
                'product_id': keys['product_id'],
                'dev_type': keys['dev_type'], 'numa_node': pool.numa_node,
                'dev_id': '', 'label': '', 'instance_uuid': owner,
                'request_id': owner and _uuid(
                    f'{owner} {pool.address} {pool.keys}'),
                'status': 'allocated' if owner
                else 'unavailable' if is_displaced else 'available',
                'extra_info': json.dumps(beside),
                'uuid': _uuid(f'{name} {pool.address} {is_virtual} {number}')})
    if rows:
        nova.insert('north', models.PciDevice, rows)


def _by_nova(case: DrawnFleet,
             placement: client.PlacementClient) -> snapshot.Fleet:
    """The fleet, as it comes back from nova's databases and Placement."""
    with tempfile.TemporaryDirectory() as directory:
        nova = novadatabase.NovaDatabase(pathlib.Path(directory))
        with contextlib.closing(nova):
            _write(nova, case)
            conf = nova_database.load_conf(['--config-file', str(nova.conf)])
            with nova_database.opened(conf) as database:
                return fleet_import.read(
                    database, now=novadatabase.NOW,
                    read_trees=lambda hosts: provider_trees.read(
                        placement, hosts, jobs=_JOBS)).fleet


def _by_api(case: DrawnFleet,
            placement: client.PlacementClient) -> snapshot.Fleet:
    """The same from the compute API, which knows no hosts without a cell."""
    shown = [one for name, one in case.occupancies.items()
             if name not in case.unmapped]
    cloud: Any = types.SimpleNamespace(
        name='drawn', placement=placement, flavors=lambda: (),
        server_groups=lambda: (), topology=lambda server: {'nodes': []},
        zones=lambda: {one.host.name: case.rules.zone_of(one.host)
                       for one in shown},
        aggregates=lambda: tuple(
            segregation_model.HostAggregate(
                1, _uuid(one.name), one.name, frozenset(
                    name for name, occupancy in case.occupancies.items()
                    if one.name in occupancy.host.aggregates),
                {**one.metadata, **(
                    {} if one.availability_zone is None else
                    {'availability_zone': one.availability_zone})})
            for one in case.aggregates.values()),
        hypervisors=lambda: tuple(
            compute_api.ListedHypervisor(
                one.host.name, one.host.name,
                '' if one.host.is_enabled else 'disabled')
            for one in shown),
        listed_servers=lambda: tuple(
            compute_api.ListedServer(guest.uuid, {
                'OS-EXT-SRV-ATTR:host': guest.host, 'image': {'id': 'i'},
                'flavor': {
                    'original_name': 'f', 'vcpus': _VCPUS, 'swap': 0,
                    'ram': _MEMORY_MIB, 'disk': _DISK_GIB, 'ephemeral': 0,
                    'extra_specs': {}}})
            for one in shown for guest in one.guests))
    return compute_run.read(cloud, {}, jobs=_JOBS)[0]


# The same questions.

def compared(seed: int, number: int, questions: int = 20,
             ) -> Iterator[tuple[str, str]]:
    """Ask of a fleet, and of what both imports make of it.

    :returns: what each case showed: 'admitted', 'refused' or 'undecided', and
        what is wrong about it, '' if nothing is
    """
    case = DrawnFleet(seed, number)
    app = placement_app.app()
    app.define(case.drawn.queries)
    app.fill(case.drawn.hosts, case.drawn.used, case.owners)
    placement = client.PlacementClient(app)
    asked = [case.question() for _ in range(questions)]
    before = judge.AdmissionJudge(case.rules)
    for source, fleet, allowed in (
            ('nova', _by_nova(case, placement), NOVA),
            ('API', _by_api(case, placement), API)):
        found = occupied.of_fleet(fleet)
        after = judge.AdmissionJudge(occupied.rules_of(fleet))
        for name, occupancy in case.occupancies.items():
            imported = found.get(name)
            if imported is None:
                wrong = '' if name in case.unmapped else 'is not there'
                yield 'left out', wrong and f'{source}, {name}: {wrong}'
                continue
            for request, wishes in asked:
                first = before.answer(request, occupancy, wishes)
                second = after.answer(request, imported, wishes)
                difference = (
                    _difference(first, second, allowed)
                    or _candidates(occupancy, imported, request)
                    or (_devices(occupancy, imported, request)
                        if source == 'nova' else ''))
                yield _name(second), difference and (
                    f'{source}, host {name}, {request}, {wishes}: '
                    f'{difference}')


def _name(answer: outcome.Outcome) -> str:
    return {outcome.Admitted: 'admitted', outcome.NotAdmitted: 'refused',
            outcome.Undecided: 'undecided'}[type(answer)]


def _difference(first: outcome.Outcome, second: outcome.Outcome,
                allowed: frozenset[outcome.DoubtKind]) -> str:
    if isinstance(first, outcome.Undecided):
        return f'undecided as it was drawn: {first.doubts}'
    if isinstance(second, outcome.Undecided):
        unneeded = [doubt for doubt in second.doubts
                    if doubt.kind not in allowed]
        return f'doubts {unneeded}' if unneeded else ''
    return '' if type(first) is type(second) else f'{first} is now {second}'


def _candidates(before: host_occupancy.HostOccupancy,
                after: host_occupancy.HostOccupancy,
                request: guest_request.GuestRequest) -> str:
    """What Placement would give otherwise, by the UUIDs of providers."""
    for query in request.queries:
        first, second = [
            set(admission_cases.ours(one.host, one.used, query))
            for one in (before, after)]
        if first != second:
            return f'candidates differ: {min(map(str, first ^ second))}'
    return ''


def _devices(before: host_occupancy.HostOccupancy,
             after: host_occupancy.HostOccupancy,
             request: guest_request.GuestRequest) -> str:
    """Which devices nova would give otherwise, whatever else there is.

    From any provider that Placement might choose.
    """
    if any(True for _ in gaps.of_devices(after.host.pci_pools,
                                         request.devices)):
        return ''
    places = {child.uuid: index
              for index, child in enumerate(after.host.children, 1)}
    groups = [suffix for asked in request.devices for suffix in asked.groups]
    counting = {pool.provider for pool in before.host.pci_pools
                if pool.provider is not None}
    for chosen in ((), *([index] for index in sorted(counting) if groups)):
        given = []
        for one, mapping in (
                (before, {group: index for index in chosen
                          for group in groups}),
                (after, {group: places[before.host.children[index - 1].uuid]
                         for index in chosen for group in groups})):
            taken = devices.take(one.host.pci_pools, one.device_uses,
                                 request.devices, (), (), mapping)
            # What nova-compute's order parts may be one pool to the scheduler.
            given.append(None if taken is None else sorted(
                collections.Counter([
                    devices.kind(use.keys) for use in taken
                    for _one in range(use.count)]).items()))
        if given[0] != given[1]:
            return f'devices {given[0]} are now {given[1]}'
    return ''
