# SPDX-License-Identifier: Apache-2.0
"""Servers for measurements: what is asked of a cloud, by openstacksdk.

Servers of a run have names that begin with it, so that they can be found
again whatever became of the request that made them. Their metadata says on
which machine it was, for the next run there: it is the only one
(:mod:`nova_pinning.instance_bench.exclusive_run`), so what others have left
there is nobody's.
"""

from collections.abc import Iterator
from collections.abc import Sequence
import contextlib
import hashlib
import os
import platform
import secrets
from typing import Any

from openstack import exceptions as sdk_exceptions

from nova_pinning import errors
from nova_pinning.flavors import cloud_requests
from nova_pinning.flavors import flavor_cloud
from nova_pinning.flavors import flavor_model
from nova_pinning.host import machine_files
from nova_pinning.instance_bench import bench_errors
from nova_pinning.instance_bench import workspace

PREFIX = 'nova-pinning-bench'
#: The key of a server's metadata that holds what machine() says.
OWNER_KEY = 'nova-pinning-bench-owner'

#: How long servers may take to go, and between two looks.
DELETE_SECONDS = 120.0
_LOOK_SECONDS = 0.5

#: The first microversion in which a server can be made without a network is
#: 2.37; this one (Ussuri) is what the project's other clients need.
MICROVERSION = flavor_cloud.MICROVERSION


def machine(root: str = '/') -> str:
    """What tells a machine, and those who share its lock of runs.

    A digest of the machine's ID, or of this boot where it has none, of its
    name, of the namespace of this process, and of the directory that the lock
    is in, of which containers and services may have one of their own.
    """
    tree = machine_files.Tree(root)
    identity = (tree.text('/etc/machine-id')
                or tree.text('/proc/sys/kernel/random/boot_id') or '')
    namespace = tree.link_name('/proc/self/ns/pid')
    lock = os.stat(workspace.PARENT).st_ino
    whole = f'{identity} {platform.node()} {namespace} {lock}'.encode()
    return hashlib.sha256(whole).hexdigest()[:16]


class ServerCloud:
    """A cloud that servers are booted on; images and servers are the SDK's.

    All methods raise bench_errors.InstanceError.

    :param connection: an openstack.connection.Connection
    :param name: how to call the cloud in messages
    """

    def __init__(self, connection: Any, name: str) -> None:
        self.name = name
        self.run = f'{PREFIX}-{secrets.token_hex(4)}'
        self._connection = connection
        with self._asking():
            connection.compute.default_microversion = MICROVERSION

    @contextlib.contextmanager
    def _asking(self) -> Iterator[None]:
        """Raise what the cloud says as our own."""
        try:
            with cloud_requests.translated():
                yield
        except errors.CloudError as error:
            raise bench_errors.InstanceError(
                f'cloud {self.name}: {error}') from error

    # What there is.

    def flavors(self) -> tuple[flavor_model.Flavor, ...]:
        """All flavors, with their extra specs."""
        with self._asking():
            return flavor_cloud.FlavorCloud(
                self._connection, self.name).flavors(lambda flavor: False)

    def image(self, name: str) -> Any:
        """An image by its name or ID, None if there is none."""
        with self._asking():
            return self._connection.image.find_image(name, ignore_missing=True)

    def sees_hosts(self) -> bool:
        """Whether the user may know where servers are."""
        with self._asking():
            try:
                next(iter(self._connection.compute.hypervisors()), None)
            except sdk_exceptions.ForbiddenException:
                return False
        return True

    def servers(self) -> list[Any]:
        """All of the user's project that a run made, this or another."""
        with self._asking():
            return [server for server in self._connection.compute.servers(
                        details=True, name=f'^{PREFIX}-')
                    if server.name.startswith(f'{PREFIX}-')]

    def version(self) -> str:
        """The newest microversion of the compute API: '2.98'."""
        with self._asking():
            data = self._connection.compute.get_endpoint_data()
        return '.'.join(map(str, data.max_microversion or ()))

    # What is done.

    def boot(self, instance: str, flavor_id: str, image_id: str) -> Any:
        """Have a server made. It takes a while until it is active.

        :param instance: the rest of its name
        """
        with self._asking():
            return self._connection.compute.create_server(
                name=f'{self.run}-{instance}', flavor_id=flavor_id,
                image_id=image_id, metadata={OWNER_KEY: machine()},
                networks='none')

    def await_active(self, server: Any, seconds: float) -> Any:
        """The server, once it runs."""
        compute = self._connection.compute
        with self._asking():
            try:
                return compute.wait_for_server(
                    server, interval=_LOOK_SECONDS, wait=seconds)
            except sdk_exceptions.ResourceFailure as error:
                fault = (compute.get_server(server.id).fault or {}).get(
                    'message', str(error))
        raise bench_errors.InstanceError(
            f'nova could not boot server {server.name}: {fault}',
            f'see the log of nova-scheduler for server {server.id}')

    def delete(self, servers: Sequence[Any]) -> None:
        """Delete servers, and wait until they are gone; all are tried."""
        compute = self._connection.compute
        failed = []
        for server in servers:
            try:
                with cloud_requests.translated():
                    compute.delete_server(server.id)
            except errors.CloudError as error:
                failed.append(f'{server.name}: {error}')
        for server in () if failed else servers:
            with self._asking():
                compute.wait_for_delete(server, interval=_LOOK_SECONDS,
                                        wait=DELETE_SECONDS)
        if failed:
            raise bench_errors.InstanceError(
                f'cloud {self.name}: servers could not be deleted: '
                f'{"; ".join(failed)}',
                f'delete the servers whose names begin with {self.run}')

    def delete_own(self) -> None:
        """Delete what this run has booted, known or not."""
        self.delete([server for server in self.servers()
                     if server.name.startswith(f'{self.run}-')])

    def sweep(self) -> int:
        """Delete what runs on this machine left that were killed.

        :returns: how many servers
        """
        orphans = [server for server in self.servers()
                   if (server.metadata or {}).get(OWNER_KEY) == machine()
                   and not server.name.startswith(f'{self.run}-')]
        self.delete(orphans)
        return len(orphans)

    def close(self) -> None:
        self._connection.close()
