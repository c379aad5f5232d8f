# SPDX-License-Identifier: Apache-2.0
"""Options of nova that apply for a while, and nova quiet meanwhile."""

from collections.abc import Iterator
from collections.abc import Mapping
import contextlib
import logging
from typing import Any

import nova.conf
from nova.conf import neutron
from nova.pci import request as pci_request
from oslo_config import cfg

CONF = nova.conf.CONF

#: By group and name.
Options = Mapping[tuple[str | None, str], Any]


@contextlib.contextmanager
def applied(option_values: Options) -> Iterator[None]:
    """Let options apply while the with statement lasts, and keep nova quiet.

    Options and loggers are one for the whole process, so only one thread may
    do this at a time. What was set before is set again afterwards.
    """
    logger = logging.getLogger('nova')
    level = logger.level
    with contextlib.ExitStack() as stack:
        _initialise(stack)
        stack.callback(logger.setLevel, level)
        logger.setLevel(logging.CRITICAL + 1)
        # Nova remembers the aliases that it has read.
        stack.callback(pci_request.get_alias_from_config.cache_clear)
        pci_request.get_alias_from_config.cache_clear()
        for (group, name), value in option_values.items():
            stack.callback(_restore, group, name, _override(group, name))
            CONF.set_override(name, value, group)
        yield


def _initialise(stack: contextlib.ExitStack) -> None:
    """Do as nova's programs do before they look at options."""
    try:
        CONF.find_file('nova.conf')
    except cfg.NotInitializedError:
        CONF([], project='nova', default_config_files=[],
             default_config_dirs=[], use_env=False)
        stack.callback(CONF.clear)
    neutron.register_dynamic_opts(CONF)


_UNSET = object()


def _override(group: str | None, name: str) -> Any:
    """The value that somebody has put in an option's place, if any."""
    # oslo.config has no public way to tell an override from a value that was
    # read from a file.
    return CONF._get_opt_info(name, group).get('override', _UNSET)


def _restore(group: str | None, name: str, value: Any) -> None:
    if value is _UNSET:
        CONF.clear_override(name, group)
    else:
        CONF.set_override(name, value, group)
