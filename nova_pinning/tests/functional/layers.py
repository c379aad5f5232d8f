# SPDX-License-Identifier: Apache-2.0
"""What may keep the two classes of guests apart, one thing at a time.

Each layer says which of nova's options it needs, what it adds to flavors and
images, and how it marks a host. A host that changes its class is marked so
that it is closed to both classes in between, never open to both.
"""

from collections.abc import Mapping
import dataclasses

from demo import cloud
from nova_pinning.flavors import flavor_model
from nova_pinning.model import hostclass
from nova_pinning.placement import placement_traits
from nova_pinning.scheduler import traits_reader
from nova_pinning.tests.functional import operated_cloud

DEDICATED = hostclass.HostClass.DEDICATED
SHARED = hostclass.HostClass.SHARED

_REQUIRED = {f'trait:{placement_traits.DEDICATED}': 'required'}
_FORBIDDEN = {f'trait:{placement_traits.DEDICATED}': 'forbidden'}


@dataclasses.dataclass(frozen=True, slots=True)
class Offer:
    """A flavor, and whether it is sold with an image that asks for pinning.

    :param pinned: how many of the vCPUs are pinned
    :param image_asks: whether it is sold with such an image only; nothing in
        the flavor itself pins vCPUs then
    """

    name: str
    vcpus: int
    pinned: int
    extra_specs: Mapping[str, str] = dataclasses.field(default_factory=dict)
    image_asks: bool = False

    @property
    def host_class(self) -> hostclass.HostClass:
        """Where a guest with this flavor belongs."""
        return DEDICATED if self.pinned else SHARED


class Layer:
    """None at all: nova as it comes, with its NUMATopologyFilter."""

    filters: tuple[str, ...] = cloud.NOVA_FILTERS
    filter_paths: tuple[str, ...] = ('nova.scheduler.filters.all_filters',)

    def start(self, nova: operated_cloud.Cloud) -> None:
        """Set nova's options, before there are hosts."""
        self.nova = nova

    def extra_specs(self, offer: Offer) -> Mapping[str, str]:
        """What a flavor gets besides its own extra specs."""
        return {}

    def image_properties(self) -> Mapping[str, str]:
        """What an image gets besides hw_cpu_policy=dedicated."""
        return {}

    def mark(self, host: str, host_class: hostclass.HostClass) -> None:
        """Make a host one of this class, whatever it was before."""


class Traits(Layer):
    """Traits of providers and flavors.

    Nothing of ours runs in nova. Providers carry the trait of their class;
    every dedicated flavor requires CUSTOM_PINNING_DEDICATED, every shared one
    forbids it. So does every image that asks for pinning require it, which
    takes a flavor that says nothing: Placement grants nothing to a request
    that requires and forbids the same trait.

    The traits are made known to Placement first: it refuses all requests
    that name one which it does not know, those that forbid it included.
    """

    def start(self, nova: operated_cloud.Cloud) -> None:
        super().start(nova)
        for trait in placement_traits.TRAIT_OF.values():
            nova.stage._create_trait(trait)

    def extra_specs(self, offer: Offer) -> Mapping[str, str]:
        if offer.image_asks:
            return {}
        return _REQUIRED if offer.host_class is DEDICATED else _FORBIDDEN

    def image_properties(self) -> Mapping[str, str]:
        return _REQUIRED

    def mark(self, host: str, host_class: hostclass.HostClass) -> None:
        self.nova.change_traits(
            host, *placement_traits.class_traits(host_class))


class IsolatedAggregates(Traits):
    """Aggregates with ``trait:CUSTOM_PINNING_DEDICATED=required``.

    Nothing of ours runs in nova, and nobody has touched a shared flavor:
    ``[scheduler] enable_isolated_aggregate_filtering`` keeps out whoever does
    not require the trait. Nova looks only at what is asked for, so that alone
    keeps no dedicated guest off shared hosts: its flavor or image has to
    require the trait, and the providers have to carry it. That much of the
    traits is part of this layer.
    """

    def start(self, nova: operated_cloud.Cloud) -> None:
        super().start(nova)
        nova.stage.flags(
            enable_isolated_aggregate_filtering=True, group='scheduler')
        self._aggregate = nova.create_aggregate('enterprise', [], _REQUIRED)
        self._members: set[str] = set()

    def extra_specs(self, offer: Offer) -> Mapping[str, str]:
        return _REQUIRED if offer.host_class is DEDICATED and (
            not offer.image_asks) else {}

    def mark(self, host: str, host_class: hostclass.HostClass) -> None:
        if host_class is DEDICATED:
            self.nova.stage.admin_api.add_host_to_aggregate(
                self._aggregate, host)
            self._members.add(host)
        super().mark(host, host_class)
        if host_class is SHARED and host in self._members:
            self.nova.stage.admin_api.remove_host_from_aggregate(
                self._aggregate, host)
            self._members.remove(host)


class FilterByTraits(Traits):
    """HostClassFilter, which reads traits of providers.

    Flavors and images ask for no trait at all. A change counts once the
    filter has read the traits again, ``[pinning] traits_refresh_seconds``
    later; here it is told to read at once.
    """

    filters = cloud.PINNING_FILTERS
    filter_paths = cloud.FILTER_PATHS

    def extra_specs(self, offer: Offer) -> Mapping[str, str]:
        return {}

    def image_properties(self) -> Mapping[str, str]:
        return {}

    def mark(self, host: str, host_class: hostclass.HostClass) -> None:
        super().mark(host, host_class)
        # Until the first request there is nothing that has read any.
        traits_reader.refresh()


class FilterByAggregates(Layer):
    """HostClassFilter, which reads ``pinning:class`` of aggregates.

    A host that is in aggregates of both classes takes no guest.
    """

    filters = cloud.PINNING_FILTERS
    filter_paths = cloud.FILTER_PATHS

    def start(self, nova: operated_cloud.Cloud) -> None:
        super().start(nova)
        nova.stage.flags(traits_refresh_seconds=0, group='pinning')
        self._aggregates = {
            each: nova.create_aggregate(
                str(each), [], {flavor_model.CLASS_KEY: str(each)})
            for each in hostclass.HostClass}
        self._member_of: dict[str, hostclass.HostClass] = {}

    def mark(self, host: str, host_class: hostclass.HostClass) -> None:
        before = self._member_of.get(host)
        if before is host_class:
            return
        self.nova.stage.admin_api.add_host_to_aggregate(
            self._aggregates[host_class], host)
        if before is not None:
            self.nova.stage.admin_api.remove_host_from_aggregate(
                self._aggregates[before], host)
        self._member_of[host] = host_class


class FilterByGuests(FilterByAggregates):
    """HostClassFilter, which takes unmarked hosts for what their guests are.

    :param unknown_host_class: of [pinning]
    """

    def __init__(self, unknown_host_class: str = 'by-guests') -> None:
        self._unknown = unknown_host_class

    def start(self, nova: operated_cloud.Cloud) -> None:
        super().start(nova)
        nova.stage.flags(unknown_host_class=self._unknown, group='pinning')

    def unmark(self, host: str) -> None:
        """Make a host one of no class."""
        self.nova.stage.admin_api.remove_host_from_aggregate(
            self._aggregates[self._member_of.pop(host)], host)
