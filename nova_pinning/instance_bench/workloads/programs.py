# SPDX-License-Identifier: Apache-2.0
"""What workloads need to be there: Debian packages and our own programs."""

from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Mapping
from importlib import resources
import os
import pathlib
import shlex
import shutil
import subprocess

from nova_pinning import errors
from nova_pinning.instance_bench import bench_errors
from nova_pinning.instance_bench import bench_model

_BUILD_SECONDS = 120
_QUERY_SECONDS = 30
_DPKG = 'var/lib/dpkg'
# By what builds call, the package that has it.
_BUILDERS = {'cc': 'gcc libc6-dev', 'mpicc': 'libopenmpi-dev gcc'}

Which = Callable[[str], str | None]


def sources() -> pathlib.Path:
    """The directory of programs in source."""
    return pathlib.Path(
        str(resources.files('nova_pinning.instance_bench'))) / 'programs'


def missing(programs: Mapping[str, str],
            which: Which = shutil.which) -> tuple[str, ...]:
    """The Debian packages of the programs that are not there.

    :param programs: of a workload or its peer, each with its package
    :param which: finds a program where they are to run, as shutil.which does
    """
    return tuple(dict.fromkeys(
        package for names, package in programs.items()
        if not any(which(name) for name in names.split('|'))))


def versions(packages: Iterable[str], root: str | os.PathLike[str] = '/',
             ) -> dict[str, str]:
    """Versions of the Debian packages that are installed, by name.

    :param root: of the system that they are installed in
    :returns: nothing on a system without dpkg
    """
    names = sorted(set(packages))
    if not names:
        return {}
    try:
        done = subprocess.run(
            ['dpkg-query', f'--admindir={os.path.join(root, _DPKG)}',
             '--show', '--showformat='
             '${binary:Package} ${Version} ${db:Status-Status}\n', *names],
            text=True, stdin=subprocess.DEVNULL, capture_output=True,
            check=False, timeout=_QUERY_SECONDS)
    except (OSError, subprocess.TimeoutExpired):
        return {}
    lines = (line.split() for line in done.stdout.splitlines())
    # A library has its architecture in its name, and what was removed but
    # for its configuration still has a version.
    return {line[0].partition(':')[0]: line[1] for line in lines
            if line[2:] == ['installed']}


def packages(workload: bench_model.Workload) -> frozenset[str]:
    """The Debian packages that a workload's figures depend on.

    With those of the compiler, if it is a program of this project.
    """
    builder = (workload.build.split() or [''])[0]
    return frozenset(' '.join((
        *workload.programs.values(), *workload.packages,
        _BUILDERS.get(builder, ''))).split())


def require(workload: bench_model.Workload,
            which: Which = shutil.which) -> None:
    """See that the programs of a workload are there.

    :raises errors.InputError: with the line that installs what is not
    """
    absent = missing(workload.programs, which)
    if absent:
        raise _not_there(f'workload {workload.name}', absent)


def require_peer(workload: bench_model.Workload,
                 which: Which = shutil.which) -> None:
    """See that the programs of a workload's peer are on this host.

    :raises errors.InputError: with the line that installs what is not
    """
    absent = missing(workload.peer_programs, which)
    if absent:
        raise _not_there(
            f'the peer of workload {workload.name}, on this host,', absent)


def require_builder(workload: bench_model.Workload) -> None:
    """See that what builds a workload's program is on this host.

    :raises errors.InputError: with the line that installs it if it is not
    """
    builder = (workload.build.split() or [''])[0]
    if builder in _BUILDERS and shutil.which(builder) is None:
        raise _not_there(f'building the program of workload {workload.name}',
                         (_BUILDERS[builder],))


def build(workload: bench_model.Workload,
          directory: str | os.PathLike[str]) -> None:
    """Make a workload's program; nothing if it has none of its own.

    :param directory: what commands call {programs}; it is there
    :raises errors.InputError: if there is no compiler
    :raises nova_pinning.instance_bench.bench_errors.WorkloadError: if it
        cannot be built
    """
    if not workload.build:
        return
    require_builder(workload)
    line = workload.build.format(programs=shlex.quote(os.fspath(directory)))
    try:
        done = subprocess.run(
            ['/bin/sh', '-ec', line], cwd=sources(), text=True,
            stdin=subprocess.DEVNULL, capture_output=True, check=False,
            timeout=_BUILD_SECONDS)
    except subprocess.TimeoutExpired:
        raise bench_errors.WorkloadError(
            f'building the program of workload {workload.name} took longer '
            f'than {_BUILD_SECONDS} s') from None
    if done.returncode:
        raise bench_errors.WorkloadError(
            f'the program of workload {workload.name} cannot be built: '
            f'{done.stderr.strip() or f"status {done.returncode}"}',
            f'the command is {line}')


def _not_there(what: str, packages: tuple[str, ...]) -> errors.InputError:
    listed = ' '.join(dict.fromkeys(' '.join(packages).split()))
    return errors.InputError(
        f'{what} needs what is not installed: {listed.replace(" ", ", ")}',
        advice=f'install it with: apt-get install {listed}')
