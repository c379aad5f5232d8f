# SPDX-License-Identifier: Apache-2.0
"""Makes a fleet snapshot of ByteDance's data set of real hosts and guests.

It is clusters.json of https://github.com/bytedance/DRL-based-VM-Rescheduling:
hosts of two NUMA nodes of 44 CPUs each, what is free of each node, and the
nodes, CPUs and memory of each guest. It does not say which CPUs a guest has.
"""

import argparse
import collections
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

_SCHEMA = 'bytedance.json'
_MAX_BYTES = 64 * 1024 * 1024
_PAGE_KIB = 2048
_PAGES_PER_MIB = 1024 / _PAGE_KIB
_ACTIVE = 'ACTIVE'

_Json = Mapping[str, Any]


def read(path: str | os.PathLike[str], cluster: str = '') -> snapshot.Fleet:
    """A fleet from the data set.

    All guests are dedicated, with the thread policy prefer on hosts without
    threads, and memory in pages of 2 MiB. Within a node a guest gets the CPUs
    that nova would choose, guests taken in the order of the file. Pages that
    are neither free nor a guest's are kept as reserved.

    :param cluster: the name of one, '' for all of them
    :raises errors.InputError: if the file cannot be read, or its figures do
        not agree with each other
    """
    document = json_text.parse(packed.read(path, _MAX_BYTES),
                               packed.name(path))
    schema.validate(document, schema.shipped(__package__, _SCHEMA))
    values: Sequence[_Json] = document.value['cluster_list']
    names = [value['cluster_name'] for value in values]
    if cluster and cluster not in names:
        raise errors.InputError(
            f'there is no cluster {cluster!r}',
            errors.Location('--cluster'), f'there are {", ".join(names)}')
    taken = sorted({cluster} if cluster else set(names))
    clusters = [_Cluster(value) for value in values
                if value['cluster_name'] in taken]
    try:
        fleet = snapshot.Fleet(
            hosts=tuple(host for one in clusters for host in one.hosts()),
            guests=tuple(guest for one in clusters for guest in one.guests()),
            flavors=tuple(map(_flavor, document.value['vm_type_list'])),
            aggregates=tuple(map(offered_host.Aggregate, taken)))
        for name, times in collections.Counter((
                *(host.name for host in fleet.hosts),
                *(guest.uuid for guest in fleet.guests))).items():
            if times > 1:
                raise ValueError(f'{name} appears {times} times')
    except (IndexError, ValueError) as error:
        raise errors.InputError(
            f'does not agree with itself: {error}',
            errors.Location(packed.name(path))) from None
    return dataclasses.replace(fleet, source=_source(
        taken, sum(one.more_mib for one in clusters)))


def _source(clusters: Sequence[str], more_mib: int) -> str:
    said = (
        'github.com/bytedance/DRL-based-VM-Rescheduling, '
        f'{", ".join(clusters)}; which CPUs of a node a guest has is not in '
        'the data: they are those that nova would choose, guests taken in '
        'the order of the file')
    if more_mib:
        said += (f'; of some nodes the data has more memory free than guests '
                 f'leave, {more_mib:,} MiB together, which is left out')
    return said


class _Cluster:
    """One cluster of the data.

    :ivar more_mib: memory that nodes have free beyond what guests leave
    """

    def __init__(self, value: _Json) -> None:
        self._value = value
        self.more_mib = 0
        self._engines: dict[str, model.Host] = {}

    def hosts(self) -> Iterator[offered_host.OfferedHost]:
        """:raises ValueError: if a node has not free what guests leave"""
        used: dict[tuple[str, int], list[int]] = collections.defaultdict(
            lambda: [0, 0])
        for guest in self._value['vm_instance']:
            for part in guest['numa']:
                both = used[guest['host_id'], part['node']]
                both[0] += part['cpu']
                # Amounts are written as 16384.0.
                both[1] += int(part['mem_mb'])
        for value in self._value['host_info']:
            cells = tuple(self._cells(value, used))
            self._engines[value['node_id']] = model.Host(cells)
            is_enabled = value.get('status', _ACTIVE) == _ACTIVE
            yield offered_host.OfferedHost(
                name=value['node_id'], cells=cells,
                host_class=hostclass.HostClass.DEDICATED,
                aggregates=(self._value['cluster_name'],),
                is_enabled=is_enabled,
                disabled_reason='' if is_enabled else value['status'])

    def _cells(
        self, value: _Json, used: Mapping[tuple[str, int], Sequence[int]],
    ) -> Iterator[model.HostCell]:
        first = 0
        for index, node in enumerate(value['numa']):
            cpus, memory_mib = used[value['node_id'], index]
            total = node['total_cpu']
            if (node['node'], node['free_cpu']) != (index, total - cpus):
                raise ValueError(
                    f'node {node["node"]} of {value["node_id"]} has '
                    f'{node["free_cpu"]:g} CPUs free, where guests leave '
                    f'{total - cpus} of {total}')
            total_mib = int(node['memory_huge_total_mb'])
            free_mib = int(node['memory_huge_free_mb'])
            reserved_mib = total_mib - memory_mib - free_mib
            self.more_mib += max(0, -reserved_mib)
            ids = range(first, first + total)
            first += total
            yield model.HostCell(
                id=index, shared_cpus=cpuset.CpuSet(),
                dedicated_cpus=cpuset.CpuSet(ids),
                pinned_cpus=cpuset.CpuSet(),
                cores=tuple((cpu,) for cpu in ids), memory_mib=total_mib,
                pages=(model.PagePool(
                    _PAGE_KIB, int(total_mib * _PAGES_PER_MIB),
                    reserved=max(0, int(reserved_mib * _PAGES_PER_MIB))),),
                socket=index)

    def guests(self) -> Iterator[resident_guest.ResidentGuest]:
        """:raises ValueError, IndexError: if one is on no host, or no node"""
        for value in self._value['vm_instance']:
            topology, placed_fit = self._placed(value)
            yield resident_guest.ResidentGuest(
                uuid=value['instance_id'], host=value['host_id'],
                vcpus=sum(part['cpu'] for part in value['numa']),
                memory_mib=sum(cell.memory_mib for cell in topology.cells),
                guest_class=hostclass.HostClass.DEDICATED,
                flavor=value['instance_type'], topology=topology,
                fit=placed_fit,
                is_movable=value.get('allow_migration', True))

    def _placed(self, value: _Json) -> tuple[model.Guest, model.Fit]:
        """A guest, and its CPUs in the nodes that it is in."""
        host = self._engines.get(value['host_id'])
        if host is None:
            raise ValueError(f'{value["instance_id"]} is on no host')
        vcpus = 0
        guest_cells = []
        for part in value['numa']:
            guest_cells.append(model.GuestCell(
                tuple(range(vcpus, vcpus + part['cpu'])), (),
                int(part['mem_mb']), _PAGE_KIB))
            vcpus += part['cpu']
        topology = model.Guest(tuple(guest_cells), model.CpuPolicy.DEDICATED)
        # That there are CPUs enough was found when they were counted.
        placed_fit = fit.pin(topology, tuple(
            host.cells[part['node']] for part in value['numa']))
        placed_fit = model.Fit(tuple(
            dataclasses.replace(cell, page_size_kib=_PAGE_KIB)
            for cell in placed_fit.cells))
        self._engines[value['host_id']] = usage.take(
            host, topology, placed_fit)
        return topology, placed_fit


def _flavor(value: _Json) -> flavor_model.Flavor:
    cells = value['numa']
    return flavor_model.Flavor(
        name=value['vm_type'], vcpus=value['request_cpu'],
        memory_mib=int(value['request_mem_mb']), extra_specs={
            'hw:cpu_policy': 'dedicated',
            'hw:numa_nodes': str(cells),
            'hw:mem_page_size': str(_PAGE_KIB),
            flavor_model.CLASS_KEY: str(hostclass.HostClass.DEDICATED)})


def main(argv: Sequence[str] | None = None) -> int:
    """Write a snapshot; returns the exit status, that of our commands."""
    parser = argparse.ArgumentParser(
        prog='python -m benchmarks.bytedance',
        description=(__doc__ or '').partition('\n')[0])
    parser.add_argument('data', metavar='DATA',
                        help='clusters.json of the data set')
    parser.add_argument('--cluster', metavar='NAME', default='',
                        help='import this cluster only; otherwise all, each '
                             'as an aggregate')
    fleets.add_output(parser)
    options = parser.parse_args(argv)
    try:
        fleets.check_output(options)
        with fleets.progress('importing'):
            fleet = read(options.data, options.cluster)
        fleets.save(options, fleet)
    except errors.InputError as error:
        return base_command.report_input_error(error)
    return base_command.OK


if __name__ == '__main__':
    sys.exit(main())
