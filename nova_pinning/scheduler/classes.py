# SPDX-License-Identifier: Apache-2.0
"""Which class a guest is of, and which class a host, by nova's objects."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from nova_pinning.bridge import nova_objects
from nova_pinning import compat
from nova_pinning.model import hostclass
from nova_pinning.placement import placement_traits
from nova_pinning.scheduler import traits_reader

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
    host_state: Any, view: traits_reader.TraitsView, unknown_host_class: str,
) -> hostclass.HostClass | None:
    """The class of a host, None if it takes guests of any.

    See :func:`placement_traits.host_class`, and
    :func:`hostclass.class_of_unmarked` for where that does not tell.

    :param host_state: nova.scheduler.host_manager.HostState
    :param unknown_host_class: the option of group [pinning]
    :raises hostclass.UnknownClass: if what tells it names nonsense, or
        disagrees
    """
    marks = view.marks.get(host_state.uuid)
    topology = host_state.numa_topology
    return placement_traits.host_class(
        host_state.aggregates, marks.classes if marks else _NONE,
        cells_of(topology)) or hostclass.class_of_unmarked(
            unknown_host_class, cells_of(topology), host_state.vcpus_used)


def class_from_topology(topology: Any) -> hostclass.HostClass | None:
    """The class that a host's own NUMA topology shows."""
    return hostclass.class_of_cpus(cells_of(topology))


def has_cpus_for_both(topology: Any) -> bool:
    """Whether a host counts as dedicated, but has shared CPUs too."""
    return (class_from_topology(topology) is hostclass.HostClass.DEDICATED
            and has_shared_cpus(topology))


def has_shared_cpus(topology: Any) -> bool:
    """Whether a host's topology shows that cpu_shared_set is set."""
    return bool(topology) and any(cell.cpuset for cell in topology.cells)


@compat.dataclass(frozen=True, slots=True)
class _Cell:
    """A nova.objects.NUMACell; its fields take long, so they are read late."""

    _cell: Any

    @property
    def shared_cpus(self) -> set[int]:
        return self._cell.cpuset

    @property
    def dedicated_cpus(self) -> set[int]:
        return self._cell.pcpuset

    @property
    def pinned_cpus(self) -> set[int]:
        return self._cell.pinned_cpus

    @property
    def shared_used(self) -> int:
        return self._cell.cpu_usage


def cells_of(topology: Any) -> Iterator[_Cell]:
    """The cells of a host; none from a nova without the two kinds of CPUs.

    :param topology: nova.objects.NUMATopology or None
    """
    for cell in topology.cells if topology else ():
        if 'pcpuset' not in cell:
            return
        yield _Cell(cell)
