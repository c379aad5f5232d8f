# SPDX-License-Identifier: Apache-2.0
"""What a flavor and an image ask for, read by nova's own code.

Importing it imports nova, which takes seconds, but not the libvirt driver.
Call ``bridge.offline.standalone.prepare()`` first.
"""

from collections.abc import Iterable
from collections.abc import Mapping
import contextlib
import dataclasses
import json
from types import MappingProxyType
from typing import Any

from nova import objects

from nova_pinning.admission import devices
from nova_pinning.admission import guest_request
from nova_pinning.admission import pci_alias
from nova_pinning.bridge.offline import nova_options
from nova_pinning.bridge.offline import order
from nova_pinning.bridge.offline import placement_queries
from nova_pinning.bridge import topology
from nova_pinning import errors
from nova_pinning.flavors import flavor_model
from nova_pinning.model import hostclass

_IN_PLACEMENT = 'filter_scheduler', 'pci_in_placement'


def request_for(
    flavor: flavor_model.Flavor,
    image_properties: Mapping[str, str] | None = None,
    pci_aliases: Mapping[str, pci_alias.PciAlias] | None = None,
) -> guest_request.GuestRequest:
    """One more guest of a flavor and an image, as nova would place it.

    Options and loggers of nova are changed meanwhile, which are one for the
    whole process: call it from one thread at a time.

    :param image_properties: as Glance has them: hw_cpu_policy and so on
    :param pci_aliases: by name; None for those of nova.conf, if it was read
    :raises errors.InputError: if nova would not accept the flavor with the
        image
    """
    objects.register_all()
    image = dict(image_properties or {})
    options: dict[tuple[str | None, str], Any] = {}
    if pci_aliases is not None:
        # Nova refuses each flavor for what is wrong with any alias.
        named = {name: pci_aliases[name]
                 for name in pci_alias.names(flavor.extra_specs)
                 if name in pci_aliases}
        options['pci', 'alias'] = [
            json.dumps(entry) for name, alias in named.items()
            for entry in pci_alias.entries(name, alias)]
        if any(not {'vendor_id', 'product_id'} <= dict(spec).keys()
               for alias in named.values() for spec in alias.specs):
            # Without it nova wants both of each.
            options[_IN_PLACEMENT] = True
    with nova_options.applied(options):
        ordered = order.from_flavor(flavor, image)
        with order.refusals(flavor, image):
            queries = placement_queries.queries(ordered)
    return of_order(flavor, image, ordered, queries, pci_aliases or {})


def of_order(
    flavor: flavor_model.Flavor, image: Mapping[str, str],
    ordered: order.ApiRequest,
    queries: Iterable[placement_queries.SchedulerQuery | None],
    pci_aliases: Mapping[str, pci_alias.PciAlias] = MappingProxyType({}),
) -> guest_request.GuestRequest:
    """The same of what nova has made of flavor and image.

    :param queries: see ``placement_queries.queries``
    :raises errors.InputError: if its topology or its class makes no sense
    """
    guest = None
    if ordered.topology is not None:
        try:
            guest = topology.guest_from_nova(ordered.topology)
        except topology.BrokenTopology as error:
            raise errors.InputError(
                f'flavor {flavor.name}: {error}',
                _place(flavor.where)) from error
    sent = [query for query in queries if query is not None]
    return guest_request.GuestRequest(
        name=flavor.name, vcpus=flavor.vcpus, memory_mib=flavor.memory_mib,
        disk_gib=flavor.local_disk_gib,
        guest_class=_class(flavor, image, guest.cpu_policy if guest else None),
        topology=guest,
        devices=tuple(_request(request, pci_aliases, sent[0].asked)
                      for request in ordered.pci_requests.requests),
        queries=tuple(map(_query, sent)),
        extra_specs=guest_request.pairs(flavor.extra_specs),
        image=guest_request.pairs(image))


def batch(
    pci_in_placement: bool = False,
) -> contextlib.AbstractContextManager[None]:
    """In a with statement, :func:`request_for` takes a tenth of the time.

    Nova's options are then made ready once and not each time.

    :param pci_in_placement: whether nova-scheduler has Placement find PCI
        devices ([filter_scheduler] pci_in_placement)
    """
    return nova_options.applied({_IN_PLACEMENT: pci_in_placement})


def _class(flavor: flavor_model.Flavor, image: Mapping[str, str],
           policy: str | None) -> hostclass.HostClass:
    try:
        return hostclass.class_of_guest(
            flavor.extra_specs, image.get('hw_cpu_policy'), policy)
    except hostclass.UnknownClass as error:
        raise errors.InputError(
            f'flavor {flavor.name}: {error}',
            _place(flavor.origin(flavor_model.CLASS_KEY))) from error


def _place(where: errors.Location) -> errors.Location | None:
    return where if where.source else None


def _request(
    request: Any, aliases: Mapping[str, pci_alias.PciAlias],
    query: guest_request.CandidatesQuery,
) -> devices.PciRequest:
    """A nova.objects.InstancePCIRequest in the terms of a fleet.

    :param query: in which nova finds its groups by their names
    """
    alias = aliases.get(request.alias_name)
    return devices.PciRequest(
        alias=request.alias_name,
        specs=alias.specs if alias else tuple(
            tuple(sorted(spec.items())) for spec in request.spec),
        count=request.count,
        policy=request.numa_policy or 'legacy',
        groups=tuple(group.suffix for group in query.groups
                     if group.suffix.startswith(request.request_id)))


def _query(
    query: placement_queries.SchedulerQuery,
) -> guest_request.CandidatesQuery:
    """A query without the trait that says no more than the release."""
    return dataclasses.replace(
        query.asked,
        root_required=query.asked.root_required - {placement_queries.OWNER})
