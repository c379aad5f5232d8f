# SPDX-License-Identifier: Apache-2.0
"""Claims by the nova of another release, a process of its own.

Run with the Python of that release, in which nothing of this project needs to
be installed. It reads a case from each line of standard input and writes an
answer on a line of standard output, both JSON. A case has

``host``
    the host's topology as nova's database has it, JSON text
``guest``
    primitive of an InstanceNUMATopology with what is asked for
``limits``
    primitive of NUMATopologyLimits, or null
``requests``
    primitives of InstancePCIRequest
``pools``
    what is free of the host's devices: pools of PciDeviceStats
``pack``
    nova's packing_host_numa_cells_allocation_strategy

and the answer

``claim``
    for each guest cell the host cell, the pins, the CPUs for emulator threads
    and the page size; null if the claim fails, or the name of what it raises
``scheduler``
    the same of the fit that NUMATopologyFilter makes of it
``host``, ``guest``
    the topologies as this nova writes them
"""

import copy
import json
import sys
import types

from nova.compute import claims
import nova.conf
from nova import objects
from nova.objects import base
from nova.objects import service
from nova.pci import stats
from nova.pci import whitelist
from nova.virt import hardware

CONF = nova.conf.CONF


def _read(primitive):
    return primitive and base.NovaObject.obj_from_primitive(primitive)


def _stats(case):
    made = stats.PciDeviceStats(
        objects.NUMATopology.obj_from_db_obj(case['host']),
        dev_filter=whitelist.Whitelist())
    made.pools = copy.deepcopy(case['pools'])
    return made


def _requests(case):
    return [_read(primitive) for primitive in case['requests']]


def _claim(case):
    """What nova-compute does (nova.compute.claims.Claim)."""
    claim = types.SimpleNamespace(
        numa_topology=_read(case['guest']), claimed_numa_topology=None,
        _pci_requests=objects.InstancePCIRequests(requests=_requests(case)),
        tracker=types.SimpleNamespace(
            pci_tracker=types.SimpleNamespace(stats=_stats(case))))
    claims.Claim._test_numa_topology(
        claim, objects.ComputeNode(numa_topology=case['host']),
        _read(case['limits']))
    return claim.claimed_numa_topology


def _scheduled(case):
    """What nova-scheduler does (NUMATopologyFilter)."""
    return hardware.numa_fit_instance_to_host(
        objects.NUMATopology.obj_from_db_obj(case['host']),
        _read(case['guest']), None, limits=_read(case['limits']),
        pci_requests=_requests(case), pci_stats=_stats(case))


def _answer(ask, case):
    try:
        return plain(ask(case))
    except Exception as error:
        return plain(error)


def plain(answer):
    """What a fit has found, as JSON has it; or what it raised."""
    if isinstance(answer, Exception):
        return type(answer).__name__
    return answer and [
        [cell.id, [[vcpu, cpu] for vcpu, cpu in sorted(
            (cell.cpu_pinning or {}).items())],
         sorted(cell.cpuset_reserved or ()), cell.pagesize]
        for cell in answer.cells]


def main():
    """Answer until there are no more cases."""
    CONF([], project='nova', default_config_files=[])
    objects.register_all()
    print(json.dumps({'service_version': service.SERVICE_VERSION}), flush=True)
    for line in sys.stdin:
        case = json.loads(line)
        CONF.set_override('packing_host_numa_cells_allocation_strategy',
                          case['pack'], 'compute')
        print(json.dumps({
            'claim': _answer(_claim, case),
            'scheduler': _answer(_scheduled, case),
            'host': objects.NUMATopology.obj_from_db_obj(
                case['host'])._to_json(),
            'guest': _read(case['guest']).obj_to_primitive()}), flush=True)


if __name__ == '__main__':
    main()
