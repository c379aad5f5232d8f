# SPDX-License-Identifier: Apache-2.0
"""Generated fleets, for demonstrations, tests and studies.

Guests come and go until the hosts are as full as is asked for, and then for a
while longer, so that what is free is in pieces as it is on real hosts. Where
each lies the engine says. The same arguments give the same fleet on any
machine.
"""

import collections
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Sequence
import contextlib
import dataclasses
import itertools
import random
import uuid

from nova_pinning.admission import devices
from nova_pinning.admission import host_occupancy
from nova_pinning.admission import offered_host
from nova_pinning.admission import pci_alias
from nova_pinning.admission import resident_guest
from nova_pinning.admission import scheduler_rules
from nova_pinning import errors
from nova_pinning import fit
from nova_pinning.flavors import flavor_model
from nova_pinning.fleet import shapes
from nova_pinning.fleet import snapshot
from nova_pinning.host import device_offer
from nova_pinning.host import host_model
from nova_pinning.host import host_offer
from nova_pinning.host.plan import plan_request
from nova_pinning.host import plan_model
from nova_pinning import model
from nova_pinning.model import hostclass
from nova_pinning.placement import inventory
from nova_pinning.placement import placement_traits

#: Of what there is to sell, how much guests have.
FILLED = 0.8
#: How often guests are replaced by others, on average.
CHURN = 2.0
_SHARED_RATIO = 4.0
_SHARED_MIX = '1:40,2:30,4:20,8:10'
_SHARED_MIB_PER_VCPU = 2048
# Hosts that are tried for one guest, and guests in a row that none takes
# before the fleet is taken to be full, at first and for a guest that left.
_TRIES = 8
_REFUSALS = 200
_FEW_REFUSALS = 4
# Guests between two words about how far it is.
_TOLD = 256


@dataclasses.dataclass(frozen=True, slots=True)
class _Sold:
    """A flavor, and what guests of it ask for.

    :param topology: None for floating guests
    """

    flavor: flavor_model.Flavor
    weight: int
    topology: model.Guest | None = None
    requests: tuple[devices.PciRequest, ...] = ()


def generate_fleet(
    hosts: int, shape: str | shapes.HostTemplate, seed: int = 0, *,
    filled: float = FILLED, mix: str = '', shared: float = 0.0,
    churn: float = CHURN,
    tell: Callable[[float], None] = lambda part: None,
) -> snapshot.Fleet:
    """A fleet of hosts of one shape, with guests on them.

    :param shape: or the name of one in ``shapes.SHAPES``
    :param filled: how much guests have in the end of the CPUs of dedicated
        hosts and of the memory of shared ones, from 0 to 1; less if no more
        fits
    :param mix: the sizes of dedicated guests, as ``host plan --for`` takes
        them; '' for those of the shape
    :param shared: which part of the hosts is for shared guests, from 0 to 1
    :param churn: how often guests are replaced by others, on average
    :param tell: told how much is done, from 0 to 1
    :raises errors.InputError: for a shape that is not known, or a mix that
        is none, or has a size that goes on no such host
    """
    kind = _shape(shape) if isinstance(shape, str) else shape
    sizes = plan_request.parse_sizes(mix or kind.mix, errors.Location('--mix'))
    shared_count = round(hosts * shared)
    made = (*_hosts(kind, hostclass.HostClass.DEDICATED,
                    hosts - shared_count),
            *_hosts(kind, hostclass.HostClass.SHARED, shared_count))
    dedicated, others = made[:hosts - shared_count], made[-shared_count:]
    sold = list(itertools.chain.from_iterable(
        _dedicated(size, kind) for size in sizes))
    guests: list[resident_guest.ResidentGuest] = []
    if dedicated:
        _check(dedicated[0], kind, sizes)
        cpus = sum(len(host.dedicated_cpus) for host in dedicated)
        guests += _Filler(dedicated, sold, f'{seed} dedicated', tell).fill(
            cpus * filled, churn)
    if shared_count:
        floating = list(_floating())
        vcpus = sum(host.memory_mib for host in others) // (
            _SHARED_MIB_PER_VCPU)
        guests += _Filler(others, floating, f'{seed} shared', tell).fill(
            vcpus * filled, churn)
        sold += floating
    return snapshot.Fleet(
        hosts=made, guests=tuple(guests),
        flavors=tuple(sold_flavor.flavor for sold_flavor in sold),
        aggregates=tuple(
            offered_host.Aggregate(name, metadata={
                flavor_model.CLASS_KEY: name})
            for name in sorted({host.aggregates[0] for host in made})),
        pci_aliases={device.alias: pci_alias.PciAlias((device.keys,))
                     for device in kind.cell_devices},
        source=f'generated: {hosts:,} hosts of shape {kind.name}, seed '
               f'{seed}, {filled:.0%} filled')


def empty_fleet(
    description: host_model.HostDescription, hosts: int,
) -> snapshot.Fleet:
    """A fleet of hosts like a described one, with no guests on them."""
    like = host_offer.offered(description)
    host_class = None
    with contextlib.suppress(hostclass.UnknownClass):
        host_class = placement_traits.host_class(
            (), placement_traits.classes_of(description.traits), like.cells)
    names = [f'{description.name}-{number:05}'
             for number in range(1, hosts + 1)]
    return snapshot.Fleet(
        hosts=tuple(dataclasses.replace(
            like, name=name, host_class=host_class,
            # Nova has the host's name in theirs.
            children=tuple(dataclasses.replace(
                child, name=child.name.replace(like.name, name, 1))
                for child in like.children)) for name in names),
        rules=scheduler_rules.SchedulerRules(
            pci_in_placement=device_offer.is_in_placement(description)),
        pci_aliases=device_offer.aliases(description),
        source=f'generated: {hosts:,} hosts like {description.name}')


def filled(
    fleet: snapshot.Fleet,
) -> dict[hostclass.HostClass, float]:
    """How much is sold of each class, as :func:`generate` counts it."""
    there_is: dict[hostclass.HostClass, int] = collections.Counter()
    sold: dict[hostclass.HostClass, int] = collections.Counter()
    for host in fleet.hosts:
        if host.host_class is hostclass.HostClass.DEDICATED:
            there_is[host.host_class] += len(host.dedicated_cpus)
        elif host.host_class is hostclass.HostClass.SHARED:
            there_is[host.host_class] += host.memory_mib
    for guest in fleet.guests:
        sold[guest.guest_class] += (
            guest.vcpus
            if guest.guest_class is hostclass.HostClass.DEDICATED
            else guest.memory_mib)
    return {resource: sold[resource] / whole
            for resource, whole in there_is.items() if whole}


def _check(host: offered_host.OfferedHost, kind: shapes.HostTemplate,
           sizes: Iterable[plan_model.GuestSize]) -> None:
    """
    :raises errors.InputError: for a size that no empty host takes
    """
    for size in sizes:
        plain = next(_dedicated(size, kind))
        if _place(host_occupancy.of_host(host), plain) is None:
            raise errors.InputError(
                f'no host of shape {kind.name} has room for a guest of '
                f'{size.vcpus:,} vCPUs in {size.cells or 1} '
                f'{"cell" if (size.cells or 1) == 1 else "cells"}',
                errors.Location('--mix'),
                f'a host has {len(host.cells)} cells of '
                f'{len(host.cells[0].dedicated_cpus)} dedicated CPUs')


def _shape(name: str) -> shapes.HostTemplate:
    if name not in shapes.SHAPES:
        raise errors.InputError(
            f'there is no shape {name!r}', errors.Location('--shape'),
            f'choose from {", ".join(shapes.SHAPES)}')
    return shapes.SHAPES[name]


def _hosts(kind: shapes.HostTemplate, host_class: hostclass.HostClass,
           count: int) -> Iterator[offered_host.OfferedHost]:
    is_shared = host_class is hostclass.HostClass.SHARED
    cells, l3_domains = kind.cells(is_shared), kind.l3_domains()
    own = {placement_traits.TRAIT_OF[host_class],
           placement_traits.l3_trait(max(map(len, l3_domains)))}
    if kind.threads > 1:
        own.add('HW_CPU_HYPERTHREADING')
    for number in range(1, count + 1):
        yield offered_host.OfferedHost(
            name=f'{host_class}-{number:05}', cells=cells,
            l3_domains=l3_domains, host_class=host_class,
            traits=frozenset(own), aggregates=(str(host_class),),
            pci_pools=() if is_shared else kind.pci_pools(),
            cpu_allocation_ratio=_SHARED_RATIO if is_shared else 1.0)


def _dedicated(size: plan_model.GuestSize,
               kind: shapes.HostTemplate) -> Iterator[_Sold]:
    """The flavors of a size: the plain one, and one with each device."""
    cells = size.cells or 1
    vcpus = size.vcpus // cells
    memory_mib = vcpus * kind.memory_per_vcpu_mib
    page_size_kib = kind.page_size_kib or None
    extra_specs = {
        'hw:cpu_policy': 'dedicated',
        flavor_model.CLASS_KEY: str(hostclass.HostClass.DEDICATED),
        f'trait:{placement_traits.DEDICATED}': 'required'}
    if cells > 1:
        extra_specs['hw:numa_nodes'] = str(cells)
    if page_size_kib:
        extra_specs['hw:mem_page_size'] = str(page_size_kib)
    flavor = flavor_model.Flavor(
        name=f'dedicated-{size.vcpus}' + (f'x{cells}' if cells > 1 else ''),
        vcpus=size.vcpus, memory_mib=memory_mib * cells,
        extra_specs=extra_specs)
    topology = model.Guest(tuple(
        model.GuestCell(tuple(range(number * vcpus, (number + 1) * vcpus)),
                        (), memory_mib, page_size_kib)
        for number in range(cells)), model.CpuPolicy.DEDICATED)
    plain = 100 - sum(device.share for device in kind.cell_devices)
    yield _Sold(flavor, size.weight * plain, topology)
    for device in kind.cell_devices:
        yield _Sold(
            dataclasses.replace(
                flavor, name=f'{flavor.name}-{device.alias}', extra_specs={
                    **extra_specs,
                    'pci_passthrough:alias': f'{device.alias}:1'}),
            size.weight * device.share, topology,
            (devices.PciRequest(device.alias, (device.keys,), 1),))


def _floating() -> Iterator[_Sold]:
    """The flavors of shared guests."""
    for size in plan_request.parse_sizes(_SHARED_MIX, errors.Location('')):
        yield _Sold(flavor_model.Flavor(
            name=f'shared-{size.vcpus}', vcpus=size.vcpus,
            memory_mib=size.vcpus * _SHARED_MIB_PER_VCPU, extra_specs={
                flavor_model.CLASS_KEY: str(hostclass.HostClass.SHARED),
                f'trait:{placement_traits.SHARED}': 'required'}), size.weight)


def _place(
    occupancy: host_occupancy.HostOccupancy, sold: _Sold,
) -> tuple[model.Fit | None, tuple[devices.PciUse, ...]] | None:
    """Where a guest would lie on a host; None if there is no room."""
    host = occupancy.host
    if sold.topology is None:
        used_mib = occupancy.resources_used[inventory.MEMORY_MB]
        return None if (used_mib + sold.flavor.memory_mib
                        > host.memory_mib) else (None, ())
    pools, cells, uses = host.pci_pools, host.cells, occupancy.device_uses
    outcome = fit.fit_guest(
        occupancy.engine, sold.topology,
        pci=devices.check(pools, uses, sold.requests, cells))
    if isinstance(outcome, model.Refusal):
        return None
    return outcome, devices.take(
        pools, uses, sold.requests,
        [cell.host_cell for cell in outcome.cells], cells) or ()


class _Filler:
    """Has guests come and go on hosts of one class.

    :param seed: of what is random
    :param tell: told how much is done, from 0 to 1
    """

    def __init__(self, hosts: Sequence[offered_host.OfferedHost],
                 sold: Sequence[_Sold], seed: str,
                 tell: Callable[[float], None]) -> None:
        self._random = random.Random(seed)
        self._places = list(map(host_occupancy.of_host, hosts))
        self._sold = sold
        self._weights = list(itertools.accumulate(
            sold_flavor.weight for sold_flavor in sold))
        self._tell = tell
        self._guests: list[tuple[int, resident_guest.ResidentGuest]] = []
        self._vcpus = 0
        self._come = 0

    def fill(self, vcpus: float,
             churn: float) -> tuple[resident_guest.ResidentGuest, ...]:
        """The guests that are there in the end, by host.

        :param vcpus: to be sold
        """
        self._grow(vcpus, _REFUSALS,
                   lambda: self._vcpus / vcpus / (churn + 1))
        first = len(self._guests)
        leave = int(first * churn)
        for gone in range(leave):
            self._leave()
            self._grow(vcpus, _FEW_REFUSALS,
                       lambda: (1 + gone / first) / (churn + 1))
        return tuple(guest for _number, guest in sorted(
            self._guests, key=lambda placed: (placed[0], placed[1].name)))

    def _grow(self, vcpus: float, most_refusals: int,
              done: Callable[[], float]) -> None:
        refusals = 0
        while refusals < most_refusals:
            sold = self._draw()
            # What would go beyond the target is not taken.
            if self._vcpus + sold.flavor.vcpus > vcpus:
                return
            refusals = 0 if self._come_one(sold) else refusals + 1
            if not self._come % _TOLD:
                self._tell(min(done(), 1.0))

    def _draw(self) -> _Sold:
        return self._random.choices(
            self._sold, cum_weights=self._weights)[0]

    def _come_one(self, sold: _Sold) -> bool:
        for _try in range(_TRIES):
            number = self._random.choice(range(len(self._places)))
            place = self._places[number]
            taken = _place(place, sold)
            if taken is not None:
                break
        else:
            return False
        self._come += 1
        fit, uses = taken
        flavor = sold.flavor
        guest = resident_guest.ResidentGuest(
            uuid=str(uuid.UUID(int=self._random.getrandbits(128),
                               version=4)),
            name=f'{place.host.host_class}-guest-{self._come:07}',
            host=place.host.name, vcpus=flavor.vcpus,
            memory_mib=flavor.memory_mib,
            guest_class=place.host.host_class
            or hostclass.HostClass.DEDICATED,
            flavor=flavor.name, topology=sold.topology, fit=fit,
            devices=uses)
        self._guests.append((number, guest))
        self._places[number] = place.adding(guest)
        self._vcpus += flavor.vcpus
        return True

    def _leave(self) -> None:
        leaves = self._random.randrange(len(self._guests))
        # The last one takes its place, for which nothing has to be moved.
        self._guests[leaves], self._guests[-1] = (
            self._guests[-1], self._guests[leaves])
        number, guest = self._guests.pop()
        self._places[number] = self._places[number].without(guest)
        self._vcpus -= guest.vcpus
