# SPDX-License-Identifier: Apache-2.0
"""The project's options, registered with oslo.config's global CONF.

That is the one that nova uses too, so the options stand in nova.conf.
"""

from collections.abc import Iterable
from typing import Any

from oslo_config import cfg

from nova_pinning.conf import pinning
from nova_pinning import errors

CONF = cfg.CONF

pinning.register_opts(CONF)


def values(names: Iterable[str]) -> list[Any]:
    """See :func:`nova_pinning.conf.pinning.values`."""
    return pinning.values(CONF, names)


def check() -> None:
    """See :func:`nova_pinning.conf.pinning.check`.

    What the options need has to be installed here, where nova-scheduler runs.

    :raises oslo_config.cfg.ConfigFileValueError: naming the option
    """
    pinning.check(CONF)
    if CONF.pinning.metrics_directory:
        from nova_pinning import extras
        try:
            extras.need('it', 'prometheus_client')
        except errors.InputError as error:
            raise cfg.ConfigFileValueError(
                f'[pinning] metrics_directory is set: {error}') from error
