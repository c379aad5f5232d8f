# SPDX-License-Identifier: Apache-2.0
"""S8xx: what nova-scheduler's own nova.conf says."""

from collections.abc import Sequence

from nova_pinning.admission import pci_alias
from nova_pinning.checks import check_rule
from nova_pinning import errors
from nova_pinning.model import filter_order
from nova_pinning.model import hostclass
from nova_pinning.model import weighers
from nova_pinning.segregation.audit import audited
from nova_pinning.segregation import segregation_model

#: Weighers that prefer the hosts with the most that is free, or with a
#: multiplier below 0 those with the least.
_SPREADING = 'RAMWeigher', 'CPUWeigher', 'DiskWeigher'
_PCI = 'PCIWeigher'


def read(arguments: Sequence[str]) -> audited.SchedulerOptions:
    """What nova-scheduler's own nova.conf says.

    :param arguments: --config-file and --config-dir with their values, as
        nova-scheduler is given them
    :raises errors.InputError: if they cannot be read, or nova-scheduler would
        not start with them
    """
    # Only here, for it takes a while to load.
    from nova_pinning.conf import nova_scheduler
    found = nova_scheduler.read(
        arguments, errors.Location(' '.join(arguments)))
    weighs = found.multipliers.get(weighers.FRAGMENTATION, 0.0) > 0
    return audited.SchedulerOptions(
        found.packs_cells, found.enabled_filters or (),
        found.pinning.mode == 'observe',
        found.multipliers if weighs else {})


@check_rule.rule(
    'S801', check_rule.Severity.ERROR,
    'filter that nova-scheduler runs after PinnedTopologyFilter',
    why='it may refuse all hosts that PinnedTopologyFilter passes, which '
        'therefore passes hosts of second choice beside the others, but none '
        'that must not be tried after an aborted claim',
    advice='write the line in [filter_scheduler] of each nova-scheduler, and '
           'restart it')
def wrong_order(view: audited.AuditedCloud) -> check_rule.Violations:
    options = view.settings.scheduler
    wrong = filter_order.what_is_wrong(options.enabled_filters)
    if wrong and not options.observes:
        yield _violation(wrong)


@check_rule.rule(
    'S802', check_rule.Severity.WARNING,
    'weigher of nova that works against FragmentationWeigher',
    why='it prefers hosts of which much is free, whatever would fit there, '
        'and so cuts up what large guests need',
    advice='set it to 0.0 in [filter_scheduler] of each nova-scheduler; where '
           'shared guests need it, in the metadata of an aggregate of the '
           'dedicated hosts')
def nova_weighs(view: audited.AuditedCloud) -> check_rule.Violations:
    options = view.settings.scheduler
    if options.observes:
        return
    for name in options.multipliers:
        if name in _SPREADING:
            yield from _on_dedicated(
                f'{weighers.MULTIPLIER_OPTIONS[name]} is above 0',
                [host.name
                 for host in view.hosts_of(hostclass.HostClass.DEDICATED)
                 if _multiplier(view, host, name) > 0])


@check_rule.rule(
    'S803', check_rule.Severity.WARNING,
    'hosts with PCI devices that FragmentationWeigher gives to all guests',
    why='guests without devices fill them, and flavors that ask for devices '
        'find none with CPUs beside them',
    advice='set pci_weight_multiplier to 20.0 in [filter_scheduler] of each '
           'nova-scheduler, or in the metadata of an aggregate of the '
           'dedicated hosts')
def pci_is_outweighed(view: audited.AuditedCloud) -> check_rule.Violations:
    options = view.settings.scheduler
    if options.multipliers and not options.observes and _asking(view):
        yield from _on_dedicated(
            f'{weighers.MULTIPLIER_OPTIONS[_PCI]} is below what the weighers '
            'of this project have together'
            if _PCI in options.multipliers else
            f'{_PCI} does not run, and those of this project do', [
                host.name
                for host in view.hosts_of(hostclass.HostClass.DEDICATED)
                if _multiplier(view, host, _PCI) < sum(
                    _multiplier(view, host, name)
                    for name in weighers.OWN_WEIGHERS)],
            '' if _PCI in options.multipliers else
            'add nova.scheduler.weights.pci.PCIWeigher to weight_classes of '
            'each nova-scheduler, and set pci_weight_multiplier to 20.0')


@check_rule.rule(
    'S804', check_rule.Severity.WARNING,
    'flavors with PCI devices without PciPassthroughFilter',
    why='guests without NUMA cells are sent to hosts that do not have the '
        'devices, where nova-compute refuses them; only those with cells have '
        'PinnedTopologyFilter look at devices',
    advice='have it before PinnedTopologyFilter in [filter_scheduler] '
           'enabled_filters of each nova-scheduler')
def no_filter_of_devices(view: audited.AuditedCloud) -> check_rule.Violations:
    enabled, asking = view.settings.scheduler.enabled_filters, _asking(view)
    if enabled and 'PciPassthroughFilter' not in enabled and asking:
        yield _violation(
            'enabled_filters has no PciPassthroughFilter, and flavors ask for '
            f'PCI devices, {min(asking)} for one')


def _asking(view: audited.AuditedCloud) -> list[str]:
    """The flavors that ask for PCI devices."""
    return [flavor.name for flavor in view.flavors
            if flavor.extra_specs.get(pci_alias.KEY)]


def _on_dedicated(message: str, names: Sequence[str],
                  advice: str = '') -> check_rule.Violations:
    if names:
        yield _violation(f'{message} on {len(names)} dedicated hosts, '
                         f'{min(names)} for one', advice)


def _violation(message: str, advice: str = '') -> check_rule.Violation:
    return check_rule.Violation(
        subject='service nova-scheduler', kind='service',
        name='nova-scheduler', message=message, advice=advice)


def _multiplier(view: audited.AuditedCloud,
                host: segregation_model.MarkedHost, name: str) -> float:
    """Of a weigher on a host, 0 of one that does not run."""
    configured = view.settings.scheduler.multipliers.get(name)
    return 0.0 if configured is None else weighers.multiplier_on(
        name, configured, [one.metadata for one in host.aggregates])
