# SPDX-License-Identifier: Apache-2.0
"""Guests' CPUs out of load balancing by a control group, without a reboot.

What isolcpus=domain does from boot on, cpuset.cpus.partition does while the
host runs: see "Cpuset" in the kernel's Documentation/admin-guide/
cgroup-v2.rst. An isolated partition is there since Linux 6.1.
"""

from collections.abc import Iterator

from nova_pinning import errors
from nova_pinning.host.render import manifest
from nova_pinning.host.render import options
from nova_pinning.host.render import planned_host

UNIT = 'nova-pinning-partition.service'
SCRIPT = 'usr/local/sbin/nova-pinning-partition'
#: Has systemd give guests' slice the CPUs.
DROP_IN = f'etc/systemd/system/machine.slice.d/{manifest.NAME}.conf'
_SINCE = 6, 1

_COSTS = (
    'Costs: threads that may run on several of these CPUs stay on the first, '
    'such as the emulator threads of a guest, which are on its own CPUs '
    'here. Not where guests float, or have emulator threads on shared CPUs: '
    'a partition has no CPUs but its own; nor where guests run outside of '
    'machine.slice, as in containers.')


def files(layout: planned_host.PlannedHost,
          chosen: options.RenderOptions) -> Iterator[manifest.RenderedFile]:
    """A unit that makes guests' slice an isolated partition, if asked for.

    :raises errors.InputError: if the host cannot have one
    """
    if chosen.isolation is not options.Isolation.PARTITION:
        return
    _check(layout)
    yield manifest.explained(layout.name, manifest.RenderedFile(
        DROP_IN, '[Slice]\nAllowedCPUs=\n'
        f'AllowedCPUs={layout.dedicated_cpus}\n',
        "the CPUs of guests' slice", 'at once after systemctl daemon-reload'))
    why = 'It takes the unified cgroup hierarchy (v2).', _COSTS
    script = manifest.explained(layout.name, manifest.RenderedFile(
        SCRIPT, _SCRIPT,
        "guests' CPUs: out of load balancing, by a control group",
        f'after systemctl enable --now {UNIT}; systemctl stop takes it back',
        executable=True), *why)
    yield from manifest.script_with_unit(
        layout.name, script, UNIT,
        "Description=Guests' CPUs as an isolated partition\n"
        'Requires=machine.slice\n'
        'After=machine.slice', *why, stop='member')


def _check(layout: planned_host.PlannedHost) -> None:
    where = errors.Location('--isolation')
    if not layout.dedicated_cpus:
        raise errors.InputError(
            '--isolation partition has nothing to isolate: the plan has no '
            'dedicated CPUs', layout.host.where, 'leave it out')
    if layout.shared_cpus:
        raise errors.InputError(
            'guests could not run on the shared CPUs of the plan '
            f'({layout.shared_cpus}): a partition has no CPUs but its own',
            where, 'take --isolation full, or none')
    if layout.kernel is not None and layout.kernel < _SINCE:
        raise errors.InputError(
            'Linux has isolated partitions since 6.1, and the host runs '
            f'{layout.host.system.kernel}', where,
            'take --isolation full, or a later kernel')


_SCRIPT = r"""set -u
slice=${NOVA_PINNING_SYS:-/sys}/fs/cgroup/machine.slice
state=${1:-isolated}
file=$slice/cpuset.cpus.partition
if [ ! -e "$file" ]; then
    echo "$file is not there: this takes cgroups v2 with cpuset" >&2
    exit 1
fi
if ! { echo "$state" >"$file"; } 2>/dev/null; then
    echo "the kernel does not take $state for $file" >&2
    exit 1
fi
read -r got <"$file"
if [ "$got" != "$state" ]; then
    # It says why, such as 'isolated invalid (Cpu list is not exclusive)'.
    echo "$file: $got" >&2
    exit 1
fi
"""
