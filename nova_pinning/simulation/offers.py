# SPDX-License-Identifier: Apache-2.0
"""What Placement offers in a simulation: hosts with room by its counts."""

from collections.abc import Mapping
from typing import NamedTuple
from typing import TypeAlias

import numpy

from nova_pinning.admission import guest_request
from nova_pinning.admission import shortages
from nova_pinning.model import hostclass
from nova_pinning.placement import inventory
from nova_pinning.simulation import occupancy_ledger

Flags: TypeAlias = numpy.ndarray


class ResourceQuery(NamedTuple):
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

    def resources(self, index: int) -> Mapping[str, int]:
        """What the first query asked for that found a host."""
        return next(resources for resources, may in self.by_query
                    if may[index])


class PlacementCounts:
    """Counts as Placement does."""

    def __init__(self, ledger: occupancy_ledger.OccupancyLedger) -> None:
        self._ledger = ledger
        count = len(ledger.hosts)
        #: What all guests together may have, and any one of them.
        self._capacity = {name: numpy.zeros(count) for name in ledger.used}
        self._most = {name: numpy.zeros(count) for name in ledger.used}
        for index, host in enumerate(ledger.hosts):
            if host.disk_gib is None:
                self._capacity[inventory.DISK_GB][index] = numpy.inf
                self._most[inventory.DISK_GB][index] = numpy.inf
            for name, has in host.root_inventories.items():
                # No guest of a simulation is counted with others.
                if name in ledger.used:
                    self._capacity[name][index] = has.capacity
                    self._most[name][index] = has.total

    def resource_queries(
            self,
            request: guest_request.GuestRequest) -> tuple[ResourceQuery, ...]:
        """The queries for a guest."""
        return tuple(
            ResourceQuery(query.resources, numpy.array([
                host.is_enabled and all(
                    refusal.name == 'resources'
                    for refusal in shortages.shortages(host, [
                        {} for _provider in host.providers], (query,)))
                for host in self._ledger.hosts], dtype=bool))
            for query in request.queries)

    def offers(self, queries: tuple[ResourceQuery, ...]) -> Offers:
        """The hosts that have room now.

        Nova asks all of its queries and puts the answers together.
        """
        offered = []
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
            offered.append((query.resources, fine))
            some |= fine
        return Offers(some, tuple(offered))


#: A bit for each class of guests that a host takes.
_BITS: Mapping[hostclass.HostClass | None, int] = {
    host_class: 1 << number
    for number, host_class in enumerate(hostclass.HostClass)}


class ClassGate:
    """Which hosts HostClassFilter lets pass, as guests come and go.

    :param unknown: [pinning] unknown_host_class
    """

    def __init__(self, ledger: occupancy_ledger.OccupancyLedger,
                 unknown: str) -> None:
        self._ledger = ledger
        self._unknown = unknown
        self._bits = numpy.array([_BITS.get(host.known_class, 0)
                                  for host in ledger.hosts], dtype=numpy.int8)
        #: Hosts of which nothing but their guests tells, by index.
        self._unmarked = numpy.flatnonzero(self._bits == 0)
        self._seen = numpy.full(len(self._unmarked), -1)

    def allowed(self, guest_class: hostclass.HostClass) -> Flags:
        """The hosts that guests of a class may go to now."""
        version = self._ledger.version[self._unmarked]
        for index in self._unmarked[self._seen != version].tolist():
            self._bits[index] = self._bits_of(index)
        self._seen = version
        return (self._bits & _BITS[guest_class]) != 0

    def _bits_of(self, index: int) -> int:
        try:
            host_class = hostclass.class_of_unmarked(
                self._unknown, self._ledger.engine(index).cells,
                int(self._ledger.used_vcpus[index]))
        except hostclass.UnknownClass:
            return 0
        return _BITS.get(host_class, sum(_BITS.values()))
