# SPDX-License-Identifier: Apache-2.0
"""A drawn cloud with guests, in Placement, in nova's databases, and imported.

Placement is a real one. Guests come by nova's own claims.
"""

import collections
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
import contextlib
import functools
import json
import pathlib
import random
import tempfile
from typing import Any
import uuid

from nova.db.api import models as api_models
from nova.db.main import models
from nova import exception
from nova.objects import service

from nova_pinning.admission import offered_host
from nova_pinning.bridge.importer import fleet_import
from nova_pinning.bridge.importer import nova_database
from nova_pinning.fleet import provider_trees
from nova_pinning.fleet import snapshot
from nova_pinning.placement import inventory
from nova_pinning.tests import novadatabase
from nova_pinning.tests.oracle import device_cloud
from nova_pinning.tests.oracle import device_nova
from nova_pinning.tests.oracle import placement_app

_FILTERS = 'ComputeFilter,PciPassthroughFilter,NUMATopologyFilter'
_DEVICE_COLUMNS = ('address', 'parent_addr', 'vendor_id', 'product_id',
                   'dev_type', 'numa_node', 'dev_id', 'label', 'status',
                   'uuid')


class NovaFleet:
    """The hosts of a cloud, as nova has them.

    :ivar orders: by name of the flavor, None where nova refuses it
    """

    def __init__(self, seed: int, number: int, hosts: int,
                 orders: int) -> None:
        self.cloud = device_cloud.draw(seed, number, hosts, orders)
        self.chance = random.Random(f'guests {seed} {number}')
        self._stack = contextlib.ExitStack()
        self._stack.enter_context(device_nova.prepared(self.cloud))
        self.hosts = {drawn.name: device_nova.NovaHost(drawn)
                      for drawn in self.cloud.hosts}
        self.orders: dict[str, device_nova.NovaOrder | None] = {}
        for flavor, image in self.cloud.orders:
            try:
                self.orders[flavor.name] = device_nova.order(flavor, image)
            except exception.NovaException:
                self.orders[flavor.name] = None
        self._guests = 0

    def close(self) -> None:
        """Give nova's options back."""
        self._stack.close()

    def fill(self, rounds: int) -> None:
        """Have nova place guests, on some hosts at a time."""
        for _ in range(rounds):
            flavor, _image = self.chance.choice(self.cloud.orders)
            self.store()
            for name, found in self.candidates(flavor.name).items():
                if self.chance.random() < 0.6:
                    self.place(name, flavor.name, found)

    def place(self, host: str, flavor: str,
              candidates: Sequence[dict[str, Any]]) -> bool:
        """Have a guest come to a host, if there is room."""
        asked = self.orders[flavor]
        assert asked is not None
        target = self.hosts[host]
        for candidate in target.passing(asked, candidates):
            self._guests += 1
            name = str(uuid.UUID(int=self._guests))
            if target.claimed(asked, candidate, name) is not None:
                target.place(next(
                    one for one, _image in self.cloud.orders
                    if one.name == flavor), asked, candidate, name)
                return True
        return False

    def reserve(self) -> None:
        """Have the operator reserve some devices in Placement."""
        for host in self.hosts.values():
            for name in host.tree.get_provider_uuids(host.name)[1:]:
                if self.chance.random() < 0.2:
                    [(key, has)] = host.tree.data(name).inventory.items()
                    host.tree.update_inventory(name, {key: {
                        **has, 'reserved': self.chance.randint(
                            1, has['total'])}})

    def fill_with(self, flavor: str) -> collections.Counter[str]:
        """Have guests of a flavor come to all hosts as long as they can.

        :returns: how many came, by host
        """
        came = collections.Counter[str]()
        more = True
        while more:
            self.store()
            more = False
            for name, found in self.candidates(flavor).items():
                if self.place(name, flavor, found):
                    came[name] += 1
                    more = True
        return came

    # Placement.

    def store(self) -> None:
        """Have Placement know what nova reports to it."""
        offered, used = [], []
        owners: dict[str, dict[str, dict[str, int]]] = (
            collections.defaultdict(dict))
        for name, host in self.hosts.items():
            providers = list(self._providers(host))
            offered.append(offered_host.OfferedHost(
                name=name, cells=(), traits=providers[0].traits,
                inventories=providers[0].inventories,
                children=tuple(offered_host.OfferedProvider(
                    0, tuple(one.inventories.items()), one.traits,
                    uuid=one.uuid) for one in providers[1:])))
            used.append([{} for _ in providers])
            for provider in providers:
                if provider.allocations:
                    owners[provider.uuid] = dict(provider.allocations)
        placement_app.app().fill(offered, used, owners or {'': {}})

    def _providers(self, host: device_nova.NovaHost,
                   ) -> Iterator[provider_trees.TreeProvider]:
        """What Placement has of a host, its own provider first."""
        taken: dict[str, dict[str, dict[str, int]]] = (
            collections.defaultdict(dict))
        for consumer, one in host.allocations.items():
            for provider, amounts in one['allocations'].items():
                taken[provider][consumer] = dict(amounts['resources'])
        for one in host.tree.get_provider_uuids(host.name):
            data = host.tree.data(one)
            yield provider_trees.TreeProvider(
                data.uuid, data.name, data.parent_uuid, {
                    name: inventory.Inventory(
                        total=has['total'], reserved=has.get('reserved', 0),
                        max_unit=has.get('max_unit'))
                    for name, has in sorted(data.inventory.items())},
                frozenset(data.traits), taken[data.uuid])

    @functools.cached_property
    def _owners(self) -> dict[str, str]:
        return {provider: name for name, host in self.hosts.items()
                for provider in host.tree.get_provider_uuids(name)}

    def candidates(self, flavor: str) -> dict[str, list[dict[str, Any]]]:
        """Placement's, by host: those that differ to nova's PCI code."""
        asked = self.orders[flavor]
        found: dict[str, dict[Any, dict[str, Any]]] = {}
        for query in asked.queries if asked else ():
            more: dict[str, dict[Any, dict[str, Any]]] = (
                collections.defaultdict(dict))
            for one in placement_app.app().answers(query):
                more[self._owners[next(iter(one['allocations']))]].setdefault(
                    _alike(one), one)
            found = {**more, **found}
        return {name: [found[name][key] for key in sorted(found[name])]
                for name in sorted(found)}

    # Our own side.

    def imported(self) -> snapshot.Fleet:
        """The fleet, by nova's databases and Placement."""
        with tempfile.TemporaryDirectory() as directory:
            nova = novadatabase.NovaDatabase(pathlib.Path(directory))
            with contextlib.closing(nova):
                self._write(nova)
                conf = nova_database.load_conf(
                    ['--config-file', str(nova.conf)])
                with nova_database.opened(conf) as database:
                    return fleet_import.read(
                        database, now=novadatabase.NOW,
                        read_trees=lambda names: {
                            name: tuple(self._providers(self.hosts[name]))
                            for name in names}).fleet

    def _write(self, nova: novadatabase.NovaDatabase) -> None:
        nova.create_tables()
        nova.add_mappings()
        nova.write_conf('\n'.join((
            '[filter_scheduler]', f'enabled_filters = {_FILTERS}',
            f'pci_in_placement = {self.cloud.in_placement}', '[compute]',
            'packing_host_numa_cells_allocation_strategy = '
            f'{self.cloud.packs}', '[pci]',
            *[f'alias = {text}'
              for text in device_cloud.aliases_json(self.cloud)])))
        for number, (flavor, _image) in enumerate(self.cloud.orders, 1):
            nova.insert('api', api_models.Flavors, [{
                'id': number, 'name': flavor.name, 'flavorid': flavor.name,
                'vcpus': flavor.vcpus, 'memory_mb': flavor.memory_mib,
                'root_gb': 0, 'ephemeral_gb': 0, 'swap': 0,
                'rxtx_factor': 1.0, 'disabled': False, 'is_public': True}])
            nova.insert('api', api_models.FlavorExtraSpecs, [
                {'flavor_id': number, 'key': key, 'value': value}
                for key, value in {'x': 'y', **flavor.extra_specs}.items()])
        devices = []
        images = {flavor.name: image for flavor, image in self.cloud.orders}
        for number, (name, host) in enumerate(self.hosts.items(), 1):
            nova.add_host(
                name, id=number, uuid=name, cpu_allocation_ratio=1.0,
                ram_allocation_ratio=1.0,
                service={'version': service.SERVICE_VERSION},
                numa_topology=host.topology._to_json(),
                pci_stats=json.dumps(host.pools.obj_to_primitive()))
            for guest in host.guests:
                _write_guest(nova, name, guest, images[guest.flavor.name])
            devices += [{
                'compute_node_id': number, 'deleted': 0,
                **{key: getattr(device, key) for key in _DEVICE_COLUMNS},
                'instance_uuid': device.instance_uuid
                if 'instance_uuid' in device else None,
                'request_id': device.request_id
                if 'request_id' in device else None,
                'extra_info': json.dumps(device.extra_info)}
                for device in host.tracker.pci_devs]
        if devices:
            nova.insert('north', models.PciDevice, devices)


def _alike(candidate: Mapping[str, Any]) -> Any:
    """Equal for candidates that are alike to nova's PCI code."""
    return tuple(sorted(
        (suffix.rpartition('-')[0], *providers)
        for suffix, providers in candidate['mappings'].items() if suffix))


def _write_guest(nova: novadatabase.NovaDatabase, host: str,
                 guest: device_nova.NovaGuest,
                 image: Mapping[str, str]) -> None:
    flavor = guest.order.spec.flavor
    nova.insert('north', models.Instance, [novadatabase.instance_row(
        guest.uuid, host, uuid=guest.uuid, vcpus=flavor.vcpus,
        memory_mb=flavor.memory_mb, root_gb=0)])
    nova.insert('north', models.InstanceExtra, [{
        'instance_uuid': guest.uuid, 'deleted': 0,
        'numa_topology': None if guest.topology is None
        else guest.topology._to_json(), 'migration_context': None,
        'flavor': novadatabase.flavors_json(flavor),
        'pci_requests': guest.pci_requests.to_json()}])
    if image:
        nova.insert('north', models.InstanceSystemMetadata, [
            {'instance_uuid': guest.uuid, 'deleted': 0,
             'key': f'image_{name}', 'value': value}
            for name, value in image.items()])
