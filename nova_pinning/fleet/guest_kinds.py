# SPDX-License-Identifier: Apache-2.0
"""Guests by kind, and what comes of one more of a kind on a host.

Guests of a kind ask for the same and may go to the same hosts, so it does not
matter which of them is looked at. Whatever was found out of a kind, a host or
the guests on it is kept here, and nowhere else.
"""

import collections
from collections.abc import Callable
from collections.abc import Hashable
from collections.abc import Mapping
import dataclasses

from nova_pinning.admission import guest_request
from nova_pinning.admission import host_occupancy
from nova_pinning.admission import judge
from nova_pinning.admission import offered_host
from nova_pinning.admission import outcome
from nova_pinning.admission import resident_guest
from nova_pinning.fleet import migration
from nova_pinning import model
from nova_pinning.placement import inventory


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class GuestKind:
    """What guests that are alike ask for.

    :param guest: one of them
    :param group: of servers that it is in, if that excludes hosts; ''
        otherwise
    :param most: of the group on a host, None for any number
    """

    number: int
    guest: resident_guest.ResidentGuest
    request: guest_request.GuestRequest
    group: str
    most: int | None

    @property
    def topology(self) -> model.Guest | None:
        return self.request.topology

    @property
    def size(self) -> tuple[int, int, int]:
        """By which the largest come first."""
        return (len(self.topology.cells) if self.topology else 0,
                self.guest.vcpus, self.guest.memory_mib)


class GuestKinds:
    """The kinds of guests, and the hosts that they may go to.

    :param refusal: why guests of a kind cannot go to a host by some rules,
        were it empty; equal for hosts of equal shape
    :ivar kinds: by number
    """

    def __init__(
        self, rules: migration.MigrationRules,
        refusal: Callable[
            [migration.MigrationRules, GuestKind, offered_host.OfferedHost],
            str],
    ) -> None:
        self._rules = rules
        self._refusal = refusal
        self.kinds: list[GuestKind] = []
        self._of: dict[str, GuestKind] = {}
        self._by_key: dict[Hashable, GuestKind] = {}
        self._shapes: dict[Hashable, int] = {}
        self._shape_of: dict[str, int] = {}
        self._refusals: dict[tuple[int, int, bool], str] = {}

    def of(self, guest: resident_guest.ResidentGuest) -> GuestKind:
        """The kind of a guest, on the host that it was first on."""
        kind = self._of.get(guest.uuid)
        if kind is None:
            rules = self._rules
            group = guest.server_group if rules.is_grouped(guest) else ''
            request = rules.request(guest)
            # Equal requests of one fleet are the same object.
            key = id(request), rules.guest_key(guest), group
            kind = self._by_key.get(key)
            if kind is None:
                kind = self._by_key[key] = GuestKind(
                    len(self.kinds), guest, request, group,
                    rules.most_of_group(guest))
                self.kinds.append(kind)
            self._of[guest.uuid] = kind
        return kind

    def shape(self, host: offered_host.OfferedHost) -> int:
        """Equal for hosts that are alike but for their guests and name."""
        number = self._shape_of.get(host.name)
        if number is None:
            key = (dataclasses.replace(
                host, name='', disabled_reason='', cells=()),
                tuple([_cell_key(cell) for cell in host.cells]),
                self._rules.host_key(host))
            number = self._shapes.setdefault(key, len(self._shapes))
            self._shape_of[host.name] = number
        return number

    def refusal(self, kind: GuestKind, host: offered_host.OfferedHost,
                is_hopeful: bool = False) -> str:
        """Why guests of a kind cannot go to a host, were it empty.

        Their own host counts as any other: they may come back to it.

        :param is_hopeful: whether all that is not known turns out well; else
            it refuses
        """
        key = kind.number, self.shape(host), is_hopeful
        if is_hopeful and not self.refusal(kind, host):
            return ''
        if key not in self._refusals:
            rules = self._rules.hopeful if is_hopeful else self._rules
            self._refusals[key] = self._refusal(rules, kind, host)
        return self._refusals[key]

    def members(
        self, occupancy: host_occupancy.HostOccupancy,
    ) -> Mapping[str, int]:
        """How many of each server group a host has that excludes hosts."""
        return collections.Counter(
            guest.server_group for guest in occupancy.guests
            if self._rules.is_grouped(guest))


def _cell_key(cell: model.HostCell) -> Hashable:
    return (cell.id, len(cell.dedicated_cpus), len(cell.shared_cpus),
            cell.is_legacy, cell.core_sizes, cell.memory_mib, cell.pages,
            cell.physnets, cell.tunneled, cell.socket)


#: The resource classes that nova's weighers of them add up.
_WEIGHED = ((inventory.MEMORY_MB,), (inventory.PCPU, inventory.VCPU),
            (inventory.DISK_GB,))


class HostState:
    """A host with guests, and what comes of one more of each kind.

    :param members: how many of each server group it has that excludes hosts
    :param moves: by which guests come live where they can; None where they
        are evacuated
    :ivar free: what Placement has left of memory, of CPUs, and of disk
    """

    __slots__ = ('occupancy', 'members', 'free', '_judge', '_moves', '_rooms')

    def __init__(
        self, occupancy: host_occupancy.HostOccupancy,
        admission: judge.AdmissionJudge,
        members: Mapping[str, int] | None = None,
        moves: migration.MigrationRules | None = None,
    ) -> None:
        self.occupancy = occupancy
        self.members = members or {}
        self._judge = admission
        self._moves = moves
        self._rooms: dict[int, model.Fit | model.Refusal] = {}
        has, used = occupancy.inventories, occupancy.resources_used
        self.free = tuple([
            sum([has[name].capacity - used.get(name, 0)
                 for name in names if name in has]) for names in _WEIGHED])

    def room(self, kind: GuestKind) -> model.Fit | model.Refusal:
        """Where a guest would lie, whatever its server group says."""
        found = self._rooms.get(kind.number)
        if found is None:
            found = self._rooms[kind.number] = self._judge.room(
                self._request(kind), self.occupancy)
        return found

    def _request(self, kind: GuestKind) -> guest_request.GuestRequest:
        return kind.request if self._moves is None else (
            self._moves.request(kind.guest, self.occupancy.host))

    def takes(self, kind: GuestKind) -> bool:
        """Whether there is room for one more, and its server group lets it.
        """
        return not self.is_full(kind) and isinstance(
            self.room(kind), model.Fit)

    def may_take(self, kind: GuestKind) -> bool:
        """The same if all that is not known turns out well."""
        return not self.is_full(kind) and not judge.is_certain_no(
            self.room(kind))

    def is_full(self, kind: GuestKind) -> bool:
        """Whether its server group keeps one more off the host."""
        return (kind.most is not None
                and self.members.get(kind.group, 0) >= kind.most)

    def shared_with(self, index: int, amounts: outcome.Amounts,
                    sign: int) -> 'HostState':
        """As ``HostOccupancy.shared_with``."""
        return HostState(
            self.occupancy.shared_with(index, amounts, sign), self._judge,
            self.members, self._moves)

    def with_guest(self, kind: GuestKind) -> 'HostState':
        """The host with one more guest, for which there is room."""
        place = self.room(kind)
        assert isinstance(place, model.Fit)
        members = self.members
        if kind.group:
            members = {**members,
                       kind.group: members.get(kind.group, 0) + 1}
        return HostState(
            self.occupancy.adding(judge.placed_on(
                self._request(kind), self.occupancy, place)), self._judge,
            members, self._moves)
