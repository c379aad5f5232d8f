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

"""Which class the hosts of a snapshot are of.

As HostClassFilter tells it (nova_pinning.scheduler.classes), from what a
snapshot has.
"""

from collections.abc import Iterable

from nova_pinning.flavors import model as flavor_model
from nova_pinning.fleet import model as fleet_model
from nova_pinning import model
from nova_pinning.model import hostclass
from nova_pinning.placement import traits as placement_traits


def host_class(
    aggregates: Iterable[fleet_model.Aggregate],
    traits: frozenset[str] | None,
    cells: Iterable[model.HostCell],
) -> hostclass.HostClass | None:
    """The class of a host; None if nothing tells, or nothing can be told.

    :param aggregates: that it is in
    :param traits: of its provider, None if they are not known
    :raises hostclass.UnknownClass: if what states the class names one that
        there is not, or two at once; the filter lets nobody in then
    """
    stated = _stated(aggregates) | placement_traits.classes(traits or ())
    if len(stated) > 1:
        raise hostclass.UnknownClass(
            'its aggregates and traits name both classes')
    return next(iter(stated)) if stated else fleet_model.class_of_cells(cells)


def _stated(
    aggregates: Iterable[fleet_model.Aggregate],
) -> frozenset[hostclass.HostClass]:
    key = flavor_model.CLASS_KEY
    return frozenset(
        hostclass.parse(one.metadata[key], f'{key} of aggregate {one.name}')
        for one in aggregates if key in one.metadata)
