# SPDX-License-Identifier: Apache-2.0
"""The project's options, registered with oslo.config's global CONF.

That is the one that nova uses too, so the options stand in nova.conf.
"""

from typing import Any

from oslo_config import cfg

from nova_pinning.conf import pinning

CONF = cfg.CONF

pinning.register_opts(CONF)


def value(name: str) -> Any:
    """See :func:`nova_pinning.conf.pinning.value`."""
    return pinning.value(CONF, name)


def check() -> None:
    """See :func:`nova_pinning.conf.pinning.check`."""
    pinning.check(CONF)
