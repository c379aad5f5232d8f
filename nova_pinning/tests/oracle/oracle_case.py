# SPDX-License-Identifier: Apache-2.0
"""One host and one guest as plain JSON, and the nova objects made from it.

The JSON form is what the fuzzers print, what the shrinker works on and what
the independent check reads. Each user of a case gets objects of its own, such
as nova-scheduler and nova-compute make of the JSON text that nova keeps in
its database. That matters, because nova takes the threads of a core in the
order in which Python iterates over a set, and that order depends on how the
set was built. Nova's objects check each value they are given, which would be
most of a fuzzer's work, so these are built without; a test compares them with
those that nova makes.

Keys of the JSON form; memory is in MiB, page sizes are in KiB:

``host``
    a list of cells: ``id``, ``shared`` and ``dedicated`` (CPU ids),
    ``pinned`` (CPUs in use), ``siblings`` (lists of CPU ids),
    ``memory``, ``memory_used``, ``cpu_usage``, ``pages`` (lists of
    size, total, used, reserved), ``socket``, and ``network``
    (``physnets``, ``tunneled``) or null
``guest``
    ``cells`` (each ``dedicated`` and ``shared`` vCPUs and ``memory``),
    ``policy``, ``threads``, ``emulator``, ``pagesize``
``limits``
    ``cpu`` and ``ram`` ratios and ``network``, or null
``pci``
    ``pools``, ``requests`` and ``mapping``, or null
``pack``
    nova's packing_host_numa_cells_allocation_strategy
``odd``
    whether the host was made such as only a broken database can have it
"""

from __future__ import annotations

import contextlib
import copy
import functools
import json
import typing as ty
import uuid

from nova import conf
from nova import objects
from nova.objects import base as nova_base
from nova.pci import stats as pci_stats
from nova.pci import whitelist

CONF = conf.CONF

# PCI request ids only have to be UUIDs that stay the same from run to run.
_NAMESPACE = uuid.UUID('3f0b1f5e-5a55-4f2e-9d39-0c7d1c5b2a10')


@functools.cache
def setup() -> None:
    """Make nova's objects known, as each nova service does at its start."""
    objects.register_all()


class _Sockets:
    """All that PciDeviceStats reads of a host: ids and sockets of cells.

    ``support_requests`` makes a deep copy of everything it holds each time
    it is called; copying the CPUs of a big host would be most of the
    fuzzer's work.
    """

    def __init__(self, cells: list[dict[str, ty.Any]]) -> None:
        self.cells = [
            objects.NUMACell(id=cell['id'], socket=cell['socket'])
            for cell in cells]

    def __deepcopy__(self, memo: dict[int, ty.Any]) -> '_Sockets':
        return self


class Inputs(ty.NamedTuple):
    """The arguments of ``numa_fit_instance_to_host``, in its order."""

    host_topology: objects.NUMATopology
    instance_topology: objects.InstanceNUMATopology
    provider_mapping: dict[str, list[str]] | None
    limits: objects.NUMATopologyLimits | None
    pci_requests: list[objects.InstancePCIRequest] | None
    pci_stats: pci_stats.PciDeviceStats | None


def request_id(number: int) -> str:
    """The id of the case's PCI request with this number."""
    return str(uuid.uuid5(_NAMESPACE, f'request {number}'))


def provider_id(number: int) -> str:
    """The id of the resource provider behind the PCI pool of this number."""
    return str(uuid.uuid5(_NAMESPACE, f'provider {number}'))


class Case:
    """A host and a guest; never changed once made.

    :param data: the JSON form; the case keeps it, so leave it alone
    """

    def __init__(self, data: dict[str, ty.Any]) -> None:
        setup()
        self.data = data

    def __str__(self) -> str:
        return json.dumps(self.data, separators=(',', ':'))

    @classmethod
    def parse(cls, text: str) -> 'Case':
        """:raises ValueError: if the text is not JSON"""
        return cls(json.loads(text))

    @functools.cached_property
    def host_json(self) -> str:
        """The host as nova's database has it.

        Written out here, as making nova's objects only to have them write
        this would be a good part of the fuzzer's work.
        """
        cells = []
        for data in self.data['host']:
            cell = {
                'id': data['id'],
                'cpuset': list(set(data['shared'])),
                'pcpuset': list(set(data['dedicated'])),
                'pinned_cpus': list(set(data['pinned'])),
                'siblings': [list(set(core)) for core in data['siblings']],
                'memory': data['memory'],
                'memory_usage': data['memory_used'],
                'cpu_usage': data['cpu_usage'],
                'mempages': [
                    _primitive(objects.NUMAPagesTopology, {
                        'size_kb': size, 'total': total, 'used': used,
                        'reserved': reserved})
                    for size, total, used, reserved in data['pages']],
                'socket': data['socket'],
            }
            if data['network']:
                cell['network_metadata'] = _primitive(
                    objects.NetworkMetadata, data['network'])
            cells.append(_primitive(objects.NUMACell, cell))
        return json.dumps(_primitive(objects.NUMATopology, {'cells': cells}))

    def host(self) -> objects.NUMATopology:
        """The host as nova-scheduler and nova-compute make it of host_json."""
        return _bare(objects.NUMATopology, {'cells': [
            _bare(objects.NUMACell, {
                'id': data['id'],
                'cpuset': _stored(data['shared']),
                'pcpuset': _stored(data['dedicated']),
                'pinned_cpus': _stored(data['pinned']),
                'siblings': [_stored(core) for core in data['siblings']],
                'memory': data['memory'],
                'memory_usage': data['memory_used'],
                'cpu_usage': data['cpu_usage'],
                'mempages': [
                    _bare(objects.NUMAPagesTopology, {
                        'size_kb': size, 'total': total, 'used': used,
                        'reserved': reserved})
                    for size, total, used, reserved in data['pages']],
                'socket': data['socket'],
                **({'network_metadata': _network(data['network'])}
                   if data['network'] else {}),
            }) for data in self.data['host']]})

    def guest(self) -> objects.InstanceNUMATopology:
        guest = self.data['guest']
        return _bare(objects.InstanceNUMATopology, {
            'cells': [
                _bare(objects.InstanceNUMACell, {
                    'id': number,
                    'cpuset': _assigned(set(cell['shared'])),
                    'pcpuset': _assigned(set(cell['dedicated'])),
                    'cpuset_reserved': None,
                    'memory': cell['memory'],
                    'pagesize': guest['pagesize'],
                    'cpu_pinning_raw': None,
                    'cpu_policy': guest['policy'],
                    'cpu_thread_policy': guest['threads'],
                }) for number, cell in enumerate(guest['cells'])],
            'emulator_threads_policy': guest['emulator'],
        })

    def limits(self) -> objects.NUMATopologyLimits | None:
        data = self.data['limits']
        if data is None:
            return None
        limits = objects.NUMATopologyLimits(
            cpu_allocation_ratio=data['cpu'], ram_allocation_ratio=data['ram'])
        if data['network']:
            limits.network_metadata = _network(data['network'])
        return limits

    def pci_requests(self) -> list[objects.InstancePCIRequest] | None:
        if self.data['pci'] is None:
            return None
        return [
            objects.InstancePCIRequest(
                request_id=request_id(number),
                count=request['count'],
                spec=copy.deepcopy(request['spec']),
                alias_name=request['alias'],
                numa_policy=request['policy'])
            for number, request in enumerate(self.data['pci']['requests'])]

    def pci_stats(self) -> pci_stats.PciDeviceStats | None:
        if self.data['pci'] is None:
            return None
        stats = pci_stats.PciDeviceStats(
            _Sockets(self.data['host']), dev_filter=_WHITELIST)
        stats.pools = copy.deepcopy(self.data['pci']['pools'])
        return stats

    def mapping(self) -> dict[str, list[str]] | None:
        if self.data['pci'] is None:
            return None
        return copy.deepcopy(self.data['pci']['mapping'])

    def inputs(self) -> Inputs:
        """Fresh arguments for ``numa_fit_instance_to_host``."""
        return self.inputs_with(self.host())

    def inputs_with(self, host: objects.NUMATopology) -> Inputs:
        """As inputs(), but with a host that is there already."""
        return Inputs(
            host, self.guest(), self.mapping(), self.limits(),
            self.pci_requests(), self.pci_stats())

    @contextlib.contextmanager
    def configured(self) -> ty.Iterator[None]:
        """Have nova's order of host cells be the one that the case wants."""
        name = 'packing_host_numa_cells_allocation_strategy'
        if getattr(CONF.compute, name) == self.data['pack']:
            yield
            return
        CONF.set_override(name, self.data['pack'], 'compute')
        try:
            yield
        finally:
            CONF.clear_override(name, 'compute')


_WHITELIST = whitelist.Whitelist()


def _primitive(kind: ty.Any, data: dict[str, ty.Any]) -> dict[str, ty.Any]:
    """Return what obj_to_primitive of an object of this kind does."""
    return {
        'nova_object.name': kind.__name__,
        'nova_object.namespace': 'nova',
        'nova_object.version': kind.VERSION,
        'nova_object.data': data,
    }


def _bare(kind: ty.Any, values: dict[str, ty.Any]) -> ty.Any:
    """Return an object of nova's with these values and no others."""
    made = kind.__new__(kind)
    # This leaves out setting defaults field by field.
    nova_base.NovaObject.__init__(made)
    for name, value in values.items():
        made.__dict__[f'_obj_{name}'] = value
    return made


def _assigned(cpus: set[int]) -> set[int]:
    """Return a set as it is once assigned to a field of a nova object.

    That copies it element by element, and the copy as a whole.
    """
    return set().union({cpu for cpu in cpus})


def _stored(cpus: list[int]) -> set[int]:
    """Return a set as it is once read from nova's database, a list there."""
    return _assigned({cpu for cpu in list(set(cpus))})


def _network(data: dict[str, ty.Any]) -> objects.NetworkMetadata:
    return objects.NetworkMetadata(
        physnets=set(data['physnets']), tunneled=data['tunneled'])
