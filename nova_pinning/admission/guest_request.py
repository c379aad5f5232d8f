# SPDX-License-Identifier: Apache-2.0
"""What a guest asks for, in nova's own terms.

All of it is hashable, and equal requests are guests of one kind.
``bridge.offline.flavor_request`` makes it of a flavor and an image by nova's
code.
"""

from collections.abc import Iterable
from collections.abc import Mapping
import dataclasses
from typing import NamedTuple
from typing import TypeAlias

from nova_pinning.admission import devices
from nova_pinning.admission import outcome
from nova_pinning import model
from nova_pinning.model import hostclass
from nova_pinning.placement import inventory

Pairs: TypeAlias = devices.Pairs
# The field devices hides the module of that name.
_PciRequest: TypeAlias = devices.PciRequest


def pairs(mapping: Mapping[str, str]) -> Pairs:
    """A mapping of texts as a hashable one."""
    return tuple(sorted(mapping.items()))


class RequestGroup(NamedTuple):
    """Resources that nova asks for together (nova.objects.RequestGroup).

    :param suffix: the group's name; what is asked for without one may come
        from several providers of a host
    :param required: traits
    :param forbidden: traits
    """

    suffix: str
    resources: outcome.Amounts
    required: frozenset[str] = frozenset()
    forbidden: frozenset[str] = frozenset()

    @property
    def asked(self) -> outcome.Amounts:
        """The resources without those of which there are to be 0."""
        return tuple(pair for pair in self.resources if pair[1])

    @property
    def is_sent(self) -> bool:
        """Whether Placement is asked for it (to_queryparams of nova's)."""
        return bool(self.asked or self.required or self.forbidden)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class CandidatesQuery:
    """What nova-scheduler asks Placement for allocation candidates.

    :param root_required: traits that the host's own provider must have
    :param root_forbidden: traits that it must not have
    :param same_subtree: sets of suffixes; one of the providers that a set
        comes from has all others of the set below it
    :param group_policy: 'isolate' where named groups come from different
        providers; 'none'
    :ivar resources: amounts by resource class, of all groups together
    :ivar required: all traits that are required of any provider
    :ivar forbidden: all traits that are forbidden of any provider
    """

    groups: tuple[RequestGroup, ...]
    root_required: frozenset[str] = frozenset()
    root_forbidden: frozenset[str] = frozenset()
    same_subtree: tuple[frozenset[str], ...] = ()
    group_policy: str = 'none'
    resources: Mapping[str, int] = dataclasses.field(
        init=False, compare=False, repr=False)
    required: frozenset[str] = dataclasses.field(
        init=False, compare=False, repr=False)
    forbidden: frozenset[str] = dataclasses.field(
        init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        total: dict[str, int] = {}
        for group in self.groups:
            for name, amount in group.resources:
                total[name] = total.get(name, 0) + amount
        object.__setattr__(self, 'resources', total)
        object.__setattr__(self, 'required', self.root_required.union(
            *[group.required for group in self.groups]))
        object.__setattr__(self, 'forbidden', self.root_forbidden.union(
            *[group.forbidden for group in self.groups]))

    @property
    def fault(self) -> str:
        """Why Placement answers it with an error, '' if it does not.

        See RequestGroup.dict_from_request in placement/lib.py. A query of no
        groups stands for a guest of which nothing is asked.
        """
        sent = [group for group in self.groups if group.is_sent]
        suffixes = {group.suffix for group in sent}
        related = frozenset[str]().union(*self.same_subtree)
        if self.groups and not any(self.resources.values()):
            return 'it asks for no resources'
        if not related <= suffixes - {''}:
            return ('same_subtree names groups of which nothing is asked: '
                    + ', '.join(sorted(related - suffixes)))
        for group in sent:
            if not group.asked and group.suffix not in related:
                return f'group {group.suffix!r} asks for traits only'
        for clash in (self.root_required & self.root_forbidden,
                      *[group.required & group.forbidden for group in sent]):
            if clash:
                return 'it requires and forbids ' + ', '.join(sorted(clash))
        return ''


def query(
    resources: Mapping[str, int],
    required: Iterable[str] = (),
    forbidden: Iterable[str] = (),
) -> CandidatesQuery:
    """A query of one group without a name."""
    return CandidatesQuery(groups=(RequestGroup(
        '', tuple(sorted(resources.items())), frozenset(required),
        frozenset(forbidden)),))


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class GuestRequest:
    """A guest that is to be placed.

    :param name: of its flavor
    :param disk_gib: that nova counts it with on its host's own disks
    :param topology: None if it has none: its vCPUs float
    :param devices: the PCI devices that it asks for
    :param claims: what nova-compute makes of these where the guest comes
        from another host; () where it claims them as they are
    :param is_live: whether it comes live; told where that makes a difference:
        of guests with claims, and of those whose pages may be of any size
    :param queries: what nova asks Placement, PCPU before VCPU in its place;
        a host that answers any of them will do
    :param extra_specs: of its flavor
    :param image: properties of its image; None if they are not known
    :param doubts: what it asks for that nobody here can read
    """

    name: str
    vcpus: int
    memory_mib: int
    guest_class: hostclass.HostClass
    topology: model.Guest | None
    disk_gib: int = 0
    devices: tuple[_PciRequest, ...] = ()
    claims: tuple[_PciRequest, ...] = ()
    is_live: bool = False
    queries: tuple[CandidatesQuery, ...] = ()
    extra_specs: Pairs = ()
    image: Pairs | None = ()
    doubts: tuple[outcome.Doubt, ...] = ()

    @property
    def minds_candidates(self) -> bool:
        """Whether its place hangs on which candidate Placement gives."""
        return any(device.groups for device in self.devices)


def of_shape(
    name: str, vcpus: int, memory_mib: int,
    guest_class: hostclass.HostClass, topology: model.Guest | None,
    disk_gib: int = 0, extra_specs: Mapping[str, str] | None = None,
) -> GuestRequest:
    """A guest that asks for nothing but CPUs, memory and disk."""
    return GuestRequest(
        name=name, vcpus=vcpus, memory_mib=memory_mib, disk_gib=disk_gib,
        guest_class=guest_class, topology=topology,
        extra_specs=pairs(extra_specs or {}),
        queries=tuple(map(query, inventory.resource_requests(
            vcpus, memory_mib, disk_gib, topology))))


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class GuestWishes:
    """What a server asks for that its flavor and image do not.

    :param project: UUID; '' if it is not known
    :param availability_zone: that it was asked for in, None for any
    :param server_group: id of the one that it is in, '' for none
    :param hints: scheduler hints, sorted; of lists the parts joined by commas
    :param is_evacuated: whether its host is lost
    """

    project: str = ''
    availability_zone: str | None = None
    server_group: str = ''
    hints: Pairs = ()
    is_evacuated: bool = False
