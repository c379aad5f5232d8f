# SPDX-License-Identifier: Apache-2.0
"""What the libvirtd of a compute host is told."""

import subprocess
import uuid

from minicloud import errors
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
    return _text({
        'host_uuid': str(host_uuid(state, name)),
        'listen_tls': 0,
        'listen_tcp': 1,
        'listen_addr': address,
        'tcp_port': str(settings.port('libvirt')),
        'auth_tcp': 'none',
        'auth_unix_ro': 'none',
        'auth_unix_rw': 'none',
        'unix_sock_group': 'root',
        # Warnings and errors, into the log of the service.
        'log_outputs': '3:stderr'})


def qemu_conf(settings: settings.Settings, name: str,
              huge_page_mounts: list[str]) -> str:
    """Return qemu.conf."""
    # Where guests are received that move in.
    address = settings.lan_address(name)
    names = [host.name for host in settings.hosts]
    first = (settings.base_port + MIGRATION_PORTS_OFFSET
             + MIGRATION_PORTS * names.index(name))
    return _text({
        # With another user and a /dev/kvm for root only, libvirt would ask
        # QEMU again what it can do on each call, for a minute.
        'user': 'root',
        'group': 'root',
        'security_driver': 'none',
        # There is no virtlogd.
        'stdio_handler': 'file',
        'hugetlbfs_mount': huge_page_mounts,
        'migration_address': address,
        'migration_host': address,
        'migration_port_min': first,
        'migration_port_max': first + MIGRATION_PORTS - 1})


def _text(options: dict[str, str | int | list[str]]) -> str:
    return ''.join(f'{name} = {_value(value)}\n'
                   for name, value in options.items())


def _value(value: str | int | list[str]) -> str:
    if isinstance(value, list):
        return f'[{", ".join(_value(item) for item in value)}]'
    return str(value) if isinstance(value, int) else f'"{value}"'


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
