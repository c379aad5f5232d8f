# SPDX-License-Identifier: Apache-2.0
"""What workloads need to be there: Debian packages and our own programs."""

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


def sources() -> pathlib.Path:
    """The directory of programs in source."""
    return pathlib.Path(
        str(resources.files('nova_pinning.instance_bench'))) / 'programs'


def require(what: str, programs: Mapping[str, str],
            path: str | None = None) -> None:
    """See that programs are there.

    :param what: needs them: 'workload stream'
    :param programs: each with its Debian package, or several; of names with
        | between them one is enough
    :param path: where they are looked for, None for this process's PATH
    :raises errors.InputError: with the line that installs what is not
    """
    packages = ' '.join(
        package for names, package in programs.items()
        if not any(shutil.which(name, path=path) for name in names.split('|')))
    absent = list(dict.fromkeys(packages.split()))
    if absent:
        raise errors.InputError(
            f'{what} needs what is not installed: {", ".join(absent)}',
            advice=f'install it with: apt-get install {" ".join(absent)}')


def versions(packages: Iterable[str] | None,
             root: str | os.PathLike[str] = '/') -> dict[str, str]:
    """Versions of the Debian packages that are installed, by name.

    :param packages: None for all that are
    :param root: of the system that they are installed in
    :returns: nothing on a system without dpkg
    """
    names = sorted(set(packages or ()))
    if not names and packages is not None:
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
    return frozenset(' '.join((
        *workload.programs.values(), *workload.packages,
        *_builder(workload).values())).split())


def require_builder(workload: bench_model.Workload) -> None:
    """See that what builds a workload's program is on this host.

    :raises errors.InputError: with the line that installs it if it is not
    """
    require(f'building the program of workload {workload.name}',
            _builder(workload))


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


def _builder(workload: bench_model.Workload) -> dict[str, str]:
    """The compiler that a workload's program needs, if it is one of C."""
    name = (workload.build.split() or [''])[0]
    return {name: _BUILDERS[name]} if name in _BUILDERS else {}
