# SPDX-License-Identifier: Apache-2.0
"""What can be told before anything is started."""

import dataclasses
import os
import pathlib
import re
import shutil
import socket

from minicloud import errors
from minicloud import packages
from minicloud import settings
from minicloud import virtual

# What a new cloud writes: databases, images, disks of small guests.
FREE_BYTES = 2 * 1024 ** 3

# Bases of clouds that are side by side, with ports for guests that move in.
PORTS_APART = 1000

# A path in any of the services' files: blanks, quotes, colons and so on end
# it or stand for something else there.
PLAIN = re.compile(r'[\w/.+@~-]+', re.ASCII)

MEMORY = pathlib.Path('/proc/meminfo')

# What the control services use, and each compute host on this machine; what
# guests use comes on top.
CLOUD_MIB = 1024
HOST_MIB = 160
HUGE_PAGE_MIB = 2


def machine(state: settings.State) -> None:
    """Look at the machine.

    :raises: MiniCloudError
    """
    if os.geteuid():
        raise errors.MiniCloudError(
            'only root can make namespaces and run libvirtd',
            'Run it with sudo')
    if not PLAIN.fullmatch(str(state.root)):
        raise errors.MiniCloudError(
            f'{state.root} has characters that mean something else to one '
            f'of the services: only letters, digits and /._+@~- are good',
            'Give another directory with --state')
    missing = packages.missing()
    if missing:
        raise errors.MiniCloudError(
            'these Debian packages are missing: ' + ', '.join(missing),
            'Run: tools/minicloud deps')
    free = shutil.disk_usage(existing(state.root)).free
    if free < FREE_BYTES:
        raise errors.MiniCloudError(
            f'{state.root} has {free // 1024 ** 2} MiB of free space, '
            f'{FREE_BYTES // 1024 ** 2} MiB are needed',
            'Make room, or give another directory with --state')


def memory(cloud_settings: settings.Settings) -> None:
    """See that there is memory for all of it.

    :raises: MiniCloudError
    """
    needed = CLOUD_MIB + cloud_settings.huge_pages * HUGE_PAGE_MIB + sum(
        HOST_MIB if not host.topology
        else virtual.Topology.parse(host.topology).memory_mib
        for host in cloud_settings.hosts)
    text = MEMORY.read_text()
    match = re.search(r'^MemAvailable: +(\d+) kB$', text, re.MULTILINE)
    free = int(match[1]) // 1024 if match else needed
    if free < needed:
        raise errors.MiniCloudError(
            f'{free} MiB of memory are available, {needed} MiB are needed',
            'Ask for fewer hosts or huge pages')


def existing(path: os.PathLike[str]) -> str:
    """Return the nearest directory above a path that exists."""
    name = os.path.abspath(path)
    while not os.path.exists(name):
        name = os.path.dirname(name)
    return name


def ports(cloud_settings: settings.Settings) -> None:
    """See that nobody listens where the cloud is going to.

    :raises: MiniCloudError
    """
    taken = _taken(cloud_settings)
    if not taken:
        return
    name, address, port = taken
    other = next((base for base in range(
        settings.BASE_PORT, 65536 - PORTS_APART, PORTS_APART)
        if not _taken(dataclasses.replace(cloud_settings, base_port=base))),
        None)
    raise errors.MiniCloudError(
        f'port {port} of {address}, for {name}, is in use',
        'If that is another minicloud, take it down; or have this one beside '
        'it, with a --state of its own and '
        + (f'--base-port {other}' if other else 'another --base-port'))


def _taken(cloud_settings: settings.Settings) -> tuple[str, str, int] | None:
    """Return a port of a cloud that somebody listens on.

    :returns: what it is for, address and port
    """
    controller = [settings.CONTROLLER_ADDRESS]
    hosts = [cloud_settings.host_address(host.name)
             for host in cloud_settings.hosts]
    for name in settings.PORTS:
        if name == 'lan':
            # Which is UDP, and open to many.
            continue
        for address in hosts if name in ('ssh', 'libvirt') else controller:
            port = cloud_settings.port(name)
            if not _is_free(address, port):
                return name, address, port
    return None


def _is_free(address: str, port: int) -> bool:
    with socket.socket() as listener:
        # Connections that have just been closed do not count.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((address, port))
        except OSError:
            return False
    return True
