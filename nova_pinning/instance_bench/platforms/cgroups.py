# SPDX-License-Identifier: Apache-2.0
"""Control groups: what containers are given, and where the groups are.

With version 1 a CPU weight is a number of shares of which 1024 are usual, with
version 2 one of which 100 are, as it is here. Runtimes would make a weight
out of shares, by a formula that has changed over time and does not keep
ratios; so under version 2 the weight is written as it is. See the kernel's
Documentation/admin-guide/cgroup-v2.rst and the OCI runtime specification.
"""

from collections.abc import Mapping
import contextlib
import dataclasses
import os
import pathlib
from typing import Any

from nova_pinning import cpuset
from nova_pinning import errors
from nova_pinning.host import machine_files
from nova_pinning.instance_bench import bench_model
from nova_pinning.instance_bench import kernel_counters
from nova_pinning.instance_bench.platforms import polling
from nova_pinning import units

#: The group that those of all containers are below.
PARENT = '/nova-pinning-bench'
#: Of the CPU bandwidth of instances that float, in microseconds.
PERIOD_US = 100_000
_NEEDED = ('cpu', 'cpuset', 'memory')
_USUAL_SHARES = 1024
#: Of what is neither heavier nor lighter than others.
USUAL_WEIGHT = 100
_WEIGHTS = range(1, 10_001)
_GONE_SECONDS = 5.0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class CgroupLimits:
    """What a container is given.

    :param weight: as a tenant's, 100 is usual
    :param quota_us: CPU time in each period of PERIOD_US, None for no limit
    """

    cpus: cpuset.CpuSet
    weight: int
    memory_mib: int
    quota_us: int | None

    @property
    def shares(self) -> int:
        """The weight as version 1 counts it, which takes no less than 2."""
        return max(2, self.weight * _USUAL_SHARES // USUAL_WEIGHT)


def limits(tenant: bench_model.Tenant, cpus: cpuset.CpuSet) -> CgroupLimits:
    """What an instance of a tenant is given.

    One that floats over more CPUs than it has vCPUs gets no more time than
    these would.
    """
    vcpus = tenant.size.vcpus
    floats = tenant.provisioning is bench_model.Provisioning.VANILLA
    return CgroupLimits(
        cpus=cpus, weight=tenant.weight, memory_mib=tenant.size.memory_mib,
        quota_us=vcpus * PERIOD_US if floats and vcpus < len(cpus) else None)


def version(tree: machine_files.Tree) -> int:
    """Which version of control groups there is, and can be written to.

    :returns: 1 if the CPU controller is of version 1, though there may be a
        hierarchy of version 2 as well

    :raises nova_pinning.errors.InputError: if a controller is missing that
        containers need, or may not be used
    """
    mounts: dict[str, str] = {}
    version = 2
    read_only = set()
    for path, kind, options in kernel_counters.cgroup_mounts(tree):
        if kind == 'cgroup':
            controllers = set(options).intersection(_NEEDED)
            version = 1 if 'cpu' in controllers else version
        else:
            controllers = set((tree.text(f'{path}/cgroup.controllers')
                               or '').split())
        mounts |= dict.fromkeys(controllers, path)
        if 'ro' in options:
            read_only.add(path)
    _check(tree, mounts, read_only)
    return version


def check_weight(name: str, weight: int) -> None:
    """See that a weight is one.

    :raises nova_pinning.errors.InputError: if it is not
    """
    if weight not in _WEIGHTS:
        raise errors.InputError(
            f'{name} has weight {weight}, and weights are '
            f'{_WEIGHTS[0]} to {_WEIGHTS[-1]}')


def resources(given: CgroupLimits, version: int) -> dict[str, Any]:
    """``linux.resources`` of a bundle's config.json."""
    cpu: dict[str, Any] = {'cpus': str(given.cpus)}
    if given.quota_us is not None:
        cpu |= {'period': PERIOD_US, 'quota': given.quota_us}
    limits: dict[str, Any] = {
        'cpu': cpu,
        'memory': {'limit': given.memory_mib * units.BYTES_PER_MIB}}
    if version == 1:
        cpu['shares'] = given.shares
    else:
        limits['unified'] = {'cpu.weight': str(given.weight)}
    return limits


def sweep(tree: machine_files.Tree, prefix: str) -> None:
    """Remove groups whose names begin so, and then PARENT if it is empty.

    A process that has ended is in its group for a moment yet. What cannot be
    removed stays.
    """
    for mount, _kind, _options in kernel_counters.cgroup_mounts(tree):
        top = tree.root / f'{mount}{PARENT}'.lstrip('/')
        for _look in polling.looks(_GONE_SECONDS, 0.01):
            groups = sorted(top.glob(f'{prefix}*'))
            if not groups:
                break
            for group in groups:
                _remove(group)
        with contextlib.suppress(OSError):
            top.rmdir()


def _remove(group: pathlib.Path) -> None:
    for path, _names, _files in os.walk(group, topdown=False):
        with contextlib.suppress(OSError):
            os.rmdir(path)


def _check(tree: machine_files.Tree, mounts: Mapping[str, str],
           read_only: set[str]) -> None:
    for controller in _NEEDED:
        path = mounts.get(controller)
        if path is None:
            raise errors.InputError(
                f'there is no {controller} controller of control groups, '
                'which containers need', errors.Location('/proc/mounts'),
                'mount cgroup2 at /sys/fs/cgroup, or boot the kernel with '
                f'that controller (cgroup_enable={controller})')
        if path in read_only or not os.access(
                tree.root / path.lstrip('/'), os.W_OK):
            raise errors.InputError(
                'control groups cannot be made there', errors.Location(path),
                'run it as root, outside of containers')
