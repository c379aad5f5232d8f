# SPDX-License-Identifier: Apache-2.0
"""What oslo-config-generator and oslo.config's Sphinx extension read."""

from oslo_config import cfg

from nova_pinning.conf import pinning


def list_opts() -> list[tuple[cfg.OptGroup, list[cfg.Opt]]]:
    """All options of the project, by group."""
    return list(pinning.list_opts().items())
