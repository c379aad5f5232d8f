# SPDX-License-Identifier: Apache-2.0
"""What the tests ask of a cloud besides servers: hosts and their marks."""

from collections.abc import Collection
from collections.abc import Iterator
from collections.abc import Mapping
import contextlib
from typing import Any

from tempest.lib import exceptions

from nova_pinning.tempest_plugin import hosts

# To change what others change as well.
_ATTEMPTS = 5


def read_hosts(
    clients: Any, cpu_sets: Mapping[str, hosts.CpuSets],
) -> dict[str, hosts.ComputeHost]:
    """The compute hosts that are up, enabled and have CPU sets, by name.

    :param clients: tempest.clients.Manager of an administrator
    """
    services = clients.services_client.list_services(
        binary='nova-compute')['services']
    usable = {service['host'] for service in services
              if service['state'] == 'up' and service['status'] == 'enabled'}
    hypervisors = clients.hypervisor_client.list_hypervisors(
        detail=True)['hypervisors']
    return {
        name: _read(clients, name, hypervisor['id'], cpu_sets[name])
        for hypervisor in hypervisors
        if (name := hypervisor['service']['host']) in usable & set(cpu_sets)}


def read_host(clients: Any, host: hosts.ComputeHost) -> hosts.ComputeHost:
    """A host as it is now."""
    return _read(clients, host.name, host.provider, host.sets)


def allocated(clients: Any, server_id: str) -> dict[str, dict[str, int]]:
    """What Placement has for a server: amounts by class, by provider."""
    allocations = clients.placement_client.list_allocations(
        server_id)['allocations']
    return {provider: allocation['resources']
            for provider, allocation in allocations.items()}


@contextlib.contextmanager
def traits(
    clients: Any, host: hosts.ComputeHost, add: Collection[str],
    remove: Collection[str],
) -> Iterator[None]:
    """Change a host's traits, and change them back in the end."""
    for trait in add:
        clients.placement_client.create_trait(trait)
    added = set(add) - host.traits
    removed = set(remove) & host.traits
    with contextlib.ExitStack() as undo:
        undo.callback(_change_traits, clients, host.provider, removed, added)
        _change_traits(clients, host.provider, added, removed)
        yield


@contextlib.contextmanager
def aggregate(
    clients: Any,
    host: hosts.ComputeHost,
    name: str,
    metadata: Mapping[str, str],
) -> Iterator[None]:
    """Have a host in its own aggregate for a while."""
    client = clients.aggregates_client
    with contextlib.ExitStack() as undo:
        made = client.create_aggregate(name=name)['aggregate']['id']
        undo.callback(client.delete_aggregate, made)
        client.set_metadata(made, metadata=dict(metadata))
        client.add_host(made, host=host.name)
        undo.callback(client.remove_host, made, host=host.name)
        yield


@contextlib.contextmanager
def disabled(clients: Any, host: hosts.ComputeHost) -> Iterator[None]:
    """Have nova choose a host for nothing for a while."""
    client = clients.services_client
    service, = client.list_services(
        binary='nova-compute', host=host.name)['services']
    with contextlib.ExitStack() as undo:
        undo.callback(client.update_service, service['id'], status='enabled')
        client.update_service(service['id'], status='disabled')
        yield


def _read(
    clients: Any, name: str, provider: str, sets: hosts.CpuSets,
) -> hosts.ComputeHost:
    placement = clients.resource_providers_client
    inventories = placement.list_resource_provider_inventories(
        provider)['inventories']
    used = placement.list_resource_provider_usages(provider)['usages']
    traits = placement.list_resource_provider_traits(provider)['traits']
    return hosts.ComputeHost(name, provider, sets, frozenset(traits),
                             hosts.free(inventories, used))


def _change_traits(
    clients: Any, provider: str, add: Collection[str],
    remove: Collection[str],
) -> None:
    """Change traits of a provider, in between what nova-compute does to it."""
    client = clients.resource_providers_client
    for attempts_left in reversed(range(_ATTEMPTS)):
        now = client.list_resource_provider_traits(provider)
        traits = set(now['traits']) - set(remove) | set(add)
        try:
            client.update_resource_provider_traits(
                provider, traits=sorted(traits),
                resource_provider_generation=now[
                    'resource_provider_generation'])
            return
        except exceptions.Conflict:
            if not attempts_left:
                raise
