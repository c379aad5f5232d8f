# SPDX-License-Identifier: Apache-2.0
"""The host itself: processes, kept to CPUs by their affinity.

Each instance has a PID namespace, so that nothing it starts gets away, and
/proc of its own to go with it. It is the same kernel and the same scheduler,
and neither costs a running program anything.
"""

from collections.abc import Mapping
from collections.abc import Sequence
import os
import pathlib
import subprocess

from nova_pinning import cpuset
from nova_pinning import errors
from nova_pinning.instance_bench import bench_errors
from nova_pinning.instance_bench import platform_interface
from nova_pinning.instance_bench.platforms import cgroups
from nova_pinning.instance_bench.platforms import local
from nova_pinning.instance_bench.platforms import process

# Tells its id as the host has it before it gets its own /proc.
_FIRST = ('read -r pid rest </proc/self/stat; mount -t proc proc /proc && '
          f'echo "$pid"; {process.KEEPER}')
_ADVICE = 'run it as root, outside of containers'


class HostInstance(local.LocalInstance):
    """Processes of the host."""

    def __init__(self, name: str, cpus: cpuset.CpuSet,
                 directory: pathlib.Path, programs: pathlib.Path) -> None:
        super().__init__(
            name=name, cpus=cpus, directory=directory, root=str(directory),
            programs_directory=str(programs))
        self._namespace = subprocess.Popen(
            [*_affine(cpus), 'unshare', *_user_options(), '--mount', '--pid',
             '--fork', '--kill-child', '/bin/sh', '-c', _FIRST],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, start_new_session=True)
        self._pid = 0
        try:
            self._pid = self._told()
        except BaseException:
            self._end()
            raise

    def _told(self) -> int:
        assert self._namespace.stdout and self._namespace.stderr
        told = self._namespace.stdout.readline().strip()
        if told:
            return int(told)
        said = self._namespace.stderr.read().decode(errors='replace')
        raise bench_errors.InstanceError(
            f'{self.name} has no namespace: {said.strip()}', _ADVICE)

    def _enter(self, variables: Mapping[str, str]) -> Sequence[str]:
        # Bound first: no process in the namespace ever runs elsewhere.
        return (*_affine(self.cpus),
                'nsenter', '--target', str(self._pid), '--pid', '--mount',
                *(() if os.geteuid() == 0 else (
                    '--user', '--preserve-credentials')))

    def _first(self) -> int:
        return self._pid if self._namespace.poll() is None else 0

    def _end(self) -> None:
        # The namespace's first process is killed with the one that made it,
        # and has ended when all others of the namespace have.
        with process.watched(self._pid) as ended:
            self._namespace.kill()
            self._namespace.communicate()
            ended()


class HostPlatform(local.LocalPlatform):
    """Instances that are processes of the host.

    Those that are vanilla float over the CPUs of their class; nothing keeps
    them to as many of these as they have vCPUs but what the workload starts.
    """

    def check(self,
              requests: Sequence[platform_interface.InstanceRequest]) -> None:
        super().check(requests)
        for request in requests:
            if request.tenant.weight != cgroups.USUAL_WEIGHT:
                raise errors.InputError(
                    f'{request.name} has weight {request.tenant.weight}, and '
                    'processes of the host cannot be weighted', None,
                    'measure weights with platform cn or vm')
        _check_namespaces()
        _check_affinity(
            cpuset.union(request.instance_cpus.cpus
                         for request in requests
                         if request.instance_cpus))

    def _start(self, request: platform_interface.InstanceRequest,
               directory: pathlib.Path) -> local.LocalInstance:
        assert request.instance_cpus is not None
        return HostInstance(request.name, request.instance_cpus.cpus,
                            directory, self._programs(request.workload))


def _check_namespaces() -> None:
    try:
        process.run(['unshare', *_user_options(), '--mount', '--pid',
                     '--fork', '--kill-child', 'mount', '-t', 'proc', 'proc',
                     '/proc'])
    except bench_errors.BenchError as error:
        raise errors.InputError(
            'processes cannot be kept together by a namespace: '
            f'{error}', None, _ADVICE) from None


def _check_affinity(cpus: cpuset.CpuSet) -> None:
    """See that the kernel gives these CPUs to whoever asks.

    It leaves out, and says nothing of, those that a control group has not.
    """
    try:
        status = process.run([*_affine(cpus), 'cat', '/proc/self/status'])
    except bench_errors.BenchError as error:
        raise errors.InputError(
            f'processes cannot be bound to CPUs {cpus}: {error}', None,
            _ADVICE) from None
    seen = next(cpuset.CpuSet.parse(line.partition(':')[2].strip())
                for line in status.splitlines()
                if line.startswith('Cpus_allowed_list:'))
    if seen != cpus:
        raise errors.InputError(
            f'processes were bound to CPUs {seen} instead of {cpus}: the '
            'others are not in the control group (cpuset) of this process',
            None, 'run it outside of containers and of services that are '
            'confined to some CPUs')


def _affine(cpus: cpuset.CpuSet) -> Sequence[str]:
    return 'taskset', '--cpu-list', str(cpus)


def _user_options() -> Sequence[str]:
    """Whoever is not root needs a namespace of users to make another."""
    return () if os.geteuid() == 0 else ('--user', '--map-root-user')
