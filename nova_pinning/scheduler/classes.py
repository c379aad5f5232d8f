# SPDX-License-Identifier: Apache-2.0
"""Which class a guest is of, and which class a host, by nova's objects."""

from collections.abc import Iterator
from typing import Any
from typing import NamedTuple

from nova_pinning.bridge import nova_objects
from nova_pinning.model import hostclass
from nova_pinning.placement import placement_traits
from nova_pinning.scheduler import traits_reader

#: Flavor extra spec, and aggregate metadata, that names the class.
CLASS_KEY = hostclass.CLASS_KEY

_NONE: frozenset[hostclass.HostClass] = frozenset()


def guest_class(spec_obj: Any) -> hostclass.HostClass:
    """The class of the guest that a nova.objects.RequestSpec asks for.

    See :func:`hostclass.class_of_guest`.

    :raises hostclass.UnknownClass: if the flavor names a class that there is
        not
    """
    topology = spec_obj.numa_topology
    return hostclass.class_of_guest(
        spec_obj.flavor.extra_specs,
        image_property(spec_obj, 'hw_cpu_policy'),
        topology.cells[0].cpu_policy if topology else None)


def image_property(spec_obj: Any, name: str) -> Any:
    """A property of the image in a nova.objects.RequestSpec, or None.

    A spec may have no image, as for a server that boots from a volume.
    """
    image = spec_obj.image
    return nova_objects.given(image.properties, name) if image else None


def host_class(
    host_state: Any, view: traits_reader.TraitsView,
) -> hostclass.HostClass | None:
    """The class of a host, None if nothing tells.

    See :func:`placement_traits.host_class`.

    :param host_state: nova.scheduler.host_manager.HostState
    :raises hostclass.UnknownClass: if what tells it names nonsense, or
        disagrees
    """
    marks = view.marks.get(host_state.uuid)
    return placement_traits.host_class(
        host_state.aggregates, marks.classes if marks else _NONE,
        _cells(host_state))


def class_from_topology(host_state: Any) -> hostclass.HostClass | None:
    """The class that the host's own NUMA topology shows."""
    return hostclass.class_of_cpus(_cells(host_state))


class _Cell(NamedTuple):
    shared_cpus: set[int]
    dedicated_cpus: set[int]


def _cells(host_state: Any) -> Iterator[_Cell]:
    """The cells of a host; none from a nova without the two kinds of CPUs."""
    topology = host_state.numa_topology
    for cell in topology.cells if topology else ():
        if 'pcpuset' not in cell:
            return
        yield _Cell(cell.cpuset, cell.pcpuset)
