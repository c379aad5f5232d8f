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

"""Which class a guest is of, and which class a host."""

from typing import Any

from nova_pinning.flavors import guest_class as flavor_class
from nova_pinning.flavors import model as flavor_model
from nova_pinning.model import hostclass
from nova_pinning.placement import traits as placement_traits
from nova_pinning.scheduler import traits

#: Flavor extra spec, and aggregate metadata, that names the class.
CLASS_KEY = flavor_model.CLASS_KEY


def guest_class(spec_obj: Any) -> hostclass.HostClass:
    """The class of the guest that a nova.objects.RequestSpec asks for.

    See :func:`nova_pinning.flavors.guest_class.guest_class`.

    :raises hostclass.UnknownClass: if the flavor names a class that there is
        not
    """
    topology = spec_obj.numa_topology
    return flavor_class.guest_class(
        spec_obj.flavor.extra_specs,
        image_property(spec_obj, 'hw_cpu_policy'),
        topology.cells[0].cpu_policy if topology else None)


def image_property(spec_obj: Any, name: str) -> Any:
    """A property of the image in a nova.objects.RequestSpec, or None.

    A spec may have no image, as for a server that boots from a volume.
    """
    return spec_obj.image.properties.get(name) if spec_obj.image else None


def stated_class(
    host_state: Any, view: traits.View,
) -> hostclass.HostClass | None:
    """The class that somebody gave the host, by aggregates or by traits.

    :param host_state: nova.scheduler.host_manager.HostState
    :raises hostclass.UnknownClass: if one of them names nonsense, or they
        disagree; both were set on purpose, so neither outweighs the other
    """
    named = class_from_aggregates(host_state)
    marked = class_from_traits(host_state, view)
    if named and marked and named is not marked:
        raise hostclass.UnknownClass(
            f'its aggregates name {named} under {CLASS_KEY}, its provider has '
            f'{placement_traits.TRAIT_OF[marked]}')
    return named or marked


def class_from_aggregates(host_state: Any) -> hostclass.HostClass | None:
    """The class that the host's aggregates name.

    :raises hostclass.UnknownClass: if one names a class that there is not,
        or two name different ones
    """
    found = {
        hostclass.parse(aggregate.metadata[CLASS_KEY],
                        f'{CLASS_KEY} of aggregate {aggregate.name}')
        for aggregate in host_state.aggregates
        if CLASS_KEY in aggregate.metadata}
    if len(found) > 1:
        raise hostclass.UnknownClass(
            f'its aggregates name both classes under {CLASS_KEY}')
    return found.pop() if found else None


def class_from_traits(
    host_state: Any, view: traits.View,
) -> hostclass.HostClass | None:
    """The class that the traits of the host's provider name.

    :raises hostclass.UnknownClass: if it has those of both
    """
    marks = view.marks.get(host_state.uuid)
    if marks is None:
        return None
    if marks.has_both:
        raise hostclass.UnknownClass(
            f'its provider has both {placement_traits.DEDICATED} and '
            f'{placement_traits.SHARED}')
    return marks.host_class


def class_from_topology(host_state: Any) -> hostclass.HostClass | None:
    """The class that the host's own NUMA topology shows.

    A host with CPUs set aside for pinning is dedicated, one without is
    shared. Where pinned and floating vCPUs use the same CPUs (vcpu_pin_set,
    or no setting at all), it does not show.
    """
    topology = host_state.numa_topology
    floating = False
    for cell in topology.cells if topology else ():
        if 'pcpuset' not in cell:
            # From a nova that did not tell the two kinds of CPUs apart.
            return None
        if cell.pcpuset:
            if cell.pcpuset == cell.cpuset:
                return None
            return hostclass.HostClass.DEDICATED
        floating = floating or bool(cell.cpuset)
    return hostclass.HostClass.SHARED if floating else None
