# SPDX-License-Identifier: Apache-2.0
"""Configurations of nova-scheduler by name, or from a nova.conf.

With the options of group [pinning] that they set.
"""

from collections.abc import Mapping
import math
import os
from typing import Any

from oslo_config import cfg

from nova_pinning.conf import nova_scheduler
from nova_pinning.conf import pinning
from nova_pinning import errors
from nova_pinning.fleet import filter_names
from nova_pinning.model import weighers
from nova_pinning.scheduler import mix
from nova_pinning.simulation import scheduler_configuration


def values(
    configuration: scheduler_configuration.SchedulerConfiguration,
) -> Mapping[str, Any]:
    """All options that are set, the weighers' multipliers among them."""
    return {**configuration.pinning, **{
        weighers.MULTIPLIER_OPTIONS[name]:
            configuration.multipliers[name]
        for name in weighers.OWN_WEIGHERS
        if name in configuration.multipliers}}


def read(
    configuration: scheduler_configuration.SchedulerConfiguration,
) -> cfg.ConfigOpts.GroupAttr:
    """The options as nova-scheduler would read them.

    :raises errors.InputError: if one of them is wrong
    """
    conf = cfg.ConfigOpts()
    nova_scheduler.register_pinning(conf)
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
    """What a nova.conf says, see :mod:`nova_pinning.conf.nova_scheduler`.

    :raises errors.InputError: naming the option that is wrong
    """
    where = errors.Location(path)
    found = nova_scheduler.read(['--config-file', path], where)
    for name, value in found.multipliers.items():
        if not math.isfinite(value):
            raise errors.InputError(
                f'the multiplier of {name} is {value}: a number is needed',
                where)
    for weigher in found.foreign_weighers:
        raise errors.InputError(
            f'weight_classes: {weigher!r} is a weigher that cannot be '
            'simulated', where, "only nova's and nova-pinning's own can")
    filter_names.check(found.enabled_filters or (), where)
    return scheduler_configuration.SchedulerConfiguration(
        name=os.path.basename(path), multipliers={
            **dict.fromkeys(weighers.NOVA_MULTIPLIERS, 0.0),
            **found.multipliers},
        packs_cells=found.packs_cells,
        enabled_filters=found.enabled_filters,
        pinning={opt.dest: found.pinning[opt.dest]
                 for opt in pinning.list_opts()[pinning.pinning_group]
                 if found.pinning[opt.dest] != opt.default})
