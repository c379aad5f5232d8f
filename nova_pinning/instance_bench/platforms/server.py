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
import functools
import logging
import shutil
import time
from typing import Any
from typing import Self

from nova_pinning.document import schema
from nova_pinning import errors
from nova_pinning.flavors import cloud_requests
from nova_pinning.flavors import flavor_model
from nova_pinning.host import domain_xml
from nova_pinning.instance_bench import bench_errors
from nova_pinning.instance_bench import bench_model
from nova_pinning.instance_bench import platform_interface
from nova_pinning.instance_bench.platforms import agent
from nova_pinning.instance_bench.platforms import flavor_choice
from nova_pinning.instance_bench.platforms import hypervisor
from nova_pinning.instance_bench.platforms import server_cloud
from nova_pinning.instance_bench.platforms import settings

LOG = logging.getLogger(__name__)

_CLOUD_ADVICE = 'name one of clouds.yaml, or set OS_AUTH_URL and its like'
#: What nova takes for true in an image's property.
_YES = ('1', 't', 'true', 'on', 'y', 'yes')


def connect(how: settings.PlatformSettings) -> server_cloud.ServerCloud:
    """The cloud that the settings name.

    :raises nova_pinning.errors.CloudError: if it cannot be reached
    """
    # It takes half a second to import.
    import openstack
    with cloud_requests.translated():
        connection = openstack.connect(cloud=how.cloud or None)
    return server_cloud.ServerCloud(connection, how.cloud
                                    or 'of the environment')


class ServerInstance(agent.RemoteInstance):
    """A server that runs.

    :param server: as the SDK has it
    :param host: where it runs
    :param delete: deletes the server
    """

    def __init__(
        self, request: platform_interface.InstanceRequest, server: Any,
        host: hypervisor.ComputeHypervisor, delete: Callable[[], None],
    ) -> None:
        # Of its name in libvirt there may be another on the host that is
        # reached, be that of another cloud or cell.
        super().__init__(request, host, server.id,
                         hint=f'openstack console log show {server.id}')
        self._definition = host.definition(server.id)
        self._delete = delete
        _check_pins(request, server, self._definition)

    def affinities(self) -> Sequence[bench_model.Affinity]:
        return self._host.affinities(self._definition)

    def close(self) -> None:
        self._delete()


class ServerPlatform:
    """A cloud.

    :param how: cloud, server_image, hypervisor, boot_seconds
    """

    _cloud: server_cloud.ServerCloud

    def __init__(self, how: settings.PlatformSettings) -> None:
        self._how = how
        self._versions: dict[str, str] = {}

    def __enter__(self) -> Self:
        try:
            self._cloud = connect(self._how)
        except errors.CloudError as error:
            raise errors.InputError(
                f'cloud {self._how.cloud or "of the environment"}: {error}',
                advice=_CLOUD_ADVICE) from error
        return self

    def __exit__(self, *_unused: object) -> None:
        with contextlib.closing(self._cloud):
            self._cloud.delete_own()

    def check(self,
              requests: Sequence[platform_interface.InstanceRequest]) -> None:
        try:
            problems = [*self._image_problems(), *self._way_in_problems(),
                        *_tenant_problems(self._cloud.flavors(), requests)]
            if not problems and (count := self._cloud.sweep()):
                LOG.warning('Deleted %d servers that a run on this machine '
                            'had left', count)
        except bench_errors.InstanceError as error:
            raise errors.InputError(
                str(error), advice=error.advice or _CLOUD_ADVICE) from error
        schema.raise_all(problems)

    def _image_problems(self) -> Iterator[errors.InputError]:
        name = self._how.server_image
        image = self._cloud.image(name)
        if image is None:
            yield errors.InputError(
                f'the cloud has no image {name!r}',
                advice='upload what "nova-pinning bench run --image" built: '
                       'disk.qcow2, with vmlinuz and initrd as its kernel_id '
                       'and ramdisk_id')
        elif image.status != 'active':
            yield errors.InputError(f'image {name!r} is not active')
        elif str(image.hw_qemu_guest_agent).lower() not in _YES:
            yield errors.InputError(
                f'image {name!r} does not say that it has a QEMU guest agent',
                advice='if it has one: openstack image set --property '
                       f'hw_qemu_guest_agent=yes {name}')

    def _way_in_problems(self) -> Iterator[errors.InputError]:
        """What is missing for commands to get into servers."""
        if not self._cloud.sees_hosts():
            yield errors.InputError(
                'nova does not tell this user which hosts servers are on, '
                'and their guest agents are reached through these',
                advice='be an administrator')
        if not self._how.connect.startswith('qemu:///'):
            yield errors.InputError(
                'where threads of servers run is read from the kernel of '
                f'their hosts, to which {self._how.connect} does not lead',
                errors.Location('LIBVIRT_DEFAULT_URI'),
                "leave it out, and give --hypervisor 'ssh {host}'")
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
        booted: list[Any] = []
        with contextlib.ExitStack() as stack:
            stack.callback(cloud.delete, booted)
            # Asked for all at once, so that they boot together.
            for server in self._boot(requests):
                booted.append(server)
            instances = [
                self._instance(request, cloud.await_active(
                    server, limit - time.monotonic()))
                for request, server in zip(requests, booted, strict=True)]
            for instance in instances:
                instance.await_ready(limit - time.monotonic())
            stack.pop_all()
        return instances

    def _boot(self, requests: Sequence[platform_interface.InstanceRequest],
              ) -> Iterator[Any]:
        weights_differ = _weights_differ(requests)
        image = self._cloud.image(self._how.server_image)
        if image is None:
            raise bench_errors.InstanceError(
                'the image of the servers is gone')
        flavors = self._cloud.flavors()
        for request in requests:
            flavor = flavor_choice.choose(
                request.tenant, flavors, weights_differ)
            yield self._cloud.boot(request.name, flavor.id, image.id)

    def _instance(self, request: platform_interface.InstanceRequest,
                  server: Any) -> ServerInstance:
        if not server.compute_host:
            raise bench_errors.InstanceError(
                f'nova does not say which host server {server.name} is on')
        host = hypervisor.of_host(self._how, server.compute_host)
        self._versions.setdefault('qemu', host.version())
        return ServerInstance(request, server, host, functools.partial(
            self._cloud.delete, [server]))

    def versions(self) -> dict[str, str]:
        with contextlib.suppress(bench_errors.InstanceError):
            self._versions['nova'] = self._cloud.version()
        return dict(self._versions)


def _tenant_problems(
    flavors: Sequence[flavor_model.Flavor],
    requests: Sequence[platform_interface.InstanceRequest],
) -> Iterator[errors.InputError]:
    """What is wrong with what tenants want."""
    weights_differ = _weights_differ(requests)
    told = set()
    for request in requests:
        try:
            flavor_choice.choose(request.tenant, flavors, weights_differ)
        except errors.InputError as error:
            if str(error) not in told:
                told.add(str(error))
                yield error


def _weights_differ(
        requests: Sequence[platform_interface.InstanceRequest]) -> bool:
    return len({request.tenant.weight for request in requests}) > 1


def _check_pins(request: platform_interface.InstanceRequest,
                server: Any,
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
