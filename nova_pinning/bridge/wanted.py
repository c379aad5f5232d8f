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

"""What a flavor and an image ask for, read by nova's own code.

Importing it imports nova, which takes seconds, but not the libvirt driver.
Call ``bridge.standalone.prepare()`` first.
"""

from collections.abc import Mapping
import contextlib
import json
from typing import Any

from nova import objects

from nova_pinning.bridge import order
from nova_pinning.bridge import queries
from nova_pinning.bridge import settings
from nova_pinning.bridge import topology
from nova_pinning import errors
from nova_pinning.flavors import guest_class
from nova_pinning.flavors import model as flavor_model
from nova_pinning.fleet import model as fleet_model
from nova_pinning.fleet import wanted as fleet_wanted
from nova_pinning.model import hostclass


def wanted(
    flavor: flavor_model.Flavor,
    image_properties: Mapping[str, str] | None = None,
    pci_aliases: Mapping[str, fleet_model.PciAlias] | None = None,
) -> fleet_wanted.Wanted:
    """One more guest of a flavor and an image, as nova would place it.

    Options and loggers of nova are changed meanwhile, which are one for the
    whole process: call it from one thread at a time.

    :param image_properties: as Glance has them: hw_cpu_policy and so on
    :param pci_aliases: by name; None for those of nova.conf, if it was read
    :raises InputError: if nova would not accept the flavor with the image
    """
    objects.register_all()
    image = dict(image_properties or {})
    options: dict[tuple[str | None, str], Any] = {}
    if pci_aliases is not None:
        options['pci', 'alias'] = [
            text for name, alias in pci_aliases.items()
            for text in _alias_options(name, alias)]
    with settings.applied(options):
        ordered = order.order(flavor, image)
        with order.refusals(flavor, image):
            asked = queries.queries(ordered)
    guest = None
    if ordered.topology is not None:
        try:
            guest = topology.guest_from_nova(ordered.topology)
        except topology.BrokenTopology as error:
            raise errors.InputError(
                f'flavor {flavor.name}: {error}',
                _place(flavor.where)) from error
    return fleet_wanted.Wanted(
        flavor=flavor,
        guest_class=_class(flavor, image, guest.cpu_policy if guest else None),
        topology=guest,
        devices=tuple(map(_request, ordered.pci_requests.requests)),
        queries=tuple(_query(one) for one in asked if one is not None))


def many() -> contextlib.AbstractContextManager[None]:
    """In a with statement, :func:`wanted` takes a tenth of the time.

    Nova's options are then made ready once and not each time.
    """
    return settings.applied({})


def _class(flavor: flavor_model.Flavor, image: Mapping[str, str],
           policy: str | None) -> hostclass.HostClass:
    try:
        return guest_class.guest_class(
            flavor.extra_specs, image.get('hw_cpu_policy'), policy)
    except hostclass.UnknownClass as error:
        raise errors.InputError(
            f'flavor {flavor.name}: {error}',
            _place(flavor.origin(flavor_model.CLASS_KEY))) from error


def _place(where: errors.Location) -> errors.Location | None:
    return where if where.source else None


def _alias_options(name: str, alias: fleet_model.PciAlias) -> list[str]:
    """[pci] alias, which takes one kind of device each time."""
    return [
        json.dumps({
            'name': name, 'vendor_id': kind.vendor_id,
            'product_id': kind.product_id, 'device_type': 'type-PCI',
            'numa_policy': alias.policy})
        for kind in alias.kinds]


def _request(request: Any) -> fleet_model.PciRequest:
    """A nova.objects.InstancePCIRequest in the terms of a fleet."""
    return fleet_model.PciRequest(
        alias=request.alias_name,
        kinds=tuple(
            fleet_model.DeviceKind(spec.get('vendor_id', ''),
                                   spec.get('product_id', ''))
            for spec in request.spec),
        count=request.count,
        policy=request.numa_policy or 'legacy')


def _query(query: queries.Query) -> fleet_wanted.Query:
    """A query without the trait that says no more than the release."""
    return fleet_wanted.Query(
        resources=dict(query.resources),
        required=frozenset(query.required) - {queries.OWNER},
        forbidden=frozenset(query.forbidden))
