# SPDX-License-Identifier: Apache-2.0
"""What runs containers: runc, with bundles of ours.

A container has a root file system that is put together from the host's own
top level and cannot be written to, the instance's directory at /bench, the
host's network, and limits. Its first process ends with its standard input,
and the container with it.
"""

from collections.abc import Mapping
from collections.abc import Sequence
import contextlib
import json
import os
import pathlib
import re
import subprocess

from nova_pinning.host import machine_files
from nova_pinning.instance_bench import bench_errors
from nova_pinning.instance_bench.platforms import cgroups
from nova_pinning.instance_bench.platforms import oci
from nova_pinning.instance_bench.platforms import polling
from nova_pinning.instance_bench.platforms import process
from nova_pinning.instance_bench import workspace

NAME = 'runc'
#: Where an instance's directory and its programs are inside.
INSIDE = '/bench'
PROGRAMS = '/programs'
# What a container has of its own of the root's top level.
_OWN = ('dev', 'proc', 'run', 'sys', 'tmp', INSIDE[1:], PROGRAMS[1:])
# What is left out: of disks and shares that are mounted now and then, too.
_UNUSED = ('lost+found', 'media', 'mnt')
_SECONDS = 60.0
# What runc says is a line of a log.
_LOGGED = re.compile(r'\bmsg="(.*)"')
_MOST_LINES = 4


class Runc:
    """runc with a directory for what it knows of containers.

    :param version: of control groups, 1 or 2
    """

    def __init__(self, state: pathlib.Path, version: int) -> None:
        self._command = [NAME, '--root', str(state)]
        self._version = version

    def start(self, identity: str, bundle: pathlib.Path,
              binds: Mapping[str, str], limits: cgroups.CgroupLimits,
              ) -> subprocess.Popen[bytes]:
        """Start one that runs until the process returned has no input.

        :param bundle: a directory with an empty one in it, ``root``, and
            room for what runc needs
        :param binds: directories of the host by their path inside; those
            but INSIDE cannot be written to
        :raises bench_errors.BenchError: if it does not start
        """
        document = oci.bundle(
            hostname=identity, root=str(bundle / 'root'),
            arguments=('/bin/sh', '-c', process.KEEPER),
            variables=process.environment('/'), binds=binds,
            writable=(INSIDE,), cgroup=f'{cgroups.PARENT}/{identity}',
            resources=cgroups.resources(limits, self._version))
        (bundle / 'config.json').write_text(json.dumps(document, indent=2))
        said = bundle / 'said'
        with said.open('wb') as file:
            started = subprocess.Popen(
                [*self._command, 'run', '--bundle', str(bundle), identity],
                stdin=subprocess.PIPE, stdout=file, stderr=file,
                start_new_session=True)
        try:
            self._wait_for(identity, started, said)
        except BaseException:
            started.kill()
            started.communicate()
            self.delete(identity)
            raise
        return started

    def exec(self, identity: str,
             variables: Mapping[str, str]) -> Sequence[str]:
        """What to put before a command so that it runs in it."""
        return (*self._command, 'exec',
                *(f'--env={name}={value}'
                  for name, value in variables.items()), identity)

    def first(self, identity: str) -> int:
        """Its first process, by the host's ids; 0 if there is none."""
        try:
            state = json.loads(process.run(
                [*self._command, 'state', identity]))
        except bench_errors.BenchError:
            return 0
        return int(state['pid']) if state['status'] == 'running' else 0

    def delete(self, identity: str) -> None:
        """End and forget it; nothing if there is none."""
        # Without one it fails, and says so.
        with contextlib.suppress(bench_errors.BenchError):
            process.run([*self._command, 'delete', '--force', identity])

    def version(self) -> str:
        return process.run([NAME, '--version']).split()[2]

    def _wait_for(self, identity: str, started: subprocess.Popen[bytes],
                  said: pathlib.Path) -> None:
        for _look in polling.looks(_SECONDS, 0.01):
            if self.first(identity):
                return
            if started.poll() is not None:
                break
        raise bench_errors.InstanceError(
            f'{NAME}: {_reason(said) or "it does not start"}')


def clear(space: pathlib.Path) -> None:
    """Remove what is left of a run: control groups and files.

    Containers have ended with it, since their standard input has.

    :param space: its directory
    :raises bench_errors.BenchError: if something is still mounted
    """
    cgroups.sweep(machine_files.Tree(), space.name)
    workspace.remove(space)


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


def _reason(said: pathlib.Path) -> str:
    """What runc gives as the reason why it has failed."""
    lines = said.read_text(errors='replace').strip().splitlines()
    # Warnings are of what it cleans up when it has failed already, and would
    # leave no room for why.
    lines = [line for line in lines if 'level=warning' not in line] or lines
    # What it says last is what came of it, and not always the cause.
    return '; '.join(match[1] if (match := _LOGGED.search(line)) else line
                     for line in lines[-_MOST_LINES:])
