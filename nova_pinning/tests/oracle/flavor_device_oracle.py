# SPDX-License-Identifier: Apache-2.0
"""Nova's own fit, held against what the check of flavors says of devices.

A case is a flavor for pinned guests with devices, and the files of one host
or two, which are empty. Where the check says that no host takes the flavor
(P601), has so many devices (P310) or has them near so few cells (P311), nova
has to find none, and the other way about. What it says of CPUs that stay
unsold (P602) is what nova and Placement leave of a host that is filled.
"""

import collections
from collections.abc import Iterator
import dataclasses
import random
import sys
from typing import Any

from nova.virt import hardware

from nova_pinning.admission import device_lacks
from nova_pinning.admission import device_room
from nova_pinning.admission import host_occupancy
from nova_pinning.admission import pci_alias
from nova_pinning.bridge import nova_objects
from nova_pinning.bridge.offline import flavor_request
from nova_pinning.bridge.offline import nova_judgement
from nova_pinning.flavors.checks import flavor_check_run
from nova_pinning.flavors import flavor_model
from nova_pinning.host import device_offer
from nova_pinning.host import host_model
from nova_pinning.host import host_offer
from nova_pinning.host import words
from nova_pinning.tests.oracle import lack_oracle
from nova_pinning.tests.oracle import numbered_cases
from nova_pinning.tests.oracle import stranded_oracle

_POLICIES = 'legacy', 'preferred', 'required', 'socket'
_FITS = ''
_Obstacle = device_lacks.DeviceObstacle


def _flavor(chance: random.Random, aliases: list[str]) -> flavor_model.Flavor:
    cells = chance.choice((1, 1, 2))
    asked = [f'{alias}:{chance.choice((1, 1, 2, 3))}'
             for alias in chance.sample(aliases, min(
                 len(aliases), chance.choice((1, 1, 1, 2))))]
    specs = {'hw:cpu_policy': 'dedicated', 'hw:numa_nodes': str(cells),
             pci_alias.KEY: ','.join(asked)}
    policy = chance.choice((None, *_POLICIES))
    if policy:
        specs['hw:pci_numa_affinity_policy'] = policy
    return flavor_model.Flavor(
        name='f', vcpus=cells * chance.choice((1, 2, 6, 9)),
        memory_mib=cells * chance.choice((512, 4096, 8192)), disk_gib=0,
        extra_specs=specs)


def _stage(flavor: flavor_model.Flavor,
           host: host_model.HostDescription) -> str:
    """What nova lacks on a host, as lack_oracle calls it."""
    aliases = device_offer.aliases(host)
    if not {name for name, _count in pci_alias.counts(
            flavor.extra_specs)} <= aliases.keys():
        return _Obstacle.NO_DEVICE
    request = flavor_request.request_for(flavor, None, aliases)
    occupancy = host_occupancy.of_host(host_offer.offered(host))
    if not lack_oracle.fits(device_room.part(request, ()), occupancy):
        return 'cells'
    return lack_oracle.first_obstacle(request, occupancy)


def _missed(stages: set[str], codes: set[str],
            flavor: flavor_model.Flavor) -> str:
    """What the check says though nova does not, or does not say."""
    nowhere = {_Obstacle.NO_DEVICE, _Obstacle.GROUP}
    expected = set() if _FITS in stages else {'P601'}
    # Of aliases that compete, or where CPUs are short, the others say less.
    if len(pci_alias.counts(flavor.extra_specs)) > 1 or 'cells' in stages:
        return ', '.join(expected ^ (codes & {'P601'})) or (
            ', '.join(codes) if _FITS in stages else '')
    if stages <= nowhere:
        expected.add('P310')
    elif stages <= {*nowhere, _Obstacle.AFFINITY} and flavor.extra_specs.get(
            'hw:pci_numa_affinity_policy') != 'socket':
        # Nova takes all devices for ones of a group, and if there are enough
        # near the guest, it looks no further.
        is_group = '-switch-' in flavor.extra_specs[pci_alias.KEY]
        expected |= codes & {'P311'} if is_group else {'P311'}
    return ', '.join(sorted(expected ^ codes))


def _unsold(flavor: flavor_model.Flavor,
            host: host_model.HostDescription) -> str:
    """What is left of a host that is full of guests without devices.

    :returns: as P602 has it; '' if that is not to be told
    """
    request = flavor_request.request_for(dataclasses.replace(
        flavor, extra_specs={
            key: value for key, value in flavor.extra_specs.items()
            if key != pci_alias.KEY}), None, {})
    occupancy = host_occupancy.of_host(host_offer.offered(host))
    left = collections.Counter({
        name: has.left(0) for name, has in occupancy.inventories.items()})
    there = nova_objects.host_topology(occupancy.engine)
    total, guests = _free(there), 0
    while min((left[name] - amount for name, amount
               in request.queries[0].resources.items())) >= 0:
        placed = hardware.numa_fit_instance_to_host(
            there, nova_objects.instance_topology(request.topology), {})
        if placed is None:
            break
        there = hardware.numa_usage_from_instance_numa(there, placed)
        left.subtract(request.queries[0].resources)
        guests += 1
    unsold = _free(there)
    return (f'{words.count(guests, "guest")} on host {host.name}, {unsold} of '
            f'{total} dedicated CPUs') if unsold > total / 10 else ''


def _free(topology: Any) -> int:
    return sum(len(cell.pcpuset - cell.pinned_cpus)
               for cell in topology.cells)


def differences(seed: int, number: int,
                counts: numbered_cases.Counts) -> Iterator[str]:
    """What of a flavor differs."""
    chance = random.Random(f'flavors {seed} {number}')
    hosts = [stranded_oracle.description(chance)
             for _ in range(chance.choice((1, 2)))]
    aliases = sorted({name for host in hosts
                      for name in device_offer.aliases(host)} | {'none'})
    flavor = _flavor(chance, aliases)
    found = flavor_check_run.check([flavor], nova_judgement.judging, hosts)
    codes = {one.code for one in found
             if one.code in ('P310', 'P311', 'P601')}
    stages = [_stage(flavor, host) for host in hosts]
    told = {one.message for one in found if one.code == 'P602'}
    left = {text for host, stage in zip(hosts, stages) if stage == _FITS
            and (text := _unsold(flavor, host))}
    counts.update(codes or {'none'}, P602=len(told), whole=len(
        [stage for stage in stages if stage == _FITS]) - len(left))
    if len(told) != len(left) or not all(any(
            text in one for one in told) for text in left):
        yield f'P602: {told}, nova {left}, {flavor}'
    missed = _missed(set(stages), codes, flavor)
    if missed:
        yield f'{missed}: {codes}, nova {stages}, {flavor}'


if __name__ == '__main__':
    sys.exit(numbered_cases.main(differences, __doc__))
