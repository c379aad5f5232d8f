# SPDX-License-Identifier: Apache-2.0
"""A host's description with a plan, from one without."""

from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
import dataclasses
import functools
import itertools
import operator
from typing import Any

from nova_pinning import errors
from nova_pinning import fit
from nova_pinning.fit import capacity
from nova_pinning.host import host_model
from nova_pinning.host import levers
from nova_pinning.host.plan import allocatable_cores
from nova_pinning.host.plan import cpu_search
from nova_pinning.host.plan import device_groups
from nova_pinning.host.plan import device_warnings
from nova_pinning.host.plan import devices
from nova_pinning.host.plan import explain
from nova_pinning.host.plan import memory
from nova_pinning.host.plan import offer
from nova_pinning.host.plan import plan_request
from nova_pinning.host.plan import plan_warnings
from nova_pinning.host.plan import spreads
from nova_pinning.host import plan_model
from nova_pinning.host import words
from nova_pinning.model import hostclass
from nova_pinning.placement import placement_traits

#: Choices that are looked for: the one to take and those to compare it with.
CHOICES = 4
#: Choices that can be obtained at all, where a host has so many.
MOST_CHOICES = 20
# What to plan for where none of the usual sizes fits.
_SMALLEST = (plan_model.GuestSize(1),)


def plan(description: host_model.HostDescription,
         request: plan_request.PlanOptions) -> host_model.HostDescription:
    """The host as it is to be.

    A plan that it has is dropped, and so are nova's settings for CPUs and
    memory.

    :raises errors.InputError: if what is asked for cannot be had
    """
    pci_devices, used = devices.with_aliases(
        description.pci_devices, request.pci_aliases)
    description = device_groups.with_mdev_types(device_groups.with_groups(
        memory.without_gpu_memory(dataclasses.replace(
            description, pci_devices=pci_devices, plan=None)),
        request.pci_groups), request.mdev_types)
    sizes, priced = _choose(description, request)
    if request.choice > len(priced):
        raise errors.InputError(
            f'there is no choice {request.choice}', errors.Location(
                '--choice'), f'this host has {len(priced)} to compare')
    taken = priced.pop(request.choice - 1)
    shared_out = taken.memory
    interrupts = devices.interrupts(description, taken.choice.host_cpus)
    pulled = levers.chosen(levers.LeverHost(
        taken.choice.host_cpus,
        taken.choice.dedicated_cpus | taken.choice.poll_cpus,
        bool(shared_out.guest_pages),
        request.purpose is not plan_model.Purpose.DEDICATED, request.wake_us),
        request.without_levers)
    planned = plan_model.HostPlan(
        purpose=request.purpose,
        host_cpus=taken.choice.host_cpus,
        poll_cpus=taken.choice.poll_cpus,
        sizes=sizes,
        offer=taken.offer,
        page_size_kib=shared_out.page_size_kib,
        memory_kept_mib=shared_out.kept_mib,
        poll_pages=shared_out.poll_pages,
        interrupts=tuple(interrupt for interrupt, _reason in interrupts),
        levers=pulled,
        reasons=(*explain.reasons(description, request, taken, priced),
                 *device_groups.reasons(description),
                 *explain.interrupt_reasons(interrupts),
                 *explain.lever_reasons(pulled)),
        warnings=(*plan_warnings.warnings(
            description, request, taken, used,
            _spare_cpus(description, request, sizes, taken),
            [interrupt for interrupt, _reason in interrupts]),
            *device_warnings.warnings(description, taken, sizes)),
        alternatives=tuple(
            plan_model.PlanAlternative(
                other.choice.host_cpus, other.choice.poll_cpus,
                other.choice.shared_cpus, other.choice.dedicated_cpus,
                offer=other.offer,
                difference=explain.difference(description, taken, other))
            for other in priced),
        choice=request.choice)
    applied = _applied(
        description, request, taken.choice, shared_out, planned)
    return dataclasses.replace(applied, plan=dataclasses.replace(
        planned, reasons=(
            *planned.reasons, *explain.cache_reasons(applied))))


def _applied(
    description: host_model.HostDescription,
    request: plan_request.PlanOptions,
    choice: plan_model.CpuChoice,
    shared_out: memory.MemoryPlan,
    planned: plan_model.HostPlan,
) -> host_model.HostDescription:
    """The host with nova's settings, huge pages and traits of a plan."""
    pages = {
        node.id: (shared_out.guest_pages.get(node.id, 0)
                  + shared_out.poll_pages.get(node.id, 0))
        for node in description.nodes}
    # A host of both classes is none to the filter, and with both traits no
    # guest would get there.
    host_class = None if request.purpose is plan_model.Purpose.BOTH else (
        hostclass.HostClass(request.purpose.value))
    required, unwanted = placement_traits.class_traits(host_class)
    return dataclasses.replace(
        description,
        nodes=tuple(
            dataclasses.replace(node, huge_pages={
                **dict.fromkeys(node.huge_pages, 0),
                **({shared_out.page_size_kib: pages[node.id]}
                   if pages[node.id] else {})})
            for node in description.nodes),
        nova=host_model.NovaSettings(
            dedicated_cpus=choice.dedicated_cpus or None,
            shared_cpus=choice.shared_cpus or None,
            cpu_allocation_ratio=plan_request.shared_ratio(
                description, request),
            ram_allocation_ratio=description.nova.ram_allocation_ratio,
            reserved_memory_mib=shared_out.reserved_mib,
            reserved_huge_pages={
                (node, shared_out.page_size_kib): count
                for node, count in shared_out.poll_pages.items()},
            packs_cells=description.nova.packs_cells),
        traits=description.traits - unwanted | required,
        plan=planned)


def _choose(
    description: host_model.HostDescription, request: plan_request.PlanOptions,
) -> tuple[tuple[plan_model.GuestSize, ...], list[explain.PricedChoice]]:
    """Choices of CPUs, the best first, and the sizes they are for.

    :raises errors.InputError: if there is none, or a size does not fit
    """
    sizes = _sizes(description, request)
    while True:
        priced = _priced(description, request, sizes)
        missing = [index for index, sale in enumerate(priced[0].offer.sales)
                   if not sale.alone]
        if not missing:
            return sizes, priced
        # It would fit on the bare host: the CPUs that others take count.
        if not request.sizes and sizes != _SMALLEST:
            sizes = tuple(size for index, size in enumerate(sizes)
                          if index not in missing) or _SMALLEST
            continue
        _check_memory(description, priced[0])
        sizes = tuple(
            _in_more_cells(
                description, size, priced[0],
                cells=request.sizes[index].cells if request.sizes else 0)
            if index in missing else size
            for index, size in enumerate(sizes))
        _check_different(sizes)


def _priced(
    description: host_model.HostDescription,
    request: plan_request.PlanOptions,
    sizes: Sequence[plan_model.GuestSize],
    least_count: int = CHOICES, is_rough: bool = False,
) -> list[explain.PricedChoice]:
    """Choices of CPUs, those first that sell most.

    Which nodes have memory for guests depends on where the host's CPUs are.
    So where the best choice leaves none on a node, it is looked for others
    once more, as if that node sold nothing at all.
    """
    ratio = (0.0 if request.purpose is plan_model.Purpose.DEDICATED
             else plan_request.shared_ratio(description, request))
    count = max(least_count, min(request.choice, MOST_CHOICES))
    priced: dict[plan_model.CpuChoice, explain.PricedChoice] = {}
    full: set[int] = set()
    while True:
        for choice in _search(
                description, request,
                allocatable_cores.allocatable_nodes(description, full), sizes,
                count, is_rough):
            if choice not in priced:
                shared_out = memory.share(description, request, choice)
                selling = [node for node, memory_mib
                           in shared_out.guest_mib.items() if memory_mib]
                priced[choice] = explain.PricedChoice(choice, offer.offer_of(
                    description, choice, sizes, ratio, selling), shared_out)
        best = sorted(priced.values(), reverse=True,
                      key=lambda choice: _value(sizes, choice.offer))
        more = set(best[0].unsold(description)) - full
        if not more:
            return best[:count]
        full |= more


def _spare_cpus(
    description: host_model.HostDescription,
    request: plan_request.PlanOptions,
    sizes: Sequence[plan_model.GuestSize],
    taken: explain.PricedChoice,
) -> plan_warnings.SpareCpus:
    """What the CPUs that stay unsold could do without a guest less."""
    stranded = sum(cpus for node, cpus in taken.offer.stranded_cpus.items()
                   if taken.memory.guest_mib[node])
    widest = max(len(core) for node in description.nodes
                 for core in node.cores)
    proposed = {}
    for key, cpus in (
            ('shared_cpus', taken.choice.shared_cpus),
            ('host_cpus', taken.choice.host_cpus)):
        # A core less where they are not whole cores, or in the wrong node.
        for more in range(stranded, max(0, stranded - 2 * widest), -widest):
            number = len(cpus) + more
            changed: dict[str, Any] = {key: number}
            if _sells_as_much(description, dataclasses.replace(
                    request, choice=1, **changed), sizes, taken.offer):
                proposed[key] = number
                break
    return plan_warnings.SpareCpus(
        stranded, taken.offer.figures[0], **proposed)


def _sells_as_much(
    description: host_model.HostDescription,
    request: plan_request.PlanOptions,
    sizes: Sequence[plan_model.GuestSize],
    offered: plan_model.Offer,
) -> bool:
    """Whether a request loses no guest of those that are offered."""
    try:
        best, *_others = _priced(
            description, request, sizes, 1, is_rough=True)
    except errors.InputError:
        return False
    return all(map(operator.ge, best.offer.figures, offered.figures))


def _value(sizes: Sequence[plan_model.GuestSize],
           offered: plan_model.Offer) -> spreads.SaleValue:
    mixed, *alone = offered.figures
    return mixed, sum(sale.alone * sale.vcpus * size.weight for size, sale
                      in zip(sizes, offered.sales)), *alone


def _check_memory(description: host_model.HostDescription,
                  best: explain.PricedChoice) -> None:
    """Refuse a host none of whose nodes has memory left for its guests.

    :raises errors.InputError: if it is one
    """
    dedicated = best.choice.dedicated_cpus
    guest_nodes = [node.id for node in description.nodes
                   if node.memory_mib and node.cpus & dedicated]
    if guest_nodes and not any(
            best.memory.guest_mib[node] for node in guest_nodes):
        raise errors.InputError(
            'no node has memory left for guests' + best.memory.in_pages,
            description.where, 'keep less for the host with --host-memory, '
            'or take smaller pages with --page-size')


def _search(
    description: host_model.HostDescription,
    request: plan_request.PlanOptions,
    allocatable_nodes: Sequence[allocatable_cores.AllocatableNode],
    sizes: Sequence[plan_model.GuestSize],
    count: int, is_rough: bool,
) -> list[plan_model.CpuChoice]:
    poll_cpus = _poll_cpus(description, request)
    host_cpus = request.host_cpus
    if host_cpus is None:
        host_cpus = plan_request.default_host_cpus(
            description, bool(poll_cpus))
    if host_cpus < 1:
        raise errors.InputError(
            'the host cannot do without CPUs', errors.Location('--host-cpus'))
    if request.purpose is plan_model.Purpose.BOTH and request.shared_cpus == 0:
        raise errors.InputError(
            'a host for both classes cannot do without shared CPUs',
            errors.Location('--shared-cpus'), 'plan it for class dedicated')
    for host, shared in _totals(description, request, host_cpus,
                                sum(poll_cpus.values())):
        choices = cpu_search.search(allocatable_nodes, cpu_search.CpuDemand(
            request.purpose, host, shared, poll_cpus,
            tuple(size.size for size in sizes),
            tuple(size.weight for size in sizes)), count, is_rough)
        if choices:
            return choices
    raise errors.InputError(
        f'host {description.name} has too few CPUs, '
        f'{len(description.cpus)}: none would be left for guests',
        advice='ask for fewer with --host-cpus, --shared-cpus or --poll-cpus')


def _totals(
    description: host_model.HostDescription, request: plan_request.PlanOptions,
    host_cpus: int, poll_cpus: int,
) -> Iterator[tuple[int, int | None]]:
    """Numbers of host and shared CPUs that may make up whole cores.

    They are at least what is asked for, those first that are nearest to it,
    and leave something for guests. What no cores of this host make up is left
    out, since a search would go through everything to find nothing.
    """
    online = len(description.cpus)
    widest = max(len(core) for node in description.nodes
                 for core in node.cores)
    sums = _core_sums(len(core) for node in description.nodes
                      for core in node.cores)
    for host in range(host_cpus, host_cpus + widest):
        left = online - host - poll_cpus
        if left <= 0:
            return
        if host not in sums:
            continue
        if request.purpose is plan_model.Purpose.SHARED:
            yield host, None
            continue
        shared = request.shared_cpus
        if shared is None:
            shared = (max(left // 2, 1)
                      if request.purpose is plan_model.Purpose.BOTH
                      else 0)
        for more in range(widest if shared else 1):
            if (shared + more < left and shared + more in sums
                    and host + shared + more in sums):
                yield host, shared + more


def _poll_cpus(description: host_model.HostDescription,
               request: plan_request.PlanOptions) -> Mapping[int, int]:
    """CPUs for polling by node, in whole cores.

    :raises errors.InputError: if a node has not that many
    """
    if not request.poll_cpus:
        return {}
    nodes = devices.poll_nodes(description)
    by_node = {}
    left = request.poll_cpus
    for index, number in enumerate(nodes):
        node = next(node for node in description.nodes if node.id == number)
        share = -(-left // (len(nodes) - index))
        sums = _core_sums(map(len, node.cores))
        if share >= max(sums):
            raise errors.InputError(
                f'node {number} has {words.count(len(node.cpus), "CPU")}, and '
                f'{share} of them would poll NICs',
                errors.Location('--poll-cpus'),
                'ask for fewer')
        if share > 0:
            by_node[number] = min(total for total in sums if total >= share)
            left -= by_node[number]
    return by_node


def _core_sums(sizes: Iterable[int]) -> set[int]:
    """The numbers of CPUs that whole cores can make up."""
    sums = functools.reduce(lambda sums, size: sums | sums << size, sizes, 1)
    return {total for total in range(sums.bit_length()) if sums >> total & 1}


def _sizes(
        description: host_model.HostDescription,
        request: plan_request.PlanOptions) -> tuple[plan_model.GuestSize, ...]:
    """The sizes to plan for, in as few cells as the bare host allows."""
    if request.purpose is plan_model.Purpose.SHARED:
        return ()
    sizes = request.sizes or plan_request.default_sizes(description)
    rooms = _bare_rooms(description)
    with_cells = []
    for size in sizes:
        fitting = _in_cells(size, rooms, [size.cells] if size.cells
                            else range(1, size.vcpus + 1))
        if fitting is None:
            raise _too_large(description, size.vcpus, size.cells, rooms)
        with_cells.append(fitting)
    _check_different(with_cells)
    return tuple(with_cells)


def _in_cells(size: plan_model.GuestSize, rooms: Sequence[fit.Room],
              numbers: Iterable[int]) -> plan_model.GuestSize | None:
    """A size in the first of these numbers of cells in which a guest fits."""
    return next((
        fitting for number in numbers if not size.vcpus % number
        and capacity.guests(rooms, (fitting := dataclasses.replace(
            size, cells=number)).size)), None)


def _check_different(sizes: Iterable[plan_model.GuestSize]) -> None:
    """Refuse sizes that have come to be the same.

    :raises errors.InputError: if there are any
    """
    for some, other in itertools.combinations(sizes, 2):
        if (some.vcpus, some.cells) == (other.vcpus, other.cells):
            raise errors.InputError(
                f'{_guest(some.vcpus, some.cells)} appears twice',
                errors.Location('--for'), 'give it once, with one weight')


def _in_more_cells(
    description: host_model.HostDescription, size: plan_model.GuestSize,
    best: explain.PricedChoice, cells: int,
) -> plan_model.GuestSize:
    """A size in the next larger number of cells.

    :param cells: how many it has to have, 0 if that is not said
    :raises errors.InputError: if its cells are given, or there is none
    """
    more = _in_cells(size, _bare_rooms(description),
                     range(size.cells + 1, size.vcpus + 1))
    if cells or more is None:
        left = tuple(
            fit.Room(len(node.cpus & best.choice.dedicated_cpus)
                     if best.memory.guest_mib[node.id] else 0)
            for node in description.nodes if node.memory_mib)
        raise _too_large(description, size.vcpus, cells, left)
    return more


def _bare_rooms(
    description: host_model.HostDescription,
) -> tuple[fit.Room, ...]:
    return tuple(fit.Room(len(node.cpus))
                 for node in description.nodes if node.memory_mib)


def _too_large(
    description: host_model.HostDescription, vcpus: int, cells: int,
    rooms: Sequence[fit.Room],
) -> errors.InputError:
    """What to say of a size that does not fit."""
    nodes = [node for node in description.nodes if node.memory_mib]
    if not nodes:
        return errors.InputError(
            'no node of this host has memory', description.where)
    room, node = max(zip(rooms, nodes), key=lambda room_of_node: (
        room_of_node[0].cpus, -room_of_node[1].id))
    return errors.InputError(
        f'{_guest(vcpus, cells)} does not fit: the largest node, {node.id}, '
        f'has {words.count(room.cpus, "CPU")} for guests, all nodes together '
        f'{sum(room.cpus for room in rooms)}', errors.Location('--for'),
        'plan for smaller guests')


def _guest(vcpus: int, cells: int) -> str:
    """'a guest of 8 vCPUs in 2 cells'."""
    within = f' in {words.count(cells, "cell")}' if cells else ''
    return f'a guest of {words.count(vcpus, "vCPU")}{within}'
