# SPDX-License-Identifier: Apache-2.0
"""Configurations of nova-scheduler by name, or from a nova.conf.

With the options of group [pinning] that they set.
"""

from collections.abc import Mapping
from collections.abc import Sequence
import math
import os
from typing import Any

from oslo_config import cfg

from nova_pinning.conf import pinning
from nova_pinning import errors
from nova_pinning.fleet import filter_names
from nova_pinning.scheduler import mix
from nova_pinning.simulation import scheduler_configuration

_NOVA = 'nova.scheduler.weights'
_OWN = 'nova_pinning.scheduler.weights'
_ALL = 'all_weighers'
_OPTIONS = {
    scheduler_configuration.MULTIPLIER_OPTIONS[name]: name
    for name in scheduler_configuration.NOVA_MULTIPLIERS}

#: The least multipliers that nova itself takes.
_LEAST = {'PCIWeigher': 0.0}


def values(
    configuration: scheduler_configuration.SchedulerConfiguration,
) -> Mapping[str, Any]:
    """All options that are set, the weighers' multipliers among them."""
    return {**configuration.pinning, **{
        scheduler_configuration.MULTIPLIER_OPTIONS[name]:
            configuration.multipliers[name]
        for name in scheduler_configuration.OWN_WEIGHERS
        if name in configuration.multipliers}}


def register(conf: cfg.ConfigOpts) -> None:
    """Make the options known to a set of options that is nobody else's.

    Under the group's name: all that register one group share what is set.
    """
    conf.register_opts(
        pinning.list_opts()[pinning.pinning_group], group='pinning')


def read(
    configuration: scheduler_configuration.SchedulerConfiguration,
) -> cfg.ConfigOpts.GroupAttr:
    """The options as nova-scheduler would read them.

    :raises errors.InputError: if one of them is wrong
    """
    conf = cfg.ConfigOpts()
    register(conf)
    conf([], default_config_files=[], default_config_dirs=[])
    try:
        for name, value in values(configuration).items():
            conf.set_override(name, value, 'pinning')
        pinning.check(conf)
        mix.configured_mix(conf.pinning.fragmentation_mix)
        return conf.pinning
    except (cfg.Error, ValueError) as error:
        raise errors.InputError(
            f'configuration {configuration.name}: {error}') from error


def load(name: str) -> scheduler_configuration.SchedulerConfiguration:
    """A configuration of this name, or that of a file.

    :raises errors.InputError: if there is neither, or it cannot be read
    """
    configuration = scheduler_configuration.NAMED.get(name)
    if configuration is None:
        if not os.path.isfile(name):
            raise errors.InputError(
                f'{name!r} is neither a configuration nor a file',
                errors.Location('--configuration'),
                f'name one of {", ".join(scheduler_configuration.NAMED)}, or '
                'a nova.conf')
        configuration = _of_file(name)
    read(configuration)
    return configuration


def _of_file(
    path: str,
) -> scheduler_configuration.SchedulerConfiguration:
    """What a nova.conf says about weighers.

    Read are the multipliers and ``weight_classes`` of group
    [filter_scheduler], its ``enabled_filters`` where they are given,
    ``packing_host_numa_cells_allocation_strategy`` of [compute], and group
    [pinning].

    :raises errors.InputError: naming the option that is wrong
    """
    conf = cfg.ConfigOpts()
    conf.register_opts([
        cfg.ListOpt('weight_classes', default=[f'{_NOVA}.{_ALL}']),
        cfg.ListOpt('enabled_filters'),
        *(cfg.FloatOpt(option,
                       default=scheduler_configuration.NOVA_MULTIPLIERS[name],
                       min=_LEAST.get(name))
          for option, name in _OPTIONS.items())],
                       group='filter_scheduler')
    conf.register_opt(cfg.BoolOpt(
        'packing_host_numa_cells_allocation_strategy', default=False),
        group='compute')
    register(conf)
    where = errors.Location(path)
    try:
        conf([], project='nova', default_config_files=[path],
             default_config_dirs=[], use_env=False)
        pinning.check(conf)
        multipliers = {
            name: float(conf.filter_scheduler[option])
            for option, name in _OPTIONS.items()}
        classes = list(conf.filter_scheduler.weight_classes)
        enabled = conf.filter_scheduler.enabled_filters
        packs = (conf.compute.packing_host_numa_cells_allocation_strategy)
    except (cfg.Error, OSError, ValueError) as error:
        raise errors.InputError(str(error).strip(), where) from None
    for name, value in multipliers.items():
        if not math.isfinite(value):
            raise errors.InputError(
                f'the multiplier of {name} is {value}: a number is needed',
                where)
    if enabled is not None:
        filter_names.check(enabled, where)
    loaded = _loaded(classes, where)
    multipliers = {name: value if name in loaded else 0.0
                   for name, value in multipliers.items()}
    for name, option in (
            (name, scheduler_configuration.MULTIPLIER_OPTIONS[name])
            for name in scheduler_configuration.OWN_WEIGHERS):
        if name in loaded:
            multipliers[name] = float(conf.pinning[option])
    return scheduler_configuration.SchedulerConfiguration(
        name=os.path.basename(path), multipliers=multipliers,
        packs_cells=packs,
        enabled_filters=None if enabled is None else tuple(enabled),
        pinning={opt.dest: conf.pinning[opt.dest]
                 for opt in pinning.list_opts()[pinning.pinning_group]
                 if conf.pinning[opt.dest] != opt.default})


def _loaded(classes: Sequence[str], where: errors.Location) -> set[str]:
    """The weighers that ``weight_classes`` loads."""
    names: set[str] = set()
    for path in classes:
        module, _dot, name = path.strip().rpartition('.')
        if (module, name) == (_NOVA, _ALL):
            names.update(scheduler_configuration.NOVA_MULTIPLIERS)
        elif (module, name) == (_OWN, _ALL):
            names.update(scheduler_configuration.OWN_WEIGHERS)
        elif module == _OWN and name in scheduler_configuration.OWN_WEIGHERS:
            names.add(name)
        elif module.startswith(f'{_NOVA}.'):
            # Those that are not known here weigh all hosts alike.
            names.add(name)
        else:
            raise errors.InputError(
                f'weight_classes: {path!r} is a weigher that cannot be '
                'simulated', where, "only nova's and nova-pinning's own can")
    return names
