# SPDX-License-Identifier: Apache-2.0
"""Nova's PciDeviceStats, held against ``admission.devices``.

A case is a host with a few devices, physical functions with their virtual
ones among them, tagged as [pci] device_spec tags them, some with resource
providers; and three guests that come to it, one after the other. By hand::

    python -m nova_pinning.tests.oracle.device_oracle --cases 20000
"""

import collections
from collections.abc import Iterator
import dataclasses
import random
import sys
from typing import Any

from nova import exception
from nova import objects
from nova.pci import stats as nova_stats

from nova_pinning.admission import devices
from nova_pinning.tests.oracle import numbered_cases
from nova_pinning.tests.oracle import oracle_case
from nova_pinning.tests.unit import builders

GUESTS = 3
_POLICIES = ('legacy', 'preferred', 'required', 'socket')
_SOCKETS = ((0, 0, 1, 1), (0, 1, 0, 1), (None,) * 4, (0, 0, 1, None))
_NODES = (0, 0, 1, 2, 3, None)
_TAGS = {
    'physical_network': (0.3, ('net', 'NET', 'net2')),
    'live_migratable': (0.15, ('true', 'false')),
    'remote_managed': (0.2, ('true', 'false'))}
_NO_KEYS = ('numa_node', 'count', 'devices')


class _Specs:
    """Nova's dev_filter, which tells the tags of a device."""

    def __init__(self) -> None:
        self.tags: dict[str, dict[str, str]] = {}

    def get_devspec(self, device: Any) -> Any:
        tags = self.tags[device.address]
        return type('DeviceSpec', (), {'get_tags': lambda self: tags})()


@dataclasses.dataclass(frozen=True)
class _Asked:
    """One request of a guest, for both.

    :param providers: of its groups, by their suffixes
    """

    specs: list[dict[str, str | None]]
    count: int
    policy: str
    request_id: str
    is_port: bool
    providers: dict[str, str]

    @property
    def nova(self) -> Any:
        return objects.InstancePCIRequest(
            count=self.count, spec=self.specs, numa_policy=self.policy,
            request_id=self.request_id,
            alias_name='' if self.is_port else 'a',
            **({'requester_id': 'port'} if self.is_port else {}))

    @property
    def ours(self) -> devices.PciRequest:
        return devices.PciRequest(
            '' if self.is_port else 'a', tuple(
                tuple(sorted(spec.items())) for spec in self.specs),
            self.count, self.policy, tuple(self.providers))


class DeviceCase:
    """A host that is filled.

    :ivar stats: nova's
    :ivar pools: ours
    :ivar uses: of the guests that came, in our words
    """

    def __init__(self, seed: int, number: int) -> None:
        self._chance = random.Random(f'{seed} {number}')
        self._specs = _Specs()
        sockets = self._chance.choice(_SOCKETS)
        self.cells = [builders.host_cell(cell, [cell], socket=socket)
                      for cell, socket in enumerate(sockets)]
        self.stats = nova_stats.PciDeviceStats(
            objects.NUMATopology(cells=[
                objects.NUMACell(id=cell, socket=socket)
                for cell, socket in enumerate(sockets)]),
            dev_filter=self._specs)
        for device in list(self._devices()):
            self.stats.add_device(device)
        if self._chance.random() < 0.4:
            self._put_into_placement()
        self.providers = sorted({pool['rp_uuid'] for pool in self.stats.pools
                                 if 'rp_uuid' in pool})
        ranks = {pool['address'] + pool['dev_type']: rank
                 for rank, pool in enumerate(self.stats.pools)}
        self.pools = [devices.PciPool(
            _keys(pool), pool['numa_node'], pool['count'],
            self.providers.index(pool['rp_uuid'])
            if 'rp_uuid' in pool else None,
            claim_rank=ranks[pool['address'] + pool['dev_type']])
            for pool in self._scheduler_stats().pools]
        self.uses: list[devices.PciUse] = []

    def _scheduler_stats(self) -> Any:
        """What nova-scheduler makes of what nova-compute writes down."""
        return nova_stats.PciDeviceStats(
            self.stats.numa_topology, self.stats.to_device_pools_obj(),
            self._specs)

    def _devices(self) -> Iterator[Any]:
        for slot in range(self._chance.randint(1, 4)):
            address = f'0000:{slot:02x}:00.0'
            node = self._chance.choice(_NODES)
            tags = {key: self._chance.choice(values)
                    for key, (share, values) in _TAGS.items()
                    if self._chance.random() < share}
            if self._chance.random() < 0.35:
                tags.pop('remote_managed', None)
                yield self._device(address, 'type-PCI', '10de', node, tags)
                continue
            physical = None
            if self._chance.random() < 0.7:
                physical = self._device(
                    address, 'type-PF', '8086', node, tags)
                yield physical
            if self._chance.random() < 0.85:
                product = self._chance.choice('12')
                for function in range(self._chance.randint(1, 3)):
                    virtual = self._device(
                        f'0000:{slot:02x}:01.{function}',
                        'vdpa' if self._chance.random() < 0.15 else 'type-VF',
                        '8086', node, tags, product, address)
                    if physical is not None:
                        virtual.parent_device = physical
                        physical.child_devices.append(virtual)
                    yield virtual

    def _device(self, address: str, dev_type: str, vendor: str,
                node: int | None, tags: dict[str, str], product: str = '',
                parent: str | None = None) -> Any:
        self._specs.tags[address] = tags
        device = objects.PciDevice(
            address=address, dev_type=dev_type, vendor_id=vendor,
            product_id=product or self._chance.choice('12'), numa_node=node,
            parent_addr=parent, status='available', extra_info={},
            compute_node_id=1)
        device.child_devices, device.parent_device = [], None
        return device

    def _put_into_placement(self) -> None:
        """Most pools have a provider; some of the wrong ones share it."""
        for pool in self.stats.pools:
            if self._chance.random() < 0.9:
                pool['rp_uuid'] = pool['address'] + (
                    '' if self._chance.random() < 0.85 else pool['dev_type'])

    def _request(self, number: int) -> _Asked:
        """Mostly for a device that there is."""
        pool = self._chance.choice(self.stats.pools or [{}])
        specs = []
        for _ in range(self._chance.choice((1, 1, 1, 1, 2))):
            spec: dict[str, str | None] = {
                key: pool[key] for key in (
                    'vendor_id', 'product_id', 'dev_type', *_TAGS)
                if key in pool and self._chance.random() < 0.8}
            if self._chance.random() < 0.15:
                spec[self._chance.choice(('product_id', *_TAGS))] = (
                    self._chance.choice(('1', 'true', 'net', None)))
            if self._chance.random() < 0.1:
                spec['resource_class'] = 'X'
            specs.append({key: value for key, value in spec.items()
                          if value is not None or key not in (
                              'product_id', 'vendor_id')})
        count = self._chance.choice((1, 1, 1, 2))
        request_id = oracle_case.request_id(number)
        is_port = self._chance.random() < 0.3
        providers = {}
        if self.providers and not is_port and self._chance.random() < 0.85:
            some = [pool['rp_uuid']] if 'rp_uuid' in pool else self.providers
            providers = {f'{request_id}-{index}': self._chance.choice(some)
                         for index in range(count)}
        return _Asked(specs, count, self._chance.choice(_POLICIES),
                      request_id, is_port, providers)

    def guest(self) -> tuple[str, str]:
        """What nova says of one more, and what we say otherwise."""
        asked = [self._request(number)
                 for number in range(self._chance.choice((1, 1, 2, 3)))]
        near = sorted(self._chance.sample(
            range(len(self.cells)), self._chance.randint(0, 3)))
        mapping = {suffix: provider for one in asked
                   for suffix, provider in one.providers.items()}
        known = {suffix: self.providers.index(provider)
                 for suffix, provider in mapping.items()}
        arguments = (self.pools, self.uses, [one.ours for one in asked])
        got = devices.take(*arguments, near, self.cells, known)
        check = devices.check(*arguments, self.cells, known)
        requests = [one.nova for one in asked]
        nova_cells = [objects.InstanceNUMACell(id=cell)
                      for cell in near] or None
        allows = self._scheduler_stats().support_requests(
            requests, {suffix: [provider] for suffix, provider
                       in mapping.items()}, nova_cells)
        if check.nova_supports(tuple(near)) != allows:
            return 'refused', f'nova-scheduler {allows}'
        if not allows:
            return 'refused', f'takes {got}' if got is not None else ''
        for request, one in zip(requests, asked):
            if one.providers:
                # As nova keeps what Placement chose.
                request.spec = [dict(spec) for spec in request.spec]
                request.spec[0]['rp_uuids'] = ','.join(
                    one.providers.values())
        taken = self._claimed(
            requests, nova_cells, sum(one.count for one in asked))
        if taken is None:
            return 'claim fails', f'takes {got}' if got is not None else ''
        have = got and {(use.keys, use.numa_node): use.count for use in got}
        if taken != have:
            return 'claimed', f'{have} in place of {taken}'
        self.uses += got or ()
        return 'claimed', ''

    def _claimed(
        self, requests: list[Any], cells: Any, wanted: int,
    ) -> dict[Any, int] | None:
        """What nova-compute takes of each pool; None if it fails."""
        before = [(pool, dict(pool), list(pool['devices']))
                  for pool in self.stats.pools]
        pool_of = {device.address: (_keys(values), values['numa_node'])
                   for _pool, values, there in before for device in there}
        try:
            taken = self.stats.consume_requests(requests, cells)
        except (exception.PciDeviceRequestFailed, IndexError):
            taken = None
        if taken is None or len(taken) != wanted:
            for pool, values, there in before:
                pool.clear()
                pool.update(values, devices=there)
            self.stats.pools[:] = [pool for pool, _, _ in before]
            return None
        return dict(collections.Counter(
            pool_of[device.address] for device in taken))


def _keys(pool: dict[str, Any]) -> devices.Pairs:
    return tuple(sorted((key, value) for key, value in pool.items()
                        if key not in _NO_KEYS))


def differences(seed: int, number: int,
                counts: numbered_cases.Counts) -> Iterator[str]:
    """What of the guests of a host differs first."""
    case = DeviceCase(seed, number)
    for guest in range(GUESTS):
        said, difference = case.guest()
        counts[said] += 1
        if difference:
            yield f'guest {guest}: {difference}'
            return


if __name__ == '__main__':
    sys.exit(numbered_cases.main(differences, __doc__))
