# SPDX-License-Identifier: Apache-2.0
"""Containers: processes in control groups of this host.

Their root is the host's own, or what the settings name, and cannot be written
to; the network is the host's, so that what they reach is what the host does.
"""

from collections.abc import Mapping
from collections.abc import Sequence
import os
import pathlib
import shutil

from nova_pinning import cpuset
from nova_pinning import errors
from nova_pinning.host import machine_files
from nova_pinning.instance_bench import bench_errors
from nova_pinning.instance_bench import platform_interface
from nova_pinning.instance_bench.platforms import cgroups
from nova_pinning.instance_bench.platforms import local
from nova_pinning.instance_bench.platforms import process
from nova_pinning.instance_bench.platforms import runtimes
from nova_pinning.instance_bench.platforms import settings
from nova_pinning.instance_bench.workloads import programs
from nova_pinning.instance_bench import workspace

# In the order in which they are tried: what gets inside quickest comes first.
_NAMES = ('crun', 'runc', 'podman')
_TRIAL = 'trial'
_TRIAL_MIB = 64


class ContainerInstance(local.LocalInstance):
    """A container.

    :param identity: its name, unique on the host
    :param limits: what it is given
    :param binds: what is mounted on its root
    """

    def __init__(
        self, *, name: str, directory: pathlib.Path,
        runtime: runtimes.Runtime, identity: str, limits: cgroups.CgroupLimits,
        binds: Mapping[str, str],
    ) -> None:
        super().__init__(
            name=name, cpus=limits.cpus, directory=directory,
            root=runtimes.INSIDE, programs_directory=runtimes.PROGRAMS)
        self._runtime = runtime
        self._identity = identity
        self._keeper = runtime.start(identity, directory, binds, limits)
        self._pid = runtime.first(identity)

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
    """Instances that are containers, by crun, runc or podman."""

    def __init__(self, how: settings.PlatformSettings) -> None:
        super().__init__(how)
        self._root = pathlib.Path(how.container_root or '/').absolute()
        self._runtime: runtimes.Runtime | None = None

    def check(self,
              requests: Sequence[platform_interface.InstanceRequest]) -> None:
        if not (self._root / 'bin' / 'sh').exists():
            raise errors.InputError(
                'has no /bin/sh', errors.Location(str(self._root)),
                'make a root for containers with: mmdebstrap --variant=apt '
                '--include=PACKAGES bookworm DIRECTORY')
        super().check(requests)
        for request in requests:
            cgroups.check_weight(request.name, request.tenant.weight)
        self._chosen(
            cpuset.union(request.instance_cpus.cpus
                         for request in requests
                         if request.instance_cpus))

    def versions(self) -> dict[str, str]:
        if self._root == pathlib.Path('/'):
            versions = super().versions()
        else:
            versions = {
                f'{name} (container)': version for name, version
                in programs.versions(self._packages, self._root).items()}
        if self._runtime is not None:
            versions[self._runtime.name] = self._runtime.version()
        return versions

    def _start(self, request: platform_interface.InstanceRequest,
               directory: pathlib.Path) -> local.LocalInstance:
        assert request.instance_cpus is not None
        limits = cgroups.limits(request.tenant, request.instance_cpus.cpus)
        return self._container(
            request.name, self._chosen(limits.cpus), limits, directory,
            self._programs(request.workload))

    def _which(self, name: str) -> str | None:
        if self._root == pathlib.Path('/'):
            return super()._which(name)
        # Links in it that are absolute lead somewhere else from here.
        for directory in process.environment('/')['PATH'].split(':'):
            path = f'{self._root}{directory}/{name}'
            if os.path.lexists(path):
                return path
        return None

    def _container(
        self, name: str, runtime: runtimes.Runtime,
        limits: cgroups.CgroupLimits, directory: pathlib.Path,
        programs: pathlib.Path,
    ) -> ContainerInstance:
        root = directory / 'root'
        root.mkdir()
        return ContainerInstance(
            name=name, directory=directory, runtime=runtime, limits=limits,
            identity=f'{directory.parent.name}-{directory.name}',
            binds=runtimes.make_root(root, self._root) | {
                runtimes.INSIDE: str(directory),
                runtimes.PROGRAMS: str(programs)})

    def _chosen(self, cpus: cpuset.CpuSet) -> runtimes.Runtime:
        """The runtime to use: the first that starts a container.

        :param cpus: that containers are to get
        :raises nova_pinning.errors.InputError: if there is none, with what
            each said
        """
        if self._runtime:
            return self._runtime
        version = cgroups.version(machine_files.Tree())
        preferred = self._settings.container
        said = []
        for name in (preferred,) if preferred else _NAMES:
            if shutil.which(name) is None:
                continue
            runtime = self._made(name, version)
            try:
                self._try(runtime, cpus)
            except bench_errors.BenchError as error:
                said.append(str(error))
            else:
                self._runtime = runtime
                return runtime
        if said:
            raise errors.InputError(
                f'no container can be started: {"; ".join(said)}')
        raise errors.InputError(
            f'{preferred or "no runtime for containers"} is not installed',
            None, f'apt-get install {preferred or _NAMES[0]}')

    def _made(self, name: str, version: int) -> runtimes.Runtime:
        if name == runtimes.Podman.name:
            return runtimes.Podman(version)
        return runtimes.Oci(name, self._directory / name, version)

    def _try(self, runtime: runtimes.Runtime, cpus: cpuset.CpuSet) -> None:
        """Start a container and see that it has these CPUs.

        :raises errors.BenchError: if it does not start, or has others
        """
        directory = self._directory / _TRIAL
        for name in ('work', 'jobs'):
            (directory / name).mkdir(parents=True)
        try:
            trial = self._container(
                _TRIAL, runtime, cgroups.CgroupLimits(
                    cpus=cpus, weight=100, memory_mib=_TRIAL_MIB,
                    quota_us=None), directory, directory / 'work')
            try:
                trial.settle()
                seen = cpuset.union(
                    affinity.seen for affinity in trial.affinities())
            finally:
                trial.close()
        finally:
            workspace.remove(directory)
        if seen != cpus:
            raise bench_errors.BenchError(
                f'{runtime.name}: a container got CPUs {seen} instead of '
                f'{cpus}')
