# SPDX-License-Identifier: Apache-2.0
"""Containers inside guests.

Each guest gets one container that runs as long as the guest does, with the
guest's own root, not writable, as its root. What gets commands into the guest
gets them into the container, by way of ``runc exec``. Its clock is the
guest's, and its threads are among the guest's vCPUs.
"""

import json
import shlex

from nova_pinning import cpuset
from nova_pinning.instance_bench import bench_errors
from nova_pinning.instance_bench import bench_model
from nova_pinning.instance_bench import platform_interface
from nova_pinning.instance_bench.platforms import domain
from nova_pinning.instance_bench.platforms import guest
from nova_pinning.instance_bench.platforms import oci
from nova_pinning.instance_bench.platforms import process
from nova_pinning.instance_bench.platforms import remote

NAME = 'nova-pinning-nested'
#: The OCI bundle, in the guest.
BUNDLE = '/run/nova-pinning-nested'

_SET_UP = r"""
set -e
command -v runc >/dev/null || {{ echo 'there is no runc' >&2; exit 1; }}
mkdir -p {bundle}/root {work}
mountpoint -q {bundle}/root || mount --bind / {bundle}/root
printf %s {config} >{bundle}/config.json
runc run --detach --bundle {bundle} {name} \
    </dev/null >{bundle}/log 2>&1 || {{ cat {bundle}/log >&2; exit 1; }}
"""

_SET_UP_SECONDS = 120.0


class ContainerChannel:
    """The way into a container in a guest.

    :param outer: the way into the guest
    :param name: of the instance, for errors
    :param cpus: those of the guest that it gets, None for whichever there are
    """

    def __init__(self, outer: remote.Channel, name: str,
                 cpus: cpuset.CpuSet | None) -> None:
        self._outer = outer
        self._name = name
        self._cpus = cpus

    def await_ready(self, seconds: float) -> None:
        """Wait for the guest, and start the container.

        :raises bench_errors.InstanceError: if either does not come up
        """
        self._outer.await_ready(seconds)
        text = json.dumps(oci.bundle(
            hostname=NAME, root='root',
            # A shell, which reaps what is orphaned.
            arguments=('/bin/sh', '-c', 'sleep infinity & wait'),
            variables=process.environment(remote.WORK),
            binds={remote.WORK: remote.WORK}, writable=(remote.WORK,),
            cgroup=f'/{NAME}', resources={} if self._cpus is None
            else {'cpu': {'cpus': str(self._cpus)}}))
        self._run(_SET_UP.format(
            bundle=BUNDLE, name=NAME, work=remote.WORK,
            config=shlex.quote(text)), _SET_UP_SECONDS, 'cannot be started')

    def start(self, command: str) -> platform_interface.RunningJob:
        return self._outer.start(
            f'exec runc exec --cwd {remote.WORK} {NAME} /bin/sh -c '
            f'{shlex.quote(command)}')

    def clock(self) -> bench_model.ClockReading:
        return self._outer.clock()

    def close(self) -> None:
        # With the guest goes the container.
        self._outer.close()

    def _run(self, command: str, seconds: float, failure: str) -> None:
        """Run a command in the guest, and wait for it."""
        failure = f'the container in {self._name} {failure}'
        outcome = remote.wait(self._outer.start(command), seconds, failure)
        if outcome.status:
            said = outcome.stderr.strip().splitlines()[-1:] or [
                f'status {outcome.status}']
            raise bench_errors.InstanceError(
                f'{failure}: {said[0]}',
                'the image of the guest needs runc and control groups')


class NestedPlatform(guest.GuestPlatform):
    """Guests with a container each."""

    def _channel(self, request: platform_interface.InstanceRequest,
                 spec: domain.DomainSpec) -> remote.Channel:
        is_pinned = (request.tenant.provisioning
                     is bench_model.Provisioning.PINNED)
        return ContainerChannel(
            super()._channel(request, spec), request.name,
            cpuset.CpuSet(range(request.tenant.size.vcpus))
            if is_pinned else None)
