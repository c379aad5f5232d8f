# SPDX-License-Identifier: Apache-2.0
"""What the two kinds of compute hosts have in common."""

from collections.abc import Sequence
import pathlib

from minicloud import hostinit
from minicloud import libvirt
from minicloud import service
from minicloud import settings
from minicloud import ssh

# The services run the machine's programs and the virtual environment's,
# whatever the user's own PATH is.
PATH = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'


def instances(state: settings.State) -> pathlib.Path:
    """Return where each host sees its own servers' disks.

    The path is the same on all hosts, since a live migration keeps it.
    """
    return state.cloud / 'instances'


class HostService(service.Service):
    """Something that runs for one compute host.

    :cvar prefix: str, the name is PREFIX-HOST
    """

    prefix: str

    def __init__(self, state: settings.State, settings: settings.Settings,
                 host: settings.HostSettings) -> None:
        super().__init__(state, settings)
        self.host = host
        self.name = f'{self.prefix}-{host.name}'
        self.address = settings.host_address(host.name)
        self.etc = state.etc / host.name
        self.data = state.cloud / 'hosts' / host.name
        self.requires = self.required()

    @property
    def release(self) -> str:
        return self.host.release

    def required(self) -> tuple[str, ...]:
        """Return the names of the parts that have to be ready before."""
        return (f'host-{self.host.name}',)


class ComputeHost(HostService):
    """The host itself, with the files that its programs read."""

    prefix = 'host'

    @property
    def listens_at(self) -> str:
        """The address of its servers, as it is seen inside."""
        return self.address

    @property
    def huge_page_sizes_kib(self) -> Sequence[int]:
        return hostinit.huge_page_sizes()

    def address_of(self, name: str) -> str:
        """Return where another compute host is, as seen from this one."""
        return self.settings.host_address(name)

    def enter(self, command: list[str]) -> list[str]:
        """Return a command line that runs a command on the host.

        :raises: MiniCloudError if the host is not up
        """
        raise NotImplementedError

    def serve(self, command: list[str]) -> list[str]:
        """Return one that ends a command there when it is ended itself."""
        raise NotImplementedError

    def config(self) -> dict[pathlib.Path, str]:
        name = self.host.name
        mounts = [str(hostinit.huge_page_mount(size_kib))
                  for size_kib in self.huge_page_sizes_kib]
        libvirt_etc = self.etc / 'libvirt'
        return {
            self.etc / 'hosts': ''.join([
                f'{settings.CONTROLLER_ADDRESS} localhost\n',
                *(f'{self.address_of(host.name)} {host.name}\n'
                  for host in self.settings.hosts)]),
            self.etc / 'sshd_config': ssh.server_config_text(
                self.state, self.settings, name, self.listens_at),
            # They are not to see the machine's own, which may be wrong.
            libvirt_etc / 'libvirt.conf': '',
            libvirt_etc / 'libvirtd.conf': libvirt.libvirtd_conf(
                self.state, self.settings, name, self.listens_at),
            libvirt_etc / 'qemu.conf': libvirt.qemu_conf(
                self.settings, name, mounts)}
