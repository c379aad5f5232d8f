# SPDX-License-Identifier: Apache-2.0
"""Random clouds with PCI devices, as operators and drivers describe them.

A cloud is drawn as data: what nova.conf of its services says of devices, what
the libvirt driver reports of each host, and flavors with images. Nothing here
works anything out.
"""

import dataclasses
import json
import random
from typing import Any

from nova_pinning.flavors import flavor_model

#: Devices that are made: vendor, product, that of its virtual functions.
_KINDS = (('10de', '2342', ''), ('10de', '1eb8', ''), ('144d', 'a80a', ''),
          ('8086', '1572', '154c'), ('15b3', '101d', '101e'))
_POLICIES = ('legacy', 'preferred', 'required', 'socket')
_CLASSES = ('CUSTOM_GPU', 'gpu', 'nic-fast', 'PGPU')
_TRAITS = ('CUSTOM_SWITCH_0', 'custom_switch_1', 'switch-0',
           'HW_GPU_API_VULKAN')
#: That hosts have by themselves.
SOCKET_TRAIT = 'COMPUTE_SOCKET_PCI_NUMA_AFFINITY'


@dataclasses.dataclass(frozen=True, slots=True)
class DrawnCell:
    """A NUMA cell of a host.

    :param cores: the CPUs of each
    :param pages: of 2 MiB
    """

    shared: tuple[int, ...]
    dedicated: tuple[int, ...]
    cores: tuple[tuple[int, ...], ...]
    memory_mib: int
    pages: int
    socket: int | None


@dataclasses.dataclass(frozen=True, slots=True)
class DrawnHost:
    """A host.

    :param devices: as the libvirt driver reports them
    :param device_spec: [pci] device_spec
    :param reports: [pci] report_in_placement
    """

    name: str
    cells: tuple[DrawnCell, ...]
    devices: tuple[dict[str, Any], ...]
    device_spec: tuple[dict[str, str], ...]
    reports: bool
    traits: frozenset[str]


@dataclasses.dataclass(frozen=True, slots=True)
class DrawnCloud:
    """Hosts, and what is sold on them.

    :param aliases: [pci] alias
    :param in_placement: [filter_scheduler] pci_in_placement
    :param packs: packing_host_numa_cells_allocation_strategy
    :param is_even: whether hosts are alike, and policies agree, so that guests
        may move
    :param orders: flavors with properties of images
    """

    hosts: tuple[DrawnHost, ...]
    aliases: tuple[dict[str, str], ...]
    in_placement: bool
    packs: bool
    is_even: bool
    orders: tuple[tuple[flavor_model.Flavor, dict[str, str]], ...]


class _Drawing:
    """Draws one cloud."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.in_placement = self.likely(0.6)
        self.kinds = chance.sample(_KINDS, chance.choice((1, 1, 2, 2, 3)))
        # Some of what aliases may ask for, hosts have.
        self.classes = {kind: chance.choice((None, None, *_CLASSES))
                        for kind in self.kinds}
        self.traits = chance.sample(_TRAITS, 2)
        self.is_even = self.likely(0.4)
        # Where some devices move live, most do, or no guest would.
        self.moves_live = self.is_even and self.likely(0.7)

    def likely(self, share: float) -> bool:
        return self.chance.random() < share

    def cloud(self, hosts: int, orders: int) -> DrawnCloud:
        aliases = self._aliases()
        names = [f'{number + 1:08}-0000-4000-8000-{0:012}'
                 for number in range(hosts)]
        kinds = [self._host(name)
                 for name in (names[:3] if self.is_even else names)]
        return DrawnCloud(
            tuple(dataclasses.replace(kinds[number % len(kinds)], name=name)
                  for number, name in enumerate(names)),
            aliases, self.in_placement, self.likely(0.7), self.is_even,
            tuple(self._order(number, sorted({
                alias['name'] for alias in aliases}))
                for number in range(orders)))

    # Hosts.

    def _host(self, name: str) -> DrawnHost:
        reports = self.likely(0.95) if self.in_placement else self.likely(0.2)
        cells = tuple(self._cells())
        devices: list[dict[str, Any]] = []
        specs: list[dict[str, str]] = []
        for slot in range(self.chance.choice((1, 2, 3, 3, 4, 5))):
            self._add_slot(slot, len(cells), reports, devices, specs)
        self.chance.shuffle(devices)
        return DrawnHost(name, cells, tuple(devices), tuple(specs), reports,
                         frozenset((SOCKET_TRAIT,) * self.likely(0.9)))

    def _cells(self) -> Any:
        chance = self.chance
        count = chance.choice((1, 2, 2, 2, 3, 4, 4, 8))
        threads = chance.choice((1, 2))
        cores = chance.choice((1, 2, 2, 3, 4)) + 2 * self.is_even
        use = 'dedicated' if self.is_even else chance.choice(
            ('dedicated',) * 4 + ('both', 'shared'))
        per_socket = chance.choice((1, 2, count))
        has_sockets = self.likely(0.9)
        memory = chance.choice((1024, 2048, 2048, 4096))
        pages = chance.choice((0, 0, 128, 256))
        for cell in range(count):
            first = cell * cores * threads
            own = tuple(tuple(range(cpu, cpu + threads)) for cpu in range(
                first, first + cores * threads, threads))
            shared = {'dedicated': (), 'shared': own, 'both': own[:1]}[use]
            yield DrawnCell(
                tuple(cpu for core in shared for cpu in core),
                tuple(cpu for core in own[len(shared):] for cpu in core),
                own, memory, pages,
                cell // per_socket if has_sockets else None)

    def _add_slot(self, slot: int, cells: int, reports: bool,
                  devices: list[dict[str, Any]],
                  specs: list[dict[str, str]]) -> None:
        """A device with its functions, and what nova.conf says of it."""
        chance = self.chance
        kind = chance.choice(self.kinds)
        vendor, product, virtual = kind
        node = chance.choice((*range(cells), *range(cells), None))
        address = f'0000:{slot + 1:02x}:00.0'
        tags = self._tags(kind, reports)

        def add(address: str, product: str, dev_type: str,
                **more: Any) -> None:
            devices.append({
                'dev_id': f'pci_{address}', 'address': address,
                'vendor_id': vendor, 'product_id': product,
                'numa_node': node, 'label': f'label_{vendor}_{product}',
                'dev_type': dev_type, **more})

        if not virtual:
            add(address, product, 'type-PCI')
            specs.append({'vendor_id': vendor, 'product_id': product,
                          'address': address, **tags})
            return
        add(address, product, 'type-PF')
        functions = chance.randint(1, 3)
        for function in range(functions):
            add(f'{address[:-2]}.{function + 1}', virtual, 'type-VF',
                parent_addr=address, capabilities={
                    'vpd': {'card_serial_number': 'X1'}})
        # Placement counts one or the other.
        offers = chance.choice(('PF', 'VF', 'VF') if reports else (
            'PF', 'VF', 'both'))
        if offers != 'VF':
            specs.append({'vendor_id': vendor, 'product_id': product,
                          'address': address, **{
                              key: value for key, value in tags.items()
                              if key != 'remote_managed'}})
        if offers != 'PF':
            specs.append({
                'vendor_id': vendor, 'product_id': virtual,
                'address': f'{address[:-1]}*', **{
                    key: value for key, value in tags.items()
                    if key != 'one_time_use'}})

    def _tags(self, kind: tuple[str, str, str],
              reports: bool) -> dict[str, str]:
        chance = self.chance
        tags = {}
        if self.classes[kind] and self.likely(0.92):
            tags['resource_class'] = self.classes[kind]
        if self.likely(0.5):
            tags['traits'] = ','.join(chance.sample(
                self.traits, chance.choice((1, 1, 2))))
        for key, share, values in (
                ('managed', 0.15, ('yes', 'no')),
                ('live_migratable', *((0.95, ('yes', 'true'))
                 if self.moves_live else (0.2, ('yes', 'no', 'true')))),
                ('one_time_use', 0.1 * reports, ('true', 'false')),
                ('physical_network', 0.03, ('east',)),
                ('remote_managed', 0.04 * bool(kind[2]), ('true',))):
            if self.likely(share):
                tags[key] = chance.choice(values)
        return tags

    # What is sold.

    def _aliases(self) -> tuple[dict[str, str], ...]:
        chance = self.chance
        made = []
        for number in range(chance.choice((2, 3, 4))):
            policy = chance.choice(_POLICIES)
            times = 1 if self.in_placement else chance.choice((1, 1, 1, 2))
            types: dict[str, str] = {}
            for _ in range(times):
                alias = {'name': f'a{number}', 'numa_policy': policy,
                         **self._wanted()}
                if policy == 'legacy' and self.likely(0.5):
                    del alias['numa_policy']
                if times > 1:
                    types = types or {'device_type': alias.get(
                        'device_type', 'type-PCI')}
                    alias |= types
                made.append(alias)
                policy = made[-1].get('numa_policy', 'legacy')
        return tuple(made)

    def _wanted(self) -> dict[str, str]:
        """The device that an alias asks for, mostly one that hosts have."""
        chance = self.chance
        kind = chance.choice(self.kinds)
        vendor, product, virtual = kind
        dev_type = 'type-PCI'
        if virtual:
            is_virtual = self.likely(0.6)
            product = virtual if is_virtual else product
            dev_type = 'type-VF' if is_virtual else 'type-PF'
        if self.likely(0.1):
            vendor, product = vendor.upper(), product.upper()
        found = {'vendor_id': vendor, 'product_id': product}
        if self.likely(0.75):
            found['device_type'] = dev_type
        name = self.classes[kind]
        if name and self.likely(0.92 if self.in_placement else 0.2):
            found['resource_class'] = chance.choice((name, name.lower()))
            if self.in_placement and self.likely(0.6):
                del found['vendor_id'], found['product_id']
        if self.likely(0.3 if self.in_placement else 0.1):
            found['traits'] = chance.choice(self.traits)
        if self.likely(0.9 if self.moves_live else 0.1):
            found['live_migratable'] = 'yes' if self.moves_live else (
                chance.choice(('yes', 'no')))
        return found

    def _order(self, number: int, aliases: list[str],
               ) -> tuple[flavor_model.Flavor, dict[str, str]]:
        chance = self.chance
        specs: dict[str, str] = {}
        image: dict[str, str] = {}
        cells = chance.choice((1, 1, 1, 2))
        vcpus = cells * chance.choice((1, 1, 2, 3))
        if self.likely(0.75):
            specs['hw:cpu_policy'] = 'dedicated'
            if self.likely(0.2):
                specs['hw:cpu_thread_policy'] = chance.choice(
                    ('require', 'prefer', 'isolate'))
        if cells > 1 or self.likely(0.2):
            specs['hw:numa_nodes'] = str(cells)
        if self.likely(0.4 if self.is_even else 0.2):
            specs['hw:mem_page_size'] = chance.choice(('2048', 'large', 'any'))
        if not self.is_even and self.likely(0.25):
            specs['hw:pci_numa_affinity_policy'] = chance.choice(_POLICIES)
        elif not self.is_even and self.likely(0.15):
            image['hw_pci_numa_affinity_policy'] = chance.choice(_POLICIES)
        if self.likely(0.95):
            named = chance.sample(aliases, min(
                len(aliases), chance.choice((1, 1, 1, 2, 2, 3))))
            counts = [chance.choice((1, 1, 2)) if len(named) < 2 else 1
                      for _ in named]
            if len(named) == 1 and self.likely(0.15):
                counts = [3]
            parts = [f'{alias}:{count}' for alias, count in zip(named, counts)]
            if self.likely(0.08):
                parts.append(f'{named[0]}:1')
            specs['pci_passthrough:alias'] = ','.join(parts)
        return flavor_model.Flavor(
            name=f'f{number}', vcpus=vcpus,
            memory_mib=cells * chance.choice((64, 128, 256, 512)),
            disk_gib=0, extra_specs=specs), image


def draw(seed: int, number: int, hosts: int, orders: int) -> DrawnCloud:
    """A random cloud; the same whenever it is asked for."""
    return _Drawing(random.Random(f'devices {seed} {number}')).cloud(
        hosts, orders)


def aliases_json(cloud: DrawnCloud) -> list[str]:
    """[pci] alias as nova.conf has it."""
    return [json.dumps(alias) for alias in cloud.aliases]
