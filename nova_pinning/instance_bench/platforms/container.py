# SPDX-License-Identifier: Apache-2.0
"""Containers: processes in control groups of this host.

Their root is the host's own and cannot be written to; the network is the
host's, so that what they reach is what the host does.
"""

from collections.abc import Mapping
from collections.abc import Sequence
import pathlib

from nova_pinning import cpuset
from nova_pinning import errors
from nova_pinning.host import machine_files
from nova_pinning.instance_bench import bench_errors
from nova_pinning.instance_bench import kernel_counters
from nova_pinning.instance_bench import platform_interface
from nova_pinning.instance_bench.platforms import cgroups
from nova_pinning.instance_bench.platforms import local
from nova_pinning.instance_bench.platforms import runc
from nova_pinning.instance_bench.platforms import settings
from nova_pinning.instance_bench.workloads import programs
from nova_pinning.instance_bench import workspace

_TRIAL = 'trial'
_TRIAL_MIB = 64


class ContainerInstance(local.LocalInstance):
    """A container.

    :param identity: its name, unique on the host
    :param limits: what it is given
    :param binds: what is mounted on its root
    """

    def __init__(
        self, *, name: str, directory: pathlib.Path, runtime: runc.Runc,
        identity: str, limits: cgroups.CgroupLimits, binds: Mapping[str, str],
    ) -> None:
        super().__init__(
            name=name, cpus=limits.cpus, directory=directory,
            root=runc.INSIDE, programs_directory=runc.PROGRAMS)
        self._runtime = runtime
        self._identity = identity
        self._keeper = runtime.start(identity, directory, binds, limits)
        self._pid = runtime.first(identity)

    def counters(self) -> dict[str, float]:
        first = self._first()
        return super().counters() | (kernel_counters.of_cgroup(
            self._tree, first) if first else {})

    def _enter(self, variables: Mapping[str, str]) -> Sequence[str]:
        return self._runtime.exec(self._identity, variables)

    def _first(self) -> int:
        return self._pid if self._keeper.poll() is None else 0

    def _end(self) -> None:
        try:
            if self._keeper.poll() is None:
                self._runtime.delete(self._identity)
        finally:
            self._keeper.kill()
            self._keeper.communicate()


class ContainerPlatform(local.LocalPlatform):
    """Instances that are containers, by runc."""

    def __init__(self, how: settings.PlatformSettings) -> None:
        super().__init__(how)
        self._runtime: runc.Runc | None = None

    def check(self,
              requests: Sequence[platform_interface.InstanceRequest]) -> None:
        super().check(requests)
        for request in requests:
            cgroups.check_weight(request.name, request.tenant.weight)
        if self._runtime is None:
            self._runtime = self._tried(cpuset.union(
                request.instance_cpus.cpus for request in requests
                if request.instance_cpus))

    def versions(self) -> dict[str, str]:
        versions = super().versions()
        if self._runtime is not None:
            versions[runc.NAME] = self._runtime.version()
        return versions

    def _start(self, request: platform_interface.InstanceRequest,
               directory: pathlib.Path) -> local.LocalInstance:
        assert request.instance_cpus is not None
        assert self._runtime is not None
        return _container(
            request.name, self._runtime,
            cgroups.limits(request.tenant, request.instance_cpus.cpus),
            directory, self._programs(request.workload))

    def _tried(self, cpus: cpuset.CpuSet) -> runc.Runc:
        """runc, which has started a container, and that has got these CPUs.

        :raises nova_pinning.errors.InputError: if it cannot
        """
        version = cgroups.version(machine_files.Tree())
        programs.require('a container', {runc.NAME: runc.NAME})
        runtime = runc.Runc(self._directory / runc.NAME, version)
        try:
            seen = self._trial(runtime, cpus)
        except bench_errors.BenchError as error:
            raise errors.InputError(
                f'no container can be started: {error}') from None
        if seen != cpus:
            raise errors.InputError(
                f'a container got CPUs {seen} instead of {cpus}')
        return runtime

    def _trial(self, runtime: runc.Runc,
               cpus: cpuset.CpuSet) -> cpuset.CpuSet:
        """The CPUs of a container that was started with some."""
        directory = self._directory / _TRIAL
        (directory / 'work').mkdir(parents=True)
        try:
            trial = _container(
                _TRIAL, runtime, cgroups.CgroupLimits(
                    cpus=cpus, weight=100, memory_mib=_TRIAL_MIB,
                    quota_us=None), directory, directory / 'work')
            try:
                trial.settle()
                return cpuset.union(
                    affinity.seen for affinity in trial.affinities())
            finally:
                trial.close()
        finally:
            workspace.remove(directory)


def _container(
    name: str, runtime: runc.Runc, limits: cgroups.CgroupLimits,
    directory: pathlib.Path, built: pathlib.Path,
) -> ContainerInstance:
    root = directory / 'root'
    root.mkdir()
    return ContainerInstance(
        name=name, directory=directory, runtime=runtime, limits=limits,
        identity=f'{directory.parent.name}-{directory.name}',
        binds=runc.make_root(root) | {
            runc.INSIDE: str(directory), runc.PROGRAMS: str(built)})
