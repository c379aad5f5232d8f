# SPDX-License-Identifier: Apache-2.0
"""The host itself: processes, kept to CPUs by their affinity.

Each instance has a PID namespace, so that nothing it starts gets away, and
/proc of its own to go with it. It is the same kernel and the same scheduler,
and neither costs a running program anything.
"""

import os
import pathlib

from nova_pinning import cpuset
from nova_pinning.instance_bench import platform_interface
from nova_pinning.instance_bench.platforms import local
from nova_pinning.instance_bench.platforms import process

# Tells its id as the host has it before it gets its own /proc.
_FIRST = ('read -r pid rest </proc/self/stat; mount -t proc proc /proc && '
          f'echo "$pid" >"$0" && {process.KEEPER}')


class HostInstance(local.LocalInstance):
    """Processes of the host."""

    def __init__(self, name: str, cpus: cpuset.CpuSet,
                 directory: pathlib.Path, built: pathlib.Path) -> None:
        # Bound first: no process in the namespace ever runs elsewhere.
        affine = 'taskset', '--cpu-list', str(cpus)
        is_root = os.geteuid() == 0
        super().__init__(
            name=name, cpus=cpus, directory=directory, root=str(directory),
            programs_directory=str(built), keeper=(
                *affine, 'unshare',
                # Whoever is not root needs a namespace of users to make
                # another.
                *(() if is_root else ('--user', '--map-root-user')),
                '--mount', '--pid', '--fork', '--kill-child', '/bin/sh',
                '-c', _FIRST, str(local.pid_file(directory))))
        self._enter = (
            *affine, 'nsenter', '--target', str(self._pid), '--pid',
            '--mount',
            *(() if is_root else ('--user', '--preserve-credentials')))


class HostPlatform(local.LocalPlatform):
    """Instances that are processes of the host.

    Those that are vanilla float over the CPUs of their class; nothing keeps
    them to as many of these as they have vCPUs but what the workload starts.
    """

    advice = 'run it as root, outside of containers'

    def _start(self, request: platform_interface.InstanceRequest,
               cpus: cpuset.CpuSet, directory: pathlib.Path,
               built: pathlib.Path) -> local.LocalInstance:
        return HostInstance(request.name, cpus, directory, built)
