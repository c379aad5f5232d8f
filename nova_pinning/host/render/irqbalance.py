# SPDX-License-Identifier: Apache-2.0
"""What irqbalance is told."""

from collections.abc import Iterator

from nova_pinning.host.render import manifest
from nova_pinning.host.render import options
from nova_pinning.host.render import planned_host

PATH = 'etc/default/irqbalance'


def files(layout: planned_host.PlannedHost,
          chosen: options.RenderOptions) -> Iterator[manifest.RenderedFile]:
    """What irqbalance reads as its environment, if it is to do it."""
    if not chosen.irqbalance:
        return
    system = layout.host.system
    cpus = (layout.host.cpus | system.isolated_cpus
            | system.nohz_full_cpus) - layout.host_cpus
    yield manifest.explained(
        layout.name, manifest.RenderedFile(
            PATH, f'IRQBALANCE_BANNED_CPULIST={cpus}\n' if cpus else
            '# All CPUs are for the host.\n',
            'the CPUs that irqbalance leaves alone',
            'when irqbalance is restarted',
            before_boot='systemctl enable irqbalance'),
        'Once a list is given, irqbalance no longer looks up which CPUs are '
        'isolated or without tick. So all CPUs are in it but those for the '
        'host. It takes irqbalance 1.8.',
        'It belongs to /etc/sysconfig/irqbalance on Red Hat and its kin, and '
        'takes the place of what is there.')
