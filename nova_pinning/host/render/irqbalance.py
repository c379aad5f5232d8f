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
    why = [
        'Once a list is given, irqbalance no longer looks up which CPUs are '
        'isolated or without tick. So all CPUs are in it but those for the '
        'host.',
        'It belongs to /etc/sysconfig/irqbalance on Red Hat and its kin, and '
        'takes the place of what is there.']
    system = layout.host.system
    taken = ((system.isolated_cpus | system.nohz_full_cpus)
             & layout.host_cpus)
    if taken:
        why.append(f'CPUs {taken} are isolated or without tick on the '
                   'kernel that runs, but for the host by the plan: they '
                   'are not banned. Take them from isolcpus= and nohz_full=.')
    cpus = layout.banned_cpus
    lines = [f'IRQBALANCE_BANNED_CPULIST={cpus}\n' if cpus else
             '# All CPUs are for the host.\n']
    if cpus:
        lines.append(manifest.comment(
            'For irqbalance before 1.8, which knows no list, in its place '
            '(later ones prefer it and complain):'))
        lines.append(
            f'#IRQBALANCE_BANNED_CPUS={cpus.kernel_mask}\n')
    yield manifest.explained(layout.name, manifest.RenderedFile(
        PATH, ''.join(lines), 'the CPUs that irqbalance leaves alone',
        'when irqbalance is restarted',
        before_boot='systemctl enable irqbalance'), *why)
