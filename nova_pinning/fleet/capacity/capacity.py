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


"""What can still be sold of a fleet: flavor by flavor, and host by host."""

import collections
from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
import dataclasses

from nova_pinning.fleet.capacity import count
from nova_pinning.fleet.capacity import mix as mixes
from nova_pinning.fleet.capacity import stranded
from nova_pinning.fleet import model as fleet_model
from nova_pinning.fleet import placement
from nova_pinning.fleet import standing as fleet_standing
from nova_pinning.fleet import wanted as fleet_wanted
from nova_pinning.model import hostclass

_NO_ROOM = 'not one more fits'
_NO_MIX = ('guests with devices, unequal cells, floating vCPUs in NUMA cells, '
           'several page sizes or thread policy isolate are not mixed')

#: Is told how much is done, from 0 to 1.
Progress = Callable[[float], None]


@dataclasses.dataclass(frozen=True, slots=True)
class Size:
    """Further guests of one flavor, on some of the hosts.

    :param fits: that nova will place, one after another
    :param most: that fit at most; None if that was too much to find out
    :param totals: that the hosts' totals of CPUs promise
    :param missing: of these, by what is in the way, the most first
    """

    wanted: fleet_wanted.Wanted
    fits: int
    most: int | None
    totals: int
    missing: Mapping[count.Cause, int]


@dataclasses.dataclass(frozen=True, slots=True)
class Host:
    """What one host can still be sold for.

    :param counts: of each flavor
    """

    host: fleet_model.FleetHost
    counts: tuple[count.HostCount, ...]
    stranded: stranded.Stranded


@dataclasses.dataclass(frozen=True, slots=True)
class SoldMix:
    """A mix of flavors of one class.

    :param weights: of each flavor
    """

    wanted: tuple[fleet_wanted.Wanted, ...]
    weights: tuple[int, ...]
    mix: mixes.Mix


@dataclasses.dataclass(frozen=True, slots=True)
class Capacity:
    """What a fleet can still be sold for.

    :param wanted: one guest of each flavor on sale
    :param mixes: one of pinned guests and one of guests that float freely,
        as far as there are flavors for it
    :param left_out: flavors with a weight that are in no mix, by name, and
        why
    """

    fleet: fleet_model.Fleet
    wanted: tuple[fleet_wanted.Wanted, ...]
    hosts: tuple[Host, ...]
    mixes: tuple[SoldMix, ...] = ()
    left_out: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def sizes(
        self, hosts: Sequence[Host] | None = None,
    ) -> tuple[Size, ...]:
        """The flavors, summed over hosts.

        :param hosts: all unless said otherwise
        """
        rows = [host.counts for host in (
            self.hosts if hosts is None else hosts)]
        return tuple(_size(wanted, column) for wanted, column in zip(
            self.wanted, zip(*rows) if rows else [()] * len(self.wanted)))

    def by_class(self) -> dict[hostclass.HostClass | None, list[Host]]:
        """The hosts of each class, None for those of which it is unknown."""
        found: dict[hostclass.HostClass | None, list[Host]] = {
            one: [] for one in (*hostclass.HostClass, None)}
        for host in self.hosts:
            found[host.host.host_class].append(host)
        return {one: hosts for one, hosts in found.items() if hosts}


def measure(
    fleet: fleet_model.Fleet,
    wanted: Sequence[fleet_wanted.Wanted],
    weights: Mapping[str, int] | None = None,
    scope: placement.Scope = placement.Scope(),
    progress: Progress = lambda done: None,
) -> Capacity:
    """Count further guests of each flavor on each host.

    :param wanted: one guest of each flavor on sale
    :param weights: by flavor, for mixes of those that have one and of which
        at least one more fits; None for no mix
    """
    wanted = tuple(sorted(wanted, key=_rank))
    counters = [count.Counter(one, fleet.packs_cells, scope)
                for one in wanted]
    places, hosts = [], []
    finder = stranded.Finder(counters)
    number = max(1, len(fleet.hosts))
    for place in count.places(fleet_standing.of_fleet(fleet).values()):
        counts = tuple([counter.count(place) for counter in counters])
        hosts.append(Host(place.standing.host, counts,
                          finder.on_host(place, counts)))
        places.append(place)
        if not len(hosts) % 100:
            progress(len(hosts) / number)
    found = Capacity(fleet, wanted, tuple(hosts))
    if weights is None:
        return found
    left_out = {
        size.wanted.name: _NO_ROOM if not size.fits else _NO_MIX
        for counter, size in zip(counters, found.sizes())
        if weights.get(size.wanted.name)
        and not (size.fits and mixes.can_mix(counter))}
    return dataclasses.replace(found, left_out=left_out, mixes=_mixes(
        counters, places, hosts, {
            name: weight for name, weight in weights.items()
            if weight and name not in left_out}))


def present(fleet: fleet_model.Fleet) -> dict[str, int]:
    """How many guests of each flavor the fleet has."""
    return dict(collections.Counter(
        guest.flavor for guest in fleet.guests if guest.flavor))


def _rank(wanted: fleet_wanted.Wanted) -> tuple[object, ...]:
    flavor = wanted.flavor
    return wanted.guest_class, flavor.vcpus, flavor.memory_mib, flavor.name


def _size(wanted: fleet_wanted.Wanted,
          counts: Sequence[count.HostCount]) -> Size:
    missing: collections.Counter[count.Cause] = collections.Counter()
    for one in counts:
        if one.missing:
            missing.update(one.missing)
    mosts = [one.most for one in counts]
    return Size(
        wanted, sum([one.fits for one in counts]),
        None if None in mosts else sum(filter(None, mosts)),
        sum([one.totals for one in counts]), dict(missing.most_common()))


def _mixes(
    counters: Sequence[count.Counter],
    places: Sequence[count.Place],
    hosts: Sequence[Host],
    weights: Mapping[str, int],
) -> tuple[SoldMix, ...]:
    """A mix for pinned guests, and one for those that float."""
    found = []
    for is_pinned in (True, False):
        chosen = [number for number, counter in enumerate(counters)
                  if counter.is_pinned is is_pinned
                  and counter.wanted.name in weights]
        if chosen:
            among = [counters[number] for number in chosen]
            shares = tuple(weights[one.wanted.name] for one in among)
            found.append(SoldMix(
                tuple(one.wanted for one in among), shares,
                mixes.mix(places, among,
                          [[host.counts[number] for host in hosts]
                           for number in chosen], shares)))
    return tuple(found)
