# SPDX-License-Identifier: Apache-2.0
"""What the libvirtd of a compute host is told."""

import json
import subprocess
import uuid

from minicloud import errors
from minicloud import files
from minicloud import settings

# The ports above base_port that QEMUs listen on while guests move in: that
# many for each host, two for each guest.
MIGRATION_PORTS_OFFSET = 100
MIGRATION_PORTS = 20

# Of names "STATE DIRECTORY/HOST" made into UUIDs.
UUID_NAMESPACE = uuid.UUID('8f3b7a55-6c1e-4f0e-9d0c-2f3b0d1f8c11')


def last_port_offset(hosts: int) -> int:
    """Return what the last port of a cloud of so many hosts is at."""
    return MIGRATION_PORTS_OFFSET + MIGRATION_PORTS * hosts - 1


def host_uuid(state: settings.State, name: str) -> uuid.UUID:
    """Return what libvirt takes for the machine's own UUID.

    It must not be the machine's: libvirt refuses to migrate from a host to
    itself.
    """
    return uuid.uuid5(UUID_NAMESPACE, f'{state.root}/{name}')


def connection_uri(settings: settings.Settings, address: str) -> str:
    return f'qemu+tcp://{address}:{settings.port("libvirt")}/system'


def libvirtd_conf(state: settings.State, settings: settings.Settings,
                  name: str, address: str) -> str:
    """Return libvirtd.conf.

    :param address: str, where it listens
    """
    return files.filled(
        'libvirtd.conf', uuid=host_uuid(state, name), address=address,
        port=settings.port('libvirt'))


def qemu_conf(settings: settings.Settings, name: str,
              huge_page_mounts: list[str]) -> str:
    """Return qemu.conf."""
    names = [host.name for host in settings.hosts]
    first = (settings.base_port + MIGRATION_PORTS_OFFSET
             + MIGRATION_PORTS * names.index(name))
    return files.filled(
        'qemu.conf', address=settings.lan_address(name), first_port=first,
        last_port=first + MIGRATION_PORTS - 1,
        # A list of strings is written as in JSON.
        huge_page_mounts=json.dumps(huge_page_mounts))


def check(settings: settings.Settings, name: str, address: str) -> None:
    """Ask a libvirtd for the name of its host.

    :raises: NotReady
    """
    uri = connection_uri(settings, address)
    try:
        answer = subprocess.run(
            ['virsh', '--connect', uri, 'hostname'], timeout=10,
            stdin=subprocess.DEVNULL, capture_output=True, text=True)
    except (OSError, subprocess.TimeoutExpired) as e:
        raise errors.NotReady(f'{uri}: {e}') from e
    if answer.stdout.strip() != name:
        raise errors.NotReady(
            f'{uri} says: {(answer.stderr or answer.stdout).strip()}')
