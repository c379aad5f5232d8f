# SPDX-License-Identifier: Apache-2.0
"""The options of group [pinning] in a simulation."""

from collections.abc import Mapping
from typing import Any

from oslo_config import cfg

from nova_pinning.conf import pinning
from nova_pinning import errors
from nova_pinning.scheduler import mix
from nova_pinning.simulation import scheduler_configuration


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
