# SPDX-License-Identifier: Apache-2.0
"""What is asked of Placement, on a keystoneauth1 adapter."""

import collections
from collections.abc import Iterable
from collections.abc import Mapping
import dataclasses
import urllib.parse

from nova_pinning import errors
from nova_pinning.placement import inventory
from nova_pinning.placement import provider_reader

#: How often a change is tried while others change the same provider.
_CONFLICTS = 10


@dataclasses.dataclass(frozen=True, slots=True)
class ProviderTraits:
    """A provider's traits, and the generation at which it had them."""

    names: frozenset[str]
    generation: int


#: What a provider has of one resource class.
ProviderInventory = inventory.Inventory


class PlacementClient(provider_reader.PlacementReader):
    """A cloud's Placement, with what each provider has, and to change it."""

    def traits(self, provider: str) -> ProviderTraits:
        """All traits of a provider.

        :param provider: its UUID
        """
        body = self._get(f'/resource_providers/{_quoted(provider)}/traits')
        return ProviderTraits(frozenset(body['traits']),
                              body['resource_provider_generation'])

    def inventories(self, provider: str) -> Mapping[str, ProviderInventory]:
        """What a provider has, by resource class.

        :param provider: its UUID
        """
        body = self._get(
            f'/resource_providers/{_quoted(provider)}/inventories')
        return {
            name: ProviderInventory(
                row['total'], row['reserved'], row['allocation_ratio'],
                row.get('min_unit', 1),
                None if row.get('max_unit') == row['total']
                else row.get('max_unit'), row.get('step_size', 1))
            for name, row in body['inventories'].items()}

    def allocations(self, provider: str) -> Mapping[str, Mapping[str, int]]:
        """What is allocated of a provider, by consumer and resource class.

        Consumers of nova's are servers, from when their host is chosen, and
        migrations, for what a server holds on the host that it leaves.

        :param provider: its UUID
        """
        body = self._get(
            f'/resource_providers/{_quoted(provider)}/allocations')
        return {consumer: row['resources']
                for consumer, row in body['allocations'].items()}

    def consumers(self, provider: str) -> frozenset[str]:
        """The UUIDs of all that has an allocation from a provider."""
        return frozenset(self.allocations(provider))

    def aggregates(self, provider: str) -> tuple[str, ...]:
        """The UUIDs of the aggregates that a provider is in.

        :param provider: its UUID
        """
        body = self._get(
            f'/resource_providers/{_quoted(provider)}/aggregates')
        return tuple(body['aggregates'])

    def allocation(self, consumer: str) -> Mapping[str, int]:
        """What a consumer has of all providers together, by resource class.

        :param consumer: the UUID of a server or a migration
        """
        total: collections.Counter[str] = collections.Counter()
        for row in self._get(f'/allocations/{_quoted(consumer)}')[
                'allocations'].values():
            total.update(row['resources'])
        return total

    def change_traits(self, provider: str, add: Iterable[str] = (),
                      remove: Iterable[str] = ()) -> bool:
        """Give traits to a provider and take others away, in one step.

        Its other traits stay as they are, also those that somebody else
        changes meanwhile: Placement refuses what was worked out from an
        older generation (409), and then it is worked out anew. Traits that
        Placement does not know yet are made known to it.

        :param provider: its UUID
        :returns: whether there was anything to change
        """
        add, remove = frozenset(add), frozenset(remove)
        has_changed = False
        path = f'/resource_providers/{_quoted(provider)}/traits'
        for _try in range(_CONFLICTS):
            before = self.traits(provider)
            after = before.names - remove | add
            if after == before.names:
                return has_changed
            for trait in sorted(add - before.names):
                self._check(self._request('PUT', f'/traits/{_quoted(trait)}'))
            has_changed = True
            response = self._request('PUT', path, json={
                'resource_provider_generation': before.generation,
                'traits': sorted(after)})
            if response.status_code != 409:
                self._check(response)
                return True
        raise errors.CloudError(
            f'provider {provider} changes faster than its traits can be set')


def _quoted(part: str) -> str:
    return urllib.parse.quote(part, safe='')
