# SPDX-License-Identifier: Apache-2.0
"""Containers inside guests.

Each guest gets one container that runs as long as the guest does, with the
guest's own root, not writable, as its root. What gets commands into the guest
gets them into the container, by way of ``runc exec``. Its clock is the
guest's, and its threads are among the guest's vCPUs.
"""

import json
import shlex

from nova_pinning.instance_bench import bench_errors
from nova_pinning.instance_bench import platform_interface
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


class NestedInstance(guest.GuestInstance):
    """A container in a guest that has no other."""

    def await_ready(self, seconds: float) -> None:
        """Wait for the guest, and start the container.

        :raises bench_errors.InstanceError: if either does not come up
        """
        super().await_ready(seconds)
        resources = {'cpu': {'cpus': str(self.cpus)}}
        text = json.dumps(oci.bundle(
            hostname=NAME, root='root',
            # A shell, which reaps what is orphaned.
            arguments=('/bin/sh', '-c', 'sleep infinity & wait'),
            variables=process.environment(remote.WORK),
            binds={remote.WORK: remote.WORK}, writable=(remote.WORK,),
            cgroup=f'/{NAME}', resources=resources
            if self._spec.instance_cpus.are_pinned
            else {}))
        failure = f'the container in {self.name} cannot be started'
        outcome = remote.wait(super().start(_SET_UP.format(
            bundle=BUNDLE, name=NAME, work=remote.WORK,
            config=shlex.quote(text))), _SET_UP_SECONDS, failure)
        if outcome.status:
            said = outcome.stderr.strip().splitlines()[-1:] or [
                f'status {outcome.status}']
            raise bench_errors.InstanceError(
                f'{failure}: {said[0]}',
                'the image of the guest needs runc and control groups')

    def start(self, command: str) -> platform_interface.RunningJob:
        return super().start(
            f'exec runc exec --cwd {remote.WORK} {NAME} /bin/sh -c '
            f'{shlex.quote(command)}')


class NestedPlatform(guest.GuestPlatform):
    """Guests with a container each."""

    _kind = NestedInstance
