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

from collections.abc import Callable
import enum
import re
from typing import Any

from nova_pinning.flavors import model as flavor_model

#: Flavor extra spec, and aggregate metadata, that names the class.
CLASS_KEY = flavor_model.CLASS_KEY

# Numbered and named groups, as nova.scheduler.utils.ResourceRequest has them.
_PCPU_KEY = re.compile(r'resources[a-zA-Z0-9_-]{0,64}:PCPU')


class HostClass(enum.StrEnum):
    """A class of hosts, and of the guests that belong on them."""

    DEDICATED = 'dedicated'
    SHARED = 'shared'


class UnknownClass(Exception):
    """A class is given, but not one that there is, or two at once."""


#: Tells the class of a nova HostState, or None if it does not know. Raises
#: UnknownClass if it is told nonsense.
ClassSource = Callable[[Any], HostClass | None]


def guest_class(spec_obj: Any) -> HostClass:
    """The class of the guest that a nova.objects.RequestSpec asks for.

    Dedicated if any of its vCPUs is to be pinned, by flavor or image, unless
    the flavor says otherwise with ``pinning:class``.

    :raises UnknownClass: if the flavor names a class that there is not
    """
    extra_specs = spec_obj.flavor.extra_specs
    named = extra_specs.get(CLASS_KEY)
    if named is not None:
        return _parse(named, f'flavor extra spec {CLASS_KEY}')
    topology = spec_obj.numa_topology
    policies = {
        extra_specs.get('hw:cpu_policy'),
        image_property(spec_obj, 'hw_cpu_policy'),
        topology.cells[0].cpu_policy if topology else None,
    }
    if policies & {'dedicated', 'mixed'} or any(
            _PCPU_KEY.fullmatch(key) and value.strip(' 0')
            for key, value in extra_specs.items()):
        return HostClass.DEDICATED
    return HostClass.SHARED


def image_property(spec_obj: Any, name: str) -> Any:
    """A property of the image in a nova.objects.RequestSpec, or None.

    A spec may have no image, as for a server that boots from a volume.
    """
    return spec_obj.image.properties.get(name) if spec_obj.image else None


def class_from_aggregates(host_state: Any) -> HostClass | None:
    """The class that the host's aggregates name.

    :raises UnknownClass: if one names a class that there is not, or two name
        different ones
    """
    found = {
        _parse(aggregate.metadata[CLASS_KEY],
               f'{CLASS_KEY} of aggregate {aggregate.name}')
        for aggregate in host_state.aggregates
        if CLASS_KEY in aggregate.metadata}
    if len(found) > 1:
        raise UnknownClass(
            f'its aggregates name both classes under {CLASS_KEY}')
    return found.pop() if found else None


def class_from_topology(host_state: Any) -> HostClass | None:
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
            return HostClass.DEDICATED
        floating = floating or bool(cell.cpuset)
    return HostClass.SHARED if floating else None


def _parse(name: str, where: str) -> HostClass:
    try:
        return HostClass(name.strip().lower())
    except ValueError:
        raise UnknownClass(
            f'{where} is {name!r}; it can be dedicated or shared') from None
