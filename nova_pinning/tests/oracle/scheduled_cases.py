# SPDX-License-Identifier: Apache-2.0
"""A case as nova-scheduler sees it: HostStates and a RequestSpec."""

from __future__ import annotations

import typing as ty
import uuid

from nova import objects
from nova.objects import service
from nova.scheduler import host_manager

from nova_pinning.model import nova_release
from nova_pinning.tests.oracle import oracle_case


def host_state(name: str = 'host1', topology: ty.Any = None,
               **values: ty.Any) -> host_manager.HostState:
    """A nova HostState; values override attributes.

    :param topology: nova.objects.NUMATopology or None
    """
    state = host_manager.HostState(name, f'{name}.example', uuid.uuid4().hex)
    state.uuid = str(uuid.uuid4())
    state.numa_topology = topology
    state.cpu_allocation_ratio = 16.0
    state.ram_allocation_ratio = 1.5
    state.allocation_candidates = [{'mappings': {}}]
    state.service = {'version': service.SERVICE_VERSION}
    for key, value in values.items():
        setattr(state, key, value)
    return state


def spec(topology: ty.Any = None, extra_specs: dict[str, str] | None = None,
         image: dict[str, ty.Any] | None = None,
         **values: ty.Any) -> objects.RequestSpec:
    """A nova.objects.RequestSpec; values override fields.

    :param topology: nova.objects.InstanceNUMATopology or None
    :param image: image properties
    """
    oracle_case.setup()
    return objects.RequestSpec(**{
        'instance_uuid': str(uuid.uuid4()),
        'flavor': objects.Flavor(
            vcpus=1, memory_mb=1, root_gb=0, ephemeral_gb=0, swap=0,
            extra_specs=extra_specs or {}),
        'image': objects.ImageMeta(
            properties=objects.ImageMetaProps(**image or {})),
        'numa_topology': topology,
        'pci_requests': objects.InstancePCIRequests(requests=[]),
        'requested_resources': [],
        'scheduler_hints': {},
    } | values)


def state_of(case: oracle_case.Case,
             topology: ty.Any = None) -> host_manager.HostState:
    """The case's host.

    :param topology: nova.objects.NUMATopology, if it is there already
    """
    sees_devices = case.data.get('sees_devices', True)
    version = {True: nova_release.of_name('2026.2').service_version,
               False: nova_release.of_name('2025.1').service_version,
               None: None}[sees_devices]
    limits = case.data['limits']
    ratios = limits and {
        'cpu_allocation_ratio': limits['cpu'],
        'ram_allocation_ratio': limits['ram']}
    return host_state(
        topology=topology or case.host(), pci_stats=case.pci_stats(),
        allocation_candidates=[{'mappings': case.mapping()}],
        service={'version': version},
        **(ratios or {}))


def spec_of(case: oracle_case.Case) -> objects.RequestSpec:
    """The case's guest."""
    limits = case.limits()
    values = {}
    if limits and 'network_metadata' in limits:
        values['network_metadata'] = limits.network_metadata
    extra_specs = {
        f'hw:{key}': value for key, value in (
            ('cpu_policy', case.data['guest']['policy']),
            ('cpu_thread_policy', case.data['guest']['threads'])) if value}
    return spec(
        case.guest(), extra_specs,
        pci_requests=objects.InstancePCIRequests(
            requests=case.pci_requests() or []), **values)
