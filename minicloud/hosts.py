# SPDX-License-Identifier: Apache-2.0
"""Compute hosts of either kind: namespaces of this machine, or a QEMU."""

from minicloud import namespace
from minicloud import service
from minicloud import settings
from minicloud import virtual


def parts(state: settings.State, settings: settings.Settings,
          host: settings.HostSettings) -> list[service.Part]:
    """Return the parts that a compute host is made of."""
    if host.topology:
        return virtual.parts(state, settings, host)
    return namespace.parts(state, settings, host)


def enter(state: settings.State, settings: settings.Settings,
          host: settings.HostSettings, command: list[str]) -> list[str]:
    """Return a command line that runs a command on a compute host."""
    if host.topology:
        return virtual.enter(state, settings, host, command)
    return namespace.enter(state, settings, host, command)
