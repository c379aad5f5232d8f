# SPDX-License-Identifier: Apache-2.0
"""PCI devices near NUMA cells, judged by nova's own code."""

from __future__ import annotations

import collections
from collections.abc import Hashable
from collections.abc import Mapping
from collections.abc import Sequence
import copy
import functools
import types
from typing import Any

from nova import exception
from nova import objects
from nova.pci import stats as nova_stats

from nova_pinning import fit
from nova_pinning.fit import reach

#: What pools of like devices differ in.
_OF_POOL = frozenset(('address', 'count', 'devices', 'numa_node', 'rp_uuid'))


class NovaPciCheck(reach.DeviceCheck):
    """What a host has of the PCI devices that a guest asks for.

    A :class:`nova_pinning.fit.PciCheck`.

    :param stats: the host's nova.pci.stats.PciDeviceStats
    :param requests: nova.objects.InstancePCIRequest, none or several
    :param provider_mapping: as numa_fit_instance_to_host takes it
    """

    def __init__(
        self,
        stats: Any,
        requests: Sequence[Any] | None,
        provider_mapping: dict[str, list[str]] | None,
    ) -> None:
        super().__init__(
            [(pool.get('numa_node'), pool['count']) for pool in stats.pools],
            bool(requests))
        self._stats = stats
        self._requests = requests or ()
        self._provider_mapping = provider_mapping

    def _make_reach(self) -> reach.DeviceReach:
        return reach.DeviceReach(
            [reach.DevicePool(pool.get('numa_node'), pool['count'])
             for pool in self._stats.pools],
            self._asked, self._sockets)

    def _can_serve(self, cell_ids: tuple[int, ...]) -> bool:
        """What nova's function says, if that hands out all devices.

        Where Placement chose them, nova looks for enough free devices with
        all of their providers together, and takes from those in reach what
        was chosen of each: too few, if others are out of reach.

        It is asked for a copy of the stats that is not as deep as the one
        that nova makes.
        """
        stats = copy.copy(self._light_stats)
        free = _total(stats.pools)
        stats.pools = [pool.copy() for pool in stats.pools]
        # Nova reads nothing of the guest's cells but the host cells' ids.
        cells = [types.SimpleNamespace(id=cell_id) for cell_id in cell_ids]
        try:
            stats.apply_requests(
                self._requests, self._provider_mapping, cells)
        except exception.PciDeviceRequestFailed:
            return False
        wanted = sum([request.count for request in self._requests])
        if free - _total(stats.pools) == wanted and self._is_claimed(cells):
            return True
        self.short.add(cell_ids)
        return False

    def _is_claimed(self, cells: Sequence[Any]) -> bool:
        """Whether the claim gives as many as nova-scheduler counts.

        Only the claim minds that a physical function takes its virtual ones,
        and the reverse. Placement counts one or the other.
        """
        if len(self._requests) < 2 or not any(self._dependents.values()):
            return True
        stats = _Claimed.__new__(_Claimed)
        stats.pools = [pool.copy() for pool in self._light_stats.pools]
        stats.numa_topology = self._light_stats.numa_topology
        try:
            return bool(stats.consume_requests(self._requests, cells))
        except exception.PciDeviceRequestFailed:
            return False

    @functools.cached_property
    def _dependents(self) -> dict[int, list[int]]:
        """The places of pools that are gone once one is used, by its."""
        pools = self._stats.pools
        return {place: [other for other, its in enumerate(pools)
                        if _takes(pool, its)]
                for place, pool in enumerate(pools)
                if pool.get('dev_type', 'type-PCI') != 'type-PCI'}

    @functools.cached_property
    def _asked(self) -> list[reach.DeviceRequest]:
        """The requests with the pools that nova finds for each alone."""
        places = {id(pool): index
                  for index, pool in enumerate(self._stats.pools)}

        def places_of(pools: Sequence[Any]) -> frozenset[int]:
            return frozenset([places[id(pool)] for pool in pools])

        device_requests = []
        for request in self._requests:
            matching = self._stats._filter_pools_for_spec(
                self._stats.pools, request)
            rp_uuids = _rp_uuids(request, self._provider_mapping)
            allotted = collections.Counter(rp_uuids)
            # Of a request for no devices nova leaves out no pool for the
            # sum of all.
            usable = self._stats._filter_pools(
                matching, objects.InstancePCIRequest(
                    count=0, spec=request.spec), None, rp_uuids)
            bearing = places_of(matching)
            device_requests.append(reach.DeviceRequest(
                f'alias "{request.alias_name}"' if request.alias_name
                else 'ports',
                request.count, _policy(request),
                bearing.union(
                    self._split if rp_uuids else (),
                    *[self._dependents.get(place, ()) for place in bearing]),
                places_of(usable),
                {places[id(pool)]: allotted[pool['rp_uuid']]
                 for pool in usable} if rp_uuids else None))
        return device_requests

    @functools.cached_property
    def _split(self) -> frozenset[int]:
        """Pools that share a resource provider.

        As long as there are such, whatever they hold, nova meets no request
        with an allotment in Placement.
        """
        providers = [pool.get('rp_uuid') for pool in self._stats.pools]
        often = collections.Counter(providers)
        return frozenset([
            index for index, provider in enumerate(providers)
            if provider is not None and often[provider] > 1])

    @functools.cached_property
    def _sockets(self) -> dict[int, int | None]:
        """The sockets of the host's cells, if a request minds them."""
        if 'socket' not in map(_policy, self._requests):
            return {}
        topology = self._stats.numa_topology
        return {cell.id: cell.socket if 'socket' in cell else None
                for cell in (topology.cells if topology else ())}

    @functools.cached_property
    def _light_stats(self) -> Any:
        """The stats without what does not bear on nova's answer.

        Nova looks through all pools for each request, and of the host's NUMA
        topology it needs the sockets only.
        """
        stats = copy.copy(self._stats)
        stats.dev_filter = None
        stats.numa_topology = types.SimpleNamespace(cells=[
            types.SimpleNamespace(id=cell_id, socket=socket)
            for cell_id, socket in self._sockets.items()])
        needed = frozenset().union(
            *[request.matching for request in self._asked])
        stats.pools = [self._stats.pools[index] for index in sorted(needed)]
        return stats


class _Claimed(nova_stats.PciDeviceStats):
    """A host's devices as nova-compute has them, without the devices."""

    pools: list[Any]

    def add_device(self, dev: Any) -> None:
        """Take nothing back of what is no use."""

    def _allocate_devs(self, pool: Any, num: int, request_id: str) -> Any:
        self.pools = [other for other in self.pools
                      if not num or not _takes(pool, other)]
        return [pool] * num


def _takes(pool: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether devices of another pool are gone once one is taken."""
    return (pool.get('address') == other.get('address') is not None
            and (pool.get('dev_type') == 'type-PF')
            is not (other.get('dev_type') == 'type-PF'))


def _policy(request: Any) -> str:
    policy = request.numa_policy if 'numa_policy' in request else None
    return policy or 'legacy'


def _total(pools: Sequence[Mapping[str, Any]]) -> int:
    return sum([pool['count'] for pool in pools])


def allotment(
    requests: Sequence[Any] | None,
    provider_mapping: dict[str, list[str]] | None,
) -> Hashable:
    """Equal for allocation candidates that are alike to nova's PCI code.

    That is, from each resource provider they have as many devices for each
    request.

    :param requests: nova.objects.InstancePCIRequest, none or several
    :param provider_mapping: a candidate's, by request group
    """
    return tuple([tuple(sorted(_rp_uuids(request, provider_mapping)))
                  for request in requests or ()])


def _rp_uuids(
    request: Any, provider_mapping: dict[str, list[str]] | None,
) -> list[str]:
    """The resource provider of each device that Placement has allotted."""
    # A method that makes no use of its object.
    uuids: list[str] = nova_stats.PciDeviceStats._get_rp_uuids_for_request(
        None, provider_mapping, request)
    return uuids


def demands(
    requests: Sequence[Any] | None,
) -> tuple[fit.DeviceDemand, ...]:
    """What an instance asks for, like requests together.

    :param requests: nova.objects.InstancePCIRequest, none or several
    """
    return tuple([
        fit.DeviceDemand(
            tuple([tuple(sorted(spec.items())) for spec in request.spec]),
            request.count, _policy(request))
        for request in requests or ()])


def free_for(
    pools: Sequence[Mapping[str, Any]], demand: fit.DeviceDemand,
) -> list[tuple[int | None, int]]:
    """NUMA node and count of each pool that nova takes for a demand.

    Whatever Placement may say of it: pools do not tell their resource
    classes and traits.

    :param pools: of a nova.pci.stats.PciDeviceStats
    """
    return [
        (pool.get('numa_node'), pool['count']) for pool in pools
        if _is_wanted(demand.wish, tuple([
            pair for pair in pool.items() if pair[0] not in _OF_POOL]))]


@functools.lru_cache(maxsize=4096)
def _is_wanted(wish: Any, pool: Any) -> bool:
    """Whether nova takes devices with such keys for a wish."""
    nova = nova_stats.PciDeviceStats.__new__(nova_stats.PciDeviceStats)
    return bool(nova._filter_pools(
        [{**dict(pool), 'count': 1}], objects.InstancePCIRequest(
            count=1, spec=list(map(dict, wish))), None, []))


def pools_without(
    stats: Any,
    pools: Sequence[Mapping[str, Any]],
    requests: Sequence[Any],
    provider_mapping: dict[str, list[str]] | None,
    cell_ids: Sequence[int],
) -> Any:
    """A host's devices without those that a guest takes.

    :param stats: the host's nova.pci.stats.PciDeviceStats; not changed
    :param pools: what was free before, copied from ``stats.pools``
    :param requests: nova.objects.InstancePCIRequest
    :param cell_ids: of the host cells that the guest goes to
    :returns: nova.pci.stats.PciDeviceStats; with nothing free if nova finds
        none for the guest after all
    """
    left = copy.copy(stats)
    left.pools = [dict(pool) for pool in pools]
    try:
        left.apply_requests(
            requests, provider_mapping,
            [types.SimpleNamespace(id=cell_id) for cell_id in cell_ids])
    except exception.PciDeviceRequestFailed:
        left.pools = []
    return left
