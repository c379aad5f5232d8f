#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

"""A cloud in memory for site files."""

from nova_pinning import errors
from nova_pinning.placement import client
from nova_pinning.tests.unit.segregation import fakecloud


class SiteCloud(fakecloud.FakeCloud):
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
        return ({name: frozenset(self.traits[fakecloud.provider(name)])
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
        return tuple(client.Provider(uuid, 'name', 1)
                     for uuid, own in self.traits.items() if required in own)

    def create_aggregate(self, name):
        self._called('create_aggregate', name)
        if name not in self._members:
            self._members[name] = set()
            self._metadata[name] = {}
        self._done()
        return next(one for one in self.aggregates() if one.name == name)

    def set_metadata(self, aggregate, metadata):
        self._called('set_metadata', aggregate.name)
        self._metadata[aggregate.name].update(metadata)
        self._done()
