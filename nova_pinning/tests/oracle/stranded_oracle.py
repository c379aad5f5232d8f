# SPDX-License-Identifier: Apache-2.0
"""Nova's own fit, held against what is said of stranded devices.

A case is a host of two cells with some devices in groups, in Placement or
not, on which guests are already; and one more guest. Nova is asked for each
choice of devices that Placement may make.
"""

from collections.abc import Iterator
import dataclasses
import itertools
import random
import sys
from typing import Any

from nova import objects
from nova.pci import stats as nova_stats
from nova.virt import hardware as nova_hardware

from nova_pinning.admission import devices
from nova_pinning.admission import guest_request
from nova_pinning.admission import host_occupancy
from nova_pinning.admission import judge
from nova_pinning.admission import outcome
from nova_pinning.admission import pci_alias
from nova_pinning.bridge import nova_objects
from nova_pinning.capacity import count
from nova_pinning.capacity import like_hosts
from nova_pinning.capacity import stranded_devices
from nova_pinning.host import device_offer
from nova_pinning.host import host_model
from nova_pinning.host import host_offer
from nova_pinning.model import hostclass
from nova_pinning.tests.oracle import numbered_cases
from nova_pinning.tests.oracle import oracle_case
from nova_pinning.tests.unit import builders

_POLICIES = ('legacy', 'preferred', 'required', 'socket')


def description(chance: random.Random) -> host_model.HostDescription:
    """A host with devices."""
    threads = chance.choice((1, 2))
    nodes = tuple(
        host_model.NumaNode(node, chance.choice((0, node)), tuple(
            tuple(range(cpu, cpu + threads))
            for cpu in range(8 * node, 8 * node + 8, threads)), 8192)
        for node in range(2))
    is_grouped = chance.random() < 0.7
    made = []
    for number in range(chance.randint(2, 6)):
        alias, product = chance.choice((('gpu', '1'), ('gpu', '1'),
                                        ('nic', '2')))
        made.append(host_model.PciDevice(
            f'0000:{number:02x}:00.0', '10de', f'000{product}',
            chance.choice((0, 0, 0, 1, 1, 1, None)), alias,
            resource_class=f'CUSTOM_{alias.upper()}' if is_grouped else '',
            traits=(f'CUSTOM_{alias.upper()}_SWITCH_{chance.randint(0, 1)}',)
            if is_grouped else ()))
    return host_model.HostDescription(
        'host', nodes, pci_devices=tuple(made), nova=host_model.NovaSettings(
            dedicated_cpus=host_model.HostDescription('h', nodes).cpus))


def guest(chance: random.Random, described: host_model.HostDescription,
          ) -> guest_request.GuestRequest:
    """A pinned guest of one cell or two, with devices or without."""
    aliases = device_offer.aliases(described)
    cells = [(chance.choice((1, 1, 2, 4, 6)), chance.choice((512, 4096)))
             for _ in range(chance.choice((1, 1, 2)))]
    vcpus, memory_mib = map(sum, zip(*cells))
    policy = chance.choice(_POLICIES)
    asked = tuple(
        devices.PciRequest(alias, (), chance.choice((1, 1, 2, 3)), policy)
        for alias in chance.sample(sorted(aliases), min(
            len(aliases), chance.choice((1, 1, 2)))))
    return pci_alias.asked(
        dataclasses.replace(guest_request.of_shape(
            'guest', vcpus, memory_mib, hostclass.HostClass.DEDICATED,
            builders.guest(*cells)), devices=asked),
        aliases, device_offer.is_in_placement(described))


def case(seed: int, number: int) -> tuple[
        host_occupancy.HostOccupancy, guest_request.GuestRequest]:
    """A host that is partly full, and one more guest."""
    chance = random.Random(f'{seed} {number}')
    described = description(chance)
    occupancy = host_occupancy.of_host(dataclasses.replace(
        host_offer.offered(described), gaps=()))
    for _ in range(chance.randint(0, 3)):
        resident = guest(chance, described)
        found = judge.AdmissionJudge().answer(resident, occupancy)
        if isinstance(found, outcome.Admitted):
            occupancy = occupancy.adding(
                judge.resident(resident, occupancy, found.use))
    return occupancy, guest(chance, described)


def _choices(
    request: guest_request.GuestRequest, pools: list[devices.PciPool],
    occupancy: host_occupancy.HostOccupancy,
) -> Iterator[dict[str, int]]:
    """Places of pools for the groups of a guest; {} without Placement."""
    groups = {group.suffix: group for group in request.queries[0].groups}
    suffixes = [suffix for asked in request.devices for suffix in asked.groups]
    options = [[
        place for place, pool in enumerate(pools)
        if groups[suffix].required <= occupancy.providers[pool.provider].traits
        and groups[suffix].resources[0][0] in dict(
            occupancy.providers[pool.provider].inventories)]
        for suffix in suffixes]
    for chosen in itertools.product(*options):
        if len(set(chosen)) == len(chosen):
            yield dict(zip(suffixes, chosen))


def _given(
    request: guest_request.GuestRequest,
    occupancy: host_occupancy.HostOccupancy, pools: list[devices.PciPool],
) -> Iterator[tuple[Any, list[Any], dict[str, list[str]]]]:
    """What nova knows of the pools, and is asked, by each choice."""
    host = nova_objects.host_topology(occupancy.engine)
    seen = set()
    for chosen in _choices(request, pools, occupancy):
        allotted = tuple(frozenset(chosen[suffix] for suffix in asked.groups)
                         for asked in request.devices)
        if chosen and allotted in seen:
            continue
        seen.add(allotted)
        stats: Any = nova_stats.PciDeviceStats(host, dev_filter=object())
        stats.pools = [{
            **dict(pool.keys), 'numa_node': pool.numa_node,
            'count': pool.total, **({} if pool.provider is None else {
                'rp_uuid': str(place)})} for place, pool in enumerate(pools)]
        requests = [objects.InstancePCIRequest(
            request_id=oracle_case.request_id(number) if not asked.groups
            else asked.groups[0].rpartition('-')[0],
            count=asked.count, alias_name=asked.alias,
            numa_policy=asked.policy, spec=list(map(dict, asked.specs)))
            for number, asked in enumerate(request.devices)]
        yield stats, requests, {
            suffix: [str(place)] for suffix, place in chosen.items()}


def gives_anywhere(request: guest_request.GuestRequest,
                   occupancy: host_occupancy.HostOccupancy,
                   pools: list[devices.PciPool]) -> bool:
    """Whether nova gives a guest its devices wherever it lies."""
    return any(stats.support_requests(requests, mapping)
               for stats, requests, mapping
               in _given(request, occupancy, pools))


def reachable(request: guest_request.GuestRequest,
              occupancy: host_occupancy.HostOccupancy,
              pools: list[devices.PciPool]) -> set[int]:
    """The pools of which nova may give a guest devices."""
    host = nova_objects.host_topology(occupancy.engine)
    found: set[int] = set()
    for stats, requests, mapping in _given(request, occupancy, pools):
        fitted = nova_hardware.numa_fit_instance_to_host(
            host, nova_objects.instance_topology(request.topology),
            pci_requests=requests, pci_stats=stats, provider_mapping=mapping)
        if fitted is None:
            continue
        left = [dict(pool) for pool in stats.pools]
        stats.apply_requests(requests, mapping, fitted.cells)
        free = {tuple(sorted(pool.items(), key=str)) for pool in stats.pools}
        if sum(pool['count'] for pool in left) - sum(
                pool['count'] for pool in stats.pools) != sum(
                    asked.count for asked in request.devices):
            # Some of what Placement chose is out of reach.
            continue
        found |= {place for place, pool in enumerate(left)
                  if tuple(sorted(pool.items(), key=str)) not in free}
    return found


def differences(seed: int, number: int,
                counts: numbered_cases.Counts) -> Iterator[str]:
    """Which devices are called stranded that nova gives."""
    occupancy, request = case(seed, number)
    counted = like_hosts.Numbering().host(occupancy)
    pools = list(counted.pools)
    said = stranded_devices.DeviceFinder(
        [count.Counter(request)]).by_place(counted)
    given = reachable(request, occupancy, pools)
    # Elsewhere nova has an order of its own, in which others come first.
    is_exact = bool(occupancy.providers[1:]) and all(
        asked.policy == 'required' for asked in request.devices)
    for place, cause in said.items():
        if cause is not None and place in given:
            yield f'{pools[place]} is stranded ({cause})'
        elif cause is None and place not in given:
            counts['not said' if is_exact else 'None'] += 1
        else:
            counts[str(cause)] += 1
    for place in given - said.keys():
        yield f'nothing is said of {pools[place]}'


if __name__ == '__main__':
    sys.exit(numbered_cases.main(differences, __doc__))
