# SPDX-License-Identifier: Apache-2.0
"""A cloud with hosts of both classes, in memory."""

import collections
import dataclasses
import threading

from hypothesis import strategies

from nova_pinning import errors
from nova_pinning.flavors import flavor_model
from nova_pinning.model import hostclass
from nova_pinning.placement import client
from nova_pinning.placement import placement_traits
from nova_pinning.segregation import segregation_model

DEDICATED = hostclass.HostClass.DEDICATED
SHARED = hostclass.HostClass.SHARED

DEDICATED_KEY = f'trait:{placement_traits.DEDICATED}'
SHARED_KEY = f'trait:{placement_traits.SHARED}'

DEDICATED_SPECS = {'hw:cpu_policy': 'dedicated', DEDICATED_KEY: 'required'}
SHARED_SPECS = {DEDICATED_KEY: 'forbidden'}
#: Extra specs of any sense, or none.
FLAVOR_SPECS = strategies.fixed_dictionaries({}, optional={
    'hw:cpu_policy': strategies.sampled_from(
        ['dedicated', 'mixed', 'shared']),
    'pinning:class': strategies.sampled_from(['dedicated', 'shared', 'x']),
    DEDICATED_KEY: strategies.sampled_from(['required', 'forbidden']),
    SHARED_KEY: strategies.sampled_from(['required', 'forbidden'])})


def inventories(**changes):
    """What a host offers: totals, or Inventory objects, by class."""
    inventories = {'MEMORY_MB': 4096, **changes}
    return {name: inventory if isinstance(inventory, client.ProviderInventory)
            else client.ProviderInventory(inventory, 0, 1.0)
            for name, inventory in inventories.items()}


INVENTORIES = {DEDICATED: inventories(PCPU=8), SHARED: inventories(VCPU=8),
               None: inventories(VCPU=8)}


def host(name, *names, **changes):
    """A host whose provider has these traits."""
    return segregation_model.MarkedHost(name=name, node=f'node-{name}',
                                        provider=f'rp-{name}',
                                        traits=frozenset(names), **changes)


def aggregate(name, *hosts, **metadata):
    """An aggregate; in the keys of metadata _ stands for a colon."""
    return segregation_model.HostAggregate(
        id=len(name), uuid=f'uuid-{name}', name=name, hosts=frozenset(hosts),
        metadata={key.replace('_', ':', 1): value
                  for key, value in metadata.items()})


def packing(name, text, *hosts):
    """An aggregate that says in which order its hosts take NUMA cells."""
    return dataclasses.replace(aggregate(name, *hosts), metadata={
        placement_traits.PACKING_KEY: text})


def isolating(name, host_class, *hosts):
    """An aggregate that isolates its hosts."""
    return dataclasses.replace(aggregate(name, *hosts), metadata={
        f'trait:{placement_traits.TRAIT_OF[host_class]}': 'required'})


def flavor(name, extra_specs=None, **changes):
    """A flavor with these extra specs."""
    return flavor_model.Flavor(
        name=name, id=f'id-{name}', vcpus=2, memory_mib=512,
        extra_specs=extra_specs or {}, **changes)


def server(name, on_host, host_class, **changes):
    """A server that runs on a host."""
    return segregation_model.HostedServer(**{
        'id': f'id-{name}', 'name': name, 'project': 'p', 'host': on_host,
        'flavor': f'{host_class}.large', 'host_class': host_class,
        'status': 'ACTIVE', **changes})


class FakePlacement:

    def __init__(self, cloud):
        self._cloud = cloud

    def known_traits(self, prefix, is_used):
        self._cloud.called('known_traits')
        return tuple(sorted(self._cloud.traits))

    def inventories(self, provider):
        self._cloud.called('inventories', provider)
        if provider not in self._cloud.offers:
            raise errors.RefusedError('404')
        return self._cloud.offers[provider]


class FakeCloud:
    """What the audit asks for, from several threads at once.

    :ivar all_hosts: the hosts, without their aggregates
    :ivar offers: inventories by the UUID of the provider
    :ivar inside: UUIDs of providers by that of the aggregate, where Placement
        is not in step with nova
    :ivar traits: those that Placement knows
    :ivar pinned: ids of servers with pinned vCPUs
    :ivar calls: (method, argument) of all calls
    :ivar hook: called with the method, its argument, and how often it has
        been called with that
    """

    name = 'fake'

    def __init__(self, hosts=(), servers=(), flavors=(), aggregates=()):
        self.all_hosts = list(hosts)
        self.all_servers = list(servers)
        self.all_flavors = list(flavors)
        self.all_aggregates = list(aggregates)
        self.all_bare_metal = 0
        self.offers = {}
        for host in hosts:
            classes = placement_traits.classes_of(host.traits or ())
            self.offers[host.provider] = INVENTORIES[
                min(classes) if classes else None]
        self.inside = {}
        self.pinned = set()
        self.traits = set(placement_traits.TRAIT_OF.values())
        self.calls = []
        self.hook = None
        self.placement = FakePlacement(self)
        self._lock = threading.Lock()
        self._counts = collections.Counter()

    def called(self, method, argument=''):
        with self._lock:
            self.calls.append((method, argument))
            self._counts[method, argument] += 1
            count = self._counts[method, argument]
        if self.hook:
            self.hook(method, argument, count)

    def count(self, method):
        """How often a method was called."""
        return sum(name == method for name, _argument in self.calls)

    def hosts(self):
        self.called('hosts')
        return tuple(
            dataclasses.replace(host, aggregates=tuple(
                aggregate for aggregate in self.all_aggregates
                if host.name in aggregate.hosts))
            for host in self.all_hosts)

    def bare_metal(self):
        self.called('bare_metal')
        return self.all_bare_metal

    def aggregates(self):
        self.called('aggregates')
        return tuple(self.all_aggregates)

    def flavors(self):
        self.called('flavors')
        return tuple(self.all_flavors)

    def members(self, aggregate):
        self.called('members', aggregate.uuid)
        if aggregate.uuid in self.inside:
            return frozenset(self.inside[aggregate.uuid])
        return frozenset(host.provider for host in self.all_hosts
                         if host.name in aggregate.hosts)

    def servers(self, host=''):
        self.called('servers', host)
        yield from [server for server in self.all_servers
                    if not host or server.host == host]

    def topology(self, server):
        self.called('topology', server)
        if not any(own.id == server for own in self.all_servers):
            return None
        return {'nodes': [{'cpu_pinning': {'0': 1}}]
                if server in self.pinned else []}
