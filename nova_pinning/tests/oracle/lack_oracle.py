# SPDX-License-Identifier: Apache-2.0
"""Nova's own fit, held against what is said to keep guests from devices.

What is named has to refuse the guest though all else is well, and the guest
has to come further without it.
"""

from collections.abc import Iterator
import dataclasses
import sys

from nova.virt import hardware as nova_hardware

from nova_pinning.admission import device_lacks
from nova_pinning.admission import device_room
from nova_pinning.admission import devices
from nova_pinning.admission import guest_request
from nova_pinning.admission import host_occupancy
from nova_pinning.admission import judge
from nova_pinning.bridge import nova_objects
from nova_pinning.explain import host_verdicts
from nova_pinning.tests.oracle import numbered_cases
from nova_pinning.tests.oracle import stranded_oracle

_Obstacle = device_lacks.DeviceObstacle
_ORDER = list(_Obstacle)


def _free(occupancy: host_occupancy.HostOccupancy) -> list[devices.PciPool]:
    return list(devices.free(occupancy.host.pci_pools,
                             occupancy.device_uses))


def fits(request: guest_request.GuestRequest,
         occupancy: host_occupancy.HostOccupancy) -> bool:
    """Whether nova finds a place with any choice of Placement's."""
    pools = _free(occupancy)
    if request.devices:
        return bool(stranded_oracle.reachable(request, occupancy, pools))
    return nova_hardware.numa_fit_instance_to_host(
        nova_objects.host_topology(occupancy.engine),
        nova_objects.instance_topology(request.topology), {}) is not None


def emptied(
    occupancy: host_occupancy.HostOccupancy, keeps_devices: bool,
) -> host_occupancy.HostOccupancy:
    """The host as if its guests had no CPUs and no memory."""
    gone = {} if keeps_devices else {'devices': (), 'allocations': ()}
    return host_occupancy.of_host(occupancy.host, [
        dataclasses.replace(guest, topology=None, fit=None, vcpus=0,
                            memory_mib=0, **gone)
        for guest in occupancy.guests])


def first_obstacle(
    request: guest_request.GuestRequest,
    occupancy: host_occupancy.HostOccupancy,
) -> str:
    """The first obstacle by nova's answers, of one alias or several."""
    loose = device_room.part(request, request.devices, minds_traits=False)
    for obstacle, asked, where in (
            (_Obstacle.NO_DEVICE, loose, emptied(occupancy, False)),
            (_Obstacle.TAKEN, loose, occupancy),
            (_Obstacle.GROUP, request, occupancy)):
        if not stranded_oracle.gives_anywhere(asked, where, _free(where)):
            return obstacle
    if not fits(request, emptied(occupancy, True)):
        return _Obstacle.AFFINITY
    return '' if fits(request, occupancy) else 'cells'


def expected(request: guest_request.GuestRequest,
             occupancy: host_occupancy.HostOccupancy) -> str:
    """What nova's answers show to be in the way, '' if nothing is."""
    stages = [
        first_obstacle(device_room.part(request, [
            asked for asked in request.devices if asked.alias == alias]),
            occupancy)
        for alias in dict.fromkeys(asked.alias for asked in request.devices)]
    for stage in stages:
        if stage in _ORDER[:3]:
            return stage
    last = first_obstacle(request, occupancy)
    if last in _ORDER[:3]:
        return _Obstacle.TOGETHER
    return last


def differences(seed: int, number: int,
                counts: numbered_cases.Counts) -> Iterator[str]:
    """Whether something else is named than what nova's answers show."""
    occupancy, request = stranded_oracle.case(seed, number)
    verdict = host_verdicts.HostJudge(
        {}, judge.AdmissionJudge()).verdict(occupancy, request)
    cause = verdict.cause
    if not request.devices or cause is None:
        counts['fits'] += 1
        return
    if cause.rank is not host_verdicts.RefusalRank.DEVICES:
        counts[f'{cause.rank} {cause.name}'] += 1
        if fits(device_room.part(request, ()), occupancy):
            yield f'{cause}, and nova takes it without devices'
        return
    told = cause.name if cause.name in _ORDER else 'cells'
    counts[told] += 1
    shown = expected(request, occupancy)
    if told != shown:
        yield f'{verdict.figures} is called {told}, not {shown or "a fit"}'


if __name__ == '__main__':
    sys.exit(numbered_cases.main(differences, __doc__))
