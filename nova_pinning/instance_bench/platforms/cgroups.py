# SPDX-License-Identifier: Apache-2.0
"""Control groups: what containers are given, and where the groups are.

With version 1 a CPU weight is a number of shares of which 1024 are usual, with
version 2 one of which 100 are, as it is here. Runtimes would make a weight
out of shares, by a formula that has changed over time and does not keep
ratios; so under version 2 the weight is written as it is. See the kernel's
Documentation/admin-guide/cgroup-v2.rst and the OCI runtime specification.
"""

from collections.abc import Iterator
import os
from typing import Any

from nova_pinning import cpuset
from nova_pinning import errors
from nova_pinning.host import machine_files
from nova_pinning.instance_bench import bench_errors
from nova_pinning.instance_bench import bench_model
from nova_pinning.instance_bench.platforms import polling
from nova_pinning import units

#: Of the CPU bandwidth of instances that float, in microseconds.
PERIOD_US = 100_000
_USUAL_SHARES = 1024
# For what has ended to leave its group.
_EMPTY_SECONDS = 5.0
_WEIGHTS = range(1, 10_001)


def version(tree: machine_files.Tree) -> int:
    """Which version of control groups has the CPU controller: 1 or 2.

    Of version 1 there may be a hierarchy of version 2 as well.
    """
    return 1 if any(
        kind == 'cgroup' and 'cpu' in options for _path, kind, options
        in _mounts(tree)) else 2


def check_weight(name: str, weight: int) -> None:
    """See that a weight is one.

    :raises nova_pinning.errors.InputError: if it is not
    """
    if weight not in _WEIGHTS:
        raise errors.InputError(
            f'{name} has weight {weight}, and weights are '
            f'{_WEIGHTS[0]} to {_WEIGHTS[-1]}')


def resources(tenant: bench_model.Tenant, cpus: cpuset.CpuSet,
              version: int) -> dict[str, Any]:
    """``linux.resources`` of a tenant's container, for its config.json.

    One that floats over more CPUs than it has vCPUs gets no more time than
    these would.

    :param version: of control groups, 1 or 2
    """
    cpu: dict[str, Any] = {'cpus': str(cpus)}
    vcpus = tenant.size.vcpus
    floats = tenant.provisioning is bench_model.Provisioning.VANILLA
    if floats and vcpus < len(cpus):
        cpu |= {'period': PERIOD_US, 'quota': vcpus * PERIOD_US}
    limits: dict[str, Any] = {
        'cpu': cpu,
        'memory': {'limit': tenant.size.memory_mib * units.BYTES_PER_MIB}}
    if version == 1:
        # No less than 2 are taken.
        cpu['shares'] = max(2, tenant.weight * _USUAL_SHARES
                            // bench_model.USUAL_WEIGHT)
    else:
        limits['unified'] = {'cpu.weight': str(tenant.weight)}
    return limits


def sweep(tree: machine_files.Tree, name: str) -> None:
    """Remove a top-level group, and those below it.

    What is about to end is in one yet, and whoever has started a container
    may be about to remove its group.

    :raises bench_errors.BenchError: if one cannot be removed
    """
    for _look in polling.looks(_EMPTY_SECONDS, 0.05):
        kept = [*_remove(tree, name)]
        if not kept:
            return
    raise bench_errors.BenchError(
        f'control group {kept[0]}', 'end the processes in its cgroup.procs')


def _remove(tree: machine_files.Tree, name: str) -> Iterator[str]:
    """Remove a group as far as can be, and tell of what cannot."""
    for mount, _kind, _options in _mounts(tree):
        for group, _names, _files in os.walk(
                f'{tree.root}{mount}/{name}', topdown=False):
            try:
                os.rmdir(group)
            except FileNotFoundError:
                pass
            except OSError as error:
                yield f'{group}: {error.strerror}'


def _mounts(tree: machine_files.Tree) -> Iterator[tuple[str, str, list[str]]]:
    """Where hierarchies of control groups are, their kinds and options."""
    for line in (tree.text('/proc/mounts') or '').splitlines():
        _source, path, kind, options, *_numbers = line.split()
        if kind in ('cgroup', 'cgroup2'):
            yield path, kind, options.split(',')
