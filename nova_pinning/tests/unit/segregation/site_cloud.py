# SPDX-License-Identifier: Apache-2.0
"""A cloud in memory for site files."""

from nova_pinning import errors
from nova_pinning.placement import provider_reader
from nova_pinning.tests.unit.segregation import fake_host_cloud


class SiteCloud(fake_host_cloud.FakeCloud):
    """A cloud whose changing requests can go wrong.

    :ivar faults: what is raised in place of a changing request, by its number
    :ivar look: called after each changing request
    """

    _CHANGES = ('change_traits', 'add_host', 'remove_host',
                'create_aggregate', 'set_metadata')

    def __init__(self, hosts, aggregates=None, servers=(), pinned=()):
        super().__init__(hosts, aggregates, servers, pinned)
        self.faults = {}
        self.look = lambda: None
        self.on_call = self._go_wrong

    def copy(self):
        traits, aggregates = self.snapshot()
        return SiteCloud(traits, aggregates, self.all_servers.values(),
                         self._pinned)

    def snapshot(self):
        """Traits by host, and (hosts, metadata) by aggregate."""
        return ({name: frozenset(self.traits[fake_host_cloud.provider(name)])
                 for name in self._names},
                {name: (frozenset(members), dict(self._metadata[name]))
                 for name, members in self._members.items()})

    @property
    def changes(self):
        return [call for call in self.calls if call[0] in self._CHANGES]

    def _go_wrong(self, number, is_done):
        if is_done:
            self.look()
        elif self.calls[number][0] in self._CHANGES:
            fault = self.faults.get(len(self.changes) - 1)
            if fault:
                raise fault

    def known_traits(self, prefix):
        return tuple({trait for own in self.traits.values() for trait in own
                      if trait.startswith(prefix)})

    def providers(self, *, required):
        if not self.known_traits(required):
            raise errors.RefusedError('no such trait (400)')
        return tuple(provider_reader.ResourceProvider(uuid, 'name', 1)
                     for uuid, own in self.traits.items() if required in own)

    def create_aggregate(self, name):
        self._called('create_aggregate', name)
        if name not in self._members:
            self._members[name] = set()
            self._metadata[name] = {}
        self._done()
        return next(aggregate for aggregate in self.aggregates()
                    if aggregate.name == name)

    def set_metadata(self, aggregate, metadata):
        self._called('set_metadata', aggregate.name)
        self._metadata[aggregate.name].update(metadata)
        self._done()
