# SPDX-License-Identifier: Apache-2.0
"""Which hosts are kept empty, so that guests of lost hosts come up on them.

A host that is kept and like a lost one, empty, takes whatever guests that had:
their cells lay on cells like its own. So where as many hosts of a kind are
kept as are lost of it at once, it does not matter which guests come and go
meanwhile, and the filter need not know how many others are kept. Lost with a
rack are those that are kept in it, too; but then as many fewer have to come
up: what is enough is as many as the rack has of the kind.
"""

import collections
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
import dataclasses
import os

from nova_pinning.admission import host_occupancy
from nova_pinning.admission import judge
from nova_pinning.admission import offered_host
from nova_pinning.admission import outcome
from nova_pinning.document import source
from nova_pinning.document import terms
from nova_pinning.document import typed_document
from nova_pinning import errors
from nova_pinning.fleet import occupied
from nova_pinning.fleet import snapshot
from nova_pinning.model import hostclass
from nova_pinning.model import reserve
from nova_pinning.rebalance import failover
from nova_pinning.rebalance import slot_size

_VERSION = 1
#: What is not known of a host that may not be empty.
_MAY_BE_USED = (outcome.DoubtKind.CELLS, outcome.DoubtKind.CONTRADICTION,
                outcome.DoubtKind.HELD)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SlotWish:
    """Guests for which there is to be room.

    :param count: how many
    :param vcpus: of each, pinned, in one NUMA cell
    :param memory_mib: of each
    """

    count: terms.Count
    vcpus: terms.Vcpus
    memory_mib: terms.Count


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ReserveWish:
    """A reserve that is to be kept: for losses, for slots, or both.

    :param among: the aggregate whose hosts it is for, '' for all
    :param losses: what may be lost at once, as ``rebalance failover --by`` has
        it; '' for nothing
    :param slots: that are to be free
    :param use: whether a pinned guest that finds no other host gets it
    """

    among: terms.Line = ''
    losses: terms.Line = ''
    slots: tuple[SlotWish, ...] = ()
    use: reserve.ReserveUse = reserve.ReserveUse.EVACUATIONS


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ReserveFile:
    """What an operator wants to be kept.

    :param reserves: by the names of the aggregates that say so of hosts
    """

    reserves: Mapping[terms.Word, ReserveWish]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PlannedReserve:
    """The hosts of a reserve.

    :param hosts: that are kept from now on
    :param joins: those of them that were not
    :param leaves: that are kept no longer, since guests came up on them
    :param missing: what they are not enough for, a sentence each
    """

    name: str
    use: reserve.ReserveUse
    hosts: tuple[str, ...]
    joins: tuple[str, ...] = ()
    leaves: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()


def load(path: str | os.PathLike[str]) -> ReserveFile:
    """Read a reserve file.

    :raises errors.InputError: if it cannot be read, or says what it may not
    """
    document = source.load(path)
    found: ReserveFile = typed_document.read(ReserveFile, document, _VERSION)
    if not found.reserves:
        raise document.error('keeps nothing', ('reserves',))
    for name, wish in found.reserves.items():
        if not wish.losses and not wish.slots:
            raise document.error('keeps nothing', ('reserves', name),
                                 'give it losses, or slots')
    return found


def plan(fleet: snapshot.Fleet,
         wanted: ReserveFile) -> tuple[PlannedReserve, ...]:
    """The hosts that each reserve keeps, those that it keeps already first.

    :raises errors.InputError: for an aggregate, or a group of hosts, that the
        fleet has not
    """
    planner = _Planner(fleet)
    return tuple(planner.planned(name, wish)
                 for name, wish in wanted.reserves.items())


class _Planner:

    def __init__(self, fleet: snapshot.Fleet) -> None:
        self._fleet = fleet
        self._guests = occupied.guests_by_host(fleet)
        self._judge = judge.AdmissionJudge(occupied.rules_of(fleet))
        self._names = {aggregate.name for aggregate in fleet.aggregates}
        self._taken: set[str] = set()
        self._shapes: dict[offered_host.OfferedHost, int] = {}

    def planned(self, name: str, wish: ReserveWish) -> PlannedReserve:
        if wish.among and wish.among not in self._names:
            raise errors.InputError(
                f'there is no aggregate {wish.among}',
                errors.Location('reserves', key=name))
        hosts = [host for host in self._fleet.hosts if not wish.among
                 or wish.among in host.aggregates]
        # Those that are kept come first, so that none changes without need.
        free = sorted(
            (host for host in hosts if host.is_enabled
             and host.name not in self._taken and not self._guests[host.name]
             and not any(gap.kind in _MAY_BE_USED for gap in host.gaps)),
            key=lambda host: (name not in host.aggregates, host.name))
        kept: dict[str, offered_host.OfferedHost] = {}
        missing = [*self._for_losses(wish, hosts, free, kept),
                   *self._for_slots(wish, free, kept)]
        self._taken.update(kept)
        before = {host.name for host in self._fleet.hosts
                  if name in host.aggregates}
        # What is left of a host that was used is better than nothing.
        leaves = () if missing else sorted(before - kept.keys())
        return PlannedReserve(
            name=name, use=wish.use, hosts=tuple(sorted(kept)),
            joins=tuple(sorted(kept.keys() - before)), leaves=tuple(leaves),
            missing=tuple(missing))

    def _for_losses(
        self, wish: ReserveWish, hosts: Sequence[offered_host.OfferedHost],
        free: Iterable[offered_host.OfferedHost],
        kept: dict[str, offered_host.OfferedHost],
    ) -> Iterator[str]:
        """Keep as many of each kind as may be lost of it at once."""
        if not wish.losses:
            return
        groups, _ungrouped = failover.groups_of(self._fleet, wish.losses)
        kinds = {host.name: self._kind(host, wish.losses) for host in hosts}
        example = {kind: name for name, kind in reversed(kinds.items())}
        needed = collections.Counter[int]()
        for group in groups.values():
            # The larger number of each.
            needed |= collections.Counter(
                kinds[name] for name in group if name in kinds)
        for host in free:
            kind = kinds[host.name]
            if needed[kind] > 0:
                kept[host.name] = host
                needed[kind] -= 1
        for kind, count in needed.items():
            if count:
                yield (f'{count} more empty hosts like {example[kind]} are '
                       f'needed to survive the loss of any {wish.losses}')

    def _for_slots(
        self, wish: ReserveWish, free: Sequence[offered_host.OfferedHost],
        kept: dict[str, offered_host.OfferedHost],
    ) -> Iterator[str]:
        """Keep more hosts until there is room for all slots, of each size.

        What is kept for losses counts: nobody else may take it.
        """
        for slots in wish.slots:
            left = slots.count - sum(
                self._slots_on(host, slots) for host in kept.values())
            for host in free:
                if left <= 0:
                    break
                found = 0 if host.name in kept else self._slots_on(host, slots)
                if found:
                    kept[host.name] = host
                    left -= found
            if left > 0:
                yield (f'{left} slots of {slots.vcpus} vCPUs and '
                       f'{slots.memory_mib} MiB are missing')

    def _slots_on(self, host: offered_host.OfferedHost,
                  slots: SlotWish) -> int:
        """How many guests of a size an empty host takes, one by one."""
        request = slot_size.dedicated_slot(
            slots.vcpus, slots.memory_mib).request
        return len(self._judge.filled(request, host_occupancy.of_host(
            dataclasses.replace(host, aggregates=()))).guests)

    def _kind(self, host: offered_host.OfferedHost, losses: str) -> int:
        """A number that hosts have in common which take the same guests.

        Which are kept, or lost together, makes no difference.
        """
        matter = {
            aggregate.name for aggregate in self._fleet.aggregates
            if aggregate.availability_zone is not None
            or aggregate.metadata.keys() - {hostclass.RESERVE_KEY, losses}}
        alike = dataclasses.replace(
            host, name='', disabled_reason='', is_enabled=True, gaps=(),
            l3_domains=(), held={}, aggregates=tuple(
                name for name in host.aggregates if name in matter))
        return self._shapes.setdefault(alike, len(self._shapes))
