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

"""What Placement offers in a simulation: hosts with room by its counts."""

from collections.abc import Mapping
import dataclasses
from typing import NamedTuple
from typing import TypeAlias

import numpy

from nova_pinning.fleet import placement
from nova_pinning.fleet.simulate import hosts
from nova_pinning.fleet.simulate import ledger as ledgers
from nova_pinning.fleet import standing
from nova_pinning.fleet import wanted as fleet_wanted

Flags: TypeAlias = numpy.ndarray


class Asked(NamedTuple):
    """A query to Placement.

    :param may: the hosts that are enabled and have the traits asked for
    """

    resources: Mapping[str, int]
    may: Flags


class Offers(NamedTuple):
    """Placement's answers to the queries for a guest.

    :param any: the hosts that any of them found
    :param by_query: the hosts that each of them found
    """

    any: Flags
    by_query: tuple[tuple[Mapping[str, int], Flags], ...]

    def resources(self, place: int) -> Mapping[str, int]:
        """What the first query asked for that found a host."""
        return next(resources for resources, found in self.by_query
                    if found[place])


class Placement:
    """Counts as Placement does."""

    def __init__(self, ledger: ledgers.Ledger) -> None:
        self._ledger = ledger
        count = len(ledger.hosts)
        #: What all guests together may have, and any one of them.
        self._capacity = {name: numpy.zeros(count) for name in ledger.used}
        self._most = {name: numpy.zeros(count) for name in ledger.used}
        for place, host in enumerate(ledger.hosts):
            if host.disk_gib is None:
                self._capacity[placement.DISK_GB][place] = numpy.inf
                self._most[placement.DISK_GB][place] = numpy.inf
            for name, inventory in placement.inventories(host).items():
                self._capacity[name][place] = inventory.capacity
                self._most[name][place] = inventory.total

    def asked(self, wanted: fleet_wanted.Wanted) -> tuple[Asked, ...]:
        """The queries for a guest."""
        bare = [standing.of_host(host) for host in self._ledger.hosts]
        return tuple(
            Asked(query.resources, numpy.array([
                one.host.is_enabled and not placement.exclusions(
                    one, dataclasses.replace(query, resources={}))
                for one in bare], dtype=bool))
            for query in wanted.queries)

    def offers(self, queries: tuple[Asked, ...]) -> Offers:
        """The hosts that have room now.

        Nova asks all of its queries and puts the answers together.
        """
        found = []
        some = numpy.zeros(len(self._ledger.hosts), dtype=bool)
        for query in queries:
            fine = query.may
            for name, count in query.resources.items():
                if name in self._capacity and count:
                    fine = (
                        fine
                        & (self._ledger.used[name] + count
                           <= self._capacity[name])
                        & (count <= self._most[name]))
            found.append((query.resources, fine))
            some |= fine
        return Offers(some, tuple(found))


def allowed(ledger: ledgers.Ledger, wanted: fleet_wanted.Wanted,
            unknown: str) -> Flags:
    """The hosts whose class is the guest's, or not known and let pass.

    :param unknown: [pinning] unknown_host_class
    """
    may = numpy.zeros(len(ledger.hosts), dtype=bool)
    for place, host in enumerate(ledger.hosts):
        found = hosts.host_class(host, unknown)
        may[place] = (found is wanted.guest_class
                      or found is None and unknown != 'refuse')
    return may
