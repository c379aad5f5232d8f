# SPDX-License-Identifier: Apache-2.0
"""Host services on the CPUs for the host: what systemd is told."""

from collections.abc import Iterator

from nova_pinning.host.render import manifest
from nova_pinning.host.render import options
from nova_pinning.host.render import planned_host

MANAGER_PATH = f'etc/systemd/system.conf.d/{manifest.NAME}.conf'

_UNITS = 'etc/systemd/system'


def files(layout: planned_host.PlannedHost,
          chosen: options.RenderOptions) -> Iterator[manifest.RenderedFile]:
    """What keeps host services off the CPUs of guests."""
    if chosen.confinement is options.Confinement.AFFINITY:
        yield _manager(layout)
    for unit in chosen.services:
        yield _drop_in(layout, unit)


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
        'OVS-DPDK do.')


def _drop_in(layout: planned_host.PlannedHost,
             unit: str) -> manifest.RenderedFile:
    return manifest.explained(layout.name, manifest.RenderedFile(
        f'{_UNITS}/{unit}.d/{manifest.NAME}.conf',
        '[Service]\n# The empty line drops what the unit itself says.\n'
        f'CPUAffinity=\nCPUAffinity={layout.host_cpus}\n',
        f'the CPUs of {unit.removesuffix(".service")}',
        'after systemctl daemon-reload and a restart of the service'))
