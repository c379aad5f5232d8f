# SPDX-License-Identifier: Apache-2.0
"""What oslo-config-generator and oslo.config's Sphinx extension read."""

from oslo_config import cfg

from nova_pinning.conf import exporter
from nova_pinning.conf import pinning


def list_opts() -> list[tuple[cfg.OptGroup, list[cfg.Opt]]]:
    """All options that stand in nova.conf, by group."""
    return list(pinning.list_opts().items())


def list_exporter_opts() -> list[tuple[cfg.OptGroup, list[cfg.Opt]]]:
    """Those of nova-pinning exporter, by group."""
    return list(exporter.list_opts().items())
