# SPDX-License-Identifier: Apache-2.0
"""S8xx: what nova-scheduler's own nova.conf says."""

from collections.abc import Sequence

from nova_pinning.checks import check_rule
from nova_pinning import errors
from nova_pinning.model import filter_order
from nova_pinning.segregation.audit import audited


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
    conf.register_opts([cfg.ListOpt('enabled_filters', default=[])],
                       group='filter_scheduler')
    pinning.register_opts(conf)
    try:
        # The environment is not that of nova-scheduler.
        conf(list(arguments), project='nova', prog='nova-scheduler',
             default_config_files=[], default_config_dirs=[], use_env=False)
        return audited.SchedulerOptions(
            conf.compute.packing_host_numa_cells_allocation_strategy,
            tuple(conf.filter_scheduler.enabled_filters),
            conf.pinning.mode == 'observe')
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
