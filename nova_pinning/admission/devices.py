# SPDX-License-Identifier: Apache-2.0
"""The PCI devices of a host, and which of them nova gives to a guest.

The rules are those of nova.pci.stats.PciDeviceStats: requests are met one
after the other, each from the first pools that its affinity policy and its
allocation in Placement allow. What of a pool is not known is taken to be as a
request wants it; ``gaps.of_devices`` tells when that matters.
"""

import collections
from collections.abc import Collection
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
import dataclasses
import functools
from typing import NamedTuple
from typing import TypeAlias

from nova_pinning.admission import written_forms
from nova_pinning.document import terms
from nova_pinning.fit import reach
from nova_pinning import model
from nova_pinning.model import flag

#: Keys with their values, sorted: what stands for a mapping in a hashable.
Pairs: TypeAlias = written_forms.DeviceKeys
#: What a request asks of a device; None for a key that it must not have.
PciSpec: TypeAlias = tuple[tuple[str, str | None], ...]

#: nova.objects.fields.PciDeviceType
STANDARD, PHYSICAL, VIRTUAL = 'type-PCI', 'type-PF', 'type-VF'
_PF = 'dev_type', PHYSICAL
_VDPA = 'dev_type', 'vdpa'
_VIRTUAL = ('dev_type', VIRTUAL), _VDPA
_REMOTE_MANAGED = 'remote_managed'
# PciDeviceStats.ignored_spec_tags: they are for Placement to meet.
_OF_PLACEMENT = frozenset(('resource_class', 'traits', 'rp_uuids'))
_NOTHING: Mapping[str, int] = {}


def device_keys(vendor_id: str, product_id: str, dev_type: str = STANDARD,
                **tags: str) -> Pairs:
    """The keys of a pool, or what a request asks for by them.

    :param vendor_id: four hexadecimal digits, as product_id
    :param dev_type: '' if it is not known, or any will do
    """
    return tuple(sorted({
        'vendor_id': vendor_id, 'product_id': product_id, **tags,
        **({'dev_type': dev_type} if dev_type else {})}.items()))


def kind(keys: PciSpec) -> str:
    """Vendor and product, '10de:20b5', with '?' for what is not told."""
    return ':'.join(dict(keys).get(key) or '?'
                    for key in ('vendor_id', 'product_id'))


class PciPool(NamedTuple):
    """Devices of a host between which nova makes no difference.

    :param keys: as nova has them of a pool: vendor_id, product_id, dev_type,
        the tags of [pci] device_spec. ``address`` is that of the physical
        function for itself and for its virtual ones, and stands only where
        that tells pools apart: a function that is taken takes the others, or
        nova has others between pools that are alike.
    :param numa_node: id of the host cell, None if it belongs to none
    :param total: devices that nova may pass through, used ones included
    :param provider: index in ``OfferedHost.providers`` of the one by which
        Placement counts them, None if it does not
    :param is_complete: whether nova has no other keys of it
    :param claim_rank: nova-compute comes to pools of a lower one first; 0 of
        all where its order is nova-scheduler's, which is that of the pools
    """

    keys: Pairs
    numa_node: terms.Node | None
    total: terms.Amount
    provider: terms.Amount | None = None
    is_complete: bool = True
    claim_rank: terms.Amount = 0

    @property
    def kind(self) -> str:
        return kind(self.keys)


@dataclasses.dataclass(frozen=True, slots=True)
class PciUse:
    """The devices that a guest has of the pool with these keys."""

    keys: Pairs
    numa_node: terms.Node | None
    count: terms.Amount

    @property
    def kind(self) -> str:
        return kind(self.keys)


@dataclasses.dataclass(frozen=True, slots=True)
class PciRequest:
    """What a guest asks for by one PCI alias (nova's InstancePCIRequest).

    :param alias: '' of a Neutron port
    :param specs: of which any will do
    :param policy: 'legacy', 'preferred', 'required' or 'socket'
    :param groups: suffixes of the request groups by which Placement meets
        it, one for each device; () if it does not
    """

    alias: str
    specs: tuple[PciSpec, ...]
    count: int
    policy: str = 'legacy'
    groups: tuple[str, ...] = ()

    def wants(self, pool: PciPool) -> bool:
        """Whether a pool is what it asks for, as far as that is known."""
        return any(_meets(pool, spec) for spec in self.specs)

    def bearing(self, pool: PciPool) -> set[str]:
        """Keys of a pool that tell whether it gets devices of it."""
        keys = {'dev_type', *(key for spec in self.specs for key, _ in spec)}
        if ('dev_type', STANDARD) not in pool.keys:
            keys.add(_REMOTE_MANAGED)
        return keys - _OF_PLACEMENT

    def may_have(self, pool: PciPool) -> bool:
        """Whether it gets devices of a pool, wherever they are."""
        return self.wants(pool) and self.may_use(pool)

    def may_use(self, pool: PciPool) -> bool:
        """Whether it gets devices of a pool that it wants.

        Physical functions, VDPA and remotely managed devices are for those
        who ask for them, see
        nova.pci.stats.PciDeviceStats._filter_pools_for_unrequested_pfs and
        those after it. live_migratable takes no more than :meth:`wants`.
        """
        return (all(key not in pool.keys or any(
                        key in spec for spec in self.specs)
                    for key in (_PF, _VDPA))
                and (not _is_remote_managed(pool.keys)
                     or any(map(_is_remote_managed, self.specs))))


def check(
    pools: Sequence[PciPool],
    uses: Iterable[PciUse],
    requests: Sequence[PciRequest],
    cells: Iterable[model.CellView],
    providers: Mapping[str, int] = _NOTHING,
) -> reach.DeviceCheck:
    """What ``fit.fit`` takes to mind a host's devices.

    :param pools: the host's, in nova-scheduler's order
    :param uses: what guests have of them
    :param requests: what the guest asks for; () for none
    :param cells: the host's cells
    :param providers: that meet the request groups in Placement, by suffix
    """
    return _PoolCheck(pools, uses, requests, cells, providers)


def take(
    pools: Sequence[PciPool],
    uses: Iterable[PciUse],
    requests: Sequence[PciRequest],
    cell_ids: Iterable[int],
    cells: Iterable[model.CellView],
    providers: Mapping[str, int] = _NOTHING,
) -> tuple[PciUse, ...] | None:
    """The devices that nova would give to a guest.

    :param cell_ids: host cells that the guest lies in; none for a guest
        without NUMA topology, which gets devices from anywhere
    :param providers: as :func:`check` takes them
    :returns: None if these cells cannot have what it asks for
    """
    return _PoolCheck(pools, uses, requests, cells, providers).taken(
        tuple(cell_ids))


def taken_places(
    pools: Sequence[PciPool],
    uses: Iterable[PciUse],
    requests: Sequence[PciRequest],
    cell_ids: Iterable[int],
    cells: Iterable[model.CellView],
) -> Mapping[int, int] | None:
    """The same by the places of the pools, whatever Placement chooses."""
    return _PoolCheck(pools, uses, requests, cells, _NOTHING).places(
        tuple(cell_ids))


def free(pools: Sequence[PciPool],
         uses: Iterable[PciUse]) -> tuple[PciPool, ...]:
    """The pools with what is free of each for a total, if anything is.

    Devices in use that no pool has are left out.
    """
    return tuple(pools[index]._replace(total=count)
                 for index, count in left(pools, uses).items() if count > 0)


def left(pools: Sequence[PciPool], uses: Iterable[PciUse]) -> dict[int, int]:
    """What is free of each pool, by its place.

    Left out are functions that went with others that guests have.
    """
    return _left(pools, uses, _dependents(pools))


class _AskedDevices(NamedTuple):
    """A request as a host's pools answer it.

    :param matching: places of the pools that it wants, in order
    :param usable: of those that it may use
    :param allotted: how many devices Placement chose of each provider
    """

    request: PciRequest
    matching: tuple[int, ...]
    usable: frozenset[int]
    allotted: Mapping[int | None, int]

    def gets(self, pool: PciPool, left: int) -> bool:
        """Whether Placement lets it have devices of a pool that it may use."""
        if not self.allotted:
            return True
        return 0 < self.allotted.get(pool.provider, 0) <= left


class _PoolCheck(reach.DeviceCheck):
    """A ``fit.PciCheck`` over pools; they are known by their places."""

    def __init__(self, pools: Sequence[PciPool], uses: Iterable[PciUse],
                 requests: Sequence[PciRequest],
                 cells: Iterable[model.CellView],
                 providers: Mapping[str, int]) -> None:
        self._pools = pools
        self._dependents = _dependents(pools)
        self._left = _left(pools, uses, self._dependents)
        self._claim_differs = bool(self._dependents) or any(
            [pool.claim_rank for pool in pools])
        super().__init__([(pools[place].numa_node, count)
                          for place, count in self._left.items()],
                         bool(requests))
        self._requests = requests
        self._cells = cells
        self._providers = providers

    def taken(self, cell_ids: Collection[int]) -> tuple[PciUse, ...] | None:
        """What the guest gets near these cells, None if that is too little."""
        counts = self.places(cell_ids)
        if counts is None:
            return None
        used: dict[tuple[Pairs, int | None], int] = {}
        for place, count in counts.items():
            key = self._pools[place].keys, self._pools[place].numa_node
            used[key] = used.get(key, 0) + count
        return tuple([PciUse(keys, numa_node, count)
                      for (keys, numa_node), count in used.items()])

    def places(self, cell_ids: Collection[int]) -> dict[int, int] | None:
        """The same by place.

        nova-scheduler counts the devices of each pool for itself. Only
        nova-compute minds which functions go with which, and may have its
        pools in another order; then it may come to other pools.
        """
        counts = self._counts_taken(cell_ids)
        if counts is not None and self._claim_differs:
            counts = self._counts_taken(cell_ids, is_claim=True)
        if counts is None or sum(counts.values()) != sum(
                [request.count for request in self._requests]):
            return None
        return counts

    def _can_serve(self, cell_ids: tuple[int, ...]) -> bool:
        if self.taken(cell_ids) is not None:
            return True
        if self._counts_taken(cell_ids) is not None:
            self.short.add(cell_ids)
        return False

    def _make_reach(self) -> reach.DeviceReach:
        requests = []
        for asked in self._asked:
            request, matching, usable, allotted = asked
            bearing = {place for place in matching if self._left[place]}
            for place in tuple(bearing):
                bearing.update(self._dependents.get(place, ()))
            if allotted:
                bearing |= self._split(self._left)
            places = [place for place in usable if self._left[place]
                      and asked.gets(self._pools[place], self._left[place])]
            requests.append(reach.DeviceRequest(
                f'alias "{request.alias}"' if request.alias else 'ports',
                request.count, request.policy or 'legacy',
                frozenset(bearing), frozenset(places),
                {place: allotted[self._pools[place].provider]
                 for place in places} if allotted else None))
        return reach.DeviceReach([
            reach.DevicePool(pool.numa_node, self._left.get(place, 0))
            for place, pool in enumerate(self._pools)],
            requests, self._sockets)

    @functools.cached_property
    def _sockets(self) -> dict[int, int | None]:
        """The socket of each cell, by the cell's id."""
        return {cell.id: getattr(cell, 'socket', None)
                for cell in self._cells}

    @functools.cached_property
    def _asked(self) -> list[_AskedDevices]:
        asked = []
        for request in self._requests:
            matching = tuple([place for place in self._left
                              if request.wants(self._pools[place])])
            asked.append(_AskedDevices(
                request, matching,
                frozenset([place for place in matching
                           if request.may_use(self._pools[place])]),
                collections.Counter([
                    self._providers[suffix] for suffix in request.groups
                    if suffix in self._providers])))
        return asked

    def _counts_taken(
        self, cell_ids: Collection[int], is_claim: bool = False,
    ) -> dict[int, int] | None:
        """How many devices of which pools nova takes; None if it refuses.

        Of what Placement chose nova takes what is in reach, be it too few.

        :param is_claim: as nova.pci.stats.PciDeviceStats.consume_requests
            does it, else as apply_requests, which has allowed it
        """
        left = dict(self._left)
        counts: dict[int, int] = {}
        for asked in self._asked:
            request, allotted = asked.request, asked.allotted
            usable = [
                place for place in self._in_reach(
                    left, asked, cell_ids, is_claim)
                if place in asked.usable
                and asked.gets(self._pools[place], left[place])]
            if not usable or _total(left, usable) < request.count:
                return None
            if allotted and self._split(usable if is_claim else left):
                return None
            missing = request.count
            for place in usable:
                if place not in left:
                    return None
                count = (allotted[self._pools[place].provider] if allotted
                         else min(missing, left[place]))
                if count:
                    counts[place] = counts.get(place, 0) + count
                left[place] -= count
                missing -= count
                if is_claim:
                    _displace(left, self._dependents.get(place, ()), count)
                elif not left[place]:
                    del left[place]
                if not missing and not allotted:
                    break
        return counts

    def _in_reach(self, left: Mapping[int, int], asked: _AskedDevices,
                  cell_ids: Collection[int], is_claim: bool) -> list[int]:
        """The pools that a request may be met from, in the order of their use.

        See nova.pci.stats.PciDeviceStats._filter_pools_for_numa_cells:
        devices near the guest's cells if there are enough of them; if not,
        what the policy allows besides.
        """
        request, pools = asked.request, self._pools
        matching = [place for place in asked.matching if place in left]
        if is_claim:
            matching.sort(key=lambda place: pools[place].claim_rank)
        if not cell_ids:
            return matching
        near = [place for place in matching
                if pools[place].numa_node in cell_ids]
        if (request.policy == 'required'
                or _total(left, near) >= request.count):
            return near
        if request.policy == 'socket':
            nodes = {node for cell_id in cell_ids
                     for node in self._reach.area(cell_id)}
            return [place for place in matching
                    if pools[place].numa_node in nodes]
        allowed = {*cell_ids, None}
        somewhere = [place for place in matching
                     if pools[place].numa_node in allowed]
        if (request.policy != 'preferred'
                or _total(left, somewhere) >= request.count):
            return somewhere
        return sorted(matching,
                      key=lambda place: pools[place].numa_node not in allowed)

    def _split(self, places: Iterable[int]) -> frozenset[int]:
        """Those of the pools that share a provider.

        See nova.pci.stats.PciDeviceStats._assert_one_pool_per_rp_uuid: with
        such nova meets no request that Placement has met.
        """
        provider_of = {place: self._pools[place].provider for place in places}
        pools_of = collections.Counter(provider_of.values())
        return frozenset([
            place for place, provider in provider_of.items()
            if provider is not None and pools_of[provider] > 1])


def _total(left: Mapping[int, int], places: Iterable[int]) -> int:
    return sum([left[place] for place in places])


def _displace(left: dict[int, int], places: Iterable[int],
              count: int) -> None:
    """Take away what nova gives to nobody beside so many devices."""
    if count:
        for place in places:
            left.pop(place, None)


def _left(pools: Sequence[PciPool], uses: Iterable[PciUse],
          dependents: Mapping[int, tuple[int, ...]]) -> dict[int, int]:
    """What is free of each pool, by its place."""
    left = {place: pool.total for place, pool in enumerate(pools)}
    for use in uses:
        count = use.count
        for place, pool in enumerate(pools):
            if (count and pool.numa_node == use.numa_node
                    and pool.keys == use.keys):
                taken = min(count, left.get(place, 0))
                if taken:
                    left[place] -= taken
                    count -= taken
                _displace(left, dependents.get(place, ()), taken)
    return left


def _dependents(pools: Sequence[PciPool]) -> dict[int, tuple[int, ...]]:
    """The places of pools that go with that at a place, where any do.

    Those of a physical function are its virtual ones, theirs is that, see
    nova.pci.stats.PciDeviceStats._handle_device_dependents.
    """
    by_address: dict[str, list[int]] = {}
    for place, pool in enumerate(pools):
        for key, value in pool.keys:
            if key == 'address':
                by_address.setdefault(value, []).append(place)
    found = {}
    for places in by_address.values():
        physical = tuple([place for place in places
                          if _PF in pools[place].keys])
        virtual = tuple([place for place in places if any(
            key in pools[place].keys for key in _VIRTUAL)])
        if physical and virtual:
            found.update(dict.fromkeys(physical, virtual))
            found.update(dict.fromkeys(virtual, physical))
    return found


def _meets(pool: PciPool, spec: PciSpec) -> bool:
    """See nova.pci.utils.pci_device_prop_match, which minds no case."""
    for key, wanted in spec:
        if (key, wanted) in pool.keys or key in _OF_PLACEMENT:
            continue
        has = next((value for name, value in pool.keys if name == key), None)
        if has is None:
            if wanted is not None and pool.is_complete:
                return False
        elif wanted is None or has.lower() != wanted.lower():
            return False
    return True


def _is_remote_managed(keys: PciSpec) -> bool:
    return any(key == _REMOTE_MANAGED and flag.parse(value or '') is True
               for key, value in keys)
