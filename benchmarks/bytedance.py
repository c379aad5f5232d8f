# SPDX-License-Identifier: Apache-2.0
"""Makes a fleet snapshot of ByteDance's data set of real hosts and guests.

It is clusters.json of https://github.com/bytedance/DRL-based-VM-Rescheduling:
hosts of two NUMA nodes of 44 CPUs each, what is free of each node, and the
nodes, CPUs and memory of each guest. It does not say which CPUs a guest has.
"""

import argparse
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
import dataclasses
import os
import sys
from typing import Any

from nova_pinning.admission import offered_host
from nova_pinning.admission import resident_guest
from nova_pinning.cli import base_command
from nova_pinning.cli import fleets
from nova_pinning import cpuset
from nova_pinning.document import json_text
from nova_pinning.document import packed
from nova_pinning.document import schema
from nova_pinning import errors
from nova_pinning import fit
from nova_pinning.fit import usage
from nova_pinning.flavors import flavor_model
from nova_pinning.fleet import snapshot
from nova_pinning import model
from nova_pinning.model import hostclass
from nova_pinning.simulation import guests
from nova_pinning import units

_MAX_BYTES = 64 * 1024 * 1024
_PAGE_KIB = 2048
_PAGES_PER_MIB = 1024 / _PAGE_KIB
_ACTIVE = 'ACTIVE'
# Of the names of clusters, and of MiB.
_SOURCE = (
    'github.com/bytedance/DRL-based-VM-Rescheduling, {}; which CPUs of a node '
    'a guest has is not in the data: they are those that nova would choose, '
    'guests taken in the order of the file')
_MORE = ('; of some nodes the data has more memory free than guests leave, '
         '{:,.0f} MiB together, which is left out')

_Json = Mapping[str, Any]


def read(path: str | os.PathLike[str]) -> snapshot.Fleet:
    """A fleet from the data set.

    Each cluster is an aggregate. All guests are dedicated, with the thread
    policy prefer on hosts without threads, and memory in pages of 2 MiB.
    Within a node a guest gets the CPUs that nova would choose, guests taken in
    the order of the file. Pages that are neither free nor a guest's are kept
    as reserved.

    :raises errors.InputError: if the file cannot be read, or its figures do
        not agree with each other
    """
    document = json_text.parse(packed.read(path, _MAX_BYTES),
                               packed.name(path))
    schema.validate(document, schema.shipped(__package__, 'bytedance.json'))
    clusters = document.value['cluster_list']
    hosts = [(host, value['cluster_name'])
             for value in clusters for host in value['host_info']]
    placed = {host['node_id']: model.Host(tuple(_cells(host)))
              for host, _cluster in hosts}
    where = errors.Location(packed.name(path))
    try:
        residents = tuple([_guest(guest, placed) for value in clusters
                           for guest in value['vm_instance']])
        held_mib = [_held_mib(host, placed[host['node_id']])
                    for host, _cluster in hosts]
    except (IndexError, ValueError) as error:
        raise errors.InputError(
            f'does not agree with itself: {error}', where) from None
    taken = sorted({name for _host, name in hosts})
    more_mib = -sum(min(0, mib) for of_host in held_mib for mib in of_host)
    return snapshot.Fleet(
        hosts=tuple(_host(*host, mib) for host, mib in zip(hosts, held_mib)),
        guests=residents,
        flavors=tuple(map(_flavor, document.value['vm_type_list'])),
        aggregates=tuple(map(offered_host.Aggregate, taken)), where=where,
        source=_SOURCE.format(', '.join(taken)) + (
            _MORE.format(more_mib) if more_mib else ''))


def _cells(value: _Json) -> Iterator[model.HostCell]:
    """The cells of a host, with nothing used."""
    first = 0
    for index, node in enumerate(value['numa']):
        ids = range(first, first := first + node['total_cpu'])
        total_mib = int(node['memory_huge_total_mb'])
        yield model.HostCell(
            id=index, shared_cpus=cpuset.CpuSet(),
            dedicated_cpus=cpuset.CpuSet(ids), pinned_cpus=cpuset.CpuSet(),
            cores=tuple((cpu,) for cpu in ids), memory_mib=total_mib,
            pages=(model.PagePool(
                _PAGE_KIB, int(total_mib * _PAGES_PER_MIB)),), socket=index)


def _guest(value: _Json,
           placed: dict[str, model.Host]) -> resident_guest.ResidentGuest:
    """A guest; it takes its CPUs in the nodes that it is in.

    :param placed: hosts with the guests before it
    :raises ValueError, IndexError: if it is on no host, or not in nodes of it
        that have room
    """
    name, parts = value['instance_id'], value['numa']
    host = placed.get(value['host_id'])
    if host is None:
        raise ValueError(f'{name} is on no host')
    if (len({part['node'] for part in parts}) < len(parts)
            or len({(part['cpu'], part['mem_mb']) for part in parts}) > 1):
        raise ValueError(f'{name} is not spread evenly over nodes')
    # Amounts are written as 16384.0.
    request = guests.plain(
        sum(part['cpu'] for part in parts),
        sum(int(part['mem_mb']) for part in parts), cells=len(parts),
        page_size_kib=_PAGE_KIB)
    assert request.topology is not None
    place = fit.pin(request.topology, tuple(
        host.cells[part['node']] for part in parts))
    if any(cell.page_size_kib is None or len(cell.pins) < parts[0]['cpu']
           for cell in place.cells):
        raise ValueError(f'{name} has no room in its nodes')
    placed[value['host_id']] = usage.take(host, request.topology, place)
    return resident_guest.ResidentGuest(
        uuid=name, host=value['host_id'], vcpus=request.vcpus,
        memory_mib=request.memory_mib, guest_class=request.guest_class,
        flavor=value['instance_type'], topology=request.topology, fit=place,
        is_movable=value.get('allow_migration', True))


def _held_mib(value: _Json, host: model.Host) -> list[float]:
    """Of each node the memory that is neither free nor a guest's.

    :param host: with its guests
    :returns: MiB, below 0 where more is free than guests leave
    :raises ValueError: if a node has not the CPUs free that guests leave
    """
    for node, cell in zip(value['numa'], host.cells):
        if (node['node'], node['free_cpu']) != (cell.id, cell.free_count):
            raise ValueError(
                f'node {node["node"]} of {value["node_id"]} has '
                f'{node["free_cpu"]:g} CPUs free, where guests leave '
                f'{cell.free_count} of {node["total_cpu"]}')
    return [cell.pages[0].free_kib / units.KIB_PER_MIB
            - int(node['memory_huge_free_mb'])
            for node, cell in zip(value['numa'], host.cells)]


def _host(value: _Json, cluster: str,
          held_mib: Sequence[float]) -> offered_host.OfferedHost:
    status = value.get('status', _ACTIVE)
    return offered_host.OfferedHost(
        name=value['node_id'], host_class=hostclass.HostClass.DEDICATED,
        cells=tuple([dataclasses.replace(cell, pages=(cell.pages[0]._replace(
            reserved=max(0, int(mib * _PAGES_PER_MIB))),))
            for cell, mib in zip(_cells(value), held_mib)]),
        aggregates=(cluster,), is_enabled=status == _ACTIVE,
        disabled_reason='' if status == _ACTIVE else status)


def _flavor(value: _Json) -> flavor_model.Flavor:
    request = guests.plain(
        value['request_cpu'], int(value['request_mem_mb']),
        cells=value['numa'], page_size_kib=_PAGE_KIB)
    return flavor_model.Flavor(
        name=value['vm_type'], vcpus=request.vcpus,
        memory_mib=request.memory_mib, extra_specs={
            **dict(request.extra_specs),
            flavor_model.CLASS_KEY: str(request.guest_class)})


def main(argv: Sequence[str] | None = None) -> int:
    """Write a snapshot; returns the exit status, that of our commands."""
    parser = argparse.ArgumentParser(
        prog='python -m benchmarks.bytedance',
        description=(__doc__ or '').partition('\n')[0])
    parser.add_argument('data', metavar='DATA',
                        help='clusters.json of the data set; - for the '
                             'standard input')
    fleets.add_output(parser)
    options = parser.parse_args(argv)
    try:
        fleets.save(options, read(options.data))
    except errors.InputError as error:
        return base_command.report_input_error(error)
    return base_command.OK


if __name__ == '__main__':
    sys.exit(main())
