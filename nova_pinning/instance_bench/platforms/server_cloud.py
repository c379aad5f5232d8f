# SPDX-License-Identifier: Apache-2.0
"""Servers for measurements: what is asked of a cloud, by openstacksdk.

Servers of a run have names that begin with it, so that they can be found
again whatever became of the request that made them. Their metadata says which
process made them, for whoever finds them when it has gone.
"""

from collections.abc import Sequence
import dataclasses
import hashlib
import os
import platform
import secrets
from typing import Any

from nova_pinning import errors
from nova_pinning.flavors import flavor_cloud
from nova_pinning.flavors import flavor_model
from nova_pinning.host import machine_files
from nova_pinning.instance_bench import bench_errors
from nova_pinning.instance_bench.platforms import polling
from nova_pinning.segregation import segregation_cloud

PREFIX = 'nova-pinning-bench'
#: The key of a server's metadata that holds an Owner.
OWNER_KEY = 'nova-pinning-bench-owner'

#: How long servers may take to go, and between two looks.
DELETE_SECONDS = 120.0
_LOOK_SECONDS = 0.5

#: What nova takes for true in an image's property.
_YES = ('1', 't', 'true', 'on', 'y', 'yes')

#: The first microversion in which a server can be made without a network is
#: 2.37; this one (Ussuri) is what the project's other clients need.
MICROVERSION = flavor_cloud.MICROVERSION


@dataclasses.dataclass(frozen=True, slots=True)
class Owner:
    """A process, on a machine that others can tell from theirs.

    :param machine: a digest of the machine's ID, or of this boot where it
        has none, of its name, and of the namespace that the ID of the process
        is in: processes of other containers look as if they had gone
    :param started: of the process, in the clock ticks of /proc/PID/stat; 0
        if that is not known
    """

    machine: str
    pid: int
    started: int

    def __str__(self) -> str:
        return f'{self.machine} {self.pid} {self.started}'

    @classmethod
    def parse(cls, text: str) -> 'Owner | None':
        """Read what str() gives; None if it is something else."""
        try:
            machine, pid, started = text.split()
            return cls(machine, int(pid), int(started))
        except ValueError:
            return None

    def has_gone(self, root: str = '/') -> bool:
        """Whether it was on this machine, and runs no more."""
        return (self.machine == _machine(root) and self.started != 0
                and _started(self.pid, root) != self.started)


def myself(root: str = '/') -> Owner:
    """This process."""
    pid = os.getpid()
    return Owner(_machine(root), pid, _started(pid, root) or 0)


def _machine(root: str) -> str:
    tree = machine_files.Tree(root)
    identity = (tree.text('/etc/machine-id')
                or tree.text('/proc/sys/kernel/random/boot_id') or '')
    namespace = tree.link_name('/proc/self/ns/pid')
    whole = f'{identity} {platform.node()} {namespace}'.encode()
    return hashlib.sha256(whole).hexdigest()[:16]


def _started(pid: int, root: str) -> int | None:
    """When a process started, see proc(5); None if there is none."""
    stat = machine_files.Tree(root).text(f'/proc/{pid}/stat')
    return int(stat.rpartition(')')[2].split()[19]) if stat else None


@dataclasses.dataclass(frozen=True, slots=True)
class Image:
    """An image that servers may boot.

    :param has_agent: whether it says that it has a QEMU guest agent, so that
        nova gives servers a channel to it
    """

    id: str
    name: str
    is_active: bool
    has_agent: bool


@dataclasses.dataclass(frozen=True, slots=True)
class BootedServer:
    """A server. Libvirt's domain has its ID.

    :param host: of its nova-compute, '' if the user may not know, or as long
        as nobody knows
    :param fault: what nova says went wrong
    """

    id: str
    name: str
    status: str
    host: str
    fault: str
    owner: Owner | None


class ServerCloud:
    """A cloud that servers are booted on.

    All methods raise nova_pinning.errors.CloudError or one of its kinds.

    :param connection: an openstack.connection.Connection
    :param name: how to call the cloud in messages
    """

    def __init__(self, connection: Any, name: str) -> None:
        self.name = name
        self.run = f'{PREFIX}-{secrets.token_hex(4)}'
        self.owner = myself()
        self._connection = connection
        with segregation_cloud.translated():
            connection.compute.default_microversion = MICROVERSION

    # What there is.

    def flavors(self) -> tuple[flavor_model.Flavor, ...]:
        """All flavors, with their extra specs."""
        return flavor_cloud.FlavorCloud(self._connection, self.name).flavors(
            lambda flavor: False)

    def image(self, name: str) -> Image | None:
        """An image by its name or ID.

        :raises errors.CloudError: also if several have the name
        """
        with segregation_cloud.translated():
            image = self._connection.image.find_image(
                name, ignore_missing=True)
        if image is None:
            return None
        return Image(
            image.id, image.name or '', image.status == 'active',
            str(image.hw_qemu_guest_agent).lower() in _YES)

    def sees_hosts(self) -> bool:
        """Whether the user may know where servers are."""
        try:
            with segregation_cloud.translated():
                next(iter(self._connection.compute.hypervisors()), None)
        except errors.CloudError as error:
            if getattr(error.__cause__, 'status_code', None) == 403:
                return False
            raise
        return True

    def servers(self) -> list[BootedServer]:
        """All of the user's project that a run made, this or another."""
        with segregation_cloud.translated():
            return [
                _server(server)
                for server in self._connection.compute.servers(
                    details=True, name=f'^{PREFIX}-')
                if server.name.startswith(f'{PREFIX}-')]

    def server(self, server_id: str) -> BootedServer:
        """A server as it is now.

        :raises errors.UnsettledError: if it is not there
        """
        with segregation_cloud.translated():
            return _server(self._connection.compute.get_server(server_id))

    # What is done.

    def boot(self, instance: str, flavor_id: str,
             image_id: str) -> BootedServer:
        """Have a server made. It takes a while until it is active.

        :param instance: the rest of its name
        """
        with segregation_cloud.translated():
            return _server(self._connection.compute.create_server(
                name=f'{self.run}-{instance}', flavor_id=flavor_id,
                image_id=image_id, metadata={OWNER_KEY: str(self.owner)},
                networks='none'))

    def await_active(self, server: BootedServer,
                     seconds: float) -> BootedServer:
        """Wait until a server runs.

        :raises bench_errors.InstanceError: if it does not
        """
        for _look in polling.looks(seconds, _LOOK_SECONDS):
            now = self.server(server.id)
            if now.status == 'ACTIVE':
                return now
            if now.status == 'ERROR':
                raise bench_errors.InstanceError(
                    f'nova could not boot server {now.name}: '
                    f'{now.fault or "it does not say why"}',
                    f'see the log of nova-scheduler for server {now.id}')
        raise bench_errors.InstanceError(
            f'server {now.name} is {now.status} after {seconds:.0f} s')

    def delete(self, servers: Sequence[BootedServer]) -> None:
        """Delete servers, and wait until they are gone.

        :raises errors.CloudError: if some are not, after all were tried
        """
        failed = []
        for server in servers:
            try:
                with segregation_cloud.translated():
                    self._connection.compute.delete_server(server.id)
            except errors.CloudError as error:
                failed.append(f'{server.name}: {error}')
        left = {server.id for server in servers}
        for _look in polling.looks(DELETE_SECONDS, _LOOK_SECONDS):
            if failed or not left:
                break
            left &= {server.id for server in self.servers()}
        if left and not failed:
            failed.append(f'{len(left)} are still there after '
                          f'{DELETE_SECONDS:.0f} s')
        if failed:
            raise errors.CloudError(
                f'servers could not be deleted: {"; ".join(failed)}')

    def delete_own(self) -> None:
        """Delete what this run has booted, known or not."""
        self.delete([server for server in self.servers()
                     if server.name.startswith(f'{self.run}-')])

    def sweep(self) -> int:
        """Delete what runs on this machine left that were killed.

        :returns: how many servers
        """
        orphans = [server for server in self.servers()
                   if server.owner is not None and server.owner.has_gone()]
        self.delete(orphans)
        return len(orphans)

    def version(self) -> str:
        """The newest microversion of the compute API: '2.98'."""
        with segregation_cloud.translated():
            data = self._connection.compute.get_endpoint_data()
        return '.'.join(map(str, data.max_microversion or ()))

    def close(self) -> None:
        self._connection.close()


def _server(shown: Any) -> BootedServer:
    return BootedServer(
        id=shown.id, name=shown.name or '', status=shown.status or '',
        host=shown.compute_host or '',
        fault=(shown.fault or {}).get('message', ''),
        owner=Owner.parse((shown.metadata or {}).get(OWNER_KEY, '')))
