# SPDX-License-Identifier: Apache-2.0
"""A cloud in memory that behaves as nova and Placement do, with faults."""

import dataclasses

from nova_pinning import errors
from nova_pinning.placement import placement_traits
from nova_pinning.segregation import segregation_model


def provider(host):
    """The UUID of a host's resource provider."""
    return f'rp-{host}'


def server(name, host_class, host='', **changes):
    """A server whose id is its name."""
    return segregation_model.HostedServer(**{
        'id': name, 'name': name, 'project': 'p', 'host': host,
        'flavor': 'f', 'host_class': host_class, 'status': 'ACTIVE',
        **changes})


class FakeCloud:
    """A SegregationCloud of a few hosts, as far as class_change asks it.

    It is its own Placement.

    :param hosts: traits by host; None for a host without a provider
    :param aggregates: (hosts, metadata) by name
    :param servers: model.Server
    :param pinned: ids of the servers that have pinned CPUs
    :param consumers: ids of what has allocations, by host, besides the
        servers on it
    :param migrations: (host that it left, id of the server), by UUID
    :param inventories: of each host, by resource class
    """

    def __init__(self, hosts, aggregates=None, servers=(), pinned=(),
                 consumers=None, migrations=None, inventories=None):
        self.name = 'fake'
        self.placement = self
        self.traits = {provider(name): None if own is None else set(own)
                       for name, own in hosts.items()}
        self._names = list(hosts)
        self._members = {name: set(members) for name, (members, _metadata)
                         in (aggregates or {}).items()}
        self._metadata = {name: dict(metadata) for name, (_members, metadata)
                          in (aggregates or {}).items()}
        self.all_servers = {server.id: server for server in servers}
        self._pinned = set(pinned)
        self._consumers = consumers or {}
        self._migrations = migrations or {}
        self._inventories = inventories or {}
        #: Every call, as (name of the method, arguments).
        self.calls = []
        #: Called with the number of each call, before it does anything, and
        #: with True after it.
        self.on_call = lambda number, is_done: None

    def _called(self, name, *arguments):
        self.calls.append((name, *arguments))
        self.on_call(len(self.calls) - 1, False)

    def _done(self):
        self.on_call(len(self.calls) - 1, True)

    @property
    def changes(self):
        """The calls that change something, without their arguments."""
        return [call[0] for call in self.calls if call[0] in (
            'change_traits', 'add_host', 'remove_host')]

    @property
    def state(self):
        return (self.traits, self._members)

    # Nova.

    def aggregates(self):
        self._called('aggregates')
        return tuple(
            segregation_model.HostAggregate(number, f'uuid-{name}', name,
                                            frozenset(members),
                                            self._metadata[name])
            for number, (name, members) in enumerate(self._members.items()))

    def bare_metal(self):
        return 0

    def hosts(self):
        aggregates = self.aggregates()
        hosts = []
        for name in self._names:
            own = self.traits[provider(name)]
            hosts.append(
                segregation_model.MarkedHost(
                    name, name, provider(name),
                    None if own is None else frozenset(
                        trait for trait in own
                        if trait.startswith(placement_traits.PREFIX)),
                    tuple(aggregate for aggregate in aggregates
                          if name in aggregate.hosts)))
        return tuple(hosts)

    def servers(self, host=''):
        self._called('servers', host)
        yield from [server for server in self.all_servers.values()
                    if not host or server.host == host]

    def server(self, server):
        self._called('server', server)
        return self.all_servers.get(server)

    def revertible(self, host):
        self._called('revertible', host)
        return {uuid: server for uuid, (source, server)
                in self._migrations.items() if source == host}

    def topology(self, server):
        self._called('topology', server)
        if server not in self.all_servers:
            return None
        return {'nodes': [{'cpu_pinning': {'0': 1}}]
                if server in self._pinned else []}

    def add_host(self, aggregate, host):
        self._called('add_host', aggregate.name, host)
        self._members[aggregate.name].add(host)
        self._done()

    def remove_host(self, aggregate, host):
        self._called('remove_host', aggregate.name, host)
        self._members[aggregate.name].discard(host)
        self._done()

    # Placement.

    def consumers(self, uuid):
        self._called('consumers', uuid)
        if self.traits[uuid] is None:
            raise errors.RefusedError('no such provider')
        return frozenset(
            [server.id for server in self.all_servers.values()
             if provider(server.host) == uuid]
            + [consumer for host, own in self._consumers.items()
               for consumer in own if provider(host) == uuid])

    def inventories(self, uuid):
        self._called('inventories', uuid)
        return self._inventories

    def change_traits(self, uuid, add=(), remove=()):
        self._called('change_traits', uuid)
        before = set(self.traits[uuid])
        self.traits[uuid] = before - set(remove) | set(add)
        self._done()
        return self.traits[uuid] != before

    # What befalls it.

    def put(self, *servers):
        """Have servers appear, or change."""
        for server in servers:
            self.all_servers[server.id] = server

    def move(self, name, host):
        """Have a server on another host."""
        self.put(dataclasses.replace(self.all_servers[name], host=host))
