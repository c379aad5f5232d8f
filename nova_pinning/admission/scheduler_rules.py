# SPDX-License-Identifier: Apache-2.0
"""What nova-scheduler is set to, as far as it tells where a guest may go."""

from collections.abc import Mapping
import dataclasses

from nova_pinning.admission import offered_host
from nova_pinning.document import terms
from nova_pinning.model import hostclass
from nova_pinning.model import reserve

#: That of this project which keeps guests off hosts of the other class.
CLASS_FILTER = 'HostClassFilter'
#: Those of nova that go by how many guests a host has.
COUNT_FILTERS = ('NumInstancesFilter', 'AggregateNumInstancesFilter')
_MOST_GUESTS = 'max_instances_per_host'


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerRules:
    """nova-scheduler's options, and the aggregates that they refer to.

    :param enabled_filters: [filter_scheduler] enabled_filters; None if they
        are not known, and then no guest can be refused by a filter for sure
    :param aggregates: of the cloud, by name; which hosts are in one, the
        hosts say
    :param default_zone: [DEFAULT] default_availability_zone, that of hosts
        which no aggregate puts in one
    :param isolates: [scheduler] enable_isolated_aggregate_filtering: whether
        aggregates with ``trait:NAME=required`` take only guests that require
        the trait
    :param limits_tenants: [scheduler] limit_tenants_to_placement_aggregate:
        whether a project goes to the aggregates that name it under
        ``filter_tenant_id``, if any do
    :param requires_tenant_aggregate: [scheduler]
        placement_aggregate_required_for_tenants: whether other projects then
        go nowhere
    :param packs_cells: [compute] packing_host_numa_cells_allocation_strategy
    :param pci_in_placement: [filter_scheduler] pci_in_placement
    :param max_instances_per_host: [filter_scheduler] max_instances_per_host
    :param isolates_hosts: whether [filter_scheduler] has isolated_hosts or
        isolated_images; None if it is not known
    :param unknown_host_class: [pinning] unknown_host_class
    :param image_separator: [filter_scheduler]
        aggregate_image_properties_isolation_separator
    :param image_namespace: [filter_scheduler]
        aggregate_image_properties_isolation_namespace, '' for none
    """

    enabled_filters: tuple[str, ...] | None = None
    aggregates: Mapping[str, offered_host.Aggregate] = dataclasses.field(
        default_factory=dict)
    default_zone: terms.Word = 'nova'
    isolates: bool = False
    limits_tenants: bool = False
    requires_tenant_aggregate: bool = False
    packs_cells: bool = False
    pci_in_placement: bool = False
    max_instances_per_host: terms.Amount = 50
    isolates_hosts: bool | None = None
    unknown_host_class: terms.Word = hostclass.BY_GUESTS
    image_separator: terms.Line = '.'
    image_namespace: terms.Line = ''

    def zone_of(self, host: offered_host.OfferedHost) -> str:
        """The availability zone of a host; nova lets it be in one only."""
        return min((
            zone for name in host.aggregates if name in self.aggregates
            and (zone := self.aggregates[name].availability_zone) is not None
        ), default=self.default_zone)

    def reserve_of(
            self, host: offered_host.OfferedHost) -> reserve.ReserveUse | None:
        """Whom a host is kept for, None if for nobody."""
        return reserve.use_of(
            self.aggregates[name] for name in self.reserves_of(host))

    def reserves_of(self, host: offered_host.OfferedHost) -> list[str]:
        """The aggregates that a host is kept by."""
        return [name for name in host.aggregates if name in self.aggregates
                and hostclass.RESERVE_KEY in self.aggregates[name].metadata]

    @property
    def counts_guests(self) -> bool:
        """Whether a filter may go by how many guests a host has."""
        return any(
            name in (self.enabled_filters or ()) for name in COUNT_FILTERS
        ) or any(_MOST_GUESTS in aggregate.metadata
                 for aggregate in self.aggregates.values())

    @property
    def counting_only(self) -> 'SchedulerRules':
        """The rules for a guest of which no project or zone is known."""
        known = self.enabled_filters
        return SchedulerRules(
            packs_cells=self.packs_cells,
            max_instances_per_host=self.max_instances_per_host,
            enabled_filters=None if known is None else tuple(
                name for name in known
                if name in COUNT_FILTERS) + (CLASS_FILTER,),
            aggregates={
                name: offered_host.Aggregate(name, metadata={
                    _MOST_GUESTS: aggregate.metadata[_MOST_GUESTS]})
                for name, aggregate in self.aggregates.items()
                if _MOST_GUESTS in aggregate.metadata})

    @property
    def keeps_classes(self) -> bool:
        """Whether HostClassFilter keeps guests off hosts of the other class.

        So it does unless the filters are known, and it is not among them.
        """
        return (self.enabled_filters is None
                or CLASS_FILTER in self.enabled_filters)

    def minds_guests(self, host: offered_host.OfferedHost) -> bool:
        """Whether filters may come to say otherwise as its guests change."""
        return self.counts_guests or (
            self.keeps_classes and host.known_class is None)
