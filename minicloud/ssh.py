# SPDX-License-Identifier: Apache-2.0
"""SSH between the compute hosts, and from outside to them.

Nova copies disks from host to host with scp and runs a few commands there
with ssh. Both are called without any options, so all that they need to know
is in the hosts' /etc/ssh/ssh_config.
"""

import pathlib
import typing

from minicloud import files
from minicloud import process
from minicloud import service
from minicloud import settings

# sshd runs itself again for each connection, by its absolute path.
SSHD = '/usr/sbin/sshd'


def directory(state: settings.State) -> pathlib.Path:
    return state.etc / 'ssh'


def client_config(state: settings.State) -> pathlib.Path:
    """Return the file for ``ssh -F`` that knows all hosts."""
    return state.etc / 'ssh_config'


def user_key(state: settings.State) -> pathlib.Path:
    """Return the private key that opens every host, to root only."""
    return directory(state) / 'id_ed25519'


def host_key(state: settings.State, name: str) -> pathlib.Path:
    """Return the private key of a host's own."""
    return directory(state) / f'{name}_ed25519'


def client_config_text(state: settings.State,
                       settings: settings.Settings,
                       address: typing.Callable[[str], str]) -> str:
    """Return the text of a file for ``ssh -F``.

    :param address: where a host is, by its name
    """
    lines = []
    for host in settings.hosts:
        lines += [f'Host {host.name} {address(host.name)}',
                  f'    HostName {address(host.name)}',
                  f'    Port {settings.port("ssh")}',
                  f'    HostKeyAlias {host.name}']
    return '\n'.join([*lines, files.filled(
        'ssh_config', user_key=user_key(state),
        known_hosts=directory(state) / 'known_hosts')])


def server_config_text(state: settings.State, settings: settings.Settings,
                       name: str, address: str) -> str:
    """Return the sshd_config of a host.

    :param address: str, where it listens
    """
    return files.filled(
        'sshd_config', address=address, port=settings.port('ssh'),
        host_key=host_key(state, name), user_key=user_key(state))


class SshKeys(service.Part):
    """The keys of all hosts, and the files that clients need."""

    name = 'ssh-keys'

    def up(self) -> None:
        state, settings = self.state, self.settings
        directory(state).mkdir(parents=True, exist_ok=True)
        _make_key(user_key(state))
        known = []
        for host in settings.hosts:
            key = host_key(state, host.name)
            _make_key(key)
            public = key.with_name(f'{key.name}.pub').read_text()
            known.append(f'{host.name} {public}')
        files.write(directory(state) / 'known_hosts', ''.join(known))
        files.write(client_config(state), client_config_text(
            state, settings, settings.host_address))


def _make_key(path: pathlib.Path) -> None:
    """Make a pair of keys if there is none.

    :raises: MiniCloudError
    """
    public = path.with_name(f'{path.name}.pub')
    if path.exists() and public.exists():
        return
    path.unlink(missing_ok=True)
    process.run(
        ['ssh-keygen', '-q', '-t', 'ed25519', '-N', '', '-C', path.name, '-f',
         str(path)], f'cannot make the SSH key {path}')
