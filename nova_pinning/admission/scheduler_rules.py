# SPDX-License-Identifier: Apache-2.0
"""What nova-scheduler is set to, as far as it tells where a guest may go."""

from collections.abc import Mapping
import dataclasses

from nova_pinning.admission import offered_host


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
    :param packs_cells: [compute] packing_host_numa_cells_allocation_strategy
    :param pci_in_placement: [filter_scheduler] pci_in_placement
    :param max_instances_per_host: [filter_scheduler] max_instances_per_host
    :param image_separator: [filter_scheduler]
        aggregate_image_properties_isolation_separator
    :param image_namespace: [filter_scheduler]
        aggregate_image_properties_isolation_namespace, '' for none
    """

    enabled_filters: tuple[str, ...] | None = None
    aggregates: Mapping[str, offered_host.HostAggregate] = dataclasses.field(
        default_factory=dict)
    default_zone: str = 'nova'
    isolates: bool = False
    limits_tenants: bool = False
    packs_cells: bool = False
    pci_in_placement: bool = False
    max_instances_per_host: int = 50
    image_separator: str = '.'
    image_namespace: str = ''
