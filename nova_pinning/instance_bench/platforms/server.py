# SPDX-License-Identifier: Apache-2.0
"""Servers that a cloud boots, from its own flavors.

Where they run is nova's to decide; what came of it is read from libvirt and
from the kernel of each compute host. For commands to get in through the QEMU
guest agent, the user has to know the host of a server, which nova tells
administrators.
"""

from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Sequence
import contextlib
import logging
import shutil
import time
from typing import Self

from nova_pinning import errors
from nova_pinning.host import domain_xml
from nova_pinning.instance_bench import bench_errors
from nova_pinning.instance_bench import bench_model
from nova_pinning.instance_bench import platform_interface
from nova_pinning.instance_bench.platforms import agent
from nova_pinning.instance_bench.platforms import flavor_choice
from nova_pinning.instance_bench.platforms import hypervisor
from nova_pinning.instance_bench.platforms import remote
from nova_pinning.instance_bench.platforms import server_cloud
from nova_pinning.instance_bench.platforms import settings
from nova_pinning.segregation import segregation_cloud

LOG = logging.getLogger(__name__)

_CLOUD_ADVICE = 'name one of clouds.yaml, or set OS_AUTH_URL and its like'


def connect(how: settings.PlatformSettings) -> server_cloud.ServerCloud:
    """The cloud that the settings name.

    :raises nova_pinning.errors.CloudError: if it cannot be reached
    """
    # It takes half a second to import.
    import openstack
    with segregation_cloud.translated():
        connection = openstack.connect(cloud=how.cloud or None)
    return server_cloud.ServerCloud(connection, how.cloud
                                    or 'of the environment')


def open_channel(server: server_cloud.BootedServer,
                 host: hypervisor.ComputeHypervisor) -> remote.Channel:
    """The way into a server that is active."""
    # Of its name in libvirt there may be another on the host that is
    # reached, be that of another cloud or cell.
    return agent.GuestAgent(
        host.virsh, server.id, word=host.word,
        hint=f'openstack console log show {server.id}')


class ServerInstance(remote.RemoteInstance):
    """A server that runs.

    :param host: where it runs
    :param delete: deletes the server
    """

    def __init__(
        self, request: platform_interface.InstanceRequest,
        channel: remote.Channel, host: hypervisor.ComputeHypervisor,
        definition: domain_xml.DomainXml, delete: Callable[[], None],
    ) -> None:
        super().__init__(request, channel)
        self._host = host
        self._definition = definition
        self._delete = delete

    def affinities(self) -> Sequence[bench_model.Affinity]:
        return self._host.affinities(self._definition)

    def close(self) -> None:
        with contextlib.ExitStack() as stack:
            stack.callback(self._delete)
            stack.callback(self._channel.close)


class ServerPlatform:
    """A cloud.

    :param how: cloud, server_image, hypervisor, connect, boot_seconds
    """

    def __init__(self, how: settings.PlatformSettings) -> None:
        self._how = how
        self._opened: server_cloud.ServerCloud | None = None
        self._versions: dict[str, str] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_unused: object) -> None:
        if self._opened is None:
            return
        cloud, self._opened = self._opened, None
        try:
            cloud.delete_own()
        except errors.CloudError as error:
            raise bench_errors.BenchError(
                f'cloud {cloud.name}: {error}',
                'delete the servers whose names begin with '
                f'{cloud.run}') from error
        finally:
            cloud.close()

    @property
    def _cloud(self) -> server_cloud.ServerCloud:
        if self._opened is None:
            self._opened = connect(self._how)
        return self._opened

    def check(self,
              requests: Sequence[platform_interface.InstanceRequest]) -> None:
        try:
            cloud = self._cloud
            problems = [*self._image_problems(cloud),
                        *self._way_in_problems(cloud),
                        *_tenant_problems(cloud, requests)]
            if not problems and (count := cloud.sweep()):
                LOG.warning('Deleted %d servers that a run on this machine '
                            'had left', count)
        except errors.CloudError as error:
            raise errors.InputError(
                f'cloud {self._how.cloud or "of the environment"}: {error}',
                advice=_CLOUD_ADVICE) from error
        bench_errors.raise_all(problems)

    def _image_problems(
        self, cloud: server_cloud.ServerCloud,
    ) -> Iterator[errors.InputError]:
        name = self._how.server_image
        image = cloud.image(name)
        if image is None:
            yield errors.InputError(
                f'the cloud has no image {name!r}',
                advice=f'upload what "nova-pinning bench image build" made: '
                       f'openstack image create --disk-format qcow2 '
                       f'--container-format bare --file disk.qcow2 '
                       f'--property hw_qemu_guest_agent=yes {name}')
        elif not image.is_active:
            yield errors.InputError(f'image {name!r} is not active')
        elif not image.has_agent:
            yield errors.InputError(
                f'image {name!r} does not say that it has a QEMU guest agent',
                advice='if it has one: openstack image set --property '
                       f'hw_qemu_guest_agent=yes {name}')

    def _way_in_problems(
        self, cloud: server_cloud.ServerCloud,
    ) -> Iterator[errors.InputError]:
        """What is missing for commands to get into servers."""
        if not cloud.sees_hosts():
            yield errors.InputError(
                'nova does not tell this user which hosts servers are on, '
                'and their guest agents are reached through these',
                advice='be an administrator')
        command = hypervisor.of_host(self._how, 'HOST').virsh[0]
        if shutil.which(command) is None:
            yield errors.InputError(
                f'there is no program {command!r} here',
                advice='apt-get install libvirt-clients'
                if command == 'virsh' else 'it is to reach compute hosts')

    def launch(
        self, requests: Sequence[platform_interface.InstanceRequest],
    ) -> Sequence[platform_interface.Instance]:
        limit = time.monotonic() + self._how.boot_seconds
        cloud = self._cloud
        with contextlib.ExitStack() as stack:
            try:
                servers = self._boot(cloud, requests, stack)
                instances = [
                    self._instance(cloud, request, cloud.await_active(
                        server, limit - time.monotonic()), stack)
                    for request, server in zip(requests, servers, strict=True)]
            except errors.CloudError as error:
                raise bench_errors.InstanceError(
                    f'cloud {cloud.name}: {error}') from error
            for instance in instances:
                instance.await_ready(limit - time.monotonic())
            stack.pop_all()
        return instances

    def _boot(
        self, cloud: server_cloud.ServerCloud,
        requests: Sequence[platform_interface.InstanceRequest],
        stack: contextlib.ExitStack,
    ) -> list[server_cloud.BootedServer]:
        """Ask for all servers at once, so that they boot together.

        :param stack: deletes them
        """
        weights_differ = _weights_differ(requests)
        image = cloud.image(self._how.server_image)
        if image is None:
            raise bench_errors.InstanceError(
                'the image of the servers is gone')
        flavors = cloud.flavors()
        booted: list[server_cloud.BootedServer] = []
        stack.callback(cloud.delete, booted)
        for request in requests:
            flavor = flavor_choice.choose(
                request.tenant, flavors, weights_differ)
            booted.append(cloud.boot(request.name, flavor.id, image.id))
        return booted

    def _instance(
        self, cloud: server_cloud.ServerCloud,
        request: platform_interface.InstanceRequest,
        server: server_cloud.BootedServer, stack: contextlib.ExitStack,
    ) -> ServerInstance:
        if not server.host:
            raise bench_errors.InstanceError(
                f'nova does not say which host server {server.name} is on')
        host = hypervisor.of_host(self._how, server.host)
        definition = host.definition(server.id)
        _check_pins(request, server, definition)
        self._versions.setdefault('qemu', host.version())
        channel = open_channel(server, host)
        stack.callback(channel.close)

        def delete() -> None:
            try:
                cloud.delete([server])
            except errors.CloudError as error:
                raise bench_errors.BenchError(
                    f'cloud {cloud.name}: {error}') from error
        return ServerInstance(request, channel, host, definition, delete)

    def versions(self) -> dict[str, str]:
        try:
            return {**self._versions, 'nova': self._cloud.version()}
        except errors.CloudError:
            return dict(self._versions)


def _tenant_problems(
    cloud: server_cloud.ServerCloud,
    requests: Sequence[platform_interface.InstanceRequest],
) -> Iterator[errors.InputError]:
    """What is wrong with what tenants want."""
    flavors = cloud.flavors()
    weights_differ = _weights_differ(requests)
    told = set()
    for request in requests:
        tenant = request.tenant
        if tenant.agent is not None:
            error = errors.InputError(
                f'tenant {tenant.name!r} sets agent, which cannot be done '
                f'for a server', advice="use platform 'vm'")
        elif tenant.network_cpus is not None:
            error = errors.InputError(
                f'tenant {tenant.name!r} sets network_cpus, which cannot be '
                f'done for a server', advice="use platform 'vm'")
        elif request.workload.peer:
            error = errors.InputError(
                f'workload {request.workload.name!r} needs a peer, and '
                f'servers cannot reach one', advice="use platform 'vm'")
        else:
            try:
                flavor_choice.choose(tenant, flavors, weights_differ)
                continue
            except errors.InputError as found:
                error = found
        if str(error) not in told:
            told.add(str(error))
            yield error


def _weights_differ(
        requests: Sequence[platform_interface.InstanceRequest]) -> bool:
    return len({request.tenant.weight for request in requests}) > 1


def _check_pins(request: platform_interface.InstanceRequest,
                server: server_cloud.BootedServer,
                definition: domain_xml.DomainXml) -> None:
    """See that vCPUs are pinned, or are not, as the tenant wants it.

    :raises bench_errors.InstanceError: if it is otherwise
    """
    should_pin = request.tenant.provisioning is bench_model.Provisioning.PINNED
    pins = definition.vcpu_pins.values()
    is_pinned = (len(pins) == definition.vcpus
                 and all(len(cpus) == 1 for cpus in pins))
    if should_pin != is_pinned:
        raise bench_errors.InstanceError(
            f'the vCPUs of server {server.name} are '
            f'{"not " if should_pin else ""}pinned, although its flavor says '
            f'otherwise', 'see whether the image has hw_cpu_policy')
