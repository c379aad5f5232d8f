# SPDX-License-Identifier: Apache-2.0
"""What a cloud is to look like, and where its files are."""

import dataclasses
import functools
import json
import pathlib

from minicloud import errors
from minicloud import files
from nova_pinning.document import codec
from nova_pinning.document import decoder
from nova_pinning.document import encoder
from nova_pinning.model import nova_release

# The layout of the state directory. A directory of another version is not
# touched.
VERSION = 2

# Of those before them only the scheduler's part of this project is supported.
RELEASES = tuple(release for release in nova_release.TESTED
                 if release.name >= '2025.1')

CONTROLLER_ADDRESS = '127.0.0.1'

BASE_PORT = 17800

# The last number of the first compute host's address.
FIRST_HOST = 11
MAX_HOSTS = 255 - FIRST_HOST

# The network that virtual hosts share.
LAN = '10.0.3.'

# Offsets from the base port.
PORTS = {
    'keystone': 0,
    'placement': 1,
    'glance': 2,
    'nova': 3,
    'neutron': 4,
    'mariadb': 5,
    'rabbitmq': 6,
    'epmd': 7,
    'erlang': 8,
    # On the address of each compute host.
    'ssh': 20,
    'libvirt': 21,
    # Of all frames that virtual hosts send each other.
    'lan': 22,
}


@dataclasses.dataclass(frozen=True, slots=True)
class HostSettings:
    """One compute host.

    :ivar name: str, its host name
    :ivar dedicated: str, [compute] cpu_dedicated_set, '' for none
    :ivar shared: str, [compute] cpu_shared_set, '' for none
    :ivar topology: str, '' for a host that is this machine itself, or
        sockets x cores x threads, such as '2x2x2', for one in a QEMU of its
        own
    :ivar nova_conf: str, path of a file of options that nova-compute reads
        last, '' for none
    :ivar provider_config: str, path of the provider.yaml of the host, ''
        for none
    :ivar release: str, of its nova-compute, such as '2025.1'
    """

    name: str
    dedicated: str
    shared: str
    topology: str = ''
    nova_conf: str = ''
    provider_config: str = ''
    release: str = nova_release.NEWEST.name


@dataclasses.dataclass(frozen=True, slots=True)
class Settings:
    """A whole cloud, as the options of ``up`` ask for it.

    :ivar hosts: tuple of HostSettings
    :ivar base_port: int, the first of the ports that are taken
    :ivar nova_conf: str, path of a file of options that the API, the
        scheduler and the conductor read last, '' for none
    :ivar huge_pages: int, 2 MiB pages to reserve on this machine
    :ivar release: str, of all that is no compute host's
    """

    hosts: tuple[HostSettings, ...]
    base_port: int = BASE_PORT
    nova_conf: str = ''
    huge_pages: int = 0
    release: str = nova_release.NEWEST.name

    @property
    def releases(self) -> list[str]:
        """All that some service is of, each once."""
        return sorted({self.release, *(host.release for host in self.hosts)})

    def port(self, service: str) -> int:
        return self.base_port + PORTS[service]

    def url(self, service: str) -> str:
        """Return where an HTTP API is, without a path."""
        return f'http://{CONTROLLER_ADDRESS}:{self.port(service)}'

    def host_address(self, name: str) -> str:
        """Return the loopback address that is a host's own."""
        names = [host.name for host in self.hosts]
        return f'127.0.0.{FIRST_HOST + names.index(name)}'

    def lan_address(self, name: str) -> str:
        """Return the address at which other compute hosts reach a host.

        For virtual hosts that is one of a network of their own: all of
        127.0.0.0/8 is inside each of them.
        """
        host, = [host for host in self.hosts if host.name == name]
        address = self.host_address(name)
        return address.replace('127.0.0.', LAN) if host.topology else address


class State:
    """The state directory: where things are, and what is kept in it.

    :param root: pathlib.Path, the state directory
    """

    def __init__(self, root: pathlib.Path) -> None:
        self.root = root
        # Kept by ``down``: slow to make, the same for every cloud.
        self.venvs = root / 'venv'
        self.prepared = root / 'prepared'
        self.cache = root / 'cache'
        self.log = root / 'log'
        # Gone with ``down``.
        self.cloud = root / 'cloud'
        self.etc = self.cloud / 'etc'
        self.data = self.cloud / 'data'
        self.run = self.cloud / 'run'
        # What a new cloud starts from, see prepare.py.
        self.base = self.data / 'base'

    def venv(self, release: str) -> pathlib.Path:
        """Return the virtual environment of a release of OpenStack."""
        return self.venvs / release

    def bin(self, program: str, release: str) -> str:
        return str(self.venv(release) / 'bin' / program)

    @functools.cached_property
    def secret(self) -> str:
        """The one password of this cloud, made at random."""
        return files.secret(self.root / 'secret')

    def check_version(self) -> None:
        """Refuse a directory that another version of this has made.

        :raises: MiniCloudError
        """
        path = self.root / 'version'
        if self.root.exists() and not self.root.is_dir():
            raise errors.MiniCloudError(
                f'{self.root} is not a directory',
                'Give another one with --state')
        if not self.root.exists() or not any(self.root.iterdir()):
            return
        try:
            version = path.read_text().strip()
        except FileNotFoundError:
            raise errors.MiniCloudError(
                f'{self.root} holds files but is not a state directory',
                'Give another one with --state') from None
        if version != str(VERSION):
            raise errors.MiniCloudError(
                f'{self.root} was made by version {version} of minicloud, '
                f'this is version {VERSION}',
                f'Take that cloud down with its own minicloud, or delete '
                f'{self.root} if nothing of it runs')

    def create(self) -> None:
        """Make the directories.

        :raises: MiniCloudError
        """
        self.check_version()
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            self.root.chmod(0o700)
            # First, so that this is a state directory whatever fails next.
            files.write(self.root / 'version', f'{VERSION}\n')
            files.secret(self.root / 'secret')
            for directory in (self.prepared, self.cache, self.etc, self.log,
                              self.data, self.run):
                directory.mkdir(parents=True, exist_ok=True)
        except OSError as e:
            raise errors.MiniCloudError(
                f'cannot write to {self.root}: {e.strerror}',
                'Give another directory with --state') from e

    def save(self, settings: Settings) -> None:
        files.write(self.cloud / 'settings.json',
                    json.dumps(encoder.encode(settings), indent=1))

    def load(self) -> Settings | None:
        """Return the settings of the cloud that is there, None if none is.

        :raises: MiniCloudError
        """
        try:
            text = (self.cloud / 'settings.json').read_text()
        except FileNotFoundError:
            return None
        try:
            settings: Settings = decoder.decode(Settings, json.loads(text))
        except codec.MisfitError as e:
            raise errors.MiniCloudError(
                f'{self.root} was made by another version of minicloud: {e}',
                'Take that cloud down with its own minicloud') from e
        return settings
