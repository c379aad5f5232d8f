# SPDX-License-Identifier: Apache-2.0
"""What nova.conf says of nova-scheduler, for a snapshot."""

from collections.abc import Mapping
import dataclasses

from nova import exception
from nova.pci import request as pci_request
from oslo_config import cfg

from nova_pinning.admission import pci_alias
from nova_pinning.admission import scheduler_rules
from nova_pinning.bridge.offline import nova_conf_reader
from nova_pinning import errors
from nova_pinning.fleet import snapshot

#: Where nova.conf has each of the rules: the option, and its group.
_OPTIONS: Mapping[str, tuple[str, str | None]] = {
    'default_zone': ('default_availability_zone', None),
    'isolates': ('enable_isolated_aggregate_filtering', 'scheduler'),
    'limits_tenants': ('limit_tenants_to_placement_aggregate', 'scheduler'),
    'requires_tenant_aggregate': (
        'placement_aggregate_required_for_tenants', 'scheduler'),
    'pci_in_placement': ('pci_in_placement', 'filter_scheduler'),
    'max_instances_per_host': ('max_instances_per_host', 'filter_scheduler'),
    'image_separator': (
        'aggregate_image_properties_isolation_separator', 'filter_scheduler'),
    'image_namespace': (
        'aggregate_image_properties_isolation_namespace', 'filter_scheduler')}


def enabled_filters(conf: cfg.ConfigOpts) -> tuple[str, ...]:
    """[filter_scheduler] enabled_filters.

    :returns: () if it is not there: the file may be another service's than
        nova-scheduler's, so what nova enables by default tells nothing
    """
    if not _is_set(conf, 'enabled_filters', 'filter_scheduler'):
        return ()
    return tuple(filter(None, conf.filter_scheduler.enabled_filters))


def _is_set(conf: cfg.ConfigOpts, name: str, group: str | None) -> bool:
    """Whether a file sets an option."""
    found = conf.get_location(name, group)
    return found is not None and found.location.is_user_controlled


def overridden(fleet: snapshot.Fleet, conf: cfg.ConfigOpts) -> snapshot.Fleet:
    """A fleet with the options that nova.conf sets; others stay.

    :raises errors.InputError: if nova refuses [pci] alias
    """
    told = rules(conf)
    # Which aliases nova takes hangs on that.
    conf.set_default('pci_in_placement', (
        told if _is_set(conf, 'pci_in_placement', 'filter_scheduler')
        else fleet.rules).pci_in_placement, group='filter_scheduler')
    changed = {
        field: getattr(told, field)
        for field, (name, group) in _OPTIONS.items()
        if _is_set(conf, name, group)}
    if told.isolates_hosts is not None:
        changed['isolates_hosts'] = told.isolates_hosts
    return dataclasses.replace(
        fleet, rules=dataclasses.replace(fleet.rules, **changed),
        enabled_filters=enabled_filters(conf) or fleet.enabled_filters,
        pci_aliases={**fleet.pci_aliases, **pci_aliases(conf)},
        packs_cells=conf.compute.packing_host_numa_cells_allocation_strategy
        if _is_set(conf, 'packing_host_numa_cells_allocation_strategy',
                   'compute') else fleet.packs_cells)


def pci_aliases(
    conf: cfg.ConfigOpts,
) -> dict[str, pci_alias.PciAlias]:
    """[pci] alias.

    :raises errors.InputError: if nova refuses it
    """
    try:
        with nova_conf_reader.replaced_conf(pci_request, conf):
            # What nova remembers of another nova.conf is passed by.
            by_alias = pci_request.get_alias_from_config.__wrapped__()
    except exception.PciInvalidAlias as error:
        found = conf.get_location('alias', 'pci')
        raise errors.InputError(f'[pci] alias: {error}', errors.Location(
            found.detail if found else 'nova.conf')) from error
    return {
        name: pci_alias.PciAlias(tuple(
            tuple(sorted(spec.items())) for spec in specs), policy)
        for name, (policy, specs) in by_alias.items()}


def rules(conf: cfg.ConfigOpts) -> scheduler_rules.SchedulerRules:
    """The options that tell where guests may go, without enabled_filters."""
    told = {field: (conf[group] if group else conf)[name]
            for field, (name, group) in _OPTIONS.items()}
    chosen = conf.filter_scheduler
    return scheduler_rules.SchedulerRules(**told | {
        'isolates_hosts': bool(chosen.isolated_hosts or chosen.isolated_images)
        if enabled_filters(conf) else None,
        'image_namespace': told['image_namespace'] or ''})
