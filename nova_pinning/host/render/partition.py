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
#: Has systemd give guests' slice the CPUs.
DROP_IN = f'etc/systemd/system/machine.slice.d/{manifest.NAME}.conf'
_SINCE = 6, 1

_COSTS = (
    'Costs: threads that may run on several of these CPUs stay on the first, '
    'such as the emulator threads of a guest, which are on its own CPUs '
    'here. Not where guests float, or have emulator threads on shared CPUs: '
    'a partition has no CPUs but its own; nor where guests run outside of '
    'machine.slice, as in containers.')


# What the file has then is shown: it says why, such as 'isolated invalid (Cpu
# list is not exclusive)'.
_FILE = '/sys/fs/cgroup/machine.slice/cpuset.cpus.partition'
_UNIT = f"""\
[Unit]
Description=Guests' CPUs as an isolated partition
Requires=machine.slice
After=machine.slice

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/bin/sh -ec 'echo isolated >{_FILE}; \\
    cat {_FILE}; grep -qx isolated {_FILE}'
ExecStop=/bin/sh -c 'echo member >{_FILE}'

[Install]
WantedBy=multi-user.target
"""


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
    yield manifest.explained(layout.name, manifest.RenderedFile(
        f'etc/systemd/system/{UNIT}', _UNIT,
        "guests' CPUs: out of load balancing, by a control group",
        f'after systemctl enable --now {UNIT}; systemctl stop takes it back',
        before_boot=f'systemctl enable {UNIT}'),
        'It takes the unified cgroup hierarchy (v2).', _COSTS)


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
