# SPDX-License-Identifier: Apache-2.0
"""The options of group [pinning] in a simulation."""

from collections.abc import Mapping
from typing import Any
from typing import NamedTuple

from oslo_config import cfg

from nova_pinning.conf import pinning
from nova_pinning import errors
from nova_pinning import fit
from nova_pinning.scheduler import mix
from nova_pinning.simulation import scheduler_configuration


class SimulatedOptions(NamedTuple):
    """What the engine has to know of them.

    :param mix: () for that of the recent requests
    :param recent_requests: how many of these there are
    :param bounds: for a decision
    """

    mix: mix.Mix
    recent_requests: int
    prefer_exclusive_l3: bool
    unknown_host_class: str
    bounds: fit.ClaimBounds


def values(
    configuration: scheduler_configuration.SchedulerConfiguration,
) -> Mapping[str, Any]:
    """All options that are set, the weighers' multipliers among them."""
    options = dict(configuration.pinning)
    for name, option in ((scheduler_configuration.FRAGMENTATION,
                          'fragmentation_weight_multiplier'),
                         (scheduler_configuration.CACHE_LOCALITY,
                          'cache_locality_weight_multiplier')):
        if name in configuration.multipliers:
            options[option] = configuration.multipliers[name]
    return options


def register(conf: cfg.ConfigOpts) -> None:
    """Make the options known to a set of options that is nobody else's.

    Under the group's name: all that register one group share what is set.
    """
    conf.register_opts(
        pinning.list_opts()[pinning.pinning_group], group='pinning')


def read(configuration: scheduler_configuration.SchedulerConfiguration,
         ask_nova: fit.AskNova | None = None) -> SimulatedOptions:
    """The options as nova-scheduler would read them.

    :param ask_nova: as :class:`nova_pinning.fit.ClaimBounds` has it, for where
        nova-compute's claim is looked into
    :raises errors.InputError: if one of them is wrong
    """
    conf = cfg.ConfigOpts()
    register(conf)
    conf([], default_config_files=[], default_config_dirs=[])
    try:
        for name, value in values(configuration).items():
            conf.set_override(name, value, 'pinning')
        pinning.check(conf)
        options = conf.pinning
        return SimulatedOptions(
            mix.configured_mix(options.fragmentation_mix),
            options.fragmentation_recent_requests, options.prefer_exclusive_l3,
            options.unknown_host_class,
            fit.ClaimBounds(options.nova_claim_max_seconds, ask_nova=(
                ask_nova if options.check_nova_claim else None)))
    except (cfg.Error, ValueError) as error:
        raise errors.InputError(
            f'configuration {configuration.name}: {error}') from error
