# SPDX-License-Identifier: Apache-2.0
"""A cloud's hosts, aggregates and servers, as far as their class goes."""

from collections.abc import Iterator
from collections.abc import Mapping
import dataclasses
import enum

from nova_pinning.flavors import flavor_model
from nova_pinning.model import hostclass
from nova_pinning.placement import placement_traits

_ISOLATION = {
    f'trait:{trait}': host_class
    for host_class, trait in placement_traits.TRAIT_OF.items()}


@dataclasses.dataclass(frozen=True, slots=True)
class HostAggregate:
    """A host aggregate.

    :param id: nova's number
    :param uuid: its UUID, the same in Placement
    :param hosts: names of compute services
    """

    id: int
    uuid: str
    name: str
    hosts: frozenset[str] = frozenset()
    metadata: Mapping[str, str] = dataclasses.field(default_factory=dict)

    @property
    def isolated_for(self) -> frozenset[hostclass.HostClass]:
        """The classes whose trait flavors must require to get in.

        Only under ``[scheduler] enable_isolated_aggregate_filtering``.
        """
        return frozenset(
            host_class for key, host_class in _ISOLATION.items()
            if self.metadata.get(key) == 'required')


@dataclasses.dataclass(frozen=True, slots=True)
class MarkedHost:
    """A compute node.

    :param name: of its compute service, which aggregates and servers go by
    :param node: its hypervisor's name, which its provider goes by
    :param provider: UUID of its resource provider
    :param traits: those with the prefix ``CUSTOM_PINNING_``; None if Placement
        has no such provider
    :param aggregates: that it is in, by name
    """

    name: str
    node: str
    provider: str
    traits: frozenset[str] | None = frozenset()
    aggregates: tuple[HostAggregate, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class HostedServer:
    """A server, as far as it matters which host it is on.

    :param host: name of the compute service, '' if it is on none
    :param flavor: name of the flavor, as it was when the server got it
    :param host_class: where it belongs; None if its flavor names nonsense
    :param is_certain: whether the class is known for sure. An image may have
        asked for pinned CPUs, and nova does not show that of all servers.
        If not, it is shared by what is known.
    :param status: nova's word, such as ACTIVE
    :param has_cells: whether it is known to have NUMA cells for another
        reason than pinned CPUs
    """

    id: str
    name: str
    project: str
    host: str
    flavor: str
    host_class: hostclass.HostClass | None
    is_certain: bool = True
    status: str = ''
    has_cells: bool = False


def has_cells(extra_specs: Mapping[str, str],
              image_properties: Mapping[str, str] | None) -> bool:
    """Whether nova gives a server NUMA cells, pinned CPUs apart.

    As nova.virt.hardware.numa_get_constraints does. Of an image that is not
    known, nothing is taken for granted.

    :param extra_specs: of its flavor, as it was when the server got it
    :param image_properties: of its image; None if they are not known
    """
    image = image_properties or {}
    return bool(extra_specs.get('hw:pmem') or any(
        extra_specs.get(f'hw:{name}') or image.get(f'hw_{name}')
        for name in ('numa_nodes', 'mem_page_size')))


def server_class(
    extra_specs: Mapping[str, str],
    image_properties: Mapping[str, str] | None,
) -> tuple[hostclass.HostClass | None, bool]:
    """Where a server belongs, and whether that is certain.

    The image has no say where the flavor names the class, asks for pinned
    CPUs, or for CPUs that are not pinned: nova refuses an image with another
    policy then (nova.virt.hardware.get_cpu_policy_constraint).

    :param extra_specs: of its flavor, as it was when the server got it
    :param image_properties: of its image; None if they are not known
    :returns: (class, whether it is certain); the class is None if the flavor
        names one that there is not
    """
    try:
        by_flavor = hostclass.class_of_guest(extra_specs)
    except hostclass.UnknownClass:
        return None, True
    if (flavor_model.CLASS_KEY in extra_specs
            or by_flavor is hostclass.HostClass.DEDICATED
            or extra_specs.get('hw:cpu_policy') == 'shared'):
        return by_flavor, True
    if image_properties is None:
        return by_flavor, False
    return hostclass.class_of_guest(
        extra_specs, image_properties.get('hw_cpu_policy')), True


class MarkSource(enum.StrEnum):
    """What a host's class is told by."""

    #: A trait of its provider: CUSTOM_PINNING_DEDICATED or _SHARED.
    TRAIT = 'trait'
    #: ``pinning:class`` of an aggregate, which HostClassFilter reads.
    AGGREGATE = 'aggregate'
    #: ``trait:CUSTOM_PINNING_...=required`` of an aggregate.
    ISOLATION = 'isolation'


@dataclasses.dataclass(frozen=True, slots=True)
class ClassMark:
    """One thing that tells a host's class.

    :param name: of the trait or the aggregate
    :param host_class: None if it names a class that there is not
    """

    source: MarkSource
    name: str
    host_class: hostclass.HostClass | None


def marks(host: MarkedHost) -> Iterator[ClassMark]:
    """All that tells a host's class."""
    for host_class in sorted(placement_traits.classes_of(host.traits or ())):
        yield ClassMark(MarkSource.TRAIT,
                        placement_traits.TRAIT_OF[host_class], host_class)
    for aggregate in host.aggregates:
        yield from aggregate_marks(aggregate)


def aggregate_marks(aggregate: HostAggregate) -> Iterator[ClassMark]:
    """All that an aggregate tells of the class of the hosts in it."""
    named = aggregate.metadata.get(flavor_model.CLASS_KEY)
    if named is not None:
        try:
            said_class = hostclass.parse(named, flavor_model.CLASS_KEY)
        except hostclass.UnknownClass:
            said_class = None
        yield ClassMark(MarkSource.AGGREGATE, aggregate.name, said_class)
    for host_class in sorted(aggregate.isolated_for):
        yield ClassMark(MarkSource.ISOLATION, aggregate.name, host_class)


def speaks_against(aggregate: HostAggregate,
                   host_class: hostclass.HostClass | None) -> bool:
    """Whether it tells that the hosts in it are of another class, or nonsense.

    :param host_class: None if they are to be of none
    """
    return any(mark.host_class is None or mark.host_class is not host_class
               for mark in aggregate_marks(aggregate))


def agrees(host: MarkedHost) -> bool:
    """Whether nothing that tells a host's class says anything else."""
    return not any(marks(host)) or host_class(host) is not None


def host_class(host: MarkedHost) -> hostclass.HostClass | None:
    """The one class that everything says a host is of.

    None if nothing says, or not all the same.
    """
    marked = placement_traits.classes_of(host.traits or ()).union(
        *[aggregate.isolated_for for aggregate in host.aggregates])
    try:
        return placement_traits.host_class(host.aggregates, marked, ())
    except hostclass.UnknownClass:
        return None
