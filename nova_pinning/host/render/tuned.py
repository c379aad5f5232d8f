# SPDX-License-Identifier: Apache-2.0
"""Variables of tuned's profile cpu-partitioning."""

from collections.abc import Iterator

from nova_pinning import errors
from nova_pinning.host.render import manifest
from nova_pinning.host.render import options
from nova_pinning.host.render import planned_host

PATH = 'etc/tuned/cpu-partitioning-variables.conf'


def covers_kernel(layout: planned_host.PlannedHost,
                  chosen: options.RenderOptions) -> bool:
    """Whether the profile keeps the kernel's own work off guests' CPUs.

    It moves workqueues and the kernel's threads to all CPUs that are not in
    isolated_cores, and so to those for floating guests. Through
    network-latency and latency-performance, which it includes, it also has
    all CPUs at full clock, and NUMA balancing off.
    """
    return (chosen.confinement is options.Confinement.TUNED
            and not layout.shared_cpus)


def files(layout: planned_host.PlannedHost,
          chosen: options.RenderOptions) -> Iterator[manifest.RenderedFile]:
    """The variables, if tuned is to do it.

    :raises errors.InputError: if there is nothing to keep quiet
    """
    cpus = layout.quiet_cpus
    if chosen.confinement is not options.Confinement.TUNED:
        return
    if not cpus:
        raise errors.InputError(
            '--confine tuned has nothing to isolate: the plan has no '
            'dedicated CPUs and none that poll', layout.host.where,
            'leave it out')
    lines = [
        '# Services, interrupts and ticks keep off these.\n',
        f'isolated_cores={cpus}\n',
        '# So do queue interrupts that the kernel places (5.6 or later).\n',
        'isolate_managed_irq=Y\n']
    if chosen.isolation is options.Isolation.FULL:
        lines += ['# Over these the scheduler balances no load.\n',
                  f'no_balance_cores={cpus}\n']
    yield manifest.explained(
        layout.name, manifest.RenderedFile(
            PATH, ''.join(lines),
            "variables of tuned's profile cpu-partitioning",
            'after tuned-adm profile cpu-partitioning and a reboot',
            before_boot='tuned-adm profile cpu-partitioning'),
        'The profile sets CPUAffinity= of systemd, the banned CPUs of '
        'irqbalance and the CPUs of workqueues. On the kernel command line it '
        'writes nohz_full and rcu_nocbs: no timer tick on these CPUs while '
        'just one thread wants to run, and every entry to the kernel slower, '
        'so guests with much I/O may lose more than they win. Measure; '
        '--confine affinity does without.',
        'Not in isolated_cores are the CPUs for floating guests, which the '
        'profile takes for CPUs of the host.')
