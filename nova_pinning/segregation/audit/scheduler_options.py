# SPDX-License-Identifier: Apache-2.0
"""S8xx: what nova-scheduler's own nova.conf says."""

from collections.abc import Sequence

from nova_pinning.checks import check_rule
from nova_pinning import errors
from nova_pinning.model import filter_order
from nova_pinning.model import hostclass
from nova_pinning.segregation.audit import audited
from nova_pinning.segregation import segregation_model

#: Of weighers that prefer the hosts with the most that is free, or with a
#: multiplier below 0 those with the least.
_SPREADING = ('ram_weight_multiplier', 'cpu_weight_multiplier',
              'disk_weight_multiplier')
_PCI = 'pci_weight_multiplier'
_OURS = ('fragmentation_weight_multiplier', 'cache_locality_weight_multiplier')
_WEIGHERS = {'nova_pinning.scheduler.weights.all_weighers',
             'nova_pinning.scheduler.weights.FragmentationWeigher'}


def read(arguments: Sequence[str]) -> audited.SchedulerOptions:
    """What nova-scheduler's own nova.conf says.

    :param arguments: --config-file and --config-dir with their values, as
        nova-scheduler is given them
    :raises errors.InputError: if they cannot be read
    """
    # Only here, for it takes a while to load.
    from oslo_config import cfg

    from nova_pinning.conf import pinning
    conf = cfg.ConfigOpts()
    conf.register_opts([cfg.BoolOpt(
        'packing_host_numa_cells_allocation_strategy', default=False)],
        group='compute')
    conf.register_opts([
        cfg.ListOpt('enabled_filters', default=[]),
        cfg.ListOpt('weight_classes', default=[]),
        *(cfg.FloatOpt(name, default=1.0) for name in (*_SPREADING, _PCI))],
        group='filter_scheduler')
    pinning.register_opts(conf)
    try:
        # The environment is not that of nova-scheduler.
        conf(list(arguments), project='nova', prog='nova-scheduler',
             default_config_files=[], default_config_dirs=[], use_env=False)
        scheduler = conf.filter_scheduler
        ours = {name: conf.pinning[name] for name in _OURS}
        weighs = (ours[_OURS[0]] > 0
                  and not _WEIGHERS.isdisjoint(scheduler.weight_classes))
        return audited.SchedulerOptions(
            conf.compute.packing_host_numa_cells_allocation_strategy,
            tuple(scheduler.enabled_filters),
            conf.pinning.mode == 'observe',
            {**{name: scheduler[name] for name in (*_SPREADING, _PCI)},
             **ours} if weighs else {})
    except (cfg.Error, OSError, ValueError) as error:
        raise errors.InputError(
            ' '.join(str(error).split()).rstrip('.'),
            errors.Location(' '.join(arguments))) from error


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
        yield check_rule.Violation(
            subject='service nova-scheduler', kind='service',
            name='nova-scheduler', message=wrong)


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
                f'{name} is above 0',
                [host.name
                 for host in view.hosts_of(hostclass.HostClass.DEDICATED)
                 if _multiplier(view, host, name) > 0])


@check_rule.rule(
    'S803', check_rule.Severity.WARNING,
    'hosts with PCI devices that FragmentationWeigher gives to all guests',
    why='guests without devices fill them, and flavors that ask for devices '
        'find none with CPUs beside them',
    advice=f'set {_PCI} to 20.0 in [filter_scheduler] of each nova-scheduler, '
           'or in the metadata of an aggregate of the dedicated hosts')
def pci_is_outweighed(view: audited.AuditedCloud) -> check_rule.Violations:
    options = view.settings.scheduler
    if (options.multipliers and not options.observes
            and any(flavor.extra_specs.get('pci_passthrough:alias')
                    for flavor in view.flavors)):
        yield from _on_dedicated(
            f'{_PCI} is below what the weighers of this project have '
            'together', [
                host.name
                for host in view.hosts_of(hostclass.HostClass.DEDICATED)
                if _multiplier(view, host, _PCI) < sum(
                    _multiplier(view, host, name) for name in _OURS)])


def _on_dedicated(message: str, names: Sequence[str]) -> check_rule.Violations:
    if names:
        yield check_rule.Violation(
            subject='service nova-scheduler', kind='service',
            name='nova-scheduler', message=f'{message} on {len(names)} '
            f'dedicated hosts, {min(names)} for one')


def _multiplier(view: audited.AuditedCloud,
                host: segregation_model.MarkedHost, name: str) -> float:
    """As nova.scheduler.utils.get_weight_multiplier has it."""
    multiplier = view.settings.scheduler.multipliers[name]
    try:
        return min([float(aggregate.metadata[name])
                    for aggregate in host.aggregates
                    if name in aggregate.metadata], default=multiplier)
    except ValueError:
        return multiplier
