# SPDX-License-Identifier: Apache-2.0
"""Variables of tuned's profile cpu-partitioning."""

from collections.abc import Iterator

from nova_pinning.host.render import options
from nova_pinning.host.render import planned_host

PATH = 'etc/tuned/cpu-partitioning-variables.conf'


def files(layout: planned_host.PlannedHost,
          chosen: options.RenderOptions) -> Iterator[options.RenderedFile]:
    """The variables, unless there is nothing to keep quiet."""
    cpus = layout.quiet_cpus
    if not cpus:
        return
    summary = "variables of tuned's profile cpu-partitioning"
    takes_effect = 'after tuned-adm profile cpu-partitioning and a reboot'
    lines = [
        '# Services, interrupts and ticks keep off these.\n',
        f'isolated_cores={cpus}\n',
        '# So do queue interrupts that the kernel places (5.6 or later).\n',
        'isolate_managed_irq=Y\n']
    if chosen.isolation is options.Isolation.FULL:
        lines += ['# Over these the scheduler balances no load.\n',
                  f'no_balance_cores={cpus}\n']
    yield options.RenderedFile(PATH, options.head(
        layout.name, summary, takes_effect,
        'Of use only to hosts on which that profile is on. The profile sets '
        'CPUAffinity= of systemd, the banned CPUs of irqbalance, the CPUs of '
        'workqueues, and nohz_full on the kernel command line itself: leave '
        'out the files here for those, and do not mix the two.',
        'Not in isolated_cores are the CPUs for floating guests, which the '
        'profile takes for CPUs of the host.',
    ) + ''.join(lines), summary, takes_effect)
