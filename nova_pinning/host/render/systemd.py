# SPDX-License-Identifier: Apache-2.0
"""Host services on the CPUs for the host: what systemd is told."""

from collections.abc import Iterator

from nova_pinning import cpuset
from nova_pinning.host.render import manifest
from nova_pinning.host.render import options
from nova_pinning.host.render import planned_host

MANAGER_PATH = f'etc/systemd/system.conf.d/{manifest.NAME}.conf'

_UNITS = 'etc/systemd/system'

#: All that is not a guest, by the name of the unit.
SLICES = ('init.scope', 'system.slice', 'user.slice')

_BY_AFFINITY = options.Confinement.AFFINITY, options.Confinement.BOTH
_BY_CGROUPS = options.Confinement.CGROUP, options.Confinement.BOTH


def files(layout: planned_host.PlannedHost,
          chosen: options.RenderOptions) -> Iterator[manifest.RenderedFile]:
    """What keeps host services off the CPUs of guests."""
    if chosen.confinement in _BY_AFFINITY:
        yield _manager(layout)
    for unit in chosen.services:
        yield _drop_in(layout, unit)
    if chosen.confinement in _BY_CGROUPS:
        for unit in SLICES:
            yield _slice(layout, unit)


def allowed_cpus(layout: planned_host.PlannedHost, unit: str) -> cpuset.CpuSet:
    """The CPUs for all that is in a slice."""
    # A cgroup binds OVS's polling threads too, which systemd keeps in
    # system.slice.
    if unit == 'system.slice':
        return layout.host_cpus | layout.poll_cpus
    return layout.host_cpus


def _manager(layout: planned_host.PlannedHost) -> manifest.RenderedFile:
    return manifest.explained(
        layout.name, manifest.RenderedFile(
            MANAGER_PATH, '[Manager]\nCPUAffinity=\n'
            f'CPUAffinity={layout.host_cpus}\n',
            'the CPUs of all that systemd starts',
            'after a reboot; after systemctl daemon-reexec for what is '
            'started from then on, such as services that are restarted'),
        'Guests do not inherit this: libvirt gives every QEMU an affinity of '
        'its own once it has put it into machine.slice, be it what the domain '
        'says or all CPUs that are online.',
        'Nor does it hold containers: runc, since August 2025, and crun give '
        'each all the CPUs of its control group, which are those that '
        'cpuset_cpus (docker run --cpuset-cpus) names.',
        'A service can still ask for other CPUs, as the polling threads of '
        'OVS-DPDK do. AllowedCPUs= of system.slice (--confine cgroup) leaves '
        'no such way out.')


def _drop_in(layout: planned_host.PlannedHost,
             unit: str) -> manifest.RenderedFile:
    return manifest.explained(layout.name, manifest.RenderedFile(
        f'{_UNITS}/{unit}.d/{manifest.NAME}.conf',
        '[Service]\n# The empty line drops what the unit itself says.\n'
        f'CPUAffinity=\nCPUAffinity={layout.host_cpus}\n',
        f'the CPUs of {unit.removesuffix(".service")}',
        'after systemctl daemon-reload and a restart of the service'))


def _slice(layout: planned_host.PlannedHost,
           unit: str) -> manifest.RenderedFile:
    cpus = allowed_cpus(layout, unit)
    why = ['It takes the unified cgroup hierarchy (v2); under v1 systemd '
           'leaves it out. Guests are not in here: libvirt has '
           'systemd-machined put them into machine.slice, for which nothing '
           'is set, so that it keeps all CPUs. Where guests run elsewhere, '
           'as in a container without the cgroups of the host, do not '
           'install this.']
    if cpus != layout.host_cpus:
        why.append(f'CPUs {layout.poll_cpus} are for polling threads of '
                   'OVS-DPDK; CPUAffinity= (--confine both) keeps the other '
                   'services off them.')
    kind = 'Scope' if unit.endswith('.scope') else 'Slice'
    return manifest.explained(layout.name, manifest.RenderedFile(
        f'{_UNITS}/{unit}.d/{manifest.NAME}.conf',
        f'[{kind}]\nAllowedCPUs=\nAllowedCPUs={cpus}\n',
        f'the CPUs of all that is in {unit}',
        'at once after systemctl daemon-reload'), *why)
