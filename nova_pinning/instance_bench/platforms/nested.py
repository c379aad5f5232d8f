# SPDX-License-Identifier: Apache-2.0
"""Containers inside guests.

Each guest gets one container that runs as long as the guest does, with the
guest's own root, not writable, as its root. What gets commands into the guest
gets them into the container, by way of ``runc exec``. Its clock is the
guest's, and its threads are among the guest's vCPUs.
"""

from collections.abc import Callable
from collections.abc import Sequence
import dataclasses
import itertools
import json
import shlex
import time
from typing import Self

from nova_pinning.instance_bench import bench_errors
from nova_pinning.instance_bench import bench_model
from nova_pinning.instance_bench import platform_interface
from nova_pinning.instance_bench.platforms import guest
from nova_pinning.instance_bench.platforms import oci
from nova_pinning.instance_bench.platforms import process
from nova_pinning.instance_bench.platforms import remote
from nova_pinning.instance_bench.platforms import settings

NAME = 'nova-pinning-nested'
#: The OCI bundle, in the guest.
BUNDLE = '/run/nova-pinning-nested'
# Says of a process which command it came of.
_MARK = 'NOVA_PINNING_BENCH_NESTED'

_SET_UP = r"""
set -e
command -v runc >/dev/null || {{ echo 'there is no runc' >&2; exit 1; }}
mkdir -p {bundle}/root {work}
mountpoint -q {bundle}/root || mount --bind / {bundle}/root
printf %s {config} >{bundle}/config.json
runc run --detach --bundle {bundle} {name} \
    </dev/null >{bundle}/log 2>&1 || {{ cat {bundle}/log >&2; exit 1; }}
"""
# Those that came of a command have its mark, wherever they are.
_STOP = r"""
for _try in 1 2 3 4 5; do
    found=$(grep -lzsx {mark} /proc/[0-9]*/environ)
    [ "$found" ] || exit 0
    for path in $found; do
        path=${{path%/environ}}
        kill -KILL "${{path#/proc/}}" 2>/dev/null
    done
    sleep 0.1
done
exit 1
"""

_SET_UP_SECONDS = 120.0
_STOP_SECONDS = 60.0


class NestedJob:
    """A command in a container in a guest.

    :param job: what runs in the guest to run it
    :param mark: says of its processes that they are its
    """

    def __init__(self, instance: 'NestedInstance',
                 job: platform_interface.RunningJob, mark: str) -> None:
        self._instance = instance
        self._job = job
        self._mark = mark

    def poll(self) -> platform_interface.CommandOutcome | None:
        return self._job.poll()

    def stop(self) -> None:
        if self._job.poll() is not None:
            return
        # To end runc would leave alone what it has started.
        self._instance.end(self._mark)
        self._job.stop()


class NestedInstance:
    """A container in a guest.

    :param inner: the guest
    """

    def __init__(self, inner: platform_interface.Instance,
                 provisioning: bench_model.Provisioning, *,
                 clock: Callable[[], float] = time.monotonic,
                 sleep: Callable[[float], None] = time.sleep) -> None:
        self.name = inner.name
        self.cpus = inner.cpus
        self.programs = inner.programs
        self.work = inner.work
        self.peer = inner.peer
        self._inner = inner
        self._is_pinned = provisioning is bench_model.Provisioning.PINNED
        self._numbers = itertools.count()
        self._clock = clock
        self._sleep = sleep

    def set_up(self) -> None:
        """Start the container.

        :raises errors.InstanceError: if it cannot be started
        """
        text = json.dumps(oci.bundle(
            hostname=NAME, root='root',
            # A shell, which reaps what is orphaned.
            arguments=('/bin/sh', '-c', 'sleep infinity & wait'),
            variables=process.environment(self.work),
            binds={self.work: self.work}, writable=(self.work,),
            cgroup=f'/{NAME}', resources={'cpu': {'cpus': str(self.cpus)}}
            if self._is_pinned else {}))
        self._run(_SET_UP.format(
            bundle=BUNDLE, name=NAME, work=shlex.quote(self.work),
            config=shlex.quote(text)), _SET_UP_SECONDS,
            'its container cannot be started')

    def start(self, command: str) -> NestedJob:
        mark = f'{_MARK}={next(self._numbers)}'
        job = self._inner.start(
            f'exec runc exec --env {mark} '
            f'--cwd {shlex.quote(self.work)} {NAME} '
            f'/bin/sh -c {shlex.quote(command)}')
        return NestedJob(self, job, mark)

    def end(self, mark: str) -> None:
        """End all processes that have a mark.

        :raises errors.InstanceError: if they do not end
        """
        self._run(_STOP.format(mark=shlex.quote(mark)), _STOP_SECONDS,
                  'a command does not end')

    def affinities(self) -> Sequence[bench_model.Affinity]:
        return self._inner.affinities()

    def clock(self) -> bench_model.ClockReading:
        return self._inner.clock()

    def counters(self) -> dict[str, float]:
        return self._inner.counters()

    def close(self) -> None:
        # With the guest goes the container.
        self._inner.close()

    def _run(self, command: str, seconds: float, failure: str) -> None:
        """Run a command in the guest, and wait for it."""
        outcome = remote.wait(
            self._inner.start(command), seconds, f'{self.name}: {failure}',
            clock=self._clock, sleep=self._sleep)
        if outcome.status:
            said = outcome.stderr.strip().splitlines()[-1:] or [
                f'status {outcome.status}']
            raise bench_errors.InstanceError(
                f'{self.name}: {failure}: {said[0]}',
                'the image of the guest needs runc and control groups')


class NestedPlatform:
    """Guests with a container each.

    :param how: what the guests take
    :param outer: makes the guests
    """

    def __init__(self, how: settings.PlatformSettings,
                 outer: platform_interface.Platform | None = None) -> None:
        self._outer: platform_interface.Platform = (
            outer or guest.GuestPlatform(how))

    def __enter__(self) -> Self:
        self._outer.__enter__()
        return self

    def __exit__(self, *details: object) -> None:
        self._outer.__exit__(*details)

    def check(self,
              requests: Sequence[platform_interface.InstanceRequest]) -> None:
        self._outer.check([_for_guest(request) for request in requests])

    def launch(
        self, requests: Sequence[platform_interface.InstanceRequest],
    ) -> Sequence[platform_interface.Instance]:
        guests = self._outer.launch(
            [_for_guest(request) for request in requests])
        instances = [NestedInstance(inner, request.tenant.provisioning)
                     for inner, request in zip(guests, requests, strict=True)]
        try:
            for instance in instances:
                instance.set_up()
        except BaseException:
            for instance in instances:
                instance.close()
            raise
        return instances

    def versions(self) -> dict[str, str]:
        return self._outer.versions()


def _for_guest(
    request: platform_interface.InstanceRequest
) -> platform_interface.InstanceRequest:
    """The request for the guest that a container is in."""
    return dataclasses.replace(request, tenant=dataclasses.replace(
        request.tenant, platform=bench_model.PlatformName.GUEST))
