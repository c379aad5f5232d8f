# SPDX-License-Identifier: Apache-2.0
"""What a nova.conf has nova-scheduler do with hosts, as far as it counts here.

Read are ``enabled_filters``, ``weight_classes`` and the multipliers of group
[filter_scheduler], ``packing_host_numa_cells_allocation_strategy`` of
[compute], and group [pinning]. Nova is not needed for it.
"""

from collections.abc import Mapping
from collections.abc import Sequence
import dataclasses

from oslo_config import cfg

from nova_pinning.conf import pinning
from nova_pinning import errors
from nova_pinning.model import weighers

_NOVA = 'nova.scheduler.weights'
_OWN = 'nova_pinning.scheduler.weights'
_ALL = 'all_weighers'
#: The least multipliers that nova itself takes.
_LEAST = {'PCIWeigher': 0.0}


@dataclasses.dataclass(frozen=True, slots=True)
class NovaSchedulerConf:
    """The options of one nova-scheduler.

    :param enabled_filters: None if they are left to nova
    :param multipliers: of the weighers above that ``weight_classes`` loads,
        by class name
    :param foreign_weighers: those of ``weight_classes`` that are neither
        nova's nor of this project
    :param pinning: group [pinning], checked
    """

    packs_cells: bool
    enabled_filters: tuple[str, ...] | None
    multipliers: Mapping[str, float]
    foreign_weighers: tuple[str, ...]
    pinning: cfg.ConfigOpts.GroupAttr


def register_pinning(conf: cfg.ConfigOpts) -> None:
    """Make group [pinning] known to a set of options that is nobody else's.

    Under the group's name: all that register one group share what is set.
    """
    conf.register_opts(
        pinning.list_opts()[pinning.pinning_group], group='pinning')


def read(arguments: Sequence[str],
         where: errors.Location) -> NovaSchedulerConf:
    """What the files say that nova-scheduler is given.

    :param arguments: --config-file and --config-dir with their values
    :param where: what to call them
    :raises errors.InputError: if they cannot be read, or nova-scheduler would
        not start with them
    """
    conf = cfg.ConfigOpts()
    conf.register_opts([
        cfg.ListOpt('enabled_filters'),
        cfg.ListOpt('weight_classes', default=[f'{_NOVA}.{_ALL}']),
        *(cfg.FloatOpt(weighers.MULTIPLIER_OPTIONS[name], default=multiplier,
                       min=_LEAST.get(name))
          for name, multiplier in weighers.NOVA_MULTIPLIERS.items())],
        group='filter_scheduler')
    conf.register_opt(cfg.BoolOpt(
        'packing_host_numa_cells_allocation_strategy', default=False),
        group='compute')
    register_pinning(conf)
    try:
        # The environment is not that of nova-scheduler.
        conf(list(arguments), project='nova', prog='nova-scheduler',
             default_config_files=[], default_config_dirs=[], use_env=False)
        pinning.check(conf)
        group = conf.filter_scheduler
        by_path = {path: _loaded(path.strip())
                   for path in group.weight_classes}
        loaded = {name for names in by_path.values() for name in names}
        return NovaSchedulerConf(
            conf.compute.packing_host_numa_cells_allocation_strategy,
            None if group.enabled_filters is None
            else tuple(group.enabled_filters),
            {name: float((conf.pinning if name in weighers.OWN_WEIGHERS
                          else group)[option])
             for name, option in weighers.MULTIPLIER_OPTIONS.items()
             if name in loaded},
            tuple(path for path, names in by_path.items() if not names),
            conf.pinning)
    except (cfg.Error, OSError, ValueError) as error:
        raise errors.InputError(
            ' '.join(str(error).split()).rstrip('.'), where) from error


def _loaded(path: str) -> Sequence[str]:
    """The weighers that an item of ``weight_classes`` loads; () if unknown."""
    module, _dot, name = path.rpartition('.')
    if (module, name) == (_NOVA, _ALL):
        return tuple(weighers.NOVA_MULTIPLIERS)
    if module == _OWN:
        return weighers.OWN_WEIGHERS if name == _ALL else tuple(
            own for own in weighers.OWN_WEIGHERS if own == name)
    return (name,) if module.startswith(f'{_NOVA}.') else ()
