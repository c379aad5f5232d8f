# SPDX-License-Identifier: Apache-2.0
"""Dedicated and shared: the two classes of hosts, and of guests."""

from __future__ import annotations

from collections.abc import Collection
from collections.abc import Iterable
from collections.abc import Mapping
import re
from typing import Protocol

from nova_pinning import compat

#: The extra spec of flavors, and the metadata of aggregates, that names the
#: class for HostClassFilter.
CLASS_KEY = 'pinning:class'

#: In the metadata of aggregates: whom their hosts are kept for, see
#: nova_pinning.model.reserve.
RESERVE_KEY = 'pinning:reserve'

#: [pinning] unknown_host_class, unless set.
BY_GUESTS = 'by-guests'

# Numbered and named groups, as nova.scheduler.utils.ResourceRequest has them.
_PCPU_KEY = re.compile(r'resources[a-zA-Z0-9_-]{0,64}:PCPU')


class HostClass(compat.StrEnum):
    """A class of hosts, and of the guests that belong on them."""

    DEDICATED = 'dedicated'
    SHARED = 'shared'

    @property
    def other(self) -> 'HostClass':
        """The class that it must be kept apart from."""
        return (HostClass.SHARED if self is HostClass.DEDICATED
                else HostClass.DEDICATED)


class NamedMetadata(Protocol):
    """A host aggregate, whoever tells of it."""

    @property
    def name(self) -> str: ...

    @property
    def metadata(self) -> Mapping[str, str]: ...


class CpusOfCell(Protocol):
    """A host's NUMA cell: CPUs for floating vCPUs, and for pinned ones."""

    @property
    def shared_cpus(self) -> Collection[int]: ...

    @property
    def dedicated_cpus(self) -> Collection[int]: ...


class UseOfCell(Protocol):
    """A host's NUMA cell: CPUs pinned to, and floating vCPUs of its guests."""

    @property
    def pinned_cpus(self) -> Collection[int]: ...

    @property
    def shared_used(self) -> int: ...


class UnknownClass(Exception):
    """Nothing tells a class, or it is none that there is, or two at once."""


def parse(name: str, where: str) -> HostClass:
    """The class that a name stands for, in upper or lower case.

    :param where: what names it, for the message
    :raises UnknownClass: if there is no such class
    """
    try:
        return HostClass(name.strip().lower())
    except ValueError:
        raise UnknownClass(
            f'{where} is {name!r}; it can be dedicated or shared') from None


def class_of_guest(
    extra_specs: Mapping[str, str], *policies: str | None,
) -> HostClass:
    """The class of hosts that a guest belongs on.

    Dedicated if any of its vCPUs is to be pinned, by flavor or image, unless
    the flavor says otherwise with ``pinning:class``.

    :param extra_specs: of its flavor
    :param policies: CPU policies that are known from elsewhere: the image's
        hw_cpu_policy, or that of the NUMA topology
    :raises UnknownClass: if the flavor names a class that there is not
    """
    named = extra_specs.get(CLASS_KEY)
    if named is not None:
        return parse(named, f'flavor extra spec {CLASS_KEY}')
    if {extra_specs.get('hw:cpu_policy'), *policies} & {
            'dedicated', 'mixed'} or any(
                _PCPU_KEY.fullmatch(key) and value.strip(' 0')
                for key, value in extra_specs.items()):
        return HostClass.DEDICATED
    return HostClass.SHARED


def class_of_aggregates(
    aggregates: Iterable[NamedMetadata],
) -> HostClass | None:
    """The class that a host's aggregates name.

    :raises UnknownClass: if one names a class that there is not, or two name
        different ones
    """
    classes = {
        parse(aggregate.metadata[CLASS_KEY],
              f'{CLASS_KEY} of aggregate {aggregate.name}')
        for aggregate in aggregates if CLASS_KEY in aggregate.metadata}
    if len(classes) > 1:
        raise UnknownClass(
            f'its aggregates name both classes under {CLASS_KEY}')
    return classes.pop() if classes else None


def class_of_cpus(cells: Iterable[CpusOfCell]) -> HostClass | None:
    """The class that a host's own CPUs show.

    A host with CPUs set aside for pinning is dedicated, one without is
    shared. Where pinned and floating vCPUs use the same CPUs (vcpu_pin_set,
    or no setting at all), it does not show.
    """
    has_shared = False
    for cell in cells:
        dedicated = cell.dedicated_cpus
        if dedicated:
            return (None if dedicated == cell.shared_cpus
                    else HostClass.DEDICATED)
        has_shared = has_shared or bool(cell.shared_cpus)
    return HostClass.SHARED if has_shared else None


def class_of_guests(cells: Iterable[UseOfCell], used_vcpus: int) -> HostClass:
    """The class that the guests on a host show.

    An empty host is shared: guests that are on their way there cannot be
    seen, and have to be of one class. Floating vCPUs that nova counts in a
    NUMA cell show nothing, since those of guests with CPU policy mixed are
    among them. Nor can all others be told: CPUs that are kept idle beside
    isolated threads count as pinned, and hide as many floating vCPUs.

    :param used_vcpus: of all its guests
    :raises UnknownClass: if some are seen to float though others are pinned
    """
    cells = tuple(cells)
    pinned = sum(len(cell.pinned_cpus) for cell in cells)
    if not pinned:
        return HostClass.SHARED
    floating = used_vcpus - pinned - sum(cell.shared_used for cell in cells)
    if floating > 0:
        raise UnknownClass(
            'neither a mark nor its CPUs show what the host is for, and '
            f'{floating} vCPUs float over its CPUs, of which {pinned} are '
            'pinned; mark it')
    return HostClass.DEDICATED


def class_of_unmarked(
    unknown_host_class: str, cells: Iterable[UseOfCell],
    used_vcpus: int,
) -> HostClass | None:
    """The class of a host of which neither marks nor CPUs tell.

    :param unknown_host_class: the option of group [pinning]
    :param used_vcpus: of all its guests
    :returns: None if it takes any guest
    :raises UnknownClass: if it takes none
    """
    if unknown_host_class == 'allow':
        return None
    if unknown_host_class == 'refuse':
        raise UnknownClass("nothing indicates the host's class")
    if unknown_host_class in ('dedicated', 'shared'):
        return HostClass(unknown_host_class)
    return class_of_guests(cells, used_vcpus)


def is_bare_metal(hypervisor_type: str | None) -> bool:
    """Whether a compute node is Ironic's, and so of neither class.

    It is taken as a whole, by guests that ask Placement for its resource
    class; Placement offers it to no others.
    """
    return hypervisor_type == 'ironic'
