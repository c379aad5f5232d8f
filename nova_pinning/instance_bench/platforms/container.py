# SPDX-License-Identifier: Apache-2.0
"""Containers: processes in control groups of this host, by runc.

A container has a root file system that is put together from the host's own
top level and cannot be written to, the instance's directory at /bench, and
limits. Its network is the host's, so that what it reaches is what the host
does. Its first process ends with its standard input, and the container with
it.
"""

from collections.abc import Sequence
import json
import os
import pathlib
import re

from nova_pinning import cpuset
from nova_pinning.host import machine_files
from nova_pinning.instance_bench import platform_interface
from nova_pinning.instance_bench.platforms import cgroups
from nova_pinning.instance_bench.platforms import local
from nova_pinning.instance_bench.platforms import oci
from nova_pinning.instance_bench.platforms import process
from nova_pinning.instance_bench.workloads import programs

NAME = 'runc'
#: Where an instance's directory and its programs are inside.
INSIDE = '/bench'
PROGRAMS = '/programs'
# What a container has of its own of the root's top level.
_OWN = ('dev', 'proc', 'run', 'sys', 'tmp', INSIDE[1:], PROGRAMS[1:])
# What is left out: of disks and shares that are mounted now and then, too.
_UNUSED = ('lost+found', 'media', 'mnt')
# What runc says is a line of a log.
_LOGGED = re.compile(r'\bmsg="(.*)"')
_MOST_LINES = 4


class ContainerInstance(local.LocalInstance):
    """A container.

    :param built: directory of its programs
    :param state: directory for what runc knows of containers
    """

    def __init__(
        self, request: platform_interface.InstanceRequest,
        cpus: cpuset.CpuSet, directory: pathlib.Path, built: pathlib.Path,
        state: pathlib.Path,
    ) -> None:
        identity = f'{directory.parent.name}-{directory.name}'
        root = directory / 'root'
        root.mkdir()
        variables = process.environment(f'{INSIDE}/work')
        (directory / 'config.json').write_text(json.dumps(oci.bundle(
            hostname=identity, root=str(root),
            arguments=('/bin/sh', '-c', process.KEEPER), variables=variables,
            binds=make_root(root) | {INSIDE: str(directory),
                                     PROGRAMS: str(built)},
            # Below one of its run: nobody else removes that one, maybe just
            # when runc has made it and is about to set it up.
            writable=(INSIDE,),
            cgroup=f'/{directory.parent.name}/{directory.name}',
            resources=cgroups.resources(
                request.tenant, cpus,
                cgroups.version(machine_files.Tree()))), indent=2))
        command = NAME, '--root', str(state)
        self._enter = *command, 'exec', identity
        super().__init__(
            name=request.name, cpus=cpus, directory=directory, root=INSIDE,
            programs_directory=PROGRAMS, keeper=(
                *command, 'run', '--bundle', str(directory), '--pid-file',
                str(local.pid_file(directory)), identity))

    @staticmethod
    def _reason(said: str) -> str:
        # Warnings are of what it cleans up when it has failed already, and
        # would leave no room for why.
        lines = said.strip().splitlines()
        lines = [line for line in lines
                 if 'level=warning' not in line] or lines
        # What it says last is what came of it, and not always the cause.
        return f'{NAME}: ' + '; '.join(
            match[1] if (match := _LOGGED.search(line)) else line
            for line in lines[-_MOST_LINES:])


class ContainerPlatform(local.LocalPlatform):
    """Instances that are containers, by runc."""

    advice = ('run it as root, outside of containers; control groups need '
              'the controllers cpu, cpuset and memory (cgroup_enable= of the '
              'kernel)')

    def check(self,
              requests: Sequence[platform_interface.InstanceRequest]) -> None:
        programs.require('a container', {NAME: NAME})
        super().check(requests)

    def versions(self) -> dict[str, str]:
        return super().versions() | {
            NAME: process.run([NAME, '--version']).split()[2]}

    def _start(self, request: platform_interface.InstanceRequest,
               cpus: cpuset.CpuSet, directory: pathlib.Path,
               built: pathlib.Path) -> local.LocalInstance:
        return ContainerInstance(request, cpus, directory, built,
                                 self._directory / NAME)


def make_root(root: pathlib.Path,
              of: pathlib.Path = pathlib.Path('/')) -> dict[str, str]:
    """Put together a root file system.

    :param root: an empty directory that becomes it
    :param of: the directory whose top level it is to have
    :returns: what is to be mounted on it: directories by their path inside
    """
    binds = {}
    for name in _OWN:
        (root / name).mkdir()
    for entry in sorted(of.iterdir()):
        if entry.name in (*_OWN, *_UNUSED):
            continue
        if entry.is_symlink():
            (root / entry.name).symlink_to(os.readlink(entry))
        elif entry.is_dir():
            (root / entry.name).mkdir()
            binds[f'/{entry.name}'] = str(entry)
    return binds
