# SPDX-License-Identifier: Apache-2.0
"""The CPU sets of a compute host, as nova-compute takes them.

Run by plugin.sh with this checkout on the path of Python and

* the host's class (``dedicated``, ``shared`` or nothing),
* the dedicated and the shared set that were asked for: ``auto``, a CPU list,
  or nothing,
* the directory of the host's CPUs in sysfs.

Prints both sets with a slash in between. Ends in status 1 and a sentence
on stderr if they cannot be had.
"""

import pathlib
import sys

from nova_pinning import cpuset


def _read(path: pathlib.Path) -> cpuset.CpuSet:
    return cpuset.CpuSet.parse(path.read_text())


def _all_but_first_core(cpus: pathlib.Path) -> cpuset.CpuSet:
    """What is left of the CPUs that are online.

    :param cpus: such as /sys/devices/system/cpu; see the kernel's
        Documentation/admin-guide/cputopology.rst
    :raises ValueError: if nothing is left
    """
    online = _read(cpus / 'online')
    first = min(online)
    core = _read(cpus / f'cpu{first}' / 'topology' / 'thread_siblings_list')
    rest = online - core
    if not rest:
        raise ValueError(
            f'the only core, CPUs {online}, is left to the host, so that '
            'none is left for guests; name the CPUs of guests')
    return rest


def _wanted(text: str, is_of_class: bool,
            cpus: pathlib.Path) -> cpuset.CpuSet:
    if text != 'auto':
        return cpuset.CpuSet.parse(text)
    return _all_but_first_core(cpus) if is_of_class else cpuset.CpuSet()


def _sets(host_class: str, dedicated_text: str, shared_text: str,
          cpus: pathlib.Path) -> tuple[cpuset.CpuSet, cpuset.CpuSet]:
    """The dedicated and the shared CPUs.

    :raises ValueError: if the host cannot give them to guests
    """
    dedicated = _wanted(dedicated_text, host_class == 'dedicated', cpus)
    shared = _wanted(shared_text, host_class == 'shared', cpus)
    # Of the two, the one that was spelt out counts.
    if dedicated_text == 'auto':
        dedicated -= shared
    elif shared_text == 'auto':
        shared -= dedicated
    if both := dedicated & shared:
        raise ValueError(f'CPUs {both} are both dedicated and shared')
    if offline := (dedicated | shared) - _read(cpus / 'online'):
        raise ValueError(f'the host has no CPUs {offline} online')
    return dedicated, shared


def main() -> int:
    host_class, dedicated, shared, cpus = sys.argv[1:]
    try:
        sets = _sets(host_class, dedicated, shared, pathlib.Path(cpus))
    except (OSError, ValueError) as error:
        print(error, file=sys.stderr)
        return 1
    print(*sets, sep='/')
    return 0


if __name__ == '__main__':
    sys.exit(main())
