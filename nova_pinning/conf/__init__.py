# SPDX-License-Identifier: Apache-2.0
"""The project's options, registered with oslo.config's global CONF.

That is the one that nova uses too, so the options stand in nova.conf.
"""

from collections.abc import Iterable
from typing import Any

from oslo_config import cfg

from nova_pinning.conf import pinning

CONF = cfg.CONF

pinning.register_opts(CONF)


def values(names: Iterable[str]) -> list[Any]:
    """See :func:`nova_pinning.conf.pinning.values`."""
    return pinning.values(CONF, names)


def check() -> None:
    """See :func:`nova_pinning.conf.pinning.check`."""
    pinning.check(CONF)
