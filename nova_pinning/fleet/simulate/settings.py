#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

"""The options of group [pinning] in a simulation."""

from collections.abc import Mapping
from typing import Any
from typing import NamedTuple

from oslo_config import cfg

from nova_pinning.conf import pinning
from nova_pinning import errors
from nova_pinning.fleet.simulate import configuration as configurations
from nova_pinning.scheduler import mix


class Settings(NamedTuple):
    """What the engine has to know of them.

    :param mix: () for that of the recent requests
    :param recent_requests: how many of these there are
    :param nova_limit: permutations that nova-compute's claim may walk
        through, None if it is not asked about
    """

    mix: mix.Mix
    recent_requests: int
    exclusive_l3: bool
    unknown_host_class: str
    nova_limit: int | None


def values(
    configuration: configurations.Configuration,
) -> Mapping[str, Any]:
    """All options that are set, the weighers' multipliers among them."""
    found = dict(configuration.pinning)
    for name, option in (
            (configurations.FRAGMENTATION, 'fragmentation_weight_multiplier'),
            (configurations.CACHE_LOCALITY,
             'cache_locality_weight_multiplier')):
        if name in configuration.multipliers:
            found[option] = configuration.multipliers[name]
    return found


def register(conf: cfg.ConfigOpts) -> None:
    """Make the options known to a set of options that is nobody else's.

    Under the group's name: all that register one group share what is set.
    """
    conf.register_opts(
        pinning.list_opts()[pinning.pinning_group], group='pinning')


def read(configuration: configurations.Configuration) -> Settings:
    """The options as nova-scheduler would read them.

    :raises InputError: if one of them is wrong
    """
    conf = cfg.ConfigOpts()
    register(conf)
    conf([], default_config_files=[], default_config_dirs=[])
    try:
        for name, value in values(configuration).items():
            conf.set_override(name, value, 'pinning')
        pinning.check(conf)
        options = conf.pinning
        return Settings(
            mix.configured_mix(options.fragmentation_mix),
            options.fragmentation_recent_requests, options.exclusive_l3,
            options.unknown_host_class,
            options.nova_claim_max_permutations
            if options.check_nova_claim else None)
    except (cfg.Error, ValueError) as error:
        raise errors.InputError(
            f'configuration {configuration.name}: {error}') from error
